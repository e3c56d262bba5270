"""Selection on listings of real tables: every file that Hive's reader took rows from must be selected."""

import json
from pathlib import Path
from typing import Any

import pytest

from hiveacid.core.format.write_id_lists import parse_txn_list, parse_write_id_list
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import select

GOLDEN = Path(__file__).parents[3] / "golden" / "listings.json"
SNAPSHOTS = json.loads(GOLDEN.read_text(encoding="utf-8"))["snapshots"]


@pytest.mark.parametrize("snapshot", SNAPSHOTS, ids=lambda snapshot: snapshot["name"])
def test_files_that_hive_read_are_selected(snapshot: dict[str, Any]) -> None:
    entries = [FileEntry(path, is_dir=False, size=1) for path in snapshot["files"]]
    entries += [FileEntry(path, is_dir=True) for path in snapshot["empty_directories"]]
    write_ids = parse_write_id_list(snapshot["write_ids"])
    txns = parse_txn_list(snapshot["txns"])
    found = select(entries, write_ids, txns, snapshot["metadata"])
    base = () if found.base is None else found.base.files
    selected = {file.path for file in (*found.originals, *base)}
    selected |= {file.path for one in found.deltas for file in one.files}
    assert selected >= set(snapshot["read"])
    # the same without the transaction list: all these compactions were committed
    assert select(entries, write_ids, None, snapshot["metadata"]) == found


def test_the_listings_hold_what_they_should() -> None:
    names = [snapshot["name"] for snapshot in SNAPSHOTS]
    assert len(names) > 100
    assert {name.split("/")[0] for name in names} == {"hive-3.1.3", "hive-4.0.1"}
    assert sum(len(snapshot["read"]) for snapshot in SNAPSHOTS) > 200
