"""ALTER DATABASE: what is changed, what stays, and locations that are not free."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from hiveacid.catalog.databases import alter_database, create_database, drop_database
from hiveacid.catalog.ddl import create_table, create_view
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName, ViewDefinition
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import CatalogError, NoSuchDatabaseError
from support.contexts import PausedStore, open_context


def test_new_tables_go_to_the_new_location_and_old_ones_stay(tmp_path: Path) -> None:
    context = open_context(tmp_path / "wh")
    create_database(context, DatabaseDefinition("d", "", "words", (("a", "1"),)))

    def made(name: str) -> str:
        create_table(context, TableDefinition(TableName("d", name), (Column("id", "int"),), ORC, ""))
        table = context.catalog.get_table(TableName("d", name))
        assert table is not None
        return table.location

    first, place = made("first"), f"{tmp_path}/moved"
    alter_database(context, "d", lambda database: replace(database, location=place))
    assert made("second") == f"{place}/second"
    found = context.catalog.get_table(TableName("d", "first"))
    assert found is not None
    assert found.location == first
    assert context.catalog.get_database("d") == DatabaseDefinition("d", place, "words", (("a", "1"),))
    for taken in (
        context.warehouse,
        str(tmp_path),
        first,
        f"{place}/second",
        f"{context.warehouse}/.hiveacid",
    ):
        with pytest.raises(CatalogError, match=r"not free|cannot be at"):
            alter_database(context, "d", lambda database, to=taken: replace(database, location=to))
    alter_database(context, "d", lambda database: replace(database, location=f"{place}/below"))
    with pytest.raises(NoSuchDatabaseError):
        alter_database(context, "nosuch", lambda database: database)
    context.close()


def test_a_dropped_database_leaves_no_directory_on_a_local_disk(tmp_path: Path) -> None:
    """HIVE-29587: neither its own nor those of its tables."""
    context = open_context(tmp_path / "wh")
    create_database(context, DatabaseDefinition("d", ""))
    for name, transactional in (("acid", "true"), ("plain", "false")):
        properties = (("transactional", transactional),)
        table = TableDefinition(TableName("d", name), (Column("id", "int"),), ORC, "", properties=properties)
        create_table(context, table)
    assert sorted(path.name for path in (tmp_path / "wh" / "d.db").iterdir()) == ["acid", "plain"]
    drop_database(context, "d", cascade=True)
    assert not (tmp_path / "wh" / "d.db").exists()
    context.close()


@pytest.mark.parametrize("call", ["create_database", "places"])
def test_of_two_creations_at_once_the_second_finds_the_database(tmp_path: Path, call: str) -> None:
    """CREATE DATABASE IF NOT EXISTS of two jobs that begin together."""
    other, made = open_context(tmp_path / "wh"), DatabaseDefinition("d", "")
    first = partial(create_database, other, made, if_not_exists=True)
    context = open_context(tmp_path / "wh", lambda store: PausedStore(store, call, first, timed_out=False))
    create_database(context, made, if_not_exists=True)
    assert other.catalog.get_database("d") is not None
    other.catalog.drop_database("d")
    with pytest.raises(CatalogError, match=r"exists|not free"):
        create_database(context, made)
    for one in (context, other):
        one.close()


@pytest.mark.parametrize("call", ["drop_view", "lock", "drop_database"])
def test_of_two_that_drop_a_database_at_once_the_second_finds_it_gone(tmp_path: Path, call: str) -> None:
    """With its table and view, of which the first one drops some before the second comes to them."""
    other = open_context(tmp_path / "wh")
    create_database(other, DatabaseDefinition("d", ""))
    create_table(other, TableDefinition(TableName("d", "t"), (Column("id", "int"),), ORC, ""))
    create_view(other, ViewDefinition(TableName("d", "v"), (Column("a", "int"),), "SELECT 1 AS a", ""))
    first = partial(drop_database, other, "d", if_exists=True, cascade=True)
    context = open_context(tmp_path / "wh", lambda store: PausedStore(store, call, first, timed_out=False))
    drop_database(context, "d", if_exists=True, cascade=True)
    assert other.catalog.get_database("d") is None
    for one in (context, other):
        one.close()
