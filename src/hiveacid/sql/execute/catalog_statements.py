"""Databases, tables and partitions: create, drop, alter, truncate; CREATE TABLE AS SELECT, and adoption of a directory by it."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.catalog import alter_table, databases, ddl
from hiveacid.catalog.repair_partitions import repair_partitions
from hiveacid.config import Settings, setting_definitions
from hiveacid.config.property_definitions import (
    KIND_PROPERTIES,
    LAST_DDL_TIME,
    RESERVED_PROPERTIES,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
)
from hiveacid.core.model import (
    Column,
    DatabaseDefinition,
    StorageFormat,
    TableDefinition,
    TableKind,
    TableName,
)
from hiveacid.core.schema import evolution
from hiveacid.core.schema.storage_formats import ORC, storage_format
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.ports.transactions import Operation, current_write_ids_of
from hiveacid.spark.write.column_casts import fit_columns
from hiveacid.sql.binding.source_positions import errors_at
from hiveacid.sql.binding.table_sources import millis_of
from hiveacid.sql.binding.view_text import hive_columns_of
from hiveacid.sql.execute.change_rows import spec_values
from hiveacid.sql.execute.context import ExecutionContext, string_rows, write_result
from hiveacid.sql.execute.partition_conditions import chosen_partitions, selection_of
from hiveacid.sql.execute.queries_and_views import bound_frame
from hiveacid.sql.statements import administration, definitions
from hiveacid.sql.statements.definitions import CreateTable, CreateTableLike
from hiveacid.storage.paths import absolute
from hiveacid.table import tags
from hiveacid.table.cleaning.remove_files import remove_table, without_owner
from hiveacid.table.context import Context
from hiveacid.table.definition import lock_of_location
from hiveacid.table.read.history_and_time_travel import Instant, PointInTime, point_of_version
from hiveacid.table.write.constraints import require_defaults_fit, require_evaluable
from hiveacid.table.write.insert import InsertOptions, write_rows
from hiveacid.table.write.publish import WriteReport
from hiveacid.table.write.update_delete import reads_table
from hiveacid.transactions.transaction import Transaction, has_new_commits


def create_database(execution: ExecutionContext, statement: definitions.CreateDatabase) -> None:
    """CREATE DATABASE."""
    database = DatabaseDefinition(
        statement.name, statement.location or "", statement.comment, statement.properties
    )
    databases.create_database(execution.context, database, if_not_exists=statement.if_not_exists)


def alter_database(execution: ExecutionContext, statement: definitions.AlterDatabase) -> None:
    """ALTER DATABASE SET, and COMMENT ON DATABASE; properties are added to those that it has."""

    def edit(database: DatabaseDefinition) -> DatabaseDefinition:
        properties = dict(database.properties) | dict(statement.properties)
        comment = database.comment if statement.comment is None else statement.comment or None
        return DatabaseDefinition(
            database.name,
            statement.location or database.location,
            comment,
            tuple(sorted(properties.items())),
            statement.owner or database.owner,
        )

    databases.alter_database(execution.context, statement.name, edit)


def drop_database(execution: ExecutionContext, statement: definitions.DropDatabase) -> None:
    """DROP DATABASE; if it was the current one, ``default`` becomes the current database."""
    context = execution.context
    databases.drop_database(context, statement.name, if_exists=statement.if_exists, cascade=statement.cascade)
    if context.database == statement.name:
        execution.use("default")


def use(execution: ExecutionContext, statement: administration.UseDatabase) -> None:
    """USE."""
    execution.use(statement.name)


def drop_table(execution: ExecutionContext, statement: definitions.DropTable) -> None:
    """DROP TABLE; a missing one is an error only if the settings say so (Hive's ``DropTableAnalyzer``)."""
    name = statement.table.resolve(execution.context.database)
    if_exists = statement.if_exists or execution.context.settings.get(
        setting_definitions.DROP_IGNORES_NONEXISTENT
    )
    if not if_exists:
        execution.find(statement.table)
    ddl.drop_table(execution.context, name, if_exists=if_exists)


def rename_table(execution: ExecutionContext, statement: definitions.RenameTable) -> None:
    """ALTER TABLE RENAME; a new name without a database stays in the table's own."""
    name = execution.find(statement.table)
    ddl.rename_table(execution.context, name, statement.new_name.resolve(name.database))


def add_columns(execution: ExecutionContext, statement: definitions.AddColumns) -> None:
    """ALTER TABLE ADD COLUMNS."""
    ddl.add_columns(execution.context, execution.find(statement.table), statement.columns)


def change_column(execution: ExecutionContext, statement: definitions.ChangeColumn) -> None:
    """ALTER TABLE CHANGE COLUMN, ALTER COLUMN and RENAME COLUMN."""
    edit = partial(evolution.change_column, change=statement.change)
    alter_table.alter_columns(execution.context, execution.find(statement.table), edit, statement.constraint)


def add_constraint(execution: ExecutionContext, statement: definitions.AddConstraint) -> None:
    """ALTER TABLE ADD CONSTRAINT."""
    name = execution.find(statement.table)
    alter_table.add_constraint(
        execution.context, name, definitions.in_database(statement.constraint, name.database)
    )


def drop_constraint(execution: ExecutionContext, statement: definitions.DropConstraint) -> None:
    """ALTER TABLE DROP CONSTRAINT."""
    name = execution.find(statement.table)
    alter_table.drop_constraint(execution.context, name, statement.constraint, if_exists=statement.if_exists)


def drop_column_constraint(execution: ExecutionContext, statement: definitions.DropColumnConstraint) -> None:
    """ALTER TABLE ALTER COLUMN DROP NOT NULL or DEFAULT."""
    name = execution.find(statement.table)
    alter_table.drop_column_constraint(execution.context, name, statement.column, statement.kind)


def replace_columns(execution: ExecutionContext, statement: definitions.ReplaceColumns) -> None:
    """ALTER TABLE REPLACE COLUMNS."""
    edit = partial(evolution.replace_columns, columns=statement.columns)
    alter_table.alter_columns(execution.context, execution.find(statement.table), edit)


def drop_columns(execution: ExecutionContext, statement: definitions.DropColumns) -> None:
    """ALTER TABLE DROP COLUMN."""
    columns, if_exists = statement.columns, statement.if_exists

    def edit(table: TableDefinition, _: object) -> TableDefinition:
        return evolution.drop_columns(table, columns, if_exists=if_exists)

    alter_table.alter_columns(execution.context, execution.find(statement.table), edit)


def set_properties(execution: ExecutionContext, statement: definitions.SetTableProperties) -> None:
    """ALTER TABLE SET TBLPROPERTIES."""
    ddl.set_properties(execution.context, execution.find(statement.table), dict(statement.properties))


def set_owner(execution: ExecutionContext, statement: definitions.SetTableOwner) -> None:
    """ALTER TABLE SET OWNER."""
    ddl.set_owner(execution.context, execution.find(statement.table), statement.owner)


def unset_properties(execution: ExecutionContext, statement: definitions.UnsetTableProperties) -> None:
    """ALTER TABLE UNSET TBLPROPERTIES."""
    name = execution.find(statement.table)
    ddl.unset_properties(execution.context, name, statement.keys, if_exists=statement.if_exists)


def truncate(execution: ExecutionContext, statement: definitions.TruncateTable) -> None:
    """TRUNCATE, of a table or of the partitions of a specification."""
    spec = spec_values(execution, statement.partition)
    ddl.truncate(execution.context, execution.find(statement.table), spec, execution.joined)


def add_partitions(execution: ExecutionContext, statement: definitions.AddPartitions) -> None:
    """ALTER TABLE ADD PARTITION."""
    specs = [
        (spec_values(execution, partition.spec) or {}, partition.location)
        for partition in statement.partitions
    ]
    name = execution.find(statement.table)
    ddl.add_partitions(execution.context, name, specs, if_not_exists=statement.if_not_exists)


def unsupported(_: ExecutionContext, statement: administration.UnsupportedStatement) -> DataFrame:
    """Refuse an unsupported statement, with the alternative."""
    raise errors.UnsupportedFeatureError(statement.advice)


def drop_partitions(execution: ExecutionContext, statement: definitions.DropPartitions) -> None:
    """ALTER TABLE DROP PARTITION; missing ones are an error as in `drop_table` (Hive's ``AlterTableDropPartitionAnalyzer``)."""
    context = execution.context
    if_exists = statement.if_exists or context.settings.get(setting_definitions.DROP_IGNORES_NONEXISTENT)
    name = execution.find(statement.table)
    table = context.require(name)
    selections = [selection_of(execution, table, spec) for spec in statement.specs]
    chosen = partial(chosen_partitions, selections, if_exists=if_exists)
    ddl.drop_partitions(context, name, chosen, if_exists=if_exists)


def rename_partition(execution: ExecutionContext, statement: definitions.RenamePartition) -> None:
    """ALTER TABLE PARTITION RENAME."""
    context, name = execution.context, execution.find(statement.table)
    table = context.require(name)
    wanted = ddl.partition_values(context, table, spec_values(execution, statement.new_spec) or {})
    ddl.require_full_spec(table, [item.column for item in statement.spec])
    alter_table.rename_partition(context, name, selection_of(execution, table, statement.spec).of, wanted)


def repair_table(execution: ExecutionContext, statement: definitions.RepairTable) -> DataFrame:
    """MSCK, and ALTER TABLE RECOVER PARTITIONS: one row a line of Hive's report."""
    context, name = execution.context, execution.find(statement.table)
    choose = selection_of(execution, context.require(name), statement.partition).of
    lines = repair_partitions(context, name, choose, add=statement.add, drop=statement.drop)
    return string_rows(context.env, ("result",), [(line,) for line in lines])


def create_tag(execution: ExecutionContext, statement: definitions.CreateTag) -> None:
    """ALTER TABLE CREATE TAG."""
    past: PointInTime | None = None
    if statement.moment is not None:
        past = Instant(millis_of(execution.context, statement.moment))
    elif statement.version is not None:
        past = point_of_version(statement.version)
    with errors_at(statement.table.line, statement.table.column):
        tags.create_tag(
            execution.context,
            execution.find(statement.table),
            statement.tag,
            past,
            retain=statement.retain,
            or_replace=statement.or_replace,
            if_not_exists=statement.if_not_exists,
        )


def drop_tag(execution: ExecutionContext, statement: definitions.DropTag) -> None:
    """ALTER TABLE DROP TAG."""
    tags.drop_tag(
        execution.context, execution.find(statement.table), statement.tag, if_exists=statement.if_exists
    )


def create_table(execution: ExecutionContext, statement: CreateTable) -> DataFrame | None:
    """CREATE TABLE, with or without a query."""
    if statement.query is not None:
        context = execution.context
        name = statement.table.resolve(context.database)
        if statement.if_not_exists and ddl.is_taken(context, name):
            return write_result(context.env, WriteReport())
        # table and rows appear together with the commit
        with execution.binder() as binder:
            report = create_from(execution, statement, bound_frame(binder, statement.query))
        return write_result(context.env, report)
    table = new_table_definition(execution, statement)
    require_evaluable(execution.context, table, table.constraints)
    require_defaults_fit(execution.context, table, table.constraints)
    ddl.create_table(execution.context, table, if_not_exists=statement.if_not_exists)
    return None


def new_table_definition(execution: ExecutionContext, statement: CreateTable) -> TableDefinition:
    """Return the table that a statement defines, with defaults from the session's settings."""
    name = statement.table.resolve(execution.context.database)
    statement = with_settings(statement, execution.context.settings)
    storage = statement.storage or default_storage(statement, execution.context.settings)
    return statement.definition(name, location="", storage=storage)


def with_settings(statement: CreateTable, settings: Settings) -> CreateTable:
    """Add the transactional properties that ``hive.create.as.acid`` and ``hive.create.as.insert.only`` require.

    They apply to managed tables without transactional properties of their own. Full ACID needs ORC or a statement without
    a format (``TransactionalValidationListener``).
    """
    properties = {key.lower(): value for key, value in statement.properties}
    if statement.external or not properties.keys().isdisjoint(KIND_PROPERTIES):
        return statement
    orc = statement.storage is None or statement.storage.input_format == ORC.input_format
    is_sorted = statement.bucketing is not None and bool(statement.bucketing.sort_columns)
    if orc and settings.get(setting_definitions.CREATE_AS_ACID) and not is_sorted:
        added = {TRANSACTIONAL.name: "true"}
    elif settings.get(setting_definitions.CREATE_AS_INSERT_ONLY):
        added = {TRANSACTIONAL.name: "true", TRANSACTIONAL_PROPERTIES.name: "insert_only"}
    else:
        return statement
    return replace(statement, properties=tuple(sorted((dict(statement.properties) | added).items())))


def default_storage(statement: CreateTable, settings: Settings) -> StorageFormat:
    """Return the default format of a table: ORC for transactional ones, otherwise the one in the settings."""
    properties = {key.lower(): value.lower() for key, value in statement.properties}
    if properties.get(TRANSACTIONAL.name) == "true":
        return ORC
    name = settings.get(setting_definitions.DEFAULT_FILE_FORMAT)
    managed = settings.get(setting_definitions.DEFAULT_FILE_FORMAT_MANAGED)
    storage = storage_format(name if statement.external or managed == "none" else managed)
    return storage or ORC


def create_like(execution: ExecutionContext, statement: CreateTableLike) -> None:
    """CREATE TABLE LIKE: copies columns, buckets, format and properties of another table, without its rows."""
    context = execution.context
    source = context.require(execution.find(statement.source))
    table = definition_like(
        source,
        statement.table.resolve(context.database),
        statement.location or "",
        external=statement.external,
    )
    table = replace(table, storage=statement.storage or table.storage)
    ddl.create_table(
        context, table.with_properties(dict(statement.properties)), if_not_exists=statement.if_not_exists
    )


def definition_like(
    source: TableDefinition, name: TableName, location: str, *, external: bool
) -> TableDefinition:
    """Return the definition of a new table with another one's columns, buckets, format and properties."""
    left_out = {LAST_DDL_TIME.name.lower(), *RESERVED_PROPERTIES, *(KIND_PROPERTIES if external else ())}
    return TableDefinition(
        name,
        source.columns,
        source.storage,
        location,
        source.partition_columns,
        source.bucketing,
        tuple(sorted(pair for pair in source.properties if pair[0].lower() not in left_out)),
        external,
        source.comment,
    )


def create_from(execution: ExecutionContext, statement: CreateTable, frame: DataFrame) -> WriteReport:
    """Create a table with the columns and rows of a frame; both appear together with the commit."""
    columns = hive_columns_of(frame)
    renamed = frame.toDF(*[column.name for column in columns])
    return write_new(
        execution, new_table_definition(execution, _with_query_columns(statement, columns)), renamed
    )


def replace_with(
    execution: ExecutionContext, table: TableDefinition, statement: CreateTable, frame: DataFrame
) -> WriteReport:
    """Replace a table by the rows and columns of a frame. Partitions, buckets, format and properties stay.

    The rows are written into a table of another name, which then takes the place of the old one. A failure before that
    leaves the old table as it was. Others may commit meanwhile: WriteConflictError if the rows were read from the table.
    """
    context = execution.context
    before = current_write_ids_of(context.store, table.name)

    def require_fresh() -> None:
        now = current_write_ids_of(context.store, table.name)
        if has_new_commits(now, before) and reads_table(context, table.name, frame):
            raise errors.WriteConflictError(
                f"{table.name} was changed while rows that were read from it were written, and they lack that change; the table is "
                "as the others left it: make the DataFrame anew, and run the statement again"
            )

    if context.catalog.constraints(table):
        raise errors.UnsupportedFeatureError(
            f"{table.name} has constraints, which other columns would lose: INSERT OVERWRITE replaces its rows; or DROP TABLE first"
        )
    tags.require_no_tags(context, table, "replace() with other columns")
    columns = hive_columns_of(frame)
    statement = _with_query_columns(statement, columns)
    content = replace(
        table,
        name=TableName(table.name.database, f"{table.name.name}__replacing_{uuid.uuid4().hex[:8]}"),
        columns=statement.columns,
        partition_columns=statement.partition_columns,
        location="",
    ).without_properties(*RESERVED_PROPERTIES, LAST_DDL_TIME.name)
    report = write_new(execution, content, frame.toDF(*[column.name for column in columns]))
    try:
        ddl.replace_table(context, table.name, content.name, require_fresh)
    except BaseException:
        with suppress(errors.HiveAcidError):
            ddl.drop_table(context, content.name, if_exists=True)
        raise
    return report


def _with_query_columns(statement: CreateTable, columns: tuple[Column, ...]) -> CreateTable:
    names = dict.fromkeys(column.name for column in columns)
    missing_columns = [column.name for column in statement.partition_columns if column.name not in names]
    if missing_columns:
        raise errors.no_such_column(
            "the query", missing_columns[0], names, purpose=f" to partition {statement.table} by"
        )
    if len(names) < len(columns):
        double = next(c.name for c in columns if sum(o.name == c.name for o in columns) > 1)
        raise errors.StatementError(
            f"the query has two columns called {double}: name them",
            line=statement.table.line,
            column=statement.table.column,
        )
    return replace(statement.with_columns(columns), query=None)


IMPORT = "IMPORT"


def write_new(
    execution: ExecutionContext,
    table: TableDefinition,
    frame: DataFrame | Callable[[Transaction], DataFrame],
    verb: str = "CREATE TABLE AS SELECT",
) -> WriteReport:
    """Create a table with the rows of a frame, or of a function of the transaction; both appear together with the commit."""
    context = execution.context
    with context.transactions.scope(context.settings, execution.joined) as txn:
        operation = None if table.kind is TableKind.PLAIN else Operation.INSERT
        lock = replace(lock_of_new(context, table.name), operation=operation)
        txn.lock([lock], zero_wait=lock.type is LockType.EXCLUSIVE)
        if table.location:
            txn.lock([lock_of_location(table.location)])
        created = ddl.prepare_table(context, table)
        txn.lock([lock_of_location(created.location)])
        # behind the lock: the table would also have the rows of files that are there
        ddl.require_unoccupied(context, created.location)
        is_new = not context.fs.exists(created.location)
        txn.pending.add_written([], tables=[created])
        try:
            context.fs.make_directory(created.location)
            options = InsertOptions(history_verb=verb)
            frame = (frame(txn) if callable(frame) else frame).select(*map(quote_name, created.column_names))
            rows = fit_columns(created, frame, {}, None, by_name=False)
            return write_rows(context, created, rows, {}, options, txn)
        finally:
            if is_new:  # last, so that the abort has deleted the statement's own files before
                txn.pending.on_abort.append(lambda: _remove_unowned(context, created))


def lock_of_new(context: Context, name: TableName) -> LockComponent:
    """Return the lock of CREATE TABLE AS SELECT. The statement does not wait for an EXCLUSIVE one, it fails."""
    exclusive = context.settings.get(setting_definitions.XLOCK_CTAS)
    return LockComponent(LockType.EXCLUSIVE if exclusive else LockType.EXCL_WRITE, name.database, name.name)


def adopted_definition(context: Context, statement: CreateTable, location: str | None) -> TableDefinition:
    """Return the table that a DDL text defines, for the adoption of its directory (``AcidSession.adopt``)."""
    if statement.query is not None:
        raise errors.StatementError("adopt takes the text of SHOW CREATE TABLE, not CREATE TABLE AS SELECT")
    name = statement.table.resolve(context.database)
    storage = statement.storage or default_storage(statement, context.settings)
    table = statement.definition(name, location="", storage=storage)
    where = location or table.location
    if not where:
        raise errors.StatementError(
            "the statement has no LOCATION: give adopt(..., location=) the table's directory"
        )
    return replace(
        table,
        location=absolute(where),
        created_at=context.clock.now() // 1000,
        owner=table.owner or context.transactions.client.user,
    )


def _remove_unowned(context: Context, made: TableDefinition) -> None:
    """Delete the directory of a table whose creation failed, unless the location of another table overlaps it by now.

    The files of a transactional table are deleted before. Others are those of a statement that creates another table at
    this location and has not committed yet.
    """
    if made.kind is TableKind.PLAIN:
        remove_table(context, made, ())
        return
    with suppress(errors.MissingDirectoryError):
        entries = context.fs.list_tree(made.location)
        if all(entry.is_dir for entry in entries) and without_owner(context, [made.location]):
            context.fs.delete_listed(made.location, (FileEntry("", is_dir=True), *entries))
