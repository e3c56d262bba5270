"""A native session with Hive support whose own catalog is the metastore that is our store; a program, for its JVM's sake."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid.errors import HiveAcidError

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
OURS = """
INSERT INTO g VALUES (3, 'c')
INSERT INTO TABLE default.g SELECT 4, 'd'
WITH s AS (SELECT 5 AS id, 'e' AS v) INSERT INTO g SELECT * FROM s
FROM (SELECT 6 AS id, 'f' AS v) x INSERT INTO g SELECT id, v
UPDATE g SET v = 'x' WHERE id = 3
DELETE FROM g WHERE id = 4
MERGE INTO g USING (SELECT 5 AS id) s ON g.id = s.id WHEN MATCHED THEN DELETE
ALTER TABLE g SET TBLPROPERTIES ('note'='ours')
ALTER TABLE g CHANGE COLUMN v v STRING COMMENT 'ours'
"""
LEFT = [(1, "a"), (2, "b"), (3, "x"), (6, "f")]
REFUSED = """
ALTER TABLE g SET TBLPROPERTIES ('transactional'='false')
ALTER TABLE g SET LOCATION '/elsewhere'
ALTER TABLE g SET SERDEPROPERTIES ('a'='b')
ALTER TABLE g RECOVER PARTITIONS
ANALYZE TABLE g COMPUTE STATISTICS
MSCK REPAIR TABLE g
CACHE LAZY TABLE c AS SELECT * FROM g
"""


def rows(frame: DataFrame) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def refused(what: str, use: Callable[[], object]) -> None:
    try:
        found = use()
        if isinstance(found, DataFrame):
            found.collect()
    except (HiveAcidError, PySparkException):
        return
    raise AssertionError(what + " was not refused")


def files(place: Path) -> set[str]:
    """Return what no transaction of ours would have written."""
    return {str(one) for one in place.rglob("part-*")} | {
        str(one) for one in place.iterdir() if one.is_file() and not one.name.startswith(("_", "."))
    }


def main(url: str, scratch: str, *, sparks_catalog_works: bool) -> None:
    """Run statements on a transactional table by all ways into Spark's SQL; AssertionError tells what is wrong."""
    plain = (
        SparkSession.builder.master("local[1]")
        .enableHiveSupport()
        .config("spark.hadoop.hive.metastore.uris", url.partition("?")[0])
        .config("spark.sql.warehouse.dir", f"{scratch}/spark")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.log.level", "OFF")
        .getOrCreate()
    )
    spark = hiveacid.configure(SparkSession.builder, native=True, store=url).getOrCreate()
    spark.sql(f"CREATE TABLE g (id INT, v STRING) {ACID}")
    spark.sql("INSERT INTO g VALUES (1, 'a'), (2, 'b')")
    if sparks_catalog_works:
        assert spark.sparkContext._jvm is not None
    for number, statement in enumerate(OURS.strip().splitlines()):
        (spark if number % 2 else plain).sql(statement).collect()
    for session in (spark, plain, spark.newSession()):
        assert rows(session.sql("SELECT * FROM g")) == LEFT, rows(session.sql("SELECT * FROM g"))
        assert rows(
            session.sql("SELECT x.id FROM default.g x JOIN spark_catalog.default.g y USING (id)")
        ) == [(row[0],) for row in LEFT]
    assert rows(spark.table("default.g")) == rows(spark.read.table("g")) == LEFT
    for statement in REFUSED.strip().splitlines():
        refused(statement, lambda text=statement: spark.sql(text))  # type: ignore[misc]
        refused(statement + " (from Java)", lambda text=statement: plain.sql(text))  # type: ignore[misc]
    frame = plain.range(1).selectExpr("CAST(id AS INT) AS id", "'a' AS v")
    # hiveacid writes in both sessions
    for one in (frame, spark.createDataFrame([(0, "a")], "id INT, v STRING")):
        one.write.insertInto("g")
        one.writeTo("g").append()
        assert rows(spark.sql("SELECT * FROM g")) == [(0, "a"), (0, "a"), *LEFT]
        spark.sql("DELETE FROM g WHERE id = 0").collect()
    table = spark.acid.table("g")
    assert table.definition.property("note") == "ours"
    assert files(Path(table.definition.location)) == set()
    assert rows(spark.sql("SELECT * FROM g")) == LEFT
    if sparks_catalog_works:
        spark.sql("CREATE TABLE flat (id INT) USING json").collect()
        spark.sql("INSERT INTO flat SELECT id FROM g WHERE id < 3").collect()
        assert rows(spark.sql("SELECT flat.id, g.v FROM flat JOIN g USING (id)")) == [(1, "a"), (2, "b")]
    spark.sql("DROP TABLE g")
    assert spark.acid.context.catalog.list_tables("default").count("g") == 0
    sys.stdout.write("ok\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sparks_catalog_works=sys.argv[3] == "3")
