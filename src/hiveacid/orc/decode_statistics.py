"""Column statistics of an ORC file or stripe (``ColumnStatistics`` of orc_proto), decoded on access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import TypeAlias, overload

from hiveacid.errors import BadFileError
from hiveacid.orc.wire_format import ProtobufMessage, WireError

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
    """

    count: int | None
    has_null: bool
    minimum: Value = None
    maximum: Value = None
    total: Value = None

    @property
    def integers(self) -> tuple[int, int] | None:
        """Return minimum and maximum if they are whole numbers; None without them."""
        low, high = self.minimum, self.maximum
        return (low, high) if isinstance(low, int) and isinstance(high, int) else None


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
    has_null = message.integer(10)
    bounds: _Bounds = (None, None, None)
    for number, _, part in message.fields:
        read = _BOUNDS_READERS.get(number)
        if read is not None and isinstance(part, bytes):
            try:
                bounds = read(ProtobufMessage.parse(part))
            except InvalidOperation as error:
                raise WireError("a decimal of the statistics is not a number") from error
    return ColumnStatistics(message.integer(1), has_null is None or bool(has_null), *bounds)


@dataclass(frozen=True)
class StatisticsList(Sequence[ColumnStatistics]):
    """Statistics by ORC column id (0 is the root); empty if the writer made none.

    Access decodes an item, because wide tables have thousands. It raises BadFileError for damaged statistics.
    """

    path: str
    raw: tuple[bytes, ...] = field(repr=False)

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
