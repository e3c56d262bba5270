"""Rules for the names and locations of new databases and tables, and for changes of properties."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping

from hiveacid.config import Settings
from hiveacid.config.overrides import PREFIXES, compactor_settings
from hiveacid.config.property_keys import (
    BUCKETING_VERSION,
    RESERVED_PROPERTIES,
    TABLE_PROPERTIES,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
)
from hiveacid.core.display import did_you_mean
from hiveacid.core.format.bucket_property import MAX_BUCKET
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.locations import lies_in, overlap
from hiveacid.errors import CatalogError, ConfigError
from hiveacid.storage.paths import real_path
from hiveacid.table.context import STORE_DIRECTORY, Context, all_tables

logger = logging.getLogger(__name__)

_NOT_IN_NAMES = frozenset("/\\.:`\x7f")
_FIRST_PRINTABLE = 0x20
_MISSPELT = 0.85  # similarity of a key to one of table_properties.py
# `convert.target_kind` checks them together, with the table's kind
_KIND_PROPERTIES = frozenset({TRANSACTIONAL.name, TRANSACTIONAL_PROPERTIES.name})
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


def check_properties(table: TableDefinition, changes: Mapping[str, str]) -> None:
    """Refuse changes of properties that decide how files are read."""
    refuse_reserved(table.name, changes)
    lower = {key.lower(): value for key, value in changes.items()}
    if lower.get(BUCKETING_VERSION.name, str(table.bucketing_version)) != str(table.bucketing_version):
        raise CatalogError(
            f"{table.name}: '{BUCKETING_VERSION.name}' cannot be changed: rows lie in its buckets"
        )


def refuse_reserved(name: TableName, properties: Iterable[str]) -> None:
    """Raise CatalogError for properties that only hiveacid itself may set."""
    for key in properties:
        if key.lower() in RESERVED_PROPERTIES:
            raise CatalogError(f"{name}: the property {key} is kept by hiveacid itself; leave it out")


def check_entries(name: TableName, properties: Mapping[str, str]) -> None:
    """Raise ConfigError for a bad value, or an unknown key that begins with ``hiveacid.``; warn of a misspelt key.

    All other unknown keys are kept with any value, as in Hive. Only users' statements are checked: tables that
    another engine made with a bad value can be read.
    """
    known_properties = {entry.name.lower(): entry for entry in TABLE_PROPERTIES.values()}
    for key, text in properties.items():
        lower = key.lower()
        try:
            compactor_settings(Settings(), [(key, text)])
            if lower in known_properties and lower not in _KIND_PROPERTIES:
                known_properties[lower].check(text)
        except ConfigError as error:
            raise ConfigError(f"{name}: property {key}: {error}") from error
        if lower in known_properties or lower.startswith(PREFIXES):
            continue
        if lower.startswith("hiveacid."):
            near = did_you_mean(key, known_properties)
            raise ConfigError(
                f"{name}: {key} is not a table property; they are listed in docs/table-properties.md{near}"
            )
        near = did_you_mean(key, known_properties, similarity=_MISSPELT)
        if near:
            logger.warning("%s: the property %s means nothing to hiveacid; it is kept%s", name, key, near)
