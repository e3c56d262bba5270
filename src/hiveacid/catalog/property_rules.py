"""Rules for the table properties that users' statements set."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping

from hiveacid.config import Settings
from hiveacid.config.property_definitions import (
    BUCKETING_VERSION,
    PREFIXES,
    RESERVED_PROPERTIES,
    TABLE_PROPERTIES,
    TRANSACTIONAL,
    TRANSACTIONAL_PROPERTIES,
    compactor_settings,
)
from hiveacid.core.display import did_you_mean
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.errors import CatalogError, ConfigError

logger = logging.getLogger(__name__)

_MISSPELT = 0.85  # similarity of a key to one of config/property_definitions.py
# `convert.target_kind` checks them together, with the table's kind
_KIND_PROPERTIES = frozenset({TRANSACTIONAL.name, TRANSACTIONAL_PROPERTIES.name})


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
            logger.warning(
                "%s: hiveacid does not know the property %s; it keeps the value and does not use it%s",
                name,
                key,
                near,
            )
