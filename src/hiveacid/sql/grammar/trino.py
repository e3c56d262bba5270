"""The WITH (...) clause of CREATE TABLE as Trino's SHOW CREATE TABLE prints it (its Hive connector)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from hiveacid.config import property_definitions
from hiveacid.core.model import Bucketing, StorageFormat
from hiveacid.core.schema.storage_formats import ORC, storage_format
from hiveacid.spark.parser.lexer import Token, TokenKind
from hiveacid.sql.grammar.cursor import Cursor

Value: TypeAlias = str | int | float | bool | tuple[str, ...]

_TABLE_PROPERTIES = {
    "transactional": property_definitions.TRANSACTIONAL.name,
    "bucketing_version": property_definitions.BUCKETING_VERSION.name,
    "auto_purge": "auto.purge",
    "null_format": property_definitions.NULL_FORMAT.name,
    "skip_header_line_count": property_definitions.SKIP_HEADER_LINES.name,
    "skip_footer_line_count": property_definitions.SKIP_FOOTER_LINES.name,
    "orc_bloom_filter_columns": property_definitions.ORC_BLOOM_FILTER_COLUMNS.name,
    "orc_bloom_filter_fpp": property_definitions.ORC_BLOOM_FILTER_FPP.name,
    "parquet_bloom_filter_columns": "parquet.bloom.filter.columns",
}
_SERDE_PROPERTIES = {
    "textfile_field_separator": (
        property_definitions.FIELD_DELIMITER.name,
        property_definitions.SERIALIZATION_FORMAT.name,
    ),
    "textfile_field_separator_escape": (property_definitions.ESCAPE_DELIMITER.name,),
}
_LISTS = frozenset({"partitioned_by", "bucketed_by", "sorted_by"})


@dataclass
class TrinoProperties:
    """Properties of the clause in Hive's terms; ``token`` is its first one."""

    token: Token
    storage: StorageFormat = ORC
    partitioned_by: tuple[str, ...] = ()
    bucketed_by: tuple[str, ...] = ()
    sorted_by: tuple[str, ...] = ()
    descending: tuple[str, ...] = ()
    bucket_count: int = 0
    location: str | None = None
    external: bool = False
    properties: dict[str, str] = field(default_factory=dict)

    def bucketing(self) -> Bucketing | None:
        """Return how the table is bucketed, None if it is not."""
        if not self.bucketed_by:
            return None
        return Bucketing(self.bucketed_by, self.bucket_count, self.sorted_by, self.descending)


def take_trino_properties(cursor: Cursor) -> TrinoProperties:
    """Parse behind WITH."""
    properties = TrinoProperties(cursor.next)

    def member() -> None:
        token, name = cursor.next, cursor.flexible_name("a property")
        cursor.expect("=")
        _apply(cursor, properties, name, token)

    cursor.list_of(member)
    if bool(properties.bucketed_by) != bool(properties.bucket_count):
        cursor.refuse("bucketed_by and bucket_count go together", properties.token)
    return properties


def _apply(cursor: Cursor, properties: TrinoProperties, name: str, token: Token) -> None:
    if name in _LISTS:
        _apply_list(properties, name, _names(cursor))
        return
    value = _value(cursor)
    match name, value:
        case "format", str(text):
            storage = storage_format(text)
            if storage is None:
                cursor.refuse(f"unknown format {text}: ORC, PARQUET, TEXTFILE and AVRO are known", token)
            properties.storage = replace(storage, serde_properties=properties.storage.serde_properties)
        case "bucket_count", int(count):
            properties.bucket_count = count
        case "external_location", str(location):
            properties.location, properties.external = location, True
        case _ if name in _TABLE_PROPERTIES:
            properties.properties[_TABLE_PROPERTIES[name]] = _text(value)
        case _ if name in _SERDE_PROPERTIES:
            added = dict(properties.storage.serde_properties) | dict.fromkeys(
                _SERDE_PROPERTIES[name], _text(value)
            )
            properties.storage = replace(properties.storage, serde_properties=tuple(sorted(added.items())))
        case _:
            cursor.refuse(f"Trino's table property {name} is not supported", token)


def _apply_list(properties: TrinoProperties, name: str, names: tuple[str, ...]) -> None:
    if name == "partitioned_by":
        properties.partitioned_by = names
    elif name == "bucketed_by":
        properties.bucketed_by = names
    else:
        pairs = [
            entry.rpartition(" ") if entry.endswith((" asc", " desc")) else (entry, "", "") for entry in names
        ]
        properties.sorted_by = tuple(column for column, _, _ in pairs)
        properties.descending = tuple(column for column, _, direction in pairs if direction == "desc")


def _names(cursor: Cursor) -> tuple[str, ...]:
    """Take ``ARRAY['a','b']``, which may be empty."""
    cursor.expect("ARRAY", "[")
    names: list[str] = []
    while not cursor.take("]"):
        if names:
            cursor.expect(",")
        names.append(cursor.string("a name in quotes").lower())
    return tuple(names)


def _value(cursor: Cursor) -> Value:
    if cursor.sees("ARRAY"):
        return _names(cursor)
    if word := cursor.take_one("TRUE", "FALSE"):
        return word == "TRUE"
    if cursor.next.kind is TokenKind.NUMBER and not cursor.next.text.isdigit():
        return cursor.advance().text
    if cursor.next.kind is TokenKind.NUMBER:
        return cursor.integer("a number")
    return cursor.string("a value")


def _text(value: Value) -> str:
    if isinstance(value, tuple):
        return ",".join(value)
    return str(value).lower() if isinstance(value, bool) else str(value)
