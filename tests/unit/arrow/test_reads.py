"""Reads without Spark whose results Spark's own tests do not decide: arguments, and limits of Arrow."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyarrow import parquet
from pyorc import CompressionKind

from hiveacid.arrow.query_sources import TableDataset
from hiveacid.arrow.table import ArrowTable
from hiveacid.arrow.warehouse import ArrowWarehouse, open_warehouse
from hiveacid.catalog.opening import open_store
from hiveacid.config import Settings
from hiveacid.errors import BadRecordError, ConfigError, UnsupportedFeatureError
from hiveacid.ports.clock import SystemClock
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


NOON = datetime(2024, 1, 2, 12, tzinfo=UTC)


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


def test_such_times_are_no_matter_of_columns_with_odd_names(wh: ArrowWarehouse) -> None:
    """A name that Arrow could take for a member of a struct is read with all columns, by Spark if these have such times."""
    properties = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    table = create(wh, f"CREATE TABLE odd (`größe` INT, `a b` INT, `a.b` INT, t TIMESTAMP) {properties}")
    row = {"größe": 1, "a b": 2, "a.b": 3, "t": datetime(9999, 12, 31)}  # noqa: DTZ001 - as above
    table.append(pa.Table.from_pylist([row], table.schema))
    assert table.to_arrow().to_pylist() == [row]
    for name, value in row.items():
        assert table.to_arrow([name], where=f"`{name}` IS NOT NULL").to_pylist() == [{name: value}]
    unclear = create(wh, f"CREATE TABLE unclear (a STRUCT<b:INT>, `a.b` INT, t TIMESTAMP) {properties}")
    row = {"a": {"b": 1}, "a.b": 2, "t": datetime(2024, 1, 1)}  # noqa: DTZ001 - as above
    unclear.append(pa.Table.from_pylist([row], unclear.schema))
    assert unclear.to_arrow().to_pylist() == [row]
    unclear.append(pa.Table.from_pylist([row | {"t": datetime(9999, 12, 31)}], unclear.schema))  # noqa: DTZ001 - as above
    with pytest.raises(UnsupportedFeatureError, match=r"unclear/.* times before 1677 or after 2262"):
        unclear.to_arrow(["a.b"])


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


@pytest.mark.parametrize("kind", ["TEXTFILE", "AVRO"])
def test_text_and_avro_tables_are_left_to_spark(wh: ArrowWarehouse, kind: str) -> None:
    table = create(wh, f"CREATE TABLE flat_{kind} (i INT) STORED AS {kind}")
    for read in (table.to_arrow, table.count, lambda: list(table.to_batches())):
        with pytest.raises(UnsupportedFeatureError, match=f"stored as {kind.lower()}: read it with Spark"):
            read()


@pytest.mark.parametrize("name", ["update", "delete", "merge", "compact", "changes", "to_df"])
def test_what_needs_spark_says_so(wh: ArrowWarehouse, name: str) -> None:
    table = create(
        wh, f"CREATE TABLE needs_{name} (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    )
    with pytest.raises(AttributeError, match=rf"no {name}: it needs Spark, hiveacid\.connect"):
        getattr(table, name)
    with pytest.raises(AttributeError, match=r"has no nonsense$"):
        table.nonsense  # noqa: B018


def test_a_data_set_has_the_calls_of_arrow_that_scan_and_refuses_the_others(t: ArrowTable) -> None:
    """Those of pyarrow itself follow a pointer that this data set does not have: each of them ended the process."""
    data, above = t.to_dataset(), pc.field("id") > 3
    assert sorted(data.to_table(["id"], filter=above).column("id").to_pylist()) == [4, 5]
    assert (data.head(2).num_rows, data.head(0).num_rows, data.head(9, columns=["l"]).num_rows) == (2, 0, 5)
    assert (data.count_rows(), data.count_rows(filter=above)) == (5, 2)
    assert sum(batch.num_rows for batch in data.to_batches()) == 5
    scanner = data.scanner(["id"])
    assert (scanner.dataset_schema, scanner.to_table().num_rows) == (scanner.projected_schema, 5)
    refused: list[Callable[[], object]] = [
        lambda: data.filter(above),
        lambda: data.join(data, "id"),
        lambda: data.join_asof(data, "id", "l", 1),
        lambda: data.sort_by("id"),
        lambda: data.take([0]),
        lambda: list(data.get_fragments()),
        lambda: data.replace_schema(data.schema),
        lambda: data.partition_expression,
        lambda: list(scanner.scan_batches()),
    ]
    for call in refused:
        with pytest.raises(UnsupportedFeatureError, match="a data set of a table has no"):
            call()
    with pytest.raises(UnsupportedFeatureError, match="takes names of columns, and computes none"):
        data.to_table(columns={"id": pc.field("id") + 1})  # the stored values would come under this name
    own = {name for name in dir(ds.Dataset) if not name.startswith("_")}
    covered = {*vars(TableDataset), "to_table", "to_batches", "head", "count_rows", "take"}
    assert own <= covered  # pyarrow has no other method that could end the process


def test_arrow_writes_a_data_set_and_refuses_to_scan_it_itself(t: ArrowTable, tmp_path: Path) -> None:
    """Both ended the process."""
    data = t.to_dataset()
    for number, source in enumerate((data, data.scanner(["id"], filter=pc.field("id") > 3))):
        target = str(tmp_path / f"written{number}")
        ds.write_dataset(source, target, format="parquet")
        assert (
            sorted(ds.dataset(target).to_table().column("id").to_pylist())
            == [[1, 2, 3, 4, 5], [4, 5]][number]
        )
    assert pa.RecordBatchReader.from_stream(data).read_all().num_rows == 5
    scans: list[Callable[[], object]] = [
        lambda: ds.Scanner.from_dataset(data).to_table(),
        lambda: ds.Scanner.from_dataset(data, columns=[], filter=pc.field("id") > 3).count_rows(),
        data.children[0].to_table,
        next(iter(ds.Dataset.get_fragments(data))).to_table,
    ]
    for scan in scans:
        with pytest.raises(UnsupportedFeatureError, match=r"has no scan inside Arrow: call to_table\("):
            scan()
    with pytest.raises(UnsupportedFeatureError, match="has no replace_schema"):
        ds.dataset([data])
    with pytest.raises(UnsupportedFeatureError, match="has no pickle"):
        pickle.dumps(data)


def test_a_scan_of_a_data_set_reads_no_batch_ahead() -> None:
    batches: list[int] = []

    def read(names: Sequence[str], _: object) -> Iterator[pa.RecordBatch]:
        assert names == ["id"]
        for number in range(99):
            batches.append(number)
            yield pa.record_batch({"id": pa.array([number])})

    data = TableDataset("t", pa.schema([("id", pa.int64())]), read)
    with data.scanner().to_reader() as reader:
        assert reader.read_next_batch().column(0).to_pylist() == [0]
    assert data.head(2).num_rows == 2
    assert batches == [0, 0, 1]
