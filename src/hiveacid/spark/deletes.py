"""How many delete events there are, where their keys lie, and the key that joins them to rows.

One packed long key costs a third of a join on three columns (measured in ``bench``); it needs bounds, which
the footers of delete files give. Bounds are never trusted blindly: an event outside of them fails the query.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.orc.summary import Range
from hiveacid.spark.expressions import Expression
from hiveacid.spark.reach import Box, few, hull

if TYPE_CHECKING:
    from hiveacid.core.originals import OriginalRows
    from hiveacid.orc.summary import FileSummary

_LONG_BITS = 63
ROOT_KEY = ("coalesce(originalTransaction, -1L)", "coalesce(bucket, -1)", "coalesce(rowId, -1L)")
"""Write id, bucket property and row id as expressions over an ACID file's root columns, never pushed down."""
_V1 = 1 << 29  # bucket properties below are of codec version 0: the bucket alone


def _within(value: str, low: int, high: int) -> str:
    """Compare without BETWEEN, which Spark 4 carries out in a projection below that needs all columns of the row."""
    return f"({value} >= {low} AND {value} <= {high})"


_V0 = f"coalesce(originalTransaction, -1L) = 0L AND {_within(ROOT_KEY[1], 0, _V1 - 1)}"
KEY_PARTS = (
    f"struct({ROOT_KEY[0]} AS col1, CASE WHEN {_V0} THEN shiftleft(bucket, 16) | {_V1} ELSE {ROOT_KEY[1]} END"
    f" AS col2, {ROOT_KEY[2]} AS col3)"
)
"""The key as a struct. Hive 2 and older named original rows by the bucket alone (codec version 0)."""
_OUTSIDE = "[HIVEACID_FORMAT] a delete event lies outside of the statistics of its file"


@dataclass(frozen=True)
class DeleteBounds:
    """Number of delete events and, where every footer tells, where their keys lie.

    ``boxes``: every event's key lies in one of them; none: nobody knows.
    """

    events: int
    boxes: tuple[Box, ...] = ()
    fits_memory: bool = True

    @cached_property
    def box(self) -> Box | None:
        """Return what is around all keys; None: nobody knows."""
        return hull(self.boxes) if self.boxes else None

    @property
    def as_one(self) -> DeleteBounds:
        """Return them with a single box, which is compared with faster."""
        return replace(self, boxes=(hull(self.boxes),)) if self.boxes else self

    @property
    def packs(self) -> bool:
        """Tell whether a key fits into one long."""
        around = self.box
        return around is not None and sum(part.bits for part in around.parts) <= _LONG_BITS

    def can_touch(self, rows: OriginalRows, count: int) -> bool:
        """Tell whether an event may delete one of the ``count`` rows of a file without ACID columns."""
        if not self.packs:
            return True  # unpacked keys are not checked against the boxes either
        write_id, bucket = int(rows.write_id), rows.bucket_property
        last = rows.first_row_id + count - 1
        own = Box(Range(write_id, write_id), Range(bucket, bucket), Range(rows.first_row_id, last))
        return any(map(own.meets, self.boxes))


def measure(summaries: Sequence[FileSummary], limit: int) -> DeleteBounds | None:
    """Sum up all delete files; None where there is no event.

    ``limit``: number of events up to which they are broadcast to every executor
    (``hiveacid.read.broadcast.delete.events``).
    """
    summaries = [summary for summary in summaries if summary.rows]
    events = sum(summary.rows for summary in summaries)
    if not events:
        return None
    keys = [summary.keys for summary in summaries]
    boxes = few(Box.between(one) for one in keys if one is not None)
    around = hull(boxes) if boxes else None
    if None in keys or around is None or (around.write_id.low <= 0 and around.bucket.low < _V1):
        boxes = ()  # nothing known, or keys that have to be translated first
    return DeleteBounds(events, boxes, fits_memory=events <= limit)


def _inside(box: Box) -> str:
    return " AND ".join(
        _within(value, one.low, one.high) for value, one in zip(ROOT_KEY, box.parts, strict=True)
    )


def delete_key(bounds: DeleteBounds, place: Expression | None, *, strict: bool) -> Expression:
    """Return the join key over the root columns of an ACID file.

    ``strict`` (the delete events' side): a key outside of the bounds fails the query instead of being lost.
    On the rows' side such a key is NULL: no event can match it. ``place`` tells partitions apart.
    """
    write_id, bucket, row_id = ROOT_KEY
    around = bounds.box
    if around is None or not bounds.packs:
        key = KEY_PARTS
    else:
        w, b, r = around.parts
        packed = (
            f"shiftleft({write_id} - {w.low}L, {b.bits + r.bits})"
            f" | shiftleft(CAST({bucket} - {b.low} AS BIGINT), {r.bits}) | ({row_id} - {r.low}L)"
        )
        inside = _inside(around)
        if strict and len(bounds.boxes) > 1:  # files were kept out of the join by these
            inside = " OR ".join(f"({_inside(box)})" for box in bounds.boxes)
        outside = f"CAST(raise_error('{_OUTSIDE}') AS BIGINT)" if strict else "NULL"
        key = f"CASE WHEN {inside} THEN {packed} ELSE {outside} END"
    if place is None or isinstance(place, str):
        return key if place is None else f"struct({key} AS key, {place} AS place)"
    return F.struct(F.expr(key).alias("key"), place.alias("place"))
