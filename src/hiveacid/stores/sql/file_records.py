"""Files that commits record, and the mark of tables whose records are complete (`core.snapshot.file_records`).

The commit records files in its own transaction of the database. There it also takes the mark from each table of which it has
a write id, or which it compacts, and tells nothing. A table dropped meanwhile has taken the write ids with it, so that a late
commit records nothing for a new table of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, and_, bindparam, delete, insert, select, union
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId
from hiveacid.core.snapshot.file_records import (
    RecordedDirectory,
    TableRecords,
    directory_of_text,
    directory_text,
)
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.schema import (
    files,
    is_of_same_table,
    is_of_table,
    place_of_values,
    recorded_tables,
    table_columns,
    table_parameters,
    write_ids,
    written,
)
from hiveacid.stores.sql.txns_and_locks import lock_open_txns

_COMPACTED = "c"  # operation of the trace that a compaction leaves


def mark_recorded(connection: Connection, table: TableName) -> None:
    """Mark the records of a new table as complete, since its location holds nothing yet."""
    connection.execute(insert(recorded_tables), table_columns(table))


def unmark_if_changed(connection: Connection, old: TableDefinition, new: TableDefinition) -> None:
    """Take the mark from a table that gets another kind or location, or files of others (EXTERNAL)."""
    if old.kind is not new.kind or old.location != new.location or new.external:
        connection.execute(_UNMARK, table_parameters(new.name))


def record_files(connection: Connection, txn_id: TxnId, records: Sequence[TableRecords]) -> None:
    """Record the files of a transaction that commits now; take the mark from tables of which it tells nothing."""
    told = {one.table: one.directories for one in records}
    for row in connection.execute(_MARKED, {"of_txn": txn_id}).all():
        table = TableName(row.database_name, row.table_name)
        if table not in told:
            connection.execute(_UNMARK, table_parameters(table))
        elif told[table]:
            connection.execute(_RECORD, file_rows([TableRecords(table, told[table])]))


def marked_tables(txn_id: ColumnElement[int]) -> Select[Any]:
    """Return the query of the marked tables of which a transaction, a SQL expression, has a write id, or which it compacts."""
    changed = union(
        select(write_ids.c.database_name, write_ids.c.table_name).where(write_ids.c.txn_id == txn_id),
        select(written.c.database_name, written.c.table_name).where(
            written.c.txn_id == txn_id, written.c.operation == _COMPACTED
        ),
    ).subquery()
    return select(recorded_tables).join(changed, is_of_same_table(changed, recorded_tables))


def file_rows(records: Iterable[TableRecords]) -> list[dict[str, str]]:
    """Return the rows of records."""
    return [
        {
            **table_columns(one.table),
            "place": place_of_values(new.values),
            "directory": new.directory.name,
            "content": directory_text(new.directory),
        }
        for one in records
        for new in one.directories
    ]


def forget_places(connection: Connection, table: TableName, places: Iterable[str]) -> None:
    """Forget the directories of dropped partitions."""
    for chunk in chunks(places):
        connection.execute(_FORGET_PLACES, {**table_parameters(table), "places": chunk})


_UNMARK = delete(recorded_tables).where(is_of_table(recorded_tables))
_RECORD = insert(files)
_MARKED = marked_tables(bindparam("of_txn", type_=BigInteger))
_FORGET_PLACES = delete(files).where(
    is_of_table(files), files.c.place.in_(bindparam("places", expanding=True))
)
_FORGET = delete(files).where(
    is_of_table(files),
    files.c.place == bindparam("of_place"),
    files.c.directory.in_(bindparam("directories", expanding=True)),
)
# One row without a directory tells that a marked table has none.
_ALL = (
    select(files.c.place, files.c.directory, files.c.content)
    .select_from(recorded_tables.outerjoin(files, is_of_same_table(files, recorded_tables)))
    .where(is_of_table(recorded_tables))
)
_SOME = (
    select(files.c.place, files.c.directory, files.c.content)
    .select_from(
        recorded_tables.outerjoin(
            files,
            and_(
                is_of_same_table(files, recorded_tables),
                files.c.place.in_(bindparam("places", expanding=True)),
            ),
        )
    )
    .where(is_of_table(recorded_tables))
)
_FEW = 100
"""Partitions up to which a query names them."""


class FileRecords(SqlBase):
    """Implements :class:`hiveacid.ports.store.FileRecordsPort`."""

    def recorded_files(
        self, table: TableName, partitions: Sequence[Partition] | None
    ) -> Mapping[tuple[str, ...], Sequence[RecordedDirectory]] | None:
        """Return the recorded directories by the key of their partition."""
        refusals.table_name(table)
        keys = (
            {place_of_values(one.values): one.key for one in partitions}
            if partitions is not None
            else {"": ()}
        )
        parameters: dict[str, object] = {**table_parameters(table)}
        statement = _ALL
        if len(keys) <= _FEW:
            statement, parameters["places"] = _SOME, list(keys)
        rows = self._database.read(lambda connection: connection.execute(statement, parameters).all())
        if not rows:
            return None
        found: dict[tuple[str, ...], list[RecordedDirectory]] = {key: [] for key in keys.values()}
        for place, directory, content in rows:
            key = None if place is None else keys.get(place)
            if key is not None:
                found[key].append(directory_of_text(directory, content))
        return found

    def forget_directories(
        self, table: TableName, partition: Partition | None, directories: Sequence[str], held: TxnId
    ) -> None:
        """Forget directories that the cleaner is about to delete."""
        refusals.table_name(table)
        place = place_of_values(partition.values) if partition is not None else ""
        database: Database = self._database

        def work(connection: Connection) -> None:
            lock_open_txns(database, connection, [held])
            for chunk in chunks(directories):
                connection.execute(
                    _FORGET, {**table_parameters(table), "of_place": place, "directories": chunk}
                )

        write_exactly_once(database, work)


def may_be_recorded(table: TableDefinition) -> bool:
    """Tell whether the records of a new table in an unoccupied location are complete from the start."""
    return table.kind is not TableKind.PLAIN and not table.external
