from __future__ import annotations

import pytest

from hiveacid.core.model import Column, TableName, ViewDefinition
from hiveacid.core.schema.show_create import show_create_view
from hiveacid.errors import SchemaMismatchError
from hiveacid.sql.binding.view_text import match_output_columns
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements.definitions import CreateView, ViewColumn


@pytest.mark.parametrize(
    ("outputs", "found", "chosen"),
    [
        (("a", "b"), ("a", "b"), (0, 1)),
        (("a", "b"), ("B", "new", "A"), (2, 0)),
        (("a", "b", "a"), ("a", "a", "x", "b"), (0, 3, 1)),
        (("", "a", ""), ("", "", "a"), (0, 2, 1)),
        ((), ("a",), ()),
    ],
)
def test_columns_find_theirs_by_name(
    outputs: tuple[str, ...], found: tuple[str, ...], chosen: tuple[int, ...]
) -> None:
    assert match_output_columns(outputs, found) == chosen


@pytest.mark.parametrize(
    ("outputs", "found", "words"),
    [
        (("a", "b"), ("a",), "0 columns called b, and had 1"),
        (("a",), ("a", "b", "A"), "2 columns called a, and had 1"),
        (("a", ""), ("a", "b"), "0 columns without a name"),
    ],
)
def test_what_is_gone_or_doubled_is_said(
    outputs: tuple[str, ...], found: tuple[str, ...], words: str
) -> None:
    with pytest.raises(SchemaMismatchError, match=words):
        match_output_columns(outputs, found)


def test_show_create_parses_back() -> None:
    view = ViewDefinition(
        TableName("d", "v`x"),
        (Column("a b", "int", "it's; \\ \n"), Column("c", "string")),
        "SELECT `a`, 'x''y' FROM `d`.`t` -- end",
        comment="two\tlines'",
        properties=(("k;", "ü"), ("l", "'")),
    )
    found = parse(show_create_view(view))
    assert isinstance(found, CreateView)
    assert found.view.resolve("other") == view.name
    assert found.columns == (ViewColumn("a b", "it's; \\ \n"), ViewColumn("c"))
    assert (found.comment, found.properties) == (view.comment, view.properties)
    assert found.query.text == "SELECT `a`, 'x''y' FROM `d`.`t`"
    assert show_create_view(view, with_database=False).startswith("CREATE VIEW `v``x`(")
