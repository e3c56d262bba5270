"""Suggestions for misspelt names."""

from __future__ import annotations

from hiveacid.core.suggestions import did_you_mean


def test_suggestions_are_similar_and_bounded() -> None:
    assert did_you_mean("stok", ["sales", "Stock"]) == "; did you mean Stock?"
    assert did_you_mean("zebra", ["sales", "stock"]) == ""
    assert did_you_mean("x" * 10_000, ["x" * 9_999]) == ""
    assert did_you_mean("stock1", (f"n{i}" for i in range(10**6))) == ""
