"""What is peculiar to Spark Connect: plans that are texts until they run, no JVM, a server with its own clock."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

import hiveacid
from hiveacid.core.format.bucket_property import decode
from hiveacid.core.schema.bucket_hash import bucket_number
from hiveacid.core.schema.types import parse_type
from hiveacid.errors import NoSuchColumnError, ParseError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


@pytest.fixture
def stock(spark: SparkSession, acid: AcidSession) -> AcidSession:
    acid.sql(f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT) {ACID}")
    acid.table("t").insert(
        spark.createDataFrame([(1, "a", 1), (2, "b", 1), (3, "c", 2)], "id int, v string, p int")
    )
    return acid


def test_it_is_connect(spark: SparkSession) -> None:
    assert type(spark).__module__ == "pyspark.sql.connect.session"


def test_all_verbs(spark: SparkSession, stock: AcidSession) -> None:
    t = stock.table("t")
    assert t.update({"v": "upper(v)"}, where="id = 1").updated == 1
    assert t.delete("p = 2").deleted == 1
    news = spark.createDataFrame([(1, "x"), (4, "y")], "id int, v string")
    report = (
        t.merge(news, on="t.id = s.id")
        .when_matched_update({"v": "s.v"})
        .when_not_matched_insert({"id": "s.id", "v": "s.v", "p": "9"})
        .execute()
    )
    assert (report.inserted, report.updated) == (1, 1)
    expected = [(1, "x", 1), (2, "b", 1), (4, "y", 9)]
    assert rows(t.to_df()) == expected
    assert rows(t.as_of(1).to_df()) == [(1, "a", 1), (2, "b", 1), (3, "c", 2)]
    t.compact("minor", partition={"p": 1})
    t.compact("major", partition={"p": 1})
    assert rows(stock.sql("SELECT * FROM t")) == expected
    assert rows(t.scan(where="p = 9 AND id > 3", columns=["v"]).to_df()) == [("y",)]
    t.overwrite(spark.createDataFrame([(7, "n", 9)], "id int, v string, p int"))
    assert rows(t.to_df()) == [(1, "x", 1), (2, "b", 1), (7, "n", 9)]


def test_a_result_outlives_its_statement_and_joins_with_itself(stock: AcidSession) -> None:
    """Its plan is a text on the server: the snapshots of the tables in it travel along."""
    frame = stock.sql(
        "SELECT id, concat('{', v, '}') AS v, (SELECT max(id) FROM t) AS most FROM t WHERE p = 1"
    )
    stock.sql("DELETE FROM t WHERE id = 1")
    assert rows(frame) == [(1, "{a}", 3), (2, "{b}", 3)]
    assert rows(frame.alias("a").join(frame.alias("b"), "id").select("id", "b.v")) == [(1, "{a}"), (2, "{b}")]
    assert frame.groupBy().agg(F.sum("id")).first()[0] == 3
    spark = stock.context.facts.spark
    assert [view.name for view in spark.catalog.listTables() if view.name.startswith("hiveacid")] == []


def test_a_temporary_view_holds_its_snapshot(stock: AcidSession) -> None:
    spark = stock.context.facts.spark
    stock.sql("CREATE TEMPORARY VIEW Old AS SELECT id FROM t")
    stock.sql("UPDATE t SET id = id + 10")
    stock.table("t").compact("major", partition={"p": 1})
    stock.context.read_leases.sweep()
    stock.clean()
    assert rows(spark.table("old")) == [(1,), (2,), (3,)]
    assert rows(stock.sql("SELECT o.id FROM old o JOIN t ON t.id = o.id + 10")) == [(1,), (2,), (3,)]
    stock.sql("DROP VIEW old")
    assert not stock.views


def test_what_is_wrong_is_said_at_once(stock: AcidSession) -> None:
    with pytest.raises(NoSuchColumnError, match="line 1, column 8"):
        stock.sql("SELECT nope FROM t")
    with pytest.raises(NoSuchColumnError):
        stock.table("t").scan(columns=["nope"]).to_df()
    with pytest.raises(ParseError):
        stock.sql("SELECT FROM WHERE t")


def test_only_partitions_that_count_are_read(stock: AcidSession) -> None:
    def read(where: str) -> list[str]:
        frame = stock.sql(f"SELECT * FROM t WHERE {where}")
        return sorted({Path(file).parts[-3] for file in frame.inputFiles()})

    assert read("p = 1") == ["p=1"]
    assert read("t.p IN (2, 3) AND v <> 'x'") == ["p=2"]
    assert read("p < abs(2)") == ["p=1", "p=2"]
    assert read("p = 1 OR id = 3") == ["p=1", "p=2"]


def test_times_where_session_and_server_differ(stock: AcidSession) -> None:
    spark = stock.context.facts.spark
    stock.sql(f"CREATE TABLE w (at TIMESTAMP) {ACID}")
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        stock.sql("INSERT INTO w VALUES (TIMESTAMP '2026-01-01 10:00:00')")
        assert stock.sql("SELECT CAST(at AS STRING) FROM w").first()[0] == "2026-01-01 10:00:00"
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)
    assert stock.sql("SELECT CAST(at AS STRING) FROM w").first()[0] == "2026-01-01 10:00:00"


def test_buckets_of_texts_bytes_and_times(stock: AcidSession) -> None:
    """Their hash is nested deeper than a message to the server may be, where it is made of calls of functions."""
    given = [("tea", "a"), ("ünï 😀", "bc"), (None, "def"), ("", "ghij")]
    for version in (1, 2):
        table = f"b{version}"
        stock.sql(
            f"CREATE TABLE {table} (s STRING, c CHAR(4), at DATE, n SMALLINT) CLUSTERED BY (s, c, at, n) INTO 64 BUCKETS "
            f"STORED AS ORC TBLPROPERTIES ('transactional'='true', 'bucketing_version'='{version}')"
        )
        values = ", ".join(f"({'NULL' if s is None else repr(s)}, '{c}', NULL, 7)" for s, c in given)
        stock.sql(f"INSERT INTO {table} VALUES {values}")
        types = [parse_type(text) for text in ("string", "char(4)", "date", "smallint")]
        found = stock.sql(f"SELECT s, c, ROW__ID.bucketid FROM {table}").collect()
        assert {(s, c.rstrip(), decode(code).bucket) for s, c, code in found} == {
            (s, c, bucket_number([s, c, None, 7], types, 64, version)) for s, c in given
        }


def test_several_statements_in_one_transaction(stock: AcidSession) -> None:
    with stock.transaction() as txn:
        txn.table("t").delete("p = 2")
        txn.sql("INSERT INTO t PARTITION (p = 5) SELECT id + 100, v FROM t WHERE p = 1")
        assert txn.sql("SELECT count(*) FROM t").first()[0] == 4
    assert rows(stock.sql("SELECT id FROM t")) == [(1,), (2,), (101,), (102,)]


def test_what_cannot_work_names_the_way_round(spark: SparkSession, stock: AcidSession) -> None:
    with pytest.raises(UnsupportedFeatureError, match=r"acid\.sql"):
        hiveacid.configure(spark.builder, native=True, warehouse=stock.context.warehouse).getOrCreate()
    stock.sql(f"CREATE TABLE d (n DECIMAL(4,1)) CLUSTERED BY (n) INTO 2 BUCKETS {ACID}")
    with pytest.raises(UnsupportedFeatureError, match="decimal on Spark Connect"):
        stock.sql("INSERT INTO d VALUES (1.5)")
