"""Expiry of a client's open transactions, by the client's own clock."""

from __future__ import annotations

import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid.core.model import TxnId
    from hiveacid.ports.clock import Clock

_SHARE = 0.9
"""Part of a transaction's timeout during which the store is tried again; the rest is for the answer to arrive."""


class Lifetimes:
    """Tells how long it is worth trying to reach a database again: until shortly before transactions expire.

    A transaction that has expired here may still be open in the store, because the database's clock decides. Several
    threads may call the methods.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._timeouts: dict[TxnId, int] = {}  # ms
        self._ends: dict[TxnId, int] = {}  # ms since the epoch

    def opened(self, txn_ids: Iterable[TxnId], timeout: float, at: int) -> None:
        """Note transactions with a ``timeout`` (seconds); ``at`` (ms): before the store was asked to open them."""
        with self._lock:
            for txn_id in txn_ids:
                self._timeouts[txn_id] = int(timeout * 1000)
                self._ends[txn_id] = at + int(timeout * 1000 * _SHARE)

    def beaten(self, txn_ids: Iterable[TxnId], at: int) -> None:
        """Note that the store has a heartbeat that was sent at this time (ms)."""
        with self._lock:
            for txn_id in txn_ids:
                if txn_id in self._timeouts:
                    self._ends[txn_id] = at + int(self._timeouts[txn_id] * _SHARE)

    def ended(self, txn_ids: Iterable[TxnId]) -> None:
        """Forget transactions."""
        with self._lock:
            for txn_id in txn_ids:
                self._timeouts.pop(txn_id, None)
                self._ends.pop(txn_id, None)

    def remaining(self) -> float:
        """Return the seconds until the last open transaction is about to expire; 0 if none is open."""
        now = self._clock.now()
        with self._lock:
            for txn_id in [txn_id for txn_id, end in self._ends.items() if end <= now]:
                del self._ends[txn_id], self._timeouts[txn_id]
            return max((end - now for end in self._ends.values()), default=0) / 1000
