"""Caches of a connection, with their limits.

They do not lie beside the code that fills them: a command that only asks the store must not wait for the import of Arrow.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.core.model import Partition
from hiveacid.core.snapshot.selection import IdView, Reach, SnapshotIds
from hiveacid.orc.footer_summary import LruCache
from hiveacid.storage.snapshot_locations import DirectoryStamp, ListedLocations, Location

if TYPE_CHECKING:
    import pyarrow as pa

    from hiveacid.spark.read.delete_events import BitmapLookup

_MAX_EVENTS, _MAX_FILES = 2_000_000, 20_000
_MAX_LISTED = 300_000
"""Files of kept listings, which take about 1 KB each."""
_MAX_BYTES, _MAX_SNAPSHOTS = 1 << 26, 100


@dataclass
class DeleteEventCache:
    """Delete events by file, and delete bitmaps by snapshot, of one connection; bounded by memory."""

    files: LruCache[pa.Table] = field(default_factory=lambda: LruCache(_MAX_EVENTS, _MAX_FILES))
    bits: LruCache[BitmapLookup | None] = field(default_factory=lambda: LruCache(_MAX_BYTES, _MAX_SNAPSHOTS))


@dataclass(frozen=True)
class KeptListing:
    """A listed location with the conditions of its reuse.

    ``reach``: the highest ids in the directory names. ``view``: state of the ids up to ``reach`` in
    the snapshot of the listing.
    """

    location: Location
    stamp: DirectoryStamp
    reach: Reach
    view: IdView

    def is_reusable(self, partition: Partition | None, ids: SnapshotIds) -> bool:
        """Tell whether a later snapshot may use the listing for a partition."""
        return (
            self.location.partition == partition
            and _min_write_id(self.location.partition) == _min_write_id(partition)
            and ids.view(self.reach) == self.view
            and self.stamp.is_current()
        )


def _min_write_id(partition: Partition | None) -> int:
    return 0 if partition is None else partition.min_write_id


@dataclass
class ListingCache:
    """Kept listings of one connection: those of single locations, and those of whole snapshots; bounded by files."""

    locations: LruCache[KeptListing] = field(default_factory=lambda: LruCache(_MAX_LISTED, _MAX_LISTED))
    snapshots: LruCache[ListedLocations] = field(default_factory=lambda: LruCache(_MAX_LISTED, 16))
