"""Definitions of the catalog as the store keeps them: JSON texts in ASCII, so that every database keeps every character.

Locations are relative inside the warehouse, and compared with all others in the transaction that records them.
"""

from __future__ import annotations

import hashlib
import json
import posixpath
import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any

from sqlalchemy import Connection, select

from hiveacid.core.model import (
    Bucketing,
    Column,
    DatabaseDefinition,
    Partition,
    StorageFormat,
    TableDefinition,
    TableName,
    ViewDefinition,
)
from hiveacid.core.schema.location_overlap import (
    Place,
    first_conflict,
    lies_in,
    place_of_database,
    place_of_partition,
    place_of_table,
)
from hiveacid.ports.clock import Clock
from hiveacid.stores import refusals
from hiveacid.stores.sql.schema import databases, placed_partitions, tables

_REMEMBERED = 60_000  # ms
_ABSOLUTE = re.compile(r"/|[a-z][a-z0-9+.-]*:/", re.IGNORECASE)


@dataclass(frozen=True)
class StoredLocations:
    """The way locations are stored: relative to ``root``, the warehouse that holds the store, as far as they lie in it.

    The directory can then be moved or copied as a whole. ``root`` is None for a store elsewhere, whose clients may name
    the warehouse by different paths. ``real_paths`` returns a function that resolves symbolic links at one moment.
    """

    root: str | None
    real_paths: Callable[[], Callable[[str], str]]

    def to_stored(self, location: str) -> str:
        """Return the text to store for a location."""
        if self.root is None or not location:
            return location
        outer, inner = self.root, location
        if not lies_in(inner, outer) and inner.startswith("/"):
            resolve = self.real_paths()
            outer, inner = resolve(outer), resolve(inner)
        return posixpath.relpath(inner, outer) if lies_in(inner, outer) else location

    def to_absolute(self, stored: str) -> str:
        """Return the location of a stored text."""
        if self.root is None or not stored or _ABSOLUTE.match(stored):
            return stored
        return posixpath.normpath(f"{self.root}/{stored}")


def remember_paths(
    real_paths: Callable[[], Callable[[str], str]], clock: Clock
) -> Callable[[], Callable[[str], str]]:
    """Return a function like ``real_paths`` that hands out one resolver, with a memory, for a minute.

    Locations are compared inside a transaction of the database, and on a slow file system a server ends it before all are
    resolved. The repeated call then has their paths already.
    """
    resolver, made_at = cache(real_paths()), clock.now()

    def current() -> Callable[[str], str]:
        nonlocal resolver, made_at
        if not 0 <= clock.now() - made_at < _REMEMBERED:
            resolver, made_at = cache(real_paths()), clock.now()
        return resolver

    return current


_DATABASES = select(databases.c.name, databases.c.location).where(databases.c.location.is_not(None))
_TABLES, _PARTITIONS = (
    select(kind.c.database_name, kind.c[name], kind.c.location).where(kind.c.location.is_not(None))
    for kind, name in ((tables, "name"), (placed_partitions, "table_name"))
)


def all_places(connection: Connection, locations: StoredLocations) -> list[Place]:
    """Return the directories of all databases and tables, and of the partitions outside their tables'."""
    absolute = locations.to_absolute
    found = [place_of_database(name, absolute(stored)) for name, stored in connection.execute(_DATABASES)]
    for rows, place_of in ((_TABLES, place_of_table), (_PARTITIONS, place_of_partition)):
        found += [
            place_of(TableName(database, name), absolute(stored))
            for database, name, stored in connection.execute(rows)
        ]
    return found


def require_free(connection: Connection, locations: StoredLocations, new: Iterable[Place]) -> None:
    """Raise CatalogError for a new place that conflicts with one in the store, or with another new one.

    The caller has serialised the transactions that record locations, so that of two at once the second one is refused.
    """
    others: list[Place] | None = None
    resolve = locations.real_paths()
    for place in new:
        others = all_places(connection, locations) if others is None else others
        other = first_conflict(place, others, resolve)
        if other is not None:
            raise refusals.location_taken(place.location, other)
        others.append(place)


_LOCATION = "location"


def to_text(
    value: DatabaseDefinition | TableDefinition | Partition | ViewDefinition, locations: StoredLocations
) -> str:
    """Format a definition as JSON."""
    fields = asdict(value)
    if _LOCATION in fields:
        fields[_LOCATION] = locations.to_stored(fields[_LOCATION])
    return json.dumps(fields, separators=(",", ":"))


def database_of(text: str, locations: StoredLocations) -> DatabaseDefinition:
    """Parse a database definition."""
    return DatabaseDefinition(**_located(text, locations))


def table_of(text: str, locations: StoredLocations) -> TableDefinition:
    """Parse a table definition."""
    fields = _located(text, locations)
    values = {
        "name": TableName(**fields["name"]),
        "columns": _columns(fields["columns"]),
        "partition_columns": _columns(fields["partition_columns"]),
        "storage": StorageFormat(**fields["storage"]),
        "bucketing": fields["bucketing"] and Bucketing(**fields["bucketing"]),
    }
    return TableDefinition(**fields | values)


def view_of(text: str) -> ViewDefinition:
    """Parse a view definition."""
    fields = _fields(text)
    return ViewDefinition(
        **fields | {"name": TableName(**fields["name"]), "columns": _columns(fields["columns"])}
    )


def partition_of(text: str, locations: StoredLocations) -> Partition:
    """Parse a partition."""
    return Partition(**_located(text, locations))


def partition_digest(partition: Partition) -> str:
    """Return a key of bounded length for a partition."""
    return hashlib.sha256(json.dumps(partition.key).encode()).hexdigest()


def _located(text: str, locations: StoredLocations) -> dict[str, Any]:
    fields = _fields(text)
    return fields | {_LOCATION: locations.to_absolute(fields[_LOCATION])}


def _fields(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = _frozen(json.loads(text))
    return fields


def _frozen(value: Any) -> Any:
    """Return a JSON value with tuples in place of its lists."""
    if isinstance(value, dict):
        return {name: _frozen(element) for name, element in value.items()}
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _columns(columns: tuple[dict[str, Any], ...]) -> tuple[Column, ...]:
    return tuple(Column(**column) for column in columns)
