"""Conditions of UPDATE and DELETE that Arrow evaluates exactly as Spark does: simple conditions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import INTEGER_TYPES, Primitive, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.driver_frames import collect_as_arrow
from hiveacid.spark.formats.expressions import Expression, text_of
from hiveacid.spark.parser.lexer import TokenKind, tokenize
from hiveacid.spark.predicates.subquery_values import subquery_of
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.table.arrow_read.conditions import SUBQUERY_STARTS, Condition, parse_condition
from hiveacid.table.arrow_read.three_valued_logic import ANYTHING, Truth, membership

# Types whose values Arrow and Spark compare in the same way; decimals only up to _EXACT_DIGITS.
_EXACT_TYPES = frozenset({*INTEGER_TYPES, "decimal", "string", "varchar", "boolean", "date"})
# Spark compares decimals of at most 18 digits with each other and with whole numbers without rounding.
_EXACT_DIGITS = 18
# The meaning of double quotes, backslashes, ${variables} and numbers with an exponent depends on Spark's settings. Numbers
# of 19 digits and more may be decimals that Spark rounds. Spark evaluates LIKE by Java's regular expressions. A time and a
# day are compared in the session's time zone, where a day may begin at 01:00.
_DEPENDS_ON_SPARK = re.compile(r'["\\]|\$\{|\d[eE]|\d{19}|\b(?:like|timestamp)\b', re.IGNORECASE)
_SUBQUERY = re.compile("select|with", re.IGNORECASE)
_PMOD = re.compile("pmod", re.IGNORECASE)
_NULL = re.compile(r"\bnull\b", re.IGNORECASE)
_NULL_TEST = re.compile(r"\bis\s+(?:not\s+)?null\b", re.IGNORECASE)
_MAX_VALUES = 1_000_000  # of a subquery


@dataclass(frozen=True)
class SimpleCondition:
    """A condition and its filter for Arrow. ``subquery``: the one of ``column IN (SELECT …)``, not computed yet.

    With a subquery, ``condition`` selects each row that any result of the subquery could select.
    """

    text: str
    condition: Condition
    subquery: DataFrame | None = None

    def with_values(self, facts: SparkFacts, table: TableDefinition, alias: str | None) -> Condition:
        """Compute the subquery and return the exact filter. Raises UnsupportedFeatureError for too many values."""
        if self.subquery is None:
            return self.condition
        with translate_errors():
            values = collect_as_arrow(facts, self.subquery.limit(_MAX_VALUES + 1)).column(0)
        if len(values) > _MAX_VALUES:
            raise UnsupportedFeatureError(f"the subquery has more than {_MAX_VALUES} values")
        return parse_condition(
            self.text, table, alias, lambda column, data_type: _is_member(column, data_type, values)
        )


def _is_member(column: str, data_type: Any, values: Any) -> Truth:
    """Return the truth of ``column IN (values)``. Values may be wider integers than those of the column."""
    field: Any = ds.field(column)
    if pa.types.is_integer(data_type):
        field, data_type = field.cast(pa.int64()), pa.int64()
    return membership(field, values.cast(data_type))


def simple_condition(
    facts: SparkFacts, table: TableDefinition, where: Expression, alias: str | None
) -> SimpleCondition | None:
    """Return a condition as a filter for Arrow; None if Spark could select other rows by it.

    ``alias``: the name by which the condition calls the table. Raises StatementError, CatalogError, UnsupportedFeatureError.
    """
    text = text_of(where)
    if text is None:
        return None
    own_text = _without_subqueries(text)
    if _DEPENDS_ON_SPARK.search(own_text) or _doubles_quotes(own_text):
        return None
    subquery = None
    if own_text != text:
        subquery = subquery_of(facts, table, where, alias or table.name)
        if subquery is None:
            return None
    condition = parse_condition(
        text, table, alias, None if subquery is None else lambda _column, _type: ANYTHING
    )
    if not _selects_as_spark(facts, table, own_text, condition):
        return None
    return SimpleCondition(text, condition, subquery)


def _doubles_quotes(text: str) -> bool:
    """Tell whether a string literal has a doubled quote inside.

    Spark reads ``'it''s'`` as ``its`` before 4.0, and later with ``spark.sql.legacy.consecutiveStringLiterals.enabled``.
    """
    return any(
        token.kind is TokenKind.STRING and token.text[0] not in "rR" and "''" in token.text[1:-1]
        for token in tokenize(text)
    )


def _without_subqueries(where: str) -> str:
    """Return the text of a condition without the texts of its subqueries, which Spark computes."""
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


def _selects_as_spark(facts: SparkFacts, table: TableDefinition, where: str, condition: Condition) -> bool:
    """Tell whether Spark selects the same rows, with the types of these columns and the settings of the session."""
    types = {column.name: column.type for column in table.all_columns}
    if not all(_is_exact(types[name]) for name in condition.columns):
        return False
    # Spark calculates, and checks types, where a literal NULL decides the result; Arrow does not.
    if len(_NULL.findall(where)) > len(_NULL_TEST.findall(where)):
        return False
    # Without ANSI mode Spark compares some numbers and dates with a text as texts, or with NULL if the text does not fit.
    if condition.parses_texts and str(facts.spark.conf.get("spark.sql.ansi.enabled")).lower() != "true":
        return False
    return not _PMOD.search(where) or facts.means_builtin_pmod()


def _is_exact(text: str) -> bool:
    hive = parse_type(text)
    return (
        isinstance(hive, Primitive)
        and hive.name in _EXACT_TYPES
        and (hive.name != "decimal" or hive.args[0] <= _EXACT_DIGITS)
    )
