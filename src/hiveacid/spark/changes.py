"""The rows that UPDATE and DELETE change, as `write.stage_changes` takes them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.core.types import quote_name
from hiveacid.spark.fields import assigned
from hiveacid.spark.rows import Expression, as_column
from hiveacid.spark.scan import ROW_ID
from hiveacid.spark.write import ACTION, Action

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableDefinition


def updated_rows(
    table: TableDefinition, frame: DataFrame, assignments: Mapping[str, Expression]
) -> DataFrame:
    """Return the selected rows with their new values; a value that does not fit fails the job."""
    new = {column: f"__hiveacid_new_{column}" for column in assignments}
    # Within an expression Spark refuses what makes several rows of one (explode).
    values = {name: F.when(F.lit(True), as_column(assignments[column])) for column, name in new.items()}  # noqa: FBT003
    valued = frame.select("*", *[value.alias(name) for name, value in values.items()])
    types = {field.name: field.dataType for field in valued.schema.fields}
    columns = [
        assigned(F.col(quote_name(new[c.name])), types[new[c.name]], c).alias(c.name)
        if c.name in new
        else F.col(quote_name(c.name))
        for c in table.columns
    ]
    places = [F.col(quote_name(c.name)) for c in table.partition_columns]
    return valued.select(F.lit(int(Action.UPDATE)).alias(ACTION), ROW_ID, *columns, *places)


def deleted_rows(table: TableDefinition, frame: DataFrame) -> DataFrame:
    """Return the selected rows' ids; no user column is read."""
    nothing = [F.lit(None).cast(frame.schema[c.name].dataType).alias(c.name) for c in table.columns]
    places = [F.col(quote_name(c.name)) for c in table.partition_columns]
    return frame.select(F.lit(int(Action.DELETE)).alias(ACTION), ROW_ID, *nothing, *places)
