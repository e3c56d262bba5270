"""Objects show themselves briefly, and errors suggest the name that was meant."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.errors import HiveAcidError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

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
    past = table.as_of(timestamp=datetime(2026, 1, 10, 12, tzinfo=UTC))
    assert repr(past) == "AcidTable(name=default.stock, snapshot_at=2026-01-10 12:00:00.000+00:00)"
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
        ("INSERT INTO stock (sku, qtty, day) VALUES ('a', 1, DATE'2026-01-01')", "qty"),
        ("INSERT INTO stock PARTITION (dayy = '2026-01-01') VALUES ('a', 1)", "day"),
        ("ALTER TABLE stock DROP PARTITION (dayy > '2026-01-01')", "day"),
        ("CREATE TABLE t PARTITIONED BY (qtty) AS SELECT 1 AS qty", "qty"),
        ("ALTER TABLE stock COMPACT 'rebalance' ORDER BY qtty", "qty"),
        (
            "ALTER TABLE stock SET TBLPROPERTIES ('hiveacid.history.retntion'='7d')",
            r"hiveacid\.history\.retention",
        ),
        ("CREATE TABLE t (a INT) TBLPROPERTIES ('hiveacid.layout.levl'='4')", r"hiveacid\.layout\.level"),
        ("ALTER TABLE stock UNSET TBLPROPERTIES ('transactionl')", "transactional"),
    ):
        with pytest.raises(HiveAcidError, match=f"did you mean {meant}") as caught:
            acid.sql(statement)
        assert len(str(caught.value)) < 1000
    acid.sql("DROP TABLE stock")
    assert table._repr_html_().startswith("<table>")


def test_python_interfaces_suggest_too(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql("CREATE TABLE stock (sku STRING, qty INT) TBLPROPERTIES ('transactional'='true')")
    with hiveacid.open(acid.context.warehouse) as warehouse:
        table = warehouse.table("stock")
        wrong: list[Callable[[], object]] = [
            lambda: acid.table("stock").insert(spark.createDataFrame([("a", 1)], "sku STRING, qtty INT")),
            lambda: acid.table("stock").changes(after=0, key=["qtty"]).to_df(),
            lambda: table.to_arrow(["qtty"]),
            lambda: table.to_arrow(where="qtty > 1"),
            lambda: table.append(pa.table({"sku": ["a"], "qtty": [1]})),
        ]
        for call in wrong:
            with pytest.raises(HiveAcidError, match="did you mean qty"):
                call()
        with pytest.raises(HiveAcidError, match="did you mean default"):
            warehouse.tables("defalt")


def test_a_misspelt_property_is_kept_with_a_warning(
    acid: AcidSession, caplog: pytest.LogCaptureFixture
) -> None:
    acid.sql("CREATE TABLE stock (sku STRING) TBLPROPERTIES ('transactionl'='true', 'owner'='ann')")
    assert [record.message for record in caplog.records if record.levelname == "WARNING"] == [
        "default.stock: hiveacid does not know the property transactionl; it keeps the value and does not use it; did you mean transactional?"
    ]
    assert dict(acid.sql("SHOW TBLPROPERTIES stock").collect())["transactionl"] == "true"


def test_a_table_counts_and_shows_its_rows(acid: AcidSession, capsys: pytest.CaptureFixture[str]) -> None:
    acid.sql("CREATE TABLE stock (sku STRING, qty INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    table = acid.table("stock")
    assert (table.count(), table.head()) == (0, [])
    acid.sql("INSERT INTO stock VALUES ('tea', 1), ('jam', 2), ('rye', 3)")
    table.delete("sku = 'jam'")
    assert (table.count(), table.count("qty > 1"), table.as_of(write_id=1).count()) == (2, 1, 3)
    assert [row.qty in (1, 3) for row in table.head(1)] == [True]
    with acid.transaction() as txn:
        txn.sql("DELETE FROM stock")
        assert (txn.table("stock").count(), table.count()) == (0, 2)
    table.insert(acid.context.env.spark.createDataFrame([("oil", 4)], "sku STRING, qty INT"))
    capsys.readouterr()
    table.show()
    assert "|oil|  4|" in capsys.readouterr().out
    with hiveacid.open(acid.context.warehouse) as warehouse:
        assert warehouse.table("stock").head(2).to_pylist() == [{"sku": "oil", "qty": 4}]
    with pytest.raises(HiveAcidError, match="nope"):
        table.count("nope > 1")
