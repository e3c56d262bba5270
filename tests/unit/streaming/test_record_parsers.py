"""Records of every kind become rows of the table's types; what does not fit is named, or handed on."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from hiveacid.core.model import Column
from hiveacid.errors import BadRecordError, ConfigError, SchemaMismatchError, UnsupportedFeatureError
from hiveacid.streaming.record_parsers import (
    ArrowWriter,
    DelimitedWriter,
    DictWriter,
    JsonWriter,
    RecordWriter,
    RegexWriter,
    Reject,
    writer_for,
)

COLUMNS = (
    Column("n", "int"),
    Column("s", "varchar(20)"),
    Column("d", "date"),
    Column("t", "timestamp"),
    Column("m", "decimal(10,2)"),
    Column("b", "binary"),
    Column("ok", "boolean"),
)
TIME = datetime(2024, 1, 2, 3, 4, 5, 600_000)  # noqa: DTZ001 - Hive's timestamps have no zone
ROW = {
    "n": 1,
    "s": "x",
    "d": date(2024, 2, 29),
    "t": TIME,
    "m": Decimal("1.50"),
    "b": b"\xc3\xa9",
    "ok": True,
}
NULLS = dict.fromkeys(ROW)


def rows(writer: RecordWriter, records: Any, columns: tuple[Column, ...] = COLUMNS) -> list[dict[str, Any]]:
    writer.check(columns)
    found = writer.read(records, columns, 1, None)
    return [row for batch in found.batches for row in batch.to_pylist()]


def refused(
    writer: RecordWriter, records: Any, columns: tuple[Column, ...] = COLUMNS, first: int = 1
) -> tuple[list[dict[str, Any]], list[Reject]]:
    """Return the rows that went in and the records that did not; without a callback the first is an error."""
    rejects: list[Reject] = []
    found = writer.read(records, columns, first, rejects.append)
    assert found.rejected == len(rejects)
    if rejects:
        with pytest.raises(BadRecordError) as caught:
            writer.read(records, columns, first, None)
        assert (caught.value.number, caught.value.record) == (rejects[0].number, rejects[0].record)
        assert str(rejects[0].number) in str(caught.value)
    return [row for batch in found.batches for row in batch.to_pylist()], rejects


def test_delimited_text() -> None:
    line = "1,x,2024-02-29,2024-01-02 03:04:05.6,1.5,é,true\n"
    nulls = r"\N,\N,\N,\N,\N,\N,\N"
    empty = ",,,,,,"
    assert rows(DelimitedWriter(), line + nulls + "\n\n" + empty) == [ROW, NULLS, NULLS | {"s": "", "b": b""}]
    assert rows(DelimitedWriter(), [line.encode(), nulls]) == [ROW, NULLS]
    nanos = line.replace("05.6", "05.600000000")
    assert rows(DelimitedWriter(), nanos) == [ROW]
    tabs = DelimitedWriter(delimiter="\t", quote='"', null="")
    assert rows(tabs, '1\t"a""\tb"\t\t\t\t\t\r\n', COLUMNS) == [NULLS | {"n": 1, "s": 'a"\tb'}]
    assert rows(DelimitedWriter(), 'a"b', (Column("s", "string"),)) == [{"s": 'a"b'}]


@pytest.mark.parametrize(("names", "line"), [("ab", "\t"), ("a", " "), ("a", "\t ")])
def test_lines_of_white_space_are_records_of_delimited_text(names: str, line: str) -> None:
    """Alone, among other lines, and beside a bad one; only empty lines are skipped."""
    columns = tuple(Column(name, "string") for name in names)
    writer = DelimitedWriter(delimiter="\t" if names == "ab" else ",")
    want = [dict(zip(names, line.split("\t") if names == "ab" else [line], strict=True))]
    good = ("x\ty" if names == "ab" else "x") + "\n"
    assert rows(writer, line, columns) == want
    assert rows(writer, f"\r\n\n{line}\r\n\n", columns) == want
    assert rows(writer, good + line, columns)[1:] == want
    found, rejects = refused(writer, f"\r\n{line}\nx\ty,z\t\n{good}", columns)
    assert (found[:1], [one.number for one in rejects]) == (want, [3])


def test_an_escape_character_needs_another_text_of_null() -> None:
    r"""Arrow removes escapes first: ``\N`` would become the text N."""
    columns = (Column("a", "string"), Column("b", "string"))
    for wrong in (DelimitedWriter(escape="\\"), DelimitedWriter(escape="^", null="^N", quote='"')):
        with pytest.raises(ConfigError, match="give another text of NULL"):
            wrong.check(columns)
    writer = DelimitedWriter(escape="\\", null="NULL")
    assert rows(writer, "x\\,y,NULL", columns) == [{"a": "x,y", "b": None}]
    assert rows(DelimitedWriter(escape="^"), r"^^,\N", columns) == [{"a": "^", "b": None}]


@pytest.mark.parametrize("quote", [None, '"'])
@pytest.mark.parametrize("bad", ["c,d\\", "c\\", "c,d\\\r"])
def test_an_escape_character_at_the_end_of_a_line_is_refused(quote: str | None, bad: str) -> None:
    """It would put the line break into the last field."""
    columns = (Column("a", "string"), Column("b", "string"))
    writer = DelimitedWriter(escape="\\", null="", quote=quote)
    for text in (f"x,y\n{bad}\n", f"x,y\n{bad}"):
        found, rejects = refused(writer, text, columns)
        assert (found, [one.number for one in rejects]) == ([{"a": "x", "b": "y"}], [2])
    found, rejects = refused(writer, f"{bad}\nx,y\n", columns)
    assert ([one.number for one in rejects], found) == ([1], [{"a": "x", "b": "y"}])


def test_bad_lines_are_found_among_many_good_ones() -> None:
    columns = (Column("n", "int"), Column("s", "string"))
    lines = [f"{n},text {n}" for n in range(1000)]
    lines[17], lines[400], lines[999] = "x,y", "1", "3000000000,z"
    lines[20] = ""
    found, rejects = refused(DelimitedWriter(), "\n".join(lines), columns, first=101)
    assert [one.number for one in rejects] == [118, 501, 1100]
    assert [one.record for one in rejects] == ["x,y", "1", "3000000000,z"]
    assert "3000000000" in rejects[2].reason
    assert [row["n"] for row in found] == [n for n in range(1000) if n not in (17, 20, 400, 999)]
    with_quotes = DelimitedWriter(quote='"')
    found, rejects = refused(with_quotes, '1,"a\n2,b"\n3,c\n', columns)
    assert {"n": 3, "s": "c"} in found
    assert [one.number for one in rejects][:1] == [1]
    found, rejects = refused(DelimitedWriter(), b"1,\xff\n2,b\n", columns)
    assert (found, [one.number for one in rejects]) == ([{"n": 2, "s": "b"}], [1])


def test_json_lines() -> None:
    line = (
        '{"n":1,"s":"x","d":"2024-02-29","t":"2024-01-02 03:04:05.6","m":1.5,"b":"é","ok":true}\n'
        '\n{"n":null}\n{}\n'
    )
    assert rows(JsonWriter(), line) == [ROW, NULLS, NULLS]
    bad = [
        '{"n":1.5}', '{"n":"1"}', '{"n":3000000000}', '{"s":5}', '{"m":"1.234"}', '{"z":1}', '{"n":1', "[1]",
        '{"n":1}{"n":2}', '{"n":1,"n":2}', '{"d":"2024-13-01"}', '{"ok":1}', "null x", "null", '{"n":1} null x',
    ]  # fmt: skip
    good = '{"n":7}'
    text = "\n".join(part for line in bad for part in (line, good))
    found, rejects = refused(JsonWriter(), text)
    assert found == [NULLS | {"n": 7}] * len(bad)
    assert [one.record for one in rejects] == bad
    assert [one.number for one in rejects] == list(range(1, 2 * len(bad), 2))
    assert rows(JsonWriter(unknown="ignore"), '{"z":{"y":1},"n":7}') == [NULLS | {"n": 7}]


def test_json_of_nested_types() -> None:
    columns = (
        Column("a", "array<struct<d:date,x:double>>"),
        Column("m", "map<string,array<decimal(5,2)>>"),
        Column("i", "bigint"),
    )
    line = '{"a":[{"d":"2024-01-01","x":1},null],"m":{"k":[1.25,null],"":null},"i":5}\n'
    want = {
        "a": [{"d": date(2024, 1, 1), "x": 1.0}, None],
        "m": [("k", [Decimal("1.25"), None]), ("", None)],
        "i": 5,
    }
    assert rows(JsonWriter(), line, columns) == [want]
    assert rows(JsonWriter(), line.replace(',"i":5', ""), columns) == [want | {"i": None}]
    found, rejects = refused(JsonWriter(), line + '{"m":[1]}\n{"i":true}\n{"a":[{"y":1}]}\n{"q":1}', columns)
    assert (found, [one.number for one in rejects]) == ([want], [2, 3, 4, 5])
    only = columns[:1]
    assert rows(JsonWriter(), '{"a":[{"d":"2024-01-01","x":1},null]}', only) == [{"a": want["a"]}]
    with pytest.raises(UnsupportedFeatureError, match="keys"):
        JsonWriter().check((Column("m", "map<int,int>"),))
    with pytest.raises(UnsupportedFeatureError, match="JSON lines or Arrow"):
        DelimitedWriter().check(columns)


def test_numbers_in_json_with_maps_are_as_strict_as_without() -> None:
    """Python's parser reads tables with maps; Arrow would then cut fractions of its numbers."""
    columns = (Column("n", "int"), Column("m", "map<string,bigint>"), Column("x", "double"))
    good = '{"n":1,"m":{"k":2},"x":0.1}'
    bad = ['{"n":1.9}', '{"n":1.0}', '{"m":{"k":3.7}}', '{"n":NaN}', '{"n":true}', '{"x":-1e400}']
    found, rejects = refused(JsonWriter(), "\n".join([good, *bad]), columns)
    assert found == [{"n": 1, "m": [("k", 2)], "x": 0.1}]
    assert [one.record for one in rejects] == bad


def test_regular_expressions() -> None:
    columns = (Column("host", "string"), Column("code", "int"))
    writer = RegexWriter(r"(\S+) (?:\[[(\]]*\]) \(?(\d*)\)?")
    assert rows(writer, "a [((] (200)\nb [] 7\r\n\nc [] \n", columns) == [
        {"host": "a", "code": 200},
        {"host": "b", "code": 7},
        {"host": "c", "code": None},
    ]
    found, rejects = refused(writer, "a [] 1 tail\nb [] 2\nc [] 99999999999\n", columns)
    assert (found, [one.number for one in rejects]) == ([{"host": "b", "code": 2}], [1, 3])
    named = RegexWriter(r"(?P<code>\d+):(?P<host>.*)")
    assert rows(named, "5:x", columns) == [{"host": "x", "code": 5}]
    assert rows(RegexWriter(r"(?P<code>\d+)"), "5", columns) == [{"host": None, "code": 5}]
    for wrong in (r"(\d+)", r"(?P<zone>.)(?P<host>.)", "(", r"(?P<code>.)(.)", r"(.)(?=x)(.)"):
        with pytest.raises(ConfigError):
            RegexWriter(wrong).check(columns)


def test_python_dicts() -> None:
    assert rows(DictWriter(), ROW) == [ROW]
    assert rows(DictWriter(), [ROW, {}, {"n": 2}]) == [ROW, NULLS, NULLS | {"n": 2}]
    bad = [{"n": 1 << 40}, {"z": 1}, {"n": "1"}, {"t": TIME.replace(tzinfo=UTC)}, {"m": Decimal("1.234")}]
    found, rejects = refused(DictWriter(), [ROW, *bad, ROW])
    assert (found, [one.number for one in rejects]) == ([ROW, ROW], [2, 3, 4, 5, 6])
    with pytest.raises(ConfigError):
        DictWriter().read([1], COLUMNS, 1, None)


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
    found, rejects = refused(DictWriter(), [{"c": value} for value in (*good, *bad)], columns)
    assert len(found) == len(good)
    assert [one.number - 1 - len(good) for one in rejects] == list(range(len(bad)))


def test_nanoseconds_of_pandas_are_refused() -> None:
    """Arrow would cut them."""
    pandas = pytest.importorskip("pandas")
    times = [{"t": pandas.Timestamp(f"2024-01-02 03:04:05.6000000{digit}")} for digit in ("00", "01")]
    found, rejects = refused(DictWriter(), times, (Column("t", "timestamp"),))
    assert (found, [one.number for one in rejects]) == ([{"t": TIME}], [2])


def test_members_of_python_structs_are_matched_without_case_and_never_dropped() -> None:
    columns = (Column("s", "struct<a:int,b:struct<c:string>>"),)
    row = {"s": {"a": 1, "b": {"c": "x"}}}
    good = [{"A": 1, "b": {"C": "x"}}, (1, ("x",)), [("b", {"c": "x"}), ("a", 1)]]
    bad = [{"a": 1, "d": 2}, {"b": {"d": "x"}}, {"a": 1, "A": 2}, (1,), {"a": 1.5}, 5]
    found, rejects = refused(DictWriter(), [{"s": value} for value in (*good, *bad)], columns)
    assert found == [row] * len(good)
    assert [one.number for one in rejects] == list(range(4, 10))
    assert rejects[0].reason == "unexpected field d"
    assert rows(DictWriter(), {"s": {"a": 1}}, columns) == [{"s": {"a": 1, "b": None}}]


def test_python_times_with_a_zone_inside_other_values() -> None:
    """Arrow would convert them to UTC, where the column's times have no zone."""
    nested = "array<struct<t:timestamp,m:map<timestamp,int>>>"
    columns = (Column("a", nested), Column("z", "array<timestamp with local time zone>"))
    aware = TIME.replace(tzinfo=UTC)
    good = {"a": [None, {"t": TIME, "m": {TIME: 1}}], "z": [aware]}
    bad = [{"a": [{"t": aware}]}, {"a": [{"m": {aware: 1}}]}, {"a": [{"m": [(aware, 1)]}]}]
    found, rejects = refused(DictWriter(), [good, *bad], columns)
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
    assert rows(ArrowWriter(rows=1), table, columns) == want
    assert rows(ArrowWriter(), table.to_reader(), columns) == want
    big = table.set_column(2, "n", pa.array([1, 1 << 40]))
    found, rejects = refused(ArrowWriter(), big, columns)
    assert (found, [one.number for one in rejects]) == (want[:1], [2])
    nested = pa.table({"l": pa.array([[1], [1 << 40], [], [3]]), "s": pa.array([{"a": "1"}] * 3 + [None])})
    kinds = (Column("l", "array<int>"), Column("s", "struct<a:string>"))
    found, rejects = refused(ArrowWriter(), nested, kinds)
    assert [row["l"] for row in found] == [[1], [], [3]]
    assert [one.number for one in rejects] == [2]
    for wrong in (
        table.drop_columns("S"),
        table.append_column("z", pa.array([1, 2])),
        table.set_column(2, "n", pa.array(["1", "2"])),
        table.set_column(0, "T", pa.array([TIME, None], pa.timestamp("us", "UTC"))),
    ):
        with pytest.raises(SchemaMismatchError):
            ArrowWriter().read(wrong, columns, 1, None)


def test_records_tell_their_kind_but_text_does_not() -> None:
    assert isinstance(writer_for(pa.table({"n": [1]})), ArrowWriter)
    assert isinstance(writer_for([{"n": 1}]), DictWriter)
    with pytest.raises(ConfigError, match="JsonWriter"):
        writer_for("1,2")


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
        rows(ArrowWriter(), batch, (Column("c", around.format(want)),))


@pytest.mark.parametrize("offset", [pa.int32(), pa.int64()])
def test_arrow_texts_that_are_not_utf8_are_refused(offset: Any) -> None:
    """Arrow does not check them when an array is made; readers of the table would fail."""
    offsets = pa.array([0, 1, 2, 3], offset).buffers()[1]
    text = pa.string() if offset == pa.int32() else pa.large_string()
    texts = pa.Array.from_buffers(text, 3, [None, offsets, pa.py_buffer(b"a\xffc")])
    for column, hive in ((texts, "string"), (pa.ListArray.from_arrays([0, 1, 2, 3], texts), "array<string>")):
        found, rejects = refused(ArrowWriter(), pa.table({"s": column}), (Column("s", hive),))
        assert [row["s"] for row in found] == [column[0].as_py(), column[2].as_py()]
        assert [(one.number, one.record) for one in rejects] == [(2, "a row with a text that is not UTF-8")]
        assert "UTF8" in rejects[0].reason


@pytest.mark.parametrize("kind", [pa.float64(), pa.float32()])
def test_floating_numbers_become_decimals_only_if_they_are_their_nearest(kind: Any) -> None:
    """As 0.1 is of 0.10; a value with more digits would be rounded."""
    columns = (Column("d", "decimal(10,2)"), Column("l", "array<decimal(10,2)>"))
    good, bad = [0.1, 68.6, -1234.56, 0.0, 16777216.0, None], [1.239, 1e-7, float("nan"), 1e12]
    values = pa.array([*good, *bad], kind)
    nested = pa.ListArray.from_arrays(range(len(values) + 1), values)
    decimals = [None if value is None else Decimal(str(value)) for value in good]
    for name, array in (("d", values), ("l", nested)):
        found, rejects = refused(ArrowWriter(), pa.table({name: array}), (columns[name == "l"],))
        assert [row[name] for row in found] == (decimals if name == "d" else [[value] for value in decimals])
        assert [one.number for one in rejects] == [7, 8, 9, 10]
        assert "round it before" in rejects[0].reason
    two_bits = pa.table({"d": pa.array([0.1 + 0.2], kind)})
    assert len(refused(ArrowWriter(), two_bits, columns[:1])[1]) == (kind == pa.float64())


def test_whole_floating_numbers_become_decimals_digit_by_digit() -> None:
    batch = pa.table({"d": [2.0**63, 1e22]})
    assert rows(ArrowWriter(), batch, (Column("d", "decimal(38,0)"),)) == [{"d": 2**63}, {"d": 10**22}]


@pytest.mark.parametrize(("hive", "beyond"), [("float", "1e39"), ("double", "-1e400")])
def test_numbers_beyond_the_range_of_floating_types_are_refused(hive: str, beyond: str) -> None:
    """They would be infinite."""
    columns = (Column("x", hive),)
    found, rejects = refused(DelimitedWriter(), f"0.1\n{beyond}\n-Infinity\ninf\nnan\n", columns)
    assert (len(found), [one.number for one in rejects]) == (4, [2])
    assert [row["x"] for row in found][1:3] == [float("-inf"), float("inf")]
    for other in (columns, (*columns, Column("m", "map<string,float>"))):
        found, rejects = refused(JsonWriter(), f'{{"x":0.1}}\n{{"x":{beyond}}}', other)
        assert (len(found), [one.number for one in rejects]) == (1, [2])
    found, rejects = refused(JsonWriter(), '{"m":{"k":-1e39}}', other)
    assert (found, len(rejects)) == ([], 1)
    arrays = [pa.array([0.1, float("inf"), 1e300, None]), pa.array([[0.1], [float("inf")], [1e300], None])]
    for array, kind in zip(arrays, ("float", "array<float>"), strict=True):
        found, rejects = refused(ArrowWriter(), pa.table({"x": array}), (Column("x", kind),))
        assert (len(found), [one.number for one in rejects]) == (3, [3])
        assert "1e+300 is beyond the range" in rejects[0].reason


LISTS = [pa.list_, pa.large_list, lambda of: pa.list_(of, 1)]


@pytest.mark.parametrize("kind", LISTS)
def test_every_kind_of_arrow_list_keeps_its_members(kind: Any) -> None:
    """Polars has large lists only."""
    columns = (Column("l", "array<struct<a:int,b:string>>"),)
    good = pa.array([[{"B": "x", "A": 1}], None], kind(pa.struct([("B", pa.string()), ("A", pa.int64())])))
    want = [{"l": [{"a": 1, "b": "x"}]}, {"l": None}]
    assert rows(ArrowWriter(), pa.table({"l": good}), columns) == want
    assert rows(ArrowWriter(), pa.table({"l": good}).slice(1), columns) == want[1:]
    inner = pa.array([{"l": [{"a": 1, "b": "x"}]}], pa.struct([("l", kind(good.type.value_type))]))
    assert rows(ArrowWriter(), pa.table({"s": inner}), (Column("s", f"struct<l:{columns[0].type}>"),))
    for members in ({"a": 1}, {"a": 1, "b": "x", "c": 2}, {"a": 1, "c": "x"}):
        array = pa.array([[members]])
        with pytest.raises(SchemaMismatchError):
            rows(ArrowWriter(), pa.table({"l": array.cast(kind(array.type.value_type))}), columns)


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
        rows(ArrowWriter(), batch, (Column("l", f"array<{want}>"),))
    of = pa.struct([("m", pa.map_(pa.string(), array.type.value_type))])
    members = pa.table({"l": pa.array([[{"m": [("k", value)]}]], pa.list_(of))})
    with pytest.raises(SchemaMismatchError, match="column l"):
        rows(ArrowWriter(), members, (Column("l", f"array<struct<m:map<string,{want}>>>"),))
