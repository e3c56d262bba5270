"""Whose table a name means in a native session: in Spark's views, in parentheses, in variables, in databases of both."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession

from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    NoSuchColumnError,
    NotTransactionalError,
    ParseError,
    UnsupportedFeatureError,
)
from hiveacid.spark.session.classic_session import spark_catalog_tables
from hiveacid.sql.native.session import NativeSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

rarely = pytest.mark.exhaustive("views and databases of the other catalog stay")


ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_views_of_sparks_mean_the_tables_of_their_own_database(native: NativeSession) -> None:
    native = native.newSession()  # made with our parser in it; the first had its catalog before
    sql = native.sql
    plain = SparkSession(native.sparkContext, native._jsparkSession)
    for statement in (
        "CREATE DATABASE one",
        "CREATE DATABASE two",
        "USE two",
        "CREATE TABLE t USING json AS SELECT 2 AS id",
        "CREATE VIEW seen AS SELECT id FROM t",
        "CREATE TEMPORARY VIEW passing AS SELECT id FROM t",
        "USE one",
        f"CREATE TABLE t (id INT) {ACID}",
        "INSERT INTO t VALUES (1)",
    ):
        sql(statement)
    for session in (native, plain):
        assert rows(session.sql("SELECT * FROM t")) == [(1,)]
        assert rows(session.sql("SELECT * FROM two.seen")) == rows(session.table("two.seen")) == [(2,)]
        assert rows(session.sql("SELECT * FROM passing")) == [(2,)]
        assert rows(session.sql("SELECT t.id, o.id FROM t JOIN two.seen o ON t.id < o.id")) == [(1, 2)]
    # what goes by one session to Spark as it stands is judged in another
    other = SparkSession(native.sparkContext, native.newSession()._jsparkSession)
    other.sql("USE one")
    with native._sql_gateway.resolved_by_spark(native._jsparkSession, "SELECT id FROM t"):
        assert rows(other.sql("SELECT id FROM t")) == [(1,)]
    # Spark would keep the text, and with it names that end with the statement
    for statement in (
        "CREATE FUNCTION most() RETURNS INT RETURN SELECT max(id) FROM t",
        "CREATE TEMPORARY VIEW v COMMENT 'c' AS SELECT id FROM t",
    ):
        with pytest.raises((UnsupportedFeatureError, ParseError)):
            sql(statement)


@rarely
def test_names_stand_in_parentheses_and_columns_are_none(native: NativeSession) -> None:
    sql = native.sql
    for statement in (
        "CREATE DATABASE one",
        "USE one",
        f"CREATE TABLE stock (id INT) {ACID}",
        "INSERT INTO stock VALUES (1), (2)",
        "CREATE TABLE p USING json AS SELECT * FROM (stock)",
        "CREATE TABLE q USING json AS SELECT s.id FROM (stock s JOIN p ON s.id = p.id)",
        "CREATE TABLE columns (id INT, stock INT) USING json",
        "ANALYZE TABLE columns COMPUTE STATISTICS FOR COLUMNS stock",
    ):
        sql(statement)
    assert rows(sql("SELECT * FROM p")) == rows(sql("SELECT * FROM q")) == [(1,), (2,)]
    assert native.acid.context.catalog.list_tables("one") == ("stock",)
    assert rows(sql("ANALYZE TABLE stock COMPUTE STATISTICS FOR COLUMNS id")) == []
    with pytest.raises(NoSuchColumnError, match=r"one\.stock has no column name"):
        sql("ANALYZE TABLE stock COMPUTE STATISTICS FOR COLUMNS name")


@rarely
def test_hidden_columns_stay_out_of_sparks_tables(native: NativeSession) -> None:
    sql = native.sql
    plain = SparkSession(native.sparkContext, native._jsparkSession)
    for statement in (
        "CREATE DATABASE one",
        "USE one",
        f"CREATE TABLE t (id INT) {ACID}",
        "INSERT INTO t VALUES (1)",
        "CREATE TABLE p USING json AS SELECT id, ROW__ID.writeid AS w FROM t WHERE ROW__ID.writeid = 1",
        "INSERT INTO p SELECT count(*), 0 FROM t WHERE ROW__ID.writeid = 1",
    ):
        sql(statement)
    assert rows(sql("SELECT id, w FROM p")) == [(1, 0), (1, 1)]
    for session, name in ((native, "q"), (plain, "r")):
        session.sql(f"CREATE TABLE {name} USING json AS SELECT * FROM t WHERE ROW__ID.writeid = 1")
        assert session.table(name).columns == ["id"]


@rarely
def test_tables_of_a_provider_are_sparks(native: NativeSession) -> None:
    sql = native.sql
    sql("CREATE DATABASE one")
    sql("USE one")
    sql("SET hive.create.as.acid=true")
    for provider in ("parquet", "orc"):
        sql(f"CREATE TABLE {provider}_table (id INT) USING {provider}")
        native.range(1).selectExpr("CAST(id AS INT) AS id").write.insertInto(f"{provider}_table")
        assert rows(sql(f"SELECT * FROM {provider}_table")) == [(0,)]
    assert native.acid.context.catalog.list_tables("one") == ()
    sql("CREATE TABLE mine (id INT) USING orc TBLPROPERTIES ('transactional'='true')")
    sql("CREATE TABLE more (id INT)")
    assert native.acid.context.catalog.list_tables("one") == ("mine", "more")


@pytest.mark.parametrize(
    "create",
    [
        "CREATE TABLE {} (id INT) USING parquet",
        "CREATE TABLE {} USING parquet AS SELECT 1 AS id",
        "CREATE TABLE {} LIKE other",
        "CREATE VIEW {} AS SELECT 1 AS id",
        "CREATE TABLE IF NOT EXISTS {} (id INT) USING parquet OPTIONS ('a'='b')",
    ],
)
def test_nothing_is_created_beside_a_table_that_a_temporary_view_hides(
    native: NativeSession, create: str
) -> None:
    sql, env = native.sql, native.acid.context.env
    sql("CREATE DATABASE hiding")
    sql("USE hiding")
    sql(f"CREATE TABLE t (id INT) {ACID}")
    native.range(3).createOrReplaceTempView("t")
    native.range(3).createOrReplaceTempView("other")
    with pytest.raises((AlreadyExistsError, CatalogError, ParseError)):
        sql(create.format("t"))
    sql("CREATE TABLE of_view USING parquet OPTIONS ('a'='b') AS SELECT * FROM t")  # which names the view
    assert rows(sql("SELECT * FROM of_view")) == [(0,), (1,), (2,)]
    sql("DROP TABLE of_view")
    sql("CREATE TABLE IF NOT EXISTS t (id INT) USING parquet")
    native.catalog.dropTempView("t")
    native.catalog.dropTempView("other")
    assert spark_catalog_tables(env, "hiding") == []


def test_databases_made_and_dropped_on_one_side(native: NativeSession) -> None:
    sql = native.sql
    native.acid.sql("CREATE DATABASE one")
    assert rows(sql("SHOW TABLES IN one").where("NOT isTemporary")) == []
    native.acid.sql("CREATE DATABASE two")
    assert {("one",), ("two",)} <= set(rows(sql("SHOW DATABASES")))
    sql("CREATE TABLE two.s USING json AS SELECT 1 AS id")
    with pytest.raises(AnalysisException, match="two"):
        sql("DROP DATABASE two")
    assert native.acid.context.catalog.get_database("two") is not None
    # no view of ours comes to hide a table of Spark's
    sql(f"CREATE TABLE two.t (id INT) {ACID}")
    sql("CREATE VIEW two.v AS SELECT id FROM two.t")
    with pytest.raises(AlreadyExistsError, match=r"two\.s"):
        sql("ALTER VIEW two.v RENAME TO two.s")
    sql("ALTER VIEW two.v RENAME TO two.w")
    assert rows(sql("SELECT * FROM two.s")) == [(1,)]
    assert rows(sql("SELECT * FROM two.w")) == []


def test_databases_have_all_of_sparks_names(native: NativeSession) -> None:
    """What the grammar does not know would go to Spark alone, which would report success."""
    sql, catalog = native.sql, native.acid.context.catalog
    for kind in ("DATABASE", "SCHEMA", "NAMESPACE"):
        for name in ("one", "spark_catalog.one", "`SPARK_CATALOG`.`One`"):
            sql(f"CREATE {kind} {name} COMMENT 'c' WITH PROPERTIES ('k'='v')")
            made = catalog.get_database("one")
            assert made is not None
            assert (made.comment, dict(made.properties)) == ("c", {"k": "v"})
            sql(f"CREATE TABLE one.t (id INT) {ACID}")
            sql(f"DROP {kind} IF EXISTS {name} CASCADE")
            assert catalog.get_database("one") is None
            assert not native.catalog.databaseExists("one")
    for number, show in enumerate(("NAMESPACES", "DATABASES IN spark_catalog", "SCHEMAS FROM spark_catalog")):
        native.acid.sql(f"CREATE NAMESPACE seen{number}")
        assert (f"seen{number}",) in rows(sql(f"SHOW {show}"))
    for number, use in enumerate(("NAMESPACE two0", "SCHEMA two1", "spark_catalog.two2", "namespace")):
        native.acid.sql(f"CREATE NAMESPACE {use.split()[-1]}")
        sql(f"USE {use}")
        assert native.catalog.currentDatabase() == (f"two{number}" if "two" in use else "namespace")
    native.acid.sql("USE spark_catalog.default")


def test_a_database_that_spark_cannot_name_leaves_the_session_usable(native: NativeSession) -> None:
    name = "`größe 1`"
    with pytest.raises(CatalogError, match="ASCII"):
        native.sql(f"CREATE DATABASE {name}")
    native.acid.sql(f"CREATE DATABASE {name}")
    try:
        native.acid.sql(f"CREATE TABLE {name}.t (id INT) {ACID}")
        native.acid.sql(f"INSERT INTO {name}.t VALUES (1)")
        for session in (native, native.newSession()):
            assert "default" in {database.name for database in session.catalog.listDatabases()}
            assert session.catalog.databaseExists("default")
            session.catalog.setCurrentDatabase("default")
            assert rows(session.sql("SHOW DATABASES LIKE 'default'")) == [("default",)]
            assert rows(session.table(f"{name}.t")) == [(1,)]
        with pytest.raises(AnalysisException):
            native.sql(f"DROP DATABASE {name} CASCADE")
        assert rows(native.acid.sql(f"SELECT * FROM {name}.t")) == [(1,)]
    finally:
        native.acid.sql(f"DROP DATABASE {name} CASCADE")


def test_statements_inside_statements_do_not_escape_a_transaction(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("START TRANSACTION")
    with pytest.raises(UnsupportedFeatureError, match="outside the transaction"):
        native.sql("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)'")
    native.sql("ROLLBACK")
    assert rows(native.sql("SELECT * FROM t")) == []
    native.sql("EXECUTE IMMEDIATE 'INSERT INTO t VALUES (1)'")
    assert rows(native.sql("SELECT * FROM t")) == [(1,)]
    native.sql("DECLARE OR REPLACE VARIABLE computed STRING DEFAULT 'DELETE FROM t'")
    for explain in ("EXPLAIN", "EXPLAIN EXTENDED", "BEGIN EXPLAIN"):
        with pytest.raises(UnsupportedFeatureError, match="would carry out the statement"):
            native.sql(f"{explain} EXECUTE IMMEDIATE computed{'; END' * explain.startswith('BEGIN')}")
    assert rows(native.sql("SELECT * FROM t")) == [(1,)]
    native.sql("DROP TEMPORARY VARIABLE computed")


def test_variables_are_those_of_the_session_in_every_thread(native: NativeSession) -> None:
    """A thread has no active session in the JVM: the variable was empty, and the condition true of every row."""
    native.sql(f"CREATE TABLE t (d STRING) {ACID}")
    native.sql("INSERT INTO t VALUES ('2020'), ('2024')")
    other = native.newSession()
    native.sql("SET cutoff=1999")
    other.sql("SET cutoff=2022")
    with ThreadPoolExecutor(1) as pool:
        pool.submit(other.sql, "DELETE FROM t WHERE d >= '${cutoff}'").result()
        assert pool.submit(rows, native.sql("SELECT '${cutoff}', d FROM t")).result() == [("1999", "2020")]
    assert rows(other.sql("SELECT '${cutoff}'")) == [("2022",)]
    native.conf.set("spark.sql.variable.substitute", "false")
    try:
        assert rows(native.sql("SELECT '${cutoff}', d FROM t")) == [("${cutoff}", "2020")]
    finally:
        native.conf.unset("spark.sql.variable.substitute")


def test_rows_of_a_table_that_a_temporary_view_hides_are_not_changed(native: NativeSession) -> None:
    """Spark answers a DELETE from such a view with an internal error of Java."""
    sql = native.sql
    sql(f"CREATE TABLE t (id INT) {ACID}")
    sql("INSERT INTO t VALUES (1)")
    merge = "MERGE INTO {0} USING (SELECT 1 AS id) s ON {0}.id = s.id WHEN MATCHED THEN DELETE"
    for name in ("t", "view_only"):
        native.range(3).createOrReplaceTempView(name)
    for change in ("DELETE FROM t", "UPDATE T SET id = 2", merge.format("t")):
        with pytest.raises(CatalogError, match=r"temporary view in this session: .*name it default\.t"):
            sql(change)
    sql("DELETE FROM default.t WHERE id = 2")
    for change in ("UPDATE view_only SET id = 2", merge.format("view_only"), "DELETE FROM view_only"):
        with pytest.raises(NotTransactionalError, match="on this view or table: it is Spark's own"):
            sql(change)
    if native.version >= "4":  # which has scripts
        for change in ("DELETE FROM t", "UPDATE `T` SET id = 2", merge.format("t")):
            for script in ("BEGIN {}; END", "BEGIN IF true THEN {}; END IF; END"):
                with pytest.raises(
                    CatalogError, match=r"temporary view in this session: .*name it default\.t"
                ):
                    sql(script.format(change))
        for verb, change in (
            ("UPDATE", "UPDATE view_only SET id = 2"),
            ("MERGE", merge.format("view_only")),
            ("DELETE", "DELETE FROM view_only"),
        ):
            with pytest.raises(
                NotTransactionalError, match=f"^{verb} on this view or table: it is Spark's own"
            ):
                sql(f"BEGIN {change}; END")
        for broken in ("BEGIN SELECT 1; DELETE", "BEGIN SELECT 1; DELETE FROM", "BEGIN UPDATE; END"):
            with pytest.raises(ParseException):
                sql(broken)
    for name in ("t", "view_only"):
        native.catalog.dropTempView(name)
    assert rows(sql("SELECT * FROM t")) == [(1,)]
