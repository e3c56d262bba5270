"""Rows that UPDATE, DELETE and MERGE change, read by Arrow instead of a Spark job, if they are few.

The driver reads them, or tasks in Python on executors where a table is too large for it. The tasks run the same reader
(`table.arrow_read`) over parts of files. They only read, and the driver writes the events: repeated and speculative
attempts leave nothing behind.
"""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaObject

from hiveacid.config import setting_definitions
from hiveacid.core.model import Partition, TableDefinition, partition_value_shown
from hiveacid.core.predicates import UNDECIDED, AllOf, Comparison, Operator, Predicate
from hiveacid.core.read_costs import ReadBy, Readers, ReadSize
from hiveacid.errors import BadFileError, CatalogError, StatementError, UnsupportedFeatureError
from hiveacid.spark.formats.driver_frames import Members, max_bytes_in_driver, members_of
from hiveacid.spark.predicates.column_conditions import predicate_of, require_char_padding
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import is_failed_job
from hiveacid.spark.session.python_workers import run_in_workers
from hiveacid.spark.write.sort_and_stage import partition_key
from hiveacid.storage.file_system_routing import OpenedBefore
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.files_to_open import (
    PartitionFiles,
    Snapshot,
    possible_partitions,
    take_snapshot,
)
from hiveacid.table.arrow_read.filters import ALWAYS, arrow_filter, is_exact
from hiveacid.table.arrow_read.orc_file import OrcReader
from hiveacid.table.arrow_read.record_batches import (
    AtOnce,
    PartitionReader,
    RowBudget,
    Selection,
    map_in_order,
    output_schema,
    read_batches,
    reading_threads,
)
from hiveacid.table.arrow_read.row_tasks import Refusal, Result, RowTask, divide_files
from hiveacid.table.context import Context
from hiveacid.table.partitions import PartitionValues, partitions_of, require_changeable
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

_MAX_FILES = 500
# With a local master and local files, jobs have no more processors. They take 35 ms to change the rows of a partition,
# the driver takes 15.
_MAX_FILES_WITH_LOCAL_MASTER = 20_000
_MAX_ROWS = 1_000_000  # that an UPDATE or DELETE may select
_MAX_JUDGED_ROWS = 100_000  # that Spark judges about as fast as it would scan them
_MAX_FILES_ON_EXECUTORS = 20_000
_MAX_EVENT_BYTES = 64 << 20  # each task reads all delete events of its partitions
_TASKS_OF_A_CORE = 2
_AT_ONCE = 4  # times the limits of a statement: what may come from tasks to the driver's JVM at the same time
_MAX_FOOTERS = 500  # that are read to know what a condition's columns take
_ALL_ROWS = AllOf(())
FALLBACK_ERRORS = (StatementError, CatalogError, UnsupportedFeatureError, BadFileError, pa.ArrowException)
"""Errors after which the statement runs as a Spark job, which succeeds or raises a more precise error."""


@dataclass(frozen=True)
class SelectedRows:
    """Selected rows of one partition. ``rows``: of ``ROW__ID`` and the columns that were asked for."""

    partition: PartitionValues
    rows: pa.Table


@dataclass(frozen=True)
class AnalysedCondition:
    """A condition that Spark has analysed, as predicates for Arrow; without one, all rows are selected.

    ``predicate``: true for at least the selected rows. ``exact``: for no others, after `with_members`. ``members``: of its
    subqueries; ``exact_predicate`` puts their values into the predicate.
    """

    predicate: Predicate = _ALL_ROWS
    exact: bool = True
    members: Sequence[Members] = ()
    exact_predicate: Callable[[Iterable[Predicate]], Predicate] | None = None

    @classmethod
    def of(cls, env: SparkEnvironment, table: TableDefinition, plan: JavaObject) -> AnalysedCondition:
        """Return the condition in a plan of `condition_rows`."""
        members: list[Members] = []

        def computed_later(node: JavaObject) -> Predicate:
            found = members_of(env, node)
            members.extend([] if found is None else [found])
            return UNDECIDED if found is None else Comparison(found.column, Operator.IN)

        predicate = predicate_of(table, plan, computed_later)
        exact = is_exact(predicate, table.all_columns)
        if not members:
            return cls(predicate, exact)

        def put(values: Iterable[Predicate]) -> Predicate:
            remaining = iter(values)
            return predicate_of(table, plan, lambda _: next(remaining))

        return cls(predicate_of(table, plan), exact, members, put)

    def with_members(self) -> Predicate:
        """Compute the members of subqueries, and return the exact predicate."""
        if self.exact_predicate is None or not self.exact:
            return self.predicate
        return self.exact_predicate([members.predicate() for members in self.members])


def select_rows(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    condition: AnalysedCondition,
    columns: tuple[str, ...],
) -> list[SelectedRows] | None:
    """Return the rows that a condition may select; None if a job reads them sooner, or they are too many for the driver.

    The driver or tasks on executors read them. ``columns``: to read besides ``ROW__ID``. Raises an error of `FALLBACK_ERRORS`.
    """
    selection = Selection(columns, row_ids=True, for_change=True)
    listed = list_for_driver(
        context, table, txn, arrow_filter(table.all_columns, condition.predicate).predicate
    )
    if listed is None:
        return None
    found = arrow_filter(table.all_columns, condition.with_members())
    selection = replace(selection, predicate=found.predicate, filter_columns=found.columns)
    max_rows = _MAX_ROWS if condition.exact else _MAX_JUDGED_ROWS
    selections = [(files, selection) for files in listed.snapshot.partitions]
    # Reading all columns of a large table only to find too many rows would take long: count them first.
    is_large = listed.whole.bytes > listed.readers.max_bytes
    match listed.choose_reader(context, selections, max_rows, count=is_large):
        case ReadBy.DRIVER:
            return read_selected(context, listed.snapshot, selections, max_rows)
        case ReadBy.EXECUTORS:
            batches = read_on_executors(context, listed.snapshot, selection, max_rows)
            partitions = listed.snapshot.partitions
            if batches is not None:
                return [_selected_rows(partitions[number], batches[number]) for number in batches]
    return None


def may_read_in_driver(context: Context, table: TableDefinition | None = None) -> bool:
    """Tell whether the settings allow reads in the driver; ``table``: whose rows conditions select.

    Raises UnsupportedFeatureError as `require_plain_names` and `require_char_padding`.
    """
    context.env.require_plain_names()
    if table is not None:
        require_char_padding(context.env.spark, table)
    allowed = context.settings.get(setting_definitions.SMALL_CHANGES) and _wanted(context) != ReadBy.JOB
    return bool(allowed) and not context.env.case_sensitive


def _wanted(context: Context) -> str:
    return context.settings.get(setting_definitions.CHANGES_BY)


@dataclass(frozen=True)
class FilesForDriver:
    """Files that the driver or executors may read, ``whole``: with all their bytes, and who may read them.

    ``at_once``: what the driver reads at the same time.
    """

    snapshot: Snapshot
    whole: ReadSize
    readers: Readers
    at_once: AtOnce

    def choose_reader(
        self,
        context: Context,
        selections: Sequence[tuple[PartitionFiles, Selection]],
        max_rows: int,
        *,
        count: bool,
    ) -> ReadBy:
        """Return who reads the selected rows in the least time: a job, if they are more than ``max_rows``.

        ``selections``: as in `read_selected`. ``count``: ask for the number of rows even if the files are small enough.
        Otherwise their footers tell what the columns of the filter take. The driver reads these, and then knows which
        stripes it needs the other columns of.
        """
        if _wanted(context) == ReadBy.EXECUTORS:
            return self.readers.others
        fits = self.readers.choose(self.whole) is ReadBy.DRIVER
        if not fits and not self._choose_driver(_bytes_of_filters(context, self, selections)):
            return self.readers.others
        rows = size = 0
        at_once = self.at_once.partitions
        asked = selections if count or not fits else ()

        def counted(files: PartitionFiles, selection: Selection) -> Iterable[tuple[int, int]]:
            found = self._selected_stripes(context, files, selection)
            return found if at_once == 1 else [*found]

        for stripes in map_in_order(counted, asked, at_once):
            for number, others in stripes:
                rows, size = rows + number, size + others
                if rows > max_rows:
                    return ReadBy.JOB
                if not (fits or self._choose_driver(size)):
                    return self.readers.others
        return ReadBy.DRIVER

    def _selected_stripes(
        self, context: Context, files: PartitionFiles, selection: Selection
    ) -> Iterator[tuple[int, int]]:
        """Yield the number of selected rows of each stripe, and how many bytes of further columns have to be read for them."""
        others = set(selection.columns).difference(selection.filter_columns)
        counted = replace(selection, columns=(), row_ids=False)
        reader = PartitionReader(context.fs, self.snapshot, files, counted, self.at_once.stripes)
        for file, stripe, batch in reader.batches_of_stripes() if others else ():
            yield batch.num_rows, _share(file, [stripe], others)

    def _choose_driver(self, size: int | None) -> bool:
        return size is not None and self.readers.choose(replace(self.whole, bytes=size)) is ReadBy.DRIVER


def _bytes_of_filters(
    context: Context, listed: FilesForDriver, selections: Sequence[tuple[PartitionFiles, Selection]]
) -> int | None:
    """Return about how many bytes of the filters' columns and of delete events have to be read; None if that is not known."""
    if listed.whole.files > _MAX_FOOTERS:
        return None

    def bytes_of(files: PartitionFiles, selection: Selection) -> int:
        reader = PartitionReader(context.fs, listed.snapshot, files, selection)
        shares = (
            _share(file, reader.stripes(file), selection.filter_columns) for file in reader.open_readers()
        )
        return sum(shares, sum(file.length for file in files.events))

    return sum(map_in_order(bytes_of, selections, listed.at_once.partitions))


def _share(file: OrcReader, stripes: Iterable[int], columns: Iterable[str]) -> int:
    """Return about how many bytes some stripes of a file have of some columns."""
    rows = sum(file.tail.stripes[stripe].rows for stripe in stripes)
    return file.bytes_to_read(columns) * rows // file.tail.number_of_rows


def list_for_driver(
    context: Context, table: TableDefinition, txn: Transaction, predicate: pc.Expression | None
) -> FilesForDriver | None:
    """Return the files to read for a filter; None if they are too many for the driver and for tasks on executors.

    Raises UnsupportedFeatureError as `require_changeable`.
    """
    partitions: Sequence[Partition] | None = partitions_of(context, table, txn)
    all_local = context.env.local and is_local(table.location)
    max_files = _MAX_FILES_WITH_LOCAL_MASTER if all_local else _MAX_FILES
    executors = _may_executors_read(context, table)
    most = max(max_files, _MAX_FILES_ON_EXECUTORS) if executors else max_files
    if partitions is not None:
        partitions = possible_partitions(table, partitions, predicate)
        if len(partitions) > most:  # most have a file, and listing them would take time
            return None
    snapshot = take_snapshot(context, table, txn, partitions=partitions)
    require_changeable(context, table, (part.partition for part in snapshot.partitions))
    lengths = [file.length for part in snapshot.partitions for file in (*part.rows, *part.events)]
    if len(lengths) > most:
        return None
    events = sum(file.length for part in snapshot.partitions for file in part.events)
    max_bytes = context.settings.get(setting_definitions.SMALL_CHANGES)
    alone = context.env.local or _wanted(context) == ReadBy.DRIVER
    cores = 0 if alone else context.env.spark.sparkContext.defaultParallelism
    executors = executors and events <= _MAX_EVENT_BYTES
    at_once = AtOnce.of(snapshot)
    readers = Readers(max_files, max_bytes, reading_threads(), cores, executors, at_once.remote_files)
    return FilesForDriver(snapshot, ReadSize(len(lengths), sum(lengths)), readers, at_once)


def _may_executors_read(context: Context, table: TableDefinition) -> bool:
    """Tell whether tasks in Python may read a table, as far as is known of the executors."""
    wanted, python = _wanted(context), context.env.executor_python
    allowed = wanted == ReadBy.EXECUTORS or (wanted == "auto" and not context.env.local)
    if not allowed or python.usable is False:
        return False
    opener = OpenedBefore.of(context.fs, [table.location])
    return opener is not None and python.without_access.isdisjoint(opener.opened)


def read_selected(
    context: Context,
    snapshot: Snapshot,
    selections: Sequence[tuple[PartitionFiles, Selection]],
    max_rows: int,
) -> list[SelectedRows] | None:
    """Return the selected rows by partition; None if they are more than ``max_rows`` or take more than `max_bytes_in_driver`.

    ``selections``: partitions of the snapshot, each with the rows to select there.
    """
    budget, at_once = RowBudget(max_rows, max_bytes_in_driver(context.env)), AtOnce.of(snapshot)

    def read(files: PartitionFiles, selection: Selection) -> list[pa.RecordBatch] | None:
        part = replace(snapshot, partitions=(files,))
        return budget.take(read_batches(context, part, selection, at_once.stripes))

    selected = []
    for (files, _), batches in zip(
        selections, map_in_order(read, selections, at_once.partitions), strict=True
    ):
        if batches is None:
            return None
        if batches:
            selected.append(_selected_rows(files, batches))
    return selected


def with_partition_keys(
    table: TableDefinition, columns: Sequence[str], parts: Sequence[SelectedRows]
) -> pa.Table:
    """Return the rows of all partitions: ``ROW__ID``, ``columns``, and the `partition_key` of each partition column."""
    keys = [pa.field(partition_key(index), pa.string()) for index in range(len(table.partition_columns))]
    schema = pa.schema([*output_schema(table, columns, row_ids=True), *keys])
    rows = [schema.empty_table()]
    for part in parts:
        texts = map(partition_value_shown, part.partition)
        repeated = [pa.repeat(pa.scalar(text, pa.string()), part.rows.num_rows) for text in texts]
        rows.append(pa.table([*part.rows.columns, *repeated], schema=schema))
    return pa.concat_tables(rows)


def _selected_rows(files: PartitionFiles, batches: Sequence[pa.RecordBatch]) -> SelectedRows:
    partition = () if files.partition is None else files.partition.values
    return SelectedRows(partition, pa.Table.from_batches(batches))


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

    All rows that come at once have to find room in the driver's JVM. So each task may return its share only. Those that
    have found more, as where the selected rows are neighbours, run again with a larger one.
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
