"""Compaction of a small location in this process: Arrow reads the rows or events, and writes a file for each bucket.

A Spark job takes half a second for a few rows, and streams leave many partitions with few rows. Only with a local
master: a cluster compacts many partitions at a time, more than one process can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa

from hiveacid.config import setting_definitions
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.schema.virtual_columns import ROW_ID
from hiveacid.orc.key_order import in_key_order, split_by_bucket
from hiveacid.orc.splicing import StripeBlock, file_of
from hiveacid.orc.writing import write_delete_events, write_rows_with_ids
from hiveacid.spark.write.acid_events import ROW_ID_PARTS, StagedKind, StagingTarget
from hiveacid.spark.write.arrow_assignments import require_writable
from hiveacid.spark.write.publish import StagedFile
from hiveacid.spark.write.task_reports import TaskReport
from hiveacid.storage.locations import Location
from hiveacid.table.arrow_casts import single_batch
from hiveacid.table.arrow_read.orc_file import CURRENT, KEY, read_events
from hiveacid.table.arrow_read.scan import Selection, read_batches
from hiveacid.table.arrow_read.snapshot import PartitionFiles, Snapshot, event_files, row_files
from hiveacid.table.context import Context
from hiveacid.table.write.driver_reads import LEFT_TO_SPARK

_MAX_BYTES = 16 << 20  # of the files
_MAX_ROW_BYTES = 128 << 20  # of the rows in Arrow's memory; as much again is needed to sort and to write them
_IDS = [*ROW_ID_PARTS, CURRENT]
_ID_TYPES = [pa.int64(), pa.int32(), pa.int64(), pa.int64()]

Staged = tuple[list[StagedFile], TaskReport]
"""Staged files, and what their writer reports."""


def stage_rows(
    context: Context, target: StagingTarget, location: Location, write_ids: ValidWriteIdList, directory: str
) -> Staged | None:
    """Stage the live rows of a location, with their ids, below ``directory``; None if a job has to do that."""
    if not _may_stage(context, target, location):
        return None
    table = replace(target.table, partition_columns=())
    try:
        files = PartitionFiles((), row_files(context.fs, location), event_files(context.fs, location))
        if not all(file.acid for file in files.rows):  # the rows of others have no ids to keep
            return None
        rows = _read_rows(context, Snapshot(table, write_ids, (files,)))
        if rows is None:
            return None
        for column in table.columns:
            require_writable(column, rows.column(column.name))
    except LEFT_TO_SPARK:
        return None
    ids = pa.Table.from_arrays(
        [*rows.column(ROW_ID).combine_chunks().flatten(), rows.column(CURRENT)], names=_IDS
    )
    values = rows.select([column.name for column in table.columns])
    names = [f"\0{index}" for index in range(values.num_columns)]  # no names of ids
    joined = pa.table([*ids.columns, *values.columns], names=[*_IDS, *names])

    def block(part: Any) -> StripeBlock:
        batch = single_batch(part.select(names).rename_columns(values.column_names))
        return write_rows_with_ids(batch, table.columns, part.select(_IDS), target.options["compression"])

    return _stage(context, joined, StagedKind.INSERTED, directory, block)


def _read_rows(context: Context, snapshot: Snapshot) -> Any:
    """Return a table of all live rows with their ids; None if they take too much memory."""
    names = tuple(column.name for column in snapshot.table.columns)
    selection = Selection(names, row_ids=True, current=True, changing=True)
    batches, size = [], 0
    for batch in read_batches(context, snapshot, selection):
        batches.append(batch)
        size += batch.nbytes
        if size > _MAX_ROW_BYTES:
            return None
    return pa.Table.from_batches(batches, selection.schema(snapshot))


def stage_events(
    context: Context, target: StagingTarget, location: Location, write_ids: ValidWriteIdList, directory: str
) -> Staged | None:
    """Stage the delete events of a location that committed transactions wrote; None if a job has to do that."""
    if not _may_stage(context, target, location):
        return None
    files = event_files(context.fs, location)
    events = [read_events(context.fs, file, write_ids).select([*KEY, CURRENT]) for file in files]
    schema = pa.schema(zip(_IDS, _ID_TYPES, strict=True))
    rows = pa.concat_tables(
        [schema.empty_table(), *(part.rename_columns(_IDS).cast(schema) for part in events)]
    )
    columns, codec = target.table.columns, target.options["compression"]
    return _stage(
        context, rows, StagedKind.DELETE, directory, lambda part: write_delete_events(part, columns, codec)
    )


def _may_stage(context: Context, target: StagingTarget, location: Location) -> bool:
    """Tell whether a location is small, and its new files need no options that only Spark's writer takes."""
    state = location.state
    directories = (*state.row_directories, *state.delete_deltas)
    size = sum(file.size for directory in directories for file in directory.files)
    limit = min(_MAX_BYTES, context.settings.get(setting_definitions.SMALL_CHANGES))
    plain = target.options.keys() == {"compression"}
    context.facts.require_plain_names()
    return context.facts.local and not state.originals and size <= limit and plain


def _stage(
    context: Context, rows: Any, kind: StagedKind, directory: str, block: Callable[[Any], StripeBlock]
) -> Staged:
    """Write a file for each bucket, its rows in key order."""
    files = []
    for bucket, part in split_by_bucket(rows, "bucketid"):
        data, path = file_of(block(in_key_order(part, ROW_ID_PARTS))), f"{directory}/{bucket}"
        context.fs.write_bytes(path, data)
        files.append(StagedFile(path, len(data), kind, (), bucket))
    return files, TaskReport((directory,), rows.num_rows, len(files))
