"""The seam between decisions and the world: what stores, catalogs, file systems and clocks must offer.

Every adapter of :class:`TransactionStore` passes ``hiveacid.testing.contracts``. Times are ms since the epoch.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from hiveacid.config import Settings
from hiveacid.core.commits import Commit, NewFiles, Told
from hiveacid.core.locks import LockComponent, LockState
from hiveacid.core.model import (
    DatabaseDefinition,
    LockId,
    Partition,
    TableDefinition,
    TableName,
    TxnId,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.queue import DEFAULT_POOL, ChangedPlace, Compaction, CompactionRequest, Service
from hiveacid.core.streams import StreamBatch, StreamKey, StreamProgress
from hiveacid.core.write_ids import ValidTxnList, ValidWriteIdList


class TxnKind(StrEnum):
    """Why a transaction was opened (Hive's TxnType, as far as we open them)."""

    DEFAULT = "default"
    READ_ONLY = "read_only"
    COMPACTION = "compaction"


class Operation(StrEnum):
    """What a write does to a table or partition, as the store records it (Hive's OpertaionType)."""

    INSERT = "i"
    UPDATE = "u"
    DELETE = "d"


@dataclass(frozen=True)
class Client:
    """Who opens transactions: shown by SHOW TRANSACTIONS and SHOW LOCKS."""

    user: str
    host: str
    agent: str


@dataclass(frozen=True)
class LockAnswer:
    """A lock request's id and whether it is acquired, waiting, or (zero wait) not acquired."""

    lock_id: LockId
    state: LockState
    blocked_by: str | None = None  # text naming the lock waited for
    allocated: Mapping[TableName, WriteId] = field(
        default_factory=dict, compare=False
    )  # before it was queued


@dataclass(frozen=True)
class HeartbeatAnswer:
    """Transactions of a heartbeat that are no longer open."""

    aborted: tuple[TxnId, ...] = ()
    missing: tuple[TxnId, ...] = ()


@dataclass(frozen=True)
class NewPartition:
    """A partition that becomes visible with its transaction's commit."""

    table: TableName
    partition: Partition


@dataclass(frozen=True)
class CatalogChanges:
    """Catalog rows that appear atomically with a commit (dynamic partitions, a CTAS table).

    ``altered``: new definitions. ``skipped``: write ids that a conversion passes over. ``files``: for others to hear of.
    """

    tables: tuple[TableDefinition, ...] = ()
    partitions: tuple[NewPartition, ...] = ()
    altered: tuple[TableDefinition, ...] = ()
    skipped: tuple[tuple[TableName, int], ...] = ()
    files: tuple[NewFiles, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class Written:
    """A partition (None: the unpartitioned table) that a transaction wrote, and how: feeds conflict detection."""

    table: TableName
    partition: str | None  # Hive's name, 'p=1/q=2', values escaped
    operation: Operation


@dataclass(frozen=True)
class Start:
    """What a statement needs before it can read and write.

    ``locks``: one request; ``tables``: whose valid write ids are wanted; ``writes``: those that need a write id.
    """

    locks: tuple[LockComponent, ...] = ()
    tables: tuple[TableName, ...] = ()
    writes: tuple[TableName, ...] = ()


@dataclass(frozen=True)
class Begun:
    """A transaction that was opened, as far as its start came.

    ``lock``: None if none was asked for. While it waits there are only lists ``before`` it, if conflicts count from then.
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


class TransactionStore(Protocol):
    """Hive's transaction manager (``TxnHandler``), verb by verb. No adapter trusts its own memory."""

    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """Open ``count`` transactions, ids ascending."""

    def begin_txn(self, client: Client, start: Start = Start(), kind: TxnKind = TxnKind.DEFAULT) -> Begun:
        """Open a transaction with all that its first statement needs: everything or nothing, in one call.

        As ``open_txns``, ``lock``, ``take_snapshot``, ``valid_write_ids``, ``allocate_write_ids``, up to a lock that waits.
        """

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """Return who is committed now as seen by an open transaction (itself counts as open = excluded).

        Records the moment: a later commit of ``txn_id`` conflicts with updates and deletes that were
        committed after it. Raises TransactionAbortedError or NoSuchTransactionError.
        """

    def valid_txns(self) -> ValidTxnList:
        """Return who is committed now, without a transaction (inspection, cleaner)."""

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """Translate a snapshot into one write-id list a table (``get_valid_write_ids``)."""

    def reads(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Say what an open transaction sees of tables, where a cleaner asks for that and not for open transactions."""

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """Give each open transaction its write id for the table: gapless, ascending, the same one if asked again."""

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """Make the next write id ``high_watermark + 1`` on a table that has none yet; mark ids as aborted (adopt)."""

    def seed_txns(self, high_watermark: TxnId) -> None:
        """Make every later transaction id higher than this one (ids that another engine left in names)."""

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """Enqueue one request for all components and check it. Locks belong to the transaction and end with it."""

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """Check a waiting request again."""

    def unlock(self, lock_id: LockId) -> None:
        """Withdraw a request (waiting, or acquired in a transaction that wrote nothing)."""

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Record what a transaction wrote (``TXN_COMPONENTS``, ``add_dynamic_partitions``) before it commits."""

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """Say that the transactions are alive."""

    def txn_timeout(self) -> float | None:
        """Return the seconds without a heartbeat after which it ends transactions; None: as its users' settings say."""

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = CatalogChanges(),
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        told: Sequence[Told] = (),
    ) -> None:
        """Commit: all or nothing with ``changes``. Idempotent for a transaction that is already committed.

        ``written``: what ``add_written`` was not told yet. ``batch``: of a stream whose progress goes with it.
        ``told``: what it did, for ``commits``; every write id has a row there, of whatever nothing is told.

        Raises WriteConflictError, StreamReplayedError, StreamFencedError (and the transaction is aborted then),
        TransactionAbortedError, NoSuchTransactionError.
        """

    def abort_txns(self, txn_ids: Sequence[TxnId], reason: str) -> tuple[TxnId, ...]:
        """Abort those that are open; return them. Unknown or ended ones are left alone."""

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Abort transactions whose last heartbeat is older than ``hive.txn.timeout``; return them.

        Compactions that ran in them are queued again; after three workers were lost they have failed.
        """

    def commits(self, table: TableName, after: int | None = None) -> tuple[Commit, ...]:
        """Return the earliest commit that is known, and all that are later than ``after`` (None: all), by time.

        A table's time begins with a row of write id 0: its creation, its conversion, or when the store began to
        keep commits. Commits older than ``hiveacid.commits.retention`` are forgotten by ``housekeep``, all but the
        last. Raises UnsupportedFeatureError where a store keeps none.
        """

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """Let a writer of a stream begin (``core.streams.registered``); again for the same writer does nothing.

        ``writer``: a text that no other run of the query has. Raises StreamFencedError, StreamCheckpointError,
        UnsupportedFeatureError where a store can't commit progress and rows at once.
        """

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """Return how far a stream has come, None for one that never began."""

    def min_open_txn_id(self) -> TxnId:
        """Return the lowest open transaction id, or the next id to be given if none is open."""

    def txn_state(self, txn_id: TxnId) -> str:
        """Return open, committed, aborted or unknown."""

    def aborted_write_ids(self, table: TableName) -> tuple[WriteId, ...]:
        """Return write ids of aborted transactions on the table that were not cleaned yet."""

    def forget_aborted(self, table: TableName, partition: str | None, up_to: WriteId) -> None:
        """Forget aborted write ids up to this one: the cleaner removed what they left (``markCleaned``)."""

    def housekeep(self) -> None:
        """Drop rows of ended transactions that nothing needs any more."""

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """List open and aborted transactions by id."""

    def show_locks(self) -> tuple[LockRow, ...]:
        """List locks by request."""

    def now(self) -> int:
        """Return the store's own time, which all its times can be compared with (ms since the epoch)."""

    def upkeep_is_ours(self) -> bool:
        """Tell whether workers and cleaners of ours do what is queued here; False: another engine's do."""

    def require_jobs(self) -> None:
        """Raise UnsupportedFeatureError where no worker of ours can ever get a job."""

    def changed_places(self, since: int = 0) -> tuple[ChangedPlace, ...]:
        """List where something was committed at or after ``since``, or aborted and not cleaned; by name."""

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """Queue a job.

        CompactionRefusedError while the place is initiated or working, or ready for cleaning after one that did as much.
        """

    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """Note that a job should be and was not queued, and why: "did not initiate"."""

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """Take the next job of the pool (or that one), atomically: initiated -> working.

        By priority, then by age; the default pool takes what waited in others for ``hive.compactor.worker.pool.timeout``.
        """

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """Record the job's transaction and high watermark; TransactionStateError as `release_compaction`."""

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """Record what a job says of its progress or result."""

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """Queue a job again: working -> initiated. TransactionStateError if it is not at work with this worker any more."""

    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        next_txn_id: TxnId | None = None,
        worker: str | None = None,
    ) -> None:
        """Move a job to ready for cleaning, refused, failed, succeeded, aborted ... (checked against ``core.states``).

        TransactionStateError also if the job is not with this worker any more.
        """

    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """List jobs ready for cleaning whose readers are all gone, lowest high watermark first.

        Neither those whose commit is younger than ``delay`` (seconds) nor those that wait for another attempt.
        """

    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """Note that cleaning after a job failed, and that it is not tried again for ``wait`` seconds."""

    def show_compactions(self) -> tuple[Compaction, ...]:
        """List queue and history by id."""

    def obey(self, settings: Settings) -> None:
        """Take time-outs and limits from these settings from now on (``hive.txn.timeout`` and the like)."""

    def close(self) -> None:
        """Give back connections; whoever goes on gets new ones."""

    def announce_service(self, service: Service) -> None:
        """Say that a service is there: at its start and again and again while it lives."""

    def withdraw_service(self, name: str) -> None:
        """Say that a service ends; one that is not there is no error."""

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services that were heard of in the last ``within`` seconds, by name."""


class Catalog(Protocol):
    """Databases, tables, partitions. Names are lower case. Definitions are whole values."""

    def create_database(self, database: DatabaseDefinition) -> None:
        """Raise AlreadyExistsError if it exists."""

    def drop_database(self, name: str) -> None:
        """Drop a database that holds neither tables nor views."""

    def get_database(self, name: str) -> DatabaseDefinition | None:
        """Return it or None."""

    def list_databases(self) -> tuple[str, ...]:
        """Names, sorted."""

    def create_table(self, table: TableDefinition) -> None:
        """Raise AlreadyExistsError or NoSuchDatabaseError; CatalogError where another table's location touches its own."""

    def drop_table(self, name: TableName) -> None:
        """Drop the definition, its partitions and all its transaction state (write ids start at 1 again)."""

    def get_table(self, name: TableName) -> TableDefinition | None:
        """Return it or None."""

    def list_tables(self, database: str) -> tuple[str, ...]:
        """Names, sorted."""

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """Return a view or None, for a table too."""

    def list_views(self, database: str) -> tuple[str, ...]:
        """Names of views, sorted."""

    def create_view(self, view: ViewDefinition) -> None:
        """Raise AlreadyExistsError (tables and views share their names) or NoSuchDatabaseError."""

    def alter_view(self, name: TableName, view: ViewDefinition) -> None:
        """Replace a view; a new name renames it. Raises NoSuchTableError, AlreadyExistsError, NoSuchDatabaseError."""

    def drop_view(self, name: TableName) -> None:
        """Raise NoSuchTableError where there is no view of that name."""

    def alter_table(self, name: TableName, table: TableDefinition) -> None:
        """Replace a definition; a new name renames it everywhere, transaction state included."""

    def add_partitions(self, name: TableName, partitions: Sequence[Partition]) -> None:
        """Add those that do not exist yet."""

    def drop_partitions(self, name: TableName, partitions: Sequence[Partition]) -> None:
        """Drop by values."""

    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """All partitions, sorted by values."""


@dataclass(frozen=True)
class FileEntry:
    """A file or directory of a listing; ``path`` is relative to the root asked for, with '/'."""

    path: str
    is_dir: bool
    size: int = 0  # bytes
    modified: int = 0  # ms


class FileSystem(Protocol):
    """What tables need of storage. Paths are absolute paths or URIs."""

    def renames_directories(self, path: str) -> bool:
        """Tell whether `move_directory` is one atomic step there; nothing else than compaction asks for it."""

    def changes_files(self, path: str) -> bool:
        """Tell whether a file there can be changed where it lies, at the price of the change; else it is written anew."""

    def list_tree(self, root: str) -> tuple[FileEntry, ...]:
        """List everything below ``root``, sorted by path, directories too, hidden names included; a missing root is MissingDirectoryError."""

    def list_directory(self, root: str) -> tuple[FileEntry, ...]:
        """List what lies in ``root`` itself, sorted by path; a missing root is MissingDirectoryError."""

    def exists(self, path: str) -> bool:
        """Tell whether a file or directory is there."""

    def make_directory(self, path: str) -> None:
        """Create a directory and its parents."""

    def read_bytes(self, path: str, start: int = 0, length: int | None = None) -> bytes:
        """Read a range of a file (negative ``start``: from its end)."""

    def write_bytes(self, path: str, data: bytes) -> None:
        """Create or replace a small file, durably."""

    def write_pieces(self, path: str, pieces: Iterable[bytes]) -> None:
        """Create or replace a file from pieces that come one after another, durably; it is there with the last one."""

    def replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """Overwrite a file from byte ``start`` on and cut it there, durably."""

    def move_file(self, source: str, target: str) -> None:
        """Move a file to its final name (parents are made; an existing target is an error)."""

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        """Copy a file, or its first ``length`` bytes, durably (parents are made; an existing target is an error)."""

    def link_file(self, source: str, target: str) -> None:
        """Give a file a second name, as `copy_file` does where the storage has no such thing; neither changes later."""

    def move_directory(self, source: str, target: str) -> None:
        """Move a directory to its final name, all at once (parents are made; an existing target is an error).

        Raises UnsupportedFeatureError where `renames_directories` is False.
        """

    def delete_tree(self, path: str) -> None:
        """Delete a file or directory with all it holds; nothing there is not an error."""

    def spark_path(self, path: str) -> str:
        """Return the path as Hadoop's ``Path`` takes it: with its scheme, nothing in it URL-encoded."""


class Clock(Protocol):
    """The time, so that tests can turn it."""

    def now(self) -> int:
        """Milliseconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait."""
