"""Settings, logs and signals of commands that run until they are stopped."""

from __future__ import annotations

import json
import logging
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TextIO

from hiveacid.cli.options import escape_controls_of_lines


@contextmanager
def stop_signals() -> Iterator[Sequence[int]]:
    """Collect SIGTERM and SIGINT in the block; the second one raises KeyboardInterrupt."""
    signals: list[int] = []

    def note(number: int, frame: FrameType | None) -> None:
        del frame
        if signals:
            raise KeyboardInterrupt
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, note)
    yield signals


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: time (UTC), level, logger, thread, message, and error if there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record as one line of JSON."""
        at = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {
            "time": at,
            "level": record.levelname.lower(),
            "logger": record.name,
            "thread": record.threadName,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["error"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Formats a record as text; names in it, such as those of files, cannot control the terminal or begin a record."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the record, with its control characters escaped and all lines but the first indented."""
        return escape_controls_of_lines(super().format(record)).replace("\n", "\n    ")


def log_to(stream: TextIO, style: str, level: str) -> logging.Handler:
    """Send this package's log to a stream; ``style``: text or json, ``level``: debug, info, warning or error."""
    handler = logging.StreamHandler(stream)
    if style == "json":
        handler.setFormatter(JsonFormatter())
    else:
        handler.setFormatter(TextFormatter("%(asctime)s %(levelname)-7s %(message)s"))
    logger = logging.getLogger("hiveacid")
    logger.addHandler(handler)
    logger.setLevel(level.upper())
    return handler
