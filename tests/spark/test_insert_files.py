"""Files of an INSERT: of about the target size if there are many rows, few if there are few rows, never two of a bucket."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from hiveacid.spark.write import sort_and_stage, write_tasks

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hiveacid import AcidSession

pytestmark = pytest.mark.sampled(2, "formats, buckets and partitions of the same files")


DISTINCT = "SELECT count(DISTINCT id), count(DISTINCT ROW__ID) FROM large"
TARGET = 200_000
ROWS = 400_000
PLACES = {
    "unpartitioned": ("", "'transactional'='true'", {}, False),
    "insert-only": ("", "'transactional'='true', 'transactional_properties'='insert_only'", {}, False),
    "overwritten": ("", "'transactional'='true'", {}, True),
    "static": ("PARTITIONED BY (p STRING)", "'transactional'='true'", {"partition": {"p": "x"}}, False),
    "dynamic": ("PARTITIONED BY (p STRING)", "'transactional'='true'", {}, False),
}


@pytest.fixture
def eight_tasks(acid: AcidSession) -> Iterator[AcidSession]:
    """Yield a session whose shuffles have eight parts before Spark joins or divides them."""
    conf = acid.context.env.spark.conf
    before = str(conf.get("spark.sql.shuffle.partitions"))
    conf.set("spark.sql.shuffle.partitions", "8")
    yield acid
    conf.set("spark.sql.shuffle.partitions", before)


@pytest.mark.parametrize("place", PLACES)
def test_rows_above_the_target_size_make_files_of_about_the_target_size(
    acid: AcidSession, place: str
) -> None:
    partitioned, properties, options, overwrites = PLACES[place]
    acid.sql(
        f"CREATE TABLE large (id BIGINT, v INT) {partitioned} STORED AS ORC TBLPROPERTIES ({properties})"
    )
    acid.sql(f"SET hiveacid.write.target.file.size={TARGET}")
    rows = acid.context.env.spark.range(0, ROWS, 1, 8).selectExpr("id", "hash(id) AS v")
    if place == "dynamic":
        rows = rows.selectExpr("*", "'x' AS p")
    table = acid.table("large")
    report = (table.overwrite if overwrites else table.insert)(rows, **options)
    assert acid.sql("SELECT count(*), count(DISTINCT id) FROM large").collect() == [(ROWS, ROWS)]
    mean = report.bytes / report.files
    assert report.files >= 3
    assert TARGET / 4 <= mean <= TARGET * 2


def test_one_source_task_fills_several_files(eight_tasks: AcidSession) -> None:
    acid = eight_tasks
    acid.sql("CREATE TABLE large (id BIGINT, v INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql(f"SET hiveacid.write.target.file.size={TARGET}")
    report = acid.table("large").insert(
        acid.context.env.spark.range(0, ROWS, 1, 1).selectExpr("id", "hash(id) v")
    )
    assert report.files >= 3
    assert acid.sql(DISTINCT).collect() == [(ROWS, ROWS)]


@pytest.mark.parametrize("partitioned", ["", "PARTITIONED BY (p STRING)"])
def test_more_shuffled_parts_than_buckets_arrive(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch, partitioned: str
) -> None:
    """With 4,096 buckets this needs a file in each; with 8 it is the same, only faster."""
    monkeypatch.setattr(write_tasks, "MAX_BUCKETS", 8)
    monkeypatch.setattr(sort_and_stage, "_TASK_BUCKET", "pmod(spark_partition_id(), 8)")
    acid.sql(
        f"CREATE TABLE large (id BIGINT) {partitioned} STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("SET hiveacid.write.target.file.size=1")
    rows = acid.context.env.spark.range(0, 400, 1, 40)
    report = acid.table("large").insert(rows.selectExpr("id", "'x' AS p") if partitioned else rows)
    assert report.files == 8
    assert acid.sql(DISTINCT).collect() == [(400, 400)]


def test_many_small_input_splits_make_few_files(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE large (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    report = acid.table("large").insert(acid.context.env.spark.range(0, 200, 1, 200))
    assert report.files == 64
    assert acid.sql(DISTINCT).collect() == [(200, 200)]


@pytest.mark.parametrize("rows", [3, 50_000_000])
def test_an_insert_into_one_directory_takes_one_job(acid: AcidSession, rows: int) -> None:
    """Spark estimates 400 MB for the large source, since it does not know how few rows the filter leaves."""
    acid.sql("CREATE TABLE large (id BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    scheduler = acid.context.env.spark.sparkContext._jsc.sc().dagScheduler()
    before = scheduler.nextJobId()
    source = acid.context.env.spark.range(0, rows, 1, 2).filter("id % 1000000 < 3")
    report = acid.table("large").insert(source)
    assert scheduler.nextJobId() - before == 1
    assert (report.files, report.inserted) == (2, max(3, rows // 1_000_000 * 3))


@pytest.mark.parametrize("name", ["a.b", "c``d", "a b", "1", "ünï", "a-b", "--", "quo'te", "x``.``y"])
def test_columns_of_any_name_and_type_are_distributed(acid: AcidSession, name: str) -> None:
    acid.sql(
        f"CREATE TABLE odd (`{name}` INT, s STRING, m MAP<STRING, INT>) STORED AS TEXTFILE "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    acid.sql("SET hiveacid.write.target.file.size=1")
    acid.sql("INSERT INTO odd SELECT CAST(id AS INT), 'x', map('k', 1) FROM range(10)")
    assert acid.sql(f"SELECT count(*), sum(`{name}`) FROM odd").collect() == [(10, 45)]


@pytest.mark.parametrize("end", ["ORDER BY k", "DISTRIBUTE BY k % 4 SORT BY k"])
def test_a_query_keeps_its_own_order_and_distribution(acid: AcidSession, end: str) -> None:
    acid.sql("CREATE TABLE ordered (k BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("SET hiveacid.write.target.file.size=1")
    acid.sql(f"INSERT INTO ordered SELECT hash(id) AS k FROM range(10000) {end}")
    bounds = acid.sql(
        "SELECT min(k), max(k), count(DISTINCT k % 4), array_sort(collect_list(struct(ROW__ID.rowid, k))).k "
        "FROM ordered GROUP BY ROW__ID.bucketid ORDER BY 1"
    ).collect()
    assert all(keys == sorted(keys) for *_, keys in bounds)
    assert sum(len(keys) for *_, keys in bounds) == 10_000
    if end.startswith("ORDER"):
        assert all(low[1] <= high[0] for low, high in pairwise(bounds))


@pytest.mark.parametrize("place", ["static", "dynamic", "unpartitioned"])
def test_without_adaptive_execution_the_source_s_tasks_write(acid: AcidSession, place: str) -> None:
    partitioned, properties, options, _ = PLACES[place]
    acid.sql(f"CREATE TABLE large (id BIGINT) {partitioned} STORED AS ORC TBLPROPERTIES ({properties})")
    acid.sql("SET hiveacid.write.target.file.size=1")
    conf = acid.context.env.spark.conf
    conf.set("spark.sql.adaptive.enabled", "false")
    try:
        rows = acid.context.env.spark.range(0, 400, 1, 4)
        report = acid.table("large").insert(
            rows.selectExpr("id", "'x' AS p") if place == "dynamic" else rows, **options
        )
    finally:
        conf.set("spark.sql.adaptive.enabled", "true")
    assert report.files == 4
    assert acid.sql(DISTINCT).collect() == [(400, 400)]


@pytest.mark.parametrize("stored", ["ORC", "PARQUET", "TEXTFILE"])
def test_the_rows_of_a_bucket_are_in_the_order_that_the_table_declares(
    acid: AcidSession, stored: str
) -> None:
    """Hive joins buckets that are SORTED BY the key without sorting them, and would miss rows of another order."""
    acid.sql(
        "CREATE TABLE ordered (k INT, v STRING) PARTITIONED BY (p INT) CLUSTERED BY (k) SORTED BY (v DESC, k) "
        f"INTO 2 BUCKETS STORED AS {stored} "
        "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
    )
    source = (
        "SELECT hash(id) % 50 AS k, if(id % 5 = 0, NULL, 'v' || id % 3) AS v, id % 2 AS p FROM range(100)"
    )

    def files_in_order() -> int:
        files: dict[str, list[tuple[bool, int, int]]] = {}
        query = "SELECT INPUT__FILE__NAME AS f, v, k, monotonically_increasing_id() AS n FROM ordered"
        for row in sorted(acid.sql(query).collect(), key=lambda row: row.n):
            files.setdefault(row.f, []).append((row.v is None, -int((row.v or "v0")[1:]), row.k))
        assert all(keys == sorted(keys) for keys in files.values())
        return len(files)

    acid.sql(f"INSERT INTO ordered {source}")
    acid.sql("INSERT INTO ordered PARTITION (p = 1) VALUES (2, 'v0'), (4, 'v1'), (6, NULL), (8, 'v2')")
    assert files_in_order() >= 5
    acid.table("ordered").compact("major")
    assert files_in_order() == 4
