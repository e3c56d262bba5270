"""Predicates of conditions that Spark has analysed: comparisons of columns with the values of literals in Spark's trees."""

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

from hiveacid.core.predicates import (
    UNDECIDED,
    UNKNOWN,
    AllOf,
    AnyOf,
    Comparison,
    Not,
    Operator,
    Predicate,
    RemainderComparison,
    Value,
)
from hiveacid.spark.session.jvm import class_beside, scala_items

_COMPARISONS = {
    "EqualTo": Operator.EQUAL,
    "EqualNullSafe": Operator.NULL_SAFE_EQUAL,
    "LessThan": Operator.LESS,
    "LessThanOrEqual": Operator.LESS_OR_EQUAL,
    "GreaterThan": Operator.GREATER,
    "GreaterThanOrEqual": Operator.GREATER_OR_EQUAL,
}
_MIRRORED = {
    Operator.LESS: Operator.GREATER,
    Operator.LESS_OR_EQUAL: Operator.GREATER_OR_EQUAL,
    Operator.GREATER: Operator.LESS,
    Operator.GREATER_OR_EQUAL: Operator.LESS_OR_EQUAL,
}
_REMAINDERS = {"Remainder": False, "Pmod": True}  # whether a remainder is never below 0
_MAX_PARTS = 100  # of an AND or OR, each of which takes some round trips to the JVM
_MAX_DEPTH = 20


class PredicateReader:
    """Reader of conditions that Spark has analysed on a table, or on a frame with its columns.

    Parts that are not comparisons of a column with constants become `UNDECIDED`. Among these are subqueries, functions that
    are not deterministic, and those that depend on the time or the user. ``subquery`` returns the predicate of ``… IN
    (SELECT …)``. ``field_of`` returns the column of a reference (default: that of its name).
    """

    def __init__(
        self,
        schema: T.StructType,
        subquery: Callable[[JavaObject], Predicate] | None = None,
        field_of: Callable[[JavaObject], T.StructField | None] | None = None,
    ) -> None:
        self._field_of = field_of or (lambda tree: self._fields.get(str(tree.name()).lower()))
        self._subquery = subquery or (lambda _: UNDECIDED)
        self._fields = {field.name.lower(): field for field in schema.fields}
        self._common: JavaObject | None = None  # the target of a CommonExpressionRef (BETWEEN in Spark 4)

    def columns(self, trees: Sequence[JavaObject]) -> frozenset[str]:
        """Return the columns of the schema that conditions refer to."""
        names = [str(a.name()).lower() for tree in trees for a in scala_items(tree.references().toSeq())]
        return frozenset(self._fields[name].name for name in names)

    def predicate(self, tree: JavaObject) -> Predicate:
        """Return the predicate of a condition."""
        return self._read(tree, 0)

    def _read(self, tree: JavaObject, depth: int) -> Predicate:
        kind = tree.nodeName()
        if kind in _COMPARISONS:
            return self._comparison(_COMPARISONS[kind], tree.left(), tree.right())
        if depth > _MAX_DEPTH:
            return UNDECIDED
        match kind:
            case "In" | "InSubquery":
                return self._in(tree) if kind == "In" else self._subquery(tree)
            case "IsNull" | "IsNotNull":
                field = self._column(tree.child())
                operator = Operator.IS_NULL if kind == "IsNull" else Operator.IS_NOT_NULL
                return UNDECIDED if field is None else Comparison(field.name, operator)
            case "And" | "Or":
                return self._joined(kind, _operands(tree, kind), depth)
            case "Not":
                return _negation(self._read(tree.child(), depth + 1))
            case "Between":
                return self._read(tree.replacement(), depth + 1)
            case "With" if tree.defs().size() == 1:
                self._common = tree.defs().apply(0).child()
                return self._read(tree.child(), depth + 1)
            case "AttributeReference":
                field = self._column(tree)
                if field is not None and isinstance(field.dataType, T.BooleanType):
                    return Comparison(field.name, Operator.EQUAL, (True,))
        return UNDECIDED

    def _joined(self, kind: str, trees: Sequence[JavaObject], depth: int) -> Predicate:
        if len(trees) > _MAX_PARTS:
            return UNDECIDED
        parts = [self._read(tree, depth + 1) for tree in trees]
        if kind == "Or":
            return AnyOf(tuple(parts))
        between = _between(parts)
        return AllOf(tuple(parts)) if between is None else between

    def _comparison(self, operator: Operator, left: JavaObject, right: JavaObject) -> Predicate:
        field = self._column(left)
        if field is None and left.nodeName() in _REMAINDERS:
            return self._remainder_comparison(operator, left, right)
        if field is None:
            field, right = self._column(right), left
            operator = _MIRRORED.get(operator, operator)
        if field is None:
            return UNDECIDED
        value = constant_value(right)
        if not isinstance(value, NoValue):
            return Comparison(field.name, operator, (value,))
        if value is NoValue.UNKNOWN:
            return UNDECIDED
        return Comparison(field.name, Operator.IS_NULL) if operator is Operator.NULL_SAFE_EQUAL else UNKNOWN

    def _remainder_comparison(self, operator: Operator, left: JavaObject, right: JavaObject) -> Predicate:
        """Return the predicate of ``pmod(column, 7) = 3`` or ``column % 7 < 3``; ``left``: the remainder."""
        if not isinstance(comparable_type(left.dataType().catalogString()), T.IntegralType):
            return UNDECIDED
        field, divisor, value = self._column(left.left()), constant_value(left.right()), constant_value(right)
        if field is None or not isinstance(divisor, int) or divisor <= 0 or not isinstance(value, int):
            return UNDECIDED
        return RemainderComparison(
            Comparison(field.name, operator, (value,)), divisor, _REMAINDERS[left.nodeName()]
        )

    def _in(self, tree: JavaObject) -> Predicate:
        field = self._column(tree.value())
        if field is None:
            return UNDECIDED
        values = constant_values(tree.list())
        # Whether NULL is in a list without values (``isin([])`` of Python) is a setting of Spark.
        if not values or NoValue.UNKNOWN in values:
            return UNDECIDED
        present = tuple(value for value in values if not isinstance(value, NoValue))
        comparison = Comparison(field.name, Operator.IN, present)
        return comparison if len(present) == len(values) else AnyOf((comparison, UNKNOWN))

    def _column(self, tree: JavaObject) -> T.StructField | None:
        """Return the column of a tree that is a column, or a lossless cast of one; else None."""
        kind = tree.nodeName()
        if kind == "CommonExpressionRef" and self._common is not None:
            return self._column(self._common)
        if kind == "AttributeReference":
            return self._field_of(tree)
        if kind != "Cast":
            return None
        have, want = (comparable_type(t.dataType().catalogString()) for t in (tree.child(), tree))
        if have is None or want is None or not is_lossless_cast(have, want):
            return None
        return self._column(tree.child())


def _operands(tree: JavaObject, kind: str) -> list[JavaObject]:
    """Return the operands of nested ANDs or ORs, from left to right; some more than `_MAX_PARTS` at most."""
    operands: list[JavaObject] = []
    todo = [tree]
    while todo and len(operands) <= _MAX_PARTS and len(todo) <= 2 * _MAX_PARTS:
        node = todo.pop()
        if node.nodeName() == kind:
            todo += (node.right(), node.left())
        else:
            operands.append(node)
    return [*operands, *reversed(todo)]


def _negation(part: Predicate) -> Predicate:
    if isinstance(part, Comparison) and part.operator is Operator.EQUAL and isinstance(part.values[0], bool):
        return Comparison(part.column, Operator.EQUAL, (not part.values[0],))
    return UNDECIDED if part == UNDECIDED else Not(part)


def _between(parts: Sequence[Predicate]) -> Comparison | None:
    """Return the BETWEEN that two parts make: a column is at least one value, and at most another."""
    if len(parts) != 2:  # noqa: PLR2004 - its two ends
        return None
    low, high = parts
    if not isinstance(low, Comparison) or not isinstance(high, Comparison) or low.column != high.column:
        return None
    if (low.operator, high.operator) != (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL):
        return None
    return Comparison(low.column, Operator.BETWEEN, (*low.values, *high.values))


class NoValue(Enum):
    """Result of `constant_value` without a value."""

    NULL = "NULL"
    UNKNOWN = "not a constant, or one of a type that is not compared here"


_REPLACEMENT = "\N{REPLACEMENT CHARACTER}"  # also what Java returns in place of bytes that are not UTF-8
_FEW = 20  # values, of which each takes some round trips to the JVM


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
    return [NoValue.NULL if text == "null" else _python_value(parse(text), kind) for text in texts]


_PARSERS: Mapping[type[T.DataType], Callable[[str], object]] = {
    T.StringType: str,
    T.DecimalType: str,
    T.DoubleType: float,
    T.BooleanType: "true".__eq__,
}


def constant_value(tree: JavaObject) -> Value | NoValue:
    """Return the value of an expression of literals alone: a value, or `NoValue`: NULL, or UNKNOWN for any other expression."""
    if not _is_constant(tree):
        return NoValue.UNKNOWN
    kind = comparable_type(tree.dataType().catalogString())
    if kind is None:
        return NoValue.UNKNOWN
    try:
        value = tree.eval(None)
    except (Py4JError, PySparkException):  # a cast that fails: the query itself will say so
        return NoValue.UNKNOWN
    return NoValue.NULL if value is None else _python_value(value, kind)


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
                return NoValue.UNKNOWN if _REPLACEMENT in text else text
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
        return NoValue.UNKNOWN
    return int(value)
