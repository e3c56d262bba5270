"""Running a statement so that Ctrl-C can stop it: its Spark jobs, its waits for locks, its transactions."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, TypeVar

from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StatementCancelledError
from hiveacid.spark.session.jobs import cancel_tagged, progress, tagged_jobs
from hiveacid.stores.clock import SystemClock
from hiveacid.transactions.heartbeats import owner_thread

if TYPE_CHECKING:
    from types import FrameType

    from hiveacid.core.model import TxnId
    from hiveacid.spark.session.capabilities import SparkFacts
    from hiveacid.spark.session.jobs import Progress
    from hiveacid.sql.session import AcidSession

T = TypeVar("T")
_LOOK = 0.1  # seconds between two looks at a statement at work


class CancellableClock(SystemClock):
    """The machine's clock; statements can be woken from their sleep, which raises StatementCancelledError.

    Others, that compact in the background, sleep on.
    """

    def __init__(self) -> None:
        """Begin with no statement cancelled."""
        self.cancelled = threading.Event()
        self.thread = 0  # of statements

    def sleep(self, seconds: float) -> None:
        """Wait. Raises StatementCancelledError as soon as the statement is cancelled."""
        if owner_thread() != self.thread:
            super().sleep(seconds)
        elif self.cancelled.wait(seconds):
            raise StatementCancelledError("the statement was cancelled while it waited")


@dataclass
class StatementRunner:
    """Runs statements one by one in a thread of their own, while this one listens to Ctrl-C.

    The thread is never interrupted itself: half a conversation with the JVM would spoil the next one. Jobs are
    cancelled, sleepers woken, and the store is told that the statement's transactions are aborted, so that its
    locks are gone at once and a commit that still comes fails.
    """

    session: AcidSession
    clock: CancellableClock = field(default_factory=CancellableClock)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="hiveacid-statement")
    )
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        """Put the clock where verbs of the session look for it."""
        context = self.session.context
        context.clock = self.clock
        context.transactions = replace(context.transactions, clock=self.clock)

    def run(self, work: Callable[[], T], watch: Callable[[], None]) -> T:
        """Return what ``work`` returns; ``watch`` is called while it runs.

        Raises what it raises; StatementCancelledError where Ctrl-C was pressed and the statement had not finished. A
        transaction begun by START TRANSACTION is then rolled back.
        """
        tag = f"hiveacid-shell-{next(self._numbers)}"
        before = self.session.context.transactions.heartbeats.tracked()
        self.clock.cancelled.clear()
        with _catch_interrupts() as pressed:
            future = self._pool.submit(self._tagged, tag, work)
            while not wait((future,), timeout=_LOOK).done:
                if pressed.is_set():
                    self._cancel(tag, before)
                else:
                    watch()
            return self._outcome(future, pressed)

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown()

    def _tagged(self, tag: str, work: Callable[[], T]) -> T:
        self.clock.thread = threading.get_ident()
        with tagged_jobs(self.session.context.facts, tag):
            return work()

    def _cancel(self, tag: str, before: frozenset[TxnId]) -> None:
        """Stop what runs; called again and again, because a statement may start one job after the other."""
        self.clock.cancelled.set()
        context = self.session.context
        cancel_tagged(context.facts, tag)
        own = context.transactions.heartbeats.tracked(self.clock.thread) - before
        if not own:
            return
        try:
            context.store.abort_txns(sorted(own), "cancelled by Ctrl-C")
        except HiveAcidError:  # ended just now; or no store, and they time out
            time.sleep(_LOOK)

    def _outcome(self, future: Future[T], pressed: threading.Event) -> T:
        try:
            return future.result()
        except CommitStateUnknownError:  # it may be visible all the same
            raise
        except Exception as error:
            if not pressed.is_set():
                raise
            message = "the statement was cancelled; what it wrote to transactional tables is rolled back"
            if self.session.joined is not None and self.session.by_statement:
                self._pool.submit(lambda: self.session.end_by_statement("Ctrl-C").abort("cancelled")).result()
                message = "the statement was cancelled, and its transaction was rolled back"
            raise StatementCancelledError(message) from error


@contextmanager
def _catch_interrupts() -> Iterator[threading.Event]:
    """Let Ctrl-C set an event instead of raising: an exception in the midst of a call to the JVM would spoil it."""
    pressed = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        pressed.set()

    before = signal.signal(signal.SIGINT, note)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


class ProgressLine:
    """One line at the bottom of a terminal that says how far the running stages are."""

    def __init__(self, facts: SparkFacts, write: Callable[[str], object], *, wanted: bool) -> None:
        """``write``: to the terminal. ``wanted``: else nothing is ever written."""
        self._facts = facts
        self._write = write
        self._wanted = wanted
        self._started = time.monotonic()
        self._shown = False

    def watch(self) -> None:
        """Show how far the running stages are, after a first half second."""
        seconds = time.monotonic() - self._started
        if self._wanted and seconds > 0.5:  # noqa: PLR2004 - what is over sooner needs no line
            self._write("\r" + progress_text(progress(self._facts), seconds) + "\x1b[K")
            self._shown = True

    def clear(self) -> None:
        """Remove the line."""
        if self._shown:
            self._write("\r\x1b[K")
        self._shown = False


def progress_text(at: Progress, seconds: float) -> str:
    """Return a bar with the tasks of the running stages; without stages only the time."""
    if not at.total:
        return f"working, {seconds:.0f} s; Ctrl-C cancels"
    width = 20
    full = width * at.done // at.total
    stages = f"{at.stages} stage{'s' if at.stages > 1 else ''}"
    bar = "#" * full + "." * (width - full)
    return f"[{bar}] {at.done} of {at.total} tasks, {stages}, {seconds:.0f} s; Ctrl-C cancels"
