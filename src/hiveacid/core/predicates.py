"""Predicates: a condition as a tree of comparisons of one column with constants.

Spark's analysed trees (``spark.predicates``) and the texts of ``table.arrow_read.condition_grammar`` become predicates. Partition
pruning, file skipping, search arguments of ORC and filters of Arrow are made from them. A predicate is true, false or NULL
for a row, as in SQL.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, NamedTuple, TypeAlias

Value: TypeAlias = bool | int | float | str | bytes | date | datetime | Decimal
"""A constant of a comparison; never NULL."""


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

    ``values``: none for IS [NOT] NULL, two for BETWEEN, any number for IN, otherwise one. The value and the column are
    compared exactly, as numbers, days or texts (by code points, with the padding of a char column). A float, or the value of a
    float column, is compared as a DOUBLE. A whole number is an int, even if the text is ``5.0``. A time of Spark has its zone; a
    time without one is a wall clock.
    """

    column: str
    operator: Operator
    values: tuple[Value, ...] = ()


@dataclass(frozen=True)
class RemainderComparison:
    """Comparison of the remainder of a column of whole numbers, as of ``column % divisor``, with whole numbers.

    ``divisor``: above 0. ``positive``: the remainder is never below 0, as that of ``pmod``; otherwise it has the column's sign.
    """

    comparison: Comparison
    divisor: int
    positive: bool

    @property
    def column(self) -> str:
        """Return the name of the column."""
        return self.comparison.column


@dataclass(frozen=True)
class AllOf:
    """Parts joined by AND; true without parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class AnyOf:
    """Parts joined by OR; false without parts."""

    parts: tuple[Predicate, ...]


@dataclass(frozen=True)
class Not:
    """Negation: NULL stays NULL."""

    part: Predicate


@dataclass(frozen=True)
class Unknown:
    """The predicate that is NULL for each row, such as ``id = NULL``."""


@dataclass(frozen=True)
class Undecided:
    """A part that is not understood: it may be true, false or NULL."""


Predicate: TypeAlias = Comparison | RemainderComparison | AllOf | AnyOf | Not | Unknown | Undecided
TRUE, FALSE = AllOf(()), AnyOf(())
UNKNOWN, UNDECIDED = Unknown(), Undecided()


def leaves(tree: Predicate) -> Iterator[Comparison | RemainderComparison | Unknown | Undecided]:
    """Yield the parts of a tree that have no parts."""
    if isinstance(tree, AllOf | AnyOf):
        for part in tree.parts:
            yield from leaves(part)
    elif isinstance(tree, Not):
        yield from leaves(tree.part)
    else:
        yield tree


def columns_of(tree: Predicate) -> tuple[str, ...]:
    """Return the columns that are compared, or whose remainders are, each once."""
    compared = (leaf for leaf in leaves(tree) if isinstance(leaf, Comparison | RemainderComparison))
    return tuple(dict.fromkeys(leaf.column for leaf in compared))


def sole_comparison(tree: Predicate) -> Comparison | None:
    """Return the comparison that holds exactly if a predicate is true; None if it is not a single one."""
    if isinstance(tree, AnyOf):  # an IN with NULL in its list
        parts = [part for part in tree.parts if part != UNKNOWN]
        return sole_comparison(parts[0]) if len(parts) == 1 else None
    return tree if isinstance(tree, Comparison) else None


class Bounds(NamedTuple):
    """Bounds of a column's values among some rows: a partition, a file or a stripe.

    ``low``, ``high``: no value is below or above them; None if unknown. ``has_null``, ``has_value``: there may be a row with
    NULL, or with a value.
    """

    low: Any = None
    high: Any = None
    has_null: bool = True
    has_value: bool = True


_Outcome: TypeAlias = tuple[bool, bool]  # the predicate may be true for a row; it may be false for one
_Test: TypeAlias = Callable[[Sequence[Bounds]], _Outcome]
_ANYTHING: _Outcome = (True, True)
ANY_VALUE = Bounds()


def may_match(tree: Predicate, bounds: Mapping[str, Bounds]) -> bool:
    """Tell whether a predicate may be true for a row within the bounds of its columns; without bounds, any value counts."""
    return bounds_test(tree, tuple(bounds))(tuple(bounds.values()))


def bounds_test(tree: Predicate, columns: Sequence[str]) -> Callable[[Sequence[Bounds]], bool]:
    """Return `may_match` as a function of the bounds of some columns, for many partitions or files."""
    outcome = _outcome(tree, {name: position for position, name in enumerate(columns)})
    return lambda bounds: outcome(bounds)[0]


def _outcome(tree: Predicate, positions: Mapping[str, int]) -> _Test:
    match tree:
        case Comparison():
            position = positions.get(tree.column)
            if position is None:
                return lambda _: _ANYTHING
            return _comparison_test(tree.operator, tree.values, position)
        case AllOf(parts):
            return _all_of([_outcome(part, positions) for part in parts])
        case AnyOf(parts):
            return _negated(_all_of([_negated(_outcome(part, positions)) for part in parts]))
        case Not(part):
            return _negated(_outcome(part, positions))
        case Unknown():
            return lambda _: (False, False)
    return lambda _: _ANYTHING


def _negated(test: _Test) -> _Test:
    def negated(bounds: Sequence[Bounds]) -> _Outcome:
        true, false = test(bounds)
        return false, true

    return negated


def _all_of(tests: Sequence[_Test]) -> _Test:
    if len(tests) == 1:
        return tests[0]

    def all_of(bounds: Sequence[Bounds]) -> _Outcome:
        all_true, any_false = True, False
        for test in tests:
            true, false = test(bounds)
            all_true, any_false = all_true and true, any_false or false
        return all_true, any_false

    return all_of


def _comparison_test(operator: Operator, values: Sequence[Any], column: int) -> _Test:
    match operator:
        case Operator.IS_NULL:
            return lambda bounds: (bounds[column].has_null, bounds[column].has_value)
        case Operator.IS_NOT_NULL:
            return lambda bounds: (bounds[column].has_value, bounds[column].has_null)
        case Operator.NULL_SAFE_EQUAL:
            equal = _comparison_test(Operator.EQUAL, values, column)

            def null_safe_equal(bounds: Sequence[Bounds]) -> _Outcome:
                true, false = equal(bounds)
                return true, false or bounds[column].has_null

            return null_safe_equal
    as_double = any(isinstance(value, float) for value in values)
    numbers = all(isinstance(value, int | float | Decimal) for value in values)
    try:
        of_doubles = _range_test(operator, [_double_key(value) for value in values]) if numbers else None
        exact = of_doubles if as_double else _range_test(operator, values)
    except (TypeError, ValueError):
        return lambda _: _ANYTHING

    def test(bounds: Sequence[Bounds]) -> _Outcome:
        low, high, _, has_value = bounds[column]
        if not has_value:
            return False, False
        # A float column is compared as DOUBLE whatever the constant is: its NaN is above each number.
        doubles = as_double or isinstance(low, float) or isinstance(high, float)
        in_range = of_doubles if doubles else exact
        if in_range is None:
            return _ANYTHING
        try:
            return in_range(*((_double_key(low), _double_key(high)) if doubles else (low, high)))
        except (TypeError, ValueError):  # a value of another type, or a time with a zone beside one without
            return _ANYTHING

    return test


def _double_key(value: Any) -> tuple[bool, float] | None:
    """Return a number as a DOUBLE that sorts as in Spark: NaN equals NaN and is above all others."""
    if value is None:
        return None
    try:
        number = float(value)
    except OverflowError:
        number = math.copysign(math.inf, value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _range_test(operator: Operator, values: Sequence[Any]) -> Callable[[Any, Any], _Outcome]:
    """Return the outcome of a comparison for values from ``low`` to ``high`` (None: unknown)."""
    match operator:
        case Operator.LESS | Operator.GREATER_OR_EQUAL:
            (value,) = values

            def test(low: Any, high: Any) -> _Outcome:
                return low is None or low < value, high is None or high >= value

        case Operator.LESS_OR_EQUAL | Operator.GREATER:
            (value,) = values

            def test(low: Any, high: Any) -> _Outcome:
                return low is None or low <= value, high is None or high > value

        case Operator.BETWEEN:
            first, last = values
            is_empty = first > last

            def test(low: Any, high: Any) -> _Outcome:
                within = (low is None or low <= last) and (high is None or high >= first)
                return (
                    within and not is_empty,
                    is_empty or low is None or low < first or high is None or high > last,
                )

        case _:
            ordered = sorted(values)

            def test(low: Any, high: Any) -> _Outcome:
                index = 0 if low is None else bisect_left(ordered, low)
                if index == len(ordered) or (high is not None and ordered[index] > high):
                    return False, True
                return True, low is None or low != high

    if operator in {Operator.GREATER_OR_EQUAL, Operator.GREATER}:
        return lambda low, high: test(low, high)[::-1]
    return test
