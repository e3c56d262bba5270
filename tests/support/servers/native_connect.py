"""A Spark Connect server inside the tests' JVM, whose sessions are copies of a native one; and its plain client.

``python -m support.servers.native_connect ADDRESS NAME`` is the client: a process without hiveacid's session and JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from support.servers.databases import free_port

PATIENCE = 240.0  # seconds, on a machine that is busy


@contextmanager
def native_connect_server(spark: SparkSession) -> Iterator[str]:
    """Serve plain clients from the session's application; yield the address (``sc://…``)."""
    jvm: Any = spark._jvm
    context = spark.sparkContext._jsc.sc()
    conf = context.conf()
    port = str(free_port())
    conf.set("spark.connect.grpc.binding.address", "127.0.0.1").set("spark.connect.grpc.binding.port", port)
    plugin = jvm.org.apache.spark.sql.connect.SparkConnectPlugin().driverPlugin()
    plugin.init(context, None)
    try:
        yield f"sc://127.0.0.1:{port}"
    finally:
        plugin.shutdown()


def start_client(address: str, name: str) -> subprocess.Popen[str]:
    """Start a client that works in a database of this name, and in ``default.shared``."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")])
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("SPARK_", "PYSPARK_"))}
    return subprocess.Popen(
        [sys.executable, "-m", __name__, address, name],
        env=kept | {"PYTHONPATH": path},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def _work(spark: SparkSession, name: str) -> None:
    def run(text: str, **frames: Any) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in spark.sql(text, **frames).collect()]

    run(f"CREATE DATABASE {name}")
    run(f"USE {name}")
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    assert run(f"CREATE TABLE t (id INT, v STRING) {acid}") == []
    assert run("INSERT INTO t VALUES (1, 'a'), (2, 'b')")[0][:2] == (2, 2)
    assert spark.sql("UPDATE t SET v = 'c' WHERE id = 1").head(1)[0][0] == 1
    assert run("DELETE FROM t WHERE id = 2")[0][0] == 1
    news = spark.createDataFrame([(1, "m"), (3, "n")], "id int, v string")
    news.createOrReplaceTempView("news")
    clauses = "WHEN MATCHED THEN UPDATE SET v = s.v WHEN NOT MATCHED THEN INSERT *"
    assert run(f"MERGE INTO t USING news s ON t.id = s.id {clauses}")[0][0] == 2
    assert run("INSERT INTO t SELECT id + 10, v FROM {news} WHERE id = 3", news=news)[0][0] == 1
    run("INSERT INTO default.shared SELECT id, current_database() FROM t")
    assert run("SELECT id, v FROM t ORDER BY id") == [(1, "m"), (3, "n"), (13, "n")]
    history = [row[0] for row in run("SELECT operation FROM t.history ORDER BY write_id")]
    assert history == ["CREATE TABLE", "INSERT", "UPDATE", "DELETE", "MERGE", "INSERT"], history
    assert run("SHOW TABLES") == [("", "news", True), (name, "t", False)]
    assert ("v", "string") in [row[:2] for row in run("DESCRIBE t")]
    codec = "hive.exec.orc.default.compress"
    run(f"SET {codec}={'SNAPPY' if name == 'ann' else 'NONE'}")
    assert run(f"SET {codec}")[0][-1].endswith("SNAPPY" if name == "ann" else "NONE")
    assert spark.catalog.currentDatabase() == name
    assert spark.catalog.databaseExists(name)
    assert name in [database.name for database in spark.catalog.listDatabases()]
    for what, call in (
        ("column x does not exist", lambda: run("SELECT x FROM t")),
        ("line 1, column 15", lambda: run("INSERT INTO t SELEKT")),
        ("each statement is a transaction", lambda: run("START TRANSACTION")),
        ("write the values into the text", lambda: spark.sql("DELETE FROM t WHERE id = ?", args=[1])),
    ):
        _require_refused(what, call)
    assert len(run("SELECT * FROM t")) == 3


def _require_refused(what: str, call: Callable[[], object]) -> None:
    try:
        call()
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        assert what in first, first
    else:
        raise AssertionError(what)


def _rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def _read(spark: SparkSession, name: str) -> None:
    """Read tables by their names; the database is the current one, and its table ``t`` has three rows."""
    t = spark.table("t")
    expected = [(1, "m"), (3, "n"), (13, "n")]
    for written in (f"{name}.t", f"`{name.upper()}`.`T`", f"spark_catalog.{name}.t"):
        assert _rows(spark.table(written)) == expected, written
    assert _rows(spark.read.table("t")) == expected
    assert _rows(t.select("t.id", f"{name}.t.v")) == expected
    assert _rows(t.alias("a").join(t.alias("b"), "id")) == [(i, v, v) for i, v in expected]
    spark.sql(f"CREATE TABLE own (id INT, w STRING) USING parquet LOCATION '{tempfile.mkdtemp()}'")
    spark.sql("INSERT INTO own VALUES (3, 'w')")
    local = spark.createDataFrame([(3, 0.5)], "id int, x double")
    assert _rows(t.join(spark.table("own"), "id").join(local, "id")) == [(3, "n", "w", 0.5)]
    spark.sql("CREATE VIEW seen AS SELECT id FROM t WHERE id > 1")
    assert _rows(spark.table("seen")) == [(3,), (13,)]
    assert spark.table("t.history").count() == spark.table(f"{name}.t.history").count() == 6
    first = spark.sql("SELECT min(write_id) AS id FROM t.history WHERE operation = 'INSERT'").collect()[0][0]
    assert _rows(spark.read.option("versionAsOf", first).table("t")) == [(1, "a"), (2, "b")]
    assert _rows(spark.read.option("timestampAsOf", "2100-01-01").table("t")) == expected
    _require_refused("no such tag", lambda: spark.read.option("versionAsOf", "x'").table("t").collect())
    # the values of parameters are shorter or longer than their names, and move what stands behind them
    for parameter, value in (("x", 1), ("xy", 1), ("xyz", 1), ("x", 1000)):
        for clause, rows in ((f"VERSION AS OF {first}", 2), ("TIMESTAMP AS OF '2100-01-01'", 3)):
            read = f"SELECT :{parameter} AS x, count(*) FROM t {clause}"
            assert _rows(spark.sql(read, args={parameter: value})) == [(value, rows)], (read, value)
    # a Spark table of the same name is hidden, but not from Spark's own views
    spark.sql(f"CREATE TABLE hid (id INT) USING parquet LOCATION '{tempfile.mkdtemp()}'")
    spark.sql("INSERT INTO hid VALUES (7)")
    spark.sql("CREATE VIEW over_hid AS SELECT id FROM hid")
    spark.sql("CREATE TABLE hid (id INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')")
    assert _rows(spark.table("hid")) == []
    assert _rows(spark.table("hid").union(spark.table("over_hid"))) == [(7,)]
    # each execution reads the newest commit, also after the columns were asked for
    assert t.columns == ["id", "v"]
    spark.sql("UPDATE t SET v = 'new' WHERE id = 13")
    assert _rows(t.where(t.id > 3)) == [(13, "new")]
    t.createOrReplaceTempView("kept")  # the snapshot of this moment
    spark.sql("UPDATE t SET v = 'n' WHERE id = 13")
    assert _rows(spark.table("kept").where("id > 3")) == [(13, "new")]
    local.createTempView("t")
    assert _rows(spark.table("t")) == [(3, 0.5)]
    assert _rows(spark.table(f"{name}.t")) == expected
    assert spark.catalog.dropTempView("t")
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    again = spark.table("again")
    spark.sql(f"CREATE TABLE again (a INT) {acid}")
    assert _rows(again) == []
    spark.sql("DROP TABLE again")
    _require_refused("does not exist", again.collect)
    _require_refused("TABLE_OR_VIEW_NOT_FOUND", spark.table("again").collect)
    spark.sql(f"CREATE TABLE again (b STRING, c INT) {acid}")
    spark.sql("INSERT INTO again VALUES ('x', 1)")
    assert _rows(again) == [("x", 1)]
    _require_refused("permanent view", lambda: spark.readStream.table("t").schema)
    _require_refused("is not for users", lambda: spark.sql("SELECT * FROM hiveacid_rows('x')").collect())
    _require_closed_catalogs(spark, name)


def _require_closed_catalogs(spark: SparkSession, name: str) -> None:
    """Name tables in the catalogs by which Spark's calls find them."""

    def refuse(text: str) -> None:
        _require_refused("is not for users", lambda: spark.sql(text).collect())

    for text in (
        f"CREATE TABLE hiveacid_tables.{name}.beside (a INT) USING parquet",
        f"EXECUTE IMMEDIATE 'CREATE TABLE `HIVEACID_Tables`.{name}.t (a INT) USING parquet'",
        f"SELECT * FROM IDENTIFIER('hiveacid_rows.{name}.t')",
        f"INSERT INTO hiveacid_by_position.{name}.t VALUES (1, 'x')",
    ):
        refuse(text)
    _require_refused("is not for users", lambda: spark.table(f"hiveacid_rows.{name}.t").collect())
    spark.sql("SET closed=hiveacid_tables")
    refuse(f"CREATE TABLE ${{closed}}.{name}.beside (a INT) USING parquet")
    spark.conf.set("spark.sql.ansi.doubleQuotedIdentifiers", "true")
    refuse(f'CREATE TABLE "hiveacid_tables".{name}.beside (a INT) USING parquet')
    refuse(f"INSERT INTO \"hiveacid_by_position\".{name}.t VALUES (1, 'x')")
    spark.conf.unset("spark.sql.ansi.doubleQuotedIdentifiers")
    spark.sql("SET CATALOG hiveacid_tables")
    refuse(f"CREATE TABLE {name}.beside (a INT) USING parquet")
    spark.sql("SET CATALOG spark_catalog")
    spark.sql(f"USE {name}")
    assert not spark.catalog.tableExists("beside")
    assert len(_rows(spark.table("t"))) == 3


def _show(spark: SparkSession, name: str) -> None:
    """Ask the catalog about tables."""
    catalog = spark.catalog
    spark.sql(
        "CREATE TABLE shown (id INT COMMENT 'key', c CHAR(3)) COMMENT 'what' PARTITIONED BY (d DATE) STORED AS ORC "
        "TBLPROPERTIES ('transactional'='true')"
    )
    assert catalog.tableExists("t")
    assert catalog.tableExists(f"{name}.shown")
    assert not catalog.tableExists("nothing")
    table = catalog.getTable("shown")
    assert table[:6] == ("shown", "spark_catalog", [name], "what", "MANAGED", False), table
    assert catalog.getTable("seen").tableType == "VIEW"
    columns = [(c.name, c.description, c.dataType, c.isPartition) for c in catalog.listColumns("shown")]
    assert columns == [("id", "key", "int", False), ("c", None, "string", False), ("d", None, "date", True)]
    assert [column.name for column in catalog.listColumns("seen")] == ["id"]
    catalog.refreshTable("t")
    assert not catalog.isCached("t")
    _require_refused("not cached by name", lambda: catalog.cacheTable("t"))
    # the name of a database or function may be that of a table
    assert not catalog.databaseExists("t")
    assert not catalog.functionExists("t")
    _require_refused("SCHEMA_NOT_FOUND", lambda: catalog.listTables("t"))
    _require_refused("use sql", lambda: catalog.createTable("t", schema=spark.table("t").schema).collect())


def _write(spark: SparkSession, name: str) -> None:
    """Write tables with Spark's writers."""
    acid = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
    spark.sql(f"CREATE TABLE w (id INT, v STRING) PARTITIONED BY (p INT) {acid}")

    def frame(*rows: tuple[Any, ...]) -> Any:
        return spark.createDataFrame(list(rows), "id int, v string, p int")

    def table() -> list[tuple[Any, ...]]:
        return _rows(spark.sql("SELECT * FROM w"))

    frame((1, "a", 1)).select("p", "v", "id").write.mode("append").saveAsTable("w")  # by name
    frame((2, "b", 2)).select("v", "p", "id").writeTo(f"{name}.w").append()
    frame((3, "c", 2)).toDF("x", "y", "z").write.insertInto("w")  # by position
    assert table() == [(1, "a", 1), (2, "b", 2), (3, "c", 2)]
    spark.table("w").where("id = 3").write.insertInto("w", overwrite=True)
    assert table() == [(1, "a", 1), (3, "c", 2)]
    frame((4, "d", 4)).writeTo("w").overwrite(F.lit(True))
    assert table() == [(4, "d", 4)]
    frame((5, "e", 5)).write.mode("ignore").saveAsTable("w")
    assert table() == [(4, "d", 4)]
    history = [row[0] for row in spark.sql("SELECT operation FROM w.history ORDER BY write_id").collect()]
    insert, overwrite = "INSERT", "INSERT OVERWRITE"
    assert history == ["CREATE TABLE", insert, insert, insert, overwrite, overwrite], history
    rows = frame((6, "f", 6))
    for what, call in (
        ("OVERWRITE", lambda: rows.write.mode("overwrite").saveAsTable("w")),
        ("OVERWRITE", lambda: rows.write.mode("overwrite").format("parquet").saveAsTable("w")),
        ("ALREADY_EXISTS", lambda: rows.write.saveAsTable("w")),
        ("ALREADY_EXISTS", lambda: rows.writeTo("w").create()),
        ("OVERWRITE", lambda: rows.writeTo("w").using("parquet").createOrReplace()),
        ("OVERWRITE", lambda: rows.writeTo("w").replace()),
        ("OVERWRITE", lambda: rows.writeTo("w").overwritePartitions()),
        ("INSERT INTO", lambda: rows.writeTo("w").overwrite(F.col("id") == 4)),
        ("missing v", lambda: rows.drop("v").writeTo("w").append()),
        ("unknown or duplicate x", lambda: rows.withColumn("x", F.lit(1)).writeTo("w").append()),
        ("rows have 2", lambda: rows.drop("v").write.insertInto("w")),
        ("does not fit int", lambda: rows.select("v", "v", "p").write.insertInto("w")),
        ("mergeSchema", lambda: rows.write.mode("append").option("mergeSchema", "true").saveAsTable("w")),
        ("use sql", lambda: rows.mergeInto("w", F.expr("w.id = 1")).whenNotMatched().insertAll().merge()),
        ("is a view", lambda: rows.select("id").write.mode("append").saveAsTable("seen")),
        ("use sql", lambda: _stream(spark)),
    ):
        _require_refused(what, call)
    assert table() == [(4, "d", 4)]
    # a temporary view of the name hides the table from queries; Spark would make a table of its own
    rows.createOrReplaceTempView("w")
    _require_refused("is a temporary view", lambda: rows.write.mode("append").saveAsTable("w"))
    _require_refused("is a temporary view", lambda: rows.writeTo("w").using("parquet").create())
    spark.catalog.dropTempView("w")
    assert table() == [(4, "d", 4)]
    # Spark's own tables are written as ever
    rows.write.mode("overwrite").option("path", tempfile.mkdtemp()).format("parquet").saveAsTable("theirs")
    rows.write.insertInto("theirs")
    assert _rows(spark.table("theirs")) == [(6, "f", 6)] * 2
    spark.table("w").write.insertInto("theirs")
    assert spark.table("theirs").count() == 3


def _stream(spark: SparkSession) -> None:
    rates = spark.readStream.format("rate").load().writeStream
    rates.option("checkpointLocation", tempfile.mkdtemp()).trigger(availableNow=True).toTable("w")


if __name__ == "__main__":
    client = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    for part in (_work, _read, _show, _write):
        part(client, sys.argv[2])
    client.stop()
    sys.stdout.write("done\n")
