"""ALTER TABLE DROP PARTITION: which partitions the conditions of its specifications name."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from hiveacid.catalog import tables
from hiveacid.core.model import Column, Partition, TableDefinition
from hiveacid.core.schema.types import NUMERIC_TYPES, Primitive, parse_type
from hiveacid.core.suggestions import did_you_mean
from hiveacid.errors import NoSuchColumnError, StatementError
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.execute.insert import partition_values
from hiveacid.sql.statements import definitions
from hiveacid.sql.statements.values import PartitionItem, PartitionSpec
from hiveacid.table.partitions import static_values

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
    matchers = [_partition_matcher(execution, table, spec) for spec in statement.specs]

    def choose(partitions: Sequence[Partition]) -> Sequence[Partition]:
        if not statement.if_exists and not all(any(map(matches, partitions)) for matches in matchers):
            return []  # which raises NoSuchPartitionError
        return [partition for partition in partitions if any(matches(partition) for matches in matchers)]

    tables.drop_partitions(context, name, choose, if_exists=statement.if_exists)


def _partition_matcher(
    execution: ExecutionContext, table: TableDefinition, spec: PartitionSpec
) -> Callable[[Partition], bool]:
    """Return the condition of one PARTITION (...)."""
    conditions = [_condition(execution, table, item) for item in spec]
    return lambda partition: all(condition(partition) for condition in conditions)


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
    bound = static_values(execution.context, one_column_table, values)[column.name]
    holds = _COMPARISONS[item.operator]

    def condition(partition: Partition) -> bool:
        value = partition.values[index]
        if value is None or bound is None:
            return value is None and bound is None and item.operator == "="
        return holds(_comparable(column, value), _comparable(column, bound))

    return condition


def _comparable(column: Column, text: str) -> Decimal | str:
    kind = parse_type(column.type)
    if isinstance(kind, Primitive) and kind.name in NUMERIC_TYPES:
        try:
            return Decimal(text)
        except InvalidOperation as error:
            raise StatementError(f"partition value {text} of column {column.name} is not a number") from error
    return text
