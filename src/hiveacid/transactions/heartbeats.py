"""Heartbeats: a thread that keeps transactions alive while their owners work."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.model import TxnId
from hiveacid.errors import HiveAcidError, TransactionAbortedError
from hiveacid.ports.transactions import TransactionPort

logger = logging.getLogger(__name__)

_LONGEST_TURN = 10.0
_ABORTED = "was aborted (timed out, or by ABORT TRANSACTIONS)"
_MISSING = "is not known to the store any more"
# Heartbeats in a time-out: in that of the client as in Hive, in a metastore's own so that one lost heartbeat is no harm.
_BEATS, _BEATS_OF_METASTORE = 2, 3
# A metastore whose time-out cannot be read is taken to have Hive's default, 300 s.
_LONGEST_INTERVAL = 300.0 / _BEATS
_OWNER_THREAD: ContextVar[int | None] = ContextVar("hiveacid_owner_thread", default=None)


def heartbeat_interval(settings: Settings) -> float:
    """Return the seconds between two heartbeats of a client with these settings."""
    return settings.get(setting_definitions.TXN_TIMEOUT) / _BEATS


def owner_thread() -> int:
    """Return the ident of the thread that owns transactions begun here: this thread, or the one that it works for."""
    return _OWNER_THREAD.get() or threading.get_ident()


@contextmanager
def on_behalf_of(thread: int) -> Iterator[None]:
    """Make ``thread`` the owner of transactions begun in the block, for statements that use several threads."""
    before = _OWNER_THREAD.set(thread)
    try:
        yield
    finally:
        _OWNER_THREAD.reset(before)


class Heartbeats:
    """Keeps transactions alive from a background thread while their owners work.

    The thread starts with the first transaction and ends with `close`. A second thread runs the sweepers, which may wait
    for the store, so that heartbeats continue meanwhile.
    """

    def __init__(self, store: TransactionPort, interval: float) -> None:
        """``interval``: `heartbeat_interval`; a store may require less."""
        self._store = store
        self.interval = interval  # may change: SET hive.txn.timeout
        self._longest = _LONGEST_INTERVAL
        self._process = os.getpid()
        self._lock = threading.RLock()
        self._open: dict[TxnId, int] = {}  # transaction → ident of its owner thread
        self._intervals: dict[TxnId, float] = {}  # the interval when each transaction began
        self._lost: dict[TxnId, str] = {}
        self._unaborted: dict[TxnId, str] = {}  # transaction → reason
        self._commit_listeners: list[Callable[[], None]] = []
        self._sweepers: list[Callable[[], object]] = []
        self._stop = threading.Event()
        self._hurry = threading.Event()  # ends the heartbeat thread's wait early
        self._waiting = _LONGEST_TURN  # seconds of that wait
        self._threads: dict[Callable[[], None], threading.Thread] = {}

    def track(self, txn_id: TxnId) -> None:
        """Send heartbeats for a transaction from now on."""
        if self._process != os.getpid():
            self._begin_anew()
        with self._lock:
            self._open[txn_id] = owner_thread()
            self._intervals[txn_id] = self.interval
            self._start(self._run, "hiveacid-heartbeat")
            if self.interval < self._waiting:
                self._hurry.set()
            if self._sweepers:
                self._start(self._sweep, "hiveacid-sweep")

    def _begin_anew(self) -> None:
        """Drop what a forked child has from its parent: threads that do not run here, their locks, and the parent's transactions."""
        self._process, self._threads = os.getpid(), {}
        self._lock, self._stop, self._hurry = threading.RLock(), threading.Event(), threading.Event()
        for transactions in (self._open, self._intervals, self._lost, self._unaborted):
            transactions.clear()

    def _start(self, run: Callable[[], None], name: str) -> None:
        if run not in self._threads:
            self._threads[run] = threading.Thread(target=run, name=name, daemon=True)
            self._threads[run].start()

    def forget(self, txn_id: TxnId, *, wrote: bool = False) -> None:
        """Stop the heartbeats of a transaction that ended; ``wrote``: it has committed writes, so tell the listeners."""
        with self._lock:
            self._open.pop(txn_id, None)
            self._intervals.pop(txn_id, None)
            self._lost.pop(txn_id, None)
        for tell in self._commit_listeners if wrote else ():
            tell()

    def enqueue_abort(self, txn_ids: Iterable[TxnId], reason: str) -> None:
        """Queue transactions whose abort failed because the store was away; the heartbeat thread aborts them, with their locks."""
        with self._lock:
            self._unaborted.update(dict.fromkeys(txn_ids, reason))

    def tracked(self, thread: int | None = None) -> frozenset[TxnId]:
        """Return the transactions that get heartbeats; with ``thread`` (an ident), only those that this thread owns."""
        with self._lock:
            return frozenset(txn_id for txn_id, owner in self._open.items() if thread in (None, owner))

    def on_commit(self, tell: Callable[[], None]) -> None:
        """Call ``tell`` whenever a transaction that wrote has committed."""
        self._commit_listeners.append(tell)

    def add_sweeper(self, sweep: Callable[[], object]) -> None:
        """Call ``sweep`` at every turn in the second thread, from the first transaction on."""
        with self._lock:
            self._sweepers.append(sweep)
            if self._threads:
                self._start(self._sweep, "hiveacid-sweep")

    def check(self, txn_id: TxnId) -> None:
        """Raise TransactionAbortedError if a heartbeat found the transaction gone."""
        with self._lock:
            reason = self._lost.get(txn_id)
        if reason:
            raise TransactionAbortedError(
                f"transaction {txn_id} {reason}; nothing of it is visible, run it again"
            )

    def beat(self) -> None:
        """Send one heartbeat for all transactions."""
        with self._lock:
            open_now = sorted(self._open)
        if not open_now:
            return
        answer = self._store.heartbeat(open_now)
        with self._lock:
            for txn_ids, reason in ((answer.aborted, _ABORTED), (answer.missing, _MISSING)):
                for txn_id in txn_ids:
                    self._intervals.pop(txn_id, None)
                    if self._open.pop(txn_id, None) is not None:  # else its owner ended it meanwhile
                        self._lost[txn_id] = reason

    def close(self) -> None:
        """End the threads."""
        self._stop.set()
        self._hurry.set()
        for thread in self._threads.values():
            thread.join(timeout=5)

    def _read_store_timeout(self) -> None:
        timeout = self._store.txn_timeout()
        if timeout is not None:
            self._longest = min(_LONGEST_INTERVAL, timeout / _BEATS_OF_METASTORE)

    def _abort_unaborted(self) -> None:
        for txn_id in list(self._unaborted):
            reason = self._unaborted.pop(txn_id)
            try:
                self._store.abort_txns([txn_id], reason)
            except BaseException:
                self._unaborted[txn_id] = reason  # as the last one: it may fail again, and others wait, too
                raise

    def pause(self) -> float:
        """Return the seconds between two heartbeats, short enough for the time-out that each transaction began with."""
        with self._lock:
            return min(self.interval, self._longest, *self._intervals.values())

    def _turn(self) -> float:
        return max(0.05, min(self.pause(), _LONGEST_TURN))

    def _run(self) -> None:
        waited = 0.0
        is_timeout_known = _run_safely(self._read_store_timeout)
        while not self._stopped_within(turn := self._plan_wait()):
            is_timeout_known = is_timeout_known or _run_safely(self._read_store_timeout)
            _run_safely(self._abort_unaborted)
            waited += turn
            if waited >= self.pause() and _run_safely(self.beat):
                waited = 0.0  # a beat that failed is sent again at the next turn
                _run_safely(self._store.abort_timed_out)  # of other clients, where no housekeeper does it

    def _plan_wait(self) -> float:
        """Return the seconds of the next wait, which a transaction that begins later compares with its own."""
        with self._lock:
            self._waiting = self._turn()
            return self._waiting

    def _stopped_within(self, seconds: float) -> bool:
        """Wait, not longer than a transaction that begins meanwhile allows; tell whether the thread has to end."""
        self._hurry.wait(seconds)
        self._hurry.clear()
        return self._stop.is_set()

    def _sweep(self) -> None:
        while not self._stop.wait(self._turn()):
            for sweep in list(self._sweepers):
                _run_safely(sweep)


def _run_safely(action: Callable[[], object]) -> bool:
    """Run one action of a turn and tell whether it succeeded; a failure is logged, so that other actions still run."""
    try:
        action()
    except Exception as error:
        unknown = not isinstance(error, HiveAcidError)
        logger.warning(
            "background work for transactions failed and will be repeated: %s", error, exc_info=unknown
        )
        return False
    return True
