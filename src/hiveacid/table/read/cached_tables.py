"""Tables that a session caches (CACHE TABLE): for each, the DataFrame of one snapshot, persisted in Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.core.model import TableName
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transaction

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass
class _Entry:
    """``level``: Spark's storage level, None for its default. ``key``: everything that the rows of ``frame`` follow from."""

    level: Any
    key: tuple[Any, ...] = ()
    frame: DataFrame | None = None
    reader: Transaction | None = None  # holds the snapshot

    def is_persisted(self) -> bool:
        """Tell whether Spark still keeps the frame, which CLEAR CACHE and ``unpersist`` end."""
        if self.frame is None:
            return False
        level = self.frame.storageLevel
        return level.useMemory or level.useDisk

    def release(self) -> None:
        if self.frame is not None:
            self.frame.unpersist()
            self.frame = None


class CachedTables:
    """The cached tables of one session, for all of its threads.

    A cached frame holds its snapshot, so the cleaner keeps its files: Spark may have to read a lost block again. A read of
    another snapshot releases the frame and caches its own.
    """

    def __init__(self) -> None:
        """Start without tables."""
        self._lock = threading.RLock()
        self._entries: dict[TableName, _Entry] = {}

    def add(self, name: TableName, level: Any) -> None:
        """Cache the rows of a table from the next read on; nothing changes for a table that is cached already."""
        with self._lock:
            if not self.is_cached(name):
                self._entries[name] = _Entry(level)

    def has(self, name: TableName) -> bool:
        """Tell whether the reads of a table may take cached rows; costs nothing."""
        return name in self._entries

    def is_cached(self, name: TableName) -> bool:
        """Tell whether Spark keeps rows of a table, perhaps of an earlier snapshot."""
        with self._lock:
            entry = self._entries.get(name)
            return entry is not None and entry.is_persisted()

    def frame(
        self,
        name: TableName,
        key: tuple[Any, ...],
        reader: Transaction,
        leases: ReadLeases,
        make: Callable[[], DataFrame],
    ) -> DataFrame:
        """Return the rows of a snapshot: the cached frame if its key is equal, else a new one, which is then cached.

        ``key``: equal keys mean equal rows. ``make`` makes the frame, which ``reader`` then holds. A frame whose reader has
        ended, by a time-out for example, is not used again: its files may be deleted.
        """
        with self._lock:
            entry = self._entries.get(name)
            if entry is not None and entry.frame is not None and not entry.is_persisted():
                del self._entries[name]
                entry = None
            if entry is None:
                return make()
            is_held = entry.reader is not None and not entry.reader.ended and leases.is_leased(entry.reader)
            if entry.frame is None or entry.key != key or not is_held:
                entry.release()
                frame = make()
                entry.frame = frame.persist() if entry.level is None else frame.persist(entry.level)
                entry.key, entry.reader = key, reader
            return entry.frame

    def release(self, name: TableName) -> None:
        """Cache a table no longer."""
        with self._lock:
            entry = self._entries.pop(name, None)
            if entry is not None:
                entry.release()

    def clear(self) -> None:
        """Cache no table any longer."""
        for name in tuple(self._entries):
            self.release(name)
