"""Staged files of delete events and new rows that Arrow writes in the driver, without a Spark job.

Spark's write of a few rows takes half a second: a shuffle, a task's set-up, and files that are moved twice.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.format.acid_columns import ROW_ID_PARTS, AcidColumn, BucketProperty
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import TableDefinition, partition_value
from hiveacid.core.schema.partitions import identity
from hiveacid.core.schema.types import is_primitive
from hiveacid.orc.key_order import group_rows, sort_by_key, split_by_bucket
from hiveacid.orc.stored_values import arrow_schema, require_storable
from hiveacid.orc.writing import RecordKeys, StripeBlock, encode_rows, single_batch, write_delete_events
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.write.changes_of_arrow_rows import ASSIGNABLE_TYPES
from hiveacid.spark.write.sort_and_stage import ACTION, OLD, Action, StagingTarget, partition_key
from hiveacid.spark.write.staged_files import BUCKET, StagedFile, StagedKind, TaskReport
from hiveacid.table.arrow_read.record_batches import FEW_ROWS, map_in_order, reading_threads
from hiveacid.table.context import Context
from hiveacid.table.partitions import PartitionValues, partition_name
from hiveacid.table.write.driver_reads import FALLBACK_ERRORS, SelectedRows
from hiveacid.table.write.publish import stage_file

StagedOutput = tuple[list[StagedFile], TaskReport]
"""Staged files, and the counts that their writers report."""
_MAX_FILES = 20_000  # of one statement


class Changes(Protocol):
    """Rows that a statement changes, as they are known before it has a staging directory."""

    def stage(self, context: Context, target: StagingTarget, directory: str) -> StagedOutput:
        """Write their delete events and new rows into a staging directory."""


@dataclass(frozen=True)
class SelectedChanges:
    """Rows that Arrow has selected for a DELETE or UPDATE (``verb``); those of an UPDATE hold the new values."""

    verb: str
    parts: Sequence[SelectedRows]

    def stage(self, context: Context, target: StagingTarget, directory: str) -> StagedOutput:
        """Write them by Arrow."""
        return stage_events(context, selected_events(self.verb, self.parts, target), target, directory)


@dataclass(frozen=True)
class EventRows:
    """Delete events or new rows of one staged file.

    ``rows``: an Arrow table: for delete events (`StagedKind.is_delete`) of row ids in key order, else of column values.
    """

    kind: StagedKind
    partition: PartitionValues
    bucket: int
    rows: pa.Table


def stage_events(
    context: Context, events: Iterable[EventRows], target: StagingTarget, directory: str
) -> StagedOutput:
    """Write one file into ``directory`` for each item of ``events``; several at a time if their rows are many."""

    def stage(number: int, event: EventRows) -> StagedFile:
        # A partition name that is too long for the file system fails here, before anything has its final place.
        folder = (
            f"{directory}/{partition_name(target.table, event.partition)}" if event.partition else directory
        )
        path = f"{folder}/{number}"
        return stage_file(context.fs, _block(event, target), path, event.kind, event.partition, event.bucket)

    tasks = [*enumerate(events)]
    rows = sum(event.rows.num_rows for _, event in tasks)
    files = [*map_in_order(stage, tasks, reading_threads() if rows > FEW_ROWS else 1)]
    return files, TaskReport((directory,), rows, len(files))


def _block(event: EventRows, target: StagingTarget) -> StripeBlock:
    """Return the stripes of an event's file."""
    columns, codec = target.table.columns, target.options["compression"]
    if event.kind.is_delete:
        write_ids = pa.repeat(pa.scalar(int(target.write_id), pa.int64()), event.rows.num_rows)
        return write_delete_events(
            event.rows.append_column(AcidColumn.CURRENT_WRITE_ID, write_ids), columns, codec
        )
    bucket_property = BucketProperty(1, event.bucket, target.statements[event.kind]).encode()
    keys = RecordKeys(int(target.write_id), bucket_property, 0)
    return encode_rows(single_batch(event.rows), columns, keys, codec)


def stage_empty(fs: FileSystem, target: StagingTarget, directory: str) -> StagedOutput:
    """Write one file without rows, which makes an empty base visible to every engine."""
    columns = target.table.columns
    empty = single_batch(arrow_schema(columns).empty_table())
    block = encode_rows(empty, columns, RecordKeys(0, 0, 0), target.options["compression"])
    file = stage_file(fs, block, f"{directory}/0", StagedKind.INSERTED)
    return [file], TaskReport((directory,), 0, 1)


def stage_computed_rows(
    context: Context, rows: pa.Table, target: StagingTarget, directory: str
) -> StagedOutput | None:
    """Write rows that Spark computed; None if a value cannot be written by Arrow, or too many files are needed.

    ``rows``: an Arrow table with the columns of `changed_rows_for_arrow`; no row id may appear twice in a partition.
    """
    try:
        for index, column in enumerate(target.table.columns):
            require_storable(column, rows.column(staged_column(index)))
        for index in range(len(target.table.partition_columns)):
            rows.column(partition_key(index)).validate(full=True)  # its bytes are UTF-8
    except FALLBACK_ERRORS:
        return None
    events = list(islice(changed_row_events(rows, target), _MAX_FILES + 1))
    return stage_events(context, events, target, directory) if len(events) <= _MAX_FILES else None


def can_write(table: TableDefinition) -> bool:
    """Tell whether the driver can take values of all columns from Spark and write them by Arrow."""
    return all(is_primitive(column.type, ASSIGNABLE_TYPES) for column in table.columns)


def selected_events(verb: str, parts: Sequence[SelectedRows], target: StagingTarget) -> Iterator[EventRows]:
    """Yield the events of a DELETE or UPDATE. ``parts`` of an UPDATE hold the new values, which go to bucket 0."""
    for part in parts:
        id_columns = part.rows.column(ROW_ID).combine_chunks().flatten()
        keys = sort_by_key(pa.Table.from_arrays(id_columns, names=[*ROW_ID_PARTS]), ROW_ID_PARTS)
        yield from _delete_events(StagedKind.DELETE, part.partition, keys)
        if verb == "UPDATE":
            new = part.rows.select([column.name for column in target.table.columns])
            yield EventRows(StagedKind.UPDATED, part.partition, 0, new)


def changed_row_events(changes: pa.Table, target: StagingTarget) -> Iterator[EventRows]:
    """Yield the events of a MERGE or INSERT. ``changes``: the rows of `stage_computed_rows`."""
    schema = arrow_schema(target.table.columns)
    partition_keys = [partition_key(index) for index in range(len(target.table.partition_columns))]
    old_keys = [OLD + key if OLD + key in changes.column_names else key for key in partition_keys]
    ordered = sort_by_key(changes, ROW_ID_PARTS)
    for kind, actions in _actions_of_kinds(target).items():
        of_kind = ordered.filter(pc.is_in(ordered.column(ACTION), pa.array(map(int, actions), pa.int32())))
        if kind.is_delete:
            for texts, rows in _group_by(of_kind, old_keys):
                yield from _delete_events(kind, _partition(texts), rows.select(ROW_ID_PARTS))
            continue
        placed: dict[tuple[PartitionValues, int], list[pa.Table]] = defaultdict(list)
        for (*texts, bucket), rows in _group_by(of_kind, [*partition_keys, BUCKET]):
            new = rows.select([staged_column(index) for index in range(len(schema))])
            # Rows that stay have the text of their directory (day=06), those that come have that of the value: one file of both.
            values = identity(target.table, _partition(texts))
            placed[values, bucket].append(new.rename_columns(schema.names).cast(schema))
        for (values, bucket), tables in placed.items():
            yield EventRows(kind, values, bucket, pa.concat_tables(tables))


def _partition(texts: Sequence[str]) -> PartitionValues:
    return tuple(map(partition_value, texts))


def _actions_of_kinds(target: StagingTarget) -> dict[StagedKind, list[Action]]:
    """Return the actions whose rows make an event of each kind; an UPDATE makes a delete event and a new row."""
    if target.shares_files:
        return {
            StagedKind.DELETE: [Action.DELETE],
            StagedKind.DELETED_BY_UPDATE: [Action.UPDATE],
            StagedKind.INSERTED: [Action.UPDATE, Action.INSERT],
        }
    return {
        StagedKind.DELETE: [Action.DELETE, Action.UPDATE],
        StagedKind.UPDATED: [Action.UPDATE],
        StagedKind.INSERTED: [Action.INSERT],
    }


def _delete_events(kind: StagedKind, partition: PartitionValues, keys: pa.Table) -> Iterator[EventRows]:
    """Yield the delete events of each bucket. ``keys`` are in order. Raises BadFileError as `split_by_bucket`."""
    for bucket, rows in split_by_bucket(keys, ROW_ID_PARTS[1]):
        yield EventRows(kind, partition, bucket, rows)


def _group_by(rows: pa.Table, names: Sequence[str]) -> Iterator[tuple[list[Any], pa.Table]]:
    return group_rows(rows, [rows.column(name).combine_chunks() for name in names])
