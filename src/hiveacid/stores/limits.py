"""Time-outs and maximum numbers of a store, and for how long a client tries to reach it."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.ports.clock import Clock

OF_THE_STORE = (
    setting_definitions.TXN_TIMEOUT, setting_definitions.MAX_OPEN_TXNS, setting_definitions.TXN_MAX_OPEN_BATCH,
    setting_definitions.WORKER_TIMEOUT, setting_definitions.WORKER_POOL_TIMEOUT, setting_definitions.HISTORY_TIMEOUT,
    setting_definitions.COMMITS_RETENTION, setting_definitions.HISTORY_SUCCEEDED, setting_definitions.HISTORY_FAILED,
    setting_definitions.HISTORY_DID_NOT_INITIATE, setting_definitions.HISTORY_REFUSED,
)  # fmt: skip
"""Settings that `Limits.of` reads (FAILED_COMPACTS_THRESHOLD also has a use of its own)."""
LATEST_WRITER = 86_400_000
"""Milliseconds after the abort of a CREATE TABLE AS SELECT after which no paused writer of it is expected any more."""
_SHORTEST_SILENCE, _LONGEST_SILENCE = 3.0, 10.0  # seconds


@dataclass(frozen=True)
class Limits:
    """Time-outs in seconds, and maximum numbers.

    ``max_lost_workers``: how many workers a compaction may lose before it counts as failed. ``history``: number of ended
    compactions of each state that a table or partition keeps.
    """

    txn_timeout: float
    max_open_txns: int
    max_open_batch: int
    worker_timeout: float
    pool_timeout: float
    history_timeout: float
    commits_retention: float
    history: Mapping[str, int]
    # no setting: Hive has no such limit (CompactionTxnHandler.revokeTimedoutWorkers always queues the job again)
    max_lost_workers: int = 3

    @property
    def silence(self) -> float:
        """Return for how many seconds a call waits for a byte from the server.

        A heartbeat that meets a silent server is sent at half of the time-out; two more can follow before the transaction
        expires. One second more or less is no reason to give a server up.
        """
        return min(_LONGEST_SILENCE, max(_SHORTEST_SILENCE, self.txn_timeout / 5))

    @classmethod
    def of(cls, settings: Settings) -> Limits:
        """Read the limits from a session's settings."""
        history: dict[str, int] = {
            CompactionState.SUCCEEDED: settings.get(setting_definitions.HISTORY_SUCCEEDED),
            # or the initiator could not count them (CompactionTxnHandler.getFailedCompactionRetention)
            CompactionState.FAILED: max(
                settings.get(setting_definitions.HISTORY_FAILED),
                settings.get(setting_definitions.FAILED_COMPACTS_THRESHOLD),
            ),
            CompactionState.DID_NOT_INITIATE: settings.get(setting_definitions.HISTORY_DID_NOT_INITIATE),
            CompactionState.REFUSED: settings.get(setting_definitions.HISTORY_REFUSED),
            CompactionState.ABORTED: 3,
        }
        return cls(
            txn_timeout=settings.get(setting_definitions.TXN_TIMEOUT),
            max_open_txns=settings.get(setting_definitions.MAX_OPEN_TXNS),
            max_open_batch=settings.get(setting_definitions.TXN_MAX_OPEN_BATCH),
            worker_timeout=settings.get(setting_definitions.WORKER_TIMEOUT),
            pool_timeout=settings.get(setting_definitions.WORKER_POOL_TIMEOUT),
            history_timeout=settings.get(setting_definitions.HISTORY_TIMEOUT),
            commits_retention=settings.get(setting_definitions.COMMITS_RETENTION),
            history=MappingProxyType(history),
        )


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
