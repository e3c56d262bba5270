"""Statements that are paused past their timeout at a step of their publishing, while others drop the table and make it again."""

from __future__ import annotations

import shutil
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import hiveacid
from hiveacid.errors import HiveAcidError, TransactionAbortedError
from hiveacid.storage.local_file_system import LocalFileSystem

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

_TABLE = "CREATE TABLE t (id INT, n INT) STORED AS ORC"
_TRANSACTIONAL = f"{_TABLE} TBLPROPERTIES ('transactional'='true')"
_INSERT_ONLY = (
    "CREATE TABLE t (id INT, n INT) CLUSTERED BY (id) INTO 2 BUCKETS STORED AS ORC "
    "TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
)
_STATEMENTS = {
    "insert": "INSERT INTO t VALUES (1, 0)",
    "job": "INSERT INTO t SELECT CAST(id AS INT), 0 FROM range(4)",
    "overwrite": "INSERT OVERWRITE TABLE t VALUES (1, 0)",
    "truncate": "TRUNCATE TABLE t",
    "update": "UPDATE t SET n = n + 1",
    "load": "LOAD DATA INPATH '{source}' INTO TABLE t",
    "load local": "LOAD DATA LOCAL INPATH '{source}' OVERWRITE INTO TABLE t",
    "compact": "ALTER TABLE t COMPACT 'major' AND WAIT",
    "plain": "INSERT INTO t VALUES (1, 0)",
    "plain overwrite": "INSERT OVERWRITE TABLE t VALUES (1, 0)",
    "plain truncate": "TRUNCATE TABLE t",
    "plain load": "LOAD DATA LOCAL INPATH '{source}' OVERWRITE INTO TABLE t",
    "plain drop": "DROP TABLE t",
    "plain conversion": "ALTER TABLE t SET TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
    "drop": "DROP TABLE t",
    "insert-only": "INSERT INTO t VALUES (1, 0)",
    "insert-only overwrite": "INSERT OVERWRITE TABLE t SELECT * FROM t WHERE id < 0",
}


@pytest.fixture
def two(spark: SparkSession, tmp_path: Path) -> Iterator[tuple[AcidSession, AcidSession]]:
    """Two sessions of one warehouse."""
    with (
        hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as acid,
        hiveacid.connect(spark, warehouse=str(tmp_path / "wh")) as other,
    ):
        yield acid, other


class Paused(LocalFileSystem):
    """A file system whose nth change of a table's files waits for ``action``; from then on it may be dead."""

    def __init__(self, location: str, nth: int, action: Any, *, killed: bool) -> None:
        super().__init__()
        self._location, self._nth, self._action, self._killed = location, nth, action, killed
        self.count = 0

    def _step(self, path: str, method: Any, *args: Any) -> Any:
        if self.count > self._nth and self._killed:
            raise SystemExit
        if f"{path}/".startswith(f"{self._location}/"):
            self.count += 1
            if self.count == self._nth:
                self._action()
                self.count += 1
        return method(*args)

    def claim_directory(self, path: str, staging: str | None = None) -> bool:
        return bool(self._step(path, super().claim_directory, path, staging))

    def make_directory(self, path: str) -> None:
        self._visible_step(path, super().make_directory, path)

    def write_bytes(self, path: str, data: bytes, *, durable: bool = True) -> None:
        self._visible_step(path, partial(super().write_bytes, durable=durable), path, data)

    def _visible_step(self, path: str, method: Any, *args: Any) -> None:
        if "/.hiveacid-" in path:
            method(*args)
        else:
            self._step(path, method, *args)

    def move_file(self, source: str, target: str) -> None:
        self._step(target, super().move_file, source, target)

    def move_directory(self, source: str, target: str) -> None:
        self._step(target, super().move_directory, source, target)

    def link_file(self, source: str, target: str, version: Any = None) -> Any:
        return self._step(target, super().link_file, source, target, version)

    def copy_file(self, source: str, target: str, length: int | None = None) -> None:
        self._step(target, super().copy_file, source, target, length)

    def delete_tree(self, path: str) -> None:
        self._step(path, super().delete_tree, path)

    def delete_listed(self, root: str, entries: Any) -> Any:
        return self._step(root, super().delete_listed, root, entries)


def _files(table: Path) -> dict[str, tuple[int, bytes]]:
    """Return the inode, which a file of the same content that replaces another has not, and the content."""
    return {
        path.relative_to(table).as_posix(): (path.stat().st_ino, path.read_bytes())
        for path in sorted(table.rglob("*"))
        if path.is_file() and not any(part.startswith(".") for part in path.relative_to(table).parts)
    }


@pytest.mark.parametrize("killed", [False, True], ids=["goes on", "killed"])
@pytest.mark.parametrize("name", _STATEMENTS)
def test_a_paused_statement_changes_no_file_of_a_newer_table(
    two: tuple[AcidSession, AcidSession], tmp_path: Path, name: str, *, killed: bool
) -> None:
    """At each of its steps in turn. A killed one leaves at most files that no reader sees."""
    acid, other = two
    ddl = {"plain": _TABLE, "insert-only": _INSERT_ONLY}.get(name.partition(" ")[0], _TRANSACTIONAL)
    location = Path(acid.context.warehouse.removeprefix("file:")) / "t"
    for nth in range(1, 30):
        other.sql(ddl)
        other.sql("INSERT INTO t VALUES (10, 0)")
        other.sql("INSERT INTO t VALUES (11, 0)")
        source = tmp_path / f"source{nth}" / "000000_0"
        source.parent.mkdir(exist_ok=True)
        LocalFileSystem().copy_file(_orc(other, tmp_path), str(source))
        after: list[dict[str, tuple[int, bytes]]] = []

        def take_over(after: list[dict[str, tuple[int, bytes]]] = after) -> None:
            store = other.context.store
            store.abort_txns(
                [row.txn_id for row in store.show_transactions() if row.state == "OPEN"], "no heartbeat"
            )
            if name.endswith("drop"):  # which has taken the name; its files go, or CREATE TABLE is refused
                shutil.rmtree(location)
            else:
                other.sql("DROP TABLE t")
            other.sql(ddl)
            for number in (20, 21, 22):
                other.sql(f"INSERT INTO t VALUES ({number}, 0)")
            after.append(_files(location))

        acid.context = replace(acid.context, fs=Paused(str(location), nth, take_over, killed=killed))
        try:
            acid.sql(_STATEMENTS[name].format(source=source.parent))
        except (HiveAcidError, SystemExit):
            assert after, nth
        acid.context = replace(acid.context, fs=LocalFileSystem())
        if not after:
            break
        assert {path: data for path, data in _files(location).items() if path in after[0]} == after[0], nth
        assert sorted(row[0] for row in other.sql("SELECT id FROM t").collect()) == [20, 21, 22], nth
        other.sql("DROP TABLE t")
    else:
        pytest.fail("it never ends")
    assert nth > 1


@pytest.mark.parametrize(
    "properties", ["", "TBLPROPERTIES ('transactional'='true')"], ids=["plain", "transactional"]
)
def test_a_paused_drop_partition_deletes_no_file_of_a_newer_partition(
    two: tuple[AcidSession, AcidSession], properties: str
) -> None:
    acid, other = two
    location = Path(acid.context.warehouse.removeprefix("file:")) / "t"
    for nth in range(1, 9):
        other.sql(f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) STORED AS ORC {properties}")
        other.sql("INSERT INTO t VALUES (1, 1), (2, 2)")
        after: list[dict[str, tuple[int, bytes]]] = []

        def take_over(after: list[dict[str, tuple[int, bytes]]] = after) -> None:
            store = other.context.store
            store.abort_txns(
                [row.txn_id for row in store.show_transactions() if row.state == "OPEN"], "no heartbeat"
            )
            if properties:  # a partition is not made where the files of a dropped one are left
                shutil.rmtree(location / "p=1")
            other.sql("INSERT INTO t VALUES (11, 1)")
            after.append(_files(location))

        acid.context = replace(acid.context, fs=Paused(str(location), nth, take_over, killed=False))
        with suppress(TransactionAbortedError):  # the lock of the DROP expired after the catalog was changed
            acid.sql("ALTER TABLE t DROP PARTITION (p = 1)")
        acid.context = replace(acid.context, fs=LocalFileSystem())
        if not after:
            break
        assert sorted(row[0] for row in other.sql("SELECT id FROM t").collect()) == [2, 11], nth
        other.sql("DROP TABLE t")
    else:
        pytest.fail("it never ends")
    assert nth > 1


def _orc(acid: AcidSession, tmp_path: Path) -> str:
    """Return a file of a plain table with the same columns."""
    if not (tmp_path / "wh" / "files").exists():
        acid.sql("CREATE TABLE files (id INT, n INT) STORED AS ORC")
        acid.sql("INSERT INTO files VALUES (1, 0)")
    (found,) = (tmp_path / "wh" / "files").glob("0*")
    return str(found)
