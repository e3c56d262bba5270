"""Files are skipped only if their statistics rule out every row of a condition."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.model import Column
from hiveacid.core.predicates import Comparison, Operator, may_match
from hiveacid.core.schema.evolution import Matching, map_columns
from hiveacid.core.schema.types import Struct, parse_type
from hiveacid.orc.column_statistics import ColumnStatistics, column_bounds
from hiveacid.orc.footer_summary import FileSummary
from hiveacid.table.read.footers import _column_id

_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)


def _stored(value: Any) -> Any:
    """Return a value as statistics hold it."""
    if isinstance(value, dt.datetime):
        return (value - _EPOCH) // dt.timedelta(milliseconds=1)
    return (value - _EPOCH.date()).days if isinstance(value, dt.date) else value


_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "int": st.integers(-20, 20),
    "bigint": st.integers(-(2**63), 2**63 - 1),
    "string": st.text(st.sampled_from("ab é中\uffee😀"), max_size=3),
    "varchar(5)": st.text(st.sampled_from("ab é"), max_size=3),
    "double": st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.5]),
    "decimal(9,2)": st.decimals(-50, 50, places=2),
    "date": st.dates(dt.date(1600, 1, 1), dt.date(2100, 1, 1)),
    "timestamp": st.datetimes(
        dt.datetime(1970, 1, 1),  # noqa: DTZ001 - Hypothesis adds the zone
        dt.datetime(1970, 2, 1),  # noqa: DTZ001
        timezones=st.just(dt.UTC),
    ),
    "boolean": st.booleans(),
}


@given(st.data())
def test_no_file_with_a_matching_value_is_skipped(data: st.DataObject) -> None:
    hive = data.draw(st.sampled_from(sorted(_VALUES)))
    values = data.draw(st.lists(_VALUES[hive], min_size=1, max_size=5))
    operator = data.draw(st.sampled_from([o for o in Operator if not o.name.startswith("IS_")]))
    count = {Operator.BETWEEN: 2, Operator.IN: 3}.get(operator, 1)
    wanted = tuple(data.draw(st.lists(_VALUES[hive], min_size=count, max_size=count)))
    statistics = ColumnStatistics(
        len(values), data.draw(st.booleans()), _stored(min(values)), _stored(max(values))
    )
    if any(_holds(value, operator, wanted) for value in values):
        assert may_hold(Comparison("k", operator, wanted), hive, statistics)


def may_hold(comparison: Comparison, hive: str, statistics: ColumnStatistics) -> bool:
    return may_match(comparison, {"k": column_bounds(statistics, parse_type(hive))})


def _holds(value: Any, operator: Operator, wanted: tuple[Any, ...]) -> bool:
    match operator:
        case Operator.LESS:
            return bool(value < wanted[0])
        case Operator.LESS_OR_EQUAL:
            return bool(value <= wanted[0])
        case Operator.GREATER:
            return bool(value > wanted[0])
        case Operator.GREATER_OR_EQUAL:
            return bool(value >= wanted[0])
        case Operator.BETWEEN:
            return bool(wanted[0] <= value <= wanted[1])
    return value in wanted


@pytest.mark.parametrize(
    ("hive", "operator", "values", "low", "high"),
    [
        ("int", Operator.EQUAL, (7,), 8, 20),
        ("int", Operator.IN, (1, 30), 8, 20),
        ("int", Operator.LESS, (8,), 9, 20),
        ("int", Operator.GREATER, (8,), 0, 7),
        ("int", Operator.BETWEEN, (3, 5), 6, 9),
        ("string", Operator.EQUAL, ("b",), "c", "x"),
        ("string", Operator.GREATER, ("y",), "c", "x"),
        ("decimal(9,2)", Operator.EQUAL, (1,), Decimal("1.01"), Decimal(3)),
        ("date", Operator.EQUAL, (dt.date(1970, 1, 1),), 2, 9),
        ("timestamp", Operator.EQUAL, (_EPOCH,), 3 * 86_400_000, 4 * 86_400_000),
    ],
)
def test_files_beyond_the_values_are_skipped(
    hive: str, operator: Operator, values: tuple[Any, ...], low: Any, high: Any
) -> None:
    assert not may_hold(Comparison("k", operator, values), hive, ColumnStatistics(5, False, low, high))


def test_bounds_of_floating_point_numbers_tell_nothing() -> None:
    """A row group that begins with NaN has no bounds but NaN, which the bounds of the file leave out."""
    statistics = ColumnStatistics(5, has_null=False, minimum=2.0, maximum=3.0)
    assert may_hold(Comparison("k", Operator.EQUAL, (1.5,)), "double", statistics)


def test_a_file_of_nulls_is_skipped_unless_nulls_are_wanted() -> None:
    nulls = ColumnStatistics(0, True)
    for operator, values, held in (("EQUAL", (7,), False), ("LESS", (7,), False), ("IS_NULL", (), True)):
        assert may_hold(Comparison("k", Operator[operator], values), "int", nulls) is held


@pytest.mark.parametrize(
    ("low", "high"), [(None, None), (None, 5), (8, None), ("8", "9"), (float("nan"), float("nan"))]
)
def test_statistics_that_do_not_tell_skip_nothing(low: Any, high: Any) -> None:
    assert may_hold(Comparison("k", Operator.EQUAL, (7,)), "int", ColumnStatistics(5, False, low, high))


@pytest.mark.parametrize(
    ("file", "table_type", "column_id"),
    [
        ("struct<a:int,k:int>", "int", 8),
        ("struct<a:array<map<int,struct<x:int,y:uniontype<int,string>>>>,k:int>", "int", 15),
        ("struct<k:int,a:int>", "bigint", 7),
        ("struct<k:bigint>", "int", None),  # numbers that are too large are read as NULL
        ("struct<k:varchar(5)>", "string", 7),
        ("struct<k:string>", "varchar(5)", None),  # texts are cut when they are read
        ("struct<k:string>", "int", None),
        ("struct<k:decimal(9,1)>", "decimal(9,2)", None),
        ("struct<a:int>", "int", None),
    ],
)
def test_the_column_of_a_file_whose_statistics_hold(
    file: str, table_type: str, column_id: int | None
) -> None:
    schema = parse_type(file)
    assert isinstance(schema, Struct)
    columns = [Column("k", table_type)]
    by_name = map_columns(columns, schema, Matching.NAME)
    acid, original = FileSummary(1, schema, is_acid=True), FileSummary(1, schema)
    assert _column_id(acid, by_name, 0, parse_type(table_type)) == column_id
    of_original = None if column_id is None else column_id - 6
    assert _column_id(original, by_name, 0, parse_type(table_type)) == of_original


def test_a_column_found_by_its_position() -> None:
    schema = parse_type("struct<_col0:array<int>,_col1:int>")
    assert isinstance(schema, Struct)
    columns = [Column("a", "array<int>"), Column("k", "int")]
    summary = FileSummary(1, schema, is_acid=True)
    assert _column_id(summary, map_columns(columns, schema, Matching.NAME), 1, parse_type("int")) == 9
