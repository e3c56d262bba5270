"""``hiveacid relocate`` and ``hiveacid backup``: no copy works on the files of the original."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner, Result

import hiveacid
from hiveacid.catalog import relocate
from hiveacid.catalog.opening import open_store
from hiveacid.cli import main
from hiveacid.config import Settings
from hiveacid.config.property_definitions import ADOPTED_TXN
from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import Partition, TableName, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import MisplacedStoreError, NotEnoughHistoryError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Start, TxnKind
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean
from support.contexts import open_context
from support.directories.shelves import definition
from support.samples import CLIENT, lock_on

CREATE = "CREATE TABLE t (id INT) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
T = TableName("default", "t")


def append(warehouse: Path | str, *numbers: int) -> None:
    with hiveacid.open(str(warehouse)) as opened:
        opened.table("t").append(
            pa.table({"id": pa.array(numbers, pa.int32()), "p": pa.array([1] * len(numbers), pa.int32())})
        )


def ids(warehouse: Path | str) -> list[int]:
    with hiveacid.open(str(warehouse)) as opened:
        return sorted(opened.table("t").to_arrow().column("id").to_pylist())


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, list(map(str, arguments)))


def files(place: Path) -> set[str]:
    return {
        str(path.relative_to(place))
        for path in place.rglob("*")
        if path.is_file() and ".hiveacid" not in path.parts
    }


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Make a warehouse with three rows."""
    place = tmp_path / "wh"
    store, _ = open_store(str(place), None, Settings(), SystemClock())
    store.create_table(definition(CREATE, f"{place}/t"))
    store.close()
    append(place, 1, 2)
    append(place, 3)
    return place


def test_a_relocated_copy_and_the_original_are_independent(warehouse: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(warehouse, copy)
    refused = run("table", "list", "-w", copy)
    assert refused.exit_code == 1
    assert f"hiveacid relocate -w {copy}" in refused.output
    assert run("relocate", "-w", copy).exit_code == 0
    append(copy, 40)
    shutil.rmtree(copy / "t" / "p=1" / "delta_0000001_0000001_0000")
    append(warehouse, 4)
    assert ids(warehouse) == [1, 2, 3, 4]
    again = run("relocate", "-w", copy)
    assert (again.exit_code, "nothing to relocate" in again.output) == (1, True)
    assert run("relocate", "-w", warehouse).exit_code == 1


def test_a_moved_warehouse_is_usable_again(warehouse: Path, tmp_path: Path) -> None:
    moved = warehouse.rename(tmp_path / "moved")
    with pytest.raises(MisplacedStoreError):
        ids(moved)
    assert run("relocate", "-w", moved).exit_code == 0
    assert ids(moved) == [1, 2, 3]
    append(moved, 4)
    assert ids(moved) == [1, 2, 3, 4]
    assert not warehouse.exists()


def test_what_both_would_share_is_refused(warehouse: Path, tmp_path: Path) -> None:
    store, _ = open_store(str(warehouse), None, Settings(), SystemClock())
    store.add_partitions(T, [Partition(("7",), str(tmp_path / "ext"))])
    store.close()
    for name in ("ext", "elsewhere"):
        (tmp_path / name).mkdir()
    (warehouse / "t" / "p=8").symlink_to(tmp_path / "elsewhere")
    copy = tmp_path / "copy"
    shutil.copytree(warehouse, copy, symlinks=True)
    refused = run("relocate", "-w", copy)
    assert refused.exit_code == 1
    for words in ("a partition of default.t", str(tmp_path / "ext"), "p=8", "--keep-outside"):
        assert words in refused.output
    with pytest.raises(MisplacedStoreError):
        ids(copy)
    kept = run("relocate", "-w", copy, "--keep-outside")
    assert (kept.exit_code, str(tmp_path / "ext") in kept.output) == (0, True)
    assert ids(copy) == [1, 2, 3]


def test_a_backup_is_a_copy_as_of_one_moment(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer commits, and a compaction publishes, between the copy of the store and that of the files."""
    place, store = tmp_path / "backup", open_store(str(warehouse), None, Settings(), SystemClock())[0]
    begun = store.begin_txn(CLIENT, Start(locks=(lock_on(LockType.SHARED_READ),)))
    copy_tree = relocate._Copying.directory

    def late(self: relocate._Copying, source: Path, target: Path, ids_: object) -> None:
        if source == warehouse:
            append(warehouse, 4)
            (warehouse / "t" / "p=1" / "base_0000002_v0000099").mkdir()
            (warehouse / "t" / "p=1" / ".hiveacid-staging-1").mkdir()
            held = [
                (lock.database, lock.table, lock.type)
                for lock in store.show_locks()
                if lock.txn_id != begun.txn_id
            ]
            assert held == [("default", "t", "SHARED_READ"), ("_hiveacid_cleaner", "t", "SHARED_READ")]
        copy_tree(self, source, target, ids_)
        if source == warehouse:
            shutil.rmtree(warehouse / "t" / "p=1" / "base_0000002_v0000099")

    monkeypatch.setattr(relocate._Copying, "directory", late)
    done = run("backup", "-w", warehouse, place)
    assert done.exit_code == 0, done.output
    assert {lock.txn_id for lock in store.show_locks()} == {begun.txn_id}
    store.close()
    assert run("relocate", "-w", place).exit_code == 0
    assert ids(place) == [1, 2, 3]
    assert ids(warehouse) == [1, 2, 3, 4]
    assert not any("0000003" in name or "v0000099" in name for name in files(place))
    assert not list(place.rglob(".hiveacid-staging*"))
    append(place, 50)
    assert ids(place) == [1, 2, 3, 50]
    copied, _ = open_store(str(place), None, Settings(), SystemClock())
    assert copied.txn_state(begun.txn_id) == "aborted"
    copied.close()


def test_a_backup_has_the_past_that_its_store_tells_of(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was compacted before was cleaned after the copy of the store, which did not know: its past lacked rows."""
    context = open_context(warehouse)
    store, places = context.store, warehouse / "t" / "p=1"
    table = context.require(T)
    store.alter_table(T, table.without_properties(ADOPTED_TXN.name), seen=table)
    job = store.enqueue_compaction(CompactionRequest(T, "p=1", "major"), "test")
    store.claim_compaction("w", job.id)
    (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
    store.start_compaction(job.id, txn_id, WriteId(2), "w")
    shutil.copytree(places / "delta_0000001_0000001_0000", places / f"base_0000002_v{txn_id:07d}")
    store.commit_txn(txn_id)
    copy_tree = relocate._Copying.directory

    def beside_a_cleaner(self: relocate._Copying, source: Path, target: Path, ids_: object) -> None:
        if source == warehouse:
            assert clean(context) == []
        copy_tree(self, source, target, ids_)

    monkeypatch.setattr(relocate._Copying, "directory", beside_a_cleaner)
    assert run("backup", "-w", warehouse, tmp_path / "backup").exit_code == 0
    assert len(clean(context)) == 2
    context.close()
    assert run("relocate", "-w", tmp_path / "backup").exit_code == 0
    with hiveacid.open(str(tmp_path / "backup")) as opened:
        assert opened.table("t").count(as_of=1) == 2
    with hiveacid.open(str(warehouse)) as opened, pytest.raises(NotEnoughHistoryError):
        opened.table("t").count(as_of=1)


@pytest.mark.parametrize("while_copying", ["delta_0000001_0000001_0000", "delta_0000003_0000003_0000"])
def test_an_aborted_directory_that_vanishes_does_not_stop_a_backup(
    warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, while_copying: str
) -> None:
    store, _ = open_store(str(warehouse), None, Settings(), SystemClock())
    store.allocate_write_ids(store.open_txns(CLIENT, 1), T)
    store.close()
    written = warehouse / "t" / "p=1" / "delta_0000003_0000003_0000"
    written.mkdir()
    (written / "bucket_00000").write_bytes(b"x")
    copy_tree = relocate._Copying.directory

    def beside_an_abort(self: relocate._Copying, source: Path, target: Path, ids_: object) -> None:
        if source.name == while_copying:
            shutil.rmtree(written)
        copy_tree(self, source, target, ids_)

    monkeypatch.setattr(relocate._Copying, "directory", beside_an_abort)
    done = run("backup", "-w", warehouse, tmp_path / "backup")
    assert done.exit_code == 0, done.output
    assert not written.exists()
    assert run("relocate", "-w", tmp_path / "backup").exit_code == 0
    assert ids(tmp_path / "backup") == [1, 2, 3]


@pytest.mark.parametrize(
    ("name", "metadata", "refused"),
    [
        ("delta_0000001_0000003", False, True),
        ("delta_0000002_0000009", False, True),  # with ids that the copy does not know
        ("delta_0000003_0000004", False, False),  # a batch of a stream that is aborted in the copy
        ("base_0000002", True, True),
        ("base_0000003", True, True),
        ("base_0000003", False, False),  # an INSERT OVERWRITE that was open when the store was copied
        ("base_0000009", True, False),  # left out
    ],
)
def test_a_backup_beside_a_compaction_without_a_visibility_id(
    warehouse: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    metadata: bool,  # noqa: FBT001
    refused: bool,  # noqa: FBT001
) -> None:
    """At layout level hive3 no name tells that rows were committed after the store was copied."""
    store, _ = open_store(str(warehouse), None, Settings(), SystemClock())
    store.allocate_write_ids(store.open_txns(CLIENT, 2), T)
    store.close()
    (warehouse / "t" / "p=2" / "delta_0000001_0000002").mkdir(parents=True)  # compacted before
    copy_tree = relocate._Copying.directory

    def beside_a_compaction(self: relocate._Copying, source: Path, target: Path, ids_: object) -> None:
        if source == warehouse:
            made = warehouse / "t" / "p=1" / name
            made.mkdir()
            if metadata:
                (made / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"compacted"}')
        copy_tree(self, source, target, ids_)

    monkeypatch.setattr(relocate._Copying, "directory", beside_a_compaction)
    done = run("backup", "-w", warehouse, tmp_path / "backup")
    assert done.exit_code == (1 if refused else 0), done.output
    if refused:
        assert f"{warehouse}/t/p=1/{name}" in done.output
        assert "run the command again" in done.output
    else:
        assert run("relocate", "-w", tmp_path / "backup").exit_code == 0
        assert ids(tmp_path / "backup") == [1, 2, 3]


def test_a_backup_replaces_its_original(warehouse: Path, tmp_path: Path) -> None:
    assert run("backup", "-w", warehouse, tmp_path / "backup").exit_code == 0
    shutil.rmtree(warehouse)
    (tmp_path / "backup").rename(warehouse)
    assert ids(warehouse) == [1, 2, 3]


@pytest.mark.parametrize(
    "target", [("wh", "inside"), ("full",), ("wh",), ("full", "file"), ("full", "file", "below")]
)
def test_impossible_targets(warehouse: Path, tmp_path: Path, target: Sequence[str]) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").write_text("x")
    before = files(tmp_path)
    done = run("backup", "-w", warehouse, tmp_path.joinpath(*target))
    assert done.exit_code == 1
    assert done.output.startswith("error "), done.exception  # not a traceback
    assert files(tmp_path) == before


def test_a_backup_leaves_out_what_no_reader_sees(warehouse: Path, tmp_path: Path) -> None:
    """A link that leads upwards has no end, one to nothing looks like a file that vanished, and a pipe blocks."""
    for number, target in enumerate((warehouse, warehouse / "t", "nothing")):
        (warehouse / f"link{number}").symlink_to(target)
        (warehouse / "t" / "p=1" / f"link{number}").symlink_to(target)
    os.mkfifo(warehouse / "t" / "pipe")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "file").write_text("x", encoding="ascii")
    (warehouse / "elsewhere").symlink_to(tmp_path / "elsewhere")
    done = run("backup", "-w", warehouse, tmp_path / "copy")
    assert done.exit_code == 0, done.output
    assert run("relocate", "-w", tmp_path / "copy").exit_code == 0
    assert ids(tmp_path / "copy") == [1, 2, 3]
    assert {"elsewhere/file", "t/p=1/delta_0000001_0000001_0000/bucket_00000"} <= files(tmp_path / "copy")
    assert not any(
        "pipe" in path or "link" in path for path in files(tmp_path / "copy") if "link1/" not in path
    )
