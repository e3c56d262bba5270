"""Assignment casts that match struct fields by name, as in Spark, for Python's operations, UPDATE and MERGE."""

from __future__ import annotations

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column
from hiveacid.core.schema.types import Array, HiveType, Map, Struct, parse_type
from hiveacid.spark.formats.types import store_cast


def assignment_cast(value: SparkColumn, have: T.DataType, column: Column) -> SparkColumn:
    """Return a value cast to a column's type (`store_cast`), with struct fields matched by name at any depth.

    Fields are matched by name only if both structs have the same names. Other structs (``struct(1, 2)`` has ``col1,
    col2``) are matched by position.
    """
    want = parse_type(column.type)
    ordered = _reordered_type(have, want)
    if ordered != have:
        value = _reordered_value(value, have, want)
    return store_cast(value, ordered, want, column.name)


def _field_pairs(have: T.StructType, want: Struct) -> list[tuple[T.StructField, HiveType]]:
    names = {field.name.lower(): field for field in have.fields}
    if len(names) == len(have.fields) and sorted(names) == sorted(f.name.lower() for f in want.fields):
        return [(names[field.name.lower()], field.type) for field in want.fields]
    return [(field, wanted.type) for field, wanted in zip(have.fields, want.fields, strict=False)]


def _reordered_type(have: T.DataType, want: HiveType) -> T.DataType:
    match have, want:
        case T.ArrayType(), Array(element=element):
            return T.ArrayType(_reordered_type(have.elementType, element), have.containsNull)
        case T.MapType(), Map(key=key, value=value):
            inner = _reordered_type(have.keyType, key), _reordered_type(have.valueType, value)
            return T.MapType(*inner, have.valueContainsNull)
        case T.StructType(), Struct() if len(have.fields) == len(want.fields):
            return T.StructType(
                [
                    T.StructField(
                        field.name, _reordered_type(field.dataType, wanted), field.nullable, field.metadata
                    )
                    for field, wanted in _field_pairs(have, want)
                ]
            )
    return have


def _reordered_value(value: SparkColumn, have: T.DataType, want: HiveType) -> SparkColumn:
    match have, want:
        case T.ArrayType(), Array(element=element):
            return F.transform(value, lambda item: _reordered_value(item, have.elementType, element))
        case T.MapType(), Map(key=key, value=item):
            values = F.transform_values(value, lambda _, v: _reordered_value(v, have.valueType, item))
            return F.transform_keys(values, lambda k, _: _reordered_value(k, have.keyType, key))
        case T.StructType(), Struct() if len(have.fields) == len(want.fields):
            fields = [
                _reordered_value(value.getField(field.name), field.dataType, wanted).alias(field.name)
                for field, wanted in _field_pairs(have, want)
            ]
            return F.when(value.isNotNull(), F.struct(*fields))
    return value
