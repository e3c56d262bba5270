"""Records become rows of the table's types; the first that does not fit is named."""

from __future__ import annotations

from datetime import UTC, date
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.core.model import Column
from hiveacid.errors import BadRecordError, ConfigError, SchemaMismatchError
from hiveacid.streaming.records import to_batches
from support.record_samples import COLUMNS, NULLS, ROW, TIME


def rows(records: Any, columns: tuple[Column, ...] = COLUMNS) -> list[dict[str, Any]]:
    return [row for batch in to_batches(records, columns, 1) for row in batch.to_pylist()]


def refused(
    records: Any, columns: tuple[Column, ...] = COLUMNS
) -> tuple[list[dict[str, Any]], list[BadRecordError]]:
    """Give records one by one: the rows, and the errors. All together raise the first error."""
    single = (
        [records.take(pa.array([row])) for row in range(records.num_rows)]
        if isinstance(records, pa.Table)
        else records
    )
    good, errors = [], []
    for number, record in enumerate(single, 1):
        try:
            good += [row for batch in to_batches(record, columns, number) for row in batch.to_pylist()]
        except BadRecordError as error:
            errors.append(error)
    if not errors:
        return good, errors
    with pytest.raises(BadRecordError) as caught:
        to_batches(records, columns, 1)
    assert (caught.value.number, caught.value.record) == (errors[0].number, errors[0].record)
    assert f"record {errors[0].number} does not fit" in str(caught.value)
    return good, errors


def test_python_dicts() -> None:
    assert rows(ROW) == [ROW]
    assert rows([ROW, {}, {"n": 2}]) == [ROW, NULLS, NULLS | {"n": 2}]
    bad = [{"n": 1 << 40}, {"z": 1}, {"n": "1"}, {"t": TIME.replace(tzinfo=UTC)}, {"m": Decimal("1.234")}]
    found, rejects = refused([ROW, *bad, ROW])
    assert (found, [one.number for one in rejects]) == ([ROW, ROW], [2, 3, 4, 5, 6])
    with pytest.raises(ConfigError):
        rows([1])


AWARE = TIME.replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("hive", "good", "bad"),
    [
        ("int", [1.0, Decimal(2), None], [1.5, Decimal("1.5"), float("nan"), Decimal("Infinity"), True, "1"]),
        ("array<int>", [[1, 2.0], (3,)], [[1.5], "12", {1: 2}]),
        ("map<int,bigint>", [{1: 2}, [(1, 2)]], [{1.5: 2}, {1: 2.5}]),
        ("date", [date(2024, 1, 1)], [TIME, 5, "2024-01-01"]),
        ("timestamp", [TIME], [AWARE, 5, date(2024, 1, 1)]),
        ("timestamp with local time zone", [AWARE], [TIME, 5]),
        ("float", [0.5, float("inf"), 3], [1e300, -3.5e38]),
        ("array<date>", [[date(2024, 1, 1), None]], [[TIME]]),
    ],
)
def test_python_values_that_would_lose_something_are_refused(hive: str, good: Any, bad: Any) -> None:
    columns = (Column("c", hive),)
    found, rejects = refused([{"c": value} for value in (*good, *bad)], columns)
    assert len(found) == len(good)
    assert [one.number - 1 - len(good) for one in rejects] == list(range(len(bad)))


def test_nanoseconds_of_pandas_are_refused() -> None:
    """Arrow would cut them."""
    pandas = pytest.importorskip("pandas")
    times = [{"t": pandas.Timestamp(f"2024-01-02 03:04:05.6000000{digit}")} for digit in ("00", "01")]
    found, rejects = refused(times, (Column("t", "timestamp"),))
    assert (found, [one.number for one in rejects]) == ([{"t": TIME}], [2])


def test_members_of_python_structs_are_matched_without_case_and_never_dropped() -> None:
    columns = (Column("s", "struct<a:int,b:struct<c:string>>"),)
    row = {"s": {"a": 1, "b": {"c": "x"}}}
    good = [{"A": 1, "b": {"C": "x"}}, (1, ("x",)), [("b", {"c": "x"}), ("a", 1)]]
    bad = [{"a": 1, "d": 2}, {"b": {"d": "x"}}, {"a": 1, "A": 2}, (1,), {"a": 1.5}, 5]
    found, rejects = refused([{"s": value} for value in (*good, *bad)], columns)
    assert found == [row] * len(good)
    assert [one.number for one in rejects] == list(range(4, 10))
    assert "(unexpected field d)" in str(rejects[0])
    assert rows({"s": {"a": 1}}, columns) == [{"s": {"a": 1, "b": None}}]


def test_python_times_with_a_zone_inside_other_values() -> None:
    """Arrow would convert them to UTC, where the column's times have no zone."""
    nested = "array<struct<t:timestamp,m:map<timestamp,int>>>"
    columns = (Column("a", nested), Column("z", "array<timestamp with local time zone>"))
    aware = TIME.replace(tzinfo=UTC)
    good = {"a": [None, {"t": TIME, "m": {TIME: 1}}], "z": [aware]}
    bad = [{"a": [{"t": aware}]}, {"a": [{"m": {aware: 1}}]}, {"a": [{"m": [(aware, 1)]}]}]
    found, rejects = refused([good, *bad], columns)
    assert (len(found), [one.number for one in rejects]) == (1, [2, 3, 4])


def test_arrow_batches_are_cast_by_name_and_lose_nothing() -> None:
    columns = (Column("n", "int"), Column("s", "string"), Column("t", "timestamp"))
    table = pa.table(
        {
            "T": pa.array([TIME, None], pa.timestamp("ns")),
            "S": pa.array(["a", "a"]).dictionary_encode(),
            "n": pa.array([1, 2], pa.int64()),
        }
    )
    want = [{"n": 1, "s": "a", "t": TIME}, {"n": 2, "s": "a", "t": None}]
    assert rows(table, columns) == want
    assert rows(table.to_reader(), columns) == want
    big = table.set_column(2, "n", pa.array([1, 1 << 40]))
    found, rejects = refused(big, columns)
    assert (found, [one.number for one in rejects]) == (want[:1], [2])
    nested = pa.table({"l": pa.array([[1], [1 << 40], [], [3]]), "s": pa.array([{"a": "1"}] * 3 + [None])})
    kinds = (Column("l", "array<int>"), Column("s", "struct<a:string>"))
    found, rejects = refused(nested, kinds)
    assert [row["l"] for row in found] == [[1], [], [3]]
    assert [one.number for one in rejects] == [2]
    for wrong in (
        table.drop_columns("S"),
        table.append_column("z", pa.array([1, 2])),
        table.set_column(2, "n", pa.array(["1", "2"])),
        table.set_column(0, "T", pa.array([TIME, None], pa.timestamp("us", "UTC"))),
    ):
        with pytest.raises(SchemaMismatchError):
            rows(wrong, columns)


def test_text_is_refused() -> None:
    """Its format is not known; `pyarrow.csv` and `pyarrow.json` parse it."""
    for records in ("1,2", b"1,2", 5):
        with pytest.raises(ConfigError, match=r"pyarrow\.csv"):
            rows(records)


@pytest.mark.parametrize(
    ("have", "want"), [("Asia/Tokyo", "timestamp"), (None, "timestamp with local time zone")]
)
@pytest.mark.parametrize("around", ["{}", "array<{}>", "map<string,{}>", "struct<at:{}>"])
def test_times_are_never_moved_to_another_zone_in_silence(have: str | None, want: str, around: str) -> None:
    """At any depth: Arrow's cast would take a wall clock of Tokyo for one of Greenwich."""
    of: Any = pa.timestamp("us", have)
    kinds = {"a": pa.list_(of), "m": pa.map_(pa.string(), of), "s": pa.struct([("at", of)])}
    given = {"a": [TIME], "m": [("k", TIME)], "s": {"at": TIME}}.get(around[0], TIME)
    batch = pa.RecordBatch.from_arrays([pa.array([given], kinds.get(around[0], of))], ["c"])
    with pytest.raises(SchemaMismatchError, match="convert them before"):
        rows(batch, (Column("c", around.format(want)),))


@pytest.mark.parametrize("offset", [pa.int32(), pa.int64()])
def test_arrow_texts_that_are_not_utf8_are_refused(offset: Any) -> None:
    """Arrow does not check them when an array is made; readers of the table would fail."""
    offsets = pa.array([0, 1, 2, 3], offset).buffers()[1]
    text = pa.string() if offset == pa.int32() else pa.large_string()
    texts = pa.Array.from_buffers(text, 3, [None, offsets, pa.py_buffer(b"a\xffc")])
    for column, hive in ((texts, "string"), (pa.ListArray.from_arrays([0, 1, 2, 3], texts), "array<string>")):
        found, rejects = refused(pa.table({"s": column}), (Column("s", hive),))
        assert [row["s"] for row in found] == [column[0].as_py(), column[2].as_py()]
        assert [(one.number, one.record) for one in rejects] == [(2, "a row with a text that is not UTF-8")]
        assert "UTF8" in str(rejects[0])


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_floating_numbers_become_decimals_only_if_they_are_their_nearest(kind: Any) -> None:
    """As 0.1 is of 0.10; a value with more digits would be rounded."""
    columns = (Column("d", "decimal(10,2)"), Column("l", "array<decimal(10,2)>"))
    good, bad = [0.1, 68.6, -1234.56, 0.0, 16777216.0, None], [1.239, 1e-7, float("nan"), 1e12]
    values = pa.array([*good, *bad], kind)
    nested = pa.ListArray.from_arrays(range(len(values) + 1), values)
    decimals = [None if value is None else Decimal(str(value)) for value in good]
    for name, array in (("d", values), ("l", nested)):
        found, rejects = refused(pa.table({name: array}), (columns[name == "l"],))
        assert [row[name] for row in found] == (decimals if name == "d" else [[value] for value in decimals])
        assert [one.number for one in rejects] == [7, 8, 9, 10]
        assert "round it before" in str(rejects[0])
    two_bits = pa.table({"d": pa.array([0.1 + 0.2], kind)})
    assert len(refused(two_bits, columns[:1])[1]) == (kind == pa.float64())


@pytest.mark.parametrize(("hive", "kind"), [("double", pa.float64()), ("float", pa.float32())])
def test_decimals_become_the_nearest_floating_numbers(hive: str, kind: Any) -> None:
    """Arrow's own cast makes 4747.097000000001 of 4747.0970, and does not see that it is another number."""
    decimals = [Decimal(f"{number}e-4") for number in range(47_000_000, 47_010_000, 7)]
    nearest = pa.array([float(value) for value in decimals]).cast(kind).to_pylist()
    values = pa.array(decimals, pa.decimal128(12, 4))
    nested = pa.ListArray.from_arrays(range(len(values) + 1), values)
    (batch,) = to_batches(
        pa.table({"x": values, "l": nested}), (Column("x", hive), Column("l", f"array<{hive}>")), 1
    )
    assert batch.column(0).to_pylist() == nearest
    assert batch.column(1).to_pylist() == [[value] for value in nearest]
    beside = pa.table({"d": [4747.097000000001]})
    assert [one.number for one in refused(beside, (Column("d", "decimal(12,4)"),))[1]] == [1]


def test_whole_floating_numbers_become_decimals_digit_by_digit() -> None:
    batch = pa.table({"d": [2.0**63, 1e22]})
    assert rows(batch, (Column("d", "decimal(38,0)"),)) == [{"d": 2**63}, {"d": 10**22}]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int64(), pa.uint64()])
def test_a_whole_number_fits_a_decimal_that_has_room_for_it(kind: Any) -> None:
    """Arrow asks for room for every number of the type."""
    batch = pa.table({"d": pa.array([0, 99, None, 100], kind)})
    found, rejects = refused(batch, (Column("d", "decimal(4,2)"),))
    assert [row["d"] for row in found] == [Decimal("0.00"), Decimal("99.00"), None]
    assert [one.number for one in rejects] == [4]


def test_the_longest_whole_number_fits_a_decimal_of_38_digits() -> None:
    batch = pa.table({"d": pa.array([2**63 - 1, -(2**63)])})
    assert [row["d"] for row in rows(batch, (Column("d", "decimal(38,19)"),))] == [2**63 - 1, -(2**63)]


def test_numbers_beyond_the_range_of_floating_types_are_refused() -> None:
    """They would be infinite."""
    arrays = [pa.array([0.1, float("inf"), 1e300, None]), pa.array([[0.1], [float("inf")], [1e300], None])]
    for array, kind in zip(arrays, ("float", "array<float>"), strict=True):
        found, rejects = refused(pa.table({"x": array}), (Column("x", kind),))
        assert (len(found), [one.number for one in rejects]) == (3, [3])
        assert "1e+300 is beyond the range" in str(rejects[0])


LISTS = [pa.list_, pa.large_list, lambda of: pa.list_(of, 1)]


@pytest.mark.parametrize("kind", LISTS)
def test_every_kind_of_arrow_list_keeps_its_members(kind: Any) -> None:
    """Polars has large lists only."""
    columns = (Column("l", "array<struct<a:int,b:string>>"),)
    good = pa.array([[{"B": "x", "A": 1}], None], kind(pa.struct([("B", pa.string()), ("A", pa.int64())])))
    want = [{"l": [{"a": 1, "b": "x"}]}, {"l": None}]
    assert rows(pa.table({"l": good}), columns) == want
    assert rows(pa.table({"l": good}).slice(1), columns) == want[1:]
    inner = pa.array([{"l": [{"a": 1, "b": "x"}]}], pa.struct([("l", kind(good.type.value_type))]))
    assert rows(pa.table({"s": inner}), (Column("s", f"struct<l:{columns[0].type}>"),))
    for members in ({"a": 1}, {"a": 1, "b": "x", "c": 2}, {"a": 1, "c": "x"}):
        array = pa.array([[members]])
        with pytest.raises(SchemaMismatchError):
            rows(pa.table({"l": array.cast(kind(array.type.value_type))}), columns)


@pytest.mark.parametrize("kind", LISTS)
@pytest.mark.parametrize(
    ("value", "want"),
    [
        (TIME, "date"),
        (5, "timestamp"),
        (5, "string"),
        ("5", "int"),
        (True, "int"),
        (b"x", "string"),
        (AWARE, "timestamp"),
        (TIME, "timestamp with local time zone"),
    ],
)
def test_nested_arrow_values_of_another_kind_are_refused(kind: Any, value: Any, want: str) -> None:
    """As those of plain columns are: Arrow would cut the time of day, and take 5 for microseconds."""
    array = pa.array([[value]])
    batch = pa.table({"l": array.cast(kind(array.type.value_type))})
    with pytest.raises(SchemaMismatchError, match="column l"):
        rows(batch, (Column("l", f"array<{want}>"),))
    of = pa.struct([("m", pa.map_(pa.string(), array.type.value_type))])
    members = pa.table({"l": pa.array([[{"m": [("k", value)]}]], pa.list_(of))})
    with pytest.raises(SchemaMismatchError, match="column l"):
        rows(members, (Column("l", f"array<struct<m:map<string,{want}>>>"),))
