"""Logs and signals of commands that run until they are stopped, and the watch of their JVM."""

from __future__ import annotations

import json
import logging
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from types import FrameType
from typing import TYPE_CHECKING, TextIO

from hiveacid.cli.options import escape_controls_of_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.services.monitoring import Endpoint
    from hiveacid.spark.session.jvm_process import JvmWatch

logger = logging.getLogger(__name__)

_UNWINDING_SECONDS = 20.0  # for sessions and Spark to end after the grace of a stop signal


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


def run_until_signal(
    start: Callable[[], None],
    stop: Callable[[bool], None],
    watch: JvmWatch,
    grace: float,
    spark: SparkSession,
) -> None:
    """Start, wait for SIGTERM or SIGINT, and stop; a second signal raises KeyboardInterrupt.

    The process is killed if the stop takes longer than ``grace`` and the time for unwinding. Raises HiveAcidError if the
    JVM ends or hangs. ``stop`` is told whether a signal came, so that there is the grace for clients and jobs to end.
    """
    from hiveacid.spark.session.jvm_process import end_process_after  # noqa: PLC0415 - imports PySpark

    with stop_signals() as signals:
        start()
        try:
            while not signals:
                watch.require_alive()
                time.sleep(0.2)
        finally:
            logger.info("stopping")
            end_process_after(grace + _UNWINDING_SECONDS, spark)
            stop(bool(signals))
    logger.info("stopped")


def watch_jvm(spark: SparkSession, endpoint: Endpoint | None) -> JvmWatch:
    """Watch the JVM of this process; the probes tell of its silence."""
    from hiveacid.spark.session.jvm_process import JvmWatch  # noqa: PLC0415 - imports PySpark

    watch = JvmWatch.of(spark)
    if endpoint is not None:
        endpoint.watch_jvm(watch.answers)
    return watch


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
    own = logging.getLogger("hiveacid")
    own.addHandler(handler)
    own.setLevel(level.upper())
    return handler
