"""Joins of rows with delete and update events, where a scan cannot use the delete bitmap, or shows deleted rows.

Delete join: one packed long key costs a third of a join on three columns (measured in ``bench``). Packing needs bounds, which
the footers of delete files give. Bounds are never trusted blindly: an event outside them fails the query.

Newest row versions of ACID v1 (Hive 0.13 to 2.x), which keeps update events beside inserts. Rule of
``OrcRawRecordMerger.ReaderKey``: events are merged by key, and the newest event of a key counts. Newest is the largest current
transaction; within one transaction a delete, then the highest statement id. Instead of sorting all rows, the scan gathers the
events alone, and drops each row for whose key a newer event exists.

Rows with their deletion state (Hive 4's ``acid.fetch.deleted.rows``) are all rows, each with the event of its key, if
there is one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.acid_columns import (
    BUCKET_SHIFT,
    DELETE_EVENT,
    ROW_ID_PARTS,
    V1_PROPERTY,
    AcidColumn,
    KeyBox,
)
from hiveacid.core.format.names import FILE_NAME, ROW_ID, ROW_IS_DELETED
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import Expression, as_column, named, selected
from hiveacid.spark.read.acid_rows import (
    CURRENT_WRITE_ID_EXPRESSION,
    DELETES,
    UPDATES_AND_DELETES,
    all_rows,
    delete_event_columns,
    read_acid_files,
)
from hiveacid.spark.read.delete_events import KEY_EXPRESSIONS, DeleteBounds
from hiveacid.spark.read.partition_lookup import PartitionKey, PartitionLookup, statement_id_from_path
from hiveacid.spark.read.scan_source import (
    CURRENT_WRITE_ID_COLUMN,
    FileGroup,
    ScanSource,
    empty_frame,
    group_files,
)
from hiveacid.storage.snapshot_locations import Location


def _between(value: str, low: int, high: int) -> str:
    """Compare without BETWEEN: Spark 4 evaluates it in a projection of its own, which reads all columns of the row."""
    return f"({value} >= {low} AND {value} <= {high})"


_DELETED_BY = "__hiveacid_deleted_by"
_IS_V0 = f"{KEY_EXPRESSIONS[0]} = 0L AND {_between(KEY_EXPRESSIONS[1], 0, V1_PROPERTY - 1)}"
KEY_STRUCT = (
    f"struct({KEY_EXPRESSIONS[0]} AS col1, CASE WHEN {_IS_V0} THEN shiftleft({AcidColumn.BUCKET}, {BUCKET_SHIFT}) | {V1_PROPERTY} "
    f"ELSE {KEY_EXPRESSIONS[1]} END AS col2, {KEY_EXPRESSIONS[2]} AS col3)"
)
"""The key as a struct. Hive 2 and older named original rows by the bucket alone (codec version 0)."""
_OUTSIDE = "[HIVEACID_FORMAT] a delete event lies outside the statistics of its file"


@dataclass(frozen=True)
class RowKey:
    """The column ``__hiveacid_row_key`` of rows as `acid_rows.KeyColumns`, to be joined with `delete_keys`."""

    bounds: DeleteBounds
    several: bool

    @classmethod
    def of(cls, locations: Sequence[Location], bounds: DeleteBounds) -> RowKey:
        """Return the key of rows of some locations, with the partition if these are several."""
        return cls(bounds, several=len(locations) > 1)

    def columns(self, partition: PartitionKey, _statement: str) -> Sequence[Expression]:
        """Return the column for rows of a partition."""
        place = partition.name if self.several else None
        return [named(delete_key(self.bounds, place, strict=False), "__hiveacid_row_key")]


def delete_keys(
    source: ScanSource, locations: Sequence[Location], bounds: DeleteBounds, *, current: bool = False
) -> DataFrame:
    """Return the keys of delete events as ``__hiveacid_event_key``; ``current`` adds the deleting write ids."""
    several = len(locations) > 1
    more = [CURRENT_WRITE_ID_EXPRESSION] if current else []

    def keys_of(group: FileGroup) -> DataFrame:
        frame = read_acid_files(source, group, DELETES)
        partition = PartitionLookup(source.env, source.table, group, frame).name if several else None
        return selected(
            frame, [named(delete_key(bounds, partition, strict=True), "__hiveacid_event_key"), *more]
        )

    groups = group_files(source.table, locations, source.delete_event_files)
    return reduce(lambda left, right: left.union(right), map(keys_of, groups))


def delete_key(bounds: DeleteBounds, partition: Expression | None, *, strict: bool) -> Expression:
    """Return the join key over the root columns of an ACID file.

    ``strict`` (the delete events' side): a key outside the bounds fails the query instead of being lost.
    On the rows' side such a key is NULL: no event can match it. ``partition`` tells partitions apart.
    """
    write_id, bucket, row_id = KEY_EXPRESSIONS
    box = bounds.box
    if box is None or not bounds.keys_fit_long:
        key = KEY_STRUCT
    else:
        w, b, r = box.parts
        packed = (
            f"shiftleft({write_id} - {w.low}L, {b.bits + r.bits})"
            f" | shiftleft(CAST({bucket} - {b.low} AS BIGINT), {r.bits}) | ({row_id} - {r.low}L)"
        )
        inside = _box_condition(box)
        if strict and len(bounds.boxes) > 1:  # files outside these were kept out of the join
            inside = " OR ".join(f"({_box_condition(part)})" for part in bounds.boxes)
        outside = f"CAST(raise_error('{_OUTSIDE}') AS BIGINT)" if strict else "NULL"
        key = f"CASE WHEN {inside} THEN {packed} ELSE {outside} END"
    if partition is None or isinstance(partition, str):
        return key if partition is None else f"struct({key} AS key, {partition} AS place)"
    return F.struct(F.expr(key).alias("key"), as_column(partition).alias("place"))


def _box_condition(box: KeyBox) -> str:
    return " AND ".join(
        _between(value, part.low, part.high) for value, part in zip(KEY_EXPRESSIONS, box.parts, strict=True)
    )


def scan_deletes(source: ScanSource, locations: Sequence[Location]) -> DataFrame:
    """Return valid delete events: ``ROW__ID``, the deleting write id, partition columns.

    A row that was deleted twice has two events. Minor compaction copies them.
    """
    groups = group_files(source.table, locations, source.delete_event_files)
    if not groups:
        partition_columns = source.table.partition_column_names
        return empty_frame(source, current=True).select(*partition_columns, ROW_ID, CURRENT_WRITE_ID_COLUMN)
    frames = [delete_event_columns(source, group) for group in groups]
    return reduce(lambda left, right: left.unionByName(right), frames)


def newest_versions(source: ScanSource, locations: Sequence[Location]) -> list[DataFrame]:
    """Return the newest version of each row, unless it is a delete."""
    groups = [
        (group, operations)
        for files_of, operations in (
            (source.v1_event_files, UPDATES_AND_DELETES),
            (source.delete_event_files, DELETES),
        )
        for group in group_files(source.table, locations, files_of)
    ]
    events = []
    for group, operations in groups:
        frame = read_acid_files(source, group, operations)
        partition = PartitionLookup(source.env, source.table, group, frame)
        events.append(_event_versions(frame, partition.name, group.depth))
    newest = reduce(lambda left, right: left.union(right), events)
    newest = newest.groupBy("__hiveacid_event_key").agg(
        F.max("__hiveacid_event_version").alias("__hiveacid_event_version")
    )
    rows = all_rows(source, locations, _RowVersion())
    return [
        frame.join(newest, _has_newer_event(), "left_anti").drop(
            "__hiveacid_row_key", "__hiveacid_row_version"
        )
        for frame, _ in rows
    ]


def _event_versions(events: DataFrame, partition: Expression, depth: int) -> DataFrame:
    """Return keys (``__hiveacid_event_key``) and versions (``__hiveacid_event_version``) of events."""
    version = _version(
        f"coalesce({AcidColumn.OPERATION}, -1) = {DELETE_EVENT}", statement_id_from_path(depth)
    )
    return selected(
        events, [named(_key(partition), "__hiveacid_event_key"), named(version, "__hiveacid_event_version")]
    )


@dataclass(frozen=True)
class _RowVersion:
    """Key and version of rows as `acid_rows.KeyColumns`, for `_has_newer_event`."""

    def columns(self, partition: PartitionKey, statement: str) -> Sequence[Expression]:
        return [
            named(_key(partition.name), "__hiveacid_row_key"),
            named(_version("false", statement), "__hiveacid_row_version"),
        ]


def _has_newer_event() -> SparkColumn:
    """Return the condition that a newer event of a row's key exists."""
    same_key = F.col("__hiveacid_row_key") == F.col("__hiveacid_event_key")
    return same_key & (F.col("__hiveacid_row_version") < F.col("__hiveacid_event_version"))


def _key(partition: Expression) -> Expression:
    if isinstance(partition, str):
        return f"struct({KEY_STRUCT} AS key, {partition} AS place)"
    return F.struct(F.expr(KEY_STRUCT).alias("key"), as_column(partition).alias("place"))


def _version(deletes: str, statement: str) -> str:
    current = f"CAST(coalesce({AcidColumn.CURRENT_WRITE_ID}, -1) AS BIGINT)"
    return f"struct({current} AS current, {deletes} AS deletes, {statement} AS statement)"


def rows_with_deleted(
    source: ScanSource, locations: Sequence[Location], bounds: DeleteBounds | None
) -> DataFrame:
    """Return all rows of valid write ids, with ``ROW__ID``, ``INPUT__FILE__NAME`` and ``ROW__IS__DELETED`` as last columns.

    The write id in the ``ROW__ID`` of a deleted row is that of its deletion (``VectorizedOrcAcidRowBatchReader``). Rows that a
    major compaction left out are gone. ``bounds``: of the delete events; None if there are none.
    """
    key = events = None
    if bounds is not None and any(location.state.delete_deltas for location in locations):
        key = RowKey.of(locations, bounds)
        # a row that was deleted twice has two events
        deleted_by = F.min(CURRENT_WRITE_ID_COLUMN).alias(_DELETED_BY)
        keys = delete_keys(source, locations, bounds, current=True)
        events = keys.groupBy("__hiveacid_event_key").agg(deleted_by)
        events = F.broadcast(events) if bounds.fits_memory else events
    frames = [frame for frame, _ in all_rows(source, locations, key)] or [empty_frame(source, current=True)]
    return reduce(DataFrame.unionByName, [_with_state(source, frame, events) for frame in frames])


def _with_state(source: ScanSource, frame: DataFrame, events: DataFrame | None) -> DataFrame:
    columns = [quote_name(column.name) for column in source.table.all_columns]
    if events is None or "__hiveacid_row_key" not in frame.columns:
        return frame.select(*columns, ROW_ID, FILE_NAME, F.lit(False).alias(ROW_IS_DELETED))  # noqa: FBT003 - a value
    same_key = F.col("__hiveacid_row_key") == F.col("__hiveacid_event_key")
    write_id, *others = (F.col(f"{ROW_ID}.{part}") for part in ROW_ID_PARTS)
    parts = (F.coalesce(_DELETED_BY, write_id), *others)
    row_id = F.struct(*[part.alias(name) for part, name in zip(parts, ROW_ID_PARTS, strict=True)])
    return frame.join(events, same_key, "left").select(
        *columns, row_id.alias(ROW_ID), FILE_NAME, F.col(_DELETED_BY).isNotNull().alias(ROW_IS_DELETED)
    )
