"""Arrow values as Java's ORC readers, Hive's among them, want to find them in a file.

- Days and times before 1582-10-15 are counted by the hybrid calendar (Julian before that day), which is what a
  file without a mark means to every Java reader, Hive 3.1's too; Arrow counts by the proleptic Gregorian one.
  A day keeps its label; the ten days that the hybrid calendar skips move on by ten (as in Hive 4).
- CHAR is padded with blanks, CHAR and VARCHAR are cut to their lengths (``HiveChar``, ``HiveVarchar``).
"""

from __future__ import annotations

from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import Column
from hiveacid.core.types import LOCAL_TIMESTAMP, Array, HiveType, Map, Primitive, Struct, parse_type
from hiveacid.errors import UnsupportedFeatureError

_EPOCH = date(1970, 1, 1)
_CUTOVER = (date(1582, 10, 15) - _EPOCH).days
_CENTURIES = (100, 200, 300, 500, 600, 700, 900, 1000, 1100, 1300, 1400, 1500)  # leap years of Julius only
_THRESHOLDS = tuple((date(year, 3, 1) - _EPOCH).days for year in _CENTURIES)
_FIRST_SHIFT = -2  # days, of the years before the first of them
_DAY, _SECOND = 86_400_000_000, 1_000_000  # microseconds
_TYPES = {
    "boolean": pa.bool_(),
    "tinyint": pa.int8(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "varchar": pa.string(),
    "char": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us"),
    LOCAL_TIMESTAMP: pa.timestamp("us", "UTC"),
}
_TOUCHED = frozenset({"char", "varchar", "date", "timestamp", LOCAL_TIMESTAMP})


def arrow_type(hive: HiveType) -> Any:
    """Return the Arrow type that holds every value of a Hive type (times to the microsecond).

    Raises UnsupportedFeatureError for union types.
    """
    match hive:
        case Primitive("decimal", (precision, scale)):
            return pa.decimal128(precision, scale)
        case Primitive(name):
            return _TYPES[name]
        case Array(element):
            return pa.list_(arrow_type(element))
        case Map(key, value):
            return pa.map_(arrow_type(key), arrow_type(value))
        case Struct(fields):
            return pa.struct([pa.field(one.name, arrow_type(one.type)) for one in fields])
    raise UnsupportedFeatureError(f"values of {hive} can't be written without Spark")


def arrow_schema(columns: tuple[Column, ...]) -> Any:
    """Return the Arrow schema of a table's columns."""
    return pa.schema([pa.field(one.name, arrow_type(parse_type(one.type))) for one in columns])


def as_stored(values: Any, hive: HiveType) -> Any:
    """Return an array of a column's values as a file has to hold them."""
    if not _touched(hive):
        return values
    match hive:
        case Primitive("varchar", (length,)):
            return pc.utf8_slice_codeunits(values, 0, length)
        case Primitive("char", (length,)):
            short = pc.utf8_slice_codeunits(pc.utf8_rtrim(values, " "), 0, length)
            return pc.utf8_rpad(short, length, " ")
        case Primitive("date"):
            return _hybrid_days(values.cast(pa.int32())).cast(values.type)
        case Primitive():
            return _hybrid_times(values.cast(pa.int64())).cast(values.type)
    return _nested(compact(values), hive)


def compact(values: Any) -> Any:
    """Return an array that holds nothing else: no offset, no members that only its neighbours in a slice have."""
    return pa.concat_arrays([values, values.slice(0, 0)])


def _touched(hive: HiveType) -> bool:
    match hive:
        case Primitive(name):
            return name in _TOUCHED
        case Array(element):
            return _touched(element)
        case Map(key, value):
            return _touched(key) or _touched(value)
        case Struct(fields):
            return any(_touched(one.type) for one in fields)
    return False


def _nested(values: Any, hive: HiveType) -> Any:
    """Do it for the members of an array without an offset (masks can't have one)."""
    nulls = values.is_null()
    match hive:
        case Array(element):
            return pa.ListArray.from_arrays(
                values.offsets, as_stored(values.values, element), values.type, mask=nulls
            )
        case Map(key, value):
            return pa.MapArray.from_arrays(
                values.offsets, as_stored(values.keys, key), as_stored(values.items, value), values.type,
                mask=nulls,
            )  # fmt: skip
        case Struct(fields):
            members = [as_stored(values.field(at), one.type) for at, one in enumerate(fields)]
            return pa.StructArray.from_arrays(members, fields=list(values.type), mask=nulls)
    return values


def _hybrid_days(days: Any) -> Any:
    lowest = pc.min(days).as_py()
    if lowest is None or lowest >= _CUTOVER:
        return days
    return pc.if_else(pc.less(days, _CUTOVER), pc.add(days, _shift(days)), days)


def _hybrid_times(micros: Any) -> Any:
    lowest = pc.min(micros).as_py()
    if lowest is None or lowest >= _CUTOVER * _DAY:
        return micros
    # floored: Arrow's division goes towards zero, and all of these are negative
    days = pc.divide(pc.subtract(micros, _DAY - 1), _DAY)
    moved = pc.add(micros, pc.multiply(_shift(days), _DAY))
    return pc.if_else(pc.less(micros, _CUTOVER * _DAY), moved, micros)


def _shift(days: Any) -> Any:
    """Return by how many days the number of a day moves: one more with each century that both count differently."""
    shift = pa.repeat(pa.scalar(_FIRST_SHIFT, days.type), len(days))
    for threshold in _THRESHOLDS:
        shift = pc.add(shift, pc.greater_equal(days, threshold).cast(days.type))
    return shift


def has_early_fractions(values: Any, hive: HiveType) -> bool:
    """Tell whether there are times before 1970 with a fraction of a second.

    Arrow's ORC writer stores a negative fraction, which Java's readers refuse.
    """
    match hive:
        case Primitive("timestamp") | Primitive("timestamp with local time zone"):
            micros = values.cast(pa.int64())
            whole = pc.multiply(pc.divide(micros, _SECOND), _SECOND)
            found = pc.any(pc.and_(pc.less(micros, 0), pc.not_equal(micros, whole))).as_py()
            return bool(found)
        case Primitive():
            return False
        case Array(element):
            return has_early_fractions(values.values, element)
        case Map(key, value):
            return has_early_fractions(values.keys, key) or has_early_fractions(values.items, value)
        case Struct(fields):
            return any(has_early_fractions(values.field(at), one.type) for at, one in enumerate(fields))
    return False
