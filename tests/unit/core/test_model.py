"""Names of tables; texts of objects for shells and notebooks."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from hiveacid.core.model import Column, Displayed, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC


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


def test_a_property_is_set_in_place_of_one_in_another_case() -> None:
    columns = (Column("id", "int"),)
    table = TableDefinition(TableName("d", "t"), columns, ORC, "/t", properties=(("ORC.COMPRESS", "ZLIB"),))
    changed = table.with_properties({"orc.compress": "SNAPPY"})
    assert changed.properties == (("orc.compress", "SNAPPY"),)
    assert changed.property("Orc.Compress") == "SNAPPY"
