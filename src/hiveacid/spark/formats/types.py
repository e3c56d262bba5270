"""Spark types of Hive types, and strict casts of values to the types of columns."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from pyspark.sql import Column as SparkColumn
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.acid_columns import ROW_ID_PARTS
from hiveacid.core.model import Column
from hiveacid.core.schema.types import (
    Array,
    Field,
    HiveType,
    Map,
    Primitive,
    Struct,
    has_primitive,
    parse_type,
)
from hiveacid.errors import SchemaMismatchError, UnsupportedFeatureError
from hiveacid.spark.formats.expressions import Expression, as_column, cast, when

WantedField = TypeVar("WantedField", Field, T.StructField)

_PRIMITIVES: dict[str, T.DataType] = {
    "boolean": T.BooleanType(),
    "tinyint": T.ByteType(),
    "smallint": T.ShortType(),
    "int": T.IntegerType(),
    "bigint": T.LongType(),
    "float": T.FloatType(),
    "double": T.DoubleType(),
    "string": T.StringType(),
    "varchar": T.StringType(),
    "char": T.StringType(),
    "binary": T.BinaryType(),
    "date": T.DateType(),
    "timestamp": T.TimestampType(),
    "timestamp with local time zone": T.TimestampType(),
}
_HIVE_NAMES: dict[type[T.DataType], str] = {
    T.BooleanType: "boolean",
    T.ByteType: "tinyint",
    T.ShortType: "smallint",
    T.IntegerType: "int",
    T.LongType: "bigint",
    T.FloatType: "float",
    T.DoubleType: "double",
    T.StringType: "string",
    T.BinaryType: "binary",
    T.DateType: "date",
    T.TimestampType: "timestamp",
    T.TimestampNTZType: "timestamp",
}
ROW_ID_TYPE = T.StructType([*map(T.StructField, ROW_ID_PARTS, (T.LongType(), T.IntegerType(), T.LongType()))])
"""Type of ``ROW__ID``."""
_BINARY = "UTF8_BINARY"  # Spark's collation of a STRING without one
_BOUNDED_TEXTS = ("char", "varchar")
_PLAIN_NAME = re.compile(r"\w+", re.ASCII)
_NUMERIC = (T.ByteType, T.ShortType, T.IntegerType, T.LongType, T.FloatType, T.DoubleType, T.DecimalType)


def spark_type(hive: HiveType) -> T.DataType:
    """Return the Spark type that holds a Hive type's values (char and varchar as string, every field nullable).

    Raises UnsupportedFeatureError for types without a Spark type (interval, uniontype).
    """
    match hive:
        case Primitive(name="decimal", args=args):
            precision, scale = (*args, *(10, 0)[len(args) :])
            return T.DecimalType(precision, scale)
        case Primitive(name=name) if name in _PRIMITIVES:
            return _PRIMITIVES[name]
        case Array(element=element):
            return T.ArrayType(spark_type(element))
        case Map(key=key, value=value):
            return T.MapType(spark_type(key), spark_type(value))
        case Struct(fields=fields):
            return T.StructType([T.StructField(f.name, spark_type(f.type)) for f in fields])
        case _:
            raise UnsupportedFeatureError(f"type {hive} cannot be stored: Spark has no such type")


def column_type(column: Column) -> T.DataType:
    """Return the Spark type of a catalog column."""
    return spark_type(parse_type(column.type))


def hive_type_name(spark: T.DataType, column: str, *, stored: bool = True) -> str:
    """Return the Hive type text of a Spark type (for CREATE TABLE AS SELECT).

    ``stored``: values will be stored, so that a collation would be lost. Raises UnsupportedFeatureError, with the column, for
    types that Hive does not have.
    """
    match spark:
        case T.StringType() if stored and getattr(spark, "collation", _BINARY) != _BINARY:
            raise UnsupportedFeatureError(
                f"column {column}: a table keeps no collation ({spark.simpleString()}), and comparisons of the stored texts "
                "would find other rows: cast it, CAST(… AS STRING)"
            )
        case T.DecimalType():
            return f"decimal({spark.precision},{spark.scale})"
        case T.VarcharType():
            return f"varchar({spark.length})"
        case T.CharType():
            return f"char({spark.length})"
        case T.ArrayType():
            return f"array<{hive_type_name(spark.elementType, column, stored=stored)}>"
        case T.MapType():
            key, value = (
                hive_type_name(kind, column, stored=stored) for kind in (spark.keyType, spark.valueType)
            )
            return f"map<{key},{value}>"
        case T.StructType():
            inner = ",".join(
                f"{f.name.lower()}:{hive_type_name(f.dataType, column, stored=stored)}" for f in spark.fields
            )
            return f"struct<{inner}>"
        case T.NullType():
            raise SchemaMismatchError(f"column {column} has no type (only NULLs): cast it")
    for kind, name in _HIVE_NAMES.items():
        if isinstance(spark, kind):
            return name
    raise UnsupportedFeatureError(f"column {column}: type {spark.simpleString()} cannot be stored in Hive")


def assignment_cast(value: Expression, have: T.DataType, column: Column) -> Expression:
    """Cast a value to a column as the Python API, UPDATE and MERGE do: fields of structs are matched by name."""
    return store_cast(value, have, parse_type(column.type), column.name, by_name=True)


def store_cast(
    value: Expression, have: T.DataType, want: HiveType, column: str, *, by_name: bool = False
) -> Expression:
    """Cast ``value`` (a text is the name of a column) strictly to the type of a column: a value that does not fit fails the statement.

    The cast never wraps around or returns NULL instead, with or without ``spark.sql.ansi.enabled``. Strings are cast to
    any atomic type (as in Hive), but must be well-formed. char and varchar are cut as in Hive; char has no trailing
    blanks beyond its padding. ``by_name``: fields of structs are matched by name, at any depth. Fields whose names are all
    others are matched by position, and so are ``struct(1, x)`` (its fields are ``col1, x``) if no name has moved. Raises
    SchemaMismatchError if no cast between the types exists, or if only some of the names agree.
    """
    target = spark_type(want)
    if not _is_castable(have, target, by_name=by_name):
        names = (
            ", or give the fields of the struct the names of the column's" if "struct<" in str(want) else ""
        )
        raise SchemaMismatchError(
            f"column {column} is {want}, but the value is {have.simpleString()}: cast it explicitly{names}"
        )
    if have != target and not isinstance(have, T.NullType):
        value = _strict_cast(value, have, target, want, column, by_name=by_name)
    elif isinstance(have, T.NullType):
        value = cast(value, target)
    return cut_to_length(as_column(value), want) if has_primitive(want, _BOUNDED_TEXTS) else value


def cut_to_length(value: SparkColumn, want: HiveType) -> SparkColumn:
    """Return a value whose char and varchar texts are cut to the lengths of ``want``, at any depth; char is padded."""

    def cut(text: SparkColumn, kind: Primitive) -> SparkColumn:
        whole = F.substring(text, 1, kind.args[0])
        return F.rpad(whole, kind.args[0], " ") if kind.name == "char" else whole

    return convert_primitives(value, want, _BOUNDED_TEXTS, cut)


def convert_primitives(
    value: SparkColumn,
    kind: HiveType,
    names: Collection[str],
    convert: Callable[[SparkColumn, Primitive], SparkColumn],
) -> SparkColumn:
    """Return a value whose parts of the primitive types ``names``, at any depth, are converted."""
    if not has_primitive(kind, names):
        return value
    match kind:
        case Primitive():
            return convert(value, kind)
        case Array(element=element):
            return F.transform(value, lambda item: convert_primitives(item, element, names, convert))
        case Struct(fields=fields):
            inner = [convert_primitives(value.getField(f.name), f.type, names, convert) for f in fields]
            named = [part.alias(f.name) for part, f in zip(inner, fields, strict=True)]
            return F.when(value.isNotNull(), F.struct(*named))
        case Map(key=key, value=item):
            if has_primitive(item, names):
                value = F.transform_values(value, lambda _, v: convert_primitives(v, item, names, convert))
            if has_primitive(key, names):
                value = F.transform_keys(value, lambda k, _: convert_primitives(k, key, names, convert))
    return value


def _field_pairs(
    have: Sequence[T.StructField], want: Sequence[WantedField], *, by_name: bool
) -> list[tuple[T.StructField, WantedField]] | None:
    """Return the fields of two structs that belong together; None if neither names nor positions tell."""
    if len(have) != len(want):
        return None
    given, wanted = ([field.name.lower() for field in fields] for fields in (have, want))
    fields = dict(zip(given, have, strict=True))
    if by_name and len(fields) == len(have) and sorted(given) == sorted(wanted):
        return [(fields[name], field) for name, field in zip(wanted, want, strict=True)]
    # Spark names an expression without a name after its position.
    moved = any(
        name not in (target, f"col{number}")
        for number, (name, target) in enumerate(zip(given, wanted, strict=True), 1)
    )
    if by_name and moved and not set(given).isdisjoint(wanted):
        return None
    return list(zip(have, want, strict=True))


def _strict_cast(
    value: Expression, have: T.DataType, target: T.DataType, want: HiveType, column: str, *, by_name: bool
) -> Expression:
    if isinstance(target, T.StringType) or _never_fails(have, target):
        return cast(value, target)
    if isinstance(target, (T.StructType, T.ArrayType, T.MapType)):
        return _strict_nested(as_column(value), have, want, column, by_name=by_name)
    if isinstance(value, str) and hasattr(SparkColumn, "try_cast") and _PLAIN_NAME.fullmatch(column):
        text = f"chr(39), CAST({value} AS STRING), chr(39)"  # a setting changes how a quote in a literal is written
        error = f"raise_error(concat('{DATA_ERROR}column {column}: value ', {text}, ' does not fit {want}'))"
        checked = f"coalesce(TRY_{cast(value, target)}, {cast(error, target)})"
        return when(f"{value} IS NULL", cast("NULL", target), checked)
    value = as_column(value)
    message = F.concat(
        F.lit(f"{DATA_ERROR}column {column}: value '"), value.cast("string"), F.lit(f"' does not fit {want}")
    )
    tried = _try_cast(value, have, target)
    return F.when(value.isNull(), F.lit(None).cast(target)).otherwise(
        F.coalesce(tried, F.raise_error(message).cast(target))
    )


def _try_cast(value: SparkColumn, have: T.DataType, target: T.DataType) -> SparkColumn:
    # Column.try_cast exists since Spark 4, and ``try_cast`` as SQL text cannot take a Column. In Spark 3.5 a value is
    # therefore cast to the target and back: if the result differs, the value does not fit.
    if hasattr(type(value), "try_cast"):
        return value.try_cast(target)
    there = value.cast(target)
    if isinstance(have, _NUMERIC) and isinstance(target, _NUMERIC):
        if isinstance(have, (T.FloatType, T.DoubleType)) and not isinstance(
            target, (T.FloatType, T.DoubleType)
        ):
            return F.when(F.abs(there.cast("double") - value.cast("double")) < 1, there)
        if isinstance(target, (T.DecimalType, T.FloatType)):  # a float is the nearest representable value
            return there
        return F.when(there.cast(have) == value, there)
    return there


def _strict_nested(
    value: SparkColumn, have: T.DataType, want: HiveType, column: str, *, by_name: bool
) -> SparkColumn:
    def inner(part: SparkColumn, given: T.DataType, wanted: HiveType, name: str = column) -> SparkColumn:
        return as_column(store_cast(part, given, wanted, name, by_name=by_name))

    match have, want:
        case T.ArrayType(), Array(element=element):
            return F.transform(value, lambda item: inner(item, have.elementType, element))
        case T.MapType(), Map(key=key, value=item):
            values = F.transform_values(value, lambda _, v: inner(v, have.valueType, item))
            return F.transform_keys(values, lambda k, _: inner(k, have.keyType, key))
        case T.StructType(), Struct(fields=fields):
            parts = [
                inner(value.getField(h.name), h.dataType, f.type, f"{column}.{f.name}").alias(f.name)
                for h, f in _field_pairs(have.fields, fields, by_name=by_name) or ()
            ]
            return F.when(value.isNotNull(), F.struct(*parts))
    raise SchemaMismatchError(f"column {column} is {want}, but the value is {have.simpleString()}")


DATA_ERROR = "[HIVEACID_DATA] "
"""Beginning of the messages of ``raise_error`` that ``error_translation`` turns into DataError."""
_ORDER = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)


def _never_fails(have: T.DataType, target: T.DataType) -> bool:
    """Tell whether a plain cast accepts every value, even if it drops digits or the time of day."""
    if type(have) in _ORDER and type(target) in _ORDER:
        return _ORDER.index(type(have)) <= _ORDER.index(type(target))
    if isinstance(target, T.DoubleType):
        return isinstance(have, _NUMERIC)
    if isinstance(target, T.FloatType):
        return isinstance(have, (*_ORDER, T.DecimalType))
    if isinstance(have, T.DecimalType) and isinstance(target, T.DecimalType):
        whole = target.precision - target.scale >= have.precision - have.scale
        return whole and target.scale >= have.scale
    times = (T.TimestampType, T.TimestampNTZType)
    return isinstance(have, (*times, T.DateType)) and isinstance(target, (T.DateType, T.TimestampType))


def _is_castable(have: T.DataType, target: T.DataType, *, by_name: bool) -> bool:
    if isinstance(have, T.NullType) or have == target:
        return True
    match have, target:
        case T.ArrayType(), T.ArrayType():
            return _is_castable(have.elementType, target.elementType, by_name=by_name)
        case T.MapType(), T.MapType():
            pairs = (have.keyType, target.keyType), (have.valueType, target.valueType)
            return all(_is_castable(*pair, by_name=by_name) for pair in pairs)
        case T.StructType(), T.StructType():
            fields = _field_pairs(have.fields, target.fields, by_name=by_name)
            return fields is not None and all(
                _is_castable(h.dataType, t.dataType, by_name=by_name) for h, t in fields
            )
    nested = (T.ArrayType, T.MapType, T.StructType)
    if isinstance(have, nested) or isinstance(target, nested):
        return False
    if isinstance(have, T.StringType) or isinstance(target, T.StringType):
        return not isinstance(target, T.BinaryType) or isinstance(have, T.StringType)
    times = (T.DateType, T.TimestampType, T.TimestampNTZType)
    if isinstance(have, times):
        return isinstance(target, times)
    return isinstance(have, _NUMERIC) and isinstance(target, _NUMERIC)
