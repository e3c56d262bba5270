"""Names of tables."""

from __future__ import annotations

import pytest

from hiveacid.core.model import TableName


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("t", TableName("now", "t")),
        (" Sales.`Orders` ", TableName("sales", "orders")),
        (".t", TableName("", "t")),
        ("a.b.c", TableName("a.b", "c")),
    ],
)
def test_a_name_without_a_database_is_in_the_current_one(text: str, expected: TableName) -> None:
    assert TableName.parse(text, "now") == expected
    assert TableName.parse("T") == TableName("default", "t")
