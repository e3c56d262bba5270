"""Databases in the catalog: create, alter, drop."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hiveacid import errors
from hiveacid.catalog.ddl import drop_table, require_removable
from hiveacid.catalog.validate_definition import check_name, check_place, place_database
from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.core.schema.location_overlap import place_of_database
from hiveacid.storage.paths import absolute, is_local
from hiveacid.table.context import Context
from hiveacid.table.definition import lock_of_location
from hiveacid.table.partitions import partitions_of


def create_database(context: Context, database: DatabaseDefinition, *, if_not_exists: bool = False) -> None:
    """Create a database below the warehouse (``name.db``) or at its location.

    Raises AlreadyExistsError, CatalogError (a name or location that cannot be).
    """
    if context.catalog.get_database(database.name) is not None and if_not_exists:
        return
    check_name("database", database.name)
    try:
        location = place_database(context, database.name, database.location)
        context.catalog.create_database(replace(database, location=location))
    except errors.CatalogError:  # also of a location that the other one's database has by now
        if not if_not_exists or context.catalog.get_database(database.name) is None:
            raise


def alter_database(
    context: Context, name: str, edit: Callable[[DatabaseDefinition], DatabaseDefinition]
) -> None:
    """Change a database's properties, comment, owner or location; tables that it has stay where they are.

    Raises NoSuchDatabaseError, CatalogError (a location that cannot be).
    """
    with context.transactions.scope(context.settings) as txn:
        before = _require_database(context, name)
        txn.lock([lock_of_location(before.location)])  # of two changes at once the second sees the first
        before = _require_database(context, name)
        database = edit(before)
        if database.location != before.location:
            database = replace(database, location=absolute(database.location))
            check_place(place_of_database(name, database.location), context)
        txn.require_open_in_store()
        context.catalog.alter_database(database, before)


def _require_database(context: Context, name: str) -> DatabaseDefinition:
    database = context.catalog.get_database(name)
    if database is None:
        raise errors.no_such_database(name, context.catalog.list_databases())
    return database


def drop_database(context: Context, name: str, *, if_exists: bool = False, cascade: bool = False) -> None:
    """Drop an empty database or, with ``cascade``, a database and its tables and views.

    Its default directory goes, too, if it is empty on a local disk; another one is its user's. Nothing is dropped if
    the files of one table cannot be listed.
    """
    database = context.catalog.get_database(name)
    if database is None:
        if if_exists:
            return
        raise errors.no_such_database(name, context.catalog.list_databases())
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
        with suppress(errors.NoSuchTableError):  # another client was first, as with tables
            context.catalog.drop_view(TableName(name, view))
    for table in tables:
        drop_table(context, TableName(name, table), if_exists=True)
    with suppress(*(errors.NoSuchDatabaseError,) if if_exists else ()):
        context.catalog.drop_database(name)
    if is_local(database.location) and database.location.startswith(f"{context.warehouse}/{name}.db"):
        with suppress(OSError):  # it is not there, or not empty
            Path(database.location).rmdir()
