"""Spark's own ``spark.sql`` on transactional tables, beside Spark's own tables, in every session it comes through."""

from __future__ import annotations

import gc
import logging
import threading
import time
from contextlib import suppress
from decimal import Decimal
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import (
    AnalysisException,
    IllegalArgumentException,
    ParseException,
    UnsupportedOperationException,
)
from pyspark.sql import SparkSession

import hiveacid
from hiveacid.errors import (
    ConfigError,
    HiveAcidError,
    NoSuchColumnError,
    NoSuchTableError,
    NotTransactionalError,
    ParseError,
    StatementError,
    UnsupportedFeatureError,
)
from hiveacid.hwc import HiveWarehouseSession
from hiveacid.sql.native.session import NativeSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

rarely = pytest.mark.exhaustive("tests/sql runs scripts by this interface")


ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_a_job_that_knows_only_spark(native: NativeSession, tmp_path: Path) -> None:
    sql = native.sql
    sql(f"CREATE TABLE t (id INT, v STRING) {ACID}")
    sql("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c')")
    (changed,) = sql("UPDATE t SET v = 'x' WHERE id = 1").collect()
    assert changed["num_affected_rows"] == 1
    sql("DELETE FROM t WHERE id = 2")
    sql(f"CREATE TABLE own USING parquet LOCATION '{tmp_path / 'own'}' AS SELECT * FROM t")
    sql("INSERT INTO own SELECT id + 10, v FROM t")
    sql(
        "MERGE INTO t USING own s ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = 'm' WHEN NOT MATCHED THEN INSERT *"
    )
    live = [(1, "m"), (3, "m"), (11, "x"), (13, "c")]
    assert rows(sql("SELECT * FROM t")) == live
    assert rows(sql("SELECT t.id, own.v FROM default.t JOIN own ON t.id = own.id")) == [
        (1, "x"), (3, "c"), (11, "x"), (13, "c"),
    ]  # fmt: skip
    assert rows(native.table("t")) == rows(native.read.table("default.t")) == live
    assert native.catalog.tableExists("t")
    assert native.catalog.tableExists("own")
    assert not native.catalog.tableExists("nowhere")
    assert {("default", "t", False), ("default", "own", False)} <= {*map(tuple, sql("SHOW TABLES").collect())}
    assert hiveacid.connect(native) is native.acid
    assert len(native.acid.table("t").to_df().where("id > 10").collect()) == 2
    assert native.sql("SELECT id FROM t").sparkSession is native
    # files that need no sorting are compacted by a session of Spark's beside this one
    sql("SET hiveacid.compactor.unsorted.file.size=1")
    sql("ALTER TABLE t COMPACT 'major' AND WAIT")
    assert rows(sql("SELECT * FROM t")) == live
    # one snapshot in a view, and beside it what came later
    sql("CREATE TEMPORARY VIEW before AS SELECT * FROM t")
    sql("INSERT OVERWRITE t SELECT * FROM t WHERE id = 1")
    assert rows(sql("SELECT * FROM before")) == live
    sql("DROP VIEW before")
    assert rows(sql("SELECT * FROM t")) == [(1, "m")]


@rarely
def test_explain_carries_nothing_out(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1)")
    for statement in ("INSERT INTO t VALUES (2)", "UPDATE t SET id = 3", "DELETE FROM t", "SELECT * FROM t"):
        assert native.sql(f"EXPLAIN {statement}").collect()
    assert rows(native.table("t")) == [(1,)]


@rarely
def test_databases_are_those_of_both(native: NativeSession) -> None:
    native.sql("CREATE DATABASE shop")
    try:
        native.sql(f"CREATE TABLE shop.s (id INT) {ACID}")
        native.sql("USE shop")
        native.sql("INSERT INTO s VALUES (7)")
        assert rows(native.sql("SELECT * FROM s")) == rows(native.sql("SELECT * FROM shop.s")) == [(7,)]
        shown = native.sql("SHOW TABLES").where("NOT isTemporary")
        assert rows(shown) == [("shop", "s", False)]
        assert native.newSession().sql("SELECT current_database()").first() == ("default",)
    finally:
        native.sql("USE default")
        native.sql("DROP DATABASE shop CASCADE")
    assert "shop" not in {row[0] for row in native.sql("SHOW DATABASES").collect()}
    assert native.acid.context.catalog.get_database("shop") is None


def test_parameters(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT, v STRING, d DECIMAL(5,2)) {ACID}")
    native.sql(
        "INSERT INTO t VALUES (:id, :v, :d), (2, ':id', NULL)",
        args={"id": 1, "v": "it's", "d": Decimal("1.50")},
    )
    native.sql("UPDATE t SET v = ? WHERE id = ?", args=["zwölf \\ '", 2])
    assert rows(native.sql("SELECT id, v, d FROM t WHERE id <= :most", args={"most": 5})) == [
        (1, "it's", Decimal("1.50")),
        (2, "zwölf \\ '", None),
    ]
    assert rows(
        native.sql("SELECT id FROM {frame} WHERE id > {least}", frame=native.table("t"), least=1)
    ) == [(2,)]
    with pytest.raises(StatementError, match=r":x \(line 1, column 19\)"):
        native.sql("UPDATE t SET id = :x", args={"y": 1})
    with pytest.raises(StatementError, match=r"has 2 parameters \(\?\), but got 1 values"):
        native.sql("UPDATE t SET id = ? WHERE id = ?", args=[1])


@rarely
def test_variables_and_escapes(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (v STRING) {ACID}")
    native.sql("SET my.table=t")
    native.sql("INSERT INTO ${my.table} VALUES ('${my.table}')")
    assert rows(native.sql("SELECT * FROM ${my.table}")) == [("t",)]
    native.conf.set("spark.sql.parser.escapedStringLiterals", "true")
    try:
        native.sql("INSERT OVERWRITE t VALUES (:v)", args={"v": "a\\n'b"})
        assert rows(native.sql("SELECT * FROM t")) == [("a\\n'b",)]
    finally:
        native.conf.unset("spark.sql.parser.escapedStringLiterals")


def test_a_transactional_table_is_not_cached_by_name(native: NativeSession) -> None:
    """A DataFrame and a temporary view are, and keep their snapshot."""
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1)")
    for statement in (
        "CACHE TABLE t",
        "CACHE LAZY TABLE default.t",
        "UNCACHE TABLE t",
        "CACHE TABLE c AS SELECT * FROM t",
    ):
        with pytest.raises(UnsupportedFeatureError, match=r"cache\(\).* CREATE TEMPORARY VIEW"):
            native.sql(statement)
    with pytest.raises(UnsupportedFeatureError, match="CREATE TEMPORARY VIEW"):
        native.catalog.cacheTable("t")
    native.catalog.uncacheTable("t")
    assert not native.catalog.isCached("t")
    frame = native.table("t").cache()
    native.sql("CREATE TEMPORARY VIEW seen AS SELECT * FROM t")
    native.sql("CACHE TABLE seen")
    native.sql("INSERT INTO t VALUES (2)")
    assert rows(frame) == rows(native.table("seen")) == [(1,)]
    assert native.catalog.isCached("seen")
    assert rows(native.table("t")) == [(1,), (2,)]
    native.catalog.clearCache()


@rarely
def test_errors_are_of_whom_the_statement_is(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    with pytest.raises(NoSuchColumnError, match="line 1, column 14") as caught:
        native.sql("UPDATE t SET nothing = 1")
    assert caught.value.getCondition() == "HIVEACID_10002"
    with pytest.raises(AnalysisException, match="nowhere"):
        native.sql("SELECT * FROM nowhere")
    with pytest.raises(ParseException):
        native.sql("SELEC 1")
    with pytest.raises(ParseError):
        native.sql("ALTER TABLE t SET SERDE 'x'")
    with pytest.raises(UnsupportedFeatureError, match=r"default\.t"):
        native.sql("CACHE TABLE c AS SELECT * FROM t")
    for name in ("t", "default.t", "spark_catalog.default.t"):  # as JVM code would write
        for write in ("insertInto", "saveAsTable"):
            with pytest.raises(UnsupportedOperationException, match="transactional table"):
                getattr(native.range(1)._jdf.write().mode("append"), write)(name)
        with pytest.raises(UnsupportedOperationException, match="transactional table"):
            native.range(1)._jdf.writeTo(name)
    with pytest.raises(ParseError, match=r"script .* one by one"):
        native.sql("BEGIN SELECT * FROM t; DELETE FROM t; END")
    native.sql("INSERT INTO spark_catalog.default.t VALUES (1)")
    assert rows(native.sql("SELECT id FROM spark_catalog.default.t")) == [(1,)]
    native.sql("DELETE FROM spark_catalog.default.t")
    assert rows(native.sql("DESCRIBE HISTORY spark_catalog.default.t").select("operation")) == [
        ("CREATE TABLE",),
        ("DELETE",),
        ("INSERT",),
    ]
    native.sql("REFRESH TABLE t")
    native.catalog.refreshTable("t")
    assert rows(native.table("t")) == []


def test_pysparks_log_lines_accompany_only_its_own_errors(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1)")
    with suppress(AnalysisException):  # PySpark makes its logger
        native.sql("SELECT nothing")
    logger, printed = logging.getLogger("SQLQueryContextLogger"), StringIO()
    logger.addHandler(handler := logging.StreamHandler(printed))
    try:
        for statement in (
            "SELECT nothing FROM t",
            "INSERT INTO t SELECT nothing FROM t",
            "DELETE FROM t WHERE nothing = 1",
            "UPDATE t SET id = 1 / 0",
            "UPDATE t SET id = (",
        ):
            for run in (native.sql, native.acid.sql):
                with pytest.raises(HiveAcidError):
                    run(statement)
        with pytest.raises(HiveAcidError):
            native.acid.table("t").update({"id": "nothing"})
        assert printed.getvalue() == ""
        with pytest.raises(AnalysisException):
            native.sql("SELECT nothing FROM range(1)")
        if native.version >= "4":
            assert printed.getvalue().count("UNRESOLVED_COLUMN") >= 1
            assert printed.getvalue().count("\n") == 1
    finally:
        logger.removeHandler(handler)


@rarely
def test_sessions_that_know_nothing_of_us(native: NativeSession) -> None:
    """Streams, JVM code, a session made of the JVM's: they meet the parser inside Spark."""
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    plain = SparkSession(native.sparkContext, native._jsparkSession)
    assert plain.sql("INSERT INTO t VALUES (1)").first()["num_inserted_rows"] == 1
    assert rows(plain.sql("SELECT id FROM t WHERE id = :one", args={"one": 1})) == [(1,)]
    described = plain.sql("DESCRIBE SELECT id FROM t WHERE id = :one", args={"one": 1})
    assert rows(described) == [("id", "int", None)]
    assert rows(plain.range(3).where("id IN (SELECT id FROM t)")) == [(1,)]
    assert rows(plain.range(1).selectExpr("(SELECT count(*) FROM t) AS n")) == [(1,)]
    assert ("default", "t", False) in {*map(tuple, plain.sql("SHOW TABLES").collect())}
    for text in ("INSERT INTO t VALUES (7)", "DELETE FROM t WHERE id = 7"):  # Spark Connect runs others again
        plan = plain.sql(text)._jdf.queryExecution().commandExecuted()
        assert plan.nodeName() == "CommandResult"
    with pytest.raises(
        IllegalArgumentException, match=r"\[HIVEACID_10002\] default\.t has no column nothing"
    ):
        plain.sql("UPDATE t SET nothing = 1")
    with pytest.raises(UnsupportedOperationException, match="getOrCreate"):
        plain.sql("START TRANSACTION")
    with pytest.raises(ParseException):
        plain.sql("SELEC 1")

    seen = []

    def batch(frame: DataFrame, number: int) -> None:
        frame.sparkSession.sql(f"INSERT INTO t VALUES ({10 + number})")
        frame.createOrReplaceTempView("batch")
        merge = (
            "MERGE INTO t USING @ b ON t.id = b.value WHEN NOT MATCHED AND b.value < 0 THEN INSERT VALUES (0)"
        )
        frame.sparkSession.sql(merge.replace("@", "batch"))
        native.sql(merge.replace("@", "{frame}"), frame=frame)
        seen.append(frame.sparkSession.sql("SELECT count(*) FROM t").first()[0])

    query = native.readStream.format("rate").load().writeStream.foreachBatch(batch).trigger(once=True).start()
    query.awaitTermination(120)
    assert query.exception() is None
    assert seen == [2]
    assert rows(native.newSession().sql("SELECT * FROM t")) == [(1,), (10,)]


def test_threads_and_their_transactions(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("START TRANSACTION")
    native.sql("INSERT INTO t VALUES (100)")
    counts: list[int] = []

    def work(first: int) -> None:
        for number in (first, first + 1):
            native.sql(f"INSERT INTO t VALUES ({number})")
            counts.append(native.sql("SELECT count(*) FROM t").first()[0])

    threads = [threading.Thread(target=work, args=(first,)) for first in (1, 3, 5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
    assert len(counts) == 6
    assert max(counts) == 6  # not the row of the transaction that is open in this thread
    assert rows(native.sql("SELECT * FROM t")) == [(100,)]
    native.sql("COMMIT")
    assert rows(native.sql("SELECT * FROM t")) == [(n,) for n in (1, 2, 3, 4, 5, 6, 100)]


@rarely
def test_one_current_database(native: NativeSession) -> None:
    """Spark's own: whoever changes it, by whatever door, changes it for all."""
    acid, sql = native.acid, native.sql
    for name in ("a", "b"):
        sql(f"CREATE DATABASE {name}")
        sql(f"CREATE TABLE {name}.t (id INT) {ACID}")
        sql(f"CREATE TABLE {name}.u (id INT) {ACID}")
        sql(f"INSERT INTO {name}.t VALUES ({'ab'.index(name)})")
    try:
        acid.sql("USE a")
        assert sql("SELECT current_database()").first() == ("a",)
        for id_ in (2, 3):
            acid.sql(f"INSERT INTO t VALUES ({id_})")
        assert rows(sql("SELECT * FROM t")) == rows(acid.sql("SELECT * FROM a.t")) == [(0,), (2,), (3,)]
        acid.sql(f"CREATE TABLE made {ACID} AS SELECT * FROM t")
        assert rows(sql("SELECT * FROM a.made")) == [(0,), (2,), (3,)]
        hive = HiveWarehouseSession.session(native).build()
        hive.setDatabase("b")
        for id_ in (4, 5):
            assert hive.executeUpdate(f"INSERT INTO t VALUES ({id_})")
        assert rows(sql("SELECT * FROM b.t")) == rows(hive.table("t")) == [(1,), (4,), (5,)]
        sql(f"CREATE TABLE a {ACID} AS SELECT 1 AS id")  # in b, called like the database
        assert native.catalog.databaseExists("a")
        assert native.catalog.getDatabase("a").name == "a"
        native.catalog.setCurrentDatabase("a")
        assert rows(acid.table("t").to_df()) == rows(hive.sql("SELECT * FROM t")) == [(0,), (2,), (3,)]
        # names in a view belong to its own database, whatever is asked of Spark on the way
        sql(
            "CREATE VIEW b.v AS SELECT t.id FROM b.t JOIN (SELECT count(*) AS n FROM b.t.history) WHERE n > 0"
        )
        acid.sql("USE b")
        sql(
            "CREATE VIEW w AS SELECT v.id FROM v JOIN (SELECT count(*) AS n FROM t.history) JOIN t ON t.id = v.id"
        )
        acid.sql("USE a")
        assert rows(acid.sql("SELECT * FROM b.w")) == rows(acid.table("b.w").to_df()) == [(1,), (4,), (5,)]
        acid.sql("DROP DATABASE a CASCADE")
        assert sql("SELECT current_database()").first() == ("default",)
        acid.sql("SHOW TABLES")
    finally:
        acid.use("default")
        for name in ("a", "b"):
            sql(f"DROP DATABASE IF EXISTS {name} CASCADE")


def use_derby(native: NativeSession) -> None:
    """Make a catalog of another kind the current one."""
    jdbc = "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog"
    settings = {"": jdbc, ".url": "jdbc:derby:memory:other;create=true"}
    settings[".driver"] = "org.apache.derby.jdbc.EmbeddedDriver"
    for key, value in settings.items():
        native.conf.set(f"spark.sql.catalog.derby{key}", value)
    native.sql("SET CATALOG derby")


def test_names_belong_to_another_current_catalog(native: NativeSession) -> None:
    """A statement must not hit the table of the same name in hiveacid's default database."""
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1)")
    use_derby(native)
    try:
        for statement in ("SELECT * FROM t", "DELETE FROM t", "DROP TABLE t", "INSERT INTO t VALUES (2)"):
            with pytest.raises(AnalysisException):
                native.sql(statement)
        assert rows(native.sql("SELECT * FROM spark_catalog.default.t")) == [(1,)]
    finally:
        native.sql("SET CATALOG spark_catalog")
    assert rows(native.sql("SELECT * FROM t")) == [(1,)]


def test_databases_belong_to_another_current_catalog(native: NativeSession) -> None:
    native.sql("CREATE DATABASE sales")
    native.sql(f"CREATE TABLE sales.t (id INT) {ACID}")
    native.acid.sql("CREATE DATABASE unseen")
    catalog = native.acid.context.catalog
    use_derby(native)
    try:
        native.sql("CREATE DATABASE IF NOT EXISTS sales")
        native.sql("CREATE DATABASE IF NOT EXISTS elsewhere")
        native.catalog.listDatabases()
        assert "unseen" not in {row[0].lower() for row in native.sql("SHOW DATABASES").collect()}
        assert rows(native.sql("SHOW TABLES IN sales")) == []
        native.sql("USE sales")
        with pytest.raises(AnalysisException, match="JDBC"):  # Derby knows no CASCADE
            native.sql("DROP DATABASE sales CASCADE")
        native.sql("CREATE DATABASE spark_catalog.here")
        assert catalog.get_database("here") is not None
        assert ("sales", "t", False) in rows(native.sql("SHOW TABLES IN `spark_catalog`.sales"))
        native.sql("DROP SCHEMA spark_catalog.here")
        assert catalog.get_database("here") is None
    finally:
        native.sql("SET CATALOG spark_catalog")
    assert catalog.get_database("elsewhere") is None
    assert catalog.list_tables("sales") == ("t",)
    assert rows(native.sql("SHOW TABLES IN sales").where("NOT isTemporary")) == [("sales", "t", False)]


def test_what_a_connection_holds_ends_with_it(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    transactions = native.acid.context.transactions
    beating = transactions.heartbeats
    others = {view.name for view in native.catalog.listTables()}  # what other tests left in this process

    # a frame between braces belongs to the thread's transaction, too
    frame = native.range(1, 3).selectExpr("CAST(id AS INT) AS id")
    native.sql("START TRANSACTION")
    native.sql("INSERT INTO t SELECT id FROM {f}", f=frame)
    assert rows(native.sql("SELECT t.id FROM t JOIN {f} AS f ON t.id = f.id", f=frame)) == [(1,), (2,)]
    native.sql("ROLLBACK")
    assert rows(native.sql("SELECT * FROM {t}", t=native.table("t"))) == []
    assert {view.name for view in native.catalog.listTables() if view.isTemporary} <= others

    # closing what connect() and HWC gave ends a transaction, and nothing that others share
    with hiveacid.connect(native) as acid:
        acid.sql("START TRANSACTION")
        acid.sql("INSERT INTO t VALUES (7)")
        begun = acid.joined
    assert begun is not None
    assert begun.ended
    HiveWarehouseSession.session(native).build().close()
    assert len(beating._threads) == 2  # one beats, one sweeps
    assert all(thread.is_alive() for thread in beating._threads.values())
    native.sql("INSERT INTO t VALUES (1)")
    assert rows(native.sql("SELECT * FROM t")) == [(1,)]

    # a thread that dies in its transaction leaves it to the heartbeat
    left = []

    def die() -> None:
        native.sql("START TRANSACTION")
        native.sql("INSERT INTO t VALUES (8)")
        left.append(native.acid.joined)

    thread = threading.Thread(target=die)
    thread.start()
    thread.join(300)
    native._sql_gateway.sweep()
    assert left[0].ended
    assert rows(native.sql("SELECT * FROM t")) == [(1,)]

    # the word select is no query, and a plan leaves no view
    plain = SparkSession(native.sparkContext, native._jsparkSession)
    gc.collect()
    native.acid.context.read_leases.sweep()
    before = beating.tracked()
    assert (
        plain.range(1).selectExpr("1 AS selected").where("selected = 1").selectExpr("'select' AS s").count()
    )
    assert plain.range(1).where("id IN (SELECT 0)").count() == 1
    native.acid.context.read_leases.sweep()
    assert beating.tracked() <= before
    assert plain.range(3).where("id IN (SELECT id FROM t)").count() == 1
    assert plain.range(3).where("id IN (TABLE t)").count() == 1
    assert {view.name for view in native.catalog.listTables() if view.isTemporary} <= others


def test_closing_the_session_ends_all_connections(spark: SparkSession, tmp_path: Path) -> None:
    native = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / "wh")).getOrCreate()
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("SET hiveacid.auto_compact=true")
    runner = native.acid.runner
    native.sql("START TRANSACTION")
    native.sql("INSERT INTO t VALUES (1)")
    txn = native.acid.joined
    native.close()
    assert txn is not None
    assert txn.ended
    assert runner is not None
    assert runner.wait(0)
    with hiveacid.connect(spark, str(tmp_path / "wh")) as acid:
        assert rows(acid.sql("SELECT * FROM t")) == []
        assert acid.context.store.txn_state(txn.txn_id) == "aborted"


def test_sessions_are_known_as_long_as_they_live(spark: SparkSession, tmp_path: Path) -> None:
    older = spark.newSession()
    older.sql("SELECT 1").collect()
    native = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / "wh")).getOrCreate()
    try:
        native.sql(f"CREATE TABLE t (id INT) {ACID}")
        parsers, jvm = native._sql_gateway._parsers, native.sparkContext._jvm
        for _ in range(5):  # no shuffle: its threads would hold the session for 60 seconds
            native.newSession().sql("SELECT id FROM t").collect()
        end = time.monotonic() + 120
        while len(parsers) > 3:  # its own, that of the last call, and one that waits for its finalizer
            assert time.monotonic() < end, f"{len(parsers)} sessions stay"
            gc.collect()
            jvm.java.lang.System.gc()
            time.sleep(0.05)
        assert native._jsparkSession.hashCode() in parsers
        for session in (older, SparkSession(native.sparkContext, native._jsparkSession)):
            session.range(1).selectExpr("CAST(id AS INT) AS id").write.insertInto("t")
        assert rows(native.sql("SELECT * FROM t")) == [(0,), (0,)]
    finally:
        native.close()


def test_one_application_one_warehouse(native: NativeSession, tmp_path: Path) -> None:
    same = hiveacid.configure(SparkSession.builder, native=True, warehouse=str(tmp_path / "warehouse"))
    assert same.appName("again").getOrCreate() is native
    assert hiveacid.configure(SparkSession.builder, native=True).getOrCreate() is native
    more = hiveacid.configure(
        SparkSession.builder, native=True, warehouse=str(tmp_path / "warehouse"), settings={}
    )
    assert more.getOrCreate() is native
    native.sql(f"CREATE TABLE `odd name` (id INT) {ACID}")
    assert native.catalog.tableExists("odd name", "default")
    assert native.catalog.tableExists("`odd name`")
    assert not native.catalog.tableExists("name", "default")
    with pytest.raises(ConfigError, match="another warehouse"):
        hiveacid.configure(SparkSession.builder, native=True, warehouse=str(tmp_path / "other")).getOrCreate()
    with pytest.raises(ConfigError, match="native=True"):
        hiveacid.configure(SparkSession.builder, warehouse="wh")


def test_near_names_and_statements_of_other_systems_are_explained(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE orders (id INT) {ACID}")
    native.sql("CREATE TABLE plain (id INT) USING parquet")
    logger, printed = logging.getLogger("SQLQueryContextLogger"), StringIO()
    logger.addHandler(handler := logging.StreamHandler(printed))
    try:
        for read in (
            lambda: native.sql("SELECT * FROM ordrs"),
            lambda: native.table("default.ordrs"),
            lambda: native.read.table("`ordrs`"),
            lambda: native.sql("DESCRIBE ordrs"),
        ):
            with pytest.raises(NoSuchTableError, match="did you mean orders") as caught:
                read()
            assert isinstance(caught.value, AnalysisException)
            assert str(caught.value).startswith("table default.ordrs does not exist")
            assert caught.value.getCondition() == "HIVEACID_10001"
        assert printed.getvalue() == ""
    finally:
        logger.removeHandler(handler)
    for statement, words in {
        "UPDATE orders SET id = p.id FROM plain p": "MERGE INTO",
        "CREATE TEMPORARY TABLE x (id INT)": "TEMPORARY VIEW",
        "GRANT SELECT ON orders TO ann": "no privileges",
        "LOCK TABLE plain": "LOCK is not supported",  # Spark only says that it is not valid
    }.items():
        with pytest.raises(ParseError, match=words):
            native.sql(statement)
    for statement in ("COMMENT ON TABLE nosuch IS 'x'", "ALTER TABLE nosuch SET LOCATION '/x'"):
        with pytest.raises(AnalysisException):  # of Spark's own tables
            native.sql(statement)
    for table, text in (("plain", "of Spark"), ("orders", "of hiveacid")):
        native.sql(f"COMMENT ON TABLE {table} IS '{text}'")
        assert native.catalog.getTable(table).description == text
    for change in ("DELETE FROM plain WHERE id = 1", "UPDATE plain SET id = 1"):
        with pytest.raises(NotTransactionalError, match=r"Spark's own .* STORED AS ORC TBLPROPERTIES"):
            native.sql(change)
    native.sql("CREATE EXTERNAL TABLE found (id INT) PARTITIONED BY (p INT) STORED AS ORC")
    native.sql("INSERT INTO found VALUES (1, 1), (2, 2)")
    for recover in (
        lambda: native.catalog.recoverPartitions("found"),
        lambda: native.sql("MSCK REPAIR TABLE found"),
    ):
        native.sql("ALTER TABLE found DROP PARTITION (p = 1)")
        recover()
        assert native.table("found").count() == 2


def test_a_closed_session_gives_back_the_parser(spark: SparkSession, tmp_path: Path) -> None:
    """Otherwise each session of an application would add a parser, through which every text and error passes."""

    def parser() -> str:
        state = spark._jsparkSession.sessionState()
        held = state.getClass().getDeclaredField("sqlParser")
        held.setAccessible(True)
        return str(held.get(state).getClass().getName())

    before = parser()
    for number in range(2):
        builder = hiveacid.configure(spark.builder, native=True, warehouse=str(tmp_path / str(number)))
        session = builder.getOrCreate()
        assert session.sql("SELECT 1").collect() == [(1,)]
        assert "Proxy" in parser()
        session.close()
        assert parser() == before
