"""An archive of Spark's classes for the JVMs of the tests: python tests/support/servers/class_archive.py.

A JVM that maps the archive (class data sharing) neither parses nor verifies these classes. Starting a session and its
first statements then cost half of the CPU. Where the archive is missing or does not fit, a JVM goes on without it.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from pathlib import Path
from typing import Any

ARCHIVE = Path(sys.prefix) / "classes.jsa"
# Short queries on little data: most of a JVM's time would go into optimising what runs once.
# With one level the JVM keeps 48 MB of compiled code, which a few SQL scripts fill: then it drops and compiles it anew.
_QUICK = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:ReservedCodeCacheSize=240m"
    # Room from the start, instead of a full collection each time that the heap or the space of classes grows.
    " -XX:InitialRAMPercentage=5 -XX:MetaspaceSize=256m"
)
LONG_LIVED = "-XX:TieredStopAtLevel=4 -XX:ReservedCodeCacheSize=400m"
"""What takes back `_QUICK` for a session that lives through hundreds of tests: the planner's code is worth optimising there.

Behind the other options, as ``spark.driver.extraJavaOptions`` is. With it 134 tests took 384 s instead of 419 s, beside each other.
"""
_PATIENCE = 300.0  # seconds
_STATEMENTS = (
    "CREATE TABLE t (id INT, v STRING) TBLPROPERTIES ('transactional'='true')",
    "INSERT INTO t VALUES (1, 'a'), (2, 'b')",
    "UPDATE t SET v = 'c' WHERE id = 1",
    "MERGE INTO t USING (SELECT 2 AS id) s ON t.id = s.id WHEN MATCHED THEN DELETE WHEN NOT MATCHED THEN INSERT VALUES (3, 'd')",
    "SELECT v, count(*) FROM t GROUP BY v",
)


def java_options(archive: Path = ARCHIVE) -> str:
    """Return the options of a JVM that tests start; it says nothing about an archive that does not fit."""
    if not archive.exists():
        return _QUICK
    return f"{_QUICK} {shlex.quote(f'-XX:SharedArchiveFile={archive}')} -Xlog:disable"


def make() -> None:
    """Let a session run a few statements, and its JVM write down the classes that they needed."""
    from pyspark.sql import SparkSession  # noqa: PLC0415

    import hiveacid  # noqa: PLC0415

    made = ARCHIVE.with_suffix(f".{os.getpid()}")  # moved as a whole: JVMs may start meanwhile
    options = f"{_QUICK} {shlex.quote(f'-XX:ArchiveClassesAtExit={made}')} -Xlog:disable"
    with tempfile.TemporaryDirectory() as scratch:
        builder: Any = hiveacid.configure(SparkSession.builder.master("local[2]"))
        for key, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.log.level": "ERROR",
            "spark.driver.extraJavaOptions": options,
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.host": "127.0.0.1",
            "spark.sql.shuffle.partitions": "1",
            "spark.sql.warehouse.dir": f"{scratch}/spark",
        }.items():
            builder = builder.config(key, value)
        spark: Any = builder.getOrCreate()
        with hiveacid.connect(spark, warehouse=f"{scratch}/warehouse") as acid:
            for statement in _STATEMENTS:
                acid.sql(statement).collect()
        process = spark.sparkContext._gateway.proc
        spark.stop()
        process.stdin.close()  # which ends it
        if process.wait(_PATIENCE):
            raise RuntimeError("the JVM did not write the archive")
    made.replace(ARCHIVE)


if __name__ == "__main__":
    os.environ.pop("SPARK_DIST_CLASSPATH", None)  # what tests add comes behind the classes of the archive
    make()
