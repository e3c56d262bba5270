"""The columns that a condition on a table may name."""

from __future__ import annotations

from pyspark.sql import types as T

from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.spark.scan import FILE_NAME, ROW_ID, ROW_ID_TYPE
from hiveacid.spark.types import column_type


def visible_columns(table: TableDefinition) -> T.StructType:
    """Return the columns of ``spark.scan.scan``: the table's, its partition columns, the virtual ones."""
    fields = [T.StructField(c.name, column_type(c)) for c in (*table.columns, *table.partition_columns)]
    if table.kind is TableKind.FULL_ACID:
        fields.append(T.StructField(ROW_ID, ROW_ID_TYPE))
    return T.StructType([*fields, T.StructField(FILE_NAME, T.StringType())])
