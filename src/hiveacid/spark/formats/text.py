"""Lines of text as Hive's ``LazySimpleSerDe`` reads and writes them, as native Spark expressions.

Delimiters are bytes to Hive, so a line is split as bytes. Each byte becomes one character (ISO 8859-1) until a value is
cut out, and bytes that are not UTF-8 survive. Escaped delimiters are moved out of that range before splitting. If Hive
3.1 and 4.0 parse a value differently, the result is that of 4.0.

The layout, which are separators, escapes and the texts that each type accepts, follows from the SerDe properties of a table
by the rules of ``LazySerDeParameters``.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from hiveacid.config import property_definitions
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema import types
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.expressions import bind, cast_type
from hiveacid.spark.formats.types import DATA_ERROR, cut_to_length, spark_type
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import try_cast

_HIDDEN = 0x100  # added to the byte of an escaped delimiter until the value is cut out
_BYTE_ORDER_MARK = "\ufeff"
_BASE64 = r"^(?:[A-Za-z0-9+/]{4})*+(?:[A-Za-z0-9+/]{2}(?:==)?|[A-Za-z0-9+/]{3}=?)?\z"
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


# --- reading ------------------------------------------------------------------------------------------------


def parse_line(
    env: SparkEnvironment, layout: TextLayout, line: SparkColumn, columns: Sequence[Column]
) -> list[SparkColumn]:
    """Return the columns of a line (a string column), under their names.

    As in Hive, a field that does not parse or is missing is NULL, and additional fields are ignored.
    """
    text = _hide_escaped(layout, F.decode(line.cast("binary"), BYTES))
    limit = len(columns) if layout.takes_rest else -1
    fields = F.split(text, _pattern(layout.separators[0]), limit)
    parser = _Parser(env, layout)
    return [
        parser.value(F.get(fields, F.lit(index)), types.parse_type(column.type), 1).alias(column.name)
        for index, column in enumerate(columns)
    ]


def _pattern(separator: str) -> str:
    # one character, or a backslash and one character: Java splits by these without a regular expression
    return "\\" + separator if separator in ".$|()[{^?*+\\" else separator


def _hide_escaped(layout: TextLayout, text: SparkColumn) -> SparkColumn:
    if layout.escape is None:
        return text
    # the escape character first: each one that is left escapes the next character
    for byte in _escaped(layout):
        text = F.replace(text, F.lit(layout.escape + byte), F.lit(chr(_HIDDEN + ord(byte))))
    return text


def _escaped(layout: TextLayout) -> tuple[str, ...]:
    return tuple(dict.fromkeys((layout.escape or "", *layout.separators)))


@dataclass(frozen=True)
class _Parser:
    """Parser of values in text, by the rules of the ``Lazy…`` classes of ``serde2.lazy``."""

    env: SparkEnvironment
    layout: TextLayout

    def value(self, text: SparkColumn, kind: types.HiveType, level: int) -> SparkColumn:
        return F.when(text != self._null(), self._not_null(text, kind, level))

    def _null(self) -> str:
        null = self.layout.null
        for byte in _escaped(self.layout) if self.layout.escape else ():
            null = null.replace(f"{self.layout.escape}{byte}", chr(_HIDDEN + ord(byte)))
        return null

    def _not_null(self, text: SparkColumn, kind: types.HiveType, level: int) -> SparkColumn:
        match kind:
            case types.Array(element=element):
                items = self._items(text, level)
                return F.transform(items, lambda item: self.value(item, element, level + 1))
            case types.Map(key=key, value=value):
                return self._map(text, key, value, level)
            case types.Struct(fields=fields):
                parts = F.split(text, _pattern(self.layout.separators[level]))
                return F.struct(
                    *[
                        self.value(F.get(parts, F.lit(i)), field.type, level + 1).alias(field.name)
                        for i, field in enumerate(fields)
                    ]
                )
            case types.Primitive(name="string" | "varchar" | "char" | "binary"):
                return self._bytes(text, kind)
            case types.Primitive(name="boolean"):
                word = F.lower(text)
                return F.when(word == "true", F.lit(True)).when(word == "false", F.lit(False))  # noqa: FBT003
        return F.when(text.rlike(accepted_text_pattern(kind)), self._cast(text, kind))

    def _items(self, text: SparkColumn, level: int) -> SparkColumn:
        parts = F.split(text, _pattern(self.layout.separators[level]))
        return F.filter(parts, lambda _: text != "")

    def _map(self, text: SparkColumn, key: types.HiveType, value: types.HiveType, level: int) -> SparkColumn:
        between = _pattern(self.layout.separators[level + 1])

        def entry(item: SparkColumn) -> SparkColumn:
            parts = F.split(item, between, 2)
            return F.struct(
                self.value(F.get(parts, F.lit(0)), key, level + 2).alias("key"),
                self.value(F.get(parts, F.lit(1)), value, level + 2).alias("value"),
            )

        def first_of_each(entries: SparkColumn) -> SparkColumn:
            keys = F.transform(entries, lambda pair: pair.getField("key"))

            def is_first(pair: SparkColumn, index: SparkColumn) -> SparkColumn:
                key = pair.getField("key")
                before = F.slice(keys, F.lit(1), index)
                return key.isNotNull() & ~F.exists(before, lambda other: other.eqNullSafe(key))

            return F.filter(entries, is_first)

        return F.map_from_entries(bind(F.transform(self._items(text, level), entry), first_of_each))

    def _bytes(self, text: SparkColumn, kind: types.Primitive) -> SparkColumn:
        if kind.name == "binary":
            raw = F.encode(self._unescape(text), BYTES)
            return F.when(text.rlike(_BASE64), F.unbase64(text)).otherwise(raw)
        value = F.encode(self._unescape(text), BYTES).cast("string")
        return cut_to_length(value, kind)

    def _unescape(self, text: SparkColumn) -> SparkColumn:
        escape = self.layout.escape
        if escape is None:
            return text
        at_end = F.when(text.endswith(F.lit(escape)), F.lit(escape)).otherwise("")
        text = F.replace(text, F.lit(escape + "n"), F.lit("\n"))
        text = F.replace(text, F.lit(escape + "r"), F.lit("\r"))
        text = F.concat(F.replace(text, F.lit(escape), F.lit("")), at_end)
        escaped = _escaped(self.layout)
        return F.translate(text, "".join(chr(_HIDDEN + ord(c)) for c in escaped), "".join(escaped))

    def _cast(self, text: SparkColumn, kind: types.HiveType) -> SparkColumn:
        if isinstance(kind, types.Primitive) and kind.name in types.INTEGER_TYPES:
            whole = F.substring_index(text, ".", 1)  # Hive cuts a fraction off
            text = F.when(whole.rlike("[0-9]"), whole).otherwise("0")
        return try_cast(self.env, text, cast_type(spark_type(kind)))


# --- writing ------------------------------------------------------------------------------------------------


def format_line(layout: TextLayout, columns: Sequence[Column]) -> SparkColumn:
    """Return the line of a row, from columns of the frame under the table's names.

    The line is that of Hive, except for values that Hive could not read back. If the table has no ESCAPED BY, a value
    with a delimiter or a line break fails the statement (``[HIVEACID_DATA]``), and a text that looks like NULL becomes
    NULL, as in Hive. With ESCAPED BY, line breaks and such texts are escaped, too. So is a byte order mark that begins a
    line: at the beginning of a file, readers drop it.
    """
    writer = _Writer(layout)
    values = [
        writer.value(F.col(types.quote_name(c.name)), types.parse_type(c.type), 1, c.name) for c in columns
    ]
    line = F.concat_ws(layout.separators[0], *values)
    mark = _BYTE_ORDER_MARK if layout.ascii else _BYTE_ORDER_MARK.encode().decode(BYTES)
    if layout.escape is not None:
        marked = F.concat(F.lit(layout.escape), line)
    else:
        message = (
            f"{DATA_ERROR}column {columns[0].name}: a value begins with a byte order mark, which readers drop at the "
            "beginning of a file (a table with ESCAPED BY can hold it)"
        )
        marked = F.raise_error(F.lit(message)).cast("string")
    line = F.when(line.startswith(mark), marked).otherwise(line)
    return line if layout.ascii else F.encode(line, BYTES).cast("string")


@dataclass(frozen=True)
class _Writer:
    """Writer of values as text, by the rules of ``LazySimpleSerDe.serialize``."""

    layout: TextLayout

    def value(self, value: SparkColumn, kind: types.HiveType, level: int, column: str) -> SparkColumn:
        return F.coalesce(self._not_null(value, kind, level, column), F.lit(self._null))

    @property
    def _null(self) -> str:
        null = self.layout.null
        return null.encode(BYTES).decode() if self.layout.ascii else null

    def _not_null(self, value: SparkColumn, kind: types.HiveType, level: int, column: str) -> SparkColumn:
        separators = self.layout.separators
        match kind:
            case types.Array(element=element):
                items = F.transform(value, lambda item: self.value(item, element, level + 1, column))
                text = F.array_join(items, separators[level])
                message = (
                    f"{DATA_ERROR}column {column}: a value is an array of one empty value, which Hive reads back from a text "
                    "table as an array without values"
                )
                lost = (F.size(value) == 1) & (text == "")
                return F.when(lost, F.raise_error(F.lit(message)).cast("string")).otherwise(text)
            case types.Map(key=key, value=item):
                between = F.lit(separators[level + 1])

                def entry(pair: SparkColumn) -> SparkColumn:
                    return F.concat(
                        self.value(pair.getField("key"), key, level + 2, column),
                        between,
                        self.value(pair.getField("value"), item, level + 2, column),
                    )

                return F.array_join(F.transform(F.map_entries(value), entry), separators[level])
            case types.Struct(fields=fields):
                parts = [
                    self.value(value.getField(field.name), field.type, level + 1, column) for field in fields
                ]
                return F.when(value.isNotNull(), F.concat_ws(separators[level], *parts))
            case types.Primitive():
                return self._primitive(value, kind, level, column)
        raise UnsupportedFeatureError(f"column {column}: type {kind} cannot be kept in a text table")

    def _primitive(self, value: SparkColumn, kind: types.Primitive, level: int, column: str) -> SparkColumn:
        if kind.name in ("string", "varchar", "char"):
            text = value if self.layout.ascii else F.decode(value.cast("binary"), BYTES)
            if self.layout.escape is not None:
                return self._escape(text)
            return self._checked(self._no_null(text, column), self.layout.separators[:level], "\r\n", column)
        if kind.name == "binary":
            text = F.replace(F.base64(value), F.lit("\r\n"), F.lit(""))  # Spark 3.5 breaks it into lines
        elif kind.name == types.LOCAL_TIMESTAMP:
            text = F.concat(_utc_text(value), F.lit(" UTC"))
        else:
            text = value.cast("string")
        return self._checked(text, [c for c in self.layout.separators[:level] if c in _PLAIN], "", column)

    def _escape(self, text: SparkColumn) -> SparkColumn:
        escape = self.layout.escape or ""
        for byte in _escaped(self.layout):
            text = F.replace(text, F.lit(byte), F.lit(escape + byte))
        text = F.replace(text, F.lit("\n"), F.lit(escape + "n"))
        text = F.replace(text, F.lit("\r"), F.lit(escape + "r"))
        if self._null[:1] in ("", "n", "r"):  # an escape before these would mean something else
            return text
        return F.when(text == self._null, F.concat(F.lit(escape), text)).otherwise(text)

    def _no_null(self, text: SparkColumn, column: str) -> SparkColumn:
        if not self._null:  # the table itself defines '' as NULL
            return text
        message = (
            f"{DATA_ERROR}column {column}: a value is {self.layout.null}, which stands for NULL in the text table; "
            "Hive would read it back as NULL (a table with ESCAPED BY can hold it)"
        )
        return F.when(text == self._null, F.raise_error(F.lit(message)).cast("string")).otherwise(text)

    def _checked(self, text: SparkColumn, separators: Sequence[str], breaks: str, column: str) -> SparkColumn:
        refused = "".join(f"\\x{ord(c):02x}" for c in (*separators, *breaks))
        if not refused:
            return text
        message = (
            f"{DATA_ERROR}column {column}: a value holds a delimiter of the text table or a line break; "
            "Hive would read it back as something else (a table with ESCAPED BY can hold it)"
        )
        fails = F.raise_error(F.lit(message)).cast("string")
        return F.when(text.rlike(f"[{refused}]"), fails).otherwise(text)


# Characters of numbers, dates, booleans and base 64, which Hive writes without escapes.
_PLAIN = set("0123456789+-.:/= ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")


def _utc_text(value: SparkColumn) -> SparkColumn:
    """Return ``yyyy-MM-dd HH:mm:ss.ffffff`` in UTC, whatever the session's zone skips or repeats."""
    seconds, micros = F.unix_seconds(value), F.unix_micros(value)
    of_day = F.pmod(seconds, F.lit(86_400))
    day = F.date_from_unix_date(((seconds - of_day) / F.lit(86_400)).cast("int")).cast("string")
    parts = [F.floor(of_day / F.lit(3600)), F.floor(of_day / F.lit(60)) % F.lit(60), of_day % F.lit(60)]
    clock = F.concat_ws(":", *[F.lpad(part.cast("string"), 2, "0") for part in parts])
    fraction = F.lpad((micros - seconds * F.lit(1_000_000)).cast("string"), 6, "0")
    return F.concat(day, F.lit(" "), clock, F.lit("."), fraction)
