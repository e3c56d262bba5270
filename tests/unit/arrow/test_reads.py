"""Reads without Spark whose results Spark's own tests do not decide: arguments, and limits of Arrow."""

from __future__ import annotations

import bz2
import gzip
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyarrow import parquet
from pyorc import CompressionKind

from hiveacid.arrow.table import ArrowTable
from hiveacid.arrow.warehouse import ArrowWarehouse, open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.errors import BadRecordError, ConfigError, UnsupportedFeatureError
from hiveacid.stores.clock import SystemClock
from support.corpus.acid_files import acid_bytes, inserts
from support.directories.shelves import definition

CREATE = "CREATE TABLE t (id INT, l BIGINT) PARTITIONED BY (p BIGINT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
LARGE = 2**53 + 1
ROWS = [(1, 2**63 - 1, LARGE), (2, LARGE, LARGE), (3, -(2**63), None), (4, None, 1), (5, 7, 1)]


@pytest.fixture(scope="module")
def wh(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ArrowWarehouse]:
    root = tmp_path_factory.mktemp("warehouse")
    open_store(str(root), None, Settings(), SystemClock())[0].close()
    with open_warehouse(str(root)) as warehouse:
        yield warehouse


def create(wh: ArrowWarehouse, sql: str) -> ArrowTable:
    name = sql.split()[2]
    made = definition(sql, str(Path(wh.context.warehouse, name)))
    Path(made.location).mkdir()
    wh.context.catalog.create_table(made)
    return wh.table(name)


@pytest.fixture(scope="module")
def t(wh: ArrowWarehouse) -> ArrowTable:
    """Return a table in three partitions."""
    table = create(wh, CREATE)
    schema = pa.schema([("id", pa.int32()), ("l", pa.int64()), ("p", pa.int64())])
    table.append(pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in ROWS], schema))
    return table


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("l > 1e0", [1, 2, 5]),
        ("l < 8e0", [3, 5]),
        ("l = 9007199254740992e0", [2]),
        ("NOT l >= 7e0", [3]),
        ("l IN (7e0, 9.3e18)", [5]),
        ("p > 1e0", [1, 2]),
        ("p <= 1e0", [4, 5]),
        ("p NOT IN (1, NULL)", []),
        ("p <=> NULL", [3]),
    ],
)
def test_whole_numbers_beyond_doubles_and_nulls_are_compared(
    t: ArrowTable, condition: str, expected: list[int]
) -> None:
    assert sorted(t.to_arrow(where=condition)["id"].to_pylist()) == expected
    assert t.count(where=condition) == len(expected)


def test_bounds_with_replaced_bytes_do_not_hide_rows(wh: ArrowWarehouse) -> None:
    """Java's writer stores U+FFFD, which is below the value, in place of bytes that are not UTF-8."""
    made = create(wh, "CREATE TABLE bytes (s STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    made.append(pa.table({"s": ["b"]}))
    (file,) = Path(made.definition.location).rglob("bucket_*")
    replaced, stored = "\ufffd1".encode(), b"\xff111"
    data = acid_bytes(
        inserts(1, [("b",), (replaced.decode(),)]), "s:string", compression=CompressionKind.NONE
    )
    index, before, after = data.split(replaced, 2)
    file.write_bytes(index + replaced + before + stored + after)  # the bounds are in index, stripe and footer
    assert made.to_arrow()["s"].cast(pa.binary()).to_pylist() == [b"b", stored]
    assert made.count(where="s > '\U0001f600'") == 1


def test_reads_without_columns_count_the_rows(t: ArrowTable) -> None:
    assert t.to_arrow(columns=[]).num_rows == 5
    assert t.to_arrow(columns=[], where="p = 1", limit=1).num_rows == 1
    assert t.to_arrow(columns=[], row_ids=True).column_names == ["ROW__ID"]
    assert sum(batch.num_rows for batch in t.to_batches(columns=[], limit=4)) == 4


@pytest.mark.parametrize(
    "arguments",
    [
        {"limit": -1},
        {"limit": 1.5},
        {"limit": "3"},
        {"columns": ["id", "ID"]},
        {"as_of": True},
        {"as_of": -1},
    ],
)
def test_arguments_without_a_meaning_are_refused(t: ArrowTable, arguments: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        t.to_arrow(**arguments)
    if "as_of" not in arguments:
        with pytest.raises(ConfigError):
            list(t.to_batches(**arguments))


def test_an_append_of_text_that_is_not_utf8_is_refused(wh: ArrowWarehouse) -> None:
    table = create(wh, "CREATE TABLE texts (s STRING) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    offsets = pa.array([0, 1], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 1, [None, offsets, pa.py_buffer(b"\xff")])
    with pytest.raises(BadRecordError, match=r"record 1 does not fit .*UTF8"):
        table.append(pa.table({"s": text}))
    assert table.count() == 0


AVRO = "STORED AS AVRO TBLPROPERTIES ('transactional'='true','transactional_properties'='insert_only')"
INNER = {
    "type": "record",
    "name": "inner",
    "fields": [{"name": "A", "type": "int"}, {"name": "c", "type": "string"}],
}
NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)
MOMENT = {"type": "long", "logicalType": "timestamp-millis"}
NULLABLE = [
    {"name": "Id", "type": ["null", "int"]},
    {"name": "z", "type": ["null", INNER]},
    {"name": "m", "type": ["null", {"type": "map", "values": {"type": "array", "items": "inner"}}]},
    {"name": "q", "type": ["null", {"type": "array", "items": MOMENT}]},
]


def write_avro(wh: ArrowWarehouse, table: ArrowTable, fields: list[dict[str, Any]], rows: list[Any]) -> None:
    """Commit an Avro file of an insert-only table."""
    txn = wh.context.transactions.begin(wh.context.settings)
    write_id = txn.write_id(table.name)
    directory = Path(table.definition.location, f"delta_{write_id:07d}_{write_id:07d}_0000")
    directory.mkdir()
    with (directory / "000000_0").open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, rows)
    txn.commit()


@pytest.mark.parametrize(
    ("name", "hive", "kind", "value"),
    [
        ("fraction", "INT", "double", 1.5),
        ("whole", "INT", ["null", "double"], 2.0),
        ("number", "TIMESTAMP", "int", 5),
        ("wall_clock_ms", "TIMESTAMP", {"type": "long", "logicalType": "local-timestamp-millis"}, NOON),
        ("wall_clock_us", "TIMESTAMP", {"type": "long", "logicalType": "local-timestamp-micros"}, NOON),
        ("day_number", "DATE", "int", 5),
        ("moment", "DATE", MOMENT, NOON),
    ],
)
def test_avro_values_of_another_kind_are_refused(
    wh: ArrowWarehouse, name: str, hive: str, kind: Any, value: Any
) -> None:
    """Arrow would cut the fraction and the time of day, and make a moment of 5."""
    table = create(wh, f"CREATE TABLE avro_{name} (c {hive}) {AVRO}")
    write_avro(wh, table, [{"name": "c", "type": kind}], [{"c": value}])
    with pytest.raises(UnsupportedFeatureError, match=r"column c is .* can't be read without Spark"):
        table.to_arrow()


def test_avro_numbers_in_a_timestamp_column_are_milliseconds(wh: ArrowWarehouse) -> None:
    """As for Hive and Spark, which show the same time as of a logical timestamp."""
    table = create(wh, f"CREATE TABLE millis (a TIMESTAMP, b TIMESTAMP, c TIMESTAMP) {AVRO}")
    kinds = {"A": "long", "b": ["null", "long"], "c": MOMENT}
    number = int(NOON.timestamp() * 1000) + 5
    moment = NOON + timedelta(milliseconds=5)
    fields = [{"name": name, "type": kind} for name, kind in kinds.items()]
    write_avro(wh, table, fields, [{"A": number, "b": number, "c": moment}, {"A": 0, "b": None, "c": moment}])
    first, second = table.to_arrow().to_pylist()
    assert first["a"] == first["b"] == first["c"]
    assert second["b"] is None


def test_avro_records_have_names_in_any_case(wh: ArrowWarehouse) -> None:
    """Values whose name is not found would silently be NULL."""
    table = create(
        wh,
        "CREATE TABLE avro (id INT, z STRUCT<a:INT,c:CHAR(2)>, m MAP<STRING,ARRAY<STRUCT<a:INT,c:CHAR(2)>>>, "
        f"q ARRAY<TIMESTAMP>) {AVRO}",
    )
    one = {"A": 5, "c": "x"}
    write_avro(wh, table, NULLABLE, [{"Id": 1, "z": one, "m": {"k": [one]}}, {"Id": 2}])
    inner = {"a": 5, "c": "x "}
    read = table.to_arrow(columns=["id", "z", "m"]).to_pylist()
    assert read == [{"id": 1, "z": inner, "m": [("k", [inner])]}, {"id": 2, "z": None, "m": None}]
    with pytest.raises(UnsupportedFeatureError, match="column q"):
        table.to_arrow()


def test_times_that_need_another_reader_are_no_matter_of_other_columns(wh: ArrowWarehouse) -> None:
    """Only pyorc reads times before 1677, and only in columns that are not nested."""
    table = create(
        wh,
        "CREATE TABLE times (t TIMESTAMP, u TIMESTAMP, s STRUCT<t:TIMESTAMP>) "
        "STORED AS ORC TBLPROPERTIES ('transactional'='true')",
    )
    early, late = datetime(1, 2, 3), datetime(2024, 1, 2, 3, 4, 5)  # noqa: DTZ001 - Hive's timestamps have no zone
    row = {"t": early, "u": late, "s": {"t": late}}
    table.append(pa.Table.from_pylist([row], table.schema))
    assert table.to_arrow().to_pylist() == [row]


@pytest.mark.parametrize(
    ("hive", "stored"),
    [
        ("TIMESTAMP", pa.array([5], pa.int64())),
        ("BOOLEAN", pa.array([2], pa.int32())),
        ("STRING", pa.array([2.0])),
        ("STRUCT<a:INT,b:INT>", pa.array([{"a": 1}])),
        ("ARRAY<DATE>", pa.array([[NOON]])),
    ],
)
def test_values_of_another_kind_in_parquet_files_are_refused(
    wh: ArrowWarehouse, hive: str, stored: Any
) -> None:
    """As Spark does. Arrow would make a moment of 5, and a text of 2.0."""
    name = f"p_{hive[:5].lower()}"
    table = create(wh, f"CREATE TABLE {name} (c {hive}) STORED AS PARQUET")
    parquet.write_table(pa.table({"c": stored}), f"{wh.context.warehouse}/{name}/000000_0")
    with pytest.raises(
        UnsupportedFeatureError, match=r"000000_0: column c is .* can't be read without Spark"
    ):
        table.to_arrow()


def test_numbers_in_text_files_beyond_the_range_are_infinite(wh: ArrowWarehouse) -> None:
    """As for Hive and Spark. A stream refuses them."""
    table = create(wh, "CREATE TABLE numbers (x DOUBLE, y FLOAT) STORED AS TEXTFILE")
    Path(wh.context.warehouse, "numbers", "000000_0").write_text("1e400\x011e39\n1e400d\x01-1e39f\n")
    infinite = float("inf")
    assert table.to_arrow().to_pylist() == [{"x": infinite, "y": infinite}, {"x": infinite, "y": -infinite}]


def test_numbers_in_text_files_have_one_suffix(wh: ArrowWarehouse) -> None:
    """As Java reads them; `1.5fd` is no number."""
    table = create(wh, "CREATE TABLE suffixes (x DOUBLE, y FLOAT) STORED AS TEXTFILE")
    Path(wh.context.warehouse, "suffixes", "000000_0").write_text("1.5d\x011.5F\n1.5fd\x011.5dd\n")
    assert table.to_arrow().to_pylist() == [{"x": 1.5, "y": 1.5}, {"x": None, "y": None}]


@pytest.mark.parametrize(("ending", "pack"), [("", bytes), (".gz", gzip.compress), (".bz2", bz2.compress)])
def test_byte_order_marks_at_the_beginning_of_text_files_are_dropped(
    wh: ArrowWarehouse, ending: str, pack: Callable[[bytes], bytes]
) -> None:
    """As Spark and Hive do; the mark made the first number NULL."""
    name = f"marked{ending[1:]}"
    table = create(wh, f"CREATE TABLE {name} (i INT, s STRING) STORED AS TEXTFILE")
    mark = "\ufeff"
    text = f"{mark}1\x01a\n2\x01{mark}b\n"
    Path(wh.context.warehouse, name, f"000000_0{ending}").write_bytes(pack(text.encode()))
    assert table.to_arrow().to_pylist() == [{"i": 1, "s": "a"}, {"i": 2, "s": f"{mark}b"}]
