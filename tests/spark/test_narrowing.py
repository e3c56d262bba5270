"""A large target is filtered by a MERGE's source before the two are joined; nothing else may change by it."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import MergeCardinalityError
from hiveacid.spark.formats import driver_frames
from hiveacid.spark.session import environment
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write import changes_of_arrow_rows
from hiveacid.spark.write.sort_and_stage import Action
from hiveacid.spark.write.update_delete_merge_rows import (
    MatchKind,
    MergePlan,
    WhenClause,
    can_narrow,
    narrow_source,
)
from hiveacid.table.read import table_snapshot
from hiveacid.table.write import arrow_staging, merge, merge_in_driver

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

CREATE = (
    "CREATE TABLE t (id BIGINT, v STRING, n INT, d DATE, m DECIMAL(9,2)) PARTITIONED BY (p INT) STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true')"
)
FILL = (
    "INSERT INTO t SELECT id, concat('v', id), CAST(id AS INT), date_add(DATE'2026-01-01', CAST(id AS INT)), "
    "id / 4, CAST(id % 4 AS INT) FROM range(200)"
)
UPSERT = (
    "MERGE INTO t USING s ON t.id = s.id AND t.p = s.p WHEN MATCHED AND s.v = 'gone' THEN DELETE "
    "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT (id, v, p) VALUES (s.id, s.v, s.p)"
)


@pytest.fixture(params=["in the driver", "on a cluster", "by a job", "not"])
def narrowed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let every target be filtered in the driver, also as on a cluster, be filtered by a job as a large one, or be joined at once."""
    if request.param == "on a cluster":
        monkeypatch.setattr(environment, "is_local_master", lambda _: False)
    elif request.param != "in the driver":
        monkeypatch.setattr(merge, "target_read", lambda *_: None)
    monkeypatch.setattr(merge, "LARGE", 0 if request.param == "by a job" else 1 << 60)
    return str(request.param)


@pytest.fixture
def scans(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry for each target that a job scans."""
    calls: list[object] = []

    def list_snapshot(*arguments: Any, **options: Any) -> Any:
        calls.append(arguments)
        return table_snapshot.list_snapshot(*arguments, **options)

    monkeypatch.setattr(merge, "list_snapshot", list_snapshot)
    return calls


def rows(acid: AcidSession, query: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in acid.sql(query).collect())


@pytest.mark.exhaustive("another case of the same test stays", cases=("not",))
@pytest.mark.exhaustive("the same MERGE in the driver stays", cases=("by",))
@pytest.mark.usefixtures("narrowed")
def test_the_result_is_the_same(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql(CREATE)
    acid.sql(FILL)
    spark.sql(
        "SELECT id, if(id % 3 = 0, 'gone', 'new') AS v, CAST(id % 4 AS INT) AS p FROM range(190, 210) "
        "UNION ALL SELECT 7L, 'other partition', 0 UNION ALL SELECT NULL, 'no key', 1"
    ).createOrReplaceTempView("s")
    acid.sql(UPSERT)
    kept = {n: f"v{n}" for n in range(190)} | {n: "new" for n in range(190, 200) if n % 3}
    added = [(n, "gone" if n % 3 == 0 else "new", n % 4) for n in range(200, 210)]
    wanted = [(n, v, n % 4) for n, v in kept.items()] + added + [(7, "other partition", 0)]
    assert rows(acid, "SELECT id, v, p FROM t WHERE id IS NOT NULL") == sorted(wanted)
    assert rows(acid, "SELECT v, p FROM t WHERE id IS NULL") == [("no key", 1)]
    with pytest.raises(MergeCardinalityError):
        acid.sql(
            "MERGE INTO t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN DELETE"
        )
    acid.sql("MERGE INTO t USING t AS s ON t.id = s.id AND s.id < 3 WHEN MATCHED THEN UPDATE SET v = s.d")
    assert rows(acid, "SELECT v FROM t WHERE id < 3") == [("2026-01-01",), ("2026-01-02",), ("2026-01-03",)]
    acid.sql("MERGE INTO t USING s ON t.id > s.id + 195 WHEN MATCHED THEN DELETE")
    assert acid.sql("SELECT max(id) FROM t").collect() == [(202,)]
    acid.sql(
        "MERGE INTO t USING s ON false WHEN NOT MATCHED AND s.id = 7 THEN INSERT (id, v) VALUES (-1, s.v)"
    )
    assert rows(acid, "SELECT id, v, p FROM t WHERE id < 0") == [(-1, "other partition", None)]
    before = acid.sql("SELECT count(*) FROM t").collect()
    acid.sql("MERGE INTO t USING (SELECT * FROM s WHERE false) s ON t.id = s.id WHEN MATCHED THEN DELETE")
    assert acid.sql("SELECT count(*) FROM t").collect() == before


@pytest.mark.exhaustive("another case of the same test stays", cases=("not",))
@pytest.mark.exhaustive("the same MERGE in the driver stays", cases=("by",))
@pytest.mark.usefixtures("narrowed")
def test_a_source_that_changes_is_read_once(acid: AcidSession, spark: SparkSession) -> None:
    """Computed twice it would be two sources: a row of the second could be inserted beside its own key."""
    acid.sql(CREATE)
    acid.sql(FILL)
    for _ in range(3):
        spark.sql(
            "SELECT CAST(rand() * 400 AS BIGINT) AS id FROM range(60)"
        ).distinct().createOrReplaceTempView("s")
        acid.sql(
            "MERGE INTO t USING (SELECT DISTINCT id FROM s) s ON t.id = s.id "
            "WHEN MATCHED THEN UPDATE SET v = 'met' WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, 'new')"
        )
    assert rows(acid, "SELECT id FROM t GROUP BY id HAVING count(*) > 1") == []
    assert acid.sql("SELECT count(*) FROM t WHERE v = 'new'").first() != (0,)


SET_ALL = "WHEN MATCHED THEN UPDATE SET v = s.v, n = 0, d = NULL, m = s.m + t.m, at = NULL, id = 1"


@pytest.mark.parametrize(
    ("on", "clauses", "scanned"),
    [
        ("t.id = s.id", SET_ALL, False),
        (
            "t.id = s.id AND t.p = s.p AND t.n < 300",
            "WHEN MATCHED AND d > DATE'2026-01-01' THEN DELETE",
            False,
        ),
        (
            "s.v = t.v",
            "WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT (id, v) VALUES (s.id, s.v)",
            False,
        ),
        ("t.m = s.m", SET_ALL, False),
        # a kept or compared time could change on the way to Spark
        ("t.id = s.id", "WHEN MATCHED THEN UPDATE SET v = s.v", True),
        ("t.id = s.id", "WHEN MATCHED AND t.at IS NULL THEN DELETE", True),
        ("t.id = s.id + 1", "WHEN MATCHED THEN DELETE", True),  # no keys
        ("t.id = s.n", "WHEN MATCHED THEN DELETE", True),  # of another type
        ("t.id = s.id", "WHEN MATCHED THEN DELETE WHEN NOT MATCHED BY SOURCE THEN DELETE", True),
        ("t.id = s.id", "WHEN MATCHED AND t.ROW__ID IS NOT NULL THEN DELETE", True),
        ("t.id = s.id", "WHEN MATCHED AND s.id > (SELECT 1) THEN DELETE", True),
    ],
)
def test_which_targets_a_job_scans(
    acid: AcidSession,
    spark: SparkSession,
    scans: list[object],
    on: str,
    clauses: str,
    *,
    scanned: bool,
) -> None:
    acid.sql(CREATE.replace("d DATE", "d DATE, at TIMESTAMP"))
    acid.sql(FILL.replace("id / 4", "NULL, id / 4"))
    spark.sql(
        "SELECT id, concat('v', id) v, CAST(id AS INT) n, CAST(id % 4 AS INT) p, CAST(id / 4 AS DECIMAL(9,2)) m "
        "FROM range(195, 205)"
    ).createOrReplaceTempView("s")
    acid.sql(f"MERGE INTO t USING s ON {on} {clauses}")
    assert bool(scans) is scanned


def test_on_a_cluster_the_driver_keeps_the_source(
    acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, scans: list[object]
) -> None:
    monkeypatch.setattr(environment, "is_local_master", lambda _: False)
    for module in (merge, merge_in_driver):
        monkeypatch.setattr(module, "computed_once", lambda _: pytest.fail("a checkpoint, lost"))
    acid.sql(CREATE)
    acid.sql(FILL)
    assert not acid.context.env.local
    table, source = (
        acid.table("t"),
        spark.range(195, 205).selectExpr("id AS k", "concat('s', id) AS w", "rand() AS r"),
    )
    merged = (
        table.merge(source, on="t.id = s.k")
        .when_matched_update({"v": "s.w"})
        .when_not_matched_insert({"id": "s.k", "v": "s.w", "m": "-1"})
        .execute()
    )
    assert (merged.updated, merged.inserted, len(scans)) == (5, 5, 0)
    assert rows(acid, "SELECT id, v FROM t WHERE id > 193") == [
        (194, "v194"),
        *((n, f"s{n}") for n in range(195, 205)),
    ]
    times = source.selectExpr("k", "timestamp_seconds(k) AS w")  # Arrow has no way there and back for them
    report = table.merge(times, on="t.id = s.k").when_matched_update({"v": "'at'"}).execute()
    assert (report.updated, len(scans)) == (10, 1)


@pytest.mark.parametrize("case", ["wider than Spark's estimate", "lost with its executor"])
def test_on_a_cluster_a_job_takes_a_source_that_cannot_come_to_the_driver(
    acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, scans: list[object], case: str
) -> None:
    monkeypatch.setattr(environment, "is_local_master", lambda _: False)
    measure = driver_frames.computed_bytes

    def lose(env: SparkEnvironment, frame: DataFrame) -> int:
        size = measure(env, frame)
        frame._jdf.queryExecution().analyzed().rdd().unpersist(True)
        return size

    if case == "lost with its executor":
        monkeypatch.setattr(driver_frames, "computed_bytes", lose)
    else:
        monkeypatch.setattr(driver_frames, "max_bytes_in_driver", lambda _: 500_000)
        monkeypatch.setattr(driver_frames, "collect_as_arrow", lambda _: pytest.fail("these are 1 MB"))
    acid.sql(CREATE)
    acid.sql(FILL)
    source = spark.range(195, 205).selectExpr("id AS k", "repeat('x', 100000) AS w")
    merged = (
        acid.table("t").merge(source, on="t.id = s.k").when_matched_update({"v": "left(s.w, 3)"}).execute()
    )
    assert (merged.updated, len(scans)) == (5, 1)
    assert rows(acid, "SELECT id, v FROM t WHERE id > 193") == [
        (194, "v194"),
        *((n, "xxx") for n in range(195, 200)),
    ]


def test_large_sources_and_many_matches_are_left_to_jobs(
    acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, scans: list[object]
) -> None:
    acid.sql("CREATE TABLE t (id BIGINT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t SELECT id % 50, 'old' FROM range(100)")
    monkeypatch.setattr(merge_in_driver, "_MAX_ROWS", 5)
    for keys, scanned in ((spark.range(2), 0), (spark.range(4), 1), (spark.range(6), 1)):
        report = acid.table("t").merge(keys, on="t.id = s.id").when_matched_update({"v": "'new'"}).execute()
        assert (report.updated, len(scans)) == (2 * keys.count(), scanned)
        scans.clear()
    monkeypatch.setattr(merge_in_driver, "_MAX_SOURCE_BYTES", 15)
    acid.table("t").merge(spark.range(2), on="t.id = s.id").when_matched_delete().execute()
    assert len(scans) == 1


def test_what_is_known_of_the_target(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql(CREATE)
    acid.sql(FILL)

    def where(on: str, source: str) -> str | None:
        clauses = [WhenClause(MatchKind.MATCHED, Action.DELETE)]
        plan = MergePlan(SparkEnvironment(spark), acid.table("t").definition, on, clauses, "t", "s")
        return narrow_source(plan, acid.table("t").to_df(), spark.sql(source)).where

    both = "SELECT id, CAST(id AS INT) AS n, concat('k', id) AS v, id % 3 AS p FROM range(3, 6)"
    assert where("t.id = s.id", both) == "`id` BETWEEN 3L AND 5L"
    assert where("s.n = t.n AND t.v = s.v AND t.m > 1", both) in {
        "`n` BETWEEN 3 AND 5 AND `v` BETWEEN 'k3' AND 'k5'",
        "`v` BETWEEN 'k3' AND 'k5' AND `n` BETWEEN 3 AND 5",
    }
    assert (
        where("t.d = s.d", "SELECT DATE'2026-02-01' AS d")
        == "`d` BETWEEN DATE'2026-02-01' AND DATE'2026-02-01'"
    )
    assert where("t.m = s.m", "SELECT CAST(-1.5 AS DECIMAL(9,2)) AS m") == "`m` BETWEEN -1.50BD AND -1.50BD"
    assert where("t.id <=> s.id", both) == "(`id` BETWEEN 3L AND 5L OR `id` IS NULL)"
    for on, source in (
        ("t.id = s.id OR t.n = s.n", both),
        ("t.n = s.id", both),  # of another type
        ("t.id = s.id", "SELECT CAST(NULL AS BIGINT) AS id"),
        ("t.v = s.v", "SELECT 'it''s' AS v"),
        ("t.id = t.n", both),
        ("true", both),
    ):
        assert where(on, source) is None, on


@pytest.mark.exhaustive("another case of the same test stays", cases=("not",))
@pytest.mark.usefixtures("narrowed")
def test_keys_with_variables_find_their_rows(acid: AcidSession, spark: SparkSession) -> None:
    """Spark replaces ``${env:HOME}`` in the text of a condition."""
    acid.sql("CREATE TABLE t (k STRING, n INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    source = spark.createDataFrame([("${env:HOME}", 1)], "k STRING, n INT")
    for _ in range(2):
        upsert = acid.table("t").merge(source, on="t.k = s.k")
        upsert.when_matched_update({"n": "t.n + s.n"}).when_not_matched_insert().execute()
    assert acid.table("t").to_df().collect() == [("${env:HOME}", 2)]


def test_what_is_not_narrowed(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql(CREATE)
    source: DataFrame = spark.range(3)
    table = acid.table("t").definition
    by_text = MergePlan(
        SparkEnvironment(spark),
        table,
        "t.id = s.id",
        [WhenClause(MatchKind.MATCHED, Action.DELETE, "s.id > 1")],
        "t",
        "s",
    )
    assert can_narrow(by_text)
    for on, clause in (
        (source["id"] == Decimal(3), WhenClause(MatchKind.MATCHED, Action.DELETE)),
        ("t.id = s.id", WhenClause(MatchKind.MATCHED, Action.DELETE, source["id"] > 1)),
        ("t.id = s.id", WhenClause(MatchKind.SOURCE_ONLY, Action.INSERT, values={"id": source["id"]})),
        ("t.id = s.id", WhenClause(MatchKind.TARGET_ONLY, Action.DELETE)),
    ):
        assert not can_narrow(MergePlan(SparkEnvironment(spark), table, on, [clause], "t", "s"))


def test_columns_that_every_update_sets_are_not_read(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql(CREATE)
    acid.sql(FILL)
    source = spark.sql("SELECT 7L AS id, 'new' AS v, 3 AS n, DATE'2026-01-01' AS d")
    sets = {"v": "s.v", "n": "s.n", "d": "s.d"}

    def read(*clauses: WhenClause) -> set[str]:
        plan = MergePlan(
            SparkEnvironment(spark), acid.table("t").definition, "t.id = s.id", clauses, "t", "s"
        )
        frame = plan.changed_rows(acid.table("t").scan(row_ids=True).to_df(), source)
        optimised = str(frame._jdf.queryExecution().optimizedPlan().toString())
        return set(re.findall(r"row#\d+\.(\w+)", optimised)) - {"__hiveacid_absent"}

    assert read(WhenClause(MatchKind.MATCHED, Action.UPDATE, values={**sets, "m": "1.0"})) == {"id"}
    assert read(WhenClause(MatchKind.MATCHED, Action.UPDATE, values=sets)) == {"id", "m"}
    assert read(
        WhenClause(MatchKind.MATCHED, Action.UPDATE, "s.n = 1", {**sets, "m": "1.0"}),
        WhenClause(MatchKind.MATCHED, Action.UPDATE, values={"m": "2.0"}),
    ) == {"id", "v", "n", "d"}


@pytest.mark.exhaustive("the same MERGE in the driver stays", cases=("by", "not"))
@pytest.mark.usefixtures("narrowed")
def test_names_of_columns_may_have_capitals(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql(CREATE)
    acid.sql(FILL)
    spark.range(3).selectExpr("id AS Id").createOrReplaceTempView("s")
    acid.sql(
        "MERGE INTO t USING s ON T.ID = S.ID AND t.`P` = 1 WHEN MATCHED THEN UPDATE SET V = concat(T.V, s.ID)"
    )
    assert rows(acid, "SELECT id, v FROM t WHERE length(v) > 2 AND id < 5") == [(1, "v11")]


@pytest.mark.usefixtures("narrowed")
def test_names_of_columns_may_be_texts_and_variables(acid: AcidSession, spark: SparkSession) -> None:
    acid.sql(CREATE)
    acid.sql(FILL)
    spark.conf.set("hiveacid.test.column", "n")
    condition = "IDENTIFIER('t.v') = 'v7' AND t.${hiveacid.test.column} = 7"
    source = spark.range(10).selectExpr("id")
    report = acid.table("t").merge(source, "t.id = s.id").when_matched_delete(condition).execute()
    spark.conf.unset("hiveacid.test.column")
    assert (report.deleted, rows(acid, "SELECT id FROM t WHERE id = 7")) == (1, [])


@pytest.fixture
def job_writes(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry for each MERGE whose changed rows a job writes."""
    calls: list[object] = []
    by_job = merge.ChangesByJob.stage

    def stage(*staged: Any) -> Any:
        calls.append(staged)
        return by_job(*staged)

    monkeypatch.setattr(merge.ChangesByJob, "stage", stage)
    return calls


VALUES = (
    "SELECT CAST(id AS BIGINT) k, concat('v', id, 'é') v, CAST(id AS VARCHAR(3)) w, CAST(id AS CHAR(4)) c, "
    "CAST(id AS DECIMAL(9,2)) / 4 m, DATE'1969-12-30' + CAST(id AS INT) d, id % 3 = 0 b, id / 7D f, "
    "TIMESTAMP'2026-03-29 01:59:59.5' + make_interval(0, 0, 0, 0, CAST(id AS INT)) at, CAST('x' AS BINARY) y, "
    "nullif(CAST(id % 4 AS INT), 3) p"
)
COLUMNS = "k BIGINT, v STRING, w VARCHAR(3), c CHAR(4), m DECIMAL(9,2), d DATE, b BOOLEAN, f DOUBLE, at TIMESTAMP, y BINARY"
SET = ", ".join(f"{name} = s.{name}" for name in ("v", "w", "c", "m", "d", "b", "f", "at", "y"))


@pytest.mark.sampled(6, "the cases differ in one value each")
@pytest.mark.parametrize("level", ["hive3", "hive4"])
@pytest.mark.parametrize("layout", ["", "PARTITIONED BY (p INT)", "CLUSTERED BY (k) INTO 3 BUCKETS", "both"])
def test_the_driver_writes_the_rows_of_a_job(
    acid: AcidSession, spark: SparkSession, job_writes: list[object], layout: str, level: str
) -> None:
    """Deleted, updated and inserted rows, NULLs, new partitions and the NULL partition, buckets, and no change at all."""
    by = "PARTITIONED BY (p INT) CLUSTERED BY (k) INTO 3 BUCKETS" if layout == "both" else layout
    columns = COLUMNS if "PARTITIONED" in by else f"{COLUMNS}, p INT"
    spark.sql(f"{VALUES} FROM range(300)").createOrReplaceTempView("old")
    spark.sql(
        f"{VALUES} FROM (SELECT if(id % 7 = 0, NULL, 200 + id * 2) id FROM range(120))"
    ).createOrReplaceTempView("s")
    written, outcome = [], []
    for table, limit in (("t", "64mb"), ("u", "0")):
        acid.sql(
            f"CREATE TABLE {table} ({columns}) {by} STORED AS ORC "
            f"TBLPROPERTIES ('transactional'='true', 'hiveacid.layout.level'='{level}')"
        )
        acid.sql(f"INSERT INTO {table} SELECT * FROM old")
        acid.sql(f"SET hiveacid.small.changes.max.bytes={limit}")
        for source in ("s", "(SELECT * FROM s WHERE k < 0)"):
            outcome += acid.sql(
                f"MERGE INTO {table} t USING {source} s ON t.k = s.k WHEN MATCHED AND s.k % 6 = 0 THEN DELETE "
                f"WHEN MATCHED AND s.k % 6 < 4 THEN UPDATE SET {SET} "
                "WHEN NOT MATCHED THEN INSERT *"
            ).collect()
            written.append(len(job_writes))
    assert written == [0, 0, 1, 2]
    assert outcome[:2] == outcome[2:]
    assert rows(acid, "SELECT * FROM t EXCEPT ALL SELECT * FROM u") == []
    assert rows(acid, "SELECT count(*) FROM t") == rows(acid, "SELECT count(*) FROM u") != [(300,)]
    assert rows(acid, "SELECT max(n) FROM (SELECT count(*) n FROM t GROUP BY p, ROW__ID)") == [(1,)]


@pytest.mark.parametrize(
    ("source", "by_job"),
    [
        ("SELECT id k, 'new' v, TIMESTAMP'1970-01-01 00:00:00' at FROM range(3)", False),
        ("SELECT nullif(id, id % 2) k, 'new' v, NULL at FROM range(3)", False),
        ("SELECT 5L k, 'new' v, NULL at FROM range(1) UNION ALL SELECT id, 'old', NULL FROM range(6)", True),
        ("SELECT id k, 'new' v, TIMESTAMP'1969-12-31 23:59:58.5' at FROM range(3)", True),
        ("SELECT id k, 'new' v, TIMESTAMP'1582-10-04 00:00:00' at FROM range(3)", True),
        ("SELECT id k, CAST(X'C328' AS STRING) v, NULL at FROM range(3)", True),
    ],
)
def test_which_changed_rows_a_job_writes(
    acid: AcidSession, job_writes: list[object], source: str, *, by_job: bool
) -> None:
    """Times and texts that Arrow would write in another way, and keys that could match a row twice."""
    acid.sql(
        "CREATE TABLE t (k BIGINT, v VARCHAR(9), at TIMESTAMP) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO t SELECT id, 'old', NULL FROM range(5)")
    acid.sql(
        f"MERGE INTO t USING ({source}) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET v = s.v, at = s.at "
        "WHEN NOT MATCHED THEN INSERT *"
    )
    assert bool(job_writes) is by_job
    assert rows(acid, "SELECT count(*) FROM t WHERE k < 5") == [(5,)]


def test_large_sources_and_many_files_are_written_by_jobs(
    acid: AcidSession, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, job_writes: list[object]
) -> None:
    acid.sql(CREATE)
    acid.sql(FILL)
    spark.sql("SELECT id, 'new' v, CAST(id % 4 AS INT) p FROM range(0, 8)").createOrReplaceTempView("s")
    longer = "repeat(concat(left(t.v, 0), s.v), 5000)"  # of both sides: computed behind the join
    for module, name, limit in (
        (arrow_staging, "_MAX_FILES", 3),
        (merge_in_driver, "max_bytes_in_driver", lambda _: 1),
        (driver_frames, "max_bytes_in_driver", lambda _: 20_000),
    ):
        acid.sql("INSERT OVERWRITE t SELECT id, v, 0, NULL, NULL, p FROM s")
        acid.sql(UPSERT)
        assert job_writes == []
        with monkeypatch.context() as patched:
            patched.setattr(module, name, limit)
            patched.setattr(changes_of_arrow_rows, "_FEW_ROWS", 7)
            acid.sql(UPSERT.replace("s.v = 'gone'", "s.id = 2").replace("v = s.v", f"v = {longer}"))
        assert len(job_writes) == 1
        assert rows(acid, "SELECT id, length(v) FROM t WHERE id < 4") == [(0, 15000), (1, 15000), (3, 15000)]
        job_writes.clear()
