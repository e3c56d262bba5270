"""Batches of a query through a connection: each exactly once, whoever dies where, whoever else writes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from stream_tables import ACID, Warehouse

from hiveacid.core.transactions.commit_records import StreamKey
from hiveacid.errors import (
    BadRecordError,
    CatalogError,
    StreamCheckpointError,
    StreamFencedError,
    TransactionAbortedError,
    TransactionStateError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Client, Operation, Written
from hiveacid.stores.sql.store import SqlStore
from hiveacid.streaming import Connection, StreamingQueryWriter
from support.crash.faults import (
    Faults,
    FaultyFileSystem,
    FaultyStore,
    Moment,
    Point,
    SimulatedCrash,
    crash,
)

TABLE = f"CREATE TABLE t (id INT, name STRING) PARTITIONED BY (p INT) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}"


def some(batch: int) -> list[dict[str, Any]]:
    return [{"id": batch * 100 + one, "name": "x", "p": one % 3} for one in range(30)]


def ids(*batches: int) -> list[int]:
    return sorted(row["id"] for batch in batches for row in some(batch))


def found(wh: Warehouse) -> list[int]:
    return sorted(row[0] for row in wh.rows("t"))


@pytest.fixture(params=["own", "metastore"])
def registered_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the store keep the progress, or say that it is a metastore, beside which it is rows of a table."""
    if request.param == "metastore":
        monkeypatch.setattr(SqlStore, "maintained_by_hiveacid", lambda _: False)
    return str(request.param)


def begin(
    wh: Warehouse, run: str, faults: Faults | None = None, checkpoint: str = "c", **more: Any
) -> StreamingQueryWriter:
    """Open a connection, through fault points if asked, and register."""
    store: Any = wh.store if faults is None else FaultyStore(wh.store, faults)
    connection = Connection("t", store=store)
    if faults is not None:
        context = connection._context
        connection._context = replace(context, fs=FaultyFileSystem(context.fs, faults))  # type: ignore[arg-type]
        faults.start()
    return StreamingQueryWriter.register(connection, "events", run, checkpoint, **more)


def test_a_batch_is_there_once_wherever_its_writer_dies(wh: Warehouse, registered_by: str) -> None:
    """At every call of store and file system, before it and after it; the next run delivers the batch again."""
    wh.create(TABLE)
    first_commits = 0 if registered_by == "own" else 2  # of a look at the progress, and of the registration
    begin(wh, "first").deliver(0, lambda: [some(0)])
    alive = Faults()
    begin(wh, "alive", alive).deliver(1, lambda: [some(1)])
    counts = Counter(alive.calls)
    points = [
        Point(verb, nth, moment)
        for verb, calls in counts.items()
        for nth in range(1, calls + 1)
        for moment in Moment
    ]
    assert len(points) > 40
    if registered_by == "metastore":  # each takes three times as long
        points = [*points[::6], *(point for point in points if point.verb == "store.commit_txn")]
    for number, point in enumerate(points, 2):
        faults = Faults()
        faults.at(point.verb, point.nth, point.moment, crash)
        with pytest.raises(SimulatedCrash):
            begin(wh, f"dies {number}", faults).deliver(number, lambda batch=number: [some(batch)])  # type: ignore[misc]
        committed = Point("store.commit_txn", first_commits + 1, Moment.AFTER)
        there = faults.calls.count("store.commit_txn") > first_commits and (
            point.verb != committed.verb or point == committed
        )
        if there or number % 5 == 0:
            assert found(wh) == ids(*range(number + there)), f"died {point}"
        written = begin(wh, f"lives {number}").deliver(number, lambda batch=number: [some(batch)])  # type: ignore[misc]
        assert written == (None if there else 30), f"died {point}"
    assert found(wh) == ids(*range(len(points) + 2))


@pytest.mark.usefixtures("registered_by")
def test_two_copies_of_a_query(wh: Warehouse) -> None:
    """One is fenced, whatever it is doing, and nothing that it was writing is there."""
    wh.create(TABLE)
    old, new = begin(wh, "old"), begin(wh, "new")
    assert (old.first, new.first) == (True, True)
    with pytest.raises(StreamFencedError):
        old.deliver(0, lambda: [some(0)])
    assert not old.connection.in_transaction
    new.deliver(0, lambda: [some(1)])
    with pytest.raises(StreamFencedError):
        begin(wh, "old")
    again = begin(wh, "new")
    assert not again.first
    assert again.deliver(0, lambda: [some(2)]) is None
    again.deliver(1, lambda: [some(2), some(3)])
    assert found(wh) == ids(1, 2, 3)
    with pytest.raises(StreamCheckpointError):
        begin(wh, "third", checkpoint="d")
    begin(wh, "third", checkpoint="d", restart=True).deliver(0, lambda: [some(4)])
    assert found(wh) == ids(1, 2, 3, 4)


@pytest.mark.parametrize("registered_by", ["metastore"], indirect=True)
@pytest.mark.usefixtures("registered_by")
def test_the_progress_is_one_row_however_many_batches_there_were(wh: Warehouse) -> None:
    """Each batch deletes the row before, so that a compaction leaves one; of two queries each has its own."""
    wh.create(TABLE)
    for number in range(4):
        begin(wh, f"run {number}").deliver(number, lambda batch=number: [some(batch)])  # type: ignore[misc]
    other = StreamingQueryWriter.register(Connection("t", store=wh.store), "others", "run", "c")
    other.deliver(0, lambda: [some(4)])
    kept = sorted((text["query"], text["last_batch_id"]) for text in map(json.loads, progress_texts(wh)))
    assert kept == [("events", 3), ("others", 0)]
    assert wh.findings("hiveacid_streams") == []
    assert begin(wh, "last").deliver(3, lambda: [some(3)]) is None


@pytest.mark.usefixtures("registered_by")
def test_a_renamed_table_keeps_the_progress_of_its_queries(wh: Warehouse) -> None:
    """A new table with its old name, made in the same second, has none."""
    made = wh.create(TABLE)
    begin(wh, "first").deliver(0, lambda: [some(0)])
    moved = replace(made.name, name="moved")
    wh.store.alter_table(made.name, replace(made, name=moved))
    connection = Connection("moved", store=wh.store)
    again = StreamingQueryWriter.register(connection, "events", "second", "c")
    assert again.deliver(0, lambda: [some(0)]) is None
    assert again.deliver(1, lambda: [some(1)]) == 30
    other = replace(made, location=f"{made.location}-2")
    wh.store.create_table(other)
    assert begin(wh, "third").deliver(0, lambda: [some(2)]) == 30


def progress_texts(wh: Warehouse) -> list[str]:
    return [row[0] for row in wh.rows("hiveacid_streams")]


@pytest.mark.parametrize("registered_by", ["metastore"], indirect=True)
@pytest.mark.usefixtures("registered_by")
@pytest.mark.parametrize(
    "columns",
    [f"(progress STRING, stream STRING) {ACID}", f"(progress INT) PARTITIONED BY (stream STRING) {ACID}"],
)
def test_a_table_of_a_user_with_the_name_of_that_of_the_progress_is_refused(
    wh: Warehouse, columns: str
) -> None:
    wh.create(TABLE)
    wh.create(f"CREATE TABLE hiveacid_streams {columns}")
    with pytest.raises(CatalogError, match="hiveacid_streams is another table"):
        begin(wh, "run")
    assert wh.rows("hiveacid_streams") == []


def test_a_batch_that_does_not_fit_leaves_nothing(wh: Warehouse) -> None:
    """It may come again, put right; an empty one counts as well."""
    wh.create(TABLE)
    stream = begin(wh, "run")
    with pytest.raises(BadRecordError):
        stream.deliver(0, lambda: [some(0), [{"id": 1}], {"other": 1}])
    assert wh.store.show_locks() == ()
    assert found(wh) == []
    stream.deliver(0, lambda: [some(0)])
    assert stream.deliver(1, list) == 0
    progress = wh.store.stream_progress(StreamKey(stream.connection.table, "events"))
    assert progress is not None
    assert progress.last_batch_id == 1
    with pytest.raises(TransactionStateError, match="no transaction is open"):
        stream.connection.add_stream_progress(None)  # type: ignore[arg-type]


def test_an_overwritten_partition_is_written_again(wh: Warehouse) -> None:
    """As often as need be, but not for ever."""
    wh.create(TABLE)
    stream, times = begin(wh, "run"), iter([1, 1, 0, *[1] * 5, 0])

    def rows(batch: int) -> Iterator[list[dict[str, Any]]]:
        if next(times):  # somebody overwrites a partition while the batch is open, and took no lock
            (txn_id,) = wh.store.open_txns(Client("u", "h", "a"))
            (write_id,) = wh.store.allocate_write_ids([txn_id], stream.connection.table)
            (wh.root / "t" / "p=1" / f"base_{write_id:07d}").mkdir(parents=True)
            overwritten = Written(stream.connection.table, "p=1", Operation.UPDATE, replaced=True)
            wh.store.commit_txn(txn_id, written=[overwritten])
        yield some(batch)

    assert stream.deliver(0, lambda: rows(0)) == 30
    with pytest.raises(
        WriteConflictError, match=r"batch 1 of stream .+ was tried 5 times, .* Last conflict: "
    ):
        stream.deliver(1, lambda: rows(1))
    assert stream.deliver(1, lambda: rows(1)) == 30
    kept = [one for one in some(0) if one["p"] != 1]
    assert found(wh) == sorted(row["id"] for row in (*kept, *some(1)))


def test_two_streams_create_a_partition_at_the_same_time(wh: Warehouse) -> None:
    """The partition is new to the second one, too, but the rows in it are those of the first, not leftovers."""
    wh.create(f"CREATE TABLE p (id INT, name STRING) PARTITIONED BY (p INT) {ACID}")
    with wh.connect("p") as first, wh.connect("p") as second:
        for number, stream in enumerate((first, second)):
            stream.begin_transaction()
            stream.write([{"id": number, "p": 1}])
        first.commit()
        second.commit()
    assert sorted(row[0] for row in wh.rows("p")) == [0, 1]


def test_rows_of_an_aborted_transaction_keep_nobody_from_a_new_partition(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive's streaming writes a directory with the ids of the whole batch, of which another is committed in another partition."""
    wh.create(f"CREATE TABLE p (id INT, name STRING) PARTITIONED BY (p INT) {ACID}")
    with wh.connect("p") as stream:
        stream.begin_transaction()
        stream.write([{"id": 1, "p": 1}])
        stream.commit()
        stream.begin_transaction()
        stream.write([{"id": 2, "p": 2}])
        aborted = stream.ids[0]  # type: ignore[index]

        def abort_then_commit(*args: Any, commit: Any = wh.store.commit_txn, **options: Any) -> None:
            wh.store.abort_txns([aborted], "timed out")
            commit(*args, **options)

        with monkeypatch.context() as patches:
            patches.setattr(wh.store, "commit_txn", abort_then_commit)
            patches.setattr("hiveacid.table.write.output_directories.remove_aborted", lambda *_: None)
            with pytest.raises(TransactionAbortedError):
                stream.commit()
        (left,) = wh.root.glob("p/p=2/delta_*")
        (left / "bucket_00000_flush_length").write_bytes(
            (left / "bucket_00000").stat().st_size.to_bytes(8, "big")
        )
        left.rename(left.with_name("delta_0000001_0000004"))
        stream.begin_transaction()
        stream.write([{"id": 3, "p": 2}])
        stream.commit()
    assert sorted(row[0] for row in wh.rows("p")) == [1, 3]


def test_a_partition_that_a_stream_creates_meanwhile_holds_no_leftovers(wh: Warehouse) -> None:
    """The stream's directory has an older id, too, which is committed in another partition."""
    wh.create(f"CREATE TABLE p (id INT, name STRING) PARTITIONED BY (p INT) {ACID}")
    with wh.connect("p") as first, wh.connect("p") as second:
        for number in (1, 2):
            first.begin_transaction()
            if number == 2:
                second.begin_transaction()
                second.write([{"id": 9, "p": 2}])
            first.write([{"id": number, "p": number}])
            first.commit()
        second.commit()
    assert sorted(row[0] for row in wh.rows("p")) == [1, 2, 9]
