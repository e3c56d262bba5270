"""PARTITION (...) of DROP PARTITION, RENAME and MSCK: the partitions whose values fulfil its comparisons."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any

from hiveacid import errors
from hiveacid.core.model import Column, Partition, TableDefinition
from hiveacid.core.schema.partitions import canonical_text
from hiveacid.core.schema.types import LOCAL_TIMESTAMP, NUMERIC_TYPES
from hiveacid.sql.execute.change_rows import spec_values
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.statements import PartitionItem, PartitionSpec
from hiveacid.table.partitions import static_values

_COMPARISONS: Mapping[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@dataclass(frozen=True)
class _Condition:
    """Member of PARTITION (...): compares a column with a value. ``written``: the value's own text, if it stands behind ``=``."""

    index: int
    column: Column
    operator: str
    bound: str | None
    written: object

    def holds(self, partition: Partition) -> bool:
        text = partition.values[self.index]
        if text is None or self.bound is None:
            return text is None and self.bound is None and self.operator == "="
        value, bound = comparable(self.column, text), comparable(self.column, self.bound)
        if value is None or bound is None:
            return self.operator == "=" and text == self.written
        return _COMPARISONS[self.operator](value, bound)


@dataclass(frozen=True)
class PartitionSelection:
    """PARTITION (...): the partitions of exactly its ``texts`` (column, value), or else those of its values."""

    columns: Sequence[str]
    conditions: Sequence[_Condition]
    texts: frozenset[tuple[str, str | None]]

    def of(self, partitions: Sequence[Partition]) -> Sequence[Partition]:
        """Return those of the partitions that it names."""
        matches = [each for each in partitions if all(one.holds(each) for one in self.conditions)]
        exact = [each for each in matches if self.texts <= {*zip(self.columns, each.values, strict=True)}]
        return exact or matches


def chosen_partitions(
    selections: Sequence[PartitionSelection], partitions: Sequence[Partition], *, if_exists: bool
) -> Sequence[Partition]:
    """Return the partitions that some of the specs name, in their order; none if a spec names none, unless ``if_exists``."""
    chosen = [selection.of(partitions) for selection in selections]
    if not if_exists and not all(chosen):
        return []  # which raises NoSuchPartitionError
    wanted = {partition.values for of_spec in chosen for partition in of_spec}
    return [partition for partition in partitions if partition.values in wanted]


def selection_of(
    execution: ExecutionContext, table: TableDefinition, spec: PartitionSpec
) -> PartitionSelection:
    """Return what PARTITION (...) names. Raises NoSuchColumnError, StatementError, each with the position."""
    texts = ((item.column, item.literal.value) for item in spec if item.literal and item.operator == "=")
    conditions = [_condition(execution, table, item) for item in spec]
    return PartitionSelection(table.partition_column_names, conditions, frozenset(texts))


def _condition(execution: ExecutionContext, table: TableDefinition, item: PartitionItem) -> _Condition:
    names = table.partition_column_names
    if item.column not in names:
        raise errors.no_such_column(
            table.name, item.column, names, kind="partition column", line=item.line, column=item.at_column
        )
    index = names.index(item.column)
    column = table.partition_columns[index]
    one_column_table = TableDefinition(table.name, (), table.storage, "", (column,))
    values = spec_values(execution, (item,)) or {}
    written = values[column.name] if item.operator == "=" else None
    try:
        bound = static_values(execution.context, one_column_table, values)[column.name]
    except (errors.DataError, errors.SchemaMismatchError):
        if not isinstance(written, str):
            raise
        bound = written  # the name of another engine's partition, which may be no value of the column
    given = values[column.name]
    if item.operator != "=" and bound is not None and not _is_exact(column, str(given), bound):
        raise errors.StatementError(
            f"{column.name} is {column.type}, where {given} becomes {bound}: PARTITION ({column.name} {item.operator} …) would choose "
            f"by another value; write a {column.type}",
            line=item.line,
            column=item.at_column,
        )
    return _Condition(index, column, item.operator, bound, written)


def _is_exact(column: Column, given: str, bound: str) -> bool:
    """Tell whether a value was neither rounded nor cut when it became one of the column's type; ``bound``: its text then."""
    kind = column.type.partition("(")[0]
    if kind == "date":  # a time of day is lost, unless it is midnight
        return re.fullmatch(r"[^ T]+([ T][0:.]*)?", given.strip()) is not None
    if kind not in NUMERIC_TYPES:
        return kind not in ("char", "varchar") or given.rstrip(" ") == bound.rstrip(" ")
    try:
        return given == bound or Decimal(given) == Decimal(bound)
    except InvalidOperation:
        return False


def comparable(column: Column, text: str | None) -> Decimal | tuple[int, str] | str | None:
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
