"""ALTER DATABASE: what is changed, what stays, and locations that are not free."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.catalog.databases import alter_database, create_database, drop_database
from hiveacid.catalog.ddl import create_table
from hiveacid.core.model import Column, DatabaseDefinition, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.errors import CatalogError, NoSuchDatabaseError
from support.contexts import open_context


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
