"""Cache of delete events by file and by snapshot, bounded by memory.

A module of its own, because a command that only asks the store must not wait for the import of Spark and Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hiveacid.orc.lru_cache import LruCache

if TYPE_CHECKING:
    from hiveacid.spark.read.delete_bitmap import BitmapLookup

_MOST_EVENTS, _MOST_FILES = 2_000_000, 20_000
_MOST_BYTES, _MOST_SNAPSHOTS = 1 << 26, 100


@dataclass
class DeleteEventCache:
    """Delete events by file, and delete bitmaps by snapshot, of one connection."""

    files: LruCache[Any] = field(default_factory=lambda: LruCache(_MOST_EVENTS, _MOST_FILES))
    bits: LruCache[BitmapLookup | None] = field(
        default_factory=lambda: LruCache(_MOST_BYTES, _MOST_SNAPSHOTS)
    )
