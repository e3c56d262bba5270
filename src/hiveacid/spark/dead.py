"""A look at the bit of a row: whether a delete event hides it (`hiveacid.orc.deleted`).

The bits go into the plan as a literal, so that no query has to read events and to make a hash table of their keys.
Classic sessions only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hiveacid.orc.deleted import BUCKET_STEP, DeletedRows
from hiveacid.spark.deletes import ROOT_KEY
from hiveacid.spark.expressions import Expression, as_column
from hiveacid.spark.jvm import ints, longs

if TYPE_CHECKING:
    from pyspark.sql import Column

    from hiveacid.spark.session import SparkFacts

_WORD_BITS = 6  # bits of the number of a bit in a long
_ELSEWHERE = (
    "raise_error('[HIVEACID_INTERNAL] a row lies in none of the places whose delete events were read')"
)


@dataclass(frozen=True)
class DeadRows:
    """Bits, and the same as literals of a session."""

    rows: DeletedRows
    _bits: Any = field(repr=False, compare=False)
    _chunks: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, facts: SparkFacts, rows: DeletedRows) -> DeadRows:
        """Hand the bits over to the session's JVM."""
        chunks = rows.chunks.buffers()[1].to_pybytes()
        return cls(rows, longs(facts, rows.words), ints(facts, chunks))

    def flag(self, place: Expression) -> Column:
        """Return whether a row is deleted, over the root columns of an ACID file; ``place``: the number of its place.

        Short, and no part named twice: Spark computes each as often as it is named, and long methods are not compiled.
        """
        rows, (write_id, bucket, row_id) = self.rows, ROOT_KEY
        low, high, (first, last) = rows.first, rows.last, rows.statements
        inside = [
            _within(value, *ends) for value, ends in zip(ROOT_KEY, zip(low, high, strict=True), strict=True)
        ]
        parts = [f"shiftright({row_id}, {rows.size}) - {low[2] >> rows.size}L"]
        if rows.write_ids > 1:
            parts.append(f"({write_id} - {low[0]}L) * {rows.of_write_id}L")
        if low[1] < high[1]:
            inside.append(_within(f"({bucket} & {BUCKET_STEP - 1})", first, last))
        if rows.buckets > 1:
            parts.append(f"CAST(shiftright({bucket}, 16) - {low[1] >> 16} AS BIGINT) * {rows.of_bucket}L")
        if first < last:
            parts.append(f"CAST(({bucket} & {BUCKET_STEP - 1}) - {first} AS BIGINT) * {rows.of_statement}L")
        chunk = F.expr(" + ".join(parts))
        if rows.places > 1:
            chunk = chunk + as_column(place).cast("bigint") * rows.of_place
        within = F.expr(
            f"CAST(shiftright({row_id}, {_WORD_BITS}) & {(1 << rows.size - _WORD_BITS) - 1}L AS INT)"
        )
        word = F.get(self._bits, F.get(self._chunks, chunk.cast("int")) + within)
        bit = F.call_function("shiftright", word, F.expr(f"CAST({row_id} & {(1 << _WORD_BITS) - 1}L AS INT)"))
        dead = F.coalesce(bit.bitwiseAND(F.lit(1)) == 1, F.expr(_ELSEWHERE).cast("boolean"))
        return F.when(F.expr(" AND ".join(inside)), dead).otherwise(F.lit(False))  # noqa: FBT003 - a value


def _within(value: str, low: int, high: int) -> str:
    return f"{value} = {low}" if low == high else f"{value} >= {low} AND {value} <= {high}"
