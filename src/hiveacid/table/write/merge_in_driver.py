"""MERGE of a small source: the driver reads the matching target rows by Arrow, instead of a job that scans the target.

Spark computes the source once. The source's keys select the target rows that Arrow reads. Spark joins both and chooses
the clause for each row. If the source's keys are unique, Arrow also writes the changed rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
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
    ROUND_TRIP_TYPES,
    broadcast_rows,
    collect_as_arrow,
    collect_within_limit,
    computed_bytes,
    empty_frame,
    estimated_bytes,
    max_bytes_in_driver,
)
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.spark.session.bound_plans import last_part
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.arrow_assignments import columns_that_grow
from hiveacid.spark.write.merge_narrowing import can_narrow, equal_columns
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
# Subqueries, and functions and virtual columns about the scanned file or row, such as INPUT__FILE__NAME and ROW__ID.
_NEEDS_SCAN = re.compile("select|input_|block_|row__", re.IGNORECASE)

_Keys: TypeAlias = Sequence[tuple[str, Any]]
"""Columns of the target, each with the values that the source's rows compare it with, as an Arrow array."""


@dataclass(frozen=True)
class MatchingRows:
    """Target rows that the source may match, with the needed columns.

    ``input_rows``: number of these rows plus number of the source's rows. ``source_keys_unique``: no two rows of the source
    have the same key, so that a target row matches at most one.
    """

    target: DataFrame
    input_rows: int
    source_keys_unique: bool


def may_read_target_in_driver(
    context: Context, table: TableDefinition, plan: MergePlan, source: DataFrame
) -> bool:
    """Tell whether the source is small and the driver may read the target's columns that the statement needs.

    Only with a local master: on a cluster, a part of the computed source is lost with its executor, and Spark cannot compute it again.
    """
    try:
        return (
            context.facts.local
            and may_read_in_driver(context, table)
            and can_narrow(plan)
            and all(isinstance(one, str) and not _NEEDS_SCAN.search(one) for one in plan.expressions())
            and all(is_primitive(column.type, ROUND_TRIP_TYPES) for column in _needed_columns(table, plan))
            and estimated_bytes(source) <= _MAX_SOURCE_BYTES
        )
    except FALLBACK_ERRORS:
        return False


def _needed_columns(table: TableDefinition, plan: MergePlan) -> list[Column]:
    names = set(_target_names(plan))
    columns = table.all_columns
    return [column for column in columns if plan.keeps(column) or column.name in names]


def _target_names(plan: MergePlan) -> Iterator[str]:
    """Yield the names in the expressions that may be columns of the target: all except those after ``source.``."""
    for expression in plan.expressions():
        before = ("", "")
        for token in tokenize(str(expression)):
            name = token.name.lower()
            if token.is_name and before != (last_part(plan.source_name).lower(), "."):
                yield name
            before = (before[1], name)


def matching_rows(
    context: Context, table: TableDefinition, txn: Transaction, plan: MergePlan, source: DataFrame
) -> MatchingRows | None:
    """Return the target rows with a key of the source; None if a job has to scan the target.

    ``source``: a frame of `computed_once`; reading its keys computes it.
    """
    columns = _needed_columns(table, plan)
    empty = empty_frame(context.facts, columns)
    types = {column.name: column.type for column in columns}
    pairs = [
        p for p in equal_columns(plan, empty, source) if is_primitive(types.get(p.target, ""), _KEY_TYPES)
    ]
    if not pairs:
        return None
    frame = source.select(*[quote_name(pair.source) for pair in pairs]).limit(_MAX_ROWS + 1)
    values = collect_as_arrow(context.facts, frame)
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
    target = broadcast_rows(context.facts, columns, rows)
    return MatchingRows(target, rows.num_rows + values.num_rows, _are_unique(values))


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


def can_write_in_driver(context: Context, table: TableDefinition, source: DataFrame) -> bool:
    """Tell whether the driver can take the changed rows from Spark and write them. ``source`` is computed."""
    return can_write(table) and computed_bytes(context.facts, source) <= max_bytes_in_driver(context.facts)


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
            computed = collect_within_limit(context.facts, changed_rows_for_arrow(target, changes), texts)
        staged = None if computed is None else stage_computed_rows(context, computed, target, directory)
        return staged or by_spark(target, directory)

    return stage
