"""MERGE whose clauses only copy columns of the source, joined by Arrow in the driver.

Most statements of this kind have one WHEN MATCHED and one WHEN NOT MATCHED, without conditions. Then nothing is left for Spark to
compute. If it joined the sides, it would take the rows of both from this process and return them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from hiveacid.core.format.acid_columns import ROW_ID_PARTS
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import is_primitive, parse_type
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.spark.formats.driver_frames import ROUND_TRIP_TYPES
from hiveacid.spark.formats.types import spark_type
from hiveacid.spark.session.jvm import scala_items
from hiveacid.spark.write.sort_and_stage import ACTION, Action, StagingTarget
from hiveacid.spark.write.staged_files import BUCKET
from hiveacid.spark.write.update_delete_merge_rows import EqualColumns, MatchKind, MergePlan
from hiveacid.table.arrow_read.record_batches import ROW_ID_TYPE
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import Changes, StagedOutput, stage_computed_rows

_COPIED_TYPES = ROUND_TRIP_TYPES - {"varchar"}  # char and varchar columns cut the values that they get
Keys: TypeAlias = Sequence[tuple[str, pa.ChunkedArray]]
"""Columns of the target, each with the values that the source's rows compare it with, as an Arrow array."""


@dataclass(frozen=True)
class CopyingClause:
    """A clause for all joined rows of a kind. ``columns``: by column of the target, the number of the source's column it is set to."""

    action: Action
    columns: Mapping[str, int]


CopyingClauses: TypeAlias = Mapping[MatchKind, CopyingClause]


def copying_clauses(
    plan: MergePlan,
    source: DataFrame,
    pairs: Sequence[EqualColumns],
    join: JavaObject,
    expressions: Sequence[JavaObject],
) -> CopyingClauses | None:
    """Return the clauses of a MERGE that only copies columns, into a table of one directory; None for any other.

    ``pairs``: of the analysed ``join``. ``expressions``: those of the plan, analysed.
    """
    table = plan.table
    if (
        table.partition_columns
        or table.bucketing is not None
        or not all(is_primitive(column.type, _COPIED_TYPES) for column in table.columns)
        or any(clause.condition is not None for clause in plan.clauses)
        or len(expressions) != sum(1 for _ in plan.expressions())
        or len([*_conjuncts(join.condition().get())]) != len(pairs)
    ):
        return None
    types = {column.name: spark_type(parse_type(column.type)).simpleString() for column in table.columns}
    own = [field.dataType.simpleString() for field in source.schema.fields]
    if not {name.partition("(")[0] for name in own} <= ROUND_TRIP_TYPES:
        return None
    numbers = {
        int(column.exprId().id()): number
        for number, column in zip(range(len(own)), scala_items(join.right().output()), strict=False)
    }
    remaining = iter(expressions[1:])  # without ON
    clauses = {}
    for clause in plan.clauses:
        columns = {}
        for name, value in zip(clause.values or {}, remaining, strict=False):
            is_column = str(value.nodeName()) == "AttributeReference"
            number = numbers.get(int(value.exprId().id())) if is_column else None
            if number is None or own[number] != types[name]:
                return None
            columns[name] = number
        clauses[clause.when] = CopyingClause(clause.action, columns)
    return clauses


def _conjuncts(condition: JavaObject) -> Iterator[JavaObject]:
    if condition.nodeName() == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def copied_rows(
    table: TableDefinition, clauses: CopyingClauses, target: pa.Table, source: pa.Table, keys: Keys
) -> pa.Table:
    """Return the changed rows in the columns of `changed_rows_for_arrow`.

    ``target``: rows with ``ROW__ID``, the columns of ``keys``, and those that an UPDATE does not set. ``source``: all columns; no two
    rows have the same keys. A NULL equals nothing.
    """
    names = [f"key{number}" for number in range(len(keys))]
    left = pa.table([*(target.column(name) for name, _ in keys), _numbers(target)], [*names, "target"])
    right = pa.table([*(values for _, values in keys), _numbers(source)], [*names, "source"])
    pairs = left.join(right, names, join_type="inner").sort_by("target")
    parts = []
    if MatchKind.MATCHED in clauses:
        old, new = target.take(pairs.column("target")), source.take(pairs.column("source"))
        parts.append(_changed_rows(table, clauses[MatchKind.MATCHED], old, new))
    if MatchKind.SOURCE_ONLY in clauses:
        matched = pc.is_in(right.column("source"), pairs.column("source").combine_chunks())
        new = source.filter(pc.invert(matched))
        parts.append(_changed_rows(table, clauses[MatchKind.SOURCE_ONLY], None, new))
    return pa.concat_tables(parts)


def _numbers(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(rows.num_rows))


def _changed_rows(
    table: TableDefinition, clause: CopyingClause, old: pa.Table | None, new: pa.Table
) -> pa.Table:
    """Return rows with what a clause makes of them. ``old``: the target's rows, as many as ``new``, the source's; None if there are none."""
    count = new.num_rows
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        ACTION: pa.repeat(pa.scalar(int(clause.action), pa.int32()), count)
    }
    ids = pa.nulls(count, ROW_ID_TYPE) if old is None else old.column(ROW_ID).combine_chunks()
    columns |= zip(ROW_ID_PARTS, ids.flatten(), strict=True)
    for index, field in enumerate(arrow_schema(table.columns)):
        number = clause.columns.get(field.name)
        if number is not None:
            values = new.column(number)
        elif old is not None and clause.action is Action.UPDATE:
            values = old.column(field.name)
        else:
            values = pa.nulls(count, field.type)
        columns[staged_column(index)] = values.cast(field.type)
    columns[BUCKET] = pa.repeat(pa.scalar(0, pa.int32()), count)
    return pa.table(columns)


@dataclass(frozen=True)
class CopiedRows:
    """Changed rows of `copied_rows`. ``otherwise``: returns the changes as Spark joins them, if Arrow cannot write a value."""

    rows: pa.Table
    otherwise: Callable[[], Changes]

    def stage(self, context: Context, target: StagingTarget, directory: str) -> StagedOutput:
        """Write them."""
        staged = stage_computed_rows(context, self.rows, target, directory)
        return staged or self.otherwise().stage(context, target, directory)
