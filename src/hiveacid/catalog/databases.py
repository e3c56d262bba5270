"""Databases: create and drop."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hiveacid import errors
from hiveacid.catalog.definition_rules import check_name, place_database
from hiveacid.catalog.tables import drop_table, require_removable
from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.storage.paths import is_local
from hiveacid.table.context import Context
from hiveacid.table.partitions import (
    partitions_of,
)


def create_database(context: Context, database: DatabaseDefinition, *, if_not_exists: bool = False) -> None:
    """Create a database below the warehouse (``name.db``) or at its location.

    Raises AlreadyExistsError, CatalogError (a name or location that cannot be).
    """
    if context.catalog.get_database(database.name) is not None and if_not_exists:
        return
    check_name("database", database.name)
    location = place_database(context, database.name, database.location)
    context.catalog.create_database(replace(database, location=location))


def drop_database(context: Context, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
    """Drop an empty database or, with ``cascade``, a database and its tables and views.

    Its default directory goes, too, if it is empty on a local disk; another one is its user's. Nothing is dropped if the files of one table cannot be listed.
    """
    database = context.catalog.get_database(name)
    if database is None:
        if if_exists:
            return
        raise errors.NoSuchDatabaseError(f"database {name} does not exist")
    if name == "default":
        raise errors.CatalogError("the database default cannot be dropped")
    tables, views = context.catalog.list_tables(name), context.catalog.list_views(name)
    if (tables or views) and not cascade:
        names = (*tables, *views)
        kinds = "tables and views" if views else "tables"
        raise errors.CatalogError(f"database {name} holds {len(names)} {kinds} ({names[0]} …): use CASCADE")
    for definition in filter(None, (context.catalog.get_table(TableName(name, table)) for table in tables)):
        require_removable(context, definition, partitions_of(context, definition) or ())
    for view in views:
        context.catalog.drop_view(TableName(name, view))
    for table in tables:
        drop_table(context, TableName(name, table))
    context.catalog.drop_database(name)
    if is_local(database.location) and database.location.startswith(f"{context.warehouse}/{name}.db"):
        with suppress(OSError):  # it is not there, or not empty
            Path(database.location).rmdir()
