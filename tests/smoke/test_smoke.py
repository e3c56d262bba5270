"""The main job once through, small: run on every supported Spark (make smoke SPARK=3.5)."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import functions as F

from hiveacid.errors import StorageError
from hiveacid.spark.write.staged_files import TaskReport
from support.corpus.altered_files import Altered

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

TRANSACTIONAL = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"


@pytest.mark.exhaustive("`make demo` runs the main job")
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

    caplog.set_level(logging.INFO, "hiveacid.table.compaction.stage_without_shuffle")
    acid.set("hiveacid.compactor.unsorted.file.size", "1")
    acid.set("hiveacid.small.changes.max.bytes", "0")  # else the driver writes so few rows
    acid.table("sales").compact("major", partition={"day": "2026-01-01"})
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


def test_tasks_report_the_rows_of_every_verb(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int | None, int | None, int]] = []
    require = TaskReport.require_rows

    def recorded(reported: TaskReport, found: int) -> None:
        seen.append((reported.rows, reported.files, found))
        require(reported, found)

    monkeypatch.setattr(TaskReport, "require_rows", recorded)
    acid.sql(f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT) {TRANSACTIONAL}")

    def staged(statement: str) -> tuple[int | None, int | None, int]:
        acid.sql(statement)
        (only,) = set(seen)
        seen.clear()
        return only

    many = "SELECT CAST(id AS INT), 'v', CAST(id % 2 AS INT) FROM range(0, 1000, 1, 1)"
    assert staged(f"INSERT INTO t {many}") == (1000, 2, 1000)
    assert staged("UPDATE t SET v = 'w' WHERE id < 10") == (20, 4, 20)  # delete events and new rows
    assert staged("DELETE FROM t WHERE id = 999") == (1, 1, 1)
    merge = "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (s.id, 'n', 0)"
    source = "(SELECT explode(array(0, 5000)) AS id) s"
    assert staged(f"MERGE INTO t USING {source} ON t.id = s.id {merge}") == (2, 2, 2)
    assert staged("INSERT OVERWRITE t SELECT 1, 'x', 1 WHERE false") in {(0, 0, 0), (0, 1, 0)}
    acid.sql(f"CREATE TABLE flat (id INT, v STRING) PARTITIONED BY (p INT) {INSERT_ONLY}")
    assert staged(f"INSERT INTO flat {many}") == (1000, 2, 1000)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda files: files[0].unlink(), "the tasks wrote 2 files into .*, but the driver finds 1 there"),
        (
            lambda files: shutil.copy(files[0], files[1]),
            "the tasks wrote 101 rows into .*, but the driver finds 2 there",
        ),
    ],
)
@pytest.mark.parametrize("kind", ["acid", "insert_only"])
def test_staged_rows_that_are_lost_fail_the_statement(
    acid: AcidSession, kind: str, change: Callable[[list[Path]], object], message: str
) -> None:
    properties = TRANSACTIONAL if kind == "acid" else INSERT_ONLY
    acid.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {properties}")
    fs = acid.context.fs
    acid.context = replace(acid.context, fs=Altered(fs, change))  # type: ignore[assignment]
    with pytest.raises(StorageError, match=message):
        acid.sql("INSERT INTO t SELECT CAST(id AS INT), CAST(id > 99 AS INT) FROM range(0, 101, 1, 1)")
    acid.context = replace(acid.context, fs=fs)
    assert acid.sql("SELECT * FROM t").count() == 0


@pytest.mark.exhaustive("spark/test_native_writer.py has the writers")
def test_sparks_own_writers_and_catalog(native: NativeSession) -> None:
    source = native.createDataFrame([(1, "a", 1), (2, "b", 2)], "id int, v string, p int")
    source.writeTo("t").tableProperty("transactional", "true").partitionedBy(F.col("p")).create()
    source.select("p", "v", "id").writeTo("t").append()
    source.where("p = 2").write.insertInto("t", overwrite=True)
    source.withColumn("id", F.lit(3)).writeTo("t").overwrite(F.col("p") == 1)
    source.write.mode("append").saveAsTable("t")
    rows = [(1, "a", 1), (2, "b", 2), (2, "b", 2), (3, "a", 1), (3, "b", 2)]
    assert sorted(map(tuple, native.table("t").collect())) == rows
    if hasattr(source, "mergeInto"):
        source.alias("s").mergeInto("t", F.expr("s.id = t.id")).whenMatched().delete().merge()
        assert {row["id"] for row in native.table("t").collect()} == {3}
    source.write.mode("overwrite").saveAsTable("t")
    assert native.table("t").count() == 2
    assert [column.isPartition for column in native.catalog.listColumns("t")] == [False, False, True]
    assert "t" in {table.name for table in native.catalog.listTables()}
    assert native.sql("SHOW TABLE EXTENDED LIKE 't'").first()["tableName"] == "t"  # type: ignore[index]
