"""Cached tables of native sessions: rows come from memory while the snapshot is the same, and are never old."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.errors import AnalysisException
from pyspark.storagelevel import StorageLevel

import hiveacid
from hiveacid.errors import CatalogError, NoSuchTableError, UnsupportedFeatureError
from hiveacid.ports.transactions import Client
from hiveacid.serve.sessions import Caller, ClientSession
from hiveacid.spark.session.plan_lifetime import release_unused_plans
from hiveacid.sql.cancellation import StatementThread
from support.exhaustive import ALL

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
INSERT_ONLY = ACID[:-1] + ", 'transactional_properties'='insert_only')"
HOSTILE = "a b; -- é'"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def reads_memory(frame: DataFrame) -> bool:
    return "InMemoryRelation" in frame._jdf.queryExecution().withCachedData().toString()


def number_cached(native: NativeSession) -> int:
    """Return how many frames Spark caches; Spark 3.5 only tells whether there is one."""
    manager = native._jsparkSession.sharedState().cacheManager()
    return int(not manager.isEmpty() if pyspark.__version__ < "4" else manager.numCachedEntries())


def open_readers(native: NativeSession, expected: int = 0) -> int:
    """Count the snapshots that are held; collect no more garbage once there are as few as expected."""
    context = native.acid.context
    release_unused_plans(context.facts, lambda: max(0, context.read_leases.sweep() - expected))
    return len(context.read_leases.txn_ids())


@pytest.fixture(params=["", "PARTITIONED BY (p INT)"], ids=["plain", "partitioned"])
def table(native: NativeSession, request: pytest.FixtureRequest) -> str:
    column = "" if request.param else ", p INT"
    native.sql(f"CREATE TABLE t (id INT, v STRING{column}) {request.param} {ACID}")
    native.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    return "t"


STATEMENTS = (
    "INSERT INTO t VALUES (4, 'd', 3)",
    "DELETE FROM t WHERE id = 1",
    "DELETE FROM t WHERE id = 2",
    "UPDATE t SET v = 'x' WHERE id = 3",
    "MERGE INTO t USING (SELECT 4 AS i) s ON t.id = s.i WHEN MATCHED THEN UPDATE SET v = 'm'",
    "ALTER TABLE t COMPACT 'major' AND WAIT",
    "INSERT OVERWRITE TABLE t SELECT 9, 'z', 7",
    "TRUNCATE TABLE t",
    "INSERT INTO t VALUES (5, 'e', 5)",
)


def test_a_cached_table_is_read_from_memory_and_is_never_old(native: NativeSession, table: str) -> None:
    catalog = native.catalog
    assert not catalog.isCached(table)
    catalog.cacheTable(table)
    assert catalog.isCached(table)
    assert catalog.isCached("`DEFAULT`.`T`")
    chosen = STATEMENTS if ALL else [STATEMENTS[place] for place in (1, 3, 5, 8)]
    for statement in (None, *chosen):
        if statement is not None:
            native.sql(statement)
        truth = rows(hiveacid_rows(native))
        for frame in (
            native.table(table),
            native.read.table("default.t"),
            native.sql("SELECT * FROM t"),
            native.sql("SELECT * FROM T x WHERE id > 0"),
            native.acid.table("t").to_df(),
        ):
            assert rows(frame) == truth, statement
            assert reads_memory(frame) or not truth, statement
        counted = native.sql("SELECT count(*) FROM t")
        assert counted.collect()[0][0] == len(truth)
        assert reads_memory(counted) or not truth, statement
        joined = native.sql("SELECT x.id FROM t x JOIN t y ON x.id = y.id AND x.p = y.p WHERE y.v <> 'q'")
        assert len(joined.collect()) == len(truth)
        assert number_cached(native) == 1, statement
        del frame, joined, counted
        assert open_readers(native, 1) <= 1, statement
    catalog.uncacheTable(table)
    assert not catalog.isCached(table)
    assert number_cached(native) == 0
    assert not reads_memory(native.table(table))
    assert open_readers(native) == 0


def hiveacid_rows(native: NativeSession) -> DataFrame:
    """Return the rows by another reader."""
    with hiveacid.open(native.acid.context.warehouse) as warehouse:
        found = warehouse.table("t").to_arrow()
    schema = "id int, v string, p int"
    return native.createDataFrame([tuple(row.values()) for row in found.to_pylist()], schema)


def test_statements_cache_at_once_or_at_the_first_read(native: NativeSession, table: str) -> None:
    catalog = native.catalog
    for statement in ("CACHE TABLE t", "CACHE LAZY TABLE `default`.T", "cache table spark_catalog.default.t"):
        native.sql(statement)
        assert catalog.isCached(table), statement
        assert reads_memory(native.sql("SELECT v FROM t WHERE id = 1"))
        native.sql("UNCACHE TABLE t")
        assert not catalog.isCached(table)
        native.sql("UNCACHE TABLE IF EXISTS t")
    catalog.cacheTable(table, StorageLevel.DISK_ONLY)
    catalog.cacheTable(table)
    catalog.refreshTable(table)
    native.sql("REFRESH TABLE t")
    frame = native.table(table)
    assert rows(frame)[0] == (1, "a", 1)
    assert reads_memory(frame)
    del frame
    native.sql("CLEAR CACHE")
    assert not catalog.isCached(table)
    native.sql("INSERT INTO t VALUES (7, 'h', 1)")
    assert len(rows(native.table(table))) == 4
    assert number_cached(native) == 0
    native.sql("CACHE TABLE t")
    catalog.clearCache()
    assert not catalog.isCached(table)
    for statement in (
        "CACHE TABLE t OPTIONS ('storageLevel' 'DISK_ONLY')",
        "CACHE TABLE x AS SELECT * FROM t",
    ):
        with pytest.raises(UnsupportedFeatureError, match="CREATE TEMPORARY VIEW"):
            native.sql(statement)
    for statement in ("CACHE TABLE absent", "UNCACHE TABLE absent"):
        with pytest.raises(AnalysisException):
            native.sql(statement)
    native.sql("UNCACHE TABLE IF EXISTS absent")
    with pytest.raises(NoSuchTableError):
        native.acid.sql("CACHE TABLE absent")


def test_a_count_caches_whole_rows(native: NativeSession, table: str) -> None:
    """A count needs no values, but the statements behind it do."""
    native.sql(f"CACHE LAZY TABLE {table}")
    for _ in range(2):
        number = native.sql(f"SELECT count(*) FROM {table}").collect()[0][0]
        assert number == len(rows(native.table(table))) == len(rows(hiveacid_rows(native)))
        native.sql(f"DELETE FROM {table} WHERE id = 1")


def test_a_transaction_reads_its_own_rows_and_the_past_its_own(native: NativeSession, table: str) -> None:
    native.sql("CACHE TABLE t")
    old = native.table(table)
    native.sql("START TRANSACTION")
    native.sql("DELETE FROM t WHERE id < 3")
    assert rows(native.sql("SELECT id FROM t")) == [(3,)]
    assert rows(native.table(table)) == [(3, "c", 2)]
    native.newSession().sql("INSERT INTO t VALUES (4, 'd', 4)")
    assert rows(native.sql("SELECT id FROM t")) == [(3,)]
    native.sql("ROLLBACK")
    assert [row[0] for row in rows(native.sql("SELECT id FROM t"))] == [1, 2, 3, 4]
    assert [row[0] for row in rows(old)] == [1, 2, 3]
    assert [row[0] for row in rows(native.sql("SELECT id FROM t VERSION AS OF 1"))] == [1, 2, 3]
    assert len(native.sql("SELECT ROW__ID, id FROM t").collect()) == 4
    with native.acid.snapshot() as snapshot:
        native.newSession().sql("DELETE FROM t WHERE id = 1")
        assert snapshot.table("t").to_df().count() == 4
    assert len(rows(native.table(table))) == 3


def test_definitions_and_settings_are_followed(native: NativeSession, table: str) -> None:
    native.catalog.cacheTable(table)
    native.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert len(rows(native.table(table))) == 3
    finally:
        native.conf.unset("spark.sql.session.timeZone")
    native.sql("CREATE TABLE w (a INT, ts TIMESTAMP) " + INSERT_ONLY)
    native.sql("INSERT INTO w VALUES (1, TIMESTAMP'2026-01-01 00:00:00')")
    native.sql("CACHE TABLE w")
    native.sql("CACHE TABLE t")
    native.sql("ALTER TABLE t ADD COLUMNS (more STRING)")
    assert "more" in native.table("t").columns
    native.sql("ALTER TABLE w RENAME TO x")
    assert not native.catalog.isCached("x")
    native.sql("CACHE TABLE x")
    native.sql("DROP TABLE x")
    native.sql("CREATE TABLE x (a INT) " + ACID)
    assert rows(native.table("x")) == []
    assert not native.catalog.isCached("x")
    native.sql("CREATE DATABASE shop")
    native.sql(f"CREATE TABLE shop.t (a INT) {ACID}")
    native.sql(f"CREATE TABLE shop.`{HOSTILE}` (a INT) {ACID}")
    native.sql(f"INSERT INTO shop.`{HOSTILE}` VALUES (8)")
    try:
        native.catalog.setCurrentDatabase("shop")
        native.catalog.cacheTable(f"`{HOSTILE}`")
        assert native.catalog.isCached(f"shop.`{HOSTILE}`")
        assert rows(native.table(f"`{HOSTILE}`")) == [(8,)]
        assert not native.catalog.isCached("t")
        assert native.catalog.isCached("default.t")
    finally:
        native.catalog.setCurrentDatabase("default")
        native.sql("DROP DATABASE shop CASCADE")
    assert number_cached(native) == 1


def test_views_and_plain_tables_are_not_cached_as_tables(native: NativeSession, table: str) -> None:
    catalog = native.catalog
    native.sql("CREATE VIEW seen AS SELECT id FROM t")
    native.sql("CREATE TABLE flat (a INT) STORED AS ORC")
    with pytest.raises(CatalogError, match="is a view"):
        catalog.cacheTable("seen")
    with pytest.raises(UnsupportedFeatureError, match="CREATE TEMPORARY VIEW"):
        native.sql("CACHE TABLE flat")
    catalog.cacheTable(table)
    assert reads_memory(native.sql("SELECT * FROM seen"))
    native.range(1).createTempView("hides")
    native.sql(f"CREATE TABLE hides (id INT) {ACID}")
    catalog.cacheTable("hides")  # the view
    assert catalog.isCached("hides")
    assert not catalog.isCached("default.hides")
    native.sql("UNCACHE TABLE hides")
    catalog.dropTempView("hides")


def test_each_session_caches_for_itself(native: NativeSession, table: str) -> None:
    other = native.newSession()
    other.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    native.sql("CACHE TABLE t")
    assert not other.catalog.isCached(table)
    other.sql("DELETE FROM t WHERE id = 1")
    assert len(rows(other.table(table))) == len(rows(native.table(table))) == 2


def test_a_cached_table_holds_its_files_and_an_aborted_reader_does_not_show_old_rows(
    native: NativeSession, table: str
) -> None:
    native.sql("CACHE TABLE t")
    native.sql("DELETE FROM t WHERE id = 1")
    native.sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    for reader in native.acid.context.read_leases.txn_ids():
        native.sql(f"ABORT TRANSACTIONS {reader}")
    for path in Path(native.acid.table("t").definition.location).rglob("delta_0000001_*"):
        if any(path.parent.glob("base_*")):
            shutil.rmtree(path)  # as the cleaner does when no reader is open
    for _ in range(2):
        assert [row[0] for row in rows(native.table(table))] == [2, 3]


def test_the_end_of_a_clients_session_releases_what_it_cached(native: NativeSession, table: str) -> None:
    spark = native.for_client(Client("ann", "here", "hiveacid serve"))
    thread = StatementThread(spark.acid, "ann", "cancelled")
    session = ClientSession(Caller("ann", "here", "1", lambda: False), spark, thread)
    thread.submit(lambda: rows(spark.sql("CACHE TABLE t"))).future.result()
    assert spark.catalog.isCached(table)
    assert number_cached(native) == 1
    session.end()
    assert number_cached(native) == 0
    assert open_readers(native) == 0
