"""Rows that UPDATE and DELETE change, read by tasks in Python on executors, where a table is too large for the driver.

The tasks run the reader that the driver has (`table.arrow_read`), over parts of files. They only read, and the driver writes the
events. So repeated and speculative attempts leave nothing behind, and the files are those of a statement in the driver.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa

from hiveacid.spark.formats.driver_frames import max_bytes_in_driver
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.error_translation import is_failed_job
from hiveacid.spark.session.python_workers import run_in_workers
from hiveacid.storage.file_system_routing import OpenedBefore
from hiveacid.table.arrow_read.files_to_open import Snapshot
from hiveacid.table.arrow_read.filters import ALWAYS
from hiveacid.table.arrow_read.record_batches import Selection
from hiveacid.table.arrow_read.row_tasks import Refusal, Result, RowBudget, RowTask, divide_files
from hiveacid.table.context import Context

logger = logging.getLogger(__name__)

_TASKS_OF_A_CORE = 2
_AT_ONCE = 4  # times the limits of a statement: what may come to the driver's JVM at the same time


def read_on_executors(
    context: Context, snapshot: Snapshot, selection: Selection, max_rows: int
) -> dict[int, list[pa.RecordBatch]] | None:
    """Return the selected rows by the number of their partition in the snapshot.

    None if executors cannot read them, or if they are more than ``max_rows`` or take more than `max_bytes_in_driver`.
    """
    if selection.predicate is None or selection.predicate.equals(ALWAYS):
        return None  # all rows, which are too many
    env, limits = context.env, (max_rows, max_bytes_in_driver(context.env))
    paths = [file.path for part in snapshot.partitions for file in (*part.rows, *part.events)]
    opener = OpenedBefore.of(context.fs, paths)
    if opener is None or not env.executor_python.without_access.isdisjoint(opener.opened):
        return None
    groups = divide_files(snapshot, env.spark.sparkContext.defaultParallelism * _TASKS_OF_A_CORE)
    tasks = [RowTask.of(snapshot, parts, selection, *limits, opener) for parts in groups]
    try:
        results = _results(env, tasks)
    except Exception as error:
        if not is_failed_job(error):
            raise
        logger.warning("tasks on executors have failed, a job repeats their work: %s", str(error)[:500])
        return None
    if results is None:
        return None
    budget = RowBudget(*limits)
    rows: dict[int, list[pa.RecordBatch]] = defaultdict(list)
    for result in results:
        if not isinstance(result, list):
            logger.debug("a job has to read the rows: %s", result or "they are too many")
            if isinstance(result, Refusal) and result.no_access and opener.opened:
                env.executor_python.without_access.update(opener.opened)
                logger.warning(
                    "Python on executors gets no access, so that jobs read what is there: %s", result.reason
                )
            return None
        for part in result:
            taken = budget.take(part.batches())
            if taken is None:
                return None
            rows[part.partition] += taken
    return rows


def _results(env: SparkEnvironment, tasks: Sequence[RowTask]) -> Sequence[Result] | None:
    """Return the results of tasks; None if executors cannot run them, or if their rows are too many.

    All rows that come at once have to find room in the driver's JVM. So each task may return its share only. Those that have found
    more, as where the selected rows are neighbours, run again with a larger one.
    """
    results: list[Result] = [None] * len(tasks)
    left: Sequence[int] = range(len(tasks))
    while left:
        rows, size = (
            min(limit, _AT_ONCE * limit // len(left)) for limit in (tasks[0].max_rows, tasks[0].max_bytes)
        )
        shares = [replace(tasks[number], max_rows=rows, max_bytes=size) for number in left]
        found = run_in_workers(env, shares)
        if found is None:
            return None
        for number, result in zip(left, found, strict=True):
            results[number] = result
        again = [number for number in left if results[number] is None]
        if _AT_ONCE * len(again) >= len(left):  # then together they have more than one statement may have
            return None
        left = again
    return results
