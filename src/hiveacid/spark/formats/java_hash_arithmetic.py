"""Java's 32-bit arithmetic in Spark functions, also correct in ANSI mode, and Murmur3 on top of it.

Products and sums are computed in 64 bits and wrapped by masks. Nothing overflows, so ``spark.sql.ansi.enabled`` makes
no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_SEED = 1867871456  # Spark's hash() of this int is 104729, Hive's seed, which is then the seed of the next argument


def bind(value: SparkColumn, body: Callable[[SparkColumn], SparkColumn]) -> SparkColumn:
    """Return ``body`` of a value that Spark plans and computes only once, however often ``body`` uses it."""
    return F.transform(F.array(value), body).getItem(0)


def to_int(value: SparkColumn) -> SparkColumn:
    """Return the low 32 bits of a bigint as a signed int (Java's ``(int) value``)."""
    low = value.bitwiseAND(F.lit(_WORD)).bitwiseXOR(F.lit(_SIGN))
    return (low - F.lit(_SIGN)).cast("int")


def fold_long(value: SparkColumn) -> SparkColumn:
    """Return Java's ``Long.hashCode``."""
    return to_int(F.shiftrightunsigned(value, 32).bitwiseXOR(value))


def combine_hashes(code: SparkColumn, following: SparkColumn) -> SparkColumn:
    """Return ``31 * code + following``."""
    return to_int(code.cast("bigint") * F.lit(31) + following)


def murmur_int(value: SparkColumn) -> SparkColumn:
    """Return Hive's Murmur3 of an int's four bytes, most significant first."""
    return F.when(value.isNotNull(), F.hash(F.lit(_SEED), _reverse_bytes(value, 4, F.lit(0xFF))))


def murmur_long(value: SparkColumn) -> SparkColumn:
    """Return Hive's Murmur3 of a bigint's eight bytes, most significant first."""
    return F.when(
        value.isNotNull(), F.hash(F.lit(_SEED), _reverse_bytes(value, 8, F.lit(0xFF).cast("bigint")))
    )


def _reverse_bytes(value: SparkColumn, size: int, byte: SparkColumn) -> SparkColumn:
    moved = [
        F.shiftleft(F.shiftrightunsigned(value, 8 * i).bitwiseAND(byte), 8 * (size - 1 - i))
        for i in range(size)
    ]
    return reduce(lambda left, right: left.bitwiseOR(right), moved)
