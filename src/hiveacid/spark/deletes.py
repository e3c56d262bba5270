"""How many delete events there are, where their keys lie, and the key that joins them to rows.

One packed long key costs a third of a join on three columns (measured in ``bench``); it needs bounds, which
the footers of delete files give. Bounds are never trusted blindly: an event outside of them fails the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

    from hiveacid.orc.tail import OrcTail

_WRITE_ID, _BUCKET, _ROW_ID = 2, 3, 4  # ORC column ids of an ACID file's root fields
_LONG_BITS = 63
ROOT_KEY = ("coalesce(originalTransaction, -1L)", "coalesce(bucket, -1)", "coalesce(rowId, -1L)")
"""Write id, bucket property and row id as expressions over an ACID file's root columns, never pushed down."""
_OUTSIDE = "[HIVEACID_FORMAT] a delete event lies outside of the statistics of its file"


@dataclass(frozen=True)
class Range:
    """Lowest and highest value of a key column over all delete events."""

    low: int
    high: int

    @property
    def bits(self) -> int:
        """Bits that a value's distance from ``low`` takes."""
        return (self.high - self.low).bit_length()


@dataclass(frozen=True)
class DeleteBounds:
    """Number of delete events and, where every footer tells, the ranges of their keys."""

    events: int
    write_id: Range | None = None
    bucket: Range | None = None
    row_id: Range | None = None
    fits_memory: bool = True

    @property
    def packs(self) -> bool:
        """Tell whether a key fits into one long."""
        if self.write_id is None or self.bucket is None or self.row_id is None:
            return False
        return self.write_id.bits + self.bucket.bits + self.row_id.bits <= _LONG_BITS


def measure(tails: Sequence[OrcTail], limit: int) -> DeleteBounds | None:
    """Sum up the footers of all delete files; None where there is no event.

    ``limit``: number of events up to which they are broadcast to every executor
    (``hiveacid.read.broadcast.delete.events``).
    """
    tails = [tail for tail in tails if tail.number_of_rows]
    events = sum(tail.number_of_rows for tail in tails)
    if not events:
        return None
    write_id, bucket, row_id = (_range(tails, column) for column in (_WRITE_ID, _BUCKET, _ROW_ID))
    return DeleteBounds(events, write_id, bucket, row_id, fits_memory=events <= limit)


def _range(tails: Iterable[OrcTail], column: int) -> Range | None:
    lows, highs = [], []
    for tail in tails:
        statistics = tail.column_statistics[column] if len(tail.column_statistics) > column else None
        low = statistics.minimum if statistics else None
        high = statistics.maximum if statistics else None
        if not isinstance(low, int) or not isinstance(high, int) or tail.row_index_stride == 0:
            return None
        lows.append(low)
        highs.append(high)
    return Range(min(lows), max(highs))


def delete_key(bounds: DeleteBounds, place: SparkColumn | None, *, strict: bool) -> SparkColumn:
    """Return the join key over the root columns of an ACID file.

    ``strict`` (the delete events' side): a key outside of the bounds fails the query instead of being lost.
    On the rows' side such a key is NULL: no event can match it. ``place`` tells partitions apart.
    """
    # One text, not functions: each call of one is several round trips to the JVM.
    write_id, bucket, row_id = ROOT_KEY
    if not bounds.packs or bounds.write_id is None or bounds.bucket is None or bounds.row_id is None:
        key = f"struct({write_id} AS col1, {bucket} AS col2, {row_id} AS col3)"
    else:
        w, b, r = bounds.write_id, bounds.bucket, bounds.row_id
        packed = (
            f"shiftleft({write_id} - {w.low}L, {b.bits + r.bits})"
            f" | shiftleft(CAST({bucket} - {b.low} AS BIGINT), {r.bits}) | ({row_id} - {r.low}L)"
        )
        inside = " AND ".join(
            f"{value} BETWEEN {one.low} AND {one.high}"
            for value, one in zip(ROOT_KEY, (w, b, r), strict=True)
        )
        outside = f"CAST(raise_error('{_OUTSIDE}') AS BIGINT)" if strict else "NULL"
        key = f"CASE WHEN {inside} THEN {packed} ELSE {outside} END"
    return F.expr(key) if place is None else F.struct(F.expr(key).alias("key"), place.alias("place"))
