"""What Spark's own analysis says about a condition's text."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.predicates import (
    UNDECIDED,
    UNKNOWN,
    AllOf,
    AnyOf,
    Comparison,
    Not,
    Operator,
    Predicate,
    RemainderComparison,
)
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import NoSuchColumnError, ParseError, SchemaMismatchError, StatementError
from hiveacid.spark.predicates import predicate_reader
from hiveacid.spark.predicates.column_conditions import (
    Conjunct,
    condition_rows,
    predicate_of,
    table_conjuncts,
)
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SCHEMA = T.StructType(
    [
        T.StructField("id", T.IntegerType()),
        T.StructField("big", T.LongType()),
        T.StructField("small", T.ShortType()),
        T.StructField("s", T.StringType()),
        T.StructField("d", T.DateType()),
        T.StructField("ts", T.TimestampType()),
        T.StructField("amount", T.DecimalType(10, 2)),
        T.StructField("f", T.FloatType()),
        T.StructField("x", T.DoubleType()),
        T.StructField("flag", T.BooleanType()),
        T.StructField("st", T.StructType([T.StructField("a", T.IntegerType())])),
        T.StructField("odd name", T.IntegerType()),
    ]
)


@pytest.fixture(scope="module")
def env(spark: SparkSession) -> SparkEnvironment:
    return SparkEnvironment(spark)


def conjuncts(env: SparkEnvironment, schema: T.StructType, where: str) -> list[Conjunct]:
    columns = tuple(Column(field.name, field.dataType.simpleString()) for field in schema)
    return table_conjuncts(env, TableDefinition(TableName("default", "t"), columns, ORC, ""), where)


def simple(env: SparkEnvironment, where: str) -> tuple[Any, ...] | None:
    (only,) = conjuncts(env, SCHEMA, where)
    return only.comparison and (
        only.comparison.column,
        str(only.comparison.operator),
        *only.comparison.values,
    )


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("id = 5", ("id", "=", 5)),
        ("5 < ID", ("id", ">", 5)),
        ("5 >= id", ("id", "<=", 5)),
        ("id <=> 3", ("id", "<=>", 3)),
        ("id <=> NULL", ("id", "is null")),
        ("id IS NULL", ("id", "is null")),
        ("id IS NOT NULL", ("id", "is not null")),
        ("id BETWEEN -1 AND 5L", ("id", "between", -1, 5)),
        ("id IN (1, 2L, NULL)", ("id", "in", 1, 2)),
        ("id BETWEEN 2 * 375 AND 3 * 375 - 1", ("id", "between", 750, 1124)),
        ("d > date_sub(DATE '2026-01-10', 7)", ("d", ">", dt.date(2026, 1, 3))),
        ("big = 3000000000", ("big", "=", 3000000000)),
        ("small = 100000", ("small", "=", 100000)),
        ("id = 5.0", ("id", "=", 5)),
        ("id = '5'", ("id", "=", 5)),
        ("s >= 'é😀'", ("s", ">=", "é😀")),
        ("s = 'a' 'b'", ("s", "=", "ab")),
        ("d = '2020-02-29'", ("d", "=", dt.date(2020, 2, 29))),
        ("d < date'0001-01-01'", ("d", "<", dt.date(1, 1, 1))),
        (
            "ts > timestamp'2020-01-01 00:00:00.000001Z'",
            ("ts", ">", dt.datetime(2020, 1, 1, 0, 0, 0, 1, dt.UTC)),
        ),
        ("amount = 12.5", ("amount", "=", Decimal("12.5"))),
        ("amount > 12.505", ("amount", ">", Decimal("12.505"))),
        ("amount <= 3", ("amount", "<=", 3)),
        ("f = cast(74.72 as float)", ("f", "=", 74.72000122070312)),
        ("f = 74.72", ("f", "=", 74.72)),
        ("x < -1.5", ("x", "<", -1.5)),
        ("flag", ("flag", "=", True)),
        ("NOT flag", ("flag", "=", False)),
        ("`odd name` = 1", ("odd name", "=", 1)),
        ("t.id = 1", ("id", "=", 1)),
        ("id = 1 -- AND s = 2", ("id", "=", 1)),
        # not simple, but understood
        ("id <> 5", None),
        ("id + 1 = 5", None),
        ("id = big", None),
        ("id BETWEEN 1 AND big", None),
        ("id NOT BETWEEN 1 AND 2", None),
        ("s = 5", None),
        ("s LIKE 'a%'", None),
        ("st.a = 5", None),
        ("id = NULL", None),
        ("upper(s) BETWEEN 'a' AND 'b'", None),
        ("cast(d as timestamp) = timestamp'2020-01-01'", None),
        ("cast(id as tinyint) = 5", None),
        ("cast(big as double) = 5.0D", None),
        ("id = 1 OR id = 2", None),
        ("NOT (flag AND id = 1)", None),
    ],
)
def test_simple_forms(env: SparkEnvironment, where: str, expected: tuple[Any, ...] | None) -> None:
    if where.startswith("t."):
        (only,) = conjuncts(env, SCHEMA, where)
        assert only.comparison is not None
        assert only.comparison.values == (1,)
    else:
        assert simple(env, where) == expected


def test_columns_are_those_of_the_schema(env: SparkEnvironment) -> None:
    known = conjuncts(env, SCHEMA, "ID = big AND ST.a > 1 AND 1 = 1 AND `Odd Name` IN (id, 2)")
    assert [c.columns for c in known] == [{"id", "big"}, {"st"}, frozenset(), {"odd name", "id"}]
    assert simple(env, "ID = 1") == ("id", "=", 1)
    (typed,) = conjuncts(env, SCHEMA, "amount = 1")
    assert typed.comparison == Comparison("amount", Operator.EQUAL, (1,))


def texts_of(found: list[Conjunct]) -> list[str]:
    return [conjunct.expression.sql() for conjunct in found]


@pytest.mark.parametrize(
    ("where", "texts"),
    [
        ("id = 1 AND s = 'x'", ["(id = 1)", "(s = 'x')"]),
        (
            "(id = 1 AND (s = 'a AND b' OR flag)) AND (flag)",
            ["(id = 1)", "((s = 'a AND b') OR flag)", "flag"],
        ),
        ("id NOT IN (1, 2) AND flag", ["(NOT (id IN (1, 2)))", "flag"]),
        (
            "CASE WHEN id = 1 AND flag THEN true END AND flag",
            ["CASE WHEN ((id = 1) AND flag) THEN true END", "flag"],
        ),
        ("flag /* AND */ AND -- AND\n id = 1", ["flag", "(id = 1)"]),
        ("flag and\tNOT flag", ["flag", "(NOT flag)"]),
        ("id = 1 AND flag OR s = 'x'", ["(((id = 1) AND flag) OR (s = 'x'))"]),
        ("'😀' = s AND s = 'é'", ["('😀' = s)", "(s = 'é')"]),
    ],
)
def test_conjuncts_are_those_that_spark_parses(env: SparkEnvironment, where: str, texts: list[str]) -> None:
    assert texts_of(conjuncts(env, SCHEMA, where)) == texts


def test_hundreds_of_conjuncts_are_no_problem(env: SparkEnvironment) -> None:
    many = conjuncts(env, SCHEMA, " AND ".join(["id = 1"] * 300))
    assert {conjunct.comparison for conjunct in many} == {Comparison("id", Operator.EQUAL, (1,))}


def test_and_that_is_a_name_is_no_cut(env: SparkEnvironment) -> None:
    schema = T.StructType([T.StructField("and", T.BooleanType()), T.StructField("between", T.BooleanType())])
    assert [c.columns for c in conjuncts(env, schema, "`and` AND and")] == [{"and"}, {"and"}]
    assert [c.columns for c in conjuncts(env, schema, "between AND `and`")] in (
        [{"between"}, {"and"}],
        [{"between", "and"}],
    )


@pytest.mark.parametrize(
    "where",
    [
        "id IN (SELECT 1)",
        "EXISTS (SELECT 1)",
        "id = (SELECT max(id) FROM no_such_table)",
        "rand() < 0.5",
        "monotonically_increasing_id() = 1",
        "d < current_date()",
        "ts > now() - interval 1 day",
        "current_user() = s",
    ],
)
def test_what_depends_on_more_than_the_row_is_left_out(env: SparkEnvironment, where: str) -> None:
    assert conjuncts(env, SCHEMA, where) == []
    assert texts_of(conjuncts(env, SCHEMA, f"{where} AND id = 1 AND ({where})")) == ["(id = 1)"]


@pytest.mark.parametrize(
    ("where", "error", "message"),
    [
        ("nope = 1", NoSuchColumnError, "column nope does not exist; did you mean one of: .*id"),
        ("id = 1 AND t.nope = 1", NoSuchColumnError, "column t.nope does not exist"),
        ("st.b = 1", NoSuchColumnError, "field b does not exist; did you mean one of: a"),
        ("id = array(1)", SchemaMismatchError, "incompatible types"),
        ("id", SchemaMismatchError, "is not a boolean"),
        ("sum(id) > 3", StatementError, "WHERE condition"),
        ("no_such_function(id) = 1", StatementError, "no_such_function"),
        ("id = ", ParseError, "end of input"),
        ("id = 1; DROP TABLE t", ParseError, "';'"),
        ("", ParseError, "empty statement|end of input"),
    ],
)
def test_errors_say_what_is_wrong(
    env: SparkEnvironment, where: str, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message) as raised:
        conjuncts(env, SCHEMA, where)
    assert "\n" not in str(raised.value)
    assert "SQLSTATE" not in str(raised.value)
    assert "LocalRelation" not in str(raised.value)


def test_parse_errors_have_their_place(env: SparkEnvironment) -> None:
    with pytest.raises(ParseError) as raised:
        conjuncts(env, SCHEMA, "id = 1 AND\n s ==== 'x'")
    assert raised.value.line == 2


def test_answers_are_values(env: SparkEnvironment) -> None:
    assert conjuncts(env, SCHEMA, "id = 1") == conjuncts(env, SCHEMA, "id = 1")
    assert hash(Conjunct("id = 1", frozenset({"id"}), UNDECIDED)) == hash(
        Conjunct("id = 1", frozenset({"id"}), UNDECIDED)
    )


def _equal(column: str, *values: Any) -> Comparison:
    return Comparison(column, Operator.EQUAL if len(values) == 1 else Operator.IN, values)


TREES: list[tuple[str, Predicate]] = [
    ("id = 1 OR id = 2", AnyOf((_equal("id", 1), _equal("id", 2)))),
    ("id = 1 OR s = 'a' OR flag", AnyOf((_equal("id", 1), _equal("s", "a"), _equal("flag", True)))),
    ("id = 1 AND (s = 'a' OR NOT flag)", AllOf((_equal("id", 1), AnyOf((_equal("s", "a"), _equal("flag", False)))))),
    ("NOT (flag <=> true)", Not(Comparison("flag", Operator.NULL_SAFE_EQUAL, (True,)))),
    ("NOT id = 1", Not(_equal("id", 1))),
    ("id <> 5", Not(_equal("id", 5))),
    ("id NOT IN (1, 2)", Not(_equal("id", 1, 2))),
    ("id IN (1, 2, NULL)", AnyOf((_equal("id", 1, 2), UNKNOWN))),
    ("id NOT IN (1, 2, NULL)", Not(AnyOf((_equal("id", 1, 2), UNKNOWN)))),
    ("id = NULL", UNKNOWN),
    ("id NOT BETWEEN 1 AND 2", Not(Comparison("id", Operator.BETWEEN, (1, 2)))),
    ("id = 1 AND rand() < 0.5", AllOf((_equal("id", 1), UNDECIDED))),
    ("id = 1 OR id = big", AnyOf((_equal("id", 1), UNDECIDED))),
    ("NOT (id = big)", UNDECIDED),
    ("pmod(big, 100) = 3", RemainderComparison(_equal("big", 3), 100, positive=True)),
    ("id % 7 < 3", RemainderComparison(Comparison("id", Operator.LESS, (3,)), 7, positive=False)),
    ("pmod(id, big) = 3 OR pmod(id, 0) = 1", AnyOf((UNDECIDED, UNDECIDED))),
    ("id IN (SELECT 1) AND id = 2", AllOf((UNDECIDED, _equal("id", 2)))),
    (" OR ".join(f"id = {number}" for number in range(100)), AnyOf(tuple(_equal("id", number) for number in range(100)))),
    (" OR ".join(f"id = {number}" for number in range(3000)), UNDECIDED),
    ("NOT " * 50 + "id = 1", UNDECIDED),
]  # fmt: skip


@pytest.mark.parametrize(("where", "expected"), TREES, ids=lambda value: str(value)[:40])
def test_predicates_of_whole_conditions(env: SparkEnvironment, where: str, expected: Predicate) -> None:
    columns = [
        Column(field.name, field.dataType.simpleString()) for field in SCHEMA if field.name != "odd name"
    ]
    table = TableDefinition(TableName("db", "t"), tuple(columns), ORC, "/t")
    for condition in (where, F.expr(where)):
        assert predicate_of(table, plan_of(condition_rows(env, table, condition))) == expected


@pytest.mark.parametrize(
    "where",
    [
        "id IN (1, -2, NULL, 1 + 4, 0)",
        "big IN (1, 3000000000, NULL, -9223372036854775808)",
        "s IN ('', 'a', ' b ', 'ü]', '[', 'NULL')",
        "s IN ('a,b', 'null', NULL, 'a')",
        "d IN (DATE'2026-01-31', '0001-01-01', NULL, DATE'9999-12-31')",
        "d IN (current_date(), DATE'2026-01-31')",
        "ts IN (TIMESTAMP'2026-01-31 00:00:00.000001', TIMESTAMP'1969-12-31 23:59:59')",
        "amount IN (1, -2.50, 3.25BD, NULL, 12345678.12)",
        "x IN (1, 2.5, double('NaN'), double('-Infinity'), 1e300, 0.1D)",
        "f IN (1.5F, 0.1F, float('NaN'))",
        "flag IN (true, false, NULL)",
        "id IN (id, 1)",
        "id IN (1, CAST('x' AS INT))",
    ],
)
def test_long_lists_are_read_at_once(
    env: SparkEnvironment, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    table = TableDefinition(
        TableName("db", "t"), tuple(Column(f.name, f.dataType.simpleString()) for f in SCHEMA[:-2]), ORC, "/t"
    )
    plan = plan_of(condition_rows(env, table, where))
    one_by_one = predicate_of(table, plan)
    monkeypatch.setattr(predicate_reader, "_FEW", 0)
    assert repr(predicate_of(table, plan)) == repr(one_by_one)


def test_a_list_of_a_thousand_values_takes_few_round_trips(
    env: SparkEnvironment, monkeypatch: pytest.MonkeyPatch
) -> None:
    conditions = {
        f"id IN ({', '.join(map(str, range(1000)))})": _equal("id", *range(1000)),
        f"s IN ({', '.join(map(repr, map(str, range(1000))))})": _equal("s", *map(str, range(1000))),
    }
    monkeypatch.setattr(predicate_reader, "constant_value", lambda tree: pytest.fail(f"{tree} is read alone"))
    table = TableDefinition(TableName("db", "t"), (Column("id", "int"), Column("s", "string")), ORC, "/t")
    for where, expected in conditions.items():
        assert predicate_of(table, plan_of(condition_rows(env, table, where))) == expected
