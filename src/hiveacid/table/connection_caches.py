"""Caches of a connection, with their limits.

They do not lie beside the code that fills them: a command that only asks the store must not wait for the import of Arrow.

Stamps of local directories show whether a listing is still right. Creating, deleting or renaming an entry changes the times
of its directory. A stamp holds the times and identity of every directory of a listing. It is made only where the times are
sure to reveal every later change:

- The file system is local. On network file systems the client caches the times.
- No directory changed in the last seconds. Another change within the clock's resolution would leave the same times.
- There are no symbolic links. Their targets may change while the times of their directory stay.

A change inside a file does not show in its directory: `core.snapshot.selection.is_final` excludes files that may change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.core.model import Partition
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import IdView, Reach, SnapshotIds
from hiveacid.orc.footer_summary import LruCache
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.local_file_system import LocalFileSystem, local_path
from hiveacid.storage.paths import local_devices
from hiveacid.storage.snapshot_locations import ListedLocations, Location

if TYPE_CHECKING:
    import pyarrow as pa

    from hiveacid.spark.read.delete_events import BitmapLookup

_MAX_EVENTS, _MAX_FILES = 2_000_000, 20_000
_MAX_LISTED = 300_000
"""Files of kept listings, which take about 1 KB each."""
_MAX_BYTES, _MAX_SNAPSHOTS = 1 << 26, 100
_UNSETTLED = 3_000_000_000
"""Nanoseconds in which a directory may change again with the same times; the coarsest clock ticks every 2 s."""

_Facts = tuple[int, int, int, int]


@dataclass
class DeleteEventCache:
    """Delete events by file, and delete bitmaps by snapshot, of one connection; bounded by memory."""

    files: LruCache[pa.Table] = field(default_factory=lambda: LruCache(_MAX_EVENTS, _MAX_FILES))
    bits: LruCache[BitmapLookup | None] = field(default_factory=lambda: LruCache(_MAX_BYTES, _MAX_SNAPSHOTS))


@dataclass(frozen=True)
class DirectoryStamp:
    """Identity and times of the directories of a listing, in nanoseconds."""

    paths: tuple[str, ...]
    facts: tuple[_Facts, ...]

    def is_current(self) -> bool:
        """Tell whether no directory has changed since the listing."""
        try:
            return all(
                _facts(os.stat(path)) == facts  # noqa: PTH116 - a hundred thousand of them
                for path, facts in zip(self.paths, self.facts, strict=True)
            )
        except OSError:
            return False


@dataclass(frozen=True)
class StampedListings:
    """Listings with stamps, made from a moment on.

    ``devices``: numbers of the local file systems. ``since``: the moment, in nanoseconds.
    """

    fs: LocalFileSystem
    devices: frozenset[int]
    since: int

    @classmethod
    def begin(cls, fs: FileSystem, now: int) -> StampedListings | None:
        """Return listings that begin ``now`` (ms since the epoch); None where no directory can have a stamp."""
        local = fs.local if isinstance(fs, AnyFileSystem) else fs
        devices = local_devices() if isinstance(local, LocalFileSystem) else frozenset()
        return (
            cls(local, devices, now * 1_000_000) if isinstance(local, LocalFileSystem) and devices else None
        )

    def list(self, root: str) -> tuple[tuple[FileEntry, ...], DirectoryStamp | None]:
        """List everything below a local directory, as `LocalFileSystem.list_tree`; the stamp is None if it has none."""
        entries, directories = self.fs.list_with_status(root)
        return entries, None if directories is None else self._stamp(local_path(root), directories)

    def _stamp(self, top: str, directories: Mapping[str, os.stat_result]) -> DirectoryStamp | None:
        # Each status is older than the listing of its directory: a change in between shows when the stamp is compared.
        paths = tuple(f"{top}/{path}" for path in directories)
        facts = tuple(map(_facts, directories.values()))
        latest = self.since - _UNSETTLED
        if any(
            device not in self.devices or max(modified, changed) > latest
            for device, _, modified, changed in facts
        ):
            return None
        return DirectoryStamp(paths, facts)


def _facts(status: os.stat_result) -> _Facts:
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


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
