"""Columns of results: conversion of Spark's types to the interface's, and of Arrow arrays to ``TColumn``.

Spark casts types that the interface transports as texts (dates, timestamps, decimals, JSON of nested types), so that
only nine types of Arrow are left. Arrow's own functions build the bytes; no value becomes a Python object.
"""

from __future__ import annotations

import array
import re
import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.serve import hs2_structs

_DECIMAL = re.compile(r"decimal\((\d+),(\d+)\)")
_STRING = 7
_JSON, _TEXT, _DOUBLE_BY_TEXT = "json", "text", "double"
_FIELD = struct.Struct(">bh")
_ITEMS = struct.Struct(">bi")


_TYPES: Mapping[str, tuple[int, Any, str | None]] = MappingProxyType(
    {
        "boolean": (0, pa.bool_(), None),
        "tinyint": (1, pa.int8(), None),
        "smallint": (2, pa.int16(), None),
        "int": (3, pa.int32(), None),
        "bigint": (4, pa.int64(), None),
        "float": (5, pa.float64(), _DOUBLE_BY_TEXT),  # as Hive: 1.1 stays 1.1
        "double": (6, pa.float64(), None),
        "string": (_STRING, pa.string(), None),
        "timestamp": (8, pa.string(), _TEXT),
        "timestamp_ntz": (8, pa.string(), _TEXT),
        "binary": (9, pa.binary(), None),
        "array": (10, pa.string(), _JSON),
        "map": (11, pa.string(), _JSON),
        "struct": (12, pa.string(), _JSON),
        "decimal": (15, pa.string(), _TEXT),
        "void": (16, pa.string(), _TEXT),
        "date": (17, pa.string(), _TEXT),
    }
)
"""By Spark's types: ``TTypeId``, Arrow type and conversion."""


@dataclass(frozen=True)
class ResultColumn:
    """A column of a result: name, ``TTypeId``, Arrow type, and the conversion that Spark makes (None: none)."""

    name: str
    type_id: int
    arrow: Any
    conversion: str | None = None
    qualifiers: tuple[tuple[str, int], ...] = ()


def result_column(name: str, spark_type: str) -> ResultColumn:
    """Return the column of a result; ``spark_type``: Spark's ``simpleString``. Types without a number become texts."""
    kind = re.split(r"[<( ]", spark_type, maxsplit=1)[0].lower()
    number, arrow, conversion = _TYPES.get(kind, (_STRING, pa.string(), _TEXT))
    decimal = _DECIMAL.fullmatch(spark_type)
    qualifiers = (("precision", int(decimal[1])), ("scale", int(decimal[2]))) if decimal else ()
    return ResultColumn(name, number, arrow, conversion, qualifiers)


def table_schema(columns: Sequence[ResultColumn]) -> Any:
    """Return the description of a result's columns."""
    return hs2_structs.TTableSchema(
        columns=[_description(column, number) for number, column in enumerate(columns, 1)]
    )


def _description(column: ResultColumn, position: int) -> Any:
    values = {name: hs2_structs.TTypeQualifierValue(i32Value=value) for name, value in column.qualifiers}
    qualifiers = hs2_structs.TTypeQualifiers(qualifiers=values) if values else None
    entry = hs2_structs.TPrimitiveTypeEntry(type=column.type_id, typeQualifiers=qualifiers)
    described = hs2_structs.TTypeDesc(types=[hs2_structs.TTypeEntry(primitiveEntry=entry)])
    return hs2_structs.TColumnDesc(columnName=column.name, typeDesc=described, position=position, comment="")


def encode_column(values: Any) -> bytes:
    """Return an Arrow array as an encoded ``TColumn``."""
    number, item, data = _items(values)
    items = _FIELD.pack(15, 1) + _ITEMS.pack(item, len(values)) + data
    nulls = _null_bits(values)
    body = items + _FIELD.pack(11, 2) + struct.pack(">i", len(nulls)) + nulls + b"\0"
    return _FIELD.pack(12, number) + body + b"\0"


def _items(values: Any) -> tuple[int, int, bytes]:
    """Return the field number in the union ``TColumn``, Thrift's type code of the items, and the bytes of the items."""
    kind = values.type
    if pa.types.is_string(kind) or pa.types.is_binary(kind):
        return (7, 11, _texts(_valid(values))) if pa.types.is_string(kind) else (8, 11, _texts(values))
    if pa.types.is_boolean(kind):
        return 1, 2, _numbers(values.cast(pa.int8()), "b")
    codes = {pa.int8(): (2, 3, "b"), pa.int16(): (3, 6, "h"), pa.int32(): (4, 8, "i")}
    codes |= {pa.int64(): (5, 10, "q"), pa.float64(): (6, 4, "d")}
    number, item, code = codes[kind]
    return number, item, _numbers(values, code)


def _numbers(values: Any, code: str) -> bytes:
    """Return numbers in the byte order of the network; NULL is 0."""
    filled = pc.fill_null(values, pa.scalar(0, values.type))
    numbers = array.array(code)
    size = numbers.itemsize
    buffer = filled.buffers()[1]
    if buffer is not None:
        numbers.frombytes(memoryview(buffer)[filled.offset * size : (filled.offset + len(filled)) * size])
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers.tobytes()


def _valid(values: Any) -> Any:
    """Replace what is not UTF-8, as HiveServer2 does: Spark's texts can hold any bytes, and a driver could read no row."""
    try:
        values.validate(full=True)
    except pa.ArrowInvalid:
        texts = values.cast(pa.binary()).to_pylist()
        return pa.array([None if text is None else text.decode(errors="replace") for text in texts])
    return values


def _texts(values: Any) -> bytes:
    """Return texts or bytes, each behind its length; NULL is empty."""
    if not len(values):
        return b""
    filled = pc.fill_null(values.cast(pa.binary()), b"")
    lengths = pa.py_buffer(_numbers(pc.binary_length(filled), "i"))
    prefixes = pa.Array.from_buffers(pa.binary(4), len(filled), [None, lengths]).cast(pa.binary())
    joined = pc.binary_join_element_wise(prefixes, filled, b"")
    offsets = memoryview(joined.buffers()[1]).cast("i")
    first, last = offsets[joined.offset], offsets[joined.offset + len(joined)]
    return bytes(memoryview(joined.buffers()[2])[first:last])


def _null_bits(values: Any) -> bytes:
    """Return a bit for each row, the lowest first, set for NULL; one byte of zeros if no row is NULL."""
    if not values.null_count:
        return b"\0"
    bits = pa.concat_arrays([pc.is_null(values)])  # a copy begins at the first bit
    return bytes(memoryview(bits.buffers()[1])[: (len(bits) + 7) // 8])
