"""Hive's bucket hash of a row, bucketing versions 1 and 2.

The hashes of integers and dates take an int or a whole column as a NumPy array: `integer_hash`.
``spark.formats.bucket_hash_expressions`` computes the same in Spark's jobs.

Rules: Hive's ``ObjectInspectorUtils.hashCode`` (version 1) and ``hashCodeMurmur`` (version 2), with their quirks.
Version 2 turns the bits of floats into numbers before hashing. It hashes map values by version 1, and its murmur
sign-extends the tail bytes.

Values are Python objects: bool, int, float, Decimal, str, bytes, and None for NULL. A date may be days since 1970. A
timestamp is a datetime without zone, the wall-clock time. Arrays are sequences, maps are mappings, and structs are
either, a mapping by field name.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Protocol, Self, TypeVar

from hiveacid.core.schema.types import Array, HiveType, Map, Primitive, Struct
from hiveacid.errors import ConfigError, UnsupportedFeatureError

_MASK, _WIDE_MASK = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
MURMUR_SEED = 104729  # Murmur3.DEFAULT_SEED of hive-storage-api
_WIDE = 32  # bits of Java's int
_VINT_LOW, _VINT_HIGH = -112, 127  # Hadoop's variable-length integers: what fits into the length byte
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)


class _Bits(Protocol):
    """An int, or a NumPy array of uint64."""

    def __and__(self, mask: int, /) -> Self: ...
    def __or__(self, other: Self, /) -> Self: ...
    def __xor__(self, other: Any, /) -> Self: ...
    def __mul__(self, factor: int, /) -> Self: ...
    def __add__(self, number: Any, /) -> Self: ...
    def __sub__(self, number: int, /) -> Self: ...
    def __lshift__(self, bits: int, /) -> Self: ...
    def __rshift__(self, bits: int, /) -> Self: ...


_Word = TypeVar("_Word", bound=_Bits)


def bucket_number(values: Sequence[object], types: Sequence[HiveType], count: int, version: int) -> int:
    """Return the bucket, 0 to ``count`` - 1, of a row with these values in its bucketing columns.

    Raises what :func:`bucket_hash` raises.
    """
    return (bucket_hash(values, types, version) & 0x7FFFFFFF) % count


def bucket_hash(values: Sequence[object], types: Sequence[HiveType], version: int) -> int:
    """Return Hive's 32-bit signed hash of the bucketing columns.

    ``version``: the table's bucketing version, 1 or 2; another is a ConfigError. Raises
    UnsupportedFeatureError where Hive's own result depends on more than the value: timestamps in version 1
    (the writer's time zone), binary in version 2 (the size of a buffer), unions, timestamps with local zone.
    """
    if version not in (1, 2) or len(values) != len(types):
        msg = f"no bucket hash of {len(values)} values of {len(types)} types in bucketing version {version}"
        raise ConfigError(msg)
    return _fold(zip(values, types, strict=True), version)


def check_bucketing_type(hive_type: HiveType, version: int) -> None:
    """Raise UnsupportedFeatureError when rows cannot be bucketed by a column of this type."""
    if isinstance(hive_type, Array):
        check_bucketing_type(hive_type.element, version)
    elif isinstance(hive_type, Map):
        check_bucketing_type(hive_type.key, version)
        check_bucketing_type(hive_type.value, 1)
    elif isinstance(hive_type, Struct):
        for field in hive_type.fields:
            check_bucketing_type(field.type, version)
    else:
        _primitive_hash(hive_type, version)


def integer_hash(kind: str, version: int) -> Callable[[_Word], _Word] | None:
    """Return the hash of a type's values as two's complement in 64 bits, unsigned, or None if they are no integers.

    The function takes an int or an array of uint64; the result has 32 bits.
    """
    return (_INTEGERS_1 if version == 1 else _INTEGERS_2).get(kind)


def combine_hashes(total: _Word, following: Any) -> _Word:
    """Return the hash of columns and of the one that follows, with 32 bits: an int or an array."""
    combined: _Word = (total * 31 + following) & _MASK
    return combined


def _fold(pairs: Iterable[tuple[object, HiveType]], version: int) -> int:
    total = 0
    for value, hive_type in pairs:
        total = combine_hashes(total, _hash(value, hive_type, version))
    return _signed(total)


def _hash(value: Any, hive_type: HiveType, version: int) -> int:
    if value is None:
        return 0
    if isinstance(hive_type, Array):
        return _fold(((element, hive_type.element) for element in value), version)
    if isinstance(hive_type, Map):
        return _signed(
            sum(
                _hash(key, hive_type.key, version) ^ _hash(item, hive_type.value, 1)
                for key, item in value.items()
            )
        )
    if isinstance(hive_type, Struct):
        fields = [value[field.name] for field in hive_type.fields] if isinstance(value, Mapping) else value
        return _fold(zip(fields, (field.type for field in hive_type.fields), strict=True), version)
    return _primitive_hash(hive_type, version)(value)


def _primitive_hash(hive_type: HiveType, version: int) -> Callable[[Any], int]:
    name = hive_type.name if isinstance(hive_type, Primitive) else str(hive_type)
    hash_function = (_VERSION_1 if version == 1 else _VERSION_2).get(name)
    if hash_function is None:
        of_integer = integer_hash(name, version)
        if of_integer is not None:
            return lambda value: _signed(of_integer(_days(value) & _WIDE_MASK))
        raise UnsupportedFeatureError(
            f"rows cannot be bucketed by {hive_type} in bucketing version {version}: "
            "Hive's own bucket depends on more than the value"
        )
    return hash_function


def _signed(number: int) -> int:
    number &= _MASK
    return number - (1 << _WIDE) if number >> (_WIDE - 1) else number


def _long_hash(number: _Word) -> _Word:
    return (number >> _WIDE ^ number) & _MASK


def _float_bits(value: float) -> int:
    packed = struct.pack(">f", math.nan if math.isnan(value) else value)
    return int.from_bytes(b"\x7f\xc0\x00\x00" if math.isnan(value) else packed, signed=True)


def _double_bits(value: float) -> int:
    packed = b"\x7f\xf8" + bytes(6) if math.isnan(value) else struct.pack(">d", value)
    return int.from_bytes(packed, signed=True)


def _bytes_hash(data: bytes, start: int) -> int:
    total = start
    for byte in data:
        total = combine_hashes(total, _signed_byte(byte))
    return _signed(total)


def _days(value: date | int) -> int:
    return value if isinstance(value, int) else (value - _EPOCH).days


def _strip_char(value: str) -> bytes:
    return value.rstrip(" ").encode()


def _unscaled(value: Decimal) -> tuple[int, int]:
    """Return unscaled value and scale as ``HiveDecimal`` keeps them: no zeros at the end of the fraction."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise UnsupportedFeatureError(f"{value} is not a decimal that Hive can hold")
    number = int("".join(map(str, digits)) or "0")
    scale = max(0, -exponent)
    number *= 10 ** max(0, exponent)
    while scale and number % 10 == 0:
        number, scale = number // 10, scale - 1
    return (-number if sign else number), scale


def _decimal_hash(value: Decimal) -> int:
    """Return ``BigDecimal.hashCode``: 31 * the hash of the unscaled number + scale."""
    number, scale = _unscaled(value)
    magnitude = abs(number)
    total = 0
    for shift in range((magnitude.bit_length() - 1) // _WIDE * _WIDE, -1, -_WIDE):
        total = 31 * total + (magnitude >> shift & _MASK)
    return _signed(31 * (-total if number < 0 else total) + scale)


def _decimal_bytes(value: Decimal) -> bytes:
    """Return the unscaled number as Java's ``BigInteger.toByteArray``: the fewest bytes that hold its sign."""
    number, _ = _unscaled(value)
    bits = (number if number >= 0 else ~number).bit_length()
    return number.to_bytes(bits // 8 + 1, signed=True)


def _timestamp_bytes(value: datetime) -> bytes:
    """Return ``TimestampWritableV2.getBytes``: seconds, flag, the digits of the fraction reversed."""
    elapsed = value.replace(tzinfo=UTC) - _EPOCH_TIME
    seconds = elapsed // timedelta(seconds=1)
    reversed_nanos = int(f"{elapsed.microseconds * 1000:09d}"[::-1])
    far = not 0 <= seconds < 1 << 31
    low = seconds & 0x7FFFFFFF | (1 << 31 if far or reversed_nanos else 0)
    encoded = low.to_bytes(4)
    if far:
        return encoded + _vint(-reversed_nanos - 1) + _vint(seconds >> 31)
    return encoded + _vint(reversed_nanos) if reversed_nanos else encoded


def _vint(number: int) -> bytes:
    """Return Hadoop's variable-length integer (``WritableUtils.writeVLong``)."""
    if _VINT_LOW <= number <= _VINT_HIGH:
        return number.to_bytes(1, signed=True)
    magnitude = ~number if number < 0 else number
    length = (magnitude.bit_length() + 7) // 8
    marker = (-120 if number < 0 else _VINT_LOW) - length
    return marker.to_bytes(1, signed=True) + magnitude.to_bytes(length)


def _murmur(data: bytes) -> int:
    """Return Hive's ``Murmur3.hash32``: murmur3 with its own seed and signed tail bytes."""
    blocks = len(data) // 4 * 4
    tail = 0
    for position, byte in enumerate(data[blocks:]):
        tail ^= _signed_byte(byte) << 8 * position
    words = struct.unpack(f"<{blocks // 4}I", data[:blocks])
    return _signed(_murmur_words(words, len(data), tail & _MASK))


def _murmur_words(words: Sequence[_Word], length: int, tail: Any = 0) -> _Word:
    """Hash words of 4 bytes, the first byte lowest, and the bytes that follow them."""
    total: Any = MURMUR_SEED
    for word in words:
        total = (_rotate(total ^ _mix(word), 13) * 5 + 0xE6546B64) & _MASK
    total = total ^ _mix(tail) ^ length
    total = (total ^ total >> 16) * 0x85EBCA6B & _MASK
    total = (total ^ total >> 13) * 0xC2B2AE35 & _MASK
    mixed: _Word = total ^ total >> 16
    return mixed


def _mix(block: _Word) -> _Word:
    return _rotate(block * 0xCC9E2D51 & _MASK, 15) * 0x1B873593 & _MASK


def _rotate(number: _Word, bits: int) -> _Word:
    return (number << bits | number >> (_WIDE - bits)) & _MASK


def _signed_byte(byte: _Word) -> _Word:
    """Sign-extend a byte as Java does; in an array modulo 2**64."""
    return (byte ^ 0x80) - 0x80


def _murmur_short(number: _Word) -> _Word:
    tail = _signed_byte(number >> 8 & 0xFF) ^ _signed_byte(number & 0xFF) << 8
    return _murmur_words((), 2, tail & _MASK)


def _murmur_int(number: _Word) -> _Word:
    return _murmur_words([_swap_bytes(number & _MASK)], 4)


def _murmur_long(number: _Word) -> _Word:
    return _murmur_words([_swap_bytes(number >> _WIDE), _swap_bytes(number & _MASK)], 8)


def _swap_bytes(word: _Word) -> _Word:
    """Return the word as murmur reads it: Hive hashes big-endian bytes, and murmur reads little-endian words."""
    return (word & 0xFF) << 24 | (word & 0xFF00) << 8 | word >> 8 & 0xFF00 | word >> 24


def _low_word(number: _Word) -> _Word:
    return number & _MASK


_INTEGERS_1: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("boolean", "tinyint", "smallint", "int", "date"), _low_word),
    "bigint": _long_hash,
}
_INTEGERS_2: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("boolean", "tinyint"), _low_word),
    "smallint": _murmur_short,
    **dict.fromkeys(("int", "date"), _murmur_int),
    "bigint": _murmur_long,
}
_VERSION_1: Mapping[str, Callable[[Any], int]] = {
    "float": _float_bits,
    "double": lambda value: _signed(_long_hash(_double_bits(value) & _WIDE_MASK)),
    "string": lambda value: _bytes_hash(value.encode(), 0),
    "varchar": lambda value: _bytes_hash(value.encode(), 1),
    "char": lambda value: _bytes_hash(_strip_char(value), 1),
    "binary": lambda value: _bytes_hash(value, 1),
    "decimal": _decimal_hash,
}
_VERSION_2: Mapping[str, Callable[[Any], int]] = {
    "float": lambda value: _murmur(struct.pack(">f", float(_float_bits(value)))),
    "double": lambda value: _murmur(struct.pack(">d", float(_double_bits(value)))),
    "string": lambda value: _murmur(value.encode()),
    "varchar": lambda value: _murmur(value.encode()),
    "char": lambda value: _murmur(_strip_char(value)),
    "decimal": lambda value: _murmur(_decimal_bytes(value)),
    "timestamp": lambda value: _murmur(_timestamp_bytes(value)),
}
