"""The columns that a condition on a table may name, as it sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.types import quote_name
from hiveacid.spark.scan import FILE_NAME, ROW_ID, ROW_ID_TYPE
from hiveacid.spark.types import column_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark's own mark of a char column: it pads what the column is compared with, so that 'a' equals 'a   ' as in Hive.
_CHAR = "__CHAR_VARCHAR_TYPE_STRING"


def visible_columns(table: TableDefinition) -> T.StructType:
    """Return the columns of ``spark.scan.scan``: the table's, its partition columns, the virtual ones."""
    fields = [
        T.StructField(c.name, column_type(c), metadata=char_mark(c.type))
        for c in (*table.columns, *table.partition_columns)
    ]
    if table.kind is TableKind.FULL_ACID:
        fields.append(T.StructField(ROW_ID, ROW_ID_TYPE))
    return T.StructType([*fields, T.StructField(FILE_NAME, T.StringType())])


def char_mark(hive: str) -> dict[str, str]:
    """Return the metadata of a column of this type: none for all but char."""
    return {_CHAR: hive} if hive.startswith("char(") else {}


def with_char_marks(table: TableDefinition, frame: DataFrame) -> DataFrame:
    """Mark the char columns of a scan (`ApplyCharTypePadding` of Spark asks for the mark)."""
    marks = {c.name: char_mark(c.type) for c in (*table.columns, *table.partition_columns)}
    if not any(marks.values()):
        return frame
    columns = [
        F.col(quote_name(name)).alias(name, metadata=mark)
        if (mark := marks.get(name))
        else F.col(quote_name(name))
        for name in frame.columns
    ]
    return frame.select(*columns)
