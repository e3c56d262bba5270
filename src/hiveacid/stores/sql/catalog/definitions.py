"""Catalog values as JSON texts in ASCII, so that every database keeps every character."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from typing import Any

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
from hiveacid.stores.sql.catalog.places import StoredLocations

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
