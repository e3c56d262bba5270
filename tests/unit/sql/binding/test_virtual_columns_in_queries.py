"""Where ROW__ID and INPUT__FILE__NAME are needed."""

from __future__ import annotations

import pytest

from hiveacid.sql.binding.virtual_columns_in_queries import VirtualColumns
from hiveacid.sql.statements.values import Slice


def needed(text: str) -> list[bool]:
    """Tell for each name that begins with ``tab_`` whether it needs the hidden columns."""
    columns = VirtualColumns(Slice(text))
    places = [place for place in range(len(text)) if text.startswith("tab_", place)]
    return [columns.needed_at(place) for place in places]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM tab_a", [False]),
        ("SELECT ROW__ID, * FROM tab_a", [True]),
        ("SELECT id FROM tab_a WHERE input__file__name LIKE '%x'", [True]),
        ("SELECT `ROW__ID` FROM tab_a JOIN tab_b ON true", [True, True]),
        ("SELECT 'ROW__ID' FROM tab_a -- ROW__ID", [False]),
        ("SELECT a FROM tab_a WHERE id IN (SELECT ROW__ID.rowid FROM tab_b)", [True, True]),
        ("SELECT ROW__ID FROM tab_a WHERE id IN (SELECT * FROM tab_b)", [True, False]),
        ("SELECT ROW__ID FROM tab_a UNION ALL SELECT s FROM tab_b", [True, False]),
        ("(SELECT ROW__ID FROM tab_a) UNION ALL (SELECT s FROM tab_b)", [True, False]),
        ("WITH c AS (SELECT id FROM tab_a) SELECT ROW__ID, * FROM tab_b", [False, True]),
        ("SELECT ROW__ID FROM ((tab_a JOIN tab_b ON true))", [True, True]),
        ("SELECT x.id FROM (SELECT ROW__ID r, id FROM tab_a) x", [True]),
        ("SELECT f((ROW__ID.rowid + 1) * 2) FROM tab_a", [True]),
    ],
)
def test_a_table_gets_them_where_its_own_block_names_them(text: str, expected: list[bool]) -> None:
    assert needed(text) == expected
