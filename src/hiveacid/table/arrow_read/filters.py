"""Filters of Arrow that select the rows for which a predicate is true.

An expression of Arrow has no third truth value that Spark's NOT would keep. Each predicate therefore has two expressions:
for the rows where it is true, and for those where it is false. NOT exchanges them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import ROUND_FLOOR, Context, Decimal
from functools import reduce
from operator import and_, eq, ge, gt, le, lt, ne, or_
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from hiveacid.core.model import TableDefinition
from hiveacid.core.predicates import (
    AllOf,
    AnyOf,
    Comparison,
    Not,
    Operator,
    Predicate,
    Unknown,
    Value,
    columns_of,
    leaves,
)
from hiveacid.core.schema.types import INTEGER_BITS, INTEGER_TYPES, HiveType, Primitive, parse_type
from hiveacid.errors import ConfigError, NoSuchColumnError
from hiveacid.orc.stored_values import arrow_type

NEVER, ALWAYS = pc.scalar(False), pc.scalar(True)  # noqa: FBT003 - values
# Spark compares decimals of at most 18 digits with each other and with whole numbers without rounding.
_EXACT_DIGITS = 18
_EXACT_VALUES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys((*INTEGER_TYPES, "decimal"), (int, Decimal)),
    **dict.fromkeys(("string", "varchar"), (str,)),
    "boolean": (bool,),
    "date": (date,),
}
_NUMBERED_COLUMN = "FieldPath("  # how pyarrow prints a column that is given by its number
_QUOTED_TEXT = re.compile(r'"(?:[^"\\]|\\.)*+"?', re.DOTALL)
_WIDE = Context(prec=100)  # decimals have 38 digits, the default context has 28


@dataclass(frozen=True)
class Condition:
    """A filter (an expression of pyarrow) and the columns that it refers to."""

    predicate: Any
    columns: tuple[str, ...]


def condition_from_arrow(expression: Any, schema: Any) -> Condition:
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

    true: Any
    false: Any

    def __invert__(self) -> Truth:
        """Return the truth of NOT the predicate."""
        return Truth(self.false, self.true)


_UNKNOWN, _ANYTHING = Truth(NEVER, NEVER), Truth(ALWAYS, ALWAYS)


def arrow_filter(table: TableDefinition, tree: Predicate) -> Condition:
    """Return the filter of a predicate on a table's columns: ``arrow_filter(table, Comparison("id", Operator.EQUAL, (1,)))``.

    It keeps each row for which the predicate is true or undecided. If `is_exact`, it keeps no other rows.
    """
    types = {column.name: parse_type(column.type) for column in table.all_columns}
    columns = tuple(name for name in columns_of(tree) if name in types)
    return Condition(_truth(tree, types).true, columns)


def is_exact(tree: Predicate, table: TableDefinition) -> bool:
    """Tell whether `arrow_filter` selects exactly the rows that Spark selects by a predicate that it has analysed.

    True for comparisons of whole numbers, decimals of at most 18 digits, strings, booleans and dates.
    """
    types = {column.name: parse_type(column.type) for column in table.all_columns}
    return all(
        isinstance(leaf, Unknown)
        or (isinstance(leaf, Comparison) and _is_exact(leaf, types.get(leaf.column)))
        for leaf in leaves(tree)
    )


def _is_exact(comparison: Comparison, hive: HiveType | None) -> bool:
    if not isinstance(hive, Primitive) or (hive.name == "decimal" and hive.args[0] > _EXACT_DIGITS):
        return False
    kinds = _EXACT_VALUES.get(hive.name, ())
    return bool(kinds) and all(type(value) in kinds for value in comparison.values)


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
            return _comparison(tree, types[tree.column])
    return _ANYTHING


def _all_of(parts: Sequence[Truth]) -> Truth:
    true, false = [part.true for part in parts], [part.false for part in parts]
    return Truth(_joined(true, and_), _joined(false, or_)) if parts else Truth(ALWAYS, NEVER)


def _joined(parts: Sequence[Any], join: Callable[[Any, Any], Any]) -> Any:
    """Join expressions as a balanced tree: Arrow evaluates them by recursion, which thousands would nest too deeply."""
    while len(parts) > 1:
        pairs = [parts[index : index + 2] for index in range(0, len(parts), 2)]
        parts = [reduce(join, pair) for pair in pairs]
    return parts[0]


def _comparison(comparison: Comparison, hive: HiveType) -> Truth:
    field, values = ds.field(comparison.column), comparison.values
    match comparison.operator:
        case Operator.IS_NULL:
            return Truth(field.is_null(), field.is_valid())
        case Operator.IS_NOT_NULL:
            return Truth(field.is_valid(), field.is_null())
    column = _column(field, hive, values)
    if column is None:
        return _ANYTHING
    match comparison.operator:
        case Operator.IN:
            return column.membership(values)
        case Operator.BETWEEN:
            low, high = values
            return _all_of(
                [column.truth(Operator.GREATER_OR_EQUAL, low), column.truth(Operator.LESS_OR_EQUAL, high)]
            )
        case Operator.NULL_SAFE_EQUAL:
            equal = column.truth(Operator.EQUAL, values[0])
            return Truth(equal.true, equal.false | field.is_null())
    return column.truth(comparison.operator, values[0])


_TESTS: dict[Operator, Callable[[Any, Any], Any]] = {
    Operator.EQUAL: eq,
    Operator.LESS: lt,
    Operator.LESS_OR_EQUAL: le,
    Operator.GREATER: gt,
    Operator.GREATER_OR_EQUAL: ge,
}
_NEGATED: dict[Callable[[Any, Any], Any], Callable[[Any, Any], Any]] = {
    eq: ne,
    lt: ge,
    le: gt,
    gt: le,
    ge: lt,
}


@dataclass(frozen=True)
class _Column:
    """A column of which ``data_type`` holds each value that it is compared with."""

    field: Any
    data_type: Any

    def truth(self, operator: Operator, value: Any) -> Truth:
        """Return the truth of a comparison."""
        return self._test(_TESTS[operator], value)

    def _test(self, test: Callable[[Any, Any], Any], value: Any) -> Truth:
        constant = pc.scalar(pa.scalar(value, self.data_type))
        return Truth(test(self.field, constant), _NEGATED[test](self.field, constant))

    def membership(self, values: Sequence[Any]) -> Truth:
        """Return the truth of IN."""
        found = self.field.isin(pa.array(values, self.data_type)) if values else NEVER
        return Truth(found, ~found & self.field.is_valid())


@dataclass(frozen=True)
class _Char(_Column):
    """A column of char: the shorter side of a comparison is padded."""

    length: int

    def _test(self, test: Callable[[Any, Any], Any], value: Any) -> Truth:
        padded = value.ljust(self.length)
        if len(padded) <= self.length:
            return super()._test(test, padded)
        field = pc.utf8_rpad(self.field, len(padded), " ")
        return _Column(field, self.data_type)._test(test, padded)  # noqa: SLF001 - of the same class

    def membership(self, values: Sequence[Any]) -> Truth:
        return _any_equal(self, values)


@dataclass(frozen=True)
class _Double(_Column):
    """A column as a DOUBLE. In Spark NaN equals NaN and is above all other numbers; in Arrow only <> is true of NaN."""

    def _test(self, test: Callable[[Any, Any], Any], value: Any) -> Truth:
        number = _as_double(value)
        return Truth(self._select(test, number), self._select(_NEGATED[test], number))

    def _select(self, test: Callable[[Any, Any], Any], number: float) -> Any:
        field, nan = self.field, pc.is_nan(self.field)
        if not math.isnan(number):
            plain = test(field, pc.scalar(number))
            return plain | nan if test in (gt, ge) else plain
        if test in (lt, ne):
            return ~nan
        if test in (eq, ge):
            return nan
        return field.is_valid() if test is le else NEVER

    def membership(self, values: Sequence[Any]) -> Truth:
        return _any_equal(self, values)


@dataclass(frozen=True)
class _Stepped(_Column):
    """A column of whole numbers, decimals or days. A value between two of them is replaced by the lower one.

    ``floor`` returns it with the type of the column. ``lowest``, ``highest``: the values of the type.
    """

    floor: Callable[[Any], Any]
    lowest: Any
    highest: Any

    def _test(self, test: Callable[[Any, Any], Any], value: Any) -> Truth:
        valid = self.field.is_valid()
        if value < self.lowest:
            return Truth(valid, NEVER) if test in (gt, ge) else Truth(NEVER, valid)
        if value > self.highest:
            return Truth(valid, NEVER) if test in (lt, le) else Truth(NEVER, valid)
        floor = self.floor(value)
        if floor != value:
            if test is eq:
                return Truth(NEVER, valid)
            test = {lt: le, ge: gt}.get(test, test)
        return super()._test(test, floor)

    def membership(self, values: Sequence[Any]) -> Truth:
        stored = [
            floor
            for value in values
            if self.lowest <= value <= self.highest and (floor := self.floor(value)) == value
        ]
        return super().membership(stored)


def _any_equal(column: _Column, values: Sequence[Any]) -> Truth:
    parts = [column.truth(Operator.EQUAL, value) for value in values]
    return ~_all_of([~part for part in parts]) if parts else Truth(NEVER, column.field.is_valid())


def _column(field: Any, hive: HiveType, values: Sequence[Value]) -> _Column | None:
    """Return a column for comparisons with values; None if Arrow cannot compare them as Spark does."""
    if not isinstance(hive, Primitive):
        return None
    data_type, kinds = arrow_type(hive), {type(value) for value in values}
    is_number = kinds <= {int, Decimal, float}
    match hive.name:
        case "float" | "double" if is_number:
            return _Double(field if hive.name == "double" else field.cast(pa.float64()), data_type)
        case "decimal" if float in kinds and is_number:
            # By a text to the nearest number, which Arrow's direct cast may miss.
            return _Double(field.cast(pa.string()).cast(pa.float64()), data_type)
        case "tinyint" | "smallint" | "int" | "bigint" if float in kinds and is_number:
            return _Double(field.cast(pa.float64(), safe=False), data_type)  # rounds as Spark does
        case "tinyint" | "smallint" | "int" | "bigint" if is_number:
            limit = 1 << INTEGER_BITS[hive.name] - 1
            return _Stepped(field, data_type, math.floor, -limit, limit - 1)
        case "decimal" if is_number:
            precision, scale = hive.args
            step = Decimal(1).scaleb(-scale)
            highest = _WIDE.subtract(Decimal(1).scaleb(precision - scale), step)
            return _Stepped(field, data_type, lambda value: _floor_decimal(value, step), -highest, highest)
        case "date" if kinds == {datetime} and not _has_zone(values):
            return _Stepped(field, data_type, _midnight, *_TIMES)
        case "char" if kinds <= {str}:
            return _Char(field, data_type, hive.args[0])
        case _ if kinds <= _OTHER_VALUES.get(hive.name, set()) and not _has_zone(values):
            return _Column(field, data_type)
    return None


_OTHER_VALUES: dict[str, set[type]] = {
    "string": {str},
    "varchar": {str},
    "boolean": {bool},
    "binary": {bytes},
    "date": {date},
    "timestamp": {datetime},
}


def _has_zone(values: Sequence[Any]) -> bool:
    """Tell whether a value is an instant of Spark: the wall clocks of a column depend on a session's time zone."""
    return any(isinstance(value, datetime) and value.tzinfo is not None for value in values)


_TIMES = (datetime.min, datetime.max)  # noqa: DTZ901 - wall clocks


def _midnight(moment: datetime) -> datetime:
    return datetime.combine(moment.date(), time())


def _floor_decimal(value: int | Decimal, step: Decimal) -> Decimal:
    return Decimal(value).quantize(step, ROUND_FLOOR, _WIDE)


def _as_double(value: float | Decimal) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
