"""Delete bitmap of a snapshot, built from its delete files and cached, because these files never change."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any

import pyarrow as pa

from hiveacid.config import setting_definitions
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.orc.build_delete_bitmap import NO_DELETE_KEYS, build_delete_bitmap, read_delete_keys
from hiveacid.spark.read.delete_bitmap_lookup import BitmapLookup
from hiveacid.spark.read.scan_groups import partition_key
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.context import Context
from hiveacid.table.read.footers import Footers

_THREADS = 16
_MAX_PARTITIONS = 1000
"""Partitions whose delete files the driver reads; of more partitions Spark reads them."""


def load_delete_bitmap(
    context: Context,
    table: TableDefinition,
    write_ids: ValidWriteIdList,
    footers: Footers,
    locations: Sequence[Location],
) -> BitmapLookup | None:
    """Return the bitmap of the deleted rows in locations; None if a join has to find them.

    A join is needed for too many events, partitions or write ids, without statistics, and for files that
    pyarrow cannot read. Raises FormatError if statistics are wrong.
    """
    bounds = footers.bounds
    if bounds is None or not bounds.boxes or len(locations) > _MAX_PARTITIONS:
        return None
    if bounds.events > context.settings.get(setting_definitions.EVENTS_IN_MEMORY):
        return None
    places = {
        partition_key(table, location): footers.plans[location.partition].events for location in locations
    }
    if len(places) < len(locations):
        return None
    cache = context.delete_cache
    key = tuple((root, tuple(_key(file, write_ids) for file in files)) for root, files in places.items())
    now = context.clock.now()
    cacheable = all(file.listed.is_identified(now) for files in places.values() for file in files)
    if cacheable and (cached := cache.bits.get(key)):
        return cached[0]
    try:
        tables = _read(context, write_ids, list(places.values()))
    except (pa.ArrowException, OSError):
        return None  # if a file is damaged, the join raises the error
    rows = build_delete_bitmap(tables, bounds.boxes)
    lookup = None if rows is None else BitmapLookup.of(context.env, rows)
    if cacheable:
        size = 1 if rows is None else rows.size_in_memory
        cache.bits.put(key, lookup, size)
    return lookup


def _key(file: ScanFile, write_ids: ValidWriteIdList) -> Hashable:
    checked = write_ids.to_string() if file.partly_valid else None
    return file.path, file.length, file.listed.modified, checked


def _read(context: Context, write_ids: ValidWriteIdList, places: Sequence[Sequence[ScanFile]]) -> list[Any]:
    """Return the delete keys of each location as one table; several files are read at a time."""
    cache = context.delete_cache.files

    def read(file: ScanFile) -> Any:
        key, cacheable = _key(file, write_ids), file.listed.is_identified(context.clock.now())
        if cacheable and (cached := cache.get(key)):
            return cached[0]
        data = context.fs.read_bytes(file.path, 0, file.length)
        delete_keys = read_delete_keys(data, write_ids if file.partly_valid else None)
        if cacheable:
            cache.put(key, delete_keys, delete_keys.num_rows)
        return delete_keys

    files = [file for group in places for file in group]
    if len(files) == 1:
        tables = iter([read(files[0])])
    else:
        with ThreadPoolExecutor(min(_THREADS, len(files) or 1)) as pool:
            tables = iter(list(pool.map(read, files)))
    return [pa.concat_tables([NO_DELETE_KEYS, *islice(tables, len(group))]) for group in places]
