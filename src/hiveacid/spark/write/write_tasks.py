"""Tasks of a write by Spark's writers: the distribution of rows among them, and the rows and files that they report.

Each task writes one file in each directory that it has rows for. An INSERT into dynamic partitions shuffles its rows. Spark
measures the shuffled rows, joins small parts and divides large ones, so that files have about the target size. An INSERT into
one directory saves the cost of a shuffle. It joins the source's tasks until each of them has the rows of a file. It shuffles
only if files should be smaller than the parts in which Spark reads a source.

Local files are written without Hadoop's checksum files, which no reader uses after publishing. Each checksum file costs
a process: without its native library, Hadoop sets the mode of a new file by the command chmod.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from py4j.java_gateway import JavaObject
from pyspark.sql import Column, DataFrame
from pyspark.sql import types as T

from hiveacid.core.format.acid_columns import MAX_BUCKETS, MIN_GROUPS, shuffled_size
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.session.classic_session import dataset_class
from hiveacid.spark.session.environment import SparkEnvironment, driver_runs_tasks
from hiveacid.spark.session.jvm import java_packages, java_sequence, java_value
from hiveacid.spark.write.staged_files import TaskReport
from hiveacid.storage.paths import is_local, spark_path

_SAVE_COMMAND = (4, 1)  # the first whose DataFrameWriter has saveCommand
_ROWS, _FILES = "numOutputRows", "numFiles"  # BasicWriteJobStatsTracker
# Hadoop has one local file system for each process. The first writer turns checksums off, the last one turns them on
# again. Files that other threads write in between lack checksums, too.
_writers: set[object] = set()
_lock = threading.Lock()
_LOCAL = "file:///"
_BARE_FILES = {
    "fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
    "fs.file.impl.disable.cache": "true",
}
"""Options of a write whose tasks run in other processes: their file system has no checksums, and is not the one that others share."""
_SPARK_4 = (4, 0)
_UNKNOWN = 1 << 62  # Spark's size of a source that tells none (spark.sql.defaultSizeInBytes) is 2**63 - 1
_HASHED_COLUMNS = 16  # enough to spread the rows, few enough to cost nothing
# Names of Spark's logical plans that distribute or order rows, and of plans that do neither.
_DISTRIBUTING_NODES = frozenset({"Sort", "Repartition", "RepartitionByExpression", "RebalancePartitions"})
_TRANSPARENT_NODES = frozenset({"Project", "Filter", "SubqueryAlias"})
_NESTED = (T.StructType, T.ArrayType, T.MapType)


def save_frame(
    env: SparkEnvironment,
    frame: DataFrame,
    source: str,
    options: Mapping[str, str],
    keys: Sequence[str],
    directory: str,
) -> TaskReport:
    """Write a frame into a directory that does not exist yet, a file for each task; return what the tasks report.

    ``source``, ``options`` and ``keys``: format, options and partition columns of Spark's DataFrameWriter.
    """
    path, options = spark_path(directory), {"maxRecordsPerFile": "0", **options}
    if is_local(directory) and not driver_runs_tasks(str(env.spark.sparkContext.master)):
        options |= _BARE_FILES
    with without_checksums(frame, directory):
        if env.version < _SAVE_COMMAND:
            command = _write_command(env, frame, source, {**options, "path": path}, keys)
            return _report_of_plan(directory, _run_command(env, frame, command))
        java: JavaObject = frame._jdf.write().mode("error").format(source).options(java_value(env, options))  # noqa: SLF001
        java = java.partitionBy(java_sequence(env, keys)) if keys else java
        command = java.saveCommand(java_packages(env.spark).scala.Option.apply(path))
        return _report_of_plan(directory, _run_command(env, frame, command))


@contextmanager
def without_checksums(frame: DataFrame, directory: str) -> Iterator[None]:
    """Write no checksum files in a block that writes a frame below a local directory; elsewhere there are none.

    Does nothing on executors of other processes.
    """
    session = frame.sparkSession
    if not is_local(directory):
        yield
        return
    conf = session._jsc.hadoopConfiguration()  # noqa: SLF001
    writer = object()
    files = java_packages(session).org.apache.hadoop.fs.Path(_LOCAL).getFileSystem(conf)
    try:
        with _lock:
            _writers.add(writer)
            files.setWriteChecksum(False)
        yield
    finally:
        with _lock:
            _writers.discard(writer)
            if not _writers:
                files.setWriteChecksum(True)


def _write_command(
    env: SparkEnvironment, frame: DataFrame, source: str, options: Mapping[str, str], keys: Sequence[str]
) -> JavaObject:
    """Return the command that DataFrameWriter.save runs, whose writer has no ``saveCommand`` before Spark 4.1."""
    jvm = java_packages(env.spark)
    java: JavaObject = frame._jdf  # noqa: SLF001
    utils, none, sql = (
        jvm.org.apache.spark.api.python.PythonUtils,
        jvm.scala.Option.empty(),
        jvm.org.apache.spark.sql,
    )
    written = sql.execution.datasources.DataSource(
        frame.sparkSession._jsparkSession,  # noqa: SLF001
        source,
        utils.toSeq([]),
        none,
        utils.toSeq(list(keys)),
        none,
        utils.toScalaMap(dict(options)),
        none,
    )
    return written.planForWriting(sql.SaveMode.ErrorIfExists, java.logicalPlan())


def _run_command(env: SparkEnvironment, frame: DataFrame, command: JavaObject) -> JavaObject:
    """Run a write command and return its plan, which holds the counts; DataFrameWriter.save does not return it."""
    session: JavaObject = frame.sparkSession._jsparkSession  # noqa: SLF001
    return _write_node(dataset_class(env).ofRows(session, command).logicalPlan().commandPhysicalPlan())


def _report_of_plan(directory: str, plan: JavaObject) -> TaskReport:
    metrics = plan.metrics()
    rows, files = (int(metrics.apply(name).value()) for name in (_ROWS, _FILES))
    return TaskReport((directory,), rows, files)


def _write_node(plan: JavaObject) -> JavaObject:
    """Return the node that wrote, inside an adaptive plan and, since Spark 4.1, its last stage."""
    while True:
        name = plan.nodeName()
        if name == "AdaptiveSparkPlan":
            plan = plan.executedPlan()
        elif name == "ResultQueryStage":
            plan = plan.plan()
        else:
            return plan


def distribute(
    env: SparkEnvironment,
    frame: DataFrame,
    keys: Sequence[str],
    file_size: int,
    *,
    bucketed: bool,
    small: bool,
    order: Sequence[Column] = (),
) -> DataFrame:
    """Return new rows, distributed among the tasks that write them.

    Each task has the rows of a directory (``keys``) side by side. ``file_size``: bytes that a file should have.
    ``bucketed``: the bucket is one of the keys, and one task writes all rows of a directory. Otherwise there are 4,096 tasks at
    most. ``small``: one task is enough. ``order``: order of the rows of a bucket (SORTED BY).
    """
    if small:
        frame = frame.coalesce(1)
    elif bucketed:
        frame = frame.repartition(*keys)
    elif keys:
        frame = _rebalance(env, frame, keys, file_size).coalesce(MAX_BUCKETS)
    else:
        frame = _distribute_in_directory(env, frame, file_size)
    return frame.sortWithinPartitions(*keys, *order) if keys else frame


def _distribute_in_directory(env: SparkEnvironment, frame: DataFrame, file_size: int) -> DataFrame:
    plan: JavaObject = frame._jdf.logicalPlan()  # noqa: SLF001
    size = None if _is_distributed_by_query(plan) else _source_size(plan, file_size)
    if size is None:
        return frame.coalesce(MAX_BUCKETS)
    if size <= file_size or file_size >= int(env.state.conf().filesMaxPartitionBytes()):
        # Not fewer tasks than the session has cores: the query may compute much from few bytes.
        least = max(MIN_GROUPS, env.spark.sparkContext.defaultParallelism)
        return frame.coalesce(min(MAX_BUCKETS, max(least, -(-size // file_size))))
    # Without columns Spark deals rows out in turn, and sorts them all first, so that a repeated task does the same.
    atomic = [f.name for f in frame.schema.fields if not isinstance(f.dataType, _NESTED)]
    return _rebalance(env, frame, atomic[:_HASHED_COLUMNS], file_size).coalesce(MAX_BUCKETS)


def _is_distributed_by_query(plan: JavaObject) -> bool:
    """Tell whether a query ends with ORDER BY, DISTRIBUTE BY or a hint.

    The INSERT keeps that order, which narrows the key bounds of the files.
    """
    while (name := plan.nodeName()) in _TRANSPARENT_NODES:
        plan = plan.child()
    return name in _DISTRIBUTING_NODES


def _source_size(plan: JavaObject, file_size: int) -> int | None:
    """Return the bytes of a plan's rows as Spark estimates them before it optimizes; None if it has no estimate.

    Spark estimates a join as the product of its sources, although most joins only look up values. If its estimate is
    above ``file_size``, the sum of the sources is the upper bound.
    """
    size = _size_of(plan)
    if size <= file_size:
        return size
    sources = plan.collectLeaves()
    sizes = [_size_of(sources.apply(i)) for i in range(sources.size())]
    return None if max(sizes, default=size) >= _UNKNOWN else min(size, sum(sizes))


def _size_of(plan: JavaObject) -> int:
    return int(plan.stats().sizeInBytes())


def _rebalance(env: SparkEnvironment, frame: DataFrame, keys: Sequence[str], file_size: int) -> DataFrame:
    """Let Spark shuffle rows by their keys into tasks of similar size, each with the rows of one file."""
    names = [quote_name(key) for key in keys]  # a hint parses them
    if env.version < _SPARK_4:  # only SQL accepts columns in a hint
        hint = f"REBALANCE({', '.join(names)})" if names else "REBALANCE"
        return env.spark.sql(f"SELECT /*+ {hint} */ * FROM {{frame}}", frame=frame)
    rebalanced = frame.hint("rebalance", *names)
    jvm, java = java_packages(env.spark), rebalanced._jdf  # noqa: SLF001
    plan = java.logicalPlan()
    if plan.nodeName() != "RebalancePartitions":  # spark.sql.adaptive.enabled=false: Spark ignores the hint
        return frame
    size = jvm.scala.jdk.javaapi.OptionConverters.toScala(
        jvm.java.util.OptionalLong.of(shuffled_size(file_size))
    )
    sized = plan.copy(plan.partitionExpressions(), plan.child(), plan.optNumPartitions(), size)
    made = dataset_class(env).ofRows(frame.sparkSession._jsparkSession, sized)  # noqa: SLF001
    return type(frame)(made, frame.sparkSession)
