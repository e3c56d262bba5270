"""Databases, tables and partitions: create, drop, alter, truncate; the partitions that the conditions of DROP PARTITION name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.catalog import databases_and_views, tables
from hiveacid.core.display import did_you_mean
from hiveacid.core.model import Column, DatabaseDefinition, Partition, TableDefinition
from hiveacid.core.schema.partitions import canonical_text
from hiveacid.core.schema.types import LOCAL_TIMESTAMP, NUMERIC_TYPES
from hiveacid.errors import DataError, NoSuchColumnError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.sql.execute.change_rows import partition_values
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.statements import administration, definitions
from hiveacid.sql.statements.values import PartitionItem, PartitionSpec
from hiveacid.table.partitions import static_values


def create_database(execution: ExecutionContext, statement: definitions.CreateDatabase) -> None:
    """CREATE DATABASE."""
    database = DatabaseDefinition(
        statement.name, statement.location or "", statement.comment, statement.properties
    )
    databases_and_views.create_database(execution.context, database, if_not_exists=statement.if_not_exists)


def drop_database(execution: ExecutionContext, statement: definitions.DropDatabase) -> None:
    """DROP DATABASE; if it was the current one, ``default`` becomes the current database."""
    context = execution.context
    databases_and_views.drop_database(
        context, statement.name, if_exists=statement.if_exists, cascade=statement.cascade
    )
    if context.database == statement.name:
        execution.use("default")


def use(execution: ExecutionContext, statement: administration.UseDatabase) -> None:
    """USE."""
    execution.use(statement.name)


def drop_table(execution: ExecutionContext, statement: definitions.DropTable) -> None:
    """DROP TABLE."""
    name = statement.table.resolve(execution.context.database)
    if not statement.if_exists:
        execution.find(statement.table)
    tables.drop_table(execution.context, name, if_exists=statement.if_exists)


def rename_table(execution: ExecutionContext, statement: definitions.RenameTable) -> None:
    """ALTER TABLE RENAME; a new name without a database stays in the table's own."""
    name = execution.find(statement.table)
    tables.rename_table(execution.context, name, statement.new_name.resolve(name.database))


def add_columns(execution: ExecutionContext, statement: definitions.AddColumns) -> None:
    """ALTER TABLE ADD COLUMNS."""
    tables.add_columns(execution.context, execution.find(statement.table), statement.columns)


def set_properties(execution: ExecutionContext, statement: definitions.SetTableProperties) -> None:
    """ALTER TABLE SET TBLPROPERTIES."""
    tables.set_properties(execution.context, execution.find(statement.table), dict(statement.properties))


def unset_properties(execution: ExecutionContext, statement: definitions.UnsetTableProperties) -> None:
    """ALTER TABLE UNSET TBLPROPERTIES."""
    name = execution.find(statement.table)
    tables.unset_properties(execution.context, name, statement.keys, if_exists=statement.if_exists)


def truncate(execution: ExecutionContext, statement: definitions.TruncateTable) -> None:
    """TRUNCATE, of a table or of the partitions of a specification."""
    spec = partition_values(execution, statement.partition)
    tables.truncate(execution.context, execution.find(statement.table), spec, execution.joined)


def add_partitions(execution: ExecutionContext, statement: definitions.AddPartitions) -> None:
    """ALTER TABLE ADD PARTITION."""
    specs = [
        (partition_values(execution, partition.spec) or {}, partition.location)
        for partition in statement.partitions
    ]
    name = execution.find(statement.table)
    tables.add_partitions(execution.context, name, specs, if_not_exists=statement.if_not_exists)


def unsupported(_: ExecutionContext, statement: administration.UnsupportedStatement) -> DataFrame:
    """Refuse an unsupported statement, with the alternative."""
    raise UnsupportedFeatureError(statement.advice)


_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def drop_partitions(execution: ExecutionContext, statement: definitions.DropPartitions) -> None:
    """ALTER TABLE DROP PARTITION. Each specification must match a partition, unless IF EXISTS is given."""
    context = execution.context
    name = execution.find(statement.table)
    table = context.require(name)
    selections = [_selection(execution, table, spec) for spec in statement.specs]

    def choose(partitions: Sequence[Partition]) -> Sequence[Partition]:
        chosen = [select(partitions) for select in selections]
        if not statement.if_exists and not all(chosen):
            return []  # which raises NoSuchPartitionError
        wanted = {partition.values for of_spec in chosen for partition in of_spec}
        return [partition for partition in partitions if partition.values in wanted]

    tables.drop_partitions(context, name, choose, if_exists=statement.if_exists)


def _selection(
    execution: ExecutionContext, table: TableDefinition, spec: PartitionSpec
) -> Callable[[Sequence[Partition]], Sequence[Partition]]:
    """Return the selection of one PARTITION (...): the partitions of exactly its texts, or else those of its values."""
    conditions = [_condition(execution, table, item) for item in spec]
    texts = {item.column: item.literal.value for item in spec if item.literal and item.operator == "="}

    def select(partitions: Sequence[Partition]) -> Sequence[Partition]:
        matches = [each for each in partitions if all(condition(each) for condition in conditions)]
        names = table.partition_column_names
        exact = [
            each for each in matches if texts.items() <= dict(zip(names, each.values, strict=True)).items()
        ]
        return exact or matches

    return select


def _condition(
    execution: ExecutionContext, table: TableDefinition, item: PartitionItem
) -> Callable[[Partition], bool]:
    names = table.partition_column_names
    if item.column not in names:
        raise NoSuchColumnError(
            f"{table.name} has no partition column {item.column}; it has {', '.join(names) or 'none'}"
            f"{did_you_mean(item.column, names)} (line {item.line}, column {item.at_column})"
        )
    index = names.index(item.column)
    column = table.partition_columns[index]
    one_column_table = TableDefinition(table.name, (), table.storage, "", (column,))
    values = partition_values(execution, (item,)) or {}
    written = values[column.name] if item.operator == "=" else None
    try:
        bound = static_values(execution.context, one_column_table, values)[column.name]
    except (DataError, SchemaMismatchError):
        if not isinstance(written, str):
            raise
        bound = written  # the name of another engine's partition, which may be no value of the column
    holds, bound_value = _COMPARISONS[item.operator], _comparable(column, bound)

    def condition(partition: Partition) -> bool:
        text = partition.values[index]
        if text is None or bound is None:
            return text is None and bound is None and item.operator == "="
        value = _comparable(column, text)
        if value is None or bound_value is None:
            return item.operator == "=" and text == written
        return holds(value, bound_value)

    return condition


def _comparable(column: Column, text: str | None) -> Any:
    """Return a partition value in a form that compares as the column's values do; None if only its text is known."""
    kind = column.type.partition("(")[0]
    canonical = text and (text if kind == LOCAL_TIMESTAMP else canonical_text(text, column.type))
    if not canonical:
        return None
    if kind in NUMERIC_TYPES:
        number = Decimal(canonical)
        return None if number.is_nan() else number
    if kind in ("date", "timestamp"):
        year, _, rest = canonical[1:].partition("-")
        return int(f"{canonical[0]}{year}"), rest
    return canonical
