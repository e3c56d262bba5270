"""Delete events and new rows that Arrow writes in this process, in the staging directory of UPDATE, DELETE or MERGE.

Spark's write of a few rows takes half a second: a shuffle, a task's set-up, and files that are moved twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.format.bucket_property import BucketProperty
from hiveacid.core.model import DEFAULT_PARTITION, TableDefinition
from hiveacid.core.schema.types import is_primitive
from hiveacid.core.schema.virtual_columns import ROW_ID
from hiveacid.orc.key_order import in_key_order, split_by_bucket
from hiveacid.orc.splicing import file_of
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.writing import RecordKeys, write_delete_events, write_rows
from hiveacid.spark.write.acid_events import (
    ACTION,
    BUCKET,
    ROW_ID_PARTS,
    Action,
    StagedKind,
    StagingTarget,
    partition_key,
    value_name,
)
from hiveacid.spark.write.arrow_assignments import COMPUTED, require_writable
from hiveacid.spark.write.publish import StagedFile
from hiveacid.spark.write.task_reports import TaskReport
from hiveacid.table.arrow_casts import single_batch
from hiveacid.table.arrow_read.orc_file import CURRENT
from hiveacid.table.context import Context
from hiveacid.table.partitions import PartitionValues, partition_name
from hiveacid.table.write.driver_reads import LEFT_TO_SPARK, SelectedRows

Stage = Callable[[StagingTarget, str], tuple[list[StagedFile], TaskReport]]
"""Writes the events of a statement into a staging directory; returns the files, and what their writers report."""
_MAX_FILES = 1000  # written one after the other


@dataclass(frozen=True)
class EventRows:
    """Rows of one staged file. ``rows``: an Arrow table of row ids in key order (`StagedKind.is_delete`) or of values."""

    kind: StagedKind
    partition: PartitionValues
    bucket: int
    rows: Any


def stage_events(
    context: Context, events: Iterable[EventRows], target: StagingTarget, directory: str
) -> tuple[list[StagedFile], TaskReport]:
    """Write each file of events into a staging directory."""
    files: list[StagedFile] = []
    table, codec, rows = target.table, target.options["compression"], 0
    for event in events:
        if event.kind.is_delete:
            deleting = pa.repeat(pa.scalar(int(target.write_id), pa.int64()), event.rows.num_rows)
            ids = event.rows.append_column(CURRENT, pa.chunked_array([deleting]))
            block = write_delete_events(ids, table.columns, codec)
        else:
            own = BucketProperty(1, event.bucket, target.statements[event.kind]).encode()
            keys = RecordKeys(int(target.write_id), own, 0)
            block = write_rows(single_batch(event.rows), table.columns, keys, codec)
        # A partition name that is too long for the file system fails here, before anything has its final place.
        folder = f"{directory}/{partition_name(table, event.partition)}" if event.partition else directory
        data, path = file_of(block), f"{folder}/{len(files)}"
        context.fs.write_bytes(path, data)
        files.append(StagedFile(path, len(data), event.kind, event.partition, event.bucket))
        rows += event.rows.num_rows
    return files, TaskReport((directory,), rows, len(files))


def stage_empty(
    context: Context, target: StagingTarget, directory: str
) -> tuple[list[StagedFile], TaskReport]:
    """Write one file without rows, which makes an empty base visible to every engine."""
    columns = target.table.columns
    empty = single_batch(arrow_schema(columns).empty_table())
    data = file_of(write_rows(empty, columns, RecordKeys(0, 0, 0), target.options["compression"]))
    path = f"{directory}/0"
    context.fs.write_bytes(path, data)
    return [StagedFile(path, len(data), StagedKind.INSERTED, (), 0)], TaskReport((directory,), 0, 1)


def stage_computed_rows(
    context: Context, rows: Any, target: StagingTarget, directory: str
) -> tuple[list[StagedFile], TaskReport] | None:
    """Write rows that Spark computed (`changed_rows_for_arrow`); None if Arrow cannot, or not into so many files.

    No row id may appear twice.
    """
    try:
        for index, column in enumerate(target.table.columns):
            require_writable(column, rows.column(value_name(index)))
    except LEFT_TO_SPARK:
        return None
    events = list(islice(merge_events(rows, target), _MAX_FILES + 1))
    return stage_events(context, events, target, directory) if len(events) <= _MAX_FILES else None


def can_write(table: TableDefinition) -> bool:
    """Tell whether the types of all columns are ones that this process can take from Spark and write."""
    return all(is_primitive(column.type, COMPUTED) for column in table.columns)


def selected_events(verb: str, parts: Sequence[SelectedRows], target: StagingTarget) -> Iterator[EventRows]:
    """Yield the events of a DELETE or UPDATE; the rows of an UPDATE have their new values, and go to bucket 0."""
    for part in parts:
        parts_of_ids = part.rows.column(ROW_ID).combine_chunks().flatten()
        keys = in_key_order(pa.Table.from_arrays(parts_of_ids, names=ROW_ID_PARTS), ROW_ID_PARTS)
        yield from _delete_events(StagedKind.DELETE, part.partition, keys)
        if verb == "UPDATE":
            new = part.rows.select([column.name for column in target.table.columns])
            yield EventRows(StagedKind.UPDATED, part.partition, 0, new)


def merge_events(changes: Any, target: StagingTarget) -> Iterator[EventRows]:
    """Yield the events of a MERGE or INSERT. ``changes``: as in `stage_computed_rows`."""
    schema = arrow_schema(target.table.columns)
    partition_keys = [partition_key(index) for index in range(len(target.table.partition_columns))]
    ordered = in_key_order(changes, ROW_ID_PARTS)
    for kind, actions in _actions_of_kinds(target).items():
        of_kind = ordered.filter(pc.is_in(ordered.column(ACTION), pa.array(map(int, actions), pa.int32())))
        if kind.is_delete:
            for texts, rows in _groups(of_kind, partition_keys):
                yield from _delete_events(kind, _partition(texts), rows.select(ROW_ID_PARTS))
            continue
        for (*texts, bucket), rows in _groups(of_kind, [*partition_keys, BUCKET]):
            new = rows.select([value_name(index) for index in range(len(schema))])
            yield EventRows(kind, _partition(texts), bucket, new.rename_columns(schema.names).cast(schema))


def _partition(texts: Sequence[str]) -> PartitionValues:
    return tuple(None if text == DEFAULT_PARTITION else text for text in texts)


def _actions_of_kinds(target: StagingTarget) -> dict[StagedKind, list[Action]]:
    if target.shares_files:
        return {
            StagedKind.DELETE: [Action.DELETE],
            StagedKind.REPLACED: [Action.UPDATE],
            StagedKind.INSERTED: [Action.UPDATE, Action.INSERT],
        }
    return {
        StagedKind.DELETE: [Action.DELETE, Action.UPDATE],
        StagedKind.UPDATED: [Action.UPDATE],
        StagedKind.INSERTED: [Action.INSERT],
    }


def _delete_events(kind: StagedKind, partition: PartitionValues, keys: Any) -> Iterator[EventRows]:
    """Yield the delete events of each bucket; ``keys`` are in order. Raises BadFileError for an invalid bucket property."""
    for bucket, rows in split_by_bucket(keys, "bucketid"):
        yield EventRows(kind, partition, bucket, rows)


def _groups(rows: Any, keys: Sequence[str]) -> Iterator[tuple[list[Any], Any]]:
    """Yield the values of the key columns, which are never null, and the rows that have them, in their order."""
    if not rows.num_rows:
        return
    codes = np.zeros(rows.num_rows, np.int64)
    for key in keys:
        encoded = rows.column(key).combine_chunks().dictionary_encode()
        codes = codes * len(encoded.dictionary) + encoded.indices.to_numpy()
        codes = np.unique(codes, return_inverse=True)[1]  # small again, so that many keys don't overflow
    order = np.argsort(codes, kind="stable")
    begins = np.flatnonzero(np.diff(codes[order], prepend=-1))
    for begin, end in zip(begins, [*begins[1:], len(order)], strict=True):
        group = rows.take(order[begin:end])
        yield [group.column(key)[0].as_py() for key in keys], group
