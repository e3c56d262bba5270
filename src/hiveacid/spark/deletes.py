"""How many delete events there are, where their keys lie, and the key that joins them to rows.

One packed long key costs a third of a join on three columns (measured in ``bench``); it needs bounds, which
the footers of delete files give. Bounds are never trusted blindly: an event outside of them fails the query.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.orc.summary import Range

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

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
    """Number of delete events and, where every footer tells, the ranges of their keys.

    ``originals``: bucket properties and row ids in the delete files that reach down to write id 0.
    """

    events: int
    write_id: Range | None = None
    bucket: Range | None = None
    row_id: Range | None = None
    fits_memory: bool = True
    originals: tuple[Range, Range] | None = None

    @property
    def packs(self) -> bool:
        """Tell whether a key fits into one long."""
        if self.write_id is None or self.bucket is None or self.row_id is None:
            return False
        return self.write_id.bits + self.bucket.bits + self.row_id.bits <= _LONG_BITS

    def can_touch(self, rows: OriginalRows, count: int) -> bool:
        """Tell whether an event may delete one of the ``count`` rows of a file without ACID columns."""
        if not self.packs or self.write_id is None or self.bucket is None or self.row_id is None:
            return True  # unpacked keys are not checked against the bounds either
        if not self.write_id.low <= rows.write_id <= self.write_id.high:
            return False
        bucket, row_id = self.bucket, self.row_id
        if rows.write_id == 0 and self.originals is not None:
            bucket, row_id = self.originals
        last = rows.first_row_id + count - 1
        return (
            bucket.low <= rows.bucket_property <= bucket.high
            and rows.first_row_id <= row_id.high
            and row_id.low <= last
        )


def measure(summaries: Sequence[FileSummary], limit: int) -> DeleteBounds | None:
    """Sum up all delete files; None where there is no event.

    ``limit``: number of events up to which they are broadcast to every executor
    (``hiveacid.read.broadcast.delete.events``).
    """
    summaries = [summary for summary in summaries if summary.rows]
    events = sum(summary.rows for summary in summaries)
    if not events:
        return None
    fits = events <= limit
    write_id = _range(summary.write_id for summary in summaries)
    bucket = _range(summary.bucket for summary in summaries)
    row_id = _range(summary.row_id for summary in summaries)
    if write_id is None or bucket is None or row_id is None or (write_id.low <= 0 and bucket.low < _V1):
        return DeleteBounds(events, fits_memory=fits)  # no bounds, or keys that have to be translated first
    low = [summary for summary in summaries if summary.write_id is not None and summary.write_id.low <= 0]
    buckets, row_ids = _range(summary.bucket for summary in low), _range(summary.row_id for summary in low)
    originals = None if buckets is None or row_ids is None else (buckets, row_ids)
    return DeleteBounds(events, write_id, bucket, row_id, fits_memory=fits, originals=originals)


def _range(ranges: Iterable[Range | None]) -> Range | None:
    known = list(ranges)
    found = [one for one in known if one is not None]
    if not found or len(found) < len(known):
        return None
    return Range(min(one.low for one in found), max(one.high for one in found))


def delete_key(bounds: DeleteBounds, place: SparkColumn | None, *, strict: bool) -> SparkColumn:
    """Return the join key over the root columns of an ACID file.

    ``strict`` (the delete events' side): a key outside of the bounds fails the query instead of being lost.
    On the rows' side such a key is NULL: no event can match it. ``place`` tells partitions apart.
    """
    # One text, not functions: each call of one is several round trips to the JVM.
    write_id, bucket, row_id = ROOT_KEY
    if not bounds.packs or bounds.write_id is None or bounds.bucket is None or bounds.row_id is None:
        key = KEY_PARTS
    else:
        w, b, r = bounds.write_id, bounds.bucket, bounds.row_id
        packed = (
            f"shiftleft({write_id} - {w.low}L, {b.bits + r.bits})"
            f" | shiftleft(CAST({bucket} - {b.low} AS BIGINT), {r.bits}) | ({row_id} - {r.low}L)"
        )
        inside = " AND ".join(
            _within(value, one.low, one.high) for value, one in zip(ROOT_KEY, (w, b, r), strict=True)
        )
        if strict and bounds.originals is not None:  # files were kept out of the join by these
            buckets, row_ids = bounds.originals
            inside += (
                f" AND ({write_id} != 0L OR {_within(bucket, buckets.low, buckets.high)}"
                f" AND {_within(row_id, row_ids.low, row_ids.high)})"
            )
        outside = f"CAST(raise_error('{_OUTSIDE}') AS BIGINT)" if strict else "NULL"
        key = f"CASE WHEN {inside} THEN {packed} ELSE {outside} END"
    return F.expr(key) if place is None else F.struct(F.expr(key).alias("key"), place.alias("place"))
