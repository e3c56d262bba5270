"""The subquery of ``column IN (SELECT …)`` as a frame of its own, found in the condition that Spark has analysed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.schema.types import INTEGER_TYPES
from hiveacid.spark.formats.driver_frames import empty_frame
from hiveacid.spark.formats.expressions import Expression, parenthesised
from hiveacid.spark.parser.catalyst import scala_items
from hiveacid.spark.session.bound_plans import called
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.classic_session import frame_of_plan, plan_of
from hiveacid.spark.session.error_translation import translate_errors

_SUBQUERIES = frozenset({"ScalarSubquery", "Exists", "ListQuery", "LateralSubquery"})


def subquery_of(
    facts: SparkFacts, table: TableDefinition, where: Expression, name: str | TableName
) -> DataFrame | None:
    """Return the subquery of a condition's only ``column IN (SELECT …)``.

    None if there are other subqueries, if the subquery refers to the table's columns, or if Spark would cast one of the
    sides, except an integer column to a wider type. Raises StatementError, CatalogError.
    """
    columns = table.all_columns
    with translate_errors():
        frame = called(facts, empty_frame(facts, columns), name).where(parenthesised(where))
    found = [*_subqueries(plan_of(frame).condition())]
    if len(found) != 1 or found[0].nodeName() != "InSubquery":
        return None
    values, query = [*scala_items(found[0].values())], found[0].query()
    plan = query.plan()
    output = [*scala_items(plan.output())]
    if len(values) != 1 or len(output) != 1 or not query.outerAttrs().isEmpty():
        return None
    if not _is_column(values[0]) or not values[0].dataType().equals(output[0].dataType()):
        return None
    return frame_of_plan(facts, plan)


def _is_column(value: Any) -> bool:
    """Tell whether an expression is a column, or an integer column cast to another integer type."""
    if value.nodeName() == "Cast" and {_type(value), _type(value.child())}.issubset(INTEGER_TYPES):
        value = value.child()
    return bool(value.nodeName() == "AttributeReference")


def _type(value: Any) -> str:
    return str(value.dataType().simpleString())


def _subqueries(node: Any) -> Iterator[Any]:
    """Yield the expressions with a subquery, each InSubquery as a whole."""
    if node.nodeName() == "InSubquery" or node.nodeName() in _SUBQUERIES:
        yield node
        return
    for child in scala_items(node.children()):
        yield from _subqueries(child)
