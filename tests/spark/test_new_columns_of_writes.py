"""Writes that add columns: WITH SCHEMA EVOLUTION, ``merge_schema`` and Spark's ``mergeSchema``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql import functions as F

from hiveacid.errors import (
    ConfigError,
    DataError,
    HiveAcidError,
    NoSuchColumnError,
    SchemaMismatchError,
    StatementError,
    TransactionStateError,
)

if TYPE_CHECKING:
    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
OLD = ["k", "v", "p"]


@pytest.fixture
def table(acid: AcidSession) -> AcidSession:
    acid.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    acid.sql(f"CREATE TABLE t (k INT, v STRING DEFAULT 'none') PARTITIONED BY (p INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 'a', 1)")
    return acid


def rows(acid: AcidSession, name: str = "t") -> list[dict[str, Any]]:
    found = [row.asDict() for row in acid.sql(f"SELECT * FROM {name}").collect()]
    return sorted(found, key=lambda row: row["k"])


def test_an_insert_adds_the_columns_behind_those_of_the_table(table: AcidSession) -> None:
    table.sql("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 2, 'b', 1, 0.5D AS ratio, array(1) AS tags")
    table.sql(
        "INSERT WITH SCHEMA EVOLUTION INTO t PARTITION (p = 3) SELECT 3, 'c', 1.5, NULL"
    )  # nothing is new
    table.sql(
        "INSERT INTO t BY NAME WITH SCHEMA EVOLUTION SELECT 4 AS k, 4 AS p, DATE'2026-01-02' AS `A day`"
    )
    assert table.table("t").to_df().columns == ["k", "v", "ratio", "tags", "a day", "p"]
    of = {"ratio": None, "tags": None, "a day": None}
    day = table.sql("SELECT DATE'2026-01-02'").collect()[0][0]
    assert rows(table) == [
        {"k": 1, "v": "a", "p": 1, **of},
        {"k": 2, "v": "b", "p": 1, **of, "ratio": 0.5, "tags": [1]},
        {"k": 3, "v": "c", "p": 3, **of, "ratio": 1.5},
        {"k": 4, "v": "none", "p": 4, **of, "a day": day},
    ]
    assert not [*table.table("t").inspect.check()]
    # the source may be the table itself, and be replaced
    table.sql(
        "INSERT OVERWRITE t WITH SCHEMA EVOLUTION SELECT k, v, ratio, tags, `a day`, p, k * 2 AS twice FROM t"
    )
    assert [row["twice"] for row in rows(table)] == [2, 4, 6, 8]


def test_fields_of_structs_are_matched_as_without_new_columns(acid: AcidSession) -> None:
    """By name where columns are."""
    acid.sql(f"CREATE TABLE t (k INT, s STRUCT<a: INT, b: INT>) {ACID}")
    swapped = acid.sql("SELECT 1 AS k, named_struct('b', 2, 'a', 1) AS s, 0 AS n")
    acid.table("t").insert(swapped, merge_schema=True)
    acid.sql("INSERT INTO t BY NAME WITH SCHEMA EVOLUTION SELECT 2 AS k, named_struct('b', 2, 'a', 1) AS s")
    assert [(row["k"], *row["s"]) for row in rows(acid)] == [(1, 1, 2), (2, 1, 2)]


def test_the_same_insert_by_position_again_does_not_shift_its_columns(table: AcidSession) -> None:
    """The new column stands before the partition column by then: a retry would write its values into each other's place."""
    for query in ("SELECT 2, 'b', 7, 9 AS n", "SELECT k + 1, v, p, 9 FROM t", "VALUES (3, 'c', 7, 9)"):
        text = f"INSERT INTO t WITH SCHEMA EVOLUTION {query}"
        table.sql(text)
        before = rows(table)
        with pytest.raises(SchemaMismatchError, match="stands in the place of"):
            table.sql(text)
        assert rows(table) == before
        assert len(table.table("t").to_df().columns) == 4
        table.sql("DROP TABLE t")
        table.sql(f"CREATE TABLE t (k INT, v STRING) PARTITIONED BY (p INT) {ACID}")
        table.sql("INSERT INTO t VALUES (1, 'a', 1)")


@pytest.mark.parametrize(
    ("text", "error", "place"),
    [
        ("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 2, 'b', 1, NULL AS n", SchemaMismatchError, "n has no type.*column 13"),
        ("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 2, 'b', 1, 1 AS row__id", SchemaMismatchError, "reserved"),
        ("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 2, 'b', 1, 1 AS n, 2 AS N", SchemaMismatchError, "twice"),
        ("INSERT INTO t WITH SCHEMA EVOLUTION SELECT array(2), 'b', 1, 1 AS n", SchemaMismatchError, r"k.*column 13"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1 AS k, 2 AS n) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = s.n, v = array(1)", SchemaMismatchError, "v"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1 AS k, 2 AS n) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET nope = s.n", NoSuchColumnError, "line 1, column 110"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1 AS k, 2 AS n) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET * WHEN NOT MATCHED THEN INSERT VALUES (s.k, 'x', 1)", StatementError, "name the columns"),
        ("MERGE WITH SCHEMA EVOLUTION INTO t USING (SELECT 1 AS k, 2 AS n) s ON t.k = s.k WHEN MATCHED THEN UPDATE SET n = n", HiveAcidError, "n"),
        ("INSERT INTO t WITH SCHEMA EVOLUTION REPLACE WHERE k = 1 SELECT 1, 'a', 1", StatementError, ""),
        ("INSERT INTO t PARTITION (p) BY NAME WITH SCHEMA EVOLUTION SELECT 2 AS k, 2 AS n", ConfigError, "lacks the dynamic partition column p"),
        ("INSERT INTO t REPLACE WHERE k = 1 WITH SCHEMA EVOLUTION SELECT 1, 'a', 1, 2 AS n", StatementError, ""),
        ("FROM t INSERT INTO t WITH SCHEMA EVOLUTION SELECT k, v, p, 2 AS n", StatementError, "multi-insert"),
    ],
)  # fmt: skip
def test_what_cannot_be_added_changes_nothing(
    table: AcidSession, text: str, error: type[HiveAcidError], place: str
) -> None:
    with pytest.raises(error, match=f"(?s){place}"):
        table.sql(text)
    assert table.table("t").to_df().columns == OLD
    assert [row["k"] for row in rows(table)] == [1]


def test_partitions_that_the_statement_must_not_write_add_no_columns(acid: AcidSession) -> None:
    acid.sql(f"CREATE TABLE u (k INT) PARTITIONED BY (a STRING, b STRING) {ACID}")
    acid.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    with pytest.raises(ConfigError, match=r"write PARTITION \(a, b\)"):
        acid.sql("INSERT INTO u PARTITION (b, a) WITH SCHEMA EVOLUTION SELECT 1, 'of b', 'of a'")
    acid.sql("SET hive.exec.dynamic.partition.mode = strict")
    with pytest.raises(ConfigError, match="strict"):
        acid.sql("INSERT INTO u WITH SCHEMA EVOLUTION SELECT 1, 'x', 'y', 2 AS n")
    assert acid.table("u").to_df().columns == ["k", "a", "b"]
    assert acid.table("u").count() == 0


def test_a_value_that_does_not_fit_leaves_the_column_without_rows(table: AcidSession) -> None:
    with pytest.raises(DataError):
        table.sql(
            "INSERT INTO t WITH SCHEMA EVOLUTION SELECT CAST(id AS STRING) || 'x', 'b', 1, 1 AS n FROM range(2)"
        )
    assert rows(table) == [{"k": 1, "v": "a", "n": None, "p": 1}]


def test_no_column_is_added_in_a_transaction(table: AcidSession) -> None:
    with pytest.raises(TransactionStateError, match="n, which a transaction cannot add"):
        _insert_twice(table)
    assert table.table("t").to_df().columns == OLD


def _insert_twice(acid: AcidSession) -> None:
    with acid.transaction() as txn:
        txn.sql("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 2, 'b', 1")  # adds none
        txn.sql("INSERT INTO t WITH SCHEMA EVOLUTION SELECT 3, 'b', 1, 1 AS n")


@pytest.mark.parametrize("by", ["auto", "job"])
def test_a_merge_adds_the_columns_that_its_clauses_set(table: AcidSession, by: str) -> None:
    table.sql(f"SET hiveacid.changes.by = {by}")
    source = "(SELECT * FROM VALUES (1, 'x', 1, 10, 'i'), (2, 'y', 2, 20, 'j') AS n (k, v, p, extra, other)) s ON t.k = s.k"
    table.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO t USING {source} WHEN MATCHED THEN UPDATE SET extra = s.extra"
    )
    assert rows(table) == [{"k": 1, "v": "a", "extra": 10, "p": 1}]
    table.sql(
        f"MERGE WITH SCHEMA EVOLUTION INTO t USING {source} WHEN MATCHED THEN UPDATE SET v = upper(s.v) "
        "WHEN NOT MATCHED AND other = 'j' THEN INSERT *"
    )
    assert rows(table) == [
        {"k": 1, "v": "X", "extra": 10, "other": None, "p": 1},
        {"k": 2, "v": "y", "extra": 20, "other": "j", "p": 2},
    ]
    news = table.sql("SELECT 1 AS k, 'm' AS mark")
    merge = table.table("t").merge(news, "t.k = s.k", merge_schema=True)
    assert merge.when_matched_update().execute().updated == 1
    assert [row["mark"] for row in rows(table)] == ["m", None]


def test_frames_and_spark_s_writers_add_columns(native: NativeSession) -> None:
    acid = native.acid
    acid.sql("SET hive.exec.dynamic.partition.mode = nonstrict")
    acid.sql(f"CREATE TABLE t (k INT, v STRING) PARTITIONED BY (p INT) {ACID}")
    base = native.createDataFrame([(1, "a", 1)], "k INT, v STRING, p INT")

    def with_new(number: int) -> Any:
        return base.withColumn("k", F.lit(number)).withColumn(f"n{number}", F.lit(number))

    acid.table("t").insert(with_new(1), merge_schema=True)
    with_new(2).drop("v").writeTo("t").option("mergeSchema", "true").append()
    with_new(3).write.mode("append").option("mergeSchema", value=True).saveAsTable("t")
    wide = native.sql("SELECT 4, 'a', CAST(NULL AS INT), 0, 0, 9, 4 AS n4")
    wide.write.option("mergeSchema", "true").insertInto("t")
    if hasattr(base, "mergeInto"):
        source = with_new(5)
        merge = source.mergeInto("t", source.k == F.col("t.k")).withSchemaEvolution()
        merge.whenMatched().updateAll().whenNotMatched().insertAll().merge()
        assert native.table("t").columns == ["k", "v", "n1", "n2", "n3", "n4", "n5", "p"]
    with pytest.raises(SchemaMismatchError):
        with_new(6).writeTo("t").option("mergeSchema", "false").append()
    found = {row["k"]: row for row in rows(acid)}
    assert {k: [n for n in range(1, 6) if row.get(f"n{n}") == n] for k, row in found.items()} == {
        k: [k] for k in found
    }
    assert found[2]["v"] is None
    assert found[4]["p"] == 9
