"""The audit log of servers: one line for each log-in, statement, action, cancel and end of a session."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from itertools import islice

audit_log = logging.getLogger("hiveacid.audit")
"""The logger of the lines."""

MOST_SETTINGS = 200
"""Settings that a client may bring, and that a line holds."""
_REFUSALS = ("login_refused", "protocol_error", "session_refused", "web_refused")
_LONGEST, _LONGEST_SETTING = 2000, 200  # characters of a value, and of a name or value in settings


def audit(event: str, user: str, host: str, **more: str | Mapping[str, str] | None) -> None:
    """Log an event as ``event=… user="…" host="…"``, with further values; those that are None are left out.

    Values are JSON in ASCII, so that nothing in them can begin a line or control a terminal. Refusals are warnings.
    """
    values = {"user": user, "host": host, **more}
    texts = [f"{name}={json.dumps(_shortened(value))}" for name, value in values.items() if value is not None]
    level = logging.WARNING if event in _REFUSALS else logging.INFO
    audit_log.log(level, "%s", " ".join([f"event={event}", *texts]))


def _shortened(value: str | Mapping[str, str]) -> str | dict[str, str]:
    if isinstance(value, str):
        return value[:_LONGEST]
    settings = islice(value.items(), MOST_SETTINGS)
    return {name[:_LONGEST_SETTING]: setting[:_LONGEST_SETTING] for name, setting in settings}
