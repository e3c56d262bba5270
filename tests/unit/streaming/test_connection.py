"""Streams end to end on real files and a real store, read by a reader that shares no code (scenarios R1 to R8)."""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import orc
from stream_tables import ACID, Warehouse

from hiveacid.config.setting_definitions import ORC_COMPRESS
from hiveacid.core.model import Column, TableName
from hiveacid.core.schema.bucket_hash import bucket_number
from hiveacid.core.schema.types import parse_type
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.errors import (
    BadRecordError,
    ConfigError,
    NoSuchColumnError,
    NoSuchTableError,
    SchemaMismatchError,
    StorageError,
    TransactionAbortedError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from hiveacid.ports.transactions import Client
from hiveacid.stores.sql.store import SqlStore
from hiveacid.streaming import Connection
from hiveacid.transactions import transaction

B0 = 536870912
T = TableName("default", "t")
HIVE3, ZLIB = ", 'hiveacid.layout.level'='hive3'", ", 'orc.compress'='zlib'"


def batch_of(*numbers: int) -> Any:
    return pa.table({"id": pa.array(numbers, pa.int32()), "name": [f"n{n}" for n in numbers]})


def simple(wh: Warehouse, more: str = "") -> None:
    wh.create(f"CREATE TABLE t (id INT, name STRING) {more} {ACID}")


def send(connection: Any, *numbers: int) -> None:
    connection.begin_transaction()
    connection.write(batch_of(*numbers))
    connection.commit()


def test_r1_each_transaction_has_a_delta_of_its_own(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1, 2)
        assert wh.files("t") == [
            "delta_0000001_0000001_0000/_orc_acid_version",
            "delta_0000001_0000001_0000/bucket_00000",
        ]
        assert wh.findings("t") == []
        send(stream, 3)
        assert wh.files("t")[2:] == [
            "delta_0000002_0000002_0000/_orc_acid_version",
            "delta_0000002_0000002_0000/bucket_00000",
        ]
        assert stream.stats.records_written == 3
    with wh.connect("t") as stream:
        send(stream, 4)
        assert stream.stats.committed_transactions == 1
        assert (
            stream.stats.bytes_written
            == (wh.root / "t/delta_0000003_0000003_0000/bucket_00000").stat().st_size
        )
    assert wh.files("t")[4:] == [
        "delta_0000003_0000003_0000/_orc_acid_version",
        "delta_0000003_0000003_0000/bucket_00000",
    ]
    assert wh.events("t") == {
        "": [(1, B0, 0, (1, "n1")), (1, B0, 1, (2, "n2")), (2, B0, 0, (3, "n3")), (3, B0, 0, (4, "n4"))]
    }
    assert wh.findings("t") == []
    assert not list((wh.root / "t").glob(".hiveacid*"))


def test_r2_an_aborted_transaction_in_the_middle_is_never_seen(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1)
        stream.begin_transaction()
        stream.write(batch_of(2, 3))
        stream._current._files[(), 0].spill()  # type: ignore[union-attr] # as large ones do
        stream.abort()
        send(stream, 4)
        assert wh.rows("t") == [(1, "n1"), (4, "n4")]
        stream.begin_transaction()
        stream.write(batch_of(5))
        stream._current._files[(), 0].spill()  # type: ignore[union-attr]
        assert wh.rows("t") == [(1, "n1"), (4, "n4")]
        stream.abort()
        assert stream.stats.aborted_transactions == 2
    assert wh.rows("t") == [(1, "n1"), (4, "n4")]
    assert [name for name in wh.files("t") if "bucket" in name] == [
        "delta_0000001_0000001_0000/bucket_00000",
        "delta_0000003_0000003_0000/bucket_00000",
    ]
    assert wh.findings("t") == []


def test_r2_nothing_lies_there_where_the_only_transaction_is_aborted(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        stream.write({"id": 1})
        stream.abort()
        stream.begin_transaction()
        assert stream.commit() == 0
    assert wh.files("t") == []


def test_r3_readers_beside_a_stream_see_what_was_committed(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        for number in range(20):
            stream.begin_transaction()
            stream.write(batch_of(*range(number * 10, number * 10 + 10)))
            assert len(wh.rows("t")) == number * 10
            stream.commit()
            assert wh.rows("t")[-1] == (number * 10 + 9, f"n{number * 10 + 9}")
            assert wh.findings("t") == []
    assert [row[0] for row in wh.rows("t")] == list(range(200))


def test_r4_static_and_dynamic_partitions(wh: Warehouse) -> None:
    simple(wh, "PARTITIONED BY (day DATE, kind STRING)")
    rows = [
        {"id": 1, "name": "a", "day": date(2024, 1, 1), "kind": "x/y"},
        {"id": 2, "name": "b", "day": None, "kind": ""},
        {"id": 3, "name": "c", "day": date(2024, 1, 1), "kind": "x/y"},
    ]
    with wh.connect("t") as stream:
        stream.begin_transaction()
        stream.write(rows)
        assert wh.store.list_partitions(T) == ()
        stream.commit()
        assert [one.values for one in wh.store.list_partitions(T)] == [("2024-01-01", "x/y"), (None, None)]
        stream.begin_transaction()
        stream.write([rows[0] | {"id": 9, "kind": None}, rows[2] | {"id": 8}])
        stream.commit()
    with wh.connect("t", partition={"day": "2024-01-01"}) as stream:
        stream.begin_transaction()
        stream.write([{"id": 5, "name": None, "kind": "x/y"}])
        stream.commit()
    with wh.connect("t", partition={"DAY": date(2024, 2, 1), "kind": "s"}) as stream:
        send(stream, 6)
    default = "__HIVE_DEFAULT_PARTITION__"
    assert {name: [event[3][0] for event in events] for name, events in wh.events("t").items()} == {
        f"day={default}/kind={default}": [2],
        f"day=2024-01-01/kind={default}": [9],
        "day=2024-01-01/kind=x%2Fy": [1, 3, 8, 5],
        "day=2024-02-01/kind=s": [6],
    }
    assert wh.findings("t") == []
    for partition, error in (
        ({"kind": "x"}, ConfigError),
        ({"hour": "x"}, NoSuchColumnError),
        ({"day": "no day"}, SchemaMismatchError),
    ):
        with pytest.raises(error):
            wh.connect("t", partition=partition)


def test_r4_many_streams_make_the_same_partition_at_once(wh: Warehouse) -> None:
    simple(wh, "PARTITIONED BY (p INT)")
    streams = [wh.connect("t") for _ in range(4)]
    for number, stream in enumerate(streams):
        stream.begin_transaction()
        stream.write([{"id": number, "name": "", "p": 7}])
    threads = [threading.Thread(target=stream.commit) for stream in streams]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for stream in streams:
        stream.close()
    assert [one.values for one in wh.store.list_partitions(T)] == [("7",)]
    assert sorted(row[0] for row in wh.rows("t")) == [0, 1, 2, 3]
    assert wh.findings("t") == []


@pytest.mark.parametrize(("version", "count"), [(1, 7), (2, 100)])
def test_r5_rows_are_in_the_buckets_of_hive(wh: Warehouse, version: int, count: int) -> None:
    wh.create(
        f"CREATE TABLE t (id BIGINT, name STRING) CLUSTERED BY (name, id) INTO {count} BUCKETS STORED AS ORC "
        f"TBLPROPERTIES ('transactional'='true','bucketing_version'='{version}')"
    )
    rows = [{"id": n * 7919, "name": f"name {n % 37}" if n % 5 else None} for n in range(300)]
    with wh.connect("t") as stream:
        for part in (rows[:250], rows[250:]):
            stream.begin_transaction()
            stream.write(part)
            stream.commit()
    found = wh.events("t")[""]
    assert sorted(event[3][0] for event in found) == [row["id"] for row in rows]
    types = [parse_type("string"), parse_type("bigint")]
    for _, bucket, _, (number, name) in found:
        assert bucket - B0 >> 16 == bucket_number([name, number], types, count, version)
    for file in (wh.root / "t/delta_0000001_0000001_0000").glob("bucket_*"):
        inside = {event[1] for event in found if f"bucket_{event[1] - B0 >> 16:05d}" == file.name}
        assert len(inside) == 1
    assert wh.findings("t") == []


def test_r6_a_bad_record_is_named_and_takes_nothing_of_its_call_with_it(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        assert stream.write([{"id": 1, "name": "a"}, {"id": 2, "name": "b"}]) == 2
        with pytest.raises(BadRecordError, match=r"record 4 does not fit.*no number") as caught:
            stream.write([{"id": 3, "name": "c"}, {"id": "no number", "name": "d"}])
        assert caught.value.record == "{'id': 'no number', 'name': 'd'}"
        stream.write({"id": 5, "name": "e"})
        stream.commit()
    assert [row[0] for row in wh.rows("t")] == [1, 2, 5]


def test_r7_closing_aborts_the_open_transaction(wh: Warehouse) -> None:
    simple(wh)
    stream = wh.connect("t")
    assert stream.ids is None
    send(stream, 1)
    first = stream.ids
    stream.begin_transaction()
    stream.write(batch_of(2))
    ids = [first, stream.ids]
    assert [write_id for _, write_id in ids] == [1, 2]
    stream.close()
    stream.close()
    assert stream.stats.aborted_transactions == 1
    assert [wh.store.txn_state(txn_id) for txn_id, _ in ids] == ["committed", "aborted"]
    assert wh.rows("t") == [(1, "n1")]
    assert wh.store.show_locks() == ()
    assert wh.files("t") == [
        "delta_0000001_0000001_0000/_orc_acid_version",
        "delta_0000001_0000001_0000/bucket_00000",
    ]
    with pytest.raises(TransactionStateError, match="closed"):
        stream.begin_transaction()
    with wh.connect("t") as stream:

        def fail() -> None:
            with stream.transaction():
                stream.write(batch_of(3))
                raise RuntimeError

        with pytest.raises(RuntimeError):
            fail()
        assert stream.stats.aborted_transactions == 1
    assert wh.rows("t") == [(1, "n1")]


def test_a_commit_asks_the_store_once_for_all_its_files(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each call is a round trip."""
    simple(wh, "PARTITIONED BY (p INT)")
    asked: list[str] = []
    for verb in ("txn_state", "abort_txns"):
        method = getattr(SqlStore, verb)

        def count(*arguments: Any, of: Any = method, name: str = verb) -> Any:
            asked.append(name)
            return of(*arguments)

        monkeypatch.setattr(SqlStore, verb, count)
    monkeypatch.setattr(transaction, "_ASK_AGAIN", 10**9)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        stream.write([{"id": number, "name": "", "p": number} for number in range(5)])
        stream.commit()
        assert asked == ["txn_state"]
    assert asked == ["txn_state"]
    assert len(wh.rows("t")) == 5


def test_r8_heartbeats_keep_the_open_transaction_alive(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    simple(wh)
    asked = []
    heartbeat = wh.store.heartbeat

    def noted(ids: Any) -> Any:
        asked.append(tuple(ids))
        return heartbeat(ids)

    monkeypatch.setattr(wh.store, "heartbeat", noted)
    with wh.connect("t", settings={"hive.txn.timeout": "1s"}) as stream:
        send(stream, 1)
        stream.begin_transaction()
        stream._context.transactions.heartbeats.beat()
        assert asked[-1] == (stream.ids[0],)
    count = len(asked)
    stream._context.transactions.heartbeats.beat()
    assert len(asked) == count  # none after the end


def test_a_reaped_transaction_cannot_go_on(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1)
        stream.begin_transaction()
        stream.write(batch_of(2))
        wh.store.abort_txns([stream.ids[0]], "reaped")
        stream._asked_at = 0
        with pytest.raises(TransactionAbortedError):
            stream.write(batch_of(3))
        with pytest.raises(TransactionStateError):
            stream.commit()
        assert stream.stats.aborted_transactions >= 1
        stream.begin_transaction()
        stream.write(batch_of(4))
        wh.store.abort_txns([stream.ids[0]], "reaped")
        with pytest.raises(TransactionAbortedError):
            stream.commit()
        assert wh.rows("t") == [(1, "n1")]
        send(stream, 5)
        assert wh.rows("t") == [(1, "n1"), (5, "n5")]
    assert [found for found in wh.findings("t") if not found.startswith("aborted")] == []
    with wh.connect("t") as stream:
        stream.begin_transaction()
        stream.write(batch_of(6))
        wh.store.abort_txns([stream.ids[0]], "reaped")
        with pytest.raises(TransactionAbortedError):
            stream.commit()
    assert not [name for name in wh.files("t") if name.startswith("delta_0000010")]


def test_a_reaped_transaction_is_noticed_after_the_clock_went_back(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        wh.store.abort_txns([stream.ids[0]], "reaped")
        stream._asked_at = stream._now() + 3_600_000
        with pytest.raises(TransactionAbortedError):
            stream.write(batch_of(1))


def test_a_failed_commit_shows_nothing(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1)
        stream.begin_transaction()
        stream.write(batch_of(2))

        def full(*_: object) -> None:
            raise StorageError("no space left")

        with monkeypatch.context() as patch:
            patch.setattr("hiveacid.storage.local_file_system.LocalFileSystem.replace_tail", full)
            with pytest.raises(StorageError):
                stream.commit()
        assert stream.stats.aborted_transactions == 1
        assert wh.rows("t") == [(1, "n1")]
        send(stream, 3)
        assert stream.ids[1] == 3
    assert wh.rows("t") == [(1, "n1"), (3, "n3")]
    assert wh.findings("t") == []


def test_a_table_overwritten_between_two_transactions_gets_rows_above_the_new_base(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1)
        overwrite(wh, "t")
        send(stream, 2)
        assert stream.ids[1] == 3
        assert wh.rows("t") == [(2, "n2")]
    simple_part = f"CREATE TABLE p (id INT, name STRING) PARTITIONED BY (p INT) {ACID}"
    wh.create(simple_part)
    with wh.connect("p") as stream:
        stream.begin_transaction()
        stream.write([{"id": 1, "p": 1}])
        stream.commit()
        overwrite(wh, "p", "p=2")
        stream.begin_transaction()
        stream.write([{"id": 2, "p": 2}])
        stream.commit()
        stream.begin_transaction()
        stream.write([{"id": 3, "p": 2}])
        stream.commit()
    assert sorted(row[0] for row in wh.rows("p")) == [1, 2, 3]


def overwrite(wh: Warehouse, table: str, partition: str = "") -> None:
    """Do what INSERT OVERWRITE of no rows leaves."""
    name = TableName("default", table)
    (txn_id,) = wh.store.open_txns(Client("u", "h", "a"))
    wh.store.lock(txn_id, [LockComponent(LockType.EXCLUSIVE, "default", table)])
    (write_id,) = wh.store.allocate_write_ids([txn_id], name)
    (wh.root / table / partition / f"base_{write_id:07d}").mkdir(parents=True)
    wh.store.commit_txn(txn_id)


def test_a_changed_table_gets_rows_of_its_new_columns(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1)
        table = wh.store.get_table(T)
        assert table is not None
        wh.store.alter_table(T, replace(table, columns=(*table.columns, Column("more", "int"))))
        stream.begin_transaction()
        stream.write([{"id": 2, "name": "b", "more": 5}])
        stream.commit()
    assert wh.rows("t") == [(1, "n1"), (2, "b", 5)]


def test_insert_only_tables_get_a_delta_for_each_transaction(wh: Warehouse) -> None:
    wh.create(
        "CREATE TABLE t (id INT, c CHAR(3), d DECIMAL(5,1)) STORED AS ORC TBLPROPERTIES "
        "('transactional'='true','transactional_properties'='insert_only')"
    )
    with wh.connect("t") as stream:
        for number in (1, 2):
            stream.begin_transaction()
            stream.write([{"id": number, "c": "x", "d": Decimal("1.5")}])
            stream.commit()
            stream.begin_transaction()
            stream.write([{"id": 99}])
            stream.abort()
    assert wh.files("t") == ["delta_0000001_0000001_0000/000000_0", "delta_0000003_0000003_0000/000000_0"]
    assert wh.findings("t") == []


@pytest.mark.parametrize(
    ("given", "setting", "codec"),
    [("", None, "ZSTD"), ("", "lz4", "LZ4"), (ZLIB, "lz4", "ZLIB"), (HIVE3, None, "SNAPPY")],
)
def test_the_codec_is_that_of_the_table_or_of_the_settings(
    wh: Warehouse, given: str, setting: str | None, codec: str
) -> None:
    wh.create(
        f"CREATE TABLE t (id INT, name STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true'{given})"
    )
    with wh.connect("t", settings={ORC_COMPRESS.name: setting} if setting else {}) as stream:
        send(stream, 1)
    (file,) = [name for name in wh.files("t") if "/bucket_" in name]
    assert str(orc.ORCFile(wh.root / "t" / file).compression).upper() == codec


@pytest.mark.parametrize(
    ("name", "value", "refusal"),
    [("orc.compress", "brotli", ConfigError), ("hiveacid.layout.level", "hive3", UnsupportedFeatureError)],
)
def test_a_codec_that_hive_cannot_read_is_refused(
    wh: Warehouse, name: str, value: str, refusal: type[Exception]
) -> None:
    wh.create("CREATE TABLE t (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    made = wh.store.get_table(TableName("default", "t"))  # another engine may have set the property
    wh.store.alter_table(made.name, made.with_properties({name: value}))
    with pytest.raises(refusal, match=r"orc\.compress"):
        wh.connect("t", settings={ORC_COMPRESS.name: "ZSTD"})


def test_a_misspelt_warehouse_is_not_made(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no warehouse at"):
        Connection("t", warehouse=str(tmp_path / "whaerhouse"))
    with pytest.raises(ConfigError, match="no warehouse at"):
        ChangeSource(ChangeOptions("t", str(tmp_path / "whaerhouse"), None)).definition()
    assert not list(tmp_path.iterdir())


def test_what_cannot_be_streamed_into_is_refused(wh: Warehouse) -> None:
    wh.create("CREATE TABLE plain (id INT) STORED AS ORC")
    wh.create("CREATE TABLE u (id INT, u UNIONTYPE<INT,STRING>) " + ACID)
    wh.create(
        "CREATE TABLE pq (id INT) STORED AS PARQUET TBLPROPERTIES "
        "('transactional'='true','transactional_properties'='insert_only')"
    )
    for table in ("plain", "u", "pq"):
        with pytest.raises(UnsupportedFeatureError):
            wh.connect(table)
    with pytest.raises(NoSuchTableError):
        wh.connect("nothing")
    simple(wh)
    with wh.connect("t") as stream:
        for verb in (stream.commit, stream.abort, lambda: stream.write({"id": 1})):
            with pytest.raises(TransactionStateError):
                verb()
        stream.begin_transaction()
        with pytest.raises(TransactionStateError):
            stream.begin_transaction()
        with pytest.raises(ConfigError, match="Arrow data"):
            stream.write("1,a")
        with pytest.raises(SchemaMismatchError):
            stream.write(pa.table({"id": [1]}))
        stream.write({"id": 1, "name": "a"})
        stream.commit()
    assert wh.rows("t") == [(1, "a")]


def test_large_transactions_are_written_as_they_come(wh: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    simple(wh)
    monkeypatch.setattr("hiveacid.streaming.stream_transaction._MAX_BUFFERED_BYTES", 1000)
    for number in (1, 2):
        with wh.connect("t") as stream:
            stream.begin_transaction()
            for start in range(0, 1000, 100):
                stream.write(batch_of(*range(start, start + 100)))
            assert stream._current._files[(), 0].stripes.size > 1000  # type: ignore[union-attr]
            assert len(wh.rows("t")) == 1000 * (number - 1)
            stream.commit()
    found = wh.events("t")[""]
    assert [(event[2], event[3][0]) for event in found] == [(n, n) for n in range(1000)] * 2
    assert wh.findings("t") == []


def test_records_one_by_one_take_little_more_memory_than_their_values(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A record alone takes 9 KB as ten arrays: a transaction of a million of them took all memory before it was spilled."""
    simple(wh)
    monkeypatch.setattr("hiveacid.streaming.stream_transaction._MAX_BUFFERED_BYTES", 1 << 20)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        most = 0
        for n in range(2000):
            stream.write({"id": n, "name": f"n{n}"})
            current = stream._current
            assert current is not None
            most = max(most, len(current._files[(), 0]._batches))
        stream.commit()
    assert most < 600
    assert wh.rows("t") == [(n, f"n{n}") for n in range(2000)]
    (path,) = (wh.root / "t").glob("delta_*/bucket_*")
    assert orc.ORCFile(str(path)).nstripes == 1, "small values are joined, not spilled"


def test_one_thread_at_a_time(wh: Warehouse) -> None:
    simple(wh)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        with stream._exclusive(), pytest.raises(TransactionStateError, match="thread"):
            stream.write(batch_of(1))
        stream.write(batch_of(1))
        stream.commit()


def test_a_transaction_that_a_stream_did_not_use_leaves_nothing(wh: Warehouse) -> None:
    """An ordinary end: no aborted write id stays, which every later begin would read."""
    simple(wh)
    with wh.connect("t") as stream:
        send(stream, 1)
        stream.begin_transaction()
    assert wh.rows("t") == [(1, "n1")]
    assert wh.store.aborted_write_ids(TableName("default", "t")) == ()
    assert wh.findings("t") == []


def test_a_transaction_that_published_nothing_leaves_nothing(wh: Warehouse) -> None:
    """Its rows were staged only: no write id stays aborted, and the staging directory is gone."""
    simple(wh)
    name = TableName("default", "t")
    with wh.connect("t") as stream:
        stream.begin_transaction()
        stream.write(batch_of(1))
        stream._current._files[(), 0].spill()  # type: ignore[union-attr]
        assert len(list((wh.root / "t").glob(".hiveacid*/*"))) == 1
    assert wh.store.aborted_write_ids(name) == ()
    assert list((wh.root / "t").iterdir()) == []
