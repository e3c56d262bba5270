"""MERGE of a small source: the driver reads the matching target rows by Arrow, instead of a job that scans the target.

Spark computes the source once. The source's keys select the target rows that Arrow reads. Spark joins both and chooses
the clause for each row. If the source's keys are unique, Arrow also writes the changed rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from hiveacid.core.format.names import staged_column
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.types import is_primitive, parse_type, quote_name
from hiveacid.orc.stored_values import arrow_type
from hiveacid.spark.formats.driver_frames import (
    broadcast_rows,
    collect_as_arrow,
    collect_within_limit,
    computed_bytes,
    estimated_bytes,
    max_bytes_in_driver,
)
from hiveacid.spark.formats.expressions import selected
from hiveacid.spark.predicates.column_conditions import empty_rows
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.changes_of_arrow_rows import (
    columns_that_grow,
    columns_used,
    passed_columns,
    together,
)
from hiveacid.spark.write.merge_narrowing import EqualColumns, can_narrow, equal_columns
from hiveacid.spark.write.sort_and_stage import StagingTarget, changed_rows_for_arrow
from hiveacid.spark.write.update_delete_merge_rows import MergePlan
from hiveacid.table.arrow_read.scan import Selection, output_schema
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import StagedOutput, StageFiles, can_write, stage_computed_rows
from hiveacid.table.write.driver_reads import (
    FALLBACK_ERRORS,
    SelectedRows,
    may_read_in_driver,
    read_selected,
    snapshot_for_driver,
)
from hiveacid.transactions.transaction import Transaction

_MAX_ROWS = 2_000_000  # of the source, and of matching target rows
_MAX_SOURCE_BYTES = 256 << 20  # Spark's estimate for the source
_KEY_TYPES = frozenset({"int", "bigint", "decimal", "date", "string", "varchar"})

_Keys: TypeAlias = Sequence[tuple[str, Any]]
"""Columns of the target, each with the values that the source's rows compare it with, as an Arrow array."""


@dataclass(frozen=True)
class Sides:
    """Target and source of the join.

    ``rows``: their number if the driver has read them, else None. ``in_driver``: the driver also writes the changed rows.
    """

    target: DataFrame
    source: DataFrame
    rows: int | None = None
    in_driver: bool = False


@dataclass(frozen=True)
class TargetRead:
    """Columns of the target that a MERGE needs, and pairs of columns that are equal in every match."""

    columns: Sequence[Column]
    pairs: Sequence[EqualColumns]


def target_read(
    context: Context, table: TableDefinition, plan: MergePlan, source: DataFrame
) -> TargetRead | None:
    """Return how the driver reads the target; None if a job has to scan it.

    Only with a local master: on a cluster, a part of the computed source is lost with its executor, and Spark cannot compute it again.
    """
    env = context.env
    try:
        if not env.local or not may_read_in_driver(context, table) or not can_narrow(plan):
            return None
        if estimated_bytes(source) > _MAX_SOURCE_BYTES:
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
    return TargetRead(columns, pairs) if pairs else None


def matching_rows(
    context: Context, table: TableDefinition, txn: Transaction, read: TargetRead, source: DataFrame
) -> Sides | None:
    """Return the source and the target rows that have one of its keys; None if a job has to scan the target.

    ``source``: a frame of `computed_once`; reading its keys computes it. Changed rows are written in the driver if each target
    row matches at most one row of the source, and the JVM can pass them.
    """
    pairs, types = read.pairs, {column.name: column.type for column in read.columns}
    frame = source.select(*[quote_name(pair.source) for pair in pairs]).limit(_MAX_ROWS + 1)
    values = collect_as_arrow(context.env, frame)
    if values.num_rows > _MAX_ROWS:
        return None
    names = tuple(types)
    keys = [
        (pair.target, values.column(index).cast(arrow_type(parse_type(types[pair.target]))))
        for index, pair in enumerate(pairs)
    ]
    try:
        parts = _read_matching(context, table, txn, Selection(names, row_ids=True, for_change=True), keys)
    except FALLBACK_ERRORS:
        return None
    if parts is None:
        return None
    rows = pa.concat_tables(
        [output_schema(table, names, row_ids=True).empty_table(), *(part.rows for part in parts)]
    )
    target = broadcast_rows(context.env, read.columns, rows)
    small = computed_bytes(context.env, source) <= max_bytes_in_driver(context.env)
    in_driver = _are_unique(values) and can_write(table) and small
    return Sides(target, source, rows.num_rows + values.num_rows, in_driver)


def _read_matching(
    context: Context, table: TableDefinition, txn: Transaction, selection: Selection, keys: _Keys
) -> list[SelectedRows] | None:
    """Return the target rows that have a key of the source; None if a job has to scan the target."""
    listed = snapshot_for_driver(context, table, txn, _with_keys(selection, keys).predicate)
    if listed is None:
        return None
    snapshot, _ = listed
    names = table.partition_column_names
    selections = (
        (files, _with_keys(selection, keys_in_partition(keys, dict(zip(names, files.values, strict=True)))))
        for files in snapshot.partitions
    )
    return read_selected(context, snapshot, selections, _MAX_ROWS)


def _with_keys(selection: Selection, keys: _Keys) -> Selection:
    """Return the selection of rows whose columns have a value among the source's. No keys select all rows."""
    members = [ds.field(name).isin(values.unique().drop_null()) for name, values in keys]
    names = tuple(name for name, _ in keys)
    return replace(selection, predicate=reduce(and_, members) if members else None, filter_columns=names)


def keys_in_partition(keys: _Keys, partition: Mapping[str, Any]) -> _Keys:
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


def _are_unique(keys: Any) -> bool:
    """Tell whether no two rows of an Arrow table are equal. Rows with a NULL do not count: they match nothing."""
    names = [str(index) for index in range(keys.num_columns)]
    rows = keys.rename_columns(names).drop_null()
    return bool(rows.group_by(names).aggregate([]).num_rows == rows.num_rows)


def stage_in_driver(
    context: Context, plan: MergePlan, changes: DataFrame, rows: int, by_spark: StageFiles
) -> StageFiles:
    """Return the stage that takes changed rows from Spark and writes them by Arrow.

    ``changes``: one row at most for each target row, together at most ``rows``. ``by_spark``: the stage if they take too much
    memory or `stage_computed_rows` returns None.
    """
    columns = plan.table.columns
    grown = columns_that_grow(plan.table, [clause.values or {} for clause in plan.clauses], rows)
    texts = [staged_column(columns.index(column)) for column in grown]

    def stage(target: StagingTarget, directory: str) -> StagedOutput:
        with translate_errors():
            computed = collect_within_limit(context.env, changed_rows_for_arrow(target, changes), texts)
        staged = None if computed is None else stage_computed_rows(context, computed, target, directory)
        return staged or by_spark(target, directory)

    return stage
