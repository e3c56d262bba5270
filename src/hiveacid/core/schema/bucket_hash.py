"""Hive's bucket hash of a row, bucketing versions 1 and 2: the reference in plain Python.

``spark.formats.bucket_hash_expressions`` and ``streaming.stream_target`` compute the same for whole columns.

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
from typing import Any

from hiveacid.core.schema.types import Array, HiveType, Map, Primitive, Struct
from hiveacid.errors import ConfigError, UnsupportedFeatureError

_MASK = 0xFFFFFFFF
MURMUR_SEED = 104729  # Murmur3.DEFAULT_SEED of hive-storage-api
MURMUR_C1, MURMUR_C2 = 0xCC9E2D51, 0x1B873593
_INTEGER_BYTES = {"smallint": 2, "int": 4, "bigint": 8}
_WIDE = 32  # bits of Java's int
_VINT_LOW, _VINT_HIGH = -112, 127  # Hadoop's variable-length integers: what fits into the length byte
_EPOCH = date(1970, 1, 1)
_EPOCH_TIME = datetime(1970, 1, 1, tzinfo=UTC)


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


def _fold(pairs: Iterable[tuple[object, HiveType]], version: int) -> int:
    total = 0
    for value, hive_type in pairs:
        total = 31 * total + _hash(value, hive_type, version)
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
        raise UnsupportedFeatureError(
            f"rows cannot be bucketed by {hive_type} in bucketing version {version}: "
            "Hive's own bucket depends on more than the value"
        )
    return hash_function


def _signed(number: int) -> int:
    number &= _MASK
    return number - (1 << _WIDE) if number >> (_WIDE - 1) else number


def _long_hash(number: int) -> int:
    number &= 0xFFFFFFFFFFFFFFFF
    return _signed(number >> _WIDE ^ number)


def _float_bits(value: float) -> int:
    packed = struct.pack(">f", math.nan if math.isnan(value) else value)
    return int.from_bytes(b"\x7f\xc0\x00\x00" if math.isnan(value) else packed, signed=True)


def _double_bits(value: float) -> int:
    packed = b"\x7f\xf8" + bytes(6) if math.isnan(value) else struct.pack(">d", value)
    return int.from_bytes(packed, signed=True)


def _bytes_hash(data: bytes, start: int) -> int:
    total = start
    for byte in data:
        total = (31 * total + (byte - 256 if byte > 127 else byte)) & _MASK  # noqa: PLR2004 - Java's signed byte
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
    total = MURMUR_SEED
    blocks = len(data) // 4 * 4
    for (block,) in struct.iter_unpack("<I", data[:blocks]):
        total = (_rotate(total ^ _mix(block), 13) * 5 + 0xE6546B64) & _MASK
    tail = 0
    for position, byte in enumerate(data[blocks:]):
        tail ^= (byte - 256 if byte > 127 else byte) << 8 * position  # noqa: PLR2004 - Java's signed byte
    if blocks < len(data):
        total ^= _mix(tail & _MASK)
    total ^= len(data)
    total = (total ^ total >> 16) * 0x85EBCA6B & _MASK
    total = (total ^ total >> 13) * 0xC2B2AE35 & _MASK
    return _signed(total ^ total >> 16)


def _mix(block: int) -> int:
    return _rotate(block * MURMUR_C1 & _MASK, 15) * MURMUR_C2 & _MASK


def _rotate(number: int, bits: int) -> int:
    return (number << bits | number >> (_WIDE - bits)) & _MASK


def _murmur_integer(width: int) -> Callable[[int], int]:
    return lambda value: _murmur(value.to_bytes(width, signed=True))


_VERSION_1: Mapping[str, Callable[[Any], int]] = {
    "boolean": int,
    "tinyint": int,
    "smallint": int,
    "int": int,
    "bigint": _long_hash,
    "float": _float_bits,
    "double": lambda value: _long_hash(_double_bits(value)),
    "string": lambda value: _bytes_hash(value.encode(), 0),
    "varchar": lambda value: _bytes_hash(value.encode(), 1),
    "char": lambda value: _bytes_hash(_strip_char(value), 1),
    "binary": lambda value: _bytes_hash(value, 1),
    "date": _days,
    "decimal": _decimal_hash,
}
_VERSION_2: Mapping[str, Callable[[Any], int]] = {
    "boolean": int,
    "tinyint": int,
    **{name: _murmur_integer(width) for name, width in _INTEGER_BYTES.items()},
    "float": lambda value: _murmur(struct.pack(">f", float(_float_bits(value)))),
    "double": lambda value: _murmur(struct.pack(">d", float(_double_bits(value)))),
    "string": lambda value: _murmur(value.encode()),
    "varchar": lambda value: _murmur(value.encode()),
    "char": lambda value: _murmur(_strip_char(value)),
    "date": lambda value: _murmur(_days(value).to_bytes(4, signed=True)),
    "decimal": lambda value: _murmur(_decimal_bytes(value)),
    "timestamp": lambda value: _murmur(_timestamp_bytes(value)),
}
