"""Read leases: the read transaction of a snapshot stays open as long as a plan made from it can run."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

from hiveacid.errors import HiveAcidError, TransactionError
from hiveacid.ports.transactions import SNAPSHOT_ONLY, TxnKind
from hiveacid.transactions.transaction import Transaction, Transactions

if TYPE_CHECKING:
    from hiveacid.config import Settings

logger = logging.getLogger(__name__)

_LONGEST_ENDING = 10.0  # seconds for another thread's transactions to end: a store may never answer


class Holder(Protocol):
    """Something that keeps a read transaction open: a DataFrame's plan (``spark.session.plan_lease.PlanWatch``)."""

    def alive(self) -> bool:
        """Tell whether the plan can still run."""


class _Pin:
    """Holds a snapshot while a plan is being made of it."""

    def __init__(self) -> None:
        """Start pinned."""
        self.pinned = True

    def alive(self) -> bool:
        """Tell whether the plan is still in the making."""
        return self.pinned


class ReadLeases:
    """Read transactions that keep the cleaner from their files; equal snapshots share one."""

    def __init__(self, transactions: Transactions) -> None:
        """Register the sweep of unreferenced snapshots with the heartbeat."""
        self._transactions = transactions
        self._lock = threading.Lock()
        self._held: list[tuple[Transaction, list[Holder]]] = []
        self._ending = threading.Lock()  # of whoever takes snapshots out of the list, until they have ended
        transactions.heartbeats.on_turn(self.sweep)

    @contextmanager
    def acquire(self, settings: Settings) -> Iterator[Transaction]:
        """Give a read transaction whose snapshot is the present state; `hold` it within the block."""
        pin = _Pin()
        try:
            yield self._take(settings, pin)
        finally:
            pin.pinned = False

    def _take(self, settings: Settings, pin: _Pin) -> Transaction:
        with self._lock:
            if self._held:
                newest, holders = self._held[-1]
                if not newest.ended and self._is_present(newest):
                    holders.append(pin)
                    return newest
            txn = self._transactions.begin(settings, TxnKind.READ_ONLY, start=SNAPSHOT_ONLY)
            self._held.append((txn, [pin]))
            return txn

    def _is_present(self, txn: Transaction) -> bool:
        try:
            own = txn.snapshot()
        except TransactionError:  # the reaper, or ABORT TRANSACTIONS: only what holds it is lost
            return False
        now = self._transactions.store.valid_txns()
        if txn.txn_id not in now.open:
            return False  # reaped, and nobody here has heard of it yet
        if now.high_watermark != own.high_watermark or now.aborted != own.aborted:
            return False
        return {*now.open, txn.txn_id} == {*own.open, txn.txn_id}

    def holds(self, txn: Transaction) -> bool:
        """Tell whether a transaction is one of these."""
        with self._lock:
            return any(held is txn for held, _ in self._held)

    def hold(self, txn: Transaction, holder: Holder) -> None:
        """Keep a snapshot's transaction open for a plan."""
        with self._lock:
            next(holders for held, holders in self._held if held is txn).append(holder)

    def sweep(self) -> int:
        """End read transactions without a living holder; return how many go on."""
        with self._ending:
            with self._lock:
                held = [
                    (txn, [holder for holder in holders if holder.alive()]) for txn, holders in self._held
                ]
                self._held = [(txn, alive) for txn, alive in held if alive]
            left = [txn for txn, alive in held if not alive]
            try:
                for txn in tuple(left):
                    if _end_read(txn):
                        left.remove(txn)
            finally:  # where the store did not answer, or Ctrl-C came, the next turn tries again
                with self._lock:
                    self._held[:0] = [(txn, []) for txn in left]
        return sum(bool(alive) for _, alive in held)

    def close(self) -> None:
        """End all of them; what a turn of the heartbeat is just ending is waited for, as long as it is worth it."""
        waited = self._ending.acquire(timeout=_LONGEST_ENDING)
        try:
            with self._lock:
                held, self._held = self._held, []
            for txn, _ in held:
                _end_read(txn)
        finally:
            if waited:
                self._ending.release()


def _end_read(txn: Transaction) -> bool:
    """Commit a read transaction; return whether it has ended."""
    try:
        if not txn.ended:
            txn.commit()
    except TransactionError:  # reaped already: nothing was written, nothing is lost
        logger.info("read transaction %s had ended before", txn.txn_id)
        txn.heartbeats.forget(txn.txn_id)
    except HiveAcidError:
        logger.warning("read transaction %s could not be ended", txn.txn_id, exc_info=True)
        return False
    return True
