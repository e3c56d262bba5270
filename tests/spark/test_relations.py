"""Spark's own parser says which tables a query names, and where."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hiveacid.core.schema.types import quote_name
from hiveacid.errors import ParseError, UnsupportedFeatureError
from hiveacid.spark.parser.relations import Relation, parsed_expression, parsed_query, read_query
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import substitute_variables
from support.exhaustive import examples

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def env(spark: SparkSession) -> SparkEnvironment:
    return SparkEnvironment(spark)


def find_relations(env: SparkEnvironment, text: str) -> list[Relation]:
    with translate_errors():
        return list(read_query(env, text, parsed_query(env, text)).relations)


def find_relations_in_expression(env: SparkEnvironment, text: str) -> list[Relation]:
    with translate_errors():
        return list(read_query(env, text, parsed_expression(env, text)).relations)


def named(env: SparkEnvironment, text: str) -> list[str]:
    """Return the tables as the text spells them: what stands at their places."""
    return [text[relation.start : relation.end] for relation in find_relations(env, text)]


def rewrite(text: str, replacements: Mapping[Relation, str]) -> str:
    """Return a text with other names in the places of tables."""
    for one in sorted(replacements, key=lambda one: -one.start):
        end = one.end if one.travel is None else one.travel.end
        text = text[: one.start] + quote_name(replacements[one]) + text[end:]
    return text


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("SELECT * FROM db.t", ["db.t"]),
        ("TABLE db.t", ["db.t"]),
        ("FROM db.t SELECT a", ["db.t"]),
        ("SELECT 1", []),
        ("VALUES (1), (2)", []),
        ("SELECT 'FROM x' -- FROM y\n/* FROM z */ FROM t", ["t"]),
        ("SELECT * FROM `d``b`.`a.b`, cat . db /* x */ . t", ["`d``b`.`a.b`", "cat . db /* x */ . t"]),
        ("SELECT '🙂é' FROM `t🙂` JOIN db.u ON '😀' = u.a", ["`t🙂`", "db.u"]),
        (
            "SELECT * FROM a JOIN b USING (id), c LEFT ANTI JOIN d ON true CROSS JOIN e",
            ["a", "b", "c", "d", "e"],
        ),
        ("SELECT * FROM a UNION (SELECT * FROM b INTERSECT TABLE c) EXCEPT SELECT * FROM d", list("abcd")),
        ("SELECT * FROM ((a)) JOIN (b JOIN c) JOIN (SELECT * FROM d) x", list("abcd")),
        (
            "SELECT (SELECT max(x) FROM a) FROM b WHERE x IN (SELECT y FROM c) OR EXISTS (TABLE d)",
            list("abcd"),
        ),
        (
            """SELECT sum(x) OVER (ORDER BY (SELECT 1 FROM a)) FROM b GROUP BY (SELECT 2 FROM c)
            HAVING max(x) > (SELECT 3 FROM d) ORDER BY (SELECT 4 FROM e)""",
            list("abcde"),
        ),
        ("SELECT CASE WHEN x IN (SELECT y FROM a) THEN 1 END FROM b", ["a", "b"]),
        ("SELECT * FROM a, LATERAL (SELECT * FROM b WHERE b.x = a.x)", ["a", "b"]),
        ("SELECT * FROM a LATERAL VIEW explode(xs) e AS x", ["a"]),
        ("SELECT * FROM a PIVOT (sum(x) FOR y IN (1, 2))", ["a"]),
        ("SELECT * FROM a UNPIVOT (v FOR k IN (x, y))", ["a"]),
        ("SELECT * FROM range(3), explode(array(1)), a", ["a"]),
        ("SELECT * FROM f(TABLE(a)), g(TABLE(SELECT * FROM b))", ["a", "b"]),
        ("SELECT /*+ BROADCAST(b) */ * FROM a", ["a"]),
        ("SELECT * FROM parquet.`/x/y`", ["parquet.`/x/y`"]),
        ("EXPLAIN SELECT * FROM a WHERE x IN (SELECT y FROM b)", ["a", "b"]),
        ("DESCRIBE QUERY SELECT * FROM a", ["a"]),
        ("CREATE TEMPORARY VIEW v AS SELECT * FROM a", ["a"]),
        ("CACHE TABLE v AS SELECT * FROM a", ["a"]),
        ("INSERT INTO target SELECT * FROM a", ["a"]),
    ],
)
def test_every_table_is_found_at_its_place(env: SparkEnvironment, query: str, tables: list[str]) -> None:
    assert named(env, query) == tables


@pytest.mark.parametrize(
    ("query", "tables"),
    [
        ("WITH q AS (SELECT * FROM a) SELECT * FROM q, Q, b", ["a", "b"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a, b, c", ["b", "c"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH q AS (SELECT 1 x) SELECT * FROM db.q", ["db.q"]),
        ("WITH q AS (SELECT 1 x) SELECT * FROM a WHERE x IN (SELECT x FROM q)", ["a"]),
        ("WITH q AS (SELECT 1 x) SELECT (WITH r AS (SELECT * FROM q) SELECT max(x) FROM r, s)", ["s"]),
        ("SELECT * FROM (WITH q AS (SELECT 1 x) SELECT * FROM q) JOIN q", ["q"]),
        (
            "WITH q AS (SELECT 1 x) SELECT * FROM (WITH q AS (SELECT * FROM q), r AS (TABLE a) TABLE q), r",
            ["a", "r"],
        ),
    ],
)
def test_names_of_ctes_are_not_tables(env: SparkEnvironment, query: str, tables: list[str]) -> None:
    assert named(env, query) == tables


def test_recursive_cte_sees_itself(env: SparkEnvironment) -> None:
    query = "WITH RECURSIVE r AS (SELECT 1 x UNION ALL SELECT x + 1 FROM r WHERE x < 3) SELECT * FROM r, a"
    if env.version < (4, 0):
        with pytest.raises(ParseError):
            find_relations(env, query)
    else:
        assert named(env, query) == ["a"]


def test_parts_and_aliases(env: SparkEnvironment) -> None:
    query = "SELECT * FROM Db.`T x` AS a, u b (c, d), (v) w, X.y.z"
    found = find_relations(env, query)
    assert [(r.parts, r.name, r.alias is not None) for r in found] == [
        (("db", "t x"), "T x", True),
        (("u",), "u", False),  # the names of its columns stand between
        (("v",), "v", True),
        (("x", "y", "z"), "z", False),
    ]


def test_time_travel_stands_on_the_relation(env: SparkEnvironment) -> None:
    query = (
        "SELECT * FROM a VERSION AS OF 3, b FOR TIMESTAMP AS OF (now() - interval 1 day) AS x, "
        "c SYSTEM_VERSION /* of */ AS OF 'v' TABLESAMPLE (1 ROWS)"
    )
    first, second, third = find_relations(env, query)
    assert first.travel is not None
    assert second.travel is not None
    assert third.travel is not None
    assert (first.travel.kind, first.travel.value) == ("VERSION", "3")
    assert (second.travel.kind, second.travel.value) == ("TIMESTAMP", "(now() - interval 1 day)")
    assert third.travel.value == "v"
    assert query[first.travel.start : first.travel.end] == "VERSION AS OF 3"
    assert query[second.travel.start : second.travel.end].startswith("FOR TIMESTAMP")
    changed = rewrite(query, {first: "v1", second: "v2", third: "v3"})
    assert changed == "SELECT * FROM `v1`, `v2` AS x, `v3` TABLESAMPLE (1 ROWS)"


@pytest.mark.parametrize("parameter", [":x", ":xy", ":a_long_one"])
def test_time_travel_beside_parameters(env: SparkEnvironment, parameter: str) -> None:
    """Spark's offsets are those of the text with the values: the point must not be cut out of the other text."""
    for clause, point in (("VERSION AS OF 12", "12"), ("TIMESTAMP AS OF 1234567", "1234567")):
        written, filled = (f"SELECT {value} AS c FROM t {clause}" for value in (parameter, "10"))
        (relation,) = read_query(env, written, parsed_query(env, filled)).relations
        assert relation.travel is not None
        assert relation.travel.value == point


def test_only_some_relations_may_be_replaced(env: SparkEnvironment) -> None:
    query = "SELECT * FROM a JOIN db.b JOIN c"
    relation = find_relations(env, query)[1]
    assert rewrite(query, {relation: "view"}) == "SELECT * FROM a JOIN `view` JOIN c"
    assert rewrite(query, {}) == query


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("SELECT * FROM table_changes('t', 1)", ["table_changes"]),
        (
            "SELECT * FROM Table_Changes(table => 't', start => 1), hiveacid_changes('t', 1) h(a)",
            ["Table_Changes", "hiveacid_changes"],
        ),
        ("WITH table_changes(a, b) AS (SELECT 1, 2) SELECT * FROM table_changes", []),
        ("SELECT i FROM hiveacid_changes", []),
        ("SELECT * FROM range(3) WHERE id IN (SELECT id FROM db.f(1))", ["range", "db.f"]),
    ],
)
def test_calls_are_told_from_names(env: SparkEnvironment, text: str, calls: list[str]) -> None:
    found = read_query(env, text, parsed_query(env, text)).calls
    assert [call.name for call in sorted(found, key=lambda call: call.start)] == calls
    assert all(text[call.start :].startswith(call.name) for call in found)


def test_arguments_have_their_names(env: SparkEnvironment) -> None:
    text = "SELECT * FROM f('t', key => 'a', KEY => array('b'), n => NULL)"
    (call,) = read_query(env, text, parsed_query(env, text)).calls
    assert [(name, argument.nodeName()) for name, argument in call.arguments] == [
        ("", "Literal"),
        ("key", "Literal"),
        ("KEY", "UnresolvedFunction"),
        ("n", "Literal"),
    ]


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("a + 1", []),
        ("'FROM t'", []),
        ("(SELECT max(id) FROM db.u) + 1 -- FROM c", ["db.u"]),
        ("id IN (SELECT id FROM db.u x)\n AND EXISTS (TABLE w)", ["db.u", "w"]),
        ("(WITH q AS (SELECT * FROM w) SELECT max(a) FROM q)", ["w"]),
        ("CASE WHEN '😀' = (SELECT a FROM `t😀`) THEN 1 END", ["`t😀`"]),
    ],
)
def test_tables_of_an_expression(env: SparkEnvironment, text: str, tables: list[str]) -> None:
    found = find_relations_in_expression(env, text)
    assert [text[r.start : r.end] for r in found] == tables
    changed = rewrite(text, dict.fromkeys(found, "v"))
    assert all(table not in changed.replace(f"`{table}`", "") for table in tables if "." in table)


def test_errors_have_a_place(env: SparkEnvironment, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ParseError) as raised:
        find_relations(env, "SELECT *\n FROM a b c d")
    assert (raised.value.line, raised.value.column) == (2, 11)
    assert str(raised.value) == "Syntax error at or near 'c' (line 2, column 11)"
    with pytest.raises(ParseError) as raised:
        find_relations_in_expression(env, "a +")
    assert (raised.value.line, raised.value.column) == (1, 4)
    assert "SQLQueryContextLogger" not in capfd.readouterr().err


@pytest.mark.parametrize("text", ["a, b", "a) FROM t WHERE (b", "", "SELECT 1"])
def test_what_is_no_expression_is_refused(env: SparkEnvironment, text: str) -> None:
    with pytest.raises(ParseError):
        find_relations_in_expression(env, text)


def test_names_known_only_at_run_time_are_refused(env: SparkEnvironment) -> None:
    with pytest.raises(UnsupportedFeatureError, match="computed when the statement runs"):
        find_relations(env, "SELECT * FROM IDENTIFIER(concat('db', '.t'))")


def test_variables_come_first(env: SparkEnvironment) -> None:
    env.spark.conf.set("hiveacid.test.table", "db.t")
    query = "SELECT * FROM ${hiveacid.test.table} AS x"
    with pytest.raises(UnsupportedFeatureError, match="variables"):
        find_relations(env, query)
    assert named(env, substitute_variables(env, query)) == ["db.t"]
    assert named(env, "SELECT '$', '{}' FROM a") == ["a"]


def test_long_unions_do_not_exhaust_the_stack(env: SparkEnvironment) -> None:
    query = " UNION ALL ".join(f"SELECT * FROM t{place}" for place in range(300))
    assert named(env, query) == [f"t{place}" for place in range(300)]


# Random queries, built together with the tables they name.

_NAMES = st.sampled_from(["t", "db.t", "`a b`", "u", "cat.db.w", "`t😀`"])


@st.composite
def queries(draw: st.DrawFn, depth: int = 2) -> tuple[str, list[str]]:
    sources: list[str] = []
    tables: list[str] = []
    for _ in range(draw(st.integers(1, 2))):
        if depth and draw(st.booleans()):
            text, inner = draw(queries(depth - 1))
            sources.append(f"({text}) s{len(sources)}")
            tables += inner
        else:
            name = draw(_NAMES)
            sources.append(name + draw(st.sampled_from(["", " x", " AS y", " TABLESAMPLE (3 ROWS)"])))
            tables.append(name)
    text = f"SELECT '{draw(st.sampled_from(['', 'FROM t', '😀']))}' FROM {', '.join(sources)}"
    if depth and draw(st.booleans()):
        inner_text, inner = draw(queries(depth - 1))
        text += f" WHERE a IN ({inner_text})"
        tables += inner
    if draw(st.booleans()):
        text = f"WITH cte AS (SELECT 1) {text} -- FROM t\n"
        text = f"{text} UNION TABLE cte"
    return text, tables


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(queries())
def test_random_queries(env: SparkEnvironment, made: tuple[str, list[str]]) -> None:
    text, tables = made
    found = find_relations(env, text)
    assert [text[r.start : r.end] for r in found] == tables
    changed = rewrite(text, dict.fromkeys(found, "view"))
    again = find_relations(env, changed)
    assert [(r.parts, r.alias is not None) for r in again] == [
        (("view",), r.alias is not None) for r in found
    ]


def test_relation_is_a_value() -> None:
    assert Relation(("t",), 0, 1, "t") == Relation(("t",), 0, 1, "t")
    assert len({Relation(("t",), 0, 1, "t"), Relation(("t",), 5, 6, "t")}) == 2
