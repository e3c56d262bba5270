"""Listings that a connection keeps for later snapshots of unchanged directories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hiveacid.config.property_definitions import CONVERSION
from hiveacid.core.model import Partition, TableDefinition, TableKind
from hiveacid.core.snapshot.selection import IdView, Reach, SnapshotIds, is_final, measure_reach
from hiveacid.storage import snapshot_locations as table_locations
from hiveacid.storage.directory_stamps import DirectoryStamp, StampedListings
from hiveacid.storage.paths import is_local
from hiveacid.table.context import StoreContext


@dataclass(frozen=True)
class _KeptListing:
    """A listed location with the conditions of its reuse.

    ``reach``: the highest ids in the directory names. ``view``: state of the ids up to ``reach`` in
    the snapshot of the listing.
    """

    location: table_locations.Location
    stamp: DirectoryStamp
    reach: Reach
    view: IdView

    def is_reusable(self, partition: Partition | None, ids: SnapshotIds) -> bool:
        return (
            self.location.partition == partition
            and _min_write_id(self.location.partition) == _min_write_id(partition)
            and ids.view(self.reach) == self.view
            and self.stamp.is_current()
        )


def _min_write_id(partition: Partition | None) -> int:
    return 0 if partition is None else partition.min_write_id


def list_kept(
    context: StoreContext, table: TableDefinition, partitions: Sequence[Partition] | None, ids: SnapshotIds
) -> tuple[table_locations.Location, ...]:
    """List the partitions (or the table) as `storage.snapshot_locations.list_locations` does, reusing kept listings.

    ``ids``: the current snapshot, taken before the call. If all listings are reused, the result is the earlier object.
    """
    listings = StampedListings.begin(context.fs, context.clock.now())
    cache = context.listings.locations
    table_key = (
        table.name,
        table.incarnation,
        table.kind,
        table_locations.adopted_txn_id(table),
        table_locations.uncommitted_txn_ids(table),
        CONVERSION.of(table),
    )

    roots_not_kept: list[str] = []

    def list_or_reuse(root: str, partition: Partition | None) -> table_locations.Location:
        if listings is None or table.kind is TableKind.PLAIN or not is_local(root):
            roots_not_kept.append(root)
            return table_locations.read_location(context.fs, table, root, partition, ids.write_ids, ids.txns)
        cached = cache.get((table_key, root))
        # LruCache.get returns a value in a tuple of one, because a value may be None
        if cached is not None and cached[0].is_reusable(partition, ids):
            listing: _KeptListing = cached[0]
            return listing.location
        entries, stamp = listings.list(root)
        location = table_locations.select_location(
            context.fs, table, root, partition, entries, ids.write_ids, ids.txns
        )
        if stamp is not None and is_final(location.state):
            reach = measure_reach(entries)
            cache.put(
                (table_key, root), _KeptListing(location, stamp, reach, ids.view(reach)), _size(location)
            )
        else:
            roots_not_kept.append(root)
        return location

    locations = table_locations.for_each_location(table, partitions, list_or_reuse)
    return locations if roots_not_kept else _reuse_result(context, (table_key, len(locations)), locations)


def _reuse_result(
    context: StoreContext, key: tuple[object, int], locations: tuple[table_locations.Location, ...]
) -> tuple[table_locations.Location, ...]:
    """Return an earlier result whose locations are the same objects, so that what was computed from them (its memo) is used."""
    snapshots = context.listings.snapshots
    cached = snapshots.get(key)  # in a tuple of one, as above
    if cached is not None and all(old is new for old, new in zip(cached[0], locations, strict=True)):
        return cached[0]
    listed = table_locations.ListedLocations.of(locations)
    snapshots.put(key, listed, sum(map(_size, locations)))
    return listed


def _size(location: table_locations.Location) -> int:
    return 1 + sum(len(directory.files) for directory in location.state.directories_to_read)
