"""Batch reads by ``format("hiveacid")``, and writes whose partitions other writers overwrite; without a session."""

from __future__ import annotations

import inspect
import json
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.datasource import WriterCommitMessage

from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.datasource.data_source import BatchWriter, HiveAcidDataSource
from hiveacid.datasource.stream_sink import Sink
from hiveacid.errors import StorageError, UnsupportedFeatureError, WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.spark.session.python_workers import pickle_for_workers
from hiveacid.storage.file_system_routing import AnyFileSystem
from support.corpus.acid_files import acid_bytes, bucket_property, inserts, put
from support.directories.shelves import definition
from support.samples import CLIENT
from support.servers.absent import skip_without
from support.servers.object_store import WHY_NOT, s3_server

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"


class LosingWriter(BatchWriter):
    def _write(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        raise WriteConflictError(f"p=1 was overwritten, {len(messages)} messages")


def test_the_last_conflict_says_how_often_the_write_was_tried(tmp_path: Path) -> None:
    staged = tmp_path / "staged"
    staged.mkdir()
    writer = LosingWriter(Sink({"table": "db.t"}, "", str(staged), "rows"), overwrite=False)
    with pytest.raises(
        WriteConflictError, match=r"the write to db\.t was tried 5 times, .* p=1 was overwritten"
    ):
        writer.commit([])
    assert not staged.exists()


def create(warehouse: str, store: str | None, columns: str, write_ids: int = 0) -> None:
    opened, _ = open_store(warehouse, store, Settings(), SystemClock())
    made = definition(f"CREATE TABLE t {columns}", f"{warehouse}/t")
    properties = tuple(entry for entry in made.properties if entry[0] != ADOPTED_TXN.name)
    opened.create_table(replace(made, properties=properties))
    for _ in range(write_ids):
        (txn_id,) = opened.open_txns(CLIENT)
        opened.allocate_write_ids([txn_id], made.name)
        opened.commit_txn(txn_id)
    opened.close()


def read(warehouse: str, store: str | None = None, **options: str) -> list[dict[str, Any]]:
    """Read as Spark does: plan in one process, read the parts in others."""
    place = {"table": "t", "warehouse": warehouse} | ({} if store is None else {"store": store}) | options
    source = HiveAcidDataSource(place)
    reader = source.reader(source.schema())
    sent = pickle_for_workers((reader, reader.partitions()))
    worker, parts = pickle.loads(sent)  # noqa: S301 - written above
    batches = [batch for part in parts for batch in worker.read(part)]
    rows = [row for batch in batches for row in batch.to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


def test_files_in_parquet_are_read(tmp_path: Path) -> None:
    create(str(tmp_path), None, f"(id INT, v STRING) STORED AS PARQUET {INSERT_ONLY}", 2)
    for number in (1, 2):
        file = tmp_path / "t" / f"delta_000000{number}_000000{number}_0000" / "000000_0"
        file.parent.mkdir(parents=True)
        parquet.write_table(pa.table({"id": pa.array([number], pa.int32()), "v": [f"v{number}"]}), file)
    assert read(str(tmp_path)) == [{"id": 1, "v": "v1"}, {"id": 2, "v": "v2"}]
    assert read(str(tmp_path), as_of="1") == [{"id": 1, "v": "v1"}]
    opened, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    assert len([row for row in opened.show_transactions() if row.state == "OPEN"]) == 2  # they keep the files
    opened.close()


def test_the_newest_versions_of_acid_v1_are_read(tmp_path: Path) -> None:
    create(str(tmp_path), None, f"(id INT, v STRING) {ACID}", 2)
    update = [(1, 1, bucket_property(0), 0, 2, (1, "newer"))]
    put(
        tmp_path / "t",
        {
            "delta_0000001_0000001_0000/bucket_00000": acid_bytes(inserts(1, [(1, "v1")]), "id:int,v:string"),
            "delta_0000002_0000002_0000/bucket_00000": acid_bytes(update, "id:int,v:string"),
        },
    )
    assert read(str(tmp_path)) == [{"id": 1, "v": "newer"}]


def test_text_is_refused(tmp_path: Path) -> None:
    create(str(tmp_path), None, f"(id INT, v STRING) STORED AS TEXTFILE {INSERT_ONLY}")
    with pytest.raises(UnsupportedFeatureError, match="is stored as textfile"):
        read(str(tmp_path))


@contextmanager
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, str]]:
    """Make a table in an object store that only the environment gives access to; yield its address."""
    skip_without(WHY_NOT)
    with s3_server() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        root, store = f"{server.make_bucket('lake')}/wh", f"sqlite:///{tmp_path}/store.db"
        create(root, store, f"(id INT, v STRING) PARTITIONED BY (p INT) {ACID}")
        yield {"table": "t", "warehouse": root, "store": store}


def some(start: int, stop: int) -> list[dict[str, Any]]:
    return [{"id": number, "v": f"v{number}", "p": number % 2} for number in range(start, stop)]


def in_a_worker(writer: Any, rows: list[dict[str, Any]]) -> Any:
    """Stage rows as a task does; return its message as the driver gets it."""
    schema = pa.schema({"id": pa.int32(), "v": pa.string(), "p": pa.int32()})
    sent = pickle.loads(pickle_for_workers(writer))  # noqa: S301 - written here
    batches = [pa.RecordBatch.from_pylist(part, schema) for part in (rows[:2], [], rows[2:])]
    return pickle.loads(pickle_for_workers(sent.write(iter(batches))))  # noqa: S301


def staged(warehouse: str) -> list[str]:
    return [entry.path for entry in AnyFileSystem().list_tree(f"{warehouse}/t") if ".hiveacid" in entry.path]


def test_a_warehouse_on_an_object_store_is_read_and_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with lake(tmp_path, monkeypatch) as place:
        source = HiveAcidDataSource(dict(place))
        writer = source.writer(source.schema(), overwrite=False)
        in_a_worker(writer, some(90, 95))  # of an attempt that was lost
        writer.commit([in_a_worker(writer, some(0, 5)), in_a_worker(writer, []), None])
        assert read(place["warehouse"], place["store"]) == some(0, 5)
        lost = source.writer(source.schema(), overwrite=True)
        message = in_a_worker(lost, some(5, 9))
        assert len(staged(place["warehouse"])) > 0
        lost.abort([message])
        assert staged(place["warehouse"]) == []
        with pytest.raises(StorageError, match=r"staged file .* is missing"):
            lost.commit([message])
        assert read(place["warehouse"], place["store"]) == some(0, 5)


def test_streams_into_and_out_of_an_object_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with the checkpoint there; a repeated batch is written once, a new run removes what an earlier one staged."""
    with lake(tmp_path, monkeypatch) as place:
        check = f"{place['warehouse']}/check"
        AnyFileSystem().write_bytes(f"{check}/metadata", json.dumps({"id": "c"}).encode())
        into = place | {"query_name": "q", "checkpointlocation": check}
        for batch in (0, 0, 1):
            columns = HiveAcidDataSource(dict(place)).schema()
            writer: Any = HiveAcidDataSource(dict(into)).streamWriter(columns, overwrite=False)
            if batch == 1:
                assert in_a_worker(writer, some(50, 55)).rows == 5  # of an attempt that was lost
            writer.commit([in_a_worker(writer, some(batch * 5, batch * 5 + 5))], batch)
        assert staged(place["warehouse"]) == []
        assert read(place["warehouse"], place["store"]) == some(0, 10)
        reader = HiveAcidDataSource(place | {"starting_write_id": "2", "changes": "true"})
        stream: Any = reader.streamReader(reader.schema())
        start = stream.initialOffset()
        end = stream.latestOffset(start, None) if takes_limits(stream) else stream.latestOffset()
        worker = reader.streamReader(reader.schema())  # another one than the driver's, as in Spark
        sent = pickle_for_workers((worker, stream.partitions(start, end)))
        stream.stop()
        worker, parts = pickle.loads(sent)  # noqa: S301 - written above
        rows = [row for part in parts for batch in worker.read(part) for row in batch.to_pylist()]
        assert sorted(row.pop("id") for row in rows) == list(range(5, 10))
        assert {(row["_change_type"], row["_write_id"]) for row in rows} == {("insert", 2)}


def takes_limits(stream: Any) -> bool:
    return "limit" in inspect.signature(stream.latestOffset).parameters
