"""Statements that can be cancelled: their Spark jobs, waits for locks, and transactions."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Generic, TypeVar

from hiveacid.core.model import TxnId
from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StatementCancelledError
from hiveacid.ports.clock import SystemClock
from hiveacid.spark.session.running_jobs_and_plans import AnalysisStop, cancel_tagged, tagged_jobs
from hiveacid.sql.session import AcidSession
from hiveacid.transactions.heartbeats import owner_thread

logger = logging.getLogger(__name__)

T = TypeVar("T")
POLL_INTERVAL = 0.1
"""Seconds between two attempts to cancel a statement."""
_LONGEST_PAUSE = 5.0  # seconds between them, if a statement does not end


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


@dataclass(eq=False)
class Running(Generic[T]):
    """A statement that runs in its session's thread, or waits in the queue for it.

    ``only_reads``: it commits nothing, so that it may be stopped wherever it is. ``before``: transactions that were open
    when it began.
    """

    tag: str
    only_reads: bool = False
    cancelled: threading.Event = field(default_factory=threading.Event)
    before: frozenset[TxnId] = frozenset()
    future: Future[T] = field(default_factory=Future)

    def done_within(self, seconds: float) -> bool:
        """Wait until the statement has ended; False if it has not after ``seconds``."""
        # `wait` counts a statement that was cancelled in the queue only when the thread comes to it
        return self.future.done() or bool(wait((self.future,), timeout=seconds).done)


class StatementThread:
    """Runs the statements of a session one by one in a thread of their own, and cancels them.

    The thread is never interrupted, because a call to the JVM that stops half-way would break the next one. Instead,
    `cancel` cancels the Spark jobs, ends sleeps, and aborts the statement's transactions in the store. Their locks are
    released at once, and a later commit fails. The analysis of a statement that only reads is stopped, too; after the commit
    of another one, it would be the error of a statement that has succeeded.
    """

    def __init__(self, session: AcidSession, name: str, reason: str) -> None:
        """Make the session's operations use a clock that can be interrupted; ``reason``: of aborted transactions."""
        self.session = session
        self.clock = CancellableClock()
        self._name, self._reason = name, reason
        self._pool = ThreadPoolExecutor(1, thread_name_prefix=name)
        self._numbers: Iterator[int] = count()
        self._lock = threading.Lock()
        self._current: Running[Any] | None = None
        self._unfinished: set[Running[Any]] = set()
        self._ended = False
        self._analysis: AnalysisStop | None = None
        transactions = replace(session.context.transactions, clock=self.clock)
        session.context = session.context.with_transactions(transactions)

    def submit(self, work: Callable[[], T], *, only_reads: bool = False) -> Running[T]:
        """Run ``work`` after the statements before it.

        The future raises the errors of ``work``. It raises StatementCancelledError if the statement was cancelled
        before it ended; a transaction begun by START TRANSACTION is then rolled back. Raises StatementCancelledError after
        `end`.
        """
        running: Running[T] = Running(f"{self._name}-{id(self):x}-{next(self._numbers)}", only_reads)
        with self._lock:
            if self._ended:
                raise StatementCancelledError("the session was closed, and the statement did not run")
            running.future = self._pool.submit(self._run, running, work)
            self._unfinished.add(running)
        running.future.add_done_callback(lambda _: self._unfinished.discard(running))
        return running

    def cancel(self, running: Running[T], *, all_transactions: bool = False) -> None:
        """Cancel jobs and transactions of a statement. Callers repeat it, because the statement may start more jobs.

        ``all_transactions``: also the transaction that the statement joined, because the session ends.
        """
        running.cancelled.set()
        if running.future.cancel():
            return
        with self._lock:
            if self._current is not running:
                return
            self.clock.cancelled.set()
            context = self.session.context
            cancel_tagged(context.env, running.tag)
            if running.only_reads:
                self._analysis = self._analysis or AnalysisStop(context.env)
                self._analysis.stop()
            own = context.transactions.heartbeats.tracked(self.clock.thread) - context.read_leases.txn_ids()
            own -= frozenset() if all_transactions else running.before
        if not own:
            return
        try:
            context.store.abort_txns(sorted(own), self._reason)
        except HiveAcidError:  # they have just ended; or the store is unreachable, and they time out
            running.done_within(POLL_INTERVAL)

    def cancel_until_done(self, running: Running[T], *, all_transactions: bool = False) -> None:
        """Cancel a statement again and again, but more and more rarely, until it has ended."""
        pause = POLL_INTERVAL
        while True:
            self.cancel(running, all_transactions=all_transactions)
            if running.done_within(pause):
                return
            if pause < _LONGEST_PAUSE <= pause * 2:
                logger.warning("%s does not end; it is cancelled every %g s", running.tag, _LONGEST_PAUSE)
            pause = min(pause * 2, _LONGEST_PAUSE)

    def close(self) -> None:
        """End the thread after its last statement."""
        self._pool.shutdown()

    def end(self, last: Callable[[], None]) -> None:
        """Refuse further statements, cancel all others, then run ``last`` and end the thread. Raises the errors of ``last``."""
        with self._lock:
            self._ended = True
            unfinished = tuple(self._unfinished)
        for running in unfinished:  # first all that wait: one would start when the running one stops
            running.future.cancel()
        for running in unfinished:
            self.cancel_until_done(running, all_transactions=True)
        try:
            closing = self._pool.submit(last)
        except RuntimeError:  # the machine had no thread for the first statement, and has none now
            last()
        else:
            closing.result()
        self._pool.shutdown(wait=False)

    def _run(self, running: Running[T], work: Callable[[], T]) -> T:
        self.clock.thread = threading.get_ident()
        with self._lock:
            running.before = self.session.context.transactions.heartbeats.tracked()
            self.clock.cancelled.clear()
            self._current = running
        try:
            try:
                with tagged_jobs(self.session.context.env, running.tag):
                    return work()
            finally:
                # before anything else runs in the session: the work is over
                with self._lock:
                    self._current = None
                    if self._analysis is not None:
                        self._analysis.restore()
        except CommitStateUnknownError:  # the rows may be visible: do not report a cancelled statement
            raise
        except Exception as error:
            if not running.cancelled.is_set():
                raise
            raise StatementCancelledError(self._roll_back()) from error

    def _roll_back(self) -> str:
        """Roll back the open transaction, if any, after a cancelled statement; return the error message.

        As after a failed statement, it accepts only ROLLBACK from then on. Otherwise a program that goes on after a time limit
        would commit the other statements of the transaction one by one.
        """
        txn = self.session.joined if self.session.by_statement else None
        if txn is None:
            return "the statement was cancelled; its changes to transactional tables are rolled back"
        txn.failed = txn.failed or "it was cancelled"
        txn.abort("cancelled")
        return "the statement was cancelled, and its transaction was rolled back; ROLLBACK ends it"
