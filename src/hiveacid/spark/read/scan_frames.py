"""Scan of one table at one snapshot as a native Spark plan.

The scan unites four kinds of rows, each read in the cheapest way:

- rows that no delete event can match (``delete_events``): a plain scan;
- rows that delete events may match: a scan with a lookup in the delete bitmap (``delete_events``), or a join
  (``delete_joins``) where no bitmap can be built;
- rows of original files (``originals``), with or without a lookup;
- rows beside update events of ACID v1 (``delete_joins``).

Insert-only and plain tables are read as they are, except Parquet timestamps without a zone, which Spark reads right only where
its JVM runs in UTC. Hive and Spark store an instant. pandas, DuckDB and TIMESTAMP_NTZ store a wall clock
(``isAdjustedToUTC=false``). Both come out of Spark's reader as TIMESTAMP, so the conversion from the JVM's zone would shift the
wall clock.

Reads without Spark match delete events in ``table.arrow_read.live_rows``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.names import FILE_NAME
from hiveacid.core.model import TableKind
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import has_primitive, parse_type, quote_name
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.ports.file_system import FileRange, FileSystem
from hiveacid.spark.formats import flat_files as flat
from hiveacid.spark.formats.expressions import Expression, cast, named, selected, without_column
from hiveacid.spark.read.acid_rows import KeyColumns, acid_rows, original_rows
from hiveacid.spark.read.delete_events import (
    SEPARATE_SCAN_ROWS,
    BitmapLookup,
    DeleteBounds,
    files_without_deletes,
    row_id_spans,
)
from hiveacid.spark.read.delete_joins import RowKey, delete_keys, newest_versions
from hiveacid.spark.read.partition_lookup import PartitionKey, PartitionLookup, decoded_path
from hiveacid.spark.read.scan_source import (
    CURRENT_WRITE_ID_COLUMN,
    PROLEPTIC_CALENDAR,
    STRICT_READ,
    FileGroup,
    FilesOf,
    ScanSource,
    empty_frame,
    escape_globs,
    group_files,
    scan_columns,
)
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.running_jobs_and_plans import rows_without_files
from hiveacid.storage.snapshot_locations import Location, map_in_threads

_IS_DELETED = "__hiveacid_is_deleted"


def scan(
    source: ScanSource,
    locations: Sequence[Location],
    bounds: DeleteBounds | None,
    *,
    current: bool = False,
    count_only: bool = False,
) -> DataFrame:
    """Return user columns, partition columns, ``ROW__ID`` and ``INPUT__FILE__NAME`` of the live rows.

    ``bounds``: of the delete events, None if there are none. ``current`` adds the current write id of each row, which
    compaction keeps. Columns keep the table's order, and Spark prunes unused ones. ``count_only``: only the number of
    rows is right, and selecting a value fails; the scan then takes the number of rows from the footers of all files
    that no delete event can match.
    """
    if source.table.kind is not TableKind.FULL_ACID:
        return _flat_scan(source, locations)
    with_v1_events, with_deletes, without_deletes = source.memo.get(
        "split", lambda: _split_by_events(source, locations)
    )
    free_files: Collection[str] = ()
    if bounds is not None and not current:  # a compaction must not split the rows that one task is to read
        min_rows = 0 if count_only else SEPARATE_SCAN_ROWS
        free_files = source.memo.get(
            ("free", min_rows),
            lambda: _files_without_deletes(source, with_deletes, bounds, min_rows=min_rows),
        )
    roots = {location.root for location in without_deletes}

    def plain_files(location: Location) -> Sequence[ScanFile]:
        files = source.data_files(location)
        return files if location.root in roots else [file for file in files if file.path in free_files]

    frames = None
    if count_only:
        deleted = _count_deleted_rows(source, with_deletes, free_files)
        files_of = plain_files if deleted is None else source.data_files
        frames = _count_from_footers(source, [*without_deletes, *with_deletes], files_of, deleted or 0)
        with_deletes = with_deletes if deleted is None or frames is None else []
    if frames is None:
        plain_rows = acid_rows(
            source, [*without_deletes, *with_deletes], plain_files, None, ("plain", current, count_only)
        )
        frames = [frame for frame, _ in plain_rows]
    frames += [frame for frame, _ in original_rows(source, without_deletes, source.original_files, None)]
    if bounds is not None and with_deletes:
        frames += _live_rows(source, with_deletes, bounds, free_files)
    if with_v1_events:
        frames += newest_versions(source, with_v1_events)
    if not frames:
        return empty_frame(source, current=current)
    live = reduce(lambda left, right: left.unionByName(right), frames)
    return live if current else without_column(live, CURRENT_WRITE_ID_COLUMN)


def _split_by_events(
    source: ScanSource, locations: Sequence[Location]
) -> tuple[list[Location], list[Location], list[Location]]:
    """Return locations with update events of ACID v1, those with delete events only, and those with neither."""
    with_v1_events: list[Location] = []
    with_deletes: list[Location] = []
    without_deletes: list[Location] = []
    for location in locations:
        if source.v1_event_files(location):
            with_v1_events.append(location)
        elif source.delete_event_files(location):
            with_deletes.append(location)
        else:
            without_deletes.append(location)
    return with_v1_events, with_deletes, without_deletes


def _files_without_deletes(
    source: ScanSource, locations: Sequence[Location], bounds: DeleteBounds, *, min_rows: int
) -> Collection[str]:
    """Return the files, in locations with delete events, whose rows need no lookup."""
    if not bounds.keys_fit_long:
        return ()
    files = {
        file.path: (file.rows, file.keys) for location in locations for file in source.data_files(location)
    }
    return files_without_deletes(bounds.boxes, files, min_rows)


def _count_deleted_rows(
    source: ScanSource, locations: Sequence[Location], free_files: Collection[str]
) -> int | None:
    """Return the number of rows that delete events match; None if only a scan of the rows can tell.

    Only events of rows that exist count, and those of one row count once.
    """
    if not locations or any(map(source.original_files, locations)):
        return None
    files = [
        (number, file.rows, None if file.partly_valid else file.keys)
        for number, location in enumerate(locations)
        for file in source.data_files(location)
        if file.path not in free_files
    ]
    spans = row_id_spans(files)
    lookup = None if spans is None else source.delete_bitmap(locations)
    return None if spans is None or lookup is None else sum(lookup.bitmap.count(*span) for span in spans)


def _count_from_footers(
    source: ScanSource, locations: Sequence[Location], files_of: FilesOf, deleted: int
) -> list[DataFrame] | None:
    """Return as many rows as the footers of some files count, minus ``deleted``; None if rows must be checked."""
    rows = -deleted
    for location in locations:
        for file in files_of(location):
            if file.partly_valid:
                return None
            rows += file.rows
    unread = "raise_error('[HIVEACID_INTERNAL] a value is asked for where rows are only counted')"
    values = [named(cast(unread, kind), name) for name, kind in scan_columns(source, current=True)]
    return [selected(rows_without_files(source.env, source.table.name, rows), values)] if rows else []


def _live_rows(
    source: ScanSource, locations: Sequence[Location], bounds: DeleteBounds, free_files: Collection[str]
) -> list[DataFrame]:
    """Return the rows, in locations with delete events, that no delete event matches."""

    def files(location: Location) -> list[ScanFile]:
        return [file for file in source.data_files(location) if file.path not in free_files]

    def with_deletes(location: Location) -> list[ScanFile]:
        return [file for file in source.original_files(location) if bounds.may_match(file)]

    def without_deletes(location: Location) -> list[ScanFile]:
        return [file for file in source.original_files(location) if not bounds.may_match(file)]

    all_may_match = not free_files and not any(map(without_deletes, locations))
    key_bounds = bounds.with_single_box if all_may_match else bounds
    lookup = source.delete_bitmap(locations)
    key: KeyColumns = RowKey.of(locations, key_bounds)
    if lookup is not None:
        key = _DeletedFlag(source.env, lookup)
    frames = [frame for frame, _ in acid_rows(source, locations, files, key)]
    frames += [frame for frame, _ in original_rows(source, locations, with_deletes, key)]
    live = [frame for frame, _ in original_rows(source, locations, without_deletes, None)]
    if not frames:
        return live
    if lookup is not None:
        return [without_column(frame.where(f"NOT {_IS_DELETED}"), _IS_DELETED) for frame in frames] + live
    deletes = delete_keys(source, locations, key_bounds)
    deletes = F.broadcast(deletes) if bounds.fits_memory else deletes.hint("merge")
    matches = F.expr("__hiveacid_row_key = __hiveacid_event_key")
    return [frame.join(deletes, matches, "left_anti").drop("__hiveacid_row_key") for frame in frames] + live


@dataclass(frozen=True)
class _DeletedFlag:
    """Flag of a row that the delete bitmap has, as `KeyColumns`."""

    env: SparkEnvironment
    lookup: BitmapLookup

    def columns(self, partition: PartitionKey, _statement: str) -> Sequence[Expression]:
        return [self.lookup.is_deleted(self.env, partition.number, _IS_DELETED)]


def _flat_scan(source: ScanSource, locations: Sequence[Location]) -> DataFrame:
    frames = flat_table_frames(source, locations, lambda _: [named(decoded_path(), FILE_NAME)])
    return (
        reduce(lambda left, right: left.unionByName(right), frames)
        if frames
        else empty_frame(source, current=False)
    )


def flat_table_frames(
    source: ScanSource, locations: Sequence[Location], more: Callable[[FileGroup], Sequence[Expression]]
) -> list[DataFrame]:
    """Return scans of an insert-only or plain table's columns, with the columns that ``more`` adds.

    Raises UnsupportedFeatureError for Parquet and Avro files that Spark would read wrong.
    """
    table = source.table
    flat.require_names_in_any_case(source.env, table)
    refuse_wall_clocks(source, locations)
    frames = []
    options = STRICT_READ if table.kind is TableKind.PLAIN else STRICT_READ | PROLEPTIC_CALENDAR
    for group in group_files(table, locations, source.row_files):
        mapping = group.options.mapping
        arguments = {} if mapping is None else source.arguments(mapping)
        frame = flat.read(
            source.env, table, escape_globs(group.files), {**options, **group.identity, **arguments}, mapping
        )
        values = [quote_name(c.name) for c in table.columns]
        partition = PartitionLookup(source.env, table, group, frame)
        frames.append(selected(frame, [*values, *partition.columns, *more(group)]))
    return frames


def refuse_wall_clocks(source: ScanSource, locations: Sequence[Location]) -> None:
    """Refuse Parquet files whose timestamps Spark would shift. Raises UnsupportedFeatureError with the file's name.

    Reads all footers, but only if the table has a timestamp column and the JVM's zone is not UTC.
    """
    table, env = source.table, source.env
    names = {c.name for c in table.columns if has_primitive(parse_type(c.type), {"timestamp"})}
    if not names or file_kind(table.storage) is not FileKind.PARQUET:
        return
    zone = env.jvm_time_zone
    if env.zones.are_alike(env.spark, zone, "UTC"):
        return
    files = tuple((file.path, file.length) for location in locations for file in source.row_files(location))
    found = source.memo.get((*sorted(names), files), lambda: _first_wall_clock(source.fs, files, names))
    if found is not None:
        path, column = found
        raise UnsupportedFeatureError(
            f"{path}: column {column} holds timestamps without a time zone, which Spark shifts in a JVM of the zone {zone}: "
            "start the session with -Duser.timezone=UTC in spark.driver.extraJavaOptions and "
            "spark.executor.extraJavaOptions, or read the table with hiveacid.open"
        )


def _first_wall_clock(
    fs: FileSystem, files: Sequence[tuple[str, int]], names: Collection[str]
) -> tuple[str, str] | None:
    """Return the first file that has timestamps without a zone, and the column; None if there is none."""
    if not files:
        return None
    columns = map_in_threads(lambda file: _wall_clock(fs, *file, names), files, files[0][0])
    return next(((path, c) for (path, _), c in zip(files, columns, strict=True) if c is not None), None)


def _wall_clock(fs: FileSystem, path: str, size: int, names: Collection[str]) -> str | None:
    """Return the first of the columns ``names`` that holds timestamps without a zone, at any depth."""
    try:
        with parquet.ParquetFile(pa.PythonFile(FileRange(fs, path, size), mode="r")) as file:
            leaves = [file.schema.column(index) for index in range(len(file.schema))]
    except pa.ArrowException:  # no Parquet file: Spark's reader says so
        return None
    for leaf in leaves:
        kind = json.loads(leaf.logical_type.to_json())
        if kind.get("Type") == "Timestamp" and not kind["isAdjustedToUTC"]:
            for name in names:
                if f"{leaf.path.lower()}.".startswith(f"{name}."):
                    return name
    return None
