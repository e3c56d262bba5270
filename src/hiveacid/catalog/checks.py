"""What a table definition must fulfil before it enters the catalog (``TransactionalValidationListener``)."""

from __future__ import annotations

from collections.abc import Mapping

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.errors import CatalogError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.spark.types import column_type

_RESERVED_PREFIX = "__hiveacid"
_NOT_IN_NAMES = frozenset("/\\.:`\x7f")
_FIRST_PRINTABLE = 0x20
_LONGEST_DIRECTORY = 240  # bytes; file systems allow 255, and a renamed table's directory gets a suffix
_VIRTUAL = {"row__id", "input__file__name", "block__offset__inside__file"}


def check_name(what: str, name: str) -> None:
    """Raise CatalogError for a name that could not be a directory's, or not be said in SQL.

    Hive allows letters, digits and underscores (``MetaStoreUtils.validateName``); blanks and signs do no harm
    here, but a dot separates databases from tables, and a directory must stay where it belongs.
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


def check_location(location: str, warehouse: str) -> None:
    """Raise CatalogError for a directory that holds the warehouse: dropping the table would delete it all."""
    if f"{warehouse}/".startswith(f"{location.rstrip('/')}/"):
        raise CatalogError(f"a table cannot have the location {location}: the warehouse itself lies there")


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
