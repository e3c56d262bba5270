"""Delete join: join keys of rows and delete events, for scans that cannot use the delete bitmap.

One packed long key costs a third of a join on three columns (measured in ``bench``). Packing needs bounds, which the
footers of delete files give. Bounds are never trusted blindly: an event outside them fails the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.format.record_keys import KeyBox
from hiveacid.spark.formats.expressions import Expression, as_column, named, selected
from hiveacid.spark.read import acid_rows
from hiveacid.spark.read.delete_bitmap_lookup import KEY_COLUMNS
from hiveacid.spark.read.delete_bounds import FIRST_V1_PROPERTY, DeleteBounds
from hiveacid.spark.read.partition_lookup import partition_lookup
from hiveacid.spark.read.scan_groups import FileGroup, group_files
from hiveacid.spark.read.scan_source import CURRENT_WRITE_ID, ScanSource, delete_event_files, empty_frame
from hiveacid.storage.snapshot_locations import Location


def _between(value: str, low: int, high: int) -> str:
    """Compare without BETWEEN: Spark 4 evaluates it in a projection of its own, which reads all columns of the row."""
    return f"({value} >= {low} AND {value} <= {high})"


_IS_V0 = f"coalesce(originalTransaction, -1L) = 0L AND {_between(KEY_COLUMNS[1], 0, FIRST_V1_PROPERTY - 1)}"
KEY_STRUCT = (
    f"struct({KEY_COLUMNS[0]} AS col1, CASE WHEN {_IS_V0} THEN shiftleft(bucket, 16) | {FIRST_V1_PROPERTY} "
    f"ELSE {KEY_COLUMNS[1]} END AS col2, {KEY_COLUMNS[2]} AS col3)"
)
"""The key as a struct. Hive 2 and older named original rows by the bucket alone (codec version 0)."""
_OUTSIDE = "[HIVEACID_FORMAT] a delete event lies outside the statistics of its file"


def row_key(locations: Sequence[Location], bounds: DeleteBounds) -> acid_rows.KeyColumns:
    """Return a function that adds the column ``__hiveacid_row_key`` to rows, to be joined with `delete_keys`."""
    several = len(locations) > 1
    return lambda partition, _: [
        named(delete_key(bounds, partition.name if several else None, strict=False), "__hiveacid_row_key")
    ]


def delete_keys(
    source: ScanSource, locations: Sequence[Location], bounds: DeleteBounds, *, current: bool = False
) -> DataFrame:
    """Return the keys of delete events as ``__hiveacid_event_key``; ``current`` adds the deleting write ids."""
    several = len(locations) > 1
    more = [acid_rows.CURRENT_WRITE_ID_COLUMN] if current else []

    def keys_of(group: FileGroup) -> DataFrame:
        frame = acid_rows.read_acid_files(source, group, acid_rows.DELETES)
        partition = partition_lookup(source.env, source.table, group, frame).name if several else None
        return selected(
            frame, [named(delete_key(bounds, partition, strict=True), "__hiveacid_event_key"), *more]
        )

    groups = group_files(source.table, locations, delete_event_files(source))
    return reduce(lambda left, right: left.union(right), map(keys_of, groups))


def delete_key(bounds: DeleteBounds, partition: Expression | None, *, strict: bool) -> Expression:
    """Return the join key over the root columns of an ACID file.

    ``strict`` (the delete events' side): a key outside the bounds fails the query instead of being lost.
    On the rows' side such a key is NULL: no event can match it. ``partition`` tells partitions apart.
    """
    write_id, bucket, row_id = KEY_COLUMNS
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
        _between(value, part.low, part.high) for value, part in zip(KEY_COLUMNS, box.parts, strict=True)
    )


def scan_deletes(source: ScanSource, locations: Sequence[Location]) -> DataFrame:
    """Return valid delete events: ``ROW__ID``, the deleting write id, partition columns.

    A row that was deleted twice has two events. Minor compaction copies them.
    """
    groups = group_files(source.table, locations, delete_event_files(source))
    if not groups:
        partition_columns = source.table.partition_column_names
        return empty_frame(source, current=True).select(*partition_columns, ROW_ID, CURRENT_WRITE_ID)
    frames = [acid_rows.delete_event_columns(source, group) for group in groups]
    return reduce(lambda left, right: left.unionByName(right), frames)
