"""DDL on the reference store: the names that it locks, and what it leaves alone once its lock has expired."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import pytest
from scene import Scene, T

from hiveacid.catalog import ddl
from hiveacid.catalog.ddl import (
    add_columns,
    add_partitions,
    drop_partitions,
    drop_table,
    rename_table,
    set_properties,
)
from hiveacid.core.model import Column, Partition, TableName
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import TransactionAbortedError, WriteConflictError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Written
from support.samples import CLIENT

NEW = TableName("default", "new")


def locked(name: TableName) -> LockComponent:
    return LockComponent(LockType.EXCLUSIVE, name.database, name.name)


def test_a_renaming_locks_both_names(scene: Scene) -> None:
    """In one request: two renamings with the names exchanged cannot wait for each other."""
    scene.table()
    with patch.object(scene.store, "lock", wraps=scene.store.lock) as lock:
        rename_table(scene.context, T, NEW)
    assert [call.args[1] for call in lock.call_args_list] == [[locked(T), locked(NEW)]]
    assert scene.store.show_locks() == ()


def expire_after(scene: Scene, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    """Let the open transactions time out at the end of a call of the store, as if the process paused there."""
    original = getattr(scene.store, method)

    def call(*arguments: Any, **options: Any) -> Any:
        answer = original(*arguments, **options)
        opened = [row.txn_id for row in scene.store.show_transactions() if row.state == "OPEN"]
        scene.store.abort_txns(opened, "timed out")
        return answer

    monkeypatch.setattr(scene.store, method, call)


def drop_all_partitions(scene: Scene) -> None:
    drop_partitions(scene.context, T, lambda partitions: partitions, if_exists=False)


def add_partition(scene: Scene, *, at: str | None = None) -> None:
    add_partitions(scene.context, T, [({"p": "2"}, at)])


@pytest.fixture(autouse=True)
def _values_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take the values of ADD PARTITION as they are: Spark makes them those of the columns' types."""
    monkeypatch.setattr(ddl, "partition_values", lambda _context, _table, spec: tuple(spec.values()))


INSERT_ONLY = {"transactional": "true", "transactional_properties": "insert_only"}
CHANGES: dict[str, tuple[str, str, Callable[[Scene], object]]] = {
    "drop": ("false", "lock", lambda scene: drop_table(scene.context, T)),
    "drop partitions": ("false", "lock", drop_all_partitions),
    "drop partitions with history": ("true", "allocate_write_ids", drop_all_partitions),
    "add partition": ("true", "lock", add_partition),
    "add columns": ("true", "lock", lambda scene: add_columns(scene.context, T, [Column("b", "int")])),
    "rename": ("true", "lock", lambda scene: rename_table(scene.context, T, NEW)),
    "convert": ("false", "allocate_write_ids", lambda scene: set_properties(scene.context, T, INSERT_ONLY)),
}
"""DDL: 'transactional' of its table, the call of the store after which its lock expires, and the statement."""


@pytest.mark.parametrize("change", CHANGES)
def test_ddl_whose_lock_has_expired_changes_nothing(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """Another client may have dropped, created or altered the table since."""
    transactional, method, act = CHANGES[change]
    before = scene.table(partitions=("1",), transactional=transactional)
    partitions = scene.store.list_partitions(T)
    scene.put(scene.place(T, "p=1") / "000000_0", 5)
    expire_after(scene, monkeypatch, method)
    with pytest.raises(TransactionAbortedError):
        act(scene)
    assert (scene.store.get_table(T), scene.store.list_partitions(T)) == (before, partitions)
    assert scene.listing(T, "p=1") == ["000000_0"]


@pytest.mark.parametrize("method", ["drop_table", "commit_txn"])
def test_a_drop_whose_lock_expires_after_the_catalog_change_deletes_no_files(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, method: str
) -> None:
    """They may be those of a table or partition that another client has created there since; the log names them."""
    scene.table(partitions=("1",))
    scene.write(T, "p=1")
    expire_after(scene, monkeypatch, method)
    with pytest.raises(TransactionAbortedError):
        drop_table(scene.context, T) if method == "drop_table" else drop_all_partitions(scene)
    assert scene.listing(T, "p=1") == ["delta_0000001_0000001_0000"]
    assert f"kept {scene.place(T, None if method == 'drop_table' else 'p=1')}" in caplog.text.replace(
        "/:", ":"
    )


@pytest.mark.parametrize("first", ["writer", "definer"])
def test_one_partition_at_two_places_is_refused_to_the_second(
    scene: Scene, monkeypatch: pytest.MonkeyPatch, first: str
) -> None:
    """A writer makes it at its default place while ADD PARTITION gives it another one, which looked before."""
    scene.table(partitions=("1",))
    default, other = str(scene.place(T, "p=2")), str(scene.root / "other")
    (txn_id,) = scene.store.open_txns(CLIENT)
    scene.store.allocate_write_ids([txn_id], T)
    changes = CatalogChanges(partitions=(NewPartition(T, Partition(("2",), default)),))

    def commit() -> None:
        scene.store.commit_txn(txn_id, changes, [Written(T, "p=2", Operation.INSERT)])

    if first == "writer":
        add = scene.store.add_partitions

        def beside_a_commit(*arguments: Any, **options: Any) -> None:
            commit()
            add(*arguments, **options)

        monkeypatch.setattr(scene.store, "add_partitions", beside_a_commit)
        with pytest.raises(WriteConflictError, match=f"lies in {default}"):
            add_partition(scene, at=other)
    else:
        add_partition(scene, at=other)
        with pytest.raises(WriteConflictError, match=f"lies in {other}"):
            commit()
    made = next(one for one in scene.store.list_partitions(T) if one.values == ("2",))
    assert made.location == (default if first == "writer" else other)
