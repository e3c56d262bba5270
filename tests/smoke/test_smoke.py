"""The main job once through, small: run on every supported Spark (make smoke SPARK=3.5)."""

from __future__ import annotations

import logging
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import pytest
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

TRANSACTIONAL = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def test_the_main_job(spark: SparkSession, acid: AcidSession, caplog: pytest.LogCaptureFixture) -> None:
    acid.sql(
        f"""
        CREATE TABLE sales (id INT, item STRING, price DECIMAL(8,2), tags ARRAY<STRING>, at TIMESTAMP)
        PARTITIONED BY (day DATE) CLUSTERED BY (id) INTO 2 BUCKETS {TRANSACTIONAL}
        """
    )
    acid.sql(
        """
        INSERT INTO sales VALUES
            (1, 'tea', 2.50, array('hot', NULL), TIMESTAMP '2026-01-01 10:00:00.5', DATE '2026-01-01'),
            (2, 'jam', 4.00, NULL, NULL, DATE '2026-01-01'),
            (3, 'rye', 3.10, array(), TIMESTAMP '1969-07-20 20:17:40', DATE '2026-01-02')
        """
    )
    old = acid.table("sales").to_df()

    acid.sql("UPDATE sales SET price = price * 2, item = upper(item) WHERE id = 1")
    acid.sql("DELETE FROM sales WHERE day = DATE '2026-01-02'")
    batch = spark.createDataFrame([(2, "d"), (4, "u")], "id int, op string")
    report = (
        acid.table("sales")
        .merge(batch, on="t.id = s.id")
        .when_matched_delete("s.op = 'd'")
        .when_not_matched_insert({"id": "s.id", "item": "'new'", "day": "DATE '2026-01-03'"})
        .execute()
    )
    assert (report.inserted, report.updated, report.deleted) == (1, 0, 1)

    def ids_and_rows() -> tuple[set[object], list[tuple[object, ...]]]:
        rows = acid.sql("SELECT ROW__ID AS r, id, item, price, tags FROM sales ORDER BY id").collect()
        return {tuple(row["r"]) for row in rows}, [tuple(row)[1:] for row in rows]

    row_ids, rows = ids_and_rows()
    assert rows == [(1, "TEA", Decimal("5.00"), ["hot", None]), (4, "new", None, None)]
    assert len(row_ids) == 2

    caplog.set_level(logging.INFO, "hiveacid.table.in_order")
    acid.set("hiveacid.compactor.unsorted.file.size", "1")
    acid.table("sales").compact("major", partition={"day": "2026-01-01"})
    if hasattr(spark, "_jsparkSession"):  # on Spark Connect a compaction sorts
        assert "are written as they are read" in caplog.text
    assert ids_and_rows() == (row_ids, rows)
    assert sorted(row["id"] for row in old.collect()) == [1, 2, 3]
    assert [row["item"] for row in acid.table("sales").scan(where="id = 4").to_df().collect()] == ["new"]


def test_original_files_by_position(spark: SparkSession, acid: AcidSession, tmp_path: Path) -> None:
    """Files of Hive 2 (no names), and of a time when the columns had other names and types."""
    root = tmp_path / "t"
    root.mkdir()
    for number, columns in enumerate(("_col0 int, _col1 string", "b int, a string")):
        rows = [(10 * number + n, f"v{n}") for n in range(3)]
        spark.createDataFrame(rows, columns).coalesce(1).write.orc(str(tmp_path / f"o{number}"))
        (file,) = (tmp_path / f"o{number}").glob("part-*")
        file.rename(root / f"00000{number}_0")
    acid.adopt(f"CREATE TABLE old (a BIGINT, b STRING, c DOUBLE) {TRANSACTIONAL}", str(root))
    acid.sql("UPDATE old SET b = upper(b) WHERE a IN (1, 12)")
    acid.sql("DELETE FROM old WHERE a = 0")
    expected = [(1, "V1", None), (2, "v2", None), (10, "v0", None), (11, "v1", None), (12, "V2", None)]
    assert [tuple(row) for row in acid.sql("SELECT * FROM old ORDER BY a").collect()] == expected
    acid.table("old").compact("major")
    assert [tuple(row) for row in acid.sql("SELECT * FROM old ORDER BY a").collect()] == expected
