"""Batches of streaming queries by ``foreachBatch``: each exactly once, appended or merged by key."""

from __future__ import annotations

import json
import os
import random
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from hiveacid.errors import (
    ConfigError,
    DataError,
    InsertOnlyError,
    NoSuchColumnError,
    NoSuchTableError,
    SchemaMismatchError,
    StreamCheckpointError,
    StreamFencedError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Client, Operation, Written

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession
    from hiveacid.core.model import LockId, TxnId
    from hiveacid.ports.transactions import LockAnswer
    from hiveacid.table.write.foreach_batch_writer import StreamWriter

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(acid: AcidSession, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in acid.sql(query).collect()]


def run(
    spark: SparkSession,
    place: Path,
    write: Callable[[DataFrame, int], None],
    schema: str,
    check: str = "check",
) -> None:
    """Run a query over the files of a directory, one file a batch, until it has seen all."""
    feed = spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).json(str(place / "feed"))
    query = feed.writeStream.foreachBatch(write).option("checkpointLocation", str(place / check))
    query.trigger(availableNow=True).start().awaitTermination()


def drop(place: Path, number: int, *events: dict[str, Any]) -> None:
    feed = place / "feed"
    feed.mkdir(exist_ok=True)
    file = feed / f"{number:03}.json"
    file.write_text("\n".join(map(json.dumps, events)))
    os.utime(file, (1_700_000_000 + number,) * 2)  # Spark takes files of one millisecond in any order


@pytest.mark.exhaustive("the same by the sink stays in test_stream_sink.py")
def test_every_batch_once(spark: SparkSession, acid: AcidSession, tmp_path: Path) -> None:
    """Through a failure after a commit, a restart, a second copy, and another checkpoint."""
    acid.sql(
        f"CREATE TABLE t (id BIGINT, v STRING) PARTITIONED BY (p INT) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}"
    )
    t, schema = acid.table("t"), "id BIGINT, v STRING, p INT"
    for number in range(3):
        drop(tmp_path, number, *({"id": number * 10 + one, "v": "x", "p": number % 2} for one in range(3)))
    writer = t.stream_writer("events")
    seen: list[int] = []

    def fails_after_the_second(frame: DataFrame, batch_id: int) -> None:
        writer(frame, batch_id)
        seen.append(batch_id)
        if batch_id == 1:
            raise RuntimeError("the answer is lost")

    with pytest.raises(Exception, match="the answer is lost"):
        run(spark, tmp_path, fails_after_the_second, schema)
    second = t.stream_writer("events")

    def notes(frame: DataFrame, batch_id: int) -> None:
        second(frame, batch_id)
        seen.append(batch_id)

    run(spark, tmp_path, notes, schema)
    assert seen == [0, 1, 1, 2]
    want = [(number * 10 + one,) for number in range(3) for one in range(3)]
    assert rows(acid, "SELECT id FROM t ORDER BY id") == want
    drop(tmp_path, 3, {"id": 99, "v": "y", "p": 7})
    with pytest.raises(
        Exception, match=r"StreamFencedError: another copy of stream 'events' into default\.t"
    ):
        run(spark, tmp_path, writer, schema)
    with pytest.raises(Exception, match=r"StreamCheckpointError.*restart=True"):
        run(spark, tmp_path, t.stream_writer("events"), schema, "new")
    assert rows(acid, "SELECT count(*) FROM t") == [(9,)]
    run(spark, tmp_path, t.stream_writer("events"), schema)
    assert rows(acid, "SELECT count(*), count(DISTINCT id) FROM t") == [(10, 10)]
    run(spark, tmp_path, t.stream_writer("events", restart=True), schema, "new")
    assert rows(acid, "SELECT count(*), count(DISTINCT id) FROM t") == [(20, 10)]


def test_a_statement_takes_the_batch_by_name(spark: SparkSession, acid: AcidSession, tmp_path: Path) -> None:
    """A view of the batch is unknown outside the session of its query; the error says what to write instead."""
    acid.sql(f"CREATE TABLE t (id BIGINT, v STRING) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'old')")
    drop(tmp_path, 0, {"id": 1, "v": "new"}, {"id": 2, "v": "b"})
    drop(tmp_path, 1, {"id": 2, "v": "c"})
    merge = (
        "MERGE INTO t USING @ AS u ON t.id = u.id WHEN MATCHED THEN UPDATE SET v = u.v "
        "WHEN NOT MATCHED THEN INSERT VALUES (u.id, u.v)"
    )
    hints = []

    def write(frame: DataFrame, batch_id: int) -> None:
        frame.persist()
        frame.createOrReplaceTempView("updates")
        with pytest.raises(NoSuchTableError) as missing:
            acid.sql(merge.replace("@", "updates"))
        hints.append(str(missing.value))
        acid.sql(merge.replace("@", "{updates}"), updates=frame.where("id > 0"))
        read = acid.sql("SELECT u.id, {n} AS n FROM t JOIN {u} u ON t.id = u.id", u=frame, n=batch_id)
        assert {row["n"] for row in read.collect()} == {batch_id}
        assert frame.storageLevel.useMemory
        frame.unpersist()

    run(spark, tmp_path, write, "id BIGINT, v STRING")
    assert rows(acid, "SELECT * FROM t ORDER BY id") == [(1, "new"), (2, "c")]
    assert all("acid.sql(text, batch=frame)" in hint for hint in hints)
    assert len(hints) == 2
    with pytest.raises(NoSuchTableError) as missing:
        acid.sql(merge.replace("@", "updates"))
    assert "batch" not in str(missing.value)


def batch(spark: SparkSession, schema: str, *events: tuple[Any, ...]) -> DataFrame:
    return spark.createDataFrame(list(events), schema)


def test_replays_write_nothing(spark: SparkSession, acid: AcidSession) -> None:
    """Neither rows nor a transaction; found at the commit only, the rows go again."""
    acid.sql(f"CREATE TABLE t (id INT) {ACID}")
    t, store = acid.table("t"), acid.context.store
    writer = t.stream_writer("q", checkpoint="c")
    writer(batch(spark, "id INT", (1,)), 0)
    before = store.valid_txns().high_watermark
    writer(batch(spark, "id INT", (1,)), 0)
    assert store.valid_txns().high_watermark == before
    real = store.stream_progress
    try:  # as if the first attempt's commit came through after this one had looked
        store.stream_progress = lambda stream: None if real(stream) is None else writer._progress  # type: ignore[method-assign]
        writer(batch(spark, "id INT", (1,)), 0)
    finally:
        store.stream_progress = real  # type: ignore[method-assign]
    assert rows(acid, "SELECT id FROM t") == [(1,)]
    assert store.valid_txns().aborted == (before + 1,)
    old, new = writer, t.stream_writer("q", checkpoint="c")
    new(batch(spark, "id INT", (2,)), 1)
    with pytest.raises(StreamFencedError):
        old(batch(spark, "id INT", (3,)), 2)
    with pytest.raises(StreamCheckpointError):
        t.stream_writer("q", checkpoint="d")(batch(spark, "id INT", (3,)), 0)
    assert rows(acid, "SELECT id FROM t ORDER BY id") == [(1,), (2,)]
    new(batch(spark, "id INT"), 2)
    found = store.stream_progress(new.stream)
    assert found is not None
    assert found.last_batch_id == 2


@pytest.mark.exhaustive("another case of the same test stays", cases=("plain", "bucketed", "key is"))
@pytest.mark.parametrize(
    ("layout", "partition"),
    [
        ("", ""),
        ("CLUSTERED BY (k) INTO 2 BUCKETS", ""),
        ("", "PARTITIONED BY (p STRING)"),
        ("", "PARTITIONED BY (k INT)"),
    ],
    ids=["plain", "bucketed", "rows move between partitions", "key is the partition"],
)
def test_changes_by_key_are_those_of_a_model(
    spark: SparkSession, acid: AcidSession, layout: str, partition: str
) -> None:
    """Random inserts, updates and deletes, several of a key in a batch, in any order; batches are replayed."""
    columns = [one for one in ("k INT", "v STRING", "p STRING") if one not in partition]
    acid.sql(f"CREATE TABLE t ({', '.join(columns)}) {partition} {layout} {ACID}")
    dice, model, sequence = random.Random(f"{layout} {partition}"), dict[int | None, tuple[str, str]](), 0
    schema = "op STRING, at BIGINT, k INT, v STRING, p STRING"
    writer = acid.table("t").stream_writer(
        "cdc", merge_on="k", change_type="op", sequence_by="at", checkpoint="c"
    )
    for number in range(2):
        events = []
        for _ in range(12):
            sequence += 1
            key = dice.choice([None, *range(8)]) if "k" not in partition else dice.randrange(8)
            kind = dice.choice(["I", "update", "u", "D", "insert", "update_after", " delete ", "c"])
            value = (f"v{sequence}", dice.choice("abc"))
            events.append((kind, sequence, key, *value))
            events.append(("update_before", sequence, key, "before", "z"))
            if kind.strip().lower() in ("d", "delete"):
                model.pop(key, None)
            else:
                model[key] = value
        dice.shuffle(events)
        for _ in range(1 + number):
            writer(batch(spark, schema, *events), number)
        found = {key: (v, p) for key, v, p in rows(acid, "SELECT k, v, p FROM t")}
        assert found == model
        assert rows(acid, "SELECT count(*) FROM t") == [(len(model),)]


@pytest.mark.parametrize(
    ("kind", "feed", "keys", "stored"),
    [
        ("CHAR(4)", "STRING", ("ab", "ab  ", "abc"), ("ab  ", "abc ")),
        ("VARCHAR(2)", "STRING", ("abc", "abd", "b"), ("ab", "b")),
        ("DECIMAL(5,1)", "DOUBLE", ("1.04", "0.96", "2.0"), ("1.0", "2.0")),
        (
            "DATE",
            "TIMESTAMP",
            ("2026-01-02 03:00:00", "2026-01-02", "2026-05-05"),
            ("2026-01-02", "2026-05-05"),
        ),
    ],
)
@pytest.mark.parametrize("partitioned", [False, True])
def test_keys_are_compared_as_they_are_stored(
    spark: SparkSession,
    acid: AcidSession,
    kind: str,
    feed: str,
    keys: tuple[str, str, str],
    stored: tuple[str, str],
    *,
    partitioned: bool,
) -> None:
    """The first two keys are one: padded, cut, rounded, or without the time of day."""
    columns = f"(v STRING) PARTITIONED BY (k {kind})" if partitioned else f"(k {kind}, v STRING)"
    acid.sql(f"CREATE TABLE t {columns} {ACID}")
    first, same, other = keys
    writer = acid.table("t").stream_writer(
        "keys", merge_on="k", change_type="op", sequence_by="at", checkpoint="c"
    )
    batches = [
        [("i", 1, first, "old"), ("u", 2, same, "new"), ("i", 3, other, "x")],
        [("u", 4, first, "newer"), ("d", 5, other, "")],
        [("d", 6, same, "")],
    ]
    found = []
    for number, events in enumerate(batches):
        frame = batch(spark, "op STRING, at INT, K STRING, v STRING", *events)
        writer(frame.withColumn("K", frame["K"].cast(feed)), number)
        found.append(rows(acid, "SELECT CAST(k AS STRING) AS k, v FROM t ORDER BY k"))
    assert found == [[(stored[0], "new"), (stored[1], "x")], [(stored[0], "newer")], []]


@pytest.mark.parametrize(
    "layout",
    ["", "PARTITIONED BY (p STRING)", "CLUSTERED BY (p) INTO 2 BUCKETS"],
    ids=["", "partitioned", "bucketed"],
)
def test_late_changes_of_older_batches_are_skipped_if_the_table_keeps_the_order(
    spark: SparkSession, acid: AcidSession, layout: str
) -> None:
    columns = "k INT, v STRING, at INT" + (", p STRING" if "PARTITIONED" not in layout else "")
    acid.sql(f"CREATE TABLE t ({columns}) {layout} {ACID}")
    writer = acid.table("t").stream_writer(
        "late", merge_on="k", change_type="op", sequence_by="AT", checkpoint="c"
    )
    batches = [
        [
            ("u", 1, "new", 10, "a"),
            ("u", 2, "n", 10, "a"),
            ("u", 3, "none", None, "a"),
            ("u", 4, "same", 7, "a"),
        ],
        [
            ("u", 1, "late", 5, "b"),
            ("d", 2, "", 4, "b"),
            ("u", 3, "first", 1, "b"),
            ("u", 4, "again", 7, "b"),
        ],
        [
            ("u", 1, "no order", None, "a"),
            ("d", 2, "", 11, "a"),
            ("d", 3, "", 0, "a"),
            ("u", 4, "newer", 8, "c"),
        ],
        [("u", 2, "back", 3, "a")],
    ]
    for number, events in enumerate(batches):
        writer(batch(spark, "op STRING, k INT, v STRING, at INT, p STRING", *events), number)
    assert rows(acid, "SELECT k, v, at, p FROM t ORDER BY k") == [
        (1, "new", 10, "a"), (2, "back", 3, "a"), (3, "first", 1, "b"), (4, "newer", 8, "c"),
    ]  # fmt: skip


def test_the_tables_type_orders_changes_in_a_batch_as_across_batches(
    spark: SparkSession, acid: AcidSession
) -> None:
    """A feed of JSON has texts, which would put 9 behind 10. What the table cannot tell apart, the feed still can."""
    acid.sql(f"CREATE TABLE t (k INT, v STRING, at INT) {ACID}")
    writer = acid.table("t").stream_writer(
        "text", merge_on="k", change_type="op", sequence_by="at", checkpoint="c"
    )
    schema = "op STRING, k INT, v STRING, at STRING"
    writer(batch(spark, schema, ("u", 1, "nine", "9"), ("u", 1, "ten", "10"), ("u", 2, "x", None)), 0)
    writer(batch(spark, schema, ("u", 1, "late", "9"), ("u", 2, "y", "1")), 1)
    finer = ("u", 3, "older", 9.2), ("u", 3, "newer", 9.7)
    writer(batch(spark, schema.replace("at STRING", "at DOUBLE"), *finer), 2)
    assert rows(acid, "SELECT k, v, at FROM t ORDER BY k") == [(1, "ten", 10), (2, "y", 1), (3, "newer", 9)]
    with pytest.raises(DataError):
        writer(batch(spark, schema, ("u", 1, "no number", "x")), 3)


def test_changes_that_nothing_orders(spark: SparkSession, acid: AcidSession) -> None:
    """Clear errors, and nothing of the batch is there; the same batch, put right, goes in."""
    acid.sql(f"CREATE TABLE t (k INT, v STRING) {ACID}")
    t, schema = acid.table("t"), "op STRING, at INT, k INT, v STRING"
    free = t.stream_writer("a", merge_on=["k"], change_type="op", checkpoint="c")
    with pytest.raises(DataError, match=r"several changes of k=1 in one batch, .*sequence_by="):
        free(batch(spark, "op STRING, k INT, v STRING", ("i", 1, "x"), ("u", 1, "y"), ("i", 2, "z")), 0)
    tied = t.stream_writer("b", merge_on=["k"], change_type="op", sequence_by="at", checkpoint="c")
    with pytest.raises(
        DataError, match="several changes of k=NULL in one batch, and at is the same in the last two"
    ):
        tied(batch(spark, schema, ("i", 1, None, "x"), ("u", 2, None, "y"), ("d", 2, None, "z")), 0)
    for odd, said in (("drop", "drop"), (None, "NULL")):
        with pytest.raises(DataError, match=f"op = {said} is not a kind of change"):
            tied(batch(spark, schema, ("i", 1, 1, "x"), (odd, 2, 2, "y")), 0)
    assert rows(acid, "SELECT count(*) FROM t") == [(0,)]
    tied(batch(spark, schema, ("i", 1, None, "x"), ("u", 2, None, "y")), 0)
    assert rows(acid, "SELECT * FROM t") == [(None, "y")]
    upserts = t.stream_writer("c", merge_on=["k"], checkpoint="c")
    upserts(batch(spark, "k INT, v STRING", (None, "z"), (5, "five")), 0)
    assert sorted(rows(acid, "SELECT v FROM t")) == [("five",), ("z",)]


@pytest.mark.exhaustive("changes by key and replays stay")
def test_a_feed_that_changes(spark: SparkSession, acid: AcidSession) -> None:
    """An error that says what, or new columns; NULL where the feed has none."""
    acid.sql(f"CREATE TABLE t (k INT, v STRING) {ACID}")
    t = acid.table("t")
    strict = t.stream_writer("a", checkpoint="c")
    for schema, values in (("k INT, v STRING, w DATE", (1, "x", None)), ("k INT", (1,))):
        with pytest.raises(SchemaMismatchError, match=r"missing .* unknown or duplicate .*merge_schema=True"):
            strict(batch(spark, schema, values), 0)
    with pytest.raises((SchemaMismatchError, DataError)):
        strict(batch(spark, "k STRING, v STRING", ("no number", "x")), 0)
    strict(batch(spark, "v STRING, K INT", ("x", 1)), 0)
    wide = t.stream_writer("b", merge_schema=True, checkpoint="c")
    wide(batch(spark, "k INT, v STRING, W ARRAY<DECIMAL(5,2)>", (2, "y", [])), 0)
    wide(batch(spark, "k INT", (3,)), 1)
    merging = t.stream_writer(
        "c", merge_on=["k"], change_type="op", merge_schema=True, sequence_by="at", checkpoint="c"
    )
    with pytest.raises(SchemaMismatchError, match="missing k"):  # before the table gets a column
        merging(batch(spark, "op STRING, at INT, less DOUBLE", ("u", 1, 0.5)), 0)
    merging(batch(spark, "op STRING, at INT, k INT, more DOUBLE", ("u", 1, 1, 0.5), ("i", 1, 4, 1.5)), 0)
    assert [(c.name, c.type) for c in t.definition.columns] == [
        ("k", "int"), ("v", "string"), ("w", "array<decimal(5,2)>"), ("more", "double"),
    ]  # fmt: skip
    assert rows(acid, "SELECT * FROM t ORDER BY k") == [
        (1, "x", None, 0.5), (2, "y", [], None), (3, None, None, None), (4, None, None, 1.5),
    ]  # fmt: skip


def test_a_lost_race_is_run_again(
    spark: SparkSession, acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merged batches conflict with other writers as any MERGE; appended ones don't."""
    acid.sql(f"CREATE TABLE t (k INT, v STRING) {ACID}")
    t, store = acid.table("t"), acid.context.store
    commit, rivals = store.commit_txn, [1]

    def rival() -> None:
        (txn_id,) = store.open_txns(Client("ann", "here", "test"))
        commit(txn_id, written=[Written(t.name, None, Operation.UPDATE)])

    def commit_second(txn_id: TxnId, changes: Any, written: Any, *args: Any) -> None:
        if rivals and written:  # not a transaction that only holds a lock
            rivals.pop()
            rival()
        commit(txn_id, changes, written, *args)

    def write(writer: StreamWriter, races: int) -> None:
        rivals[:] = [1] * races
        found = store.stream_progress(writer.stream)
        number = 0 if found is None else found.last_batch_id + 1
        writer(batch(spark, "k INT, v STRING", (1, f"v{number}")), number)

    t.insert(batch(spark, "k INT, v STRING", (1, "old")))
    monkeypatch.setattr(store, "commit_txn", commit_second)
    merging = t.stream_writer("m", merge_on=["k"], checkpoint="c")
    write(merging, 2)
    assert rows(acid, "SELECT * FROM t") == [(1, "v0")]
    acid.sql("SET hive.txn.retrysnapshot.max.count=1")
    with pytest.raises(WriteConflictError) as raised:
        write(merging, 2)
    for words in (
        "batch 1 of stream 'm' into default.t was tried 2 times",
        "hive.txn.retrysnapshot.max.count, now 1",
        "hive.txn.xlock.write=true",
        "Last conflict: Aborting [txnid:",
    ):
        assert words in str(raised.value)
    write(merging, 0)
    assert rows(acid, "SELECT * FROM t") == [(1, "v1")]
    write(t.stream_writer("a", checkpoint="c"), 1)
    assert sorted(rows(acid, "SELECT v FROM t")) == [("v0",), ("v1",)]


def test_a_batch_that_waited_for_its_lock_sees_the_rows_it_waited_for(
    spark: SparkSession, acid: AcidSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`hive.txn.xlock.mergeinsert` keeps a key that another writer inserted from being inserted again."""
    columns = "k INT, v STRING, at INT, p STRING"
    acid.sql(f"CREATE TABLE t (k INT, v STRING, at INT) PARTITIONED BY (p STRING) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'old', 1, 'a')")
    acid.sql("SET hive.txn.xlock.mergeinsert=true")
    writer = acid.table("t").stream_writer("q", merge_on="k", sequence_by="at", checkpoint="c")
    store, rival = acid.context.store, ExitStack()
    check_lock = store.check_lock

    def commit_and_check(lock_id: LockId) -> LockAnswer:
        rival.close()
        return check_lock(lock_id)

    with rival:
        rival.enter_context(acid.transaction()).sql(
            "INSERT INTO t VALUES (2, 'first', 5, 'a'), (3, 'newer', 9, 'a')"
        )
        monkeypatch.setattr(store, "check_lock", commit_and_check)
        writer(batch(spark, columns, (1, "u", 5, "b"), (2, "u", 6, "b"), (3, "late", 8, "b")), 0)
    assert rows(acid, "SELECT k, v, at, p FROM t ORDER BY k, at") == [
        (1, "u", 5, "b"), (2, "u", 6, "b"), (3, "newer", 9, "a"),
    ]  # fmt: skip


def test_what_cannot_be_is_refused_first(spark: SparkSession, acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE t (k INT) {ACID}")
    acid.sql("CREATE TABLE plain (k INT) STORED AS ORC")
    insert_only = "TBLPROPERTIES ('transactional'='true','transactional_properties'='insert_only')"
    acid.sql(f"CREATE TABLE added (k INT) STORED AS ORC {insert_only}")
    t = acid.table("t")
    with pytest.raises(UnsupportedFeatureError, match="not transactional"):
        acid.table("plain").stream_writer("q")
    with pytest.raises(InsertOnlyError):
        acid.table("added").stream_writer("q", merge_on=["k"])
    with pytest.raises(NoSuchColumnError, match="no column x to merge on; it has k"):
        t.stream_writer("q", merge_on=["x"])
    with pytest.raises(ConfigError, match="need merge_on="):
        t.stream_writer("q", change_type="op")
    with pytest.raises(ConfigError, match="does not name its checkpoint"):
        t.stream_writer("q")(batch(spark, "k INT", (1,)), 0)
    acid.table("added").stream_writer("q", checkpoint="c")(batch(spark, "k INT", (1,)), 0)
    assert rows(acid, "SELECT * FROM added") == [(1,)]
