"""Changed rows of UPDATE and DELETE, for `hiveacid.spark.write.staging.stage_changed_rows`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named, selected
from hiveacid.spark.formats.struct_fields import assignment_cast
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.read.scan_source import ROW_ID
from hiveacid.spark.write.staging import ACTION, Action

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
    columns: list[Expression] = [
        named(assignment_cast(F.col(quote_name(new[c.name])), types[new[c.name]], c), c.name)
        if c.name in new
        else quote_name(c.name)
        for c in table.columns
    ]
    places = [quote_name(c.name) for c in table.partition_columns]
    return selected(valued, [f"{int(Action.UPDATE)} AS {ACTION}", ROW_ID, *columns, *places])


def deleted_rows(table: TableDefinition, frame: DataFrame) -> DataFrame:
    """Return the selected rows' ids; no user column is read."""
    nothing = [named(cast("NULL", column_type(c)), c.name) for c in table.columns]
    places = [quote_name(c.name) for c in table.partition_columns]
    return selected(frame, [f"{int(Action.DELETE)} AS {ACTION}", ROW_ID, *nothing, *places])
