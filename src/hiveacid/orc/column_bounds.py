"""Bounds of a column's values from the statistics of a file or stripe, as wide as the statistics of all writers need.

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
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

from hiveacid.core.predicates import Bounds
from hiveacid.core.schema.types import INTEGER_BITS, HiveType, Primitive
from hiveacid.orc.column_statistics import ColumnStatistics

FIRST_GREGORIAN = date(1582, 10, 15)
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
            return (
                date.fromordinal(day) if FIRST_GREGORIAN.toordinal() <= day <= date.max.toordinal() else None
            )
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
