"""Tables, partitions and views in the catalog: create, alter, drop, truncate.

The package ``sql`` interprets the texts of views.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace

from hiveacid import errors
from hiveacid.catalog.convert import convert, target_kind
from hiveacid.catalog.validate_definition import (
    check_entries,
    check_name,
    check_place,
    check_properties,
    place_table,
    refuse_reserved,
    split_external,
)
from hiveacid.config.property_definitions import (
    BUCKETING_VERSION,
    HISTORY_FROM,
    KIND_PROPERTIES,
    LAST_DDL_TIME,
    LAYOUT_LEVEL,
    ORC_COMPRESS,
    PARTITIONS_DROPPED,
    TRANSACTIONAL_PROPERTIES,
)
from hiveacid.core.format.acid_columns import MAX_BUCKET
from hiveacid.core.format.names import parse_directory
from hiveacid.core.model import (
    Column,
    Partition,
    TableDefinition,
    TableKind,
    TableName,
    ViewDefinition,
    WriteId,
)
from hiveacid.core.schema import constraints
from hiveacid.core.schema.location_overlap import lies_in, may_lie_in, overlap, place_of_partition
from hiveacid.core.schema.partitions import KnownPartitions, parse_partition_values, require_partitions
from hiveacid.core.schema.storage_formats import FileKind, file_kind, supported_file_kind
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.transactions import Start, current_write_ids_of
from hiveacid.spark.write.column_casts import empty_rows
from hiveacid.storage.paths import absolute, real_path, real_paths
from hiveacid.table.cleaning.remove_files import (
    first_foreign_entry,
    locations_to_remove,
    remove_location,
    remove_table,
    require_listable,
)
from hiveacid.table.codec_and_writer_options import orc_codec
from hiveacid.table.context import Context, StoreContext
from hiveacid.table.definition import (
    add_missing_columns,
    check_definition,
    exclusive_name,
    exclusive_table,
    lock_of_location,
    put_definition,
)
from hiveacid.table.partitions import (
    PartitionValues,
    partition_name,
    partitions_of,
    require_no_leftovers,
    static_values,
)
from hiveacid.table.tags import require_no_tags
from hiveacid.table.write.insert import InsertOptions, empty_partitions, insert_lock, write_rows
from hiveacid.table.write.load import LoadOptions, load
from hiveacid.transactions.transaction import Transaction

Spec = Mapping[str, object]


def prepare_table(context: StoreContext, table: TableDefinition) -> TableDefinition:
    """Check a new table and set the defaults that Hive sets: location, owner, time, transactional properties.

    Raises AlreadyExistsError, NoSuchDatabaseError, CatalogError (the location of a transactional table is not empty).
    """
    if context.catalog.get_table(table.name) is not None:
        raise errors.already_exists("table", table.name)
    if context.catalog.get_view(table.name) is not None:
        raise errors.already_exists("view", table.name, "DROP VIEW first, or take another name")
    check_name("table", table.name.name)
    properties, external = split_external(dict(table.properties))
    table = replace(table, properties=tuple(properties.items()), external=table.external or external is True)
    database = context.catalog.get_database(table.name.database)
    if database is None:
        raise errors.NoSuchDatabaseError(
            f"database {table.name.database} does not exist: CREATE DATABASE first"
        )
    location = place_table(context, table.name, database.location, table.location)
    refuse_reserved(table.name, [key for key, _ in table.properties])
    check_entries(table.name, dict(table.properties))
    seconds = context.clock.now() // 1000
    properties = {BUCKETING_VERSION.name: "2", LAST_DDL_TIME.name: str(seconds)} | dict(table.properties)
    if table.kind is TableKind.FULL_ACID:
        properties.setdefault(TRANSACTIONAL_PROPERTIES.name, "default")
    definition = replace(
        table,
        location=location,
        properties=tuple(sorted(properties.items())),
        created_at=seconds,
        owner=table.owner or context.transactions.client.user,
    )
    target_kind(replace(table, properties=()), dict(table.properties))  # raises for unknown values
    definition = replace(
        definition, constraints=constraints.with_added(definition, (), definition.constraints)
    )
    check_definition(definition)
    buckets = definition.bucketing.count if definition.bucketing else 0
    if definition.kind is TableKind.FULL_ACID and buckets > MAX_BUCKET + 1:  # Hive fails at the first INSERT
        raise errors.CatalogError(
            f"{definition.name}: INTO {buckets} BUCKETS: a row id has room for {MAX_BUCKET + 1} buckets at most"
        )
    _check_codec(context, definition)
    if definition.kind is not TableKind.PLAIN:
        supported_file_kind(definition)  # refuses what no statement could read or write
        require_unoccupied(context, definition.location)
    else:
        require_no_acid_files(context, definition.location)
    return definition


def _check_codec(context: StoreContext, table: TableDefinition) -> None:
    """Raise UnsupportedFeatureError for a codec that Hive 3.1 cannot read, in a table of its layout level."""
    if ORC_COMPRESS.of(table) and file_kind(table.storage) is FileKind.ORC:
        orc_codec(table, context.settings)


def require_unoccupied(context: StoreContext, location: str) -> None:
    """Raise CatalogError for a directory with an entry, hidden or not, that hiveacid did not create."""
    entry = first_foreign_entry(context, location)
    if entry is not None:
        raise errors.CatalogError(
            f"{location} is not empty ({entry}): remove what lies there, or take it over with acid.adopt(…)"
        )


def require_no_acid_files(context: StoreContext, location: str) -> None:
    """Raise CatalogError for a plain table's directory with ACID directories, which it would read and delete as its own."""
    entries = context.fs.list_directory(location) if context.fs.exists(location) else ()
    acid = next((entry.path for entry in entries if entry.is_dir and parse_directory(entry.path)), None)
    if acid is not None:
        raise errors.CatalogError(
            f"{location} holds files of a transactional table ({acid}): take it over with acid.adopt(…)"
        )


def create_table(context: StoreContext, table: TableDefinition, *, if_not_exists: bool = False) -> None:
    """Create a table and its directory.

    The lock waits for a CREATE TABLE AS SELECT of the same name. The second of the two then finds the table, and does
    not write into the directory of the first. The lock on the location waits for a DROP TABLE, or it would delete the new
    table's directory with the files of an earlier table there.
    """
    if if_not_exists and is_taken(context, table.name):
        return
    with exclusive_name(context, table.name) as txn:
        if if_not_exists and is_taken(context, table.name):
            return
        definition = prepare_table(context, table)
        txn.lock([lock_of_location(definition.location)])
        if definition.kind is not TableKind.PLAIN:  # again: INSERT OVERWRITE DIRECTORY may have had the lock
            require_unoccupied(context, definition.location)
        context.fs.make_directory(definition.location)
        txn.require_open_in_store()  # without the lock, a DROP may be deleting what lies there
        context.catalog.create_table(definition, unoccupied=True)  # `prepare_table` has looked


def is_taken(context: StoreContext, name: TableName) -> bool:
    """Tell whether a table or view has a name."""
    return context.catalog.get_table(name) is not None or context.catalog.get_view(name) is not None


def drop_table(context: Context, name: TableName, *, if_exists: bool = False) -> None:
    """Drop a table and, unless it is external, its own files (`table.cleaning.remove_files`); foreign ones stay."""
    if context.catalog.get_table(name) is None:
        if context.catalog.get_view(name) is not None:
            raise errors.CatalogError(f"{name} is a view: use DROP VIEW")
        if if_exists:
            return
        raise errors.NoSuchTableError(f"table {name} does not exist")
    gone = (errors.NoSuchTableError, errors.NoSuchDatabaseError) if if_exists else ()
    # of two at once the second waits for the lock of the first
    with suppress(*gone), exclusive_table(context, name) as (table, txn):
        partitions = partitions_of(context, table) or ()
        require_removable(context, table, partitions)
        txn.lock([lock_of_location(one) for one in locations_to_remove(table, partitions)])
        txn.require_open_in_store()  # without the lock, another client may have created the table again meanwhile
        context.catalog.drop_table(name, table)
        if not table.external:
            remove_table(context, table, partitions, txn)


def replace_table(
    context: Context, name: TableName, content: TableName, check: Callable[[], None] = lambda: None
) -> None:
    """Give the table ``content`` the name of another one, which is dropped with its files, in one step of the store.

    ``check`` runs under the lock of the other one, and raises if it must stay. Raises UnsupportedFeatureError on a
    metastore, which has no such step, and for an external table.
    """
    with exclusive_table(context, name, content) as (table, txn):
        if table.external:
            raise errors.UnsupportedFeatureError(f"{name} is external: its columns cannot be replaced")
        check()
        require_no_tags(context, table, "replace() with other columns")
        partitions = partitions_of(context, table) or ()
        require_removable(context, table, partitions)
        txn.lock([lock_of_location(one) for one in locations_to_remove(table, partitions)])
        txn.require_open_in_store()
        renamed = replace(context.require(content), name=name)
        context.catalog.alter_table(content, renamed, replacing=table)
        remove_table(context, table, partitions, txn)


def require_removable(context: Context, table: TableDefinition, partitions: Sequence[Partition]) -> None:
    """Raise StorageError if DROP TABLE could not list what it deletes; an external table keeps its files."""
    if not table.external:
        require_listable(context, locations_to_remove(table, partitions))


def add_columns(context: Context, name: TableName, columns: Sequence[Column]) -> None:
    """Append columns; rows written before have NULL in them."""
    add_missing_columns(context, name, lambda _: columns)


def set_properties(context: Context, name: TableName, changes: Mapping[str, str]) -> None:
    """Set table properties; 'transactional' converts the table (`convert`) and cannot be set back."""
    table = context.require(name)
    changes, external = split_external(changes)
    check_properties(table, changes)
    check_entries(name, changes)
    changes_kind = any(key.lower() in KIND_PROPERTIES for key in changes)
    if changes_kind and target_kind(table, changes) is not TableKind.PLAIN:
        if external is not None:
            raise errors.CatalogError(f"{name}: set 'EXTERNAL' in a statement of its own")
        convert(context, name, changes)
        return
    with exclusive_table(context, name) as (table, txn):
        check_properties(table, changes)
        if changes_kind and target_kind(table, changes) is not TableKind.PLAIN:
            raise errors.CatalogError(f"{name} was converted meanwhile: run the statement again")
        changed = table.with_properties(dict(changes))
        if any(key.lower() == "comment" for key in changes):  # as Hive keeps a table's comment
            changed = replace(
                changed.without_properties("comment"), comment=changed.property("comment") or None
            )
        if external is not None:
            changed = replace(changed, external=external)
        if {ORC_COMPRESS.name, LAYOUT_LEVEL.name}.intersection(map(str.lower, changes)):
            _check_codec(context, changed)
        put_definition(context, table, changed, txn)


def set_owner(context: Context, name: TableName, owner: str) -> None:
    """Give a table another owner."""
    with exclusive_table(context, name) as (table, txn):
        put_definition(context, table, replace(table, owner=owner), txn)


def unset_properties(
    context: Context, name: TableName, names: Sequence[str], *, if_exists: bool = False
) -> None:
    """Remove table properties."""
    refuse_reserved(name, names)
    with exclusive_table(context, name) as (table, txn):
        has_comment = table.comment is not None and "comment" in map(str.lower, names)  # a property to Hive
        for key in names:
            is_known = table.property(key) is not None or (has_comment and key.lower() == "comment")
            if not (is_known or if_exists):
                near = errors.did_you_mean(key, dict(table.properties))
                raise errors.CatalogError(f"{name} has no property {key}{near}")
        if any(key.lower() in (*KIND_PROPERTIES, BUCKETING_VERSION.name) for key in names):
            raise errors.CatalogError(f"{name}: properties that decide how files are read cannot be unset")
        changed = table.without_properties(*map(str.lower, names))
        put_definition(context, table, replace(changed, comment=None) if has_comment else changed, txn)


def rename_table(context: Context, name: TableName, new: TableName) -> None:
    """Rename a table. In a SQL store its location does not change, so running readers are not disturbed.

    A metastore moves the directory of a managed table that lies at its default place. Running readers then miss files,
    and raise StorageError.
    """
    if context.catalog.get_database(new.database) is None:
        raise errors.no_such_database(new.database, context.catalog.list_databases())
    check_name("table", new.name)
    with exclusive_table(context, name, new) as (table, txn):
        put_definition(context, table, replace(table, name=new), txn)


def require_full_spec(table: TableDefinition, named: Collection[str]) -> None:
    """Raise SchemaMismatchError for a partition spec without some of the columns."""
    missing = [c.name for c in table.partition_columns if c.name not in named]
    if missing:
        raise errors.SchemaMismatchError(f"the partition spec of {table.name} lacks {', '.join(missing)}")


def partition_values(context: Context, table: TableDefinition, spec: Spec) -> tuple[str | None, ...]:
    """Return the values of a full partition spec, checked against the columns' types."""
    if not table.partition_columns:
        raise errors.SchemaMismatchError(f"{table.name} is not partitioned")
    values = static_values(context, table, spec)
    require_full_spec(table, values)
    return tuple(values[c.name] for c in table.partition_columns)


def add_partitions(
    context: Context,
    name: TableName,
    specs: Sequence[tuple[Spec, str | None]],
    *,
    if_not_exists: bool = False,
) -> None:
    """Add partitions, each at its location or below the table.

    Files at the location that a transactional table's partition is given are moved into a delta below the table, as in Hive.
    The lock makes DROP and RENAME of the table wait, as a reader's does. Locks on locations wait for a DROP that is still
    deleting what lies there.
    """
    context.require(name)  # nobody waits for the lock of a missing table
    given = [location for _, location in specs if location is not None]
    with context.transactions.scope(context.settings) as txn:
        table_lock = LockComponent(LockType.SHARED_READ, name.database, name.name)
        txn.lock([table_lock, *map(lock_of_location, dict.fromkeys(given))])
        _add_partitions(context, context.require(name), specs, txn, if_not_exists=if_not_exists)


def _add_partitions(
    context: Context,
    table: TableDefinition,
    specs: Sequence[tuple[Spec, str | None]],
    txn: Transaction,
    *,
    if_not_exists: bool,
) -> None:
    name = table.name
    transactional = table.kind is not TableKind.PLAIN
    committed = current_write_ids_of(context.store, name) if transactional else None
    known = KnownPartitions.of(table, partitions_of(context, table) or ())
    taken, places = set(known.by_values), {p.location for p in known.by_values.values()}
    added: list[Partition] = []
    loaded: dict[str, PartitionValues] = {}
    for spec, location in specs:
        values = known.values_of(partition_values(context, table, spec))
        if values in taken:
            if if_not_exists:
                continue
            raise errors.AlreadyExistsError(
                f"partition {partition_name(table, values)} of {name} exists already, or is named twice"
            )
        taken.add(values)
        directory = absolute(location or f"{table.location}/{partition_name(table, values)}")
        if location is not None:
            _check_partition_location(context, table, values, directory)
        # a directory of the usual name can only be the same as another
        if directory in places or (location and _overlap_any(directory, places)):
            raise errors.CatalogError(
                f"another partition of {name} has the location {directory}, or a part of it"
            )
        places.add(directory)
        if transactional and location is not None and first_foreign_entry(context, directory) is not None:
            loaded[directory] = values
            continue
        if committed is not None:
            require_no_leftovers(context, table, directory, committed)
        added.append(Partition(values, directory))
    for directory, values in loaded.items():
        named = dict(zip(table.partition_column_names, values, strict=True))
        load(context, name, directory, LoadOptions(partition=named), txn)
    for partition in added:
        context.fs.make_directory(partition.location)
    txn.require_open_in_store()
    context.catalog.add_partitions(name, added, empty=True, seen=table)


def _overlap_any(directory: str, places: Iterable[str]) -> bool:
    resolve, path = real_paths(), real_path(directory)
    return any(overlap(path, resolve(place)) for place in places)


def _check_partition_location(
    context: Context, table: TableDefinition, values: tuple[str | None, ...], directory: str
) -> None:
    """Raise CatalogError for a location that belongs to another partition or table, or has files below the table."""
    if not lies_in(directory, table.location):
        if may_lie_in(real_path(directory), real_path(table.location)):  # whose partitions have other names
            raise errors.CatalogError(
                f"{directory} lies in the directory of {table.name}: write LOCATION '{table.location}/...' by the table's own path"
            )
        check_place(place_of_partition(table.name, directory), context)
    elif may_lie_in(real_path(table.location), real_path(directory)):
        raise errors.CatalogError(
            f"{directory} is the directory of {table.name} itself: DROP PARTITION would delete the rows of other partitions; "
            "choose another directory, or leave out LOCATION"
        )
    else:
        path = directory.removeprefix(table.location).strip("/")
        if "=" in path.partition("/")[0] and not _is_path_of(context, table, values, path):
            raise errors.CatalogError(f"{directory} is the directory of another partition of {table.name}")
    if table.kind is TableKind.PLAIN:
        require_no_acid_files(context, directory)
    elif lies_in(directory, table.location):
        require_unoccupied(context, directory)


def _is_path_of(context: Context, table: TableDefinition, values: tuple[str | None, ...], path: str) -> bool:
    """Tell whether a path below the table names the partition of ``values``, as another engine may spell it."""
    names = table.partition_column_names
    try:
        named = dict(zip(names, parse_partition_values(names, path), strict=True))
        return partition_values(context, table, named) == values
    except errors.HiveAcidError:
        return False


def drop_partitions(
    context: Context,
    name: TableName,
    choose: Callable[[Sequence[Partition]], Sequence[Partition]],
    *,
    if_exists: bool,
) -> None:
    """Drop the chosen partitions and their files."""
    with exclusive_table(context, name) as (table, txn):
        require_no_tags(context, table, "DROP PARTITION")
        chosen = choose(partitions_of(context, table) or ())
        if not chosen and not if_exists:
            raise errors.NoSuchPartitionError(f"{name} has no such partition: see SHOW PARTITIONS {name}")
        if not table.external:
            require_listable(context, [partition.location for partition in chosen])
            *outside, _ = locations_to_remove(table, chosen)
            txn.lock([lock_of_location(one) for one in outside])  # others may take them before they are empty
        drop_from_catalog(context, table, chosen, txn)
        if not table.external:
            for partition in chosen:
                remove_location(context, partition.location, table.kind, held=txn)


def drop_from_catalog(
    context: Context, table: TableDefinition, partitions: Sequence[Partition], held: Transaction
) -> None:
    """Drop partitions, those of a transactional table in a transaction of its own; the caller deletes the files.

    Its write id tells snapshots before it from those after it, as no directory records the removal. Readers compare this id
    with their snapshot after they have listed the files (`table.read.visible_locations`), so it commits before the first
    file is deleted. ``held``: the transaction with the lock on the table.
    """
    transactional = bool(partitions) and table.kind is not TableKind.PLAIN
    if not (transactional and context.store.maintained_by_hiveacid()):
        if transactional:
            end_history(context, table, held)
        held.require_open_in_store()
        context.catalog.drop_partitions(table.name, partitions, table)
        return
    with context.transactions.scope(context.settings) as txn:
        own = txn.write_id(table.name)
        held.require_open_in_store()
        txn.pending.drop_partitions(with_history_from(table, own), partitions, seen=table)


def with_history_from(table: TableDefinition, write_id: WriteId) -> TableDefinition:
    """Return a definition by which no snapshot from before a change of its partitions, at this write id, is read any more."""
    own = str(int(write_id))
    return table.with_properties({HISTORY_FROM.name: own, PARTITIONS_DROPPED.name: own})


def end_history(context: Context, table: TableDefinition, held: Transaction) -> None:
    """Mark a table of a metastore, before partitions are dropped or renamed, so that no state of before is read without them.

    ``held``: the transaction with the lock on the table.
    """
    with context.transactions.scope(context.settings) as txn:
        own = str(int(txn.write_id(table.name, publishing=False)))
        held.require_open_in_store()
        context.catalog.alter_table(table.name, table.with_properties({HISTORY_FROM.name: own}))


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
    lock = insert_lock(context, table, {}, overwrite=True)
    changed = () if table.kind is TableKind.PLAIN else (name,)
    with context.transactions.scope(context.settings, joined, Start((lock,), changed)) as txn:
        table = context.require(name)
        options = InsertOptions(overwrite=True, small=True, history_verb="TRUNCATE")
        if not table.partition_columns:
            write_rows(context, table, empty_rows(context.env, table), {}, options, txn)
            return
        chosen = require_partitions(table, partitions_of(context, table, txn) or (), static)
        if table.kind is TableKind.PLAIN:
            require_listable(context, [partition.location for partition in chosen])
        empty_partitions(context, table, chosen, options, txn)


def require_view(context: Context, name: TableName) -> ViewDefinition:
    """Return a view; CatalogError for a table, NoSuchTableError for nothing of that name."""
    view = context.catalog.get_view(name)
    if view is not None:
        return view
    if context.catalog.get_table(name) is not None:
        raise errors.CatalogError(f"{name} is a table, not a view")
    raise errors.NoSuchTableError(f"view {name} does not exist: see SHOW VIEWS IN {name.database}")


def require_free_view_name(context: Context, name: TableName, *, replaces: bool = False) -> None:
    """Raise AlreadyExistsError, NoSuchDatabaseError or CatalogError unless a view may have this name."""
    if context.catalog.get_database(name.database) is None:
        raise errors.NoSuchDatabaseError(f"database {name.database} does not exist: CREATE DATABASE first")
    if context.catalog.get_table(name) is not None:
        raise errors.already_exists("table", name)
    if not replaces and context.catalog.get_view(name) is not None:
        raise errors.already_exists("view", name, "use CREATE OR REPLACE VIEW")
    check_name("view", name.name)


def create_view(context: Context, view: ViewDefinition, *, replaces: bool = False) -> None:
    """Create a view, or replace the existing one (``replaces``)."""
    definition = replace(
        view,
        created_at=context.clock.now() // 1000,
        owner=view.owner or context.transactions.client.user,
        properties=tuple(sorted(view.properties)),
    )
    with exclusive_name(context, view.name):
        require_free_view_name(context, view.name, replaces=replaces)
        if context.catalog.get_view(view.name) is None:
            context.catalog.create_view(definition)
        else:
            context.catalog.alter_view(view.name, definition)


def alter_view(context: Context, name: TableName, edit: Callable[[ViewDefinition], ViewDefinition]) -> None:
    """Replace a view by an edited one; a new name renames it."""
    with exclusive_name(context, name) as txn:
        before = require_view(context, name)
        edited = edit(before)
        if edited.name != name:
            require_free_view_name(context, edited.name)
        txn.require_open_in_store()
        context.catalog.alter_view(name, edited, before)


def set_view_properties(context: Context, name: TableName, changes: Mapping[str, str]) -> None:
    """Set properties of a view."""
    alter_view(
        context,
        name,
        lambda view: replace(view, properties=tuple(sorted({**dict(view.properties), **changes}.items()))),
    )


def unset_view_properties(context: Context, name: TableName, keys: Sequence[str], *, if_exists: bool) -> None:
    """Remove properties of a view. Raises CatalogError for one that it does not have, unless ``if_exists``."""

    def edit(view: ViewDefinition) -> ViewDefinition:
        properties = dict(view.properties)
        missing = [key for key in keys if key not in properties]
        if missing and not if_exists:
            raise errors.CatalogError(f"view {name} has no property {missing[0]}")
        return replace(view, properties=tuple((k, v) for k, v in view.properties if k not in keys))

    alter_view(context, name, edit)


def drop_view(context: Context, name: TableName) -> None:
    """Drop a view; the tables that it reads stay."""
    with exclusive_name(context, name):
        require_view(context, name)
        context.catalog.drop_view(name)
