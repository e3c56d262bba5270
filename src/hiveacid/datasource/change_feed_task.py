"""Changes in one file, for a task of a streaming query.

`OrcReader` reads the file, as for `hiveacid.open`. The row ids of a stripe come first, its other columns only if a row was
inserted or deleted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from hiveacid.core.format.acid_columns import KEY_COLUMNS, AcidColumn
from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.schema.types import Primitive, has_primitive, parse_type
from hiveacid.core.snapshot.change_feed import CHANGE_TYPE, WRITE_ID
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import UnsupportedFeatureError, acid_v1
from hiveacid.orc.build_delete_bitmap import are_valid
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.table.arrow_read.files_to_open import partition_scalars
from hiveacid.table.arrow_read.live_rows import DeleteKeys, Keys
from hiveacid.table.arrow_read.orc_file import OrcReader, int64_values, read_events

_ROWS = 65_536  # of one batch
_NEVER = np.iinfo(np.int64).max  # a write id above all others


@dataclass(frozen=True)
class FileChanges:
    """One file with changes of a span, for one task.

    Of a change feed it yields the changes committed at ``until`` but not at ``after``. Of a snapshot, where ``after`` is
    None, it yields the rows that are live at ``until``.

    ``write_id``: the write id of all rows, if they have no row ids (insert-only tables). ``overwrites``: ascending write ids
    of overwrites. ``with_deletes``: yield deleted rows, too. ``with_change_columns``: add the change columns.
    """

    file: ScanFile
    table: TableDefinition
    level: LayoutLevel
    partition: Partition | None
    until: ValidWriteIdList
    after: ValidWriteIdList | None
    events: tuple[ScanFile, ...] = ()
    overwrites: tuple[int, ...] = ()
    write_id: int | None = None
    with_deletes: bool = False
    with_change_columns: bool = False


def require_readable(table: TableDefinition) -> None:
    """Raise UnsupportedFeatureError for a column whose values Spark would misread if a Python worker passed them."""
    for column in table.columns:
        hive = parse_type(column.type)
        if not isinstance(hive, Primitive) and has_primitive(hive, {"timestamp"}):
            raise UnsupportedFeatureError(
                f'{table.name}: column {column.name} is {column.type}: format("hiveacid") cannot read times in nested '
                "types: read the table with acid.sql or acid.table, its changes with t.changes()"
            )


def read_file_changes(changes: FileChanges) -> Iterator[pa.RecordBatch]:
    """Yield record batches: the table's columns and, with ``with_change_columns``, ``_change_type`` and ``_write_id``.

    Raises UnsupportedFeatureError for values that cannot be read correctly without Spark, BadFileError, StorageError.
    """
    fs = AnyFileSystem()
    reader = OrcReader(fs, changes.file, changes.table, changes.level)
    if reader.has_events:
        raise acid_v1(changes.file.path)
    deletions = _Deletions.of(fs, changes)
    for stripe in range(reader.stripes):
        keys, write_ids = _row_keys(changes, reader, stripe)
        inserted, deleted, deleted_by = _classify(changes, deletions, keys, write_ids)
        changed = inserted | deleted
        if not changed.any():
            continue
        keep = None if changed.all() else pa.array(changed)
        columns = reader.values(stripe, [column.name for column in changes.table.columns], keep)
        for mask, kind, ids in ((deleted, "delete", deleted_by), (inserted, "insert", write_ids)):
            positions, ids_of_kind = np.flatnonzero(mask[changed]), ids[mask]
            for start in range(0, len(positions), _ROWS):
                part = slice(start, start + _ROWS)
                arrays = [columns[column.name].take(positions[part]) for column in changes.table.columns]
                yield _batch(changes, arrays, kind, ids_of_kind[part])


def _row_keys(changes: FileChanges, reader: OrcReader, stripe: int) -> tuple[Keys | None, NDArray[np.int64]]:
    """Return the row ids of a stripe, if rows have any, and the write ids that the rows were committed with."""
    if changes.write_id is not None:
        return None, np.full(reader.tail.stripes[stripe].rows, changes.write_id)
    if changes.file.original is not None:
        keys = Keys.of(reader.keys(stripe))
        return keys, keys.write_ids
    *parts, current = reader.acid_columns(stripe, [*KEY_COLUMNS, AcidColumn.CURRENT_WRITE_ID])
    return Keys(*map(int64_values, parts)), int64_values(current)


@dataclass(frozen=True)
class _Deletions:
    """Keys that delete events name. ``deleted_by``: the first write id of the span that deleted the key.

    ``deleted_before_span``: whether an earlier write id deleted it.
    """

    keys: DeleteKeys
    deleted_by: NDArray[np.int64]
    deleted_before_span: NDArray[np.bool_]

    @classmethod
    def of(cls, fs: FileSystem, changes: FileChanges) -> _Deletions | None:
        tables = [read_events(fs, file, changes.until) for file in changes.events]
        events = Keys.join([Keys.of(table) for table in tables])
        keys = DeleteKeys.of_keys(events.in_codec_1)
        if keys is None:
            return None
        current = np.concatenate(
            [int64_values(table.column(AcidColumn.CURRENT_WRITE_ID)) for table in tables]
        )
        positions, before = keys.find(events), _existed(changes, current)
        deleted_by = np.full(len(keys.keys.row_ids), _NEVER)
        np.minimum.at(deleted_by, positions[~before], current[~before])
        deleted_before_span = np.zeros(len(deleted_by), bool)
        deleted_before_span[positions[before]] = True
        return cls(keys, deleted_by, deleted_before_span)


def _existed(changes: FileChanges, write_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return a mask of the write ids that were valid before the span."""
    return np.zeros(len(write_ids), bool) if changes.after is None else _are_valid(changes.after, write_ids)


def _are_valid(valid: ValidWriteIdList, write_ids: NDArray[np.int64]) -> NDArray[np.bool_]:
    mask: NDArray[np.bool_] = are_valid(valid, pa.array(write_ids, pa.int64())).to_numpy(zero_copy_only=False)
    return mask


def _classify(
    changes: FileChanges, deletions: _Deletions | None, keys: Keys | None, write_ids: NDArray[np.int64]
) -> tuple[NDArray[np.bool_], NDArray[np.bool_], NDArray[np.int64]]:
    """Return masks of inserted and of deleted rows, and the deleting write id of each row (`_NEVER`: none)."""
    is_valid, deleted_by = _are_valid(changes.until, write_ids), np.full(len(write_ids), _NEVER)
    if deletions is not None and keys is not None:
        positions = deletions.keys.find(keys)
        matched = positions >= 0
        deleted_by[matched] = deletions.deleted_by[positions[matched]]
        is_valid[matched] &= ~deletions.deleted_before_span[positions[matched]]
    for overwrite in changes.overwrites:
        older = write_ids < overwrite
        deleted_by[older] = np.minimum(deleted_by[older], overwrite)
    is_deleted, no_rows = deleted_by < _NEVER, np.zeros(len(write_ids), bool)
    if changes.after is None:
        return is_valid & ~is_deleted, no_rows, deleted_by
    new = ~_existed(changes, write_ids)
    visible = is_valid & ~(new & (deleted_by == write_ids))
    return visible & new, visible & is_deleted if changes.with_deletes else no_rows, deleted_by


def _batch(
    changes: FileChanges, columns: Sequence[pa.Array], kind: str, write_ids: NDArray[np.int64]
) -> pa.RecordBatch:
    table, count = changes.table, len(write_ids)
    constants = [pa.repeat(value, count) for value in partition_scalars(table, changes.partition)]
    arrays, names = [*columns, *constants], arrow_schema(table.all_columns).names
    if changes.with_change_columns:
        arrays += [pa.repeat(kind, count), pa.array(write_ids, pa.int64())]
        names += [CHANGE_TYPE, WRITE_ID]
    return pa.RecordBatch.from_arrays(arrays, names=names)
