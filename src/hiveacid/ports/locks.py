"""Port for locks, with the answer to a lock request and the rows of SHOW LOCKS."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from hiveacid.core.model import LockId, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks import LockComponent, LockState


@dataclass(frozen=True)
class LockAnswer:
    """Answer to a lock request: its id and its state (acquired, waiting; not acquired if the caller does not wait).

    ``allocated``: write ids that the store gave the transaction before it queued the request.
    """

    lock_id: LockId
    state: LockState
    blocked_by: str | None = None  # text naming the lock waited for
    allocated: Mapping[TableName, WriteId] = field(default_factory=dict, compare=False)


@dataclass(frozen=True)
class LockRow:
    """One row of SHOW LOCKS."""

    lock_id: str  # ext.int
    database: str
    table: str | None
    partition: str | None
    state: str  # ACQUIRED | WAITING
    blocked_by: str | None
    type: str  # SHARED_READ | SHARED_WRITE | EXCL_WRITE | EXCLUSIVE
    txn_id: TxnId | None
    last_heartbeat: int
    acquired_at: int | None
    user: str
    host: str
    agent: str


class LockPort(Protocol):
    """Locks of transactions on databases, tables and partitions, in one queue per store."""

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """Enqueue one request for all components and check it. Locks belong to the transaction and end with it."""

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """Check a waiting request again."""

    def unlock(self, lock_id: LockId) -> None:
        """Withdraw a request (waiting, or acquired in a transaction that wrote nothing)."""

    def show_locks(self) -> tuple[LockRow, ...]:
        """List locks by request."""
