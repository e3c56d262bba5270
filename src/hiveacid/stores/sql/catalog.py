"""Databases, tables, partitions and views, and the catalog changes of a commit, in the commit's own transaction of the database.

Each definition is one JSON text (``stored_definitions``), so that a new field needs no migration.

Invariants: tables and views share their names; no location of a table or partition meets another one's, and none holds a
database's. A verb that records a name or a location holds the key ``locations``, so that two clients do so one after the
other.
"""

from __future__ import annotations

import secrets
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace

from sqlalchemy import Connection, Table, bindparam, delete, func, insert, select, update
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import (
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    ViewDefinition,
)
from hiveacid.core.schema.location_overlap import (
    Place,
    is_same_location,
    lies_in,
    overlap,
    place_of_database,
    place_of_partition,
    place_of_table,
)
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.errors import WriteConflictError
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.stores import refusals
from hiveacid.stores.sql import commit_records, compaction_queue, file_records
from hiveacid.stores.sql.database import Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.schema import (
    StoredLocations,
    all_places,
    changed_partitions,
    commits,
    compactions,
    database_of,
    databases,
    figures,
    files,
    is_of_table,
    lock_components,
    lock_requests,
    next_write_ids,
    partition_digest,
    partition_of,
    partitions,
    placed_partitions,
    recorded_tables,
    require_free,
    streams,
    table_columns,
    table_of,
    table_parameters,
    tables,
    to_text,
    view_of,
    views,
    write_ids,
    written,
)
from hiveacid.stores.sql.snapshots_and_write_ids import lowest_open_write_id

_DATABASE = select(databases.c.definition).where(databases.c.name == bindparam("name"))
_TABLE, _VIEW = (
    select(kind.c.definition).where(
        kind.c.database_name == bindparam("database"), kind.c.name == bindparam("name")
    )
    for kind in (tables, views)
)
_LOCKED_TABLE, _LOCKED_VIEW = _TABLE.with_for_update(), _VIEW.with_for_update()
_PARTITIONS = select(partitions.c.definition).where(is_of_table(partitions))
_LOCATIONS = {"locations": True}
"""Key of the transactions that record locations: one at a time, so that of two with one location the second is refused."""


class SqlCatalog(SqlBase):
    """Implements :class:`hiveacid.ports.catalog.Catalog`."""

    def create_database(self, database: DatabaseDefinition) -> None:
        """Create a database."""
        self._put_database(database, replaces=False)

    def alter_database(self, database: DatabaseDefinition, seen: DatabaseDefinition | None = None) -> None:
        """Replace a database's definition."""
        self._put_database(database, seen, replaces=True)

    def _put_database(
        self, database: DatabaseDefinition, seen: DatabaseDefinition | None = None, *, replaces: bool
    ) -> None:
        refusals.database(database)

        def work(connection: Connection) -> None:
            # first, or of two that create one database the second would be told that its location is taken
            self._database.dialect.serialise(connection, _LOCATIONS)
            text = connection.scalar(_DATABASE, {"name": database.name})
            if replaces is (text is None):
                raise (refusals.no_database if replaces else refusals.database_exists)(database.name)
            locations, new = self._database.locations, place_of_database(database.name, database.location)
            before = text and database_of(text, locations)
            refusals.require_unchanged(before, seen)
            old = before and place_of_database(database.name, before.location)
            if new != old:
                require_free(connection, locations, [new], leaving=old or None)
            row = {"definition": to_text(database, locations), "location": locations.to_stored(new.location)}
            this = update(databases).where(databases.c.name == database.name)
            change = this if replaces else insert(databases)
            connection.execute(change.values({"name": database.name, **row}))

        write_exactly_once(self._database, work)

    def drop_database(self, name: str) -> None:
        """Drop an empty database."""
        refusals.database_name(name)

        def work(connection: Connection) -> None:
            _require_database(connection, name)
            number = select(func.count())
            counts = (
                number.select_from(kind).where(kind.c.database_name == name) for kind in (tables, views)
            )
            count = sum(connection.scalar(one) or 0 for one in counts)
            if count:
                raise refusals.database_not_empty(name, count)
            connection.execute(delete(databases).where(databases.c.name == name))

        write_exactly_once(self._database, work)

    def get_database(self, name: str) -> DatabaseDefinition | None:
        """Return a database or None."""
        refusals.database_name(name)
        text = self._database.read(lambda connection: connection.scalar(_DATABASE, {"name": name}))
        return None if text is None else database_of(text, self._database.locations)

    def list_databases(self) -> tuple[str, ...]:
        """Return the names, sorted."""
        names = select(databases.c.name)
        return tuple(sorted(self._database.read(lambda connection: connection.scalars(names).all())))

    def create_table(self, table: TableDefinition, *, unoccupied: bool = False) -> None:
        """Create a table."""
        refusals.table(table)

        def work(connection: Connection) -> None:
            _create_table(self._database, connection, table, unoccupied=unoccupied)

        write_exactly_once(self._database, work)

    def drop_table(self, name: TableName, seen: TableDefinition | None = None) -> None:
        """Drop a table with its partitions and its transaction state."""
        refusals.table_name(name)

        write_exactly_once(
            self._database, lambda connection: _drop_table(self._database, connection, name, seen)
        )

    def get_table(self, name: TableName) -> TableDefinition | None:
        """Return a table or None."""
        refusals.table_name(name)
        text = self._database.read(lambda connection: connection.scalar(_TABLE, table_parameters(name)))
        return None if text is None else table_of(text, self._database.locations)

    def list_tables(self, database: str) -> tuple[str, ...]:
        """Return the names, sorted."""
        return self._list_names(tables, database)

    def alter_table(
        self,
        name: TableName,
        table: TableDefinition,
        *,
        replacing: TableDefinition | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """Replace a definition; a new name is written to the rows with the old name (`_rename`)."""
        refusals.table_name(name)
        refusals.table(table)
        new = table.name

        def work(connection: Connection) -> None:
            old_row = require_table(self._database, connection, name, seen)
            refusals.require_same_table(old_row, table, seen)
            if new != name:
                if replacing is not None and connection.scalar(_TABLE, table_parameters(new)) is not None:
                    _drop_table(self._database, connection, new, replacing)
                _require_free_name(self._database, connection, new)
                _purge(connection, new)
                _rename(connection, name, new)
            _replace(self._database, connection, old_row, table)

        write_exactly_once(self._database, work)

    def add_partitions(
        self,
        name: TableName,
        partitions: Sequence[Partition],
        *,
        empty: bool = False,  # noqa: ARG002 - it counts no rows
        seen: TableDefinition | None = None,
    ) -> None:
        """Add the partitions that do not exist yet. Raises WriteConflictError if one exists at another location."""
        refusals.table_name(name)
        refusals.partitions(partitions)

        def work(connection: Connection) -> None:
            table = require_table(self._database, connection, name, seen)
            by_digest = _by_digest(partitions)
            existing = _read_partitions(self._database.locations, connection, name, by_digest)
            elsewhere = _first_misplaced(name, partitions, existing)
            if elsewhere is not None:
                raise WriteConflictError(elsewhere)
            _insert_partitions(self._database, connection, table, by_digest, existing)

        write_exactly_once(self._database, work)

    def drop_partitions(
        self, name: TableName, partitions: Sequence[Partition], seen: TableDefinition | None = None
    ) -> None:
        """Drop partitions by values; missing ones are ignored."""
        refusals.table_name(name)
        refusals.partitions(partitions)

        def work(connection: Connection) -> None:
            require_table(self._database, connection, name, seen)
            _drop_partitions(connection, name, partitions)

        write_exactly_once(self._database, work)

    def list_partitions(self, name: TableName) -> tuple[Partition, ...]:
        """Return all partitions, sorted by values."""
        refusals.table_name(name)

        def work(connection: Connection) -> Sequence[str]:
            texts = connection.scalars(_PARTITIONS, table_parameters(name)).all()
            if not texts:
                require_table(self._database, connection, name)
            return texts

        texts = self._database.read(work)
        return self._listed.read(name, texts, self._database.locations)

    def list_partition_names(self, name: TableName) -> frozenset[str]:
        """Return the names of all partitions."""
        table = self._database.read(lambda connection: require_table(self._database, connection, name))
        columns = table.partition_column_names
        return frozenset(format_partition(columns, one.values) for one in self.list_partitions(name))

    def places(self) -> tuple[Place, ...]:
        """Return the directories of databases and tables, and of partitions outside their tables'."""
        locations = self._database.locations
        return tuple(self._database.read(lambda connection: all_places(connection, locations)))

    def get_view(self, name: TableName) -> ViewDefinition | None:
        """Return a view or None."""
        refusals.table_name(name)
        text = self._database.read(lambda connection: connection.scalar(_VIEW, table_parameters(name)))
        return None if text is None else view_of(text)

    def list_views(self, database: str) -> tuple[str, ...]:
        """Return the names, sorted."""
        return self._list_names(views, database)

    def create_view(self, view: ViewDefinition) -> None:
        """Create a view."""
        refusals.table_name(view.name)

        def work(connection: Connection) -> None:
            _require_free_name(self._database, connection, view.name)
            _insert_definition(self._database.locations, connection, views, view)

        write_exactly_once(self._database, work)

    def alter_view(self, name: TableName, view: ViewDefinition, seen: ViewDefinition | None = None) -> None:
        """Replace a view's definition, and its name if that differs."""
        refusals.table_name(name)
        refusals.table_name(view.name)

        def work(connection: Connection) -> None:
            text = connection.scalar(_LOCKED_VIEW, table_parameters(name))
            if text is None:
                raise refusals.no_view(name)
            refusals.require_unchanged(view_of(text), seen)
            if view.name != name:
                _require_free_name(self._database, connection, view.name)
            _update_definition(self._database.locations, connection, views, name, view)

        write_exactly_once(self._database, work)

    def drop_view(self, name: TableName) -> None:
        """Drop a view."""
        refusals.table_name(name)

        def work(connection: Connection) -> None:
            if not connection.execute(delete(views).where(*_is_named(views, name))).rowcount:
                raise refusals.no_view(name)

        write_exactly_once(self._database, work)

    def _list_names(self, kind: Table, database: str) -> tuple[str, ...]:
        refusals.database_name(database)
        statement = select(kind.c.name).where(kind.c.database_name == database)

        def work(connection: Connection) -> tuple[str, ...]:
            names = tuple(sorted(connection.scalars(statement)))
            if not names:
                _require_database(connection, database)
            return names

        return self._database.read(work)


def _is_named(kind: Table, name: TableName) -> tuple[ColumnElement[bool], ...]:
    return kind.c.database_name == name.database, kind.c.name == name.name


def _insert_definition(
    locations: StoredLocations,
    connection: Connection,
    kind: Table,
    definition: TableDefinition | ViewDefinition,
) -> None:
    connection.execute(insert(kind), _row(locations, definition))


def _update_definition(
    locations: StoredLocations,
    connection: Connection,
    kind: Table,
    old: TableName,
    definition: TableDefinition | ViewDefinition,
) -> None:
    connection.execute(update(kind).where(*_is_named(kind, old)).values(_row(locations, definition)))


def _row(locations: StoredLocations, definition: TableDefinition | ViewDefinition) -> dict[str, str]:
    name = definition.name
    row = {"database_name": name.database, "name": name.name, "definition": to_text(definition, locations)}
    if isinstance(definition, TableDefinition):
        row["location"] = locations.to_stored(definition.location)
    return row


def _create_table(
    database: Database, connection: Connection, definition: TableDefinition, *, unoccupied: bool
) -> None:
    """Create a table under a lock, so that of two concurrent tables the second one sees the first one's location."""
    name = definition.name
    _require_free_name(database, connection, name)
    require_free(connection, database.locations, [place_of_table(name, definition.location)])
    _insert_definition(
        database.locations, connection, tables, replace(definition, incarnation=secrets.token_hex(8))
    )
    if definition.kind is not TableKind.PLAIN:
        commit_records.start_history(connection, name, "CREATE TABLE", database.now())
    if unoccupied and file_records.may_be_recorded(definition):
        file_records.mark_recorded(connection, name)


def _replace(
    database: Database, connection: Connection, old: TableDefinition, definition: TableDefinition
) -> None:
    if old.kind is TableKind.PLAIN and definition.kind is not TableKind.PLAIN:
        commit_records.start_history(connection, definition.name, "CONVERT", database.now())
    if not is_same_location(old.location, definition.location):
        database.dialect.serialise(connection, _LOCATIONS)
        require_free(connection, database.locations, [place_of_table(old.name, definition.location)])
    file_records.unmark_if_changed(connection, old, definition)
    new = replace(definition, incarnation=old.incarnation)
    _update_definition(database.locations, connection, tables, old.name, new)


def _drop_table(
    database: Database, connection: Connection, name: TableName, seen: TableDefinition | None
) -> None:
    require_table(database, connection, name, seen)
    connection.execute(delete(tables).where(*_is_named(tables, name)))
    _purge(connection, name)


_ABOUT_TABLES = (
    *(write_ids, next_write_ids, written, compactions, changed_partitions, streams, commits),
    *(recorded_tables, files, figures),
)


def _purge(connection: Connection, name: TableName) -> None:
    for table in _ABOUT_TABLES:
        connection.execute(delete(table).where(is_of_table(table)), table_parameters(name))


def _rename(connection: Connection, old: TableName, new: TableName) -> None:
    """Write the new name to all rows with the old name, except waiting lock requests.

    A waiting statement looks its table up by the old name once it is granted. It then needs a lock on that name.
    """
    compaction_queue.requeue_claimed_jobs(connection, old)
    for table in _ABOUT_TABLES:
        connection.execute(
            update(table).where(is_of_table(table)).values(table_columns(new)), table_parameters(old)
        )
    connection.execute(
        update(lock_components)
        .where(is_of_table(lock_components), lock_components.c.request_id.in_(_GRANTED))
        .values(table_columns(new)),
        table_parameters(old),
    )


_GRANTED = select(lock_requests.c.id).where(lock_requests.c.state == LockState.ACQUIRED.value)


def _by_digest(new_partitions: Iterable[Partition]) -> dict[str, Partition]:
    by_digest: dict[str, Partition] = {}
    for partition in new_partitions:
        by_digest.setdefault(partition_digest(partition), partition)
    return by_digest


def _read_partitions(
    locations: StoredLocations, connection: Connection, name: TableName, digests: Iterable[str]
) -> dict[str, Partition]:
    return {
        row.digest: partition_of(row.definition, locations)
        for chunk in chunks(digests)
        for row in connection.execute(_KNOWN, {**table_parameters(name), "digests": chunk})
    }


def _insert_partitions(
    database: Database,
    connection: Connection,
    table: TableDefinition,
    by_digest: Mapping[str, Partition],
    existing: Container[str],
) -> None:
    locations, columns = database.locations, table_columns(table.name)
    new = {digest: partition for digest, partition in by_digest.items() if digest not in existing}
    placed = _placed(database, connection, table, new)
    lowest = lowest_open_write_id(database, connection, table.name, exclusive=False) if new else 0
    for chunk in chunks(new):
        rows = []
        for digest in chunk:
            recorded = replace(new[digest], min_write_id=max(new[digest].min_write_id, lowest))
            rows.append(columns | {"digest": digest, "definition": to_text(recorded, locations)})
        connection.execute(insert(partitions), rows)
    for chunk in chunks(placed):
        rows = [
            columns | {"digest": digest, "location": locations.to_stored(placed[digest])} for digest in chunk
        ]
        connection.execute(insert(placed_partitions), rows)


def _placed(
    database: Database, connection: Connection, table: TableDefinition, new: Mapping[str, Partition]
) -> dict[str, str]:
    """Return the locations outside the table's directory, by digest. Raises CatalogError unless all locations are free.

    Locations that differ from the default are compared: those inside the table with its other partitions, new ones included,
    those outside with all places. The default ones differ from each other.
    """
    names = table.partition_column_names
    chosen = {
        digest: partition.location
        for digest, partition in new.items()
        # streams record the location of an unpartitioned table as a partition without values
        if partition.values
        and not is_same_location(
            partition.location, f"{table.location}/{format_partition(names, partition.values)}"
        )
    }
    if not chosen:
        return {}
    database.dialect.serialise(connection, _LOCATIONS)
    outside = {digest: place for digest, place in chosen.items() if not lies_in(place, table.location)}
    require_free(
        connection, database.locations, [place_of_partition(table.name, place) for place in outside.values()]
    )
    if len(outside) < len(chosen):
        texts = connection.scalars(_PARTITIONS, table_parameters(table.name))
        taken = [partition_of(text, database.locations).location for text in texts]
        taken += [partition.location for digest, partition in new.items() if digest not in chosen]
        for digest in chosen.keys() - outside.keys():
            other = next((other for other in taken if overlap(chosen[digest], other)), None)
            if other is not None:
                raise refusals.location_taken(chosen[digest], place_of_partition(table.name, other))
            taken.append(chosen[digest])
    return outside


def _drop_partitions(connection: Connection, name: TableName, dropped: Iterable[Partition]) -> None:
    places = list(map(partition_digest, dropped))
    for digests in chunks(places):
        connection.execute(_DROP_PARTITIONS, {**table_parameters(name), "digests": digests})
    file_records.forget_places(connection, name, places)


_THESE = partitions.c.digest.in_(bindparam("digests", expanding=True))
_KNOWN = select(partitions.c.digest, partitions.c.definition).where(is_of_table(partitions), _THESE)
_DROP_PARTITIONS = delete(partitions).where(is_of_table(partitions), _THESE)


ExistingPartitions = Mapping[TableName, Mapping[str, Partition]]


def existing_partitions(
    database: Database, connection: Connection, changes: CatalogChanges
) -> ExistingPartitions:
    """Return those of the new partitions that other clients have created meanwhile, by table and digest."""
    return {
        name: _read_partitions(database.locations, connection, name, _by_digest(new_partitions))
        for name, new_partitions in _by_table(changes).items()
    }


def misplaced_partition(changes: CatalogChanges, existing: ExistingPartitions) -> str | None:
    """Return the reason why a new partition conflicts with an existing one at another location, None if there is none."""
    reasons = (_first_misplaced(name, new, existing[name]) for name, new in _by_table(changes).items())
    return next(filter(None, reasons), None)


def _first_misplaced(
    name: TableName, new_partitions: Sequence[Partition], existing: Mapping[str, Partition]
) -> str | None:
    by_digest = {**_by_digest(new_partitions), **existing}
    for partition in new_partitions:
        match = by_digest[partition_digest(partition)]
        if not is_same_location(match.location, partition.location):
            return refusals.misplaced_partition(name, partition, match)
    return None


def apply_changes(
    database: Database, connection: Connection, changes: CatalogChanges, existing: ExistingPartitions
) -> None:
    """Apply the changes; new partitions of tables that were dropped meanwhile are ignored.

    ``existing``: of `existing_partitions`. If another client creates one of them later, the commit fails and is repeated.
    """
    told = {one.table for one in changes.records}  # of an adopted table, nothing is told
    for definition in changes.tables:
        _create_table(database, connection, definition, unoccupied=definition.name in told)
    for definition in changes.altered:
        old_row = require_table(database, connection, definition.name)
        refusals.require_same_table(old_row, definition)
        _replace(database, connection, old_row, definition)
    for name in dict.fromkeys(name for name, _ in changes.dropped):
        dropped = [partition for table, partition in changes.dropped if table == name]
        _drop_partitions(connection, name, dropped)
    for name, new_partitions in _by_table(changes).items():
        text, new = connection.scalar(_TABLE, table_parameters(name)), _by_digest(new_partitions)
        if text is not None:
            _insert_partitions(database, connection, table_of(text, database.locations), new, existing[name])


def _by_table(changes: CatalogChanges) -> dict[TableName, list[Partition]]:
    new_partitions: dict[TableName, list[Partition]] = {}
    for addition in changes.partitions:
        new_partitions.setdefault(addition.table, []).append(addition.partition)
    return new_partitions


def require_table(
    database: Database, connection: Connection, name: TableName, seen: TableDefinition | None = None
) -> TableDefinition:
    """Return a table's definition. With ``seen``, lock its row, and raise WriteConflictError if it is another table."""
    text = connection.scalar(_TABLE if seen is None else _LOCKED_TABLE, table_parameters(name))
    if text is None:
        raise refusals.no_table(name)
    table = table_of(text, database.locations)
    if seen is not None:
        refusals.require_same_table(table, seen)
    return table


def _require_database(connection: Connection, name: str) -> None:
    """Raise NoSuchDatabaseError unless the database exists."""
    if connection.scalar(_DATABASE, {"name": name}) is None:
        raise refusals.no_database(name)


def _require_free_name(database: Database, connection: Connection, name: TableName) -> None:
    """Raise AlreadyExistsError if a table or view has the name; reserve the name until the database transaction ends."""
    database.dialect.serialise(connection, _LOCATIONS)
    _require_database(connection, name.database)
    if connection.scalar(_TABLE, table_parameters(name)) is not None:
        raise refusals.table_exists(name)
    if connection.scalar(_VIEW, table_parameters(name)) is not None:
        raise refusals.view_exists(name)
