"""A MERGE of few rows, for which no job scans the target, and none writes the changed rows if keys are unique.

The source is computed once. Its keys select target rows, which Arrow reads in the driver. Spark joins them with the
source, and decides on matches and clauses; Arrow writes the changed rows.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
from pyspark.sql import DataFrame

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.types import is_primitive, parse_type, quote_name
from hiveacid.orc.stored_values import arrow_type
from hiveacid.spark.formats.driver_frames import (
    ROUND_TRIP_TYPES,
    broadcast_rows,
    computed_bytes,
    empty_frame,
    estimated_bytes,
)
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.spark.session.capabilities import ARROW_FRAMES
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.acid_events import StagingTarget, changed_rows_for_arrow
from hiveacid.spark.write.changed_rows import MergePlan
from hiveacid.spark.write.merge_narrowing import can_narrow, equal_columns
from hiveacid.spark.write.publish import StagedFile
from hiveacid.spark.write.task_reports import TaskReport
from hiveacid.table.arrow_read.scan import Selection, output_schema
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import Stage, can_write, stage_computed_rows
from hiveacid.table.write.driver_reads import (
    LEFT_TO_SPARK,
    may_read_in_driver,
    read_selected,
    snapshot_for_driver,
)
from hiveacid.transactions.transaction import Transaction

_MAX_ROWS = 300_000  # of the source, and of matching target rows
_MAX_SOURCE_BYTES = _MAX_COMPUTED_BYTES = 256 << 20  # estimated, and computed
_KEYS = frozenset({"int", "bigint", "decimal", "date", "string", "varchar"})
_NEEDS_SCAN = re.compile("select|input_|block_|row__", re.IGNORECASE)


@dataclass(frozen=True)
class MatchingRows:
    """Target rows that the source may match, with the needed columns.

    ``joined_rows``: of target and source. ``unique``: a target row matches one source row at most.
    """

    target: DataFrame
    joined_rows: int
    unique: bool


def may_filter_in_driver(
    context: Context, table: TableDefinition, plan: MergePlan, source: DataFrame
) -> bool:
    """Tell whether the driver may read the columns of the target that the statement needs, and the source is not large.

    Only with a local master: on a cluster an executor that is lost would take its part of the computed source along.
    """
    try:
        return (
            context.facts.local
            and context.facts.version >= ARROW_FRAMES
            and may_read_in_driver(context)
            and can_narrow(plan)
            and not any(_NEEDS_SCAN.search(str(expression)) for expression in plan.expressions())
            and all(is_primitive(column.type, ROUND_TRIP_TYPES) for column in _needed_columns(table, plan))
            and estimated_bytes(source) <= _MAX_SOURCE_BYTES
        )
    except LEFT_TO_SPARK:
        return False


def _needed_columns(table: TableDefinition, plan: MergePlan) -> list[Column]:
    names = set(_target_names(plan))
    columns = (*table.columns, *table.partition_columns)
    return [column for column in columns if plan.keeps(column) or column.name in names]


def _target_names(plan: MergePlan) -> Iterator[str]:
    """Yield the names in the expressions that may be those of the target's columns: all but ``source.name``."""
    for expression in plan.expressions():
        before = ("", "")
        for token in tokenize(str(expression)):
            name = token.name.lower()
            if token.is_name and before != ((plan.source_alias or "").lower(), "."):
                yield name
            before = (before[1], name)


def matching_rows(
    context: Context, table: TableDefinition, txn: Transaction, plan: MergePlan, source: DataFrame
) -> MatchingRows | None:
    """Return the target rows with a key of the source; None if a job has to scan the target.

    ``source``: computed by its first job.
    """
    columns = _needed_columns(table, plan)
    empty = empty_frame(context.facts, columns)
    types = {column.name: column.type for column in columns}
    pairs = [p for p in equal_columns(plan, empty, source) if is_primitive(types.get(p.target, ""), _KEYS)]
    if not pairs:
        return None
    keys: Any = source.select(*[quote_name(pair.source) for pair in pairs]).limit(_MAX_ROWS + 1)
    values = keys.toArrow()
    if values.num_rows > _MAX_ROWS:
        return None
    members = [
        ds.field(pair.target).isin(
            values.column(index).unique().drop_null().cast(arrow_type(parse_type(types[pair.target])))
        )
        for index, pair in enumerate(pairs)
    ]
    names = tuple(types)
    selection = Selection(
        names, reduce(and_, members), tuple(pair.target for pair in pairs), row_ids=True, changing=True
    )
    try:
        found = snapshot_for_driver(context, table, txn, selection.predicate)
        parts = None if found is None else read_selected(context, found[0], selection, _MAX_ROWS)
    except LEFT_TO_SPARK:
        return None
    if parts is None:
        return None
    rows = pa.concat_tables(
        [output_schema(table, names, row_ids=True).empty_table(), *(part.rows for part in parts)]
    )
    target = broadcast_rows(context.facts, columns, rows)
    return MatchingRows(target, rows.num_rows + values.num_rows, _are_unique(values))


def _are_unique(keys: Any) -> bool:
    """Tell whether no two rows of an Arrow table are equal, without those with a NULL, which match nothing."""
    names = [str(index) for index in range(keys.num_columns)]
    rows = keys.rename_columns(names).drop_null()
    return bool(rows.group_by(names).aggregate([]).num_rows == rows.num_rows)


def can_write_in_driver(context: Context, table: TableDefinition, source: DataFrame) -> bool:
    """Tell whether the driver can take the changed rows from Spark and write them; ``source``: computed by a job."""
    return can_write(table) and computed_bytes(context.facts, source) <= _MAX_COMPUTED_BYTES


def stage_in_driver(context: Context, changes: DataFrame, by_spark: Stage) -> Stage:
    """Return the stage that takes changed rows from Spark, and writes them by Arrow; no target row is there twice.

    ``by_spark``: writes the rows if Arrow cannot, or not into so many files.
    """

    def stage(target: StagingTarget, directory: str) -> tuple[list[StagedFile], TaskReport]:
        with translate_errors():
            frame: Any = changed_rows_for_arrow(target, changes)
            rows = frame.toArrow()
        return stage_computed_rows(context, rows, target, directory) or by_spark(target, directory)

    return stage
