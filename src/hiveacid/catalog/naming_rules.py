"""Rules for the names, locations and bucket counts of new databases and tables."""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.core.format.bucket_property import MAX_BUCKET
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.locations import lies_in, overlap
from hiveacid.errors import CatalogError
from hiveacid.storage.paths import real_path
from hiveacid.table.context import STORE_DIRECTORY, Context, all_tables

_NOT_IN_NAMES = frozenset("/\\.:`\x7f")
_FIRST_PRINTABLE = 0x20
_LONGEST_DIRECTORY = 240  # bytes; file systems allow 255, and a renamed table's directory gets a suffix


def check_name(what: str, name: str) -> None:
    """Raise CatalogError for a name that cannot be a directory name or cannot be written in SQL.

    Hive allows letters, digits and underscores (``MetaStoreUtils.validateName``). Blanks and most other characters
    are allowed here. A dot is not, because it separates database and table, nor is a slash, because the directory of a
    table must be below that of its database.
    """
    broken = sorted({sign for sign in name if sign in _NOT_IN_NAMES or ord(sign) < _FIRST_PRINTABLE})
    if broken:
        raise CatalogError(
            f"{what} {name!r} cannot be: {' '.join(map(repr, broken))} may not be part of a name"
        )
    if name != name.strip() or not name:
        raise CatalogError(f"{what} {name!r} cannot be: it is empty, or begins or ends with a blank")
    if len(name.encode()) > _LONGEST_DIRECTORY:
        raise CatalogError(f"{what} {name[:40]!r}… cannot be: it has more than {_LONGEST_DIRECTORY} bytes")


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


def check_bucket_count(table: TableDefinition) -> None:
    """Raise CatalogError for more buckets than a row id can hold (``BucketCodec``: Hive fails at the first INSERT)."""
    count = table.bucketing.count if table.bucketing else 0
    if table.kind is TableKind.FULL_ACID and count > MAX_BUCKET + 1:
        raise CatalogError(
            f"{table.name}: INTO {count} BUCKETS: a row id has room for {MAX_BUCKET + 1} buckets at most"
        )
