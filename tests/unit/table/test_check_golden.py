"""What Hive and Trino wrote is free of damage; every file of theirs has a state and a reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from hiveacid.core.snapshot.check_findings import Severity
from hiveacid.core.snapshot.classify_entries import ItemState
from hiveacid.table.check_files import check_quick
from support.corpus.golden_tables import Golden, scenarios
from support.directories.shelves import MemoryShelf, shelve


@pytest.mark.parametrize("golden", scenarios(), ids=str)
def test_names_and_footers_of_a_golden_table_are_free_of_damage(golden: Golden, tmp_path: Path) -> None:
    shelf = MemoryShelf()
    table = shelve(shelf, golden, tmp_path / "t")
    partitions = shelf.store.list_partitions(table.name) if table.partition_columns else None
    found = check_quick(shelf, table, partitions)
    assert [one for one in found if one.severity is Severity.DAMAGE] == []
    items = [
        item for place in shelf.inventory(table.name).locations for item in (*place.directories, *place.files)
    ]
    assert all(item.reason for item in items)
    assert not {item.path for item in items if item.state is ItemState.REFUSED}
