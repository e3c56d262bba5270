"""Tables and partitions with commits or uncleaned aborts, for the initiator (``CompactionCandidateHandler``).

Rows of ``written`` name them. Housekeeping drops old rows of ``written`` and keeps the time of the last commit in one
row of ``changed_partitions`` per partition, so that neither table grows with history.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from sqlalchemy import BigInteger, Connection, bindparam, delete, func, insert, select
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.compaction.queue_records import ChangedPartition, list_changed_partitions
from hiveacid.core.model import TableName
from hiveacid.stores.sql.database import SqlBase, chunks
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMITTED,
    changed_partitions,
    is_of_table,
    table_columns,
    table_parameters,
    txns,
    write_ids,
    written,
)

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
