"""Summary of an ORC file for planning: a few numbers of its tail, small enough to be cached."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from hiveacid.core.format.acid_columns import (
    FORMAT_VERSION,
    INSERT_EVENT,
    KEY_COLUMNS,
    AcidColumn,
    KeyBox,
    Range,
)
from hiveacid.core.model import LAST_ID
from hiveacid.core.schema.types import Struct
from hiveacid.errors import BadFileError
from hiveacid.orc.column_statistics import HIVE_8732, decode_statistics
from hiveacid.orc.tail import (
    FIRST_READ,
    OrcTail,
    parse_postscript,
    parse_types,
    row_schema,
    tail_from_end,
)
from hiveacid.orc.wire_format import (
    DEFAULT_BLOCK_SIZE,
    MAX_BLOCK,
    Compression,
    WireError,
    decompress,
    read_fields,
)
from hiveacid.ports.file_system import FileSystem

_OPERATION, _WRITE_ID, _BUCKET, _ROW_ID = (column.orc_id for column in (AcidColumn.OPERATION, *KEY_COLUMNS))
_MAX_SUMMARIES = 200_000  # 0.5 KB each
_MAX_STATISTICS = 64 << 20  # bytes of memory for the statistics of all columns
_BYTES_OVERHEAD = 41  # of an object of type bytes, with the reference to it

FileKey = tuple[str, int, int]
"""Path, size in bytes and modification time in ms of a file; the time is 0 if it does not identify the file."""


class SummaryCache:
    """LRU cache of file summaries; equal schemas share one object. Column statistics have a cache of their own."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: LruCache[FileSummary] = LruCache(_MAX_SUMMARIES, _MAX_SUMMARIES)
        self._statistics: LruCache[tuple[bytes, ...]] = LruCache(_MAX_STATISTICS, _MAX_SUMMARIES)
        self._lock = threading.Lock()
        self._schemas: dict[Struct, Struct] = {}
        # the latest of them; to look one up takes longer than caching a summary
        self._last: Struct | None = None

    def get(self, key: FileKey) -> FileSummary | None:
        """Return the summary of a file; None if it is absent, or if the file may have changed."""
        entry = self._known.get(key) if key[-1] else None
        return None if entry is None else entry[0]

    def statistics(self, key: FileKey) -> tuple[bytes, ...]:
        """Return a file's column statistics (`FileSummary`); none if they are absent, or if the file may have changed."""
        entry = self._statistics.get(key) if key[-1] else None
        return () if entry is None else entry[0]

    def put(self, key: FileKey, summary: FileSummary) -> FileSummary:
        """Add a summary and return it, without its column statistics."""
        statistics = summary.statistics
        if statistics:
            summary = summary._replace(statistics=())
            if key[-1]:
                size = sum(map(len, statistics)) + _BYTES_OVERHEAD * len(statistics)
                self._statistics.put(key, statistics, size)
        schema = self._last
        if summary.schema is not schema:  # usually it is: `_columns` returns one object for equal types
            with self._lock:
                if len(self._schemas) > _MAX_SUMMARIES:
                    self._schemas.clear()
                self._last = schema = self._schemas.setdefault(summary.schema, summary.schema)
        if schema is not summary.schema:
            summary = summary._replace(schema=schema)
        if key[-1]:
            self._known.put(key, summary, 1)
        return summary


class FileSummary(NamedTuple):
    """Number of rows, columns and, for an ACID file, ranges of its key parts (None without statistics).

    ``schema``: the table's columns. ``has_events``: the file may hold update or delete events. A delete delta's file holds
    them; a file of ACID v1 may hold them beside inserts. ``statistics``: of each ORC column, as stored in the footer; empty
    if they are unusual, or from a writer whose statistics of strings were wrong (before HIVE-8732).
    """

    rows: int
    schema: Struct
    is_acid: bool = False
    has_events: bool = False
    write_id: Range | None = None
    bucket: Range | None = None
    row_id: Range | None = None
    statistics: tuple[bytes, ...] = ()

    @property
    def keys(self) -> KeyBox | None:
        """Return the box of all keys of the file; None if unknown."""
        if self.write_id is None or self.bucket is None or self.row_id is None:
            return None
        return KeyBox(self.write_id, self.bucket, self.row_id)


def read_summary(fs: FileSystem, path: str, size: int) -> FileSummary:
    """Return ``summarize(read_tail(fs, path, size))``, usually without parsing the whole tail. Raises as these do."""
    if size == 0:
        return summarize(OrcTail(path, 0))
    data = fs.read_bytes(path, max(0, size - FIRST_READ), min(size, FIRST_READ))
    if len(data) != min(size, FIRST_READ):
        raise BadFileError(f"the file is shorter than {size} bytes", path=path)
    try:
        quick = _summarize_end(data, size)
    except WireError:  # the whole tail tells what is wrong
        quick = None
    return quick or summarize(tail_from_end(fs, path, size, data))


def summarize(tail: OrcTail) -> FileSummary:
    """Return the summary of a tail. Raises BadFileError."""
    schema, rows = row_schema(tail), tail.number_of_rows
    statistics = tail.column_statistics.raw if tail.row_index_stride else ()
    statistics = _usable_statistics(statistics, rows, tail.writer_version)
    if not tail.is_acid:
        return FileSummary(rows, schema, statistics=statistics)
    write_id = _range(tail, _WRITE_ID)
    if write_id is not None and write_id.high > LAST_ID:
        raise BadFileError(
            f"the write id {write_id.high} is above {LAST_ID}, the highest that can be", path=tail.path
        )
    return FileSummary(
        rows,
        schema,
        is_acid=True,
        has_events=rows > 0 and _has_events(tail),
        write_id=write_id,
        bucket=_range(tail, _BUCKET),
        row_id=_range(tail, _ROW_ID),
        statistics=statistics,
    )


def _usable_statistics(raw: tuple[bytes, ...], rows: int, writer_version: int) -> tuple[bytes, ...]:
    """Return the statistics of all columns, or none (see `FileSummary`)."""
    if writer_version < HIVE_8732 or not raw:
        return ()
    try:
        return raw if _integers(raw[0])[0] == rows else ()
    except WireError:
        return ()


def _has_events(tail: OrcTail) -> bool:
    """Tell whether any operation is not an insert; without statistics, the format version decides.

    Minor compactions of Hive 3.1 write no statistics, but they mark the file as ACID v2, whose deltas hold only
    inserts.
    """
    operations = _range(tail, _OPERATION)
    if operations is not None:
        return operations.high > INSERT_EVENT
    return not tail.user_metadata.get(FORMAT_VERSION)


def _range(tail: OrcTail, column: int) -> Range | None:
    if len(tail.column_statistics) <= column or tail.row_index_stride == 0:
        return None
    ends = tail.column_statistics[column].integers
    return None if ends is None else Range(*ends)


# Without parsing the whole tail. Files of one table repeat their types, postscripts and many statistics byte for byte, so
# that these are parsed once. A plan of many files spends most of its time here.


def _summarize_end(data: bytes, size: int) -> FileSummary | None:
    """Return the summary from the last bytes of a file; None for whatever is unusual. Raises WireError."""
    end = len(data) - 1 - data[-1]
    length, codec, block_size, writer = (
        _postscript(data[end:-1]) if end > 0 else (len(data), Compression.NONE, 0, 0)
    )
    start = end - length
    if start < 0:
        return None
    footer = decompress(data[start:end], codec, block_size)
    if len(footer) > _LONGEST_FOOTER:
        return None
    fields: dict[int, list[int | bytes]] = {
        _STRIPES: [],
        _TYPES: [],
        _ROWS: [0],
        _STATISTICS: [],
        _STRIDE: [0],
    }
    for number, _, value in read_fields(footer):
        if number in fields:
            fields[number].append(value)
    rows, stride = fields[_ROWS][-1], fields[_STRIDE][-1]
    if not (
        isinstance(rows, int) and isinstance(stride, int) and rows <= _MAX_ROWS and stride <= _MAX_STRIDE
    ):
        return None
    types, statistics = tuple(fields[_TYPES]), fields[_STATISTICS]
    is_acid, schema = _columns(types)
    if _rows_of_stripes(fields[_STRIPES], start + size - len(data)) != rows:
        return None
    raw = tuple(value for value in statistics if isinstance(value, bytes))
    complete = len(raw) == len(statistics) == len(types)
    usable = _usable_statistics(raw, rows, writer if stride and complete else 0)
    if not is_acid:
        return FileSummary(rows, schema, statistics=usable)
    keys = [value for value in statistics[: _ROW_ID + 1] if isinstance(value, bytes)]
    if not stride or len(statistics) != len(types) or len(keys) <= _ROW_ID:
        return None
    if max(map(len, keys)) > _LONGEST_STATISTICS or _integers(keys[0])[0] != rows:
        return None
    operation, write_id = _integers(keys[_OPERATION])[1], _integers(keys[_WRITE_ID])[1]
    bucket, row_id = _integers(keys[_BUCKET])[1], _integers(keys[_ROW_ID])[1]
    if operation is None or (write_id is not None and write_id.high > LAST_ID):
        return None
    has_events = rows > 0 and operation.high > INSERT_EVENT
    return FileSummary(rows, schema, True, has_events, write_id, bucket, row_id, usable)  # noqa: FBT003


_STRIPES, _TYPES, _ROWS, _STATISTICS, _STRIDE = 3, 4, 6, 7, 8  # of the footer
_LONGEST_FOOTER, _LONGEST_STATISTICS = 1 << 18, 100  # bytes; hostile ones must not fill the caches
_STRIPE_FIELDS, _MAX_ROWS, _MAX_STRIDE = 64, 1 << 48, (1 << 32) - 1  # as in ``orc.tail``


def _rows_of_stripes(stripes: Sequence[int | bytes], end: int) -> int | None:
    """Return the sum of the stripes' rows; None if a stripe does not end before the footer."""
    rows = 0
    for stripe in stripes:
        if not isinstance(stripe, bytes):
            return None
        facts = {part: fact for part, _, fact in read_fields(stripe, _STRIPE_FIELDS) if isinstance(fact, int)}
        if facts.get(1, 0) + facts.get(2, 0) + facts.get(3, 0) + facts.get(4, 0) > end:
            return None
        rows += facts.get(5, 0)
    return rows


@lru_cache(maxsize=1000)
def _postscript(data: bytes) -> tuple[int, Compression, int, int]:
    """Return the footer's length, its codec, the block size and the version of the writer. Raises WireError."""
    postscript = parse_postscript(data)
    length, codec, block_size, writer = map(postscript.integer, (1, 2, 3, 6))
    if (block_size or 0) > MAX_BLOCK or (codec or 0) not in list(Compression):
        raise WireError("a codec or block size that cannot be")
    return length or 0, Compression(codec or 0), block_size or DEFAULT_BLOCK_SIZE, writer or 0


@lru_cache(maxsize=200)
def _columns(types: tuple[int | bytes, ...]) -> tuple[bool, Struct]:
    tail = OrcTail(
        "", 0, types=parse_types(tuple(message for message in types if isinstance(message, bytes)))
    )
    return tail.is_acid, row_schema(tail)


@lru_cache(maxsize=10_000)
def _integers(statistics: bytes) -> tuple[int | None, Range | None]:
    """Return the number of values and the range of an integer column from its statistics."""
    column = decode_statistics(statistics)
    return column.count, None if column.integers is None else Range(*column.integers)


T = TypeVar("T")


@dataclass
class LruCache(Generic[T]):
    """Most recently used values: at most ``max_values``, with a total size of at most ``max_size``. Thread-safe."""

    max_size: int
    max_values: int
    _used: int = 0
    _values: OrderedDict[Hashable, tuple[T, int]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def get(self, key: Hashable) -> tuple[T] | None:
        """Return a value in a tuple of one; None if the key is absent, so that a value may be None."""
        with self._lock:
            if key not in self._values:
                return None
            self._values.move_to_end(key)
            return (self._values[key][0],)

    def put(self, key: Hashable, value: T, size: int) -> None:
        """Add a value and evict the least recently used ones; a value larger than ``max_size`` is not added."""
        with self._lock:
            self._used -= self._values.pop(key, (None, 0))[1]
            if size > self.max_size:
                return
            self._used += size
            self._values[key] = value, size
            while self._used > self.max_size or len(self._values) > self.max_values:
                self._used -= self._values.popitem(last=False)[1][1]
