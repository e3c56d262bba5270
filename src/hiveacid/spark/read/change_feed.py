"""Change feed as one native Spark plan: inserted rows, and deleted rows with the values that they had.

A delete event holds only the id of its row. The plan therefore joins events to the rows of the earlier snapshot and to
those added since; ``core.snapshot.change_feed`` selects the directories that hold them. Directories without new rows are
read only where rows were deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.model import TableKind
from hiveacid.core.schema.types import quote_name
from hiveacid.core.snapshot.change_feed import CHANGE_TYPE, UPDATE_TYPES, WRITE_ID, ChangedState, ChangeSpan
from hiveacid.spark.read.acid_rows import all_rows, row_validity
from hiveacid.spark.read.delete_events import DeleteBounds
from hiveacid.spark.read.delete_joins import RowKey, delete_keys
from hiveacid.spark.read.partition_lookup import top_directory
from hiveacid.spark.read.scan_frames import flat_table_frames
from hiveacid.spark.read.scan_source import CURRENT_WRITE_ID_COLUMN, FileGroup, ScanSource, empty_frame
from hiveacid.storage.snapshot_locations import Location

_DELETED_BY, _DELETED_BEFORE = "__hiveacid_deleted_by", "__hiveacid_ended_before"


@dataclass(frozen=True)
class ChangedLocation:
    """A location, and its directories with changes as selected by ``core.snapshot.change_feed``."""

    location: Location
    changes: ChangedState


def change_feed(
    source: ScanSource,
    span: ChangeSpan,
    changed: Sequence[ChangedLocation],
    bounds: DeleteBounds | None,
    *,
    net: bool,
) -> DataFrame:
    """Return the table's columns (and ``ROW__ID`` of full ACID tables) with ``_change_type`` and ``_write_id``.

    ``_change_type`` is insert or delete; the write id is that of the change. A row that one write id inserted and
    deleted was never visible and is left out. ``net`` also leaves out rows inserted and deleted within the span.
    """
    rows = _RowSource(source, span)
    frames = []
    with_inserts_only = [entry.location for entry in changed if not entry.changes.deletes]
    if any(location.state.row_directories for location in with_inserts_only):
        new = ~F.expr(row_validity(span.after, CURRENT_WRITE_ID_COLUMN))
        kind, write_id = F.lit("insert").alias(CHANGE_TYPE), F.col(CURRENT_WRITE_ID_COLUMN).alias(WRITE_ID)
        frames += [
            frame.where(new).select(*rows.columns, kind, write_id)
            for frame in rows.of(with_inserts_only, None)
        ]
    by_overwrites: dict[tuple[int, ...], list[Location]] = defaultdict(list)
    for entry in changed:
        if entry.changes.deletes:
            by_overwrites[entry.changes.overwrites].append(entry.location)
    for overwrites, locations in by_overwrites.items():
        frames += _inserts_and_deletes(rows, locations, overwrites, bounds, net=net)
    if not frames:
        kind, write_id = F.lit("").alias(CHANGE_TYPE), F.col(CURRENT_WRITE_ID_COLUMN).alias(WRITE_ID)
        return empty_frame(source, current=True).select(*rows.columns, kind, write_id)
    return reduce(lambda left, right: left.unionByName(right), frames)


@dataclass(frozen=True)
class _RowSource:
    """Source of all rows, deleted ones too, each with its current write id."""

    source: ScanSource
    span: ChangeSpan

    @property
    def columns(self) -> list[str]:
        table = self.source.table
        identity = [ROW_ID] if table.kind is TableKind.FULL_ACID else []
        return [quote_name(c.name) for c in table.all_columns] + identity

    def of(self, locations: Sequence[Location], bounds: DeleteBounds | None) -> Iterable[DataFrame]:
        """Yield scans of locations; ``bounds`` adds the key of the delete join."""
        if self.source.table.kind is not TableKind.FULL_ACID:
            yield from flat_table_frames(self.source, locations, self._directory_write_id)
            return
        key = None if bounds is None else RowKey.of(locations, bounds)
        for frame, _ in all_rows(self.source, locations, key):
            yield frame.drop(FILE_NAME)

    def _directory_write_id(self, group: FileGroup) -> list[SparkColumn]:
        """Return the write id of an insert-only table's row; 0 for files older than the conversion.

        The result is 0, too, for directories of several write ids: all of these are in the earlier snapshot. A
        compacted base is one of them if its name has an aborted write id, whose rows it does not hold.
        """
        top = F.expr(top_directory(group))
        low, high = (
            F.when((number := F.regexp_extract(top, pattern, 1)) != "", number).cast("bigint")
            for pattern in ("^(?:base|delta)_([0-9]+)(?:_|$)", "^delta_[0-9]+_([0-9]+)(?:_|$)")
        )
        aborted = [F.lit(int(write_id)) for write_id in self.span.until.aborted]
        is_single = (F.coalesce(high, low) == low) & ~F.coalesce(low.isin(aborted), F.lit(False))  # noqa: FBT003
        return [F.coalesce(F.when(is_single, low), F.lit(0).cast("bigint")).alias(CURRENT_WRITE_ID_COLUMN)]


def _inserts_and_deletes(
    rows: _RowSource,
    locations: Sequence[Location],
    overwrites: Sequence[int],
    bounds: DeleteBounds | None,
    *,
    net: bool,
) -> Iterable[DataFrame]:
    with_events = bounds is not None and any(location.state.delete_deltas for location in locations)
    events = None
    if bounds is not None and with_events:
        events = _first_deletes(rows, locations, bounds)
        events = F.broadcast(events) if bounds.fits_memory else events
    cases = "".join(
        f" WHEN {CURRENT_WRITE_ID_COLUMN} < {int(write_id)}L THEN {int(write_id)}L" for write_id in overwrites
    )
    overwritten_by = F.expr(f"CASE{cases} END" if cases else "CAST(NULL AS BIGINT)")
    for frame in rows.of(locations, bounds if with_events else None):
        if events is None:
            deleted_by, visible = overwritten_by, frame
        else:
            same_key = F.col("__hiveacid_row_key") == F.col("__hiveacid_event_key")
            visible = frame.join(events, same_key, "left").where(f"NOT coalesce({_DELETED_BEFORE}, false)")
            deleted_by = F.least(F.col(_DELETED_BY), overwritten_by) if overwrites else F.col(_DELETED_BY)
        yield _change_rows(visible, rows, deleted_by, net=net)


def _first_deletes(rows: _RowSource, locations: Sequence[Location], bounds: DeleteBounds) -> DataFrame:
    """Return one row for each deleted key: the first new deleting write id, and whether it was deleted before."""
    events = delete_keys(rows.source, locations, bounds, current=True)
    before = F.expr(row_validity(rows.span.after, CURRENT_WRITE_ID_COLUMN))
    first = F.min(F.when(~before, F.col(CURRENT_WRITE_ID_COLUMN))).alias(_DELETED_BY)
    return events.groupBy("__hiveacid_event_key").agg(first, F.max(before).alias(_DELETED_BEFORE))


def _change_rows(frame: DataFrame, rows: _RowSource, deleted_by: SparkColumn, *, net: bool) -> DataFrame:
    """Return no, one or two changes for each row."""
    inserted = ~F.expr(row_validity(rows.span.after, CURRENT_WRITE_ID_COLUMN))
    deleted = F.col(_DELETED_BY)
    never_visible = deleted.isNotNull() if net else deleted.eqNullSafe(F.col(CURRENT_WRITE_ID_COLUMN))
    changes = [
        F.when(
            condition & ~(inserted & never_visible),
            F.struct(F.lit(kind).alias(CHANGE_TYPE), write_id.alias(WRITE_ID)),
        )
        for condition, kind, write_id in (
            (inserted, "insert", F.col(CURRENT_WRITE_ID_COLUMN)),
            (deleted.isNotNull(), "delete", deleted),
        )
    ]
    frame = frame.withColumn(_DELETED_BY, deleted_by).where(inserted | deleted.isNotNull())
    return frame.select(*rows.columns, F.inline(F.filter(F.array(*changes), lambda item: item.isNotNull())))


def pair_updates(frame: DataFrame, key: Sequence[str], *, net: bool) -> DataFrame:
    """Rename the delete and the insert of one key to update_before and update_after.

    The format itself does not link the versions of a row. Two changes pair if they are the only ones of their key, no part of
    which is NULL, within one write id (``net``: within the span).
    """
    keys = [F.col(quote_name(name)) for name in key]
    same_key = Window.partitionBy(*keys, *([] if net else [F.col(WRITE_ID)]))
    change = F.col(CHANGE_TYPE)
    counts = [F.count_if(change == kind).over(same_key) for kind in UPDATE_TYPES]
    not_null = reduce(lambda left, right: left & right, [part.isNotNull() for part in keys])
    (inserted, after), (_, before) = UPDATE_TYPES.items()
    renamed = F.when(change == inserted, after).otherwise(before)
    inserts, deletes = counts
    are_update = not_null & (inserts == 1) & (deletes == 1)
    return frame.withColumn(CHANGE_TYPE, F.when(are_update, renamed).otherwise(change))
