"""Short texts of objects."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.core.display import Displayed, did_you_mean, first_few
from hiveacid.core.model import TableName


@dataclass(frozen=True, repr=False)
class Shown(Displayed):
    context: object
    name: TableName
    where: str | None = None
    counted: bool = False
    _own: int = 0


def test_only_plain_facts_are_shown() -> None:
    one = Shown(object(), TableName("d", "<t>"), where="x" * 300, _own=3)
    assert repr(one) == f"Shown(name=d.<t>, where={'x' * 200}...)"
    assert "<th>name</th><td>d.&lt;t&gt;</td>" in one._repr_html_()
    assert "counted=True" in repr(Shown(None, TableName("d", "t"), counted=True))


def test_a_list_in_a_message_is_short_and_says_how_much_it_leaves_out() -> None:
    assert first_few(["a", "b"]) == "a, b"
    assert first_few(dict.fromkeys("abcde")) == "a, b, c, d, e"
    assert first_few(tuple("abcdefg")) == "a, b, c, d, e and 2 more"


def test_suggestions_are_similar_and_bounded() -> None:
    assert did_you_mean("stok", ["sales", "Stock"]) == "; did you mean Stock?"
    assert did_you_mean("zebra", ["sales", "stock"]) == ""
    assert did_you_mean("x" * 10_000, ["x" * 9_999]) == ""
    assert did_you_mean("stock1", (f"n{i}" for i in range(10**6))) == ""
