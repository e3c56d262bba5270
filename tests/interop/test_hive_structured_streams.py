"""Streaming queries out of tables of a real metastore, and into them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hive_server import HiveServers

from hiveacid.datasource.data_source import HiveAcidDataSource
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.errors import StreamFencedError
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.streaming import Connection, StreamingQueryWriter
from support.crash.faults import Faults, FaultyStore, Moment, SimulatedCrash, crash
from support.stream_batches import (
    ACID,
    batch,
    check_beside_a_compaction,
    check_beside_a_dropped_partition,
    create,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession


@pytest.fixture(scope="module")
def store(hive: HiveServers) -> Iterator[MetastoreStore]:
    opened = MetastoreStore(hive.url)
    yield opened
    opened.close()


def test_each_change_once_and_an_error_where_hive_may_have_cleaned(
    hive: HiveServers, store: MetastoreStore
) -> None:
    warehouse = Path(hive.place, "warehouse")
    check_beside_a_compaction(store, warehouse, hive.url, cleaner_waits=not hive.is_hive3)


def test_a_partition_that_hive_drops_is_not_passed_over(hive: HiveServers, store: MetastoreStore) -> None:
    check_beside_a_dropped_partition(store, Path(hive.place, "warehouse"), hive.url)


def test_a_batch_is_there_once_wherever_its_writer_dies(hive: HiveServers, store: MetastoreStore) -> None:
    """Into a partitioned table, by the sink of ``format("hiveacid")``: repeated, killed before and after its commit, two copies."""
    create(store, Path(hive.place, "warehouse"), "sunk", f"(id INT) PARTITIONED BY (p INT) {ACID}")
    assert register(store, "first").deliver(0, lambda: [[{"id": 0, "p": 0}]]) == 1
    assert register(store, "again").deliver(0, lambda: [[{"id": 0, "p": 0}]]) is None
    for number, moment in enumerate(Moment, 1):
        faults, rows = Faults(), [{"id": number, "p": number % 2}]
        writer = register(store, f"dies {moment}", faults)
        faults.at("store.commit_txn", 1, moment, crash)
        faults.start()
        with pytest.raises(SimulatedCrash):
            writer.deliver(number, lambda rows=rows: [rows])  # type: ignore[misc]
        there = moment is Moment.AFTER
        written = register(store, f"lives {moment}").deliver(number, lambda rows=rows: [rows])  # type: ignore[misc]
        assert written == (None if there else 1)
    old, new = register(store, "old"), register(store, "new")
    with pytest.raises(StreamFencedError):
        old.deliver(3, lambda: [[{"id": 99, "p": 0}]])
    overtaken = StreamingQueryWriter(Connection("sunk", store=store), new.progress, first=False)

    def rows_while_a_copy_commits() -> list[list[dict[str, int]]]:
        """As if a paused writer went on after its batch was written by another process of the same run."""
        if new.progress is not None and not seen:
            seen.append(overtaken.deliver(3, lambda: [[{"id": 3, "p": 1}]]))
        return [[{"id": 3, "p": 1}]]

    seen: list[int | None] = []
    assert new.deliver(3, rows_while_a_copy_commits) is None
    assert seen == [1]
    source = ChangeSource(ChangeOptions("sunk", None, hive.url, starting="snapshot"))
    assert batch(source, source.start_offset())[0] == [0, 1, 2, 3]
    source.close()


def register(store: MetastoreStore, run: str, faults: Faults | None = None) -> StreamingQueryWriter:
    chosen: Any = store if faults is None else FaultyStore(store, faults)  # type: ignore[arg-type]
    return StreamingQueryWriter.register(Connection("sunk", store=chosen), "query", run, "checkpoint")


def test_a_job_and_a_query_write_by_the_format(
    hive: HiveServers, store: MetastoreStore, tmp_path: Path
) -> None:
    create(store, Path(hive.place, "warehouse"), "written", f"(id INT) {ACID}")
    (tmp_path / "metadata").write_text('{"id": "c"}')
    place = {"table": "written", "store": hive.url}
    columns = HiveAcidDataSource(dict(place)).schema()
    job: Any = HiveAcidDataSource(dict(place)).writer(columns, overwrite=False)
    job.commit([job.write(iter([ids(1, 2)]))])
    into = place | {"query_name": "q", "checkpointlocation": str(tmp_path)}
    for number in (0, 0, 1):
        sink: Any = HiveAcidDataSource(dict(into)).streamWriter(columns, overwrite=False)
        sink.commit([sink.write(iter([ids(10 + number)]))], number)
    source = ChangeSource(ChangeOptions("written", None, hive.url, starting="snapshot"))
    assert batch(source, source.start_offset())[0] == [1, 2, 10, 11]
    source.close()


def ids(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"id": pa.array(numbers, pa.int32())})


def test_foreach_batch_appends_and_merges_once(
    store: MetastoreStore, acid: AcidSession, spark: SparkSession
) -> None:
    acid.sql(f"CREATE TABLE kept (id INT, v STRING) {ACID}")
    for number, (ids, merge_on) in enumerate((((1, 2), ()), ((1, 2), ()), ((2, 3), ("id",)))):
        frame = spark.createDataFrame([(one, f"v{number}") for one in ids], "id INT, v STRING")
        write = acid.table("kept").stream_writer("kept query", merge_on=merge_on, checkpoint="c")
        for _ in range(2):
            write(frame, max(0, number - 1))
    rows = acid.sql("SELECT id, v FROM kept ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, "v0"), (2, "v2"), (3, "v2")]
    assert [lock for lock in store.show_locks() if lock.table == "kept"] == []
    rows_of_streams = acid.sql("SELECT count(*) FROM hiveacid_streams GROUP BY stream").collect()
    assert {row[0] for row in rows_of_streams} == {1}
