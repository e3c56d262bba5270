"""Batches of a streaming query over a table, as Spark's driver and tasks run them, without a session."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.model import TableName
from hiveacid.datasource.change_feed_task import read_file_changes
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource, Offset
from hiveacid.errors import NotEnoughHistoryError
from hiveacid.ports.store import WarehouseStore
from hiveacid.streaming import Connection
from support.corpus.acid_files import acid_bytes, inserts, put
from support.directories.shelves import definition

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def create(store: WarehouseStore, warehouse: Path, name: str, columns: str) -> Path:
    """Create a table; return its directory."""
    made = definition(f"CREATE TABLE {name} {columns}", f"{warehouse}/{name}")
    properties = tuple(entry for entry in made.properties if entry[0] != ADOPTED_TXN.name)
    store.create_table(replace(made, properties=properties))
    return warehouse / name


def write(store: WarehouseStore, name: str, *ids: int, **values: int) -> None:
    """Write rows in one transaction."""
    with Connection(name, store=store) as stream, stream.transaction():
        stream.write([{"id": number, **values} for number in ids])


def batch(source: ChangeSource, start: Offset, end: Offset | None = None) -> tuple[list[int], Offset]:
    """Run a batch to the present, or to ``end``; return its ids and its end."""
    until = source.next_end_offset(start) if end is None else end
    files = source.files(start, until)
    ids = [row["id"] for file in files for part in read_file_changes(file) for row in part.to_pylist()]
    source.committed(until)
    return sorted(ids), until


def base_of(home: Path, write_id: int, *, visibility: str) -> Path:
    """Make the base that another engine's major compaction leaves: one row for each write id, its number as ``id``."""
    events = [event for number in range(1, write_id + 1) for event in inserts(number, [(number,)])]
    name = f"base_{write_id:07}{visibility}"
    put(home, {f"{name}/bucket_00000": acid_bytes(events, "id:int")})
    return home / name


def check_beside_a_compaction(
    store: WarehouseStore, warehouse: Path, url: str | None, *, cleaner_waits: bool
) -> None:
    """Read each change once while another engine compacts; where its cleaner may have been at work, only errors.

    ``cleaner_waits``: for open transactions, so that a running query is not disturbed.
    """
    home = create(store, warehouse, "told", f"(id INT) {ACID}")
    place = None if url is not None and url.startswith("thrift:") else str(warehouse)
    write(store, "told", 1)
    source = ChangeSource(ChangeOptions("told", place, url, starting="snapshot"))
    ids, first = batch(source, source.start_offset())
    assert ids == [1]
    assert batch(source, first) == ([], first)
    late = Connection("told", store=store)
    late.begin_transaction()  # takes write id 2, and commits after 3
    late.write([{"id": 2}])
    write(store, "told", 3)
    ids, second = batch(source, first)
    assert ids == [3]
    late.commit()
    late.close()
    base_of(home, 3, visibility="_v0000001" if cleaner_waits else "")
    if cleaner_waits:
        ids, third = batch(source, second)
        assert ids == [2]
        assert batch(source, third) == ([], third)
        assert len(store.valid_txns().open) == 1
    else:
        with pytest.raises(NotEnoughHistoryError, match="base_0000003"):
            batch(source, second)
    source.close()
    assert store.valid_txns().open == ()
    again = ChangeSource(ChangeOptions("told", place, url))  # as after a restart from the checkpoint
    end = again.next_end_offset(second)
    with pytest.raises(NotEnoughHistoryError, match="base_0000003"):
        again.files(second, end)
    assert batch(again, end, end) == ([], end)
    again.close()
    whole = ChangeSource(ChangeOptions("told", place, url, snapshot_where_gone=True))
    assert batch(whole, second) == ([1, 2, 3], end)
    # Spark repeats a batch whose state at its end was replaced: the next batch has all of it
    assert batch(whole, first, second)[0] == []
    assert batch(whole, second)[0] == [1, 2, 3]
    whole.close()


def check_beside_a_dropped_partition(store: WarehouseStore, warehouse: Path, url: str | None) -> None:
    """Let another engine drop a partition, which ends a query unless it ignores such changes."""
    create(store, warehouse, "parted", f"(id INT) PARTITIONED BY (p INT) {ACID}")
    place = None if url is not None and url.startswith("thrift:") else str(warehouse)
    write(store, "parted", 1, p=1)
    write(store, "parted", 2, p=2)
    name = TableName("default", "parted")
    source = ChangeSource(ChangeOptions("parted", place, url, starting="earliest"))
    ids, first = batch(source, source.start_offset())
    assert ids == [1, 2]
    write(store, "parted", 3, p=1)
    write(store, "parted", 4, p=2)
    second = source.next_end_offset(first)
    store.drop_partitions(name, [entry for entry in store.list_partitions(name) if entry.values == ("1",)])
    with pytest.raises(NotEnoughHistoryError, match=r"1 partitions were dropped .*p=1"):
        source.files(first, second)
    source.close()
    skipping = ChangeSource(ChangeOptions("parted", place, url, ignore_changes=True))
    assert batch(skipping, first)[0] == [4]
    skipping.close()
    whole = ChangeSource(ChangeOptions("parted", place, url, snapshot_where_gone=True))
    assert batch(whole, first)[0] == [2, 4]
    whole.close()
