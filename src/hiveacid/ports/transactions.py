"""Port for transactions, with its argument and result values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commits import CommitRecord, TableOperation
from hiveacid.core.transactions.locks import LockComponent
from hiveacid.core.transactions.stream_progress import StreamBatch
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.locks import LockAnswer


class TxnKind(StrEnum):
    """Kind of a transaction (those of Hive's TxnType that hiveacid opens)."""

    DEFAULT = "default"
    READ_ONLY = "read_only"
    COMPACTION = "compaction"


class Operation(StrEnum):
    """Operation on a table or partition, as the store records it (Hive's OpertaionType)."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


@dataclass(frozen=True)
class Client:
    """Client that opens transactions, as SHOW TRANSACTIONS and SHOW LOCKS print it."""

    user: str
    host: str
    agent: str


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Transactions of a heartbeat that are no longer open."""

    aborted: tuple[TxnId, ...] = ()
    missing: tuple[TxnId, ...] = ()


@dataclass(frozen=True)
class Written:
    """A partition (None: the unpartitioned table) that a transaction wrote, and how: feeds conflict detection."""

    table: TableName
    partition: str | None  # Hive's name, 'p=1/q=2', values escaped
    operation: Operation


@dataclass(frozen=True)
class Start:
    """Needs of a transaction's first statement.

    ``locks``: one request; ``tables``: whose valid write ids are wanted; ``writes``: those that need a write id.
    """

    locks: tuple[LockComponent, ...] = ()
    tables: tuple[TableName, ...] = ()
    writes: tuple[TableName, ...] = ()


SNAPSHOT_ONLY = Start()
"""A start without locks: a statement of reads that needs its snapshot alone."""


@dataclass(frozen=True)
class Begun:
    """A transaction that was opened, with as much of its start as was granted.

    ``lock``: None if none was asked for. While the lock waits, only ``before`` is filled: lists from before the wait,
    where conflicts count from then.
    """

    txn_id: TxnId
    lock: LockAnswer | None = None
    snapshot: ValidTxnList | None = None
    write_ids: Mapping[TableName, ValidWriteIdList] = field(default_factory=dict)
    allocated: Mapping[TableName, WriteId] = field(default_factory=dict)
    before: Mapping[TableName, ValidWriteIdList] = field(default_factory=dict)


@dataclass(frozen=True)
class TransactionRow:
    """One row of SHOW TRANSACTIONS (open and aborted ones)."""

    txn_id: TxnId
    state: str  # OPEN | ABORTED
    started: int
    last_heartbeat: int
    user: str
    host: str
    timeout: int | None = (
        None  # ms without a heartbeat after which it is aborted; None: the server's own setting
    )


class TransactionPort(Protocol):
    """Transactions: open, heartbeat, commit, abort (the transaction half of Hive's ``TxnHandler``)."""

    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """Open ``count`` transactions, ids ascending."""

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """Open a transaction with all that its first statement needs: everything or nothing, in one call.

        Equals ``open_txns``, ``lock``, ``take_snapshot``, ``valid_write_ids`` and ``allocate_write_ids``. It stops after a
        lock that has to wait.
        """

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """Return the snapshot of an open transaction; the transaction itself counts as open.

        Records the moment: a later commit of ``txn_id`` conflicts with updates and deletes that were
        committed after it. Raises TransactionAbortedError or NoSuchTransactionError.
        """

    def valid_txns(self) -> ValidTxnList:
        """Return the present snapshot, without a transaction (inspection, cleaner)."""

    def seed_txns(self, high_watermark: TxnId) -> None:
        """Make every later transaction id higher than this one (ids that another engine left in names)."""

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Record what a transaction wrote (``TXN_COMPONENTS``, ``add_dynamic_partitions``) before it commits."""

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """Record that the transactions are alive; return those that are no longer open."""

    def txn_timeout(self) -> float | None:
        """Return the store's own time-out of silent transactions (seconds); None where each client's setting counts."""

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        """Commit: all or nothing with ``changes``. Idempotent for a transaction that is already committed.

        ``written``: partitions written that ``add_written`` has not recorded yet. ``batch``: the batch of a stream whose
        progress is committed with it. ``operations``: summaries for ``commits``; every write id gets a record there.

        Raises WriteConflictError, StreamReplayedError, StreamFencedError (and the transaction is aborted then),
        TransactionAbortedError, NoSuchTransactionError.
        """

    def abort_txns(self, txn_ids: Sequence[TxnId], reason: str) -> tuple[TxnId, ...]:
        """Abort those that are open; return them. Unknown or ended ones are left alone."""

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Abort transactions without a heartbeat for the ``hive.txn.timeout`` that they were opened with; return them.

        Their compactions are queued again, or have failed after three lost workers.
        """

    def commits(self, table: TableName, after: int | None = None) -> tuple[CommitRecord, ...]:
        """Return the earliest commit that is known, and all that are later than ``after`` (None: all), by time.

        A table's history begins with a record of write id 0: its creation, its conversion, or when the store began to
        keep commits. ``housekeep`` drops commits older than ``hiveacid.commits.retention``, all but the last. Raises
        UnsupportedFeatureError where a store keeps none.
        """

    def min_open_txn_id(self) -> TxnId:
        """Return the lowest open transaction id, or the next id to be given if none is open."""

    def txn_state(self, txn_id: TxnId) -> str:
        """Return open, committed, aborted or unknown."""

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """List open and aborted transactions by id."""

    def housekeep(self) -> None:
        """Drop rows of ended transactions that nothing needs any more."""
