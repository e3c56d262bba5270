"""Batch reads by ``format("hiveacid")``, and writes whose partitions other writers overwrite; without a session."""

from __future__ import annotations

import pickle
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from pyspark.sql.datasource import WriterCommitMessage

from hiveacid.arrow.warehouse import open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.datasource.data_source import BatchWriter, HiveAcidDataSource
from hiveacid.datasource.stream_sink import Sink
from hiveacid.errors import UnsupportedFeatureError, WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.spark.session.worker_pickling import pickle_for_workers
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


def test_a_warehouse_on_an_object_store_is_read_and_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    skip_without(WHY_NOT)
    with s3_server() as server:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "access")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "not-a-secret")
        monkeypatch.setenv("AWS_ENDPOINT_URL", server.endpoint)
        monkeypatch.setenv("AWS_REGION", "us-east-1")
        root, store = f"{server.make_bucket('lake')}/wh", f"sqlite:///{tmp_path}/store.db"
        create(root, store, f"(id INT, v STRING) PARTITIONED BY (p INT) {ACID}")
        some = [{"id": number, "v": f"v{number}", "p": number % 2} for number in range(6)]
        with open_warehouse(root, store) as warehouse:
            table = warehouse.table("t")
            table.append(pa.Table.from_pylist(some, table.schema))
        assert read(root, store) == some
        source = HiveAcidDataSource({"table": "t", "warehouse": root, "store": store})
        with pytest.raises(UnsupportedFeatureError, match="local directories only"):
            source.writer(source.schema(), overwrite=False)
        with pytest.raises(UnsupportedFeatureError, match="local directories only"):
            source.streamReader(source.schema())
