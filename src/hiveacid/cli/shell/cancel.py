"""Statements that Ctrl-C can cancel: their Spark jobs, waits for locks, and transactions."""

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
_POLL_INTERVAL = 0.1  # seconds between two checks of a running statement


class CancellableClock(SystemClock):
    """The machine's clock, whose sleeps end with StatementCancelledError when the statement is cancelled.

    Only sleeps for the statement's thread are interrupted; compactions in the background sleep on.
    """

    def __init__(self) -> None:
        """Begin with no statement cancelled."""
        self.cancelled = threading.Event()
        self.thread = 0  # ident of the thread that runs statements

    def sleep(self, seconds: float) -> None:
        """Sleep. Raises StatementCancelledError as soon as the statement is cancelled."""
        if owner_thread() != self.thread:
            super().sleep(seconds)
        elif self.cancelled.wait(seconds):
            raise StatementCancelledError("the statement was cancelled while it waited")


@dataclass
class StatementRunner:
    """Runs statements one by one in a second thread, while the main thread waits for Ctrl-C.

    The second thread is never interrupted, because a call to the JVM that stops half-way would break the next one.
    Instead, Ctrl-C cancels the Spark jobs, ends sleeps, and aborts the statement's transactions in the store. Their locks
    are released at once, and a later commit fails.
    """

    session: AcidSession
    clock: CancellableClock = field(default_factory=CancellableClock)
    _pool: ThreadPoolExecutor = field(
        default_factory=lambda: ThreadPoolExecutor(1, thread_name_prefix="hiveacid-statement")
    )
    _numbers: Iterator[int] = field(default_factory=count)

    def __post_init__(self) -> None:
        """Make the session's operations use this clock."""
        context = self.session.context
        context.clock = self.clock
        context.transactions = replace(context.transactions, clock=self.clock)

    def run(self, work: Callable[[], T], watch: Callable[[], None]) -> T:
        """Run ``work`` and return its result; ``watch`` is called every 0.1 seconds meanwhile.

        Raises the errors of ``work``. Raises StatementCancelledError if Ctrl-C was pressed before the statement ended; a
        transaction begun by START TRANSACTION is then rolled back.
        """
        tag = f"hiveacid-shell-{next(self._numbers)}"
        before = self.session.context.transactions.heartbeats.tracked()
        self.clock.cancelled.clear()
        pressed = threading.Event()  # an exception during a call to the JVM would break the connection
        with on_interrupt(lambda *_: pressed.set()):
            future = self._pool.submit(self._tagged, tag, work)
            while not wait((future,), timeout=_POLL_INTERVAL).done:
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
        """Cancel jobs and transactions; called repeatedly, because a statement may start further jobs."""
        self.clock.cancelled.set()
        context = self.session.context
        cancel_tagged(context.facts, tag)
        own = context.transactions.heartbeats.tracked(self.clock.thread) - before
        if not own:
            return
        try:
            context.store.abort_txns(sorted(own), "cancelled by Ctrl-C")
        except HiveAcidError:  # they have just ended; or the store is out of reach, and they time out
            time.sleep(_POLL_INTERVAL)

    def _outcome(self, future: Future[T], pressed: threading.Event) -> T:
        try:
            return future.result()
        except CommitStateUnknownError:  # the rows may be visible: do not report a cancelled statement
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
def on_interrupt(handler: Callable[[int, FrameType | None], object]) -> Iterator[None]:
    """Let Ctrl-C call a handler in the block; threads other than the main one cannot, and change nothing."""
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

    def __init__(self, facts: SparkFacts, write: Callable[[str], object], *, wanted: bool) -> None:
        """``write``: writes to the terminal. ``wanted``: False if nothing may be written."""
        self._facts = facts
        self._write = write
        self._wanted = wanted
        self._started = time.monotonic()
        self._shown = False

    def watch(self) -> None:
        """Show the progress of the running stages, from half a second on."""
        seconds = time.monotonic() - self._started
        if self._wanted and seconds > 0.5:  # noqa: PLR2004 - shorter statements need no line
            self._write("\r" + progress_text(progress(self._facts), seconds) + "\x1b[K")
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
