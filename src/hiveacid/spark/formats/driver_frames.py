"""DataFrames of Arrow rows in the driver's memory, and sizes of other DataFrames that Spark knows without a job."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import Column
from hiveacid.core.schema.types import NUMERIC_TYPES, quote_name
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.session.capabilities import SparkEnvironment

ROUND_TRIP_TYPES = NUMERIC_TYPES | {"string", "varchar", "boolean", "date", "binary"}
"""Types whose values stay the same from Arrow to Spark and back; timestamps, char and nested types may not."""
_ARROW_FRAMES = (4, 0)  # the first version of Spark that takes Arrow tables and returns them
_MAX_BYTES = 256 << 20
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


def broadcast_rows(env: SparkEnvironment, columns: Sequence[Column], rows: Any) -> DataFrame:
    """Return a frame that a join broadcasts. ``rows``: an Arrow table of ``ROW__ID`` and the columns."""
    schema = T.StructType([T.StructField(ROW_ID, _ROW_ID), *schema_of(columns).fields])
    return F.broadcast(frame_of_arrow(env, rows, schema))


def frame_of_arrow(env: SparkEnvironment, rows: Any, schema: T.StructType) -> DataFrame:
    """Return a frame of an Arrow table, without timestamps of a time zone."""
    spark: Any = env.spark
    if env.version >= _ARROW_FRAMES:
        created: DataFrame = spark.createDataFrame(rows, schema)
        return created
    # As Spark 3.5 does it with the Arrow table that it makes of a pandas frame.
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # noqa: PLC0415 - imports pandas
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - likewise

    jvm = spark._jvm  # noqa: SLF001
    batches = rows.cast(to_arrow_schema(schema)).combine_chunks().to_batches()
    received = spark.sparkContext._serialize_to_jvm(  # noqa: SLF001
        batches,
        ArrowStreamSerializer(),
        jvm.PythonSQLUtils.readArrowStreamFromFile,
        jvm.ArrowIteratorServer,
    )
    frame = jvm.PythonSQLUtils.toDataFrame(received, schema.json(), spark._jsparkSession)  # noqa: SLF001
    return DataFrame(frame, spark)


def collect_as_arrow(env: SparkEnvironment, frame: DataFrame) -> Any:
    """Compute a frame without timestamps of a time zone; return its rows as an Arrow table."""
    computed: Any = frame
    if env.version >= _ARROW_FRAMES:
        return computed.toArrow()
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - imports pandas

    schema = to_arrow_schema(frame.schema)
    batches = computed._collect_as_arrow()  # noqa: SLF001 - what toArrow() of Spark 4 calls
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def max_bytes_in_driver(env: SparkEnvironment) -> int:
    """Return how many bytes of rows a statement may pass between the JVM and this process, in each direction.

    The JVM holds them several times over: as Arrow batches, and in the hash table of a join, which doubles as it grows.
    """
    return min(_MAX_BYTES, env.driver_heap // 16)


def computed_once(frame: DataFrame) -> DataFrame:
    """Return a frame whose first job computes it: a second computation may differ (``rand()``, a changing file)."""
    return frame.localCheckpoint(eager=False)


def collect_within_limit(env: SparkEnvironment, frame: DataFrame, grown: Iterable[str]) -> Any:
    """Return the rows of a frame as `collect_as_arrow`; None if ``grown`` alone takes more than `max_bytes_in_driver`.

    ``grown``: columns of texts that may be much longer than those they are computed from (``repeat(a, 1000)``). They are
    computed once more, before all others, to add up their bytes: a JVM that has no memory for an answer never answers.
    """
    lengths = [f"coalesce(octet_length({quote_name(name)}), 0)" for name in grown]
    if lengths:
        (row,) = frame.selectExpr(f"sum({' + '.join(lengths)})").collect()
        if (row[0] or 0) > max_bytes_in_driver(env):
            return None
    return collect_as_arrow(env, frame)


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


def computed_bytes(env: SparkEnvironment, frame: DataFrame) -> int:
    """Return the bytes, in memory and on disk, of a frame of `localCheckpoint` that jobs have computed so far."""
    checkpoint: Any = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    rdd_id = checkpoint.rdd().id()
    stored: Any = env.spark.sparkContext._jsc.sc().getRDDStorageInfo()  # noqa: SLF001
    return sum(int(info.memSize()) + int(info.diskSize()) for info in stored if info.id() == rdd_id)
