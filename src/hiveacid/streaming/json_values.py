"""JSON lines for Arrow: types to parse with, objects, and the values of tables with maps, which Python parses."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from math import isinf
from typing import Any

import pyarrow as pa

from hiveacid.core.schema.types import INTEGER_TYPES, Array, HiveType, Map, Primitive, Struct, nested_types
from hiveacid.errors import UnsupportedFeatureError

# Arrow's JSON parser crashes on a null outside an object, so such lines must not reach it.
_NULL_OUTSIDE_OBJECT = re.compile(rb"^[ \t\r]*[^\s{]|\}[ \t\r]*n", re.MULTILINE)


def require_objects(data: bytes) -> None:
    """Raise ValueError for a line that is null, or no object and followed by one, on which Arrow's parser crashes."""
    if not _NULL_OUTSIDE_OBJECT.search(data):
        return
    for line in data.split(b"\n"):
        if line.strip():
            parse_object(line)


def parse_object(line: bytes) -> dict[str, Any]:
    """Parse a line that holds one JSON object, with numbers as they are written. Raises ValueError."""
    value = json.loads(line, parse_float=Decimal)
    if not isinstance(value, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - bad data, not a wrong call
    return value


def json_type(of: Any) -> Any:
    """Return the type to parse with: times and binary values, which JSON does not have, are parsed as text.

    FLOAT is parsed as DOUBLE, because the cast refuses numbers beyond its range, and Arrow's parser does not.
    """
    if pa.types.is_temporal(of) or pa.types.is_binary(of):
        return pa.string()
    if pa.types.is_float32(of):
        return pa.float64()
    if pa.types.is_list(of):
        return pa.list_(json_type(of.value_type))
    if pa.types.is_map(of):
        return pa.map_(json_type(of.key_type), json_type(of.item_type))
    if pa.types.is_struct(of):
        return pa.struct([pa.field(target.name, json_type(target.type)) for target in of])
    return of


def require_text_keys(name: str, hive: HiveType) -> None:
    """Raise UnsupportedFeatureError for a column whose maps have other keys than texts."""
    for part in nested_types(hive):
        if isinstance(part, Map) and str(part.key) != "string":
            raise UnsupportedFeatureError(
                f"column {name}: keys of JSON objects are texts, not {part.key}: use Arrow or Python dicts"
            )


def json_value(value: Any, hive: HiveType) -> Any:
    """Convert a parsed JSON value to Arrow's input for a type. Raises ValueError."""
    if value is None:
        return None
    match hive:
        case Array(element) if isinstance(value, list):
            return [json_value(item, element) for item in value]
        case Map(_, of) if isinstance(value, dict):
            return [(name, json_value(item, of)) for name, item in value.items()]
        case Struct(fields) if isinstance(value, dict):
            unknown = value.keys() - {field.name for field in fields}
            if unknown:
                raise ValueError(f"unexpected field {min(unknown)}")
            return {field.name: json_value(value.get(field.name), field.type) for field in fields}
        case Primitive("float" | "double") if isinstance(value, int | float | Decimal):
            return _double(value)
        case Primitive(name) if name in INTEGER_TYPES and not isinstance(value, int):
            pass  # Arrow would cut its fraction
        case Primitive(name) if isinstance(value, bool) == (name == "boolean"):
            return value
    raise ValueError(f"{value!r} is no {hive}")


def _double(value: float | Decimal) -> float:
    number = float(value)
    if isinf(number) and value != number:
        raise ValueError(f"{value} is beyond the range of DOUBLE")
    return number
