"""Writers that were paused until their write ids were forgotten, and go on in a partition that others have made since."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from stream_tables import ACID, Warehouse

import hiveacid
from hiveacid.catalog.ddl import drop_partitions
from hiveacid.core.format.names import BaseName, DeltaName
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.errors import HiveAcidError, StorageError, TransactionAbortedError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.streaming import stream_transaction
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean_aborted

T = TableName("default", "t")


def _put(wh: Warehouse, number: int, partition: str, **options: Any) -> None:
    with wh.connect("t", **options) as stream, stream.transaction():
        stream.write([{"id": number, "p": partition}])


def _ids(wh: Warehouse) -> list[int]:
    with hiveacid.open(str(wh.root)) as warehouse:
        found: list[int] = warehouse.table("t").to_arrow(["id"])["id"].to_pylist()
    return sorted(found)


@pytest.mark.parametrize("made_before", [False, True], ids=["new", "dropped and made again"])
@pytest.mark.parametrize("kind", ["delta", "delete delta", "base", "compacted base", "stream"])
def test_files_of_a_forgotten_write_id_stay_invisible_in_a_later_partition(
    wh: Warehouse, kind: str, *, made_before: bool
) -> None:
    """The store counts a forgotten id as committed; the partition knows that its writer had ended before."""
    wh.create(f"CREATE TABLE t (id INT) PARTITIONED BY (p STRING) {ACID}")
    with hiveacid.open(str(wh.root)) as warehouse:
        context: Any = warehouse.context
        _put(wh, 1, "a")
        if made_before:
            _put(wh, 7, "b")
        late = wh.connect("t")
        late.begin_transaction()
        late.write([{"id": 666, "p": "b"}])
        txn_id, write_id = late.ids  # type: ignore[misc]
        wh.store.abort_txns([TxnId(txn_id)], "no heartbeat")
        if made_before:
            drop_partitions(
                context, T, lambda known: [one for one in known if one.values == ("b",)], if_exists=False
            )
        _put(wh, 1, "a", overwrite=True)
        clean_aborted(context, T)
        assert wh.store.aborted_write_ids(T) == ()
        _put(wh, 2, "b")
        # what the late writer leaves, whatever it was about to do when it was killed
        span = WriteId(write_id), WriteId(write_id)
        name = {
            "delta": DeltaName(False, *span, 0),
            "delete delta": DeltaName(True, *span, 0),
            "base": BaseName(WriteId(write_id)),
            "compacted base": BaseName(WriteId(write_id), TxnId(txn_id)),
            "stream": DeltaName(False, WriteId(1), WriteId(write_id), None),
        }[kind].format()
        (made,) = (wh.root / "t" / "p=b").glob("delta_*")
        _copy(made, made.with_name(name))
        assert _ids(wh) == [1, 2]
        with pytest.raises(HiveAcidError):
            late.commit()
        late.close()
        assert _ids(wh) == [1, 2]
        _put(wh, 3, "b")
        assert _ids(wh) == [1, 2, 3]


def test_a_late_write_into_a_partition_without_a_directory_stays_invisible(wh: Warehouse) -> None:
    """As an emptied partition is on an object store: it has no base that hides the rows of the write id."""
    wh.create(f"CREATE TABLE t (id INT) PARTITIONED BY (p STRING) {ACID}")
    _put(wh, 1, "a")
    _put(wh, 7, "b")
    (made,) = (wh.root / "t" / "p=b").glob("delta_*")
    kept = wh.root / "kept"
    _copy(made, kept)
    shutil.rmtree(wh.root / "t" / "p=b")
    with hiveacid.open(str(wh.root)) as warehouse:
        late = wh.connect("t")
        late.begin_transaction()
        txn_id, write_id = late.ids  # type: ignore[misc]
        wh.store.abort_txns([TxnId(txn_id)], "no heartbeat")
        _put(wh, 1, "a", overwrite=True)
        clean_aborted(warehouse.context, T)
        assert wh.store.aborted_write_ids(T) == (write_id,)
        (wh.root / "t" / "p=b").mkdir()
        _copy(kept, made.with_name(DeltaName(False, WriteId(write_id), WriteId(write_id), 0).format()))
        assert _ids(wh) == [1]
        late.close()


def test_the_cleaner_goes_on_beside_a_reader_that_is_older_than_an_aborted_and_a_forgotten_write_id(
    wh: Warehouse,
) -> None:
    """The unused ids of a stream are forgotten at once, and so an aborted id below them is not the highest one."""
    wh.create(f"CREATE TABLE t (id INT) PARTITIONED BY (p STRING) {ACID}")
    _put(wh, 1, "a")
    with hiveacid.open(str(wh.root)) as warehouse:
        context: Any = warehouse.context
        reader = context.transactions.begin(context.settings)
        late = wh.connect("t")
        late.begin_transaction()
        wh.store.abort_txns([late.ids[0]], "no heartbeat")
        _put(wh, 2, "a")
        left = wh.root / "t" / "p=a" / DeltaName(False, WriteId(2), WriteId(2), 0).format()
        left.mkdir()
        (left / "bucket_00000").write_bytes(b"")
        assert clean_aborted(context, T) == [str(left)]
        assert wh.store.aborted_write_ids(T) == (2,)
        reader.abort("it has read enough")
        late.close()
    assert _ids(wh) == [1, 2]


def _copy(source: Path, target: Path) -> None:
    target.mkdir()
    for file in source.iterdir():
        (target / file.name).write_bytes(file.read_bytes())


@pytest.mark.parametrize("step", ["commit", "write"])
def test_a_writer_whose_staging_the_cleaner_has_taken_hears_of_its_time_out(
    wh: Warehouse, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Not of a file that is missing: clients begin again after a time-out."""
    wh.create(f"CREATE TABLE t (id INT) {ACID}")
    late = wh.connect("t")
    late.begin_transaction()
    late.write([{"id": 1}])
    write = LocalFileSystem.write_bytes

    def pause(fs: LocalFileSystem, path: str, data: bytes, *, durable: bool = True) -> None:
        if late.in_transaction and ".hiveacid-staging-" in path:
            wh.store.abort_txns([late.ids[0]], "no heartbeat")
            raise StorageError(f"cannot write {path}: No such file or directory")
        write(fs, path, data, durable=durable)

    monkeypatch.setattr(LocalFileSystem, "write_bytes", pause)
    monkeypatch.setattr(stream_transaction, "_MAX_BUFFERED_BYTES", 0)
    go_on = {"commit": late.commit, "write": lambda: late.write([{"id": 2}])}[step]
    with pytest.raises(TransactionAbortedError, match="was aborted while its statement ran"):
        go_on()
    assert not late.in_transaction
    late.close()
    monkeypatch.undo()
    with wh.connect("t") as stream, stream.transaction():
        stream.write([{"id": 3}])
    assert _ids(wh) == [3]
