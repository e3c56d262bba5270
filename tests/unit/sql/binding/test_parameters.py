"""Parameters become literals in the text: outside strings, names and comments only."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import numpy as np
import pytest

from hiveacid.errors import StatementError, UnsupportedFeatureError
from hiveacid.sql.binding.parameters import has_parameters, literal, with_arguments
from hiveacid.sql.statements import Slice


def test_markers_are_those_outside_of_strings_names_and_comments() -> None:
    text = "SELECT ':a', `:a`, \":a\", x::INT -- :a ?\n FROM t /* :a */ WHERE y = :a AND z[1:a] = :ab"
    assert with_arguments(Slice(text), {"a": 1, "ab": "it's"}) == text.replace("= :a AND", "= 1 AND").replace(
        "[1:a]", "[1 1]"
    ).replace("= :ab", "= 'it\\'s'")
    assert with_arguments(Slice("a = ? AND b = '?'"), [None]) == "a = NULL AND b = '?'"
    assert has_parameters(Slice("SELECT :a"))
    assert not has_parameters(Slice("SELECT ':a', '?' -- ?"))


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "NULL"),
        (True, "TRUE"),
        (-5, "(-5)"),
        (2**40, "CAST('1099511627776' AS BIGINT)"),
        (0.1, "CAST('0.1' AS DOUBLE)"),
        (float("-inf"), "CAST('-inf' AS DOUBLE)"),
        (Decimal("-1.50"), "(-1.50BD)"),
        ("a\\b'c", "'a\\\\b\\'c'"),
        (b"\x00\xff", "X'00ff'"),
        (dt.date(2024, 2, 29), "DATE '2024-02-29'"),
        (dt.datetime(2024, 2, 29, 1, 2, 3), "TIMESTAMP '2024-02-29 01:02:03'"),  # noqa: DTZ001 - a wall clock
        (dt.datetime(2024, 2, 29, tzinfo=dt.UTC), "TIMESTAMP_LTZ '2024-02-29 00:00:00+00:00'"),
        ([1, "x"], "array(1, 'x')"),
        ({"k": 1}, "map('k', 1)"),
    ],
)
def test_literals(value: object, text: str) -> None:
    assert literal(value) == text


def test_texts_where_backslashes_are_no_escapes() -> None:
    assert literal("plain", escapes=False) == "'plain'"
    assert literal("it's", escapes=False) == "CAST(X'69742773' AS STRING)"
    assert with_arguments(Slice("?"), ["a\\b"], escapes=False) == "CAST(X'615c62' AS STRING)"


@pytest.mark.parametrize("value", [object(), 2**63, Decimal("NaN")])
def test_values_without_a_literal_are_refused(value: object) -> None:
    with pytest.raises(UnsupportedFeatureError, match="cannot be a parameter"):
        literal(value)


def test_what_is_missing_or_too_much_is_refused_with_its_place() -> None:
    with pytest.raises(StatementError, match=r":b \(line 2, column 7\)"):
        with_arguments(Slice("SELECT :a,\n      :b"), {"a": 1})
    with pytest.raises(StatementError, match="has 1 parameters"):
        with_arguments(Slice("SELECT ?"), [1, 2])


@pytest.mark.parametrize(
    ("text", "markers"),
    [
        ("CAST(x AS STRUCT<a:INT, `b` :INT, c : MAP<STRING, STRUCT<d:INT>>>) = :x", ["x"]),
        ("CAST(x AS STRUCT<a: ARRAY<INT>, to:INT, b :INT>) < :x AND y > :y", ["x", "y"]),
        ("parse_json(t):k AND v:k.l AND a[0]:k AND `v`:k = :x", ["x"]),
        ("SELECT:x WHERE:y AND struct < :z LIMIT:n", ["x", "y", "z", "n"]),
        ("f(:x, :y) IN (:z)", ["x", "y", "z"]),
    ],
)
def test_a_marker_begins_an_expression(text: str, markers: list[str]) -> None:
    filled = with_arguments(Slice(text), dict.fromkeys(markers, 1))
    expected = text
    for name in markers:
        expected = expected.replace(f"f(:{name}", "f(1").replace(f" :{name}", " 1").replace(f"(:{name}", "(1")
        expected = expected.replace(f":{name}", " 1")
    assert filled == expected
    assert has_parameters(Slice(text))
    assert not has_parameters(Slice("CREATE TABLE t (s STRUCT<a:INT>)"))


def test_numbers_of_numpy_are_those_of_python() -> None:
    assert literal(np.float64(2.5)) == "CAST('2.5' AS DOUBLE)"
