"""Tables that somebody else makes in the target while one moves there: nobody drops them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.config.property_definitions import MIGRATION
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName
from hiveacid.errors import AlreadyExistsError, CatalogError
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.clock import SystemClock
from hiveacid.stores.sql.store import SqlStore
from support.crash.faults import Faults, FaultyStore, Moment
from support.samples import ORC

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
