"""Migrations that are disturbed: by tables that somebody else makes in the target, and by an end half-way."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.config.property_definitions import MIGRATION
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName
from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey
from hiveacid.errors import AlreadyExistsError, CatalogError
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.store import SqlStore
from support.crash.faults import Faults, FaultyStore, Moment, SimulatedCrash, crash
from support.samples import CLIENT, ORC

NAME = TableName("default", "t")


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqlStore, SqlStore]]:
    made = tuple(SqlStore(f"sqlite:///{tmp_path / name}") for name in ("old.db", "new.db"))
    for store in made:
        if store.get_database("default") is None:
            store.create_database(DatabaseDefinition("default", f"{tmp_path}/wh"))
    (tmp_path / "wh" / "t").mkdir(parents=True)
    old, new = made
    old.create_table(table(f"{tmp_path}/wh/t"))
    yield old, new
    for store in made:
        store.close()


def table(location: str, **properties: str) -> TableDefinition:
    return TableDefinition(NAME, (Column("a", "int"),), ORC, location, properties=tuple(properties.items()))


def migration(old: SqlStore, new: object) -> Migration:
    return Migration(
        MigrationStore(old, "old"), MigrationStore(cast("Any", new), "new"), LocalFileSystem(), SystemClock()
    )


def test_a_table_made_at_the_same_moment_is_not_dropped(
    stores: tuple[SqlStore, SqlStore], tmp_path: Path
) -> None:
    old, new = stores
    before = old.get_table(NAME)
    faults = Faults()
    stranger = table(f"{tmp_path}/stranger")
    faults.at("store.create_table", 1, Moment.BEFORE, lambda _: new.create_table(stranger))
    with pytest.raises(AlreadyExistsError):
        migration(old, FaultyStore(new, faults)).move(NAME)
    found = new.get_table(NAME)
    assert found is not None
    assert found.location == stranger.location
    assert old.get_table(NAME) == before, "nothing has changed"


def test_a_table_that_comes_from_elsewhere_is_left_to_who_moves_it(
    stores: tuple[SqlStore, SqlStore], tmp_path: Path
) -> None:
    old, new = stores
    new.create_table(table(f"{tmp_path}/other", **{MIGRATION.name: "from a third store"}))
    with pytest.raises(AlreadyExistsError, match="part of a migration from a third store"):
        migration(old, new).move(NAME)
    found = new.get_table(NAME)
    assert found is not None
    assert found.location == f"{tmp_path}/other"


def test_what_was_begun_is_made_anew(stores: tuple[SqlStore, SqlStore], tmp_path: Path) -> None:
    old, new = stores
    new.create_table(table(f"{tmp_path}/half", **{MIGRATION.name: "from old"}))
    before = old.get_table(NAME)
    assert before is not None
    with pytest.raises(AlreadyExistsError, match="another table of that name"):
        migration(old, new).move(NAME)  # as if the table had been moved, and a new one created
    old.alter_table(NAME, before.with_properties({MIGRATION.name: "to new"}))
    assert migration(old, new).move(NAME) is not None
    found = new.get_table(NAME)
    assert found is not None
    assert (found.location, MIGRATION.of(found)) == (f"{tmp_path}/wh/t", None)
    assert old.get_table(NAME) is None


def test_the_progress_of_streams_moves_even_if_the_first_call_dies(stores: tuple[SqlStore, SqlStore]) -> None:
    """A query that is restarted on the target writes no batch a second time."""
    old, new = stores
    stream = StreamKey(NAME, "clicks")
    known = old.register_stream(stream, "run 1", "check 1")
    (txn_id,) = old.open_txns(CLIENT)
    old.commit_txn(txn_id, batch=StreamBatch(stream, known.checkpoint, known.epoch, 7))
    faults = Faults()
    faults.at("store.drop_table", 1, Moment.BEFORE, crash)
    with pytest.raises(SimulatedCrash):
        migration(cast("Any", FaultyStore(old, faults)), FaultyStore(new, faults)).move(NAME)
    for store in stores:
        store.abort_txns(store.valid_txns().open, "dead")
    assert migration(old, new).move(NAME) is not None
    assert new.stream_progress(stream) == replace(known, last_batch_id=7)


@pytest.mark.parametrize("mark", ["to a third store", "from new", "new"])
def test_a_table_has_one_migration_at_a_time(
    stores: tuple[SqlStore, SqlStore], tmp_path: Path, mark: str
) -> None:
    """Moved elsewhere, or back, two stores would own it, or the complete definition would give way to half of one."""
    old, new = stores
    before = old.get_table(NAME)
    assert before is not None
    old.alter_table(NAME, before.with_properties({MIGRATION.name: mark}))
    new.create_table(table(f"{tmp_path}/wh/t", **{MIGRATION.name: "to old"}))
    with pytest.raises(CatalogError, match=f"interrupted migration {mark}: complete"):
        migration(old, new).move(NAME)
    assert MIGRATION.of(cast("Any", new.get_table(NAME))) == "to old"
