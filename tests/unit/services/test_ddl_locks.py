"""DDL on the reference store: the names that it locks, and what it leaves alone once its lock has expired."""

from __future__ import annotations

from unittest.mock import patch

from scene import Scene, T

from hiveacid.catalog.tables import rename_table
from hiveacid.core.model import TableName
from hiveacid.core.transactions.locks import LockComponent, LockType

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
