"""SHOW TABLE EXTENDED, with the columns and the layout that Spark has, which programs (dbt) read."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from hiveacid.catalog.ddl import partition_values as full_values
from hiveacid.core.model import Column, Partition, TableDefinition, TableName, ViewDefinition
from hiveacid.core.schema.storage_formats import file_kind
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import NoSuchPartitionError
from hiveacid.spark.formats.types import column_type
from hiveacid.sql.execute import store_rows
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.execute.insert import partition_values
from hiveacid.sql.execute.small_results import small_frame
from hiveacid.sql.statements.queries import ShowTableExtended
from hiveacid.table.context import Context
from hiveacid.table.partitions import partition_name, partitions_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_COLUMNS = (
    ("namespace", "string"),
    ("tableName", "string"),
    ("isTemporary", "boolean"),
    ("information", "string"),
)


def show(execution: ExecutionContext, statement: ShowTableExtended) -> DataFrame:
    """SHOW TABLE EXTENDED [IN d] LIKE 'pattern' [PARTITION (...)]."""
    context = execution.context
    database = statement.database or context.database
    if not statement.partition:
        names = [row[0] for row in store_rows.table_rows(context.catalog, database, statement.pattern)]
        return frame(context, database, names)
    table = context.require(TableName(database, (statement.pattern or "").lower()))
    values = full_values(context, table, partition_values(execution, statement.partition) or {})
    found = [p for p in partitions_of(context, table, execution.joined) or () if p.values == values]
    if not found:
        raise NoSuchPartitionError(f"{table.name} has no partition {partition_name(table, values)}")
    row = (database, table.name.name, False, _lines(_of_partition(table, found[0])))
    return small_frame(context.facts, _COLUMNS, [row])


def frame(context: Context, database: str, names: Sequence[str]) -> DataFrame:
    """Return a row for each of the tables and views; one that was dropped meanwhile has none."""
    found = [TableName(database, name) for name in names]
    relations = [context.catalog.get_view(name) or context.catalog.get_table(name) for name in found]
    rows = [
        (database, relation.name.name, False, _lines(_of_relation(relation)))
        for relation in relations
        if relation is not None
    ]
    return small_frame(context.facts, _COLUMNS, rows)


def _lines(facts: Sequence[tuple[str, str]]) -> str:
    return "".join(f"{key}: {value}\n" for key, value in facts)


def _of_relation(relation: TableDefinition | ViewDefinition) -> list[tuple[str, str]]:
    created = datetime.fromtimestamp(relation.created_at, UTC).strftime("%a %b %d %H:%M:%S UTC %Y")
    head = [
        ("Catalog", "spark_catalog"),
        ("Database", relation.name.database),
        ("Table", relation.name.name),
        ("Owner", relation.owner),
        ("Created Time", created),
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
    values = [f"{c.name}={'__HIVE_DEFAULT_PARTITION__' if v is None else v}" for c, v in pairs]
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
