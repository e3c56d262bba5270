"""Casts of Python values (dicts, Avro records, static partition values) to Arrow arrays, without loss.

Arrow itself cuts fractions and times of day, drops unknown members of structs, and takes numbers and times without
zone for moments. Values are therefore checked before they reach Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from math import isfinite
from types import NoneType
from typing import Any

import pyarrow as pa

from hiveacid.core.display import did_you_mean
from hiveacid.core.schema.types import (
    INTEGER_TYPES,
    LOCAL_TIMESTAMP,
    Array,
    Field,
    HiveType,
    Map,
    Primitive,
    Struct,
)
from hiveacid.orc.stored_values import arrow_type

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


def array_of_python_values(values: Sequence[object], hive: HiveType) -> Any:
    """Convert Python values to an array of a Hive type; members of structs are matched without case.

    Raises ValueError, TypeError, OverflowError or an ArrowException for a value that does not fit.
    """
    if not (isinstance(hive, Primitive) and _all_fit(values, hive.name)):
        values = [_fitting(value, hive) for value in values]
    return pa.array(values, arrow_type(hive))


def _all_fit(values: Sequence[object], name: str) -> bool:
    return name not in _EXPECTED or set(map(type, values)) <= _ALWAYS_FIT.get(name, set())


def _fitting(value: Any, hive: HiveType) -> Any:
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


def _members(value: Any, fields: Sequence[Field]) -> dict[str, Any]:
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


def _is_moment(value: Any) -> bool:
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
