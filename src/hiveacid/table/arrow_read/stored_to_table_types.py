"""Values that Arrow's C++ reader returns for ORC columns, converted to values of the table's types.

A file may store a column with the type that it had before an ALTER TABLE. This module says which of these types can be
read as which others without Spark, and converts them.

The C++ reader differs from the Java reader, and so from Hive, in four ways:

- It does not convert dates of the hybrid calendar. This module does.
- From a negative time with a fraction, Java subtracts a second before it converts the time to the reader's zone, C++
  afterwards. The results differ for some times near 1970, which this module corrects.
- Before 1900, Java takes a zone's standard offset of today, and C++ the offset that the zone had first. Until the zone's first
  change after 1900, they may differ, too. `orc_file` reads a column with such times by pyorc, as instants.
- It refuses times that do not fit 64 bits of nanoseconds. `orc_file` reads such a column by pyorc.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import cached_property, lru_cache
from zoneinfo import ZoneInfo

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.schema.evolution import is_widening
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    LOCAL_TIMESTAMP,
    Array,
    HiveType,
    Map,
    Primitive,
    Struct,
    has_primitive,
)
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.column_statistics import FIRST_GREGORIAN
from hiveacid.orc.stored_values import arrow_type, to_stored_values, without_offset

# even if file and table have the same type
_CONVERTED = frozenset({"date", "timestamp", LOCAL_TIMESTAMP, "char"})
_DAY_MICROS = 86_400_000_000
_SECOND = 1_000_000_000  # nanoseconds
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
YEAR_1900 = -25_567 * _DAY_MICROS
_CALENDAR_CYCLE = 146_097 * _DAY_MICROS  # 400 years, after which days and weekdays repeat
_FAR = 16 * _CALENDAR_CYCLE  # a time that Python's datetime still has in each zone, a cycle later too
_LARGE_FRACTION = 999_999  # nanoseconds; from a negative time with a larger fraction, Java subtracts a second


@dataclass(frozen=True)
class ValueRules:
    """Facts about the writer of a stripe on which the meaning of stored values depends.

    ``hybrid``: days before 1582-10-15 are Julian. ``zone``: returns the time zone of its timestamps ('' is UTC).
    """

    path: str
    hybrid: bool
    zone: Callable[[], str]

    @cached_property
    def time_zone(self) -> ZoneInfo:
        """Return the writer's zone. Raises UnsupportedFeatureError."""
        name = self.zone() or "UTC"
        try:
            return ZoneInfo(name)
        except (KeyError, ValueError, OSError) as error:
            raise UnsupportedFeatureError(f"{self.path}: unknown time zone {name!r} of its writer") from error

    @cached_property
    def offset(self) -> int:
        """Return the seconds that the writer's zone was ahead of UTC in 1970. Raises UnsupportedFeatureError."""
        offset = datetime(1970, 1, 1, tzinfo=UTC).astimezone(self.time_zone).utcoffset() or timedelta()
        return int(offset.total_seconds())

    def has_old_times(self, values: pa.Array) -> bool:
        """Tell whether timestamps that Arrow has read include some that Java may show otherwise."""
        low = None if pa.types.is_int64(values.type) else pc.min(values.cast(pa.int64())).as_py()
        if low is None or low >= 0:
            return False
        limit = _end_of_old_times(self.time_zone)
        return limit is not None and low < limit * 1000


def require_readable(where: str, column: str, stored_type: HiveType, table_type: HiveType) -> None:
    """Raise UnsupportedFeatureError, with the column's name, if `decode` cannot convert stored values to the table's type."""
    if not _is_readable(stored_type, table_type):
        raise UnsupportedFeatureError(
            f"{where}: column {column} is {table_type}, stored as {stored_type}, which can't be read without Spark: read it by "
            "acid.table, or leave it out by columns="
        )


def _is_readable(stored_type: HiveType, table_type: HiveType) -> bool:
    match stored_type, table_type:
        case Primitive(), Primitive():
            return is_widening(stored_type, table_type)
        case Array(element=stored), Array(element=wanted):
            return _is_readable(stored, wanted)
        case Map(key=stored_key, value=stored), Map(key=wanted_key, value=wanted):
            return _is_readable(stored_key, wanted_key) and _is_readable(stored, wanted)
        case Struct(fields=stored_fields), Struct(fields=wanted_fields):
            stored_types = {field.name.lower(): field.type for field in stored_fields}
            return all(_is_readable(stored_types.get(f.name, f.type), f.type) for f in wanted_fields)
    return False


def decode(values: pa.Array, stored_type: HiveType, table_type: HiveType, rules: ValueRules) -> pa.Array:
    """Convert an array of stored values of type ``stored_type`` to values of ``table_type``."""
    target = arrow_type(table_type)
    if stored_type == table_type and not has_primitive(table_type, _CONVERTED):
        return values if values.type == target else values.cast(target)
    match stored_type, table_type:
        case Array(element=stored), Array(element=item):
            values = without_offset(values)
            inner = decode(values.values, stored, item, rules)
            return pa.ListArray.from_arrays(values.offsets, inner, target, mask=values.is_null())
        case Map(key=stored_key, value=stored), Map(key=key, value=item):
            values = without_offset(values)
            keys, items = (
                decode(values.keys, stored_key, key, rules),
                decode(values.items, stored, item, rules),
            )
            return pa.MapArray.from_arrays(values.offsets, keys, items, target, mask=values.is_null())
        case Struct(), Struct():
            return _decode_struct(without_offset(values), stored_type, table_type, rules)
        case Primitive(), Primitive():
            return _decode_primitive(values, stored_type, table_type, rules)
    raise UnsupportedFeatureError(f"{rules.path}: {stored_type} can't be read as {table_type} without Spark")


def _decode_struct(
    values: pa.StructArray, stored_type: Struct, table_type: Struct, rules: ValueRules
) -> pa.StructArray:
    indexes = {field.name.lower(): index for index, field in enumerate(stored_type.fields)}
    members = []
    for field in table_type.fields:
        index = indexes.get(field.name)
        if index is None:
            members.append(pa.nulls(len(values), arrow_type(field.type)))
        else:
            members.append(decode(values.field(index), stored_type.fields[index].type, field.type, rules))
    return pa.StructArray.from_arrays(members, fields=list(arrow_type(table_type)), mask=values.is_null())


def _decode_primitive(
    values: pa.Array, stored_type: Primitive, table_type: Primitive, rules: ValueRules
) -> pa.Array:
    target = arrow_type(table_type)
    if stored_type.name == "char" != table_type.name:
        # ORC pads it; its Java reader converts it without the blanks
        values = pc.utf8_rtrim(values, " ")
    match table_type.name:
        case "date":
            return hybrid_days(values) if rules.hybrid else values
        case "timestamp":
            if rules.has_old_times(values):  # in a nested column
                raise UnsupportedFeatureError(
                    f"{rules.path}: old times of the zone {rules.zone()} inside arrays, maps and structs can't be read without Spark: "
                    "leave the column out by columns="
                )
            return _micros(_with_javas_seconds(values, rules.offset)).cast(target)
        case "timestamp with local time zone":
            return _micros(values).cast(target)
        case "char" | "varchar":
            cut = (
                table_type.name == "char"
                or stored_type.name == "string"
                or stored_type.args > table_type.args
            )
            return to_stored_values(values, table_type) if cut else values
        case "string" if stored_type.name in INTEGER_TYPES:
            return values.cast(target)
        case "double" if stored_type.name == "bigint":
            return values.cast(target, safe=False)  # rounded, as Java does
    return values if values.type == target else values.cast(target)


def _micros(values: pa.Array) -> pa.Int64Array:
    """Convert timestamps in nanoseconds to microseconds as int64, rounded down."""
    if pa.types.is_int64(values.type):  # microseconds, read by pyorc
        return values
    numbers = values.cast(pa.int64())
    low = pc.min(numbers).as_py()
    if low is None or low >= 0:
        return pc.divide(numbers, 1000)
    return (
        pc.floor_temporal(values, unit="microsecond")
        .cast(pa.timestamp("us", values.type.tz))
        .cast(pa.int64())
    )


def _with_javas_seconds(values: pa.Array, offset: int) -> pa.Array:
    """Correct times near 1970 by the second that C++ subtracts too late (see the module's docstring)."""
    if not offset or pa.types.is_int64(values.type):
        return values
    low, high, move = (0, offset, -_SECOND) if offset > 0 else (offset - 1, -1, _SECOND)
    numbers = values.cast(pa.int64())
    near = pc.and_(pc.greater_equal(numbers, low * _SECOND), pc.less(numbers, high * _SECOND))
    if not pc.any(near).as_py():
        return values
    array = numbers.fill_null(0).to_numpy(zero_copy_only=False)
    moved = np.where((array % _SECOND) > _LARGE_FRACTION, array + move, array)
    return pc.if_else(near, pa.array(moved, pa.int64()), numbers).cast(values.type)


@lru_cache
def _end_of_old_times(zone: tzinfo) -> int | None:
    """Return the wall clock, in microseconds, before which Java and C++ may differ in a zone's offset; None if they never do."""
    oldest = zone.utcoffset(datetime(1, 1, 2))  # noqa: DTZ001 - a wall clock
    for year in range(1901, 1971):
        if zone.utcoffset(datetime(year, 1, 1)) != oldest:  # noqa: DTZ001 - likewise
            return (datetime(year, 1, 2, tzinfo=UTC) - _EPOCH) // timedelta(microseconds=1)
    return None


def wall_clocks_of_java(instants: pa.Int64Array, zone: tzinfo) -> pa.Int64Array:
    """Convert instants, in microseconds, to the wall clocks of a zone by the rules of ``java.util.TimeZone``."""
    days = (datetime(2026, 1, 1) + timedelta(days) for days in range(0, 365, 10))  # noqa: DTZ001 - wall clocks
    standard = min(zone.utcoffset(day) or timedelta() for day in days)  # an hour less in Ramadan, too

    def shown(instant: int) -> int:
        near = instant if instant < _FAR else _FAR + (instant - _FAR) % _CALENDAR_CYCLE
        offset = standard
        if instant >= YEAR_1900:
            offset = (_EPOCH + timedelta(microseconds=near)).astimezone(zone).utcoffset() or timedelta()
        return instant + offset // timedelta(microseconds=1)

    return pa.array([None if value is None else shown(value) for value in instants.to_pylist()], pa.int64())


def hybrid_days(values: pa.Date32Array) -> pa.Date32Array:
    """Convert dates of the hybrid calendar to the proleptic Gregorian calendar: same year, month and day."""
    days = values.cast(pa.int32())
    low = pc.min(days).as_py()
    if low is None or low >= FIRST_GREGORIAN:
        return values
    array = days.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    moved = pa.array(
        np.where(array < FIRST_GREGORIAN, _julian_to_gregorian_days(array), array).astype(np.int32)
    )
    return pc.if_else(days.is_valid(), moved, pa.scalar(None, pa.int32())).cast(values.type)


def hybrid_micros(values: pa.Int64Array) -> pa.Int64Array:
    """Convert times in microseconds from the hybrid calendar to the proleptic Gregorian one."""
    array = values.fill_null(0).to_numpy(zero_copy_only=False)
    days = array // _DAY_MICROS
    moved = np.where(
        days < FIRST_GREGORIAN, array + (_julian_to_gregorian_days(days) - days) * _DAY_MICROS, array
    )
    return pc.if_else(values.is_valid(), pa.array(moved), pa.scalar(None, pa.int64()))


def _julian_to_gregorian_days(days: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Convert Julian days since the epoch to Gregorian ones that have the same year, month and day."""
    # Years begin in March, as in Richards' algorithm. 719470: days from 0000-03-01 (Julian) to 1970-01-01.
    shifted = days + 719_470
    year = (4 * shifted + 3) // 1461
    of_year = shifted - 365 * year - year // 4
    return 365 * year + year // 4 - year // 100 + year // 400 + of_year - 719_468
