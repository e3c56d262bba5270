"""The audit log of servers: one line for each log-in, statement, action, cancel and end of a session."""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from itertools import islice

audit_log = logging.getLogger("hiveacid.audit")
"""The logger of the lines."""

MOST_SETTINGS = 200
"""Settings that a client may bring, and that a line holds."""
_REFUSALS = ("login_refused", "protocol_error", "session_refused", "web_refused")
_SECRET = re.compile(
    r"passw|passphrase|\bpwd\b|secret|token|credential|(?:access|account|private|api)[._-]?key"
    r"|\bidentified\s+by\b|://[^\s/@:]*+:[^\s/@]++@",
    re.IGNORECASE,
)
_SET = re.compile(r"\s*+SET\s++[^=]*+=", re.IGNORECASE)
_LONGEST, _LONGEST_SETTING = 2000, 200  # characters of a value, and of a name or value in settings


def audit(event: str, user: str, host: str, **more: str | Mapping[str, str] | None) -> None:
    """Log an event as ``event=… user="…" host="…"``, with further values; those that are None are left out.

    Values are JSON in ASCII, so that nothing in them can begin a line or control a terminal. Those of settings that may be
    secrets are left out, also behind SET. Refusals are warnings.
    """
    values = {"user": user, "host": host, **more}
    texts = [f"{name}={json.dumps(_shortened(value))}" for name, value in values.items() if value is not None]
    level = logging.WARNING if event in _REFUSALS else logging.INFO
    audit_log.log(level, "%s", " ".join([f"event={event}", *texts]))


def _shortened(value: str | Mapping[str, str]) -> str | dict[str, str]:
    if isinstance(value, str):
        setting = _SET.match(value)
        return f"{setting[0][:_LONGEST]}***" if setting is not None and is_secret(value) else value[:_LONGEST]
    settings = islice(value.items(), MOST_SETTINGS)
    return {
        name[:_LONGEST_SETTING]: "***" if is_secret(f"{name}={setting}") else setting[:_LONGEST_SETTING]
        for name, setting in settings
    }


def is_secret(text: str) -> bool:
    """Tell whether a text may hold a password or key, so that it must not be kept."""
    return _SECRET.search(text) is not None
