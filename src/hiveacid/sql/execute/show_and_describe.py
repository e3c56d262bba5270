"""SHOW and DESCRIBE, with Hive's columns, layout (``TextDescTableFormatter``, without its padding) and texts for missing values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from types import MappingProxyType
from typing import TypeAlias, TypeVar

from pyspark.sql import DataFrame

from hiveacid import errors
from hiveacid.catalog.ddl import partition_values
from hiveacid.config.property_definitions import RESERVED_PROPERTIES
from hiveacid.config.setting_definitions import REGISTRY
from hiveacid.core.model import (
    Bucketing,
    Column,
    Constraint,
    DatabaseDefinition,
    Partition,
    TableDefinition,
    TableName,
    ViewDefinition,
    partition_value_shown,
)
from hiveacid.core.schema.constraints import clause
from hiveacid.core.schema.constraints import described as describe_constraints
from hiveacid.core.schema.partitions import matching_partitions
from hiveacid.core.schema.show_create import show_create_database, show_create_table, show_create_view
from hiveacid.core.schema.storage_formats import file_kind
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.session.jvm import try_cast
from hiveacid.sql.binding.source_positions import spark_errors_at_source
from hiveacid.sql.binding.view_text import find_hiveacid_view
from hiveacid.sql.execute import show_rows
from hiveacid.sql.execute.change_rows import spec_values
from hiveacid.sql.execute.context import ExecutionContext, Row, small_frame, string_rows
from hiveacid.sql.execute.partition_conditions import comparable
from hiveacid.sql.statements import PartitionSpec, TableRef, administration
from hiveacid.sql.statements.administration import (
    DescribeDatabase,
    DescribeDetail,
    DescribeHistory,
    DescribeTable,
    ShowTableExtended,
)
from hiveacid.table.acid_table import Inspect
from hiveacid.table.context import Context
from hiveacid.table.partitions import partition_name, partitions_of, static_values

T = TypeVar("T")
_NUMBER = "__number"  # of a row, beside the columns that a condition sees


def databases(execution: ExecutionContext, statement: administration.ShowDatabases) -> DataFrame:
    """SHOW DATABASES."""
    names = show_rows.matching(execution.context.catalog.list_databases(), statement.pattern)
    return string_rows(execution.context.env, ("database_name",), [(name,) for name in names])


def tables(execution: ExecutionContext, statement: administration.ShowTables) -> DataFrame:
    """SHOW TABLES."""
    database = statement.database or execution.context.database
    rows = show_rows.table_rows(execution.context.catalog, database, statement.pattern)
    return string_rows(execution.context.env, show_rows.TABLE_COLUMNS, rows)


def table_types(execution: ExecutionContext, statement: administration.ShowTableTypes) -> DataFrame:
    """SHOW TABLES with a condition on the type, and SHOW EXTENDED TABLES, which shows it."""
    database, catalog = statement.database or execution.context.database, execution.context.catalog
    rows = []
    for (name,) in show_rows.table_rows(catalog, database, statement.pattern):
        found = TableName(database, name)
        relation = catalog.get_view(found) or catalog.get_table(found)
        if relation is not None and (kind := _table_type(relation)) == (statement.kind or kind).upper():
            rows.append((name, kind))
    if statement.extended:
        return string_rows(execution.context.env, (*show_rows.TABLE_COLUMNS, "table_type"), rows)
    return string_rows(execution.context.env, show_rows.TABLE_COLUMNS, [row[:1] for row in rows])


def partitions(execution: ExecutionContext, statement: administration.ShowPartitions) -> DataFrame:
    """SHOW PARTITIONS: the names of partitions as in directories, with escaped values; conditions see values of the columns' types."""
    context = execution.context
    table = context.require(execution.find(statement.table))
    if not table.partition_columns:
        raise errors.NoSuchPartitionError(f"table {table.name} is not partitioned")
    static = static_values(context, table, spec_values(execution, statement.partition))
    partitions = partitions_of(context, table, execution.joined) or ()
    matches = matching_partitions(table, partitions, static)
    matches.sort(key=lambda partition: partition_name(table, partition.values) or "")
    columns = [*enumerate(table.partition_columns)]
    texts = {column.name: partial(_value, number) for number, column in columns}
    order = {column.name: partial(_comparable_value, column, number) for number, column in columns}
    sort = partial(show_rows.sorted_rows, "SHOW PARTITIONS", columns=order)
    types = {column.name: column_type(column).simpleString() for _, column in columns}
    chosen = _chosen(execution, matches, texts, statement.choice, sort, types)
    return string_rows(
        context.env, ("partition",), [(partition_name(table, each.values),) for each in chosen]
    )


def _value(number: int, partition: Partition) -> str | None:
    return partition.values[number]


def _comparable_value(column: Column, number: int, partition: Partition) -> object:
    return comparable(column, partition.values[number])


def create_table(execution: ExecutionContext, statement: administration.ShowCreateTable) -> DataFrame:
    """SHOW CREATE TABLE: one row per line of the statement."""
    with_database = statement.table.database is not None
    relation = _find(execution, statement.table)
    if isinstance(relation, TableDefinition):
        # CREATE TABLE refuses those that hiveacid keeps for itself
        properties = [pair for pair in relation.properties if pair[0] not in RESERVED_PROPERTIES]
        shown = replace(relation, properties=tuple(properties))
        constraints = execution.context.catalog.constraints(relation, keys=True)
        text = show_create_table(shown, constraints, with_database=with_database)
    else:
        text = show_create_view(relation, with_database=with_database)
    return string_rows(execution.context.env, ("createtab_stmt",), [(line,) for line in text.split("\n")])


def create_database(execution: ExecutionContext, statement: administration.ShowCreateDatabase) -> DataFrame:
    """SHOW CREATE DATABASE: one row per line of the statement."""
    text = show_create_database(_database(execution, statement.name))
    return string_rows(execution.context.env, ("createdb_stmt",), [(line,) for line in text.split("\n")])


def properties(execution: ExecutionContext, statement: administration.ShowTableProperties) -> DataFrame:
    """SHOW TBLPROPERTIES."""
    relation = _find(execution, statement.table)
    rows: list[Row] = list(relation.properties)
    if statement.key is not None:
        missing = f"Table {relation.name} does not have property: {statement.key}"
        by_key = {name.lower(): value for name, value in reversed(relation.properties)}
        rows = [(statement.key, by_key.get(statement.key.lower(), missing))]
    return string_rows(execution.context.env, ("prpt_name", "prpt_value"), rows)


def columns(execution: ExecutionContext, statement: administration.ShowColumns) -> DataFrame:
    """SHOW COLUMNS: partition columns last."""
    relation = _find(execution, statement.table)
    names = [column.name for column in relation.columns]
    if isinstance(relation, TableDefinition):
        names += relation.partition_column_names
    names = show_rows.matching(names, statement.pattern)
    rows = [(name,) for name in (sorted(names) if statement.is_sorted else names)]
    return string_rows(execution.context.env, ("field",), rows)


def _find(execution: ExecutionContext, ref: TableRef) -> TableDefinition | ViewDefinition:
    return find_hiveacid_view(execution.context, ref) or execution.context.require(execution.find(ref))


def transactions(execution: ExecutionContext, statement: administration.ShowTransactions) -> DataFrame:
    """SHOW TRANSACTIONS: open and aborted ones; times in milliseconds since the epoch."""
    columns = show_rows.TRANSACTION_COLUMNS
    every = show_rows.open_and_aborted(execution.context.store)
    chosen = _chosen(execution, every, columns, statement.choice, show_rows.sorted_transactions)
    return string_rows(execution.context.env, tuple(columns), show_rows.transaction_rows(chosen))


def _chosen(
    execution: ExecutionContext,
    items: Sequence[T],
    columns: Mapping[str, Callable[[T], show_rows.Key | None]],
    choice: administration.RowChoice,
    sort: Callable[[Sequence[T], str], Sequence[T]],
    types: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[T]:
    """Return the items that WHERE, ORDER BY and LIMIT choose; Spark evaluates the condition on their columns.

    ``types``: to which Spark casts texts before.
    """
    condition = choice.where
    if condition is not None:
        names = [(name, "string" if types or name not in show_rows.NUMBERS else "bigint") for name in columns]
        rows = [(number, *(value(item) for value in columns.values())) for number, item in enumerate(items)]
        frame = small_frame(execution.context.env, [(_NUMBER, "bigint"), *names], rows)
        for name, kind in types.items():
            env = execution.context.env
            frame = frame.withColumn(name, try_cast(env, frame[quote_name(name)], kind))
        with execution.binder() as binder, spark_errors_at_source(condition):
            matches = frame.where(binder.column(condition.text)).select(_NUMBER).collect()
        items = [items[row[0]] for row in matches]
    if choice.order_by is not None:
        items = sort(items, choice.order_by.text)
    return items[: choice.limit]


def locks(execution: ExecutionContext, statement: administration.ShowLocks) -> DataFrame:
    """SHOW LOCKS, in Hive's new format."""
    name = statement.table.resolve(execution.context.database) if statement.table else None
    partition = named_partition(execution, name, statement.partition) if name else None
    execution.context.store.abort_timed_out()
    matches = [
        lock
        for lock in execution.context.store.show_locks()
        if statement.database in (None, lock.database)
        and (name is None or (lock.database, lock.table) == (name.database, name.name))
        and partition in (None, lock.partition)
    ]
    return string_rows(execution.context.env, show_rows.LOCK_COLUMNS, show_rows.lock_rows(matches))


def compactions(execution: ExecutionContext, statement: administration.ShowCompactions) -> DataFrame:
    """SHOW COMPACTIONS, as Hive 4 shows them, with its filters and WHERE."""
    name = statement.table.resolve(execution.context.database) if statement.table else None
    partition = named_partition(execution, name, statement.partition) if name else None
    execution.context.store.abort_timed_out()
    jobs = [
        job
        for job in execution.context.store.show_compactions()
        if statement.compaction_id in (None, job.id)
        and statement.database in (None, job.request.table.database)
        and name in (None, job.request.table)
        and partition in (None, job.request.partition)
        and statement.pool in (None, job.request.pool)
        and statement.kind in (None, job.request.kind)
        and statement.status in (None, job.state)
    ]
    columns = show_rows.COMPACTION_COLUMNS
    chosen = _chosen(execution, jobs, columns, statement.choice, show_rows.sorted_compactions)
    return string_rows(execution.context.env, tuple(columns), show_rows.compaction_rows(chosen))


def named_partition(execution: ExecutionContext, name: TableName, spec: PartitionSpec) -> str | None:
    """Return Hive's name of the partition in a specification, None if the specification is empty."""
    if not spec:
        return None
    table = execution.context.require(name)
    static = static_values(execution.context, table, spec_values(execution, spec))
    return partition_name(table, tuple(static.get(c.name) for c in table.partition_columns))


def find_partition(execution: ExecutionContext, table: TableDefinition, spec: PartitionSpec) -> Partition:
    """Return the partition of a full specification. Raises NoSuchPartitionError, SchemaMismatchError."""
    context = execution.context
    values = partition_values(context, table, spec_values(execution, spec) or {})
    named = dict(zip(table.partition_column_names, values, strict=True))
    partitions = matching_partitions(table, partitions_of(context, table, execution.joined) or (), named)
    if partitions:
        return next((each for each in partitions if each.values == values), partitions[0])
    raise errors.NoSuchPartitionError(f"{table.name} has no partition {partition_name(table, values)}")


def conf(execution: ExecutionContext, statement: administration.ShowConf) -> DataFrame:
    """SHOW CONF: a setting's default, type and meaning."""
    setting = REGISTRY.get(statement.key)
    if setting is None:
        raise errors.ConfigError(f"{statement.key} is not a setting: SET -v lists the settings")
    rows = [(setting.default, setting.kind, setting.doc)]
    return string_rows(execution.context.env, ("default", "type", "desc"), rows)


_EXTENDED = (
    ("namespace", "string"),
    ("tableName", "string"),
    ("isTemporary", "boolean"),
    ("information", "string"),
)


def table_extended(execution: ExecutionContext, statement: ShowTableExtended) -> DataFrame:
    """SHOW TABLE EXTENDED [IN d] LIKE 'pattern' [PARTITION (...)]."""
    context = execution.context
    database = statement.database or context.database
    if not statement.partition:
        names = [row[0] for row in show_rows.table_rows(context.catalog, database, statement.pattern)]
        return extended_rows(context, database, names)
    table = context.require(TableName(database, (statement.pattern or "").lower()))
    partition = find_partition(execution, table, statement.partition)
    row = (database, table.name.name, False, _lines(_of_partition(table, partition)))
    return small_frame(context.env, _EXTENDED, [row])


def extended_rows(context: Context, database: str, names: Sequence[str]) -> DataFrame:
    """Return a row for each of the tables and views; one that was dropped meanwhile has none."""
    table_names = [TableName(database, name) for name in names]
    relations = [context.catalog.get_view(name) or context.catalog.get_table(name) for name in table_names]
    rows = [
        (database, relation.name.name, False, _lines(_of_relation(relation)))
        for relation in relations
        if relation is not None
    ]
    return small_frame(context.env, _EXTENDED, rows)


def java_time(seconds: int) -> str:
    """Return a time as Java prints it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def _lines(facts: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in facts)


def _of_relation(relation: TableDefinition | ViewDefinition) -> list[tuple[str, str]]:
    head = [
        ("Catalog", "spark_catalog"),
        ("Database", relation.name.database),
        ("Table", relation.name.name),
        ("Owner", relation.owner),
        ("Created Time", java_time(relation.created_at)),
        ("Last Access", "UNKNOWN"),
        ("Created By", "hiveacid"),
    ]
    properties = ("Table Properties", f"[{', '.join(f'{k}={v}' for k, v in sorted(relation.properties))}]")
    if not isinstance(relation, TableDefinition):
        schema = [(column.name, column.type) for column in relation.columns]
        return [*head, ("Type", "VIEW"), ("View Text", relation.text), properties, ("Schema", _tree(schema))]
    columns = (*relation.columns, *relation.partition_columns)
    partitioned = [quote_name(column.name) for column in relation.partition_columns]
    kind = file_kind(relation.storage)
    return [
        *head,
        ("Type", "EXTERNAL" if relation.external else "MANAGED"),
        ("Provider", "hive" if kind is None else kind.value),
        *([("Comment", relation.comment)] if relation.comment else []),
        properties,
        ("Location", relation.location),
        ("Serde Library", relation.storage.serde),
        ("InputFormat", relation.storage.input_format),
        ("OutputFormat", relation.storage.output_format),
        *(
            [("Partition Provider", "Catalog"), ("Partition Columns", f"[{', '.join(partitioned)}]")]
            if partitioned
            else []
        ),
        ("Schema", _tree([(column.name, _type(column)) for column in columns])),
    ]


def _of_partition(table: TableDefinition, partition: Partition) -> list[tuple[str, str]]:
    pairs = zip(table.partition_columns, partition.values, strict=True)
    values = [f"{c.name}={partition_value_shown(v)}" for c, v in pairs]
    return [
        ("Partition Values", f"[{', '.join(values)}]"),
        ("Location", partition.location),
        ("Serde Library", table.storage.serde),
        ("InputFormat", table.storage.input_format),
        ("OutputFormat", table.storage.output_format),
        ("Partition Parameters", f"{{{', '.join(f'{k}={v}' for k, v in sorted(partition.properties))}}}"),
    ]


def _tree(columns: Sequence[tuple[str, str]]) -> str:
    return "root\n" + "".join(f" |-- {name}: {kind} (nullable = true)\n" for name, kind in columns)


def _type(column: Column) -> str:
    """Return the name of a type as in Spark's schema trees; nested and decimal types with their parameters."""
    kind = column_type(column)
    return kind.typeName() if kind.simpleString().isalpha() else kind.simpleString()


Described: TypeAlias = TableDefinition | ViewDefinition

_HEADINGS = ("col_name", "data_type", "comment")
_BLANK: Row = ("", None, None)
_COLUMNS: Row = ("# col_name", "data_type", "comment")
_DATABASE = (
    "db_name comment location managedLocation owner_name owner_type connector_name remote_dbname parameters"
)


def describe_table(execution: ExecutionContext, statement: DescribeTable) -> DataFrame:
    """DESCRIBE [EXTENDED | FORMATTED] t [PARTITION (...)] [column], of a table or of a view."""
    context = execution.context
    view = find_hiveacid_view(context, statement.table)
    if view is not None and not statement.partition:
        return string_rows(context.env, _HEADINGS, _rows(view, None, statement, ()))
    table = context.require(execution.find(statement.table))
    partition = find_partition(execution, table, statement.partition) if statement.partition else None
    styled = statement.style and statement.column is None
    constraints = context.catalog.constraints(table, keys=True) if styled else ()
    return string_rows(context.env, _HEADINGS, _rows(table, partition, statement, constraints))


def describe_history(execution: ExecutionContext, statement: DescribeHistory) -> DataFrame:
    """DESCRIBE HISTORY t [LIMIT n]: the newest first, as ``t.inspect.history()``."""
    return Inspect(execution.context, execution.find(statement.table)).history(statement.limit)


def describe_detail(execution: ExecutionContext, statement: DescribeDetail) -> DataFrame:
    """DESCRIBE DETAIL t: one row, as ``t.inspect.detail()``."""
    return Inspect(execution.context, execution.find(statement.table), execution.joined).detail()


def _rows(
    described: Described,
    partition: Partition | None,
    statement: DescribeTable,
    constraints: Sequence[Constraint],
) -> list[Row]:
    columns = [_column(column) for column in described.columns]
    partition_columns: list[Row] = []
    if isinstance(described, TableDefinition):
        partition_columns = [_column(column) for column in described.partition_columns]
    if statement.column is not None:
        matches = [row for row in (*columns, *partition_columns) if row[0] == statement.column]
        if not matches:
            names = [str(row[0]) for row in (*columns, *partition_columns)]
            raise errors.no_such_column(described.name, statement.column, names)
        return matches
    formatted = statement.style == "formatted"
    rows = [_COLUMNS, *columns] if formatted else [*columns, *partition_columns]
    if partition_columns:
        rows += [_BLANK, ("# Partition Information", None, None), _COLUMNS, *partition_columns]
    if formatted:
        rows += _details(described, partition)
        rows += [_BLANK, *describe_constraints(described.name, constraints)] if constraints else []
    elif statement.style == "extended":
        rows += [_BLANK, ("Detailed Table Information", _in_one_line(described, partition), "")]
        rows += [("Constraints", ", ".join(map(clause, constraints)), "")] if constraints else []
    return rows


def _column(column: Column) -> Row:
    return column.name, column.type, column.comment or ""


def _details(described: Described, partition: Partition | None) -> list[Row]:
    subject = "Table" if partition is None else "Partition"
    rows: list[Row] = [_BLANK, (f"# Detailed {subject} Information", None, None)]
    if partition is not None:
        rows.append(("Partition Value:", f"[{', '.join(partition.key)}]", None))
    rows += [
        ("Database:", described.name.database, None),
        ("OwnerType:", "USER", None),
        ("Owner:", described.owner, None),
        ("CreateTime:", java_time(described.created_at), None),
    ]
    if isinstance(described, TableDefinition):
        location = described.location if partition is None else partition.location
        rows += [
            ("LastAccessTime:", "UNKNOWN", None),
            ("Retention:", "0", None),
            ("Location:", location, None),
        ]
    parameters = _parameters(described) if partition is None else dict(partition.properties)
    rows += [
        ("Table Type:", _table_type(described), None),
        (f"{subject} Parameters:", None, None),
        *(("", key, value) for key, value in sorted(parameters.items())),
        _BLANK,
    ]
    if isinstance(described, TableDefinition):
        return [*rows, ("# Storage Information", None, None), *_storage(described)]
    return [
        *rows,
        ("# View Information", None, None),
        ("Original Query:", described.original, None),
        ("Expanded Query:", described.text, None),
    ]


def _table_type(described: Described) -> str:
    if not isinstance(described, TableDefinition):
        return "VIRTUAL_VIEW"
    return "EXTERNAL_TABLE" if described.external else "MANAGED_TABLE"


def _parameters(described: Described) -> dict[str, str]:
    external = {"EXTERNAL": "TRUE"} if isinstance(described, TableDefinition) and described.external else {}
    comment = {} if described.comment is None else {"comment": described.comment}
    return dict(described.properties) | external | comment


def _storage(table: TableDefinition) -> list[Row]:
    buckets = table.bucketing or Bucketing((), -1)
    order = [f"Order(col:{c}, order:{int(c not in buckets.descending)})" for c in buckets.sort_columns]
    return [
        ("SerDe Library:", table.storage.serde, None),
        ("InputFormat:", table.storage.input_format, None),
        ("OutputFormat:", table.storage.output_format, None),
        ("Compressed:", "No", None),
        ("Num Buckets:", str(buckets.count), None),
        ("Bucket Columns:", f"[{', '.join(buckets.columns)}]", None),
        ("Sort Columns:", f"[{', '.join(order)}]", None),
        ("Storage Desc Params:", None, None),
        *(("", key, value) for key, value in table.storage.serde_properties),
    ]


def _in_one_line(described: Described, partition: Partition | None) -> str:
    columns = ", ".join(
        f"FieldSchema(name:{c.name}, type:{c.type}, comment:{c.comment})" for c in described.columns
    )
    properties = ", ".join(f"{key}={value}" for key, value in described.properties)
    head = (
        f"Table(tableName:{described.name.name}, dbName:{described.name.database}, owner:{described.owner}, "
        f"createTime:{described.created_at}, sd:StorageDescriptor(cols:[{columns}]"
    )
    if not isinstance(described, TableDefinition):
        return (
            f"{head}), parameters:{{{properties}}}, viewOriginalText:{described.original}, "
            f"viewExpandedText:{described.text}, tableType:VIRTUAL_VIEW)"
        )
    partition_keys = ", ".join(
        f"FieldSchema(name:{c.name}, type:{c.type})" for c in described.partition_columns
    )
    location = described.location if partition is None else partition.location
    storage = described.storage
    return (
        f"{head}, location:{location}, inputFormat:{storage.input_format}, "
        f"outputFormat:{storage.output_format}, serdeInfo:SerDeInfo(serializationLib:{storage.serde})), "
        f"partitionKeys:[{partition_keys}], parameters:{{{properties}}}, tableType:{_table_type(described)})"
    )


def describe_database(execution: ExecutionContext, statement: DescribeDatabase) -> DataFrame:
    """DESCRIBE DATABASE; ``parameters`` only with EXTENDED."""
    database = _database(execution, statement.name)
    shown = ", ".join(f"{key}={value}" for key, value in database.properties)
    parameters = f"{{{shown}}}" if statement.extended and shown else ""
    owner = database.owner or execution.context.transactions.client.user
    row = (database.name, database.comment or "", database.location, "", owner, "USER", "", "", parameters)
    return string_rows(execution.context.env, _DATABASE.split(), [row])


def _database(execution: ExecutionContext, name: str) -> DatabaseDefinition:
    database = execution.context.catalog.get_database(name)
    if database is None:
        raise errors.no_such_database(name, execution.context.catalog.list_databases())
    return database
