"""Tables that Hive 3.1.3's own streaming wrote, in every state of a batch, go on with our streams."""

from __future__ import annotations

from pathlib import Path

import pytest
from stream_tables import Warehouse

from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.storage.local_file_system import LocalFileSystem
from support.corpus.golden_tables import Golden, scenarios
from support.corpus.sort_merge_reader import read_table
from support.directories.shelves import MemoryShelf, shelve


@pytest.mark.parametrize("golden", scenarios(scenario="streaming"), ids=str)
def test_what_hive_streamed_is_continued(golden: Golden, wh: Warehouse, tmp_path: Path) -> None:
    shelf = MemoryShelf(LocalFileSystem(durable=False), wh.store)  # type: ignore[arg-type] # the store of a connection
    table = shelve(shelf, golden, tmp_path / "t")
    names = [column.name for column in table.columns]

    def events() -> list[tuple[object, ...]]:
        valid = wh.store.valid_write_ids(wh.store.valid_txns(), [table.name])[table.name]
        return [event for part in read_table(tmp_path / "t", valid.to_string()).values() for event in part]

    before = events()
    assert len(before) == len(golden.rows)
    high = parse_write_id_list(golden.valid_write_ids).high_watermark
    given = before[0][3]
    assert isinstance(given, tuple)
    with wh.connect(str(table.name)) as stream:
        for kept in (True, False, True):
            stream.begin_transaction()
            stream.write([dict(zip(names, given, strict=True))])
            stream.commit() if kept else stream.abort()
    after = [event for event in events() if event not in before]
    assert [(event[0], event[2], event[3]) for event in after] == [(high + 1, 0, given), (high + 3, 0, given)]
    assert len(events()) == len(before) + 2
