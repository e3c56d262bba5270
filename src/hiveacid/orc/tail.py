"""Tail of an ORC file: postscript, footer and stripe statistics (ORC specification, ``orc_proto.proto``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from functools import cached_property, lru_cache
from typing import NoReturn

from hiveacid.core.format.acid_columns import AcidColumn
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
)
from hiveacid.ports.file_system import FileSystem

_ACID_NAMES = [name.lower() for name in AcidColumn]
FIRST_READ = 16 * 1024
"""Bytes of the first read from a file's end, which usually hold the whole tail."""
_MAGIC = b"ORC"
_FOOTER_LENGTH, _METADATA_LENGTH = 1, 5  # of the postscript
_CALENDAR = 11  # of the footer
# Limits for the numbers in a tail: no writer reaches them, and they protect a reader's memory and time.
_MAX_ROWS = 1 << 48
_MAX_DIGITS = 38
_MAX_NUMBER = (1 << 32) - 1  # ORC keeps all other numbers as 32-bit integers
_MAX_DEPTH = 100  # types in types
_STRIPE_FIELDS = 64  # the specification has seven
_STRIPE_FOOTER_FIELDS_PER_COLUMN = 16  # streams and encodings
_WRITER_TIME_ZONE = 3  # of a stripe's footer
_TYPE_FIELDS = 12  # on average for a type: names and children count for the parent
_METADATA_FIELDS = 8
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

    ``metadata``: statistics of the stripes, as they are in the file.
    """

    footer_start: int
    metadata: bytes = field(repr=False)
    footer: ProtobufMessage = field(repr=False)
    postscript: ProtobufMessage = field(repr=False)
    block_size: int

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


@dataclass(frozen=True)
class OrcTail:
    """An ORC file as its last bytes describe it; a file of 0 bytes has no types, rows or ``source``.

    ``types`` and the statistics are indexed by column id (the root is 0, children follow in pre-order);
    statistics are empty where the writer made none.
    ``row_index_stride``: rows of a row group, 0 without a row index (minor compactions of Hive 3.1).
    ``writer``: 0 Java, 1 C++, 3 Trino …; ``writer_version`` as the postscript has it.
    """

    path: str
    size: int
    number_of_rows: int = 0
    compression: Compression = Compression.NONE
    types: tuple[OrcType, ...] = ()
    column_statistics: StatisticsList = field(default_factory=lambda: StatisticsList("", ()))
    stripes: tuple[Stripe, ...] = ()
    user_metadata: Mapping[str, bytes] = field(default_factory=dict)
    row_index_stride: int = 0
    writer: int = 0
    writer_version: int = 0
    software_version: str = ""
    source: TailBytes | None = field(default=None, repr=False)

    @property
    def calendar(self) -> int:
        """Return the calendar of dates and times: 0 not marked, 1 hybrid Julian and Gregorian, 2 proleptic Gregorian."""
        return 0 if self.source is None else self.source.footer.integer(_CALENDAR) or 0

    @property
    def is_acid(self) -> bool:
        """Tell whether ORC readers treat the file as one of ACID events: its root has the six names in order, in any case."""
        root = self.types[0] if self.types else OrcType(OrcKind.STRUCT)
        if root.kind is not OrcKind.STRUCT or [name.lower() for name in root.names] != _ACID_NAMES:
            return False
        return self.types[root.children[-1]].kind is OrcKind.STRUCT


def read_tail(fs: FileSystem, path: str, size: int) -> OrcTail:
    """Read a file's tail; usually one read of 16 KiB from the end.

    ``size``: the file's length in bytes, or less if only a part may be read (``_flush_length``). A size of 0 is an
    empty file. Raises BadFileError for a file that is damaged, cut off or not ORC, UnsupportedFeatureError for the
    codecs LZO and Brotli, and StorageError.
    """
    if size == 0:
        return OrcTail(path, 0)
    return tail_from_end(fs, path, size, _read(fs, path, size, min(size, FIRST_READ)))


def tail_from_end(fs: FileSystem, path: str, size: int, data: bytes) -> OrcTail:
    """Read a file's tail as `read_tail` does; ``data``: the last bytes of the file, as many as were read."""
    try:
        postscript = _postscript(data)
        need = (
            1
            + data[-1]
            + sum(postscript.integer(number) or 0 for number in (_FOOTER_LENGTH, _METADATA_LENGTH))
        )
        if need > size:
            _raise_wire_error("the tail is longer than the file")
        if need > MAX_SECTION:
            _raise_wire_error(f"the tail has more than {MAX_SECTION} bytes")
        if need > len(data):
            data = _read(fs, path, size, need)
        return _Parser(path, size, data, postscript).parse()
    except WireError as error:
        raise _bad_file_error(path, error) from error


def writer_time_zone(fs: FileSystem, tail: OrcTail, stripe: Stripe) -> str:
    """Return the time zone of a stripe's timestamps, as its writer named it; '' if it has no name.

    Raises BadFileError, StorageError.
    """
    start = stripe.offset + stripe.length - stripe.footer_length
    data = fs.read_bytes(tail.path, start, stripe.footer_length)
    block_size = DEFAULT_BLOCK_SIZE if tail.source is None else tail.source.block_size
    try:
        footer = ProtobufMessage.parse(
            decompress(data, tail.compression, block_size),
            _STRIPE_FOOTER_FIELDS_PER_COLUMN * (2 + len(tail.types)),
        )
        return footer.text(_WRITER_TIME_ZONE) or ""
    except WireError as error:
        raise _bad_file_error(tail.path, error) from error


def parse_tail(data: bytes, size: int, path: str, max_section: int = MAX_SECTION) -> OrcTail:
    """Read the tail of a file of ``size`` bytes from its last bytes, in memory.

    ``max_section``: maximum size of its decompressed sections in bytes. Raises BadFileError.
    """
    try:
        return _Parser(path, size, data, _postscript(data), max_section).parse()
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


def _postscript(data: bytes) -> ProtobufMessage:
    length = data[-1] if data else 0
    if length + 1 > len(data):
        _raise_wire_error("the file is too short")
    return parse_postscript(data[-1 - length : -1])


@lru_cache(maxsize=1000)
def parse_postscript(data: bytes) -> ProtobufMessage:
    """Return the postscript. Files of one table have few different ones, so that each is parsed once."""
    postscript = ProtobufMessage.parse(data)
    if postscript.data(8000) != _MAGIC:
        _raise_wire_error("it does not end with ORC's postscript")
    return postscript


@dataclass(frozen=True)
class _Parser:
    path: str
    size: int
    data: bytes  # the file's end, as much as footer and metadata take at least
    postscript: ProtobufMessage
    max_section: int = MAX_SECTION

    def parse(self) -> OrcTail:
        end = len(self.data) - 1 - self.data[-1]
        footer_length = self.postscript.integer(_FOOTER_LENGTH) or 0
        metadata_length = self.postscript.integer(_METADATA_LENGTH) or 0
        footer = ProtobufMessage.parse(self._section(end - footer_length, end))
        begin = end - footer_length - metadata_length
        metadata = self._section(begin, end - footer_length)
        types = parse_types(footer.all_data(4))
        rows = _require_at_most(footer.integer(6), _MAX_ROWS)
        entries = (ProtobufMessage.parse(raw, _METADATA_FIELDS) for raw in footer.all_data(5))
        return OrcTail(
            path=self.path,
            size=self.size,
            number_of_rows=rows,
            compression=self._compression,
            types=types,
            column_statistics=_statistics(self.path, footer.all_data(7), len(types), rows),
            stripes=self._stripes(footer, ProtobufMessage.parse(metadata), len(types)),
            user_metadata={entry.text(1) or "": entry.data(2) or b"" for entry in entries},
            row_index_stride=_require_at_most(footer.integer(8), _MAX_NUMBER),
            writer=_require_at_most(footer.integer(9), _MAX_NUMBER),
            writer_version=_require_at_most(self.postscript.integer(6), _MAX_NUMBER),
            software_version=footer.text(12) or "",
            source=TailBytes(
                self.size - (len(self.data) - end) - footer_length,
                self.data[begin : end - footer_length],
                footer,
                self.postscript,
                self._block_size,
            ),
        )

    @cached_property
    def _block_size(self) -> int:
        return _require_at_most(self.postscript.integer(3), MAX_BLOCK) or DEFAULT_BLOCK_SIZE

    @cached_property
    def _compression(self) -> Compression:
        try:
            kind = Compression(self.postscript.integer(2) or 0)
        except ValueError:
            _raise_wire_error("unknown compression")
        if kind not in _READABLE_CODECS:
            raise UnsupportedFeatureError(f"ORC compression {kind.name} is not supported: {self.path}")
        return kind

    def _section(self, start: int, end: int) -> bytes:
        if start < 0:
            _raise_wire_error("the tail is longer than the file")
        return decompress(self.data[start:end], self._compression, self._block_size, self.max_section)

    def _stripes(
        self, footer: ProtobufMessage, metadata: ProtobufMessage, columns: int
    ) -> tuple[Stripe, ...]:
        infos = [ProtobufMessage.parse(raw, _STRIPE_FIELDS) for raw in footer.all_data(3)]
        statistics: Sequence[bytes | None] = metadata.all_data(1)
        if statistics and len(statistics) != len(infos):
            _raise_wire_error("statistics of another number of stripes")
        statistics = statistics or [None] * len(infos)
        stripes = []
        for info, packed in zip(infos, statistics, strict=True):
            length = sum(info.integer(number) or 0 for number in (2, 3, 4))
            offset = info.integer(1) or 0
            if offset + length > self.size:
                _raise_wire_error("a stripe lies outside the file")
            rows = _require_at_most(info.integer(5), _MAX_ROWS)
            stripes.append(Stripe(offset, length, rows, columns, self.path, packed, info.integer(4) or 0))
        if sum(stripe.rows for stripe in stripes) != (footer.integer(6) or 0):
            _raise_wire_error("the stripes have another number of rows than the file")
        return tuple(stripes)


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
    if raw and decode_statistics(raw[0]).count != rows:
        raw = ()
    return StatisticsList(path, raw)


@lru_cache(maxsize=100)  # the files of a table have the same
def parse_types(packed: tuple[bytes, ...]) -> tuple[OrcType, ...]:
    """Return the types that a footer lists. Raises WireError."""
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


def row_schema(tail: OrcTail) -> Struct:
    """Return the user's columns of a file: the fields of ``row`` in an ACID file, else those of the root.

    A root that is not a struct is one field called ``_col0``; a file of 0 bytes has no fields.
    """
    if not tail.types:
        return Struct(())
    root = _hive_type(tail, AcidColumn.ROW.orc_id if tail.is_acid else 0)
    return root if isinstance(root, Struct) else Struct((Field("_col0", root),))


def _hive_type(tail: OrcTail, column_id: int) -> HiveType:
    node = tail.types[column_id]
    match node.kind:
        case OrcKind.STRUCT:
            fields = zip(node.names, node.children, strict=True)
            return Struct(tuple(Field(name, _hive_type(tail, child)) for name, child in fields))
        case OrcKind.LIST:
            return Array(_hive_type(tail, node.children[0]))
        case OrcKind.MAP:
            key, value = (_hive_type(tail, child) for child in node.children)
            return Map(key, value)
        case OrcKind.UNION:
            return Union(tuple(_hive_type(tail, child) for child in node.children))
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
