"""Caches of a connection, with their limits.

They do not lie beside the code that fills them: a command that only asks the store must not wait for the import of Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.core.model import Partition
from hiveacid.core.snapshot.file_records import RecordedDirectory, RecordedPlaces
from hiveacid.core.snapshot.selection import IdView, Reach, SnapshotIds
from hiveacid.orc.footer_summary import LruCache
from hiveacid.storage.snapshot_locations import ListedLocations, Location

if TYPE_CHECKING:
    import pyarrow as pa

    from hiveacid.spark.read.delete_events import BitmapLookup

_MAX_EVENTS, _MAX_FILES = 2_000_000, 20_000
_MAX_KEPT = 300_000
"""KB of kept locations."""
_COLUMNS_IN_KB = 12
"""Columns whose statistics take a KB of memory, once unpacked."""
_MAX_BYTES, _MAX_SNAPSHOTS = 1 << 26, 100


@dataclass
class DeleteEventCache:
    """Delete events by file, and delete bitmaps by snapshot, of one connection; bounded by memory."""

    files: LruCache[pa.Table] = field(default_factory=lambda: LruCache(_MAX_EVENTS, _MAX_FILES))
    bits: LruCache[BitmapLookup | None] = field(default_factory=lambda: LruCache(_MAX_BYTES, _MAX_SNAPSHOTS))


@dataclass(frozen=True)
class KeptLocation:
    """A location that was selected from the records of commits, with the conditions of its reuse.

    ``directories``: all that were recorded there. ``reach``: the highest ids in their names. ``view``: state of the ids up to
    ``reach`` in the snapshot.
    """

    location: Location
    directories: tuple[RecordedDirectory, ...]
    reach: Reach
    view: IdView

    def is_reusable(
        self, partition: Partition | None, directories: tuple[RecordedDirectory, ...], ids: SnapshotIds
    ) -> bool:
        """Tell whether a later snapshot selects the same for a partition with these directories."""
        return (
            self.location.partition == partition
            and _min_write_id(self.location.partition) == _min_write_id(partition)
            and self.directories == directories
            and ids.view(self.reach) == self.view
        )

    @property
    def size(self) -> int:
        """About the KB that it takes."""
        facts = [file.facts for directory in self.directories for file in directory.files]
        return 1 + sum([1 + len(one.statistics) // _COLUMNS_IN_KB for one in facts if one is not None])


@dataclass(frozen=True)
class KeptSnapshot:
    """All locations of a snapshot by the records of commits, with the conditions of their reuse.

    ``records``: those that the store returned for ``partitions``. ``reach`` and ``view`` as in `KeptLocation`.
    """

    records: RecordedPlaces
    partitions: tuple[Partition, ...] | None
    locations: ListedLocations
    reach: Reach
    view: IdView

    def is_of(self, partitions: Sequence[Partition] | None) -> bool:
        """Tell whether the locations are those of these partitions."""
        if self.partitions is None or partitions is None:
            return self.partitions is partitions
        return self.partitions == tuple(partitions) and all(
            old.min_write_id == new.min_write_id for old, new in zip(self.partitions, partitions, strict=True)
        )


def _min_write_id(partition: Partition | None) -> int:
    return 0 if partition is None else partition.min_write_id


@dataclass
class LocationCache:
    """Locations by the records of commits that a connection keeps: single ones, and those of whole snapshots; bounded in size."""

    locations: LruCache[KeptLocation] = field(default_factory=lambda: LruCache(_MAX_KEPT, _MAX_KEPT))
    snapshots: LruCache[KeptSnapshot] = field(default_factory=lambda: LruCache(_MAX_KEPT, 16))
