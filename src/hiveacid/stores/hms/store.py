"""The store on a metastore: the verbs of the ports over one client."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import groupby

from hiveacid.config import Settings, keys
from hiveacid.core.commits import Commit, Told
from hiveacid.core.locks import LockComponent, LockState, LockType
from hiveacid.core.model import LockId, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.streams import StreamBatch, StreamKey, StreamProgress
from hiveacid.core.write_ids import ValidTxnList, ValidWriteIdList
from hiveacid.errors import (
    CommitStateUnknownError,
    HiveAcidError,
    StoreUnavailableError,
    UnsupportedFeatureError,
    WriteConflictError,
)
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
from hiveacid.stores import checks
from hiveacid.stores.clock import SystemClock
from hiveacid.stores.hms import again, announcements, locks, protocol, seeds, txns
from hiveacid.stores.hms.address import parse_address
from hiveacid.stores.hms.catalog import MetastoreCatalog
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.jobs import MetastoreQueue
from hiveacid.stores.hms.locks import OPERATIONS
from hiveacid.stores.hms.names import plain_partition, plain_table, without_quotes
from hiveacid.stores.hms.versions import capabilities_of
from hiveacid.stores.limits import Limits

_NO_CHANGES, _NOTHING = CatalogChanges(), Start()
_STRENGTH = {"i": 0, "d": 1, "u": 2}
_CHANGING = ("d", "u")  # what conflicts are looked for
_Place = tuple[TableName, str | None]


class MetastoreStore(MetastoreQueue, MetastoreCatalog):
    """Implements :class:`hiveacid.ports.TransactionStore` and :class:`hiveacid.ports.Catalog`.

    ``url``: ``thrift://host:9083[,host2]``. What a metastore has no call for is refused with UnsupportedFeatureError,
    or is its own business (time-outs, cleaning). Raises ConfigError, StoreUnavailableError, StoreVersionError; every
    verb may raise StoreError and its kinds.
    """

    def __init__(
        self, url: str, *, limits: Limits | None = None, clock: Clock | None = None, owner: str = "hiveacid"
    ) -> None:
        own_clock = clock or SystemClock()
        client = MetastoreClient(parse_address(url), own_clock)
        try:
            can = capabilities_of(client.call("getVersion") or "")
        except BaseException:
            client.close()
            raise
        super().__init__(client, can, own_clock, owner)
        self._limits = limits or Limits()
        self._dml_events = keys.DML_EVENTS.default
        self._told_of_events: bool | None = None
        self._who = Client(owner, "localhost", "hiveacid")
        self._guard = threading.Lock()
        self._jobs, self._claimed = {}, {}
        self._noted: dict[
            TxnId, dict[_Place, str]
        ] = {}  # what the metastore was told already; saves telling it twice
        self._plain: dict[TxnId, set[TableName]] = {}  # plain tables that a transaction writes to

    def __repr__(self) -> str:
        """Return the URL."""
        return f"MetastoreStore({str(self.client)!r})"

    def obey(self, settings: Settings) -> None:
        """Take limits from settings; time-outs are the metastore's own."""
        self._limits = Limits.of(settings)
        self._dml_events = settings.get(keys.DML_EVENTS)

    def close(self) -> None:
        """Hang up."""
        self.client.close()

    # --- hiveacid.ports.TransactionStore -----------------------------------------------------------
    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        who = checks.client(client)
        self._who = who if self.can.txn_types else without_quotes(who)
        return txns.open_txns(self.client, self.can, self._limits, self._who, count, kind)

    def begin_txn(self, client: Client, start: Start = _NOTHING, kind: TxnKind = TxnKind.DEFAULT) -> Begun:
        """See :class:`hiveacid.ports.TransactionStore`; a call for each step, and what fails half-way is aborted."""
        checks.start(start, kind)
        (txn_id,) = self.open_txns(client, 1, kind)
        try:
            answer = self.lock(txn_id, start.locks) if start.locks else None
            if answer is not None and answer.state is LockState.WAITING:
                changing = any(one.operation in _CHANGING for one in start.locks)
                return Begun(txn_id, answer, before=self._committed(start.tables) if changing else {})
            snapshot = self.take_snapshot(txn_id)
            lists = dict(self.valid_write_ids(snapshot, start.tables)) if start.tables else {}
            self.reads(txn_id, list(lists.values()))
            given = {table: self.allocate_write_ids([txn_id], table)[0] for table in start.writes}
        except BaseException:
            self.abort_txns([txn_id], "it could not begin")
            raise
        own = {name: _without(lists[name], one) for name, one in given.items() if name in lists}
        return Begun(txn_id, answer, snapshot, lists | own, given)

    def _committed(self, tables: Sequence[TableName]) -> Mapping[TableName, ValidWriteIdList]:
        return self.valid_write_ids(self.valid_txns(), tables) if tables else {}

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """See :class:`hiveacid.ports.TransactionStore`; conflicts count from the opening, not from here."""
        return txns.take_snapshot(self.client, txn_id)

    def valid_txns(self) -> ValidTxnList:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.valid_txns(self.client)

    def valid_write_ids(
        self, txns_: ValidTxnList, tables: Sequence[TableName]
    ) -> Mapping[TableName, ValidWriteIdList]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.valid_write_ids(self.client, txns_, tables)

    def reads(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`: the cleaner does with ``use.minhistorywriteid`` (4.1 and later)."""
        txns.note_reading(self.client, self.can, txn_id, write_ids)

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.allocate_write_ids(self.client, txn_ids, table)

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`; UnsupportedFeatureError for too many (``seeds.py``)."""
        seeds.seed_write_ids(self, self._who, table, high_watermark, aborted)

    def seed_txns(self, high_watermark: TxnId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`; UnsupportedFeatureError with a metastore of Hive 3."""
        seeds.seed_txns(self, self._who, high_watermark)

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """See :class:`hiveacid.ports.TransactionStore`; write ids come first, as Hive does it."""
        checks.components(components)
        tables: dict[TableName, TableDefinition | None] = {}
        given: dict[TableName, WriteId] = {}
        for one in components:
            if one.operation is not None and one.table is not None:
                name = TableName(one.database, one.table)
                if name not in tables:
                    tables[name] = self._about_to_write(txn_id, name, given)
        requests = locks.Requests(self.can, tables.get)
        answer = locks.lock(self.client, requests, self._who, txn_id, components)
        self._note(txn_id, components, tables)
        if zero_wait and answer.state is LockState.WAITING:
            self.unlock(answer.lock_id)
            return LockAnswer(answer.lock_id, LockState.NOT_ACQUIRED, answer.blocked_by)
        return replace(answer, allocated=given)

    def _about_to_write(
        self, txn_id: TxnId, name: TableName, given: dict[TableName, WriteId]
    ) -> TableDefinition | None:
        table = self.get_table(name)
        if table is not None and table.kind is TableKind.PLAIN:
            again.repeated(partial(self.forget_statistics, name, None))
            with self._guard:
                self._plain.setdefault(txn_id, set()).add(name)
        else:
            (given[name],) = self.allocate_write_ids([txn_id], name)
        return table

    def _note(
        self,
        txn_id: TxnId,
        components: Sequence[LockComponent],
        tables: Mapping[TableName, TableDefinition | None],
    ) -> None:
        for one in components:
            if one.operation is None or one.table is None:
                continue
            name = TableName(one.database, one.table)
            table = tables[name]
            if one.partition is None and table is not None and table.partition_columns:
                continue  # its partitions are told one by one
            with self._guard:
                known = self._noted.setdefault(txn_id, {})
                known[name, one.partition] = _stronger(known.get((name, one.partition)), one.operation)

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return locks.check_lock(self.client, lock_id)

    def unlock(self, lock_id: LockId) -> None:
        """See :class:`hiveacid.ports.TransactionStore`; an acquired lock always stays until its transaction ends."""
        locks.unlock(self.client, lock_id)

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        strongest: dict[_Place, str] = {}
        for one in checks.written(written):
            plain_table(one.table)
            place = one.table, plain_partition(one.partition)
            strongest[place] = _stronger(strongest.get(place), one.operation)
        with self._guard:
            known = dict(self._noted.get(txn_id, {}))
        fresh = [
            (table, operation, partition)
            for (table, partition), operation in strongest.items()
            if _stronger(known.get((table, partition)), operation) != known.get((table, partition))
        ]
        for (table, operation), rows in groupby(
            sorted(fresh, key=lambda row: (row[0], row[1], row[2] or "")), key=lambda row: (row[0], row[1])
        ):
            names = [partition for _, _, partition in rows]
            self._tell(
                txn_id, table, operation, [name for name in names if name is not None], whole=None in names
            )

    def _tell(
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
            # The only other way to tell is a lock's request: it counts when it is queued, granted or not, and goes
            # with the commit.
            told = LockComponent(LockType.SHARED_READ, table.database, table.name, operation=operation)
            self.lock(txn_id, [told])

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.heartbeat(self.client, txn_ids)

    def txn_timeout(self) -> float | None:
        """Return the metastore's own ``hive.txn.timeout``; None if it does not say. Heartbeats wait a third of it at most."""
        try:
            seconds = keys.TXN_TIMEOUT.parse(self._setting(keys.TXN_TIMEOUT.name))
        except StoreUnavailableError:
            raise
        except HiveAcidError:
            return None
        if seconds <= 0:
            return None
        self.client.patience = min(self.client.patience, max(seconds / 3, 1.0))
        return seconds

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = _NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        told: Sequence[Told] = (),  # noqa: ARG002 - a metastore has no place for it
    ) -> None:
        """See :class:`hiveacid.ports.TransactionStore`; new tables and partitions come just before the commit.

        As in Hive: for a moment they are there without rows. A table goes again if the commit fails.
        """
        checks.changes(changes)
        if batch is not None:
            raise _no_streams(batch.stream)
        made: list[TableDefinition] = []
        try:
            self._before_commit(txn_id, changes, written, made)
            wrote = bool(written) or bool(self._noted.get(txn_id))
            txns.commit(self.client, txn_id, wrote=wrote)
        except CommitStateUnknownError:
            raise  # what was made may be somebody's by now
        except HiveAcidError:
            again.unmake(self, made)
            raise
        self._forget_txn(txn_id)

    def _before_commit(
        self,
        txn_id: TxnId,
        changes: CatalogChanges,
        written: Sequence[Written],
        made: list[TableDefinition],
    ) -> None:
        """Do what comes before the commit itself; an answer that is lost here leaves no doubt about that."""
        for table in changes.altered:
            again.repeated(partial(self.alter_table, table.name, table))
        for table in changes.tables:
            again.make(self, table, made)
        self._add_new(txn_id, changes)
        self.add_written(txn_id, written)
        self._announce(txn_id, changes)
        self._forget(txn_id, written)  # late: who begins to count from here on may miss these rows
        self._compacted(txn_id)

    def _forget_txn(self, txn_id: TxnId) -> None:
        with self._guard:
            self._noted.pop(txn_id, None)
            self._plain.pop(txn_id, None)
        self._forget_job(txn_id)

    def commits(self, table: TableName, after: int | None = None) -> tuple[Commit, ...]:  # noqa: ARG002
        """See :class:`hiveacid.ports.TransactionStore`. Raises UnsupportedFeatureError: none are kept."""
        raise UnsupportedFeatureError(
            f"{table}: a Hive Metastore does not tell when its transactions committed: read as of a write id"
        )

    def _announce(self, txn_id: TxnId, changes: CatalogChanges) -> None:
        """Tell the metastore's listeners about files, where they want to hear of them; before the commit, as Hive."""
        if not changes.files or not self._has_listeners():
            return
        tables = {one.table: self.get_table(one.table) for one in changes.files}
        fresh = {(new.table, new.partition.values) for new in changes.partitions}
        for table, values, files in announcements.by_place(changes.files):
            found = tables[table]
            if found is None:
                continue
            if found.kind is not TableKind.PLAIN and self.can.write_notifications:
                (write_id,) = self.allocate_write_ids([txn_id], table)
                announcements.write(self.client, txn_id, write_id, table, values, files)
            elif found.kind is not TableKind.INSERT_ONLY and (table, values) not in fresh:
                # Of a new partition the metastore itself tells; with Hive 3 it fails for insert-only tables.
                replaced = files.replaced and found.kind is TableKind.PLAIN
                announcements.insert(self.client, table, values, replace(files, replaced=replaced))

    def _has_listeners(self) -> bool:
        if self._dml_events != keys.DML_EVENTS.default:
            return self._dml_events == "true"
        if self._told_of_events is None:
            self._told_of_events = self._setting(keys.DML_EVENTS.name).strip().lower() == "true"
        return self._told_of_events

    def _add_new(self, txn_id: TxnId, changes: CatalogChanges) -> None:
        ordered = sorted(changes.partitions, key=lambda new: new.table)
        try:
            for name, news in groupby(ordered, key=lambda new: new.table):
                again.repeated(partial(self.add_written_partitions, name, [new.partition for new in news]))
        except WriteConflictError as error:
            self.abort_txns([txn_id], str(error))
            raise

    def _forget(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Take statistics back; of plain tables once more: whoever counted while we waited for the lock has set them."""
        with self._guard:
            plain = sorted(self._plain.get(txn_id, ()))
        for name in plain:
            again.repeated(partial(self.forget_statistics, name, None))
        for name in sorted({one.table for one in written}):
            partitions = sorted({one.partition for one in written if one.table == name and one.partition})
            own = partial(self._own_write_id, txn_id, name)
            again.repeated(partial(self.forget_statistics, name, partitions, own))

    def _own_write_id(self, txn_id: TxnId, table: TableName) -> WriteId:
        (write_id,) = self.allocate_write_ids([txn_id], table)
        return write_id

    def abort_txns(self, txn_ids: Sequence[TxnId], reason: str) -> tuple[TxnId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`; a metastore keeps no reason."""
        del reason
        ended = txns.abort_txns(self.client, txn_ids)
        for txn_id in txn_ids:
            self._forget_txn(txn_id)
        return ended

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Return nothing: the metastore's own reaper does it."""
        return ()

    def register_stream(
        self,
        stream: StreamKey,
        writer: str,  # noqa: ARG002 - the port's
        checkpoint: str,  # noqa: ARG002
        *,
        restart: bool = False,  # noqa: ARG002
    ) -> StreamProgress:
        """Raise UnsupportedFeatureError: progress and rows could not be committed at once."""
        raise _no_streams(stream)

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """Raise UnsupportedFeatureError, as :meth:`register_stream`."""
        raise _no_streams(stream)

    def min_open_txn_id(self) -> TxnId:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.min_open_txn_id(self.client)

    def txn_state(self, txn_id: TxnId) -> str:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.txn_state(self.client, txn_id)

    def aborted_write_ids(self, table: TableName) -> tuple[WriteId, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return self.valid_write_ids(self.valid_txns(), [table])[table].aborted

    def forget_aborted(self, table: TableName, partition: str | None, up_to: WriteId) -> None:
        """Refuse: see :func:`_cleaning`."""
        raise _cleaning(f"{table}{f'/{partition}' if partition else ''} up to {up_to}")

    def housekeep(self) -> None:
        """Do nothing: the metastore keeps its own house."""

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return txns.show_transactions(self.client)

    def show_locks(self) -> tuple[LockRow, ...]:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return locks.show_locks(self.client)

    def now(self) -> int:
        """Return this machine's time: a metastore has no call for its own."""
        return self.clock.now()


def _stronger(one: str | None, other: str) -> str:
    """Return the operation that conflicts with more: an update says what a delete or an insert would."""
    return other if one is None or _STRENGTH[str(other)] > _STRENGTH[str(one)] else one


def _without(found: ValidWriteIdList, own: WriteId) -> ValidWriteIdList:
    """Return a list that does not know a transaction's own id as open."""
    top = WriteId(own - 1) if found.high_watermark == own else found.high_watermark
    still_open = tuple(one for one in found.open if one != own)
    return ValidWriteIdList(found.table, top, still_open, found.aborted)


def _cleaning(place: str) -> HiveAcidError:
    return UnsupportedFeatureError(
        f"cleaning {place}: tables of a Hive Metastore are cleaned by its own cleaner"
    )


def _no_streams(stream: StreamKey) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"stream {stream}: a Hive Metastore commits a transaction, but not how far a stream has come together with it, "
        "so a batch could be written twice; keep tables that streams write in a store of hiveacid's own, or insert "
        "batches in a way that may be repeated (MERGE by key)"
    )
