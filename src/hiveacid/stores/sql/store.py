"""The SQL store: composition root that binds each verb of the ports to its module."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from sqlalchemy import URL

from hiveacid.config import Settings
from hiveacid.core.compaction.queue import (
    DEFAULT_POOL,
    ChangedPartition,
    Compaction,
    CompactionRequest,
    Service,
)
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
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
from hiveacid.core.schema.constraints import Constraint
from hiveacid.core.transactions.commits import CommitRecord, TableOperation
from hiveacid.core.transactions.locks import LockComponent
from hiveacid.core.transactions.stream_progress import StreamBatch, StreamKey, StreamProgress
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.clock import Clock
from hiveacid.ports.locks import LockAnswer, LockRow
from hiveacid.ports.transactions import (
    SNAPSHOT_ONLY,
    Begun,
    Client,
    HeartbeatAnswer,
    Start,
    TransactionRow,
    TxnKind,
    Written,
)
from hiveacid.stores.clock import SystemClock
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql import housekeeping, services
from hiveacid.stores.sql.catalog import tables, views
from hiveacid.stores.sql.compaction import candidates, queue
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.migrations import migrate
from hiveacid.stores.sql.transactions import (
    abort_txns,
    begin_txn,
    commit_records,
    commit_txn,
    heartbeat,
    lock_queue,
    open_txns,
    show,
    snapshots,
    stream_progress,
    write_ids,
)


class SqlStore:
    """Implements :class:`hiveacid.ports.store.WarehouseStore` over one database.

    Each method passes its arguments on to the module that implements the verb, with the database and the limits of this
    store; the class itself only tracks when the client's open transactions expire.

    ``url``: ``sqlite:///path``, ``postgresql+psycopg://...`` or ``mysql+pymysql://...`` (MariaDB); the schema is created
    or upgraded. ``txn_timeout`` (seconds) overrides that of ``limits``. ``clock`` is the time of an embedded store; a
    server has its own, unless ``server_time`` is False. Raises ConfigError for an impossible URL,
    StoreUnavailableError, StoreVersionError. Every verb may raise StoreError and its kinds.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        txn_timeout: float | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        server_time: bool | None = None,
    ) -> None:
        self._limits = limits or Limits()
        if txn_timeout is not None:
            self._limits = replace(self._limits, txn_timeout=txn_timeout)
        self._clock = clock or SystemClock()
        self._database = Database(url, self._clock, server_time=server_time)
        self._lifetimes = self._database.lifetimes
        try:
            migrate(self._database)
        except BaseException:
            self._database.close()
            raise
        self._database.use_full_retries()

    def __repr__(self) -> str:
        """Return the URL without its password."""
        return f"SqlStore({str(self._database)!r})"

    def apply_settings(self, settings: Settings) -> None:
        """See :class:`hiveacid.ports.store.StoreConnection`."""
        self._limits = Limits.of(settings)

    def layout_level(self) -> str | None:
        """Return None: the settings choose the layout level."""
        return None

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    # --- hiveacid.ports.store.TransactionStore ----------------------------------------------------
    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        sent, limits = self._clock.now(), self._limits
        opened = open_txns.open_txns(self._database, limits, client, count, kind)
        self._lifetimes.opened(opened, limits.txn_timeout, sent)
        return opened

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        sent, limits = self._clock.now(), self._limits
        begun = begin_txn.begin_txn(self._database, limits, client, start, kind)
        self._lifetimes.opened([begun.txn_id], limits.txn_timeout, sent)
        return begun

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return snapshots.take_snapshot(self._database, txn_id)

    def valid_txns(self) -> ValidTxnList:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return snapshots.valid_txns(self._database)

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See :class:`hiveacid.ports.write_ids.WriteIdPort`."""
        return write_ids.valid_write_ids(self._database, txns, tables)

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Do nothing: the cleaner asks for open transactions."""

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.write_ids.WriteIdPort`."""
        return write_ids.allocate_write_ids(self._database, txn_ids, table)

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """See :class:`hiveacid.ports.write_ids.WriteIdPort`."""
        write_ids.seed_write_ids(self._database, table, high_watermark, aborted)

    def seed_txns(self, high_watermark: TxnId) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        open_txns.seed_txns(self._database, high_watermark)

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """See :class:`hiveacid.ports.locks.LockPort`."""
        return lock_queue.lock(self._database, txn_id, components, zero_wait=zero_wait)

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """See :class:`hiveacid.ports.locks.LockPort`."""
        return lock_queue.check_lock(self._database, lock_id)

    def unlock(self, lock_id: LockId) -> None:
        """See :class:`hiveacid.ports.locks.LockPort`."""
        lock_queue.unlock(self._database, lock_id)

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        commit_txn.add_written(self._database, txn_id, written)

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        sent = self._clock.now()
        answer = heartbeat.heartbeat(self._database, txn_ids)
        gone = {*answer.aborted, *answer.missing}
        self._lifetimes.beaten(set(txn_ids) - gone, sent)
        self._lifetimes.ended(gone)
        return answer

    def txn_timeout(self) -> float | None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`: each transaction has the timeout of its client."""
        return None

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        commit_txn.commit_txn(self._database, txn_id, changes, written, batch, operations)
        self._lifetimes.ended([txn_id])

    def commits(self, table: TableName, after: int | None = None) -> tuple[CommitRecord, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return commit_records.list_commits(self._database, table, after)

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """See :class:`hiveacid.ports.stream_progress.StreamProgressPort`."""
        return stream_progress.register_stream(self._database, stream, writer, checkpoint, restart=restart)

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """See :class:`hiveacid.ports.stream_progress.StreamProgressPort`."""
        return stream_progress.stream_progress(self._database, stream)

    def abort_txns(self, txn_ids: Sequence[TxnId], reason: str) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        aborted = abort_txns.abort_txns(self._database, txn_ids, reason)
        self._lifetimes.ended(txn_ids)
        return aborted

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return abort_txns.abort_timed_out(self._database, self._limits)

    def min_open_txn_id(self) -> TxnId:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return snapshots.min_open_txn_id(self._database)

    def txn_state(self, txn_id: TxnId) -> str:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return snapshots.txn_state(self._database, txn_id)

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:
        """Do nothing: DROP TABLE has forgotten the write ids of its name."""

    def aborted_write_ids(self, table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.write_ids.WriteIdPort`."""
        return abort_txns.aborted_write_ids(self._database, table)

    def forget_aborted(self, table: TableName, partition: str | None, up_to: WriteId) -> None:
        """See :class:`hiveacid.ports.write_ids.WriteIdPort`."""
        abort_txns.forget_aborted(self._database, table, partition, up_to)

    def housekeep(self) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        housekeeping.housekeep(self._database, self._limits)

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        return show.show_transactions(self._database)

    def show_locks(self) -> tuple[LockRow, ...]:
        """See :class:`hiveacid.ports.locks.LockPort`."""
        return show.show_locks(self._database)

    def now(self) -> int:
        """See :class:`hiveacid.ports.store.StoreConnection`."""
        return show.store_time(self._database)

    def require_claimable_jobs(self) -> None:
        """Do nothing: every worker may claim jobs."""

    def maintained_by_hiveacid(self) -> bool:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return True

    def changed_partitions(self, since: int = 0) -> tuple[ChangedPartition, ...]:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return candidates.list_changed_partitions(self._database, since)

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue.enqueue_compaction(self._database, request, initiator)

    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue.decline_compaction(self._database, request, initiator, error)

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue.claim_compaction(self._database, self._limits, worker, compaction_id, pool)

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        queue.start_compaction(self._database, compaction_id, txn_id, high_watermark, worker)

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        queue.note_compaction(self._database, compaction_id, details)

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        queue.release_compaction(self._database, compaction_id, worker)

    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        next_txn_id: TxnId | None = None,
        worker: str | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        queue.end_compaction(self._database, compaction_id, state, error, next_txn_id, worker)

    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue.ready_to_clean(self._database, delay)

    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        queue.retry_cleaning(self._database, compaction_id, error, wait)

    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue.show_compactions(self._database)

    def announce_service(self, service: Service) -> None:
        """See :class:`hiveacid.ports.services.ServicePort`."""
        services.announce_service(self._database, service)

    def withdraw_service(self, name: str) -> None:
        """See :class:`hiveacid.ports.services.ServicePort`."""
        services.withdraw_service(self._database, name)

    def show_services(self, within: float) -> tuple[Service, ...]:
        """See :class:`hiveacid.ports.services.ServicePort`."""
        return services.show_services(self._database, within)

    # --- hiveacid.ports.catalog.Catalog --------------------------------------------------------------------
    def create_database(self, database: DatabaseDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.create_database(self._database, database)

    def drop_database(self, name: str) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.drop_database(self._database, name)

    def get_database(self, name: str) -> DatabaseDefinition | None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return tables.get_database(self._database, name)

    def list_databases(self) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return tables.list_databases(self._database)

    def create_table(self, table: TableDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.create_table(self._database, table)

    def drop_table(self, name: TableName) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.drop_table(self._database, name)

    def get_table(self, name: TableName) -> TableDefinition | None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return tables.get_table(self._database, name)

    def list_tables(self, database: str) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return tables.list_tables(self._database, database)

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return views.get_view(self._database, name)

    def list_views(self, database: str) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return views.list_views(self._database, database)

    def create_view(self, view: ViewDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        views.create_view(self._database, view)

    def alter_view(self, name: TableName, view: ViewDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        views.alter_view(self._database, name, view)

    def drop_view(self, name: TableName) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        views.drop_view(self._database, name)

    def alter_table(self, name: TableName, table: TableDefinition) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.alter_table(self._database, name, table)

    def add_partitions(self, name: TableName, partitions: Sequence[Partition]) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.add_partitions(self._database, name, partitions)

    def drop_partitions(self, name: TableName, partitions: Sequence[Partition]) -> None:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        tables.drop_partitions(self._database, name, partitions)

    def enabled_constraints(self, name: TableName) -> tuple[Constraint, ...]:  # noqa: ARG002 - the same for all
        """See :class:`hiveacid.ports.catalog.Catalog`: none, because CREATE TABLE refuses them."""
        return ()

    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """See :class:`hiveacid.ports.catalog.Catalog`."""
        return tables.list_partitions(self._database, name)
