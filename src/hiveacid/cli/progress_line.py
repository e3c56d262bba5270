"""Line at the bottom of a terminal that says what a command waits for: the start of Spark, or its running stages."""

from __future__ import annotations

import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid.spark.session.environment import SparkEnvironment
    from hiveacid.spark.session.running_jobs_and_plans import Progress

_SILENT = 0.5  # seconds that need no line
_INTERVAL = 0.2  # seconds between two lines
_MINUTE = 60
_STEADY_SECONDS = 3.0  # of work, before its pace says something about the rest
_STEADY_PARTS = 3
_START = "starting Spark, {:.0f} s"


class Remaining:
    """Estimate of the time that work still takes, from the pace of its own last part; there is none before that is steady.

    It is only as good as the parts are alike, and therefore rounded. ``key``: what the parts belong to; another one begins
    anew.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._key: object = None
        self._begun = (0.0, 0)

    def text(self, key: object, done: int, total: int, now: float) -> str:
        """Return ``, about 40 s left``, or nothing. ``now``: seconds of a clock that does not go back."""
        if key != self._key:
            self._key, self._begun = key, (now, done)
        begun, first = self._begun
        parts, seconds = done - first, now - begun
        if seconds < _STEADY_SECONDS or parts < max(_STEADY_PARTS, total // 50) or done >= total:
            return ""
        return f", about {rounded_time(seconds * (total - done) / parts)} left"


def rounded_time(seconds: float) -> str:
    """Return a time in steps that an estimate deserves: 5 s, 10 s, 40 s, 3 min, 2 h.

    >>> [rounded_time(seconds) for seconds in (1, 44, 130, 9000)]
    ['5 s', '50 s', '3 min', '3 h']
    """
    if seconds <= _MINUTE:
        step = 5 if seconds <= _MINUTE / 6 else 10
        return f"{max(1, math.ceil(seconds / step)) * step} s"
    if seconds <= 90 * _MINUTE:
        return f"{math.ceil(seconds / _MINUTE)} min"
    return f"{math.ceil(seconds / (60 * _MINUTE))} h"


class ProgressLine:
    """A line that each `watch` writes once more, from half a second on."""

    def __init__(self, text: Callable[[float], str], write: Callable[[str], object]) -> None:
        """``text``: the line after some seconds. ``write``: writes to the terminal."""
        self._text = text
        self._write = write
        self._started = time.monotonic()
        self._shown = False
        self._lock = threading.Lock()

    def watch(self) -> None:
        """Show the line as it is now."""
        with self._lock:
            seconds = time.monotonic() - self._started
            if seconds > _SILENT:
                self._write(f"\r{self._text(seconds)}\x1b[K")
                self._shown = True

    @contextmanager
    def away(self) -> Iterator[None]:
        """Remove the line while the block prints."""
        with self._lock:
            self.clear()
            yield

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._write("\r\x1b[K")
        self._shown = False


def stages_line(env: SparkEnvironment, write: Callable[[str], object], end: str) -> ProgressLine:
    """Return a line with the progress of Spark's running stages, and ``end`` behind it."""
    from hiveacid.spark.session.running_jobs_and_plans import progress  # noqa: PLC0415 - imports PySpark

    remaining = Remaining()

    def text(seconds: float) -> str:
        state = progress(env)
        left = remaining.text(state.ids, state.done, state.total, seconds)
        return progress_text(
            state,
            seconds,
            f"{left} in {'these stages' if state.stages > 1 else 'this stage'}{end}" if left else end,
        )

    return ProgressLine(text, write)


def progress_text(state: Progress, seconds: float, end: str = "") -> str:
    """Format a bar with the tasks of the running stages; without stages, only the time."""
    if not state.total:
        return f"working, {seconds:.0f} s{end}"
    width = 20
    full = width * state.done // state.total
    stages = f"{state.stages} stage{'s' if state.stages > 1 else ''}"
    bar = "#" * full + "." * (width - full)
    return f"[{bar}] {state.done} of {state.total} tasks, {stages}, {seconds:.0f} s{end}"


@contextmanager
def spark_starts() -> Iterator[None]:
    """Say on a terminal that Spark starts, and for how long already, while the block runs. The block must not print."""
    with _in_background(lambda write: ProgressLine(_START.format, write)):
        yield


@contextmanager
def at_work(env: SparkEnvironment) -> Iterator[None]:
    """Show on a terminal the progress of Spark's stages while the block runs. The block must not print."""
    with _in_background(lambda write: stages_line(env, write, "")):
        yield


class TablesInTurn:
    """The line of work on one table after another; ``total``: their number.

    The time left is that of all tables, if their own pace tells it, else of the directories of the present one.
    """

    def __init__(self) -> None:
        """Begin before the first table."""
        self.total = 0
        self._number = 0
        self._now = ("", "", 0, 0)  # name, work, directories
        self._tables, self._directories = Remaining(), Remaining()

    def begin(self, name: str) -> None:
        """Go on to the next table."""
        self._number, self._now = self._number + 1, (name, "", 0, 0)

    def watch(self, _: object, what: str, done: int, total: int) -> None:
        """Note how many directories of the table are done."""
        self._now = self._now[0], what, done, total

    def text(self, seconds: float) -> str:
        """Return the line after some seconds."""
        name, what, done, total = self._now
        left = self._tables.text("", max(0, self._number - 1), self.total, seconds)
        step = self._directories.text((name, what), done, total, seconds)
        if step and not left:
            left = f"{step} of this"
        parts = f", {done:,} of {total:,} directories {what}" if total > 1 else ""
        return f"table {self._number:,} of {self.total:,}, {name}{parts}, {seconds:.0f} s{left}"


@contextmanager
def tables_in_turn(tables: TablesInTurn) -> Iterator[ProgressLine]:
    """Show on a terminal which table is worked on while the block runs; yield the line, which is `away` while it prints."""
    with _in_background(lambda write: ProgressLine(tables.text, write)) as line:
        yield line


@contextmanager
def _in_background(made: Callable[[Callable[[str], object]], ProgressLine]) -> Iterator[ProgressLine]:
    """Write a line again and again from a second thread, if standard error is a terminal."""
    if not sys.stderr.isatty():
        yield made(lambda _: None)
        return
    terminal = os.dup(sys.stderr.fileno())  # the start of Spark turns the descriptor itself into a file
    line = made(lambda text: os.write(terminal, text.encode()))
    ended = threading.Event()

    def write_until_the_end() -> None:
        while not ended.wait(_INTERVAL):
            line.watch()

    thread = threading.Thread(target=write_until_the_end, name="hiveacid-progress", daemon=True)
    thread.start()
    try:
        yield line
    finally:
        ended.set()
        thread.join()
        line.clear()
        os.close(terminal)
