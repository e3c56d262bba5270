"""Merge the encoded column statistics of several parts of a file.

The result holds only facts that follow from the parts. A bound is left out if a part with values lacks it. A sum is
left out unless it is a sum of integers.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Sequence
from decimal import Decimal
from functools import partial

from hiveacid.orc.protobuf import EIGHT_BYTES, Message, encode_field, encode_packed

_COUNT, _HAS_NULL, _BYTES_ON_DISK = 1, 10, 11
_INTEGERS, _DOUBLES, _STRINGS, _BOOLEANS, _DECIMALS, _DATES, _BINARIES, _TIMES = range(2, 10)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1


def merge_statistics(parts: Sequence[bytes]) -> bytes:
    """Return the ``ColumnStatistics`` of a column from those of its parts. Raises WireError."""
    messages = [Message.parse(part) for part in parts]
    counts = [message.integer(_COUNT) for message in messages]
    known_counts = [count for count in counts if count is not None]
    out = b""
    if len(known_counts) == len(messages):
        out += encode_field(_COUNT, sum(known_counts))
        filled = [message for message, count in zip(messages, known_counts, strict=True) if count]
        for number, merge in _MERGES.items():
            messages_of_kind = [message.message(number) for message in filled]
            inner = [message for message in messages_of_kind if message is not None]
            if inner and len(inner) == len(messages_of_kind):
                merged = merge(inner)
                out += encode_field(number, merged) if merged else b""
    # an absent flag means unknown, so there may be nulls
    has_null = any(message.integer(_HAS_NULL) != 0 for message in messages)
    out += encode_field(_HAS_NULL, int(has_null))
    sizes = [message.integer(_BYTES_ON_DISK) for message in messages]
    if sizes and all(size is not None for size in sizes):
        out += encode_field(_BYTES_ON_DISK, sum(size or 0 for size in sizes))
    return out


def _signed(number: int, value: int) -> bytes:
    return encode_field(number, (value << 1 ^ value >> 63) & ((1 << 64) - 1))


def _merge_ranges(parts: Sequence[Message], low: int = 1, high: int = 2, sums: int | None = None) -> bytes:
    lows, highs = [part.signed(low) for part in parts], [part.signed(high) for part in parts]
    out = b""
    if None not in lows and None not in highs:
        out = _signed(low, min(one for one in lows if one is not None))
        out += _signed(high, max(one for one in highs if one is not None))
    if sums is not None:
        totals = [part.signed(sums) for part in parts]
        total = sum(one for one in totals if one is not None)
        if None not in totals and _LOWEST <= total <= _HIGHEST:
            out += _signed(sums, total)
    return out


def _merge_timestamps(parts: Sequence[Message]) -> bytes:
    # in the writer's zone and in UTC; without nanoseconds (5, 6) a bound covers its whole millisecond
    return _merge_ranges(parts) + _merge_ranges(parts, 3, 4)


def _merge_doubles(parts: Sequence[Message]) -> bytes:
    """Merge minimum, maximum and sum; NaN in a part makes the sum NaN, and then no bound is valid (Java's rule)."""
    numbers = [[part.double(number) for number in (1, 2, 3)] for part in parts]
    lows, highs, totals = (
        [one for one in column if one is not None] for column in zip(*numbers, strict=True)
    )
    if not len(lows) == len(highs) == len(totals) == len(parts) or math.isnan(sum(totals)):
        return b""
    bounds = enumerate((min(lows), max(highs), sum(totals)), start=1)
    return b"".join(encode_field(number, struct.pack("<d", one), EIGHT_BYTES) for number, one in bounds)


def _merge_strings(parts: Sequence[Message]) -> bytes:
    lows, highs = [part.data(1) for part in parts], [part.data(2) for part in parts]
    out = b""
    if None not in lows and None not in highs:
        out = encode_field(1, min(one for one in lows if one is not None))
        out += encode_field(2, max(one for one in highs if one is not None))
    return out + _merge_totals(parts, 3)


def _merge_totals(parts: Sequence[Message], number: int) -> bytes:
    totals = [part.signed(number) for part in parts]
    return b"" if None in totals else _signed(number, sum(one or 0 for one in totals))


def _merge_booleans(parts: Sequence[Message]) -> bytes:
    counts = [part.integers(1) for part in parts]
    return encode_packed(1, [sum(one[0] for one in counts)]) if all(map(len, counts)) else b""


def _merge_decimals(parts: Sequence[Message]) -> bytes:
    lows, highs = [part.text(1) for part in parts], [part.text(2) for part in parts]
    if None in lows or None in highs:
        return b""
    low = min((one for one in lows if one is not None), key=Decimal)
    high = max((one for one in highs if one is not None), key=Decimal)
    return encode_field(1, low.encode()) + encode_field(2, high.encode())


_MERGES: dict[int, Callable[[Sequence[Message]], bytes]] = {
    _INTEGERS: partial(_merge_ranges, sums=3),
    _DOUBLES: _merge_doubles,
    _STRINGS: _merge_strings,
    _BOOLEANS: _merge_booleans,
    _DECIMALS: _merge_decimals,
    _DATES: _merge_ranges,
    _BINARIES: partial(_merge_totals, number=1),
    _TIMES: _merge_timestamps,
}
