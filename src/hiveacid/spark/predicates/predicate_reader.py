"""Predicates of conditions that Spark has analysed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from py4j.java_gateway import JavaObject
from pyspark.sql import types as T

from hiveacid.core.predicates import UNDECIDED, UNKNOWN, AllOf, AnyOf, Comparison, Not, Operator, Predicate
from hiveacid.spark.predicates import literals
from hiveacid.spark.session.jvm import scala_items

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
_MAX_PARTS = 100  # of an AND or OR, each of which takes some round trips to the JVM
_MAX_DEPTH = 20


class PredicateReader:
    """Reader of conditions that Spark has analysed on a table, or on a frame with its columns.

    Parts that are not comparisons of a column with constants become `UNDECIDED`. Among these are subqueries, functions that
    are not deterministic, and those that depend on the time or the user. ``subquery`` returns the predicate of ``… IN (SELECT …)``.
    """

    def __init__(
        self, schema: T.StructType, subquery: Callable[[JavaObject], Predicate] | None = None
    ) -> None:
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
        if field is None:
            field, right = self._column(right), left
            operator = _MIRRORED.get(operator, operator)
        if field is None:
            return UNDECIDED
        value = literals.constant_value(right)
        if not isinstance(value, literals.NoValue):
            return Comparison(field.name, operator, (value,))
        if value is literals.UNKNOWN:
            return UNDECIDED
        return Comparison(field.name, Operator.IS_NULL) if operator is Operator.NULL_SAFE_EQUAL else UNKNOWN

    def _in(self, tree: JavaObject) -> Predicate:
        field = self._column(tree.value())
        if field is None:
            return UNDECIDED
        values = literals.constant_values(tree.list())
        if literals.UNKNOWN in values:
            return UNDECIDED
        present = tuple(value for value in values if not isinstance(value, literals.NoValue))
        comparison = Comparison(field.name, Operator.IN, present)
        return comparison if len(present) == len(values) else AnyOf((comparison, UNKNOWN))

    def _column(self, tree: JavaObject) -> T.StructField | None:
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
