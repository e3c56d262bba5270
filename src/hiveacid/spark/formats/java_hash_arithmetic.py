"""Java's 32-bit arithmetic in Spark functions, also correct in ANSI mode, and Murmur3 on top of it.

Products and sums are computed in 64 bits and wrapped by masks. Nothing overflows, so ``spark.sql.ansi.enabled`` makes
no difference.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F

from hiveacid.core.schema.bucket_hash import MURMUR_C1, MURMUR_C2

_WORD = 0xFFFFFFFF
_SIGN = 0x80000000
_MODULUS = 1 << 32
_SEED = 1867871456  # Spark's hash() of this int is 104729, Hive's seed, which is then the seed of the next argument
_LAST_1, _LAST_2 = 0x85EBCA6B, 0xC2B2AE35


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


def hash_bytes_v1(data: SparkColumn) -> SparkColumn:
    """Return ``31 * code + byte`` folded over all (signed) bytes, from 0."""
    indexes = F.filter(F.sequence(F.lit(0), F.octet_length(data)), lambda index: index > 0)
    return F.aggregate(indexes, F.lit(0), lambda code, index: combine_hashes(code, _signed_byte(data, index)))


def murmur_bytes(data: SparkColumn) -> SparkColumn:
    """Return Hive's ``Murmur3.hash32`` of bytes.

    Spark's own ``hash`` is Murmur3 for whole words. Its last step is reversed, the one to three bytes of the tail are
    mixed in as in Hive (each sign-extended), and the last step is applied again. The expression is SQL text, because
    nested function calls would exceed the 100 protobuf levels of Spark Connect's messages.
    """
    return F.call_function("transform", F.array(data), F.expr(f"d -> {_murmur('d')}")).getItem(0)


def _signed_byte(data: SparkColumn, index: SparkColumn) -> SparkColumn:
    """Return a byte (counted from 1) as a number from -128 to 127; 0 after the end."""
    digits = F.conv(F.hex(data.substr(index, F.lit(1))), 16, 10)
    return F.coalesce(digits.cast("int"), F.lit(0)).bitwiseXOR(F.lit(0x80)) - F.lit(0x80)


# The following functions return SQL text; ``x`` is the variable of its lambdas.


def _bind_text(value: str, body: str) -> str:
    return f"transform(array({value}), x -> {body})[0]"


def _shift_xor(value: str, *shifts: int) -> str:
    return _bind_text(value, " ^ ".join(["x", *(f"shiftrightunsigned(x, {by})" for by in shifts)]))


def _rotate(value: str, left: int) -> str:
    return _bind_text(value, f"shiftleft(x, {left}) | shiftrightunsigned(x, {32 - left})")


def _times(value: str, factor: int) -> str:
    signed = factor - _MODULUS if factor >= _SIGN else factor  # of two signed ints: the product fits a bigint
    return _to_int_text(f"CAST({value} AS BIGINT) * CAST({signed} AS BIGINT)")


def _to_int_text(value: str) -> str:
    return f"CAST(((({value}) & {_WORD}) ^ {_SIGN}) - {_SIGN} AS INT)"


def _mix(code: str) -> str:
    """Return the SQL of Murmur3's last step (``fmix32``)."""
    code = _times(_shift_xor(code, 16), _LAST_1)
    return _shift_xor(_times(_shift_xor(code, 13), _LAST_2), 16)


def _unmix(code: str) -> str:
    code = _times(_shift_xor(code, 16), pow(_LAST_2, -1, _MODULUS))
    return _shift_xor(_times(_shift_xor(code, 13, 26), pow(_LAST_1, -1, _MODULUS)), 16)


def _murmur(data: str) -> str:
    size = f"octet_length({data})"
    whole = f"({size} - {size} % 4)"

    def byte(index: int) -> str:
        digits = f"conv(hex(substr({data}, {whole} + {index}, 1)), 16, 10)"
        return f"((coalesce(CAST({digits} AS INT), 0) ^ 128) - 128)"

    state = f"({_unmix(f'hash({_SEED}, substr({data}, 1, {whole}))')} ^ {whole})"
    word = f"({byte(1)} ^ shiftleft({byte(2)}, 8) ^ shiftleft({byte(3)}, 16))"
    mixed = _times(_rotate(_times(word, MURMUR_C1), 15), MURMUR_C2)  # 0 where there is no tail
    return f"CASE WHEN {data} IS NOT NULL THEN {_mix(f'{state} ^ {mixed} ^ {size}')} END"
