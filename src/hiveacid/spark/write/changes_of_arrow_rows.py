"""Changes that an UPDATE or DELETE makes to rows in Arrow's memory, computed by Spark: which rows, and their new values.

Spark takes the rows as a local relation, so that no job reads or writes files. It gets the columns that the statement
refers to. Columns whose values could change on the way to Spark and back (times, char, nested types) are not passed.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.types import is_primitive
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.driver_frames import (
    ROUND_TRIP_TYPES,
    collect_within_limit,
    frame_of_arrow,
    schema_of,
)
from hiveacid.spark.formats.expressions import Expression, as_column, cast, named, parenthesised, selected
from hiveacid.spark.session.bound_plans import filter_rows
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import java_class, scala_items
from hiveacid.spark.write.update_delete_merge_rows import assigned_values

ASSIGNABLE_TYPES = ROUND_TRIP_TYPES | {"char", "timestamp"}
"""Types of columns that may be set."""
_TEXT_TYPES = frozenset({"string", "varchar", "char", "binary"})
_PLAIN_VALUE = re.compile(r"[\w.`]+|'[^'\\$]{0,100}'")  # a column, a number, NULL or a short text
# Rows whose new texts may have any length: measuring them first costs a second query. A job needs as much memory for so
# few. With 200 texts of 2 MB and a heap of 1 GB, the driver ran out of memory where a job succeeds.
_FEW_ROWS = 20
_MANY_TASKS = 1000
_INDEX = "__hiveacid_index"


@dataclass(frozen=True)
class RowChange:
    """An UPDATE or DELETE. ``assignments``: new values by column, none of a DELETE. ``alias``: the statement's name for the table."""

    where: Expression | None
    assignments: Mapping[str, Expression]
    alias: str | None

    @property
    def verb(self) -> str:
        """Return the name of the statement."""
        return "UPDATE" if self.assignments else "DELETE"


def columns_to_pass(
    env: SparkEnvironment, table: TableDefinition, rows: DataFrame, change: RowChange, *, judged: bool
) -> list[Column]:
    """Return the columns that Spark needs for the new values, and for the condition if it is ``judged``.

    ``rows``: those of `condition_rows`. Raises Spark's errors; UnsupportedFeatureError as `passed_columns` and `columns_used`.
    """
    plan, names = plan_of(rows), set[str]()
    if judged:
        names |= columns_used(env, plan, plan.child(), "SubqueryAlias")
    if change.assignments:
        values = plan_of(selected(rows, [together(change.assignments.values())]))
        names |= columns_used(env, values, plan, plan.nodeName())
    return passed_columns(table, names)


def passed_columns(table: TableDefinition, names: Collection[str]) -> list[Column]:
    """Return the columns of these names. Raises UnsupportedFeatureError for one that is not passed, or no column of the table."""
    columns = {c.name: c for c in table.all_columns if is_primitive(c.type, ROUND_TRIP_TYPES)}
    hidden = sorted(set(names) - set(columns))
    if hidden:
        raise UnsupportedFeatureError(
            f"values of {', '.join(hidden)} do not come back from Spark as they are"
        )
    return [column for name, column in columns.items() if name in names]


def columns_used(env: SparkEnvironment, plan: JavaObject, rows: JavaObject, below: str) -> set[str]:
    """Return the names of the columns of ``rows`` that the expressions of an analysed plan refer to, in lower case.

    ``rows``: a plan. ``below``: the kind of the plan's child. Raises UnsupportedFeatureError for expressions that need a
    scan of Spark's: subqueries, since they may be large, functions about files, and functions of SQL, which are plans.
    """
    if str(plan.children().head().nodeName()) != below:
        raise UnsupportedFeatureError("the statement calls a function of SQL")
    names, output = set[str](), rows.outputSet()
    for expression in scala_items(plan.expressions()):
        if has_subquery(env, expression) or any(map(_is_about_files, _unsteady(expression))):
            raise UnsupportedFeatureError("the statement has a subquery, or a function about files")
        columns = scala_items(expression.references().toSeq())
        names |= {str(column.name()).lower() for column in columns if output.contains(column)}
    return names


def has_subquery(env: SparkEnvironment, tree: JavaObject) -> bool:
    """Tell whether an analysed expression or plan has a subquery."""
    patterns = java_class(env, "org.apache.spark.sql.catalyst.trees.TreePattern")
    return bool(tree.containsPattern(patterns.PLAN_EXPRESSION()))


def _unsteady(node: JavaObject) -> Iterator[JavaObject]:
    """Yield the parts of an expression that are not functions of the row alone, such as ``rand()``."""
    if not node.deterministic():
        yield node
        for child in scala_items(node.children()):
            yield from _unsteady(child)


def _is_about_files(node: JavaObject) -> bool:
    return str(node.nodeName()).startswith("InputFile")


def together(expressions: Iterable[Expression]) -> Expression:
    """Return one expression of all, so that Spark analyses them at once."""
    texts = [parenthesised(expression) for expression in expressions]
    if all(isinstance(text, str) for text in texts):
        return f"struct({', '.join(map(str, texts))})"
    return F.struct(*map(as_column, texts))


def compute_changes(
    env: SparkEnvironment, table: TableDefinition, rows: pa.Table, passed: Sequence[Column], change: RowChange
) -> tuple[pa.ChunkedArray, pa.Table]:
    """Return the positions of the rows that Spark selects, in ascending order, and their new values as an Arrow table.

    ``rows``: an Arrow table. Raises Spark's errors, and UnsupportedFeatureError or ArrowException for rows that Arrow would
    write otherwise than Spark, or that take too much memory.
    """
    numbered = rows.select([column.name for column in passed])
    numbered = numbered.append_column(_INDEX, pa.array(np.arange(rows.num_rows)))
    schema = T.StructType([*schema_of(passed).fields, T.StructField(_INDEX, T.LongType())])
    frame = frame_of_arrow(env, numbered, schema)
    grown = columns_that_grow(table, [change.assignments], rows.num_rows)
    if grown:  # else Spark's optimizer would compute the values of a local relation in the driver's memory
        frame = frame.coalesce(_MANY_TASKS)
    chosen = filter_rows(env, frame, change.where, change.alias or table.name)
    valued, values = assigned_values(table, chosen, change.assignments)
    types = {column.name: column.type for column in table.all_columns}
    # A file holds the wall clock that the session shows.
    new = [
        named(cast(value, T.TimestampNTZType()) if types[name] == "timestamp" else value, name)
        for name, value in values.items()
    ]
    computed = selected(valued, [_INDEX, *new])
    result = collect_within_limit(env, computed, [column.name for column in grown])
    if result is None:
        raise UnsupportedFeatureError("the new values take too much of the driver's memory")
    result = result.sort_by(_INDEX)
    return result.column(_INDEX), result.drop_columns(_INDEX)


def columns_that_grow(
    table: TableDefinition, assignments: Iterable[Mapping[str, Expression]], rows: int
) -> list[Column]:
    """Return the columns whose new texts may be much longer than all texts of the rows, of which there are ``rows``."""
    if rows <= _FEW_ROWS:
        return []
    computed = {
        name
        for values in assignments
        for name, value in values.items()
        if not (isinstance(value, str) and _PLAIN_VALUE.fullmatch(value.strip()))
    }
    return [c for c in table.columns if c.name in computed and is_primitive(c.type, _TEXT_TYPES)]
