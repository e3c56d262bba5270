"""Streaming queries over tables that another engine cleans; interop/test_hive_structured_streams.py has real Hive."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.format.names import LayoutLevel
from hiveacid.datasource.options import ChangeOptions
from hiveacid.datasource.stream_offsets import ChangeSource
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.store import WarehouseStore
from hiveacid.stores.sql.store import SqlStore
from support.stream_batches import (
    ACID,
    check_beside_a_compaction,
    check_beside_a_dropped_partition,
    create,
    write,
)


@pytest.fixture(params=LayoutLevel)
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> LayoutLevel:
    """Let stores of ours say that they are metastores of one Hive or another."""
    monkeypatch.setattr(SqlStore, "maintained_by_hiveacid", lambda _: False)
    monkeypatch.setattr(SqlStore, "layout_level", lambda _: request.param)
    return LayoutLevel(request.param)


@pytest.fixture
def store(tmp_path: Path, level: LayoutLevel) -> Iterator[WarehouseStore]:  # noqa: ARG001 - set before it is opened
    opened, _ = open_store(str(tmp_path), None, Settings(), SystemClock())
    yield opened
    opened.close()


def test_each_change_once_and_an_error_where_it_may_have_cleaned(
    tmp_path: Path, store: WarehouseStore, level: LayoutLevel
) -> None:
    check_beside_a_compaction(store, tmp_path, None, cleaner_waits=level is LayoutLevel.HIVE4)


def test_a_partition_that_it_drops_is_not_passed_over(tmp_path: Path, store: WarehouseStore) -> None:
    check_beside_a_dropped_partition(store, tmp_path, None)


def test_the_cleaner_of_hive_3_waits_for_each_partition_of_a_batch(
    tmp_path: Path, store: WarehouseStore, level: LayoutLevel
) -> None:
    """It looks for locks on the partition that it cleans: those on the table do not count."""
    create(store, tmp_path, "parted", f"(id INT) PARTITIONED BY (p INT) {ACID}")
    write(store, "parted", 1, p=1)
    write(store, "parted", 2, p=2)
    source = ChangeSource(ChangeOptions("parted", str(tmp_path), None, starting="earliest"))
    start = source.start_offset()
    assert len(source.files(start, source.next_end_offset(start))) == 2
    locked = {lock.partition for lock in store.show_locks()}
    assert locked == ({None, "p=1", "p=2"} if level is LayoutLevel.HIVE3 else set())
    source.close()
    assert store.show_locks() == ()
