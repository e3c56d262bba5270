"""DESCRIBE, in Hive's layout (``TextDescTableFormatter``), without its padding."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hiveacid.catalog.ddl import partition_values as full_values
from hiveacid.core.model import Bucketing, Column, Partition, TableDefinition
from hiveacid.errors import NoSuchColumnError, NoSuchDatabaseError, NoSuchPartitionError
from hiveacid.sql.binding.view_text import view_of_ours
from hiveacid.sql.execute.describe_view import describe_view_rows
from hiveacid.sql.execute.insert import partition_values
from hiveacid.sql.execute.small_results import Row, string_rows
from hiveacid.table.inspect import Inspect
from hiveacid.table.partitions import partition_name, partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.execute.context import ExecutionContext
    from hiveacid.sql.statements import DescribeDatabase, DescribeHistory, DescribeTable

_HEADINGS = ("col_name", "data_type", "comment")
_BLANK: Row = ("", None, None)
_COLUMNS: Row = ("# col_name", "data_type", "comment")
_DATABASE = (
    "db_name comment location managedLocation owner_name owner_type connector_name remote_dbname parameters"
)


def describe_table(execution: ExecutionContext, statement: DescribeTable) -> DataFrame:
    """DESCRIBE [EXTENDED | FORMATTED] t [PARTITION (...)] [column]."""
    context = execution.context
    view = view_of_ours(context, statement.table)
    if view is not None and not statement.partition:
        return string_rows(
            context.facts, _HEADINGS, describe_view_rows(view, statement.style, statement.column)
        )
    table = context.require(execution.find(statement.table))
    partition = None
    if statement.partition:
        values = full_values(context, table, partition_values(execution, statement.partition) or {})
        found = [p for p in partitions_of(context, table, execution.joined) or () if p.values == values]
        if not found:
            raise NoSuchPartitionError(f"{table.name} has no partition {partition_name(table, values)}")
        partition = found[0]
    if statement.column is not None:
        return string_rows(context.facts, _HEADINGS, [_one_column(table, statement.column)])
    rows = [*_columns(table, formatted=statement.style == "formatted")]
    if statement.style == "formatted":
        rows += _details(table, partition)
    elif statement.style == "extended":
        rows += [_BLANK, ("Detailed Table Information", _in_one_line(table, partition), "")]
    return string_rows(context.facts, _HEADINGS, rows)


def describe_history(execution: ExecutionContext, statement: DescribeHistory) -> DataFrame:
    """DESCRIBE HISTORY t [LIMIT n]: the newest first, as ``t.inspect.history()``."""
    return Inspect(execution.context, execution.find(statement.table)).history(statement.limit)


def _one_column(table: TableDefinition, name: str) -> Row:
    for column in (*table.columns, *table.partition_columns):
        if column.name == name:
            return _column(column)
    raise NoSuchColumnError(f"{table.name} has no column {name}")


def _column(column: Column) -> Row:
    return column.name, column.type, column.comment or ""


def _columns(table: TableDefinition, *, formatted: bool) -> list[Row]:
    places = [_column(column) for column in table.partition_columns]
    own = [_column(column) for column in table.columns]
    rows = [_COLUMNS, *own] if formatted else [*own, *places]
    if places:
        rows += [_BLANK, ("# Partition Information", None, None), _COLUMNS, *places]
    return rows


def _details(table: TableDefinition, partition: Partition | None) -> list[Row]:
    parameters = table.properties if partition is None else partition.properties
    what = "Table" if partition is None else "Partition"
    rows: list[Row] = [_BLANK, (f"# Detailed {what} Information", None, None)]
    if partition is not None:
        rows.append(("Partition Value:", f"[{', '.join(_shown(v) for v in partition.values)}]", None))
    rows += [
        ("Database:", table.name.database, None),
        ("OwnerType:", "USER", None),
        ("Owner:", table.owner, None),
        ("CreateTime:", _time(table.created_at), None),
        ("LastAccessTime:", "UNKNOWN", None),
        ("Retention:", "0", None),
        ("Location:", table.location if partition is None else partition.location, None),
        ("Table Type:", _type(table), None),
        (f"{what} Parameters:", None, None),
        *(("", key, value) for key, value in _parameters(table, parameters)),
    ]
    return [*rows, _BLANK, ("# Storage Information", None, None), *_storage(table)]


def _shown(value: str | None) -> str:
    return "__HIVE_DEFAULT_PARTITION__" if value is None else value


def _type(table: TableDefinition) -> str:
    return "EXTERNAL_TABLE" if table.external else "MANAGED_TABLE"


def _parameters(table: TableDefinition, own: Sequence[tuple[str, str]]) -> list[tuple[str, str]]:
    shown = dict(own)
    if own is table.properties:
        shown |= {"EXTERNAL": "TRUE"} if table.external else {}
        shown |= {} if table.comment is None else {"comment": table.comment}
    return sorted(shown.items())


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


def _time(seconds: int) -> str:
    """Return a time as Java prints it, in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")


def _in_one_line(table: TableDefinition, partition: Partition | None) -> str:
    columns = ", ".join(
        f"FieldSchema(name:{c.name}, type:{c.type}, comment:{c.comment})" for c in table.columns
    )
    places = ", ".join(f"FieldSchema(name:{c.name}, type:{c.type})" for c in table.partition_columns)
    properties = ", ".join(f"{key}={value}" for key, value in table.properties)
    location = table.location if partition is None else partition.location
    return (
        f"Table(tableName:{table.name.name}, dbName:{table.name.database}, owner:{table.owner}, "
        f"createTime:{table.created_at}, sd:StorageDescriptor(cols:[{columns}], location:{location}, "
        f"inputFormat:{table.storage.input_format}, outputFormat:{table.storage.output_format}, "
        f"serdeInfo:SerDeInfo(serializationLib:{table.storage.serde})), partitionKeys:[{places}], "
        f"parameters:{{{properties}}}, tableType:{_type(table)})"
    )


def describe_database(execution: ExecutionContext, statement: DescribeDatabase) -> DataFrame:
    """DESCRIBE DATABASE; ``parameters`` only with EXTENDED."""
    found = execution.context.catalog.get_database(statement.name)
    if found is None:
        raise NoSuchDatabaseError(f"database {statement.name} does not exist: see SHOW DATABASES")
    shown = ", ".join(f"{key}={value}" for key, value in found.properties)
    parameters = f"{{{shown}}}" if statement.extended and shown else ""
    user = execution.context.transactions.client.user
    row = (found.name, found.comment or "", found.location, "", user, "USER", "", "", parameters)
    return string_rows(execution.context.facts, _DATABASE.split(), [row])
