"""Partition pruning: drop partitions in which a condition cannot hold, by Spark's own comparison of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column, Partition, TableDefinition, TableName
from hiveacid.core.predicates import Comparison, Operator, Value
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.predicates.column_conditions import Conjunct, char_metadata
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.capabilities import SparkFacts

_INDEX = "__hiveacid_partition"


def prune_partitions(
    facts: SparkFacts,
    table: TableDefinition,
    partitions: Sequence[Partition],
    conditions: Sequence[Conjunct],
    *,
    alias: str | None = None,
) -> tuple[Partition, ...]:
    """Return the partitions that may hold rows for which all ``conditions`` are true, in their order.

    Only conjuncts over partition columns alone count. ``alias`` as in `table_conjuncts`. All partitions stay if no conjunct
    is usable, or if Spark fails on some value; the query itself then reports the error.
    """
    names = {column.name for column in table.partition_columns}
    usable = [c for c in conditions if c.columns and c.columns <= names]
    if not usable or not partitions:
        return tuple(partitions)
    kept = _prune_in_python(table, partitions, usable)
    if kept is None:
        kept = _prune_in_spark(facts, table, partitions, usable, alias or table.name)
    return tuple(partitions) if kept is None else tuple(partitions[index] for index in kept)


def _prune_in_spark(
    facts: SparkFacts,
    table: TableDefinition,
    partitions: Sequence[Partition],
    usable: Sequence[Conjunct],
    name: str | TableName,
) -> list[int] | None:
    columns = table.partition_columns
    fields = [T.StructField(f"v{index}", T.StringType()) for index in range(len(columns))]
    rows = [(index, *partition.values) for index, partition in enumerate(partitions)]
    frame = facts.spark.createDataFrame(rows, T.StructType([T.StructField(_INDEX, T.IntegerType()), *fields]))
    typed = [_typed_value(f"v{position}", column) for position, column in enumerate(columns)]
    # The line break ends a trailing comment.
    condition = " AND ".join(f"({conjunct.text}\n)" for conjunct in usable)
    try:
        matches = called(facts, frame.select(_INDEX, *typed), name).where(condition).select(_INDEX).collect()
    except (Py4JError, PySparkException):
        return None
    return sorted(row[0] for row in matches)


def _typed_value(value: str, column: Column) -> SparkColumn:
    """Return a partition value as the scan returns it (``spark.read.partition_lookup``); NULL where that fails."""
    kind = parse_type(column.type)
    if isinstance(kind, Primitive) and kind.name == "char":
        return F.rpad(F.col(value), kind.args[0], " ").alias(column.name, metadata=char_metadata(column.type))
    return F.expr(f"try_cast({value} AS {column_type(column).simpleString()})").alias(column.name)


# Without a Spark job: integers, dates and strings whose texts have only one meaning.

_INTEGER = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _prune_in_python(
    table: TableDefinition, partitions: Sequence[Partition], usable: Sequence[Conjunct]
) -> list[int] | None:
    """Return the indexes of the partitions that may match; None if only Spark can decide."""
    kept: Sequence[int] = range(len(partitions))
    for conjunct in usable:
        if conjunct.comparison is None:
            return None
        comparison = conjunct.comparison
        position = next(i for i, c in enumerate(table.partition_columns) if c.name == comparison.column)
        test = _matcher(comparison, table.partition_columns[position].type)
        if test is None:
            return None
        try:
            kept = [index for index in kept if test(partitions[index].values[position])]
        except _AmbiguousText:
            return None
    return list(kept)


class _AmbiguousText(Exception):  # noqa: N818 - not an error: Spark is asked instead
    """The text of a partition value may mean several values."""


def _matcher(comparison: Comparison, hive: str) -> Callable[[str | None], bool] | None:
    parse = _PARSERS.get(hive)
    if parse is None or not all(_is_comparable(value, hive) for value in comparison.values):
        return None
    values = [_sort_value(value) for value in comparison.values]

    def test(text: str | None) -> bool:
        if text is None:
            return comparison.operator is Operator.IS_NULL
        return _matches(comparison.operator, _sort_value(parse(text, hive)), values)

    return test


def _is_comparable(value: Value, hive: str) -> bool:
    if hive == "date":
        return isinstance(value, date)
    return isinstance(value, str if hive == "string" else int) and not isinstance(value, bool)


def _sort_value(value: Value) -> int | date | bytes:
    """Return a value that sorts as in Spark, which compares strings by their bytes."""
    return value.encode() if isinstance(value, str) else value  # type: ignore[return-value]


def _matches(operator: Operator, value: int | date | bytes, values: Sequence[int | date | bytes]) -> bool:
    match operator:
        case Operator.EQUAL | Operator.NULL_SAFE_EQUAL | Operator.IN:
            return value in values
        case Operator.LESS:
            return value < values[0]  # type: ignore[operator]
        case Operator.LESS_OR_EQUAL:
            return value <= values[0]  # type: ignore[operator]
        case Operator.GREATER:
            return value > values[0]  # type: ignore[operator]
        case Operator.GREATER_OR_EQUAL:
            return value >= values[0]  # type: ignore[operator]
        case Operator.BETWEEN:
            return values[0] <= value <= values[1]  # type: ignore[operator]
        case _:
            return operator is Operator.IS_NOT_NULL


def _parse_integer(text: str, hive: str) -> int:
    if not _INTEGER.fullmatch(text) or not -(1 << (_BITS[hive] - 1)) <= int(text) < 1 << (_BITS[hive] - 1):
        raise _AmbiguousText
    return int(text)


def _parse_date(text: str, _: str) -> date:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise _AmbiguousText


_PARSERS: dict[str, Callable[[str, str], Value]] = {
    **dict.fromkeys(_BITS, _parse_integer),
    "date": _parse_date,
    "string": lambda text, _: text,
}
