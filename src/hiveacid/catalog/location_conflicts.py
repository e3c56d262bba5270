"""Conflicts of the location of a new table or database with those of other tables, databases and the store."""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.core.model import TableName
from hiveacid.core.schema.location_overlap import lies_in, overlap
from hiveacid.errors import CatalogError
from hiveacid.storage.paths import real_path
from hiveacid.table.context import STORE_DIRECTORY, Context, all_tables
from hiveacid.table.partitions import locations_outside


def check_location(location: str, context: Context, own: TableName | None = None) -> None:
    """Raise CatalogError for a location that overlaps with that of another table or of the store.

    DROP and INSERT OVERWRITE delete a location. It must therefore not be, or contain, the directory of the warehouse
    or of a database, and must not overlap with the directory of the store or of another table. ``own``: the table
    that the location is for.
    """
    directory = real_path(location)
    for other, kind in _taken(context, own):
        place = real_path(other)
        if lies_in(place, directory) if kind == "database" else overlap(place, directory):
            raise CatalogError(f"the location {location} is not free: {kind} {other} is there")


def check_partition_location(location: str, context: Context, own: TableName) -> None:
    """Raise CatalogError for a partition's location outside its table ``own`` that another table, or its partition, has."""
    check_location(location, context)
    directory = real_path(location)
    for table in all_tables(context):
        if table.name == own:
            continue
        if any(overlap(real_path(place), directory) for place in locations_outside(context, table)):
            raise CatalogError(f"the location {location} is not free: a partition of {table.name} is there")


def check_database_location(location: str, context: Context) -> None:
    """Raise CatalogError for a directory of tables that is, or lies in, a table's or the store's own directory."""
    directory = real_path(location)
    for other, kind in _taken(context, None):
        if kind != "database" and lies_in(directory, real_path(other)):
            raise CatalogError(f"a database cannot be at {location}: {kind} {other} is there")


def _taken(context: Context, own: TableName | None) -> Iterator[tuple[str, str]]:
    yield context.warehouse, "database"
    yield f"{context.warehouse}/{STORE_DIRECTORY}", "the store"
    for name in context.catalog.list_databases():
        database = context.catalog.get_database(name)
        if database is not None:
            yield database.location, "database"
    for table in all_tables(context):
        if table.name != own:
            yield table.location, f"table {table.name}"
