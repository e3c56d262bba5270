"""Audit log: who logged in, ran, cancelled and ended what, one line for each event (logger ``hiveacid.audit``)."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from itertools import islice

logger = logging.getLogger("hiveacid.audit")

_REFUSALS = ("login_refused", "protocol_error", "session_refused")
_LONGEST, _LONGEST_SETTING = 2000, 200  # characters of a value, and of a name or value in settings
_MOST_SETTINGS = 200


def record(event: str, user: str, host: str, **more: str | Mapping[str, str] | None) -> None:
    """Log an event as ``event=… user="…" host="…"``, with further values; those that are None are left out.

    Values are JSON in ASCII, so that nothing in them can begin a line or control a terminal. Refusals are warnings.
    """
    values = {"user": user, "host": host, **more}
    texts = [f"{name}={json.dumps(_shortened(value))}" for name, value in values.items() if value is not None]
    level = logging.WARNING if event in _REFUSALS else logging.INFO
    logger.log(level, "%s", " ".join([f"event={event}", *texts]))


def _shortened(value: str | Mapping[str, str]) -> str | dict[str, str]:
    if isinstance(value, str):
        return value[:_LONGEST]
    settings = islice(value.items(), _MOST_SETTINGS)
    return {name[:_LONGEST_SETTING]: setting[:_LONGEST_SETTING] for name, setting in settings}
