"""What a text says about the past of tables: clauses of time travel, calls for changes."""

from __future__ import annotations

import pytest

from hiveacid.errors import StatementError
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.sql.binding.change_feed_calls import find_change_calls, tables_of_change_calls
from hiveacid.sql.binding.table_binder import _qualifiers
from hiveacid.sql.binding.table_mentions import cut_time_travel_clauses, find_mentions_and_travel
from hiveacid.sql.statements.values import Slice


@pytest.mark.parametrize(
    ("text", "kind", "value"),
    [
        ("SELECT * FROM t VERSION AS OF 3", "VERSION", "3"),
        ("SELECT * FROM t FOR SYSTEM_VERSION AS OF '3' x", "VERSION", "'3'"),
        ("SELECT * FROM t TIMESTAMP AS OF '2026-01-01' WHERE a = 1", "TIMESTAMP", "'2026-01-01'"),
        ("SELECT * FROM t FOR SYSTEM_TIME AS OF timestamp '2026-01-01' AS x", "TIMESTAMP", "timestamp '2026-01-01'"),
        ("SELECT * FROM t FOR TIMESTAMP AS OF current_timestamp() - interval 1 day 2 hours AS x JOIN u",
         "TIMESTAMP", "current_timestamp() - interval 1 day 2 hours"),
        ("SELECT * FROM t TIMESTAMP AS OF current_timestamp - interval '1 02' DAY TO HOUR x",
         "TIMESTAMP", "current_timestamp - interval '1 02' DAY TO HOUR"),
        ("SELECT * FROM t TIMESTAMP AS OF (now() - INTERVAL '1' DAY), u",
         "TIMESTAMP", "(now() - INTERVAL '1' DAY)"),
        ("SELECT * FROM t TIMESTAMP AS OF '2026-01-01'::timestamp", "TIMESTAMP", "'2026-01-01'::timestamp"),
    ],
)  # fmt: skip
def test_clauses_of_time_travel(text: str, kind: str, value: str) -> None:
    """Their places are those in the text, and what is left has its places, too."""
    plain, (found,) = cut_time_travel_clauses(Slice(text))
    assert (found.kind, found.value) == (kind, value)
    assert text[found.start : found.end].endswith(value)
    assert plain == text[: found.start] + " " * (found.end - found.start) + text[found.end :]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT version AS of FROM t",
        "SELECT version AS of UNION SELECT id FROM t",
        "SELECT timestamp AS of, 1",
    ],
)
def test_a_column_that_is_called_of_is_no_clause(text: str) -> None:
    assert cut_time_travel_clauses(Slice(text)) == (text, [])


def test_an_interval_that_is_not_whole_is_left_to_the_parser() -> None:
    plain, (found,) = cut_time_travel_clauses(
        Slice("SELECT * FROM t TIMESTAMP AS OF now() - INTERVAL '1' DAY TO")
    )
    assert found.value == "now() - INTERVAL '1' DAY"
    assert plain.endswith(" TO")


def test_clauses_go_to_their_tables_without_sparks_parser() -> None:
    """As on Spark Connect; an alias goes behind the clause."""
    text = "WITH c AS (SELECT * FROM db.a VERSION AS OF 2) SELECT * FROM c JOIN b TIMESTAMP AS OF '2026-01-01' x, `a` d"
    first, second, third = find_mentions_and_travel(Slice(text), "")
    assert [one.parts for one in (first, second, third)] == [("db", "a"), ("b",), ("a",)]
    assert first.travel is not None
    assert (first.travel.value, first.alias_at) == ("2", first.travel.end)
    assert second.travel is not None
    assert (second.travel.kind, second.alias_at, third.travel) == ("TIMESTAMP", None, None)


def test_calls_for_changes() -> None:
    """With arguments by place and by name; neither columns nor CTEs of that name are calls."""
    text = "SELECT * FROM table_changes('db.t', 1, now() - interval (1) day) c, hiveacid_changes(until => 3, table => 'a', after => NULL, key => array('x', 'y'))"
    one, other = find_change_calls(Slice(text))
    assert text[one.start : one.end] == "table_changes('db.t', 1, now() - interval (1) day)"
    assert {name: part.text for name, part in one.arguments.items()} == {
        "table": "'db.t'",
        "start": "1",
        "end": "now() - interval (1) day",
    }
    assert ([part.text for part in other.key], other.arguments["after"].text) == (["array('x', 'y')"], "NULL")
    assert text[other.arguments["until"].start] == "3"
    (keys,) = find_change_calls(Slice("SELECT * FROM hiveacid_changes('t', 0, NULL, 'a', 'b')"))
    assert [part.text for part in keys.key] == ["'a'", "'b'"]
    assert list(tables_of_change_calls(Slice(text))) == ["db.t", None]
    assert list(tables_of_change_calls(Slice("SELECT * FROM table_changes('it\\'s odd', 1)"))) == ["it's odd"]
    assert list(tables_of_change_calls(Slice("SELECT * FROM table_changes(:t, 1)"))) == [None]
    for no_call in (
        "WITH table_changes(a, b) AS (SELECT 1, 2) SELECT * FROM table_changes",
        "SELECT hiveacid_changes FROM t",
        "SELECT db.table_changes('t', 1)",
        "SELECT 'table_changes(''t'', 1)'",
    ):
        assert find_change_calls(Slice(no_call)) == []


@pytest.mark.parametrize(
    ("text", "column"),
    [
        ("SELECT * FROM table_changes('t')", 15),
        ("SELECT * FROM table_changes('t', 1, colour => 2)", 37),
        ("SELECT * FROM table_changes('t', 1, start => 2)", 37),
        ("SELECT * FROM hiveacid_changes('t', start => 2)", 37),
        ("SELECT * FROM table_changes('t', 1", 29),
    ],
)
def test_wrong_calls_have_a_place(text: str, column: int) -> None:
    """Line and column of what is wrong."""
    with pytest.raises(StatementError) as caught:
        find_change_calls(Slice(text))
    assert (caught.value.line, caught.value.column) == (1, column)


@pytest.mark.parametrize(
    ("text", "parts", "expected"),
    [
        ("SELECT d.t.id, t.id, x.d.t.id, id FROM d.t", ("d", "t"), "SELECT t.id, t.id, x.d.t.id, id FROM d.t"),
        ("SELECT D.`t`.*, spark_catalog.d.t.id FROM d.t", ("d", "t"), "SELECT `t`.*, t.id FROM d.t"),
        ("SELECT spark_catalog.d.t.id.f, d.t.id FROM spark_catalog.d.t", ("spark_catalog", "d", "t"),
         "SELECT t.id.f, t.id FROM spark_catalog.d.t"),
        ("SELECT d.t.history.operation FROM d.t.history", ("d", "t", "history"),
         "SELECT history.operation FROM d.t.history"),
    ],
)  # fmt: skip
def test_what_stands_before_a_tables_name_goes(text: str, parts: tuple[str, ...], expected: str) -> None:
    for edit in sorted(_qualifiers(tokenize(text), parts), key=lambda one: -one.start):
        text = text[: edit.start] + edit.text + text[edit.end :]
    assert text == expected
