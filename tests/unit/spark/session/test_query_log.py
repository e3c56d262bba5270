"""PySpark's log lines of errors: kept back by block and thread, printed once for an error that leaves the block."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest
from pyspark.logger import PySparkLogger

from hiveacid.errors import DataError
from hiveacid.spark.session.error_translation import spark_errors_logged

NAMES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")


@pytest.fixture
def printed(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[], list[str]]]:
    """Return the lines that have reached the handlers of PySpark's two loggers."""
    loggers: list[logging.Logger] = [PySparkLogger.getLogger(name) for name in NAMES]
    for logger in loggers:
        logger.addHandler(caplog.handler)
        monkeypatch.setattr(logger, "propagate", False)  # as PySpark does
    yield lambda: [record.getMessage() for record in caplog.records]
    for logger in loggers:
        logger.removeHandler(caplog.handler)
        assert logger.filters == []


def log(text: str, name: str = NAMES[0]) -> None:
    PySparkLogger.getLogger(name).error(text)


def fail(error: Exception, text: str, *, unless: type[Exception] = DataError) -> None:
    with spark_errors_logged(unless=unless):
        log(text)
        raise error


def test_lines_of_our_errors_and_of_handled_ones_are_dropped(printed: Callable[[], list[str]]) -> None:
    with pytest.raises(DataError):
        fail(DataError("bad data"), "bad data")
    with spark_errors_logged():
        log("handled", NAMES[1])
    with pytest.raises(KeyError):
        fail(KeyError(), "passed on", unless=KeyError)
    assert printed() == []


def test_an_error_that_leaves_is_printed_once(printed: Callable[[], list[str]]) -> None:
    def try_twice() -> None:
        with spark_errors_logged():
            log("a first try")
            fail(ValueError("theirs"), "theirs")

    with pytest.raises(ValueError, match="theirs"):
        try_twice()
    assert printed() == ["theirs"]


def test_other_threads_are_not_affected(printed: Callable[[], list[str]]) -> None:
    with spark_errors_logged():
        other = threading.Thread(target=log, args=("of another thread",))
        other.start()
        other.join()
        log("of this one")
    assert printed() == ["of another thread"]
