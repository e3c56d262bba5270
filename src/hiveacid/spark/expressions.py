"""Expressions as SQL text wherever that will do: a text is one round trip to the JVM, a function of PySpark five."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.types import quote_name

_NESTED = (T.StructType, T.ArrayType, T.MapType)
_BETWEEN, _FEW = "\x01", 4
Expression = str | SparkColumn
"""SQL text, or a Column."""


def as_column(expression: Expression) -> SparkColumn:
    """Return an expression as Spark understands it."""
    return F.expr(expression) if isinstance(expression, str) else expression


def named(expression: Expression, name: str) -> Expression:
    """Return an expression with the name of a column."""
    if isinstance(expression, str):
        return f"{expression} AS {quote_name(name)}"
    return expression.alias(name)


def cast(expression: Expression, target: T.DataType) -> Expression:
    """Return a value as one of another type; names of fields don't matter to Spark, their order does."""
    if isinstance(expression, str) and not isinstance(target, _NESTED):  # fields may have names of any kind
        return f"CAST({expression} AS {target.simpleString()})"
    return as_column(expression).cast(target)


def selected(frame: DataFrame, expressions: Iterable[Expression]) -> DataFrame:
    """Return these expressions over a frame's rows."""
    wanted = list(expressions)
    texts = [one for one in wanted if isinstance(one, str)]
    if len(texts) < len(wanted):
        return frame.select(*map(as_column, wanted))
    whole = _BETWEEN.join(texts)
    if not hasattr(frame, "_jdf") or len(texts) <= _FEW or whole.count(_BETWEEN) >= len(texts):
        return frame.selectExpr(*texts)
    return _at_once(frame, whole)


def _at_once(frame: Any, texts: str) -> DataFrame:
    """Do what ``selectExpr`` does; PySpark hands over a list by a round trip for each element."""
    from py4j.java_gateway import JavaClass  # noqa: PLC0415 - classic only

    pattern = JavaClass("java.util.regex.Pattern", frame.sparkSession.sparkContext._gateway._gateway_client)  # noqa: SLF001
    array = pattern.compile(_BETWEEN).split(texts)
    made: DataFrame = type(frame)(frame._jdf.selectExpr(array), frame.sparkSession)  # noqa: SLF001
    return made
