"""Predicate leaves of a search argument: intervals of column values, wide enough that no row is lost.

An ORC reader compares a row group's statistics (and bloom filters) with a search argument. Its comparisons are
not Spark's, statistics come from many writers, and a row group skipped wrongly is lost silently. So:

- strings: ORC compares UTF-16 units where Spark compares bytes, and replaces what is not UTF-8. Only the ASCII
  prefix of a value is used. Presto, and Trino before 383, write no minimum for long values, and ORC takes such a row
  group as all NULL. Every string condition therefore also lets row groups with NULLs pass.
- char: padded in files of some writers, not in others. Not used.
- dates: a literal travels as an instant, a day off where time zones differ, and old files count in the Julian
  calendar before 1582. A day is added on both sides; values before 1600 are not used.
- timestamps: wall clocks in statistics, shifted by the zones of writer, reader and session. Two days are added.
- float, double: NaN is the greatest value for Spark and may be missing in statistics. Conditions that NaN fulfils
  (>, >=) are not used. 0.0 and -0.0 are equal for Spark, not for ORC: bounds at zero include both.
- decimal: as intervals, since bloom filters hold texts whose form depends on the writer.
- columns whose type changed: ORC ignores a condition where file and table disagree, except where the file's
  integers are narrower or varchar and string meet (``SchemaEvolution.validatePPDConversion``): safe as it is.
- columns named like those of the ACID root: ORC would compare the root's. Not used.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hiveacid.core.predicates import Comparison, Operator
from hiveacid.core.schema.types import INTEGER_TYPES, Primitive, parse_type

_ACID_ROOT_COLUMNS = {"operation", "originaltransaction", "bucket", "rowid", "currenttransaction", "row"}
_PLAIN_NAME = re.compile(r"[a-z_][a-z0-9_]*")  # ORC reads dots as nesting and digits as column ids
_MAX_VALUES = 200
_MAX_TEXT = 1000  # characters; ORC refuses a search argument of more than 10 MB, in older versions 100 KB
_LONG = 1 << 63
_FIRST_DAY, _LAST_DAY = date(1600, 1, 1), date(9990, 1, 1)
_FIRST_TIME, _LAST_TIME = (datetime(d.year, 1, 1, tzinfo=UTC) for d in (_FIRST_DAY, _LAST_DAY))


@dataclass(frozen=True)
class Interval:
    """Values from ``low`` to ``high`` (None: no bound); a bound is included unless it is marked as excluded."""

    low: Any
    high: Any
    low_excluded: bool = False
    high_excluded: bool = False


@dataclass(frozen=True)
class PredicateLeaf:
    """Condition on one column, as ORC's ``PredicateLeaf``.

    ``type``: a name of ``PredicateLeaf.Type``. Exactly one of three is set. ``points``: exact values. ``intervals``:
    one of them must contain the value. ``null``: the condition is IS NULL (True) or IS NOT NULL (False).
    ``or_null``: NULLs pass as well.
    """

    column: str
    type: str
    points: tuple[Any, ...] = ()
    intervals: tuple[Interval, ...] = ()
    null: bool | None = None
    or_null: bool = False


def is_safe_column_name(column: str) -> bool:
    """Tell whether ORC finds this column, and no other one, by its name."""
    return column not in _ACID_ROOT_COLUMNS and _PLAIN_NAME.fullmatch(column) is not None


def predicate_leaf(comparison: Comparison, hive: str) -> PredicateLeaf | None:
    """Return the predicate leaf of a comparison with a column of a Hive type; None if ORC must not skip by it."""
    kind = parse_type(hive)
    entry = _LEAF_BUILDERS.get(kind.name) if isinstance(kind, Primitive) else None
    if entry is None:
        return None
    type_name, build = entry
    if comparison.operator in {Operator.IS_NULL, Operator.IS_NOT_NULL}:
        return PredicateLeaf(comparison.column, type_name, null=comparison.operator is Operator.IS_NULL)
    return build(comparison, type_name)


def _intervals_of(comparison: Comparison) -> list[Interval]:
    """Return the intervals of a comparison: one for each value of an IN, or a single one if these are many."""
    values: Sequence[Any] = comparison.values
    match comparison.operator:
        case Operator.LESS | Operator.LESS_OR_EQUAL:
            return [Interval(None, values[0], high_excluded=comparison.operator is Operator.LESS)]
        case Operator.GREATER | Operator.GREATER_OR_EQUAL:
            return [Interval(values[0], None, low_excluded=comparison.operator is Operator.GREATER)]
        case Operator.BETWEEN:
            return [Interval(values[0], values[1])]
        case _ if len(values) > _MAX_VALUES:
            return [Interval(min(values), max(values))]
        case _:
            return [Interval(value, value) for value in values]


def _integer_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    if not comparison.values or not all(type(v) is int and -_LONG <= v < _LONG for v in comparison.values):
        return None
    points = comparison.operator in {Operator.EQUAL, Operator.NULL_SAFE_EQUAL, Operator.IN}
    if points and len(comparison.values) <= _MAX_VALUES:
        return PredicateLeaf(comparison.column, type_name, points=comparison.values)
    return PredicateLeaf(comparison.column, type_name, intervals=tuple(_intervals_of(comparison)))


def _boolean_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    if comparison.operator is not Operator.EQUAL or not isinstance(comparison.values[0], bool):
        return None
    return PredicateLeaf(comparison.column, type_name, points=comparison.values)


def _string_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    if not all(isinstance(v, str) for v in comparison.values):
        return None
    values: list[str] = [str(v) for v in comparison.values]
    points = comparison.operator in {Operator.EQUAL, Operator.NULL_SAFE_EQUAL, Operator.IN}
    if points and 0 < len(values) <= _MAX_VALUES and all(map(_is_short_ascii, values)):
        return PredicateLeaf(comparison.column, type_name, points=tuple(values), or_null=True)
    intervals = [
        Interval(_ascii_lower_bound(b.low), _ascii_upper_bound(b.high)) for b in _intervals_of(comparison)
    ]
    return _interval_leaf(comparison, type_name, intervals, or_null=True)


def _is_short_ascii(value: str) -> bool:
    return len(value) <= _MAX_TEXT and value.isascii()


def _ascii_lower_bound(value: str | None) -> str | None:
    """Return a short ASCII prefix of a value: no greater value sorts before it."""
    return value and (re.match(r"[\x00-\x7f]*", value[:_MAX_TEXT])[0] or None)  # type: ignore[index]


def _ascii_upper_bound(value: str | None) -> str | None:
    """Return the value if it is short and ASCII, else a string greater than all with its ASCII prefix."""
    if value is None or _is_short_ascii(value):
        return value
    start = (_ascii_lower_bound(value) or "").rstrip("\x7f")
    return start[:-1] + chr(ord(start[-1]) + 1) if start else None


def _date_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    if not all(type(v) is date and _FIRST_DAY <= v <= _LAST_DAY for v in comparison.values):
        return None
    return _interval_leaf(comparison, type_name, _widened_intervals(comparison, timedelta(days=1)))


def _timestamp_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    if not all(isinstance(v, datetime) and _FIRST_TIME <= v <= _LAST_TIME for v in comparison.values):
        return None
    return _interval_leaf(comparison, type_name, _widened_intervals(comparison, timedelta(days=2)))


def _widened_intervals(comparison: Comparison, by: timedelta) -> list[Interval]:
    return [
        Interval(None if b.low is None else b.low - by, None if b.high is None else b.high + by)
        for b in _intervals_of(comparison)
    ]


def _decimal_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    if not all(type(v) in {int, Decimal} for v in comparison.values):
        return None
    return _interval_leaf(comparison, type_name, _intervals_of(comparison))


def _double_leaf(comparison: Comparison, type_name: str) -> PredicateLeaf | None:
    numbers = all(isinstance(v, float) and math.isfinite(v) for v in comparison.values)
    if not numbers or comparison.operator in {Operator.GREATER, Operator.GREATER_OR_EQUAL}:
        return None
    intervals = [
        Interval(-0.0 if b.low == 0 else b.low, 0.0 if b.high == 0 else b.high, high_excluded=b.high_excluded)
        for b in _intervals_of(comparison)
    ]
    return _interval_leaf(comparison, type_name, intervals)


def _interval_leaf(
    comparison: Comparison, type_name: str, intervals: Sequence[Interval], *, or_null: bool = False
) -> PredicateLeaf | None:
    if not intervals or any(i.low is None and i.high is None for i in intervals):
        return None
    return PredicateLeaf(comparison.column, type_name, intervals=tuple(intervals), or_null=or_null)


_LEAF_BUILDERS: dict[str, tuple[str, Callable[[Comparison, str], PredicateLeaf | None]]] = {
    **dict.fromkeys(INTEGER_TYPES, ("LONG", _integer_leaf)),
    **dict.fromkeys(("string", "varchar"), ("STRING", _string_leaf)),
    **dict.fromkeys(("float", "double"), ("FLOAT", _double_leaf)),
    "boolean": ("BOOLEAN", _boolean_leaf),
    "date": ("DATE", _date_leaf),
    "timestamp": ("TIMESTAMP", _timestamp_leaf),
    "decimal": ("DECIMAL", _decimal_leaf),
}
