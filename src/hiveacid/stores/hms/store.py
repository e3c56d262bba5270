"""`MetastoreStore`: the methods of all ports over one client of a Hive Metastore."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from hiveacid import errors
from hiveacid.config import Settings, setting_definitions
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import LockId, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import CommitRecord, StreamBatch, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import (
    CONFLICTING_OPERATIONS,
    LockComponent,
    LockState,
    LockType,
)
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.clock import Clock, SystemClock
from hiveacid.ports.transactions import (
    SNAPSHOT_ONLY,
    Begun,
    Client,
    LockAnswer,
    Remains,
    Start,
    TxnKind,
    Written,
)
from hiveacid.stores import refusals
from hiveacid.stores.hms import commit_steps, protocol, transactions
from hiveacid.stores.hms.catalog import MetastoreCatalog
from hiveacid.stores.hms.client import MetastoreClient, retry_lost_answer
from hiveacid.stores.hms.commit_steps import CountedWrites, counted_writes
from hiveacid.stores.hms.compaction_queue import MetastoreCompactionQueue
from hiveacid.stores.hms.definitions import plain_partition, plain_table
from hiveacid.stores.hms.locks import OPERATIONS, MetastoreLocks
from hiveacid.stores.hms.metastores import capabilities_of, parse_metastore_url
from hiveacid.stores.hms.thrift_structs import ThriftStruct
from hiveacid.stores.hms.transactions import MetastoreTransactions, abort_txns, commit_txn
from hiveacid.stores.limits import Limits

logger = logging.getLogger(__name__)

_STRENGTH = {"i": 0, "d": 1, "u": 2}
_PartitionKey = tuple[TableName, str | None]


class MetastoreStore(MetastoreTransactions, MetastoreLocks, MetastoreCompactionQueue, MetastoreCatalog):
    """Implements :class:`hiveacid.ports.store.WarehouseStore` over a Hive Metastore.

    ``url``: ``thrift://host:9083[,host2]``. Verbs that a metastore has no call for raise UnsupportedFeatureError.
    Each base class has the verbs of one module. Raises ConfigError, StoreUnavailableError,
    StoreVersionError; every verb may raise StoreError and its kinds.
    """

    def __init__(
        self, url: str, *, limits: Limits | None = None, clock: Clock | None = None, owner: str = "hiveacid"
    ) -> None:
        own_clock = clock or SystemClock()
        client = MetastoreClient(parse_metastore_url(url), own_clock)
        try:
            capabilities = capabilities_of(client.call("getVersion") or "")
        except BaseException:
            client.close()
            raise
        super().__init__(client, capabilities, own_clock, owner)
        self._limits = limits or Limits.of(Settings())
        self._own_timeout = None
        self._dml_events = setting_definitions.DML_EVENTS.default
        self._listeners_configured: bool | None = None
        self._txn_client = Client(owner, "localhost", "hiveacid")
        self._guard = threading.Lock()
        self._counting = threading.Lock()
        self._running_jobs, self._claimed = {}, {}
        # Writes that the metastore has recorded already, so that they are not sent again.
        self._recorded_writes: dict[TxnId, dict[_PartitionKey, str]] = {}
        self._plain_tables: dict[TxnId, set[TableName]] = {}  # plain tables that a transaction writes to
        self._uncounted: dict[LockId, list[TableName]] = {}  # plain tables of a request that waits

    def __repr__(self) -> str:
        """Return the URL."""
        return f"MetastoreStore({str(self.client)!r})"

    def apply_settings(self, settings: Settings) -> None:
        """Apply limits from settings; time-outs are the metastore's own."""
        self._limits = Limits.of(settings)
        self._dml_events = settings.get(setting_definitions.DML_EVENTS)

    def maintained_by_hiveacid(self) -> bool:
        """Return False: Hive's initiator and cleaner maintain the tables."""
        return False

    def layout_level(self) -> str:
        """Return the layout level that the metastore's version of Hive reads."""
        return self.capabilities.layout

    def close(self) -> None:
        """Close the connections."""
        self.client.close()

    # --- hiveacid.ports.transactions ----------------------------------------------------------------
    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """See :class:`hiveacid.ports.transactions.TransactionPort`. One call per step; a failure in between aborts."""
        refusals.start(start, kind)
        (txn_id,) = self.open_txns(client, 1, kind)
        try:
            answer = self.lock(txn_id, start.locks) if start.locks else None
            if answer is not None and answer.state is LockState.WAITING:
                changing = any(lock.operation in CONFLICTING_OPERATIONS for lock in start.locks)
                if not (changing and start.tables):
                    return Begun(txn_id, answer)
                return Begun(txn_id, answer, before=self.valid_write_ids(self.valid_txns(), start.tables))
            snapshot = self.take_snapshot(txn_id)
            lists = dict(self.valid_write_ids(snapshot, start.tables)) if start.tables else {}
            self.record_read_write_ids(txn_id, list(lists.values()))
            allocated = {table: self.allocate_write_ids([txn_id], table)[0] for table in start.writes}
        except BaseException:
            self.abort_txns([txn_id], "it could not begin")
            raise
        own_lists = {
            name: _without_own_id(lists[name], own_id) for name, own_id in allocated.items() if name in lists
        }
        return Begun(txn_id, answer, snapshot, lists | own_lists, allocated)

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`. Raises UnsupportedFeatureError for too many ids."""
        transactions.seed_write_ids(self, self._txn_client, table, high_watermark, aborted)

    def seed_txns(self, high_watermark: TxnId) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`; UnsupportedFeatureError with a metastore of Hive 3."""
        transactions.seed_txns(self, self._txn_client, high_watermark)

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """See :class:`hiveacid.ports.transactions.LockPort`; write ids come first, as Hive does it."""
        refusals.components(components)
        tables: dict[TableName, TableDefinition | None] = {}
        allocated: dict[TableName, WriteId] = {}
        for component in components:
            if component.operation is not None and component.table is not None:
                name = TableName(component.database, component.table)
                if name not in tables:
                    tables[name] = self._prepare_write(txn_id, name, allocated)
        answer = self._queue_request(txn_id, components, tables.get)
        self._remember_writes(txn_id, components, tables)
        if zero_wait and answer.state is LockState.WAITING:
            self.unlock(answer.lock_id)
            return LockAnswer(answer.lock_id, LockState.NOT_ACQUIRED, answer.blocked_by)
        if plain := [name for name in tables if name not in allocated]:
            self._uncounted[answer.lock_id] = plain
        return replace(self._with_counts_forgotten(answer), allocated=allocated)

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """See :class:`hiveacid.ports.transactions.LockPort`."""
        return self._with_counts_forgotten(super().check_lock(lock_id))

    def _with_counts_forgotten(self, answer: LockAnswer) -> LockAnswer:
        """Take the counts off plain tables once their lock is granted: without it, ALTER TABLE may be changing the definition."""
        for name in self._uncounted.pop(answer.lock_id, ()) if answer.state is LockState.ACQUIRED else ():
            retry_lost_answer(partial(self.forget_statistics, name))
        return answer

    def _prepare_write(
        self, txn_id: TxnId, name: TableName, allocated: dict[TableName, WriteId]
    ) -> TableDefinition | None:
        table = self.get_table(name)
        if table is not None and table.kind is TableKind.PLAIN:
            with self._guard:
                self._plain_tables.setdefault(txn_id, set()).add(name)
        else:
            (allocated[name],) = self.allocate_write_ids([txn_id], name)
        return table

    def _remember_writes(
        self,
        txn_id: TxnId,
        components: Sequence[LockComponent],
        tables: Mapping[TableName, TableDefinition | None],
    ) -> None:
        for component in components:
            if component.operation is None or component.table is None:
                continue
            name = TableName(component.database, component.table)
            table = tables[name]
            if component.partition is None and table is not None and table.partition_columns:
                continue  # its partitions are recorded one by one
            key = name, component.partition
            with self._guard:
                recorded = self._recorded_writes.setdefault(txn_id, {})
                recorded[key] = _stronger_operation(recorded.get(key), component.operation)

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`."""
        strongest: dict[_PartitionKey, str] = {}
        for write in refusals.written(written):
            plain_table(write.table)
            key = write.table, plain_partition(write.partition)
            strongest[key] = _stronger_operation(strongest.get(key), write.operation)
        with self._guard:
            recorded = dict(self._recorded_writes.get(txn_id, {}))
        unsent = [
            (table, operation, partition)
            for (table, partition), operation in strongest.items()
            if _stronger_operation(recorded.get((table, partition)), operation)
            != recorded.get((table, partition))
        ]
        for (table, operation), rows in groupby(
            sorted(unsent, key=lambda row: (row[0], row[1], row[2] or "")), key=lambda row: (row[0], row[1])
        ):
            names = [partition for _, _, partition in rows]
            self._send_written(
                txn_id, table, operation, [name for name in names if name is not None], whole=None in names
            )

    def _send_written(
        self, txn_id: TxnId, table: TableName, operation: str, partitions: list[str], *, whole: bool
    ) -> None:
        if partitions:
            (write_id,) = self.allocate_write_ids([txn_id], table)
            self.client.call(
                "add_dynamic_partitions",
                protocol.AddDynamicPartitions(
                    txnid=txn_id,
                    writeid=write_id,
                    dbname=table.database,
                    tablename=table.name,
                    partitionnames=partitions,
                    operationType=OPERATIONS[operation],
                ),
            )
        if whole:
            # A lock request is the only other way to record a write: it counts once queued, granted or not, and ends
            # with the commit.
            component = LockComponent(LockType.SHARED_READ, table.database, table.name, operation=operation)
            self.lock(txn_id, [component])

    def txn_timeout(self) -> float | None:
        """Return the metastore's own ``hive.txn.timeout``; None if it cannot be read. It also limits the wait for heartbeats."""
        try:
            seconds = setting_definitions.TXN_TIMEOUT.parse(
                self._setting(setting_definitions.TXN_TIMEOUT.name)
            )
        except errors.StoreUnavailableError:
            raise
        except errors.HiveAcidError:
            return None
        if seconds <= 0:
            return None
        self._own_timeout = seconds
        self.client.fast_call_timeout = min(self.client.fast_call_timeout, max(seconds / 3, 1.0))
        return seconds

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),  # noqa: ARG002 - a metastore has no place for it
    ) -> None:
        """See :class:`hiveacid.ports.transactions.TransactionPort`. New tables and partitions come just before the commit.

        As in Hive, they exist for a moment without rows. A new table is dropped if the commit fails.
        """
        refusals.changes(changes)
        if batch is not None:  # it is a row of a table (`table.write.stream_progress`)
            raise errors.UnsupportedFeatureError(f"stream {batch.stream}: a Hive Metastore keeps no progress")
        new_tables: list[TableDefinition] = []
        counted: list[CountedWrites] = []
        try:
            self._before_commit(txn_id, changes, written, new_tables, counted)
            wrote = bool(written) or bool(self._recorded_writes.get(txn_id))
            commit_txn(self.client, txn_id, wrote=wrote)
        except errors.CommitStateUnknownError:
            raise  # the new tables may be in use by now
        except errors.HiveAcidError:
            self.drop_created_tables(new_tables)
            self._take_back(counted)
            raise
        self._forget_txn(txn_id)

    def _before_commit(
        self,
        txn_id: TxnId,
        changes: CatalogChanges,
        written: Sequence[Written],
        new_tables: list[TableDefinition],
        counted: list[CountedWrites],
    ) -> None:
        """Do the steps before the commit; a lost answer here leaves no doubt about the commit itself.

        Definitions change at once. A transaction that has timed out, as in a pause of the process, has lost its locks, and
        others may have changed the same ones.
        """
        if (changes.altered or changes.tables) and txn_id not in self.valid_txns().open:
            raise refusals.not_open(txn_id, TransactionState.ABORTED)
        for table in changes.altered:
            retry_lost_answer(partial(self.alter_table, table.name, table))
        for table in changes.tables:
            self.create_locked_table(table, new_tables)
        self._add_new_partitions(txn_id, changes)
        self.add_written(txn_id, written)
        self._send_file_events(txn_id, changes)
        # as late as possible, because a concurrent ANALYZE may miss these rows
        self._change_statistics(txn_id, written, counted)
        self._mark_job_compacted(txn_id)

    def _forget_txn(self, txn_id: TxnId) -> None:
        with self._guard:
            self._recorded_writes.pop(txn_id, None)
            self._plain_tables.pop(txn_id, None)
        self._running_jobs.pop(txn_id, None)
        self.client.retry_deadlines.ended([txn_id])

    def commits(self, table: TableName, after: int | None = None) -> tuple[CommitRecord, ...]:  # noqa: ARG002
        """See :class:`hiveacid.ports.transactions.TransactionPort`. Raises UnsupportedFeatureError: none are kept."""
        raise errors.UnsupportedFeatureError(
            f"{table}: a Hive Metastore does not tell when its transactions committed: read as of a write id"
        )

    def _send_file_events(self, txn_id: TxnId, changes: CatalogChanges) -> None:
        """Send the new files to the metastore's listeners, if there are any, before the commit, as Hive does."""
        if not changes.files or not self._has_listeners():
            return
        tables = {table_files.table: self.get_table(table_files.table) for table_files in changes.files}
        new_partitions = {(new.table, new.partition.values) for new in changes.partitions}
        for table, values, files in commit_steps.group_by_partition(changes.files):
            definition = tables[table]
            if definition is None:
                continue
            if definition.kind is not TableKind.PLAIN and self.capabilities.write_notifications:
                (write_id,) = self.allocate_write_ids([txn_id], table)
                commit_steps.send_write_notification(self.client, txn_id, write_id, table, values, files)
            elif definition.kind is not TableKind.INSERT_ONLY and (table, values) not in new_partitions:
                # Of a new partition the metastore itself tells; with Hive 3 it fails for insert-only tables.
                replaced = files.replaced and definition.kind is TableKind.PLAIN
                commit_steps.send_insert_event(self.client, table, values, replace(files, replaced=replaced))

    def _has_listeners(self) -> bool:
        if self._dml_events != setting_definitions.DML_EVENTS.default:
            return self._dml_events == "true"
        if self._listeners_configured is None:
            self._listeners_configured = (
                self._setting(setting_definitions.DML_EVENTS.name).strip().lower() == "true"
            )
        return self._listeners_configured

    def _add_new_partitions(self, txn_id: TxnId, changes: CatalogChanges) -> None:
        by_table = sorted(changes.partitions, key=lambda new: new.table)
        try:
            for name, news in groupby(by_table, key=lambda new: new.table):
                retry_lost_answer(
                    # without rows as yet: those that are written are counted later
                    partial(self.add_partitions, name, [new.partition for new in news], empty=True)
                )
        except errors.WriteConflictError as error:
            self.abort_txns([txn_id], str(error))
            raise

    def _change_statistics(
        self, txn_id: TxnId, written: Sequence[Written], counted: list[CountedWrites]
    ) -> None:
        """Change row counts. Plain tables were done at the lock, but an ANALYZE may have run while it was waited for."""
        with self._guard:
            plain = sorted(self._plain_tables.get(txn_id, ()))
        for name in plain:
            retry_lost_answer(partial(self.forget_statistics, name))
        for writes in counted_writes(written):
            own_id = partial(self._own_write_id, txn_id, writes.table)
            self._count(writes, writes.apply, own_id)
            counted.append(writes)

    def _count(
        self,
        writes: CountedWrites,
        change: Callable[[ThriftStruct, str | None, WriteId | None], bool],
        own: Callable[[], WriteId] | None = None,
    ) -> None:
        partitions = sorted(name for name in writes.changes if name is not None)
        with self._counting:  # a metastore cannot add: one reads, adds and writes
            retry_lost_answer(partial(self.change_statistics, writes.table, partitions, change, own))

    def _take_back(self, counted: Sequence[CountedWrites]) -> None:
        for writes in counted:
            try:
                self._count(writes, writes.take_back)
            except errors.HiveAcidError:  # the caller reports the error before this one
                logger.warning("the row count of %s may be wrong: ANALYZE it", writes.table, exc_info=True)

    def _own_write_id(self, txn_id: TxnId, table: TableName) -> WriteId:
        (write_id,) = self.allocate_write_ids([txn_id], table)
        return write_id

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.transactions.TransactionPort`; a metastore keeps no reason, and knows the remains."""
        del reason, remains
        ended_ids = abort_txns(self.client, txn_ids)
        for txn_id in txn_ids:
            self._forget_txn(txn_id)
        return ended_ids

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Return nothing: the metastore aborts silent transactions itself."""
        return ()

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:
        """See :class:`hiveacid.ports.transactions.WriteIdPort`. Raises TransactionStateError where the ids stay."""
        if table.kind is not TableKind.PLAIN:
            transactions.restart_write_ids(self, table, mark)

    def now(self) -> int:
        """Return this machine's time: a metastore has no call for its own."""
        return self.clock.now()


def _stronger_operation(one: str | None, other: str) -> str:
    """Return the operation that conflicts with more: an update covers a delete and an insert."""
    return other if one is None or _STRENGTH[str(other)] > _STRENGTH[str(one)] else one


def _without_own_id(write_ids: ValidWriteIdList, own: WriteId) -> ValidWriteIdList:
    """Return a list in which a transaction's own write id is not open."""
    top = WriteId(own - 1) if write_ids.high_watermark == own else write_ids.high_watermark
    still_open = tuple(write_id for write_id in write_ids.open if write_id != own)
    return ValidWriteIdList(write_ids.table, top, still_open, write_ids.aborted)
