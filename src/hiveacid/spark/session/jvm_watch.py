"""Watch over the JVM of a server process: its end, its silence, and a process that cannot stop because of it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from hiveacid.errors import HiveAcidError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

READY_SECONDS, LIVE_SECONDS = 10.0, 60.0
"""Silence after which a process is not ready, and not live."""
_HANGING_SECONDS = 120  # after which the process ends: a garbage collection may take a minute
_INTERVAL = 2.0  # seconds between an answer and the next question
_ATTEMPTS = 3  # a connection may break while the JVM works


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
        jvm: Any = spark.sparkContext._jvm  # noqa: SLF001
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
