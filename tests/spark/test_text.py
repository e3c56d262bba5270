"""Lines of text tables: read as Hive's own class reads them, written so that it reads them back."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hiveacid.core.model import Column, TableDefinition, TableName
from hiveacid.core.schema.storage_formats import TEXTFILE
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats.text import format_line, parse_line, text_layout
from hiveacid.spark.session.environment import SparkEnvironment

pytestmark = pytest.mark.sampled(4, "the cases differ in one value each")


READ_BY_HIVE = Path(__file__).parent / "data" / "lazy_simple_serde.jsonl"
# Where we give NULL and Hive 4.0.1 a date: short and negative years, rubbish behind the day.
ODD_DATES = ("20-01-01", "-0001-01-01", "2020-01-01x")
ESCAPED = {"escape.delim": "\\"}
JSON = {"ignoreNullFields": "false", "timestampFormat": "yyyy-MM-dd HH:mm:ss.SSSSSS"}


def table_of(types: Sequence[str], properties: Mapping[str, str] | None = None) -> TableDefinition:
    columns = tuple(Column(f"c{i}", text) for i, text in enumerate(types))
    storage = replace(TEXTFILE, serde_properties=tuple((properties or {}).items()))
    return TableDefinition(TableName("d", "t"), columns, storage, "/warehouse/t")


def parsed(spark: SparkSession, table: TableDefinition, lines: Sequence[str]) -> list[list[Any]]:
    """Return what we read out of lines, as JSON has it."""
    return [row[0] for row in parsed_side_by_side(spark, [table], [[line] for line in lines])]


@pytest.fixture(params=["true", "false"], ids=["ansi", "lenient"])
def session(request: pytest.FixtureRequest, spark: SparkSession) -> Iterator[SparkSession]:
    # one job for all tables makes more code than Java takes in one method; Spark would say so at length
    wanted = {"spark.sql.ansi.enabled": request.param, "spark.sql.codegen.wholeStage": "false"}
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    yield spark
    for key, value in before.items():
        spark.conf.set(key, str(value))


def test_lines_are_read_as_hive_reads_them(session: SparkSession) -> None:
    """The rows were read by LazySimpleSerDe of Hive 4.0.1."""
    cases = [json.loads(line) for line in READ_BY_HIVE.read_text(encoding="utf-8").splitlines()]
    tables: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for case in cases:
        if case["line"] not in ODD_DATES:
            tables[json.dumps([case["types"], case["properties"]])].append(case)
    rows = list(zip_longest(*tables.values()))
    found = parsed_side_by_side(
        session,
        [table_of(*json.loads(key)) for key in tables],
        [[case and case["line"] for case in row] for row in rows],
    )
    wrong = [
        (*case.values(), ours)
        for row, all_ours in zip(rows, found, strict=True)
        for case, ours in zip(row, all_ours, strict=True)
        if case is not None and [micros(value, case["types"]) for value in case["row"]] != ours
    ]
    assert len(cases) > 400
    assert wrong == []


def parsed_side_by_side(
    spark: SparkSession, tables: Sequence[TableDefinition], rows: Sequence[Sequence[str | None]]
) -> list[list[list[Any]]]:
    """Return what we read out of lines of many tables, one job for all; a row holds a line of each table."""
    frame = spark.createDataFrame(rows, ", ".join(f"l{i} string" for i in range(len(tables))))
    env = SparkEnvironment(spark)
    structs = [
        F.struct(*parse_line(env, text_layout(table), F.col(f"l{i}"), table.columns))
        for i, table in enumerate(tables)
    ]
    found = frame.select(*[F.to_json(struct, JSON) for struct in structs]).collect()
    return [[list(json.loads(cell).values()) for cell in row] for row in found]


def micros(value: Any, types: Sequence[str]) -> Any:
    """Spell a timestamp of Hive's with the six digits that Spark has."""
    if types != ["timestamp"] or value is None:
        return value
    whole, _, fraction = value.partition(".")
    return f"{whole}.{fraction:0<6.6}"


def test_odd_dates_are_null(spark: SparkSession) -> None:
    assert parsed(spark, table_of(["date"]), ODD_DATES) == [[None]] * 3


class HiveSerDe:
    """Hive's own LazySimpleSerDe (the one that comes with Spark), reading lines as JSON."""

    def __init__(self, spark: SparkSession, table: TableDefinition) -> None:
        self.jvm: Any = spark._jvm
        properties = self.jvm.java.util.Properties()
        properties.setProperty("columns", ",".join(column.name for column in table.columns))
        properties.setProperty("columns.types", ":".join(column.type for column in table.columns))
        for key, value in table.storage.serde_properties:
            properties.setProperty(key, value)
        self.serde = self.jvm.org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe()
        self.serde.initialize(self.jvm.org.apache.hadoop.conf.Configuration(False), properties)

    def read(self, line: str) -> list[Any]:
        row = self.serde.deserialize(self.jvm.org.apache.hadoop.io.Text(line))
        utils = self.jvm.org.apache.hadoop.hive.serde2.SerDeUtils
        return list(json.loads(utils.getJSONString(row, self.serde.getObjectInspector())).values())


NESTED = [
    "string",
    "array<string>",
    "map<string,int>",
    "struct<a:string,b:array<string>,c:map<string,string>>",
]
SIGNS = st.sampled_from(
    ["\x01", "\x02", "\x03", "\x04", "\x05", "\\", "\\N", "n", "r", "N", "a", "7", "é", ",", ""]
)
LINES = st.lists(SIGNS, max_size=24).map("".join)


def collected(strategy: st.SearchStrategy[Any], count: int) -> list[Any]:
    """Return values that hypothesis thinks worth trying: a Spark job for each would take too long."""
    values: list[Any] = []

    @settings(
        max_examples=count, phases=[Phase.generate], database=None, suppress_health_check=list(HealthCheck)
    )
    @given(strategy)
    def collect(value: Any) -> None:
        values.append(value)

    collect()
    return values


@pytest.mark.parametrize("properties", [{}, ESCAPED, {"field.delim": ",", "escape.delim": "N"}])
def test_any_line_is_read_as_hive_reads_it(spark: SparkSession, properties: dict[str, str]) -> None:
    table = table_of(NESTED, properties)
    lines = collected(LINES, 300)
    hive = HiveSerDe(spark, table)
    found = parsed(spark, table, lines)
    assert [(line, row) for line, row in zip(lines, found, strict=True) if row != hive.read(line)] == []


TEXT = st.text(st.sampled_from("ab\x01\x02\x03\x04\x05\\\n\r,\tNé世"), min_size=1, max_size=6)
ROWS = st.tuples(
    st.none() | st.just("") | TEXT,
    st.none() | st.lists(TEXT, min_size=2, max_size=3),
    st.none() | st.dictionaries(TEXT, st.none() | st.integers(-99, 99), max_size=3),
    st.none()
    | st.tuples(
        TEXT, st.none() | st.lists(TEXT, min_size=2, max_size=3), st.dictionaries(TEXT, TEXT, max_size=2)
    ),
)


# Hive before 3.0, and so Spark's copy of it, knows the second delimiter under a misspelt key.
SIGNED = {"field.delim": ",", "collection.delim": "\t", "colelction.delim": "\t", "escape.delim": "~"}


@pytest.mark.parametrize("properties", [ESCAPED, SIGNED])
def test_hive_reads_what_we_write_with_escapes(spark: SparkSession, properties: dict[str, str]) -> None:
    table = table_of(NESTED, properties)
    rows = collected(ROWS, 200)
    frame = spark.createDataFrame(rows, ", ".join(f"{c.name} {c.type}" for c in table.columns))
    layout = text_layout(table)
    lines = [row[0] for row in frame.select(format_line(layout, table.columns)).collect()]
    wanted = [json.loads(row[0]) for row in frame.select(F.to_json(F.struct("*"), JSON)).collect()]
    hive = HiveSerDe(spark, table)
    assert not any("\n" in line or "\r" in line for line in lines)
    assert [hive.read(line) for line in lines] == [list(row.values()) for row in wanted]
    assert parsed(spark, table, lines) == [list(row.values()) for row in wanted]


@pytest.mark.parametrize(
    ("types", "value", "properties"),
    [
        (["string"], "'a\x01b'", {}),
        (["string"], "'a,b'", {"field.delim": ","}),
        (["string"], "'two\nlines'", {}),
        (["string"], "'carriage\rreturn'", {}),
        (["array<string>"], "array('a', 'b\x02')", {}),
        (["map<string,string>"], "map('k\x03', 'v')", {}),
        (["struct<a:string>"], "named_struct('a', 'x\x02y')", {}),
        (["date"], "date'2020-01-01'", {"field.delim": "-"}),
        (["double"], "1.5D", {"field.delim": "."}),
    ],
)
def test_a_value_that_cannot_be_read_back_fails(
    spark: SparkSession, types: list[str], value: str, properties: dict[str, str]
) -> None:
    table = table_of(types, properties)
    frame = spark.range(1).select(F.expr(value).alias("c0"))
    line = format_line(text_layout(table), table.columns)
    with pytest.raises(Exception, match=r"\[HIVEACID_DATA\] column c0: a value holds a delimiter"):
        frame.select(line).collect()


@pytest.mark.parametrize(
    ("type_", "value", "properties"),
    [
        ("string", "'\\\\N'", {}),
        ("array<string>", "array('a', '\\\\N')", {}),
        ("map<string,string>", "map('k', '\\\\N')", {}),
        ("varchar(9)", "'none'", {"serialization.null.format": "none"}),
    ],
)
def test_a_value_that_would_be_read_as_null_fails(
    spark: SparkSession, type_: str, value: str, properties: dict[str, str]
) -> None:
    table = table_of([type_], properties)
    frame = spark.range(1).select(F.expr(value).alias("c0"))
    line = format_line(text_layout(table), table.columns)
    with pytest.raises(Exception, match=r"\[HIVEACID_DATA\] column c0: a value is .* stands for NULL"):
        frame.select(line).collect()


@pytest.mark.parametrize("properties", [{}, ESCAPED])
@pytest.mark.parametrize(
    ("kind", "value"), [("array<string>", "array('')"), ("array<array<int>>", "array(array())")]
)
def test_an_array_of_one_empty_value_fails(
    spark: SparkSession, kind: str, value: str, properties: dict[str, str]
) -> None:
    table = table_of([kind], properties)
    assert HiveSerDe(spark, table).read("") == [[]]
    for kept in ("array()", value.replace("array(", "array(NULL, ", 1)):
        frame = spark.sql(f"SELECT CAST({kept} AS {kind}) AS c0")
        line = frame.select(format_line(text_layout(table), table.columns)).collect()[0][0]
        assert len(HiveSerDe(spark, table).read(line)[0]) == (0 if kept == "array()" else 2)
    frame = spark.sql(f"SELECT CAST({value} AS {kind}) AS c0")
    with pytest.raises(
        Exception, match=r"\[HIVEACID_DATA\] column c0: a value is an array of one empty value"
    ):
        frame.select(format_line(text_layout(table), table.columns)).collect()


@pytest.mark.parametrize("delimiter", [",", "-2"])  # -2: the byte 0xFE, so that lines are written as bytes
@pytest.mark.parametrize("type_", ["string", "array<string>"])
def test_a_byte_order_mark_at_the_beginning_of_a_file_is_escaped_or_fails(
    spark: SparkSession, tmp_path: Path, type_: str, delimiter: str
) -> None:
    """Hadoop's reader of lines drops it there."""
    value = "'\ufeffb'" if type_ == "string" else "array('\ufeffb', 'c')"
    frame = spark.range(1).selectExpr(f"{value} c0", "'\ufeffd' c1")
    properties = {"field.delim": delimiter}
    escaped, plain = (
        table_of([type_, "string"], ESCAPED | properties),
        table_of([type_, "string"], properties),
    )
    layout = text_layout(escaped)
    frame.select(format_line(layout, escaped.columns)).write.text(f"{tmp_path}/lines")
    lines = spark.read.text(f"{tmp_path}/lines")
    read = lines.select(*parse_line(SparkEnvironment(spark), layout, F.col("value"), escaped.columns))
    assert read.collect() == frame.collect()
    with pytest.raises(
        Exception, match=r"\[HIVEACID_DATA\] column c0: a value begins with a byte order mark"
    ):
        frame.select(format_line(text_layout(plain), plain.columns)).collect()


def test_delimiters_of_other_levels_are_plain_text(spark: SparkSession) -> None:
    table = table_of(["string", "array<string>"])
    frame = spark.createDataFrame([("a\x02b\x03", ["x\x03y", "z"])], "c0 string, c1 array<string>")
    line = frame.select(format_line(text_layout(table), table.columns)).collect()[0][0]
    assert line == "a\x02b\x03\x01x\x03y\x02z"
    assert HiveSerDe(spark, table).read(line) == ["a\x02b\x03", ["x\x03y", "z"]]
    assert parsed(spark, table, [line]) == [["a\x02b\x03", ["x\x03y", "z"]]]


def test_bytes_above_ascii_delimit_and_other_bytes_survive(spark: SparkSession) -> None:
    table = table_of(["string", "string"], {"field.delim": "-2"})  # the byte 0xFE, no UTF-8
    env, layout = SparkEnvironment(spark), text_layout(table)
    raw = spark.createDataFrame([(bytearray(b"gr\xfc\xdfe\xfe\xc3\xa9t\xc3\xa9"),)], "b binary")
    line = F.col("b").cast("string")
    values = raw.select(*parse_line(env, layout, line, table.columns))
    assert values.select(F.hex("c0"), "c1").collect() == [("6772FCDF65", "été")]
    assert values.select(F.hex(format_line(layout, table.columns))).collect()[0][0] == (
        b"gr\xfc\xdfe\xfe\xc3\xa9t\xc3\xa9".hex().upper()
    )


def test_base64_or_else_the_bytes_themselves(spark: SparkSession) -> None:
    """As in Hive 4.0.1; Spark's own decoder would take anything."""
    texts = {
        "YWJj": b"abc",
        "YWJ": b"ab",
        "abc!": b"abc!",
        "": b"",
        "YW Jj": b"YW Jj",
        "Y": b"Y",
        "YQ==": b"a",
    }
    frame = spark.createDataFrame([(text,) for text in texts], "value string")
    columns = parse_line(
        SparkEnvironment(spark),
        text_layout(table_of(["binary"])),
        F.col("value"),
        table_of(["binary"]).columns,
    )
    assert [bytes(row[0]) for row in frame.select(*columns).collect()] == list(texts.values())


@pytest.mark.parametrize(
    ("properties", "what"),
    [
        ({"serialization.encoding": "GBK"}, "encoding GBK"),
        ({"timestamp.formats": "yyyy"}, "timestamp formats"),
        ({"line.delim": ";"}, "line delimiter"),
        ({"skip.header.line.count": "1"}, "header or footer lines"),
    ],
)
def test_properties_that_change_lines_are_refused(properties: dict[str, str], what: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match=what):
        text_layout(table_of(["string"], properties))


def test_types_deeper_than_there_are_separators_are_refused() -> None:
    deep = "int"
    for _ in range(8):
        deep = f"array<{deep}>"
    with pytest.raises(UnsupportedFeatureError, match=r"extend\.nesting\.levels"):
        text_layout(table_of([deep]))
    more = text_layout(table_of([deep], {"hive.serialization.extend.nesting.levels": "true"}))
    assert more.separators[-2:] == ("\x08", "\x0b")


def test_properties_of_the_table_count_too() -> None:
    table = replace(table_of(["string"]), properties=(("serialization.null.format", ""),))
    assert text_layout(table).null == ""
