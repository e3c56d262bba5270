"""Adoption of a directory: all or nothing in the store, so that a DROP TABLE after a killed one deletes no file."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from hiveacid.catalog.adopt import adopt
from hiveacid.catalog.ddl import drop_table
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.errors import CatalogError, NoSuchTableError
from hiveacid.ports.store import WarehouseStore
from hiveacid.ports.transactions import current_write_ids_of
from hiveacid.table.context import Context
from support.contexts import open_context
from support.directories.shelves import definition

T = TableName("default", "t")
SQL = "CREATE TABLE t (id INT) PARTITIONED BY (p INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
DELTAS = ("p=1/delta_0000001_0000001_0000", "p=2/delta_0000004_0000004_0000", "p=2/base_0000003_v0000009")


class Warehouse:
    """A directory with the files of a table that no store knows."""

    def __init__(self, root: Path) -> None:
        self.root, self.location = root / "wh", root / "found"
        for delta in DELTAS:
            (self.location / delta).mkdir(parents=True)
            (self.location / delta / "bucket_00000").write_bytes(b"x")

    def run(
        self, work: Callable[[Context], object], wrap: Callable[[WarehouseStore], Any] = lambda it: it
    ) -> None:
        """Run ``work`` on a connection of its own; ``wrap``: around its store."""
        context = open_context(self.root, wrap)
        try:
            work(context)
        finally:
            context.close()

    def adopt(self, context: Context) -> None:
        ids = ValidWriteIdList(T, WriteId(5), (), (WriteId(2),))
        adopt(context, definition(SQL, str(self.location)), ids, ValidTxnList(TxnId(12)))

    def require_complete(self, context: Context) -> None:
        """Check that readers see all rows."""
        ids = current_write_ids_of(context.store, T)
        assert (ids.high_watermark, ids.aborted) == (5, (2,))
        partitions = context.catalog.list_partitions(T)
        assert [(one.values, one.min_write_id <= 1) for one in partitions] == [(("1",), True), (("2",), True)]

    def files(self) -> list[str]:
        return sorted(str(path.parent.relative_to(self.location)) for path in self.location.rglob("bucket*"))


class _Killed:
    """A store whose client dies when it makes a call."""

    def __init__(self, store: WarehouseStore, calls: int) -> None:
        self._store, self._calls = store, calls

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        def call(*arguments: Any, **options: Any) -> Any:
            if self._calls == 0:
                os._exit(9)
            self._calls -= 1
            return method(*arguments, **options)

        return call


def adopt_in_a_process(warehouse: Warehouse, calls: int) -> int:
    """Adopt in a child process that dies after some calls of the store; return its exit code."""
    child = os.fork()
    if child == 0:
        try:
            warehouse.run(warehouse.adopt, lambda store: _Killed(store, calls))
        except BaseException:  # noqa: BLE001 - the child must not go on with the parent's tests
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def look_and_adopt_again(warehouse: Warehouse, context: Context) -> str:
    """Drop what is there, or adopt again, as a user does after the crash; return what was there."""
    context.store.abort_txns(context.store.valid_txns().open, "time out")
    end = "complete"
    if context.catalog.get_table(T) is None:
        end = "none"
        with pytest.raises(NoSuchTableError):
            drop_table(context, T)
        assert warehouse.files() == sorted(DELTAS)
        warehouse.adopt(context)
    warehouse.require_complete(context)
    return end


def test_a_killed_adoption_leaves_no_table_that_owns_the_files(tmp_path: Path) -> None:
    """Wherever it is killed: there is no table, and the next call adopts it, or it is complete."""
    ends: list[str] = []
    for calls in count():
        warehouse = Warehouse(tmp_path / str(calls))
        code = adopt_in_a_process(warehouse, calls)
        assert code in (0, 9), code
        warehouse.run(lambda context, of=warehouse: ends.append(look_and_adopt_again(of, context)))  # type: ignore[misc]
        assert warehouse.files() == sorted(DELTAS)
        if code == 0:
            break
    assert (ends[0], ends[-1]) == ("none", "complete")
    assert len(ends) > 5  # each call of the store


@pytest.mark.parametrize(
    ("ids", "txns"),
    [
        (ValidWriteIdList(T, WriteId(2)), None),
        (ValidWriteIdList(T, WriteId(5), (WriteId(3),)), None),
        (ValidWriteIdList(T, WriteId(5), (WriteId(1),)), ValidTxnList(TxnId(12))),
    ],
)
def test_a_list_older_than_a_compaction_is_refused(
    tmp_path: Path, ids: ValidWriteIdList, txns: ValidTxnList | None
) -> None:
    """The base holds rows that the list does not have, and of one transaction some would be seen, those in deltas not."""
    table = definition(SQL, str(Warehouse(tmp_path).location))

    def refused(context: Context) -> None:
        with pytest.raises(CatalogError, match=r"p=2/base_0000003_v0000009 was compacted after the list"):
            adopt(context, table, ids, txns)
        assert context.catalog.get_table(T) is None
        adopt(context, table, ids, ValidTxnList(TxnId(12), (TxnId(9),)))  # the compaction had not committed

    Warehouse(tmp_path / "other").run(refused)


def test_open_ids_below_an_overwrite_or_above_a_compaction_are_no_older_list(tmp_path: Path) -> None:
    warehouse = Warehouse(tmp_path)
    overwritten = warehouse.location / "p=1" / "base_0000005"
    overwritten.mkdir()
    (overwritten / "_metadata_acid").write_text('{"thisFileVersion":"0","dataFormat":"truncated"}', "ascii")
    ids = ValidWriteIdList(T, WriteId(5), (WriteId(4),))
    warehouse.run(lambda context: adopt(context, definition(SQL, str(warehouse.location)), ids, None))


INSERTS = SQL.replace(
    "'transactional'='true'", "'transactional'='true', 'transactional_properties'='insert_only'"
)


@pytest.mark.parametrize(("sql", "name"), [(SQL, "_v0000009"), (INSERTS, "_v0000009"), (INSERTS, "")])
@pytest.mark.parametrize(
    "ids", [ValidWriteIdList(T, WriteId(4)), ValidWriteIdList(T, WriteId(5), (WriteId(2),))]
)
def test_a_list_older_than_a_merged_delta_is_refused(
    tmp_path: Path, sql: str, name: str, ids: ValidWriteIdList
) -> None:
    """Rows of insert-only tables have no ids; those of others came back when the cleaner had forgotten the ids."""
    warehouse = Warehouse(tmp_path)
    shutil.rmtree(warehouse.location / "p=2")
    delta = warehouse.location / f"p=1/delta_0000002_0000005{name}"
    delta.mkdir()
    (delta / "bucket_00000").write_bytes(b"x")

    def refused(context: Context) -> None:
        with pytest.raises(CatalogError, match=rf"{delta.name} was compacted after the list"):
            adopt(context, definition(sql, str(warehouse.location)), ids, None)
        assert context.catalog.get_table(T) is None

    warehouse.run(refused)


def test_a_streamed_delta_that_reaches_beyond_the_list_is_taken(tmp_path: Path) -> None:
    """Its rows have write ids, and the cleaner keeps those that a delta without ``_v`` may hold."""
    warehouse = Warehouse(tmp_path)
    (warehouse.location / "p=1/delta_0000002_0000005").mkdir()
    ids = ValidWriteIdList(T, WriteId(4))
    warehouse.run(lambda context: adopt(context, definition(SQL, str(warehouse.location)), ids, None))
