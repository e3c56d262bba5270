"""Python values of the literals in Spark's analysed trees, and casts that keep them comparable."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from py4j.java_gateway import JavaObject
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as T

from hiveacid.core.predicates import Value
from hiveacid.spark.session.jvm import class_beside, scala_items


class NoValue(Enum):
    """Result of `constant_value` without a value."""

    NULL = "NULL"
    UNKNOWN = "not a constant, or one of a type that is not compared here"


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # also what Java returns in place of bytes that are not UTF-8
_FEW = 20  # values, of which each takes some round trips to the JVM
NULL, UNKNOWN = NoValue.NULL, NoValue.UNKNOWN


def comparable_type(text: str) -> T.DataType | None:
    """Return the Spark type of a type name; None for types that are not compared (among them collated strings)."""
    atomic: Sequence[T.DataType] = (
        T.BooleanType(),
        T.ByteType(),
        T.ShortType(),
        T.IntegerType(),
        T.LongType(),
        T.FloatType(),
        T.DoubleType(),
        T.StringType(),
        T.DateType(),
        T.TimestampType(),
    )
    if text.startswith("decimal("):
        precision, scale = text[len("decimal(") : -1].split(",")
        return T.DecimalType(int(precision), int(scale))
    return next((t for t in atomic if t.simpleString() == text), None)


_WHOLE_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}


def is_lossless_cast(have: T.DataType, want: T.DataType) -> bool:
    """Tell whether a cast keeps all values distinct, unchanged and in order."""
    if have == want:
        return True
    digits, more = (_WHOLE_DIGITS.get(type(t), 0) for t in (have, want))
    if digits and more:
        return digits <= more
    if isinstance(want, T.DecimalType):
        scale = have.scale if isinstance(have, T.DecimalType) else 0
        whole = have.precision - scale if isinstance(have, T.DecimalType) else digits
        return 0 < whole <= want.precision - want.scale and scale <= want.scale
    return isinstance(have, T.FloatType) and isinstance(want, T.DoubleType)


def constant_values(trees: JavaObject) -> list[Value | NoValue]:
    """Return `constant_value` of each expression of a Scala Seq; all have one type."""
    count = trees.size()
    values = _values_at_once(trees, count) if count > _FEW else None
    return [constant_value(tree) for tree in scala_items(trees)] if values is None else values


def _values_at_once(trees: JavaObject, count: int) -> list[Value | NoValue] | None:
    """Return the values of many constants by few round trips; None if one of them is not told by a text of all."""
    array = class_beside(trees, "org.apache.spark.sql.catalyst.expressions.CreateArray")(trees, False)  # noqa: FBT003
    of_the_run = class_beside(trees, "org.apache.spark.sql.catalyst.trees.TreePattern").CURRENT_LIKE()
    if not array.foldable() or not array.deterministic() or array.containsPattern(of_the_run):
        return None
    kind = comparable_type(array.dataType().elementType().catalogString())
    if kind is None or isinstance(kind, T.FloatType):
        return None
    try:
        texts = str(array.eval(None).toString())[1:-1].split(",")
    except (Py4JError, PySparkException):
        return None
    if len(texts) != count or (isinstance(kind, T.StringType) and "null" in texts):
        return None  # one has a comma, or may be NULL
    parse = _PARSERS.get(type(kind), int)
    return [NULL if text == "null" else _python_value(parse(text), kind) for text in texts]


_PARSERS: Mapping[type[T.DataType], Callable[[str], object]] = {
    T.StringType: str,
    T.DecimalType: str,
    T.DoubleType: float,
    T.BooleanType: "true".__eq__,
}


def constant_value(tree: JavaObject) -> Value | NoValue:
    """Return the value of an expression of literals alone: a value, NULL, or UNKNOWN for any other expression."""
    if not _is_constant(tree):
        return UNKNOWN
    kind = comparable_type(tree.dataType().catalogString())
    if kind is None:
        return UNKNOWN
    try:
        value = tree.eval(None)
    except (Py4JError, PySparkException):  # a cast that fails: the query itself will say so
        return UNKNOWN
    return NULL if value is None else _python_value(value, kind)


def _is_constant(tree: JavaObject) -> bool:
    """Tell whether all leaves of an expression are literals; ``current_date`` and the like are other leaves."""
    kind = tree.nodeName()
    if kind == "Literal" or (kind == "Cast" and tree.child().nodeName() == "Literal"):
        return True
    leaves = tree.collectLeaves()
    return (
        bool(tree.foldable())
        and bool(tree.deterministic())
        and all(leaves.apply(index).nodeName() == "Literal" for index in range(leaves.size()))
    )


def _text(value: JavaObject | str) -> str:
    return value if isinstance(value, str) else str(value.toString())


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _python_value(value: Any, kind: T.DataType) -> Value | NoValue:
    try:
        match kind:
            case T.StringType():
                text = _text(value)
                return UNKNOWN if _REPLACEMENT in text else text
            case T.DateType():
                return _EPOCH.date() + timedelta(days=value)
            case T.TimestampType():
                return _EPOCH + timedelta(microseconds=value)
            case T.FloatType():  # arrives as its shortest text: 74.72 for 74.72000122
                return float(struct.unpack("f", struct.pack("f", value))[0])
            case T.DecimalType():
                number = Decimal(_text(value))
                return int(number) if number == number.to_integral_value() else number
            case T.BooleanType():
                return bool(value)
            case T.DoubleType():
                return float(value)
    except OverflowError:
        return UNKNOWN
    return int(value)
