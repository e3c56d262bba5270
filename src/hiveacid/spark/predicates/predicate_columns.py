"""Columns that a condition on a table may name, with their types."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.read.scan_source import FILE_NAME, ROW_ID, ROW_ID_TYPE

# Spark pads values that are compared with a column of this metadata, so that 'a' equals 'a   ' as in Hive.
_CHAR_METADATA_KEY = "__CHAR_VARCHAR_TYPE_STRING"


def visible_columns(table: TableDefinition) -> T.StructType:
    """Return the columns of `hiveacid.spark.read.scan.scan`: data, partition and virtual columns."""
    fields = [
        T.StructField(c.name, column_type(c), metadata=char_metadata(c.type))
        for c in (*table.columns, *table.partition_columns)
    ]
    if table.kind is TableKind.FULL_ACID:
        fields.append(T.StructField(ROW_ID, ROW_ID_TYPE))
    return T.StructType([*fields, T.StructField(FILE_NAME, T.StringType())])


def char_metadata(hive: str) -> dict[str, str]:
    """Return the metadata of a column of a Hive type; empty except for char."""
    return {_CHAR_METADATA_KEY: hive} if hive.startswith("char(") else {}


def with_char_metadata(table: TableDefinition, frame: DataFrame) -> DataFrame:
    """Add char metadata to the columns of a scan, for Spark's ``ApplyCharTypePadding``."""
    marks = {c.name: char_metadata(c.type) for c in (*table.columns, *table.partition_columns)}
    if not any(marks.values()):
        return frame
    columns = [
        F.col(quote_name(name)).alias(name, metadata=mark)
        if (mark := marks.get(name))
        else F.col(quote_name(name))
        for name in frame.columns
    ]
    return frame.select(*columns)
