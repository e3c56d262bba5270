"""What INSERT OVERWRITE and TRUNCATE replaced goes without any compaction, once nobody reads it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from scene import Scene, T

from hiveacid.config.property_definitions import HISTORY_FROM
from hiveacid.core.format.names import BaseName
from hiveacid.core.model import Partition, TableName
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import StorageError
from hiveacid.ports.transactions import Operation, TxnKind, Written
from hiveacid.services.steps import Cleaner
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean
from support.memory_store.store import MemoryStore
from support.samples import CLIENT


def cleaner(scene: Scene) -> Cleaner:
    found = scene.services().cleaner
    assert found is not None
    return found


def overwrite(scene: Scene, partition: str | None = None, *, end: str = "commit") -> None:
    (txn_id,) = scene.store.open_txns(CLIENT)
    (write_id,) = scene.store.allocate_write_ids([txn_id], T)
    scene.put(scene.place(T, partition) / BaseName(write_id).format(), 5)
    scene.store.add_written(txn_id, [Written(T, partition, Operation.UPDATE)])
    if end == "commit":
        scene.store.commit_txn(txn_id)


def test_clean_removes_what_was_overwritten(scene: Scene) -> None:
    """At once where nobody reads it; from when on the history is whole is noted before."""
    scene.table()
    for _ in range(2):
        scene.write()
    overwrite(scene)
    scene.write()
    removed = clean(scene.context)
    assert [Path(path).name for path in removed] == [
        "delta_0000001_0000001_0000",
        "delta_0000002_0000002_0000",
    ]
    assert scene.listing() == ["base_0000003", "delta_0000004_0000004_0000"]
    table = scene.store.get_table(T)
    assert table is not None
    assert HISTORY_FROM.of(table) == "3"
    assert scene.store.show_compactions() == ()
    assert clean(scene.context) == []


def test_history_retention_keeps_what_was_overwritten(scene: Scene) -> None:
    """From the last write on, for `clean` and for a service; a later ALTER TABLE counts, too."""
    scene.table(**{"hiveacid.history.retention": "7d"})
    scene.write()
    overwrite(scene)
    assert clean(scene.context) == []
    service = cleaner(scene)
    service.step()
    scene.clock.advance(7 * 86_400 - 1)
    service.step()
    assert clean(scene.context) == []
    table = scene.store.get_table(T)
    assert table is not None
    longer = (("transactional", "true"), ("hiveacid.history.retention", "8d"))
    scene.store.alter_table(T, replace(table, properties=longer))
    scene.clock.advance(2)
    service.step()
    assert scene.listing() == ["base_0000002", "delta_0000001_0000001_0000"]
    scene.clock.advance(86_400)
    service.step()
    assert scene.listing() == ["base_0000002"]


def test_history_retention_begins_with_the_last_overwrite(scene: Scene) -> None:
    scene.table(**{"hiveacid.history.retention": "7d"})
    scene.write()
    overwrite(scene)
    scene.clock.advance(6 * 86_400)
    overwrite(scene)
    scene.clock.advance(2 * 86_400)
    assert clean(scene.context) == []
    scene.clock.advance(5 * 86_400 + 1)
    assert [Path(path).name for path in clean(scene.context)] == [
        "base_0000002",
        "delta_0000001_0000001_0000",
    ]


def test_history_retention_begins_with_the_last_overwrite_though_another_listing_fails(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The overwrite comes between the question what has changed and the listing, which then fails at p=2."""
    scene.table(partitions=("1", "2"), **{"hiveacid.history.retention": "7d"})
    scene.write(T, "p=1")
    for partition in ("p=1", "p=2"):
        overwrite(scene, partition)
    scene.clock.advance(120)
    list_partitions, list_tree = MemoryStore.list_partitions, LocalFileSystem.list_tree

    def overwrite_first(store: MemoryStore, name: TableName) -> tuple[Partition, ...]:
        monkeypatch.setattr(MemoryStore, "list_partitions", list_partitions)
        scene.clock.advance(86_400)
        overwrite(scene, "p=1")
        return list_partitions(store, name)

    def fail_at_second(fs: LocalFileSystem, root: str) -> tuple[FileEntry, ...]:
        if root.endswith("p=2"):
            raise StorageError(f"{root} is on fire")
        return list_tree(fs, root)

    service = cleaner(scene)
    monkeypatch.setattr(MemoryStore, "list_partitions", overwrite_first)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "list_tree", fail_at_second)
        (error,) = service.step().errors
    assert error.endswith("p=2 is on fire")
    scene.clock.advance(7 * 86_400 - 1)
    assert service.step().removed == ()
    scene.clock.advance(2)
    assert service.step().removed != ()


def test_the_service_waits_for_readers_from_before(scene: Scene) -> None:
    """Only for those: one who came when the base was there already keeps nothing."""
    scene.table()
    scene.write()
    (reader,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    overwrite(scene)
    clean_up = cleaner(scene)
    assert clean_up.step().removed == ()
    scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    assert clean_up.step().removed == ()
    assert clean(scene.context) == []
    scene.store.commit_txn(reader)
    assert [Path(path).name for path in clean_up.step().removed] == ["delta_0000001_0000001_0000"]


def test_a_second_overwriting_has_readers_of_its_own(scene: Scene) -> None:
    """The base that a reader came for stays, though it was replaced before the first cleaning."""
    scene.table()
    scene.write()
    (first,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    overwrite(scene)
    clean_up = cleaner(scene)
    clean_up.step()
    (second,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    overwrite(scene)
    scene.store.commit_txn(first)
    assert [Path(path).name for path in clean_up.step().removed] == ["delta_0000001_0000001_0000"]
    assert scene.listing() == ["base_0000002", "base_0000003"]
    scene.clock.advance(60)
    clean_up.step()
    assert scene.listing() == ["base_0000002", "base_0000003"]
    scene.store.commit_txn(second)
    assert [Path(path).name for path in clean_up.step().removed] == ["base_0000002"]


@pytest.mark.parametrize("end", ["commit", "abort"])
def test_an_open_writer_below_keeps_what_he_may_read(scene: Scene, end: str) -> None:
    """However he ends: an abort is no change of the table."""
    scene.table()
    scene.write()
    writer = scene.write(end="")
    overwrite(scene)
    clean_up = cleaner(scene)
    assert clean_up.step().removed == ()
    if end == "commit":
        scene.store.commit_txn(writer)
    else:
        scene.store.abort_txns([writer], "no")
    scene.clock.advance(60)
    assert "delta_0000001_0000001_0000" in [Path(path).name for path in clean_up.step().removed]
    assert scene.listing()[0] == "base_0000003"


def test_each_partition_for_itself(scene: Scene) -> None:
    scene.table(partitions=("1", "2"))
    for p in ("p=1", "p=2"):
        scene.write(T, p)
    overwrite(scene, "p=1")
    assert [Path(path).parent.name for path in cleaner(scene).step().removed] == ["p=1"]
    assert scene.listing(T, "p=2") == ["delta_0000002_0000002_0000"]


@pytest.mark.parametrize("why", ["no_cleanup", "delayed"])
def test_what_the_operator_keeps_stays(scene: Scene, why: str) -> None:
    """C8, C9."""
    table = scene.table(**({"no_cleanup": "true"} if why == "no_cleanup" else {}))
    if why == "delayed":
        scene.set("hive.compactor.delayed.cleanup.enabled", "true")
    scene.write()
    overwrite(scene)
    clean_up = cleaner(scene)
    assert clean_up.step().removed == ()
    scene.clock.advance(300)
    if why == "no_cleanup":
        assert clean_up.step().removed == ()
        scene.store.alter_table(T, table.with_properties({"no_cleanup": "false"}))
        scene.clock.advance(60)
    assert clean_up.step().removed != ()


def test_a_table_made_anew_loses_nothing(scene: Scene) -> None:
    """C17: its directories have the names that were to be removed from the old one."""
    scene.table()
    scene.write()
    (reader,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    overwrite(scene)
    clean_up = cleaner(scene)
    clean_up.step()
    scene.store.drop_table(T)
    scene.context.fs.delete_tree(str(scene.place(T, None)))
    scene.table()
    scene.write(size=11)
    (late,) = scene.store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    overwrite(scene)
    scene.store.commit_txn(reader)
    assert clean_up.step().removed == ()
    assert scene.listing() == ["base_0000002", "delta_0000001_0000001_0000"]
    scene.store.commit_txn(late)
    scene.clock.advance(60)
    assert len(clean_up.step().removed) == 1


def test_a_compaction_that_waits_for_the_cleaner_comes_first(scene: Scene) -> None:
    scene.table()
    scene.write()
    overwrite(scene)
    scene.compact()
    clean_up = cleaner(scene)
    assert len(clean_up.step().removed) == 2
    assert scene.states() == [(1, "succeeded")]
    assert [name.partition("_v")[0] for name in scene.listing()] == ["base_0000002"]


def test_what_cannot_be_removed_is_said(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    """And keeps nobody else from being cleaned; the next write to the place lets it be tried again."""
    scene.table()
    scene.write()
    overwrite(scene)

    def fail(_: LocalFileSystem, path: str, _entries: object) -> None:
        raise StorageError(f"{path} is on fire")

    clean_up = cleaner(scene)
    with monkeypatch.context() as patch:
        patch.setattr(LocalFileSystem, "delete_listed", fail)
        (error,) = clean_up.step().errors
    assert error.startswith("default.t: ")
    assert error.endswith("is on fire")
    assert clean_up.step().errors == ()
    scene.clock.advance(60)
    overwrite(scene)
    assert len(clean_up.step().removed) == 2
