"""Avro files with the schemas of Hive's ``AvroSerDe`` (``TypeInfoToSchema``), through Spark's separate Avro package.

Timestamps in these files have a precision of milliseconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, TypeVar

from pyspark.errors import AnalysisException
from pyspark.sql import types as T

from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import Array, HiveType, Map, Primitive, Struct, parse_type
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.session.capabilities import SparkFacts

_Result = TypeVar("_Result")
_PLAIN = {
    "boolean": "boolean",
    "tinyint": "int",
    "smallint": "int",
    "int": "int",
    "bigint": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
}


def with_avro_source(facts: SparkFacts, use: Callable[[], _Result]) -> _Result:
    """Return the result of ``use``. Raises UnsupportedFeatureError, naming the package, if Spark has no Avro source."""
    try:
        return use()
    except AnalysisException as error:
        if "data source" not in str(error) or "avro" not in str(error).lower():
            raise
        scala = "2.12" if facts.version < (4, 0) else "2.13"
        raise UnsupportedFeatureError(
            "this Spark session cannot read or write Avro files: start it with the package "
            f"org.apache.spark:spark-avro_{scala}:{facts.spark.version} (spark.jars.packages)"
        ) from error


def read_schema(table: TableDefinition) -> T.StructType:
    """Return the schema for reading files: tinyint and smallint are int, since Avro has no smaller integers."""
    return T.StructType([T.StructField(c.name, _read_type(column_type(c))) for c in table.columns])


def _read_type(kind: T.DataType) -> T.DataType:
    match kind:
        case T.ByteType() | T.ShortType():
            return T.IntegerType()
        case T.ArrayType():
            return T.ArrayType(_read_type(kind.elementType))
        case T.MapType():
            return T.MapType(kind.keyType, _read_type(kind.valueType))
        case T.StructType():
            return T.StructType([T.StructField(f.name, _read_type(f.dataType)) for f in kind.fields])
    return kind


def write_schema(table: TableDefinition) -> str:
    """Return the JSON of Hive's Avro schema of a table. Raises UnsupportedFeatureError for types that Hive refuses."""
    numbers = count()
    fields = [
        {"name": c.name, "type": ["null", _avro_type(parse_type(c.type), numbers, c.name)], "default": None}
        for c in table.columns
    ]
    name, namespace = table.name.name, table.name.database
    return json.dumps({"type": "record", "name": name, "namespace": namespace, "fields": fields})


def _avro_type(kind: HiveType, numbers: Iterator[int], column: str) -> Any:
    match kind:
        case Primitive(name=name) if name in _PLAIN:
            return _PLAIN[name]
        case Primitive(name="varchar" | "char", args=(length,)):
            return {"type": "string", "logicalType": kind.name, "maxLength": length}
        case Primitive(name="decimal", args=args):
            precision, scale = (*args, *(10, 0)[len(args) :])
            return {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
        case Primitive(name="date"):
            return {"type": "int", "logicalType": "date"}
        case Primitive(name="timestamp"):
            return {"type": "long", "logicalType": "timestamp-millis"}
        case Array(element=element):
            return {"type": "array", "items": ["null", _avro_type(element, numbers, column)]}
        case Map(key=Primitive(name="string"), value=value):
            return {"type": "map", "values": ["null", _avro_type(value, numbers, column)]}
        case Struct(fields=fields):
            name = f"record_{next(numbers)}"
            inner = [
                {"name": f.name, "type": ["null", _avro_type(f.type, numbers, column)], "default": None}
                for f in fields
            ]
            return {"type": "record", "name": name, "fields": inner}
    raise UnsupportedFeatureError(f"column {column}: Hive keeps no {kind} in Avro files")
