"""Files that commits record, and the mark of tables whose records are complete (`core.snapshot.file_records`).

The commit records files in its own transaction of the database. There it also takes the mark from each table of which it has
a write id, or which it compacts, and tells nothing. A table dropped meanwhile has taken the write ids with it, so that a late
commit records nothing for a new table of its name.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, and_, bindparam, delete, func, insert, select, union
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId
from hiveacid.core.snapshot.file_records import (
    LONGEST_FIRST_PART,
    NO_PLACES,
    RecordedDirectory,
    RecordedPlaces,
    TableRecords,
    directories_of_texts,
    directory_text,
    first_part,
)
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.schema import (
    files,
    is_of_same_table,
    is_of_table,
    place_of_values,
    recorded_place,
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


def _query(content: ColumnElement[Any]) -> Select[Any]:
    """Return the query of directories in some places; one row without a directory tells that a marked table has none there."""
    in_places = and_(
        is_of_same_table(files, recorded_tables), files.c.place.in_(bindparam("places", expanding=True))
    )
    return (
        select(files.c.place, files.c.directory, content)
        .select_from(recorded_tables.outerjoin(files, in_places))
        .where(is_of_table(recorded_tables))
    )


_WHOLE = _query(files.c.content)
_STARTS = _query(func.substr(files.c.content, 1, LONGEST_FIRST_PART))
_THESE = _WHOLE.where(files.c.directory.in_(bindparam("names", expanding=True)))
_MOST_NAMES = 500
"""Directories up to which a query names them."""
_MOST_PLACES = 2_000
"""Partitions that a query names."""
_NAME = attrgetter("name")
_Row = tuple[str, str, str]
"""Place, name and content, or its first characters, of a directory; all None if there is none."""


class _Places(dict[tuple[str, ...], list[RecordedDirectory]]):
    """Recorded directories, with the rows that a later query returns if nothing has changed.

    ``places``: keys of partitions by their place.
    """

    starts: Sequence[_Row] | None = None
    places: Mapping[str, tuple[str, ...]]


_Texts = Mapping[tuple[str, str], str]
"""Texts by place and name."""


class FileRecords(SqlBase):
    """Implements :class:`hiveacid.ports.store.FileRecordsPort`."""

    def recorded_files(
        self, table: TableName, partitions: Sequence[Partition] | None, known: RecordedPlaces = NO_PLACES
    ) -> RecordedPlaces | None:
        """Return the recorded directories by the key of their partition; ``known`` itself if it still is the answer."""
        refusals.table_name(table)
        wanted = [()] if partitions is None else [one.key for one in partitions]
        before = known.starts if isinstance(known, _Places) and [*known] == wanted else None
        if isinstance(known, _Places) and before is not None:
            keys = known.places
        else:
            keys = (
                {recorded_place(one): one.key for one in partitions} if partitions is not None else {"": ()}
            )
        if not any(known.values()):
            rows = self._database.read(lambda connection: _rows(connection, _WHOLE, table, keys))
            if rows is None:
                return None
            texts = {(place, name): text for place, name, text in rows if place in keys}
            starts = [(place, name, text[:LONGEST_FIRST_PART]) for (place, name), text in texts.items()]
            return _answer(keys, {}, starts, texts)
        return self._database.read(lambda connection: _changed(connection, table, keys, known, before))

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

    def end_records(self, table: TableName, held: TxnId) -> None:
        """Take the mark of complete records from a table."""
        refusals.table_name(table)
        database: Database = self._database

        def work(connection: Connection) -> None:
            lock_open_txns(database, connection, [held])
            connection.execute(_UNMARK, table_parameters(table))

        write_exactly_once(database, work)


def _rows(
    connection: Connection,
    query: Select[Any],
    table: TableName,
    places: Iterable[str],
    names: Collection[str] = (),
) -> list[_Row] | None:
    """Return the rows of a query for all places; None if some of it found none, since the table has lost its mark."""
    parameters: dict[str, object] = {**table_parameters(table), "names": list(names)}
    rows: list[_Row] = []
    for some in list(chunks(places, _MOST_PLACES)) or [()]:
        found = list(map(tuple, connection.execute(query, {**parameters, "places": list(some)})))
        if not found:
            return None
        rows += found
    return rows


def _changed(
    connection: Connection,
    table: TableName,
    keys: Mapping[str, tuple[str, ...]],
    known: RecordedPlaces,
    before: Sequence[_Row] | None,
) -> RecordedPlaces | None:
    """Return what is recorded by now, ``known`` if that is so after ``before``; None if it may be incomplete."""
    found = _rows(connection, _STARTS, table, keys)
    if found is None:
        return None
    starts = [row for row in found if row[0] in keys]  # one of no place: there is none
    if starts == before:
        return known
    kept = {(place, one.name): one for place, key in keys.items() for one in known.get(key, ())}
    new = {(place, name) for place, name, start in starts if not _kept(kept, place, name, start)}
    if not new:
        return _answer(keys, kept, starts, {})
    names = {name for _, name in new}
    some = len(names) <= _MOST_NAMES
    places = dict.fromkeys(place for place, _ in new)
    texts = _rows(connection, _THESE if some else _WHOLE, table, places, names if some else ())
    found_now = {(place, name): text for place, name, text in texts or ()}
    if not new <= found_now.keys():  # the mark was taken meanwhile, or a directory forgotten
        return None
    return _answer(keys, kept, starts, found_now)


def _answer(
    keys: Mapping[str, tuple[str, ...]],
    kept: Mapping[tuple[str, str], RecordedDirectory],
    starts: Sequence[_Row],
    texts: _Texts,
) -> _Places:
    by_name: dict[str, dict[str, RecordedDirectory]] = {place: {} for place in keys}
    new = []
    for place, name, start in starts:
        directory = _kept(kept, place, name, start) if kept else None
        if directory is not None:
            by_name[place][name] = directory
        else:
            new.append((place, name))
    read_now = directories_of_texts([(one[1], texts[one]) for one in new])
    for (place, name), directory in zip(new, read_now, strict=True):
        by_name[place][name] = directory
    answer = _Places({key: sorted(by_name[place].values(), key=_NAME) for place, key in keys.items()})
    if sum(map(len, answer.values())) == len(starts):
        answer.starts, answer.places = starts, keys
    return answer


def _kept(
    kept: Mapping[tuple[str, str], RecordedDirectory], place: str, name: str, text: str
) -> RecordedDirectory | None:
    """Return a directory that the caller knows; None if it does not, or if another one has the name by now."""
    directory = kept.get((place, name))
    return directory if directory is not None and text.startswith(first_part(directory)) else None


def may_be_recorded(table: TableDefinition) -> bool:
    """Tell whether the records of a new table in an unoccupied location are complete from the start."""
    return table.kind is not TableKind.PLAIN and not table.external
