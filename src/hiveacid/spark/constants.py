"""Literals and casts of Spark's analysed trees as Python values and types."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import types as T

Value = int | float | str | bool | date | datetime | Decimal


class Special(Enum):
    """What is not a value."""

    NULL = "NULL"
    UNKNOWN = "not a constant, or one of a type that is not compared here"


NULL, UNKNOWN = Special.NULL, Special.UNKNOWN


def plain_type(text: str) -> T.DataType | None:
    """Return the type of a name that Spark gave; None for those we do not compare (collated strings too)."""
    simple: Sequence[T.DataType] = (
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
    return next((t for t in simple if t.simpleString() == text), None)


_WHOLE_DIGITS: dict[type[T.DataType], int] = {
    T.ByteType: 3,
    T.ShortType: 5,
    T.IntegerType: 10,
    T.LongType: 19,
}


def keeps_values(have: T.DataType, want: T.DataType) -> bool:
    """Tell whether a cast neither changes nor merges values nor their order."""
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


def constant(tree: Any) -> Value | Special:
    """Return the value of a literal, or of what is computed of literals alone; NULL, or UNKNOWN for anything else."""
    if not _is_constant(tree):
        return UNKNOWN
    kind = plain_type(tree.dataType().catalogString())
    if kind is None:
        return UNKNOWN
    try:
        value = tree.eval(None)
    except (Py4JError, PySparkException):  # a cast that fails: the query itself will say so
        return UNKNOWN
    return NULL if value is None else _python_value(value, kind)


def _is_constant(tree: Any) -> bool:
    """Tell whether an expression has one value at any time: ``current_date`` and the like are leaves of their own."""
    if tree.nodeName() == "Literal":
        return True
    leaves = tree.collectLeaves()
    return (
        bool(tree.foldable())
        and bool(tree.deterministic())
        and all(leaves.apply(nth).nodeName() == "Literal" for nth in range(leaves.size()))
    )


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _python_value(value: Any, kind: T.DataType) -> Value | Special:
    try:
        match kind:
            case T.StringType():
                return str(value.toString())
            case T.DateType():
                return _EPOCH.date() + timedelta(days=value)
            case T.TimestampType():
                return _EPOCH + timedelta(microseconds=value)
            case T.FloatType():  # arrives as its shortest text: 74.72 for 74.72000122
                return float(struct.unpack("f", struct.pack("f", value))[0])
            case T.DecimalType():
                number = Decimal(str(value.toString()))
                return int(number) if number == number.to_integral_value() else number
            case T.BooleanType():
                return bool(value)
            case T.DoubleType():
                return float(value)
    except OverflowError:
        return UNKNOWN
    return int(value)
