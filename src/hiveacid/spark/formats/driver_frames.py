"""Rows and values in the driver's memory: DataFrames of Arrow rows, and values that Spark computes for Python.

The latter are those of ``column IN (SELECT …)``, constant SQL expressions, and points in time. Sizes of other DataFrames are
those that Spark knows without a job.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any, TypeAlias, cast

import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import Column
from hiveacid.core.predicates import UNKNOWN, AnyOf, Comparison, Operator, Predicate
from hiveacid.core.schema.types import INTEGER_TYPES, NUMERIC_TYPES, quote_name
from hiveacid.errors import ConfigError, HiveAcidError, UnsupportedFeatureError
from hiveacid.spark.formats.types import ROW_ID_TYPE, column_type
from hiveacid.spark.session.classic_session import frame_of_plan, plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import is_failed_job, is_spark_error, translate_errors
from hiveacid.spark.session.jvm import java_class, scala_items, session_of

logger = logging.getLogger(__name__)

ROUND_TRIP_TYPES = NUMERIC_TYPES | {"string", "varchar", "boolean", "date", "binary"}
"""Types whose values stay the same from Arrow to Spark and back; timestamps, char and nested types may not."""
_ROWS_OF_A_TASK = 10_000
_LARGE_TYPES = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}
_PYTHON = "org.apache.spark.sql.api.python"
_MAX_BYTES = 256 << 20
_MAX_VALUES = 1_000_000
ConstantValue: TypeAlias = int | str | datetime | list[str] | None
"""Value of a constant expression; a timestamp has its zone."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def schema_of(columns: Sequence[Column]) -> T.StructType:
    """Return Spark's schema of columns of a table."""
    return T.StructType([T.StructField(column.name, column_type(column)) for column in columns])


def broadcast_rows(env: SparkEnvironment, columns: Sequence[Column], rows: pa.Table) -> DataFrame:
    """Return a frame that a join broadcasts. ``rows``: an Arrow table of ``ROW__ID`` and the columns."""
    schema = T.StructType([T.StructField(ROW_ID, ROW_ID_TYPE), *schema_of(columns).fields])
    return F.broadcast(frame_of_arrow(env, rows, schema))


def frame_of_arrow(env: SparkEnvironment, rows: pa.Table, schema: T.StructType) -> DataFrame:
    """Return a frame of an Arrow table, without timestamps of a time zone.

    As ``createDataFrame`` of Spark 4 does it, which Spark 3.5 lacks, and without its questions about settings for timestamps.
    """
    from pyspark.sql.pandas.serializers import ArrowStreamSerializer  # noqa: PLC0415 - imports pandas
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - likewise

    sent = to_arrow_schema(schema)
    # The JVM takes the width of offsets from this setting, and would read other offsets than those of the batches.
    if (
        env.version >= (4, 0)
        and not _LARGE_TYPES.keys().isdisjoint(sent.types)
        and str(env.spark.conf.get("spark.sql.execution.arrow.useLargeVarTypes")).lower() == "true"
    ):
        sent = pa.schema([field.with_type(_LARGE_TYPES.get(field.type, field.type)) for field in sent])
    functions = java_class(env, f"{_PYTHON}.PythonSQLUtils")
    received = env.spark.sparkContext._serialize_to_jvm(  # noqa: SLF001
        rows.cast(sent).to_batches(max_chunksize=_ROWS_OF_A_TASK),
        ArrowStreamSerializer(),
        functions.readArrowStreamFromFile,
        java_class(
            env, f"{_PYTHON}.ArrowIteratorServer"
        ),  # of encrypted contexts, which keep nothing in files
    )
    return DataFrame(functions.toDataFrame(received, schema.json(), session_of(env)), env.spark)


def collect_as_arrow(frame: DataFrame) -> pa.Table:
    """Compute a frame without timestamps of a time zone; return its rows as an Arrow table."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - imports pandas

    schema = to_arrow_schema(frame.schema)
    collected: Any = frame  # what toArrow() of Spark 4 calls, which Spark 3.5 lacks
    batches = collected._collect_as_arrow()  # noqa: SLF001
    return pa.Table.from_batches(batches).cast(schema) if batches else schema.empty_table()


def max_bytes_in_driver(env: SparkEnvironment) -> int:
    """Return how many bytes of rows a statement may pass between the JVM and this process, in each direction.

    The JVM holds them several times over: as Arrow batches, and in the hash table of a join, which doubles as it grows.
    """
    return min(_MAX_BYTES, env.driver_heap // 16)


def computed_once(frame: DataFrame) -> DataFrame:
    """Return a frame whose first job computes it: a second computation may differ (``rand()``, a changing file)."""
    return frame.localCheckpoint(eager=False)


def collect_rows(env: SparkEnvironment, frame: DataFrame, max_rows: int) -> pa.Table | None:
    """Return the rows of a frame as `collect_as_arrow`; None for more than ``max_rows``, or than `max_bytes_in_driver`.

    Executors compute and keep them first: only then is it known what they take. Each task stops after ``max_rows``; a LIMIT
    would bring all rows to one more task. None also if an executor is lost with its part, or if Arrow may change a value.
    """
    if not {field.dataType.simpleString().partition("(")[0] for field in frame.schema} <= ROUND_TRIP_TYPES:
        return None
    limit_of_tasks = plan_of(frame.limit(max_rows + 1)).child()
    computed = frame_of_plan(env, limit_of_tasks).localCheckpoint()
    if computed_bytes(env, computed) > max_bytes_in_driver(env):
        return None
    try:
        rows = collect_as_arrow(computed)
    except Exception as error:
        if not is_failed_job(error):
            raise
        logger.warning("rows that executors kept are lost, a job computes them anew: %s", str(error)[:500])
        return None
    return rows if rows.num_rows <= max_rows else None


def frame_of_collected(env: SparkEnvironment, frame: DataFrame, rows: pa.Table) -> DataFrame:
    """Return a frame of the rows of ``frame``, which `collect_rows` has returned: no executor can lose them.

    Expressions of columns of ``frame`` are valid for the new one, too.
    """
    plan = plan_of(frame_of_arrow(env, rows, frame.schema))
    fields: Any = env.spark.sparkContext._gateway.new_array(  # type: ignore[union-attr] # noqa: SLF001
        java_class(env, "java.lang.Object"), plan.productArity()
    )
    fields[0] = plan_of(frame).output()
    for number in range(1, len(fields)):
        fields[number] = plan.productElement(number)
    return frame_of_plan(env, plan.makeCopy(fields))


def collect_within_limit(env: SparkEnvironment, frame: DataFrame, grown: Iterable[str]) -> pa.Table | None:
    """Return the rows of a frame as `collect_as_arrow`; None if ``grown`` alone takes more than `max_bytes_in_driver`.

    ``grown``: columns of texts that may be much longer than those they are computed from (``repeat(a, 1000)``). They are
    computed once more, before all others, to add up their bytes: a JVM that has no memory for an answer never answers.
    """
    lengths = [f"coalesce(octet_length({quote_name(name)}), 0)" for name in grown]
    if lengths:
        (row,) = frame.selectExpr(f"sum({' + '.join(lengths)})").collect()
        if (row[0] or 0) > max_bytes_in_driver(env):
            return None
    return collect_as_arrow(frame)


def estimated_bytes(frame: DataFrame) -> int:
    """Return Spark's estimate of a frame's bytes, which is rather too large than too small."""
    statistics: JavaObject = frame._jdf.queryExecution().optimizedPlan().stats()  # noqa: SLF001
    return int(str(statistics.sizeInBytes()))


def count_listed_rows(frame: DataFrame) -> int | None:
    """Return the number of rows of VALUES or of a SELECT without FROM; None for a frame that reads data."""
    plan: JavaObject = frame._jdf.queryExecution().optimizedPlan()  # noqa: SLF001
    if str(plan.nodeName()) == "LocalRelation":
        return int(plan.data().size())
    is_row = str(plan.nodeName()) == "Project" and str(plan.child().nodeName()) == "OneRowRelation"
    return 1 if is_row else None


def computed_bytes(env: SparkEnvironment, frame: DataFrame) -> int:
    """Return the bytes, in memory and on disk, of a frame of `localCheckpoint` that jobs have computed so far."""
    checkpoint: JavaObject = frame._jdf.queryExecution().analyzed()  # noqa: SLF001
    rdd_id = checkpoint.rdd().id()
    stored: JavaObject = env.spark.sparkContext._jsc.sc().getRDDStorageInfo()  # noqa: SLF001
    return sum(int(info.memSize()) + int(info.diskSize()) for info in stored if info.id() == rdd_id)


@dataclass(frozen=True)
class Members:
    """A column, and the frame of the values among which a condition looks for it."""

    column: str
    values: DataFrame

    def predicate(self) -> Predicate:
        """Compute the values, and return the condition.

        Raises UnsupportedFeatureError for too many values, and for values that Python does not have: texts that are not
        UTF-8, and days after the year 9999.
        """
        with translate_errors():
            values = collect_as_arrow(self.values.limit(_MAX_VALUES + 1)).column(0)
        if len(values) > _MAX_VALUES:
            raise UnsupportedFeatureError(f"the subquery has more than {_MAX_VALUES} values")
        if not len(values):
            return AnyOf(())  # NULL IN () is false, too
        try:
            present = tuple(values.unique().drop_null().to_pylist())
        except (ValueError, OverflowError) as error:
            raise UnsupportedFeatureError(
                f"the subquery has a value that Python does not have ({error})"
            ) from error
        found = Comparison(self.column, Operator.IN, present)
        return AnyOf((found, UNKNOWN)) if values.null_count else found


def members_of(env: SparkEnvironment, node: JavaObject) -> Members | None:
    """Return the members of an analysed ``column IN (SELECT …)``.

    None for several columns, if the subquery refers to the table's columns, or if Spark would cast one of the sides,
    except an integer column to a wider type: a cast to a narrower one may return another number.
    """
    values, query = [*scala_items(node.values())], node.query()
    plan = query.plan()
    output = [*scala_items(plan.output())]
    if len(values) != 1 or len(output) != 1 or not query.outerAttrs().isEmpty():
        return None
    column = _column(values[0])
    if column is None or not values[0].dataType().equals(output[0].dataType()):
        return None
    return Members(column, frame_of_plan(env, plan))


def _column(value: JavaObject) -> str | None:
    """Return the name of a column, or of an integer column cast to a wider integer type."""
    if value.nodeName() == "Cast":
        types = [_type(value.child()), _type(value)]
        if not set(types).issubset(INTEGER_TYPES) or sorted(types, key=INTEGER_TYPES.index) != types:
            return None
        value = value.child()
    return str(value.name()).lower() if value.nodeName() == "AttributeReference" else None


def _type(value: JavaObject) -> str:
    return str(value.dataType().simpleString())


def epoch_millis(env: SparkEnvironment, when: date | str) -> int:
    """Return a point in time in ms since the epoch, rounded down.

    Spark casts a text to TIMESTAMP. Texts and datetimes without a zone are in ``spark.sql.session.timeZone``.
    Raises ConfigError.
    """
    if isinstance(when, datetime) and when.tzinfo is not None:
        return (when - _EPOCH) // timedelta(milliseconds=1)
    text = str(when) if isinstance(when, date) else when
    millis = None
    if not isinstance(text, str):
        raise ConfigError(f"{when!r} is not a timestamp: write '2026-01-31 12:00:00' or a datetime")
    if not {"'", "\\", "$"} & set(text):  # nothing that ends the literal, or that Spark would replace
        millis = evaluate_millis(env, f"'{text}'")
    if millis is None:
        raise ConfigError(f"{text!r} is not a timestamp: write '2026-01-31 12:00:00' or a datetime")
    return millis


def evaluate_millis(env: SparkEnvironment, expression: str) -> int | None:
    """Return the value of a constant expression in ms since the epoch; None for NULL or a value that is not a timestamp.

    Raises Spark's error for an expression that it cannot analyse.
    """
    try:
        row = env.spark.sql(f"SELECT unix_millis(CAST(({expression}\n) AS TIMESTAMP_LTZ))").first()
    except Exception as error:
        if not (is_spark_error(error) or isinstance(error, HiveAcidError)) or "CAST_INVALID" not in str(
            error
        ):
            raise
        return None
    return None if row is None or row[0] is None else int(row[0])


def evaluate_constant(env: SparkEnvironment, expression: str) -> ConstantValue:
    """Return the value of a constant expression. Raises Spark's error."""
    frame = env.spark.sql(f"SELECT ({expression}\n) AS value")
    if frame.schema[0].dataType.typeName() in {"timestamp", "timestamp_ntz", "date"}:
        millis = evaluate_millis(env, expression)
        return None if millis is None else datetime.fromtimestamp(millis / 1000, UTC)
    row = frame.first()
    return None if row is None else cast("ConstantValue", row[0])
