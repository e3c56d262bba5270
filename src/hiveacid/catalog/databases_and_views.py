"""Databases and views in the catalog: create, replace, alter, drop. The package ``sql`` interprets the texts of views."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from hiveacid import errors
from hiveacid.catalog.definition_rules import check_name, place_database
from hiveacid.catalog.tables import drop_table, require_removable
from hiveacid.core.model import DatabaseDefinition, TableName, ViewDefinition
from hiveacid.errors import AlreadyExistsError, CatalogError, NoSuchDatabaseError, NoSuchTableError
from hiveacid.storage.paths import is_local
from hiveacid.table.context import Context
from hiveacid.table.definition import exclusive_name
from hiveacid.table.partitions import partitions_of


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


def require_view(context: Context, name: TableName) -> ViewDefinition:
    """Return a view; CatalogError for a table, NoSuchTableError for nothing of that name."""
    view = context.catalog.get_view(name)
    if view is not None:
        return view
    if context.catalog.get_table(name) is not None:
        raise CatalogError(f"{name} is a table, not a view")
    raise NoSuchTableError(f"view {name} does not exist: see SHOW VIEWS IN {name.database}")


def require_free_view_name(context: Context, name: TableName, *, replaces: bool = False) -> None:
    """Raise AlreadyExistsError, NoSuchDatabaseError or CatalogError unless a view may have this name."""
    if context.catalog.get_database(name.database) is None:
        raise NoSuchDatabaseError(f"database {name.database} does not exist: CREATE DATABASE first")
    if context.catalog.get_table(name) is not None:
        raise AlreadyExistsError(f"table {name} exists already")
    if not replaces and context.catalog.get_view(name) is not None:
        raise AlreadyExistsError(f"view {name} exists already: use CREATE OR REPLACE VIEW")
    check_name("view", name.name)


def create_view(context: Context, view: ViewDefinition, *, replaces: bool = False) -> None:
    """Create a view, or replace the existing one (``replaces``)."""
    definition = replace(
        view,
        created_at=context.clock.now() // 1000,
        owner=view.owner or context.transactions.client.user,
        properties=tuple(sorted(view.properties)),
    )
    with exclusive_name(context, view.name):
        require_free_view_name(context, view.name, replaces=replaces)
        if context.catalog.get_view(view.name) is None:
            context.catalog.create_view(definition)
        else:
            context.catalog.alter_view(view.name, definition)


def alter_view(context: Context, name: TableName, edit: Callable[[ViewDefinition], ViewDefinition]) -> None:
    """Replace a view by an edited one; a new name renames it."""
    with exclusive_name(context, name):
        edited = edit(require_view(context, name))
        if edited.name != name:
            require_free_view_name(context, edited.name)
        context.catalog.alter_view(name, edited)


def set_properties(context: Context, name: TableName, changes: Mapping[str, str]) -> None:
    """Set properties of a view."""
    alter_view(
        context,
        name,
        lambda view: replace(view, properties=tuple(sorted({**dict(view.properties), **changes}.items()))),
    )


def unset_properties(context: Context, name: TableName, keys: Sequence[str], *, if_exists: bool) -> None:
    """Remove properties of a view. Raises CatalogError for one that it does not have, unless ``if_exists``."""

    def edit(view: ViewDefinition) -> ViewDefinition:
        properties = dict(view.properties)
        missing = [key for key in keys if key not in properties]
        if missing and not if_exists:
            raise CatalogError(f"view {name} has no property {missing[0]}")
        return replace(view, properties=tuple((k, v) for k, v in view.properties if k not in keys))

    alter_view(context, name, edit)


def drop_view(context: Context, name: TableName) -> None:
    """Drop a view; the tables that it reads stay."""
    with exclusive_name(context, name):
        require_view(context, name)
        context.catalog.drop_view(name)
