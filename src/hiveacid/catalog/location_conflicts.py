"""Conflicts of the location of a new table, partition or database with those of others and with the store."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from hiveacid.core.model import TableName
from hiveacid.core.schema.location_overlap import (
    STORE_DIRECTORY,
    Place,
    first_conflict,
    place_of_database,
    place_of_table,
)
from hiveacid.storage.paths import absolute, real_paths
from hiveacid.stores.refusals import location_taken
from hiveacid.table.context import Context


def check_place(new: Place, context: Context) -> None:
    """Raise CatalogError for a location that conflicts with another one (`first_conflict`), with the warehouse or the store.

    The store compares again when it records the location, so that of two clients at once one is refused.
    """
    _require_free(new, _places(context))


def place_table(context: Context, name: TableName, directory: str, given: str) -> str:
    """Return the location of a new table: the given one, or Hive's default in a database's directory.

    While a renamed table still uses the default one, it is one beside it. Raises CatalogError for a location that is
    not free.
    """
    places = _places(context)
    location = absolute(given or _unused(f"{directory}/{name.name}", places))
    _require_free(place_of_table(name, location), places)
    return location


def place_database(context: Context, name: str, given: str) -> str:
    """Return the location of a new database: the given one, or ``name.db`` in the warehouse, as for `place_table`."""
    places = _places(context)
    default = place_of_database(name, f"{context.warehouse}/{name}.db")
    is_used = not given and first_conflict(default, places, real_paths()) is not None
    location = absolute(given or (_beside(default.location) if is_used else default.location))
    _require_free(place_of_database(name, location), places)
    return location


def _places(context: Context) -> Sequence[Place]:
    return (
        Place(context.warehouse, "the warehouse", holds_others=True),
        Place(f"{context.warehouse}/{STORE_DIRECTORY}", "the store"),
        *context.catalog.places(),
    )


def _require_free(new: Place, places: Sequence[Place]) -> None:
    other = first_conflict(new, places, real_paths())
    if other is not None:
        raise location_taken(new.location, other)


def _unused(location: str, places: Sequence[Place]) -> str:
    return location if location not in {place.location for place in places} else _beside(location)


def _beside(location: str) -> str:
    return f"{location}-{uuid.uuid4().hex[:8]}"
