"""A look at the bit of a row: whether a delete event hides it (`hiveacid.orc.deleted`).

The bits go into the plan as a literal, so that no query has to read events and to make a hash table of their keys.
Classic sessions only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions as F

from hiveacid.orc.deleted import BUCKET_STEP, DeletedRows
from hiveacid.spark.deletes import ROOT_KEY
from hiveacid.spark.expressions import Expression, as_column
from hiveacid.spark.jvm import longs

if TYPE_CHECKING:
    from pyspark.sql import Column

    from hiveacid.spark.session import SparkFacts

_WORD = 6  # bits of the number of a bit in a long
_POSITIVE = 0x7FFFFFFF
_ELSEWHERE = "[HIVEACID_INTERNAL] a row lies in none of the places whose delete events were read"


@dataclass(frozen=True)
class DeadRows:
    """Bits, and the same as literals of a session. ``places``: what tells the locations apart, in their order."""

    rows: DeletedRows
    places: Sequence[str]
    _bits: Any = field(repr=False, compare=False)
    _starts: Any = field(repr=False, compare=False)
    _shifts: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, facts: SparkFacts, rows: DeletedRows, places: Sequence[str]) -> DeadRows:
        """Hand the bits over to the session's JVM."""
        tables = (pa.array(some, pa.int64()).buffers()[1].to_pybytes() for some in (rows.starts, rows.shifts))
        starts, shifts = tables
        return cls(rows, tuple(places), longs(facts, rows.words), longs(facts, starts), longs(facts, shifts))

    def flag(self, place: Expression) -> Column:
        """Return whether a row is deleted, over the root columns of an ACID file; ``place``: of the row.

        Short, because Spark computes each part as often as it is named, and long methods are not compiled at all.
        """
        rows, (write_id, bucket, row_id) = self.rows, ROOT_KEY
        low, high = rows.first, rows.last
        inside = [_within(write_id, low[0], high[0]), _within(bucket, low[1], high[1])]
        pages = []
        if rows.write_ids > 1:
            pages.append(f"({write_id} - {low[0]}L) * {rows.buckets}L")
        if rows.buckets > 1:
            inside.append(f"(({bucket} - {low[1]}) & {BUCKET_STEP - 1}) = 0")
            pages.append(f"CAST(shiftright({bucket} - {low[1]}, 16) AS BIGINT)")
        if rows.stride:
            inside.append(_within(row_id, low[2], high[2]))
        known, page = F.expr(" AND ".join(inside)), F.expr(" + ".join(pages) or "0L")
        if len(self.places) > 1:
            among = F.array(*map(F.lit, self.places))
            number = F.call_function(
                "array_position", among, as_column(place)
            )  # in 3.5 its own takes no column
            checked = F.when(number > 0, number).otherwise(F.raise_error(F.lit(_ELSEWHERE)).cast("bigint"))
            page = page + (checked - 1) * (rows.write_ids * rows.buckets)
        if rows.stride:
            at = F.expr(f"{row_id} - {low[2]}L")
            at = (at + page * rows.stride if rows.starts[-1] > rows.stride else at).cast("int")
            return F.when(known, self._bit(at)).otherwise(F.lit(False))  # noqa: FBT003 - a value
        page = page.cast("int")
        at = F.expr(row_id) + F.get(self._shifts, page)
        known_bit = (at >= F.get(self._starts, page)) & (at < F.get(self._starts, page + 1))
        bit = self._bit(at.bitwiseAND(_POSITIVE).cast("int"))  # no error for a row id far away from all
        return F.coalesce(F.when(known, known_bit & bit), F.lit(False))  # noqa: FBT003 - a value

    def _bit(self, at: Column) -> Column:
        word = F.get(self._bits, F.shiftright(at, _WORD))
        return F.call_function("shiftright", word, at).bitwiseAND(F.lit(1)) == 1


def _within(value: str, low: int, high: int) -> str:
    return f"{value} = {low}" if low == high else f"{value} >= {low} AND {value} <= {high}"
