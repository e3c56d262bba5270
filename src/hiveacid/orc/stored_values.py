"""Arrow types for Hive types, and values as Hive stores them: CHAR padded, CHAR and VARCHAR cut.

The rules are those of ``HiveChar`` and ``HiveVarchar``. Dates and timestamps stay as they are: Arrow counts by the
proleptic Gregorian calendar, as Hive 3.1 does. ``orc.writing`` marks the calendar in the footer for other readers.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import Column
from hiveacid.core.schema.types import (
    LOCAL_TIMESTAMP,
    Array,
    HiveType,
    Map,
    Primitive,
    Struct,
    has_primitive,
    parse_type,
)
from hiveacid.errors import UnsupportedFeatureError

_SECOND = 1_000_000  # microseconds
# Microseconds of 1582-10-15. Spark moves earlier times that its calendar does not have, such as 1582-10-10.
_GREGORIAN = -12_219_292_800_000_000
_GAP = (-141_437, -141_427)  # days of 1582-10-05 and 1582-10-15, between which that calendar has none
_FIRST_DAY = -719_162  # day of 0001-01-01
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
_BOUNDED_TEXTS = frozenset({"char", "varchar"})


def arrow_type(hive: HiveType) -> pa.DataType:
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
            return pa.struct([pa.field(field.name, arrow_type(field.type)) for field in fields])
    raise UnsupportedFeatureError(f"values of type {hive} can only be read and written through Spark")


def arrow_schema(columns: tuple[Column, ...]) -> pa.Schema:
    """Return the Arrow schema of a table's columns."""
    return pa.schema([pa.field(column.name, arrow_type(parse_type(column.type))) for column in columns])


def to_stored_values(values: pa.Array, hive: HiveType) -> pa.Array:
    """Return a column's values in the form that Hive stores."""
    if not has_primitive(hive, _BOUNDED_TEXTS):
        return values
    match hive:
        case Primitive("varchar", (length,)):
            return pc.utf8_slice_codeunits(values, 0, length)
        case Primitive("char", (length,)):
            short = pc.utf8_slice_codeunits(pc.utf8_rtrim(values, " "), 0, length)
            return pc.utf8_rpad(short, length, " ")
    return _stored_members(without_offset(values), hive)


def without_offset(values: pa.Array) -> pa.Array:
    """Return a copy of an array without offset and without members outside its slice."""
    return pa.concat_arrays([values, values.slice(0, 0)])


def _stored_members(values: pa.Array, hive: HiveType) -> pa.Array:
    """Convert the members of a nested array, which must have no offset (Arrow refuses masks with one)."""
    nulls = values.is_null()
    match hive:
        case Array(element):
            return pa.ListArray.from_arrays(
                values.offsets, to_stored_values(values.values, element), values.type, mask=nulls
            )
        case Map(key, value):
            return pa.MapArray.from_arrays(
                values.offsets, to_stored_values(values.keys, key), to_stored_values(values.items, value), values.type,
                mask=nulls,
            )  # fmt: skip
        case Struct(fields):
            members = [
                to_stored_values(values.field(index), field.type) for index, field in enumerate(fields)
            ]
            return pa.StructArray.from_arrays(members, fields=list(values.type), mask=nulls)
    return values


def is_beyond_arrow(values: pa.Array, hive: HiveType, *, in_slices: bool = False) -> bool:
    """Tell whether Arrow's ORC writer would store an array wrongly; ``in_slices``: or one of its slices."""
    return has_fractions_before_1970(values, hive) or _has_null_inner_struct(
        values, hive, None, in_slices=in_slices
    )


def _has_null_inner_struct(
    values: pa.Array, hive: HiveType, outer_nulls: int | None, *, in_slices: bool
) -> bool:
    """Tell whether a struct inside another one is NULL somewhere, while the outer one is never NULL (in some slice).

    Arrow's ORC writer (version 26) then shifts the values of the inner struct and fills the gaps with 0.
    ``outer_nulls``: how many values of the next outer struct are NULL; None: there is none.
    """
    match hive:
        case Array(element):
            return _has_null_inner_struct(values.values, element, outer_nulls, in_slices=in_slices)
        case Map(_, item):  # a key is primitive
            return _has_null_inner_struct(values.items, item, outer_nulls, in_slices=in_slices)
        case Struct(fields):
            nulls = values.null_count
            if nulls and (outer_nulls == 0 or (in_slices and outer_nulls is not None)):
                return True
            return any(
                _has_null_inner_struct(values.field(index), field.type, nulls, in_slices=in_slices)
                for index, field in enumerate(fields)
            )
    return False


def has_fractions_before_1970(values: pa.Array, hive: HiveType) -> bool:
    """Tell whether an array has timestamps before 1970 with a fraction of a second.

    Arrow's ORC writer stores a negative fraction for them, which Java's readers refuse.
    """
    match hive:
        case Primitive("timestamp") | Primitive("timestamp with local time zone"):
            micros = values.cast(pa.int64())
            whole = pc.multiply(pc.divide(micros, _SECOND), _SECOND)
            return bool(pc.any(pc.and_(pc.less(micros, 0), pc.not_equal(micros, whole))).as_py())
        case Primitive():
            return False
        case Array(element):
            return has_fractions_before_1970(values.values, element)
        case Map(key, value):
            return has_fractions_before_1970(values.keys, key) or has_fractions_before_1970(
                values.items, value
            )
        case Struct(fields):
            return any(
                has_fractions_before_1970(values.field(index), field.type)
                for index, field in enumerate(fields)
            )
    return False


def require_storable(column: Column, values: pa.ChunkedArray) -> None:
    """Check that Arrow writes the values of a column, a chunked array, as a job would.

    Raises UnsupportedFeatureError for times that Spark may move or Arrow stores wrongly; ArrowException for texts whose
    bytes Arrow cannot cut.
    """
    kind = parse_type(column.type)
    for chunk in values.chunks:
        to_stored_values(chunk, kind)  # only for its errors
        if is_beyond_arrow(chunk, kind, in_slices=True):
            raise UnsupportedFeatureError(f"{column.name} has values that Arrow's ORC writer stores wrongly")
    if pa.types.is_timestamp(values.type) and (pc.min(values.cast(pa.int64())).as_py() or 0) < _GREGORIAN:
        raise UnsupportedFeatureError(f"{column.name} has a time before 1582-10-15")
    if pa.types.is_date32(values.type):
        days = values.cast(pa.int32())
        in_gap = pc.and_(pc.greater_equal(days, _GAP[0]), pc.less(days, _GAP[1]))
        if pc.any(pc.or_(in_gap, pc.less(days, _FIRST_DAY))).as_py():
            raise UnsupportedFeatureError(f"{column.name} has a day that Spark stores as another one")
