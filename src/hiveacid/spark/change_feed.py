"""The change feed as one native Spark plan: rows that came, and rows that went with what they held.

A delete event knows the id of its row only, so events are joined to the rows of the earlier snapshot and to those
that came since; ``core.changes`` says which directories hold them. Directories without new rows are read only
where something was deleted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql.window import Window

from hiveacid.core.changes import CHANGE_TYPE, WRITE_ID, ChangedState, ChangeSpan
from hiveacid.core.model import TableKind
from hiveacid.core.types import quote_name
from hiveacid.spark.paths import top_directory
from hiveacid.spark.scan import (
    CURRENT,
    FILE_NAME,
    Source,
    all_rows,
    delete_keys,
    empty_scan,
    flat_frames,
    row_key,
    row_validity,
)

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from hiveacid.spark.deletes import DeleteBounds
    from hiveacid.spark.originals import Numbered
    from hiveacid.spark.paths import FileGroup
    from hiveacid.storage.listing import Location

_ENDED, _ENDED_BEFORE = "__hiveacid_ended", "__hiveacid_ended_before"


@dataclass(frozen=True)
class Changed:
    """A location whose state is that of ``core.changes``."""

    location: Location
    changes: ChangedState


def feed(
    source: Source,
    span: ChangeSpan,
    changed: Sequence[Changed],
    bounds: DeleteBounds | None,
    numbered: Numbered,
    *,
    net: bool,
) -> DataFrame:
    """Return the table's columns (and ``ROW__ID`` of full ACID tables) with ``_change_type`` and ``_write_id``.

    ``_change_type`` is insert or delete; the write id is that of the change. A row that one write id made and
    ended was never seen and does not appear; with ``net`` no row does that came and went within the span.
    """
    rows = _Rows(source, span, numbered)
    frames = []
    added = [one.location for one in changed if not one.changes.deletes]
    if any(at.state.row_directories for at in added):
        new = ~F.expr(row_validity(span.after, CURRENT))
        kind, write_id = F.lit("insert").alias(CHANGE_TYPE), F.col(CURRENT).alias(WRITE_ID)
        frames += [frame.where(new).select(*rows.columns, kind, write_id) for frame in rows.of(added, None)]
    by_overwrites: dict[tuple[int, ...], list[Location]] = defaultdict(list)
    for one in changed:
        if one.changes.deletes:
            by_overwrites[one.changes.overwrites].append(one.location)
    for overwrites, locations in by_overwrites.items():
        frames += _came_and_went(rows, locations, overwrites, bounds, net=net)
    if not frames:
        nothing = empty_scan(source, current=True)
        return nothing.select(*rows.columns, F.lit("").alias(CHANGE_TYPE), F.col(CURRENT).alias(WRITE_ID))
    return reduce(lambda left, right: left.unionByName(right), frames)


@dataclass(frozen=True)
class _Rows:
    """Where rows come from, those that events hide too, each with its write id."""

    source: Source
    span: ChangeSpan
    numbered: Numbered

    @property
    def columns(self) -> list[str]:
        table = self.source.table
        identity = ["ROW__ID"] if table.kind is TableKind.FULL_ACID else []
        return [quote_name(c.name) for c in (*table.columns, *table.partition_columns)] + identity

    def of(self, locations: Sequence[Location], bounds: DeleteBounds | None) -> Iterable[DataFrame]:
        """Yield scans; with ``bounds`` also the key that events are joined by."""
        if self.source.table.kind is not TableKind.FULL_ACID:
            yield from flat_frames(self.source, locations, lambda group: [_directory_write_id(group)])
            return
        key = None if bounds is None else row_key(locations, bounds)
        within = {at.root: self.numbered[at.root] for at in locations if at.root in self.numbered}
        for frame, _ in all_rows(self.source, locations, within, key):
            yield frame.drop(FILE_NAME)


def _directory_write_id(group: FileGroup) -> SparkColumn:
    """Return the write id of an insert-only table's row; 0 for files older than the conversion.

    Of directories with several write ids 0, too: they are read only where all of them are in the earlier snapshot.
    """
    top = F.expr(top_directory(group))
    low, high = (
        F.when((found := F.regexp_extract(top, pattern, 1)) != "", found).cast("bigint")
        for pattern in ("^(?:base|delta)_([0-9]+)(?:_|$)", "^delta_[0-9]+_([0-9]+)(?:_|$)")
    )
    one = F.coalesce(high, low) == low
    return F.coalesce(F.when(one, low), F.lit(0).cast("bigint")).alias(CURRENT)


def _came_and_went(
    rows: _Rows,
    locations: Sequence[Location],
    overwrites: Sequence[int],
    bounds: DeleteBounds | None,
    *,
    net: bool,
) -> Iterable[DataFrame]:
    with_events = bounds is not None and any(at.state.delete_deltas for at in locations)
    events = None
    if bounds is not None and with_events:
        events = _ends(rows, locations, bounds)
        events = F.broadcast(events) if bounds.fits_memory else events
    overwritten = _next_overwrite(overwrites)
    for frame in rows.of(locations, bounds if with_events else None):
        if events is None:
            ended, live = overwritten, frame
        else:
            met = F.col("__hiveacid_k") == F.col("__hiveacid_dk")
            live = frame.join(events, met, "left").where(f"NOT coalesce({_ENDED_BEFORE}, false)")
            ended = F.least(F.col(_ENDED), overwritten) if overwrites else F.col(_ENDED)
        yield _emitted(live, rows, ended, net=net)


def _ends(rows: _Rows, locations: Sequence[Location], bounds: DeleteBounds) -> DataFrame:
    """Return one row for each key that events name: the first new write id, and whether an earlier event hit it."""
    events = delete_keys(rows.source, locations, bounds, current=True)
    before = F.expr(row_validity(rows.span.after, CURRENT))
    first = F.min(F.when(~before, F.col(CURRENT))).alias(_ENDED)
    return events.groupBy("__hiveacid_dk").agg(first, F.max(before).alias(_ENDED_BEFORE))


def _next_overwrite(overwrites: Sequence[int]) -> SparkColumn:
    """Return the write id of the first overwrite after a row's own, NULL where none is."""
    cases = "".join(f" WHEN {CURRENT} < {int(one)}L THEN {int(one)}L" for one in overwrites)
    return F.expr(f"CASE{cases} END" if cases else "CAST(NULL AS BIGINT)")


def _emitted(frame: DataFrame, rows: _Rows, ended: SparkColumn, *, net: bool) -> DataFrame:
    """Return no, one or two changes for each row."""
    came, went = ~F.expr(row_validity(rows.span.after, CURRENT)), F.col(_ENDED)
    unseen = went.isNotNull() if net else went.eqNullSafe(F.col(CURRENT))
    changes = [
        F.when(
            condition & ~(came & unseen), F.struct(F.lit(kind).alias(CHANGE_TYPE), write_id.alias(WRITE_ID))
        )
        for condition, kind, write_id in (
            (came, "insert", F.col(CURRENT)),
            (went.isNotNull(), "delete", went),
        )
    ]
    frame = frame.withColumn(_ENDED, ended).where(came | went.isNotNull())
    return frame.select(*rows.columns, F.inline(F.filter(F.array(*changes), lambda one: one.isNotNull())))


def paired(frame: DataFrame, key: Sequence[str], *, net: bool) -> DataFrame:
    """Name a delete and an insert of one key update_before and update_after.

    They pair within one write id (``net``: within the span), where there is exactly one of each and no part of the
    key is NULL: the format itself keeps no link between the versions of a row.
    """
    keys = [F.col(quote_name(name)) for name in key]
    same = Window.partitionBy(*keys, *([] if net else [F.col(WRITE_ID)]))
    counts = [F.count_if(F.col(CHANGE_TYPE) == kind).over(same) == 1 for kind in ("insert", "delete")]
    known = reduce(lambda left, right: left & right, [one.isNotNull() for one in keys])
    renamed = F.when(F.col(CHANGE_TYPE) == "insert", "update_after").otherwise("update_before")
    pairs = known & counts[0] & counts[1]
    return frame.withColumn(CHANGE_TYPE, F.when(pairs, renamed).otherwise(F.col(CHANGE_TYPE)))
