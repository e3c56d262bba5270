"""Bounds of grouping sets, and of copies of common table expressions."""

from __future__ import annotations

import pytest

from hiveacid.errors import StatementTooLargeError
from hiveacid.spark.parser.lexer import tokenize


def columns(number: int) -> str:
    return ", ".join(f"c{at}" for at in range(number))


def chain(levels: int, names: str = "", second: str = ", a{} AS b") -> str:
    """Return a query whose common table expressions double the one before."""
    more = (f"a{at + 1} {names} AS (SELECT a.x FROM a{at} AS a{second.format(at)})" for at in range(levels))
    parts = ", ".join([f"a0 {names} AS (SELECT 1 x)", *more])
    return f"WITH {parts} SELECT count(*) FROM a{levels}"


@pytest.mark.parametrize(
    "text",
    [
        f"SELECT 1 FROM t GROUP BY CUBE({columns(12)})",
        f"SELECT {columns(500)} FROM t GROUP BY {columns(500)} WITH ROLLUP",
        f"SELECT 1 FROM t GROUP BY CUBE({columns(7)}) UNION ALL SELECT 2 FROM t GROUP BY ROLLUP({columns(70)})",
        f"SELECT 1 FROM t GROUP BY GROUPING SETS (ROLLUP({columns(70)}), CUBE({columns(11)}), (a, b, c))",
        f"SELECT 1 FROM t GROUP BY CUBE({', '.join(f'(c{at}, d{at}, e{at})' for at in range(11))})",
        f"WITH cube AS (SELECT 1) SELECT {columns(300)} FROM cube",
        chain(11),
        # a name before a dot is no reference
        "WITH a0 AS (SELECT 1 AS a)"
        + "".join(f", a{at + 1} AS (SELECT a{at}.a, a{at}.a AS b FROM a{at})" for at in range(40))
        + " SELECT * FROM a40",
    ],
)
def test_statements_of_use_are_accepted(text: str) -> None:
    assert tokenize(text)


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (f"SELECT 1 FROM t GROUP BY CUBE({columns(13)})", "grouping sets"),
        (f"SELECT 1 FROM t GROUP BY CUBE({columns(4000)})", "grouping sets"),
        (f"SELECT 1 FROM t GROUP BY {columns(13)} WITH CUBE", "grouping sets"),
        (f"select 1 from t group by grouping sets ((a), b, cube({columns(13)}))", "grouping sets"),
        (f"SELECT 1 FROM t GROUP BY CUBE({columns(7)}), ROLLUP({columns(70)})", "grouping sets"),
        (
            " UNION ALL ".join([f"SELECT 1 FROM t GROUP BY CUBE({columns(12)})"] * 2),
            "grouping sets",
        ),
        (f"BEGIN SELECT 1 FROM t GROUP BY CUBE({columns(13)}); END", "grouping sets"),
        (chain(12), "copied"),
        (chain(12, "(x)", " JOIN (TABLE `A{}`) AS b"), "copied"),
        (f"INSERT INTO t {chain(30)}", "copied"),
    ],
)
def test_statements_that_would_fill_sparks_memory_are_refused(text: str, what: str) -> None:
    with pytest.raises(StatementTooLargeError, match=what):
        tokenize(text)
