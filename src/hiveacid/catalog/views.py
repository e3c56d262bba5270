"""Views in the catalog: create, replace, alter, drop. The package ``sql`` interprets their texts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hiveacid.catalog.definition_rules import check_name
from hiveacid.core.model import TableName, ViewDefinition
from hiveacid.errors import AlreadyExistsError, CatalogError, NoSuchDatabaseError, NoSuchTableError
from hiveacid.table.context import Context
from hiveacid.table.definition import exclusive_name


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
