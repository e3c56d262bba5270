"""Writes by Spark's writers, and the rows and files that their tasks report.

Local files are written without Hadoop's checksum files, which no reader uses after publishing. Each checksum file costs
a process: without its native library, Hadoop sets the mode of a new file by the command chmod.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import dataset_class
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
    with without_checksums(frame, directory):
        if env.version < _SAVE_COMMAND:
            command = _write_command(env, frame, source, {**options, "path": path}, keys)
            return _report_of_plan(directory, _run_command(env, frame, command))
        java: Any = frame._jdf.write().mode("error").format(source).options(java_value(env, options))  # noqa: SLF001
        java = java.partitionBy(java_sequence(env, keys)) if keys else java
        command = java.saveCommand(java_packages(env.spark).scala.Option.apply(path))
        return _report_of_plan(directory, _run_command(env, frame, command))


@contextmanager
def without_checksums(frame: DataFrame, directory: str) -> Iterator[None]:
    """Write no checksum files in a block that writes a frame below a local directory; elsewhere there are none.

    Does nothing on executors of other processes.
    """
    session: Any = frame.sparkSession
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
) -> Any:
    """Return the command that DataFrameWriter.save runs, whose writer has no ``saveCommand`` before Spark 4.1."""
    jvm = java_packages(env.spark)
    java: Any = frame._jdf  # noqa: SLF001
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


def _run_command(env: SparkEnvironment, frame: DataFrame, command: Any) -> Any:
    """Run a write command and return its plan, which holds the counts; DataFrameWriter.save does not return it."""
    session: Any = frame.sparkSession._jsparkSession  # noqa: SLF001
    return _write_node(dataset_class(env).ofRows(session, command).logicalPlan().commandPhysicalPlan())


def _report_of_plan(directory: str, plan: Any) -> TaskReport:
    metrics = plan.metrics()
    rows, files = (int(metrics.apply(name).value()) for name in (_ROWS, _FILES))
    return TaskReport((directory,), rows, files)


def _write_node(plan: Any) -> Any:
    """Return the node that wrote, inside an adaptive plan and, since Spark 4.1, its last stage."""
    while True:
        name = plan.nodeName()
        if name == "AdaptiveSparkPlan":
            plan = plan.executedPlan()
        elif name == "ResultQueryStage":
            plan = plan.plan()
        else:
            return plan
