"""Frames, plans and warehouses of other sessions than the connection's, and settings that change after a plan was made."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

import hiveacid
from hiveacid.core.schema.bucket_hash import bucket_number
from hiveacid.core.schema.types import parse_type
from hiveacid.errors import StatementError, UnsupportedFeatureError
from hiveacid.ports.transactions import Client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
NESTED = "spark.sql.optimizer.nestedPredicatePushdown.supportedFileSources"
ZONE = "spark.sql.session.timeZone"


@pytest.fixture
def unchanged(spark: SparkSession) -> Iterator[SparkSession]:
    """Let a test change settings of the session."""
    before = {key: spark.conf.get(key) for key in (NESTED, ZONE)}
    yield spark
    for key, value in before.items():
        spark.conf.set(key, value)


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def pushed_filters(frame: DataFrame) -> str:
    plan: Any = frame._jdf.queryExecution().executedPlan()
    return str(plan.toString()).partition("PushedFilters:")[2].partition("]")[0]


def fill_row_table(run: Any) -> None:
    """Make the ORC reader skip all rows if a pushed ``row.id`` means the field ``id`` of the column ``row``."""
    run(f"CREATE TABLE rr (id INT, `row` STRUCT<id: INT, x: INT>, v STRING) {ACID}")
    run("INSERT INTO rr SELECT id, named_struct('id', 1000000 + id, 'x', 1), 'v' FROM range(1000)")
    run("DELETE FROM rr WHERE id = 78")


def test_a_column_called_row_whatever_is_set_when_the_plan_runs(
    unchanged: SparkSession, acid: AcidSession
) -> None:
    fill_row_table(acid.sql)
    wanted = [(77, 1000077, "v")]
    query = "SELECT id, `row`.id, v FROM rr WHERE id = 77 AND `row`.x = 1 AND v = 'v'"
    frame = acid.sql(query)
    unchanged.conf.set(NESTED, "parquet,orc")
    assert rows(frame) == wanted
    assert "row." not in pushed_filters(frame)
    assert rows(acid.sql(query)) == wanted
    assert unchanged.conf.get(NESTED) == "parquet"  # so that the search argument of the scan counts
    later = acid.table("rr").to_df()
    unchanged.conf.set(NESTED, "orc, parquet")
    assert rows(later.where("id = 77").select("id", "row.id", "v")) == wanted
    assert rows(later.where("id IN (77, 78)").select("id", "row.id")) == [(77, 1000077)]
    joined = later.join(unchanged.range(77, 79), "id").select("id", F.col("row.id"), "v")
    assert rows(joined) == wanted


@pytest.mark.usefixtures("unchanged")
def test_a_column_called_row_in_other_native_sessions(native: NativeSession) -> None:
    fill_row_table(native.sql)
    wanted, query = [(77, 1000077)], "SELECT id, `row`.id FROM rr WHERE id = 77"
    for session in (native.newSession(), native.for_client(Client("host", "user", "test"))):
        made_before = session.table("rr").where("id = 77").select("id", "row.id")
        session.conf.set(NESTED, "parquet,orc")  # Spark's default, where `configure` did not start Spark
        assert rows(made_before) == wanted
        assert rows(session.sql(query)) == wanted
    made_before = native.sql(query)
    native.sql("RESET")
    native.conf.set(NESTED, "parquet,orc")
    assert rows(made_before) == rows(native.sql(query)) == wanted


def test_rows_of_another_session_are_written_with_the_settings_of_the_connection(
    spark: SparkSession, acid: AcidSession, tmp_path: Path
) -> None:
    """Hive 3.1 reads decimals as bytes and legacy lists only (``flat_files``)."""
    columns = "id BIGINT, d DECIMAL(9,2), ts TIMESTAMP, l ARRAY<INT>"
    values = ["id", "CAST(id AS DECIMAL(9,2)) d", "TIMESTAMP'1900-01-01 00:00:00' ts", "array(1) l"]
    for name in ("a", "b", "c"):
        acid.sql(f"CREATE TABLE {name} ({columns}) STORED AS PARQUET {INSERT_ONLY}")
    acid.table("a").insert(spark.range(3).selectExpr(*values))
    acid.table("b").insert(spark.newSession().range(3).selectExpr(*values))
    (tmp_path / "in").mkdir()
    spark.range(3).coalesce(1).write.json(str(tmp_path / "in" / "one"))
    stream = spark.readStream.schema("id BIGINT").json(str(tmp_path / "in" / "*")).selectExpr(*values)
    query = stream.writeStream.foreachBatch(acid.table("c").stream_writer("q"))
    query.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(
        availableNow=True
    ).start().awaitTermination()
    for name in ("a", "b", "c"):
        schemas = {str(pq.ParquetFile(path).schema) for path in data_files(acid, name)}
        assert schemas
        for schema in schemas:
            for part in (" fixed_len_byte_array(4) ", " int96 ", "repeated int32 field_id=-1 array"):
                assert part in schema
    assert (
        rows(acid.sql("SELECT * FROM b"))
        == rows(acid.sql("SELECT * FROM c"))
        == rows(acid.sql("SELECT * FROM a"))
    )


def data_files(acid: AcidSession, name: str) -> list[Path]:
    files = Path(acid.table(name).definition.location).rglob("*0000*")
    return sorted(file for file in files if file.is_file() and not file.name.startswith("."))


def test_times_of_another_session_are_instants_on_every_path(
    unchanged: SparkSession, acid: AcidSession
) -> None:
    unchanged.conf.set(ZONE, "UTC")
    other = unchanged.newSession()
    other.conf.set(ZONE, "Asia/Tokyo")
    listed = other.sql("SELECT * FROM VALUES (1, TIMESTAMP'2020-01-01 12:00:00') v(k, ts)")
    computed = other.range(1, 2).selectExpr("CAST(id AS INT) k", "TIMESTAMP'2020-01-01 12:00:00' ts")
    acid.sql(f"CREATE TABLE t (k INT, ts TIMESTAMP) PARTITIONED BY (p TIMESTAMP) {ACID}")
    acid.sql(
        f"CREATE TABLE b (k INT, ts TIMESTAMP) CLUSTERED BY (ts) INTO 8 BUCKETS STORED AS TEXTFILE {INSERT_ONLY}"
    )
    shown = "2020-01-01 03:00:00"  # in UTC, the zone of the connection's session
    for small in ("0", "100mb"):
        acid.set("hiveacid.small.changes.max.bytes", small)
        for frame in (listed, computed):
            acid.sql("TRUNCATE TABLE t")
            acid.table("t").insert(frame.withColumn("p", F.col("ts")))
            acid.table("b").insert(frame)
            query = "SELECT CAST(ts AS STRING), CAST(p AS STRING) FROM t"
            assert rows(acid.sql(query)) == [(shown, shown)]
            acid.table("t").merge(
                frame.selectExpr("k", "ts + INTERVAL 1 HOUR ts"), "t.k = s.k"
            ).when_matched_update({"ts": "s.ts"}).execute()
            assert rows(acid.sql(query)) == [("2020-01-01 04:00:00", shown)]
    assert {row[0] for row in acid.sql("SELECT CAST(ts AS STRING) FROM b").collect()} == {shown}
    assert misplaced(acid, "b") == 0


def misplaced(acid: AcidSession, name: str) -> int:
    """Return how many rows of a table with 8 buckets by ``ts`` lie in the file of another bucket."""
    found = acid.sql(f"SELECT CAST(ts AS STRING), INPUT__FILE__NAME FROM {name}").collect()
    assert found
    return sum(
        bucket_number([dt.datetime.fromisoformat(text)], [parse_type("timestamp")], 8, 2)
        != int(Path(file).name.partition("_")[0])
        for text, file in found
    )


def test_compaction_keeps_times_and_buckets_of_text_files(unchanged: SparkSession, acid: AcidSession) -> None:
    """Its session's zone is not that of the JVM, and skips an hour of the table."""
    unchanged.conf.set(ZONE, "Asia/Tokyo")
    acid.sql(
        f"CREATE TABLE b (k INT, ts TIMESTAMP) CLUSTERED BY (ts) INTO 8 BUCKETS STORED AS TEXTFILE {INSERT_ONLY}"
    )
    for first in (0, 20):
        acid.table("b").insert(
            unchanged.range(first, first + 20).selectExpr(
                "CAST(id AS INT) k",
                "TIMESTAMP'2020-03-08 02:30:00' + make_dt_interval(0, 37 * CAST(id AS INT)) ts",
            )
        )
    before = rows(acid.sql("SELECT k, CAST(ts AS STRING) FROM b"))
    assert misplaced(acid, "b") == 0
    unchanged.conf.set(ZONE, "America/New_York")
    acid.table("b").compact("major")
    unchanged.conf.set(ZONE, "Asia/Tokyo")
    assert rows(acid.sql("SELECT k, CAST(ts AS STRING) FROM b")) == before
    assert misplaced(acid, "b") == 0


def test_settings_that_would_lose_rows(spark: SparkSession, acid: AcidSession) -> None:
    """What the plan or a check of each scan and write decides, whatever the session has."""
    columns = "id INT, c CHAR(4), ts TIMESTAMP"
    values = ["CAST(id AS INT) id", "'ab' c", "TIMESTAMP'1500-01-01 12:00:00' ts"]
    kinds = {"t": ACID, "pq": f"STORED AS PARQUET {INSERT_ONLY}", "txt": f"STORED AS TEXTFILE {INSERT_ONLY}"}
    for name, kind in kinds.items():
        acid.sql(f"CREATE TABLE {name} ({columns}) {kind}")
    number = 0
    for key, value in (
        ("spark.sql.files.maxRecordsPerFile", "1"),
        ("spark.sql.sources.useV1SourceList", ""),
        ("spark.sql.parquet.datetimeRebaseModeInWrite", "LEGACY"),
        ("spark.sql.files.ignoreMissingFiles", "true"),
    ):
        spark.conf.set(key, value)
        try:
            for name in kinds:
                acid.table(name).insert(spark.range(number, number + 2).selectExpr(*values))
                found = acid.sql(f"SELECT id, CAST(ts AS STRING) FROM {name} WHERE c = 'ab'")
                assert rows(found) == [(n, "1500-01-01 12:00:00") for n in range(number + 2)], (key, name)
        finally:
            spark.conf.unset(key)
        number += 2
    frames = {name: acid.table(name).to_df() for name in kinds}
    spark.conf.set("spark.sql.files.ignoreMissingFiles", "true")
    try:
        for name, frame in frames.items():
            missing = data_files(acid, name)[0]
            missing.rename(missing.with_name(".away"))
            with pytest.raises(Exception, match=r"(?i)not.exist|missing|no such file"):
                frame.collect()
            missing.with_name(".away").rename(missing)
    finally:
        spark.conf.unset("spark.sql.files.ignoreMissingFiles")


def test_char_columns_where_spark_pads_no_literals(spark: SparkSession, acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (id INT, c CHAR(4)) {ACID}")
    acid.sql(f"CREATE TABLE other (id INT, v VARCHAR(4)) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'ab')")
    acid.sql("INSERT INTO other VALUES (1, 'ab')")
    key = "spark.sql.legacy.charVarcharAsString"
    spark.conf.set(key, "true")
    try:
        for statement in (
            "SELECT * FROM t WHERE c = 'ab'",
            "DELETE FROM t WHERE c = 'ab'",
            "UPDATE t SET id = 2",
        ):
            with pytest.raises(UnsupportedFeatureError, match=f"SET {key}=false"):
                acid.sql(statement)
        assert rows(acid.sql("SELECT * FROM other WHERE v = 'ab'")) == [(1, "ab")]
    finally:
        spark.conf.unset(key)
    assert rows(acid.sql("SELECT id FROM t WHERE c = 'ab'")) == [(1,)]


def test_a_second_warehouse_beside_a_native_session(native: NativeSession, tmp_path: Path) -> None:
    native.sql(f"CREATE TABLE stock (id INT, home STRING) {ACID}")
    native.sql("INSERT INTO stock VALUES (1, 'first')")
    place = str(tmp_path / "second")
    plain = native.newSession()._jsparkSession  # as Spark gives it to foreachBatch
    for session in (native, native.newSession(), SparkSession(native.sparkContext, plain)):
        with hiveacid.connect(session, warehouse=place) as acid:
            acid.sql(f"CREATE TABLE IF NOT EXISTS stock (id INT, home STRING) {ACID}")
            acid.sql("TRUNCATE TABLE stock")
            acid.sql("INSERT INTO stock VALUES (2, 'second')")
            assert rows(acid.sql("SELECT s.id, s.home FROM stock s WHERE id > 0")) == [(2, "second")]
            acid.sql("INSERT INTO stock SELECT id + 1, home FROM stock")
            acid.sql(f"CREATE TABLE copied {ACID} AS SELECT * FROM stock")
            acid.sql(
                "UPDATE stock SET home = (SELECT max(home) FROM copied) WHERE id IN (SELECT id FROM stock)"
            )
            assert rows(acid.sql("SELECT * FROM copied")) == [(2, "second"), (3, "second")]
            acid.sql("DROP TABLE copied")
            acid.sql("INSERT INTO stock SELECT * FROM {ours}", ours=native.table("stock"))
            assert rows(acid.table("stock").to_df()) == [(1, "first"), (2, "second"), (3, "second")]
            acid.sql("CREATE OR REPLACE VIEW seen AS SELECT id FROM stock WHERE home = 'second'")
            assert rows(acid.sql("SELECT * FROM seen")) == rows(acid.table("seen").to_df()) == [(2,), (3,)]
            acid.table("stock").compact("major")
        assert rows(native.sql("SELECT * FROM stock")) == [(1, "first")]
    assert hiveacid.connect(native) is native.acid


def test_a_connection_that_is_older_than_the_native_session(spark: SparkSession, tmp_path: Path) -> None:
    with hiveacid.connect(spark, warehouse=str(tmp_path / "older")) as acid:
        acid.sql(f"CREATE TABLE stock (id INT) {ACID}")
        acid.sql("INSERT INTO stock VALUES (1)")
        builder = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / "native"))
        native = builder.getOrCreate()
        try:
            native.sql(f"CREATE TABLE stock (id INT) {ACID}")
            native.sql("INSERT INTO stock VALUES (2)")
            acid.sql("INSERT INTO stock SELECT id + 10 FROM stock")
            used = acid.context.env
            assert rows(acid.sql("SELECT id FROM stock WHERE id > 0")) == [(1,), (11,)]
            assert acid.context.env is used
            assert rows(native.sql("SELECT id FROM stock")) == [(2,)]
        finally:
            native.close()


def test_tables_and_connections_that_are_older_than_the_native_session(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Their conditions, read by the session's new parser, meant tables of the other warehouse."""
    older = str(tmp_path / "older")
    with hiveacid.connect(spark, warehouse=older) as acid, hiveacid.connect(spark, warehouse=older) as unused:
        for name in ("stock", "chosen"):
            acid.sql(f"CREATE TABLE {name} (id INT) {ACID}")
        acid.sql("INSERT INTO stock VALUES (1), (2), (3), (4)")
        acid.sql("INSERT INTO chosen VALUES (1)")
        acid.sql("CREATE VIEW seen AS SELECT id FROM stock WHERE id IN (SELECT id FROM chosen)")
        table, view = acid.table("stock"), acid.table("seen")
        by_name = "id IN (SELECT id FROM chosen)"  # of no table of Spark's
        scan = table.scan(by_name)
        spark.range(4, 5).createOrReplaceTempView("last")
        native = hiveacid.configure(
            spark.builder, native=True, warehouse=str(tmp_path / "native")
        ).getOrCreate()
        try:
            native.sql(f"CREATE TABLE chosen (id INT) {ACID}")
            native.sql("INSERT INTO chosen VALUES (2), (3)")
            merge = table.merge(spark.sql("SELECT 2 AS id"), "t.id = s.id").when_matched_delete(
                f"t.{by_name}"
            )
            for read in (
                lambda: scan.to_df().collect(),
                lambda: table.delete(by_name),
                lambda: table.update({"id": "id + 10"}, by_name),
                lambda: unused.table("stock").delete(by_name),
                merge.execute,
            ):
                with pytest.raises(StatementError, match="`chosen` cannot be found"):
                    read()
            assert rows(view.to_df()) == rows(unused.table("seen").to_df()) == [(1,)]
            assert table.delete("id IN (SELECT id FROM last)").deleted == 1
            assert rows(table.to_df().where("id < 3")) == [(1,), (2,)]
            assert table.insert(spark.range(1).selectExpr("CAST(id AS INT) AS id")).inserted == 1
            assert rows(acid.sql("SELECT * FROM stock")) == [(0,), (1,), (2,), (3,)]
        finally:
            native.close()
            spark.catalog.dropTempView("last")


def test_two_warehouses_in_two_plain_sessions(spark: SparkSession, tmp_path: Path) -> None:
    sessions = [spark, spark.newSession()]
    opened = [hiveacid.connect(one, warehouse=str(tmp_path / f"w{n}")) for n, one in enumerate(sessions)]
    for number, acid in enumerate(opened):
        acid.sql(f"CREATE TABLE stock (id INT) {ACID}")
        acid.sql(f"INSERT INTO stock VALUES ({number})")
    for number, acid in enumerate(opened):
        acid.sql("INSERT INTO stock SELECT id + 10 FROM stock")
        assert rows(acid.sql("SELECT * FROM stock")) == [(number,), (number + 10,)]
    for acid in opened:
        acid.close()
