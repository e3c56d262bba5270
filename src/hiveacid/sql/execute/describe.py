"""DESCRIBE, in Hive's layout (``TextDescTableFormatter``), without its padding."""

from __future__ import annotations

from typing import TypeAlias

from pyspark.sql import DataFrame

from hiveacid.core.display import did_you_mean
from hiveacid.core.model import Bucketing, Column, Partition, TableDefinition, ViewDefinition
from hiveacid.errors import NoSuchColumnError, NoSuchDatabaseError
from hiveacid.sql.binding.view_text import find_hiveacid_view
from hiveacid.sql.execute.context import ExecutionContext, Row, string_rows
from hiveacid.sql.execute.show import find_partition, java_time
from hiveacid.sql.statements.queries import DescribeDatabase, DescribeHistory, DescribeTable
from hiveacid.table.inspect import Inspect

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
        return string_rows(context.facts, _HEADINGS, _rows(view, None, statement))
    table = context.require(execution.find(statement.table))
    partition = find_partition(execution, table, statement.partition) if statement.partition else None
    return string_rows(context.facts, _HEADINGS, _rows(table, partition, statement))


def describe_history(execution: ExecutionContext, statement: DescribeHistory) -> DataFrame:
    """DESCRIBE HISTORY t [LIMIT n]: the newest first, as ``t.inspect.history()``."""
    return Inspect(execution.context, execution.find(statement.table)).history(statement.limit)


def _rows(described: Described, partition: Partition | None, statement: DescribeTable) -> list[Row]:
    columns = [_column(column) for column in described.columns]
    partition_columns: list[Row] = []
    if isinstance(described, TableDefinition):
        partition_columns = [_column(column) for column in described.partition_columns]
    if statement.column is not None:
        matches = [row for row in (*columns, *partition_columns) if row[0] == statement.column]
        if not matches:
            near = did_you_mean(statement.column, [str(row[0]) for row in (*columns, *partition_columns)])
            raise NoSuchColumnError(f"{described.name} has no column {statement.column}{near}")
        return matches
    formatted = statement.style == "formatted"
    rows = [_COLUMNS, *columns] if formatted else [*columns, *partition_columns]
    if partition_columns:
        rows += [_BLANK, ("# Partition Information", None, None), _COLUMNS, *partition_columns]
    if formatted:
        rows += _details(described, partition)
    elif statement.style == "extended":
        rows += [_BLANK, ("Detailed Table Information", _in_one_line(described, partition), "")]
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
        ("Table Type:", _type(described), None),
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


def _type(described: Described) -> str:
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
        f"partitionKeys:[{partition_keys}], parameters:{{{properties}}}, tableType:{_type(described)})"
    )


def describe_database(execution: ExecutionContext, statement: DescribeDatabase) -> DataFrame:
    """DESCRIBE DATABASE; ``parameters`` only with EXTENDED."""
    database = execution.context.catalog.get_database(statement.name)
    if database is None:
        raise NoSuchDatabaseError(f"database {statement.name} does not exist: see SHOW DATABASES")
    shown = ", ".join(f"{key}={value}" for key, value in database.properties)
    parameters = f"{{{shown}}}" if statement.extended and shown else ""
    user = execution.context.transactions.client.user
    row = (database.name, database.comment or "", database.location, "", user, "USER", "", "", parameters)
    return string_rows(execution.context.facts, _DATABASE.split(), [row])
