"""Which partitions a condition can be true in, by Spark's own comparison of their values."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import date
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import DEFAULT_PARTITION, Column, Partition, TableDefinition
from hiveacid.core.types import Primitive, parse_type
from hiveacid.spark.conditions import Conjunct, conjuncts
from hiveacid.spark.constants import Value
from hiveacid.spark.simple import Operator, Simple
from hiveacid.spark.types import column_type
from hiveacid.spark.visible import char_mark, visible_columns

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from hiveacid.spark.session import SparkFacts

_INDEX = "__hiveacid_partition"


def prune_partitions(
    facts: SparkFacts,
    table: TableDefinition,
    partitions: Sequence[Partition],
    where: str,
    *,
    alias: str | None = None,
) -> tuple[Partition, ...]:
    """Return the partitions that can hold rows for which ``where`` is true, in their order.

    Only conjuncts over partition columns alone count. ``alias``: what columns may be qualified with (the
    table's name if not given). Where nothing is known, or Spark fails on some value (the query itself will
    say so), all stay. Raises what `conjuncts` raises.
    """
    names = {column.name for column in table.partition_columns}
    schema = visible_columns(table)
    known = conjuncts(facts, schema, where, alias=alias or table.name.name)
    usable = [c for c in known if c.columns and c.columns <= names]
    if not usable or not partitions:
        return tuple(partitions)
    kept = _by_python(table, partitions, usable)
    if kept is None:
        kept = _by_spark(facts, table, partitions, usable, alias or table.name.name)
    return tuple(partitions) if kept is None else tuple(partitions[index] for index in kept)


def _by_spark(
    facts: SparkFacts,
    table: TableDefinition,
    partitions: Sequence[Partition],
    usable: Sequence[Conjunct],
    alias: str,
) -> list[int] | None:
    columns = table.partition_columns
    fields = [T.StructField(f"v{place}", T.StringType()) for place in range(len(columns))]
    rows = [(index, *_texts(partition)) for index, partition in enumerate(partitions)]
    frame = facts.spark.createDataFrame(rows, T.StructType([T.StructField(_INDEX, T.IntegerType()), *fields]))
    typed = [_typed(F.col(f"v{place}"), column) for place, column in enumerate(columns)]
    # The line break ends a trailing comment.
    condition = " AND ".join(f"({conjunct.text}\n)" for conjunct in usable)
    try:
        found = frame.select(_INDEX, *typed).alias(alias).where(condition).select(_INDEX).collect()
    except (Py4JError, PySparkException):
        return None
    return sorted(row[0] for row in found)


def _texts(partition: Partition) -> list[str | None]:
    return [None if value == DEFAULT_PARTITION else value for value in partition.values]


def _typed(value: SparkColumn, column: Column) -> SparkColumn:
    """Return a partition value as the scan shows it (``spark.paths``)."""
    kind = parse_type(column.type)
    if isinstance(kind, Primitive) and kind.name == "char":
        return F.rpad(value, kind.args[0], " ").alias(column.name, metadata=char_mark(column.type))
    return value.cast(column_type(column)).alias(column.name)


# Without Spark: whole numbers, dates and strings, whose texts have one reading only.

_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def _by_python(
    table: TableDefinition, partitions: Sequence[Partition], usable: Sequence[Conjunct]
) -> list[int] | None:
    """Return the indexes of the matching partitions; None where only Spark can say."""
    kept: Sequence[int] = range(len(partitions))
    for conjunct in usable:
        if conjunct.simple is None:
            return None
        simple = conjunct.simple
        place = next(i for i, c in enumerate(table.partition_columns) if c.name == simple.column)
        test = _test(simple, table.partition_columns[place].type)
        if test is None:
            return None
        try:
            kept = [index for index in kept if test(partitions[index].values[place])]
        except _Uncertain:
            return None
    return list(kept)


class _Uncertain(Exception):  # noqa: N818 - not an error: Spark is asked instead
    """A partition's text has more than one reading."""


def _test(simple: Simple, hive: str) -> Callable[[str | None], bool] | None:
    reading = _READINGS.get(hive)
    if reading is None or not all(_fits(value, hive) for value in simple.values):
        return None
    values = [_ordered(value) for value in simple.values]

    def test(text: str | None) -> bool:
        if text is None or text == DEFAULT_PARTITION:
            return simple.operator is Operator.IS_NULL
        return _matches(simple.operator, _ordered(reading(text, hive)), values)

    return test


def _fits(value: Value, hive: str) -> bool:
    if hive == "date":
        return isinstance(value, date)
    return isinstance(value, str if hive == "string" else int) and not isinstance(value, bool)


def _ordered(value: Value) -> int | date | bytes:
    """Return what compares as the value does in Spark: strings compare by their bytes."""
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


def _whole(text: str, hive: str) -> int:
    if not _WHOLE.fullmatch(text) or not -(1 << (_BITS[hive] - 1)) <= int(text) < 1 << (_BITS[hive] - 1):
        raise _Uncertain
    return int(text)


def _date(text: str, _: str) -> date:
    try:
        if _DATE.fullmatch(text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise _Uncertain


_READINGS: dict[str, Callable[[str, str], Value]] = {
    **dict.fromkeys(_BITS, _whole),
    "date": _date,
    "string": lambda text, _: text,
}
