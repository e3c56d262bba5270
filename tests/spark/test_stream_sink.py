"""``writeStream.format("hiveacid")``: tasks stage Arrow files, one transaction writes them, each batch exactly once."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.core.transactions.commit_records import StreamKey
from hiveacid.datasource import can_register, register
from hiveacid.spark.session.environment import SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming import StreamingQuery

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture(autouse=True)
def sinks(spark: SparkSession) -> None:
    if not can_register(spark):
        pytest.skip(f"Spark {spark.version} has no Python data sources")


def rows(acid: AcidSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in acid.sql(query).collect()]


def drop(place: Path, number: int, *events: dict[str, Any]) -> None:
    feed = place / "feed"
    feed.mkdir(exist_ok=True)
    (feed / f"{number:03}.json").write_text("\n".join(map(json.dumps, events)))


def run(acid: AcidSession, place: Path, schema: str, check: str = "check", **options: str) -> StreamingQuery:
    """Run a query over the files of a directory, one file a batch, until it has seen all."""
    spark = acid.context.env.spark
    feed = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(place / "feed"))
    chosen = {
        "table": "t", "warehouse": acid.context.warehouse, "query_name": "events",
        "checkpointLocation": str(place / check), **options,
    }  # fmt: skip
    writer = feed.writeStream.format("hiveacid").trigger(availableNow=True)
    query = writer.options(**{key: value for key, value in chosen.items() if value}).start()
    query.awaitTermination()
    return query


def test_every_batch_once(acid: AcidSession, tmp_path: Path) -> None:
    """Into partitions and buckets, through restarts and replays; nothing staged is left."""
    acid.sql(
        f"CREATE TABLE t (id BIGINT, v STRING) PARTITIONED BY (p INT) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}"
    )
    acid.sql("INSERT INTO t PARTITION (p=1) VALUES (-1, 'before')")
    schema = "id BIGINT, v STRING, p INT"
    for number in range(2):
        drop(tmp_path, number, *({"id": number * 10 + one, "v": "x", "p": one % 2} for one in range(5)))
    run(acid, tmp_path, schema)
    want = [(-1,), *((number * 10 + one,) for number in range(2) for one in range(5))]
    assert rows(acid, "SELECT id FROM t ORDER BY id") == want
    drop(tmp_path, 2, {"id": 99, "v": None, "p": None})
    run(acid, tmp_path, schema)
    want.append((99,))
    assert rows(acid, "SELECT id FROM t ORDER BY id") == want
    # as if the driver had died after the commit, before Spark wrote it down
    (tmp_path / "check" / "commits" / "2").unlink()
    (tmp_path / "check" / "commits" / ".2.crc").unlink(missing_ok=True)
    run(acid, tmp_path, schema)
    assert rows(acid, "SELECT id FROM t ORDER BY id") == want
    progress = acid.context.store.stream_progress(StreamKey(acid.table("t").name, "events"))
    assert progress is not None
    assert (progress.epoch, progress.last_batch_id) == (
        3,
        2,
    )  # three runs, each one writer in all its batches
    location = Path(acid.table("t").definition.location)
    assert [path.name for path in location.iterdir() if path.name.startswith(".hiveacid")] == []
    assert acid.context.store.show_locks() == ()


def test_values_are_those_of_an_insert(spark: SparkSession, acid: AcidSession, tmp_path: Path) -> None:
    """In a session whose time zone is not the JVM's: a TIMESTAMP is what its clock shows."""
    columns = (
        "b BOOLEAN, t TINYINT, l BIGINT, f FLOAT, d DOUBLE, m DECIMAL(20,5), s STRING, day DATE, at TIMESTAMP, "
        "a ARRAY<TIMESTAMP>, mp MAP<STRING, STRUCT<at: TIMESTAMP, n: INT>>"
    )
    event: dict[str, Any] = {
        "b": True, "t": -128, "l": 1 << 62, "f": 1.5, "d": 0.1, "m": 12345678901234.56789, "s": "é", "day": "1969-12-31",
        "at": "2024-07-01T12:00:00.123456Z", "a": ["1969-12-31T23:59:58.5Z", None],
        "mp": {"k": {"at": "2024-01-01T00:00:00Z", "n": 1}},
    }  # fmt: skip
    before = spark.conf.get("spark.sql.session.timeZone")
    assert before is not None
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        drop(tmp_path, 0, event, {})
        for table in ("t", "inserted"):
            acid.sql(f"CREATE TABLE {table} ({columns}) {ACID}")
        if SparkEnvironment(spark).version < (4, 1):
            with pytest.raises(Exception, match="no time zone with a TIMESTAMP"):
                run(acid, tmp_path, columns)
            return
        run(acid, tmp_path, columns)
        acid.table("inserted").insert(spark.read.schema(columns).json(str(tmp_path / "feed")))
        found, want = (rows(acid, f"SELECT * FROM {table} ORDER BY l") for table in ("t", "inserted"))
        assert found == want
        assert found[1][-3] is not None
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


@pytest.mark.exhaustive("spark/test_data_source.py refuses the same of a batch")
def test_what_is_refused(spark: SparkSession, acid: AcidSession, tmp_path: Path) -> None:
    """Before or at the first batch, and nothing of it is there."""
    acid.sql(f"CREATE TABLE t (id BIGINT) {ACID}")
    drop(tmp_path, 0, {"id": 1})
    for number, (options, schema, message) in enumerate((
        ({"table": ""}, "id BIGINT", "needs .option..table"),
        ({"table": "missing"}, "id BIGINT", "missing does not exist"),
        ({"query_name": ""}, "id BIGINT", "needs .option..query_name"),
        ({"warehouse": "wh"}, "id BIGINT", "give the whole path"),
        ({"merge_on": "id"}, "id BIGINT", "merged by foreachBatch"),
        ({}, "id BIGINT, more INT", "unknown or duplicate more"),
        ({}, "id DATE", "column id: the records have date"),
    )):  # fmt: skip
        with pytest.raises(Exception, match=message):
            run(acid, tmp_path, schema, f"check{number}", **options)
    assert rows(acid, "SELECT * FROM t") == []
    run(acid, tmp_path, "id BIGINT", "good")
    with pytest.raises(Exception, match=r"StreamCheckpointError.*restart=True"):
        run(acid, tmp_path, "id BIGINT", "other")
    assert rows(acid, "SELECT * FROM t") == [(1,)]
    run(acid, tmp_path, "id BIGINT", "other", restart="true")
    assert rows(acid, "SELECT * FROM t") == [(1,), (1,)]
    register(spark)  # again does nothing
