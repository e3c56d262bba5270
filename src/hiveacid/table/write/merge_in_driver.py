"""Target rows of a MERGE that the driver reads by Arrow, instead of a job that scans the target, for a small source.

Spark computes the source once. Its keys select the target rows that Arrow reads. Spark joins both and chooses the clause for each
row (`merge`), or Arrow does (`merge_of_copies`). If the source's keys are unique, Arrow also writes the changed rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from hiveacid.core.format.names import staged_column
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.read_costs import ReadBy
from hiveacid.core.schema.types import is_primitive, parse_type, quote_name
from hiveacid.orc.stored_values import arrow_type
from hiveacid.spark.formats.driver_frames import (
    collect_as_arrow,
    collect_rows,
    collect_within_limit,
    computed_bytes,
    computed_once,
    estimated_bytes,
    frame_of_collected,
    max_bytes_in_driver,
)
from hiveacid.spark.formats.expressions import selected
from hiveacid.spark.predicates.column_conditions import empty_rows
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.error_translation import is_failed_job, translate_errors
from hiveacid.spark.session.jvm import scala_items
from hiveacid.spark.write.changes_of_arrow_rows import (
    columns_that_grow,
    columns_used,
    passed_columns,
    together,
)
from hiveacid.spark.write.sort_and_stage import StagingTarget, changed_rows_for_arrow
from hiveacid.spark.write.update_delete_merge_rows import EqualColumns, MergePlan, can_narrow, equal_columns
from hiveacid.table.arrow_read.record_batches import Selection
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import StagedOutput, stage_computed_rows
from hiveacid.table.write.driver_reads import (
    FALLBACK_ERRORS,
    SelectedRows,
    list_for_driver,
    may_read_in_driver,
    read_selected,
    with_partition_keys,
)
from hiveacid.table.write.merge_of_copies import CopyingClauses, Keys, copying_clauses
from hiveacid.table.write.update_delete import ChangesByJob
from hiveacid.transactions.transaction import Transaction

_MAX_ROWS = 2_000_000  # of the source, and of matching target rows
_MAX_SOURCE_BYTES = 256 << 20  # Spark's estimate for the source
_KEY_TYPES = frozenset({"int", "bigint", "decimal", "date", "string", "varchar"})


@dataclass(frozen=True)
class TargetRead:
    """Columns of the target that a MERGE needs, and pairs of columns that are equal in every match.

    ``copied``: clauses that Arrow can carry out alone.
    """

    columns: Sequence[Column]
    pairs: Sequence[EqualColumns]
    copied: CopyingClauses | None

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the columns."""
        return tuple(column.name for column in self.columns)


def target_read(
    context: Context, table: TableDefinition, plan: MergePlan, source: DataFrame
) -> TargetRead | None:
    """Return how the driver reads the target; None if a job has to scan it."""
    env = context.env
    try:
        if not may_read_in_driver(context, table) or not can_narrow(plan):
            return None
        if estimated_bytes(source) > (_MAX_SOURCE_BYTES if env.local else max_bytes_in_driver(env)):
            return None
        with translate_errors():
            joined = plan.joined(empty_rows(env, table), source)
            join = plan_of(joined)
            if join.nodeName() != "Join":  # a function of SQL makes further plans
                return None
            values = plan_of(selected(joined, [together(plan.expressions())]))
            names = columns_used(env, values, join.left(), "Join")
        kept = {column.name for column in table.all_columns if plan.keeps(column)}
        columns = passed_columns(table, names | kept)
    except FALLBACK_ERRORS:
        return None
    types = {column.name: column.type for column in columns}
    pairs = [p for p in equal_columns(join, source) if is_primitive(types[p.target], _KEY_TYPES)]
    if not pairs:
        return None
    with translate_errors():
        together_values = values.expressions().head().child()
        expressions = [*scala_items(together_values.valExprs())]
        return TargetRead(columns, pairs, copying_clauses(plan, source, pairs, join, expressions))


def computed_source(
    context: Context, read: TargetRead, source: DataFrame
) -> tuple[TargetRead, ComputedSource | None]:
    """Return a source that is computed with the values that clauses take from it alone, if that raises no error.

    A row that no clause uses may have no such value: 1 / s.n where n is 0. Then Spark computes the values behind the join.
    """
    try:
        return read, ComputedSource.of(context, read, source)
    except Exception as error:
        if read.copied is None or not read.copied.values or not is_failed_job(error.__cause__ or error):
            raise
    read = replace(read, copied=None)
    return read, ComputedSource.of(context, read, source)


@dataclass(frozen=True)
class ComputedSource:
    """A source that is not computed again.

    ``keys``: an Arrow table of the columns in `TargetRead.pairs`; of too many rows, the first. ``small``: the JVM can pass its
    rows to this process and back. ``frame``, ``rows``: return its rows, the latter as an Arrow table if it is small, with a
    further column for each of `CopyingClauses.values`.
    """

    keys: pa.Table
    small: bool
    frame: Callable[[], DataFrame]
    rows: Callable[[], pa.Table]

    def has_null_matches(self, read: TargetRead) -> bool:
        """Tell whether a NULL among its keys matches NULLs of the target, which selections by keys and Arrow's join do not find."""
        columns = zip(read.pairs, self.keys.columns, strict=True)
        return any(pair.null_safe and values.null_count for pair, values in columns)

    @classmethod
    def of(cls, context: Context, read: TargetRead, source: DataFrame) -> ComputedSource | None:
        """Compute a source; None if it cannot be kept.

        With a local master the JVM keeps it. On a cluster an executor would keep a part, and Spark cannot compute a lost part
        again; so the rows come to this process, if they are few.
        """
        env, names = context.env, [pair.source for pair in read.pairs]
        copied = read.copied or CopyingClauses({})
        with translate_errors():
            valued = copied.with_values(env, source)
            if not env.local:
                rows = collect_rows(env, valued, _MAX_ROWS)
                if rows is None:
                    return None
                own = rows.select(range(len(source.columns)))
                return cls(
                    columns_named(own, names),
                    True,  # noqa: FBT003
                    partial(frame_of_collected, env, source, own),
                    lambda: rows,
                )
            frame = computed_once(valued)
            keys = collect_as_arrow(frame.select(*map(quote_name, names)).limit(_MAX_ROWS + 1))
            small = computed_bytes(env, frame) <= max_bytes_in_driver(env)
            return cls(keys, small, partial(copied.without_values, frame), partial(collect_as_arrow, frame))


def columns_named(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return columns of an Arrow table in the order of their names, whose case does not matter."""
    columns = [column.lower() for column in rows.column_names]
    return rows.select([columns.index(name.lower()) for name in names])


def keys_of(table: TableDefinition, read: TargetRead, keys: pa.Table) -> Keys:
    """Return the columns of `ComputedSource.keys` by column of the target, of that column's type."""
    types = {column.name: arrow_type(parse_type(column.type)) for column in table.all_columns}
    columns = zip(read.pairs, keys.columns, strict=True)
    return [(pair.target, values.cast(types[pair.target])) for pair, values in columns]


def matching_rows(
    context: Context, table: TableDefinition, txn: Transaction, read: TargetRead, source: ComputedSource
) -> pa.Table | None:
    """Return the target rows that have one of the source's keys, as an Arrow table; None if a job has to scan the target.

    Behind ``ROW__ID`` and the columns of ``read`` come the `partition_key` columns.
    """
    names = read.names
    if source.keys.num_rows > _MAX_ROWS:
        return None
    selection = Selection(names, row_ids=True, for_change=True)
    try:
        parts = _read_matching(context, table, txn, selection, keys_of(table, read, source.keys))
    except FALLBACK_ERRORS:
        return None
    if parts is None:
        return None
    return with_partition_keys(table, names, parts)


def _read_matching(
    context: Context, table: TableDefinition, txn: Transaction, selection: Selection, keys: Keys
) -> list[SelectedRows] | None:
    """Return the target rows that have a key of the source; None if a job has to scan the target."""
    listed = list_for_driver(context, table, txn, _with_keys(selection, keys).predicate)
    if listed is None:
        return None
    names = table.partition_column_names
    selections = [
        (files, _with_keys(selection, keys_in_partition(keys, dict(zip(names, files.values, strict=True)))))
        for files in listed.snapshot.partitions
    ]
    if listed.choose_reader(context, selections, _MAX_ROWS, count=False) is not ReadBy.DRIVER:
        return None
    return read_selected(context, listed.snapshot, selections, _MAX_ROWS)


def _with_keys(selection: Selection, keys: Keys) -> Selection:
    """Return the selection of rows whose columns have a value among the source's. No keys select all rows."""
    members = [ds.field(name).isin(values.unique().drop_null()) for name, values in keys]
    names = tuple(name for name, _ in keys)
    return replace(selection, predicate=reduce(and_, members) if members else None, filter_columns=names)


def keys_in_partition(keys: Keys, partition: Mapping[str, pa.Scalar]) -> Keys:
    """Keep the keys of the source rows that can match rows of a partition, and drop the partition columns from them.

    Arrow hashes all keys anew for each stripe. With the keys of one partition that takes a fraction of the time.
    ``partition``: an Arrow scalar for each partition column.
    """
    in_partition = None
    for name, values in keys:
        if name in partition:
            equal = pc.equal(values, partition[name])
            in_partition = equal if in_partition is None else pc.and_(in_partition, equal)
    stored_keys = [(name, values) for name, values in keys if name not in partition]
    if in_partition is None:
        return stored_keys
    return [(name, values.filter(in_partition)) for name, values in stored_keys]


def are_unique(keys: pa.Table) -> bool:
    """Tell whether no two rows of an Arrow table are equal. Rows with a NULL do not count: they match nothing."""
    names = [str(index) for index in range(keys.num_columns)]
    rows = keys.rename_columns(names).drop_null()
    return bool(rows.group_by(names).aggregate([]).num_rows == rows.num_rows)


@dataclass(frozen=True)
class ChangesInDriver:
    """Changed rows that Spark computes and Arrow writes: at most ``rows``, one at most for each target row.

    ``by_job``: the job that writes them if they take too much memory or `stage_computed_rows` cannot.
    """

    plan: MergePlan
    rows: int
    by_job: ChangesByJob

    def stage(self, context: Context, target: StagingTarget, directory: str) -> StagedOutput:
        """Take the rows from Spark and write them."""
        columns = self.plan.table.columns
        clauses = [clause.values or {} for clause in self.plan.clauses]
        grown = columns_that_grow(self.plan.table, clauses, self.rows)
        texts = [staged_column(columns.index(column)) for column in grown]
        with translate_errors():
            changed = changed_rows_for_arrow(target, self.by_job.rows)
            computed = collect_within_limit(context.env, changed, texts)
        staged = None if computed is None else stage_computed_rows(context, computed, target, directory)
        return staged or self.by_job.stage(context, target, directory)
