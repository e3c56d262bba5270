"""Hive's type texts: parse the spellings of Hive, Spark and Trino, and print one canonical form.

``str()`` of a type is the text that Hive's metastore keeps and Hive 3 prints: ``struct<a:int,b:array<string>>``, all
lower case. Field names are quoted only if they hold more than letters, digits and ``_``. Hive 4 quotes all of them
(:func:`quoted_type_text`).
Limits are those of ``HiveDecimal``, ``HiveVarchar`` and ``HiveChar``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NoReturn, TypeAlias

from hiveacid.errors import ConfigError, ParseError

MAX_PRECISION = 38
MAX_VARCHAR = 65535
MAX_CHAR = 255
MAX_SECOND_DIGITS = 9  # nanoseconds
MAX_DEPTH = 64  # nested levels; keeps hostile text away from Python's recursion limit

LOCAL_TIMESTAMP = "timestamp with local time zone"


@dataclass(frozen=True)
class Primitive:
    """A primitive type: Hive's name and its numbers (decimal: precision, scale; varchar, char: length)."""

    name: str
    args: tuple[int, ...] = ()

    def __str__(self) -> str:
        """Return Hive's text, such as ``decimal(10,2)``."""
        return f"{self.name}({','.join(map(str, self.args))})" if self.args else self.name


@dataclass(frozen=True)
class Array:
    """``array<element>``."""

    element: HiveType

    def __str__(self) -> str:
        """Return Hive's text."""
        return f"array<{self.element}>"


@dataclass(frozen=True)
class Map:
    """``map<key,value>``; the key is primitive (Hive's grammar)."""

    key: HiveType
    value: HiveType

    def __str__(self) -> str:
        """Return Hive's text."""
        return f"map<{self.key},{self.value}>"


@dataclass(frozen=True)
class Field:
    """A struct's field; the name is lower case, as Hive's object inspectors keep it."""

    name: str
    type: HiveType


@dataclass(frozen=True)
class Struct:
    """``struct<name:type,...>``."""

    fields: tuple[Field, ...]

    def __str__(self) -> str:
        """Return Hive's text."""
        return f"struct<{','.join(f'{_field_name(field.name)}:{field.type}' for field in self.fields)}>"


@dataclass(frozen=True)
class Union:
    """``uniontype<alternative,...>``."""

    alternatives: tuple[HiveType, ...]

    def __str__(self) -> str:
        """Return Hive's text."""
        return f"uniontype<{','.join(map(str, self.alternatives))}>"


HiveType: TypeAlias = Primitive | Array | Map | Struct | Union

INTEGER_BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
INTEGER_TYPES = tuple(INTEGER_BITS)
"""In ascending order of their ranges."""
NUMERIC_TYPES = frozenset({*INTEGER_TYPES, "float", "double", "decimal"})


def nested_types(hive: HiveType) -> Iterator[HiveType]:
    """Yield a type and all types inside it, except the alternatives of unions, whose values are never converted."""
    yield hive
    match hive:
        case Array(element):
            yield from nested_types(element)
        case Map(key, value):
            yield from nested_types(key)
            yield from nested_types(value)
        case Struct(fields):
            for field in fields:
                yield from nested_types(field.type)


def has_primitive(hive: HiveType, names: Collection[str]) -> bool:
    """Tell whether a type is one of the named primitive types, or contains one."""
    return any(isinstance(part, Primitive) and part.name in names for part in nested_types(hive))


def is_primitive(text: str, names: Collection[str]) -> bool:
    """Tell whether the text of a type is one of the named primitive types, with any arguments."""
    hive = parse_type(text)
    return isinstance(hive, Primitive) and hive.name in names


_PLAIN = {
    "boolean": "boolean",
    "tinyint": "tinyint",
    "byte": "tinyint",
    "smallint": "smallint",
    "short": "smallint",
    "int": "int",
    "integer": "int",
    "bigint": "bigint",
    "long": "bigint",
    "float": "float",
    "real": "float",
    "double": "double",
    "string": "string",
    "binary": "binary",
    "varbinary": "binary",
    "date": "date",
    "timestamp_ntz": "timestamp",
    "timestamp_ltz": LOCAL_TIMESTAMP,
    "timestamplocaltz": LOCAL_TIMESTAMP,
}
_REFUSED = {
    "interval": "Hive cannot store intervals in a table: use bigint or string",
    "interval_year_month": "Hive cannot store intervals in a table: use bigint or string",
    "interval_day_time": "Hive cannot store intervals in a table: use bigint or string",
    "void": "a column needs a type of its own, not void",
    "variant": "Hive has no variant type: use string",
    "json": "Hive has no json type: use string",
    "uuid": "Hive has no uuid type: use string",
    "text": "Hive has no text type: use string",
    "datetime": "Hive has no datetime type: use timestamp",
    "blob": "Hive has no blob type: use binary",
    "number": "Hive has no number type: use decimal(p,s)",
    "time": "Hive has no time type: use string or timestamp",
}
_BLANK = re.compile(r"(?:\s+|--[^\n]*|/\*(?:[^*]|\*(?!/))*\*/)*")
_WORD = re.compile(r"\w+")
_QUOTED_NAME = re.compile(r"`((?:[^`]|``)+)`|\"((?:[^\"]|\"\")+)\"")
_STRING = re.compile(r"(?:'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")+", re.DOTALL)
_PLAIN_NAME = re.compile(r"\w+\Z")


@lru_cache(maxsize=1000)
def parse_type(text: str) -> HiveType:
    """Parse one type. Raises ParseError, with line and column, for a text that is not a type that Hive can store."""
    hive_type, end = parse_type_at(text, 0)
    reader = _TypeParser(text, end)
    reader.skip_blank()
    if reader.at != len(text):
        reader.fail(f"expected the end of the type, found {reader.shown()}")
    return hive_type


def parse_type_at(text: str, start: int, first_line: int = 1) -> tuple[HiveType, int]:
    """Parse the type that begins at offset ``start`` of a statement; return it and the offset after it.

    Errors give the position in the whole text; its first line has the number ``first_line``.
    Raises ParseError.
    """
    reader = _TypeParser(text, start, first_line)
    return reader.read_type(0), reader.at


def quoted_type_text(hive_type: HiveType) -> str:
    """Return the text that Hive 4's SHOW CREATE TABLE prints: field names quoted, ``, `` between fields."""
    match hive_type:
        case Array(element):
            return f"array<{quoted_type_text(element)}>"
        case Map(key, value):
            return f"map<{quoted_type_text(key)},{quoted_type_text(value)}>"
        case Struct(fields):
            texts = (f"{quote_name(field.name)}:{quoted_type_text(field.type)}" for field in fields)
            return f"struct<{', '.join(texts)}>"
        case Union(alternatives):
            return f"uniontype<{', '.join(map(quoted_type_text, alternatives))}>"
        case _:
            return str(hive_type)


def position(text: str, offset: int) -> tuple[int, int]:
    """Return line and column of an offset, both from 1."""
    return text.count("\n", 0, offset) + 1, offset - text.rfind("\n", 0, offset)


def quote_name(name: str) -> str:
    """Return a name in back-quotes; back-quotes inside it are doubled."""
    return "`" + name.replace("`", "``") + "`"


def unquoted_name(text: str) -> str:
    """Return the name in a text, without blanks around it and without back-quotes."""
    name = text.strip()
    is_quoted = len(name) > 1 and name[0] == name[-1] == "`"
    return name[1:-1].replace("``", "`") if is_quoted else name


def require_set_once(columns: Sequence[str]) -> None:
    """Raise ConfigError if a lower-case column name comes twice: of two values, the caller cannot mean both."""
    twice = next((name for name in columns if columns.count(name) > 1), None)
    if twice is not None:
        raise ConfigError(f"column {twice} is set twice, in two spellings: give it one value")


def _field_name(name: str) -> str:
    return name if _PLAIN_NAME.match(name) else quote_name(name)


class _TypeParser:
    """A cursor over a type text."""

    def __init__(self, text: str, at: int, first_line: int = 1) -> None:
        self.text = text
        self.at = at
        self.first_line = first_line

    def fail(self, message: str, offset: int | None = None) -> NoReturn:
        line, column = position(self.text, self.at if offset is None else offset)
        raise ParseError(message, line=line + self.first_line - 1, column=column)

    def shown(self) -> str:
        word = _WORD.match(self.text, self.at)
        token = word.group() if word else self.text[self.at : self.at + 1]
        return repr(token) if token else "the end"

    def skip_blank(self) -> None:
        blank = _BLANK.match(self.text, self.at)
        self.at = blank.end() if blank else self.at

    def take(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        self.skip_blank()
        match = pattern.match(self.text, self.at)
        self.at = match.end() if match else self.at
        return match

    def take_sign(self, sign: str) -> bool:
        self.skip_blank()
        matches = self.text.startswith(sign, self.at)
        self.at += len(sign) if matches else 0
        return matches

    def expect_sign(self, sign: str) -> None:
        if not self.take_sign(sign):
            self.fail(f"expected {sign!r} in a type, found {self.shown()}")

    def take_words(self, *words: str) -> bool:
        """Take the words if all of them come next."""
        start = self.at
        for word in words:
            match = self.take(_WORD)
            if match is None or match.group().lower() != word:
                self.at = start
                return False
        return True

    def read_type(self, depth: int) -> HiveType:
        self.skip_blank()
        start = self.at
        if depth > MAX_DEPTH:
            self.fail(f"a type may be nested {MAX_DEPTH} levels deep, not more")
        match = self.take(_WORD)
        if match is None:
            self.fail(f"expected a type, found {self.shown()}")
        name = match.group().lower()
        if name in {"array", "map", "struct", "row", "uniontype"}:
            return self.read_nested(name, depth)
        return self.read_primitive(name, start)

    def read_nested(self, name: str, depth: int) -> HiveType:
        """Read ``<...>`` behind a name, or Trino's ``(...)``."""
        trino = name == "row" or (name in {"array", "map"} and self.take_sign("("))
        if name == "row" or not trino:
            self.expect_sign("(" if trino else "<")
        nested = self.read_members(name, depth + 1)
        self.expect_sign(")" if trino else ">")
        return nested

    def read_members(self, name: str, depth: int) -> HiveType:
        if name == "array":
            return Array(self.read_type(depth))
        if name == "map":
            self.skip_blank()
            start = self.at
            key = self.read_type(depth)
            if not isinstance(key, Primitive):
                self.fail(f"the key of a map must be a primitive type, not {key}", start)
            self.expect_sign(",")
            return Map(key, self.read_type(depth))
        if name == "uniontype":
            alternatives = [self.read_type(depth)]
            while self.take_sign(","):
                alternatives.append(self.read_type(depth))
            return Union(tuple(alternatives))
        names: set[str] = set()
        fields = [self.read_field(depth, names)]
        while self.take_sign(","):
            fields.append(self.read_field(depth, names))
        return Struct(tuple(fields))

    def read_field(self, depth: int, taken: set[str]) -> Field:
        """Read ``name:type [COMMENT '...']`` (Spark and Trino: without the colon); the comment is dropped."""
        self.skip_blank()
        start = self.at
        quoted = self.take(_QUOTED_NAME)
        word = None if quoted else self.take(_WORD)
        if quoted:
            name = quoted[1].replace("``", "`") if quoted[1] else quoted[2].replace('""', '"')
        elif word:
            name = word.group()
        else:
            self.fail(f"expected the name of a field, found {self.shown()}")
        if name.lower() in taken:
            self.fail(f"field {name.lower()} twice in one struct", start)
        taken.add(name.lower())
        self.take_sign(":")
        field = Field(name.lower(), self.read_type(depth))
        if self.take_words("comment") and not self.take(_STRING):
            self.fail(f"expected a comment in quotes, found {self.shown()}")
        return field

    def read_primitive(self, name: str, start: int) -> Primitive:
        if name in {"decimal", "numeric", "dec"}:
            return self.read_decimal(start)
        if name in {"varchar", "char", "character"}:
            return self.read_character(name, start)
        if name == "timestamp":
            return self.read_timestamp(start)
        if name not in _PLAIN:
            self.fail(f"type {name}: {_REFUSED[name]}" if name in _REFUSED else f"unknown type {name}", start)
        if name == "double":
            self.take_words("precision")
        return Primitive(_PLAIN[name])

    def read_numbers(self) -> tuple[int, ...]:
        """Read ``(n, ...)``; return an empty tuple if no parenthesis follows."""
        if not self.take_sign("("):
            return ()
        numbers: list[int] = []
        while not numbers or self.take_sign(","):
            digits = self.take(re.compile(r"[0-9]{1,9}(?![0-9])"))
            if digits is None:
                self.fail(f"expected a number, found {self.shown()}")
            numbers.append(int(digits.group()))
        self.expect_sign(")")
        return tuple(numbers)

    def read_decimal(self, start: int) -> Primitive:
        """Read precision and scale; (10,0) is Hive's default."""
        numbers = self.read_numbers()
        if len(numbers) > 2:  # noqa: PLR2004 - precision and scale
            self.fail("decimal takes a precision and a scale", start)
        precision, scale = (*numbers, *(10, 0)[len(numbers) :])
        if not 1 <= precision <= MAX_PRECISION or scale > precision:
            self.fail(
                f"decimal({precision},{scale}): the precision is 1 to {MAX_PRECISION},"
                " the scale not above the precision",
                start,
            )
        return Primitive("decimal", (precision, scale))

    def read_character(self, name: str, start: int) -> Primitive:
        """Read a length; Trino's varchar without one is Hive's string, its char without one char(1)."""
        if name == "character":
            name = "varchar" if self.take_words("varying") else "char"
        numbers = self.read_numbers()
        if not numbers:
            return Primitive("string") if name == "varchar" else Primitive("char", (1,))
        most = MAX_VARCHAR if name == "varchar" else MAX_CHAR
        if len(numbers) > 1 or not 1 <= numbers[0] <= most:
            self.fail(f"the length of {name} is one number from 1 to {most}", start)
        return Primitive(name, numbers)

    def read_timestamp(self, start: int) -> Primitive:
        """Read the rest of a ``timestamp``: Trino's precision, and the words about the time zone.

        Hive prints the session's zone after a timestamp with local time zone (``TimestampLocalTZTypeInfo``). It is
        dropped, because files hold instants.
        """
        numbers = self.read_numbers()
        if len(numbers) > 1:
            self.fail("timestamp takes one number, its precision", start)
        if numbers and numbers[0] > MAX_SECOND_DIGITS:
            self.fail(
                f"a timestamp of Hive has {MAX_SECOND_DIGITS} digits of a second, not {numbers[0]}", start
            )
        if self.take_words("with", "local", "time", "zone"):
            if self.take_sign("("):
                if not self.take(_STRING):
                    self.fail(f"expected a time zone in quotes, found {self.shown()}")
                self.expect_sign(")")
            return Primitive(LOCAL_TIMESTAMP)
        if self.take_words("with", "time", "zone"):
            self.fail(
                "Hive has no timestamp with time zone: use timestamp or timestamp with local time zone", start
            )
        self.take_words("without", "time", "zone")
        return Primitive("timestamp")
