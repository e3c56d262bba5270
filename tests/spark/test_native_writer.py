"""Spark's writers in a native session: ``writeTo``, ``insertInto``, ``saveAsTable`` and ``mergeInto``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrameWriter, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.catalog import Catalog

from hiveacid.core.model import Constraint, ConstraintKind
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    ConstraintViolationError,
    HiveAcidError,
    InsertOnlyError,
    NoSuchPartitionError,
    NoSuchTableError,
    ParseError,
    SchemaMismatchError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from hiveacid.sql.execute.context import small_frame
from hiveacid.sql.native.session import open_native_session
from hiveacid.table.write import insert

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.sql.native.session import NativeSession

rarely = pytest.mark.exhaustive("a job with every writer, new tables, MERGE and refusals stay")


ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
HOSTILE = "a b; -- é'"
INSERT_ONLY = "STORED AS ORC TBLPROPERTIES ('transactional'='true', 'transactional_properties'='insert_only')"


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


def frame_of(
    native: NativeSession, *values: tuple[object, ...], schema: str = "id int, v string, p int"
) -> DataFrame:
    return native.createDataFrame(list(values), schema)


@pytest.fixture
def table(native: NativeSession) -> str:
    """Return a table with two partitions."""
    native.sql(f"CREATE TABLE t (id INT, v STRING) PARTITIONED BY (p INT) {ACID}")
    native.sql("INSERT INTO t VALUES (1, 'a', 1), (2, 'b', 1), (3, 'c', 2)")
    return "t"


def history(native: NativeSession, name: str) -> list[str]:
    return [row["operation"] for row in native.acid.table(name).inspect.history().collect()]


def test_a_job_that_writes_with_dataframes_only(native: NativeSession, table: str) -> None:
    """Every way of writing once; each is one commit."""
    by_name = frame_of(native, (4, 2, "d"), schema="id int, p int, V string")
    by_name.writeTo(table).append()
    by_name.withColumn("id", F.lit(5)).write.saveAsTable(table, mode="append")
    frame_of(native, (6, "f", 3)).write.insertInto(table)
    assert rows(native.table(table)) == [
        (1, "a", 1), (2, "b", 1), (3, "c", 2), (4, "d", 2), (5, "d", 2), (6, "f", 3),
    ]  # fmt: skip
    frame_of(native, (7, "g", 3)).write.insertInto(table, overwrite=True)
    frame_of(native, (8, "h", 2)).writeTo(table).overwritePartitions()
    assert rows(native.table(table)) == [(1, "a", 1), (2, "b", 1), (7, "g", 3), (8, "h", 2)]
    before = len(history(native, table))
    frame_of(native, (9, "i", 1)).writeTo(table).overwrite((F.col("id") > 1) & (F.col("p") < 3))
    assert rows(native.table(table)) == [(1, "a", 1), (7, "g", 3), (9, "i", 1)]
    assert len(history(native, table)) == before + 1
    frame_of(native, (10, "j", 4)).write.mode("overwrite").saveAsTable(table)
    assert rows(native.read.table(table)) == [(10, "j", 4)]
    frame_of(native, (11, "k", 5)).writeTo(table).overwrite(F.lit(True))
    assert rows(native.sql("SELECT * FROM t")) == [(11, "k", 5)]
    assert len(history(native, table)) == before + 3
    frame_of(native, (12, "l", 6)).writeTo(table).createOrReplace()
    frame_of(native, (13, "m", 7)).write.saveAsTable(table, mode="ignore")
    assert rows(native.table(table)) == [(12, "l", 6)]
    with pytest.raises(AlreadyExistsError):
        frame_of(native, (13, "m", 7)).write.saveAsTable(table)


def test_new_tables(native: NativeSession) -> None:
    source = frame_of(native, (1, "a", 1), (2, "b", 2))
    (
        source.writeTo("made").using("orc").tableProperty("transactional", "true")
        .partitionedBy(F.col("p")).create()
    )  # fmt: skip
    source.write.format("orc").option("transactional", "true").partitionBy("v", "p").saveAsTable("saved")
    source.write.option("transactional", True).bucketBy(2, "id").saveAsTable("default.buckets")
    source.write.saveAsTable("own", format="parquet")
    for name in ("made", "saved", "buckets", "own"):
        assert rows(native.table(name).select("id", "v", "p")) == [(1, "a", 1), (2, "b", 2)], name
    definitions = {name: native.acid.table(name).definition for name in ("made", "saved", "buckets")}
    assert [c.name for c in definitions["made"].partition_columns] == ["p"]
    assert [c.name for c in definitions["saved"].partition_columns] == ["v", "p"]
    assert definitions["buckets"].bucketing is not None
    assert all(d.kind.name == "FULL_ACID" for d in definitions.values())
    native.sql("UPDATE saved SET id = 5 WHERE p = 1")
    native.sql("DELETE FROM buckets WHERE id = 1")
    with pytest.raises(AlreadyExistsError):
        source.writeTo("made").tableProperty("transactional", "true").create()
    with pytest.raises(NoSuchTableError):
        source.writeTo("nowhere").tableProperty("transactional", "true").replace()
    source.where("id > 5").writeTo("empty").tableProperty("transactional", "true").createOrReplace()
    assert rows(native.table("empty")) == []


@pytest.mark.skipif(
    "not hasattr(__import__('pyspark.sql', fromlist=['x']).DataFrame, 'mergeInto')", reason="Spark 4"
)
def test_merge_into(native: NativeSession, table: str) -> None:
    source = frame_of(native, (1, "x", 1), (9, "y", 9)).alias("source")
    (
        source.mergeInto(table, F.expr("source.id = t.id"))
        .whenMatched(F.col("t.v") == "a").update({"v": F.concat(source.v, F.lit("!"))})
        .whenNotMatched().insertAll()
        .whenNotMatchedBySource(F.col("t.id") == 3).delete()
        .merge()
    )  # fmt: skip
    assert rows(native.table(table)) == [(1, "x!", 1), (2, "b", 1), (9, "y", 9)]
    plain = frame_of(native, (9, "z", 9), (10, "n", 1))
    plain.mergeInto("default.t", plain.id == F.col("t.id")).whenMatched().updateAll().whenNotMatched().insert(
        {"id": plain.id, "p": F.lit(4)}
    ).merge()
    assert rows(native.table(table)) == [(1, "x!", 1), (10, None, 4), (2, "b", 1), (9, "z", 9)]
    # the source reads the target
    own = native.table(table).where("id = 2").alias("own")
    own.mergeInto(table, F.expr("own.id = t.id")).whenMatched().delete().merge()
    assert len(rows(native.table(table))) == 3
    frame_of(native, (1, 2), schema="id int, `c``d` int").write.option("transactional", True).saveAsTable(
        "odd"
    )
    odd = frame_of(native, (1,), (2,), schema="id int")
    merge = odd.mergeInto("odd", odd.id == F.col("odd.id"))
    merge.whenMatched().update({"`c``d`": F.lit(9)}).whenNotMatched().insert(
        {"`id`": odd.id, "c`d": F.lit(8)}
    ).merge()
    assert rows(native.table("odd")) == [(1, 9), (2, 8)]


@rarely
def test_tables_of_spark_stay_with_spark(native: NativeSession) -> None:
    source = frame_of(native, (1, "a", 1))
    source.write.partitionBy("p").saveAsTable("own", format="parquet")
    source.write.insertInto("own")
    source.write.mode("append").partitionBy("p").saveAsTable("own")
    assert len(rows(native.table("own"))) == 3
    assert not native.acid.context.catalog.list_tables("default")
    with pytest.raises(AnalysisException):
        source.writeTo("nowhere").append()
    with pytest.raises(AnalysisException):
        source.write.insertInto("nowhere")
    native.sql("DROP TABLE own")


def test_what_does_not_fit_is_refused(native: NativeSession, table: str) -> None:
    source = frame_of(native, (9, "x", 1))
    refused: list[tuple[type[HiveAcidError], str, object]] = [
        (SchemaMismatchError, "missing v", lambda: source.drop("v").writeTo(table).append()),
        (SchemaMismatchError, "unknown or duplicate extra", lambda: source.withColumn("extra", F.lit(1)).writeTo(table).append()),
        (SchemaMismatchError, "3 columns are to be filled", lambda: source.drop("v").write.insertInto(table)),
        (SchemaMismatchError, "partitioned by p", lambda: source.write.partitionBy("v").saveAsTable(table, mode="append")),
        (SchemaMismatchError, "not parquet", lambda: source.write.saveAsTable(table, format="parquet", mode="append")),
        (SchemaMismatchError, "buckets", lambda: source.write.bucketBy(2, "id").saveAsTable(table, mode="append")),
        (UnsupportedFeatureError, "ADD COLUMNS", lambda: source.writeTo(table).option("mergeSchema", "true").overwrite(F.col("p") == 1)),
        (UnsupportedFeatureError, "leave out partitionBy", lambda: source.write.partitionBy("p").insertInto(table)),
        (UnsupportedFeatureError, "overwrite", lambda: source.write.option("partitionOverwriteMode", "static").insertInto(table, overwrite=True)),
        (UnsupportedFeatureError, "no effect", lambda: source.write.option("orc.compress", "SNAPPY").saveAsTable(table, mode="append")),
        (SchemaMismatchError, "needs these columns", lambda: source.drop("p").writeTo(table).createOrReplace()),
        (UnsupportedFeatureError, "is not a column", lambda: source.writeTo("new").tableProperty("transactional", "true").partitionedBy(F.expr("p + 1")).create()),
        (UnsupportedFeatureError, "cannot have the format csv", lambda: source.writeTo("new").using("csv").tableProperty("transactional", "true").create()),
        (UnsupportedFeatureError, "LOCATION", lambda: source.write.option("transactional", "true").option("path", "/x").saveAsTable("new")),
    ]  # fmt: skip
    for error, text, write in refused:
        with pytest.raises(error, match=text):
            write()  # type: ignore[operator]
    assert len(rows(native.table(table))) == 3


def test_a_table_is_replaced_by_one_with_other_columns(
    native: NativeSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one step; partitions, properties and kind stay. On a metastore the refusal names the statements that do it."""
    native.sql("ALTER TABLE t SET TBLPROPERTIES ('note'='kept')")
    old = native.table(table)
    wider = old.where("id > 1").withColumn("more", F.lit(7)).select("more", "v", "id", "p")
    with monkeypatch.context() as metastore:
        metastore.setattr(native.acid.context.store, "maintained_by_hiveacid", lambda: False)
        with pytest.raises(
            UnsupportedFeatureError, match=r"DROP TABLE default.t, ALTER TABLE n RENAME TO default.t"
        ):
            wider.writeTo(table).createOrReplace()
    with pytest.raises(SchemaMismatchError, match="needs these columns"):
        wider.drop("p").writeTo(table).createOrReplace()
    native.sql("START TRANSACTION")
    with pytest.raises(TransactionStateError):
        wider.writeTo(table).createOrReplace()
    native.sql("ROLLBACK")
    with pytest.raises(Exception, match="late"):
        old.withColumn("more", F.expr("CAST(raise_error('late') AS INT)")).writeTo(table).createOrReplace()
    assert native.table(table).columns == ["id", "v", "p"]
    before = native.acid.table(table).definition
    wider.writeTo(table).createOrReplace()
    assert [(row.more, row.v, row.id) for row in native.table(table).orderBy("id").collect()] == [
        (7, "b", 2),
        (7, "c", 3),
    ]
    now = native.acid.table(table).definition
    assert (now.kind, now.partition_columns, now.property("note")) == (
        before.kind,
        before.partition_columns,
        "kept",
    )
    assert [row[1] for row in native.sql("SHOW TABLES").collect()] == ["t"]
    assert not list(Path(before.location).glob("*")), "the old files are gone"
    native.sql("DELETE FROM t WHERE id = 2")
    narrower = native.table(table).select("id", "p").withColumn("id", F.col("id").cast("string"))
    narrower.writeTo(table).replace()
    assert rows(native.table(table).select("id")) == [("3",)]
    with pytest.raises(ParseError):
        native.sql("CREATE OR REPLACE TABLE t AS SELECT 1 AS id")
    native.sql("DROP TABLE t")


@rarely
def test_insert_only_tables_are_overwritten_as_a_whole(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE flat (id INT, v STRING) PARTITIONED BY (p INT) {INSERT_ONLY}")
    frame_of(native, (1, "a", 1), (2, "b", 2)).writeTo("flat").append()
    frame_of(native, (3, "c", 2)).writeTo("flat").overwrite(F.expr("true"))
    assert rows(native.table("flat")) == [(3, "c", 2)]
    with pytest.raises(InsertOnlyError):
        frame_of(native, (4, "d", 2)).writeTo("flat").overwrite(F.col("id") == 3)


def test_a_whole_overwrite_is_seen_completely_or_not_at_all(
    native: NativeSession, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before, seen = rows(native.table(table)), []
    publish = insert.empty_partitions

    def die(*arguments: Any) -> None:
        publish(*arguments)  # all files are in their places; the commit is missing
        seen.append(rows(native.newSession().table(table)))
        raise ZeroDivisionError

    with monkeypatch.context() as patched:
        patched.setattr(insert, "empty_partitions", die)
        with pytest.raises(ZeroDivisionError):
            frame_of(native, (9, "z", 3)).write.mode("overwrite").saveAsTable(table)
    assert seen == [before]
    assert rows(native.table(table)) == before
    frame_of(native, (9, "z", 3)).write.mode("overwrite").saveAsTable(table)
    assert rows(native.table(table)) == [(9, "z", 3)]


def test_a_session_that_is_closed_leaves_the_writers_of_a_later_one(
    native: NativeSession, spark: SparkSession, tmp_path: Path
) -> None:
    later = open_native_session(spark, str(tmp_path / "later"), None, None)
    try:
        later.sql(f"CREATE TABLE t (id INT, v STRING, p INT) {ACID}")
        native.close()
        frame_of(later, (1, "a", 1)).writeTo("t").append()
        assert rows(later.table("t")) == [(1, "a", 1)]
        assert SparkSession.builder.getOrCreate() is later
    finally:
        later.close()
    assert type(spark.range(1).write) is DataFrameWriter


@rarely
def test_a_source_that_reads_its_target(native: NativeSession, table: str) -> None:
    native.table(table).where("id > 1").write.mode("overwrite").saveAsTable(table)
    assert rows(native.table(table)) == [(2, "b", 1), (3, "c", 2)]
    native.table(table).withColumn("v", F.upper("v")).writeTo(table).overwrite(F.col("id") == 3)
    assert rows(native.table(table)) == [(2, "B", 1), (2, "b", 1), (3, "C", 2)]


@rarely
@pytest.mark.usefixtures("table")
def test_names_and_views(native: NativeSession) -> None:
    native.sql(f"CREATE TABLE `select` (`a.b` INT, `größe` STRING) {ACID}")
    odd = native.createDataFrame([(1, "x")], "`größe` int, `a.b` string").toDF("a.b", "größe")
    odd.writeTo("`select`").append()
    odd.select("größe", "`a.b`").writeTo("spark_catalog.default.`select`").append()
    odd.write.insertInto("default.`SELECT`")
    assert rows(native.table("`select`")) == [(1, "x")] * 3
    frame_of(native, (7, "t", 7)).createTempView("t")
    try:
        with pytest.raises(CatalogError, match=r"default\.t"):
            frame_of(native, (8, "t", 7)).writeTo("t").append()
        frame_of(native, (8, "t", 7)).writeTo("default.t").append()
        assert rows(native.table("t")) == [(7, "t", 7)]
    finally:
        native.catalog.dropTempView("t")
    assert len(rows(native.table("t"))) == 4
    native.sql("CREATE VIEW seen AS SELECT * FROM t")
    with pytest.raises(CatalogError, match="is a view"):
        frame_of(native, (8, "t", 7)).write.insertInto("seen")


@rarely
def test_transactions_and_snapshots(native: NativeSession, table: str) -> None:
    native.sql("START TRANSACTION")
    frame_of(native, (8, "t", 7)).writeTo(table).append()
    frame_of(native, (9, "t", 7)).write.insertInto(table)
    native.sql("ROLLBACK")
    assert len(rows(native.table(table))) == 3
    native.sql("START TRANSACTION")
    frame_of(native, (8, "t", 7)).writeTo(table).append()
    frame_of(native, (9, "t", 1)).writeTo(table).overwrite(F.col("id") == 1)
    locks = {row["lock_type"] for row in native.sql("SHOW LOCKS").collect()}
    assert "EXCL_WRITE" in locks, "two overwrites that match no row would both keep their rows"
    native.sql("COMMIT")
    assert rows(native.table(table)) == [(2, "b", 1), (3, "c", 2), (8, "t", 7), (9, "t", 1)]
    with native.acid.snapshot(), pytest.raises(TransactionStateError, match="only reads"):
        frame_of(native, (8, "t", 7)).writeTo(table).append()
    native.sql("START TRANSACTION")
    with pytest.raises(TransactionStateError):
        frame_of(native, (1, "a", 1)).writeTo("new").tableProperty("transactional", "true").create()
    native.sql("ROLLBACK")


@rarely
def test_nulls_and_empty_frames(native: NativeSession, monkeypatch: pytest.MonkeyPatch) -> None:
    native.sql(f"CREATE TABLE n (id INT, v STRING) {ACID}")
    not_null = Constraint(ConstraintKind.NOT_NULL, "nn", "id")
    catalog = native.acid.context.catalog
    monkeypatch.setattr(
        catalog, "constraints", lambda table, **_: (not_null,) if table.name.name == "n" else ()
    )
    nulls = native.createDataFrame([(None, "x")], "id int, v string")
    for write in (
        lambda: nulls.writeTo("n").append(),
        lambda: nulls.write.insertInto("n"),
        lambda: nulls.writeTo("n").overwrite(F.col("id") == 1),
    ):
        with pytest.raises(ConstraintViolationError):
            write()
    nothing = nulls.where("false")
    nothing.writeTo("n").append()
    native.sql("INSERT INTO n VALUES (1, 'a'), (2, 'b')")
    nothing.writeTo("n").overwrite(F.col("id") == 1)
    assert rows(native.table("n")) == [(2, "b")]
    nothing.write.mode("overwrite").saveAsTable("n")
    assert rows(native.table("n")) == []


def test_catalog(native: NativeSession, table: str) -> None:
    catalog = native.catalog
    native.sql("CREATE DATABASE shop")
    try:
        native.sql(
            f"CREATE TABLE shop.b (id BIGINT COMMENT 'key', d DECIMAL(9,2)) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}"
        )
        native.sql("CREATE VIEW seen AS SELECT * FROM t")
        frame_of(native, (1, "a", 1)).createTempView("passing")
        frame_of(native, (1, "a", 1)).write.saveAsTable("own", format="parquet")
        shown = {(one.name, one.tableType, one.isTemporary) for one in catalog.listTables()}
        assert shown >= {
            ("t", "MANAGED", False), ("seen", "VIEW", False), ("own", "MANAGED", False), ("passing", "TEMPORARY", True),
        }  # fmt: skip
        assert [one.name for one in catalog.listTables("shop") if not one.isTemporary] == ["b"]
        assert catalog.getTable("shop.b").database == "shop"
        assert catalog.getTable("own").tableType == "MANAGED"
        columns = {one.name: one for one in catalog.listColumns("t")}
        assert [(c.dataType, c.isPartition) for c in columns.values()] == [
            ("int", False), ("string", False), ("int", True),
        ]  # fmt: skip
        assert [(c.dataType, c.isBucket, c.description) for c in catalog.listColumns("b", "shop")] == [
            ("bigint", True, "key"), ("decimal(9,2)", False, None),
        ]  # fmt: skip
        assert [c.name for c in catalog.listColumns("own")] == ["id", "v", "p"]
        assert "shop" in {one.name for one in catalog.listDatabases()}
        assert catalog.databaseExists("shop")
        assert catalog.getDatabase("shop").name == "shop"
        catalog.setCurrentDatabase("shop")
        assert catalog.currentDatabase() == "shop"
        assert catalog.tableExists("b")
        assert catalog.tableExists("t", "default")
        assert native.table("b").columns == ["id", "d"]
        catalog.setCurrentDatabase("default")
        assert catalog.dropTempView("passing")
        assert table in {one.name for one in catalog.listTables("default", "t*")}
    finally:
        catalog.setCurrentDatabase("default")
        native.sql("DROP DATABASE shop CASCADE")


@pytest.mark.skipif(not hasattr(Catalog, "dropDatabase"), reason="Spark 4.2 and later have the methods")
def test_the_catalogs_changes_are_those_of_sql(native: NativeSession, table: str) -> None:
    catalog: Any = native.catalog
    acid_catalog = native.acid.context.catalog
    catalog.createDatabase("shop", properties={"comment": "it's", "k": "v"})
    shop = acid_catalog.get_database("shop")
    assert shop is not None
    assert (shop.comment, dict(shop.properties)["k"]) == ("it's", "v")
    catalog.createDatabase("spark_catalog.shop", ifNotExists=True)
    native.sql(f"CREATE TABLE shop.b (id INT) {ACID}")
    native.sql("CREATE VIEW shop.seen AS SELECT * FROM shop.b")
    assert [(one.name, one.tableType) for one in catalog.listViews("shop") if not one.isTemporary] == [
        ("seen", "VIEW")
    ]
    assert [one.partition for one in catalog.listPartitions(table)] == ["p=1", "p=2"]
    assert catalog.getTableProperties(table)["transactional"] == "true"
    assert catalog.getCreateTableString(table).startswith("CREATE TABLE `default`.`t`(\n")
    catalog.analyzeTable(table)
    catalog.truncateTable(table)
    assert rows(native.table(table)) == []
    frame_of(native, (1, "a", 1)).createTempView(table)  # stays, although it hides the table
    catalog.dropTable(table, ifExists=True)
    assert acid_catalog.list_tables("default") == ()
    assert catalog.dropTempView(table)
    with pytest.raises(AnalysisException):
        catalog.dropTable(table)
    catalog.dropView("shop.seen")
    assert acid_catalog.list_views("shop") == ()
    with pytest.raises(HiveAcidError):
        catalog.dropDatabase("shop")
    with pytest.raises(AnalysisException):
        catalog.dropDatabase("`shop` CASCADE")
    catalog.dropDatabase("shop", cascade=True)
    assert acid_catalog.get_database("shop") is None
    assert not catalog.databaseExists("shop")
    # those of Spark's own tables stay Spark's
    frame_of(native, (1, "a", 1)).write.saveAsTable("own", format="parquet")
    native.sql("CREATE VIEW own_view AS SELECT * FROM own")
    assert "own_view" in {one.name for one in catalog.listViews()}
    catalog.truncateTable("own")
    catalog.dropView("own_view")
    catalog.dropTable("own", purge=True)
    assert not catalog.tableExists("own")


@rarely
def test_a_cached_view_keeps_its_snapshot(native: NativeSession, table: str) -> None:
    catalog = native.catalog
    native.table(table).createTempView("kept")
    catalog.cacheTable("kept")
    assert catalog.isCached("kept")
    native.sql("DELETE FROM t")
    assert len(rows(native.table("kept"))) == 3
    assert rows(native.table(table)) == []
    catalog.uncacheTable("kept")
    catalog.dropTempView("kept")


def test_a_function_may_have_the_name_of_a_table(native: NativeSession, table: str) -> None:
    catalog = native.catalog
    native.sql(f"CREATE TABLE `{HOSTILE}` (id INT) {ACID}")
    native.sql("CREATE VIEW seen AS SELECT * FROM t")
    for name in (table, "default.t", "spark_catalog.default.t", "seen", f"`{HOSTILE}`", "absent"):
        assert not catalog.functionExists(name), name
        with pytest.raises(AnalysisException):
            catalog.getFunction(name)
    with pytest.warns(FutureWarning, match="dbName"):
        assert not catalog.functionExists(table, "default")
    assert catalog.functionExists("upper")
    native.udf.register(table, lambda value: value)
    assert catalog.functionExists(table)
    assert catalog.getFunction(table).isTemporary
    assert rows(native.sql("SELECT t(v) FROM t WHERE id = 1")) == [("a",)]
    native.sql("DROP TEMPORARY FUNCTION t")
    native.range(1).createTempView("hidden")
    assert not catalog.functionExists("hidden")
    catalog.dropTempView("hidden")


def test_show_table_extended(native: NativeSession, table: str) -> None:
    frame_of(native, (1, "a", 1)).write.saveAsTable("own", format="parquet")
    native.sql("CREATE VIEW seen AS SELECT * FROM t")
    shown = native.sql("SHOW TABLE EXTENDED IN default LIKE '*'")
    assert shown.columns == ["namespace", "tableName", "isTemporary", "information"]
    texts = {row["tableName"]: row["information"] for row in shown.collect()}
    assert set(texts) == {"own", "seen", "t"}
    assert "Type: MANAGED\nProvider: orc\n" in texts["t"]
    assert "Partition Columns: [`p`]\nSchema: root\n |-- id: integer (nullable = true)\n" in texts["t"]
    assert "Type: VIEW\n" in texts["seen"]
    assert "Provider: parquet" in texts["own"]
    (row,) = native.sql("SHOW TABLE EXTENDED LIKE 't' PARTITION (p = 2)").collect()
    assert row["information"].startswith("Partition Values: [p=2]\nLocation: ")
    assert native.acid.sql(f"SHOW TABLE EXTENDED LIKE '{table}'").count() == 1
    with pytest.raises(NoSuchPartitionError):
        native.sql("SHOW TABLE EXTENDED LIKE 't' PARTITION (p = 7)")
    columns = (("name", "string"), ("isTemporary", "boolean"), ("text", "string"))
    many = small_frame(
        native.acid.context.env, columns, [("n", False, "t")] * 200
    )  # more than SQL parameters
    assert rows(many.distinct()) == [("n", False, "t")]
