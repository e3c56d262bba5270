"""Summary of an ORC file for planning: a few numbers of its tail, small enough to be cached."""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from hiveacid.core.compaction.disjoint_files import Key
from hiveacid.core.format.row_key import FORMAT_VERSION
from hiveacid.core.model import LAST_ID
from hiveacid.core.schema.types import Struct
from hiveacid.errors import BadFileError
from hiveacid.orc.lru_cache import LruCache
from hiveacid.orc.schema import row_schema
from hiveacid.orc.tail import BUCKET, OPERATION, ORIGINAL_WRITE_ID, ROW_ID, OrcTail

_MAX_SUMMARIES = 50_000

FileKey = tuple[str, int, int]
"""Path, size in bytes and modification time in ms (0 if unknown) of a file."""


class SummaryCache:
    """LRU cache of file summaries; equal schemas share one object."""

    def __init__(self) -> None:
        """Start empty."""
        self._known: LruCache[FileSummary] = LruCache(_MAX_SUMMARIES, _MAX_SUMMARIES)
        self._lock = threading.Lock()
        self._schemas: dict[Struct, Struct] = {}

    def get(self, key: FileKey) -> FileSummary | None:
        """Return the summary of a file; None if it is absent, or if the file may have changed."""
        entry = self._known.get(key) if key[-1] else None
        return None if entry is None else entry[0]

    def put(self, key: FileKey, summary: FileSummary) -> FileSummary:
        """Add a summary and return it."""
        with self._lock:
            if len(self._schemas) > _MAX_SUMMARIES:
                self._schemas.clear()
            summary = replace(summary, schema=self._schemas.setdefault(summary.schema, summary.schema))
        if key[-1]:
            self._known.put(key, summary, 1)
        return summary


@dataclass(frozen=True)
class Range:
    """Lowest and highest value of a column."""

    low: int
    high: int

    @property
    def is_single(self) -> bool:
        """Tell whether the column has one value only."""
        return self.low == self.high

    @property
    def bits(self) -> int:
        """Return the number of bits that hold the distance of any value from ``low``."""
        return (self.high - self.low).bit_length()


@dataclass(frozen=True)
class FileSummary:
    """Number of rows, columns and, for an ACID file, ranges of its key parts (None without statistics).

    ``schema``: the user's columns. ``has_events``: the file may hold update or delete events. Files of delete deltas
    do; in ACID v1 files with inserts may, too.
    """

    rows: int
    schema: Struct
    is_acid: bool = False
    has_events: bool = False
    write_id: Range | None = None
    bucket: Range | None = None
    row_id: Range | None = None

    @property
    def keys(self) -> tuple[Key, Key] | None:
        """Return a lower and an upper bound of all keys of the file; None if unknown."""
        if self.write_id is None or self.bucket is None or self.row_id is None:
            return None
        return (
            (self.write_id.low, self.bucket.low, self.row_id.low),
            (self.write_id.high, self.bucket.high, self.row_id.high),
        )


def summarize(tail: OrcTail) -> FileSummary:
    """Return the summary of a tail. Raises BadFileError."""
    schema = row_schema(tail)
    if not tail.is_acid:
        return FileSummary(tail.number_of_rows, schema)
    write_id = _range(tail, ORIGINAL_WRITE_ID)
    if write_id is not None and write_id.high > LAST_ID:
        raise BadFileError(
            f"the write id {write_id.high} is above {LAST_ID}, the highest that can be", path=tail.path
        )
    return FileSummary(
        tail.number_of_rows,
        schema,
        is_acid=True,
        has_events=tail.number_of_rows > 0 and _has_events(tail),
        write_id=write_id,
        bucket=_range(tail, BUCKET),
        row_id=_range(tail, ROW_ID),
    )


def _has_events(tail: OrcTail) -> bool:
    """Tell whether any operation is not an insert; without statistics, the format version decides.

    Minor compactions of Hive 3.1 write no statistics, but they mark the file as ACID v2, whose deltas hold only
    inserts.
    """
    operations = _range(tail, OPERATION)
    if operations is not None:
        return operations.high > 0
    return not tail.user_metadata.get(FORMAT_VERSION)


def _range(tail: OrcTail, column: int) -> Range | None:
    if len(tail.column_statistics) <= column or tail.row_index_stride == 0:
        return None
    statistics = tail.column_statistics[column]
    low, high = statistics.minimum, statistics.maximum
    return Range(low, high) if isinstance(low, int) and isinstance(high, int) else None
