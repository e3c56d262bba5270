"""Layout of Hive's delimited text files: separators, escapes and the texts that each type accepts.

From the SerDe properties of a table, by the rules of ``LazySerDeParameters``. Nothing here needs Spark.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from hiveacid.config import property_definitions
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema import types
from hiveacid.errors import UnsupportedFeatureError

BYTES = "ISO-8859-1"
_ASCII = 0x7F
_LEVELS, _EXTENDED = 8, 24  # separators of LazySerDeParameters: plain, extended, all
_MORE = (*range(4, 9), 11, *range(14, 27), *range(28, 32), *range(0x80, 0x100))
_SKIPPED = (property_definitions.SKIP_HEADER_LINES, property_definitions.SKIP_FOOTER_LINES)
_REFUSED = {
    property_definitions.TIMESTAMP_FORMATS.name: "its own timestamp formats",
    property_definitions.RECORD_DELIMITER.name: "its own line delimiter",
}


@dataclass(frozen=True)
class TextLayout:
    """A text table's SerDe properties.

    ``separators``: one character for each nesting level, which represents a byte. ``null``: the text of NULL, also with
    one character for each byte. ``takes_rest``: further delimiters belong to the last column.
    """

    separators: tuple[str, ...]
    escape: str | None
    null: str
    takes_rest: bool

    @property
    def ascii(self) -> bool:
        """Tell whether all delimiters are ASCII characters, which UTF-8 text holds only as themselves."""
        return all(ord(character) <= _ASCII for character in "".join(self.separators) + (self.escape or ""))


def text_layout(table: TableDefinition) -> TextLayout:
    """Read SerDe and table properties as ``LazySerDeParameters`` does.

    Raises UnsupportedFeatureError for unsupported properties that change the meaning of a line (encodings, header lines,
    timestamp formats), and for types with more nesting levels than separators.
    """
    properties = {key.lower(): value for key, value in (*table.properties, *table.storage.serde_properties)}
    _refuse_unknown(table, properties)
    separators = [
        _delimiter(
            properties.get(
                property_definitions.FIELD_DELIMITER.name,
                properties.get(property_definitions.SERIALIZATION_FORMAT.name),
            ),
            "\x01",
        ),
        _delimiter(
            properties.get(
                property_definitions.COLLECTION_DELIMITER.name,
                properties.get(property_definitions.COLLECTION_DELIMITER_HIVE2.name),
            ),
            "\x02",
        ),
        _delimiter(properties.get(property_definitions.MAP_KEY_DELIMITER.name), "\x03"),
        *map(chr, _MORE),
    ]
    count = (
        _EXTENDED
        if properties.get(property_definitions.NESTING_LEVELS.name, "").lower() == "true"
        else _LEVELS
    )
    if properties.get(property_definitions.MORE_NESTING_LEVELS.name, "").lower() == "true":
        count = len(separators)
    needed = max(_depth(types.parse_type(column.type), 1) for column in table.columns)
    if needed > count:
        raise UnsupportedFeatureError(
            f"table {table.name}: its types are nested {needed - 1} levels deep, LazySimpleSerDe separates "
            f"{count - 1} (SerDe property {property_definitions.NESTING_LEVELS.name} gives more)"
        )
    used = count if property_definitions.ESCAPE_DELIMITER.name in properties else needed
    return TextLayout(
        tuple(separators[:used]),
        _delimiter(properties[property_definitions.ESCAPE_DELIMITER.name], "\\")
        if property_definitions.ESCAPE_DELIMITER.name in properties
        else None,
        properties.get(property_definitions.NULL_FORMAT.name, "\\N").encode().decode(BYTES),
        properties.get(property_definitions.LAST_COLUMN_TAKES_REST.name, "").lower() == "true",
    )


def _refuse_unknown(table: TableDefinition, properties: dict[str, str]) -> None:
    refused = [what for key, what in _REFUSED.items() if properties.get(key)]
    if properties.get(property_definitions.ENCODING.name, "utf-8").lower() not in ("utf-8", "utf8"):
        refused.append(f"encoding {properties[property_definitions.ENCODING.name]}")
    if properties.get(property_definitions.LINE_DELIMITER.name, "\n") not in ("\n", "10"):
        refused.append("its own line delimiter")
    if any(properties.get(key.name, "0").strip() not in ("0", "") for key in _SKIPPED):
        refused.append(
            "header or footer lines (SELECT * FROM csv.`/path` WITH (header = true) reads such files, and hiveacid ingest "
            "--format csv --header loads them)"
        )
    if refused:
        raise UnsupportedFeatureError(f"text table {table.name} has {', '.join(refused)}: not supported")


def _delimiter(text: str | None, default: str) -> str:
    """Return a delimiter by the rule of ``LazyUtils.getByte``: a number from -128 to 127, or else the first character."""
    if not text:
        return default
    number = int(text) if re.fullmatch(r"[+-]?[0-9]{1,9}", text) else None
    is_byte = number is not None and -128 <= number <= 127  # noqa: PLR2004 - Java's byte
    return chr((number if number is not None and is_byte else ord(text[0])) & 0xFF)


def _depth(kind: types.HiveType, level: int) -> int:
    """Return the number of separators that a type needs at a nesting level (fields of a row: 1)."""
    match kind:
        case types.Array(element=element):
            return _depth(element, level + 1)
        case types.Map(key=key, value=value):
            return max(_depth(key, level + 2), _depth(value, level + 2))
        case types.Struct(fields=fields):
            return max(_depth(field.type, level + 1) for field in fields)
    return level


_DAY = r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TIME = r"[ T][0-9]{1,2}:[0-9]{1,2}:[0-9]{1,2}(?:\.[0-9]{1,9})?"
_SHAPES = {
    **dict.fromkeys(types.INTEGER_TYPES, r"^[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)\z"),
    **dict.fromkeys(("float", "double"), r"[0-9]|^\s*[+-]?(?:NaN|Infinity)\s*\z"),
    "decimal": r"[0-9]",
    "date": rf"^\s*{_DAY}(?:[ T].*)?\z",
    "timestamp": rf"^\s*{_DAY}{_TIME}\s*\z",
    types.LOCAL_TIMESTAMP: rf"^\s*{_DAY}",
}


def accepted_text_pattern(kind: types.HiveType) -> str:
    """Return the pattern of the texts that Hive accepts for a type; Spark's casts accept more."""
    if not isinstance(kind, types.Primitive) or kind.name not in _SHAPES:
        raise UnsupportedFeatureError(f"type {kind} cannot be kept in a text table")
    return _SHAPES[kind.name]
