"""Parsers of records (delimited text, regular expressions, JSON, dicts, Arrow) into Arrow batches.

They are strict, as Hive's writers (``StrictDelimitedInputWriter``, ``StrictJsonWriter``, ``StrictRegexWriter``): a bad
record is an error that names it, or goes to a callback while the others are written. Arrow parses whole chunks. Only if
a chunk fails, bisection finds its bad records.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.json

from hiveacid.core.model import Column
from hiveacid.core.schema.types import (
    HiveType,
    Map,
    Primitive,
    nested_types,
    parse_type,
)
from hiveacid.core.suggestions import did_you_mean
from hiveacid.errors import BadRecordError, ConfigError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.streaming.json_values import (
    json_type,
    json_value,
    parse_object,
    require_objects,
    require_text_keys,
)
from hiveacid.streaming.line_pattern import LinePattern
from hiveacid.table.cast_python_values import array_of_python_values
from hiveacid.table.cast_to_table_columns import cast, cast_columns, parse_texts, single_batch

_SHOWN = 200  # characters of a bad record in a message
_FAILURES = (pa.ArrowException, ValueError, TypeError, OverflowError)

T = TypeVar("T")


@dataclass(frozen=True)
class Reject:
    """A bad record. ``number``: its position among all records given to the connection, from 1."""

    number: int
    record: str
    reason: str


OnReject = Callable[[Reject], object]


class RecordWriter(Protocol):
    """Parser of the records given to ``Connection.write`` into batches of the table's columns."""

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError or ConfigError if this parser cannot produce these columns."""

    def read(
        self, records: Any, columns: tuple[Column, ...], first: int, rejects: OnReject | None
    ) -> ParsedRecords:
        """Parse records, which are numbered from ``first`` on, into batches. Raises BadRecordError."""


@dataclass(frozen=True)
class ParsedRecords:
    """Result of ``RecordWriter.read``: batches, and the numbers of records that were read and refused."""

    batches: list[Any]
    records: int
    rejected: int = 0


class _Refusals:
    """Passes bad records to the callback; without one, raises an error for the first."""

    def __init__(self, rejects: OnReject | None) -> None:
        self._rejects = rejects
        self.count = 0

    def refuse(self, number: int, record: str, error: Exception) -> None:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        if self._rejects is None:
            excerpt = record if len(record) <= _SHOWN else record[:_SHOWN] + "…"
            raise BadRecordError(
                number, record, f"record {number} does not fit ({reason}): {excerpt}"
            ) from error
        self._rejects(Reject(number, record, reason))
        self.count += 1


def _parse_by_bisection(
    records: Sequence[T],
    first: int,
    parse: Callable[[Sequence[T]], Any],
    show: Callable[[T], str],
    refusals: _Refusals,
) -> list[Any]:
    """Parse records by bisection; refuse those that fail alone. ``first``: the number of the first record."""
    if not records:
        return []
    try:
        return [parse(records)]
    except _FAILURES as error:
        if len(records) == 1:
            refusals.refuse(first, show(records[0]), error)
            return []
    half = len(records) // 2
    before = _parse_by_bisection(records[:half], first, parse, show, refusals)
    return before + _parse_by_bisection(records[half:], first + half, parse, show, refusals)


def _lines(records: Any) -> bytes:
    """Return the records as bytes of whole lines. Raises ConfigError if they are not text."""
    if isinstance(records, str):
        records = records.encode()
    elif isinstance(records, Iterable) and not isinstance(records, bytes | bytearray | memoryview | Mapping):
        parts = [part.encode() if isinstance(part, str) else part for part in records]
        if not all(isinstance(part, bytes) for part in parts):
            raise ConfigError("this record writer takes text or bytes of lines, or an iterable of lines")
        records = b"\n".join(part.rstrip(b"\n") for part in parts)
    if not isinstance(records, bytes | bytearray | memoryview):
        raise ConfigError("this record writer takes text or bytes of lines, or an iterable of lines")
    return bytes(records)


@dataclass(frozen=True)
class _LineWriter:
    """Parser of text with one record per line; blank lines are skipped but counted, so that numbers are line numbers."""

    _blank: ClassVar[bytes | None] = None  # what a blank line consists of; None: white space

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for nested columns, which plain fields cannot hold."""
        for column in columns:
            if not isinstance(parse_type(column.type), Primitive):
                raise UnsupportedFeatureError(
                    f"column {column.name} ({column.type}) can't be read from delimited text or a regular "
                    "expression: use JSON lines or Arrow"
                )

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Parse a chunk of lines; any bad record in it raises an error."""
        raise NotImplementedError

    def read(
        self, records: Any, columns: tuple[Column, ...], first: int, rejects: OnReject | None
    ) -> ParsedRecords:
        """Parse lines."""
        data = _lines(records)
        count = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
        try:
            batches = [self._parse_checked(data, columns)] if self._is_filled(data) else []
            return ParsedRecords(batches, count)
        except _FAILURES:
            pass
        refusals = _Refusals(rejects)
        lines = data.split(b"\n")[:count]
        blank = [number for number, line in enumerate(lines) if not self._is_filled(line)]
        batches = []
        for start, end in _ranges_between(blank, count):
            batches += _parse_by_bisection(
                lines[start:end],
                first + start,
                lambda batch: self._parse_checked(b"\n".join(batch) + b"\n", columns),
                lambda line: line.decode(errors="replace"),
                refusals,
            )
        return ParsedRecords(batches, count, refusals.count)

    def _is_filled(self, lines: bytes) -> bool:
        return bool(lines.strip(self._blank))

    def _parse_checked(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        batch = self.parse(data, columns)
        batch.validate(full=True)  # texts in UTF-8
        expected = data.count(b"\n") + (not data.endswith(b"\n"))
        if batch.num_rows != expected and batch.num_rows != sum(
            self._is_filled(line) for line in data.split(b"\n")
        ):
            raise ValueError("a line must hold exactly one record")
        return batch


def _ranges_between(gaps: Sequence[int], end: int) -> Iterable[tuple[int, int]]:
    """Yield the ranges from 0 to ``end`` between the numbers ``gaps``."""
    start = 0
    for gap in (*gaps, end):
        if gap > start:
            yield start, gap
        start = gap + 1


@dataclass(frozen=True)
class DelimitedWriter(_LineWriter):
    r"""Lines of fields in the order of the table's columns, dynamic partition columns last.

    ``quote``: the character around fields that contain a delimiter (None, as in Hive: no quotes). ``null``: the unquoted
    text of NULL, by default Hive's ``\N``. A line has all fields, and a field has no line break. ``escape``: the character
    before a character that is part of a field; it needs a NULL text without it.
    """

    delimiter: str = ","
    quote: str | None = None
    escape: str | None = None
    null: str = "\\N"
    _blank: ClassVar[bytes | None] = b"\r\n"  # a line of white space is a field, or several between tabs

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise ConfigError for a text of NULL that contains the escape character."""
        super().check(columns)
        if self.escape and self.escape in self.null:
            # Arrow compares unescaped fields, so that \N would be the text N, and an escaped \\N would be NULL
            raise ConfigError(
                f"escape={self.escape!r}: escapes are removed before NULL is recognised, so null={self.null!r} would "
                "never match: give another text of NULL, such as null='' or null='NULL'"
            )

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Parse lines by Arrow's CSV reader."""
        names = [column.name for column in columns]
        if self.escape and not data.endswith(b"\n"):
            data += b"\n"  # shows an escape character at the end of the data
        table = pyarrow.csv.read_csv(
            pa.BufferReader(data),
            pyarrow.csv.ReadOptions(column_names=names, block_size=len(data) + 1),
            pyarrow.csv.ParseOptions(
                delimiter=self.delimiter,
                quote_char=self.quote or False,
                escape_char=self.escape or False,
                newlines_in_values=False,
                ignore_empty_lines=True,
            ),
            pyarrow.csv.ConvertOptions(
                column_types=dict.fromkeys(names, pa.string()),
                null_values=[self.null],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
            ),
        )
        breaks = "[\r\n]" if self.escape else "\n"
        if (self.quote or self.escape) and any(
            pc.any(pc.match_substring_regex(column, breaks)).as_py() for column in table.columns
        ):
            raise ValueError("a field does not end on its line: a quote is open, or a line break is escaped")
        return parse_texts(single_batch(table), columns)


@dataclass(frozen=True)
class RegexWriter(_LineWriter):
    """Lines that a regular expression (RE2) matches as a whole; its groups are the columns.

    Either no group has a name, or all have one. Groups without names are the table's columns in their order, dynamic
    partition columns last. Named groups (``(?P<name>…)``) are the columns of these names, and all other columns are NULL. A
    group that did not take part in the match is empty.
    """

    pattern: str

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise ConfigError for an expression whose groups are not the columns."""
        super().check(columns)
        LinePattern.parse(self.pattern, [column.name for column in columns])

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Match all lines at once."""
        pattern = LinePattern.parse(self.pattern, [column.name for column in columns])
        return parse_texts(pattern.extract(data.decode()), columns)


@dataclass(frozen=True)
class JsonWriter(_LineWriter):
    """One JSON object per line; its keys are column names in lower case, a missing key is NULL.

    Days and times are texts as in :func:`~hiveacid.table.cast_to_table_columns.parse_texts`; structs are objects, maps objects
    with texts as keys. ``unknown``: 'error' refuses keys that are no columns, 'ignore' skips them.
    """

    unknown: str = "error"

    def check(self, columns: tuple[Column, ...]) -> None:
        """Raise UnsupportedFeatureError for maps whose keys are not strings, as JSON requires."""
        if self.unknown not in ("error", "ignore"):
            raise ConfigError(f"unknown={self.unknown!r}: 'error' or 'ignore'")
        for column in columns:
            require_text_keys(column.name, parse_type(column.type))

    def parse(self, data: bytes, columns: tuple[Column, ...]) -> Any:
        """Parse lines by Arrow's JSON reader; for tables with maps, by Python's."""
        schema = arrow_schema(columns)
        plain = pa.schema([pa.field(target.name, json_type(target.type)) for target in schema])
        types = [parse_type(column.type) for column in columns]
        require_objects(data)
        if any(isinstance(part, Map) for hive in types for part in nested_types(hive)):
            texts = pa.RecordBatch.from_pylist(self._objects(data, columns, types), plain)
        else:
            table = pyarrow.json.read_json(
                io.BytesIO(data),
                pyarrow.json.ReadOptions(block_size=len(data) + 1),
                pyarrow.json.ParseOptions(explicit_schema=plain, unexpected_field_behavior=self.unknown),
            )
            texts = single_batch(table.select(plain.names))
        arrays = [cast(values, target.type) for values, target in zip(texts.columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _objects(
        self, data: bytes, columns: tuple[Column, ...], types: Sequence[HiveType]
    ) -> list[dict[str, object]]:
        types_by_name = {column.name: of for column, of in zip(columns, types, strict=True)}
        rows = []
        for line in data.split(b"\n"):
            if not line.strip():
                continue
            record = parse_object(line)
            unknown = [name for name in record if name not in types_by_name]
            if unknown and self.unknown == "error":
                near = did_you_mean(str(unknown[0]), types_by_name)
                raise ValueError(f"unexpected field {unknown[0]}{near}")
            rows.append({name: json_value(record.get(name), of) for name, of in types_by_name.items()})
        return rows


@dataclass(frozen=True)
class DictWriter:
    """Python dicts from column name to value; a missing key is NULL. Values are as Arrow expects, and lose nothing.

    A TIMESTAMP is a datetime without zone, a TIMESTAMP WITH LOCAL TIME ZONE one with a zone, a DATE no datetime. Structs
    are dicts, whose keys are compared without case, or tuples.
    """

    def check(self, columns: tuple[Column, ...]) -> None:
        """Accept every column."""

    def read(
        self, records: Any, columns: tuple[Column, ...], first: int, rejects: OnReject | None
    ) -> ParsedRecords:
        """Convert one dict or several."""
        rows = [records] if isinstance(records, Mapping) else list(records)
        if not all(isinstance(row, Mapping) for row in rows):
            raise ConfigError("write() takes a dict or an iterable of dicts here")
        schema = arrow_schema(columns)
        types = {column.name: parse_type(column.type) for column in columns}

        def parse(batch: Sequence[Mapping[str, object]]) -> Any:
            unknown = set().union(*batch) - types.keys()
            if unknown:
                raise ValueError(f"unexpected field {min(map(str, unknown))}")
            arrays = [
                array_of_python_values([row.get(name) for row in batch], hive) for name, hive in types.items()
            ]
            return pa.RecordBatch.from_arrays(arrays, schema=schema)

        refusals = _Refusals(rejects)
        return ParsedRecords(
            _parse_by_bisection(rows, first, parse, repr, refusals), len(rows), refusals.count
        )


@dataclass(frozen=True)
class ArrowWriter:
    """Arrow record batches, tables and readers; columns are matched by name."""

    rows: int = field(default=1_000_000)
    """Rows of a table that are cast together, at most."""

    def check(self, columns: tuple[Column, ...]) -> None:
        """Accept every column."""

    def read(
        self, records: Any, columns: tuple[Column, ...], first: int, rejects: OnReject | None
    ) -> ParsedRecords:
        """Cast batches to the table's types."""
        refusals = _Refusals(rejects)
        done: list[Any] = []
        offset = 0
        for batch in self._batches(records):
            start = first + offset
            offset += batch.num_rows
            try:
                done.append(_cast_valid(batch, columns))
                continue
            except SchemaMismatchError:
                raise
            except _FAILURES:
                rows = range(batch.num_rows)
            # take, not slice, because nested arrays are validated as a whole
            done += _parse_by_bisection(
                rows,
                start,
                lambda some, batch=batch: _cast_valid(batch.take(pa.array(some)), columns),  # type: ignore[misc]
                lambda row, batch=batch: _show_row(batch.slice(row, 1)),  # type: ignore[misc]
                refusals,
            )
        return ParsedRecords(done, offset, refusals.count)

    def _batches(self, records: Any) -> Iterable[Any]:
        if isinstance(records, pa.RecordBatch):
            yield records
        elif isinstance(records, pa.Table):
            for offset in range(0, records.num_rows, self.rows):
                yield records.slice(offset, self.rows)
        elif isinstance(records, pa.RecordBatchReader):
            yield from records
        else:
            raise ConfigError("write() takes Arrow's record batches, tables and readers here")


def _cast_valid(batch: Any, columns: tuple[Column, ...]) -> Any:
    batch.validate(full=True)  # Arrow's own functions do not check, for example, that texts are UTF-8
    return cast_columns(batch, columns)


def _show_row(row: Any) -> str:
    try:
        return repr(row.to_pylist()[0])
    except UnicodeDecodeError:
        return "a row with a text that is not UTF-8"


def writer_for(records: object) -> RecordWriter:
    """Return the writer for Arrow data or dicts. Raises ConfigError for text, whose format is not known."""
    if isinstance(records, pa.RecordBatch | pa.Table | pa.RecordBatchReader):
        return ArrowWriter()
    if isinstance(records, str | bytes | bytearray | memoryview):
        raise ConfigError(
            "text needs a record writer: writer=JsonWriter(), DelimitedWriter() or RegexWriter()"
        )
    return DictWriter()
