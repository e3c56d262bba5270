r"""Lines of delimited text or JSON, fed from files and pipes into a `Connection`, with commits by number of rows or by time.

Arrow's CSV and JSON readers parse them to batches of a table's columns. A line holds one record. Empty lines are skipped,
but counted, so that the number of a bad record is its line's.

A new table gets its columns from a sample of the lines. A type is chosen only if all texts of the sample fit it without a loss.
``007`` stays a text, and so do numbers of more digits than a BIGINT or a DOUBLE keeps exactly.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import os
import re
import select
import stat
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from hiveacid.core.model import Column
from hiveacid.core.schema.types import Map, Primitive, Struct, nested_types, parse_type
from hiveacid.errors import DataError, SchemaMismatchError, StorageError, UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.writing import single_batch
from hiveacid.ports.clock import Clock
from hiveacid.streaming.connection import Connection, Statistics
from hiveacid.streaming.records import parse_or_name
from hiveacid.table.cast_to_table_columns import cast, parse_texts

# Arrow's JSON parser crashes on a line ``null``, and on a line that is no object before one that is: neither may reach it.
_NULL_OUTSIDE_OBJECT = re.compile(rb"^[ \t\r]*+[^\s{]|\}[ \t\r]*+n", re.MULTILINE)
_KEY = re.compile(r'"([^"\\]*)"[ \t]*:')
_BLOCK = 4 << 20  # bytes read at a time
_LONGEST_LINE = 128 << 20  # bytes: a file without line breaks would fill the memory


class LineFormat(Protocol):
    """Parser of whole lines. ``blank``: the bytes of which a line that is skipped consists, None for white space."""

    blank: ClassVar[bytes | None]

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for columns that lines of this format cannot hold."""

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> pa.RecordBatch:
        """Return the records as a batch. Raises ValueError or Arrow's errors if one of them does not fit."""


def parse_lines(form: LineFormat, data: bytes, columns: tuple[Column, ...], first: int) -> pa.RecordBatch:
    """Return whole lines as a batch. ``first``: number of the first line. Raises BadRecordError for the first bad line."""

    def parse(lines: Sequence[bytes]) -> pa.RecordBatch:
        filled = [line for line in lines if line.strip(form.blank)]
        if not filled:
            return pa.RecordBatch.from_pylist([], arrow_schema(columns))
        text = b"\n".join(filled) + b"\n"
        if text.startswith(codecs.BOM_UTF8):  # Arrow drops one there: which line that is depends on the block
            text = codecs.BOM_UTF8 + text
        batch = form.parse(text, columns)
        batch.validate(full=True)  # texts in UTF-8
        if batch.num_rows != len(filled):
            raise ValueError("a line must hold exactly one record")
        return batch

    lines = data.removesuffix(b"\n").split(b"\n")
    return parse_or_name(lines, first, parse, lambda line: line.decode(errors="replace"))


@dataclass(frozen=True)
class DelimitedLines:
    r"""Fields in the order of the columns. ``quote``: around fields with a delimiter, None for no quotes. ``null``: text of NULL.

    A field has no line break. Days are ``2024-02-29``, times ``2024-02-29 12:00:00[.ffffff]``.
    """

    delimiter: str = ","
    quote: str | None = None
    null: str = "\\N"
    blank: ClassVar[bytes | None] = b"\r\n"  # a line of white space is a field, or several between tabs

    def header(self, line: str) -> tuple[str, ...]:
        """Return the names in a first line, in lower case."""
        quoting = csv.QUOTE_MINIMAL if self.quote else csv.QUOTE_NONE
        reader = csv.reader([line], delimiter=self.delimiter, quotechar=self.quote or '"', quoting=quoting)  # type: ignore[arg-type]
        return tuple(name.strip().lower() for name in next(reader, []))

    def check_header(self, line: bytes, columns: tuple[Column, ...]) -> None:
        """Raise DataError for a first line with the names of the columns in another order: values go by position."""
        names = self.header(line.decode("utf-8-sig", errors="replace"))
        wanted = tuple(column.name for column in columns)
        if names != wanted and sorted(names) == sorted(wanted):
            raise DataError(
                f"the header names the columns in another order ({', '.join(names)}) than the table ({', '.join(wanted)}), "
                "and values go by position: write the fields of the file in the table's order"
            )

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for nested columns."""
        _require(columns, lambda column: isinstance(parse_type(column.type), Primitive), "delimited text")

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> pa.RecordBatch:
        """Parse lines by Arrow's CSV reader, all fields as text."""
        names = [column.name for column in columns]
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(
                delimiter=self.delimiter, quote_char=self.quote or False, newlines_in_values=False
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[self.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        if self.quote and any(pc.any(pc.match_substring(column, "\n")).as_py() for column in table.columns):
            raise ValueError("a field does not end on its line: a quote is open")
        return parse_texts(single_batch(table), columns)


@dataclass(frozen=True)
class JsonLines:
    """One JSON object a line, whose keys are column names in lower case; a missing key is NULL.

    Days and times are texts as in delimited text. ``ignore_unknown``: skip keys that are no columns,
    but no key that is one in another case.
    """

    ignore_unknown: bool = False
    blank: ClassVar[bytes | None] = None

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for columns with maps, which Arrow's JSON reader does not convert."""
        _require(
            columns,
            lambda column: not any(isinstance(part, Map) for part in nested_types(parse_type(column.type))),
            "JSON lines",
        )

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> pa.RecordBatch:
        """Parse lines by Arrow's JSON reader."""
        schema = arrow_schema(columns)
        plain = pa.schema([pa.field(target.name, _json_type(target.type)) for target in schema])
        if _NULL_OUTSIDE_OBJECT.search(data):
            for line in data.split(b"\n"):
                if line and not isinstance(json.loads(line), dict):
                    raise ValueError("not a JSON object")
        if self.ignore_unknown:
            _refuse_other_case(data, columns, plain)
        table = pyarrow.json.read_json(
            io.BytesIO(data),
            pyarrow.json.ReadOptions(block_size=len(data) + 1),
            pyarrow.json.ParseOptions(
                explicit_schema=plain, unexpected_field_behavior="ignore" if self.ignore_unknown else "error"
            ),
        )
        texts = single_batch(table.select(plain.names))
        arrays = [cast(values, target.type) for values, target in zip(texts.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _refuse_other_case(data: bytes, columns: tuple[Column, ...], schema: pa.Schema) -> None:
    """Raise ValueError for a key that is a name but for its case: it would be skipped, and the value be lost."""
    kinds = (
        kind
        for column in columns
        for kind in nested_types(parse_type(column.type))
        if isinstance(kind, Struct)
    )
    names = {*schema.names, *(field.name for kind in kinds for field in kind.fields)}
    keys = set(_KEY.findall(data.decode(errors="replace")))
    if not {key.lower() for key in keys - names}.isdisjoint(name.lower() for name in names):
        for line in data.decode("utf-8-sig", errors="replace").split("\n"):
            if line:
                _refuse_names(json.loads(line), pa.struct(schema))


def _refuse_names(value: object, kind: pa.DataType) -> None:
    if isinstance(value, list) and pa.types.is_list(kind):
        for one in value:
            _refuse_names(one, kind.value_type)
    elif isinstance(value, dict) and pa.types.is_struct(kind):
        members = {member.name.lower(): member for member in kind}
        for key, inner in value.items():
            member = members.get(key.lower())
            if member and key == member.name:
                _refuse_names(inner, member.type)
            elif member and member.name not in value:
                raise ValueError(f"key {key} has to be written {member.name}")


def _require(columns: tuple[Column, ...], fits: Callable[[Column], bool], what: str) -> None:
    for column in columns:
        if not fits(column):
            raise UnsupportedFeatureError(
                f"column {column.name} ({column.type}) can't be read from {what}: write it as Arrow data or Python dicts"
            )


def _json_type(column_type: pa.DataType) -> pa.DataType:
    """Return the type to parse with: times and binary values, which JSON does not have, are parsed as text.

    FLOAT is parsed as DOUBLE, because the cast refuses numbers beyond its range, and Arrow's parser does not.
    """
    if pa.types.is_temporal(column_type) or pa.types.is_binary(column_type):
        return pa.string()
    if pa.types.is_float32(column_type):
        return pa.float64()
    if pa.types.is_list(column_type):
        return pa.list_(_json_type(column_type.value_type))
    if pa.types.is_struct(column_type):
        return pa.struct([pa.field(target.name, _json_type(target.type)) for target in column_type])
    return column_type


@dataclass
class Feeder:
    """Writes lines and commits. A transaction ends after ``rows`` rows or ``seconds`` seconds.

    ``on_commit`` is called after every commit.
    """

    connection: Connection
    form: LineFormat
    clock: Clock
    rows: int
    seconds: float
    on_commit: Callable[[Statistics], object] = lambda _: None
    _open: bool = False
    _begun: int = 0  # ms
    _taken: int = 0  # lines of the transaction
    _lines: int = 0  # given so far
    _names: tuple[str, ...] = ()  # of the columns

    def __post_init__(self) -> None:
        """Raise UnsupportedFeatureError for columns that the lines cannot hold."""
        self.form.check(self.connection.columns)
        self._names = self._column_names()

    def _column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.connection.columns)

    def feed(self, descriptor: int, name: str, *, skip_first: bool = False) -> None:
        """Write all lines of a file or pipe; the last one may lack its line break. Raises StorageError, DataError.

        A byte order mark at the start of the file is no part of the first line.
        """
        remainder, mark = b"", codecs.BOM_UTF8
        for block in _blocks(descriptor, name, self.seconds):
            if block:
                whole, newline, remainder = (remainder + block).rpartition(b"\n")
                whole += newline
                if newline:
                    whole, mark = whole.removeprefix(mark), b""
                if skip_first and newline:
                    first, _, whole = whole.partition(b"\n")
                    skip_first = False
                    if isinstance(self.form, DelimitedLines):
                        self.form.check_header(first, self.connection.columns)
                self._write(whole)
                if len(remainder) > _LONGEST_LINE:
                    raise DataError(
                        f"{name}: a line has more than {_LONGEST_LINE >> 20} MB: each record has a line of its own"
                    )
            self._commit_if_due()
        if remainder and not skip_first:
            self._write(remainder.removeprefix(mark) + b"\n")

    def finish(self) -> None:
        """Commit the open transaction, if there is one."""
        if self._open:
            self._open = False
            self.connection.commit()
            self.on_commit(self.connection.stats)

    def _write(self, lines: bytes) -> None:
        while lines:
            if not self._open:
                self.connection.begin_transaction()
                self._open, self._begun, self._taken = True, self.clock.now(), 0
                if isinstance(self.form, DelimitedLines) and self._column_names() != self._names:
                    raise SchemaMismatchError(
                        f"{self.connection.table} had other columns ({', '.join(self._names)}) when the first line was read, and "
                        "values go by position: write the remaining lines anew"
                    )
            room = self.rows - self._taken
            if lines.count(b"\n") > room:
                *head, lines = lines.split(b"\n", room)
                block = b"\n".join(head) + b"\n"
            else:
                block, lines = lines, b""
            count = block.count(b"\n")
            self.connection.write(parse_lines(self.form, block, self.connection.columns, self._lines + 1))
            self._taken += count
            self._lines += count
            self._commit_if_due()

    def _commit_if_due(self) -> None:
        late = not 0 <= self.clock.now() - self._begun < self.seconds * 1000  # or the clock was set back
        if self._open and (late or self._taken >= self.rows):
            self.finish()


def _blocks(descriptor: int, name: str, seconds: float) -> Iterator[bytes]:
    """Yield blocks of bytes. A pipe or socket without data for a second yields b'', so that the caller can check for a due commit."""
    waits = not stat.S_ISREG(os.fstat(descriptor).st_mode)
    try:
        while True:
            if waits and not select.select([descriptor], [], [], min(1.0, seconds))[0]:
                yield b""
                continue
            block = os.read(descriptor, _BLOCK)
            if not block:
                return
            yield block
    except OSError as error:
        raise StorageError(f"cannot read {name}: {error.strerror or error}") from error


_DATE_AND_TIME = (
    ("date", r"^[0-9]{4}-[0-9]{2}-[0-9]{2}$"),
    ("timestamp", r"^[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?$"),
)
_PATTERNS = (
    ("boolean", r"^(true|false)$"),
    ("bigint", r"^(0|-?[1-9][0-9]{0,17})$"),
    ("double", r"^-?(0|[1-9][0-9]{0,14})(\.[0-9]{1,15})?$"),
    *_DATE_AND_TIME,
)
_DIGITS_OF_DOUBLE = 15  # that every DOUBLE keeps
_LARGEST_EXACT = 1 << 53  # of the whole numbers of a DOUBLE
_BIGINT = 1 << 63


def columns_of_text(sample: bytes, form: DelimitedLines) -> tuple[Column, ...]:
    """Return columns with the names of the first line, for delimited text. Raises DataError."""
    lines = sample.decode("utf-8-sig", errors="replace").splitlines()
    if not lines:
        raise DataError("the first file is empty: without a header nothing is known of the columns")
    names = form.header(lines[0])
    columns = tuple(Column(name, "string") for name in names)
    rows = b"\n".join(line for line in sample.split(b"\n")[1:] if line.strip(form.blank))
    if not rows:
        return columns
    try:
        texts = form.parse(rows + b"\n", columns)
    except (ValueError, pa.ArrowException) as error:
        raise DataError(f"the lines do not fit the header ({', '.join(names)}): {error}") from error
    return tuple(
        Column(column.name, _type_of(values, _PATTERNS))
        for column, values in zip(columns, texts.columns, strict=True)
    )


def columns_of_json(sample: bytes) -> tuple[Column, ...]:
    """Return columns for all keys of JSON objects, in the order in which they come. Raises DataError.

    Raises UnsupportedFeatureError for nested and for mixed values, whose column a person has to choose.
    """
    values: dict[str, list[object]] = {}
    for number, line in enumerate(sample.splitlines(), start=1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DataError(f"line {number} is not JSON: {error}") from error
        if not isinstance(record, dict):
            raise DataError(f"line {number} is not a JSON object")
        for key, value in record.items():
            if key != key.lower():
                raise DataError(f"line {number}: key {key} is not in lower case, as names of columns are")
            values.setdefault(key, []).append(value)
    if not values:
        raise DataError("the first file has no record: nothing is known of the columns")
    return tuple(Column(key, _type_of_json(key, found)) for key, found in values.items())


def _type_of_json(key: str, values: Sequence[object]) -> str:
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {str}:
        return _type_of(pa.array(values, pa.string()), _DATE_AND_TIME)
    if kinds == {bool}:
        return "boolean"
    if kinds == {int} and all(-_BIGINT <= value < _BIGINT for value in values if isinstance(value, int)):
        return "bigint"
    if kinds <= {int, float} and all(abs(one) <= _LARGEST_EXACT for one in values if isinstance(one, int)):
        return "double"
    raise UnsupportedFeatureError(
        f"key {key}: no type is chosen for nested, mixed and very large values: CREATE TABLE by SQL, and leave out --create"
    )


def _type_of(values: pa.Array, patterns: Sequence[tuple[str, str]]) -> str:
    """Return the type that all texts fit; NULL and empty texts, which are NULL in other types, do not count."""
    texts = values.filter(pc.fill_null(pc.not_equal(values, ""), fill_value=False))
    if not len(texts):
        return "string"
    for kind, pattern in patterns:
        if pc.all(pc.match_substring_regex(texts, pattern)).as_py() and _parses(texts, kind):
            return kind
    return "string"


def _parses(texts: pa.Array, kind: str) -> bool:
    """Tell whether texts of the right form are values: 2026-02-30 is none, and a DOUBLE keeps 15 digits."""
    if kind == "double":
        digits = pc.utf8_length(pc.replace_substring_regex(texts, r"[-.]", ""))
        return bool(pc.max(digits).as_py() <= _DIGITS_OF_DOUBLE)
    try:
        parse_texts(pa.RecordBatch.from_arrays([texts], ["c"]), (Column("c", kind),))
    except (ValueError, pa.ArrowException):
        return False
    return True
