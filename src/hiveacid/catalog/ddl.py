"""Databases, tables and partitions: create, alter, drop, truncate, adopt."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hiveacid import errors
from hiveacid.catalog.convert import convert, target_kind
from hiveacid.catalog.naming_rules import (
    check_bucket_count,
    check_database_location,
    check_location,
    check_name,
)
from hiveacid.catalog.property_rules import check_entries, check_properties, refuse_reserved
from hiveacid.config.property_definitions import (
    ADOPTED_INVALID,
    ADOPTED_TXN,
    BUCKETING_VERSION,
    HISTORY_FROM,
    LAST_DDL_TIME,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
)
from hiveacid.core.format.names import BaseName
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import (
    LAST_SEED,
    Column,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    TxnId,
    WriteId,
)
from hiveacid.core.schema.partitions import matching_partitions
from hiveacid.core.schema.storage_formats import supported_file_kind
from hiveacid.core.suggestions import did_you_mean
from hiveacid.core.transactions.locks import LockComponent, LockType
from hiveacid.ports.transactions import Operation, Start
from hiveacid.spark.write.column_casts import empty_rows
from hiveacid.storage.locations import list_layout
from hiveacid.storage.paths import absolute
from hiveacid.table.cleaning.clean_location import record_history_start
from hiveacid.table.cleaning.removal import (
    first_foreign_entry,
    locations_to_remove,
    remove_location,
    remove_table,
    require_listable,
)
from hiveacid.table.context import Context, all_tables
from hiveacid.table.definition import alter, check_definition, exclusive_name, exclusive_table
from hiveacid.table.partitions import (
    partition_name,
    partitions_of,
    partitions_on_disk,
    static_values,
)
from hiveacid.table.write.insert import InsertOptions, empty_partitions, write_rows
from hiveacid.transactions.transaction import Transaction

Spec = Mapping[str, object]


def create_database(context: Context, database: DatabaseDefinition, *, if_not_exists: bool = False) -> None:
    """Create a database below the warehouse (``name.db``) or at its location.

    Raises AlreadyExistsError, CatalogError (a name or location that cannot be).
    """
    if context.catalog.get_database(database.name) is not None and if_not_exists:
        return
    check_name("a database called", database.name)
    location = absolute(database.location or f"{context.warehouse}/{database.name}.db")
    check_database_location(location, context)
    context.catalog.create_database(replace(database, location=location))


def drop_database(context: Context, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
    """Drop an empty database or, with ``cascade``, a database and its tables and views.

    Nothing is dropped if the files of one table cannot be listed.
    """
    if context.catalog.get_database(name) is None:
        if if_exists:
            return
        raise errors.NoSuchDatabaseError(f"database {name} does not exist")
    if name == "default":
        raise errors.CatalogError("the database default cannot be dropped")
    tables, views = context.catalog.list_tables(name), context.catalog.list_views(name)
    if (tables or views) and not cascade:
        names = (*tables, *views)
        kinds = "tables and views" if views else "tables"
        raise errors.CatalogError(f"database {name} holds {len(names)} {kinds} ({names[0]} …): use CASCADE")
    for definition in filter(None, (context.catalog.get_table(TableName(name, table)) for table in tables)):
        _require_removable(context, definition, partitions_of(context, definition) or ())
    for view in views:
        context.catalog.drop_view(TableName(name, view))
    for table in tables:
        drop_table(context, TableName(name, table))
    context.catalog.drop_database(name)


def default_location(context: Context, name: TableName) -> str:
    """Return the location of a new table: Hive's default, or one beside it while a renamed table still uses it."""
    database = context.catalog.get_database(name.database)
    if database is None:
        raise errors.NoSuchDatabaseError(f"database {name.database} does not exist: CREATE DATABASE first")
    plain = f"{database.location}/{name.name}"
    locations = {table.location for table in all_tables(context)}
    return plain if plain not in locations else f"{plain}-{uuid.uuid4().hex[:8]}"


def prepare_table(context: Context, table: TableDefinition) -> TableDefinition:
    """Check a new table and set the defaults that Hive sets: location, owner, time, transactional properties.

    Raises AlreadyExistsError, NoSuchDatabaseError, CatalogError (the location of a transactional table is not empty).
    """
    if context.catalog.get_table(table.name) is not None:
        raise errors.AlreadyExistsError(f"table {table.name} exists already")
    if context.catalog.get_view(table.name) is not None:
        raise errors.AlreadyExistsError(
            f"view {table.name} exists already: DROP VIEW first, or take another name"
        )
    check_name("a table called", table.name.name)
    location = table.location or default_location(context, table.name)
    check_location(absolute(location), context, table.name)
    refuse_reserved(table.name, [key for key, _ in table.properties])
    check_entries(table.name, dict(table.properties))
    seconds = context.clock.now() // 1000
    properties = {BUCKETING_VERSION.name: "2", LAST_DDL_TIME.name: str(seconds)} | dict(table.properties)
    if table.kind is TableKind.FULL_ACID:
        properties.setdefault(TRANSACTIONAL_PROPERTIES.name, "default")
    definition = replace(
        table,
        location=absolute(location),
        properties=tuple(sorted(properties.items())),
        created_at=seconds,
        owner=table.owner or context.transactions.client.user,
    )
    target_kind(replace(table, properties=()), dict(table.properties))  # raises for unknown values
    check_definition(definition)
    check_bucket_count(definition)
    if definition.kind is not TableKind.PLAIN:
        supported_file_kind(definition)  # refuses what no statement could read or write
        require_unoccupied(context, definition.location)
    return definition


def require_unoccupied(context: Context, location: str) -> None:
    """Raise CatalogError for a directory with an entry, hidden or not, that hiveacid did not create."""
    entry = first_foreign_entry(context, location)
    if entry is not None:
        raise errors.CatalogError(
            f"{location} is not empty ({entry}): remove what lies there, or take it over with acid.adopt(…)"
        )


def create_table(context: Context, table: TableDefinition, *, if_not_exists: bool = False) -> None:
    """Create a table and its directory.

    The lock waits for a CREATE TABLE AS SELECT of the same name. The second of the two then finds the table, and does
    not write into the directory of the first.
    """
    if if_not_exists and _is_taken(context, table.name):
        return
    with exclusive_name(context, table.name):
        if if_not_exists and _is_taken(context, table.name):
            return
        definition = prepare_table(context, table)
        context.fs.make_directory(definition.location)
        context.catalog.create_table(definition)


def _is_taken(context: Context, name: TableName) -> bool:
    return context.catalog.get_table(name) is not None or context.catalog.get_view(name) is not None


def drop_table(context: Context, name: TableName, *, if_exists: bool = False) -> None:
    """Drop a table and, unless it is external, its own files; foreign files stay (`table.cleaning.removal`)."""
    context.cached_tables.release(name)
    if context.catalog.get_table(name) is None:
        if context.catalog.get_view(name) is not None:
            raise errors.CatalogError(f"{name} is a view: use DROP VIEW")
        if if_exists:
            return
        raise errors.NoSuchTableError(f"table {name} does not exist")
    with exclusive_table(context, name) as (table, _):
        partitions = partitions_of(context, table) or ()
        _require_removable(context, table, partitions)
        context.catalog.drop_table(name)
        if not table.external:
            remove_table(context, table, partitions)


def _require_removable(context: Context, table: TableDefinition, partitions: Sequence[Partition]) -> None:
    """Raise StorageError if DROP TABLE could not list what it deletes; an external table keeps its files."""
    if not table.external:
        require_listable(context, locations_to_remove(table, partitions))


def add_columns(context: Context, name: TableName, columns: Sequence[Column]) -> None:
    """Append columns; rows written before have NULL in them."""
    alter(context, name, lambda table: replace(table, columns=(*table.columns, *columns)))


def set_properties(context: Context, name: TableName, changes: Mapping[str, str]) -> None:
    """Set table properties; 'transactional' converts the table (`convert`) and cannot be set back."""
    table = context.require(name)
    check_properties(table, changes)
    check_entries(name, changes)
    changes_kind = any(key.lower() in (TRANSACTIONAL.name, TRANSACTIONAL_PROPERTIES.name) for key in changes)
    if changes_kind and target_kind(table, changes) is not TableKind.PLAIN:
        convert(context, name, changes)
        return

    def edit(table: TableDefinition) -> TableDefinition:
        check_properties(table, changes)
        return table.with_properties(dict(changes))

    alter(context, name, edit)


def unset_properties(
    context: Context, name: TableName, names: Sequence[str], *, if_exists: bool = False
) -> None:
    """Remove table properties."""
    refuse_reserved(name, names)

    def edit(table: TableDefinition) -> TableDefinition:
        for key in names:
            if table.property(key) is None and not if_exists:
                near = did_you_mean(key, dict(table.properties))
                raise errors.CatalogError(f"{name} has no property {key}{near}")
        if any(
            key.lower() in (TRANSACTIONAL.name, TRANSACTIONAL_PROPERTIES.name, BUCKETING_VERSION.name)
            for key in names
        ):
            raise errors.CatalogError(f"{name}: properties that decide how files are read cannot be unset")
        return table.without_properties(*map(str.lower, names))

    alter(context, name, edit)


def rename_table(context: Context, name: TableName, new: TableName) -> None:
    """Rename a table; its location does not change, so running readers are not disturbed."""
    if context.catalog.get_database(new.database) is None:
        raise errors.NoSuchDatabaseError(f"database {new.database} does not exist")
    check_name("a table called", new.name)
    context.cached_tables.release(name)
    alter(context, name, lambda table: replace(table, name=new))


def partition_values(context: Context, table: TableDefinition, spec: Spec) -> tuple[str | None, ...]:
    """Return the values of a full partition spec, checked against the columns' types."""
    if not table.partition_columns:
        raise errors.SchemaMismatchError(f"{table.name} is not partitioned")
    values = static_values(context, table, spec)
    missing = [c.name for c in table.partition_columns if c.name not in values]
    if missing:
        raise errors.SchemaMismatchError(f"the partition spec of {table.name} lacks {', '.join(missing)}")
    return tuple(values[c.name] for c in table.partition_columns)


def add_partitions(
    context: Context,
    name: TableName,
    specs: Sequence[tuple[Spec, str | None]],
    *,
    if_not_exists: bool = False,
) -> None:
    """Add empty partitions, each at its location or below the table."""
    table = context.require(name)
    existing = partitions_of(context, table) or ()
    existing_values = {p.values for p in existing}
    places = {p.location for p in existing}
    added: list[Partition] = []
    for spec, location in specs:
        values = partition_values(context, table, spec)
        if values in existing_values:
            if if_not_exists:
                continue
            raise errors.AlreadyExistsError(
                f"partition {partition_name(table, values)} of {name} exists already"
            )
        directory = absolute(location or f"{table.location}/{partition_name(table, values)}")
        if location is not None and not directory.startswith(f"{table.location}/"):
            check_location(directory, context)
        if location is not None and table.kind is not TableKind.PLAIN:
            require_unoccupied(context, directory)
        if directory in places:
            raise errors.CatalogError(f"another partition of {name} has the location {directory}")
        places.add(directory)
        added.append(Partition(values, directory))
    for partition in added:
        context.fs.make_directory(partition.location)
    context.catalog.add_partitions(name, added, empty=True)


def drop_partitions(
    context: Context,
    name: TableName,
    choose: Callable[[Sequence[Partition]], Sequence[Partition]],
    *,
    if_exists: bool,
) -> None:
    """Drop the chosen partitions and their files."""
    with exclusive_table(context, name) as (table, txn):
        chosen = choose(partitions_of(context, table) or ())
        if not chosen and not if_exists:
            raise errors.NoSuchPartitionError(f"{name} has no such partition: see SHOW PARTITIONS {name}")
        if not table.external:
            require_listable(context, [partition.location for partition in chosen])
        if chosen and table.kind is not TableKind.PLAIN and context.store.maintained_by_hiveacid():
            # no directory records the removal: a separate write id separates the snapshots before and after it
            record_history_start(context, name, txn.write_id(name))
        context.catalog.drop_partitions(name, chosen)
        if not table.external:
            for partition in chosen:
                remove_location(context, partition.location, table.kind)


def truncate(
    context: Context, name: TableName, spec: Spec | None = None, joined: Transaction | None = None
) -> None:
    """Remove all rows of a table or of the partitions of a (partial) spec, by an empty base for each.

    Open readers still read their snapshot.
    """
    table = context.require(name)
    static = static_values(context, table, spec)
    if table.external:
        raise errors.CatalogError(f"TRUNCATE of {name}: the table is external, its files belong to others")
    lock = LockComponent(LockType.EXCL_WRITE, name.database, name.name, None, Operation.UPDATE)
    changed = () if table.kind is TableKind.PLAIN else (name,)
    with context.transactions.scope(context.settings, joined, Start((lock,), changed)) as txn:
        table = context.require(name)
        options = InsertOptions(overwrite=True, small=True, named="TRUNCATE")
        if not table.partition_columns:
            write_rows(context, table, empty_rows(context.facts, table), {}, options, txn)
            return
        chosen = matching_partitions(table, partitions_of(context, table, txn) or (), static)
        if table.kind is TableKind.PLAIN:
            require_listable(context, [partition.location for partition in chosen])
        empty_partitions(context, table, chosen, options, txn)


def adopt(
    context: Context,
    table: TableDefinition,
    write_ids: ValidWriteIdList | None,
    txns: ValidTxnList | None,
) -> None:
    """Register a directory that another engine wrote as a table, without changing any file.

    ``write_ids``: its open ids count as aborted, because their writers cannot commit in this store. None: the highest
    write id on disk is the high watermark, and no id is open or aborted. ``txns``: directories of compactions that it
    does not list as committed are ignored. None: every ``_v`` directory counts as committed.

    Creates the database if it is missing. Raises MissingDirectoryError, AlreadyExistsError.
    """
    if not context.store.maintained_by_hiveacid():
        raise errors.UnsupportedFeatureError(
            f"{table.name} cannot be adopted into a Hive Metastore, which cannot record which of its directories are "
            "valid: adopt it into a store of hiveacid's own (warehouse=), and move it from there by hiveacid migrate"
        )
    if not context.fs.exists(table.location):
        raise errors.MissingDirectoryError("the table's directory does not exist", path=table.location)
    check_name("a table called", table.name.name)
    if context.catalog.get_database(table.name.database) is None:
        create_database(context, DatabaseDefinition(table.name.database, ""), if_not_exists=True)
    with exclusive_name(context, table.name):  # no writer may take a write id before the list is seeded
        _adopt(context, table, write_ids, txns)


def _adopt(
    context: Context, table: TableDefinition, write_ids: ValidWriteIdList | None, txns: ValidTxnList | None
) -> None:
    check_location(table.location, context, table.name)
    if context.catalog.get_table(table.name) is not None:
        raise errors.AlreadyExistsError(f"table {table.name} exists already")
    partitions = partitions_on_disk(context, table)
    roots = [p.location for p in partitions] if table.partition_columns else [table.location]
    highest, base, visible = _ids_on_disk(context, roots)
    visibility = max(visible, default=0)
    invalid = sorted(txn_id for txn_id in visible if txns is not None and not txns.is_valid(TxnId(txn_id)))
    properties = dict(table.properties) | {ADOPTED_TXN.name: str(visibility), HISTORY_FROM.name: str(base)}
    if invalid:
        properties[ADOPTED_INVALID.name] = ",".join(map(str, invalid))
    adopted = replace(table, properties=tuple(sorted(properties.items())))
    check_definition(adopted)
    context.catalog.create_table(adopted)
    try:
        context.catalog.add_partitions(table.name, partitions)
        if table.kind is not TableKind.PLAIN:
            _seed(context, table.name, write_ids, WriteId(highest), visibility, txns)
    except BaseException:
        context.catalog.drop_table(table.name)  # a table without its write ids would show no rows
        raise


def _seed(
    context: Context,
    name: TableName,
    write_ids: ValidWriteIdList | None,
    highest: WriteId,
    visibility: int,
    txns: ValidTxnList | None,
) -> None:
    context.store.seed_txns(TxnId(max(visibility, int(txns.high_watermark) if txns else 0)))
    if write_ids is not None:
        lost = tuple(sorted({*write_ids.open, *write_ids.aborted}))
        context.store.seed_write_ids(name, write_ids.high_watermark, lost)
    elif highest:
        context.store.seed_write_ids(name, highest, ())


def _ids_on_disk(context: Context, roots: Sequence[str]) -> tuple[int, int, set[int]]:
    """Return the highest write id of all directories, that of all bases, and all visibility transaction ids."""
    write_id = base = 0
    visible: set[int] = set()
    for root in roots:
        for directory in list_layout(context.fs, root).directories:
            name = directory.name
            if max(*name.span, name.visibility_txn_id) > LAST_SEED:
                raise errors.BadDirectoryNameError(
                    f"a table with ids above {LAST_SEED} cannot be taken over: too few ids would remain for new writes",
                    path=f"{root}/{directory.path}",
                )
            write_id = max(write_id, int(name.span[1]))
            base = max(base, int(name.write_id)) if isinstance(name, BaseName) else base
            if name.visibility_txn_id:
                visible.add(int(name.visibility_txn_id))
    return write_id, base, visible
