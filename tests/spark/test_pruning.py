"""Partitions are left out exactly where Spark's own filter would find nothing in them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hiveacid.core.model import (
    DEFAULT_PARTITION,
    Column,
    Partition,
    StorageFormat,
    TableDefinition,
    TableName,
)
from hiveacid.errors import NoSuchColumnError
from hiveacid.spark.predicates import column_conditions as pruning
from hiveacid.spark.predicates.column_conditions import table_conjuncts
from hiveacid.spark.session.environment import SparkEnvironment
from support.exhaustive import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STORAGE = StorageFormat("orc", "orc", "orc")


@pytest.fixture(scope="module")
def env(spark: SparkSession) -> SparkEnvironment:
    return SparkEnvironment(spark)


def table(*columns: tuple[str, str]) -> TableDefinition:
    return TableDefinition(
        TableName("db", "tab"),
        (Column("id", "int"), Column("name", "string")),
        STORAGE,
        "/nowhere",
        partition_columns=tuple(Column(*c) for c in columns),
        properties=(("transactional", "true"),),
    )


def parts(*values: str | tuple[str | None, ...] | None) -> list[Partition]:
    return [Partition(v if isinstance(v, tuple) else (v,), f"/nowhere/{i}") for i, v in enumerate(values)]


def prune_partitions(
    env: SparkEnvironment,
    table: TableDefinition,
    partitions: Sequence[Partition],
    where: str,
    alias: str | None = None,
) -> tuple[Partition, ...]:
    conditions = table_conjuncts(env, table, where, alias=alias)
    return pruning.prune_partitions(env, table, partitions, conditions, alias=alias)


def kept(
    env: SparkEnvironment, kinds: Sequence[str], values: Sequence[str | None], where: str
) -> list[str | None]:
    """Return the values of the partitions that stay; the only partition column is called p."""
    return [v.values[0] for v in prune_partitions(env, table(("p", kinds[0])), parts(*values), where)]


NUMBERS = ["-1", "0", "5", "12", None, DEFAULT_PARTITION]
DATES = ["2019-12-31", "2020-01-01", "2020-02-29", "1500-01-01", DEFAULT_PARTITION]
TEXTS = ["a", "a ", "B", "é", "\uffee", "😀", DEFAULT_PARTITION, "5"]


@pytest.mark.parametrize(
    ("kind", "values", "where", "expected"),
    [
        ("int", NUMBERS, "p = 5", ["5"]),
        ("int", NUMBERS, "p <> 5", ["-1", "0", "12"]),
        ("int", NUMBERS, "p >= 0 AND p < 12", ["0", "5"]),
        ("int", NUMBERS, "p IN (5, -1, NULL)", ["-1", "5"]),
        ("int", NUMBERS, "p IS NULL", [None, DEFAULT_PARTITION]),
        ("int", NUMBERS, "p <=> NULL", [None, DEFAULT_PARTITION]),
        ("int", NUMBERS, "p IS NOT NULL AND p <> 0", ["-1", "5", "12"]),
        ("int", NUMBERS, "p = '12'", ["12"]),
        ("int", NUMBERS, "p > 4.5 AND p < 5.5", ["5"]),
        ("int", NUMBERS, "p % 2 = 0", ["0", "12"]),
        ("int", NUMBERS, "p = 5 OR p IS NULL", ["5", None, DEFAULT_PARTITION]),
        ("int", NUMBERS, "tab.p = 12 AND tab.id = 3", ["12"]),
        ("int", NUMBERS, "p = 12 AND rand() < 2 AND id IN (SELECT 1)", ["12"]),
        ("int", NUMBERS, "p = 12 OR id = 3", NUMBERS),
        ("int", NUMBERS, "id = 3", NUMBERS),
        ("int", NUMBERS, "p = id", NUMBERS),
        ("int", NUMBERS, "p = NULL", []),
        ("int", NUMBERS, "1 = 0", NUMBERS),
        ("int", ["05", "5", "007"], "p = 5", ["05", "5"]),
        ("bigint", ["5", "9223372036854775807"], "p > 9223372036854775806", ["9223372036854775807"]),
        ("tinyint", ["5", "100"], "p < 1000", ["5", "100"]),
        ("date", DATES, "p = '2020-01-01'", ["2020-01-01"]),
        ("date", DATES, "p >= date'2020-01-01'", ["2020-01-01", "2020-02-29"]),
        ("date", DATES, "p BETWEEN '2019-01-01' AND '2019-12-31'", ["2019-12-31"]),
        ("date", DATES, "year(p) = 2020", ["2020-01-01", "2020-02-29"]),
        ("date", DATES, "p < current_date()", DATES),
        ("date", ["2020-1-1", "2020-01-02"], "p = '2020-01-01'", ["2020-1-1"]),
        ("string", TEXTS, "p = 'a'", ["a"]),
        ("string", TEXTS, "p >= 'é'", ["é", "\uffee", "😀"]),
        ("string", TEXTS, "p > '\uffee'", ["😀"]),
        ("string", TEXTS, "p < 'a'", ["B", "5"]),
        ("string", TEXTS, "upper(p) = 'B'", ["B"]),
        ("string", TEXTS, "p LIKE 'a%'", ["a", "a "]),
        ("string", TEXTS, "p BETWEEN 'B' AND 'a'", ["a", "B"]),
        ("char(3)", ["a", "ab"], "p = 'a  '", ["a"]),
        ("char(3)", ["a", "ab"], "p = 'a'", ["a"]),
        ("varchar(3)", ["a", "ab"], "p = 'ab'", ["ab"]),
        ("decimal(5,2)", ["1.50", "2"], "p = 1.5", ["1.50"]),
        ("double", ["1.5", "NaN", "-0.0"], "p > 1.5", ["NaN"]),
        ("double", ["1.5", "NaN", "-0.0"], "p = 0", ["-0.0"]),
        ("boolean", ["true", "false"], "p", ["true"]),
        ("boolean", ["true", "false", DEFAULT_PARTITION], "NOT p", ["false"]),
        (
            "timestamp",
            ["2020-01-01 00:00:00", "2020-01-01 00:00:00.5"],
            "p > '2020-01-01'",
            ["2020-01-01 00:00:00.5"],
        ),
    ],
)
def test_partitions_that_match_stay(
    env: SparkEnvironment, kind: str, values: list[str | None], where: str, expected: list[str | None]
) -> None:
    nulls = {DEFAULT_PARTITION: None}  # the name of the default partition is NULL
    assert kept(env, [kind], values, where) == [nulls.get(text or "", text) for text in expected]


def test_several_columns(env: SparkEnvironment) -> None:
    definition = table(("dt", "date"), ("region", "string"))
    all_parts = parts(("2020-01-01", "eu"), ("2020-01-02", "eu"), ("2020-01-01", "us"), (None, "us"))
    pruned = prune_partitions(env, definition, all_parts, "dt = '2020-01-01' AND region <> 'us' AND id > 3")
    assert pruned == (all_parts[0],)
    pruned = prune_partitions(env, definition, all_parts, "dt = '2020-01-01' OR region = 'us'")
    assert pruned == (all_parts[0], all_parts[2], all_parts[3])
    pruned = prune_partitions(env, definition, all_parts, "region IN ('eu') AND DT IS NOT NULL")
    assert pruned == (all_parts[0], all_parts[1])


def test_all_stay_where_spark_fails_on_a_value(env: SparkEnvironment) -> None:
    values = ["0", "5"]
    assert kept(env, ["int"], values, "p <> 0 AND 10 / p > 1") == ["5"]
    assert kept(env, ["int"], values, "raise_error(string(p)) IS NULL") == values


@pytest.mark.parametrize(("ansi", "expected"), [("false", ["5.0"]), ("true", [])])
def test_texts_have_the_values_that_a_scan_of_the_session_returns(
    env: SparkEnvironment, ansi: str, expected: list[str]
) -> None:
    before = env.spark.conf.get("spark.sql.ansi.enabled")
    env.spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        assert kept(env, ["int"], ["5.0", "6", "x"], "p = 5") == expected
    finally:
        env.spark.conf.set("spark.sql.ansi.enabled", before)


def test_unknown_columns_are_refused(env: SparkEnvironment) -> None:
    with pytest.raises(NoSuchColumnError, match="column q does not exist"):
        prune_partitions(env, table(("p", "int")), parts("1"), "q = 1")


def test_other_alias(env: SparkEnvironment) -> None:
    all_parts = parts("1", "2")
    definition = table(("p", "int"))
    assert prune_partitions(env, definition, all_parts, "x.p = 2", alias="x") == (all_parts[1],)
    with pytest.raises(NoSuchColumnError):
        prune_partitions(env, definition, all_parts, "tab.p = 2", alias="x")


def test_no_partitions(env: SparkEnvironment) -> None:
    assert prune_partitions(env, table(("p", "int")), [], "p = 1") == ()


_TEXTS = {
    "int": st.integers(-200, 200).map(str) | st.sampled_from(["2147483647", "-2147483648"]),
    "date": st.dates().map(lambda d: d.isoformat()),
    "string": st.text("aBz é\uffee😀'0", max_size=3).filter(bool),
}


@st.composite
def cases(draw: st.DrawFn) -> tuple[str, list[str | None], str]:
    kind = draw(st.sampled_from(sorted(_TEXTS)))
    values = draw(st.lists(st.none() | _TEXTS[kind], min_size=1, max_size=8))
    literal = (
        (st.sampled_from(values) | _TEXTS[kind])
        .filter(lambda v: v is not None)
        .map(lambda v: _quoted(kind, v))
    )
    match draw(st.integers(0, 3)):
        case 0:
            where = f"p {draw(st.sampled_from(['=', '<=>', '<', '<=', '>', '>=']))} {draw(literal)}"
        case 1:
            where = f"p IN ({', '.join(draw(st.lists(literal, min_size=1, max_size=4)))})"
        case 2:
            where = f"p BETWEEN {draw(literal)} AND {draw(literal)}"
        case _:
            where = draw(st.sampled_from(["p IS NULL", "p IS NOT NULL"]))
    return kind, values, where


def _quoted(kind: str, value: str | None) -> str:
    text = str(value)
    return (
        text if kind == "int" else ("date" if kind == "date" else "") + "'" + text.replace("'", "\\'") + "'"
    )


@settings(max_examples=examples(15), suppress_health_check=list(HealthCheck))
@given(st.lists(cases(), min_size=1, max_size=4))
def test_python_answers_as_spark_does(
    env: SparkEnvironment, made: list[tuple[str, list[str | None], str]]
) -> None:
    for kind, values, where in made:
        definition, all_parts = table(("p", kind)), parts(*values)
        known = table_conjuncts(env, definition, where)
        by_python = pruning._prune_in_python(definition, all_parts, known)
        assert by_python is not None
        assert by_python == pruning._prune_in_spark(env, definition, all_parts, known, "tab")


def test_ten_thousand_partitions_take_no_time(env: SparkEnvironment) -> None:
    definition = table(("dt", "date"), ("region", "string"))
    dates = [f"20{y:02}-{m:02}-{d:02}" for y in range(30) for m in range(1, 13) for d in range(1, 29)]
    all_parts = parts(*[(date, "eu") for date in dates[:10_000]])
    for where, expected in (("dt = '2020-05-05'", 1), ("month(dt) = 5 AND region LIKE 'e%'", 835)):
        prune_partitions(env, definition, all_parts[:10], where)
        begun = time.perf_counter()
        found = prune_partitions(env, definition, all_parts, where)
        taken = time.perf_counter() - begun
        assert len(found) == pytest.approx(expected, abs=10)
        assert taken < 60, f"{where}: {taken:.1f} s"  # for a machine under load
