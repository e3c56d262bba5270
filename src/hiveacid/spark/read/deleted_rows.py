"""Rows of a snapshot with the deleted ones among them, and the deletion state of each (Hive 4's ``acid.fetch.deleted.rows``).

A plan joins the delete events to all rows, as the change feed does.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.acid_columns import ROW_ID_PARTS
from hiveacid.core.format.names import FILE_NAME, ROW_ID, ROW_IS_DELETED
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.read.acid_rows import all_rows
from hiveacid.spark.read.delete_events import DeleteBounds
from hiveacid.spark.read.delete_joins import RowKey, delete_keys
from hiveacid.spark.read.scan_source import CURRENT_WRITE_ID_COLUMN, ScanSource, empty_frame
from hiveacid.storage.snapshot_locations import Location

_DELETED_BY = "__hiveacid_deleted_by"


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
        deleted_by = F.min(CURRENT_WRITE_ID_COLUMN).alias(
            _DELETED_BY
        )  # a row that was deleted twice has two events
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
