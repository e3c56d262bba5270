"""Time limit of retries against an unreachable store: as long as a client's open transactions can still commit."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from hiveacid.core.model import TxnId
from hiveacid.ports.clock import Clock

_SHARE = 0.9
"""Part of a transaction's timeout during which calls to the store are repeated; the rest is left for the answer."""


class RetryDeadlines:
    """Time for which it is useful to try to reach a store again: until shortly before transactions expire.

    A transaction that has expired here may still be open in the store, because the store's clock decides. Several
    threads may call the methods.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._timeouts: dict[TxnId, int] = {}  # ms
        self._ends: dict[TxnId, int] = {}  # ms since the epoch

    def opened(self, txn_ids: Iterable[TxnId], timeout: float, moment: int) -> None:
        """Record transactions with a ``timeout`` (seconds). ``moment``: time in ms just before the call that opened them."""
        with self._lock:
            for txn_id in txn_ids:
                self._timeouts[txn_id] = int(timeout * 1000)
                self._ends[txn_id] = moment + int(timeout * 1000 * _SHARE)

    def record_heartbeat(self, txn_ids: Iterable[TxnId], moment: int) -> None:
        """Record that the store has received a heartbeat sent at the time ``moment`` (ms)."""
        with self._lock:
            for txn_id in txn_ids:
                if txn_id in self._timeouts:
                    self._ends[txn_id] = moment + int(self._timeouts[txn_id] * _SHARE)

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
            # A late heartbeat may still find a transaction open. One that nobody ended is forgotten long after its end.
            for txn_id in [id_ for id_, end in self._ends.items() if end + self._timeouts[id_] <= now]:
                del self._ends[txn_id], self._timeouts[txn_id]
            return max((end - now for end in self._ends.values() if end > now), default=0) / 1000
