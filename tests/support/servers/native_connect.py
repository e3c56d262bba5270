"""A Spark Connect server inside the tests' JVM, whose sessions are copies of a native one; and its plain client.

``python -m support.servers.native_connect ADDRESS NAME`` is the client: a process without hiveacid's session and JVM.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

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
        ("use sql", lambda: spark.catalog.tableExists("t")),
        ("use sql", lambda: spark.catalog.listColumns("t")),
        ("use sql", lambda: news.write.insertInto("t")),
        ("use sql", lambda: news.writeTo("t").append()),
        ("TABLE_OR_VIEW_NOT_FOUND", lambda: spark.table("t").collect()),
    ):
        try:
            call()
        except PySparkException as error:
            first = str(error).strip().splitlines()[0]
            assert what in first, first
        else:
            raise AssertionError(what)
    assert len(run("SELECT * FROM t")) == 3


if __name__ == "__main__":
    client = SparkSession.builder.remote(sys.argv[1]).getOrCreate()
    _work(client, sys.argv[2])
    client.stop()
    sys.stdout.write("done\n")
