"""Catalog values as JSON texts: ASCII only, so that any character survives any database."""

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
    """Return a definition as text."""
    return json.dumps(asdict(value), separators=(",", ":"))


def database_of(text: str) -> DatabaseDefinition:
    """Read a database."""
    fields: dict[str, Any] = json.loads(text)
    return DatabaseDefinition(**{**fields, "properties": _pairs(fields["properties"])})


def table_of(text: str) -> TableDefinition:
    """Read a table."""
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
    """Read a view."""
    fields: dict[str, Any] = json.loads(text)
    made = {
        "name": TableName(**fields["name"]),
        "columns": _columns(fields["columns"]),
        "outputs": tuple(fields["outputs"]),
        "properties": _pairs(fields["properties"]),
    }
    return ViewDefinition(**{**fields, **made})


def partition_of(text: str) -> Partition:
    """Read a partition."""
    fields: dict[str, Any] = json.loads(text)
    return Partition(tuple(fields["values"]), fields["location"], _pairs(fields["properties"]))


def partition_digest(partition: Partition) -> str:
    """Return a key of bounded length for a partition."""
    return hashlib.sha256(json.dumps(partition.key).encode()).hexdigest()


def _pairs(pairs: list[list[str]]) -> tuple[tuple[str, str], ...]:
    return tuple((key, value) for key, value in pairs)


def _columns(columns: list[dict[str, Any]]) -> tuple[Column, ...]:
    return tuple(Column(**column) for column in columns)
