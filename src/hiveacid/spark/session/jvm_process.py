"""JVM of a process: a small and quiet local session for the command line, and the watch over the JVM of a server.

The watch tells its end, its silence, and ends a process that cannot stop because of it.
"""

from __future__ import annotations

import logging
import os
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from hiveacid.errors import ConfigError, HiveAcidError
from hiveacid.spark.session.environment import configure

if TYPE_CHECKING:
    from py4j.java_gateway import JVMView
    from pyspark.sql import SparkSession


logger = logging.getLogger(__name__)

READY_SECONDS, LIVE_SECONDS = 10.0, 60.0
"""Silence after which a process is not ready, and not live."""
_HANGING_SECONDS = 120  # after which the process ends: a garbage collection may take a minute
_INTERVAL = 2.0  # seconds between an answer and the next question
_ATTEMPTS = 3  # a connection may break while the JVM works
_SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
}
_LOG_LINES = 20


class JvmWatch:
    """Asks the JVM again and again, in a thread of its own.

    Silence is counted in steps of a second, so that it does not grow while the machine, or this whole process, is suspended.
    """

    def __init__(self, ask: Callable[[], object], pause: Callable[[float], object]) -> None:
        """``ask``: returns when the JVM answers, and raises if there is none. ``pause``: waits for some seconds."""
        self._ask, self._pause = ask, pause
        self._ended = False
        self._silent = 0

    @classmethod
    def of(cls, spark: SparkSession) -> JvmWatch:
        """Begin to watch the JVM of a session."""
        jvm: JVMView = spark.sparkContext._jvm  # noqa: SLF001
        watch = cls(jvm.java.lang.System.currentTimeMillis, threading.Event().wait)
        for run in (watch.ask_until_it_ends, watch.count):
            threading.Thread(target=run, name="hiveacid-jvm-watch", daemon=True).start()
        return watch

    def answers(self, within: float) -> bool:
        """Tell whether the JVM answered less than some seconds ago. Never waits."""
        return not self._ended and self._silent < within

    def require_alive(self) -> None:
        """Raise HiveAcidError if the JVM has ended, or has not answered for two minutes."""
        if self._ended:
            raise HiveAcidError(
                "the JVM has ended (out of memory, or killed): this process cannot go on without it"
            )
        if self._silent >= _HANGING_SECONDS:
            raise HiveAcidError(
                f"the JVM has not answered for {self._silent} seconds: this process cannot go on without it"
            )

    def ask_until_it_ends(self) -> None:
        """Ask until no attempt is answered."""
        failures = 0
        while failures < _ATTEMPTS:
            try:
                self._ask()
            except Exception:  # noqa: BLE001 - no answer, whatever the reason
                failures += 1
            else:
                failures = self._silent = 0
            self._pause(_INTERVAL / 4 if failures else _INTERVAL)
        self._ended = True

    def count(self) -> None:
        """Count the seconds since the last answer, until the JVM has ended."""
        while not self._ended:
            self._pause(1.0)
            self._silent += 1


def end_process_after(seconds: float, spark: SparkSession) -> None:
    """Kill the JVM and end this process with code 1, unless it has ended by itself after some seconds.

    A call to a JVM that hangs never returns, so that neither ``spark.stop`` nor an error can end the process.
    """
    process = getattr(spark.sparkContext._gateway, "proc", None)  # noqa: SLF001

    def end() -> None:
        logger.error("the process did not end within %.0f s: its JVM is killed", seconds)
        if process is not None:
            process.kill()
        logging.shutdown()
        os._exit(1)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()


@contextmanager
def local_session(settings: Mapping[str, str], *, chatter: bool = False) -> Iterator[SparkSession]:
    """Yield the process's active session, or a new local one that ends with the block.

    The output of the JVM goes to a temporary file, or with ``chatter`` to standard error, but never to standard output.
    Raises ConfigError if Java is missing or does not start.
    """
    from pyspark.sql import SparkSession  # noqa: PLC0415 - what watches works without it

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
    from pyspark.sql import SparkSession  # noqa: PLC0415

    from hiveacid.spark.session.error_translation import disable_query_log  # noqa: PLC0415

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
