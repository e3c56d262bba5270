"""The SQL store: the verbs of the ports, each in its own module, over one database."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from hiveacid.config import Settings
from hiveacid.core.commits import Commit, Told
from hiveacid.core.locks import LockComponent
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
from hiveacid.ports import (
    Begun,
    CatalogChanges,
    Client,
    Clock,
    HeartbeatAnswer,
    LockAnswer,
    LockRow,
    Start,
    TransactionRow,
    TxnKind,
    Written,
)
from hiveacid.stores.clock import SystemClock
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql import (
    abort_txns,
    begin_txn,
    catalog,
    changed_places,
    commit_txn,
    commits,
    compaction_queue,
    heartbeat,
    housekeeping,
    lock,
    open_txns,
    services,
    show,
    snapshots,
    streams,
    views,
    write_ids,
)
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.migrations import migrate

_NO_CHANGES, _NOTHING = CatalogChanges(), Start()


class SqlStore:
    """Implements :class:`hiveacid.ports.TransactionStore` and :class:`hiveacid.ports.Catalog`.

    ``url``: ``sqlite:///path``, ``postgresql+psycopg://...`` or ``mysql+pymysql://...`` (MariaDB); the schema is made or
    brought up to date. ``txn_timeout`` (seconds) stands above that of ``limits``. ``clock`` is the time of an
    embedded store; a server has its own, unless ``own_time`` is False. Raises ConfigError for an impossible
    URL, StoreUnavailableError, StoreVersionError. Every verb may raise StoreError and its kinds.
    """

    def __init__(
        self,
        url: str,
        *,
        txn_timeout: float | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        own_time: bool | None = None,
    ) -> None:
        self._limits = limits or Limits()
        if txn_timeout is not None:
            self._limits = replace(self._limits, txn_timeout=txn_timeout)
        self._database = Database(url, clock or SystemClock(), own_time=own_time)
        try:
            migrate(self._database)
        except BaseException:
            self._database.close()
            raise
        self._database.settle_in()

    def __repr__(self) -> str:
        """Return the URL without its password."""
        return f"SqlStore({str(self._database)!r})"

    def obey(self, settings: Settings) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        self._limits = Limits.of(settings)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    # --- hiveacid.ports.TransactionStore -----------------------------------------------------------
    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return open_txns.open_txns(self._database, self._limits, client, count, kind)

    def begin_txn(self, client: Client, start: Start = _NOTHING, kind: TxnKind = TxnKind.DEFAULT) -> Begun:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return begin_txn.begin_txn(self._database, self._limits, client, start, kind)

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return snapshots.take_snapshot(self._database, txn_id)

    def valid_txns(self) -> ValidTxnList:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return snapshots.valid_txns(self._database)

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return write_ids.valid_write_ids(self._database, txns, tables)

    def reads(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Do nothing: the cleaner asks for open transactions."""

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return write_ids.allocate_write_ids(self._database, txn_ids, table)

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        write_ids.seed_write_ids(self._database, table, high_watermark, aborted)

    def seed_txns(self, high_watermark: TxnId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        open_txns.seed_txns(self._database, high_watermark)

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return lock.lock(self._database, txn_id, components, zero_wait=zero_wait)

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return lock.check_lock(self._database, lock_id)

    def unlock(self, lock_id: LockId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        lock.unlock(self._database, lock_id)

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        commit_txn.add_written(self._database, txn_id, written)

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return heartbeat.heartbeat(self._database, txn_ids)

    def txn_timeout(self) -> float | None:
        """See :class:`hiveacid.ports.TransactionStore`: whoever looks goes by its own setting."""
        return None

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = _NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        told: Sequence[Told] = (),
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        commit_txn.commit_txn(self._database, txn_id, changes, written, batch, told)

    def commits(self, table: TableName, after: int | None = None) -> tuple[Commit, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return commits.known(self._database, table, after)

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return streams.register_stream(self._database, stream, writer, checkpoint, restart=restart)

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return streams.stream_progress(self._database, stream)

    def abort_txns(self, txn_ids: Sequence[TxnId], reason: str) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return abort_txns.abort_txns(self._database, txn_ids, reason)

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return abort_txns.abort_timed_out(self._database, self._limits)

    def min_open_txn_id(self) -> TxnId:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return snapshots.min_open_txn_id(self._database)

    def txn_state(self, txn_id: TxnId) -> str:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return snapshots.txn_state(self._database, txn_id)

    def aborted_write_ids(self, table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return abort_txns.aborted_write_ids(self._database, table)

    def forget_aborted(self, table: TableName, partition: str | None, up_to: WriteId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        abort_txns.forget_aborted(self._database, table, partition, up_to)

    def housekeep(self) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        housekeeping.housekeep(self._database, self._limits)

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return show.show_transactions(self._database)

    def show_locks(self) -> tuple[LockRow, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return show.show_locks(self._database)

    def now(self) -> int:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return show.now(self._database)

    def require_jobs(self) -> None:
        """Do nothing: jobs are for whoever claims them."""

    def upkeep_is_ours(self) -> bool:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return True

    def changed_places(self, since: int = 0) -> tuple[ChangedPlace, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return changed_places.changed_places(self._database, since)

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return compaction_queue.enqueue_compaction(self._database, request, initiator)

    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return compaction_queue.decline_compaction(self._database, request, initiator, error)

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return compaction_queue.claim_compaction(self._database, self._limits, worker, compaction_id, pool)

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        compaction_queue.start_compaction(self._database, compaction_id, txn_id, high_watermark, worker)

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        compaction_queue.note_compaction(self._database, compaction_id, details)

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        compaction_queue.release_compaction(self._database, compaction_id, worker)

    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        next_txn_id: TxnId | None = None,
        worker: str | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        compaction_queue.end_compaction(self._database, compaction_id, state, error, next_txn_id, worker)

    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return compaction_queue.ready_to_clean(self._database, delay)

    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        compaction_queue.retry_cleaning(self._database, compaction_id, error, wait)

    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return compaction_queue.show_compactions(self._database)

    def announce_service(self, service: Service) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        services.announce_service(self._database, service)

    def withdraw_service(self, name: str) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        services.withdraw_service(self._database, name)

    def show_services(self, within: float) -> tuple[Service, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return services.show_services(self._database, within)

    # --- hiveacid.ports.Catalog --------------------------------------------------------------------
    def create_database(self, database: DatabaseDefinition) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.create_database(self._database, database)

    def drop_database(self, name: str) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.drop_database(self._database, name)

    def get_database(self, name: str) -> DatabaseDefinition | None:
        """See :class:`hiveacid.ports.Catalog`."""
        return catalog.get_database(self._database, name)

    def list_databases(self) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.Catalog`."""
        return catalog.list_databases(self._database)

    def create_table(self, table: TableDefinition) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.create_table(self._database, table)

    def drop_table(self, name: TableName) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.drop_table(self._database, name)

    def get_table(self, name: TableName) -> TableDefinition | None:
        """See :class:`hiveacid.ports.Catalog`."""
        return catalog.get_table(self._database, name)

    def list_tables(self, database: str) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.Catalog`."""
        return catalog.list_tables(self._database, database)

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """See :class:`hiveacid.ports.Catalog`."""
        return views.get_view(self._database, name)

    def list_views(self, database: str) -> tuple[str, ...]:
        """See :class:`hiveacid.ports.Catalog`."""
        return views.list_views(self._database, database)

    def create_view(self, view: ViewDefinition) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        views.create_view(self._database, view)

    def alter_view(self, name: TableName, view: ViewDefinition) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        views.alter_view(self._database, name, view)

    def drop_view(self, name: TableName) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        views.drop_view(self._database, name)

    def alter_table(self, name: TableName, table: TableDefinition) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.alter_table(self._database, name, table)

    def add_partitions(self, name: TableName, partitions: Sequence[Partition]) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.add_partitions(self._database, name, partitions)

    def drop_partitions(self, name: TableName, partitions: Sequence[Partition]) -> None:
        """See :class:`hiveacid.ports.Catalog`."""
        catalog.drop_partitions(self._database, name, partitions)

    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """See :class:`hiveacid.ports.Catalog`."""
        return catalog.list_partitions(self._database, name)
