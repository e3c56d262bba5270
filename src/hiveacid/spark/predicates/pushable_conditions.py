"""Conditions that a scan can push down: comparisons of a column with constants, read from Spark's analysed trees."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from pyspark.sql import types as T

from hiveacid.spark.parser.catalyst import scala_items
from hiveacid.spark.predicates import literals


class Operator(StrEnum):
    """Operator of a comparison."""

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
class Comparison:
    """Comparison ``column operator value`` of the column's own values, without the casts that Spark adds.

    ``values``: none for IS [NOT] NULL, two for BETWEEN, any number for IN (NULLs are left out), otherwise one. A whole
    number is an int, even if the text is ``5.0``. A timestamp is in UTC. ``type``: the type of the column.
    """

    column: str
    operator: Operator
    values: tuple[literals.Value, ...]
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


class ComparisonReader:
    """Reader of one condition that Spark has analysed."""

    def __init__(self, schema: T.StructType) -> None:
        self._fields = {field.name.lower(): field for field in schema.fields}
        self._common: Any = None  # the target of a CommonExpressionRef (BETWEEN in Spark 4)

    def columns(self, trees: Sequence[Any]) -> frozenset[str]:
        """Return the columns of the schema that conditions refer to."""
        names = [str(a.name()).lower() for tree in trees for a in scala_items(tree.references().toSeq())]
        return frozenset(self._fields[name].name for name in names)

    def comparison(self, trees: Sequence[Any]) -> Comparison | None:
        """Return the comparison that one condition, or the two conditions of a BETWEEN, make; None if they make none."""
        first = self._read(trees[0])
        return first if len(trees) == 1 else _merge_between(first, self._read(trees[1]))

    def _read(self, tree: Any) -> Comparison | None:
        kind = tree.nodeName()
        if kind in _COMPARISONS:
            return self._comparison(_COMPARISONS[kind], tree.left(), tree.right())
        match kind:
            case "In":
                return self._in(tree)
            case "IsNull" | "IsNotNull":
                field = self._column(tree.child())
                operator = Operator.IS_NULL if kind == "IsNull" else Operator.IS_NOT_NULL
                return None if field is None else Comparison(field.name, operator, (), field.dataType)
            case "And":
                return _merge_between(self._read(tree.left()), self._read(tree.right()))
            case "Between":
                return self._read(tree.replacement())
            case "With" if tree.defs().size() == 1:
                self._common = tree.defs().apply(0).child()
                return self._read(tree.child())
            case "AttributeReference" | "Not":
                field = self._column(tree if kind == "AttributeReference" else tree.child())
                if field is not None and isinstance(field.dataType, T.BooleanType):
                    return Comparison(field.name, Operator.EQUAL, (kind != "Not",), field.dataType)
        return None

    def _comparison(self, operator: Operator, left: Any, right: Any) -> Comparison | None:
        field = self._column(left)
        if field is None:
            field, right = self._column(right), left
            operator = _MIRRORED.get(operator, operator)
        if field is None:
            return None
        value = literals.constant_value(right)
        if isinstance(value, literals.NoValue):
            is_null = value is literals.NULL and operator is Operator.NULL_SAFE_EQUAL
            return Comparison(field.name, Operator.IS_NULL, (), field.dataType) if is_null else None
        return Comparison(field.name, operator, (value,), field.dataType)

    def _in(self, tree: Any) -> Comparison | None:
        field = self._column(tree.value())
        if field is None:
            return None
        values = [literals.constant_value(item) for item in scala_items(tree.list())]
        if literals.UNKNOWN in values:
            return None
        present = tuple(value for value in values if not isinstance(value, literals.NoValue))
        return Comparison(field.name, Operator.IN, present, field.dataType)

    def _column(self, tree: Any) -> T.StructField | None:
        """Return the column of a tree that is a column, or a lossless cast of one; else None."""
        kind = tree.nodeName()
        if kind == "CommonExpressionRef" and self._common is not None:
            return self._column(self._common)
        if kind == "AttributeReference":
            return self._fields.get(str(tree.name()).lower())
        if kind != "Cast":
            return None
        have, want = (literals.comparable_type(t.dataType().catalogString()) for t in (tree.child(), tree))
        if have is None or want is None or not literals.is_lossless_cast(have, want):
            return None
        return self._column(tree.child())


def _merge_between(low: Comparison | None, high: Comparison | None) -> Comparison | None:
    if low is None or high is None or low.column != high.column:
        return None
    if (low.operator, high.operator) != (Operator.GREATER_OR_EQUAL, Operator.LESS_OR_EQUAL):
        return None
    return Comparison(low.column, Operator.BETWEEN, (*low.values, *high.values), low.type)
