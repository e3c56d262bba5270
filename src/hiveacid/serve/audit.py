"""Audit log: who logged in, ran, cancelled and ended what, one line for each event (logger ``hiveacid.audit``)."""

from __future__ import annotations

import json
import logging

logger = logging.getLogger("hiveacid.audit")

_LONGEST = 2000  # characters of a value


def record(event: str, user: str, host: str, **more: object) -> None:
    """Log an event as ``event=… user="…" host="…"``, with further values; those that are None are left out.

    Values are JSON in ASCII, so that nothing in them can begin a line or control a terminal. Refusals are warnings.
    """
    values = {"user": user, "host": host, **more}
    texts = [
        f"{name}={json.dumps(value[:_LONGEST] if isinstance(value, str) else value)}"
        for name, value in values.items()
        if value is not None
    ]
    level = logging.WARNING if event in ("login_refused", "protocol_error") else logging.INFO
    logger.log(level, "%s", " ".join([f"event={event}", *texts]))
