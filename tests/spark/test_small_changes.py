"""UPDATE and DELETE of few rows, which Arrow reads and this process writes: the same rows as by jobs of Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import hiveacid
from hiveacid import errors
from hiveacid.spark.formats import driver_frames
from hiveacid.spark.session import environment
from hiveacid.spark.write import changes_of_arrow_rows
from hiveacid.table.arrow_read import record_batches
from hiveacid.table.write import (
    arrow_staging,
    driver_reads,
    merge_in_driver,
    update_delete,
)
from support.random_changes import random_statements, require_equal_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

LIMIT = "hiveacid.small.changes.max.bytes"


def outcome(acid: AcidSession, limit: str, statement: str) -> str:
    """Run a statement with a limit; return its counts, or the class of its error."""
    acid.sql(f"SET {LIMIT} = {limit}")
    try:
        return str([tuple(row) for row in acid.sql(statement).collect()])
    except errors.HiveAcidError as error:
        return type(error).__name__


@pytest.mark.sampled(4, "the cases differ in one value each")
@pytest.mark.parametrize(("level", "partitioned"), [("hive3", False), ("hive4", True)])
def test_random_statements_change_the_same_rows_as_jobs(
    acid: AcidSession, level: str, *, partitioned: bool
) -> None:
    random_statements(acid, level, "driver", partitioned=partitioned)


@pytest.fixture
def ansi_off(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", "false")
    yield
    spark.conf.set("spark.sql.ansi.enabled", str(before))


@pytest.fixture
def no_jobs(acid: AcidSession, monkeypatch: pytest.MonkeyPatch) -> AcidSession:
    """Return a connection whose UPDATE and DELETE may not be jobs, with a table of five rows."""

    def refuse(*_: object, **__: object) -> Any:
        raise AssertionError("a job would run")

    monkeypatch.setattr(update_delete, "ChangesByJob", refuse)
    acid.sql(
        "CREATE TABLE t (k INT, v STRING, at TIMESTAMP) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO t SELECT CAST(id AS INT), concat('v', id), NULL FROM range(5)")
    return acid


def rows(acid: AcidSession) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in acid.sql("SELECT k, v FROM t").collect())


def test_simple_statements_are_no_jobs(no_jobs: AcidSession) -> None:
    no_jobs.sql("DELETE FROM t WHERE k = 1 OR v = 'v2' OR v = ''")
    no_jobs.sql("UPDATE t AS x SET v = upper(v), at = TIMESTAMP'2026-01-01 10:00:00' WHERE x.k >= 3")
    assert rows(no_jobs) == [(0, "v0"), (3, "V3"), (4, "V4")]
    shown = no_jobs.sql("SELECT CAST(at AS STRING) FROM t WHERE k = 4").collect()
    assert shown[0][0] == "2026-01-01 10:00:00"
    report = no_jobs.table("t").delete("k = 0")
    assert (report.deleted, report.files) == (1, 1)
    assert no_jobs.table("t").update({"v": "'last'"}).updated == 2
    assert no_jobs.table("t").delete().deleted == 2
    assert rows(no_jobs) == []


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list that gets an entry for each condition that Spark judges on rows that Arrow has read."""
    conditions: list[object] = []
    compute = update_delete.compute_changes

    def compute_changes(env: Any, table: Any, rows: Any, passed: Any, change: Any) -> Any:
        conditions.extend([] if change.where is None else [change.where])
        return compute(env, table, rows, passed, change)

    monkeypatch.setattr(update_delete, "compute_changes", compute_changes)
    return conditions


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("k / 2 = 0", [1, 2, 3, 4]),
        ("k * 2 NOT IN (6, NULL)", [0, 1, 2, 3, 4]),
        ("pmod(k - 4, 3) = 1", [0, 1, 3, 4]),
        ("v LIKE 'v%' AND k > 1", [0, 1]),
        ("v RLIKE '[12]' OR k = 4", [0, 3]),
        ("upper(v) = 'V3'", [0, 1, 2, 4]),
        ("CAST(k AS STRING) = '2'", [0, 1, 3, 4]),
        ("v > concat('v', k) OR k = 2 AND rand() < 2", [0, 1, 3, 4]),
        ("date_add(DATE'2026-01-01', k) >= TIMESTAMP'2026-01-04 00:00:00'", [0, 1, 2]),
        ("k = length(v) AND t.v <=> 'v2'", [0, 1, 3, 4]),
    ],
)
@pytest.mark.parametrize("columnar", [False, True])
def test_spark_judges_the_conditions_that_arrow_may_understand_otherwise(
    no_jobs: AcidSession, judged: list[object], where: str, left: list[int], *, columnar: bool
) -> None:
    """They may be texts or Columns. The same rows are updated and deleted."""
    condition = F.expr(where.replace("t.v", "v")) if columnar else where
    assert no_jobs.table("t").update({"v": "concat(v, '!')"}, where=condition).updated == 5 - len(left)
    assert [k for k, v in rows(no_jobs) if not v.endswith("!")] == left
    no_jobs.table("t").update({"v": "concat('v', k)"})
    assert no_jobs.table("t").delete(condition).deleted == 5 - len(left)
    assert [k for k, _ in rows(no_jobs)] == left
    assert len(judged) == 2


@pytest.mark.parametrize(
    ("where", "left"), [('v = "v1"', 4), ("k = 1e0", 4), ("k = - -2", 4), ("v = 'v\\u0031'", 4)]
)
def test_literals_mean_what_spark_reads(no_jobs: AcidSession, where: str, left: int) -> None:
    no_jobs.sql(f"DELETE FROM t WHERE {where}")
    assert len(rows(no_jobs)) == left


@pytest.mark.usefixtures("ansi_off")  # which puts the mode back
@pytest.mark.parametrize("where", ["k % 0 = 0", "k * 2147483647 > 0"])
def test_an_error_of_a_condition_changes_nothing(no_jobs: AcidSession, where: str) -> None:
    no_jobs.sql("SET spark.sql.ansi.enabled=true")  # not the default of Spark 3.5
    with pytest.raises(errors.DataError):
        no_jobs.sql(f"DELETE FROM t WHERE {where}")
    assert len(rows(no_jobs)) == 5


@pytest.mark.parametrize(
    "where",
    [
        "k = (SELECT 1)",
        "EXISTS (SELECT 1) AND k = 1",
        "at IS NULL AND hour(at) = 1",  # a time could change on the way to Spark
        "input_file_name() <> '' AND k = 1",
        "INPUT__FILE__NAME <> '' AND k = 1",
        "ROW__ID.rowid = 1",
    ],
)
def test_conditions_that_need_a_scan_of_spark_are_jobs(no_jobs: AcidSession, where: str) -> None:
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql(f"DELETE FROM t WHERE {where}")
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql(f"UPDATE t SET v = 'new' WHERE {where}")


@pytest.mark.parametrize(
    "value", ["input_file_name()", "INPUT__FILE__NAME", "(SELECT 'v')", "CAST(at AS STRING)"]
)
def test_values_that_need_a_scan_of_spark_are_jobs(no_jobs: AcidSession, value: str) -> None:
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql(f"UPDATE t SET v = {value} WHERE k = 1")


def test_many_rows_are_not_judged_in_the_driver(
    no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_reads, "_MAX_JUDGED_ROWS", 2)
    no_jobs.sql("DELETE FROM t WHERE k < 2 AND v LIKE '%1'")  # Arrow selects two by the first part
    assert [k for k, _ in rows(no_jobs)] == [0, 2, 3, 4]
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql("DELETE FROM t WHERE v LIKE '%1'")


@pytest.mark.usefixtures("ansi_off")
def test_without_ansi_mode_texts_are_compared_with_columns_of_texts(no_jobs: AcidSession) -> None:
    no_jobs.sql("DELETE FROM t WHERE k = 1 OR v = 'v2'")
    assert rows(no_jobs) == [(0, "v0"), (3, "v3"), (4, "v4")]


def test_names_in_any_case_are_left_to_a_session_that_compares_cases(
    no_jobs: AcidSession, spark: SparkSession
) -> None:
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(AssertionError, match="a job would run"):
            no_jobs.sql("DELETE FROM t WHERE k = 1")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


def test_a_column_of_the_drivers_own_is_no_column(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE t (k INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t VALUES (7)")
    with pytest.raises(errors.NoSuchColumnError):
        acid.sql("UPDATE t SET k = __hiveacid_index")


def test_a_function_that_replaces_pmod_is_called(no_jobs: AcidSession, spark: SparkSession) -> None:
    own = spark.newSession()
    own.udf.register("pmod", lambda _k, _n: -1, "int")
    replaced = own.sql("SELECT pmod(4, 3)").collect() == [(-1,)]  # not since Spark 4.3
    acid = hiveacid.connect(own, warehouse=no_jobs.context.warehouse)
    assert acid.table("t").delete("pmod(k - 4, 3) = -1").deleted == (5 if replaced else 0)
    acid.close()


@pytest.mark.parametrize(("name", "value"), [("_MAX_ROWS", 3), ("max_bytes_in_driver", lambda _: 400)])
@pytest.mark.parametrize(
    "limit", ["64mb", "1kb"]
)  # within the limit, and above it, where rows are counted first
def test_an_update_of_many_rows_is_a_job(
    no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch, name: str, value: object, limit: str
) -> None:
    no_jobs.sql(f"SET {LIMIT} = {limit}")
    monkeypatch.setattr(driver_reads, name, value)
    assert no_jobs.table("t").update({"v": "'few'"}, where="k < 2").updated == 2
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql("UPDATE t SET v = 'many' WHERE k < 4")


def test_an_update_whose_texts_grow_beyond_the_memory_of_the_driver_is_a_job(
    no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A JVM without memory for the new values would never answer."""
    monkeypatch.setattr(changes_of_arrow_rows, "_FEW_ROWS", 3)
    monkeypatch.setattr(driver_frames, "max_bytes_in_driver", lambda _: 10_000)
    assert no_jobs.table("t").update({"v": "repeat(v, 2)"}).updated == 5
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql("UPDATE t SET v = repeat(v, 5000)")


def test_only_texts_that_may_be_long_are_computed_twice(
    no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first time to add up their bytes. An UPDATE of one key, or to a short text, is one query of Spark."""
    queries: list[int] = []
    collect = changes_of_arrow_rows.collect_within_limit

    def noted(env: environment.SparkEnvironment, frame: Any, grown: list[str]) -> Any:
        queries.append(1 + bool(grown))
        return collect(env, frame, grown)

    monkeypatch.setattr(changes_of_arrow_rows, "collect_within_limit", noted)
    no_jobs.sql("INSERT INTO t SELECT CAST(id AS INT), concat('v', id), NULL FROM range(5, 300)")
    for statement in ("v = repeat(v, 2) WHERE k = 7", "v = 'short'", "v = v", "v = upper(v) WHERE k < 60"):
        no_jobs.sql(f"UPDATE t SET {statement}")
    assert queries == [1, 1, 1, 2]
    monkeypatch.setattr(driver_frames, "max_bytes_in_driver", lambda _: 10_000)
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql("UPDATE t SET v = repeat(v, 5000)")
    assert queries == [1, 1, 1, 2, 2]
    assert rows(no_jobs)[7] == (7, "SHORT")


def test_the_heap_of_the_jvm_bounds_what_passes_through_it(spark: SparkSession) -> None:
    env = environment.SparkEnvironment(spark)
    assert driver_frames.max_bytes_in_driver(env) == min(256 << 20, env.driver_heap // 16) > 0
    for heap, limit in ((1 << 30, 64 << 20), (1 << 40, 256 << 20)):
        vars(env)["driver_heap"] = heap
        assert driver_frames.max_bytes_in_driver(env) == limit


@pytest.mark.parametrize("limit", ["64mb", "0"])
def test_a_star_stands_for_the_columns_of_the_table(acid: AcidSession, limit: str) -> None:
    """Neither ROW__ID nor columns of the statement's own are among them."""
    acid.sql(f"SET {LIMIT} = {limit}")
    acid.sql(
        "CREATE TABLE s (k INT, v STRING, at TIMESTAMP) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO s VALUES (1, 'a', NULL), (2, 'b', NULL), (3, 'c', NULL)")
    acid.sql("UPDATE s x SET v = to_json(struct(*)) WHERE k = 1")
    acid.sql("DELETE FROM s WHERE hash(s.*) = hash(k, v, at) AND k = 2")
    acid.sql("UPDATE s SET v = concat_ws('-', k, *) WHERE k * 1 = 3 AND size(array(hash(*))) = 1")
    assert sorted(acid.sql("SELECT k, v FROM s").collect()) == [(1, '{"k":1,"v":"a"}'), (3, "3-3-c")]
    with pytest.raises(errors.StatementError, match="EXCEPT"):
        acid.sql("UPDATE s SET v = to_json(struct(* EXCEPT (k)))")
    source = '(SELECT 1 AS k, \'{"k":1,"v":"a"}\' AS v, CAST(NULL AS TIMESTAMP) AS at UNION ALL SELECT 3, \'new\', NULL)'
    acid.sql(
        f"MERGE INTO s t USING {source} n ON t.k = n.k WHEN MATCHED AND hash(t.*) <> hash(n.*) THEN UPDATE SET v = to_json(struct(n.*)) "
        "WHEN MATCHED THEN DELETE"
    )
    assert acid.sql("SELECT k, v FROM s").collect() == [(3, '{"k":3,"v":"new"}')]
    acid.sql(
        "UPDATE s SET v = to_json(struct(default.s.*)) WHERE size(array(hash(spark_catalog.default.S.*))) = 1"
    )
    assert acid.sql("SELECT get_json_object(v, '$.v') FROM s").collect() == [('{"k":3,"v":"new"}',)]
    acid.sql("INSERT INTO s REPLACE WHERE hash(*) = hash(k, v, at) VALUES (4, 'd', NULL)")
    acid.sql("CREATE DATABASE far")
    acid.sql("CREATE TABLE far.news (k INT, w INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO far.news VALUES (4, 40), (5, 50)")
    acid.sql(
        "MERGE INTO s USING far.news ON s.k = news.k WHEN MATCHED THEN UPDATE SET v = to_json(struct(default.s.*, far.news.*)) "
        "WHEN NOT MATCHED THEN INSERT (k, v) VALUES (far.news.k, to_json(struct(far.news.*)))"
    )
    wanted = [(4, '{"k":4,"v":"d","k":4,"w":40}'), (5, '{"k":5,"w":50}')]
    assert sorted(acid.sql("SELECT k, v FROM s").collect()) == wanted
    assert acid.table("s").count("hash(*) = hash(k, v, at) AND s.k > 4") == 1


def test_a_star_of_a_column_is_refused(acid: AcidSession, spark: SparkSession) -> None:
    """Spark would expand it to ROW__ID and the path of the file, too; one of a struct, or of another frame, has the fields alone."""
    acid.sql(
        "CREATE TABLE s (k INT, v STRING, st STRUCT<a:INT>) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql("INSERT INTO s VALUES (1, 'a', named_struct('a', 7))")
    table, news = acid.table("s"), spark.sql("SELECT 1 AS k, 'new' AS v")
    for star in ("*", "s.*", "default.s.*"):
        with pytest.raises(errors.StatementError, match="pass the expression as SQL text"):
            table.update({"v": F.to_json(F.struct(star))})
        with pytest.raises(errors.StatementError, match="pass the expression as SQL text"):
            table.delete(F.hash(star) == 1)
    with pytest.raises(errors.StatementError, match="pass the expression as SQL text"):
        table.merge(news, "t.k = s.k").when_matched_update({"v": F.to_json(F.struct("s.*"))}).execute()
    table.update({"v": F.to_json(F.struct("st.*"))}, F.expr("k * 1 = 1"))
    assert acid.sql("SELECT v FROM s").collect() == [('{"a":7}',)]
    table.merge(news, "t.k = s.k").when_matched_update({"v": F.to_json(F.struct(news["*"]))}).execute()
    assert acid.sql("SELECT v FROM s").collect() == [('{"k":1,"v":"new"}',)]


def test_members_of_a_subquery_are_no_jobs(no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    no_jobs.sql("DELETE FROM t WHERE k IN (SELECT max(k) FROM t) OR v = 'v0'")
    no_jobs.sql("UPDATE t SET v = 'not' WHERE k NOT IN (SELECT id FROM range(3) WHERE id LIKE '%2%')")
    assert rows(no_jobs) == [(1, "not"), (2, "v2"), (3, "not")]
    monkeypatch.setattr(driver_frames, "_MAX_VALUES", 2)
    left_to_jobs = ["k IN (SELECT id FROM range(3))", "(k, v) IN (SELECT 1, 'v1')"]
    left_to_jobs += ["k IN (SELECT t.k)"] if no_jobs.context.env.version >= (4, 0) else []  # 3.5 refuses it
    for where in left_to_jobs:
        with pytest.raises(AssertionError, match="a job would run"):
            no_jobs.sql(f"DELETE FROM t WHERE {where}")


def test_null_is_in_a_list_without_values_as_spark_says(no_jobs: AcidSession) -> None:
    table, absent = no_jobs.table("t"), ~F.col("v").isin([])
    assert table.update({"v": "NULL"}, where="k < 2").updated == 2
    selected = table.to_df().where(absent).count()  # a setting of Spark, which depends on its version
    assert selected >= 3
    assert table.update({"k": "k"}, where=absent).updated == selected
    assert table.delete(absent).deleted == selected


@pytest.mark.usefixtures("ansi_off")
def test_a_narrower_number_among_members_of_a_subquery(acid: AcidSession) -> None:
    """Without ANSI mode Spark takes 2 ** 32 + 1 for 1."""
    acid.sql("CREATE TABLE t (big BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t VALUES (4294967297L), (1L), (4294967298L)")
    assert acid.table("t").delete("CAST(big AS INT) NOT IN (SELECT 1)").deleted == 1
    assert acid.table("t").delete("CAST(big AS INT) IN (SELECT 1)").deleted == 2


@pytest.mark.parametrize(
    "sought", ["= {}", "IN (SELECT {})", "IN ({}, '" + "', '".join("abcdefghijklmnopqrstu") + "')"]
)
def test_texts_that_are_not_utf8_equal_no_others(acid: AcidSession, sought: str) -> None:
    """Java shows each of them as U+FFFD, and Python has none."""
    acid.sql("CREATE TABLE t (k INT, v STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO t SELECT 1, '\ufffd' UNION ALL SELECT 2, CAST(X'FF' AS STRING)")
    assert acid.table("t").delete("v " + sought.format("CAST(X'FF' AS STRING)")).deleted == 1
    assert [tuple(row) for row in acid.sql("SELECT k, v FROM t").collect()] == [(1, "\ufffd")]


def test_only_files_of_partitions_that_may_match_count(
    no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_jobs.sql(
        "CREATE TABLE parts (k INT) PARTITIONED BY (p INT, q STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    no_jobs.sql(
        "INSERT INTO parts SELECT CAST(id AS INT), CAST(id AS INT), if(id = 5, NULL, 'a') FROM range(6)"
    )
    monkeypatch.setattr(driver_reads, "_MAX_FILES_WITH_LOCAL_MASTER", 2)
    no_jobs.sql("UPDATE parts SET k = 10 WHERE p = 1 OR p = 2 AND k < 3")
    no_jobs.sql("DELETE FROM parts WHERE q IS NULL AND p > 3 OR p = 3")
    for where in ("p < 3", "k = 0"):
        with pytest.raises(AssertionError, match="a job would run"):
            no_jobs.sql(f"DELETE FROM parts WHERE {where}")
    found = no_jobs.sql("SELECT k, p, q FROM parts ORDER BY p").collect()
    assert found == [(0, 0, "a"), (10, 1, "a"), (10, 2, "a"), (4, 4, "a")]


def test_a_variable_is_replaced_as_by_a_job(no_jobs: AcidSession, spark: SparkSession) -> None:
    spark.conf.set("hiveacid.test.text", "v1")
    assert no_jobs.table("t").delete("v = '${hiveacid.test.text}'").deleted == 1
    spark.conf.unset("hiveacid.test.text")


def test_a_column_comes_before_a_function_or_variable_of_its_name(
    acid: AcidSession, spark: SparkSession
) -> None:
    """Values of CHAR and TIMESTAMP are not passed to Spark, which would take the user's name, today, or the variable."""
    has_variables = acid.context.env.version >= (4, 0)
    if has_variables:
        spark.sql("DECLARE OR REPLACE VARIABLE at STRING DEFAULT 'variable'")
    acid.sql(
        "CREATE TABLE n (k INT, user CHAR(2), current_date TIMESTAMP, at TIMESTAMP, v STRING) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    acid.sql(
        "INSERT INTO n VALUES (1, 'me', TIMESTAMP'2001-01-01 00:00:00', TIMESTAMP'2002-02-02 00:00:00', '')"
    )
    for value in ("user", "`USER`", "n.user", "IDENTIFIER('user')", "identifier/**/ -- of\n('user')"):
        acid.sql(f"UPDATE n SET v = concat({value}, '!')")
        assert acid.sql("SELECT v FROM n").collect() == [("me!",)], value
    acid.sql("UPDATE n SET v = concat(CAST(current_date AS DATE), ' ', CAST(at AS DATE)) WHERE k = 1")
    assert acid.sql("SELECT v FROM n").collect() == [("2001-01-01 2002-02-02",)]
    if has_variables:
        spark.sql("DROP TEMPORARY VARIABLE at")


def test_times_and_days_are_compared_in_the_time_zone_of_the_session(
    acid: AcidSession, spark: SparkSession
) -> None:
    """In São Paulo, 2018-11-04 began at 01:00."""
    acid.sql("CREATE TABLE d (day DATE) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    acid.sql("INSERT INTO d VALUES (DATE'2018-11-04')")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "America/Sao_Paulo")
    report = acid.table("d").delete("day = TIMESTAMP'2018-11-04 01:00:00'")
    spark.conf.set("spark.sql.session.timeZone", str(before))
    assert report.deleted == 1


@pytest.mark.parametrize(("value", "text"), [("TIMESTAMP'1582-10-10 00:00:00'", "41"), ("NULL", "ff41")])
def test_times_and_texts_that_arrow_cannot_write_are_as_by_a_job(
    acid: AcidSession, value: str, text: str
) -> None:
    """October 1582 lacks ten days in Spark's files; a text of other bytes than UTF-8 cannot be cut by Arrow."""
    results = []
    for name, limit in (("small", "64mb"), ("jobs", "0")):
        acid.sql(
            f"CREATE TABLE {name} (at TIMESTAMP, short VARCHAR(3)) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )
        acid.sql(f"INSERT INTO {name} SELECT NULL, CAST(X'{text}' AS STRING)")
        results.append(outcome(acid, limit, f"UPDATE {name} SET at = {value}"))
    assert results[0] == results[1]
    require_equal_rows(acid, value)


def test_far_times_beside_an_odd_name(no_jobs: AcidSession) -> None:
    no_jobs.sql(
        "CREATE TABLE far (id INT, `größe` STRING, until TIMESTAMP) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    no_jobs.sql("INSERT INTO far VALUES (1, 'x', TIMESTAMP'9999-12-31 00:00:00'), (2, 'y', NULL)")
    no_jobs.sql("UPDATE far SET id = 3 WHERE id = 1")
    no_jobs.sql("DELETE FROM far WHERE `größe` = 'y'")
    found = no_jobs.sql("SELECT id, `größe`, CAST(until AS STRING) FROM far").collect()
    assert found == [(3, "x", "9999-12-31 00:00:00")]


@pytest.mark.usefixtures("ansi_off")
@pytest.mark.parametrize("where", ["k IN ('01')", "NOT k = '99999999999'", "NOT k < '99999999999'"])
def test_without_ansi_numbers_and_texts_are_compared_as_by_a_job(no_jobs: AcidSession, where: str) -> None:
    """Spark compares them as texts, or with NULL: none of the conditions selects a row."""
    assert no_jobs.sql(f"SELECT * FROM t WHERE {where}").collect() == []
    assert no_jobs.table("t").delete(where).deleted == 0


def test_larger_tables_are_jobs(no_jobs: AcidSession) -> None:
    no_jobs.sql(f"SET {LIMIT} = 1")  # each text counts
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql("DELETE FROM t WHERE v = 'v1'")


def test_many_rows_in_few_bytes_are_jobs(no_jobs: AcidSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_batches, "_MAX_CHANGED_STRIPE", 2)
    with pytest.raises(AssertionError, match="a job would run"):
        no_jobs.sql("DELETE FROM t WHERE k = 1")


def test_a_transaction_changes_the_rows_that_it_wrote(no_jobs: AcidSession) -> None:
    with no_jobs.transaction() as txn:
        txn.sql("INSERT INTO t VALUES (7, 'mine', NULL)")
        assert txn.table("t").update({"v": "concat(v, '!')"}, where="k >= 4").updated == 2
        assert txn.table("t").delete("v = 'mine!' OR k = 0").deleted == 2
    assert rows(no_jobs) == [(1, "v1"), (2, "v2"), (3, "v3"), (4, "v4!")]


def test_a_value_that_does_not_fit_changes_nothing(no_jobs: AcidSession) -> None:
    with pytest.raises(errors.DataError):
        no_jobs.sql("UPDATE t SET k = 3000000000 WHERE k > 2")
    assert len(rows(no_jobs)) == 5


def test_unknown_columns_are_errors_if_no_row_is_selected(acid: AcidSession) -> None:
    acid.sql("CREATE TABLE t (k INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    for statement in (
        "UPDATE t SET k = nothing WHERE k = 1",
        "DELETE FROM t WHERE nothing = 1",
        "DELETE FROM t x WHERE t.k = 1",
    ):
        with pytest.raises(errors.CatalogError):
            acid.sql(statement)


def test_merge_by_partition_columns_changes_the_rows_of_a_job(
    acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each partition is read with the keys of its own source rows; several threads write the files."""
    monkeypatch.setattr(arrow_staging, "FEW_ROWS", 0)
    partitions: list[Any] = []
    in_partition = merge_in_driver.keys_in_partition

    def noted(keys: Any, partition: Any) -> Any:
        partitions.append(partition)
        return in_partition(keys, partition)

    monkeypatch.setattr(merge_in_driver, "keys_in_partition", noted)
    acid.sql(
        "CREATE TEMPORARY VIEW part_news AS SELECT * FROM VALUES (1, 1, 'a'), (2, 2, 'a'), (3, 1, 'b'), (4, NULL, 'a'), "
        "(5, 2, NULL), (6, 9, 'a'), (CAST(NULL AS INT), 1, 'a'), (8, 2, 'x y=%') AS v(k, d, n)"
    )
    found = []
    for name, limit in (("byhand", "64mb"), ("byjob", "0")):
        acid.sql(
            f"CREATE TABLE {name} (k INT, v STRING) PARTITIONED BY (d INT, n STRING) CLUSTERED BY (k) INTO 2 BUCKETS "
            "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
        )
        acid.sql(
            f"INSERT INTO {name} SELECT k, 'old', d, n FROM (SELECT explode(sequence(1, 9)) k) "
            "CROSS JOIN (SELECT * FROM VALUES (1, 'a'), (2, 'a'), (1, 'b'), (NULL, 'a'), (2, NULL), (2, 'x y=%') AS p(d, n))"
        )
        acid.sql(f"SET {LIMIT}={limit}")
        counts = acid.sql(
            f"MERGE INTO {name} t USING part_news s ON t.k = s.k AND t.d = s.d AND t.n = s.n "
            "WHEN MATCHED AND s.k = 3 THEN DELETE WHEN MATCHED THEN UPDATE SET v = 'new' "
            "WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'added', s.d, s.n)"
        ).collect()
        rows = acid.sql(f"SELECT k, v, d, n, INPUT__FILE__NAME LIKE '%delta_2%' FROM {name}").collect()
        found.append((counts, sorted(map(str, rows))))
        acid.sql(f"RESET {LIMIT}")
    assert partitions  # the driver read them
    assert found[0] == found[1]
    assert sum("v='new'" in row for row in found[0][1]) == 3
    assert sum("v='added'" in row for row in found[0][1]) == 4
