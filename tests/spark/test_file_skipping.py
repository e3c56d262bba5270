"""Files that hold no row of a condition are not read, and no row is lost by it."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import hiveacid
from hiveacid.core.model import Column
from support.exhaustive import sample

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
_VALUES = (
    "cast(id as int) AS i, cast(id * 1000003 as bigint) AS b, concat('k', lpad(id, 5, '0')) AS s, "
    "cast(concat('v', id) as varchar(9)) AS v, cast(concat('c', id) as char(9)) AS c, "
    "cast(id * 0.25 as decimal(9,2)) AS p, if(id % 7 = 0, cast('NaN' as double), id / 4) AS x, "
    "date_add(date'2000-01-01', cast(id as int)) AS d, timestamp_seconds(id * 86400) AS ts, id % 2 = 0 AS flag"
)
_CONDITIONS = [
    "i = 35", "i IN (5, 95)", "i < 12", "i >= 88 AND i <> 89", "i BETWEEN 30 AND 40 AND flag", "i = 35 OR i = 95",
    "i IS NULL", "i IS NOT NULL", "i <=> 35", "i <=> NULL", "i = 1000", "i + 0 = 35", "b = 35000105", "s = 'k00035'", "s > 'k00090'",
    "s < 'k00001'", "s >= 'k' AND s < 'l'", "s = 'kö'", "v = 'v35'", "v > 'v8'", "c = 'c35'", "p = 8.75", "p < 1",
    "p > 24.999", "x = 8.5", "x > 24", "x < 1", "x = cast('NaN' as double)", "d = date'2000-02-05'",
    "d > date'2000-04-01'", "ts < timestamp'1970-01-05 00:00:00'", "ts = timestamp'1970-02-05 00:00:00'", "flag",
    "i = 35 AND s = 'k00036'", "i = 35 AND d > date'1999-01-01'", "i = (SELECT 35)",
]  # fmt: skip


@pytest.fixture(scope="module")
def many(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Make a table of ten inserts of ten rows each, with deleted and updated rows and one of NULLs; tests only read it."""
    acid = hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("skipping")))
    acid.sql(f"CREATE TABLE t {ACID} AS SELECT {_VALUES} FROM range(0)")
    for first in range(0, 100, 10):
        acid.sql(f"INSERT INTO t SELECT {_VALUES} FROM range({first}, {first + 10}, 1, 1)")
    acid.sql("DELETE FROM t WHERE i IN (7, 36, 95)")
    acid.sql("UPDATE t SET s = 'k00001' WHERE i = 50")
    acid.sql("INSERT INTO t (flag) VALUES (true)")
    yield acid
    acid.close()


def _require_equal_rows(acid: AcidSession, conditions: list[str], columns: str = "ROW__ID, *") -> None:
    """Require for each condition the rows that Spark selects of the whole table."""
    everything = acid.sql(
        f"SELECT {columns} FROM t"
    ).localCheckpoint()  # Spark's cache would lose NaN for ``x > 24``
    for where in conditions:
        wanted = everything.where(where).collect()
        found = acid.sql(f"SELECT {columns} FROM t WHERE {where}").collect()
        assert sorted(map(str, found)) == sorted(map(str, wanted)), where


def _files(acid: AcidSession, where: str) -> int:
    files = acid.sql(f"SELECT * FROM t WHERE {where}").inputFiles()
    return sum("delete_delta" not in file for file in files)


def test_no_row_is_lost(many: AcidSession) -> None:
    _require_equal_rows(many, sample(_CONDITIONS, 12))


@pytest.mark.parametrize(
    ("where", "files"),
    [
        ("i = 35", 1),
        ("i = 1000", 0),
        ("i IN (5, 95)", 2),
        ("s = 'k00001'", 2),
        ("p < 1", 1),
        ("i = 35 AND flag", 1),
        ("d = date'2000-02-05'", 1),
        ("i = 35 OR i = 95", 2),
        ("i <=> NULL", 1),
        ("i IS NULL", 1),
        ("flag", 12),
    ],
)
def test_only_files_that_may_hold_a_row_are_read(many: AcidSession, where: str, files: int) -> None:
    assert _files(many, "true") == 12
    assert _files(many, where) == files


def test_few_files_are_not_left_out(many: AcidSession) -> None:
    """With fewer than a quarter left out, the kept plan of the whole table is worth more."""
    assert _files(many, "i > 15") == 12
    assert _files(many, "i > 35") == 8


def test_a_deleted_key_stays_deleted_and_an_updated_one_has_its_last_version(many: AcidSession) -> None:
    assert many.sql("SELECT i FROM t WHERE i = 36").collect() == []
    assert [row.s for row in many.sql("SELECT s FROM t WHERE i = 50").collect()] == ["k00001"]
    assert many.sql("SELECT i FROM t WHERE s = 'k00050'").collect() == []


def test_files_with_other_columns(acid: AcidSession) -> None:
    """A table whose columns were widened, renamed and added since its files were written, with partitions and buckets."""
    acid.sql(
        "CREATE TABLE t (a ARRAY<STRUCT<x:INT>>, i INT, s VARCHAR(5)) PARTITIONED BY (day STRING) "
        f"CLUSTERED BY (s) INTO 2 BUCKETS {ACID}"
    )
    row = (
        "array(named_struct('x', cast(-id as int))), cast(id as int), concat('k', id), concat('d', id div 10)"
    )
    acid.sql(f"INSERT INTO t SELECT {row} FROM range(40)")
    table = acid.table("t").definition
    columns = tuple(Column("n", "bigint") if column.name == "i" else column for column in table.columns)
    acid.context.catalog.alter_table(table.name, replace(table, columns=columns))
    acid.sql("ALTER TABLE t ADD COLUMNS (more INT)")
    acid.sql(
        "INSERT INTO t SELECT array(named_struct('x', 1)), 10000000000 + id, 'k1', id, 'd1' FROM range(5)"
    )
    acid.sql("UPDATE t SET more = 1 WHERE n = 12")
    _require_equal_rows(
        acid,
        [
            "n = 12", "n = 10000000003", "n < 3", "more = 1", "more IS NULL", "more < 3", "s = 'k1'", "s = 'k39'",
            "n = 12 AND day = 'd1'", "n = 12 AND day = 'd2'", "day = 'd1' AND more = 4",
        ],
    )  # fmt: skip


@pytest.mark.exhaustive("the same conditions on ACID files stay")
def test_original_files_are_skipped_too(acid: AcidSession) -> None:
    """Their row ids result from counting all of them, the skipped ones, too."""
    acid.sql("CREATE TABLE t (i INT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    for first in (0, 10, 20):
        acid.sql(f"INSERT INTO t SELECT cast(id as int) FROM range({first}, {first + 10}, 1, 1)")
    acid.sql("ALTER TABLE t SET TBLPROPERTIES ('transactional'='true')")
    for first in (30, 40, 50):
        acid.sql(f"INSERT INTO t SELECT cast(id as int) FROM range({first}, {first + 10}, 1, 1)")
    acid.sql("DELETE FROM t WHERE i IN (15, 45)")
    _require_equal_rows(acid, ["i = 15", "i = 16", "i = 45", "i = 46", "i > 55", "i < 5"])
    assert _files(acid, "true") == 6
    assert _files(acid, "i = 16") == _files(acid, "i = 46") == 1
    assert _files(acid, "i IN (14, 16)") == 1
    assert _files(acid, "i BETWEEN 16 AND 46") == 4


def test_numbers_after_nan_are_found(acid: AcidSession) -> None:
    """A row group that begins with NaN has no other bounds, and its values are in none of the file."""
    acid.sql(f"CREATE TABLE t (x DOUBLE) {ACID}")
    value = "CASE WHEN id < 10000 THEN 1 WHEN id = 10000 THEN double('NaN') ELSE 100 END"
    acid.sql(f"INSERT INTO t SELECT {value} FROM range(0, 10010, 1, 1)")
    assert acid.sql("SELECT count(*) FROM t WHERE x = 100").first()[0] == 9
    assert acid.sql("SELECT count(*) FROM t WHERE x BETWEEN 50 AND 200").first()[0] == 9


def test_a_new_file_with_path_size_and_time_of_an_old_one_is_read(acid: AcidSession) -> None:
    """Object stores give times in whole seconds, and a table can be dropped, created and filled within one."""
    written = int(time.time()) + 3600  # never old enough, however slow the machine
    for number in (1, 2):
        acid.sql(f"CREATE TABLE t (id INT) {ACID}")
        acid.sql(f"INSERT INTO t VALUES ({number})")
        for file in Path(acid.table("t").definition.location).rglob("bucket_*"):
            os.utime(file, (written, written))
        assert [row.id for row in acid.sql(f"SELECT id FROM t WHERE id = {number}").collect()] == [number]
        acid.sql("DROP TABLE t")
