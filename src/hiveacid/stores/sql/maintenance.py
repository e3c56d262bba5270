"""Calls of hiveacid's own services: their register, the partitions with changes, and the removal of old rows.

Rows of ``written`` name the tables and partitions with commits or uncleaned aborts, for the initiator
(``CompactionCandidateHandler``). Housekeeping (``AcidTxnCleanerService``) drops old rows of ``written`` and keeps the time of
the last commit in one row of ``changed_partitions`` per partition, so that neither table grows with history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, func, insert, or_, select, update
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.compaction.queue_records import ChangedPartition, Service, list_changed_partitions
from hiveacid.core.model import TableName
from hiveacid.stores import refusals
from hiveacid.stores.limits import LATEST_WRITER, Limits
from hiveacid.stores.sql import commit_records, compaction_queue
from hiveacid.stores.sql.database import NOW, Database, SqlBase, chunks
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMIT_SEQUENCE,
    COMMITTED,
    OPEN,
    SETTLED,
    changed_partitions,
    counters,
    idempotency_marks,
    is_of_same_table,
    is_of_table,
    services,
    table_columns,
    table_parameters,
    tables,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.txn_rows import HAS_STOPPED, TOP, counter_value

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


def forget_services(connection: Connection, limits: Limits, now: int | None) -> None:
    """Drop services that were not announced for ``hive.compactor.worker.timeout``."""
    connection.execute(_DELETE_SILENT_SERVICES, {"timeout": int(limits.worker_timeout * 1000), "now": now})


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

    def housekeep(
        self,
    ) -> None:
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
            forget_services(connection, limits, now)
            commit_records.prune_commits(connection, limits, now)
            keep_changed_partitions(connection, _SEEN, parameters)
            for statement in _DELETIONS:
                connection.execute(statement, parameters)

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
# A CREATE TABLE AS SELECT that failed: no cleaner visits its table.
_DELETE_IDS_WITHOUT_TABLE = delete(write_ids).where(
    write_ids.c.txn_id.in_(
        select(txns.c.id).where(
            txns.c.state == ABORTED, _OLD, or_(HAS_STOPPED, txns.c.ended < NOW - LATEST_WRITER)
        )
    ),
    ~_HAS_TABLE.exists(),
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
_DELETIONS = (
    _DELETE_MARKS,
    _DELETE_WRITE_IDS,
    _DELETE_IDS_WITHOUT_TABLE,
    _DELETE_SEEN_CHANGES,
    _DELETE_EMPTY_CHANGES,
    _DELETE_TXNS,
)
