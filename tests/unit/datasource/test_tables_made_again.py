"""Streaming queries tell a table that was made again, in whatever second, from one that was moved to another store."""

from __future__ import annotations

import shutil
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import TableName
from hiveacid.datasource.data_source import HiveAcidDataSource
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.errors import ConfigError, StreamCheckpointError
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem
from support.stream_batches import ACID, batch, create, write

T = TableName("default", "t")


def test_a_table_made_again_in_the_same_second_is_another(tmp_path: Path) -> None:
    """Its write ids begin again, so that a query which went on from its offset would miss the first rows."""
    store, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    home = create(store, tmp_path, "t", f"(id INT) {ACID}")
    write(store, "t", 1)
    source = ChangeSource(ChangeOptions("t", str(tmp_path), None, starting="snapshot"))
    ids, end = batch(source, source.start_offset())
    assert ids == [1]
    first = store.get_table(T)
    store.drop_table(T)
    shutil.rmtree(home)
    create(store, tmp_path, "t", f"(id INT) {ACID}")
    again = store.get_table(T)
    assert first is not None
    assert again is not None
    assert again.created_at == first.created_at
    write(store, "t", 2)
    write(store, "t", 3)
    for process in (source, ChangeSource(source.options)):  # the same one, and after a restart
        with pytest.raises(ConfigError, match="dropped and created again"):
            batch(process, end)
        process.close()
    store.close()


def test_a_query_does_not_go_on_writing_into_a_table_made_again(tmp_path: Path) -> None:
    """The rows of the batches before would be missing there."""
    place = {"table": "t", "warehouse": str(tmp_path)}
    into = place | {"query_name": "q", "checkpointlocation": str(tmp_path)}
    (tmp_path / "metadata").write_text('{"id": "c"}')
    store, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    home = create(store, tmp_path, "t", f"(id INT) {ACID}")

    def deliver(number: int, **options: str) -> None:
        columns = HiveAcidDataSource(dict(place)).schema()
        sink: Any = HiveAcidDataSource(into | options).streamWriter(columns, overwrite=False)
        rows = pa.RecordBatch.from_pydict({"id": pa.array([number], pa.int32())})
        sink.commit([sink.write(iter([rows]))], number)

    deliver(0)
    deliver(1)
    store.drop_table(T)
    shutil.rmtree(home)
    create(store, tmp_path, "t", f"(id INT) {ACID}")
    for _ in range(2):  # also after the first attempt has registered the query
        with pytest.raises(StreamCheckpointError, match=r"dropped and created again.*new checkpoint"):
            deliver(2)
    deliver(2, restart="true")
    deliver(3)
    source = ChangeSource(ChangeOptions("t", str(tmp_path), None, starting="snapshot"))
    assert batch(source, source.start_offset())[0] == [2, 3]
    source.close()
    store.close()


def test_a_query_goes_on_in_each_store_that_its_table_is_moved_to(tmp_path: Path) -> None:
    """Also from a checkpoint that is older than two moves."""
    urls = [f"sqlite:///{tmp_path}/{number}.db" for number in range(3)]
    stores = [open_store(str(tmp_path), url, Settings(), SystemClock())[0] for url in urls]
    files = LocalFileSystem(durable=False)
    create(stores[0], tmp_path, "t", f"(id INT) {ACID}")
    write(stores[0], "t", 1)
    source = ChangeSource(ChangeOptions("t", str(tmp_path), urls[0], starting="snapshot"))
    _, first = batch(source, source.start_offset())
    source.close()
    for number, (old, new) in enumerate(pairwise(stores), 2):
        assert Migration(MigrationStore(old, "old"), MigrationStore(new, "new"), files, SystemClock()).move(T)
        write(new, "t", number)
    source = ChangeSource(ChangeOptions("t", str(tmp_path), urls[-1]))
    assert batch(source, first)[0] == [2, 3]
    source.close()
    for store in stores:
        store.close()
