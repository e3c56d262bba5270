"""A small and quiet local Spark session for the command line; an active session of the process is reused."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from hiveacid.errors import ConfigError
from hiveacid.spark.session.capabilities import configure
from hiveacid.spark.session.error_translation import disable_query_log

_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_LOG_LINES = 20


@contextmanager
def local_session(settings: Mapping[str, str], *, chatter: bool = False) -> Iterator[SparkSession]:
    """Yield the process's active session, or a new local one that ends with the block.

    The output of the JVM goes to a temporary file, or with ``chatter`` to standard error, but never to standard output.
    Raises ConfigError if Java is missing or does not start.
    """
    active = SparkSession.getActiveSession()
    if active is not None:
        yield active
        return
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="hiveacid-spark-")))
        log = scratch / "spark.log"
        with _redirect_output(None if chatter else log):
            spark = _start(settings, scratch, log)
        stack.callback(spark.stop)
        yield spark


def _start(settings: Mapping[str, str], scratch: Path, log: Path) -> SparkSession:
    disable_query_log()
    builder = configure(SparkSession.builder.appName("hiveacid"))
    cores = str(os.cpu_count() or 1)
    own = {"spark.master": "local[*]", "spark.sql.shuffle.partitions": cores} | _SETTINGS
    own["spark.sql.warehouse.dir"] = str(scratch / "warehouse")
    for key, value in (own | dict(settings)).items():
        builder = builder.config(key, value)
    try:
        spark: SparkSession = builder.getOrCreate()
    except Exception as error:
        lines = log.read_text(errors="replace").splitlines()[-_LOG_LINES:] if log.exists() else []
        raise ConfigError("\n".join(["Spark does not start: see hiveacid doctor", *lines])) from error
    return spark


@contextmanager
def _redirect_output(log: Path | None) -> Iterator[None]:
    """Redirect standard output and error of the processes that are started in the block."""
    sys.stdout.flush()
    sys.stderr.flush()
    saved = os.dup(1), os.dup(2)
    target = os.dup(2) if log is None else os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.dup2(target, 1)
        os.dup2(target, 2)
        yield
    finally:
        for number, descriptor in enumerate(saved, start=1):
            os.dup2(descriptor, number)
            os.close(descriptor)
        os.close(target)
