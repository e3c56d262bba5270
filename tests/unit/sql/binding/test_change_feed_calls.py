"""Calls of the change functions in the text of a query."""

from __future__ import annotations

import pytest

from hiveacid.errors import StatementError
from hiveacid.sql.binding.change_feed_calls import find_change_calls
from hiveacid.sql.statements.values import Slice


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("SELECT * FROM table_changes('t', 1)", 1),
        ("SELECT * FROM table_changes(table => 't', start => 1), hiveacid_changes('t', 1)", 2),
        ("WITH table_changes(a, b) AS (SELECT 1, 2) SELECT * FROM table_changes", 0),
        ("SELECT i FROM hiveacid_changes(", 0),  # the parser tells what is missing
        ("SELECT i FROM hiveacid_changes", 0),
    ],
)
def test_calls_are_told_from_names(text: str, calls: int) -> None:
    assert len(find_change_calls(Slice(text))) == calls


def test_an_argument_without_an_end_is_refused() -> None:
    with pytest.raises(StatementError, match="has no end"):
        find_change_calls(Slice("SELECT i FROM hiveacid_changes('t', 1"))
