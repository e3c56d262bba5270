"""Streams that go on, or end, after their table or partition was dropped and made again by others: its files stay as they are."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from stream_tables import ACID, Warehouse

from hiveacid.core.model import TableName
from hiveacid.errors import HiveAcidError, StorageError, TransactionAbortedError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.streaming import Connection

T = TableName("default", "t")
SQL = f"CREATE TABLE t (id INT, name STRING) {ACID}"


def rows(first: int, count: int) -> list[dict[str, Any]]:
    """Return rows with consecutive ids."""
    return [{"id": number, "name": "x" * 20} for number in range(first, first + count)]


def put(stream: Connection, first: int, count: int) -> None:
    """Write rows in one transaction."""
    stream.begin_transaction()
    stream.write(rows(first, count))
    stream.commit()


def make_again(wh: Warehouse, sql: str = SQL) -> None:
    """Drop the table with its files, in the same second as a new one is created."""
    wh.store.drop_table(T)
    shutil.rmtree(wh.root / "t")
    wh.create(sql)


def contents(wh: Warehouse) -> dict[str, bytes]:
    """Return the bytes of each file of the table, hidden ones left out."""
    return {path: (wh.root / "t" / path).read_bytes() for path in wh.files("t") if not path.startswith(".")}


@pytest.mark.parametrize("how", ["close", "begin"])
def test_an_idle_stream_ends_without_touching_the_files_of_a_newer_table(wh: Warehouse, how: str) -> None:
    wh.create(SQL)
    old = wh.connect("t")
    put(old, 0, 3)
    make_again(wh)
    with wh.connect("t") as new:
        put(new, 1000, 500)
        before = contents(wh)
        if how == "begin":
            old.begin_transaction()
            old.abort()
        old.close()
        assert contents(wh) == before
        put(new, 1500, 500)
    assert sorted(row[0] for row in wh.rows("t")) == list(range(1000, 2000))
    assert wh.findings("t") == []


def test_a_stream_paused_past_its_timeout_writes_nothing_into_a_newer_table(wh: Warehouse) -> None:
    wh.create(SQL)
    old = wh.connect("t")
    put(old, 0, 3)
    old.begin_transaction()
    old.write(rows(3, 3))
    wh.store.abort_txns([old.ids[0]], "no heartbeat")  # type: ignore[index]
    make_again(wh)
    with wh.connect("t") as new:
        put(new, 1000, 500)
        before = contents(wh)
        with pytest.raises(TransactionAbortedError):
            old.commit()
        assert contents(wh) == before
    old.close()
    assert len(wh.rows("t")) == 500


@pytest.mark.parametrize(
    "step", ["claim_directory", "write_bytes", "link_file", "move_file", "replace_tail", "_sync"]
)
@pytest.mark.parametrize("killed", [False, True])
def test_a_stream_paused_at_any_step_of_its_commit_changes_no_file_of_a_newer_table(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch, step: str, *, killed: bool
) -> None:
    """Paused between the last question to the store and each system call; then it goes on, or is killed after the step."""
    wh.create(SQL)
    old, new = wh.connect("t"), wh.connect("t")
    paused: list[dict[str, bytes]] = []

    def pause(method: Any) -> Any:
        def run(*args: Any, **options: Any) -> Any:
            if not paused and old.in_transaction:
                paused.append({})
                wh.store.abort_txns([old.ids[0]], "no heartbeat")  # type: ignore[index]
                make_again(wh)
                put(new, 1000, 5)
                paused[0] = contents(wh)
                result = method(*args, **options)
                if killed:
                    raise SystemExit
                return result
            return method(*args, **options)

        return run

    old.begin_transaction()
    old.write(rows(3, 3))
    with monkeypatch.context() as patches:
        patches.setattr(LocalFileSystem, step, pause(getattr(LocalFileSystem, step)))
        if killed:
            patches.setattr("hiveacid.streaming.connection.Connection._abort_current", lambda *_: None)
        with pytest.raises((HiveAcidError, SystemExit)):
            old.commit()
    assert paused
    assert contents(wh) == paused[0]
    put(new, 2000, 5)
    new.close()
    if not killed:
        old.close()
    assert sorted(row[0] for row in wh.rows("t")) == [*range(1000, 1005), *range(2000, 2005)]


def test_a_dead_stream_leaves_the_rows_of_the_table_that_came_after_it(wh: Warehouse) -> None:
    """The other table has another name and the same directory; its first directory is called as that of the stream."""
    wh.create(SQL)
    old = wh.connect("t")
    old.begin_transaction()
    old.write(rows(0, 3))
    wh.store.abort_txns([old.ids[0]], "no heartbeat")  # type: ignore[index]
    location = wh.root / "t"
    wh.store.drop_table(T)
    shutil.rmtree(location)
    made = wh.create(SQL.replace("TABLE t", "TABLE b"))
    Path(made.location).rmdir()
    wh.store.drop_table(made.name)
    location.mkdir()
    wh.store.create_table(type(made)(**{**vars(made), "location": str(location)}))
    with wh.connect("b") as new:
        put(new, 10, 5)
    before = contents(wh)
    with pytest.raises(HiveAcidError):
        old.commit()
    old.close()
    assert contents(wh) == before


def test_a_directory_that_another_writer_made_is_neither_filled_nor_deleted(wh: Warehouse) -> None:
    wh.create(SQL)
    with wh.connect("t") as stream:
        stream.begin_transaction()
        stream.write(rows(0, 1))
        other = wh.root / "t" / "delta_0000001_0000001_0000"
        other.mkdir()
        (other / "bucket_00001").write_bytes(b"another's")
        with pytest.raises(StorageError, match="another writer has made"):
            stream.commit()
    assert wh.files("t") == ["delta_0000001_0000001_0000/bucket_00001"]
