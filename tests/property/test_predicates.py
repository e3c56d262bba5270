"""Predicates against brute force: which rows Arrow's filter selects, and which partitions, files and stripes may hold one."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from decimal import Decimal
from functools import reduce
from operator import and_
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.predicates import (
    UNDECIDED,
    UNKNOWN,
    AllOf,
    AnyOf,
    Bounds,
    Comparison,
    Not,
    Operator,
    Predicate,
    RemainderComparison,
    Undecided,
    columns_of,
    leaves,
    may_match,
)
from hiveacid.core.schema.storage_formats import ORC
from hiveacid.core.schema.types import parse_type
from hiveacid.orc.column_statistics import HIVE_8732, ColumnStatistics, column_bounds
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.orc.tail import OrcTail
from hiveacid.table.arrow_read.files_to_open import _guarantee, partition_guarantee, possible_fragments
from hiveacid.table.arrow_read.filters import ALWAYS, arrow_filter
from support.exhaustive import examples

COLUMNS = {
    "i": "int",
    "l": "bigint",
    "n": "decimal(6,2)",
    "w": "decimal(38,10)",
    "s": "string",
    "v": "varchar(3)",
    "c": "char(4)",
    "x": "double",
    "f": "float",
    "b": "boolean",
    "d": "date",
    "t": "timestamp",
    "y": "binary",
}
TABLE = TableDefinition(
    TableName("default", "t"), tuple(Column(name, kind) for name, kind in COLUMNS.items()), ORC, "/t"
)
_TEXT = st.text(st.sampled_from("ab é\uffee😀\x01"), max_size=5) | st.sampled_from(["a" * 1100, "a" * 1101])
_DAYS = st.dates(dt.date(1970, 1, 1), dt.date(1970, 1, 9)) | st.dates()
_TIMES = st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(1970, 1, 1, 0, 0, 3)) | st.datetimes()  # noqa: DTZ001 - wall clocks
_FLOATS = st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25]) | st.floats(width=32)
_CENTS = st.decimals(-9999, 9999, places=2)
_DECIMALS = st.integers(-(10**38) + 1, 10**38 - 1).map(lambda n: Decimal(f"{n}e-10")) | _CENTS
_INTEGERS = st.integers(-3, 3) | st.sampled_from([-(2**31), 2**31 - 1])
_LONGS = _INTEGERS | st.sampled_from([2**53 + 1, 2**63 - 1, -(2**63)])
STORED: dict[str, st.SearchStrategy[Any]] = {
    "i": _INTEGERS,
    "l": _LONGS,
    "n": _CENTS,
    "w": _DECIMALS,
    "s": _TEXT,
    "v": _TEXT.map(lambda text: text[:3]),
    "c": _TEXT.map(lambda text: text.rstrip(" ")[:4].ljust(4)),
    "x": _FLOATS,
    "f": _FLOATS,
    "b": st.booleans(),
    "d": _DAYS,
    "t": _TIMES,
    "y": st.binary(max_size=2),
}
_NUMBERS = _LONGS | st.sampled_from([2**63, 10**30]) | _DECIMALS | _FLOATS
CONSTANTS = {
    **STORED,
    **dict.fromkeys("ilnwxf", _NUMBERS),
    **dict.fromkeys("svc", _TEXT),
}


@st.composite
def comparisons(draw: st.DrawFn) -> Comparison:
    name = draw(st.sampled_from(sorted(COLUMNS)))
    operator = draw(st.sampled_from([*Operator]))
    count = {Operator.BETWEEN: 2, Operator.IS_NULL: 0, Operator.IS_NOT_NULL: 0}.get(operator, 1)
    count = draw(st.integers(0, 4)) if operator is Operator.IN else count
    return Comparison(name, operator, tuple(draw(CONSTANTS[name]) for _ in range(count)))


@st.composite
def remainders(draw: st.DrawFn) -> RemainderComparison:
    comparison = Comparison(
        draw(st.sampled_from("il")),
        draw(
            st.sampled_from(
                [Operator.EQUAL, Operator.LESS, Operator.GREATER_OR_EQUAL, Operator.NULL_SAFE_EQUAL]
            )
        ),
        (draw(st.integers(-3, 6) | _LONGS),),
    )
    divisor = draw(st.integers(1, 7) | st.sampled_from([2**31 - 1, 2**63 - 1]))
    return RemainderComparison(comparison, divisor, draw(st.booleans()))


def _several(parts: st.SearchStrategy[Predicate]) -> st.SearchStrategy[tuple[Predicate, ...]]:
    return st.lists(parts, max_size=3).map(tuple)


PREDICATES: st.SearchStrategy[Predicate] = st.recursive(
    comparisons() | remainders() | st.sampled_from([UNKNOWN, UNDECIDED]),
    lambda parts: _several(parts).map(AllOf) | _several(parts).map(AnyOf) | parts.map(Not),
    max_leaves=6,
)
ROWS = st.lists(
    st.fixed_dictionaries({name: st.none() | values for name, values in STORED.items()}), max_size=5
)


def truth(tree: Predicate, row: Mapping[str, Any], undecided: Any) -> bool | None:
    """Return the value of a predicate for a row; ``undecided``: that of the parts that are not understood."""
    match tree:
        case AllOf(parts):
            values = [truth(part, row, undecided) for part in parts]
            return False if False in values else None if None in values else True
        case AnyOf(parts):
            values = [truth(part, row, undecided) for part in parts]
            return True if True in values else None if None in values else False
        case Not(part):
            value = truth(part, row, undecided)
            return None if value is None else not value
        case Comparison():
            return _compare(tree, row[tree.column])
        case RemainderComparison():
            value = row[tree.column]
            if value is not None:
                rest = abs(value) % tree.divisor
                value = value % tree.divisor if tree.positive else rest if value >= 0 else -rest
            return _compare(tree.comparison, value)
        case Undecided():
            return undecided
    return None


def _compare(comparison: Comparison, value: Any) -> bool | None:
    operator, constants = comparison.operator, comparison.values
    if operator in {Operator.IS_NULL, Operator.IS_NOT_NULL}:
        return (value is None) == (operator is Operator.IS_NULL)
    if value is None:
        return False if operator is Operator.NULL_SAFE_EQUAL else None
    as_doubles = COLUMNS[comparison.column] in {"float", "double"} or any(
        isinstance(constant, float) for constant in constants
    )
    own, *keys = (_key(one, as_double=as_doubles) for one in (value, *constants))
    match operator:
        case Operator.LESS:
            return bool(own < keys[0])
        case Operator.LESS_OR_EQUAL:
            return bool(own <= keys[0])
        case Operator.GREATER:
            return bool(own > keys[0])
        case Operator.GREATER_OR_EQUAL:
            return bool(own >= keys[0])
        case Operator.BETWEEN:
            return bool(keys[0] <= own <= keys[1])
    return own in keys


def _key(value: Any, *, as_double: bool) -> Any:
    """Return a value that sorts as in Spark."""
    if as_double:
        number = float(value)
        return (1, 0.0) if math.isnan(number) else (0, number)
    return value.encode() if isinstance(value, str) else value


@settings(max_examples=examples(400))
@given(PREDICATES, ROWS)
def test_arrow_selects_the_rows_for_which_a_predicate_is_true(
    tree: Predicate, rows: list[dict[str, Any]]
) -> None:
    condition = arrow_filter(TABLE.all_columns, tree)
    assert condition.columns == columns_of(tree)
    numbers = pa.array(range(len(rows)), pa.int64())
    table = pa.Table.from_pylist(rows, arrow_schema(TABLE.columns)).append_column("number", numbers)
    selected = table.filter(condition.predicate)["number"].to_pylist()
    for number, row in enumerate(rows):
        possible = any(truth(tree, row, undecided) for undecided in (True, False, None))
        assert (number in selected) >= possible
        assert UNDECIDED in leaves(tree) or (number in selected) == possible


def bounds_of(name: str, values: list[Any]) -> Bounds:
    """Return the bounds of a column's values, as a partition, file or stripe tells them."""
    present = [value for value in values if value is not None]
    if name == "c" or any(isinstance(value, float) for value in present):
        return Bounds(has_null=None in values, has_value=bool(present))
    return Bounds(
        min(present, default=None), max(present, default=None), None in values, has_value=bool(present)
    )


@settings(max_examples=examples(400))
@given(PREDICATES, ROWS)
def test_no_row_is_outside_the_bounds_that_may_match(tree: Predicate, rows: list[dict[str, Any]]) -> None:
    bounds = {name: bounds_of(name, [row[name] for row in rows]) for name in COLUMNS}
    if any(truth(tree, row, undecided) for row in rows for undecided in (True, False, None)):
        assert may_match(tree, bounds)
        assert may_match(tree, {})


@settings(max_examples=examples(400))
@given(PREDICATES, ROWS)
@example(Comparison("x", Operator.EQUAL, (0,)), [dict.fromkeys(COLUMNS) | {"x": math.nan}])
@example(Not(Comparison("x", Operator.LESS, (Decimal("0.5"),))), [dict.fromkeys(COLUMNS) | {"x": math.nan}])
def test_bounds_of_one_row_decide_as_the_row(tree: Predicate, rows: list[dict[str, Any]]) -> None:
    """So partition pruning is exact: a partition has one value for each of its columns."""
    if any(isinstance(leaf, Undecided | RemainderComparison) for leaf in leaves(tree)):
        return
    for row in rows:
        bounds = {name: Bounds(value, value, value is None, value is not None) for name, value in row.items()}
        assert may_match(tree, bounds) == (truth(tree, row, None) is True)


def _stored(value: Any) -> Any:
    """Return a value as statistics hold it."""
    return (value - dt.date(1970, 1, 1)).days if isinstance(value, dt.date) else value


@settings(max_examples=examples(400))
@given(PREDICATES, ROWS.filter(bool))
def test_no_stripe_with_a_matching_row_is_skipped(tree: Predicate, rows: list[dict[str, Any]]) -> None:
    """Arrow decides by the guarantees that statistics give; Spark's files by `may_match` of the same bounds."""
    tail, schema = OrcTail("f", 1, writer_version=HIVE_8732), arrow_schema(TABLE.columns)
    bounds, parts = {}, []
    for name in "ilnwsvcd":
        present = [row[name] for row in rows if row[name] is not None]
        low, high = (_stored(end(present, default=None)) for end in (min, max))
        statistics = ColumnStatistics(len(present), len(present) < len(rows), low, high)
        bounds[name] = column_bounds(statistics, parse_type(COLUMNS[name]))
        parts.append(_guarantee(tail, name, COLUMNS[name], statistics, schema.field(name).type, len(rows)))
    guarantee = reduce(and_, [part for part in parts if part is not None], ALWAYS)
    if any(truth(tree, row, undecided) for row in rows for undecided in (True, False, None)):
        assert may_match(tree, bounds)
        assert possible_fragments([guarantee], schema, arrow_filter(TABLE.all_columns, tree).predicate) == [0]


@settings(max_examples=examples(400))
@given(PREDICATES, ROWS)
def test_no_partition_with_a_matching_row_is_pruned_by_arrow(
    tree: Predicate, rows: list[dict[str, Any]]
) -> None:
    schema = arrow_schema(TABLE.columns)
    for row in rows:
        values = [pa.scalar(row[name], schema.field(name).type) for name in COLUMNS]
        guarantee = partition_guarantee([*COLUMNS], values)
        if any(truth(tree, row, undecided) for undecided in (True, False, None)):
            assert possible_fragments(
                [guarantee], schema, arrow_filter(TABLE.all_columns, tree).predicate
            ) == [0]


@given(st.lists(_TEXT, min_size=1, max_size=5), comparisons())
def test_statistics_of_texts_may_be_ordered_by_utf_16(texts: list[str], comparison: Comparison) -> None:
    def units(text: str) -> bytes:
        return text.encode("utf-16-be")

    low, high = min(texts, key=units), max(texts, key=units)
    bounds = {"s": column_bounds(ColumnStatistics(len(texts), False, low, high), parse_type("string"))}
    if any(truth(comparison, dict.fromkeys(COLUMNS, None) | {"s": text}, None) for text in texts):
        assert may_match(comparison, bounds)
