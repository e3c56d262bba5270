"""Caches of a connection, with their limits.

They do not lie beside the code that fills them: a command that only asks the store must not wait for the import of Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from hiveacid.orc.footer_summary import LruCache
from hiveacid.storage.snapshot_locations import ListedLocations

if TYPE_CHECKING:
    from hiveacid.spark.read.delete_events import BitmapLookup

_MAX_EVENTS, _MAX_FILES = 2_000_000, 20_000
_MAX_LISTED = 300_000
"""Files of kept listings, which take about 1 KB each."""
_MAX_BYTES, _MAX_SNAPSHOTS = 1 << 26, 100


@dataclass
class DeleteEventCache:
    """Delete events by file, and delete bitmaps by snapshot, of one connection; bounded by memory."""

    files: LruCache[Any] = field(default_factory=lambda: LruCache(_MAX_EVENTS, _MAX_FILES))
    bits: LruCache[BitmapLookup | None] = field(default_factory=lambda: LruCache(_MAX_BYTES, _MAX_SNAPSHOTS))


@dataclass
class ListingCache:
    """Kept listings of one connection: those of single locations, and those of whole snapshots; bounded by files."""

    locations: LruCache[Any] = field(default_factory=lambda: LruCache(_MAX_LISTED, _MAX_LISTED))
    snapshots: LruCache[ListedLocations] = field(default_factory=lambda: LruCache(_MAX_LISTED, 16))
