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
from hiveacid.core.schema.types import Struct, parse_type
from hiveacid.core.snapshot.directory_listing import FooterFacts
from hiveacid.errors import BadFileError, FormatError, HiveAcidError
from hiveacid.orc.column_statistics import HIVE_8732
from hiveacid.orc.tail import OrcTail, count_and_range, parse_tail, read_tail
from hiveacid.orc.wire_format import WireError
from hiveacid.ports.file_system import FileSystem

_OPERATION, _WRITE_ID, _BUCKET, _ROW_ID = (column.orc_id for column in (AcidColumn.OPERATION, *KEY_COLUMNS))
_MAX_SUMMARIES = 200_000  # 0.5 KB each
_MAX_STATISTICS = 64 << 20  # bytes of memory for the statistics of all columns
_MOST_RECORDED = 1 << 14  # bytes of the statistics of a file
_BYTES_OVERHEAD = 41  # of an object of type bytes, with the reference to it

FileKey = tuple[str, int, int]
"""Path, size in bytes and modification time in ms of a file; the time is 0 if it does not identify the file."""


class SummaryCache:
    """LRU cache of file summaries; equal schemas share one object. Column statistics have a cache of their own."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: LruCache[FileSummary] = LruCache(_MAX_SUMMARIES, _MAX_SUMMARIES)
        self._statistics: LruCache[Sequence[bytes]] = LruCache(_MAX_STATISTICS, _MAX_SUMMARIES)
        self._lock = threading.Lock()
        self._schemas: dict[Struct, Struct] = {}
        # the latest of them; to look one up takes longer than caching a summary
        self._last: Struct | None = None

    def get(self, key: FileKey) -> FileSummary | None:
        """Return the summary of a file; None if it is absent, or if the file may have changed."""
        entry = self._known.get(key) if key[-1] else None
        return None if entry is None else entry[0]

    def statistics(self, key: FileKey) -> Sequence[bytes]:
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
    statistics: Sequence[bytes] = ()

    @property
    def keys(self) -> KeyBox | None:
        """Return the box of all keys of the file; None if unknown."""
        if self.write_id is None or self.bucket is None or self.row_id is None:
            return None
        return KeyBox(self.write_id, self.bucket, self.row_id)


def facts_of_end(end: bytes, size: int, path: str) -> FooterFacts | None:
    """Return the facts of a file of ``size`` bytes from its last bytes, with the whole footer; None for whatever is unusual."""
    try:
        return facts_of(summarize(parse_tail(end, size, path, lazily=True))) if end else None
    except FormatError:
        return None


def facts_of(summary: FileSummary) -> FooterFacts | None:
    """Return a summary as the facts that a commit records; None if `summary_of` would not give it back."""
    schema = _recorded_text(summary.schema)
    unusual = summary.is_acid and summary.keys is None
    if schema is None or unusual or sum(map(len, summary.statistics)) > _MOST_RECORDED:
        return None
    keys = () if summary.keys is None else summary.keys.ends
    return FooterFacts(summary.rows, schema, summary.is_acid, summary.has_events, keys, summary.statistics)


def summary_of(facts: FooterFacts) -> FileSummary:
    """Return the summary of a file whose facts were recorded."""
    keys = KeyBox.of_ends(facts.keys)
    columns = schema_of(facts.schema)
    summary = FileSummary(
        facts.rows, columns, facts.is_acid, facts.has_events, statistics=tuple(facts.statistics)
    )
    if keys is None:
        return summary
    return summary._replace(write_id=keys.write_id, bucket=keys.bucket, row_id=keys.row_id)


@lru_cache(maxsize=200)
def schema_of(text: str) -> Struct:
    """Return the columns of a file whose facts were recorded (`FooterFacts.schema`)."""
    schema = parse_type(text)
    if not isinstance(schema, Struct):
        raise BadFileError(f"a recorded schema is no struct: {text[:80]}")
    return schema


@lru_cache(maxsize=200)
def _recorded_text(schema: Struct) -> str | None:
    """Return the text of a schema, None if it cannot be read back, as with names that Hive's types do not have."""
    try:
        return str(schema) if schema_of(str(schema)) == schema else None
    except HiveAcidError:
        return None


def read_summary(fs: FileSystem, path: str, size: int) -> FileSummary:
    """Return ``summarize(read_tail(fs, path, size))``; damage in parts that no plan needs is not looked for. Raises as these do."""
    return summarize(read_tail(fs, path, size, lazily=True))


def summarize(tail: OrcTail) -> FileSummary:
    """Return the summary of a tail. Raises BadFileError."""
    schema, rows = tail.columns.schema, tail.number_of_rows
    indexed = tail.row_index_stride and tail.writer_version >= HIVE_8732
    statistics = tail.column_statistics.raw if indexed else ()
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
    try:
        return count_and_range(tail.column_statistics.raw[column])[1]
    except WireError as error:
        raise BadFileError(f"column statistics are damaged ({error})", path=tail.path) from error


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
