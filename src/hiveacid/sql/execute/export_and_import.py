"""EXPORT TABLE and IMPORT TABLE: the rows of a snapshot in plain files, with Hive's ``_metadata`` beside them.

Rules: Hive's ``AcidExportSemanticAnalyzer`` (a dump of a full ACID table has its rows in plain files, and says that the table is
transactional), ``TableExport`` and ``ImportSemanticAnalyzer``, 3.1 and 4.0. Hive copies the directories of an insert-only table
under names that are none of deltas. Here its rows are written as well.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.catalog import ddl
from hiveacid.catalog.validate_definition import check_place
from hiveacid.config.property_definitions import KIND_PROPERTIES
from hiveacid.core.format.names import has_hidden_prefix, layout_name
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.schema.location_overlap import Place
from hiveacid.core.schema.partitions import format_partition, identity, require_partitions
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.transactions import Start
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.column_casts import fit_columns
from hiveacid.sql.execute.catalog_statements import IMPORT, definition_like, write_new
from hiveacid.sql.execute.change_rows import spec_values
from hiveacid.sql.execute.context import ExecutionContext, write_result
from hiveacid.sql.statements.dml import ExportTable, ImportTable
from hiveacid.storage.paths import absolute
from hiveacid.storage.snapshot_locations import Location
from hiveacid.stores.hms.definitions import METADATA, format_dump, parse_dump
from hiveacid.table.context import Context
from hiveacid.table.definition import check_definition, exclusive_name, lock_of_location
from hiveacid.table.partitions import partitions_of, static_values
from hiveacid.table.read.table_snapshot import TableSnapshot, list_snapshot, scan_locations
from hiveacid.table.read.visible_locations import list_visible
from hiveacid.table.write.constraints import constrain_insert
from hiveacid.table.write.insert import InsertOptions, insert_lock, write_rows
from hiveacid.table.write.publish import WriteReport
from hiveacid.transactions.transaction import Transaction

_DATA = "data"  # directory of an unpartitioned table


def export_table(execution: ExecutionContext, statement: ExportTable) -> DataFrame:
    """EXPORT TABLE t [PARTITION (...)] TO 'path': the path is a new or empty directory; ``_metadata`` is written last."""
    name, directory = execution.find(statement.table), absolute(statement.path)
    spec = spec_values(execution, statement.partition)
    context, place = _of_wall_clocks(execution).context, Place(directory, "an export")
    with context.transactions.scope(context.settings) as txn:
        read = LockComponent(LockType.SHARED_READ, name.database, name.name)
        txn.lock([read, lock_of_location(directory)])
        check_place(place, context)
        _require_empty(context, directory)
        table = context.require(name)
        static = static_values(context, table, spec)
        partitions = partitions_of(context, table, txn)
        if partitions is not None:
            partitions = tuple(require_partitions(table, partitions, static))
        write_ids = txn.valid_write_ids(name)
        locations = list_visible(context, table, partitions, write_ids, txn)
        rows = TableSnapshot(context, table, txn, locations, write_ids, None).scan()
        data = directory if table.partition_columns else f"{directory}/{_DATA}"
        dumped = definition_like(table, TableName("export", directory), data, external=False)
        target = dumped.without_properties(*KIND_PROPERTIES)
        fitted = fit_columns(
            target, rows.select(*map(quote_name, table.column_names)), {}, None, by_name=False
        )
        txn.pending.add_written([], tables=[target])  # so that it has no partitions before
        context.fs.make_directory(data)
        report = write_rows(context, target, fitted, {}, InsertOptions(), txn)
        made = [new.partition for new in txn.pending.withdraw(target.name)]
        txn.require_open_in_store()
        check_place(place, context)  # again: CREATE TABLE may have taken a directory above or below
        now = context.clock.now()
        dumped = replace(
            dumped, name=name, external=table.external, owner=table.owner, created_at=now // 1000
        )
        context.fs.write_bytes(f"{directory}/{METADATA}", format_dump(dumped, made, now))
    return write_result(execution.context.env, report)


def _of_wall_clocks(execution: ExecutionContext) -> ExecutionContext:
    """Return the context with a time zone that skips no time: wall clocks are only copied."""
    env = execution.context.env.with_settings({"spark.sql.session.timeZone": "UTC"})
    return replace(execution, context=replace(execution.context, env=env))


def _require_empty(context: Context, directory: str) -> None:
    for entry in context.fs.list_directory(directory) if context.fs.exists(directory) else ():
        if not has_hidden_prefix(entry.path) or entry.path == METADATA:
            raise errors.CatalogError(
                f"{directory} is not empty ({entry.path}): EXPORT writes into a new or empty directory"
            )


def import_table(execution: ExecutionContext, statement: ImportTable) -> DataFrame:
    """IMPORT [[EXTERNAL] TABLE t [PARTITION (...)]] FROM 'path' [LOCATION 'path'].

    The rows are inserted into a new table, or into an existing one that has the same columns and holds no rows yet (in the
    partitions of the dump). EXTERNAL without a LOCATION makes a table of the dump's own files.
    """
    context, directory = execution.context, absolute(statement.path)
    dump, partitions = read_dump(context, directory)
    name = TableName(context.database, dump.name.name)
    if statement.table is not None:
        name = statement.table.resolve(context.database)
    if statement.partition:
        static = static_values(context, dump, spec_values(execution, statement.partition))
        ddl.require_full_spec(dump, static)
        partitions = tuple(require_partitions(dump, partitions, static))
    locations = [location_in_dump(context, dump, one) for one in partitions if dump.partition_columns]
    if not dump.partition_columns:
        locations = [location_in_dump(context, dump, None)]
    existing = context.catalog.get_table(name)
    if existing is not None and (statement.external or statement.location):
        raise errors.already_exists("table", name, "leave EXTERNAL and LOCATION out, or DROP TABLE first")
    new = definition_like(dump, name, statement.location, external=statement.external)
    if statement.external and not statement.location:
        _register(context, replace(new, location=dump.location), partitions)
        return write_result(context.env, WriteReport())
    wall_clocks = _of_wall_clocks(execution)

    def rows(txn: Transaction) -> DataFrame:
        nothing = ValidWriteIdList(None, WriteId(0))
        files = replace(dump.without_properties(*KIND_PROPERTIES), bucketing=None)
        with translate_errors():
            frame = scan_locations(wall_clocks.context, files, locations, nothing, txn)
            return frame.select(*map(quote_name, dump.column_names))

    if existing is None:
        report = write_new(wall_clocks, new, rows, IMPORT)
    else:
        report = _insert(wall_clocks.context, existing, dump, partitions, rows)
    return write_result(context.env, report)


def read_dump(context: Context, directory: str) -> tuple[TableDefinition, tuple[Partition, ...]]:
    """Return the table of a dump and its partitions, with their locations there."""
    path = f"{directory}/{METADATA}"
    if not context.fs.exists(path):
        raise errors.InvalidPathError(
            f"{path} is missing: {directory} is no dump, or one that EXPORT has not finished"
        )
    dump, partitions = parse_dump(context.fs.read_bytes(path), path)
    names = dump.partition_column_names
    dump = replace(dump, location=directory if names else f"{directory}/{_DATA}")
    check_definition(dump.without_properties(*KIND_PROPERTIES))
    return dump, tuple(
        replace(one, location=f"{directory}/{format_partition(names, one.values)}") for one in partitions
    )


def location_in_dump(context: Context, dump: TableDefinition, partition: Partition | None) -> Location:
    """Return the files of a dump, or of a partition in it."""
    root = dump.location if partition is None else partition.location
    try:
        entries = context.fs.list_tree(root)
    except errors.MissingDirectoryError as error:
        raise errors.InvalidPathError(f"{root} is missing: the dump is not complete") from error
    files = []
    for entry in entries:
        *folders, last = entry.path.split("/")
        if last == "_files" or any(map(layout_name, folders)):
            raise errors.InvalidPathError(
                f"{root}/{entry.path} is not of a dump of EXPORT TABLE, which holds plain files: acid.adopt(...) takes over the "
                "directory of a transactional table"
            )
        if not (entry.is_dir or entry.is_special or any(map(has_hidden_prefix, (*folders, last)))):
            files.append(DataFile(entry.path, entry.size, modified=entry.modified))
    return Location(root, AcidState(None, (), (), tuple(file for file in files if file.size)), partition)


def _register(context: Context, table: TableDefinition, partitions: Sequence[Partition]) -> None:
    with exclusive_name(context, table.name) as txn:
        created = ddl.prepare_table(context, table)
        txn.lock([lock_of_location(created.location)])
        txn.pending.adopt_table(created, partitions, None)


def _insert(
    context: Context,
    table: TableDefinition,
    dump: TableDefinition,
    partitions: Sequence[Partition],
    rows: Callable[[Transaction], DataFrame],
) -> WriteReport:
    """Insert the rows into an existing table without rows, or without these partitions, as Hive demands it."""
    changed = () if table.kind is TableKind.PLAIN else (table.name,)
    lock = insert_lock(context, table, {}, overwrite=True)  # no other writer between the look and the rows
    with context.transactions.scope(context.settings, None, Start((lock,), changed)) as txn:
        table = context.require(table.name)
        for kind, own, dumped in (
            ("columns", table.columns, dump.columns),
            ("partition columns", table.partition_columns, dump.partition_columns),
        ):
            have, come = (", ".join(f"{one.name} {one.type}" for one in these) for these in (own, dumped))
            if have != come:
                raise errors.SchemaMismatchError(f"{table.name} has the {kind} ({have}), the dump ({come})")
        known = partitions_of(context, table, txn)
        if known is None and not list_snapshot(context, table, txn).scan().isEmpty():
            raise errors.CatalogError(
                f"{table.name} has rows: IMPORT into a new table, or TRUNCATE TABLE first"
            )
        taken = {identity(table, one.values) for one in known or ()}
        for one in partitions:
            if identity(table, one.values) in taken:
                shown = format_partition(table.partition_column_names, one.values)
                raise errors.already_exists("partition", f"{shown} of {table.name}", "DROP it first")
        fitted = constrain_insert(context, table, fit_columns(table, rows(txn), {}, None, by_name=False), {})
        return write_rows(context, table, fitted, {}, InsertOptions(history_verb=IMPORT), txn)
