"""Names, parameters and functions mean in statements on transactional tables what they mean on Spark's own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from pyspark.errors import AnalysisException, UnsupportedOperationException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from hiveacid.errors import ParseError, SchemaMismatchError, StatementError, UnsupportedFeatureError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid import AcidSession
    from hiveacid.sql.native.session import NativeSession

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_qualified_columns(native: NativeSession) -> None:
    sql = native.sql
    for statement in (
        f"CREATE TABLE t (id INT) {ACID}",
        "INSERT INTO t VALUES (1), (2)",
        "CREATE DATABASE d",
        f"CREATE TABLE d.k (id INT) {ACID}",
        "INSERT INTO d.k VALUES (42)",
        f"CREATE TABLE e (d STRUCT<k: STRUCT<id: INT>>, k STRUCT<id: INT>) {ACID}",
        "INSERT INTO e SELECT named_struct('k', named_struct('id', 7)), named_struct('id', 8)",
    ):
        sql(statement)
    assert rows(sql("SELECT default.t.id, spark_catalog.default.t.id FROM t")) == [(1, 1), (2, 2)]
    assert (
        rows(sql("TABLE t ORDER BY t.id")) == rows(native.table("t").select("default.t.id")) == [(1,), (2,)]
    )
    if native.acid.context.env.version >= (4, 0):
        assert rows(sql("TABLE t |> WHERE t.id = 1")) == [(1,)]
        assert rows(native.table("t").where("id = (FROM t |> AGGREGATE max(id))")) == [(2,)]
    # the path of a struct is no qualifier, wherever else the statement names a table like it
    assert rows(sql("SELECT d.k.id FROM e WHERE EXISTS (SELECT 1 FROM d.k)")) == [(7,)]
    assert rows(sql("SELECT d.k.id, x FROM e, (SELECT d.k.id AS x FROM d.k)")) == [(7, 42)]
    sql("DELETE FROM e WHERE d.k.id = 8 AND EXISTS (SELECT 1 FROM d.k)")
    assert rows(sql("SELECT d.k.id FROM e")) == [(7,)]
    sql("DELETE FROM e WHERE d.k.id = 7 AND EXISTS (SELECT 1 FROM d.k WHERE d.k.id = 42)")
    assert rows(sql("SELECT d.k.id FROM e")) == []


def test_inserts_of_spark_share_a_from(native: NativeSession) -> None:
    """Spark's parser repeats the relation for each INSERT."""
    native.sql(f"CREATE TABLE t (id INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1), (2)")
    native.sql("CREATE TABLE own USING json AS SELECT 0 AS id")
    native.sql("FROM t INSERT INTO own SELECT id WHERE id = 1 INSERT INTO own SELECT id + 10 WHERE id = 2")
    assert rows(native.table("own")) == [(0,), (1,), (12,)]


def test_names_that_are_computed(native: NativeSession) -> None:
    sql = native.sql
    for statement in (
        "CREATE TABLE both USING json AS SELECT -1 AS id",
        f"CREATE TABLE both (id INT) {ACID}",
        "INSERT INTO both VALUES (42)",
        "CREATE TABLE own USING json AS SELECT 7 AS id",
    ):
        sql(statement)
    for name, args in (
        ("'both'", None),
        ("'bo' || 'th'", None),
        (":t", {"t": "both"}),
        ("'default.' || :t", {"t": "both"}),
    ):
        assert rows(sql(f"SELECT * FROM IDENTIFIER({name})", args=args)) == [(42,)], name
        assert rows(native.acid.sql(f"SELECT * FROM IDENTIFIER({name})", args)) == [(42,)], name
    sql("INSERT INTO IDENTIFIER(:t) VALUES (:v)", args={"t": "both", "v": 43})
    sql("DELETE FROM IDENTIFIER(:t) WHERE IDENTIFIER('i' || 'd') = 42", args={"t": "default.both"})
    assert rows(sql("SELECT * FROM both")) == [(43,)]
    assert rows(sql("SELECT * FROM IDENTIFIER(:t)", args={"t": "own"})) == [(7,)]
    if native.acid.context.env.version >= (4, 0):
        script = "BEGIN DECLARE name STRING DEFAULT '{}'; SELECT * FROM IDENTIFIER({}); END"
        with pytest.raises(UnsupportedFeatureError, match="name that a script computes"):
            sql(script.format("both", "name"))
        assert rows(sql(script.format("both", "'own'"))) == [(7,)]
    with pytest.raises(AnalysisException):  # a name, never a piece of SQL
        sql("SELECT * FROM IDENTIFIER(:t)", args={"t": "both; DROP TABLE both"})
    if native.acid.context.env.version >= (4, 1):  # Spark hands the values to its parser with the text
        plain = SparkSession(native.sparkContext, native._jsparkSession)
        with pytest.raises(UnsupportedOperationException, match="write the name into the text"):
            plain.sql("SELECT * FROM IDENTIFIER(:t)", args={"t": "both"})
        assert rows(plain.sql("SELECT * FROM IDENTIFIER('bo' || 'th')")) == [(43,)]


def test_sql_path(native: NativeSession) -> None:
    if native.acid.context.env.version < (4, 3):
        pytest.skip("SQL PATH came with Spark 4.3")
    sql = native.sql
    for statement in (
        "CREATE DATABASE d",
        f"CREATE TABLE x (id INT) {ACID}",
        "INSERT INTO x VALUES (1)",
        f"CREATE TABLE d.x (id INT) {ACID}",
        "INSERT INTO d.x VALUES (1000)",
        "SET spark.sql.path.enabled=true",
        "SET PATH = spark_catalog.d, system.builtin, system.session",
    ):
        sql(statement)
    for statement in ("SELECT * FROM x", "DELETE FROM x WHERE id > 0", "INSERT INTO x VALUES (2)"):
        with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
            sql(statement)
    assert rows(sql("SELECT * FROM d.x")) == [(1000,)]
    assert rows(sql("SELECT * FROM default.x")) == [(1,)]
    sql("SET spark.sql.path.enabled=false")
    assert rows(sql("SELECT * FROM x")) == [(1,)]


def test_functions_of_sql_in_conditions(native: NativeSession) -> None:
    if native.acid.context.env.version < (4, 0):
        pytest.skip("functions of SQL came with Spark 4.0")
    sql = native.sql
    for statement in (
        f"CREATE TABLE t (id INT) PARTITIONED BY (p INT) {ACID}",
        "INSERT INTO t PARTITION (p) VALUES (1, 1), (2, 2), (3, 3)",
        "CREATE TEMPORARY FUNCTION twice(x INT) RETURNS INT RETURN x * 2",
        "CREATE TABLE bound USING json AS SELECT 2 AS m",
        "CREATE TEMPORARY FUNCTION most() RETURNS INT RETURN (SELECT max(m) FROM bound)",
    ):
        sql(statement)
    assert rows(sql("SELECT id FROM t WHERE twice(id) = 2")) == [(1,)]
    assert rows(sql("SELECT id FROM t WHERE twice(p) = 4 AND p < 3")) == [(2,)]
    assert rows(native.acid.table("t").scan(where="twice(id) = 6 AND p > 1").to_df()) == [(3, 3)]
    assert rows(sql("SELECT id FROM t WHERE p = most()")) == [(2,)]
    sql("UPDATE t SET id = twice(id) WHERE twice(id) = 6")
    sql("DELETE FROM t WHERE twice(id) = 2")
    assert rows(sql("SELECT id FROM t")) == [(2,), (6,)]
    # a function may have a table's name
    sql(f"CREATE TABLE hash (id INT) {ACID}")
    assert rows(native.range(1).select(F.call_function("abs", F.lit(-1)))) == [(1,)]
    assert rows(native.range(1).select(F.call_function("hash", F.lit(1)))) == rows(sql("SELECT hash(1)"))


def test_parameters(native: NativeSession) -> None:
    sql = native.sql
    sql(f"CREATE TABLE t (id INT, v DOUBLE) {ACID}")
    sql("INSERT INTO t VALUES (1, 0.5)")
    assert rows(
        sql("SELECT CAST(named_struct('a', id) AS STRUCT<a:INT>).a FROM t WHERE id = :id", args={"id": 1})
    ) == [(1,)]
    assert rows(sql("SELECT count(*) FROM t VERSION AS OF :v", args={"v": 1})) == [(1,)]
    ansi = str(native.conf.get("spark.sql.ansi.enabled"))
    native.conf.set("spark.sql.ansi.enabled", "false")
    sql("UPDATE t SET v = :x WHERE id = 1", args={"x": np.float64(9.5)})
    sql("INSERT INTO t VALUES (7, :x)", args={"x": np.float64(2.5)})
    native.conf.set("spark.sql.ansi.enabled", ansi)
    assert rows(sql("SELECT * FROM t")) == [(1, 9.5), (7, 2.5)]
    # the parser inside Spark does not take a field for a parameter
    plain = SparkSession(native.sparkContext, native._jsparkSession)
    plain.sql(f"CREATE TABLE s (s STRUCT<a:INT>) {ACID}")
    plain.sql("INSERT INTO s SELECT CAST(named_struct('a', 1) AS STRUCT<a:INT>)")
    assert rows(plain.sql("SELECT s.a FROM s")) == [(1,)]


def test_other_sources(native: NativeSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    sql = native.sql
    sql(f"CREATE TABLE t (id INT) {ACID}")
    sql("INSERT INTO t VALUES (1)")
    sql("INSERT INTO t VALUES (2)")
    files = tmp_path_factory.mktemp("files") / "p"
    native.range(1, 2).write.parquet(str(files))
    for source in ("parquet", "`org.apache.spark.sql.parquet`"):
        assert rows(sql(f"SELECT t.id FROM t JOIN {source}.`{files}` f ON t.id = f.id")) == [(1,)]
    if native.acid.context.env.version >= (4, 3):
        assert rows(sql("SELECT count(*) FROM t@v1")) == [(1,)]
        assert rows(sql("SELECT x.id FROM t@v1 x WHERE x.id > 0")) == [(1,)]
    for properties in (
        ACID,
        "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')",
    ):
        with pytest.raises(SchemaMismatchError, match="_metadata is a reserved column name"):
            sql(f"CREATE TABLE m (id INT, `_metadata` INT) {properties}")


def test_bare_names_in_a_merge_by_python_are_those_of_the_only_side(
    spark: SparkSession, acid: AcidSession
) -> None:
    acid.sql(f"CREATE TABLE t (id INT, qty INT) {ACID}")
    acid.sql("INSERT INTO t VALUES (1, 10), (2, 20)")
    source = spark.sql("SELECT * FROM VALUES (2, 5), (3, 7), (4, -7) AS v(id, qty)")
    merge = acid.table("t").merge(source, "t.id = s.id")
    report = (
        merge.when_not_matched_insert(
            {"id": "id", "qty": "qty + transform(array(id), qty -> qty)[0]"}, "qty > 0"
        )
        .when_not_matched_by_source_update({"qty": "qty + t.qty"}, "id = 1")
        .execute()
    )
    assert (report.inserted, report.updated) == (1, 1)
    assert sorted(tuple(row) for row in acid.sql("SELECT * FROM t").collect()) == [(1, 20), (2, 20), (3, 10)]
    with pytest.raises(StatementError, match="`qty` is ambiguous"):
        merge.when_matched_update({"qty": "qty + 1"}).execute()
    with pytest.raises(ParseError):
        merge.when_not_matched_insert({"id": "id +", "qty": "1"}).execute()
