"""Delete bitmap of a snapshot, built from its delete files and cached, because these files never change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import islice
from typing import Any

import pyarrow as pa

from hiveacid.config import setting_definitions
from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.model import TableDefinition
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.orc.build_delete_bitmap import NO_DELETE_KEYS, build_delete_bitmap, read_delete_keys
from hiveacid.spark.read.delete_bitmap_lookup import BitmapLookup
from hiveacid.spark.read.delete_bounds import DeleteBounds
from hiveacid.spark.read.scan_groups import partition_key
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context

_THREADS = 16
_MAX_PARTITIONS = 1000
"""Partitions whose delete files the driver reads; of more partitions Spark reads them."""


@dataclass(frozen=True)
class _EventFile:
    path: str
    file: DataFile
    valid: ValidWriteIdList | None

    @property
    def key(self) -> Hashable:
        checked = None if self.valid is None else self.valid.to_string()
        return self.path, self.file.size, self.file.modified, checked


def load_delete_bitmap(
    context: Context,
    table: TableDefinition,
    write_ids: ValidWriteIdList,
    bounds: DeleteBounds | None,
    locations: Sequence[Location],
) -> BitmapLookup | None:
    """Return the bitmap of the deleted rows in locations; None if a join has to find them.

    A join is needed for too many events, partitions or write ids, without statistics, and for files that
    pyarrow cannot read. Raises FormatError if statistics are wrong.
    """
    if bounds is None or not bounds.boxes or len(locations) > _MAX_PARTITIONS:
        return None
    if bounds.events > context.settings.get(setting_definitions.EVENTS_IN_MEMORY):
        return None
    places = {partition_key(table, location): _event_files(location, write_ids) for location in locations}
    if len(places) < len(locations):
        return None
    cache = context.delete_cache
    key = tuple((root, tuple(event_file.key for event_file in files)) for root, files in places.items())
    now = context.clock.now()
    cacheable = all(event_file.file.is_identified(now) for files in places.values() for event_file in files)
    if cacheable and (cached := cache.bits.get(key)):
        return cached[0]
    try:
        tables = _read(context, list(places.values()))
    except (pa.ArrowException, OSError):
        return None  # if a file is damaged, the join raises the error
    rows = build_delete_bitmap(tables, bounds.boxes)
    lookup = None if rows is None else BitmapLookup.of(context.facts, rows)
    if cacheable:
        size = 1 if rows is None else rows.size_in_memory
        cache.bits.put(key, lookup, size)
    return lookup


def _event_files(location: Location, write_ids: ValidWriteIdList) -> list[_EventFile]:
    return [
        _EventFile(
            f"{location.root}/{file.path}", file, None if directory.validity is RangeShare.ALL else write_ids
        )
        for directory in location.state.delete_deltas
        for file in directory.acid_files
        if file.size  # Hive 3 leaves 0-byte buckets
    ]


def _read(context: Context, places: Sequence[Sequence[_EventFile]]) -> list[Any]:
    """Return the delete keys of each location as one table; several files are read at a time."""
    cache = context.delete_cache.files

    def read(event_file: _EventFile) -> Any:
        cacheable = event_file.file.is_identified(context.clock.now())
        if cacheable and (cached := cache.get(event_file.key)):
            return cached[0]
        delete_keys = read_delete_keys(
            context.fs.read_bytes(event_file.path, 0, event_file.file.size), event_file.valid
        )
        if cacheable:
            cache.put(event_file.key, delete_keys, delete_keys.num_rows)
        return delete_keys

    files = [event_file for group in places for event_file in group]
    if len(files) == 1:
        tables = iter([read(files[0])])
    else:
        with ThreadPoolExecutor(min(_THREADS, len(files) or 1)) as pool:
            tables = iter(list(pool.map(read, files)))
    return [pa.concat_tables([NO_DELETE_KEYS, *islice(tables, len(group))]) for group in places]
