"""MERGE whose clauses take their values from the source alone, joined by Arrow in the driver.

Most statements of this kind have one WHEN MATCHED and one WHEN NOT MATCHED, or also a WHEN MATCHED AND s.op = 'd' THEN
DELETE. Their values are columns of the source, or Spark computes them together with the source (``s.quantity + 1``),
before anything is joined. If Spark joined the sides, it would take the rows of both from this process and return them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from hiveacid.core.format.acid_columns import MAX_BUCKETS, ROW_ID_PARTS
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import DEFAULT_PARTITION, TableDefinition
from hiveacid.core.schema.types import is_primitive, parse_type
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.writing import single_batch
from hiveacid.spark.formats.driver_frames import ROUND_TRIP_TYPES
from hiveacid.spark.formats.types import spark_type
from hiveacid.spark.predicates.column_conditions import JoinConditions, of_source, of_target
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import column_of_expression, scala_items
from hiveacid.spark.write.sort_and_stage import ACTION, OLD, Action, StagingTarget, partition_key
from hiveacid.spark.write.staged_files import BUCKET
from hiveacid.spark.write.update_delete_merge_rows import EqualColumns, MatchKind, MergePlan
from hiveacid.table.arrow_read.filters import Condition, arrow_filter, is_exact
from hiveacid.table.arrow_read.record_batches import ROW_ID_TYPE
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import Changes, StagedOutput, stage_computed_rows
from hiveacid.table.write.partitions_and_buckets import bucket_numbers, check_bucketing, partition_texts

_VALUE = "__hiveacid_value_"
_COPIED_TYPES = ROUND_TRIP_TYPES - {"varchar"}  # char and varchar columns cut the values that they get
Keys: TypeAlias = Sequence[tuple[str, pa.ChunkedArray]]
"""Columns of the target, each with the values that the source's rows compare it with, as an Arrow array."""


@dataclass(frozen=True)
class CopyingClause:
    """A clause that copies columns of a source, behind whose own come the `CopyingClauses.values`.

    ``columns``: by column of the target, the number of the source's column it is set to. ``condition``: of the columns of
    `_joined_columns`; None if it holds for all rows.
    """

    action: Action
    columns: Mapping[str, int]
    condition: Condition | None = None


ClausesByKind: TypeAlias = Mapping[MatchKind, Sequence[CopyingClause]]
"""By kind of row; the first clause whose condition holds is applied."""


@dataclass(frozen=True)
class CopyingClauses:
    """Clauses with the ``values`` that they need: analysed expressions of the source's columns, which Spark computes with it."""

    by_kind: ClausesByKind
    values: Sequence[JavaObject] = ()

    def with_values(self, env: SparkEnvironment, source: DataFrame) -> DataFrame:
        """Return the source with a further column for each value."""
        if not self.values:
            return source
        columns = [column_of_expression(env, value) for value in self.values]
        return source.select("*", *(column.alias(_VALUE + str(n)) for n, column in enumerate(columns)))

    def without_values(self, source: DataFrame) -> DataFrame:
        """Return the rows of `with_values` in the columns of the source."""
        return source.drop(*(_VALUE + str(n) for n in range(len(self.values))))


def copying_clauses(
    plan: MergePlan,
    source: DataFrame,
    pairs: Sequence[EqualColumns],
    join: JavaObject,
    expressions: Sequence[JavaObject],
) -> CopyingClauses | None:
    """Return the clauses of a MERGE whose values depend on the source alone; None for any other.

    Its conditions are comparisons of columns with constants that Arrow decides as Spark does, or depend on the source alone, too.
    ``pairs``: of the analysed ``join``. ``expressions``: those of the plan, analysed, without subqueries.
    """
    table = plan.table
    own = [field.dataType.simpleString() for field in source.schema.fields]
    if (
        (table.bucketing is not None and table.bucketing.count > MAX_BUCKETS)
        or not all(is_primitive(column.type, _COPIED_TYPES) for column in table.all_columns)
        or not {name.partition("(")[0] for name in own} <= ROUND_TRIP_TYPES
        or len(expressions) != sum(1 for _ in plan.expressions())
        or len([*_conjuncts(join.condition().get())]) != len(pairs)
    ):
        return None
    types = {column.name: spark_type(parse_type(column.type)).simpleString() for column in table.all_columns}
    numbers = {
        _id(column): n for n, column in zip(range(len(own)), scala_items(join.right().output()), strict=False)
    }
    conditions = None
    if any(clause.condition is not None for clause in plan.clauses):
        conditions = JoinConditions.of(table, source, join)
    remaining = iter(expressions[1:])  # without ON
    clauses: dict[MatchKind, list[CopyingClause]] = {}
    computed: list[JavaObject] = []
    for clause in plan.clauses:
        condition = None
        if conditions is not None and clause.condition is not None:
            tree = next(remaining)
            condition = _condition(conditions, tree)
            if condition is None and _is_of(source, tree):
                name = of_source(len(own) + len(computed))
                condition = Condition(ds.field(name), (name,))
                computed.append(tree)
            if condition is None or (
                clause.when is MatchKind.SOURCE_ONLY
                and not {*map(of_source, range(len(own) + len(computed)))}.issuperset(condition.columns)
            ):
                return None
        columns = {}
        for name, value in zip(clause.values or {}, remaining, strict=False):
            number = numbers.get(_id(value)) if str(value.nodeName()) == "AttributeReference" else None
            if str(value.dataType().simpleString()) != types[name] or not (
                number is not None or _is_of(source, value)
            ):
                return None
            if number is None:
                number = len(own) + len(computed)
                computed.append(value)
            columns[name] = number
        if clause.action is Action.INSERT and not set(table.partition_column_names) <= columns.keys():
            return None
        clauses.setdefault(clause.when, []).append(CopyingClause(clause.action, columns, condition))
    return CopyingClauses(clauses, computed)


def _id(attribute: JavaObject) -> int:
    return int(attribute.exprId().id())


def _is_of(source: DataFrame, value: JavaObject) -> bool:
    """Tell whether an analysed value depends on a frame's columns alone, and is the same whenever it is computed."""
    return bool(value.deterministic()) and bool(value.references().subsetOf(plan_of(source).outputSet()))


def _conjuncts(condition: JavaObject) -> Iterator[JavaObject]:
    if condition.nodeName() == "And":
        yield from _conjuncts(condition.left())
        yield from _conjuncts(condition.right())
    else:
        yield condition


def _condition(conditions: JoinConditions, tree: JavaObject) -> Condition | None:
    """Return an analysed condition as a filter; None if Arrow might decide it otherwise than Spark."""
    predicate = conditions.predicate(tree)
    return arrow_filter(conditions.columns, predicate) if is_exact(predicate, conditions.columns) else None


def copied_rows(
    table: TableDefinition, clauses: ClausesByKind, target: pa.Table, source: pa.Table, keys: Keys
) -> pa.Table:
    """Return the changed rows in the columns of `changed_rows_for_arrow`.

    ``target``: rows with ``ROW__ID``, the `partition_key` of each partition column, the columns of ``keys``, those in
    conditions, and those that an UPDATE does not set. ``source``: all columns; no two rows have the same keys. A NULL
    equals nothing.

    Raises UnsupportedFeatureError if Spark has to compute the partition or bucket of a row; ArrowException if the rows
    are too large.
    """
    check_bucketing(table)
    names = [f"key{number}" for number in range(len(keys))]
    left = pa.table([*(target.column(name) for name, _ in keys), _numbers(target)], [*names, "target"])
    right = pa.table([*(values for _, values in keys), _numbers(source)], [*names, "source"])
    pairs = left.join(right, names, join_type="inner").sort_by("target")
    unmatched = source.filter(
        pc.invert(pc.is_in(right.column("source"), pairs.column("source").combine_chunks()))
    )
    matched = target.take(pairs.column("target")), source.take(pairs.column("source"))
    moved = {name for each in clauses.get(MatchKind.MATCHED, ()) for name in each.columns}
    return pa.concat_tables(
        [
            *_rows_of_clauses(table, clauses.get(MatchKind.MATCHED, ()), *matched, moved),
            *_rows_of_clauses(table, clauses.get(MatchKind.SOURCE_ONLY, ()), None, unmatched, moved),
        ]
    )


def _numbers(rows: pa.Table) -> pa.Array:
    return pa.array(np.arange(rows.num_rows))


def _rows_of_clauses(
    table: TableDefinition,
    clauses: Sequence[CopyingClause],
    old: pa.Table | None,
    new: pa.Table,
    moved: Collection[str],
) -> Iterator[pa.Table]:
    """Yield what each clause makes of the rows that it is the first to hold for; other parameters as in `rows_of_clause`."""
    for clause in clauses:
        if clause.condition is None:
            yield rows_of_clause(table, clause, old, new, moved)
            return
        rows = pa.table({"row": _numbers(new), **_joined_columns(old, new, clause.condition.columns)})
        chosen = rows.filter(clause.condition.predicate).column("row").combine_chunks()
        of_target = None if old is None else old.take(chosen)
        yield rows_of_clause(table, clause, of_target, new.take(chosen), moved)
        others = pc.invert(pc.is_in(_numbers(new), chosen))
        old, new = None if old is None else old.filter(others), new.filter(others)


def _joined_columns(
    old: pa.Table | None, new: pa.Table, names: Collection[str]
) -> dict[str, pa.ChunkedArray]:
    """Return columns of joined rows by the names that conditions call them."""
    columns = {of_source(number): column for number, column in enumerate(new.columns)}
    if old is not None:
        columns |= {of_target(name): old.column(name) for name in old.column_names}
    return {name: columns[name] for name in names}  # none of a condition such as name = NULL


def rows_of_clause(
    table: TableDefinition, clause: CopyingClause, old: pa.Table | None, new: pa.Table, moved: Collection[str]
) -> pa.Table:
    """Return rows with what a clause makes of them, in the columns of `changed_rows_for_arrow`.

    ``old``: the target's rows, as many as ``new``, the source's; None if there are none. ``moved``: the columns that some UPDATE
    of the statement sets. Raises UnsupportedFeatureError as `partition_texts`.
    """
    count = new.num_rows
    columns: dict[str, pa.Array | pa.ChunkedArray] = {
        ACTION: pa.repeat(pa.scalar(int(clause.action), pa.int32()), count)
    }
    ids = pa.nulls(count, ROW_ID_TYPE) if old is None else old.column(ROW_ID).combine_chunks()
    columns |= zip(ROW_ID_PARTS, ids.flatten(), strict=True)
    for index, column in enumerate(table.partition_columns):
        key, number = partition_key(index), clause.columns.get(column.name)
        before = pa.nulls(count, pa.string()) if old is None else old.column(key)
        columns[key] = (
            before
            if number is None
            else partition_texts(new.column(number), column).fill_null(DEFAULT_PARTITION)
        )
        if column.name in moved:
            columns[OLD + key] = before
    values = {}
    for field in arrow_schema(table.columns):
        number = clause.columns.get(field.name)
        if number is not None:
            value = new.column(number)
        elif old is not None and clause.action is Action.UPDATE:
            value = old.column(field.name)
        else:
            value = pa.nulls(count, field.type)
        values[field.name] = value.cast(field.type)
    columns |= {staged_column(index): value for index, value in enumerate(values.values())}
    columns[BUCKET] = (
        pa.repeat(pa.scalar(0, pa.int32()), count)
        if table.bucketing is None
        else bucket_numbers(table, single_batch(pa.table(values)))
    )
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
