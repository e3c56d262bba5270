"""ORDER BY of a rebalance: columns, direction and null order."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.compaction.queue_records import (
    SortColumn,
    format_sort_order,
    parse_sort_order,
    sort_columns,
)
from hiveacid.errors import NoSuchColumnError, StatementError

_COLUMNS = st.builds(SortColumn, st.text(min_size=1).map(str.lower).filter(str), st.booleans(), st.booleans())


def test_columns_directions_and_null_orders_are_parsed() -> None:
    """Hive's compactor writes the clause with ORDER BY before it."""
    expected = (SortColumn("a"), SortColumn("b c", True, False), SortColumn("desc", True, True))
    assert parse_sort_order("ORDER BY A, `b c` desc , desc DESC NULLS FIRST") == expected


@given(st.lists(_COLUMNS, min_size=1))
def test_what_is_formatted_is_parsed_to_the_same(columns: list[SortColumn]) -> None:
    """Whatever characters a name has."""
    names = [SortColumn(one.name.lower(), one.descending, one.nulls_first) for one in columns]
    assert list(parse_sort_order(format_sort_order(names))) == names


@pytest.mark.parametrize(
    "text",
    [
        "", "a DESC LIMIT 1", "a LIMIT 1", "java_method('java.lang.System', 'exit', 1)", "a + 1", "1", "a,", "a b",
        "(SELECT 1)", "a; DROP TABLE t", "a -- x", "`a", "``", "t.a", "a NULLS", "a" + " " * 200_000 + "+",
    ],
)  # fmt: skip
def test_everything_else_is_refused(text: str) -> None:
    """Expressions, LIMIT, positions."""
    with pytest.raises(StatementError, match="takes columns"):
        parse_sort_order(text)


def test_columns_that_the_table_does_not_have_are_refused() -> None:
    """By name."""
    assert sort_columns(None, ["a"]) == ()
    with pytest.raises(NoSuchColumnError, match="no column b"):
        sort_columns("a, b", ["a"])
