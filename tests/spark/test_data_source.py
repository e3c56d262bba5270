"""``spark.read`` and ``df.write.format("hiveacid")``: a snapshot by Python workers, a job in one transaction."""

from __future__ import annotations

import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from hiveacid.datasource import can_register
from hiveacid.errors import StorageError
from hiveacid.transactions.transaction import this_client

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture
def home(spark: SparkSession, acid: AcidSession) -> AcidSession:
    if not can_register(spark):
        pytest.skip(f"Spark {spark.version} has no Python data sources")
    acid.sql(f"CREATE TABLE t (id BIGINT, v STRING) PARTITIONED BY (p INT) {ACID}")
    return acid


def options(acid: AcidSession, table: str = "t") -> dict[str, str]:
    return {"table": table, "warehouse": acid.context.warehouse}


def write(acid: AcidSession, frame: DataFrame, mode: str = "append", table: str = "t") -> None:
    frame.write.format("hiveacid").options(**options(acid, table)).mode(mode).save()


def read(acid: AcidSession, table: str = "t", **more: str) -> DataFrame:
    return acid.context.env.spark.read.format("hiveacid").options(**options(acid, table), **more).load()


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def staged(acid: AcidSession, table: str = "t") -> list[Path]:
    return list(Path(acid.table(table).definition.location).glob(".hiveacid-*"))


def frame_of(spark: SparkSession, *some: tuple[int, str, int]) -> DataFrame:
    return spark.createDataFrame(list(some), "id bigint, v string, p int")


def test_append_overwrite_and_read(spark: SparkSession, home: AcidSession) -> None:
    write(home, frame_of(spark, (1, "a", 1), (2, "b", 1), (3, "c", 2)).repartition(3))
    home.sql("UPDATE t SET v = 'B' WHERE id = 2")
    home.sql("DELETE FROM t WHERE id = 1")
    assert rows(read(home)) == rows(home.sql("SELECT * FROM t")) == [(2, "B", 1), (3, "c", 2)]
    assert rows(read(home, as_of="1")) == [(1, "a", 1), (2, "b", 1), (3, "c", 2)]
    # columns are found by their names; the partitions that get rows are replaced, as by INSERT OVERWRITE
    write(home, frame_of(spark, (9, "z", 2), (8, "y", 5)).select("p", "v", "id"), "overwrite")
    assert rows(home.sql("SELECT * FROM t")) == [(2, "B", 1), (8, "y", 5), (9, "z", 2)]
    assert rows(read(home).where("p IN (2, 5) AND id > 8").select("v")) == [("z",)]
    assert read(home).where("p = 77").count() == 0
    home.sql("UPDATE t SET v = 'last' WHERE p = 2")
    home.table("t").compact("major", partition={"p": 2})
    assert rows(read(home).where("p = 2")) == [(9, "last", 2)]
    assert staged(home) == []


@pytest.mark.exhaustive("the source as it is registered stays")
def test_in_a_session_with_any_settings(spark: SparkSession, home: AcidSession) -> None:
    """The source stays known after RESET, and needs no setting; Spark 4.1 and later ask a reader for filters if one is set."""
    key = "spark.sql.python.filterPushdown.enabled"
    write(home, frame_of(spark, (1, "a", 1), (2, "b", 2)))
    spark.sql("RESET")
    for value in ("true", "false"):
        spark.conf.set(key, value)
        assert rows(read(home).where("p = 2")) == [(2, "b", 2)]
    spark.conf.unset(key)


def test_one_frame_or_view_in_several_queries(spark: SparkSession, home: AcidSession) -> None:
    """Spark 4.1 to 4.3 use the reader of one query for the others, too, so that it must not depend on a query's filters."""
    key = "spark.sql.python.filterPushdown.enabled"
    write(home, frame_of(spark, *[(number, "v", 1 + number // 3) for number in (1, 2, 3, 4)]))
    place = f"table 't', warehouse '{home.context.warehouse}'"
    for value in ("true", "false"):
        spark.conf.set(key, value)
        frame = read(home).select("id", "p")
        frame.createOrReplaceTempView("reused")
        spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW door USING hiveacid OPTIONS ({place})")
        assert rows(frame.where("p = 1").select("id")) == [(1,), (2,)]
        assert [row[0] for row in rows(frame)] == [1, 2, 3, 4]
        assert rows(frame.where("p = 1 OR id = 3").select("id")) == [(1,), (2,), (3,)]
        for name in ("reused", "door"):
            assert rows(spark.sql(f"SELECT id FROM {name} WHERE p = 1")) == [(1,), (2,)]
            assert spark.sql(f"SELECT count(*) FROM {name}").first()[0] == 4
            both = f"SELECT id FROM {name} WHERE p = 1 UNION ALL SELECT id FROM {name} WHERE p = 2"
            assert rows(spark.sql(both)) == [(1,), (2,), (3,), (4,)]
            left, right = (f"(SELECT * FROM {name} WHERE p = {value})" for value in (1, 2))
            assert rows(spark.sql(f"SELECT a.id, b.id FROM {left} a JOIN {right} b ON a.id + 2 = b.id")) == [
                (1, 3),
                (2, 4),
            ]
            assert spark.sql(f"SELECT count(*) FROM {name} WHERE p IN (2, 7) AND id > 3").first()[0] == 1
        spark.catalog.dropTempView("reused")
        spark.catalog.dropTempView("door")
    spark.conf.unset(key)


def test_a_frame_or_view_keeps_the_snapshot_of_its_first_query(
    spark: SparkSession, home: AcidSession
) -> None:
    """Spark 4.1 and later plan the read once, and 4.0 each time (docs/connect.md); a new frame or view reads the present."""
    write(home, frame_of(spark, (1, "a", 1)))
    create = "CREATE OR REPLACE TEMPORARY VIEW door USING hiveacid OPTIONS (table 't', warehouse '{}')"
    spark.sql(create.format(home.context.warehouse))
    made, unused = read(home), read(home)
    assert made.count() == spark.table("door").count() == 1
    write(home, frame_of(spark, (2, "b", 1)))
    home.sql("DELETE FROM t WHERE id = 1")
    kept = [(2,)] if home.context.env.version < (4, 1) else [(1,)]
    for frame in (made, spark.table("door")):
        assert rows(frame.select("id")) == rows(frame.where("p = 1").select("id")) == kept
    spark.sql(create.format(home.context.warehouse))
    for frame in (read(home), unused, spark.table("door")):
        assert rows(frame.select("id")) == [(2,)]
    spark.catalog.dropTempView("door")


@pytest.mark.exhaustive("overwritten partitions stay")
def test_overwriting_a_table_without_partitions(spark: SparkSession, home: AcidSession) -> None:
    home.sql(f"CREATE TABLE u (id BIGINT, at TIMESTAMP) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}")
    frame = spark.range(100).select(
        "id", F.expr("TIMESTAMP '2026-01-01 10:00:00' + make_dt_interval(id)").alias("at")
    )
    write(home, frame, table="u")
    write(home, frame.where("id < 10"), "overwrite", "u")
    assert home.sql("SELECT count(*), CAST(max(at) AS STRING) FROM u").first() == (10, "2026-01-10 10:00:00")
    home.sql("DELETE FROM u WHERE id = 3")
    assert read(home, "u").count() == 9
    write(home, frame.where("id < 0"), "overwrite", "u")
    assert home.sql("SELECT count(*) FROM u").first()[0] == 0
    write(home, frame.where("id = 50"), table="u")
    assert [row["id"] for row in home.sql("SELECT id FROM u").collect()] == [50]


def test_what_would_read_or_write_other_rows_is_refused(spark: SparkSession, home: AcidSession) -> None:
    """Options that nobody knows, another schema, a warehouse that is not there."""
    write(home, frame_of(spark, (1, "a", 1)))
    for option, said in (("asOf", "asof"), ("changes", "changes"), ("starting", "starting")):
        with pytest.raises(PySparkException, match=f"does not know the option {said} here"):
            read(home, **{option: "latest" if option == "starting" else "true"}).collect()
    writer = frame_of(spark).write.format("hiveacid").options(**options(home), replaceWhere="p = 1")
    with pytest.raises(PySparkException, match="does not know the option replacewhere here"):
        writer.mode("overwrite").save()
    reader = spark.read.format("hiveacid").options(**options(home))
    assert rows(reader.schema("id bigint, v string, p int").load()) == [(1, "a", 1)]
    with pytest.raises(
        PySparkException, match=r"columns id bigint, v string, p int, and Spark was told v string"
    ):
        reader.schema("v string, id bigint, p int").load().collect()
    typo = f"{home.context.warehouse}.typo"
    with pytest.raises(PySparkException, match="no warehouse is there"):
        reader.option("warehouse", typo).load().collect()
    with pytest.raises(PySparkException, match="no warehouse is there"):
        frame_of(spark).write.format("hiveacid").options(table="t", warehouse=typo).mode("append").save()
    assert not Path(typo).exists()


@pytest.mark.exhaustive("the same options of a DataFrame stay")
def test_a_view_in_sql(spark: SparkSession, home: AcidSession) -> None:
    place = f"table 't', warehouse '{home.context.warehouse}'"
    spark.sql(f"CREATE OR REPLACE TEMPORARY VIEW door USING hiveacid OPTIONS ({place})")
    spark.sql("INSERT INTO door VALUES (1, 'a', 1), (2, 'b', 2)")
    home.sql("UPDATE t SET v = 'x' WHERE id = 1")
    assert rows(spark.sql("SELECT v, count(*) FROM door GROUP BY v")) == [("b", 1), ("x", 1)]
    spark.sql("INSERT OVERWRITE door VALUES (3, 'c', 2)")
    assert rows(home.sql("SELECT id FROM t")) == [(1,), (3,)]
    spark.catalog.dropTempView("door")


def test_char_equals_a_literal_with_or_without_blanks(spark: SparkSession, home: AcidSession) -> None:
    """Values are padded, as those of `acid.table`, so that Spark has to pad the literal."""
    home.sql(f"CREATE TABLE c (c CHAR(4)) PARTITIONED BY (p CHAR(3)) {ACID}")
    write(home, spark.createDataFrame([("ab", "x"), ("abcdef", "y")], "c string, p string"), table="c")
    conditions = ("c = 'ab'", "c = 'ab   '", "p = 'x'", "c IN ('ab', 'q') AND p IN ('x', 'z')", "c <> 'abcd'")
    stream = spark.readStream.format("hiveacid").options(**options(home, "c"), starting="snapshot").load()
    for frame in (read(home, "c"), home.table("c").to_df()):
        assert [rows(frame.where(where)) for where in conditions] == [[("ab  ", "x  ")]] * len(conditions)
    assert stream.schema == read(home, "c").schema
    query = stream.where("c = 'ab'").writeStream.format("memory").queryName("chars")
    query.trigger(availableNow=True).start().awaitTermination()
    assert rows(spark.table("chars")) == [("ab  ", "x  ")]


def test_a_job_that_fails_leaves_nothing(spark: SparkSession, home: AcidSession) -> None:
    write(home, frame_of(spark, (1, "a", 1)))
    bad = spark.range(4, numPartitions=2).select(
        "id", F.expr("IF(id = 3, raise_error('no'), 'x')").cast("string").alias("v"), F.lit(1).alias("p")
    )
    for mode in ("append", "overwrite"):
        with pytest.raises(PySparkException, match="no"):
            write(home, bad, mode)
    with pytest.raises(PySparkException, match="columns"):
        write(home, spark.range(1))
    with pytest.raises(PySparkException, match="does not exist"):
        write(home, spark.range(1), table="nowhere")
    assert rows(read(home)) == [
        (1, "a", 1)
    ]  # a task that outlives its job may stage more, which nobody reads


def test_what_a_lost_attempt_staged_does_not_count(spark: SparkSession, home: AcidSession) -> None:
    """Spark commits one attempt of each task; others may have staged rows, whole or in part."""
    from hiveacid.datasource.data_source import batch_writer  # noqa: PLC0415 - not there in Spark 3.5

    writer = batch_writer(options(home), frame_of(spark).schema, overwrite=False)
    batch = pa.RecordBatch.from_pylist([{"id": 1, "v": "a", "p": 1}])
    writer.write(iter([batch]))
    counts = writer.write(iter([batch]))
    assert len(staged(home)) == 1
    assert home.sql("SELECT count(*) FROM t").first()[0] == 0
    writer.commit([counts, None])
    assert rows(home.sql("SELECT * FROM t")) == [(1, "a", 1)]
    assert staged(home) == []
    # what a dead driver left goes after a day; one that was only slow fails then, and writes nothing
    slow = batch_writer(options(home), frame_of(spark).schema, overwrite=False)
    counts = slow.write(iter([batch]))
    home.clean()
    (left,) = staged(home)
    for path in (*left.rglob("*"), left):
        os.utime(path, (path.stat().st_mtime - 90_000,) * 2)
    home.clean()
    assert staged(home) == []
    with pytest.raises(StorageError, match="is missing"):
        slow.commit([counts])
    assert rows(home.sql("SELECT * FROM t")) == [(1, "a", 1)]


def test_two_writers(spark: SparkSession, home: AcidSession) -> None:
    failed: list[BaseException] = []

    def one(mode: str, number: int) -> None:
        try:
            write(home, frame_of(spark, *[(number, mode, 1)] * 3), mode)
        except BaseException as error:  # noqa: BLE001 - for the assertion below
            failed.append(error)

    threads = [threading.Thread(target=one, args=pair) for pair in [("append", 1), ("overwrite", 2)]]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    found = sorted(row["id"] for row in home.sql("SELECT id FROM t").collect())
    assert found in ([2, 2, 2], [1, 1, 1, 2, 2, 2])


def test_a_base_with_the_name_of_an_aborted_write(home: AcidSession) -> None:
    """Its rows are those of earlier writes; an insert-only table keeps no write id per row."""
    home.sql(f"CREATE TABLE io (id INT) {ACID[:-1]}, 'transactional_properties'='insert_only')")
    for number in (1, 2):
        home.sql(f"INSERT INTO io VALUES ({number})")
    store, name = home.context.store, home.table("io").name
    (aborted,) = store.open_txns(this_client())
    store.allocate_write_ids([aborted], name)
    store.abort_txns([aborted], "no")
    home.sql("ALTER TABLE io COMPACT 'major' AND WAIT")
    assert [path.name[:12] for path in Path(home.table("io").definition.location).glob("base_*")] == [
        "base_0000003"
    ]
    assert rows(home.sql("SELECT id FROM io")) == rows(read(home, "io")) == [(1,), (2,)]
    before = home.table("io").valid_write_ids()
    home.sql("INSERT OVERWRITE TABLE io VALUES (3)")
    changes = home.table("io").changes(before).to_df().select("_change_type", "id")
    assert rows(changes) == [("delete", 1), ("delete", 2), ("insert", 3)]
