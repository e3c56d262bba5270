"""Partition pruning: drop partitions in which a condition cannot hold, by Spark's own comparison of values."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column, Partition, TableDefinition, TableName
from hiveacid.core.predicates import (
    UNKNOWN,
    Bounds,
    Comparison,
    Predicate,
    Value,
    bounds_test,
    columns_of,
    leaves,
)
from hiveacid.core.schema.types import INTEGER_BITS, Primitive, parse_type
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.predicates.column_conditions import Conjunct, char_metadata, conjunction
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.capabilities import SparkEnvironment

_INDEX = "__hiveacid_partition"


def prune_partitions(
    env: SparkEnvironment,
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
        kept = _prune_in_spark(env, table, partitions, usable, alias or table.name)
    return tuple(partitions) if kept is None else tuple(partitions[index] for index in kept)


def _prune_in_spark(
    env: SparkEnvironment,
    table: TableDefinition,
    partitions: Sequence[Partition],
    usable: Sequence[Conjunct],
    name: str | TableName,
) -> list[int] | None:
    columns = table.partition_columns
    fields = [T.StructField(f"v{index}", T.StringType()) for index in range(len(columns))]
    rows = [(index, *partition.values) for index, partition in enumerate(partitions)]
    frame = env.spark.createDataFrame(rows, T.StructType([T.StructField(_INDEX, T.IntegerType()), *fields]))
    typed = [_typed_value(f"v{position}", column) for position, column in enumerate(columns)]
    condition = conjunction(env, [conjunct.expression for conjunct in usable])
    try:
        matches = called(env, frame.select(_INDEX, *typed), name).where(condition).select(_INDEX).collect()
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


def _prune_in_python(
    table: TableDefinition, partitions: Sequence[Partition], usable: Sequence[Conjunct]
) -> list[int] | None:
    """Return the indexes of the partitions that may match; None if only Spark can decide."""
    types = {column.name: column.type for column in table.partition_columns}
    trees = [conjunct.predicate for conjunct in usable]
    if not all(leaf == UNKNOWN or _is_comparable(leaf, types) for tree in trees for leaf in leaves(tree)):
        return None
    kept: Sequence[int] = range(len(partitions))
    for tree in trees:
        names = columns_of(tree)
        may_match = bounds_test(tree, names)
        columns = [(table.partition_column_names.index(name), _PARSERS[types[name]][0]) for name in names]

        def bounds(
            partition: Partition, columns: Sequence[tuple[int, Callable[[str], Value]]] = columns
        ) -> list[Bounds]:
            return [_exact_bounds(parse, partition.values[position]) for position, parse in columns]

        try:
            kept = [index for index in kept if may_match(bounds(partitions[index]))]
        except ValueError:
            return None
    return list(kept)


def _is_comparable(leaf: Predicate, types: Mapping[str, str]) -> bool:
    if not isinstance(leaf, Comparison) or leaf.column not in types:
        return False
    _, kinds = _PARSERS.get(types[leaf.column], (None, ()))
    return bool(kinds) and all(type(value) in kinds for value in leaf.values)


def _exact_bounds(parse: Callable[[str], Value], text: str | None) -> Bounds:
    """Return the bounds of a partition's value. Raises ValueError for a text that may mean several values."""
    if text is None:
        return Bounds(has_value=False)
    value = parse(text)
    return Bounds(value, value, has_null=False)


def _parse_integer(bits: int) -> Callable[[str], Value]:
    limit = 1 << (bits - 1)

    def parse(text: str) -> int:
        if _INTEGER.fullmatch(text) and -limit <= (number := int(text)) < limit:
            return number
        raise ValueError(text)

    return parse


def _parse_date(text: str) -> date:
    if _DATE.fullmatch(text):
        return date.fromisoformat(text)
    raise ValueError(text)


_PARSERS: dict[str, tuple[Callable[[str], Value], tuple[type, ...]]] = {
    **{hive: (_parse_integer(bits), (int, Decimal)) for hive, bits in INTEGER_BITS.items()},
    "date": (_parse_date, (date,)),
    "string": (str, (str,)),
}
"""For each type, the parser of a partition's value, and the types of constants that it is compared with."""
