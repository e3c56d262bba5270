"""Logs of a service process: plain text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime
from typing import TextIO


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: time (UTC), level, logger, thread, message, and error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        time = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": time,
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def log_to(stream: TextIO, style: str, level: str) -> logging.Handler:
    """Send this package's log to a stream; ``style``: text or json, ``level``: debug, info, warning or error."""
    handler = logging.StreamHandler(stream)
    if style == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)-7s %(message)s"))
    logger = logging.getLogger("hiveacid")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    return handler
