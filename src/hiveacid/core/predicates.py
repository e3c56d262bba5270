"""Predicates: a condition as a tree of comparisons of one column with constants.

Spark's analysed trees (``spark.predicates``) and the texts of ``table.arrow_read.condition_grammar`` become predicates. Partition
pruning, file skipping, search arguments of ORC and filters of Arrow are made from them. A predicate is true, false or NULL
for a row, as in SQL.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any, TypeAlias

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
    compared exactly, as numbers, days or texts (by code points; a char column is padded). Only a float is compared with
    the column's value as a DOUBLE. A whole number is an int, even if the text is ``5.0``. A time of Spark has its zone; a
    time without one is a wall clock.
    """

    column: str
    operator: Operator
    values: tuple[Value, ...] = ()


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


Predicate: TypeAlias = Comparison | AllOf | AnyOf | Not | Unknown | Undecided
TRUE, FALSE = AllOf(()), AnyOf(())
UNKNOWN, UNDECIDED = Unknown(), Undecided()


def leaves(tree: Predicate) -> Iterator[Comparison | Unknown | Undecided]:
    """Yield the parts of a tree that have no parts."""
    if isinstance(tree, AllOf | AnyOf):
        for part in tree.parts:
            yield from leaves(part)
    elif isinstance(tree, Not):
        yield from leaves(tree.part)
    else:
        yield tree


def columns_of(tree: Predicate) -> tuple[str, ...]:
    """Return the columns that are compared, each once."""
    return tuple(dict.fromkeys(leaf.column for leaf in leaves(tree) if isinstance(leaf, Comparison)))


def sole_comparison(tree: Predicate) -> Comparison | None:
    """Return the comparison that holds exactly if a predicate is true; None if it is not a single one."""
    if isinstance(tree, AnyOf):  # an IN with NULL in its list
        parts = [part for part in tree.parts if part != UNKNOWN]
        return sole_comparison(parts[0]) if len(parts) == 1 else None
    return tree if isinstance(tree, Comparison) else None


@dataclass(frozen=True, slots=True)
class Bounds:
    """Bounds of a column's values among some rows: a partition, a file or a stripe.

    ``low``, ``high``: no value is below or above them; None if unknown. ``has_null``, ``has_value``: there may be a row with
    NULL, or with a value.
    """

    low: Any = None
    high: Any = None
    has_null: bool = True
    has_value: bool = True


ANY_VALUE = Bounds()
_Outcome: TypeAlias = tuple[bool, bool]  # the predicate may be true for a row; it may be false for one
_ANYTHING: _Outcome = (True, True)


def may_match(tree: Predicate, bounds: Mapping[str, Bounds]) -> bool:
    """Tell whether a predicate may be true for a row within the bounds of its columns; without bounds, any value counts."""
    return _outcome(tree, bounds)[0]


def _outcome(tree: Predicate, bounds: Mapping[str, Bounds]) -> _Outcome:
    match tree:
        case Comparison():
            return _compare(tree, bounds.get(tree.column, ANY_VALUE))
        case AllOf(parts):
            outcomes = [_outcome(part, bounds) for part in parts]
            return all(true for true, _ in outcomes), any(false for _, false in outcomes)
        case AnyOf(parts):
            outcomes = [_outcome(part, bounds) for part in parts]
            return any(true for true, _ in outcomes), all(false for _, false in outcomes)
        case Not(part):
            true, false = _outcome(part, bounds)
            return false, true
        case Unknown():
            return False, False
    return _ANYTHING


def _compare(comparison: Comparison, bounds: Bounds) -> _Outcome:
    match comparison.operator:
        case Operator.IS_NULL:
            return bounds.has_null, bounds.has_value
        case Operator.IS_NOT_NULL:
            return bounds.has_value, bounds.has_null
        case Operator.NULL_SAFE_EQUAL:
            true, false = _compare_values(Operator.EQUAL, comparison.values, bounds)
            return true, false or bounds.has_null
    return _compare_values(comparison.operator, comparison.values, bounds)


def _compare_values(operator: Operator, values: Sequence[Any], bounds: Bounds) -> _Outcome:
    if not bounds.has_value:
        return False, False
    low, high = bounds.low, bounds.high
    try:
        if any(isinstance(value, float) for value in (low, high, *values)):
            low, high, *values = (
                None if value is None else _double_key(value) for value in (low, high, *values)
            )
        return _compare_range(operator, values, low, high)
    except (TypeError, ValueError):  # a value of another type, or a time with a zone beside one without
        return _ANYTHING


def _double_key(value: Any) -> tuple[bool, float]:
    """Return a number as a DOUBLE that sorts as in Spark: NaN equals NaN and is above all others."""
    try:
        number = float(value)
    except OverflowError:
        number = math.copysign(math.inf, value)
    return (True, 0.0) if math.isnan(number) else (False, number)


def _compare_range(operator: Operator, values: Sequence[Any], low: Any, high: Any) -> _Outcome:
    """Return the outcome for values from ``low`` to ``high`` (None: unknown)."""
    match operator:
        case Operator.LESS | Operator.GREATER_OR_EQUAL:
            below = low is None or low < values[0], high is None or high >= values[0]
            return below if operator is Operator.LESS else (below[1], below[0])
        case Operator.LESS_OR_EQUAL | Operator.GREATER:
            below = low is None or low <= values[0], high is None or high > values[0]
            return below if operator is Operator.LESS_OR_EQUAL else (below[1], below[0])
        case Operator.BETWEEN:
            first, last = values
            within = (low is None or low <= last) and (high is None or high >= first) and first <= last
            return within, (low is None or low < first) or (high is None or high > last)
    single = low is not None and low == high
    true = any((low is None or low <= value) and (high is None or high >= value) for value in values)
    return true, not (single and true)
