"""Ports for transactions, their write ids and their locks, with the argument and result values."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import LockId, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import OWN_PREFIX
from hiveacid.core.transactions.commit_records import CommitRecord, StreamBatch, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges


class SnapshotSource(Protocol):
    """A store that gives the current snapshot and translates it into write-id lists."""

    def valid_txns(self) -> ValidTxnList:
        """Return the current snapshot, as `TransactionPort`."""

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See `WriteIdPort`."""


def current_write_ids_of(store: SnapshotSource, table: TableName) -> ValidWriteIdList:
    """Return the valid write-id list of a table at this moment."""
    return store.valid_write_ids(store.valid_txns(), [table])[table]


class WriteIdPort(Protocol):
    """Write ids of tables: allocation, valid write-id lists, ids of aborted transactions."""

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """Translate a snapshot into one write-id list a table (``get_valid_write_ids``)."""

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Record the lists that an open transaction reads, for stores whose cleaner waits for them (Hive 4.1)."""

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """Allocate each open transaction its write id for the table: gapless and ascending; a repeated call returns the same."""

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """Make ``high_watermark + 1`` the next write id of an adopted table without write ids; mark ``aborted`` ones as such."""

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:
        """Restart write ids at 1 before a table of this name is created.

        Some are left by a CREATE TABLE AS SELECT that failed, and in some stores by DROP TABLE.
        On a Hive 4 metastore the adapter creates and drops a stand-in table (`is_stand_in`). ``mark`` is a property of the
        stand-in, by which a later call recognises an interrupted one.
        """

    def ended_up_to(self, table: TableName) -> WriteId:
        """Return the write id up to which every writer has ended.

        Partitions that are recorded after the call have a higher `Partition.min_write_id`; those before it are listed.
        """

    def aborted_write_ids(self, table: TableName, *, may_come: bool = False) -> tuple[WriteId, ...]:
        """Return the table's write ids of aborted transactions whose files are not cleaned yet.

        ``may_come``: only those whose writer may still publish files, because it has not stopped as far as the store knows.
        """


STAND_IN_PREFIX = OWN_PREFIX
"""Directory name prefix of the stand-in tables of :meth:`WriteIdPort.restart_write_ids`."""


def is_stand_in(table: TableDefinition) -> bool:
    """Tell whether a table is a stand-in that an interrupted :meth:`WriteIdPort.restart_write_ids` left."""
    return table.location.rpartition("/")[2].startswith(STAND_IN_PREFIX)


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

    lock_id: str  # Hive's id: number of the request, a dot, number of the component
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


class TxnKind(StrEnum):
    """Kind of a transaction (those of Hive's TxnType that hiveacid opens)."""

    DEFAULT = "default"
    READ_ONLY = "read_only"
    COMPACTION = "compaction"


class Operation(StrEnum):
    """Operation on a table or partition, as the store records it (Hive's ``OpertaionType``, spelt so)."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


class Remains(StrEnum):
    """Remains of a transaction on disk, as its owner knows them when it aborts it."""

    UNKNOWN = "unknown"  # another client aborts it, or its writer may still be at work
    FILES = "files"  # its writer has stopped; there may be files
    NOTHING = "nothing"  # it has made no directory and will make none


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
    """A partition (None: the unpartitioned table) that a transaction wrote, and the operation, from which stores detect conflicts.

    ``rows``: by how many rows it grew, for the row counts of a metastore; None: unknown. ``replaced``: these are all
    its rows. Writes that differ only in these two are equal.
    """

    table: TableName
    partition: str | None  # Hive's name, 'p=1/q=2', values escaped
    operation: Operation
    rows: int | None = field(default=None, compare=False)
    replaced: bool = field(default=False, compare=False)


@dataclass(frozen=True)
class Start:
    """Requests of a transaction's first statement, sent together with its opening.

    ``locks``: components of one lock request. ``tables``: tables whose valid write-id lists are needed. ``writes``:
    tables that need a write id.
    """

    locks: tuple[LockComponent, ...] = ()
    tables: tuple[TableName, ...] = ()
    writes: tuple[TableName, ...] = ()


SNAPSHOT_ONLY = Start()
"""A start without locks, for a read that needs only its snapshot."""


@dataclass(frozen=True)
class Begun:
    """An opened transaction and the parts of its `Start` that the store granted.

    ``lock``: None if no lock was requested. While the lock waits, of the other fields only ``before`` is set. It holds
    the write-id lists from before the wait, if the store checks conflicts from that moment on.
    """

    txn_id: TxnId
    lock: LockAnswer | None = None
    snapshot: ValidTxnList | None = None
    write_ids: Mapping[TableName, ValidWriteIdList] = field(default_factory=dict)
    allocated: Mapping[TableName, WriteId] = field(default_factory=dict)
    before: Mapping[TableName, ValidWriteIdList] = field(default_factory=dict)


@dataclass(frozen=True)
class TransactionRow:
    """One row of SHOW TRANSACTIONS: an open or aborted transaction."""

    txn_id: TxnId
    state: str  # OPEN | ABORTED
    started: int  # milliseconds since the epoch
    last_heartbeat: int
    user: str
    host: str
    # ms without a heartbeat after which it is aborted; None: the server's own setting
    timeout: int | None = None
    # of an aborted one: the code of its reason (50003: a write conflict), and when it ended; None: unknown to the store
    code: str | None = field(default=None, compare=False)
    ended: int | None = field(default=None, compare=False)


class TransactionPort(Protocol):
    """Transactions: open, heartbeat, commit, abort (the transaction half of Hive's ``TxnHandler``)."""

    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """Open ``count`` transactions; return their ids in ascending order."""

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """Open a transaction and carry out the requests of ``start``, in one call: everything or nothing.

        The effect is that of ``open_txns``, ``lock``, ``take_snapshot``, ``valid_write_ids`` and ``allocate_write_ids``. If
        the lock has to wait, the call returns after the lock request.
        """

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """Return the snapshot of an open transaction; the transaction itself counts as open.

        The store records the moment: a later commit of ``txn_id`` conflicts with updates and deletes committed after
        that moment. Raises TransactionAbortedError or NoSuchTransactionError.
        """

    def valid_txns(self) -> ValidTxnList:
        """Return the current snapshot without opening a transaction (for inspection and the cleaner)."""

    def seed_txns(self, high_watermark: TxnId) -> None:
        """Make every later transaction id higher than ``high_watermark``, the highest id in another engine's file names."""

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Record what a transaction wrote (``TXN_COMPONENTS``, ``add_dynamic_partitions``) before it commits."""

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """Record that the transactions are alive; return those that are no longer open."""

    def txn_timeout(self) -> float | None:
        """Return the store's time-out for transactions without heartbeats (seconds); None if each client's setting counts."""

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        """Commit, atomically with ``changes``. Committing a committed transaction again changes nothing.

        A commit conflicts, inserts included, with an overwrite (``Written.replaced``) of one of its partitions that
        committed after its snapshot with a higher write id: no reader would see its rows. (A metastore does not know.)

        ``written``: partitions written that ``add_written`` has not recorded yet. ``batch``: the batch of a stream whose
        progress is committed with it. ``operations``: summaries for ``commits``; every write id gets a record there.

        Raises WriteConflictError, StreamReplayedError, StreamFencedError (and the transaction is aborted then),
        TransactionAbortedError, NoSuchTransactionError.
        """

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        """Abort the open ones among ``txn_ids`` and return those; unknown and ended ones stay as they are.

        The owner may tell ``remains`` of transactions that others have aborted, too. Write ids of transactions that leave
        nothing are forgotten at once.
        """

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Abort and return transactions without a heartbeat for the ``hive.txn.timeout`` that they were opened with.

        Their compactions are queued again; a compaction that has lost three workers fails.
        """

    def commits(self, table: TableName, after: int | None = None) -> tuple[CommitRecord, ...]:
        """Return the earliest known commit and all commits later than ``after`` (None: all), by time.

        A table's history begins with a record of write id 0: its creation, its conversion, or the time since which the
        store keeps commits. ``housekeep`` drops commits older than ``hiveacid.commits.retention``, except the last one.
        Raises UnsupportedFeatureError if the store keeps no commits.
        """

    def min_open_txn_id(self) -> TxnId:
        """Return the lowest open transaction id; if none is open, the id of the next transaction."""

    def last_txn_id(self) -> TxnId:
        """Return the highest transaction id, after waiting for transactions that are just being opened.

        All transactions with a higher id see every commit until this call.
        """

    def txn_state(self, txn_id: TxnId) -> str:
        """Return open, committed, aborted or unknown."""

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """List open and aborted transactions by id."""
