"""SURROGATE_KEY(): each verb that fills defaults gives each row a key of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import ConstraintViolationError, DataError, UnsupportedFeatureError
from hiveacid.streaming import Connection

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


@pytest.fixture
def keyed(acid: AcidSession, spark: SparkSession) -> AcidSession:
    """Return a session with a table of keys, and a view of 100 rows in 5 tasks."""
    acid.sql(f"CREATE TABLE k (id BIGINT DEFAULT SURROGATE_KEY(), name STRING, n INT) {ACID}")
    rows = spark.range(0, 100, 1, 5).selectExpr("'v' AS name", "CAST(id AS INT) AS n")
    rows.createOrReplaceTempView("v")
    return acid


def require_unique(acid: AcidSession, rows: int, table: str = "k") -> None:
    found = [row[0] for row in acid.sql(f"SELECT id FROM {table}").collect()]
    assert len(found) == rows
    assert None not in found
    assert len(set(found)) == rows


def test_keys_are_those_of_hive(keyed: AcidSession) -> None:
    """Write id, task and number of the row; the keys of a list are in its order."""
    keyed.sql("INSERT INTO k VALUES (DEFAULT, 'a', 1), (7, 'b', 2), (DEFAULT, 'c', 3)")
    keyed.sql("INSERT INTO k (name, n) SELECT name, n FROM v WHERE n IN (1, 2, 41)")
    one = 1 << 40
    found = {row.n: row.id for row in keyed.sql("SELECT * FROM k WHERE name IN ('a', 'b', 'c')").collect()}
    assert found == {1: one, 2: 7, 3: one + 1}
    selected = {row.n: row.id for row in keyed.sql("SELECT * FROM k WHERE name = 'v'").collect()}
    assert selected == {1: 2 * one, 2: 2 * one + 1, 41: 2 * one + (2 << 24)}


def test_update_and_merge_make_keys(keyed: AcidSession) -> None:
    """By Arrow, by Spark, in two clauses that insert, and where a matched row gets a new key."""
    keyed.sql("INSERT INTO k (name, n) SELECT * FROM v")
    keyed.sql(
        "MERGE INTO k USING (SELECT name, n + 90 AS n FROM v) s ON k.n = s.n WHEN MATCHED THEN UPDATE SET id = DEFAULT "
        "WHEN NOT MATCHED AND s.n % 2 = 0 THEN INSERT (name, n) VALUES (s.name, s.n) "
        "WHEN NOT MATCHED THEN INSERT VALUES (DEFAULT, 'odd', s.n)"
    )
    require_unique(keyed, 190)
    before = {row.n: row.id for row in keyed.sql("SELECT id, n FROM k").collect()}
    keyed.sql("UPDATE k SET id = DEFAULT WHERE n < 50")
    keyed.sql("SET hiveacid.changes.by=job")
    keyed.sql("UPDATE k SET id = DEFAULT WHERE n BETWEEN 50 AND 80")
    require_unique(keyed, 190)
    after = {row.n: row.id for row in keyed.sql("SELECT id, n FROM k").collect()}
    assert {n for n in after if after[n] != before[n]} == set(range(81))


def test_statements_of_one_transaction_make_other_keys(keyed: AcidSession) -> None:
    """They have one write id, from which alone Hive makes the same keys again."""
    with keyed.transaction() as txn:
        for _ in range(2):
            txn.sql("INSERT INTO k (name, n) SELECT * FROM v")
            txn.sql("INSERT INTO k VALUES (DEFAULT, 'x', 100), (DEFAULT, 'y', 101)")
        txn.sql("UPDATE k SET id = DEFAULT WHERE n < 10")
    require_unique(keyed, 204)
    keyed.sql(f"CREATE TABLE few (id BIGINT DEFAULT SURROGATE_KEY(8, 3), n INT) {ACID}")
    for statement in (
        "START TRANSACTION",
        "INSERT INTO few (n) VALUES (1)",
        "INSERT INTO few (n) VALUES (2)",
    ):
        keyed.sql(statement)
    with pytest.raises(DataError, match="and 3 statements of a transaction"):
        keyed.sql("INSERT INTO few (n) VALUES (3)")
    keyed.sql("ROLLBACK")


def test_partitions_buckets_and_overwrites(keyed: AcidSession) -> None:
    keyed.sql(
        "CREATE TABLE p (id BIGINT DEFAULT SURROGATE_KEY(), name STRING) PARTITIONED BY (d INT) "
        f"CLUSTERED BY (id) INTO 3 BUCKETS {ACID}"
    )
    keyed.sql(
        "FROM v INSERT INTO p PARTITION (d=1) (name) SELECT name WHERE n < 30 "
        "INSERT INTO p PARTITION (d=2) (name) SELECT name WHERE n >= 30"
    )
    keyed.sql("INSERT INTO p (name, d) SELECT name, n % 5 FROM v")
    require_unique(keyed, 200, "p")
    keyed.sql("INSERT OVERWRITE TABLE p PARTITION (d=1) (name) SELECT name FROM v")
    keyed.sql("INSERT INTO p PARTITION (d) VALUES (DEFAULT, 'x', 9), (DEFAULT, 'y', 9)")
    keyed.sql("INSERT INTO p REPLACE WHERE d = 9 VALUES (DEFAULT, 'x', 9), (DEFAULT, 'y', 9)")
    require_unique(keyed, 252, "p")


def test_a_key_without_room_is_an_error(keyed: AcidSession) -> None:
    """Of rows, tasks and write ids; nothing is written."""
    keyed.sql(f"CREATE TABLE few (id BIGINT DEFAULT surrogate_key(2, 1), n INT) {ACID}")
    with pytest.raises(DataError, match="2 tasks"):
        keyed.sql("INSERT INTO few (n) SELECT n FROM v")
    keyed.sql("INSERT INTO few (n) SELECT /*+ COALESCE(2) */ n FROM v")
    require_unique(keyed, 100, "few")
    keyed.sql("INSERT INTO few (n) VALUES (1)")
    with pytest.raises(DataError, match="no bits for write id 4"):
        keyed.sql("INSERT INTO few (n) VALUES (1)")
    keyed.sql(f"CREATE TABLE short (id BIGINT DEFAULT surrogate_key(40, 23), n INT) {ACID}")
    for rows in ("(n) VALUES (1), (2), (3)", "VALUES (DEFAULT, 1), (DEFAULT, 2), (DEFAULT, 3)"):
        with pytest.raises(DataError, match="2 rows"):
            keyed.sql(f"INSERT INTO short {rows}")
    keyed.sql("INSERT INTO short VALUES (DEFAULT, 1), (DEFAULT, 2)")
    require_unique(keyed, 2, "short")


def test_definitions_without_keys_are_refused(keyed: AcidSession) -> None:
    plain = "STORED AS ORC TBLPROPERTIES ('transactional'='false')"
    for kind, call, properties in (
        ("INT", "SURROGATE_KEY()", ACID),
        ("BIGINT", "SURROGATE_KEY()", plain),
        ("BIGINT", "SURROGATE_KEY(40, 40)", ACID),
        ("BIGINT", "SURROGATE_KEY() + 1", ACID),
    ):
        with pytest.raises(UnsupportedFeatureError, match="SURROGATE_KEY"):
            keyed.sql(f"CREATE TABLE bad (id {kind} DEFAULT {call}) {properties}")


def test_a_stream_takes_rows_that_have_keys(keyed: AcidSession) -> None:
    with Connection("k", store=keyed.context.store) as stream:
        with pytest.raises(ConstraintViolationError, match="a stream makes no keys"), stream.transaction():
            stream.write([{"name": "s", "n": 1}])
        with stream.transaction():
            stream.write([{"id": 5, "name": "s", "n": 1}])
    assert [tuple(row) for row in keyed.sql("SELECT * FROM k").collect()] == [(5, "s", 1)]
