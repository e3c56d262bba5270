"""The cleaner on the reference store: what it removes, what it leaves, and when it tries again."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from scene import Scene, T

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import Partition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.classify_entries import ItemState
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import (
    BadDirectoryNameError,
    StorageError,
    TransactionAbortedError,
    WriteConflictError,
)
from hiveacid.ports.transactions import TxnKind
from hiveacid.services.steps import Cleaner
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.cleaning.clean_after_overwrite import OverwrittenCleaner
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean, clean_aborted, clean_job
from hiveacid.table.read.inventory import StandaloneAccess, inventory_of
from support.samples import CLIENT


def cleaner(scene: Scene) -> Cleaner:
    found = scene.services().cleaner
    assert found is not None
    return found


def compacted(scene: Scene, writes: int = 2) -> Cleaner:
    """Return a cleaner for a table that was just compacted."""
    scene.table()
    for _ in range(writes):
        scene.write()
    scene.compact()
    return cleaner(scene)


def test_what_a_compaction_replaced_goes_when_its_readers_are_gone(scene: Scene) -> None:
    """C7."""
    scene.table()
    scene.write()
    (reader,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    scene.write()
    scene.compact()
    clean = cleaner(scene)
    assert clean.step().removed == ()
    assert len(scene.listing()) == 3
    (late,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    scene.store.commit_txn(reader)
    removed = clean.step().removed
    assert [Path(path).name for path in removed] == [
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0000",
    ]
    assert scene.listing() == ["base_0000002_v0000004"]
    assert scene.states() == [(1, "succeeded")]
    scene.store.commit_txn(late)


def test_delayed_cleaning(scene: Scene) -> None:
    """C8."""
    scene.set("hive.compactor.delayed.cleanup.enabled", "true")
    clean = compacted(scene)
    scene.clock.advance(299)
    assert clean.step().removed == ()
    scene.clock.advance(1)
    assert len(clean.step().removed) == 2


@pytest.mark.parametrize("where", ["table", "database"])
def test_no_cleanup(scene: Scene, where: str) -> None:
    """C9: the job waits; once it is allowed, it is cleaned."""
    clean = compacted(scene)
    table = scene.store.get_table(T)
    assert table is not None
    if where == "table":
        scene.store.alter_table(T, table.with_properties({"NO_CLEANUP": "True"}))
    else:
        scene.store._state.databases["default"] = scene.store._state.databases["default"].__class__(
            "default", str(scene.root), None, (("no_cleanup", "true"),)
        )
    assert clean.step().removed == ()
    assert scene.states() == [(1, "ready for cleaning")]
    if where == "table":
        scene.store.alter_table(T, table.with_properties({"no_cleanup": "false"}))
        assert len(clean.step().removed) == 2


def test_a_table_or_partition_that_is_gone_needs_no_cleaning(scene: Scene) -> None:
    """C17."""
    scene.table(partitions=("1", "2"))
    for p in (1, 2):
        scene.write(T, f"p={p}")
        scene.compact(T, f"p={p}")
    scene.store.drop_partitions(T, scene.store.list_partitions(T)[:1])
    clean = cleaner(scene)
    assert len(clean.step().removed) == 1
    assert scene.states() == [(1, "succeeded"), (2, "succeeded")]
    scene.store.drop_table(T)
    assert clean.step().errors == ()


def test_what_fails_is_tried_again_later_and_later(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    clean = compacted(scene)
    tries = []

    def fail(path: str) -> None:
        tries.append(path)
        raise StorageError("the disk is on fire")

    monkeypatch.setattr(scene.context.fs.__class__, "delete_listed", lambda _, path, __: fail(path))
    for attempt, wait in enumerate((300, 600, 1200, 2400), start=1):
        errors = clean.step().errors
        assert errors == ("compaction 1 of default.t: the disk is on fire",)
        assert len(tries) == attempt
        scene.clock.advance(wait - 1)
        assert clean.step().errors == ()
        scene.clock.advance(1)
    assert scene.store.show_compactions()[0].cleanings == 4
    clean.step()
    (job,) = scene.store.show_compactions()
    assert (job.state, job.error) == ("failed", "the disk is on fire")


def test_a_cleaner_that_died_half_way_is_continued(scene: Scene) -> None:
    clean = compacted(scene)
    first = clean.context.fs
    first.delete_tree(str(scene.place(T, None) / "delta_0000001_0000001_0000"))
    assert len(clean.step().removed) == 1
    assert scene.listing() == ["base_0000002_v0000003"]


def test_aborted_writes_of_a_writer_that_has_stopped_need_no_base(scene: Scene) -> None:
    """Not even if a partition has a single delta, which no compaction takes."""
    scene.table(partitions=("1", "2"))
    scene.write(T, "p=1")
    scene.write(T, "p=2", end="stop")
    scene.write(T, "p=2", end="abort")  # by somebody else: its writer may still come
    scene.write(T, "p=1", end="stop")
    clean = cleaner(scene)
    assert len(clean.step().removed) == 3
    assert scene.store.aborted_write_ids(T) == (3, 4)


@pytest.mark.parametrize("aborted_write", [False, True])
def test_where_files_are_not_renamed_an_aborted_compaction_is_not_forgotten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, aborted_write: bool
) -> None:
    """It may go on after a pause, and its transaction would count as committed: readers would take half of a base."""
    monkeypatch.setattr(LocalFileSystem, "renames_directories", lambda *_: False)
    txn_id = abort_compaction(scene)
    if aborted_write:
        scene.write(end="stop")
    scene.clock.advance(10_000)
    clean_aborted(scene.context, T)
    assert scene.store.aborted_write_ids(T) == ()
    scene.store.housekeep()
    scene.put(scene.place(T, None) / f"base_0000001_v{txn_id:07d}", 1)
    assert scene.store.valid_txns().is_aborted(txn_id)


def abort_compaction(scene: Scene) -> TxnId:
    """Write once, and abort a compaction that has written its base; return its transaction."""
    scene.table()
    scene.write()
    job = scene.store.enqueue_compaction(CompactionRequest(T, None, "major"), "test")
    scene.store.claim_compaction("w", job.id)
    (txn_id,) = scene.store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
    scene.store.start_compaction(job.id, txn_id, WriteId(1), "w")
    scene.put(scene.place(T, None) / f"base_0000001_v{txn_id:07d}", 1)
    scene.store.abort_txns([txn_id], "killed")
    scene.write()
    return txn_id


def test_an_aborted_compaction_is_forgotten_with_its_directories(scene: Scene) -> None:
    """Although the table has no aborted write id."""
    txn_id = abort_compaction(scene)
    scene.clock.advance(10_000)
    scene.store.housekeep()
    assert scene.store.valid_txns().is_aborted(txn_id)
    clean_aborted(scene.context, T)
    assert [name for name in scene.listing() if name.startswith("base")] == []
    scene.store.housekeep()
    assert not scene.store.valid_txns().is_aborted(txn_id)


def test_aborted_writes_are_removed_and_forgotten_when_a_base_is_above_them(scene: Scene) -> None:
    """C13."""
    scene.table()
    scene.write()
    scene.write(end="abort")
    clean = cleaner(scene)
    assert [Path(path).name for path in clean.step().removed] == ["delta_0000002_0000002_0000"]
    assert scene.store.aborted_write_ids(T) == (2,)
    scene.write()
    scene.compact()
    clean.step()
    scene.clock.advance(601)
    clean.step()
    assert scene.store.aborted_write_ids(T) == ()


@pytest.mark.parametrize("published", ["before", "during"])
def test_a_writer_that_is_aborted_during_the_cleaning_is_not_forgotten(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, published: str
) -> None:
    """Its new partition has no base that hides its rows, and another writer may create that partition later."""
    scene.table(partitions=("1",))
    scene.write(T, "p=1", end="abort")
    overwrite, killed = scene.store.open_txns(CLIENT, 2)
    assert scene.store.allocate_write_ids([killed], T) == (2,)
    assert scene.store.allocate_write_ids([overwrite], T) == (3,)
    scene.put(scene.place(T, "p=1") / "base_0000003", 5)
    scene.store.commit_txn(overwrite)
    forget = scene.store.forget_aborted

    def publish() -> None:
        scene.put(scene.place(T, "p=2") / "delta_0000002_0000002_0000", 5)

    def forget_late(*arguments: Any) -> None:
        if published == "during":
            publish()
        scene.store.abort_txns([killed], "killed")
        forget(*arguments)

    if published == "before":
        publish()
    monkeypatch.setattr(scene.store, "forget_aborted", forget_late)
    clean_aborted(scene.context, T)
    assert scene.store.aborted_write_ids(T) == (2,)


@pytest.mark.parametrize("aborts", [True, False])
def test_a_cleaner_that_was_paused_forgets_no_ids_of_a_later_table(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, *, aborts: bool
) -> None:
    """Its lock has expired, the table was dropped and created again, and the ids are the same: rows would come back."""
    scene.table()
    scene.write(end="stop" if aborts else "commit")
    forget = scene.store.forget_aborted

    def forget_late(*arguments: Any) -> None:
        scene.store.abort_txns(scene.store.valid_txns().open, "timed out")
        scene.store.drop_table(T)
        shutil.rmtree(scene.place(T, None))
        scene.table()
        scene.write(end="stop")
        forget(*arguments)

    monkeypatch.setattr(scene.store, "forget_aborted", forget_late)
    with pytest.raises(WriteConflictError):
        clean_aborted(scene.context, T)
    assert scene.store.aborted_write_ids(T) == (1,)
    assert scene.listing(T) == ["delta_0000001_0000001_0000"]


def test_a_cleaner_that_was_paused_until_its_table_had_another_name_says_so(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the old name there are no write ids, and to those the compacted base of the table looks like lost history."""
    compacted(scene)
    rename_at_the_first_snapshot(scene, monkeypatch)
    (job,) = scene.store.show_compactions()
    with pytest.raises(TransactionAbortedError):
        clean_job(scene.context, job.id)
    assert len(scene.listing()) == 3


def test_a_table_that_is_renamed_while_it_is_looked_at_is_no_failure(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    compacted(scene)
    (job,) = scene.store.show_compactions()
    scene.store.end_compaction(job.id, CompactionState.SUCCEEDED)
    rename_at_the_first_snapshot(scene, monkeypatch)
    attempted: list[TableName] = []

    def attempt(name: TableName, work: Callable[[], list[str]]) -> None:
        attempted.append(name)
        assert work() == []

    OverwrittenCleaner(scene.context).step(attempt)
    assert attempted == [T]


def rename_at_the_first_snapshot(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rename the table when the cleaner asks for a snapshot; its lock, if it has one, has expired."""
    table = scene.store.get_table(T)
    assert table is not None
    snapshot = scene.store.valid_txns

    def rename_first() -> ValidTxnList:
        monkeypatch.setattr(scene.store, "valid_txns", snapshot)
        scene.store.abort_txns(snapshot().open, "timed out")
        scene.store.alter_table(T, replace(table, name=TableName("default", "other")))
        return snapshot()

    monkeypatch.setattr(scene.store, "valid_txns", rename_first)


def test_an_aborted_insert_into_new_partitions(scene: Scene) -> None:
    """C13, HIVE-25502: obsolete directories of other partitions stay as long as somebody may read them."""
    scene.table(partitions=("1",))
    scene.write(T, "p=1")
    (reader,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    scene.write(T, "p=1")
    scene.compact(T, "p=1")
    scene.write(T, "p=2", end="abort")
    assert [Path(path).parent.name for path in cleaner(scene).step().removed] == ["p=2"]
    assert len(scene.listing(T, "p=1")) == 3
    scene.store.commit_txn(reader)


def test_aborts_in_several_partitions_are_cleaned_at_the_next_turn(scene: Scene) -> None:
    scene.table(partitions=("1", "2"))
    clean = cleaner(scene)
    clean.step()  # of all tables; until ten minutes later, only of those with newer aborts
    for partition in ("p=2", "p=1"):  # the list of changed partitions ends with the older abort
        scene.clock.advance(1)
        scene.write(T, partition, end="abort")
        assert [Path(path).parent.name for path in clean.step().removed] == [partition]


def test_what_a_dead_compaction_left(scene: Scene) -> None:
    """C6: its directory, which nobody believed, and what it was writing; not those of a living one."""
    scene.table(partitions=("1",))
    scene.write(T, "p=1")
    for end in ("abort", ""):
        (txn_id,) = scene.store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
        place = scene.place(T, "p=1")
        scene.put(place / f"base_0000001_v{txn_id:07d}", 5)
        scene.put(place / f".hiveacid-staging-{txn_id}-ab", 5)
        if end:
            scene.store.abort_txns([txn_id], "died")
    removed = cleaner(scene).step().removed
    assert sorted(Path(path).name for path in removed) == [".hiveacid-staging-2-ab", "base_0000001_v0000002"]
    assert scene.listing(T, "p=1") == [
        ".hiveacid-staging-3-ab",
        "base_0000001_v0000003",
        "delta_0000001_0000001_0000",
    ]


def test_nothing_behind_a_symbolic_link_is_cleaned(scene: Scene) -> None:
    """But a partition whose location is itself a link belongs to the table."""
    scene.table(partitions=("1",))
    (txn_id,) = scene.store.open_txns(CLIENT)
    name = f".hiveacid-staging-{txn_id}-ab"
    theirs, ours = scene.root / "theirs", scene.root / "ours"
    for place in (theirs, ours, scene.place(T, None)):
        scene.put(place / name, 5)
    for link, target in (("p=2", theirs), ("p=1", ours)):
        (scene.place(T, None) / link).symlink_to(target)
    scene.store.abort_txns([txn_id], "died")

    removed = cleaner(scene).step().removed

    assert sorted(removed) == [f"{scene.place(T, None)}/{name}", f"{scene.place(T, 'p=1')}/{name}"]
    assert [path.name for path in theirs.iterdir()] == [name]
    assert list(ours.iterdir()) == []


def test_what_nobody_can_explain_stays(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    """And is named in the log."""
    clean = compacted(scene)
    place = scene.place(T, None)
    (place / "my notes").mkdir()
    (place / "_SUCCESS").write_bytes(b"")
    with caplog.at_level("INFO", logger="hiveacid"):
        clean.step()
    assert scene.listing() == ["_SUCCESS", "base_0000002_v0000003", "my notes"]
    assert "not of the ACID layout: _SUCCESS, my notes" in caplog.text


def test_all_tables_are_looked_at_now_and_then(scene: Scene) -> None:
    """For what a writer left who had no write id yet."""
    scene.table()
    u = TableName("default", "u")
    scene.table(u)
    clean = cleaner(scene)
    assert clean.step().removed == ()
    (txn_id,) = scene.store.open_txns(CLIENT)
    scene.put(scene.place(u, None) / f".hiveacid-staging-{txn_id}-ab", 5)
    scene.store.abort_txns([txn_id], "died")
    scene.clock.advance(599)
    assert clean.step().removed == ()
    scene.clock.advance(1)
    assert len(clean.step().removed) == 1


def test_a_table_that_cannot_be_cleaned_keeps_nobody_else_from_it(scene: Scene) -> None:
    """What is wrong is said in the end, of every table."""
    for name in ("a", "b", "c"):
        scene.table(TableName("default", name))
        scene.write(TableName("default", name), end="abort")
    for name in ("a", "b"):
        (scene.root / name / "delta_nonsense").mkdir()
    with pytest.raises(BadDirectoryNameError) as caught:
        clean(scene.context)
    assert len(caught.value.__notes__) == 1
    assert scene.listing(TableName("default", "c")) == []


def test_a_table_is_not_dropped_while_it_is_cleaned(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """C17: its successor of the same name has directories of the same names; neither waits for the other."""
    clean_up = compacted(scene)
    (writer,) = scene.store.open_txns(CLIENT)
    exclusive = [LockComponent(LockType.EXCLUSIVE, T.database, T.name)]
    answers = []
    deleting = LocalFileSystem.delete_listed

    def delete(fs: LocalFileSystem, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        answers.append(scene.store.lock(writer, exclusive, zero_wait=True).state)
        return deleting(fs, root, entries)

    monkeypatch.setattr(LocalFileSystem, "delete_listed", delete)
    held = scene.store.lock(writer, exclusive)
    assert held.state is LockState.ACQUIRED
    assert clean_up.step().removed == ()
    scene.store.unlock(held.lock_id)
    assert len(clean_up.step().removed) == 2
    assert answers == [LockState.NOT_ACQUIRED] * 2
    assert scene.states() == [(1, "succeeded")]


def test_two_cleaners_are_not_at_one_table(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two service processes: the second one passes over it, and both go on with others."""
    first, second = compacted(scene), cleaner(scene)
    found = []
    deleting = LocalFileSystem.delete_listed

    def delete(fs: LocalFileSystem, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        found.append(second.step())
        return deleting(fs, root, entries)

    monkeypatch.setattr(LocalFileSystem, "delete_listed", delete)
    assert len(first.step().removed) == 2
    assert [(one.removed, one.errors) for one in found] == [((), ())] * 2
    assert scene.states() == [(1, "succeeded")]


def test_a_directory_below_the_first_write_id_of_its_partition_is_reported_and_removed(scene: Scene) -> None:
    """Its writer had ended before the partition was recorded, and published late: no reader reads it."""
    table = scene.table(partitions=("1",))
    scene.write(T, "p=1")
    scene.store.add_partitions(T, [Partition(("2",), str(scene.place(T, "p=2")))])
    scene.put(scene.place(T, "p=2") / "delta_0000001_0000001_0000", 10)
    scene.put(scene.place(T, "p=2") / "base_0000001", 10)
    scene.write(T, "p=2")
    access = StandaloneAccess(scene.context.fs, scene.store, scene.store)
    found = inventory_of(access, table, scene.store.list_partitions(T)).locations[1]
    why = "the partition was recorded later, when 2 was the lowest write id in use"
    assert {item.path: (item.state, item.reason) for item in found.directories} == {
        "base_0000001": (ItemState.OBSOLETE, f"write id 1 had ended before: {why}"),
        "delta_0000001_0000001_0000": (ItemState.OBSOLETE, f"write id 1 had ended before: {why}"),
        "delta_0000002_0000002_0000": (ItemState.USED, "write id 2 is committed"),
    }
    assert [Path(path).name for path in clean_aborted(scene.context, T)] == [
        "base_0000001",
        "delta_0000001_0000001_0000",
    ]
    assert scene.listing(T, "p=2") == ["delta_0000002_0000002_0000"]
    assert scene.listing(T, "p=1") == ["delta_0000001_0000001_0000"]
    assert clean_aborted(scene.context, T) == []


def test_a_directory_that_a_newer_table_has_by_now_is_not_cleaned(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner is paused between its last question to the store and the deletion; records of aborts stay, too."""
    scene.table()
    scene.write(end="stop")
    deleting = LocalFileSystem.delete_listed

    def delete(fs: LocalFileSystem, root: str, entries: Sequence[FileEntry]) -> tuple[str, ...]:
        (scene.place(T, None) / "delta_0000001_0000001_0000" / "bucket_00000").write_bytes(b"newer rows")
        os.utime(scene.place(T, None) / "delta_0000001_0000001_0000" / "bucket_00000", (9e8, 9e8))
        return deleting(fs, root, entries)

    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "delete_listed", delete)
        assert clean_aborted(scene.context, T) == []
    assert scene.listing() == ["delta_0000001_0000001_0000"]
    assert scene.store.aborted_write_ids(T) == (1,)
    assert len(clean_aborted(scene.context, T)) == 1
    assert scene.store.aborted_write_ids(T) == ()
