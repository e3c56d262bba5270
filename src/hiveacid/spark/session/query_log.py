"""PySpark's log of failed queries: since Spark 4 it prints each error as JSON to standard error when it is made.

An error that becomes one of this project's has all details itself, so its line is only noise, with Spark's stack trace.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hiveacid.errors import HiveAcidError

_LOGGERS = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


class _LastLine(logging.Filter):
    """Filter that keeps the last record of the thread that made it, and passes those of other threads."""

    def __init__(self) -> None:
        super().__init__()
        self._thread = threading.get_ident()
        self.record: logging.LogRecord | None = None

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the logger may print a record now."""
        if threading.get_ident() != self._thread:
            return True
        self.record = record
        return False


@contextmanager
def spark_errors_logged(*, unless: type[BaseException] = HiveAcidError) -> Iterator[None]:
    """Print PySpark's line for an error only if that error leaves the block, and then only once.

    Lines of errors that the block handles are dropped, and so are those of errors of the class ``unless``. Other threads,
    and the handlers and levels of the loggers, are not affected.
    """
    kept = _LastLine()
    loggers = _query_loggers()
    for logger in loggers:
        logger.addFilter(kept)
    theirs = False
    try:
        yield
    except BaseException as error:
        theirs = not isinstance(error, unless)
        raise
    finally:
        for logger in loggers:
            logger.removeFilter(kept)
        if theirs and kept.record is not None:
            logging.getLogger(kept.record.name).handle(kept.record)


def disable_query_log() -> None:
    """Print no such line in this process: the command line prints errors itself."""
    for logger in _query_loggers():
        logger.disabled = True


def _query_loggers() -> list[logging.Logger]:
    """Return the loggers, which only Spark 4 and later have. They must be of PySpark's class when PySpark uses them."""
    try:
        from pyspark.logger import PySparkLogger  # noqa: PLC0415 - not there in Spark 3.5
    except ImportError:
        return []
    return [PySparkLogger.getLogger(name) for name in _LOGGERS]
