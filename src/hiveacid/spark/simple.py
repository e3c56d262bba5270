"""Conditions of the form ``column operator constant``, read from Spark's analysed trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyspark.sql import types as T

from hiveacid.spark.catalyst import items
from hiveacid.spark.constants import NULL, UNKNOWN, Special, Value, constant, keeps_values, plain_type


class Operator(StrEnum):
    """How a simple condition compares its column."""

    EQUAL = "="
    NULL_SAFE_EQUAL = "<=>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="
    IN = "in"
    BETWEEN = "between"
    IS_NULL = "is null"
    IS_NOT_NULL = "is not null"


@dataclass(frozen=True)
class Simple:
    """``column operator value``, true by the values themselves whatever casts Spark put around them.

    ``values``: none for IS [NOT] NULL, one, two for BETWEEN, any number for IN (NULLs in the list left out).
    Whole numbers are int, also where the text had ``5.0``; timestamps are in UTC. ``type``: the column's.
    """

    column: str
    operator: Operator
    values: tuple[Value, ...]
    type: T.DataType


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


class ConditionReader:
    """Reads one analysed condition."""

    def __init__(self, schema: T.StructType) -> None:
        self._fields = {field.name.lower(): field for field in schema.fields}
        self._common: Any = None  # what a CommonExpressionRef stands for (BETWEEN in Spark 4)

    def columns(self, trees: Sequence[Any]) -> frozenset[str]:
        """Return the columns of the schema that conditions refer to."""
        names = [str(a.name()).lower() for tree in trees for a in items(tree.references().toSeq())]
        return frozenset(self._fields[name].name for name in names)

    def simple(self, trees: Sequence[Any]) -> Simple | None:
        """Return conditions that all must hold (one, or the two of a BETWEEN) in simple form."""
        first = self._simple(trees[0])
        return first if len(trees) == 1 else _between(first, self._simple(trees[1]))

    def _simple(self, tree: Any) -> Simple | None:
        kind = tree.nodeName()
        if kind in _COMPARISONS:
            return self._comparison(_COMPARISONS[kind], tree.left(), tree.right())
        match kind:
            case "In":
                return self._in(tree)
            case "IsNull" | "IsNotNull":
                field = self._column(tree.child())
                operator = Operator.IS_NULL if kind == "IsNull" else Operator.IS_NOT_NULL
                return None if field is None else Simple(field.name, operator, (), field.dataType)
            case "And":
                return _between(self._simple(tree.left()), self._simple(tree.right()))
            case "Between":
                return self._simple(tree.replacement())
            case "With" if tree.defs().size() == 1:
                self._common = tree.defs().apply(0).child()
                return self._simple(tree.child())
            case "AttributeReference" | "Not":
                field = self._column(tree if kind == "AttributeReference" else tree.child())
                if field is not None and isinstance(field.dataType, T.BooleanType):
                    return Simple(field.name, Operator.EQUAL, (kind != "Not",), field.dataType)
        return None

    def _comparison(self, operator: Operator, left: Any, right: Any) -> Simple | None:
        field = self._column(left)
        if field is None:
            field, right = self._column(right), left
            operator = _MIRRORED.get(operator, operator)
        value = UNKNOWN if field is None else constant(right)
        if field is None:
            return None
        if isinstance(value, Special):
            is_null = value is NULL and operator is Operator.NULL_SAFE_EQUAL
            return Simple(field.name, Operator.IS_NULL, (), field.dataType) if is_null else None
        return Simple(field.name, operator, (value,), field.dataType)

    def _in(self, tree: Any) -> Simple | None:
        field = self._column(tree.value())
        values = [constant(item) for item in items(tree.list())] if field is not None else []
        if field is None or UNKNOWN in values:
            return None
        present = tuple(value for value in values if not isinstance(value, Special))
        return Simple(field.name, Operator.IN, present, field.dataType)

    def _column(self, tree: Any) -> T.StructField | None:
        """Return the column that a tree is, or a cast of it that loses and changes nothing."""
        kind = tree.nodeName()
        if kind == "CommonExpressionRef" and self._common is not None:
            return self._column(self._common)
        if kind == "AttributeReference":
            return self._fields.get(str(tree.name()).lower())
        if kind != "Cast":
            return None
        have, want = (plain_type(t.dataType().catalogString()) for t in (tree.child(), tree))
        if have is None or want is None or not keeps_values(have, want):
            return None
        return self._column(tree.child())


def _between(low: Simple | None, high: Simple | None) -> Simple | None:
    if low is None or high is None or low.column != high.column:
        return None
    if (low.operator, high.operator) != (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL):
        return None
    return Simple(low.column, Operator.BETWEEN, (*low.values, *high.values), low.type)
