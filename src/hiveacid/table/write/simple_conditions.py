"""Conditions of UPDATE and DELETE that Arrow evaluates exactly as Spark does."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.spark.predicates.subquery_values import subquery_of
from hiveacid.spark.session.capabilities import ARROW_FRAMES, SparkFacts
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.table.arrow_read.conditions import SUBQUERY_STARTS, Condition, parse_condition
from hiveacid.table.arrow_read.truth import ANYTHING, membership

_COMPARED_ALIKE = frozenset(
    {"tinyint", "smallint", "int", "bigint", "decimal", "string", "varchar", "boolean", "date"}
)
_TEXTS = frozenset({"string", "varchar"})
# Digits of decimals that Spark compares with each other and with whole numbers without rounding.
_NARROW_DECIMAL = 18
# Text whose meaning depends on Spark's settings: quotes, backslashes, ${variables}, numbers with an exponent. Spark
# evaluates LIKE by Java's regular expressions. Numbers of 19 digits and more may be decimals that Spark rounds.
_DEPENDS_ON_SPARK = re.compile(r'["\\]|\$\{|\d[eE]|\d{19}|\blike\b', re.IGNORECASE)
_SUBQUERY = re.compile("select|with", re.IGNORECASE)
_PMOD = re.compile("pmod", re.IGNORECASE)
_MAX_VALUES = 1_000_000  # of a subquery


@dataclass(frozen=True)
class SimpleCondition:
    """A condition whose filter Arrow evaluates. ``subquery``: of its ``column IN (SELECT …)``, not computed yet.

    Until it is computed, ``condition`` is true for all rows that some values of the subquery would select.
    """

    text: str
    condition: Condition
    subquery: DataFrame | None = None

    def with_values(self, table: TableDefinition, alias: str | None) -> Condition:
        """Compute the subquery and return the whole condition. Raises UnsupportedFeatureError for too many values."""
        if self.subquery is None:
            return self.condition
        frame: Any = self.subquery.limit(_MAX_VALUES + 1)
        with translate_errors():
            values = frame.toArrow().column(0)
        if len(values) > _MAX_VALUES:
            raise UnsupportedFeatureError(f"the subquery has more than {_MAX_VALUES} values")
        return parse_condition(
            self.text, table, alias, lambda column, kind: membership(*_same_type(column, kind, values))
        )


def _same_type(column: str, data_type: Any, values: Any) -> tuple[Any, Any]:
    """Return a column as an expression, and values, both of one type."""
    field: Any = ds.field(column)
    if pa.types.is_integer(data_type):
        return field.cast(pa.int64()), values.cast(pa.int64())
    return field, values.cast(data_type)


def simple_condition(
    facts: SparkFacts, table: TableDefinition, where: str, alias: str | None
) -> SimpleCondition | None:
    """Return a condition for Arrow; None for one whose value could be another one in Spark.

    Raises StatementError, CatalogError, UnsupportedFeatureError.
    """
    outside = _without_subqueries(where)
    if _DEPENDS_ON_SPARK.search(outside):
        return None
    subquery = None
    if outside != where:
        if facts.version < ARROW_FRAMES or not facts.classic:
            return None
        subquery = subquery_of(facts, table, where, alias or table.name.name)
        if subquery is None:
            return None
    condition = parse_condition(
        where, table, alias, None if subquery is None else lambda _column, _type: ANYTHING
    )
    return (
        SimpleCondition(where, condition, subquery) if _is_alike(facts, table, outside, condition) else None
    )


def _without_subqueries(where: str) -> str:
    """Return a condition without the texts of its subqueries, which Spark computes."""
    if not _SUBQUERY.search(where):
        return where
    parts, start, depth = [], 0, 0
    tokens = tokenize(where)
    for token, after in pairwise(tokens):
        if token.keyword == "(" and (depth or after.keyword in SUBQUERY_STARTS):
            parts += [] if depth else [where[start : token.end]]
            depth += 1
        elif token.keyword == ")" and depth:
            depth, start = depth - 1, token.start
    return "".join((*parts, where[start:]))


def _is_alike(facts: SparkFacts, table: TableDefinition, where: str, condition: Condition) -> bool:
    types = {column.name: column.type for column in (*table.columns, *table.partition_columns)}
    if not all(_is_compared_alike(types[name]) for name in condition.columns):
        return False
    if "'" in where and not all(is_one_of(types[name], _TEXTS) for name in condition.columns):
        # Otherwise Spark compares some numbers and days with a text as texts, or with NULL if it does not fit.
        ansi = str(facts.spark.conf.get("spark.sql.ansi.enabled"))
        if ansi.lower() != "true":
            return False
    return not _PMOD.search(where) or facts.means_builtin_pmod()


def is_one_of(hive: str, names: frozenset[str]) -> bool:
    """Tell whether a type is a primitive one of some names."""
    kind = parse_type(hive)
    return isinstance(kind, Primitive) and kind.name in names


def _is_compared_alike(hive: str) -> bool:
    kind = parse_type(hive)
    return (
        isinstance(kind, Primitive)
        and kind.name in _COMPARED_ALIKE
        and (kind.name != "decimal" or kind.args[0] <= _NARROW_DECIMAL)
    )
