"""Conditions without Spark: what is refused, and where (`tests/spark/test_arrow.py` compares the rest with Spark)."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import ConfigError, NoSuchColumnError, ParseError
from hiveacid.table.arrow_read.condition_grammar import parse_predicate
from hiveacid.table.arrow_read.filters import Condition, arrow_filter, condition_from_arrow

TYPES = {"i": "int", "s": "string", "d": "date", "t": "timestamp", "b": "boolean", "z": "struct<a:int>"}
TABLE = TableDefinition(
    TableName("default", "t"), tuple(Column(name, kind) for name, kind in TYPES.items()), ORC, "/t"
)
REFUSED = [
    "i +", "i", "i / 1 = 2", "i + 1 = 2", "s + 1 = 2", "i % 0 = 1", "i % i = 1", "i % 2 = 1", "pmod(i) = 1", "pmod(i, 2) = 1", "-i = 1",
    "1.5 + i = 2", "i = 1 + 1", "(i + 1", "(i = 1) = 1", "(i) = 1", "b + b = 1", "i * 2 IN (2)", "i - 1 IS NULL",
    "upper(s) = 'A'", "i = ", "s = 1", "i = 'x'", "i LIKE '1'", "s LIKE s", "s LIKE 'a%'", "s NOT LIKE 'a%'", "i = 1 2",
    "i = i", "i < i OR b", "s IN ('a', s)", "i BETWEEN 1 AND i", "i <=> i",
    "(i = 1", "i IN ()", "i IN (SELECT 1)", "CASE WHEN i = 1 THEN true END", "d = 'tomorrow'", "i = 1; DROP TABLE t", "EXISTS",
    "i = 1 AND", "t = '2020-01-01 00:00:00 UTC'", "b = 1", "i IS TRUE", "i = 5L", "s RLIKE 'a'", "'", "i = X'0g'", "a.b.c = 1",
]  # fmt: skip


def parse_condition(text: str, table: TableDefinition) -> Condition:
    return arrow_filter(table.all_columns, parse_predicate(text, table))


@pytest.mark.parametrize("condition", REFUSED)
def test_other_conditions_are_refused_with_their_position(condition: str) -> None:
    with pytest.raises((ParseError, NoSuchColumnError), match="line"):
        parse_condition(condition, TABLE)


@pytest.mark.parametrize("condition", ["s LIKE 'a%'", "i + 1 = 2", "i = i", "upper(s) = 'A'"])
def test_a_refusal_says_what_to_use_instead(condition: str) -> None:
    with pytest.raises(ParseError, match="pass a pyarrow expression, or use Polars, DuckDB or Spark"):
        parse_condition(condition, TABLE)


def test_thousands_of_comparisons_are_no_problem() -> None:
    text = " OR ".join(f"i = {number} AND s <> '{number}'" for number in range(5_000))
    assert parse_condition(text, TABLE).columns == ("i", "s")


def test_deep_parentheses_are_refused() -> None:
    with pytest.raises(ParseError):
        parse_condition("(" * 400 + "i = 1" + ")" * 400, TABLE)


def test_days_are_members_of_a_list_of_times() -> None:
    times = pa.table({"t": pa.array([0, 1, None], pa.timestamp("us"))})
    for text, rows in (("t IN (DATE '1970-01-01', NULL)", 1), ("t NOT IN (DATE '1970-01-01')", 1)):
        assert times.filter(parse_condition(text, TABLE).predicate).num_rows == rows


def test_a_literal_is_never_among_nulls() -> None:
    rows = pa.table({"i": pa.array([1, None])})
    for text in ("1 IN (NULL)", "1 NOT IN (NULL, NULL)", "i NOT IN (2, NULL)"):
        assert rows.filter(parse_condition(text, TABLE).predicate).num_rows == 0


@pytest.mark.parametrize("text", ["n = 286.15D", "n IN (286.15D, 1)", "n >= 286.15D AND n <= 286.15D"])
def test_decimals_become_the_nearest_double(text: str) -> None:
    """As in Spark. Arrow's own cast makes 286.15000000000003 of it."""
    table = replace(TABLE, columns=(Column("n", "decimal(12,2)"),))
    rows = pa.table({"n": pa.array([Decimal("286.15")], pa.decimal128(12, 2))})
    assert rows.filter(parse_condition(text, table).predicate).num_rows == 1


def test_in_compares_as_double_if_an_item_is_one() -> None:
    """As in Spark, whose IN has one type for all."""
    rows = pa.table({"i": pa.array([1, 2, None])})
    for text, count in (
        ("i IN (0.999999999999999999, 5D)", 1),
        ("i NOT IN (0.999999999999999999, 5D)", 1),
        ("i IN (5D, NULL, 2)", 1),
        ("i NOT IN (5D, NULL)", 0),
    ):
        assert rows.filter(parse_condition(text, TABLE).predicate).num_rows == count, text
    for text in ("i IN (i, 5D)", "i IN ('1', 5D)", "i = - -5"):
        with pytest.raises(ParseError):
            parse_condition(text, TABLE)


def test_columns_by_number_are_refused_because_a_read_has_others() -> None:
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64()), ("s", pa.string())])
    for expression in (pc.field(0) == 7, (pc.field("a") == 1) & pc.field(1).is_valid()):
        with pytest.raises(ConfigError, match="number"):
            condition_from_arrow(expression, schema)
    for text in ("FieldPath(0)", 'x"FieldPath(0)', "\\"):
        assert condition_from_arrow(pc.field("s") == text, schema).columns == ("s",)


def test_a_literal_on_the_left_becomes_a_double() -> None:
    rows = pa.table({"i": pa.array([1, 2])})
    for text, count in (("1.5 > 1e0", 2), ("0.1 IN (1D)", 0), ("9007199254740993 BETWEEN i AND 1e0", 0)):
        assert rows.filter(parse_condition(text, TABLE).predicate).num_rows == count, text
