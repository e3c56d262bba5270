"""A statement that Ctrl-C cancels, and its progress on a terminal."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.jobs import Progress, progress
from hiveacid.sql.cancellation import POLL_INTERVAL, StatementThread
from hiveacid.sql.session import AcidSession

T = TypeVar("T")


class StatementRunner:
    """Runs statements one by one in a second thread, while the main thread waits for Ctrl-C."""

    def __init__(self, session: AcidSession) -> None:
        """Make the session's operations cancellable."""
        self._thread = StatementThread(session, "hiveacid-statement", "cancelled by Ctrl-C")

    def run(self, work: Callable[[], T], watch: Callable[[], None]) -> T:
        """Run ``work`` and return its result; ``watch`` is called every 0.1 seconds meanwhile.

        Raises the errors of ``work``. Raises StatementCancelledError if Ctrl-C was pressed before the statement ended; a
        transaction begun by START TRANSACTION is then rolled back.
        """
        pressed = threading.Event()  # an exception during a call to the JVM would break the connection
        with on_interrupt(lambda *_: pressed.set()):
            running = self._thread.submit(work)
            while not running.done_within(POLL_INTERVAL):
                if pressed.is_set():
                    self._thread.cancel(running)
                else:
                    watch()
            return running.future.result()

    def close(self) -> None:
        """End the thread."""
        self._thread.close()


@contextmanager
def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let Ctrl-C call a handler in the block. Outside the main thread, where Python allows none, change nothing."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class ProgressLine:
    """A line at the bottom of a terminal with the progress of the running stages."""

    def __init__(self, env: SparkEnvironment, write: Callable[[str], object], *, enabled: bool) -> None:
        """``write``: writes to the terminal. ``enabled``: False if nothing may be written."""
        self._env = env
        self._write = write
        self._enabled = enabled
        self._started = time.monotonic()
        self._shown = False

    def watch(self) -> None:
        """Show the progress of the running stages, from half a second on."""
        seconds = time.monotonic() - self._started
        if self._enabled and seconds > 0.5:  # noqa: PLR2004 - shorter statements need no line
            self._write("\r" + progress_text(progress(self._env), seconds) + "\x1b[K")
            self._shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._write("\r\x1b[K")
        self._shown = False


def progress_text(state: Progress, seconds: float) -> str:
    """Format a bar with the tasks of the running stages; without stages, only the time."""
    if not state.total:
        return f"working, {seconds:.0f} s; Ctrl-C cancels"
    width = 20
    full = width * state.done // state.total
    stages = f"{state.stages} stage{'s' if state.stages > 1 else ''}"
    bar = "#" * full + "." * (width - full)
    return f"[{bar}] {state.done} of {state.total} tasks, {stages}, {seconds:.0f} s; Ctrl-C cancels"
