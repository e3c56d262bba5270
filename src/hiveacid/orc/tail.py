"""Tail of an ORC file: postscript, footer and stripe statistics (ORC specification, ``orc_proto.proto``).

A plan reads the tails of many files. Files of one table repeat their types, postscripts and many statistics byte for byte, so
that these are parsed once; what a plan does not need is parsed when it is asked for.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NamedTuple, NoReturn

from hiveacid.core.format.acid_columns import AcidColumn, Range
from hiveacid.core.schema.types import LOCAL_TIMESTAMP, Array, Field, HiveType, Map, Primitive, Struct, Union
from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.orc.column_statistics import StatisticsList, decode_statistics
from hiveacid.orc.wire_format import (
    DEFAULT_BLOCK_SIZE,
    MAX_BLOCK,
    MAX_SECTION,
    Compression,
    ProtobufMessage,
    WireError,
    decompress,
    encode_field,
    read_fields,
)
from hiveacid.ports.file_system import FileSystem

_ACID_NAMES = [name.lower() for name in AcidColumn]
FIRST_READ = 16 * 1024
"""Bytes of the first read from a file's end, which usually hold the whole tail."""
_MAGIC = b"ORC"
_FOOTER_LENGTH, _METADATA_LENGTH = 1, 5  # of the postscript
_STRIPES, _TYPES, _USER_METADATA, _ROWS, _STATISTICS, _STRIDE, _WRITER, _CALENDAR = 3, 4, 5, 6, 7, 8, 9, 11
"""Fields of the footer."""
# Limits for the numbers in a tail: no writer reaches them, and they protect a reader's memory and time.
_MAX_ROWS = 1 << 48
_MAX_DIGITS = 38
_MAX_NUMBER = (1 << 32) - 1  # ORC keeps all other numbers as 32-bit integers
_MAX_DEPTH = 100  # types in types
_STRIPE_FIELDS = 64  # the specification has seven
_STRIPE_FOOTER_FIELDS_PER_COLUMN = 16  # streams and encodings
_STREAMS, _WRITER_TIME_ZONE = 1, 3  # of a stripe's footer
_STREAM_KIND, _STREAM_COLUMN, _STREAM_LENGTH = 1, 2, 3
_INDEX_STREAMS = (6, 7, 8)  # row index and Bloom filters, which precede the values
_TYPE_FIELDS = 12  # on average for a type: names and children count for the parent
_METADATA_FIELDS = 8
_LONGEST_FOOTER, _LONGEST_STATISTICS = 1 << 18, 100  # bytes; hostile ones must not fill the caches
_READABLE_CODECS = (Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)


class OrcKind(IntEnum):
    """ORC's types (``Type.Kind``)."""

    BOOLEAN = 0
    BYTE = 1
    SHORT = 2
    INT = 3
    LONG = 4
    FLOAT = 5
    DOUBLE = 6
    STRING = 7
    BINARY = 8
    TIMESTAMP = 9
    LIST = 10
    MAP = 11
    STRUCT = 12
    UNION = 13
    DECIMAL = 14
    DATE = 15
    VARCHAR = 16
    CHAR = 17
    TIMESTAMP_INSTANT = 18


_CHILDREN = {
    OrcKind.LIST: (1,),
    OrcKind.MAP: (2,),
    OrcKind.STRUCT: range(1 << 32),
    OrcKind.UNION: range(1, 1 << 32),
}
"""Allowed numbers of children by type; every other type has none."""


@dataclass(frozen=True)
class OrcType:
    """One node of the type tree; ``children`` are column ids, ``names`` those of a struct's fields."""

    kind: OrcKind
    children: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    maximum_length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True)
class Stripe:
    """A stripe: its extent in bytes and its rows. ``packed``: its statistics as they are in the file.

    ``footer_length``: bytes of its footer, which ends it.
    """

    offset: int
    length: int
    rows: int
    columns: int = field(repr=False)
    path: str = field(repr=False)
    packed: bytes | None = field(repr=False)
    footer_length: int = field(default=0, repr=False)

    @cached_property
    def statistics(self) -> StatisticsList:
        """Statistics by column id, empty if there are none; decoded on access. Raises BadFileError."""
        if self.packed is None:
            return StatisticsList(self.path, ())
        try:
            return _statistics(
                self.path, ProtobufMessage.parse(self.packed).all_data(1), self.columns, self.rows
            )
        except WireError as error:
            raise _bad_file_error(self.path, error) from error


@dataclass(frozen=True)
class TailBytes:
    """Footer and postscript as messages, the offset of the footer, and the section before it, for rewriting a tail.

    ``metadata``: statistics of the stripes, as they are in the file; ``max_section``: bytes that it may have decompressed.
    """

    footer_start: int
    metadata: bytes = field(repr=False)
    footer: ProtobufMessage = field(repr=False)
    postscript: ProtobufMessage = field(repr=False)
    block_size: int
    max_section: int

    def with_postscript(self, footer: bytes, metadata: bytes | None = None) -> bytes:
        """Return a new footer, followed by a postscript with its length and, if given, the length of ``metadata``."""
        lengths = {_FOOTER_LENGTH: len(footer)} | (
            {} if metadata is None else {_METADATA_LENGTH: len(metadata)}
        )
        postscript = b"".join(
            encode_field(number, lengths.get(number, value), wire)
            for number, wire, value in self.postscript.fields
        )
        return footer + postscript + bytes([len(postscript)])


_NO_BYTES = TailBytes(0, b"", ProtobufMessage(()), ProtobufMessage(()), DEFAULT_BLOCK_SIZE, MAX_SECTION)


@dataclass(frozen=True)
class OrcColumns:
    """Types of a file, by column id. ``schema``: the user's columns, the fields of ``row`` in an ACID file, else of the root.

    ``is_acid``: ORC readers treat the file as one of ACID events, as its root has the six names in order, in any case. A root
    that is not a struct is one field called ``_col0``.
    """

    types: tuple[OrcType, ...] = ()
    is_acid: bool = False
    schema: Struct = field(default_factory=lambda: Struct(()))


@dataclass(frozen=True)
class OrcTail:
    """An ORC file as its last bytes describe it; a file of 0 bytes has no types and no rows.

    Types and statistics are indexed by column id (the root is 0, children follow in pre-order); statistics are empty where
    the writer made none. ``extents``: offset, length, rows and length of the footer of each stripe.
    ``row_index_stride``: rows of a row group, 0 without a row index (minor compactions of Hive 3.1).
    ``writer_version``: as the postscript has it.
    """

    path: str
    size: int
    number_of_rows: int = 0
    compression: Compression = Compression.NONE
    columns: OrcColumns = field(default_factory=OrcColumns)
    column_statistics: StatisticsList = field(default_factory=lambda: StatisticsList("", ()))
    extents: tuple[tuple[int, int, int, int], ...] = ()
    row_index_stride: int = 0
    writer_version: int = 0
    source: TailBytes = field(default=_NO_BYTES, repr=False)

    @property
    def types(self) -> tuple[OrcType, ...]:
        """Return the nodes of the type tree."""
        return self.columns.types

    @property
    def is_acid(self) -> bool:
        """Tell whether ORC readers treat the file as one of ACID events."""
        return self.columns.is_acid

    @cached_property
    def stripes(self) -> tuple[Stripe, ...]:
        """Stripes with their statistics. Raises BadFileError."""
        try:
            packed = self._packed_statistics()
        except WireError as error:
            raise _bad_file_error(self.path, error) from error
        return tuple(
            Stripe(offset, length, rows, len(self.types), self.path, statistics, footer_length)
            for (offset, length, rows, footer_length), statistics in zip(self.extents, packed, strict=True)
        )

    def _packed_statistics(self) -> Sequence[bytes | None]:
        source = self.source
        metadata = decompress(source.metadata, self.compression, source.block_size, source.max_section)
        statistics = ProtobufMessage.parse(metadata).all_data(1)
        if statistics and len(statistics) != len(self.extents):
            _raise_wire_error("statistics of another number of stripes")
        return statistics or [None] * len(self.extents)

    @cached_property
    def user_metadata(self) -> Mapping[str, bytes]:
        """Texts that writers have added. Raises BadFileError."""
        packed = self.source.footer.all_data(_USER_METADATA)
        try:
            entries = [ProtobufMessage.parse(raw, _METADATA_FIELDS) for raw in packed]
            return {entry.text(1) or "": entry.data(2) or b"" for entry in entries}
        except WireError as error:
            raise _bad_file_error(self.path, error) from error

    @property
    def writer(self) -> int:
        """Return the software that wrote the file: 0 Java, 1 C++, 3 Trino."""
        return self.source.footer.integer(_WRITER) or 0

    @property
    def calendar(self) -> int:
        """Return the calendar of dates and times: 0 not marked, 1 hybrid Julian and Gregorian, 2 proleptic Gregorian."""
        return self.source.footer.integer(_CALENDAR) or 0


def read_tail(fs: FileSystem, path: str, size: int, *, lazily: bool = False) -> OrcTail:
    """Read a file's tail; usually one read of 16 KiB from the end.

    ``size``: the file's length in bytes, or less if only a part may be read (``_flush_length``). A size of 0 is an
    empty file. ``lazily``: damage in the statistics of stripes and in metadata is found when they are asked for. Raises
    BadFileError for a file that is damaged, cut off or not ORC, UnsupportedFeatureError for the codecs LZO and Brotli,
    and StorageError.
    """
    if size == 0:
        return OrcTail(path, 0)
    data = _read(fs, path, size, min(size, FIRST_READ))
    try:
        postscript = _postscript(data)
        need = 1 + data[-1] + postscript.footer_length + postscript.metadata_length
        if need > size:
            _raise_wire_error("the tail is longer than the file")
        if need > MAX_SECTION:
            _raise_wire_error(f"the tail has more than {MAX_SECTION} bytes")
        if need > len(data):
            data = _read(fs, path, size, need)
        tail = _parse(path, size, data, postscript)
    except WireError as error:
        raise _bad_file_error(path, error) from error
    return tail if lazily else _whole(tail)


def _whole(tail: OrcTail) -> OrcTail:
    """Parse all of a tail. Raises BadFileError."""
    _ = tail.stripes, tail.user_metadata
    return tail


def writer_time_zone(fs: FileSystem, tail: OrcTail, stripe: Stripe) -> str:
    """Return the time zone of a stripe's timestamps, as its writer named it; '' if it has no name.

    Raises BadFileError, StorageError.
    """
    start = stripe.offset + stripe.length - stripe.footer_length
    footer = _stripe_footer(tail, fs.read_bytes(tail.path, start, stripe.footer_length))
    try:
        return footer.text(_WRITER_TIME_ZONE) or ""
    except WireError as error:
        raise _bad_file_error(tail.path, error) from error


def data_streams(tail: OrcTail, stripe: Stripe, footer: bytes) -> list[tuple[int, int, int]]:
    """Return the streams of a stripe's values: column id, first byte in the file, and the byte after the last.

    ``footer``: of the stripe. Raises BadFileError.
    """
    found, start = [], stripe.offset
    try:
        for packed in _stripe_footer(tail, footer).all_data(_STREAMS):
            stream = ProtobufMessage.parse(packed)
            stop = start + (stream.integer(_STREAM_LENGTH) or 0)
            if (stream.integer(_STREAM_KIND) or 0) not in _INDEX_STREAMS:
                found.append((stream.integer(_STREAM_COLUMN) or 0, start, stop))
            start = stop
    except WireError as error:
        raise _bad_file_error(tail.path, error) from error
    return found


def _stripe_footer(tail: OrcTail, data: bytes) -> ProtobufMessage:
    """Parse the footer of a stripe. Raises BadFileError."""
    fields = _STRIPE_FOOTER_FIELDS_PER_COLUMN * (2 + len(tail.types))
    try:
        return ProtobufMessage.parse(decompress(data, tail.compression, tail.source.block_size), fields)
    except WireError as error:
        raise _bad_file_error(tail.path, error) from error


def parse_tail(
    data: bytes, size: int, path: str, max_section: int = MAX_SECTION, *, lazily: bool = False
) -> OrcTail:
    """Read the tail of a file of ``size`` bytes from its last bytes, in memory; ``lazily`` as in `read_tail`.

    ``max_section``: maximum size of its decompressed sections in bytes. Raises BadFileError.
    """
    try:
        tail = _parse(path, size, data, _postscript(data), max_section)
        return tail if lazily else _whole(tail)
    except WireError as error:
        raise _bad_file_error(path, error) from error


def _read(fs: FileSystem, path: str, size: int, length: int) -> bytes:
    data = fs.read_bytes(path, size - length, length)
    if len(data) != length:
        raise BadFileError(f"the file is shorter than {size} bytes", path=path)
    return data


def _raise_wire_error(message: str) -> NoReturn:
    raise WireError(message)


def _bad_file_error(path: str, error: WireError) -> BadFileError:
    return BadFileError(f"not an ORC file, or damaged ({error})", path=path)


class _Postscript(NamedTuple):
    message: ProtobufMessage
    footer_length: int
    metadata_length: int
    compression: Compression
    block_size: int
    writer_version: int


def _postscript(data: bytes) -> _Postscript:
    length = data[-1] if data else 0
    if length + 1 > len(data):
        _raise_wire_error("the file is too short")
    return _parse_postscript(data[-1 - length : -1])


@lru_cache(maxsize=1000)
def _parse_postscript(data: bytes) -> _Postscript:
    """Return the postscript. Files of one table have few different ones, so that each is parsed once."""
    message = ProtobufMessage.parse(data)
    if message.data(8000) != _MAGIC:
        _raise_wire_error("it does not end with ORC's postscript")
    try:
        compression = Compression(message.integer(2) or 0)
    except ValueError:
        _raise_wire_error("unknown compression")
    return _Postscript(
        message,
        message.integer(_FOOTER_LENGTH) or 0,
        message.integer(_METADATA_LENGTH) or 0,
        compression,
        _require_at_most(message.integer(3), MAX_BLOCK) or DEFAULT_BLOCK_SIZE,
        _require_at_most(message.integer(6), _MAX_NUMBER),
    )


def _parse(
    path: str, size: int, data: bytes, postscript: _Postscript, max_section: int = MAX_SECTION
) -> OrcTail:
    """Parse a tail; ``data``: the file's end, as much as footer and metadata take at least."""
    compression = postscript.compression
    if compression not in _READABLE_CODECS:
        raise UnsupportedFeatureError(f"ORC compression {compression.name} is not supported: {path}")
    end = len(data) - 1 - data[-1]
    start = end - postscript.footer_length
    begin = start - postscript.metadata_length
    if begin < 0:
        _raise_wire_error("the tail is longer than the file")
    footer = decompress(data[start:end], compression, postscript.block_size, max_section)
    fields = read_fields(footer)
    by_number: dict[int, list[int | bytes]] = {}
    for number, _, value in fields:
        by_number.setdefault(number, []).append(value)

    def integer(number: int, limit: int = _MAX_NUMBER) -> int:
        values = by_number.get(number, ())
        return _require_at_most(next((v for v in reversed(values) if isinstance(v, int)), None), limit)

    def all_data(number: int) -> tuple[bytes, ...]:
        return tuple([value for value in by_number.get(number, ()) if isinstance(value, bytes)])

    packed, rows = all_data(_TYPES), integer(_ROWS, _MAX_ROWS)
    columns = (_columns if len(footer) <= _LONGEST_FOOTER else _columns.__wrapped__)(packed)
    return OrcTail(
        path=path,
        size=size,
        number_of_rows=rows,
        compression=compression,
        columns=columns,
        column_statistics=_statistics(path, all_data(_STATISTICS), len(columns.types), rows),
        extents=_extents(all_data(_STRIPES), rows, size),
        row_index_stride=integer(_STRIDE),
        writer_version=postscript.writer_version,
        source=TailBytes(
            size - (len(data) - end) - postscript.footer_length,
            data[begin:start],
            ProtobufMessage(tuple(fields)),
            postscript.message,
            postscript.block_size,
            max_section,
        ),
    )


def _extents(packed: Sequence[bytes], rows: int, size: int) -> tuple[tuple[int, int, int, int], ...]:
    extents = []
    for raw in packed:
        facts = {n: fact for n, _, fact in read_fields(raw, _STRIPE_FIELDS) if isinstance(fact, int)}
        offset, footer_length = facts.get(1, 0), facts.get(4, 0)
        length = facts.get(2, 0) + facts.get(3, 0) + footer_length
        if offset + length > size:
            _raise_wire_error("a stripe lies outside the file")
        extents.append((offset, length, _require_at_most(facts.get(5), _MAX_ROWS), footer_length))
    if sum(rows_of_stripe for _, _, rows_of_stripe, _ in extents) != rows:
        _raise_wire_error("the stripes have another number of rows than the file")
    return tuple(extents)


def _require_at_most(number: int | None, limit: int) -> int:
    """Return a number, 0 for None. Raises WireError for a number above ``limit``."""
    if number is not None and number > limit:
        _raise_wire_error(f"{number} is above {limit}")
    return number or 0


def _statistics(path: str, raw: tuple[bytes, ...], columns: int, rows: int) -> StatisticsList:
    if raw and len(raw) != columns:
        _raise_wire_error("there are statistics of another number of columns")
    # Java's writer collects statistics together with the row index. Without an index (minor compactions of Hive 3.1)
    # they wrongly say 'no values'; the count of the root then differs from the number of rows.
    if raw and count_and_range(raw[0])[0] != rows:
        raw = ()
    return StatisticsList(path, raw)


def count_and_range(statistics: bytes) -> tuple[int | None, Range | None]:
    """Return the number of values and the range of an integer column from its statistics. Raises WireError."""
    short = len(statistics) <= _LONGEST_STATISTICS
    return (_count_and_range if short else _count_and_range.__wrapped__)(statistics)


@lru_cache(maxsize=10_000)
def _count_and_range(statistics: bytes) -> tuple[int | None, Range | None]:
    column = decode_statistics(statistics)
    return column.count, column.integers


@lru_cache(maxsize=200)
def _columns(packed: tuple[bytes, ...]) -> OrcColumns:
    """Return the types that a footer lists. Raises WireError."""
    types = _parse_types(packed)
    root, is_acid = types[0], False
    if root.kind is OrcKind.STRUCT and [name.lower() for name in root.names] == _ACID_NAMES:
        is_acid = types[root.children[-1]].kind is OrcKind.STRUCT
    schema = _hive_type(types, AcidColumn.ROW.orc_id if is_acid else 0)
    return OrcColumns(
        types, is_acid, schema if isinstance(schema, Struct) else Struct((Field("_col0", schema),))
    )


def _parse_types(packed: tuple[bytes, ...]) -> tuple[OrcType, ...]:
    if not packed:
        _raise_wire_error("the footer has no types")
    left = _TYPE_FIELDS * (len(packed) + 1)
    types = []
    for raw in packed:
        message = ProtobufMessage.parse(raw, left)
        left -= len(message.fields)
        types.append(_type(message))
    _require_tree(types)
    return tuple(types)


def _require_tree(types: Sequence[OrcType]) -> None:
    """Refuse types whose column ids are not those of a tree in pre-order, or that are nested too deeply."""
    todo, expected = [(0, 0)], 0
    while todo:
        column_id, depth = todo.pop()
        if column_id != expected or column_id >= len(types) or depth > _MAX_DEPTH:
            _raise_wire_error(
                "the types are no tree"
                if depth <= _MAX_DEPTH
                else f"types are nested more than {_MAX_DEPTH} deep"
            )
        expected += 1
        todo.extend((child, depth + 1) for child in reversed(types[column_id].children))
    if expected != len(types):
        _raise_wire_error("the types are no tree")


def _type(message: ProtobufMessage) -> OrcType:
    try:
        kind = OrcKind(message.integer(1) or 0)
    except ValueError:
        _raise_wire_error("unknown type")
    children, names = message.integers(2), message.all_text(3)
    if kind is OrcKind.STRUCT and len(names) != len(children):
        _raise_wire_error("a struct has fields without names")
    if len(children) not in _CHILDREN.get(kind, range(1)):
        _raise_wire_error(f"a type {kind.name} has {len(children)} parts")
    length, precision, scale = map(message.integer, (4, 5, 6))
    if max(precision or 0, scale or 0) > _MAX_DIGITS or (length or 0) > _MAX_NUMBER:
        _raise_wire_error("a type has a length, precision or scale that cannot be")
    return OrcType(kind, children, names, length, precision, scale)


HIVE_NAMES = {
    OrcKind.BOOLEAN: "boolean",
    OrcKind.BYTE: "tinyint",
    OrcKind.SHORT: "smallint",
    OrcKind.INT: "int",
    OrcKind.LONG: "bigint",
    OrcKind.FLOAT: "float",
    OrcKind.DOUBLE: "double",
    OrcKind.STRING: "string",
    OrcKind.BINARY: "binary",
    OrcKind.TIMESTAMP: "timestamp",
    OrcKind.DATE: "date",
    OrcKind.TIMESTAMP_INSTANT: LOCAL_TIMESTAMP,
}
"""Hive's names of the types without lengths or digits."""
_OLD_DECIMAL = (38, 18)  # precision and scale of a decimal for which Hive 0.11 and 0.12 wrote none


def _hive_type(types: Sequence[OrcType], column_id: int) -> HiveType:
    node = types[column_id]
    match node.kind:
        case OrcKind.STRUCT:
            fields = zip(node.names, node.children, strict=True)
            return Struct(tuple(Field(name, _hive_type(types, child)) for name, child in fields))
        case OrcKind.LIST:
            return Array(_hive_type(types, node.children[0]))
        case OrcKind.MAP:
            key, value = (_hive_type(types, child) for child in node.children)
            return Map(key, value)
        case OrcKind.UNION:
            return Union(tuple(_hive_type(types, child) for child in node.children))
    return _primitive(node)


def _primitive(node: OrcType) -> Primitive:
    match node.kind:
        case OrcKind.DECIMAL:
            precision, scale = _OLD_DECIMAL if not node.precision else (node.precision, node.scale or 0)
            return Primitive("decimal", (precision, scale))
        case OrcKind.VARCHAR | OrcKind.CHAR:
            name = "varchar" if node.kind is OrcKind.VARCHAR else "char"
            return Primitive(name, (node.maximum_length or 0,))
    return Primitive(HIVE_NAMES[node.kind])
