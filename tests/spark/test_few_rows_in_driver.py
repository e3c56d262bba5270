"""INSERT of listed rows and compaction of small locations: Arrow writes the same files as a Spark job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid import errors
from hiveacid.spark.write import sort_and_stage
from hiveacid.table.compaction import stage_without_shuffle
from hiveacid.table.write import insert
from support.corpus.sort_merge_reader import read_table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

LIMIT = "hiveacid.small.changes.max.bytes"
SAME = ("64mb", "64mb")
COLUMNS = (
    "k INT, tiny TINYINT, big BIGINT, amount DECIMAL(9,2), wide DECIMAL(38,10), ratio DOUBLE, part FLOAT, name STRING, "
    "short VARCHAR(5), code CHAR(4), day DATE, moment TIMESTAMP, ok BOOLEAN, raw BINARY"
)
ROWS = [
    (
        "1, 1, 1000000007, 0.25, 0.1428571428, double('NaN'), 0.125, 'n1', 's1', 'c', DATE'1970-01-02', "
        "TIMESTAMP'2026-01-01 10:00:00.000123', true, X'00FF'"
    ),
    (
        "-2147483648, -128, -9223372036854775808, -9999999.99, -9999999999999999999999999999.9999999999, -0.0, "
        "float('-Infinity'), '', 'ünï', 'ab  ', DATE'0001-01-01', TIMESTAMP'1583-01-01 00:00:00', false, X''"
    ),
    "NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL",
    "3, 3, 3, 3, 3, 3, 3, 'a=b/c', 'x    ', 'dddd', DATE'9999-12-31', TIMESTAMP'9999-12-31 23:59:59.999999', NULL, X'41'",
]
PROPERTIES = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'hiveacid.layout.level'='{}')"


@pytest.fixture
def insert_jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets the table of each INSERT whose rows a job writes."""
    tables: list[str] = []
    original = sort_and_stage.stage_insert

    def stage_insert(target: sort_and_stage.StagingTarget, *arguments: Any, **options: Any) -> Any:
        tables.append(target.table.name.name)
        return original(target, *arguments, **options)

    monkeypatch.setattr(insert, "stage_insert", stage_insert)
    return tables


@pytest.fixture
def compaction_jobs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return a list that gets an entry for each compaction whose rows or events a job writes."""
    calls: list[str] = []
    for name in ("stage_rows_with_ids", "stage_in_read_order", "stage_delete_events"):
        original = getattr(sort_and_stage, name)

        def call(*arguments: Any, name: str = name, original: Any = original, **options: Any) -> Any:
            calls.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(sort_and_stage, name, call)
    return calls


def files(acid: AcidSession, table: str, column: str | None = None) -> dict[str, list[Any]]:
    """Return the rows of each ORC file of a table, in the file's order, by path without the visibility txn id.

    ``column``: the only column to return.
    """
    root = Path(acid.table(table).definition.location)
    found = {}
    for path in sorted(root.rglob("bucket_*")):
        name = str(path.relative_to(root))
        stored = acid.context.env.spark.read.orc(str(path)).collect()
        found[name.partition("_v")[0] + name[name.rfind("/") :]] = [
            str(row[column] if column else row) for row in stored
        ]
    return found


def create(acid: AcidSession, layout: str = "", level: str = "hive4") -> None:
    """Create two equal tables, ``driver`` and ``jobs``. ``layout``: a clause for partitions or buckets."""
    for table in ("driver", "jobs"):
        acid.sql(f"CREATE TABLE {table} ({COLUMNS}) {layout} {PROPERTIES.format(level)}")


def on_both(acid: AcidSession, *statements: str, limits: tuple[str, str] = ("64mb", "0")) -> list[Any]:
    """Run statements on both tables, each with its limit in `LIMIT`; return reports or error names by table."""
    outcomes: list[Any] = []
    for table, limit in zip(("driver", "jobs"), limits, strict=True):
        acid.sql(f"SET {LIMIT} = {limit}")
        outcomes.append([])
        for text in statements:
            try:
                report = acid.sql(text.replace("{t}", table)).collect()
                outcomes[-1].append([tuple(row) for row in report])
            except errors.HiveAcidError as error:
                outcomes[-1].append(type(error).__name__)
    return outcomes


@pytest.mark.sampled(4, "the cases differ in one value each")
@pytest.mark.parametrize(
    ("level", "buckets"), [("hive3", ""), ("hive4", "CLUSTERED BY (k, name) INTO 3 BUCKETS")]
)
def test_listed_rows_of_every_type_are_those_of_a_job(
    acid: AcidSession, insert_jobs: list[str], buckets: str, level: str
) -> None:
    create(acid, buckets, level)
    values = ", ".join(f"({row})" for row in ROWS)
    outcomes = on_both(
        acid,
        f"INSERT INTO {{t}} VALUES {values}",
        "INSERT INTO {t} (name, k) VALUES ('only', 7), (NULL, 8)",
        f"INSERT INTO {{t}} SELECT {ROWS[0]}",
        "INSERT INTO {t} (short) VALUES ('too long a text')",
        "INSERT INTO {t} (k) VALUES ('x')",
        "INSERT INTO {t} (k) SELECT 5 WHERE false",
    )
    assert outcomes[0] == outcomes[1]
    assert set(insert_jobs) == {"jobs"}
    found = files(acid, "driver", "row")
    assert found == files(acid, "jobs", "row")
    assert len(found) >= 4
    for ids in files(acid, "driver", "rowId").values():
        assert ids == [str(number) for number in range(len(ids))]


def test_partitions_of_listed_rows_are_those_of_a_job(acid: AcidSession, insert_jobs: list[str]) -> None:
    create(acid, "PARTITIONED BY (p INT, q STRING)")
    row = ROWS[0]
    outcomes = on_both(
        acid,
        f"INSERT INTO {{t}} VALUES ({row}, 1, 'a=b/c'), ({row}, NULL, NULL), ({ROWS[1]}, 1, ''), ({row}, 1, 'a=b/c')",
        f"INSERT INTO {{t}} PARTITION (p = '01', q) VALUES ({row}, 'ü')",
        f"INSERT INTO {{t}} PARTITION (p = '02', q = 'x') VALUES ({row}), ({ROWS[2]})",
        f"INSERT OVERWRITE TABLE {{t}} PARTITION (p = 1, q) VALUES ({row}, 'ü')",
        f"INSERT OVERWRITE TABLE {{t}} PARTITION (p = 2, q = 'x') SELECT {row} WHERE false",
    )
    assert outcomes[0] == outcomes[1]
    assert insert_jobs == ["jobs"] * 5
    assert files(acid, "driver", "row") == files(acid, "jobs", "row")
    assert acid.sql("SELECT count(*), count(p), count(q) FROM driver").collect() == [(5, 4, 3)]


@pytest.mark.parametrize(
    "values",
    [
        "SELECT {row} FROM range(1)",
        "VALUES ({row}), ({row})",  # more than the limit of this test
        "SELECT 1, 1, 1, 1, 1, 1, 1, '1', '1', '1', DATE'2020-01-01', TIMESTAMP'1960-05-05 05:05:05.5', true, X'41'",
        "SELECT 1, 1, 1, 1, 1, 1, 1, '1', '1', '1', DATE'2020-01-01', TIMESTAMP'1500-05-05 05:05:05', true, X'41'",
    ],
)
def test_other_rows_are_written_by_a_job(
    acid: AcidSession, insert_jobs: list[str], monkeypatch: pytest.MonkeyPatch, values: str
) -> None:
    monkeypatch.setattr(insert, "_MAX_LISTED_ROWS", 1)
    create(acid)
    outcomes = on_both(acid, f"INSERT INTO {{t}} {values.format(row=ROWS[0])}")
    assert outcomes[0] == outcomes[1]
    assert insert_jobs == ["driver", "jobs"]
    assert files(acid, "driver", "row") == files(acid, "jobs", "row")


def test_nested_values_are_written_by_a_job(acid: AcidSession, insert_jobs: list[str]) -> None:
    acid.sql(f"CREATE TABLE t (k INT, list ARRAY<INT>) {PROPERTIES.format('hive4')}")
    acid.sql("INSERT INTO t VALUES (1, array(1, NULL)), (2, NULL)")
    assert insert_jobs == ["t"]
    assert sorted(map(tuple, acid.sql("SELECT * FROM t").collect())) == [(1, [1, None]), (2, None)]


@pytest.fixture
def history(spark: SparkSession) -> list[str]:
    """Return statements that leave inserted, updated, deleted and aborted rows in several deltas."""
    spark.sql(
        "SELECT CAST(id AS INT) k, CAST(id % 9 AS TINYINT) tiny, id * 1000000007 big, CAST(id / 4 AS DECIMAL(9,2)) amount, "
        "CAST(id / 7 AS DECIMAL(38,10)) wide, if(id = 3, double('NaN'), id / 3) ratio, float(id) / 8 part, "
        "if(id % 4 = 0, NULL, concat('n', id % 7)) name, substr(concat('s', id), 1, 5) short, concat('c', id % 3) code, "
        "date_add(DATE'1601-12-31', CAST(id * 30 AS INT)) day, timestamp_seconds(id * 86400 * 200) moment, "
        "if(id % 6 = 0, NULL, id % 2 = 0) ok, CAST(concat('b', id) AS BINARY) raw FROM range(0, 200, 1, 3)"
    ).createOrReplaceTempView("filling")
    return [
        "INSERT INTO {t} SELECT * FROM filling",
        "INSERT INTO {t} SELECT * FROM filling WHERE k < 40",
        "UPDATE {t} SET name = 'new', amount = amount + 1 WHERE k % 5 = 1",
        "DELETE FROM {t} WHERE k % 3 = 0",
        f"INSERT INTO {{t}} VALUES ({ROWS[0]}), ({ROWS[2]})",
    ]


@pytest.mark.sampled(4, "the cases differ in one value each")
@pytest.mark.parametrize(
    ("kind", "level", "buckets"),
    [
        ("minor", "hive3", ""),
        ("minor", "hive4", "CLUSTERED BY (k) INTO 3 BUCKETS"),
        ("major", "hive3", "CLUSTERED BY (k) INTO 3 BUCKETS"),
        ("major", "hive4", ""),
    ],
)
def test_a_compaction_writes_the_files_of_a_job(
    acid: AcidSession, history: list[str], compaction_jobs: list[str], kind: str, level: str, buckets: str
) -> None:
    create(acid, buckets, level)
    outcomes = on_both(acid, *history, limits=SAME)
    assert outcomes[0] == outcomes[1]
    for step in range(2):
        reports = {}
        for table, limit in (("driver", "64mb"), ("jobs", "0")):
            compaction_jobs.clear()
            acid.sql(f"SET {LIMIT} = {limit}")
            (report,) = acid.table(table).compact(kind)
            assert bool(compaction_jobs) is (table == "jobs")
            reports[table] = (report.after.rows, report.after.deletes, report.after.files)
        assert reports["driver"] == reports["jobs"]
        assert files(acid, "driver") == files(acid, "jobs")
        if step == 0:
            more = "DELETE FROM {t} WHERE k % 4 = 0", "UPDATE {t} SET ok = NOT ok WHERE k % 7 = 0"
            on_both(acid, *more, limits=SAME)
    store, tables = acid.context.store, [acid.table(name) for name in ("driver", "jobs")]
    write_ids = store.valid_write_ids(store.valid_txns(), [table.name for table in tables])
    read = [
        sorted(map(str, read_table(Path(table.definition.location), write_ids[table.name].to_string())[""]))
        for table in tables
    ]
    assert read[0] == read[1]


def test_partitions_are_compacted_even_if_one_has_no_row_left(
    acid: AcidSession, compaction_jobs: list[str]
) -> None:
    create(acid, "PARTITIONED BY (p STRING)")
    on_both(
        acid,
        f"INSERT INTO {{t}} VALUES ({ROWS[0]}, 'a/b'), ({ROWS[3]}, NULL), ({ROWS[1]}, 'gone')",
        f"INSERT INTO {{t}} VALUES ({ROWS[1]}, 'a/b')",
        "DELETE FROM {t} WHERE p = 'gone' OR k = 3",
        limits=SAME,
    )
    acid.sql(f"SET {LIMIT} = 64mb")
    before = files(acid, "driver")
    acid.table("driver").compact("major")
    assert compaction_jobs == []
    acid.sql(f"SET {LIMIT} = 0")
    acid.table("jobs").compact("major")
    assert compaction_jobs
    assert before != files(acid, "driver") == files(acid, "jobs")


@pytest.mark.sampled(6, "the cases differ in one value each")
@pytest.mark.parametrize("limit", ["_MAX_BYTES", "_MAX_ROW_BYTES", "_MAX_VALUES"])
def test_larger_locations_are_compacted_by_jobs(
    acid: AcidSession,
    history: list[str],
    compaction_jobs: list[str],
    monkeypatch: pytest.MonkeyPatch,
    limit: str,
) -> None:
    create(acid)
    on_both(acid, *history)
    acid.sql(f"SET {LIMIT} = 64mb")
    before = acid.sql("SELECT ROW__ID, * FROM driver ORDER BY ROW__ID").collect()
    monkeypatch.setattr(stage_without_shuffle, limit, 100)
    acid.table("driver").compact("major")
    assert compaction_jobs
    assert str(acid.sql("SELECT ROW__ID, * FROM driver ORDER BY ROW__ID").collect()) == str(before)


def test_original_files_are_compacted_by_a_job(acid: AcidSession, compaction_jobs: list[str]) -> None:
    acid.sql("CREATE TABLE old (k BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='false')")
    acid.sql("INSERT INTO old SELECT id FROM range(0, 5, 1, 1)")
    acid.sql("ALTER TABLE old SET TBLPROPERTIES ('transactional'='true')")
    acid.sql("DELETE FROM old WHERE k = 2")
    acid.table("old").compact("major")
    assert compaction_jobs
    assert sorted(row[0] for row in acid.sql("SELECT k FROM old").collect()) == [0, 1, 3, 4]


def test_texts_of_other_bytes_do_not_hide_rows_from_arrow(acid: AcidSession, insert_jobs: list[str]) -> None:
    acid.sql(f"CREATE TABLE t (k INT, s STRING) {PROPERTIES.format('hive4')}")
    acid.sql("INSERT INTO t VALUES (1, CAST(X'ff61' AS STRING)), (2, 'b')")
    assert not insert_jobs
    with hiveacid.open(acid.context.warehouse) as warehouse:
        assert warehouse.table("t").to_arrow(columns=["k"], where="s = 'b'").to_pylist() == [{"k": 2}]


@pytest.mark.exhaustive("property/test_orc_splice.py has files with long texts")
def test_long_texts(acid: AcidSession, insert_jobs: list[str], compaction_jobs: list[str]) -> None:
    """Arrow would store each whole text three times in the tail of the file, which then cannot be read."""
    acid.sql(f"CREATE TABLE t (k INT, s STRING, a ARRAY<STRING>) {PROPERTIES.format('hive4')}")
    acid.sql("INSERT INTO t SELECT 1, repeat('x', 17000000), array(repeat('y', 17000000))")
    acid.sql("INSERT INTO t VALUES (3, 'short', NULL)")
    acid.sql("UPDATE t SET k = 2 WHERE k = 1")
    acid.sql("MERGE INTO t USING (SELECT 2 AS k) n ON t.k = n.k WHEN MATCHED THEN UPDATE SET k = 4")
    acid.table("t").compact("major")
    assert not compaction_jobs
    asked = "SELECT k, length(s), length(a[0]) FROM t WHERE s {} ORDER BY k"
    assert acid.sql(asked.format("> 'a'")).collect() == [(3, 5, None), (4, 17_000_000, 17_000_000)]
    assert acid.sql(asked.format("> 'w'")).collect() == [(4, 17_000_000, 17_000_000)]
    assert acid.sql(asked.format("= repeat('x', 17000000)")).collect() == [(4, 17_000_000, 17_000_000)]
    with hiveacid.open(acid.context.warehouse) as warehouse:
        assert warehouse.table("t").to_arrow(columns=["k"], where="s > 'w'").to_pylist() == [{"k": 4}]
    acid.sql(f"CREATE TABLE flat (s STRING) {PROPERTIES.format('hive4')}")
    acid.sql("INSERT INTO flat VALUES (repeat('x', 17000000))")
    assert insert_jobs == ["t", "t"], "nested columns are written by jobs"


@pytest.mark.parametrize("kind", ["minor", "major"])
def test_texts_that_arrow_cannot_cut_are_compacted_by_a_job(
    acid: AcidSession, compaction_jobs: list[str], kind: str
) -> None:
    acid.sql(f"CREATE TABLE t (k INT, code CHAR(4)) {PROPERTIES.format('hive4')}")
    acid.sql("INSERT INTO t VALUES (1, CAST(X'FF41' AS STRING)), (2, 'b')")
    acid.sql("INSERT INTO t VALUES (3, 'c')")
    acid.sql("UPDATE t SET k = 4 WHERE k = 2")
    acid.table("t").compact(kind)
    assert compaction_jobs
    found = acid.sql("SELECT k, hex(CAST(code AS BINARY)) FROM t ORDER BY k").collect()
    assert found == [(1, "FF412020"), (3, "63202020"), (4, "62202020")]


def test_days_that_spark_moves_and_partitions_of_other_bytes_are_inserted_by_a_job(
    acid: AcidSession, insert_jobs: list[str]
) -> None:
    for table in ("driver", "jobs"):
        acid.sql(
            f"CREATE TABLE {table} (k INT, day DATE) PARTITIONED BY (p STRING) {PROPERTIES.format('hive4')}"
        )
    days = ", ".join(
        f"({n}, DATE'{day}', 'a')" for n, day in enumerate(("1582-10-05", "1582-10-14", "-0001-01-01"))
    )
    outcomes = on_both(
        acid, f"INSERT INTO {{t}} VALUES {days}", "INSERT INTO {t} VALUES (9, NULL, CAST(X'FF' AS STRING))"
    )
    assert outcomes[0] == outcomes[1]
    assert insert_jobs == ["driver", "driver", "jobs", "jobs"]
    shown = [
        acid.sql(f"SELECT k, CAST(day AS STRING), hex(p) FROM {table} ORDER BY k").collect()
        for table in ("driver", "jobs")
    ]
    assert shown[0] == shown[1]
    assert [row[1] for row in shown[0]] == [
        "1582-10-15",
        "1582-10-15",
        "-0001-01-01",
    ]  # other bytes are refused
