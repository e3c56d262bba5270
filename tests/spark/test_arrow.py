"""Tables without Spark: what ``hiveacid.open`` reads is what Spark reads, filters and snapshots included."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import hiveacid
from hiveacid.errors import (
    BadFileError,
    ConfigError,
    NoSuchColumnError,
    NoSuchDatabaseError,
    NoSuchTableError,
    TransactionStateError,
)
from support.corpus.engine_rows import rows_of, same
from support.exhaustive import sample

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from hiveacid.arrow.table import ArrowTable
    from hiveacid.arrow.warehouse import ArrowWarehouse
    from hiveacid.sql.session import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
TYPES = (
    "i INT, l BIGINT, s STRING, c CHAR(3), v VARCHAR(4), d DATE, t TIMESTAMP, n DECIMAL(10,2), w DECIMAL(38,0), "
    "x DOUBLE, f FLOAT, b BOOLEAN, y BINARY"
)
ROWS = """
 (1, 9223372036854775807, 'tea', 'a', 'ab', DATE '2020-02-29', TIMESTAMP '2020-02-29 12:00:00.123456', 1.50,
  99999999999999999999999999999999999999, 1.5, CAST(0.1 AS FLOAT), true, X'00FF'),
 (2, -1, 'T%a_', 'abc', 'abcd', DATE '0001-01-01', TIMESTAMP '1969-12-31 23:59:59.999999', -0.01, -1,
  CAST('NaN' AS DOUBLE), CAST('NaN' AS FLOAT), false, X''),
 (3, 0, '', '  ', '', DATE '9999-12-31', TIMESTAMP '9999-12-31 23:59:59.999999', 99999999.99, 0,
  CAST('Infinity' AS DOUBLE), CAST('-Infinity' AS FLOAT), NULL, X'41'),
 (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
 (5, 5, 'ü\\nx', 'ü', 'üxyz', DATE '1582-10-04', TIMESTAMP '1500-03-01 00:00:00.5', 0.00, 5, -0.0, CAST(16777216 AS FLOAT), true,
  X'FF')
"""
# Spark itself (4.3) takes `l < 99999999999999999999` for true where l is NULL, in every format.
CONDITIONS = [
    "i = 1", "i <> 1", "NOT i = 1", "i > 1.5", "i >= -1", "i IN (1, 2)", "i NOT IN (1, 2)", "i NOT IN (1, NULL)",
    "NOT (i IN (1, NULL))", "i IN (1, 99999999999)", "i BETWEEN 2 AND 3", "i NOT BETWEEN 2 AND 3", "i <=> NULL", "NOT (i <=> 1)",
    "i <=> 1", "i IS NULL", "i IS NOT NULL", "NOT (i IS NULL)", "i = NULL", "i = 1 OR s = ''", "NOT (i = 1 OR s = '')",
    "i = 1 AND NOT b", "b", "NOT b", "b = false", "b <=> NULL", "l = 9223372036854775807", "l > 9223372036854775807",
    "l < 99999999999999999999 AND l IS NOT NULL", "s = 'tea'", "s > 'T'",
    "c = 'a'", "c = 'a  '", "c = 'a    '",
    "c < 'b'", "c IN ('a', 'abc')", "c = ''", "v = 'ab'", "v >= 'abcd'",
    "d = DATE '2020-02-29'", "d < '1582-10-15'", "d >= DATE '9999-12-31'", "d > TIMESTAMP '2020-02-28 23:00:00'",
    "t = TIMESTAMP '2020-02-29 12:00:00.123456'", "t < '1970-01-01'", "t > DATE '2020-01-01'", "n = 1.5", "n = 1.500",
    "n > 0", "n <> 1e0", "n < 1.505", "n IN (1.5, 0)", "w > 99999999999999999999999999999999999998", "w = -1", "x = 1.5",
    "x > 2", "x < 2", "NOT x > 2", "x <> 1.5", "x = 0", "f = 0.1", "f > 1", "f <= 16777217",
    "x IN (1.5, 0)", "x NOT IN (1.5, 2)", "y = X'00ff'", "y > X'40'", "1 = 1", "1 = 2",
    "TRUE", "NULL OR i = 1", "(i = 1)", "((i = 1) AND (s = 'tea'))", "t.i = 1", "`i` = +1", "i = '1'", "NOT NOT i = 1", "s = 'te' 'a'",
]  # fmt: skip


@pytest.fixture
def wh(acid: AcidSession) -> Iterator[ArrowWarehouse]:
    with hiveacid.open(acid.context.warehouse) as warehouse:
        yield warehouse


@pytest.fixture
def own_t(acid: AcidSession, wh: ArrowWarehouse) -> ArrowTable:
    fill(acid)
    return wh.table("t")


@pytest.fixture(scope="module")
def unchanged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AcidSession]:
    """Return a connection to a warehouse whose table ``t`` no test changes."""
    with hiveacid.connect(spark, warehouse=str(tmp_path_factory.mktemp("unchanged"))) as connection:
        fill(connection)
        yield connection


@pytest.fixture
def t(unchanged: AcidSession) -> Iterator[ArrowTable]:
    with hiveacid.open(unchanged.context.warehouse) as warehouse:
        yield warehouse.table("t")


def fill(acid: AcidSession) -> None:
    """Make a table of two partitions with deleted, updated and added rows."""
    acid.sql(f"CREATE TABLE t (id INT, item STRING) PARTITIONED BY (p STRING) {ACID}")
    acid.sql("INSERT INTO t VALUES (1,'tea','x'), (2,'jam','x'), (3,'oil','y')")
    acid.sql("INSERT INTO t VALUES (4,'rum',NULL), (5,'nut','y')")
    acid.sql("UPDATE t SET item = 'TEA' WHERE id = 1")
    acid.sql("DELETE FROM t WHERE id = 3")


def ids(table: Any) -> list[int]:
    return sorted(table.column("id").to_pylist())


def test_neither_spark_nor_java_is_imported(unchanged: AcidSession) -> None:
    code = (
        f"import hiveacid, sys\nwith hiveacid.open({unchanged.context.warehouse!r}) as wh:\n"
        "    t = wh.table('t')\n    assert t.to_arrow(where='id > 1').num_rows == 3 and t.count() == 4\n"
        "    list(t.to_batches()); t.to_polars().collect()\n"
        "assert not {'pyspark', 'py4j'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/")


def test_rows_columns_and_limits(t: ArrowTable) -> None:
    assert t.schema.names == ["id", "item", "p"]
    assert ids(t.to_arrow()) == [1, 2, 4, 5]
    assert t.to_arrow(columns=["p", "ID"], where="p IS NULL").to_pylist() == [{"p": None, "id": 4}]
    assert t.to_arrow(limit=2).num_rows == 2
    assert t.to_arrow(limit=0).num_rows == 0
    assert t.to_arrow(limit=1 << 62).num_rows == 4
    assert t.to_pandas(columns=["id"], where="item = 'TEA'")["id"].tolist() == [1]
    assert t.count() == 4
    assert t.count(where="p = 'x'") == 2
    assert sum(batch.num_rows for batch in t.to_batches(batch_size=1)) == 4
    assert ids(t.to_arrow(where=pc.field("id") > 2)) == [4, 5]


def test_row_ids_are_those_of_spark(unchanged: AcidSession, t: ArrowTable) -> None:
    read = t.to_arrow(columns=["id"], row_ids=True)
    spark = unchanged.table("t").scan(columns=["id"], row_ids=True).to_df().collect()
    expected = {(row.id, tuple(row.ROW__ID)) for row in spark}
    assert {(row["id"], tuple(row["ROW__ID"].values())) for row in read.to_pylist()} == expected


def test_the_past(t: ArrowTable) -> None:
    assert ids(t.to_arrow(as_of=1)) == [1, 2, 3]
    assert ids(t.to_arrow(as_of="2999-01-01")) == [1, 2, 4, 5]
    with pytest.raises(hiveacid.HiveAcidError):
        t.to_arrow(as_of=99)
    with pytest.raises(ConfigError):
        t.to_arrow(as_of="soon")


def test_conditions_are_true_where_they_are_for_spark(acid: AcidSession, wh: ArrowWarehouse) -> None:
    acid.sql(f"CREATE TABLE t ({TYPES}) {ACID}")
    acid.sql(f"INSERT INTO t VALUES {ROWS}")
    table = wh.table("t")
    for condition in sample(CONDITIONS, 24):
        rows = acid.table("t").scan(where=condition, columns=["s", "i"]).to_df().collect()
        read = table.to_arrow(columns=["s", "i"], where=condition).to_pylist()
        assert sorted(map(repr, map(tuple, rows))) == sorted(repr(tuple(row.values())) for row in read), (
            condition
        )


def test_polars_reads_only_what_it_needs(t: ArrowTable) -> None:
    lazy = t.to_polars()
    assert lazy.collect().sort("id")["id"].to_list() == [1, 2, 4, 5]
    assert lazy.filter(pl.col("p") == "x").select("item").collect().sort("item")["item"].to_list() == [
        "TEA",
        "jam",
    ]
    assert lazy.filter((pl.col("id") > 1) & pl.col("item").str.contains("a")).select("id").collect()[
        "id"
    ].to_list() == [2]
    assert lazy.head(1).collect().height == 1
    first = lazy.select("id").collect()["id"].to_list()
    for count in range(5):  # rows are counted before they are filtered
        chosen = lazy.head(count).filter(pl.col("id") > 1).collect()["id"].to_list()
        assert chosen == [number for number in first[:count] if number > 1]
    assert lazy.select(pl.len()).collect().item() == 4


def test_duckdb_reads_only_what_it_needs(t: ArrowTable) -> None:
    connection = duckdb.connect()
    relation = t.to_duckdb(connection)
    assert relation.filter("p = 'x' AND id > 1").project("item").fetchall() == [("jam",)]
    connection.register("t", t.to_dataset(row_ids=True))
    assert connection.sql("SELECT count(*) FROM t").fetchall() == [(4,)]
    assert connection.sql("SELECT ROW__ID.writeid FROM t WHERE id IN (1, 4) ORDER BY id").fetchall() == [
        (3,),
        (2,),
    ]


def test_appended_rows_are_read_by_spark(acid: AcidSession, own_t: ArrowTable) -> None:
    assert own_t.append(pa.table({"id": [7, 8], "item": ["a", None], "p": ["x", "new"]})) == 2
    assert ids(own_t.to_arrow()) == [1, 2, 4, 5, 7, 8]
    assert acid.sql("SELECT count(*) FROM t WHERE p = 'new'").collect()[0][0] == 1
    with pytest.raises(ConfigError):
        own_t.append([1, 2])


def test_what_is_missing_is_said(tmp_path: Path, wh: ArrowWarehouse, own_t: ArrowTable) -> None:
    with pytest.raises(ConfigError, match="there is no warehouse"):
        hiveacid.open(str(tmp_path / "none"))
    assert not (tmp_path / "none").exists()
    with pytest.raises(ConfigError, match="there is no warehouse"):
        hiveacid.open(str(tmp_path))
    with pytest.raises(NoSuchTableError):
        wh.table("none")
    with pytest.raises(NoSuchDatabaseError):
        wh.table("none.t")
    with pytest.raises(NoSuchDatabaseError):
        wh.tables("none")
    with pytest.raises(NoSuchColumnError):
        own_t.to_arrow(columns=["none"])
    assert (wh.databases(), wh.tables()) == (["default"], ["t"])
    assert repr(own_t) == "<hiveacid table default.t>"


def test_a_closed_warehouse_is_refused(unchanged: AcidSession) -> None:
    warehouse = hiveacid.open(unchanged.context.warehouse)
    table = warehouse.table("t")
    reader = table.to_batches()
    warehouse.close()
    warehouse.close()
    for use in (table.to_arrow, table.count, reader.read_all, lambda: warehouse.table("t"), warehouse.tables):
        with pytest.raises(TransactionStateError, match="closed"):
            use()


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("duckdb", ["SELECT max(id) AS highest FROM t WHERE p = 'y'"], "5"),
        ("polars", ["t", "p"], "rows"),
    ],
)
def test_an_example_runs(unchanged: AcidSession, name: str, arguments: list[str], expected: str) -> None:
    example = Path(__file__).parents[2] / "examples" / f"query_by_{name}.py"
    command = [sys.executable, str(example), unchanged.context.warehouse, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert expected in done.stdout
    usage = subprocess.run(command[:2], check=False, capture_output=True, text=True)
    assert usage.stderr.startswith("usage: ")


KINDS = {
    "orc": "STORED AS ORC",
    "parquet": "STORED AS PARQUET",
}
FLAT_TYPES = "i INT, l BIGINT, s STRING, c CHAR(3), v VARCHAR(4), d DATE, t TIMESTAMP, n DECIMAL(10,2), x DOUBLE, b BOOLEAN"


@pytest.mark.exhaustive("each format stays, insert-only or plain", cases=("plain-orc", "plain-parquet"))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("insert_only", [True, False], ids=["insert_only", "plain"])
def test_files_of_every_kind(acid: AcidSession, wh: ArrowWarehouse, kind: str, *, insert_only: bool) -> None:
    properties = "TBLPROPERTIES ('transactional'='true','transactional_properties'='insert_only')"
    acid.sql(f"CREATE TABLE flat ({FLAT_TYPES}) {KINDS[kind]} {properties if insert_only else ''}")
    acid.sql(
        "INSERT INTO flat VALUES (1, -5, 'tea', 'a', 'ab', DATE '1500-02-28', TIMESTAMP '2020-02-29 12:00:00.123456', 1.5, "
        "CAST('NaN' AS DOUBLE), true), (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), "
        "(3, 9, '', 'abc', 'x', DATE '2020-01-01', TIMESTAMP '1969-12-31 23:59:59.5', -0.01, 0, false)"
    )
    frame = acid.table("flat").to_df()
    read = wh.table("flat").to_arrow()
    spark = acid.context.env.spark
    assert same(rows_of(spark.createDataFrame(read))) == same(rows_of(frame))
    assert wh.table("flat").count(where="i = 3 AND d = '2020-01-01' AND c = 'abc'") == 1
    with pytest.raises(ConfigError):
        wh.table("flat").to_arrow(row_ids=True)


def test_values_below_structs_arrays_and_maps(acid: AcidSession, wh: ArrowWarehouse) -> None:
    acid.sql(
        "CREATE TABLE nested (id INT, z STRUCT<a:INT,`T`:TIMESTAMP,c:CHAR(3)>, q ARRAY<DATE>, m MAP<STRING,CHAR(2)>) "
        + ACID
    )
    acid.sql(
        "INSERT INTO nested VALUES (1, named_struct('a', 1, 'T', TIMESTAMP '2020-01-01 00:00:00', 'c', 'x'), "
        "array(DATE '2020-01-01', NULL), map('k', 'v')), (2, NULL, NULL, NULL), (3, named_struct('a', NULL, 'T', NULL, "
        "'c', NULL), array(), map())"
    )
    acid.sql("ALTER TABLE nested ADD COLUMNS (more INT)")
    frame = acid.table("nested").to_df()
    read = wh.table("nested").to_arrow()
    assert same(rows_of(acid.context.env.spark.createDataFrame(read))) == same(rows_of(frame))
    assert wh.table("nested").to_arrow(columns=["more"], where="z IS NULL").to_pylist() == [{"more": None}]


def test_odd_names(acid: AcidSession, wh: ArrowWarehouse) -> None:
    acid.sql(
        f"CREATE TABLE odd (`a.b` INT, `sp ace` STRING, `ü` INT, `row` INT, `bucket` INT) PARTITIONED BY (`p=q` STRING) {ACID}"
    )
    acid.sql("INSERT INTO odd VALUES (1, 'x', 2, 3, 4, 'a/b=c%'), (5, 'y', 6, 7, 8, '')")
    table = wh.table("odd")
    assert table.to_arrow(where="`a.b` = 1 AND `p=q` = 'a/b=c%'").to_pylist() == [
        {"a.b": 1, "sp ace": "x", "ü": 2, "row": 3, "bucket": 4, "p=q": "a/b=c%"}
    ]
    assert table.to_arrow(columns=["bucket", "p=q"], where="`sp ace` = 'y'").to_pylist() == [
        {"bucket": 8, "p=q": None}
    ]
    assert duckdb_rows(table, 'SELECT "sp ace", "ü" FROM odd WHERE "a.b" > 1') == [("y", 6)]


def duckdb_rows(table: ArrowTable, query: str) -> list[Any]:
    connection = duckdb.connect()
    connection.register("odd", table.to_dataset())
    return connection.sql(query).fetchall()


def test_tables_without_rows(acid: AcidSession, wh: ArrowWarehouse) -> None:
    acid.sql(f"CREATE TABLE e (id INT, p INT) {ACID}")
    table = wh.table("e")
    assert (table.count(), table.to_arrow().num_rows, table.to_polars().collect().height) == (0, 0, 0)
    acid.sql("INSERT INTO e SELECT id, id FROM range(100)")
    acid.sql("DELETE FROM e")
    assert (table.count(), table.to_arrow(where="id > 1").num_rows, table.to_pandas().shape) == (0, 0, (0, 2))
    assert table.to_duckdb(duckdb.connect()).fetchall() == []


def test_a_damaged_file_is_named(acid: AcidSession, own_t: ArrowTable) -> None:
    file = next(Path(acid.context.warehouse, "t").rglob("delta_*/bucket_00000"))
    data = file.read_bytes()
    file.write_bytes(data[: len(data) // 2])
    with pytest.raises(BadFileError, match="bucket_00000"):
        own_t.to_arrow()


def test_deleted_rows_among_many_write_ids(acid: AcidSession, wh: ArrowWarehouse) -> None:
    acid.sql(f"CREATE TABLE many (id INT) {ACID}")
    for number in range(4):
        acid.sql(f"INSERT INTO many SELECT id + {number * 1000} FROM range(1000)")
    acid.sql("ALTER TABLE many COMPACT 'major' AND WAIT")
    acid.sql("DELETE FROM many WHERE pmod(hash(id), 3) = 0")
    acid.sql("DELETE FROM many WHERE id BETWEEN 500 AND 1500")
    expected = sorted(row.id for row in acid.table("many").to_df().collect())
    assert ids(wh.table("many").to_arrow()) == expected
    assert ids(wh.table("many").to_arrow(where="id > 700 AND id < 2100")) == [
        i for i in expected if 700 < i < 2100
    ]
    assert wh.table("many").count() == len(expected)


def test_files_stay_until_a_reader_is_done(acid: AcidSession, own_t: ArrowTable) -> None:
    reader = own_t.to_batches()
    acid.sql("ALTER TABLE t PARTITION (p='x') COMPACT 'major' AND WAIT")
    acid.clean()
    assert sorted(reader.read_all().column("id").to_pylist()) == [1, 2, 4, 5]
    acid.clean()
    assert ids(own_t.to_arrow()) == [1, 2, 4, 5]
