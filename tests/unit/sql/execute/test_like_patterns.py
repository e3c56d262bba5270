from __future__ import annotations

import pytest

from hiveacid.sql.execute.show_rows import matching

NAMES = ["sales", "sales_2026", "stock", "a.b"]


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        (None, NAMES),
        ("sales", ["sales"]),
        ("SALES*", ["sales", "sales_2026"]),
        ("s*|a.b", NAMES),
        ("stock | a.b", ["stock", "a.b"]),
        ("s%", ["sales", "sales_2026", "stock"]),
        ("a*b", ["a.b"]),
        ("axb", []),
        ("", []),
    ],
)
def test_stars_and_bars(pattern: str | None, expected: list[str]) -> None:
    assert matching(NAMES, pattern) == expected
