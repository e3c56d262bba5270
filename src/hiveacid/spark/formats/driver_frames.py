"""DataFrames of Arrow rows in the driver's memory, and sizes of other DataFrames that Spark knows without a job."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column
from hiveacid.core.schema.virtual_columns import ROW_ID
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.session.capabilities import SparkFacts

ROUND_TRIP_TYPES = frozenset(
    {"tinyint", "smallint", "int", "bigint", "float", "double", "decimal"}
    | {"string", "varchar", "boolean", "date", "binary"}
)
"""Types whose values stay the same from Arrow to Spark and back; timestamps, char and nested types may not."""
_ROW_ID = T.StructType(
    [
        T.StructField("writeid", T.LongType()),
        T.StructField("bucketid", T.IntegerType()),
        T.StructField("rowid", T.LongType()),
    ]
)


def schema_of(columns: Sequence[Column]) -> T.StructType:
    """Return Spark's schema of columns of a table."""
    return T.StructType([T.StructField(column.name, column_type(column)) for column in columns])


def empty_frame(facts: SparkFacts, columns: Sequence[Column]) -> DataFrame:
    """Return a frame without rows, in which Spark can analyse expressions over the columns."""
    return facts.spark.createDataFrame([], schema_of(columns))


def broadcast_rows(facts: SparkFacts, columns: Sequence[Column], rows: Any) -> DataFrame:
    """Return a frame that a join broadcasts. ``rows``: an Arrow table of ``ROW__ID`` and the columns."""
    schema = T.StructType([T.StructField(ROW_ID, _ROW_ID), *schema_of(columns).fields])
    frame: Any = facts.spark.createDataFrame(rows, schema)
    return F.broadcast(frame)


def estimated_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of a frame's bytes, which is rather too large than too small."""
    statistics: Any = frame._jdf.queryExecution().optimizedPlan().stats()  # noqa: SLF001
    return int(str(statistics.sizeInBytes()))


def count_listed_rows(frame: DataFrame) -> int | None:
    """Return the number of rows of VALUES or of a SELECT without FROM; None for a frame that reads data."""
    plan: Any = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    if str(plan.nodeName()) == "LocalRelation":
        return int(plan.data().size())
    is_row = str(plan.nodeName()) == "Project" and str(plan.child().nodeName()) == "OneRowRelation"
    return 1 if is_row else None


def computed_bytes(facts: SparkFacts, frame: DataFrame) -> int:
    """Return the bytes, in memory and on disk, of a frame of `localCheckpoint` that jobs have computed so far."""
    checkpoint: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    rdd_id = checkpoint.rdd().id()
    stored: Any = facts.spark.sparkContext._jsc.sc().getRDDStorageInfo()  # noqa: SLF001
    return sum(int(info.memSize()) + int(info.diskSize()) for info in stored if info.id() == rdd_id)
