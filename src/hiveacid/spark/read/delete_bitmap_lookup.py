"""Lookup of a row's id in the delete bitmap (`hiveacid.orc.build_delete_bitmap`), as a Spark expression.

The bitmap goes into the plan as literal arrays: a query neither reads delete events nor builds a hash table of their
keys.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pyspark.sql import Column

from hiveacid.orc.build_delete_bitmap import BUCKET_SHIFT, DeleteBitmap
from hiveacid.spark.formats.expressions import Expression, as_column
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.jvm import column_of_text, int_array, long_array

KEY_COLUMNS = ("coalesce(originalTransaction, -1L)", "coalesce(bucket, -1)", "coalesce(rowId, -1L)")
"""Write id, bucket property and row id as expressions over an ACID file's root columns; never pushed down."""
_VERSION_SHIFT = 29  # the codec version of a bucket property is above these bits; it is 1
_WORD_INDEX_BITS = 6  # a position in a 64-bit word
# Names of columns in the text of the lookup
_PAGES, _CHUNKS, _WORDS, _PARTITION = (
    f"__hiveacid_bitmap_{part}" for part in ("pages", "chunks", "words", "partition")
)
_KNOWN_PARTITION = (
    f"coalesce(CAST({_PARTITION} AS BIGINT), CAST(raise_error('[HIVEACID_INTERNAL] a row lies in none of the places "
    "whose delete events were read') AS BIGINT))"
)


@dataclass(frozen=True)
class BitmapLookup:
    """A delete bitmap, and its tables as literals of a session."""

    bitmap: DeleteBitmap
    _tables: dict[str, Column] = field(repr=False, compare=False)

    @classmethod
    def of(cls, env: SparkEnvironment, bitmap: DeleteBitmap) -> BitmapLookup:
        """Copy the bitmap into the session's JVM."""
        pages, chunks = (
            int_array(env, table.buffers()[1].to_pybytes()) for table in (bitmap.pages, bitmap.chunks)
        )
        words = long_array(env, bitmap.words)
        return cls(bitmap, {_PAGES: pages, _CHUNKS: chunks, _WORDS: words})

    def is_deleted(self, env: SparkEnvironment, partition_number: Expression, name: str) -> Column:
        """Return a boolean column over the root columns of an ACID file: whether a delete event matches the row.

        Java compiles the generated code for each statement, so it is short: a single comparison tells whether the row
        has a page, no operand is nullable, and `|` joins numbers, because sums carry overflow checks. A NULL key becomes
        -1, which has no page. Spark evaluates the right side of AND only if the left side holds. No column stands bare,
        so that Spark pushes nothing down to ORC.
        """
        layout = self.bitmap.layout
        write_id, bucket, row_id = KEY_COLUMNS
        if layout.first_write_id:
            write_id = f"({write_id} - {layout.first_write_id}L)"
        bucket_mask, statement_mask = (1 << layout.bucket_bits) - 1, (1 << layout.statement_bits) - 1
        used_bits = bucket_mask << BUCKET_SHIFT | statement_mask  # all others hold the codec version
        has_page = (
            f"(shiftright({write_id}, {layout.write_id_bits}) | shiftright({row_id}, {layout.row_id_bits})"
            f" | CAST(({bucket} & {~used_bits}) ^ {1 << _VERSION_SHIFT} AS BIGINT)) = 0L"
        )
        page, columns = write_id, self._tables
        if layout.partitions > 1:
            page = f"shiftleft({_KNOWN_PARTITION}, {layout.write_id_bits}) | {write_id}"
            columns = {**columns, _PARTITION: as_column(partition_number)}
        chunk = f"CAST(shiftright({row_id}, {layout.chunk_bits}) AS INT)"
        if bucket_mask or statement_mask:
            bucket_in_page = (
                f"shiftleft(shiftright({bucket}, {BUCKET_SHIFT}) & {bucket_mask}, {layout.statement_bits})"
            )
            statement = f"({bucket_in_page} | ({bucket} & {statement_mask}))"
            chunk = f"shiftleft({statement}, {layout.row_id_bits - layout.chunk_bits}) | {chunk}"
        row_in_chunk = f"CAST({row_id} & {(1 << layout.chunk_bits) - 1}L AS INT)"
        first_chunk = f"coalesce(get({_PAGES}, {page}), 0)"
        first_word = f"coalesce(get({_CHUNKS}, {first_chunk} | {chunk}), 0)"
        word = f"coalesce(get({_WORDS}, {first_word} | shiftright({row_in_chunk}, {_WORD_INDEX_BITS})), 0L)"
        bit = f"shiftright({word}, {row_in_chunk}) & 1L"  # Java takes the lowest six bits of the distance
        return column_of_text(env, f"({has_page} AND ({bit}) = 1L) AS {name}", columns)
