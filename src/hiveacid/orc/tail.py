"""The tail of an ORC file: postscript, footer and stripe statistics (ORC specification, ``orc_proto.proto``)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from typing import NoReturn

from hiveacid.errors import BadFileError, UnsupportedFeatureError
from hiveacid.orc.compression import DEFAULT_BLOCK_SIZE, Compression, decompress
from hiveacid.orc.protobuf import Message, WireError
from hiveacid.orc.statistics import StatisticsList, decode_statistics
from hiveacid.ports import FileSystem

ACID_FIELDS = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")
"""Root fields of a file with ACID events (``OrcRecordUpdater``), in this order."""
OPERATION, ORIGINAL_WRITE_ID, BUCKET, ROW_ID, CURRENT_WRITE_ID, ROW = range(1, 7)
"""ORC column ids of those fields."""

_FIRST_READ = 16 * 1024
_MAGIC = b"ORC"
_READABLE = (Compression.NONE, Compression.ZLIB, Compression.SNAPPY, Compression.LZ4, Compression.ZSTD)


class Kind(IntEnum):
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


@dataclass(frozen=True)
class OrcType:
    """One node of the type tree; ``children`` are column ids, ``names`` those of a struct's fields."""

    kind: Kind
    children: tuple[int, ...] = ()
    names: tuple[str, ...] = ()
    maximum_length: int | None = None
    precision: int | None = None
    scale: int | None = None


@dataclass(frozen=True)
class Stripe:
    """A stripe: its extent in bytes, its rows, and statistics by column id (empty where there are none)."""

    offset: int
    length: int
    rows: int
    statistics: StatisticsList


@dataclass(frozen=True)
class TailBytes:
    """What rewriting needs: the two messages and where in the file the footer begins (the end of what stays)."""

    footer_start: int
    footer: Message = field(repr=False)
    postscript: Message = field(repr=False)
    block_size: int


@dataclass(frozen=True)
class OrcTail:
    """An ORC file as its last bytes describe it; a file of 0 bytes has no types, rows or ``source``.

    ``types`` and the statistics are indexed by column id (the root is 0, children follow in pre-order);
    statistics are empty where the writer made none.
    ``row_index_stride``: rows of a row group, 0 where there is no row index (3.1's minor compaction).
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
    def is_acid(self) -> bool:
        """Tell whether the root is the ACID event struct."""
        return bool(self.types) and self.types[0].names == ACID_FIELDS and self.types[ROW].kind is Kind.STRUCT

    def column_id(self, *names: str) -> int | None:
        """Return the column id of a field by its path of names (compared without case), None if there is none."""
        at = 0
        for name in names:
            lowered = [n.lower() for n in self.types[at].names] if self.types else []
            if name.lower() not in lowered:
                return None
            at = self.types[at].children[lowered.index(name.lower())]
        return at


def read_tail(fs: FileSystem, path: str, size: int) -> OrcTail:
    """Read a file's tail; usually one read of 16 KiB from the end.

    ``size``: the file's length in bytes, or less where only a part may be read (``_flush_length``).
    0 bytes are an empty file. Raises BadFileError where the file is damaged, cut off or not ORC,
    UnsupportedFeatureError for the codecs LZO and Brotli, StorageError.
    """
    if size == 0:
        return OrcTail(path, 0)
    data = _read(fs, path, size, min(size, _FIRST_READ))
    try:
        postscript = _postscript(data)
        need = 1 + data[-1] + sum(postscript.integer(number) or 0 for number in (1, 5))
        if need > size:
            _fail("the tail is longer than the file")
        if need > len(data):
            data = _read(fs, path, size, need)
        return _Parser(path, size, data, postscript).parse()
    except WireError as error:
        message = f"not an ORC file, or damaged ({error})"
        raise BadFileError(message, path=path) from error


def parse_tail(data: bytes, size: int, path: str) -> OrcTail:
    """Read the tail of a file of ``size`` bytes from its last bytes, in memory. Raises BadFileError."""
    try:
        return _Parser(path, size, data, _postscript(data)).parse()
    except WireError as error:
        message = f"not an ORC file, or damaged ({error})"
        raise BadFileError(message, path=path) from error


def _read(fs: FileSystem, path: str, size: int, length: int) -> bytes:
    data = fs.read_bytes(path, size - length, length)
    if len(data) != length:
        message = f"the file is shorter than {size} bytes"
        raise BadFileError(message, path=path)
    return data


def _fail(message: str) -> NoReturn:
    raise WireError(message)


def _postscript(data: bytes) -> Message:
    length = data[-1]
    if length + 1 > len(data):
        _fail("the file is too short")
    postscript = Message.parse(data[-1 - length : -1])
    if postscript.data(8000) != _MAGIC:
        _fail("it does not end with ORC's postscript")
    return postscript


@dataclass(frozen=True)
class _Parser:
    path: str
    size: int
    data: bytes  # the file's end, as much as footer and metadata take at least
    postscript: Message

    def parse(self) -> OrcTail:
        end = len(self.data) - 1 - self.data[-1]
        footer_length = self.postscript.integer(1) or 0
        metadata_length = self.postscript.integer(5) or 0
        footer = Message.parse(self._section(end - footer_length, end))
        metadata = self._section(end - footer_length - metadata_length, end - footer_length)
        types = self._types(footer)
        return OrcTail(
            path=self.path,
            size=self.size,
            number_of_rows=footer.integer(6) or 0,
            compression=self._compression,
            types=types,
            column_statistics=self._statistics(footer.all_data(7), types, footer.integer(6) or 0),
            stripes=self._stripes(footer, Message.parse(metadata), types),
            user_metadata=_user_metadata(footer),
            row_index_stride=footer.integer(8) or 0,
            writer=footer.integer(9) or 0,
            writer_version=self.postscript.integer(6) or 0,
            software_version=footer.text(12) or "",
            source=TailBytes(
                self.size - (len(self.data) - end) - footer_length, footer, self.postscript, self._block_size
            ),
        )

    @property
    def _block_size(self) -> int:
        return self.postscript.integer(3) or DEFAULT_BLOCK_SIZE

    @property
    def _compression(self) -> Compression:
        try:
            kind = Compression(self.postscript.integer(2) or 0)
        except ValueError:
            _fail("unknown compression")
        if kind not in _READABLE:
            message = f"ORC compression {kind.name} is not supported: {self.path}"
            raise UnsupportedFeatureError(message)
        return kind

    def _section(self, start: int, end: int) -> bytes:
        return decompress(self.data[start:end], self._compression, self._block_size)

    def _statistics(self, raw: tuple[bytes, ...], types: tuple[OrcType, ...], rows: int) -> StatisticsList:
        if raw and len(raw) != len(types):
            _fail("the footer has statistics of another number of columns")
        # Java's writer makes statistics while it makes the row index: without one (Hive 3.1's minor
        # compaction) they say 'no values', which the root's count gives away.
        if raw and decode_statistics(raw[0]).count != rows:
            raw = ()
        return StatisticsList(self.path, raw)

    def _stripes(self, footer: Message, metadata: Message, types: tuple[OrcType, ...]) -> tuple[Stripe, ...]:
        infos = [Message.parse(raw) for raw in footer.all_data(3)]
        statistics = [Message.parse(raw).all_data(1) for raw in metadata.all_data(1)]
        if statistics and len(statistics) != len(infos):
            _fail("statistics of another number of stripes")
        statistics = statistics or [()] * len(infos)
        stripes = []
        for info, raw in zip(infos, statistics, strict=True):
            length = sum(info.integer(number) or 0 for number in (2, 3, 4))
            offset = info.integer(1) or 0
            if offset + length > self.size:
                _fail("a stripe lies outside of the file")
            rows = info.integer(5) or 0
            stripes.append(Stripe(offset, length, rows, self._statistics(raw, types, rows)))
        if sum(stripe.rows for stripe in stripes) != (footer.integer(6) or 0):
            _fail("the stripes have another number of rows than the file")
        return tuple(stripes)

    def _types(self, footer: Message) -> tuple[OrcType, ...]:
        types = tuple(_type(Message.parse(raw)) for raw in footer.all_data(4))
        if not types:
            _fail("the footer has no types")
        seen = [child for of in types for child in of.children]
        if sorted(seen) != list(range(1, len(types))) or any(
            child <= at for at, of in enumerate(types) for child in of.children
        ):
            _fail("the types are no tree")
        return types


def _type(message: Message) -> OrcType:
    try:
        kind = Kind(message.integer(1) or 0)
    except ValueError:
        _fail("unknown type")
    children, names = message.integers(2), message.all_text(3)
    if kind is Kind.STRUCT and len(names) != len(children):
        _fail("a struct has fields without names")
    return OrcType(kind, children, names, message.integer(4), message.integer(5), message.integer(6))


def _user_metadata(footer: Message) -> dict[str, bytes]:
    items = map(Message.parse, footer.all_data(5))
    return {item.text(1) or "": item.data(2) or b"" for item in items}
