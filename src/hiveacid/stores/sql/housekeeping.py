"""Upkeep of the store: heartbeats, aborts and time-outs; the register of services, changed partitions, removal of old rows.

After Hive's ``HeartbeatTxnFunction``, ``AbortTxnsFunction`` and ``MarkCleanedFunction``. Write ids of aborted transactions
stay until their files are cleaned. Rows of ``written`` name the tables and partitions with commits or uncleaned aborts, for
the initiator (``CompactionCandidateHandler``). Housekeeping (``AcidTxnCleanerService``) drops old rows of ``written`` and keeps
the time of the last commit in one row of ``changed_partitions`` per partition, so that neither table grows with history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from functools import partial

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.compaction.queue_records import ChangedPartition, Service, list_changed_partitions
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.errors import StorePermissionError
from hiveacid.ports.transactions import HeartbeatAnswer, Remains
from hiveacid.stores import refusals
from hiveacid.stores.limits import LATEST_WRITER
from hiveacid.stores.sql import commit_records, compaction_queue
from hiveacid.stores.sql.catalog import require_table
from hiveacid.stores.sql.database import ARE_OWN, NOW, Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMIT_SEQUENCE,
    COMMITTED,
    CONFLICTS,
    OPEN,
    SETTLED,
    changed_partitions,
    counters,
    idempotency_marks,
    is_of_same_table,
    is_of_table,
    next_write_ids,
    services,
    table_columns,
    table_parameters,
    tables,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.txns_and_locks import HAS_STOPPED, TOP, counter_value, end_txns

_ANNOUNCED = (
    select(services)
    .where(services.c.last_seen >= NOW - bindparam("within", type_=BigInteger))
    .order_by(services.c.name)
)
_DELETE_SILENT_SERVICES = delete(services).where(
    services.c.last_seen < NOW - bindparam("timeout", type_=BigInteger)
)


class ServiceRegister(SqlBase):
    """Implements :class:`hiveacid.ports.store.ServicePort`."""

    def announce_service(self, service: Service) -> None:
        """Insert a service, or update the time of its last announcement."""
        refusals.service(service)
        values = {"kind": service.kind, "pool": service.pool, "version": service.version, "last_seen": NOW}
        now = {"now": self._database.now()}

        def work(connection: Connection) -> None:
            statement = update(services).where(services.c.name == service.name).values(values)
            if not connection.execute(statement, now).rowcount:
                new = {**values, "name": service.name, "started": NOW}
                connection.execute(insert(services).values(new), now)

        self._database.write(work, Durability.WITH_CLIENT)

    def withdraw_service(self, name: str) -> None:
        """Delete a service."""
        statement = delete(services).where(services.c.name == name)
        self._database.write(lambda connection: connection.execute(statement), Durability.WITH_CLIENT)

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services announced in the last ``within`` seconds."""
        parameters = {"within": int(within * 1000), "now": self._database.now()}
        rows = self._database.read(lambda connection: connection.execute(_ANNOUNCED, parameters).all())
        return tuple(Service(**row._asdict()) for row in rows)


_PLACE = (written.c.database_name, written.c.table_name, written.c.partition_name)
_SINCE = bindparam("since", type_=BigInteger)
_IS_DATA = written.c.operation != "c"
_LAST = func.max(txns.c.ended).label("changed")
_CHANGED = (
    select(*_PLACE, _LAST)
    .join(txns, txns.c.id == written.c.txn_id)
    .where(txns.c.state == COMMITTED, txns.c.ended >= _SINCE, _IS_DATA)
    .group_by(*_PLACE)
)
_FOLDED = select(changed_partitions).where(changed_partitions.c.changed >= _SINCE)
# Two statements: in a join of both by transaction and table SQLite reads all changes of the table for each write id.
_ABORTS = (
    select(write_ids.c.database_name, write_ids.c.table_name, write_ids.c.txn_id, txns.c.ended)
    .join(txns, txns.c.id == write_ids.c.txn_id)
    .where(txns.c.state == ABORTED)
)
_WRITTEN_BY_ABORTED = (
    select(written.c.txn_id, *_PLACE)
    .join(txns, txns.c.id == written.c.txn_id)
    .where(txns.c.state == ABORTED, _IS_DATA)
)


class ChangedPartitions(SqlBase):
    """Method of the queue port that lists partitions which may need a compaction."""

    def changed_partitions(self, since: int = 0) -> tuple[ChangedPartition, ...]:
        """Return the changed tables and partitions, sorted by name."""

        def work(connection: Connection) -> tuple[ChangedPartition, ...]:
            changed: dict[tuple[TableName, str | None], int] = {}
            for statement in (_FOLDED, _CHANGED):
                for row in connection.execute(statement, {"since": since}):
                    key = TableName(row.database_name, row.table_name), row.partition_name
                    changed[key] = max(row.changed, changed.get(key, 0))
            places: dict[tuple[int, TableName], set[str | None]] = defaultdict(set)
            for row in connection.execute(_WRITTEN_BY_ABORTED):
                places[row.txn_id, TableName(row.database_name, row.table_name)].add(row.partition_name)
            aborted: dict[tuple[TableName, str | None], list[int]] = defaultdict(list)
            for row in connection.execute(_ABORTS):
                table = TableName(row.database_name, row.table_name)
                for partition in places.get((row.txn_id, table), (None,)):
                    aborted[table, partition].append(row.ended)
            return list_changed_partitions(changed, aborted)

        return self._database.read(work, slow=True)  # of all rows since the last housekeeping


def keep_changed_partitions(
    connection: Connection, gone: ColumnElement[bool], parameters: Mapping[str, object]
) -> None:
    """Record the last commit of each partition before the caller drops the rows of ``written`` that fulfil ``gone``."""
    rows = (
        select(*_PLACE, _LAST)
        .join(txns, txns.c.id == written.c.txn_id)
        .where(gone, _IS_DATA)
        .group_by(*_PLACE)
    )
    changed: dict[TableName, dict[str | None, int]] = defaultdict(dict)
    for row in connection.execute(rows, parameters):
        changed[TableName(row.database_name, row.table_name)][row.partition_name] = row.changed
    for name, partitions in changed.items():
        _keep_changes_of(connection, name, partitions)


def _keep_changes_of(connection: Connection, table: TableName, changed: Mapping[str | None, int]) -> None:
    """Replace the rows of one table's partitions by newer ones, with few statements for many partitions."""
    parameters = table_parameters(table)
    newest = {row.partition_name: row.changed for row in connection.execute(_KNOWN, parameters)}
    later = {name: time for name, time in changed.items() if time > newest.get(name, -1)}
    replaced = later.keys() & newest.keys()
    if None in replaced:
        connection.execute(_DELETE.where(_PARTITION.is_(None)), parameters)
    for names in chunks(sorted(name for name in replaced if name is not None)):
        connection.execute(_DELETE.where(_PARTITION.in_(names)), parameters)
    for chunk in chunks(later.items()):
        rows = [{**table_columns(table), "partition_name": name, "changed": time} for name, time in chunk]
        connection.execute(insert(changed_partitions), rows)


_PARTITION = changed_partitions.c.partition_name
_KNOWN = (
    select(_PARTITION, func.max(changed_partitions.c.changed).label("changed"))
    .where(is_of_table(changed_partitions))
    .group_by(_PARTITION)
)
_DELETE = delete(changed_partitions).where(is_of_table(changed_partitions))


class Housekeeping(SqlBase):
    """Method of the transaction port that removes rows of ended transactions."""

    def housekeep(self) -> None:
        """Drop ended transactions, their write ids and changes, and old compactions, if no later answer needs them.

        Ended transactions are kept for the timeout of their client at least, because a client that lost the answer to its commit
        may still ask. Idempotency marks are kept for the longest timeout of an open transaction. The
        bounds are read while no transaction can open; those that are opened later need only newer rows.
        """
        limits, now = self._limits, self._database.now()
        bounds = self._database.write(lambda connection: _bounds(self._database, connection, now))
        keep = max(int(limits.txn_timeout * 1000), bounds["timeout"])
        # one moment for all statements: what one of them keeps and what another deletes must be the same rows
        now = bounds["now"]
        parameters = {**bounds, "keep": keep}

        def work(connection: Connection) -> None:
            compaction_queue.requeue_abandoned_jobs(connection, limits, now)
            compaction_queue.prune_history(connection, limits, now)
            connection.execute(
                _DELETE_SILENT_SERVICES, {"timeout": int(limits.worker_timeout * 1000), "now": now}
            )
            commit_records.prune_commits(connection, limits, now)
            keep_changed_partitions(connection, _SEEN, parameters)
            for statement in _DELETIONS:
                connection.execute(statement, parameters)
            refused = connection.execute(_DELETE_REFUSED_TXNS, parameters).rowcount
            if refused:
                connection.execute(_COUNT_CONFLICTS, {"refused": refused})
            connection.execute(_DELETE_TXNS, parameters)

        self._database.write(work, slow=True)


def _bounds(database: Database, connection: Connection, now: int | None) -> dict[str, int]:
    """Return the bounds of what open transactions may need.

    ``seen``: lowest id that was open when any of them began. ``moment``: lowest commit sequence number that any of them sees.
    ``top``: highest id. ``timeout``: their longest timeout in milliseconds. ``now``: the store's time.
    """
    database.dialect.block_opens(connection)
    row = connection.execute(_NEEDED, {"now": now}).one()
    if database.dialect.ids_may_gap:
        # No transaction is being opened: missing rows up to the highest id will never appear.
        connection.execute(update(counters).where(counters.c.name == SETTLED).values(value=row.top))
    return {"seen": row.seen, "moment": row.moment, "top": row.top, "timeout": row.timeout, "now": row.now}


_NEEDED = select(
    func.coalesce(func.min(txns.c.min_open), TOP + 1).label("seen"),
    func.coalesce(func.min(txns.c.moment), counter_value(COMMIT_SEQUENCE)).label("moment"),
    TOP.label("top"),
    func.coalesce(func.max(txns.c.timeout), 0).label("timeout"),
    NOW.label("now"),
).where(txns.c.state == OPEN)

_DELETE_MARKS = delete(idempotency_marks).where(
    idempotency_marks.c.at < NOW - bindparam("keep", type_=BigInteger)
)
_OLD = txns.c.ended + txns.c.timeout < NOW
_HAS_TABLE = select(tables.c.name).where(
    tables.c.database_name == write_ids.c.database_name, tables.c.name == write_ids.c.table_name
)
_NO_WRITER_COMES = and_(txns.c.state == ABORTED, or_(HAS_STOPPED, txns.c.ended < NOW - LATEST_WRITER))
# A CREATE TABLE AS SELECT that failed: no cleaner visits its table.
_DELETE_IDS_WITHOUT_TABLE = delete(write_ids).where(
    write_ids.c.txn_id.in_(select(txns.c.id).where(_NO_WRITER_COMES, _OLD)), ~_HAS_TABLE.exists()
)
_COMMITTED_BEFORE_ALL = select(txns.c.id).where(
    txns.c.state == COMMITTED, _OLD, txns.c.id < bindparam("seen", type_=BigInteger)
)
_DELETE_WRITE_IDS = delete(write_ids).where(write_ids.c.txn_id.in_(_COMMITTED_BEFORE_ALL))

_SEEN = and_(
    written.c.txn_id.in_(select(txns.c.id).where(txns.c.state == COMMITTED, _OLD)),
    func.coalesce(written.c.commit_sequence, 0) <= bindparam("moment", type_=BigInteger),
)
_DELETE_SEEN_CHANGES = delete(written).where(_SEEN)
_DELETE_EMPTY_CHANGES = delete(written).where(
    written.c.txn_id.in_(select(txns.c.id).where(txns.c.state == ABORTED, _OLD)),
    written.c.operation != "c",
    ~select(write_ids.c.write_id)
    .where(write_ids.c.txn_id == written.c.txn_id, is_of_same_table(write_ids, written))
    .exists(),
)
_DELETE_TXNS = delete(txns).where(
    txns.c.state != OPEN,
    _OLD,
    txns.c.id < bindparam("top", type_=BigInteger),
    ~select(write_ids.c.txn_id).where(write_ids.c.txn_id == txns.c.id).exists(),
    ~select(written.c.txn_id).where(written.c.txn_id == txns.c.id).exists(),
)
_DELETE_REFUSED_TXNS = _DELETE_TXNS.where(txns.c.code == refusals.CONFLICT)
_COUNT_CONFLICTS = (
    update(counters)
    .where(counters.c.name == CONFLICTS)
    .values(value=counters.c.value + bindparam("refused", type_=BigInteger))
)
_DELETIONS = (
    _DELETE_MARKS,
    _DELETE_WRITE_IDS,
    _DELETE_IDS_WITHOUT_TABLE,
    _DELETE_SEEN_CHANGES,
    _DELETE_EMPTY_CHANGES,
)


_BEAT = update(txns).where(ARE_OWN, txns.c.state == OPEN).values(heartbeat=NOW)
_STATES = select(txns.c.id, txns.c.state).where(ARE_OWN)
_OPEN_ONES = select(txns.c.id).where(ARE_OWN, txns.c.state == OPEN).order_by(txns.c.id).with_for_update()
_IS_SILENT = and_(txns.c.state == OPEN, txns.c.heartbeat + txns.c.timeout < NOW)
_SILENT = select(txns.c.id, txns.c.timeout).where(_IS_SILENT).order_by(txns.c.id).with_for_update()


class AbortTxns(SqlBase):
    """Methods for heartbeats, aborts, and remains of aborted transactions."""

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """Record the time of the heartbeat; return the transactions that are no longer open."""
        database, sent = self._database, self._clock.now()
        aborted: list[TxnId] = []
        missing: list[TxnId] = []
        for chunk in chunks(sorted(set(txn_ids))):
            if _beat(database, chunk) == len(chunk):
                continue
            states = _states(database, chunk)
            aborted += [txn_id for txn_id in chunk if states.get(txn_id) == TransactionState.ABORTED]
            ended_states = None, TransactionState.COMMITTED
            missing += [txn_id for txn_id in chunk if states.get(txn_id) in ended_states]
        database.retry_deadlines.record_heartbeat(set(txn_ids) - {*aborted, *missing}, sent)
        # their marks stay: the owner aborts them
        database.retry_deadlines.ended([*aborted, *missing])
        return HeartbeatAnswer(tuple(aborted), tuple(missing))

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        """Abort the open transactions among ``txn_ids`` and return them."""

        def work(connection: Connection) -> tuple[TxnId, ...]:
            own = [self._database.own_txns.parameters(chunk) for chunk in chunks(sorted(set(txn_ids)))]
            open_ids: list[TxnId] = []
            for parameters in own:
                open_ids += map(TxnId, connection.scalars(_OPEN_ONES, parameters))
            end_txns(connection, open_ids, "abort", self._database.now(), refusals.storable_text(reason))
            if remains is not Remains.UNKNOWN:
                for parameters in own:
                    for statement in (_STOPPED, *(_DELETE_TRACES if remains is Remains.NOTHING else ())):
                        connection.execute(statement, parameters)
            return tuple(open_ids)

        aborted = write_exactly_once(self._database, work, Durability.WITH_CLIENT)
        self._database.retry_deadlines.ended(txn_ids)
        self._database.own_txns.ended(txn_ids)
        return aborted

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Abort transactions without a recent heartbeat and return them; their compactions are queued again or fail.

        Each transaction has the timeout of the client that opened it. With a database role that may not abort, nothing
        happens.
        """
        now = self._database.now()
        parameters = {"now": now}

        def work(connection: Connection) -> tuple[TxnId, ...]:
            timed_out: dict[int, list[TxnId]] = defaultdict(list)
            for row in connection.execute(_SILENT, parameters):
                timed_out[row.timeout].append(TxnId(row.id))
            for timeout, txn_ids in timed_out.items():
                reason = refusals.timed_out(timeout / 1000)
                end_txns(connection, txn_ids, "time out", now, reason, refusals.TIME_OUT)
                compaction_queue.requeue_or_fail_lost_jobs(connection, self._limits, txn_ids, reason, now)
            return tuple(sorted(txn_id for txn_ids in timed_out.values() for txn_id in txn_ids))

        if not self._database.read(lambda connection: connection.scalars(_ANY_SILENT, parameters).first()):
            return ()
        try:
            return self._database.write(work, Durability.WITH_CLIENT)
        except StorePermissionError:  # a role that only reads: writers and services do it
            return ()

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:  # noqa: ARG002 - no stand-in
        """Forget the write ids of a CREATE TABLE AS SELECT that failed; those of a table went with DROP TABLE."""
        key = table_parameters(table.name) | {"now": self._database.now()}

        def work(connection: Connection) -> None:
            if connection.scalar(_TABLE_OF_NAME, key) is None:
                connection.execute(_DELETE_FAILED_CREATIONS, key)
                connection.execute(_DELETE_UNUSED_COUNTER, key)

        self._database.write(work, repeatable=True)

    def aborted_write_ids(self, table: TableName, *, may_come: bool = False) -> tuple[WriteId, ...]:
        """Return write ids of aborted transactions that were not cleaned yet."""
        refusals.table_name(table)
        key, statement = table_parameters(table), _IDS_THAT_MAY_COME if may_come else _ABORTED_IDS
        ids = self._database.read(lambda connection: connection.scalars(statement, key).all())
        return tuple(map(WriteId, ids))

    def forget_aborted(
        self,
        table: TableName,
        partition: str | None,
        up_to: WriteId,
        before: TxnId | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """Record that the files of aborted transactions in a partition, or (None) in the table, are removed.

        A write id stays until every partition that was recorded for it is cleaned. A write id without recorded partitions
        stays until the whole table is cleaned. After an interruption the same call goes on, as each portion of ids is a
        transaction of its own.
        """
        refusals.table_name(table)
        refusals.partition_name(partition)
        key = table_parameters(table) | {"up_to": up_to, "before": _NO_LIMIT if before is None else before}
        if not self._database.read(lambda connection: connection.scalar(_ANY_TRACE, key)):
            return
        reached = 0
        while reached < up_to:
            portion = partial(_forget_portion, self._database, key | {"reached": reached}, partition, seen)
            reached = self._database.write(portion)


def _beat(database: Database, txn_ids: Sequence[TxnId]) -> int:
    parameters = {**database.own_txns.parameters(txn_ids), "now": database.now()}
    return database.write_statement(
        lambda connection: connection.execute(_BEAT, parameters).rowcount, Durability.WITH_CLIENT
    )


def _states(database: Database, txn_ids: Sequence[TxnId]) -> dict[int, str]:
    parameters = database.own_txns.parameters(txn_ids)
    rows = database.read(lambda connection: connection.execute(_STATES, parameters).all())
    return {row.id: row.state for row in rows}


_ANY_SILENT = select(txns.c.id).where(_IS_SILENT).limit(1)

_ABORTED = or_(
    write_ids.c.txn_id.is_(None),
    select(txns.c.id).where(txns.c.id == write_ids.c.txn_id, txns.c.state == ABORTED).exists(),
)
_ON_TABLE = is_of_table(write_ids)
_TABLE_OF_NAME = select(tables.c.name).where(
    tables.c.database_name == bindparam("database"), tables.c.name == bindparam("name")
)
_DELETE_FAILED_CREATIONS = delete(write_ids).where(
    _ON_TABLE, write_ids.c.txn_id.in_(select(txns.c.id).where(_NO_WRITER_COMES))
)
_DELETE_UNUSED_COUNTER = delete(next_write_ids).where(
    is_of_table(next_write_ids),
    ~select(write_ids.c.write_id).where(is_of_same_table(write_ids, next_write_ids)).exists(),
)
_ABORTED_IDS = select(write_ids.c.write_id).where(_ON_TABLE, _ABORTED).order_by(write_ids.c.write_id)
_PORTION = 2000  # ids: more in one transaction take longer than a client waits for a server
_END_OF_PORTION = (
    _ABORTED_IDS.where(
        write_ids.c.write_id > bindparam("reached", type_=BigInteger),
        write_ids.c.write_id < bindparam("up_to", type_=BigInteger),
    )
    .offset(_PORTION - 1)
    .limit(1)
)
_STOPPED_WRITER = select(txns.c.id).where(txns.c.id == write_ids.c.txn_id, HAS_STOPPED)
_IDS_THAT_MAY_COME = _ABORTED_IDS.where(~_STOPPED_WRITER.exists())
_ARE_ABORTED = and_(ARE_OWN, txns.c.state == ABORTED)
_STOPPED = (
    update(txns)
    .where(_ARE_ABORTED, or_(txns.c.code.is_(None), txns.c.code == refusals.TIME_OUT))
    .values(code=refusals.STOPPED)
)
_DELETE_TRACES = tuple(
    delete(traces).where(traces.c.txn_id.in_(select(txns.c.id).where(_ARE_ABORTED)))
    for traces in (write_ids, written)
)
_NO_LIMIT = 2**62


def _forget_portion(
    database: Database,
    key: dict[str, int | str],
    partition: str | None,
    seen: TableDefinition | None,
    connection: Connection,
) -> int:
    """Forget the next ids after ``reached``; return the last of them, ``up_to`` if these were all."""
    if seen is not None:
        require_table(database, connection, seen.name, seen)
    end = int(connection.scalar(_END_OF_PORTION, key) or key["up_to"])
    key = key | {"up_to": end}
    traces: dict[int, set[str | None]] = defaultdict(set)
    for row in connection.execute(_ABORTED_TXNS_WRITES, key):
        traces[row.txn_id].add(row.partition_name)
    cleaned = sorted(txn_id for txn_id, places in traces.items() if partition is None or partition in places)
    for chunk in chunks(cleaned):
        parameters = {**key, "ids": chunk, "partition": partition}
        connection.execute(_DELETE_WRITTEN if partition is None else _DELETE_WRITTEN_IN_PARTITION, parameters)
    if partition is None:
        connection.execute(_DELETE_ABORTED_WRITE_IDS, key)
    for chunk in chunks(txn_id for txn_id in cleaned if traces[txn_id] == {partition}):
        connection.execute(_DELETE_WRITE_IDS_OF_TXNS, {**key, "ids": chunk})
    return end


# at most one; with min() PostgreSQL looks for it from the lowest of the table on
_OWN_ID = (
    select(write_ids.c.write_id)
    .where(write_ids.c.txn_id == written.c.txn_id, is_of_same_table(write_ids, written))
    .scalar_subquery()
)
_WRITTEN_IN_TABLE = is_of_table(written)
_ABORTED_TXNS_WRITES = (
    select(written.c.txn_id, written.c.partition_name)
    .join(txns, txns.c.id == written.c.txn_id)
    .where(
        _WRITTEN_IN_TABLE,
        txns.c.state == ABORTED,
        func.coalesce(written.c.write_id, _OWN_ID) <= bindparam("up_to", type_=BigInteger),
        or_(written.c.operation != "c", written.c.txn_id < bindparam("before", type_=BigInteger)),
    )
)
_DELETE_WRITTEN = delete(written).where(
    _WRITTEN_IN_TABLE,
    written.c.txn_id.in_(bindparam("ids", expanding=True)),
    or_(written.c.write_id.is_(None), written.c.write_id <= bindparam("up_to", type_=BigInteger)),
)
_DELETE_WRITTEN_IN_PARTITION = _DELETE_WRITTEN.where(written.c.partition_name == bindparam("partition"))
_UP_TO = write_ids.c.write_id <= bindparam("up_to", type_=BigInteger)
_ANY_TRACE = select(
    or_(
        select(write_ids.c.write_id).where(_ON_TABLE, _UP_TO, _ABORTED).exists(),
        _ABORTED_TXNS_WRITES.exists(),
    )
)
_DELETE_ABORTED_WRITE_IDS = delete(write_ids).where(_ON_TABLE, _UP_TO, _ABORTED)
_DELETE_WRITE_IDS_OF_TXNS = delete(write_ids).where(
    _ON_TABLE, _UP_TO, write_ids.c.txn_id.in_(bindparam("ids", expanding=True))
)
