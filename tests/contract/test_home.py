"""A store that is a file knows its place: a copy, or a moved one, does not work on the files of the original."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import hiveacid
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.core.model import Partition, TableName
from hiveacid.errors import MisplacedStoreError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.store import WarehouseStore
from hiveacid.stores.sql.store import SqlStore
from support.samples import table

T = TableName("default", "t")


def opened(warehouse: Path | str, store: str | None = None) -> WarehouseStore:
    return open_store(str(warehouse), store, Settings(), SystemClock())[0]


@pytest.fixture
def warehouse(tmp_path: Path) -> Path:
    """Make a warehouse with a table, a partition below it and two elsewhere."""
    place = tmp_path / "wh"
    store = opened(place)
    store.create_table(table(T, f"{place}/t"))
    store.add_partitions(
        T,
        [
            Partition(("2026-01-01", "oslo"), f"{place}/t/dt=2026-01-01/city=oslo"),
            Partition(("2026-01-02", "oslo"), f"{place}/odd/place"),
            Partition(("2026-01-03", "oslo"), str(tmp_path / "ext")),
        ],
    )
    store.close()
    return place


def test_a_copy_is_refused_whatever_opens_it(warehouse: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(warehouse, copy)
    shutil.copytree(warehouse, tmp_path / "linked", copy_function=os.link)
    for place, store in (
        (copy, None),
        (tmp_path / "linked", None),
        (warehouse, f"sqlite:///{copy}/.hiveacid/store.db"),
        (copy, f"sqlite:///{copy}/.hiveacid/store.db"),
    ):
        with pytest.raises(MisplacedStoreError) as caught:
            opened(place, store)
        for words in (str(warehouse), str(copy) if store else str(place), "hiveacid relocate -w"):
            assert words in str(caught.value)
    with pytest.raises(MisplacedStoreError):
        hiveacid.open(str(copy))
    opened(warehouse).close()


def test_a_moved_one_is_refused(warehouse: Path) -> None:
    moved = warehouse.rename(warehouse.with_name("moved"))
    with pytest.raises(MisplacedStoreError, match=rf"{warehouse}.*relocate -w {moved}"):
        opened(moved)
    warehouse.symlink_to(moved)  # the usual way to keep the old path
    for place in (warehouse, moved):
        opened(place).close()


def test_one_place_by_several_paths(warehouse: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    link = tmp_path / "link"
    link.symlink_to(tmp_path)
    monkeypatch.chdir(tmp_path)
    for place in (link / "wh", f"{warehouse}/", "wh", "./link/wh", f"{tmp_path}/./wh", f"file://{warehouse}"):
        store = opened(place)
        definition = store.get_table(T)
        assert definition is not None
        assert os.path.realpath(definition.location) == str(warehouse / "t")
        store.close()


def test_locations_move_with_the_warehouse(warehouse: Path, tmp_path: Path) -> None:
    """Those below it are stored relative, whatever path named them."""
    link = tmp_path / "link"
    link.symlink_to(warehouse)
    store = opened(warehouse)
    store.create_table(table(TableName("default", "by_link"), f"{link}/by_link"))
    store.close()
    moved = warehouse.rename(tmp_path / "moved")
    there = SqlStore(f"sqlite:///{moved}/.hiveacid/store.db", relocated=True)
    default = there.get_database("default")
    assert default is not None
    assert default.location == str(moved)
    assert {place.location for place in there.places()} == {
        str(moved), f"{moved}/t", f"{moved}/by_link", f"{moved}/odd/place", str(tmp_path / "ext"),
    }  # fmt: skip
    assert [partition.location for partition in there.list_partitions(T)] == [
        f"{moved}/t/dt=2026-01-01/city=oslo", f"{moved}/odd/place", str(tmp_path / "ext"),
    ]  # fmt: skip
    there.close()


def test_a_store_elsewhere_keeps_absolute_locations_and_knows_its_place(tmp_path: Path) -> None:
    """Its clients may name the warehouse by different paths."""
    url = f"sqlite:///{tmp_path}/meta.db"
    store = opened(tmp_path / "wh", url)
    store.create_table(table(T, f"{tmp_path}/wh/t"))
    store.close()
    again = opened(tmp_path / "other", url)
    assert again.get_table(T) == replace(table(T), location=f"{tmp_path}/wh/t")
    again.close()
    shutil.copy(tmp_path / "meta.db", tmp_path / "copy.db")
    with pytest.raises(MisplacedStoreError, match=rf"relocate --store sqlite:///{tmp_path}/copy\.db"):
        opened(tmp_path / "wh", f"sqlite:///{tmp_path}/copy.db")
