"""Compaction without a shuffle: of a small location in the driver, or of large files that are in key order already.

A Spark job takes half a second for a few rows, and streams leave many partitions with few rows. Arrow reads these rows or
events, and writes a file for each bucket. This takes no more CPU of the driver than planning the job would.

Sorting a table costs a shuffle of all its rows, and memory that grows with it. A base and the large deltas above it
are in key order already (``core.compaction.plan``). Only small files, and files with overlapping keys, are
sorted. The others are read and written one by one, then spliced. If the written files turn out not to be in key order, the
caller sorts all rows.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
from pyspark.sql import DataFrame

from hiveacid.config import setting_definitions
from hiveacid.core.compaction.plan import KeyedFile, files_in_key_order
from hiveacid.core.format.acid_columns import KEY_COLUMNS, ROW_ID_PARTS, AcidColumn
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.scan_plan import LocationPlan, ScanFile
from hiveacid.orc.key_order import sort_by_key, split_by_bucket
from hiveacid.orc.stored_values import require_storable
from hiveacid.orc.tail import read_tail
from hiveacid.orc.writing import encode_rows_with_ids, single_batch, write_delete_events
from hiveacid.spark.read.scan_frames import scan
from hiveacid.spark.read.scan_source import ScanSource
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write import sort_and_stage
from hiveacid.spark.write.sort_and_stage import StagingTarget
from hiveacid.spark.write.staged_files import (
    StagedKind,
    TaskReport,
    add_reports,
    list_staged_files,
    splice_by_bucket,
)
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot, plan_files
from hiveacid.table.arrow_read.orc_file import read_events
from hiveacid.table.arrow_read.record_batches import Selection, read_batches
from hiveacid.table.context import Context
from hiveacid.table.read.footers import Footers
from hiveacid.table.write.arrow_staging import StagedOutput
from hiveacid.table.write.driver_reads import FALLBACK_ERRORS
from hiveacid.table.write.publish import stage_file

_MAX_BYTES = 16 << 20  # of the files
# of all columns, NULLs included: they take no bytes in a file, but up to 16 each in memory
_MAX_VALUES = 20_000_000
_MAX_ROW_BYTES = 128 << 20  # of the rows in Arrow's memory; as much again is needed to sort and to write them
_IDS = [*ROW_ID_PARTS, AcidColumn.CURRENT_WRITE_ID]
_ID_SCHEMA = pa.schema(zip(_IDS, [pa.int64(), pa.int32(), pa.int64(), pa.int64()], strict=True))

logger = logging.getLogger(__name__)

_LEAST_PART = 64 << 20  # smallest part of a file, in bytes, that one task reads


def stage_rows_in_driver(
    context: Context, target: StagingTarget, location: Location, write_ids: ValidWriteIdList, directory: str
) -> StagedOutput | None:
    """Stage the live rows of a location, with their ids, below ``directory``; None if a job has to do that."""
    if not _may_stage(context, target, location):
        return None
    table = replace(target.table, partition_columns=())
    try:
        files = PartitionFiles((), *plan_files(context.fs, table.kind, location))
        if not all(file.acid for file in files.rows):  # original files hold no row ids
            return None
        if not _fit_memory(context, target, (*files.rows, *files.events)):
            return None
        rows = _read_rows(context, Snapshot(table, context.layout_level(table), write_ids, (files,)))
        if rows is None:
            return None
        for column in table.columns:
            require_storable(column, rows.column(column.name))
    except FALLBACK_ERRORS:
        return None
    ids = [*rows.column(ROW_ID).combine_chunks().flatten(), rows.column(AcidColumn.CURRENT_WRITE_ID)]
    values = rows.select([column.name for column in table.columns]).columns
    names = [staged_column(index) for index in range(len(values))]  # a column may have the name of an id
    keyed = pa.table([*ids, *values], names=[*_IDS, *names])
    return _stage_by_bucket(context, target, keyed, StagedKind.INSERTED, directory)


def _read_rows(context: Context, snapshot: Snapshot) -> pa.Table | None:
    """Return a table of all live rows with their ids; None if they take too much memory."""
    names = tuple(column.name for column in snapshot.table.columns)
    selection = Selection(names, row_ids=True, with_current_write_id=True, for_change=True)
    batches, size = [], 0
    for batch in read_batches(context, snapshot, selection):
        batches.append(batch)
        size += batch.nbytes
        if size > _MAX_ROW_BYTES:
            return None
    return pa.Table.from_batches(batches, selection.schema(snapshot))


def stage_events_in_driver(
    context: Context, target: StagingTarget, location: Location, write_ids: ValidWriteIdList, directory: str
) -> StagedOutput | None:
    """Stage the delete events of a location; None if a job has to do that. Leaves out those of aborted transactions."""
    if not _may_stage(context, target, location):
        return None
    files = plan_files(context.fs, target.table.kind, location).events
    if not _fit_memory(context, target, files):
        return None
    read = [
        read_events(context.fs, file, write_ids).select([*KEY_COLUMNS, AcidColumn.CURRENT_WRITE_ID])
        for file in files
    ]
    events = pa.concat_tables(
        [_ID_SCHEMA.empty_table(), *(part.rename_columns(_IDS).cast(_ID_SCHEMA) for part in read)]
    )
    return _stage_by_bucket(context, target, events, StagedKind.DELETE, directory)


def _may_stage(context: Context, target: StagingTarget, location: Location) -> bool:
    """Tell whether a location is small, and its new files need no options that only Spark's writer takes."""
    state = location.state
    directories = (*state.row_directories, *state.delete_deltas)
    size = sum(file.size for directory in directories for file in directory.files)
    limit = min(_MAX_BYTES, context.settings.get(setting_definitions.SMALL_CHANGES))
    plain = target.options.keys() == {"compression"}
    context.env.require_plain_names()
    return not state.originals and size <= limit and plain


def _fit_memory(context: Context, target: StagingTarget, files: Sequence[ScanFile]) -> bool:
    """Tell by the files' footers whether this process can hold their rows and events."""
    rows = sum(read_tail(context.fs, file.path, file.length).number_of_rows for file in files)
    return rows * (len(_IDS) + len(target.table.columns)) <= _MAX_VALUES


def _stage_by_bucket(
    context: Context, target: StagingTarget, keyed: pa.Table, kind: StagedKind, directory: str
) -> StagedOutput:
    """Write a file for each bucket, its rows in key order. ``keyed``: ids, and of rows also the values of the columns."""
    columns, codec, files = target.table.columns, target.options["compression"], []
    names = [staged_column(index) for index in range(len(columns))]
    for bucket, part in split_by_bucket(keyed, ROW_ID_PARTS[1]):
        ordered = sort_by_key(part, ROW_ID_PARTS)
        if kind.is_delete:
            block = write_delete_events(ordered, columns, codec)
        else:
            values = single_batch(ordered.select(names))
            block = encode_rows_with_ids(values, columns, ordered.select(_IDS), codec)
        files.append(stage_file(context.fs, block, f"{directory}/{bucket}", kind, bucket=bucket))
    return files, TaskReport((directory,), keyed.num_rows, len(files))


def stage_in_order(
    context: Context,
    target: sort_and_stage.StagingTarget,
    location: Location,
    write_ids: ValidWriteIdList,
    footers: Footers,
    directory: str,
) -> StagedOutput | None:
    """Stage the live rows of a location below ``directory`` and return one file for each bucket, in key order.

    None if all rows have to be sorted. That is the case if no file is large, if keys overlap or are unknown, if rows
    have no row ids in the files, or if delete events are so many that they are joined by a shuffle.
    """
    large = context.settings.get(setting_definitions.UNSORTED_FILE_SIZE)
    chosen = _files_without_sorting(location, footers, large)
    if not chosen:
        return None
    env = context.env.session_with_task_per_file(_split_size(context.env, list(chosen.values())))
    rows, events = footers.plans[location.partition]
    in_order, to_sort = (
        tuple(file for file in rows if (file.path in chosen) == inside) for inside in (True, False)
    )

    def scan_of(files: tuple[ScanFile, ...], env: SparkEnvironment) -> DataFrame:
        plans = {location.partition: LocationPlan(files, events)}
        source = ScanSource(env, context.fs, target.table, write_ids, plans)
        return scan(source, [location], footers.bounds, current=True)

    read = scan_of(in_order, env)
    reports = [sort_and_stage.stage_in_read_order(replace(target, env=env), read, f"{directory}/read")]
    files = list_staged_files(context.fs, f"{directory}/read", StagedKind.INSERTED, reports[0])
    if to_sort:
        read = scan_of(to_sort, context.env)
        reports.append(sort_and_stage.stage_rows_with_ids(target, read, f"{directory}/sorted"))
        files += list_staged_files(context.fs, f"{directory}/sorted", StagedKind.INSERTED, reports[1])
    result = splice_by_bucket(context.fs, files)
    outcome = "are not in key order, and are sorted" if result is None else "are written as they are read"
    logger.info("%s: the rows of %d files %s", target.table.name, len(chosen), outcome)
    return None if result is None else (result, add_reports(reports))


def _files_without_sorting(location: Location, footers: Footers, large: int) -> dict[str, int]:
    """Return the files to be read without sorting, with their sizes."""
    if (
        footers.has_acid_v1_events
        or not all(file.acid for file in footers.plans[location.partition].rows)
        or (footers.bounds is not None and not footers.bounds.fits_memory)
    ):
        return {}
    files = []
    for file in footers.plans[location.partition].rows:
        if file.keys is None:
            return {}
        files.append(KeyedFile(file.path, file.listed.size, file.keys.low, file.keys.high))
    chosen = files_in_key_order(files, large)
    return {file.path: file.size for file in files if file.path in chosen}


def _split_size(env: SparkEnvironment, sizes: list[int]) -> int | None:
    """Return the split size in bytes that gives every core a part; None if there are enough files."""
    cores = env.spark.sparkContext.defaultParallelism
    return None if len(sizes) >= cores else max(_LEAST_PART, -(-sum(sizes) // cores))
