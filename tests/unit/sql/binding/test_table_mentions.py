from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.errors import ParseError
from hiveacid.spark.parser.relations import Relation
from hiveacid.sql.binding.table_mentions import find_table_mentions


@pytest.mark.parametrize(
    ("query", "written"),
    [
        ("SELECT 1", []),
        ("SELECT * FROM t", ["t"]),
        ("SELECT * FROM Db.T AS x, `a.b`.`c``d` y", ["Db.T", "`a.b`.`c``d`"]),
        (
            "SELECT 'from x', (SELECT max(id) FROM u) FROM t -- FROM v\nWHERE a IN (SELECT b FROM w)",
            ["u", "t", "w"],
        ),
        ("SELECT * FROM t WHERE EXISTS (SELECT 1 FROM u WHERE u.a = t.a) /* FROM v */", ["t", "u"]),
        (
            "SELECT * FROM a JOIN b USING (id) LEFT SEMI JOIN c ON a.x = c.x NATURAL JOIN d",
            ["a", "b", "c", "d"],
        ),
        ("SELECT * FROM a UNION ALL SELECT * FROM b EXCEPT SELECT * FROM a", ["a", "b", "a"]),
        ("(SELECT * FROM a) UNION (SELECT * FROM b)", ["a", "b"]),
        ("SELECT * FROM (a JOIN b) JOIN (SELECT * FROM c) d", ["a", "b", "c"]),
        ("FROM a SELECT x WHERE y", ["a"]),
        ("FROM (SELECT * FROM a) s SELECT x", ["a"]),
        ("TABLE d.t", ["d.t"]),
        ("VALUES (1), (2)", []),
        ("SELECT * FROM t LATERAL VIEW OUTER explode(xs) e AS y", ["t"]),
        ("SELECT * FROM t, LATERAL (SELECT * FROM u WHERE u.a = t.a)", ["t", "u"]),
        ("SELECT * FROM t TABLESAMPLE (10 PERCENT)", ["t"]),
        ("SELECT * FROM t PIVOT (sum(a) FOR b IN (1, 2))", ["t"]),
        ("SELECT * FROM range(10), VALUES (1) AS v(a), t", ["t"]),
        ("SELECT /*+ BROADCAST(t) */ * FROM t", ["t"]),
        ("SELECT extract(YEAR FROM d), trim(BOTH 'x' FROM s), a IS DISTINCT FROM b FROM t", ["t"]),
        (
            "SELECT filter(xs, x -> x > 1), m['k'], CASE WHEN a THEN b END FROM t DISTRIBUTE BY a SORT BY b",
            ["t"],
        ),
        ("SELECT * FROM 2024_t", ["2024_t"]),
        ("SELECT * FROM cat.d.t", ["cat.d.t"]),
        ("SELECT * FROM parquet.`/tmp/x`", ["parquet.`/tmp/x`"]),
        ("WITH q AS (SELECT * FROM t) SELECT * FROM q", ["t"]),
        ("WITH q AS (SELECT * FROM t), r AS (SELECT * FROM q) SELECT * FROM Q JOIN r JOIN u", ["t", "u"]),
        ("WITH t AS (SELECT * FROM t) SELECT * FROM t", ["t"]),
        ("WITH a AS (SELECT * FROM b), b AS (SELECT * FROM a) SELECT * FROM a, b", ["b"]),
        ("WITH RECURSIVE t AS (SELECT 1 UNION ALL SELECT * FROM t) SELECT * FROM t", []),
        ("WITH q AS (SELECT 1) SELECT * FROM d.q", ["d.q"]),
        ("SELECT * FROM (WITH q AS (SELECT 1) SELECT * FROM q), q", ["q"]),
        ("WITH q AS (SELECT 1) SELECT * FROM t WHERE a IN (SELECT * FROM q)", ["t"]),
    ],
)
def test_tables_and_where_they_stand(query: str, written: list[str]) -> None:
    found = find_table_mentions(query)
    assert [query[relation.start : relation.end] for relation in found] == written


def test_parts_and_aliases() -> None:
    assert find_table_mentions("SELECT * FROM Db.`T x` AS y JOIN u") == [
        Relation(("db", "t x"), 14, 22, has_alias=True, name="T x"),
        Relation(("u",), 33, 34, has_alias=False, name="u", alias_at=34),
    ]


def test_pieces_of_queries() -> None:
    text = "a + (SELECT max(b) FROM d.u)"
    (found,) = find_table_mentions(text, "SELECT ")
    assert text[found.start : found.end] == "d.u"
    text = "s JOIN u USING (a)"
    assert [text[each.start : each.end] for each in find_table_mentions(text, "SELECT * FROM ")] == ["s", "u"]


@pytest.mark.parametrize(
    ("query", "words"),
    [
        ("SELECT * FROM IDENTIFIER('t')", "IDENTIFIER"),
        ("SELECT * FROM f(TABLE(t)) JOIN TABLE(u)", "not"),
        ("DROP TABLE t", "a query"),
        ("SELECT * FROM t WHERE (", "'\\)'|cannot parse"),
        ("SELECT * FROM t FOR SYSTEM_VERSION AS OF 3", "cannot parse"),
        ("SELECT 'x", "no end"),
        ("TABLE t u", "the end"),
    ],
)
def test_what_is_not_understood_is_refused(query: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        find_table_mentions(query)


def test_errors_have_their_place() -> None:
    with pytest.raises(ParseError) as caught:
        find_table_mentions("a +\n FROM b b b", "SELECT ")
    assert caught.value.line == 2
    with pytest.raises(ParseError) as caught:
        find_table_mentions("a b c", "SELECT ")
    assert caught.value.line == 1
    assert caught.value.column in range(1, 7)


names = st.sampled_from(["t", "d.t", "`a b`", "q"])


@st.composite
def queries(draw: st.DrawFn, depth: int = 3) -> tuple[str, list[str]]:
    """Return a query and the tables in it, in order."""
    tables = draw(st.lists(names, min_size=1, max_size=3))
    text = "SELECT a, 'FROM z' FROM " + draw(st.sampled_from([" JOIN ", ", ", " CROSS JOIN "])).join(tables)
    found = list(tables)
    if depth and draw(st.booleans()):
        inner, more = draw(queries(depth - 1))
        text += f" WHERE x IN ({inner})"
        found += more
    if depth and draw(st.booleans()):
        inner, more = draw(queries(depth - 1))
        text += f" UNION ALL {inner}"
        found += more
    if depth and draw(st.booleans()):
        inner, more = draw(queries(depth - 1))
        text = f"WITH q1 AS ({inner}) {text}"
        found = more + found
    return text, found


@given(queries())
def test_every_table_is_found(built: tuple[str, list[str]]) -> None:
    text, tables = built
    assert [text[each.start : each.end] for each in find_table_mentions(text)] == tables


@given(st.text(max_size=40) | st.text("SELECT FROMt,()'`-*", max_size=60).map(lambda text: f"SELECT {text}"))
def test_any_text_is_answered_or_refused(text: str) -> None:
    try:
        found = find_table_mentions(text)
    except ParseError:
        return
    assert all(text[each.start : each.end] for each in found)


def test_without_sqlglot_the_error_names_the_extra() -> None:
    """All but this module works without it: the session's module is imported first."""
    code = (
        "import sys; sys.modules['sqlglot'] = None\n"
        "import hiveacid.sql.session, hiveacid.sql.native.session, hiveacid.cli.migrate\n"
        "from hiveacid.sql.binding.table_binder import relations_of\n"
        "from hiveacid.sql.statements.values import Slice\n"
        "from hiveacid.errors import ConfigError\n"
        "from types import SimpleNamespace\n"
        "try:\n"
        "    relations_of(SimpleNamespace(classic=False), Slice('SELECT 1'), '')\n"
        "except ConfigError as error:\n"
        "    print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert "pip install 'hiveacid[connect]'" in done.stdout
