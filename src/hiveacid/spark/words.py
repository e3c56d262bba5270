"""Java's 32-bit arithmetic in Spark functions, right under ANSI mode too, and Murmur3 made of it.

Products and sums are taken in 64 bits and wrapped by masks: nothing overflows, so ``spark.sql.ansi.enabled``
makes no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn

_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_MODULUS = 1 << 32
_SEED = 1867871456  # Spark's hash() of this int is 104729, Hive's seed: what follows it is hashed with that
_C1, _C2 = 0xCC9E2D51, 0x1B873593
_LAST_1, _LAST_2 = 0x85EBCA6B, 0xC2B2AE35


def let(value: SparkColumn, body: Callable[[SparkColumn], SparkColumn]) -> SparkColumn:
    """Use a value several times without planning and computing it several times."""
    return F.transform(F.array(value), body).getItem(0)


def wrap(value: SparkColumn) -> SparkColumn:
    """Return the low 32 bits of a bigint as a signed int (Java's ``(int) value``)."""
    low = value.bitwiseAND(F.lit(_WORD)).bitwiseXOR(F.lit(_SIGN))
    return (low - F.lit(_SIGN)).cast("int")


def fold_long(value: SparkColumn) -> SparkColumn:
    """Return Java's ``Long.hashCode``."""
    return wrap(F.shiftrightunsigned(value, 32).bitwiseXOR(value))


def next_code(code: SparkColumn, following: SparkColumn) -> SparkColumn:
    """Return ``31 * code + following``."""
    return wrap(code.cast("bigint") * F.lit(31) + following)


def murmur_int(value: SparkColumn) -> SparkColumn:
    """Return Hive's Murmur3 of an int's four bytes, most significant first."""
    return F.when(value.isNotNull(), F.hash(F.lit(_SEED), _swap(value, 4, F.lit(0xFF))))


def murmur_long(value: SparkColumn) -> SparkColumn:
    """Return Hive's Murmur3 of a bigint's eight bytes, most significant first."""
    return F.when(value.isNotNull(), F.hash(F.lit(_SEED), _swap(value, 8, F.lit(0xFF).cast("bigint"))))


def _swap(value: SparkColumn, size: int, byte: SparkColumn) -> SparkColumn:
    moved = [
        F.shiftleft(F.shiftrightunsigned(value, 8 * i).bitwiseAND(byte), 8 * (size - 1 - i))
        for i in range(size)
    ]
    return reduce(lambda left, right: left.bitwiseOR(right), moved)


def old_bytes(data: SparkColumn) -> SparkColumn:
    """Return ``31 * code + byte`` folded over all (signed) bytes, from 0."""
    places = F.filter(F.sequence(F.lit(0), F.octet_length(data)), lambda place: place > 0)
    return F.aggregate(places, F.lit(0), lambda code, place: next_code(code, _signed_byte(data, place)))


def murmur_bytes(data: SparkColumn) -> SparkColumn:
    """Return Hive's ``Murmur3.hash32`` of bytes.

    Spark's own ``hash`` is Murmur3 for whole words; its last step is undone, the one to three bytes of the tail
    are mixed in as Hive does (each sign-extended), and the last step is done again.
    """
    return let(data, _murmur_value)


def _murmur_value(data: SparkColumn) -> SparkColumn:
    return let(F.octet_length(data), lambda size: _murmur_sized(data, size))


def _murmur_sized(data: SparkColumn, size: SparkColumn) -> SparkColumn:
    whole = size - size % F.lit(4)
    state = _unmix(F.hash(F.lit(_SEED), data.substr(F.lit(1), whole))).bitwiseXOR(whole)
    tail = [F.shiftleft(_signed_byte(data, whole + F.lit(i + 1)), 8 * i) for i in range(3)]
    word = tail[0].bitwiseXOR(tail[1]).bitwiseXOR(tail[2])
    mixed = _times(_rotate(_times(word, _C1), 15), _C2)  # 0 where there is no tail
    return F.when(data.isNotNull(), _mix(state.bitwiseXOR(mixed).bitwiseXOR(size)))


def _signed_byte(data: SparkColumn, place: SparkColumn) -> SparkColumn:
    """Return a byte (counted from 1) as a number from -128 to 127; 0 behind the end."""
    digits = F.conv(F.hex(data.substr(place, F.lit(1))), 16, 10)
    return F.coalesce(digits.cast("int"), F.lit(0)).bitwiseXOR(F.lit(0x80)) - F.lit(0x80)


def _mix(code: SparkColumn) -> SparkColumn:
    """Murmur3's last step (``fmix32``)."""
    code = _times(_shift_xor(code, 16), _LAST_1)
    return _shift_xor(_times(_shift_xor(code, 13), _LAST_2), 16)


def _unmix(code: SparkColumn) -> SparkColumn:
    code = _times(_shift_xor(code, 16), pow(_LAST_2, -1, _MODULUS))
    return _shift_xor(_times(_shift_xor(code, 13, 26), pow(_LAST_1, -1, _MODULUS)), 16)


def _times(value: SparkColumn, factor: int) -> SparkColumn:
    signed = factor - _MODULUS if factor >= _SIGN else factor  # of two signed ints: the product fits a bigint
    return wrap(value.cast("bigint") * F.lit(signed).cast("bigint"))


def _shift_xor(value: SparkColumn, *shifts: int) -> SparkColumn:
    def combine(code: SparkColumn) -> SparkColumn:
        return reduce(lambda so_far, by: so_far.bitwiseXOR(F.shiftrightunsigned(code, by)), shifts, code)

    return let(value, combine)


def _rotate(value: SparkColumn, left: int) -> SparkColumn:
    def turn(code: SparkColumn) -> SparkColumn:
        return F.shiftleft(code, left).bitwiseOR(F.shiftrightunsigned(code, 32 - left))

    return let(value, turn)
