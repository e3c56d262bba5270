"""Objects show themselves briefly, and errors suggest the name that was meant."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import HiveAcidError

if TYPE_CHECKING:
    from hiveacid import AcidSession


def test_objects_are_short_and_errors_suggest(acid: AcidSession) -> None:
    acid.sql(
        "CREATE TABLE stock (sku STRING, qty INT) PARTITIONED BY (day DATE) TBLPROPERTIES ('transactional'='true')"
    )
    table = acid.table("stock")
    with acid.transaction() as inside:
        assert "txn_id=" in repr(inside)
        assert "txn_id=" in repr(inside.joined)
        assert len(repr(inside.joined)) < 200
    for one in (
        acid,
        table,
        table.scan(where="qty > 1", columns=["sku"]),
        table.inspect,
        table.changes(after=0),
    ):
        assert len(repr(one)) < 300
        assert "object at" not in repr(one)
        assert one._repr_html_().startswith("<table>")
    assert repr(table) == "AcidTable(name=default.stock)"
    assert "sku string, qty int" in table._repr_html_()
    for statement, meant in (
        ("SELECT * FROM default.stok", "stock"),
        ("INSERT INTO stok VALUES (1)", "stock"),
        ("INSERT INTO defalt.stock VALUES (1)", "default"),
        ("USE defalt", "default"),
        ("UPDATE stock SET qtty = 1", "qty"),
        ("DESCRIBE stock dayy", "day"),
        ("SET hiveacid.auto_compct=true", "hiveacid.auto_compact"),
        ("UPDTE stock SET qty = 1", "UPDATE"),
    ):
        with pytest.raises(HiveAcidError, match=f"did you mean {meant}") as caught:
            acid.sql(statement)
        assert len(str(caught.value)) < 1000
    acid.sql("DROP TABLE stock")
    assert table._repr_html_().startswith("<table>")
