"""What ORC may skip for a condition: intervals of column values, wide enough that no row is lost.

An ORC reader compares a row group's statistics (and bloom filters) with a search argument. Its comparisons are
not Spark's, statistics come from many writers, and a row group skipped wrongly is lost silently. So:

- strings: ORC compares UTF-16 units where Spark compares bytes, and replaces what is not UTF-8. Only the ASCII
  beginning of a value is used. A row group whose statistics lack a minimum (Presto, Trino before 383, for long
  values) counts as all NULL for ORC: every string condition also lets row groups with NULLs pass.
- char: padded in files of some writers, not in others. Not used.
- dates: a literal travels as an instant, a day off where time zones differ, and old files count in the Julian
  calendar before 1582. A day is added on both sides; values before 1600 are not used.
- timestamps: wall clocks in statistics, shifted by the zones of writer, reader and session. Two days are added.
- float, double: NaN is the greatest value for Spark and may be missing in statistics, so conditions that NaN
  fulfils (>, >=) are not used; 0.0 and -0.0 are equal for Spark, not for ORC: bounds at zero include both.
- decimal: as intervals, since bloom filters hold texts whose form depends on the writer.
- columns whose type changed: ORC ignores a condition where file and table disagree, except where the file's
  integers are narrower or varchar and string meet (``SchemaEvolution.validatePPDConversion``): safe as it is.
- columns named like those of the ACID root (F2 in the design study): not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hiveacid.core.types import Primitive, parse_type
from hiveacid.spark.simple import Operator, Simple

_ROOT = {"operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"}
_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # ORC reads dots as nesting and digits as column ids
_MOST_VALUES = 200
_LONG = 1 << 63
_FIRST_DAY, _LAST_DAY = date(1600, 1, 1), date(9990, 1, 1)
_FIRST_TIME, _LAST_TIME = (datetime(d.year, 1, 1, tzinfo=UTC) for d in (_FIRST_DAY, _LAST_DAY))


@dataclass(frozen=True)
class Interval:
    """Values from ``low`` to ``high`` (None: no bound); each included unless said."""

    low: Any
    high: Any
    low_excluded: bool = False
    high_excluded: bool = False


@dataclass(frozen=True)
class Leaf:
    """What one condition asks of a column.

    ``type``: a name of ``PredicateLeaf.Type``. ``points``: exact values, else ``intervals`` of which one must
    hold; neither: ``null`` tells whether NULL or not NULL is asked for. ``or_null``: NULLs pass as well.
    """

    column: str
    type: str
    points: tuple[Any, ...] = ()
    intervals: tuple[Interval, ...] = ()
    null: bool | None = None
    or_null: bool = False


def is_usable(column: str) -> bool:
    """Tell whether ORC finds a column by this name, and no other one."""
    return column not in _ROOT and _NAME.fullmatch(column) is not None


def leaf_of(simple: Simple, hive: str) -> Leaf | None:
    """Return what ORC may skip by for a condition on a column of a Hive type; None: nothing."""
    kind = parse_type(hive)
    widen = _WIDEN.get(kind.name) if isinstance(kind, Primitive) else None
    if widen is None:
        return None
    type_name, interval_of = widen
    if simple.operator in {Operator.IS_NULL, Operator.IS_NOT_NULL}:
        return Leaf(simple.column, type_name, null=simple.operator is Operator.IS_NULL)
    return interval_of(simple, type_name)


def _bounds(simple: Simple) -> list[Interval]:
    """Return the intervals that a condition stands for: one for every value of an IN, as far as they are few."""
    values: Sequence[Any] = simple.values
    match simple.operator:
        case Operator.LESS | Operator.LESS_OR_EQUAL:
            return [Interval(None, values[0], high_excluded=simple.operator is Operator.LESS)]
        case Operator.GREATER | Operator.GREATER_OR_EQUAL:
            return [Interval(values[0], None, low_excluded=simple.operator is Operator.GREATER)]
        case Operator.BETWEEN:
            return [Interval(values[0], values[1])]
        case _ if len(values) > _MOST_VALUES:
            return [Interval(min(values), max(values))]
        case _:
            return [Interval(value, value) for value in values]


def _integers(simple: Simple, type_name: str) -> Leaf | None:
    if not simple.values or not all(type(v) is int and -_LONG <= v < _LONG for v in simple.values):
        return None
    points = simple.operator in {Operator.EQUAL, Operator.NULL_SAFE_EQUAL, Operator.IN}
    if points and len(simple.values) <= _MOST_VALUES:
        return Leaf(simple.column, type_name, points=simple.values)
    return Leaf(simple.column, type_name, intervals=tuple(_bounds(simple)))


def _booleans(simple: Simple, type_name: str) -> Leaf | None:
    if simple.operator is not Operator.EQUAL or not isinstance(simple.values[0], bool):
        return None
    return Leaf(simple.column, type_name, points=simple.values)


def _strings(simple: Simple, type_name: str) -> Leaf | None:
    if not all(isinstance(v, str) for v in simple.values):
        return None
    values: list[str] = [str(v) for v in simple.values]
    points = simple.operator in {Operator.EQUAL, Operator.NULL_SAFE_EQUAL, Operator.IN}
    if points and 0 < len(values) <= _MOST_VALUES and all(v.isascii() for v in values):
        return Leaf(simple.column, type_name, points=tuple(values), or_null=True)
    intervals = [Interval(_ascii_below(b.low), _ascii_above(b.high)) for b in _bounds(simple)]
    return _with_intervals(simple, type_name, intervals, or_null=True)


def _ascii_below(value: str | None) -> str | None:
    """Return the ASCII beginning of a value: nothing from the value on is less."""
    return value and (re.match(r"[\x00-\x7f]*", value)[0] or None)  # type: ignore[index]


def _ascii_above(value: str | None) -> str | None:
    """Return a value itself if it is ASCII, else one that is greater than all with its ASCII beginning."""
    if value is None or value.isascii():
        return value
    start = (_ascii_below(value) or "").rstrip("\x7f")
    return start[:-1] + chr(ord(start[-1]) + 1) if start else None


def _dates(simple: Simple, type_name: str) -> Leaf | None:
    if not all(type(v) is date and _FIRST_DAY <= v <= _LAST_DAY for v in simple.values):
        return None
    return _with_intervals(simple, type_name, _widened(simple, timedelta(days=1)))


def _timestamps(simple: Simple, type_name: str) -> Leaf | None:
    if not all(isinstance(v, datetime) and _FIRST_TIME <= v <= _LAST_TIME for v in simple.values):
        return None
    return _with_intervals(simple, type_name, _widened(simple, timedelta(days=2)))


def _widened(simple: Simple, by: timedelta) -> list[Interval]:
    return [
        Interval(None if b.low is None else b.low - by, None if b.high is None else b.high + by)
        for b in _bounds(simple)
    ]


def _decimals(simple: Simple, type_name: str) -> Leaf | None:
    if not all(type(v) in {int, Decimal} for v in simple.values):
        return None
    return _with_intervals(simple, type_name, _bounds(simple))


def _doubles(simple: Simple, type_name: str) -> Leaf | None:
    numbers = all(isinstance(v, float) and math.isfinite(v) for v in simple.values)
    if not numbers or simple.operator in {Operator.GREATER, Operator.GREATER_OR_EQUAL}:
        return None
    intervals = [
        Interval(-0.0 if b.low == 0 else b.low, 0.0 if b.high == 0 else b.high, high_excluded=b.high_excluded)
        for b in _bounds(simple)
    ]
    return _with_intervals(simple, type_name, intervals)


def _with_intervals(
    simple: Simple, type_name: str, intervals: Sequence[Interval], *, or_null: bool = False
) -> Leaf | None:
    if not intervals or any(i.low is None and i.high is None for i in intervals):
        return None
    return Leaf(simple.column, type_name, intervals=tuple(intervals), or_null=or_null)


_WIDEN: dict[str, tuple[str, Callable[[Simple, str], Leaf | None]]] = {
    **dict.fromkeys(("tinyint", "smallint", "int", "bigint"), ("LONG", _integers)),
    **dict.fromkeys(("string", "varchar"), ("STRING", _strings)),
    **dict.fromkeys(("float", "double"), ("FLOAT", _doubles)),
    "boolean": ("BOOLEAN", _booleans),
    "date": ("DATE", _dates),
    "timestamp": ("TIMESTAMP", _timestamps),
    "decimal": ("DECIMAL", _decimals),
}
