"""Compaction of a small location in the driver: Arrow reads the rows or events, and writes a file for each bucket.

A Spark job takes half a second for a few rows, and streams leave many partitions with few rows. Only with a local
master: a cluster compacts more partitions at a time than the driver can.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hiveacid.config import setting_definitions
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.orc.key_order import sort_by_key, split_by_bucket
from hiveacid.orc.tail import read_tail
from hiveacid.orc.writing import StripeBlock, write_delete_events, write_rows_with_ids
from hiveacid.spark.write.changes_of_arrow_rows import require_writable
from hiveacid.spark.write.sort_and_stage import ROW_ID_PARTS, StagingTarget
from hiveacid.spark.write.staged_files import StagedKind, TaskReport
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot, plan_files
from hiveacid.table.arrow_read.orc_file import CURRENT_WRITE_ID, KEY, read_events
from hiveacid.table.arrow_read.scan import Selection, read_batches
from hiveacid.table.cast_to_table_columns import single_batch
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import StagedOutput
from hiveacid.table.write.driver_reads import FALLBACK_ERRORS
from hiveacid.table.write.publish import stage_file

_MAX_BYTES = 16 << 20  # of the files
_MAX_VALUES = (
    20_000_000  # of all columns, NULLs included: they take no bytes in a file, but up to 16 each in memory
)
_MAX_ROW_BYTES = 128 << 20  # of the rows in Arrow's memory; as much again is needed to sort and to write them
_IDS = [*ROW_ID_PARTS, CURRENT_WRITE_ID]
_ID_SCHEMA = pa.schema(zip(_IDS, [pa.int64(), pa.int32(), pa.int64(), pa.int64()], strict=True))


def stage_rows_with_ids(
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
            require_writable(column, rows.column(column.name))
    except FALLBACK_ERRORS:
        return None
    ids = [*rows.column(ROW_ID).combine_chunks().flatten(), rows.column(CURRENT_WRITE_ID)]
    values = rows.select([column.name for column in table.columns]).columns
    names = [staged_column(index) for index in range(len(values))]  # a column may have the name of an id
    keyed = pa.table([*ids, *values], names=[*_IDS, *names])

    def write(part: Any) -> StripeBlock:
        batch = single_batch(part.select(names))
        return write_rows_with_ids(batch, table.columns, part.select(_IDS), target.options["compression"])

    return _stage_by_bucket(context, keyed, StagedKind.INSERTED, directory, write)


def _read_rows(context: Context, snapshot: Snapshot) -> Any:
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


def stage_delete_events(
    context: Context, target: StagingTarget, location: Location, write_ids: ValidWriteIdList, directory: str
) -> StagedOutput | None:
    """Stage the delete events of a location; None if a job has to do that. Leaves out those of aborted transactions."""
    if not _may_stage(context, target, location):
        return None
    files = plan_files(context.fs, target.table.kind, location).events
    if not _fit_memory(context, target, files):
        return None
    read = [read_events(context.fs, file, write_ids).select([*KEY, CURRENT_WRITE_ID]) for file in files]
    events = pa.concat_tables(
        [_ID_SCHEMA.empty_table(), *(part.rename_columns(_IDS).cast(_ID_SCHEMA) for part in read)]
    )

    def write(part: Any) -> StripeBlock:
        return write_delete_events(part, target.table.columns, target.options["compression"])

    return _stage_by_bucket(context, events, StagedKind.DELETE, directory, write)


def _may_stage(context: Context, target: StagingTarget, location: Location) -> bool:
    """Tell whether a location is small, and its new files need no options that only Spark's writer takes."""
    state = location.state
    directories = (*state.row_directories, *state.delete_deltas)
    size = sum(file.size for directory in directories for file in directory.files)
    limit = min(_MAX_BYTES, context.settings.get(setting_definitions.SMALL_CHANGES))
    plain = target.options.keys() == {"compression"}
    context.env.require_plain_names()
    return context.env.local and not state.originals and size <= limit and plain


def _fit_memory(context: Context, target: StagingTarget, files: Sequence[ScanFile]) -> bool:
    """Tell by the files' footers whether this process can hold their rows and events."""
    rows = sum(read_tail(context.fs, file.path, file.length).number_of_rows for file in files)
    return rows * (len(_IDS) + len(target.table.columns)) <= _MAX_VALUES


def _stage_by_bucket(
    context: Context, rows: Any, kind: StagedKind, directory: str, write: Callable[[Any], StripeBlock]
) -> StagedOutput:
    """Write a file for each bucket, its rows in key order."""
    files = [
        stage_file(
            context.fs, write(sort_by_key(part, ROW_ID_PARTS)), f"{directory}/{bucket}", kind, bucket=bucket
        )
        for bucket, part in split_by_bucket(rows, "bucketid")
    ]
    return files, TaskReport((directory,), rows.num_rows, len(files))
