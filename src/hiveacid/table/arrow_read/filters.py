"""Filters of Arrow that select the rows for which a predicate is true.

An expression of Arrow has no third truth value that Spark's NOT would keep. Each predicate therefore has two expressions:
for the rows where it is true, and for those where it is false. NOT exchanges them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_FLOOR, Context, Decimal
from functools import partial, reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hiveacid.core.model import Column
from hiveacid.core.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Not,
    Operator,
    Predicate,
    RemainderComparison,
    Unknown,
    columns_of,
    leaves,
)
from hiveacid.core.schema.types import (
    INTEGER_BITS,
    INTEGER_TYPES,
    NUMERIC_TYPES,
    HiveType,
    Primitive,
    parse_type,
)
from hiveacid.errors import ConfigError, NoSuchColumnError
from hiveacid.orc.stored_values import arrow_type
from hiveacid.table.cast_to_table_columns import nearest_floating

NEVER, ALWAYS = pc.scalar(False), pc.scalar(True)  # noqa: FBT003 - values
_VALUES: dict[str, frozenset[type]] = {
    **dict.fromkeys((*INTEGER_TYPES, "decimal"), frozenset({int, Decimal})),
    **dict.fromkeys(("string", "varchar", "char"), frozenset({str})),
    "boolean": frozenset({bool}),
    "binary": frozenset({bytes}),
    "date": frozenset({date}),
    "timestamp": frozenset({datetime}),
}
# Spark compares decimals of at most 18 digits with each other and with whole numbers without rounding.
_EXACT_DIGITS = 18
_EXACT_TYPES = frozenset({*INTEGER_TYPES, "decimal", "string", "varchar", "boolean", "date"})
_NUMBERED_COLUMN = "FieldPath("  # how pyarrow prints a column that is given by its number
_QUOTED_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_BIGINT = parse_type("bigint")
_WIDE = Context(prec=100)  # decimals have 38 digits, the default context has 28


@dataclass(frozen=True)
class Condition:
    """A filter (an expression of pyarrow) and the columns that it refers to."""

    predicate: pc.Expression
    columns: tuple[str, ...]


def condition_from_arrow(expression: pc.Expression, schema: pa.Schema) -> Condition:
    """Return the condition of a pyarrow expression.

    pyarrow does not list the columns of an expression, so they are found by trial: a column is used if the expression does
    not fit the schema without it. Raises NoSuchColumnError if the expression does not fit the schema. Raises ConfigError for a
    column that is given by its number, because a read has only some of the columns, in an order of its own.
    """
    if _NUMBERED_COLUMN in _QUOTED_TEXT.sub("", str(expression)):
        raise ConfigError("where: the expression names a column by its number: pyarrow.compute.field('name')")
    empty = schema.empty_table()
    try:
        empty.filter(expression)
    except pa.ArrowException as error:
        raise NoSuchColumnError(f"where: the expression does not fit the table ({error})") from error
    columns = []
    for index, name in enumerate(schema.names):
        try:
            empty.remove_column(index).filter(expression)
        except pa.ArrowException:
            columns.append(name)
    return Condition(expression, tuple(columns))


@dataclass(frozen=True)
class Truth:
    """Two expressions: one selects rows where a predicate is true, the other rows where it is false; none selects NULL."""

    true: pc.Expression
    false: pc.Expression

    def __invert__(self) -> Truth:
        """Return the truth of NOT the predicate."""
        return Truth(self.false, self.true)


_UNKNOWN, _ANYTHING = Truth(NEVER, NEVER), Truth(ALWAYS, ALWAYS)


def arrow_filter(columns: Iterable[Column], tree: Predicate) -> Condition:
    """Return the filter of a predicate on columns: ``arrow_filter(table.all_columns, Comparison("id", Operator.EQUAL, (1,)))``.

    It keeps each row for which the predicate is true or undecided. If `is_exact`, it keeps no other rows.
    """
    types = {column.name: parse_type(column.type) for column in columns}
    return Condition(_truth(tree, types).true, tuple(name for name in columns_of(tree) if name in types))


def is_exact(tree: Predicate, columns: Iterable[Column]) -> bool:
    """Tell whether `arrow_filter` selects exactly the rows that Spark selects by a predicate that it has analysed.

    True for comparisons of whole numbers, their remainders, decimals of at most 18 digits, strings, booleans and dates.
    """
    types = {column.name: parse_type(column.type) for column in columns}
    return all(
        isinstance(leaf, Unknown)
        or (isinstance(leaf, Comparison) and _is_exact(leaf, types.get(leaf.column)))
        or (isinstance(leaf, RemainderComparison) and _is_exact(leaf.comparison, types.get(leaf.column)))
        for leaf in leaves(tree)
    )


def _is_exact(comparison: Comparison, hive: HiveType | None) -> bool:
    if not isinstance(hive, Primitive) or hive.name not in _EXACT_TYPES:
        return False
    if hive.name == "decimal" and hive.args[0] > _EXACT_DIGITS:
        return False
    return {type(value) for value in comparison.values} <= _VALUES[hive.name]


def _truth(tree: Predicate, types: Mapping[str, HiveType]) -> Truth:
    match tree:
        case AllOf(parts):
            return _all_of([_truth(part, types) for part in parts])
        case AnyOf(parts):
            return ~_all_of([~_truth(part, types) for part in parts])
        case Not(part):
            return ~_truth(part, types)
        case Unknown():
            return _UNKNOWN
        case Comparison() if tree.column in types:
            return _comparison(tree, ds.field(tree.column), types[tree.column])
        case RemainderComparison() if str(types.get(tree.column)) in INTEGER_TYPES:
            return _comparison(tree.comparison, _remainder(tree), _BIGINT)
    return _ANYTHING


def _all_of(parts: Sequence[Truth]) -> Truth:
    true, false = [part.true for part in parts], [part.false for part in parts]
    return Truth(_joined(true, and_), _joined(false, or_)) if parts else Truth(ALWAYS, NEVER)


def _joined(parts: Sequence[pc.Expression], join: _Test) -> pc.Expression:
    """Join expressions as a balanced tree: Arrow evaluates them by recursion, which thousands would nest too deeply."""
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [reduce(join, pair) for pair in pairs]
    return parts[0]


def _remainder(leaf: RemainderComparison) -> pc.Expression:
    column = ds.field(leaf.column).cast(pa.int64())
    divisor = pc.scalar(pa.scalar(leaf.divisor, pa.int64()))
    rest = column - pc.divide(column, divisor) * divisor  # Arrow divides towards 0
    return rest + pc.if_else(rest < 0, divisor, pc.scalar(0)) if leaf.positive else rest


def _comparison(comparison: Comparison, field: pc.Expression, hive: HiveType) -> Truth:
    operator, values = comparison.operator, comparison.values
    if operator is Operator.IS_NULL:
        return Truth(field.is_null(), field.is_valid())
    if operator is Operator.IS_NOT_NULL:
        return Truth(field.is_valid(), field.is_null())
    column = _column(field, hive, values)
    if column is None:
        return _ANYTHING
    if operator is Operator.IN:
        return column.membership(values)
    if operator is Operator.BETWEEN:
        return _all_of([column.truth(ge, values[0]), column.truth(le, values[1])])
    if operator is not Operator.NULL_SAFE_EQUAL:
        return column.truth(_TESTS[operator], values[0])
    equal = column.truth(eq, values[0])
    return Truth(equal.true, equal.false | field.is_null())


_Test: TypeAlias = Callable[[pc.Expression, Any], pc.Expression]
_TESTS: dict[Operator, _Test] = {
    Operator.EQUAL: eq,
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
}
_NEGATED: dict[_Test, _Test] = {eq: ne, lt: ge, le: gt, gt: le, ge: lt}


@dataclass(frozen=True)
class _Column:
    """A column of which ``data_type`` holds each value that it is compared with."""

    field: pc.Expression
    data_type: pa.DataType

    def truth(self, test: _Test, value: object) -> Truth:
        """Return the truth of a comparison by one of the operators of `_NEGATED`."""
        return Truth(self._select(test, value), self._select(_NEGATED[test], value))

    def _select(self, test: _Test, value: Any) -> pc.Expression:
        return test(self.field, pc.scalar(pa.scalar(value, self.data_type)))

    def membership(self, values: Sequence[object]) -> Truth:
        """Return the truth of IN."""
        found = self.field.isin(pa.array(values, self.data_type)) if values else NEVER
        return Truth(found, ~found & self.field.is_valid())


@dataclass(frozen=True)
class _Double(_Column):
    """A column as a DOUBLE. In Spark NaN equals NaN and is above all other numbers; in Arrow only <> is true of NaN."""

    def _select(self, test: _Test, value: Any) -> pc.Expression:
        number, nan = float(value), pc.is_nan(self.field)
        if not math.isnan(number):
            plain = test(self.field, pc.scalar(number))
            return plain | nan if test in (gt, ge) else plain
        if test in (eq, ge):
            return nan
        return ~nan if test in (lt, ne) else self.field.is_valid() if test is le else NEVER

    def membership(self, values: Sequence[object]) -> Truth:
        # Arrow's isin tells 0.0 and -0.0 apart.
        equal = [self.truth(eq, value) for value in values] or [Truth(NEVER, self.field.is_valid())]
        return ~_all_of([~part for part in equal])


@dataclass(frozen=True)
class _Stepped(_Column):
    """A column of whole numbers, decimals or days. A value between two of them is replaced by the lower one.

    ``floor`` returns it with the type of the column. ``lowest``, ``highest``: the values of the type.
    """

    floor: Callable[[Any], Any]
    lowest: Any
    highest: Any

    def _select(self, test: _Test, value: Any) -> pc.Expression:
        if value < self.lowest or value > self.highest:
            always = (gt, ge, ne) if value < self.lowest else (lt, le, ne)
            return self.field.is_valid() if test in always else NEVER
        floor = self.floor(value)
        if floor == value:
            return super()._select(test, floor)
        if test in (eq, ne):
            return NEVER if test is eq else self.field.is_valid()
        return super()._select({lt: le, ge: gt}.get(test, test), floor)

    def membership(self, values: Sequence[object]) -> Truth:
        possible = (value for value in values if self.lowest <= value <= self.highest)
        return super().membership([floor for value in possible if (floor := self.floor(value)) == value])


def _column(field: pc.Expression, hive: HiveType, values: Sequence[object]) -> _Column | None:
    """Return a column for comparisons with values; None if Arrow cannot compare them as Spark does."""
    if not isinstance(hive, Primitive) or any(isinstance(v, datetime) and v.tzinfo for v in values):
        return None  # an instant of Spark: the wall clocks of a column depend on a session's time zone
    data_type, kinds = arrow_type(hive), {type(value) for value in values}
    if kinds <= {int, Decimal, float} and hive.name in NUMERIC_TYPES:
        if hive.name == "decimal" and float in kinds:
            return _Double(nearest_floating(field, pa.float64()), data_type)
        if float in kinds or hive.name in {"float", "double"}:
            return _Double(field.cast(pa.float64(), safe=False), data_type)  # rounds as Spark does
        if hive.name != "decimal":
            limit = 1 << INTEGER_BITS[hive.name] - 1
            return _Stepped(field, data_type, math.floor, -limit, limit - 1)
        precision, scale = hive.args
        step = Decimal(1).scaleb(-scale)
        highest = _WIDE.subtract(Decimal(1).scaleb(precision - scale), step)
        return _Stepped(field, data_type, partial(_floor_decimal, step), -highest, highest)
    if hive.name == "date" and kinds == {datetime}:
        return _Stepped(field, data_type, _midnight, *_TIMES)
    return _Column(field, data_type) if kinds <= _VALUES.get(hive.name, frozenset()) else None


_TIMES = (datetime.min, datetime.max)  # noqa: DTZ901 - wall clocks


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time())


def _floor_decimal(step: Decimal, value: int | Decimal) -> Decimal:
    return Decimal(value).quantize(step, ROUND_FLOOR, _WIDE)
