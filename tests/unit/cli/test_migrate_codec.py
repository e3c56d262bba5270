"""Files with ZSTD, which Hive 3 cannot read, do not move to its metastore; a table from there makes none.

The metastore of Hive 3 is a SQLite store that says so: tests/interop/test_hive_migrate.py has a real one.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from hiveacid.catalog.migrate import Migration, MigrationStore
from hiveacid.config.property_definitions import LAYOUT_LEVEL
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.store import SqlStore
from hiveacid.streaming import Connection
from support.samples import ORC

NAME = TableName("default", "t")
ACID = (("transactional", "true"), ("transactional_properties", "default"))


class Hive3Store(SqlStore):
    """A store that says of itself what a metastore of Hive 3 says."""

    def layout_level(self) -> str:
        return "hive3"

    def maintained_by_hiveacid(self) -> bool:
        return False


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[SqlStore, Hive3Store]]:
    own, hive = SqlStore(f"sqlite:///{tmp_path}/own.db"), Hive3Store(f"sqlite:///{tmp_path}/hive.db")
    for store in (own, hive):
        if store.get_database("default") is None:
            store.create_database(DatabaseDefinition("default", f"{tmp_path}/wh"))
    yield own, hive
    own.close()
    hive.close()


def migration(source: SqlStore, target: SqlStore) -> Migration:
    return Migration(
        MigrationStore(source, "source"), MigrationStore(target, "target"), LocalFileSystem(), SystemClock()
    )


def create(store: SqlStore, tmp_path: Path, *properties: tuple[str, str]) -> None:
    location = tmp_path / "wh" / "t"
    location.mkdir(parents=True)
    made = TableDefinition(NAME, (Column("a", "int"),), ORC, str(location), properties=(*ACID, *properties))
    store.create_table(made)


def write(tmp_path: Path) -> None:
    with Connection("t", warehouse=f"{tmp_path}/wh", store=f"sqlite:///{tmp_path}/own.db") as stream:
        stream.begin_transaction()
        stream.write([{"a": 1}])
        stream.commit()


@pytest.mark.parametrize("dry_run", [True, False])
def test_files_with_zstd_are_refused(
    stores: tuple[SqlStore, Hive3Store], tmp_path: Path, *, dry_run: bool
) -> None:
    own, hive = stores
    create(own, tmp_path)
    write(tmp_path)
    before = own.get_table(NAME)
    with pytest.raises(UnsupportedFeatureError, match=r"ZSTD, which Hive 3 cannot read .*bucket_00000"):
        migration(own, hive).move(NAME, dry_run=dry_run)
    assert (own.get_table(NAME), hive.get_table(NAME)) == (before, None)


def test_files_of_layout_level_hive3_move(stores: tuple[SqlStore, Hive3Store], tmp_path: Path) -> None:
    own, hive = stores
    create(own, tmp_path, (LAYOUT_LEVEL.name, "hive3"))
    write(tmp_path)
    assert migration(own, hive).move(NAME) is not None
    assert hive.get_table(NAME) is not None


def test_a_table_of_hive_3_keeps_its_layout_level(
    stores: tuple[SqlStore, Hive3Store], tmp_path: Path
) -> None:
    own, hive = stores
    create(hive, tmp_path)
    assert migration(hive, own).move(NAME) is not None
    moved = own.get_table(NAME)
    assert moved is not None
    assert LAYOUT_LEVEL.of(moved) == "hive3"
    write(tmp_path)
    assert migration(own, hive).move(NAME) is not None
