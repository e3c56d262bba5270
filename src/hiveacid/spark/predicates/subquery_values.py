"""The values of ``column IN (SELECT …)`` as a frame of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.core.predicates import UNKNOWN, AnyOf, Comparison, Operator, Predicate
from hiveacid.core.schema.types import INTEGER_TYPES
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.driver_frames import collect_as_arrow
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import frame_of_plan
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import scala_items

_MAX_VALUES = 1_000_000


@dataclass(frozen=True)
class Members:
    """A column, and the frame of the values among which a condition looks for it."""

    column: str
    values: DataFrame

    def predicate(self, env: SparkEnvironment) -> Predicate:
        """Compute the values, and return the condition.

        Raises UnsupportedFeatureError for too many values, and for values that Python does not have: texts that are not
        UTF-8, and days after the year 9999.
        """
        with translate_errors():
            values = collect_as_arrow(env, self.values.limit(_MAX_VALUES + 1)).column(0)
        if len(values) > _MAX_VALUES:
            raise UnsupportedFeatureError(f"the subquery has more than {_MAX_VALUES} values")
        if not len(values):
            return AnyOf(())  # NULL IN () is false, too
        try:
            present = tuple(values.unique().drop_null().to_pylist())
        except (ValueError, OverflowError) as error:
            raise UnsupportedFeatureError(
                f"the subquery has a value that Python does not have ({error})"
            ) from error
        found = Comparison(self.column, Operator.IN, present)
        return AnyOf((found, UNKNOWN)) if values.null_count else found


def members_of(env: SparkEnvironment, node: Any) -> Members | None:
    """Return the members of an analysed ``column IN (SELECT …)``.

    None for several columns, if the subquery refers to the table's columns, or if Spark would cast one of the sides,
    except an integer column to a wider type: a cast to a narrower one may return another number.
    """
    values, query = [*scala_items(node.values())], node.query()
    plan = query.plan()
    output = [*scala_items(plan.output())]
    if len(values) != 1 or len(output) != 1 or not query.outerAttrs().isEmpty():
        return None
    column = _column(values[0])
    if column is None or not values[0].dataType().equals(output[0].dataType()):
        return None
    return Members(column, frame_of_plan(env, plan))


def _column(value: Any) -> str | None:
    """Return the name of a column, or of an integer column cast to a wider integer type."""
    if value.nodeName() == "Cast":
        types = [_type(value.child()), _type(value)]
        if not set(types).issubset(INTEGER_TYPES) or sorted(types, key=INTEGER_TYPES.index) != types:
            return None
        value = value.child()
    return str(value.name()).lower() if value.nodeName() == "AttributeReference" else None


def _type(value: Any) -> str:
    return str(value.dataType().simpleString())
