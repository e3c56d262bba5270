"""Reads beside DROP: which table a name means, and which partitions it has, while a transaction reads it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pytest

import hiveacid
from hiveacid.arrow.warehouse import ArrowWarehouse as Warehouse
from hiveacid.catalog.ddl import drop_partitions
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.format.names import BaseName
from hiveacid.core.model import Column, Partition, TableDefinition, TableName, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.errors import NotEnoughHistoryError, StorageError, WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.storage import snapshot_locations
from hiveacid.streaming import Connection
from hiveacid.table.read import visible_locations
from hiveacid.table.read.visible_locations import list_visible, require_same_table
from hiveacid.transactions.transaction import Transaction
from support.samples import ORC

T = TableName("default", "t")


def test_a_table_that_is_dropped_and_created_again_within_a_second_is_another_one(tmp_path: Path) -> None:
    """Its directories may have the same names, and the old write ids would show rows that are not committed."""
    open_store(str(tmp_path), None, Settings(), SystemClock())[0].close()
    with hiveacid.open(str(tmp_path)) as warehouse:
        context = warehouse.context
        made = TableDefinition(
            T,
            (Column("id", "int"),),
            ORC,
            str(tmp_path / "t"),
            properties=(("transactional", "true"),),
            created_at=7,
        )
        context.catalog.create_table(made)
        reader, later = (context.transactions.begin(context.settings) for _ in range(2))
        table = context.require(T)
        require_same_table(context, table, reader)
        context.catalog.drop_table(T)
        context.catalog.create_table(made)
        with pytest.raises(WriteConflictError, match="was dropped, renamed or replaced"):
            require_same_table(context, table, reader)
        assert reader.reads.outdated
        with pytest.raises(WriteConflictError):  # nor does it read the new one
            require_same_table(context, context.require(T), reader)
        require_same_table(context, context.require(T), later)
        for txn in (reader, later):
            txn.abort("test")


@pytest.fixture
def parted(tmp_path: Path) -> Iterator[Warehouse]:
    """Make a table with two deltas of ten rows in each of the partitions a and b."""
    open_store(str(tmp_path), None, Settings(), SystemClock())[0].close()
    with hiveacid.open(str(tmp_path)) as warehouse:
        made = TableDefinition(
            T,
            (Column("id", "int"),),
            ORC,
            str(tmp_path / "t"),
            partition_columns=(Column("p", "string"),),
            properties=(("transactional", "true"),),
        )
        warehouse.context.catalog.create_table(made)
        for _ in range(2):
            for partition in "ab":
                append(warehouse, partition)
        yield warehouse


def append(warehouse: Warehouse, partition: str) -> None:
    with (
        Connection("t", store=warehouse.context.store, partition={"p": partition}) as stream,
        stream.transaction(),
    ):
        stream.write(pa.table({"id": pa.array(range(10), pa.int32())}))


def partition_a(partitions: Sequence[Partition]) -> list[Partition]:
    return [partition for partition in partitions if partition.values == ("a",)]


def drop_half_of_a(warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Drop p=a; the storage fails after the first of its directories, as it looks in the middle of a long deletion."""
    context: Any = warehouse.context
    delete = context.fs.delete_tree

    def delete_first(path: str) -> None:
        delete(f"{path}/delta_0000001_0000001_0000")
        raise StorageError(f"{path}: enough")

    with monkeypatch.context() as patch:
        patch.setattr(type(context.fs), "delete_listed", lambda _, path, __: delete_first(path))
        with pytest.raises(StorageError, match="enough"):
            drop_partitions(context, T, partition_a, if_exists=False)
    left = Path(context.warehouse, "t", "p=a")
    assert [path.name for path in left.iterdir()] == ["delta_0000003_0000003_0000"]


def before_listing(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> None:
    """Let something happen once, after a reader has taken its snapshot and partitions, and before it lists or looks these up."""
    acts = [act]

    def delay(module: ModuleType, name: str) -> None:
        look = getattr(module, name)

        def later(*arguments: Any) -> Any:
            if acts:
                acts.pop()()
            return look(*arguments)

        monkeypatch.setattr(module, name, later)

    delay(snapshot_locations, "for_each_location")
    delay(visible_locations, "read_records")


READS: dict[str, Callable[[Any], object]] = {
    "count": lambda table: table.count(),
    "arrow": lambda table: table.to_arrow(),
    "other partition": lambda table: table.count("p = 'b'"),
}


@pytest.mark.parametrize("read", READS)
def test_a_read_beside_drop_partition_fails_instead_of_missing_rows(
    parted: Warehouse, monkeypatch: pytest.MonkeyPatch, read: str
) -> None:
    table = parted.table("t")
    assert table.count() == 40
    before_listing(monkeypatch, lambda: drop_half_of_a(parted, monkeypatch))
    with pytest.raises(
        WriteConflictError, match=r"partitions of default\.t were dropped .*run it again"
    ) as raised:
        READS[read](table)
    assert raised.value.retryable
    assert table.count() == 20


@pytest.mark.parametrize(("after", "error"), [(None, WriteConflictError), (0, NotEnoughHistoryError)])
def test_a_streaming_source_beside_drop_partition_fails_too(
    parted: Warehouse, monkeypatch: pytest.MonkeyPatch, after: int | None, error: type[Exception]
) -> None:
    """So does one that begins with a snapshot (``after`` None)."""
    warehouse = parted.context.warehouse
    source = ChangeSource(ChangeOptions("t", warehouse, None, starting="snapshot", starting_write_id=after))
    start = source.start_offset()
    end = source.next_end_offset(start)
    before_listing(monkeypatch, lambda: drop_half_of_a(parted, monkeypatch))
    with pytest.raises(error, match="dropped"):
        source.files(start, end)
    source.close()
    source = ChangeSource(ChangeOptions("t", warehouse, None, starting="snapshot"))
    start = source.start_offset()
    assert len(source.files(start, source.next_end_offset(start))) == 2
    source.close()


@pytest.mark.parametrize("starting", ["earliest", "snapshot"])
def test_a_batch_that_was_planned_before_the_history_ended_does_not_stop_a_query_that_takes_snapshots(
    parted: Warehouse, starting: str
) -> None:
    """Spark repeats it with the same offsets: it is empty, and the next one holds the whole table."""
    options = ChangeOptions("t", parted.context.warehouse, None, starting=starting, snapshot_where_gone=True)
    source = ChangeSource(options)
    start = source.start_offset()
    planned = source.next_end_offset(start)
    context: Any = parted.context
    drop_partitions(context, T, partition_a, if_exists=False)
    assert source.files(start, planned) == source.files(start, planned) == []
    end = source.next_end_offset(planned)
    assert end != planned
    assert {file.partition.values for file in source.files(planned, end) if file.partition} == {("b",)}
    later = source.next_end_offset(end)
    assert source.files(end, later) == []
    source.close()
    failing = ChangeSource(ChangeOptions("t", parted.context.warehouse, None, starting=starting))
    with pytest.raises(NotEnoughHistoryError):
        failing.files(start, planned)
    failing.close()


def test_a_snapshot_that_was_planned_before_a_compaction_is_read_from_the_files_that_are_still_there(
    parted: Warehouse,
) -> None:
    source = ChangeSource(ChangeOptions("t", parted.context.warehouse, None, starting="snapshot"))
    start = source.start_offset()
    planned = source.next_end_offset(start)
    append(parted, "a")
    compaction = parted.context.transactions.begin(parted.context.settings)
    compaction.commit()
    root = Path(parted.context.warehouse, "t", "p=a")
    shutil.copytree(
        root / "delta_0000005_0000005_0000", root / BaseName(WriteId(5), compaction.txn_id).format()
    )
    directories = [Path(file.file.path).parent.name for file in source.files(start, planned)]
    assert sorted(directories) == [f"delta_{n:07}_{n:07}_0000" for n in (1, 2, 3, 4)]
    source.close()


def test_a_transaction_from_before_drop_partition_cannot_read_the_table_any_more(parted: Warehouse) -> None:
    """Not even where another writer has made the partition again since, or where the transaction has a lock by now."""
    context: Any = parted.context
    early = context.transactions.begin(context.settings)
    early.snapshot()
    drop_partitions(context, T, partition_a, if_exists=False)
    append(parted, "a")
    for locked in (False, True):
        if locked:
            early.lock([LockComponent(LockType.SHARED_WRITE, T.database, T.name)])
        with pytest.raises(WriteConflictError, match="were dropped"):
            require_same_table(context, context.require(T), early)
    late = context.transactions.begin(context.settings)
    require_same_table(context, context.require(T), late)
    for txn in (early, late):
        txn.abort("test")
    assert parted.table("t").count() == 30
    with pytest.raises(NotEnoughHistoryError):
        parted.table("t").count(as_of=4)


def test_a_metastore_tells_by_its_list_which_partitions_are_gone(
    parted: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hive's DROP PARTITION waits for no reader and leaves no write id."""
    context: Any = parted.context
    monkeypatch.setattr(context.store, "maintained_by_hiveacid", lambda: False)
    table, partitions = context.require(T), context.catalog.list_partitions(T)

    def read(txn: Transaction, chosen: Sequence[Partition] = partitions) -> int:
        return len(list_visible(context, table, chosen, txn.valid_write_ids(T), txn))

    one, beside, locked, late = (context.transactions.begin(context.settings) for _ in range(4))
    assert read(one) == 2
    locked.lock([LockComponent(LockType.SHARED_WRITE, T.database, T.name)])
    before_listing(monkeypatch, lambda: context.catalog.drop_partitions(T, partition_a(partitions)))
    for txn, chosen in ((beside, partitions), (one, partitions[1:])):
        with pytest.raises(WriteConflictError, match=r"partitions of default\.t were dropped"):
            read(txn, chosen)
        assert txn.reads.outdated
    assert read(late, partitions[1:]) == read(late, partitions[1:]) == 1
    with monkeypatch.context() as patch:  # another engine may spell a name in another way
        patch.setattr(context.catalog, "list_partition_names", lambda _: frozenset({"P=b"}))
        other = context.transactions.begin(context.settings)
        assert read(other, partitions[1:]) == 1
    names = context.catalog.list_partition_names
    monkeypatch.setattr(context.catalog, "list_partition_names", pytest.fail)
    assert read(locked) == 2  # no DROP passes its lock, so it asks nothing
    assert names(T) == {"p=b"}
    for txn in (one, beside, locked, late, other):
        txn.abort("test")


def test_a_drop_partition_that_is_rolled_back_disturbs_no_reader(
    parted: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    context: Any = parted.context

    def refuse(*_: object, **__: object) -> None:
        raise StorageError("no")

    with monkeypatch.context() as patch:
        patch.setattr(context.store, "commit_txn", refuse)
        with pytest.raises(StorageError):
            drop_partitions(context, T, lambda all_: all_, if_exists=False)
    assert parted.table("t").count() == 40
