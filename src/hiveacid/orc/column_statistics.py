"""Column statistics of an ORC file or stripe: decoded, merged, and as bounds of values.

They are decoded on access (``ColumnStatistics`` of orc_proto) and merged as ``ColumnStatisticsImpl.merge`` does. Bounds are as
wide as the statistics of all writers need:

- strings: old writers compare UTF-16 units, and Java writes U+FFFD in place of bytes that are not UTF-8. Both concern only
  characters from U+D800 on. A lower bound ends before the first of them, and an upper bound with one is not used.
- dates: old files count before 1582 in the Julian calendar. Days before the Gregorian calendar are no bounds.
- timestamps: wall clocks in milliseconds, shifted by the zones of writer, reader and session. Two days are added.
- float, double: where a row group begins with NaN, the bounds of the file leave out all values of this row group. Not used.
- char: padded in files of some writers, not in others. Not used.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, TypeAlias, overload

from hiveacid.core.format.acid_columns import Range
from hiveacid.core.predicates import Bounds
from hiveacid.core.schema.types import INTEGER_BITS, HiveType, Primitive
from hiveacid.errors import BadFileError
from hiveacid.orc.wire_format import EIGHT_BYTES, ProtobufMessage, WireError, encode_field, encode_packed

HIVE_8732 = 1
"""The writer version since which statistics of strings are correct."""
Value: TypeAlias = int | float | str | Decimal | None


@dataclass(frozen=True)
class ColumnStatistics:
    """Statistics of one column in a footer.

    ``count``: number of values that are not null; None if the writer did not store it.
    ``minimum``, ``maximum``: int (whole numbers, dates as days and timestamps as milliseconds since the epoch), float,
    Decimal or str; None if absent. For long strings they are bounds, not values. A timestamp may be up to a
    millisecond above ``maximum``.
    ``total``: the sum of numbers, or the length of all strings in bytes.
    ``on_disk``: bytes of the column's streams; None if the writer did not store it.
    """

    count: int | None
    has_null: bool
    minimum: Value = None
    maximum: Value = None
    total: Value = None
    on_disk: int | None = None

    @property
    def integers(self) -> Range | None:
        """Return minimum and maximum if they are whole numbers; None without them."""
        low, high = self.minimum, self.maximum
        return Range(low, high) if isinstance(low, int) and isinstance(high, int) else None


_COUNT, _HAS_NULL, _BYTES_ON_DISK = 1, 10, 11
# Maximum of a decimal's characters and of its exponent. A column has at most 38 digits, a sum some more.
_LONGEST_DECIMAL = 100
_Bounds: TypeAlias = tuple[Value, Value, Value]


def _string_bounds(part: ProtobufMessage) -> _Bounds:
    # For long values a writer stores only bounds, in fields 4 and 5. Arrow stores bytes that are not UTF-8 as they are.
    low, high, *bounds = (_utf8(part.data(number)) for number in (1, 2, 4, 5))
    return bounds[0] if low is None else low, bounds[1] if high is None else high, part.signed(3)


def _utf8(data: bytes | None) -> str | None:
    try:
        return None if data is None else data.decode()
    except UnicodeDecodeError:
        return None


def _decimal(text: str | None) -> Decimal | None:
    if text is None:
        return None
    number = Decimal(text) if len(text) <= _LONGEST_DECIMAL else Decimal("NaN")
    if not number.is_finite() or abs(number.adjusted()) > _LONGEST_DECIMAL:
        raise WireError("a decimal of the statistics is out of range")
    return number


def _timestamp_bounds(part: ProtobufMessage) -> _Bounds:
    low, high = part.signed(3), part.signed(4)  # UTC; files before ORC-135 have only the writer's zone
    return part.signed(1) if low is None else low, part.signed(2) if high is None else high, None


_BOUNDS_READERS: dict[int, Callable[[ProtobufMessage], _Bounds]] = {
    2: lambda part: (part.signed(1), part.signed(2), part.signed(3)),
    3: lambda part: (part.double(1), part.double(2), part.double(3)),
    4: _string_bounds,
    6: lambda part: (_decimal(part.text(1)), _decimal(part.text(2)), _decimal(part.text(3))),
    7: lambda part: (part.signed(1), part.signed(2), None),
    8: lambda part: (None, None, part.signed(1)),
    9: _timestamp_bounds,
}
"""Minimum, maximum and total of integers, doubles, strings, decimals, dates, binaries and timestamps."""


def decode_statistics(data: bytes) -> ColumnStatistics:
    """Read one column's statistics. Raises WireError."""
    message = ProtobufMessage.parse(data)
    flag = message.integer(_HAS_NULL)
    bounds: _Bounds = (None, None, None)
    for number, _, part in message.fields:
        read = _BOUNDS_READERS.get(number)
        if read is not None and isinstance(part, bytes):
            try:
                bounds = read(ProtobufMessage.parse(part))
            except InvalidOperation as error:
                raise WireError("a decimal of the statistics is not a number") from error
    has_null = flag is None or bool(flag)
    return ColumnStatistics(message.integer(_COUNT), has_null, *bounds, message.integer(_BYTES_ON_DISK))


@dataclass(frozen=True)
class StatisticsList(Sequence[ColumnStatistics]):
    """Statistics by ORC column id (0 is the root); empty if the writer made none.

    Access decodes an item, because wide tables have thousands. It raises BadFileError for damaged statistics.
    """

    path: str
    raw: Sequence[bytes] = field(repr=False)

    def __len__(self) -> int:
        """Return the number of columns, the root included."""
        return len(self.raw)

    @overload
    def __getitem__(self, index: int) -> ColumnStatistics: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[ColumnStatistics]: ...
    def __getitem__(self, index: int | slice) -> ColumnStatistics | Sequence[ColumnStatistics]:
        """Decode one column's statistics."""
        if isinstance(index, slice):
            return StatisticsList(self.path, self.raw[index])
        try:
            return decode_statistics(self.raw[index])
        except WireError as error:
            raise BadFileError(f"column statistics are damaged ({error})", path=self.path) from error


_INTEGERS, _DOUBLES, _STRINGS, _BOOLEANS, _DECIMALS, _DATES, _BINARIES, _TIMES = range(2, 10)
_LOWEST, _HIGHEST = -(1 << 63), (1 << 63) - 1
_MAX_TEXT = 1024  # bytes of a text in statistics, as in Java's writer; Arrow stores any text whole
_FIRST_SURROGATE = 0xD800
_CONTINUATION = 0b10  # first bits of a byte inside of a character in UTF-8


def merge_statistics(parts: Sequence[bytes]) -> bytes:
    """Return the ``ColumnStatistics`` of a column from those of its parts. Raises WireError."""
    messages = [ProtobufMessage.parse(part) for part in parts]
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


def shorten_texts(statistics: bytes) -> bytes:
    """Return a column's statistics with long minimum and maximum texts replaced by shorter bounds. Raises WireError.

    Java's writer stores such bounds in fields of their own, which ORC 1.5 in Hive 3.1 does not know: to it a column
    without a minimum holds only nulls. The bounds are therefore stored as minimum and maximum.
    """
    if len(statistics) <= _MAX_TEXT:
        return statistics
    return b"".join(
        encode_field(
            number, _shorten_bounds(value) if number == _STRINGS and isinstance(value, bytes) else value, wire
        )
        for number, wire, value in ProtobufMessage.parse(statistics).fields
    )


def _shorten_bounds(strings: bytes) -> bytes:
    return b"".join(
        encode_field(number, shorten(value) if shorten and isinstance(value, bytes) else value, wire)
        for number, wire, value in ProtobufMessage.parse(strings).fields
        for shorten in ({1: _lower_bound, 2: _upper_bound}.get(number),)
    )


def _lower_bound(text: bytes) -> bytes:
    return _prefix(text) or text


def _upper_bound(text: bytes) -> bytes:
    """Return a short text that sorts after the long one, by UTF-8 and by Java's UTF-16; the text itself without one."""
    if len(text) <= _MAX_TEXT:
        return text
    try:
        prefix = _prefix(text).decode()
    except UnicodeDecodeError:  # Arrow does not look at what Spark stored
        return text
    while prefix and ord(prefix[-1]) + 1 >= _FIRST_SURROGATE:  # the two orders differ above
        prefix = prefix[:-1]
    return (prefix[:-1] + chr(ord(prefix[-1]) + 1)).encode() if prefix else text


def _prefix(text: bytes) -> bytes:
    """Return the whole characters of the text's first bytes."""
    end = min(len(text), _MAX_TEXT)
    while 0 < end < len(text) and text[end] >> 6 == _CONTINUATION:
        end -= 1
    return text[:end]


def _signed(number: int, value: int) -> bytes:
    return encode_field(number, (value << 1 ^ value >> 63) & ((1 << 64) - 1))


def _text(number: int, value: str) -> bytes:
    return encode_field(number, value.encode())


def _merge_bounds(
    parts: Sequence[ProtobufMessage],
    read: Callable[[ProtobufMessage, int], Any],
    write: Callable[[int, Any], bytes],
    fields: tuple[int, int] = (1, 2),
    order: Callable[[Any], Any] | None = None,
) -> bytes:
    """Merge minimum and maximum, which are absent if a part lacks one of them."""
    lows, highs = ([read(part, number) for part in parts] for number in fields)
    if None in lows or None in highs:
        return b""
    return write(fields[0], min(lows, key=order)) + write(fields[1], max(highs, key=order))


def _merge_ranges(parts: Sequence[ProtobufMessage], low: int = 1, high: int = 2) -> bytes:
    return _merge_bounds(parts, ProtobufMessage.signed, _signed, (low, high))


def _merge_totals(parts: Sequence[ProtobufMessage], number: int) -> bytes:
    totals = [part.signed(number) for part in parts]
    total = sum(value or 0 for value in totals)
    return _signed(number, total) if None not in totals and _LOWEST <= total <= _HIGHEST else b""


def _merge_doubles(parts: Sequence[ProtobufMessage]) -> bytes:
    """Merge minimum, maximum and sum; NaN in a part makes the sum NaN, and then no bound is valid (Java's rule)."""
    numbers = [[part.double(number) for number in (1, 2, 3)] for part in parts]
    lows, highs, totals = (
        [value for value in column if value is not None] for column in zip(*numbers, strict=True)
    )
    if not len(lows) == len(highs) == len(totals) == len(parts) or math.isnan(sum(totals)):
        return b""
    bounds = enumerate((min(lows), max(highs), sum(totals)), start=1)
    return b"".join(encode_field(number, struct.pack("<d", bound), EIGHT_BYTES) for number, bound in bounds)


def _merge_booleans(parts: Sequence[ProtobufMessage]) -> bytes:
    counts = [part.integers(1) for part in parts]
    return encode_packed(1, [sum(count[0] for count in counts)]) if all(map(len, counts)) else b""


_MERGES: dict[int, Callable[[Sequence[ProtobufMessage]], bytes]] = {
    _INTEGERS: lambda parts: _merge_ranges(parts) + _merge_totals(parts, 3),
    _DOUBLES: _merge_doubles,
    _STRINGS: lambda parts: (
        _merge_bounds(parts, ProtobufMessage.data, encode_field) + _merge_totals(parts, 3)
    ),
    _BOOLEANS: _merge_booleans,
    _DECIMALS: lambda parts: _merge_bounds(parts, ProtobufMessage.text, _text, order=Decimal),
    _DATES: _merge_ranges,
    _BINARIES: lambda parts: _merge_totals(parts, 1),
    # Fields 1 and 2 are in the writer's zone, 3 and 4 in UTC. Without the nanoseconds (5, 6), a bound covers its whole
    # millisecond.
    _TIMES: lambda parts: _merge_ranges(parts) + _merge_ranges(parts, 3, 4),
}


FIRST_GREGORIAN = -141_427
"""Days from the epoch to 1582-10-15."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST_TIME, _LAST_TIME = datetime(1600, 1, 1, tzinfo=UTC), datetime(9990, 1, 1, tzinfo=UTC)
_SHIFT = timedelta(days=2)
_SAME_ORDER = re.compile("[\x00-\ud7ff]*")


def column_bounds(statistics: ColumnStatistics, hive: HiveType) -> Bounds:
    """Return the bounds of the values of a column of a Hive type, among at least one row."""
    low, high, kind = statistics.minimum, statistics.maximum, hive.name if isinstance(hive, Primitive) else ""
    has_value = statistics.count != 0
    has_null = statistics.has_null or not has_value
    if low is None or high is None:  # Presto and old Trino leave out the minimum of long strings
        return Bounds(has_null=has_null, has_value=has_value)
    return Bounds(_bound(kind, low, upper=False), _bound(kind, high, upper=True), has_null, has_value)


def _bound(kind: str, value: Any, *, upper: bool) -> Any:
    """Return a value of statistics as a bound; None where values may be beyond it."""
    match value:
        case int() if kind in INTEGER_BITS:
            return value
        case int() if kind == "date":
            day = _EPOCH.toordinal() + value
            return date.fromordinal(day) if value >= FIRST_GREGORIAN and day <= date.max.toordinal() else None
        case int() if kind == "timestamp":
            try:
                moment = _EPOCH + timedelta(milliseconds=value)
            except OverflowError:
                return None
            shift = _SHIFT if upper else -_SHIFT
            return moment + shift if _FIRST_TIME <= moment <= _LAST_TIME else None
        case str() if kind in {"string", "varchar"}:
            same_order = _SAME_ORDER.match(value)[0]  # type: ignore[index]
            return value if same_order == value else None if upper else same_order
        case Decimal() if kind == "decimal" and math.isfinite(value):
            return value
    return None
