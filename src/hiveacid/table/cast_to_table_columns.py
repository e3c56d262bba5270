"""Casts of incoming rows to a table's columns, its order and types, without loss: Arrow batches, texts, Python values.

Python values (dicts, Avro records, static partition values) are checked before they reach Arrow. Arrow itself cuts fractions
and times of day, drops unknown members of structs, and takes numbers and times without zone for moments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from types import NoneType
from typing import Any, TypeGuard, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import Column
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    LOCAL_TIMESTAMP,
    Array,
    Field,
    HiveType,
    Map,
    Primitive,
    Struct,
    parse_type,
)
from hiveacid.errors import SchemaMismatchError, did_you_mean, did_you_mean_any
from hiveacid.orc.stored_values import arrow_schema, arrow_type, without_offset
from hiveacid.orc.writing import single_batch

T = TypeVar("T", pa.Array, pc.Expression)
_TEXTS = frozenset({"string", "varchar", "char"})
_WIDEST = 76  # digits of Arrow's decimals

_FLOAT_END = 2.0**128 - 2.0**103  # from here on the nearest FLOAT is infinite
_EXPECTED = {
    **dict.fromkeys(INTEGER_TYPES, "a whole number"),
    "float": "within the range of FLOAT",
    "date": "a date without time: convert it before",
    "timestamp": "a datetime to the microsecond without time zone: convert it before",
    LOCAL_TIMESTAMP: "a datetime to the microsecond with a time zone: convert it before",
}
"""Requirements by type; Arrow itself checks the values of all other types."""
_ALWAYS_FIT: dict[str, set[type]] = {
    **{name: {int, NoneType} for name in INTEGER_TYPES},
    "date": {date, NoneType},
}
"""Python types whose values need no check of their own, which saves a call for each value."""


def cast_columns(data: pa.Table | pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    """Select the columns of a batch or table by name (compared without case) and cast them to their types.

    Raises SchemaMismatchError for missing, unknown or duplicate columns and for types that can never be cast, and
    Arrow's ArrowInvalid for a value that does not fit.
    """
    names = [name.lower() for name in data.schema.names]
    column_names = [column.name for column in columns]
    if sorted(names) != sorted(column_names):
        missing_names = [name for name in column_names if name not in names]
        extra = [name for name in names if name not in column_names or names.count(name) > 1]
        raise SchemaMismatchError(
            f"the records' columns are not the table's: missing {', '.join(missing_names) or 'none'}, "
            f"unknown or duplicate {', '.join(dict.fromkeys(extra)) or 'none'}{did_you_mean_any(extra, missing_names)}"
        )
    batch = single_batch(data) if isinstance(data, pa.Table) else data
    schema = arrow_schema(columns)
    arrays = []
    for field in schema:
        values = batch.column(names.index(field.name))
        require_castable(field.name, values.type, field.type)
        arrays.append(cast(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def require_castable(
    name: str, have: pa.DataType, want: pa.DataType, also: frozenset[tuple[str, str]] = frozenset()
) -> None:
    """Raise SchemaMismatchError for types, also nested ones, that can never be cast.

    Arrow would turn numbers into times, cut the time of day from times, and take a wall clock for one of UTC. ``name``: of
    the column. ``also``: pairs of families that are cast, too.
    """
    types = pa.types
    if types.is_dictionary(have):
        have = have.value_type
    families = family(have), family(want)
    if types.is_null(have) or families in also:
        return
    if families[0] != families[1]:
        raise SchemaMismatchError(f"column {name}: the records have {have} where the table needs {want}")
    if types.is_timestamp(want) and bool(have.tz) != bool(want.tz):
        raise SchemaMismatchError(
            f"column {name}: times {'with' if have.tz else 'without'} a zone don't fit where the table's are "
            f"{'with' if want.tz else 'without'} one: convert them before"
        )
    for inner, target in _inner_types(have, want):
        require_castable(name, inner, target, also)


def _inner_types(have: pa.DataType, want: pa.DataType) -> list[tuple[pa.DataType, pa.DataType]]:
    """Return the pairs of types directly inside two types of one family."""
    if pa.types.is_list(want):
        return [(have.value_type, want.value_type)]
    if pa.types.is_map(want):
        return [(have.key_type, want.key_type), (have.item_type, want.item_type)]
    if pa.types.is_struct(want):
        targets = {field.name: field.type for field in want}
        return [(field.type, targets[field.name.lower()]) for field in have if field.name.lower() in targets]
    return []


def family(target: pa.DataType) -> str:
    """Return the family of a type (number, text, bytes, list, …); types of one family are cast into one another."""
    types = pa.types
    if types.is_integer(target) or types.is_floating(target) or types.is_decimal(target):
        return "number"
    if types.is_string(target) or types.is_large_string(target) or types.is_string_view(target):
        return "text"
    if types.is_binary(target) or types.is_large_binary(target) or types.is_fixed_size_binary(target):
        return "bytes"
    if types.is_list(target) or types.is_large_list(target) or types.is_fixed_size_list(target):
        return "list"
    return str(target).partition("[")[0].partition("<")[0]


def parse_texts(texts: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    """Parse a batch of text columns into values; an empty text is NULL unless the column itself is a text.

    Days are ``2024-02-29``, times ``2024-02-29 12:00:00[.ffffff]``, binary is the text in UTF-8. Raises
    ArrowInvalid (a ValueError) for a text that is not a value of its column.
    """
    schema = arrow_schema(columns)
    arrays = []
    for values, field, column in zip(texts.columns, schema, columns, strict=True):
        hive = parse_type(column.type)
        if isinstance(hive, Primitive) and hive.name in _TEXTS:
            arrays.append(values)
            continue
        if pa.types.is_binary(field.type):
            arrays.append(values.cast(pa.binary()))
            continue
        filled = pc.if_else(pc.equal(values, ""), pa.scalar(None, pa.string()), values)
        arrays.append(cast(filled, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def cast(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast an array and its nested values without loss. Raises ArrowInvalid, SchemaMismatchError.

    The types are text, or those that `require_castable` allows. A time as text may have nine digits of a fraction if
    the last three are zeros, as Hive prints them. Values below a null struct or outside a slice are ignored.
    """
    types = pa.types
    if values.type == target:
        return values
    if types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if types.is_large_list(values.type) or types.is_fixed_size_list(values.type):  # Polars has large lists
        values = values.cast(pa.list_(values.type.value_type))
    have = values.type
    if types.is_list(have) and types.is_list(target):
        values = without_offset(values)
        return pa.ListArray.from_arrays(
            values.offsets, cast(values.values, target.value_type), target, mask=values.is_null()
        )
    if types.is_map(have) and types.is_map(target):
        values = without_offset(values)
        keys, items = cast(values.keys, target.key_type), cast(values.items, target.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, target, mask=values.is_null())
    if types.is_struct(have) and types.is_struct(target):
        return _cast_struct(values, target)
    if types.is_decimal(target):
        return _cast_to_decimal(values, target)
    if types.is_floating(target):
        return _cast_to_floating(values, target)
    if not types.is_timestamp(target):
        return _cast_to_integer(values, target) if types.is_integer(target) else values.cast(target)
    try:
        return values.cast(target)
    except pa.ArrowInvalid:
        if not types.is_string(have):
            raise
        return pc.replace_substring_regex(values, r"(\.\d{6})0{1,3}$", r"\1").cast(target)


def _cast_to_integer(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast numbers or texts to whole numbers. Raises ArrowInvalid for ``0x10``, which is 16 to Arrow and no number to Hive."""
    if family(values.type) == "text":
        hexadecimal = values.filter(pc.match_substring(values, "x", ignore_case=True))
        if len(hexadecimal):
            raise pa.ArrowInvalid(f"{hexadecimal[0].as_py()!r} is not a whole number")
    return values.cast(target)


def _cast_to_decimal(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast numbers or texts to decimals. Raises ArrowInvalid for FLOAT or DOUBLE that is not the nearest to its decimal."""
    if pa.types.is_integer(values.type):  # in one step Arrow asks for room for every number of the type
        return values.cast(pa.decimal256(_WIDEST, target.scale)).cast(target)
    done = values.cast(target)  # rounds FLOAT and DOUBLE to the scale
    if not pa.types.is_floating(values.type):
        return done
    lost = values.filter(pc.not_equal(nearest_floating(done, values.type), values))
    if len(lost):
        raise pa.ArrowInvalid(f"{lost[0].as_py()} would be rounded in {target}: round it before")
    return done


def _cast_to_floating(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Cast numbers or texts to the nearest FLOAT or DOUBLE. Raises ArrowInvalid for one beyond its range."""
    done = nearest_floating(values, target) if pa.types.is_decimal(values.type) else values.cast(target)
    infinite = pc.is_inf(done)
    if not pc.any(infinite).as_py():
        return done
    if pa.types.is_floating(values.type):
        infinite = pc.and_not(infinite, pc.is_inf(values))
    elif family(values.type) == "text":
        infinite = pc.and_not(infinite, pc.match_substring(values, "inf", ignore_case=True))
    beyond = values.filter(infinite)
    if len(beyond):
        raise pa.ArrowInvalid(f"{beyond[0].as_py()} is beyond the range of {target}")
    return done


def nearest_floating(decimals: T, target: pa.DataType) -> T:
    """Return the nearest FLOAT or DOUBLE of decimals, an array or an expression: Arrow's direct cast misses many by one bit."""
    return decimals.cast(pa.string()).cast(target)


def _cast_struct(values: pa.StructArray, target: pa.StructType) -> pa.StructArray:
    values = without_offset(values)
    names = [field.name.lower() for field in values.type]
    if sorted(names) != sorted(field.name for field in target):
        raise SchemaMismatchError(f"a struct of the records is {values.type}, the table's needs {target}")
    members = dict(zip(names, values.flatten(), strict=True))
    arrays = [cast(members[field.name], field.type) for field in target]
    return pa.StructArray.from_arrays(arrays, fields=list(target), mask=values.is_null())


def array_of_python_values(values: Sequence[object], hive: HiveType) -> pa.Array:
    """Convert Python values to an array of a Hive type; members of structs are matched without case.

    Raises ValueError, TypeError, OverflowError or an ArrowException for a value that does not fit.
    """
    name = hive.name if isinstance(hive, Primitive) else None
    # a check by the types of all values is much faster than one of each value
    if name is None or (name in _EXPECTED and not set(map(type, values)) <= _ALWAYS_FIT.get(name, set())):
        values = [_fitting(value, hive) for value in values]
    return pa.array(values, arrow_type(hive))


def _fitting(value: Any, hive: HiveType) -> object:
    """Return Arrow's input for a value. Raises ValueError for one that would lose something."""
    if value is None:
        return None
    match hive:
        case Array(element) if isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping):
            return [_fitting(item, element) for item in value]
        case Map(key, of):
            pairs = value.items() if isinstance(value, Mapping) else value
            return [(_fitting(name, key), _fitting(item, of)) for name, item in pairs]
        case Struct(fields):
            return _members(value, fields)
        case Primitive(name) if name not in _EXPECTED or _fits(value, name):
            return value
    expected = _EXPECTED[hive.name] if isinstance(hive, Primitive) else "a sequence"
    raise ValueError(f"{value!r} ({hive}) is not {expected}")


def _members(value: Any, fields: Sequence[Field]) -> dict[str, object]:
    """Return a struct's members by name. A tuple holds them in order, a list as pairs; a missing one is NULL."""
    types = {field.name: field.type for field in fields}
    if isinstance(value, tuple):
        if len(value) != len(types):
            raise ValueError(f"{value!r} has {len(value)} members instead of {len(types)}")
        value = zip(types, value, strict=True)
    given = value.items() if isinstance(value, Mapping) else value
    pairs = [(str(name).lower(), item) for name, item in given]
    members = dict(pairs)
    unknown = sorted(members.keys() - types.keys())
    if unknown:
        raise ValueError(f"unexpected field {unknown[0]}{did_you_mean(unknown[0], types)}")
    if len(members) < len(pairs):
        raise ValueError("a member of a struct is given twice (names are compared without case)")
    return {name: _fitting(members.get(name), of) for name, of in types.items()}


def _is_moment(value: object) -> TypeGuard[datetime]:
    return isinstance(value, datetime) and not getattr(value, "nanosecond", 0)  # of pandas, which Arrow cuts


def _fits(value: Any, name: str) -> bool:
    match name:
        case "date":
            return isinstance(value, date) and not isinstance(value, datetime)
        case "timestamp":
            return _is_moment(value) and value.tzinfo is None
        case "timestamp with local time zone":
            return _is_moment(value) and value.tzinfo is not None
        case "float":
            return not isinstance(value, float) or not isfinite(value) or abs(value) < _FLOAT_END
    try:
        return bool(int(value) == value)
    except (TypeError, ValueError, OverflowError):  # no number, or none that is finite
        return False
