"""Rules for new definitions: names, locations that conflict with others or with the store, and the properties that users set."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterable, Mapping, Sequence

from hiveacid.config import Settings
from hiveacid.config.property_definitions import (
    BUCKETING_VERSION,
    KIND_PROPERTIES,
    PREFIXES,
    RESERVED_PROPERTIES,
    TABLE_PROPERTIES,
    compactor_settings,
)
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.location_overlap import (
    STORE_DIRECTORY,
    Place,
    first_overlapping_place,
    place_of_database,
    place_of_table,
)
from hiveacid.errors import CatalogError, ConfigError, did_you_mean
from hiveacid.storage.paths import absolute, real_paths
from hiveacid.stores.refusals import location_taken
from hiveacid.table.context import StoreContext

logger = logging.getLogger(__name__)

_NOT_IN_NAMES = frozenset("/\\.:`\x7f")
_FIRST_PRINTABLE = 0x20
_LONGEST_DIRECTORY = 240  # bytes; file systems allow 255, and a renamed table's directory gets a suffix
_MISSPELT = 0.85  # similarity of a key to one of config/property_definitions.py


def check_name(what: str, name: str) -> None:
    """Raise CatalogError for a name that cannot be a directory name or cannot be written in SQL.

    Hive allows letters, digits and underscores (``MetaStoreUtils.validateName``). Blanks and most other characters
    are allowed here. A dot is not, because it separates database and table, nor is a slash, because the directory of a
    table must be below that of its database.
    """
    broken = sorted({sign for sign in name if sign in _NOT_IN_NAMES or ord(sign) < _FIRST_PRINTABLE})
    if broken:
        raise CatalogError(f"invalid {what} name {name!r}: it must not contain {' '.join(map(repr, broken))}")
    if name != name.strip() or not name:
        raise CatalogError(
            f"invalid {what} name {name!r}: it must not be empty, or begin or end with a blank"
        )
    if len(name.encode()) > _LONGEST_DIRECTORY:
        raise CatalogError(
            f"invalid {what} name {name[:40]!r}…: it is longer than {_LONGEST_DIRECTORY} bytes"
        )


def check_place(new: Place, context: StoreContext) -> None:
    """Raise CatalogError for a location that conflicts with another one, with the warehouse or the store.

    `first_overlapping_place` has the rule. The store compares again when it records the location, so that of two clients
    at once one is refused.
    """
    _require_free(new, _places(context))


def place_table(context: StoreContext, name: TableName, directory: str, given: str) -> str:
    """Return the location of a new table: the given one, or Hive's default in a database's directory.

    If a renamed table still uses the default location, the new table gets one beside it. Raises CatalogError for a
    location that is not free.
    """
    places = _places(context)
    usual = f"{directory}/{name.name}"
    is_taken = usual in {place.location for place in places}
    location = absolute(given or (_beside(usual) if is_taken else usual))
    _require_free(place_of_table(name, location), places)
    return location


def place_database(context: StoreContext, name: str, given: str) -> str:
    """Return the location of a new database: the given one, or ``name.db`` in the warehouse, as for `place_table`."""
    places = _places(context)
    default = place_of_database(name, f"{context.warehouse}/{name}.db")
    is_used = not given and first_overlapping_place(default, places, real_paths()) is not None
    location = absolute(given or (_beside(default.location) if is_used else default.location))
    _require_free(place_of_database(name, location), places)
    return location


def _places(context: StoreContext) -> Sequence[Place]:
    return (
        Place(context.warehouse, "the warehouse", holds_others=True),
        Place(f"{context.warehouse}/{STORE_DIRECTORY}", "the store"),
        *context.catalog.places(),
    )


def _require_free(new: Place, places: Sequence[Place]) -> None:
    other = first_overlapping_place(new, places, real_paths())
    if other is not None:
        raise location_taken(new.location, other)


def _beside(location: str) -> str:
    return f"{location}-{uuid.uuid4().hex[:8]}"


def check_properties(table: TableDefinition, changes: Mapping[str, str]) -> None:
    """Refuse changes of properties that decide how files are read."""
    refuse_reserved(table.name, changes)
    lower = {key.lower(): value for key, value in changes.items()}
    if lower.get(BUCKETING_VERSION.name, str(table.bucketing_version)) != str(table.bucketing_version):
        raise CatalogError(
            f"{table.name}: '{BUCKETING_VERSION.name}' cannot be changed: rows lie in its buckets"
        )


def split_external(properties: Mapping[str, str]) -> tuple[dict[str, str], bool | None]:
    """Return the properties without ``EXTERNAL``, and its value: Hive's way to say whether DROP keeps the files.

    Raises ConfigError for a value that is neither true nor false. Hive takes it for false.
    """
    values = [text.strip().lower() for key, text in properties.items() if key.lower() == "external"]
    for value in values:
        if value not in ("true", "false"):
            raise ConfigError(f"EXTERNAL is {value!r}: write 'TRUE' (DROP TABLE keeps the files) or 'FALSE'")
    others = {key: text for key, text in properties.items() if key.lower() != "external"}
    return others, values[-1] == "true" if values else None


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
            # `convert.target_kind` checks the kind's properties together
            if lower in known_properties and lower not in KIND_PROPERTIES:
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
            logger.warning(
                "%s: hiveacid does not know the property %s; it keeps the value and does not use it%s",
                name,
                key,
                near,
            )
