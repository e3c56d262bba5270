"""What a table definition must fulfil before it enters the catalog (``TransactionalValidationListener``)."""

from __future__ import annotations

from collections.abc import Mapping

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.errors import CatalogError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.spark.types import column_type

_RESERVED_PREFIX = "__hiveacid"
_VIRTUAL = {"row__id", "input__file__name", "block__offset__inside__file"}


def check_definition(table: TableDefinition) -> None:
    """Raise SchemaMismatchError, UnsupportedFeatureError or CatalogError for what no table may be."""
    _check_columns(table)
    _check_bucketing(table)
    if table.kind is TableKind.PLAIN:
        return
    if table.external:
        raise CatalogError(f"{table.name}: an external table cannot be transactional; leave out EXTERNAL")
    if table.kind is TableKind.FULL_ACID:
        if not table.storage.input_format.endswith("OrcInputFormat"):
            raise CatalogError(
                f"{table.name}: a transactional table with UPDATE and DELETE must be STORED AS ORC; other formats "
                "need TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"
            )
        if table.bucketing and table.bucketing.sort_columns:
            raise CatalogError(f"{table.name}: a transactional table cannot be SORTED BY (Hive 10298)")


def _check_columns(table: TableDefinition) -> None:
    if not table.columns:
        raise SchemaMismatchError(
            f"{table.name}: a table needs at least one column besides partition columns"
        )
    seen: set[str] = set()
    for column in (*table.columns, *table.partition_columns):
        if column.name in seen:
            raise SchemaMismatchError(f"{table.name}: column {column.name} is named twice")
        if column.name.startswith(_RESERVED_PREFIX) or column.name in _VIRTUAL:
            raise SchemaMismatchError(f"{table.name}: {column.name} is a reserved column name")
        seen.add(column.name)
        column_type(column)
    for column in table.partition_columns:
        if "<" in column.type or column.type == "binary":
            raise UnsupportedFeatureError(
                f"{table.name}: partition column {column.name} must be of a primitive type"
            )


def _check_bucketing(table: TableDefinition) -> None:
    if table.bucketing is None:
        return
    if table.bucketing.count < 1:
        raise CatalogError(f"{table.name}: INTO {table.bucketing.count} BUCKETS: at least one is needed")
    names = {c.name for c in table.columns}
    for column in table.bucketing.columns:
        if column not in names:
            raise SchemaMismatchError(f"{table.name}: CLUSTERED BY {column}: no such column")


def check_properties(table: TableDefinition, changes: Mapping[str, str]) -> None:
    """Refuse changes of properties that decide how files are read."""
    lower = {key.lower(): value for key, value in changes.items()}
    now = (table.property("transactional") or "false").lower()
    wanted = lower.get("transactional", now).lower()
    if now == "true" and wanted != "true":
        raise CatalogError(f"{table.name}: 'transactional' cannot be unset; make a new table AS SELECT")
    properties = lower.get("transactional_properties")
    if now == "true" and properties not in (None, table.property("transactional_properties")):
        raise CatalogError(f"{table.name}: 'transactional_properties' cannot be changed after creation")
    if now != "true" and wanted == "true":
        raise UnsupportedFeatureError(
            f"{table.name}: a table cannot be made transactional later yet; make a transactional one AS SELECT"
        )
    if "bucketing_version" in lower and lower["bucketing_version"] != str(table.bucketing_version):
        raise CatalogError(f"{table.name}: 'bucketing_version' cannot be changed: rows lie in its buckets")
