"""A look at the bit of a row: whether a delete event hides it (`hiveacid.orc.deleted`).

The bits go into the plan as a literal, so that no query has to read events and to make a hash table of their keys.
Classic sessions only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hiveacid.orc.deleted import BUCKET_SHIFT, STATEMENTS, DeletedRows
from hiveacid.spark.expressions import Expression, as_column
from hiveacid.spark.jvm import ints, longs

if TYPE_CHECKING:
    from pyspark.sql import Column

    from hiveacid.spark.session import SparkFacts

_VERSION_SHIFT = 29  # of a bucket property; its version is 1
_WORD_BITS = 6  # bits of the number of a bit in a long
_ELSEWHERE = (
    "raise_error('[HIVEACID_INTERNAL] a row lies in none of the places whose delete events were read')"
)


@dataclass(frozen=True)
class DeadRows:
    """Bits, and the same as literals of a session."""

    rows: DeletedRows
    _pages: Any = field(repr=False, compare=False)
    _chunks: Any = field(repr=False, compare=False)
    _bits: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, facts: SparkFacts, rows: DeletedRows) -> DeadRows:
        """Hand the bits over to the session's JVM."""
        pages, chunks = (ints(facts, one.buffers()[1].to_pybytes()) for one in (rows.pages, rows.chunks))
        return cls(rows, pages, chunks, longs(facts, rows.words))

    def flag(self, place: Expression) -> Column:
        """Return whether a row is deleted, over the root columns of an ACID file; ``place``: the number of its place.

        Short, because Spark computes each part as often as it is named, and its generated code is compiled anew for
        each query that is not word for word the same. NULL is not asked for in between: a key of NULL lies nowhere. Of
        AND the right side is computed only where the left one holds. Nothing here is pushed down to ORC: COALESCE is
        around all of it.
        """
        grid = self.rows.grid
        nth = f"(originalTransaction - {grid.first}L)" if grid.first else "originalTransaction"
        near = (
            f"shiftright({nth}, {grid.write_ids}) = 0L"
            f" AND shiftright(bucket, {BUCKET_SHIFT + grid.buckets}) = {1 << _VERSION_SHIFT - BUCKET_SHIFT - grid.buckets}"
            f" AND shiftright(bucket & {STATEMENTS}, {grid.statements}) = 0"
            f" AND shiftright(rowId, {grid.row_ids}) = 0L"
        )
        page = F.expr(nth)
        if grid.places > 1:
            number = F.coalesce(as_column(place).cast("bigint"), F.expr(_ELSEWHERE).cast("bigint"))
            page = page + number * (1 << grid.write_ids)
        inside = f"CAST(shiftright(rowId, {grid.size}) AS INT)"
        if grid.buckets or grid.statements:
            column = f"shiftright(bucket, {BUCKET_SHIFT}) & {(1 << grid.buckets) - 1}"
            statement = f"(shiftleft({column}, {grid.statements}) | (bucket & {STATEMENTS}))"
            inside = f"(shiftleft({statement}, {grid.row_ids - grid.size}) | {inside})"
        of_chunk = (1 << grid.size - _WORD_BITS) - 1
        within = f"CAST(shiftright(rowId, {_WORD_BITS}) & {of_chunk}L AS INT)"
        begin = F.get(self._chunks, F.get(self._pages, page) + F.expr(inside))
        word = F.get(self._bits, begin + F.expr(within))
        bit = F.call_function("shiftright", word, F.expr(f"CAST(rowId & {(1 << _WORD_BITS) - 1}L AS INT)"))
        dead = F.expr(near) & (bit.bitwiseAND(F.lit(1)) == 1)
        return F.coalesce(dead, F.lit(False))  # noqa: FBT003 - a value
