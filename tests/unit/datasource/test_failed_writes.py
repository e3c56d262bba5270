"""Streaming queries go on after a write that failed, was compacted away and forgotten while they were stopped."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.config.property_definitions import HISTORY_FROM
from hiveacid.core.model import TableName, WriteId
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.errors import NotEnoughHistoryError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.store import WarehouseStore, own_store
from hiveacid.streaming import Connection
from support.corpus.acid_files import acid_bytes, inserts, put
from support.stream_batches import ACID, batch, create, write

T = TableName("default", "t")


def compact(store: WarehouseStore, home: Path, *write_ids: int) -> None:
    """Leave what a major compaction and the cleaner leave: a base with one row of each of these write ids."""
    table = store.get_table(T)
    assert table is not None
    store.alter_table(T, table.with_properties({HISTORY_FROM.name: str(write_ids[-1])}))
    for directory in home.iterdir():
        shutil.rmtree(directory)
    events = [event for number in write_ids for event in inserts(number, [(number,)])]
    name = f"base_{write_ids[-1]:07}_v0000001"
    put(home, {f"{name}/bucket_00000": acid_bytes(events, "id:int")})
    own_store(store).forget_aborted(T, None, WriteId(write_ids[-1]))


@pytest.mark.parametrize("commits", [False, True])
def test_a_write_that_was_open_at_the_end_of_a_batch(tmp_path: Path, *, commits: bool) -> None:
    """If it failed, the query has missed nothing; if it committed, its row may be anywhere in the base."""
    store, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    home = create(store, tmp_path, "t", f"(id INT) {ACID}")
    write(store, "t", 1)
    with Connection("t", store=store) as late:
        late.begin_transaction()
        late.write([{"id": 2}])
        write(store, "t", 3)
        source = ChangeSource(ChangeOptions("t", str(tmp_path), None, starting="earliest"))
        ids, end = batch(source, source.start_offset())
        assert ids == [1, 3]
        source.close()
        if commits:
            late.commit()
        else:
            late.abort()
    compact(store, home, 1, *([2] if commits else []), 3)
    source = ChangeSource(source.options)
    if commits:
        with pytest.raises(NotEnoughHistoryError, match="after write id 3"):
            batch(source, end)
    else:
        ids, end = batch(source, end)
        assert ids == []
        write(store, "t", 4)
        assert batch(source, end)[0] == [4]
    source.close()
    store.close()
