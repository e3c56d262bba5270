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


def to_text(value: DatabaseDefinition | TableDefinition | Partition | ViewDefinition) -> str:
    """Format a definition as JSON."""
    return json.dumps(asdict(value), separators=(",", ":"))


def database_of(text: str) -> DatabaseDefinition:
    """Parse a database definition."""
    fields: dict[str, Any] = json.loads(text)
    return DatabaseDefinition(**{**fields, "properties": _pairs(fields["properties"])})


def table_of(text: str) -> TableDefinition:
    """Parse a table definition."""
    fields: dict[str, Any] = json.loads(text)
    storage = fields["storage"]
    bucketing = fields["bucketing"]
    made = {
        "name": TableName(**fields["name"]),
        "columns": _columns(fields["columns"]),
        "partition_columns": _columns(fields["partition_columns"]),
        "storage": StorageFormat(**{**storage, "serde_properties": _pairs(storage["serde_properties"])}),
        "properties": _pairs(fields["properties"]),
        "bucketing": bucketing
        and Bucketing(tuple(bucketing["columns"]), bucketing["count"], tuple(bucketing["sort_columns"])),
    }
    return TableDefinition(**{**fields, **made})


def view_of(text: str) -> ViewDefinition:
    """Parse a view definition."""
    fields: dict[str, Any] = json.loads(text)
    made = {
        "name": TableName(**fields["name"]),
        "columns": _columns(fields["columns"]),
        "outputs": tuple(fields["outputs"]),
        "properties": _pairs(fields["properties"]),
    }
    return ViewDefinition(**{**fields, **made})


def partition_of(text: str) -> Partition:
    """Parse a partition."""
    fields: dict[str, Any] = json.loads(text)
    return Partition(tuple(fields["values"]), fields["location"], _pairs(fields["properties"]))


def partition_digest(partition: Partition) -> str:
    """Return a key of bounded length for a partition."""
    return hashlib.sha256(json.dumps(partition.key).encode()).hexdigest()


def _pairs(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in pairs)


def _columns(columns: list[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(**column) for column in columns)
