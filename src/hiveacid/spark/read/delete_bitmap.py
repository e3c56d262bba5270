"""Lookup of a row's id in the delete bitmap (`hiveacid.orc.delete_bitmap`), as a Spark expression.

The bitmap goes into the plan as literal arrays: a query neither reads delete events nor builds a hash table of their
keys. Classic sessions only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F

from hiveacid.orc.delete_bitmap import BUCKET_SHIFT, STATEMENT_MASK, DeleteBitmap
from hiveacid.spark.formats.expressions import Expression, as_column
from hiveacid.spark.session.java_methods import int_array, long_array

if TYPE_CHECKING:
    from pyspark.sql import Column

    from hiveacid.spark.session.capabilities import SparkFacts

_VERSION_SHIFT = 29  # the codec version of a bucket property is above these bits; it is 1
_WORD_INDEX_BITS = 6  # a position in a 64-bit word
_UNKNOWN_PARTITION = (
    "raise_error('[HIVEACID_INTERNAL] a row lies in none of the places whose delete events were read')"
)


@dataclass(frozen=True)
class BitmapLookup:
    """A delete bitmap, and its tables as literals of a session."""

    bitmap: DeleteBitmap
    _pages: Any = field(repr=False, compare=False)
    _chunks: Any = field(repr=False, compare=False)
    _words: Any = field(repr=False, compare=False)

    @classmethod
    def of(cls, facts: SparkFacts, bitmap: DeleteBitmap) -> BitmapLookup:
        """Copy the bitmap into the session's JVM."""
        pages, chunks = (
            int_array(facts, table.buffers()[1].to_pybytes()) for table in (bitmap.pages, bitmap.chunks)
        )
        return cls(bitmap, pages, chunks, long_array(facts, bitmap.words))

    def is_deleted(self, partition_number: Expression) -> Column:
        """Return a boolean column over the root columns of an ACID file: whether a delete event matches the row.

        The expression is short, because Spark computes a part as often as it occurs, and Java compiles the generated
        code again for each query with another text. NULL needs no separate test: a NULL key has no bit. Spark
        evaluates the right side of AND only if the left side holds. COALESCE around the whole expression prevents Spark
        from pushing any part of it down to ORC.
        """
        layout = self.bitmap.layout
        write_id = (
            f"(originalTransaction - {layout.first_write_id}L)"
            if layout.first_write_id
            else "originalTransaction"
        )
        codec_version = 1 << _VERSION_SHIFT - BUCKET_SHIFT - layout.bucket_bits
        has_page = (
            f"shiftright({write_id}, {layout.write_id_bits}) = 0L"
            f" AND shiftright(bucket, {BUCKET_SHIFT + layout.bucket_bits}) = {codec_version}"
            f" AND shiftright(bucket & {STATEMENT_MASK}, {layout.statement_bits}) = 0"
            f" AND shiftright(rowId, {layout.row_id_bits}) = 0L"
        )
        page = F.expr(write_id)
        if layout.partitions > 1:
            number = F.coalesce(
                as_column(partition_number).cast("bigint"), F.expr(_UNKNOWN_PARTITION).cast("bigint")
            )
            page = page + number * (1 << layout.write_id_bits)
        chunk = f"CAST(shiftright(rowId, {layout.chunk_bits}) AS INT)"
        if layout.bucket_bits or layout.statement_bits:
            bucket = f"shiftright(bucket, {BUCKET_SHIFT}) & {(1 << layout.bucket_bits) - 1}"
            statement = f"(shiftleft({bucket}, {layout.statement_bits}) | (bucket & {STATEMENT_MASK}))"
            chunk = f"(shiftleft({statement}, {layout.row_id_bits - layout.chunk_bits}) | {chunk})"
        words_per_chunk = 1 << layout.chunk_bits - _WORD_INDEX_BITS
        word_in_chunk = f"CAST(shiftright(rowId, {_WORD_INDEX_BITS}) & {words_per_chunk - 1}L AS INT)"
        first_word = F.get(self._chunks, F.get(self._pages, page) + F.expr(chunk))
        word = F.get(self._words, first_word + F.expr(word_in_chunk))
        position = F.expr(f"CAST(rowId & {(1 << _WORD_INDEX_BITS) - 1}L AS INT)")
        bit = F.call_function("shiftright", word, position)
        deleted = F.expr(has_page) & (bit.bitwiseAND(F.lit(1)) == 1)
        return F.coalesce(deleted, F.lit(False))  # noqa: FBT003 - a value
