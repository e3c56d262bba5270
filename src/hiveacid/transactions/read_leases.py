"""Read leases: the read transaction of a snapshot stays open as long as a plan made from it can run."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, field
from typing import TypeAlias

from hiveacid.config import Settings
from hiveacid.core.model import TxnId
from hiveacid.errors import HiveAcidError, TransactionError
from hiveacid.ports.transactions import SNAPSHOT_ONLY, Start, TxnKind
from hiveacid.transactions.transaction import Transaction, Transactions

logger = logging.getLogger(__name__)

_LONGEST_ENDING = 10.0  # seconds that `close` waits for a sweep in another thread: a store may never answer


Holder: TypeAlias = Callable[[], bool]
"""Tells whether a read transaction has to stay open, as for a plan (``RelationWatch.alive`` of ``spark.session.running_jobs_and_plans``)."""


@dataclass
class _Held:
    """The read transactions of a process, each with its holders. ``ending``: held while some are out of the list but not ended yet."""

    process: int = field(default_factory=os.getpid)
    lock: threading.Lock = field(default_factory=threading.Lock)
    ending: threading.Lock = field(default_factory=threading.Lock)
    held: list[tuple[Transaction, list[Holder]]] = field(default_factory=list)


class ReadLeases:
    """Read transactions that keep the cleaner from deleting their files; equal snapshots share one."""

    def __init__(self, transactions: Transactions) -> None:
        """Register the sweep of unreferenced snapshots with the heartbeat."""
        self._transactions = transactions
        self._all = _Held()  # shared with `of_client`
        self._newest: Transaction | None = None
        transactions.heartbeats.add_sweeper(self.sweep)

    def of_client(self, transactions: Transactions) -> ReadLeases:
        """Return leases whose transactions are begun, and shown, as those of another client; sweeps concern both."""
        leases = copy(self)
        leases._transactions = transactions  # noqa: SLF001 - of the same class
        leases._newest = None  # noqa: SLF001
        return leases

    @contextmanager
    def acquire(self, settings: Settings) -> Iterator[Transaction]:
        """Provide a read transaction with the current snapshot; call `add_holder` within the block to keep it open."""
        making = True
        try:
            yield self._take(settings, lambda: making)
        finally:
            making = False

    def begin_explicit(self, settings: Settings, kind: TxnKind = TxnKind.DEFAULT) -> Transaction:
        """Begin a transaction of several statements, with a lease for the DataFrames that are made in it.

        They may run after its end, and read files of its snapshot. A lease that begins later than this snapshot would not
        keep files that a compaction has replaced in between.
        """
        with self.acquire(settings) as lease:
            txn = self._transactions.begin(settings, kind, explicit=True, start=Start())
            txn.lease = lease
            self.add_holder(lease, lambda: not txn.ended)
            return txn

    def _begin_anew_in_child(self) -> None:
        """Drop what a forked child has of its parent, which ends its own transactions."""
        if self._all.process != os.getpid():
            vars(self._all).update(vars(_Held()))  # in its place: the sweep of one serves all clients

    def _take(self, settings: Settings, holder: Holder) -> Transaction:
        """Return a read transaction with the holder. The store is asked without the lock: it may be slow, and others read too."""
        self._begin_anew_in_child()
        with self._all.lock:
            newest = self._newest
            holders = next((holders for held, holders in self._all.held if held is newest), None)
            if holders is not None:  # a sweep meanwhile leaves it open
                holders.append(holder)
        if newest is not None and holders is not None:
            if not (newest.ended or newest.reads.outdated) and self._is_newest_snapshot(newest):
                return newest
            with self._all.lock:
                self._drop_holder(newest, holder)
        txn = self._transactions.begin(settings, TxnKind.READ_ONLY, start=SNAPSHOT_ONLY)
        with self._all.lock:
            self._all.held.append((txn, [holder]))
            self._newest = txn
        return txn

    def _drop_holder(self, txn: Transaction, holder: Holder) -> None:
        for held, holders in self._all.held:
            if held is txn:
                holders.remove(holder)

    def _is_newest_snapshot(self, txn: Transaction) -> bool:
        try:
            snapshot = txn.snapshot()
        except TransactionError:  # aborted by time-out or ABORT TRANSACTIONS: only its own holders fail
            return False
        now = self._transactions.store.valid_txns()
        if txn.txn_id not in now.open:
            return False  # aborted by time-out; the next heartbeat will report it
        if now.high_watermark != snapshot.high_watermark or now.aborted != snapshot.aborted:
            return False
        return {*now.open, txn.txn_id} == {*snapshot.open, txn.txn_id}

    def is_leased(self, txn: Transaction) -> bool:
        """Tell whether a transaction is one of the leased read transactions."""
        with self._all.lock:
            return any(txn_held is txn for txn_held, _ in self._all.held)

    def txn_ids(self) -> frozenset[TxnId]:
        """Return the ids of the leased read transactions, which statements of several threads may share."""
        with self._all.lock:
            return frozenset(txn.txn_id for txn, _ in self._all.held)

    def add_holder(self, txn: Transaction, holder: Holder) -> None:
        """Keep a snapshot's transaction open for a plan."""
        with self._all.lock:
            next(holders for held, holders in self._all.held if held is txn).append(holder)

    def sweep(self) -> int:
        """End read transactions without a living holder; return how many stay open."""
        self._begin_anew_in_child()
        with self._all.ending:
            with self._all.lock:
                held = [(txn, [alive for alive in holders if alive()]) for txn, holders in self._all.held]
                self._all.held[:] = [(txn, alive) for txn, alive in held if alive]
            released = [txn for txn, alive in held if not alive]
            try:
                for txn in tuple(released):
                    if end_read(txn):
                        released.remove(txn)
            finally:  # if the store did not answer, or on Ctrl-C, the next turn tries again
                with self._all.lock:
                    self._all.held[:0] = [(txn, []) for txn in released]
        return sum(bool(alive) for _, alive in held)

    def close(self) -> None:
        """End all read transactions. Waits up to 10 seconds for a sweep that is just ending some of them."""
        self._begin_anew_in_child()
        waited = self._all.ending.acquire(timeout=_LONGEST_ENDING)
        try:
            with self._all.lock:
                held = tuple(self._all.held)
                self._all.held.clear()
            for txn, _ in held:
                end_read(txn)
        finally:
            if waited:
                self._all.ending.release()


def end_read(txn: Transaction) -> bool:
    """Commit a read transaction; return whether it has ended."""
    try:
        if not txn.ended:
            txn.commit()
    except TransactionError:  # already aborted by time-out: a read transaction has nothing to lose
        logger.info("read transaction %s had ended before", txn.txn_id)
        txn.heartbeats.forget(txn.txn_id)
    except HiveAcidError as error:
        logger.warning("read transaction %s could not be ended: %s", txn.txn_id, error)
        return False
    return True
