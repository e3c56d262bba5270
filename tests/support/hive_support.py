"""A session with Hive support on an embedded Derby metastore; run by ``tests/spark/test_hive_support.py`` alone."""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import hiveacid
from hiveacid.errors import HiveAcidError
from support.exhaustive import sample
from support.quiet_spark import quiet_spark

ACID = "STORED AS ORC TBLPROPERTIES ('transactional'='true')"
REFUSED = """
SELECT * FROM h
SELECT * FROM (h)
SELECT * FROM (p JOIN h ON p.id = h.id)
SELECT * FROM seen
SELECT * FROM elsewhere.again
SELECT count(*) FROM default.h x JOIN spark_catalog.default.h y ON x.id = y.id
INSERT INTO h VALUES (1, 'a')
INSERT INTO TABLE default.h SELECT 1, 'a'
INSERT OVERWRITE TABLE h SELECT 1, 'a'
WITH s AS (SELECT 1 AS id, 'a' AS v) INSERT INTO h SELECT * FROM s
FROM (SELECT 1 AS id, 'a' AS v) INSERT INTO h SELECT id, v
CREATE TABLE other USING parquet AS SELECT * FROM h
CREATE VIEW over AS SELECT * FROM h
ANALYZE TABLE h COMPUTE STATISTICS
TRUNCATE TABLE h
ALTER TABLE h ADD COLUMNS (n INT)
ALTER TABLE h SET TBLPROPERTIES ('transactional'='false')
ALTER TABLE h RENAME TO h2
ALTER TABLE p SET TBLPROPERTIES ('transactional'='true')
LOAD DATA LOCAL INPATH '/nowhere' INTO TABLE h
MSCK REPAIR TABLE h
CACHE TABLE h
CREATE FUNCTION f() RETURNS INT RETURN SELECT max(id) FROM h
UPDATE h SET v = 'x'
DELETE FROM h
MERGE INTO h USING p ON h.id = p.id WHEN MATCHED THEN DELETE
DROP TABLE h
INSERT INTO IDENTIFIER('h') VALUES (1, 'a')
INSERT INTO TABLE IDENTIFIER('de' || 'fault.h') SELECT 1, 'a'
INSERT OVERWRITE IDENTIFIER('default.h') SELECT 1, 'a'
TRUNCATE TABLE IDENTIFIER('h')
DROP TABLE IDENTIFIER('h')
ALTER TABLE IDENTIFIER('h') ADD COLUMNS (n INT)
SELECT * FROM IDENTIFIER('h')
SELECT * FROM IDENTIFIER('seen')
SELECT (SELECT max(id) FROM IDENTIFIER('h'))
CREATE TABLE other USING parquet AS SELECT * FROM IDENTIFIER('h')
INSERT INTO p SELECT * FROM IDENTIFIER('h')
INSERT INTO IDENTIFIER('p') SELECT * FROM h
INSERT INTO /* a comment */ `h` SELECT 1, 'a'
INSERT INTO ${spark.test.table} VALUES (1, 'a')
WITH h AS (SELECT 1 AS id, 'a' AS v) INSERT INTO h SELECT * FROM h
INSERT INTO p SELECT * FROM h VERSION AS OF 1
DROP DATABASE doomed CASCADE
DROP DATABASE IDENTIFIER('doomed') CASCADE
"""
# Statements that Spark 3.5 does not know.
REFUSED_ON_4 = """
EXECUTE IMMEDIATE 'DROP TABLE h'
EXECUTE IMMEDIATE 'INSERT INTO ' || 'h VALUES (1)'
SET VAR seen = (SELECT max(id) FROM h)
BEGIN INSERT INTO h VALUES (1, 'a'); END
BEGIN IF 1 = 1 THEN TRUNCATE TABLE IDENTIFIER('h'); END IF; END
BEGIN USE doomed; INSERT INTO t VALUES (1); END
BEGIN USE DATABASE doomed; DROP TABLE t; END
BEGIN EXECUTE IMMEDIATE 'USE doomed'; TRUNCATE TABLE t; END
BEGIN DROP VIEW masked; DROP TABLE masked; END
"""
REFUSED_IN_DOUBLE_QUOTES = """
INSERT INTO "h" VALUES (1, 'a')
INSERT OVERWRITE "default"."h" SELECT 1, 'a'
TRUNCATE TABLE "h"
DROP TABLE "h"
SELECT * FROM "h"
SELECT * FROM "seen"
CREATE TABLE other USING parquet AS SELECT * FROM "h"
"""
DOUBLE_QUOTED = {"spark.sql.ansi.enabled": "true", "spark.sql.ansi.doubleQuotedIdentifiers": "true"}


def session(home: Path) -> SparkSession:
    settings = {
        "spark.log.level": "OFF",
        "spark.sql.warehouse.dir": str(home / "spark"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": f"jdbc:derby:;databaseName={home / 'metastore'};create=true",
    }
    return quiet_spark("hive support", settings, "local[1]").enableHiveSupport().getOrCreate()  # type: ignore[no-any-return]


def refused(what: str, use: object) -> None:
    try:
        found = use()  # type: ignore[operator]
        if isinstance(found, DataFrame):
            found.collect()
    except (HiveAcidError, PySparkException) as error:
        assert "transactional" in str(error), (what, repr(error))  # noqa: PT017 - no pytest here
        return
    raise AssertionError(what + " was not refused")


def refuse_all(spark: SparkSession, plain: SparkSession, statements: str) -> None:
    """Try each statement by the session itself and by one that reaches hiveacid only through Spark's parser."""
    for statement in sample(statements.strip().splitlines(), 4):
        refused(statement, lambda text=statement: spark.sql(text))
        refused(statement + " (from Java)", lambda text=statement: plain.sql(text))


def refuse_scripts(spark: SparkSession, plain: SparkSession) -> None:
    """Try statements of Spark 4; behind the temporary view ``masked`` there is a table of this name."""
    for one in (spark, plain):
        one.sql("CREATE OR REPLACE TEMPORARY VIEW masked AS SELECT 1 AS id")
    refuse_all(spark, plain, REFUSED_ON_4)
    for one in (spark, plain):
        one.catalog.dropTempView("masked")
    spark.sql("BEGIN USE default; SELECT * FROM default.p; END")


def warned(spark: SparkSession, home: Path) -> list[str]:
    """Return what `hiveacid.connect` logs."""
    said: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    logging.getLogger("hiveacid").addHandler(handler)
    hiveacid.connect(spark, warehouse=str(home / "another")).close()
    logging.getLogger("hiveacid").removeHandler(handler)
    return said


def main(home: Path) -> None:
    plain = session(home)
    plain.sql(f"CREATE TABLE h (id INT, v STRING) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}")
    plain.sql(f"CREATE TABLE masked (id INT) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}")
    plain.sql("CREATE TABLE p (id INT, v STRING) STORED AS ORC")
    plain.sql("CREATE VIEW seen AS SELECT id FROM h")
    plain.sql("CREATE DATABASE elsewhere")
    plain.sql("CREATE DATABASE doomed")
    plain.sql(f"CREATE TABLE doomed.t (id INT) CLUSTERED BY (id) INTO 2 BUCKETS {ACID}")
    plain.sql("CREATE VIEW elsewhere.again AS SELECT * FROM seen")
    (said,) = warned(plain, home)
    assert "spark.sql" in said
    builder = hiveacid.configure(SparkSession.builder, native=True, warehouse=str(home / "acid"))
    spark = builder.getOrCreate()
    assert warned(spark, home) == []
    spark.conf.set("spark.test.table", "h")
    refuse_all(spark, plain, REFUSED)
    if not spark.version.startswith("3."):
        refuse_scripts(spark, plain)
    before = {key: spark.conf.get(key) for key in DOUBLE_QUOTED}
    for key, value in DOUBLE_QUOTED.items():
        spark.conf.set(key, value)
    refuse_all(spark, plain, REFUSED_IN_DOUBLE_QUOTES)
    for key, old in before.items():
        spark.conf.set(key, str(old))
    assert [row[0] for row in plain.catalog.listTables() if row[0] == "h"] == ["h"]
    assert spark.sql("SHOW TABLES IN doomed").count() == 1
    rows = plain.range(1).selectExpr("CAST(id AS INT) AS id", "'a' AS v")
    refused("insertInto", lambda: rows.write.insertInto("h"))
    refused("saveAsTable", lambda: rows.write.mode("append").saveAsTable("h"))
    refused("table", lambda: spark.table("default.h"))
    refused("table of a view", lambda: spark.table("seen"))
    refused("read.table", lambda: spark.read.table("h"))
    if hasattr(spark.catalog, "dropDatabase"):
        for call in (
            lambda catalog: catalog.dropTable("h", ifExists=True),
            lambda catalog: catalog.dropView("seen"),
            lambda catalog: catalog.truncateTable("default.h"),
            lambda catalog: catalog.analyzeTable("h"),
            lambda catalog: catalog.dropDatabase("doomed", cascade=True),
        ):
            refused("spark.catalog", lambda call=call: call(spark.catalog))
    assert list((home / "spark" / "h").glob("*")) == []
    # what is not transactional is Spark's, and what is ours is not in its catalog
    spark.sql("INSERT INTO IDENTIFIER('p') VALUES (7, 'p')")
    spark.sql("CREATE DATABASE gone")
    spark.sql("CREATE TABLE gone.t (id INT) STORED AS ORC")
    spark.sql("DROP DATABASE gone CASCADE")
    assert spark.sql("SELECT * FROM p").count() == 1
    assert spark.sql("SELECT v, id AS h FROM p").collect()[0]["h"] == 7
    assert spark.sql("SELECT id, h FROM (SELECT id, v AS h FROM p)").count() == 1
    assert "transactional" in str(spark.sql("SHOW TBLPROPERTIES h").collect())
    spark.sql(f"CREATE TABLE ours (id INT, v STRING) {ACID}")
    spark.sql("INSERT INTO ours SELECT * FROM p")
    spark.sql("UPDATE ours SET v = 'x'")
    refused(
        "ANALYZE of ours", lambda: spark.sql("ALTER TABLE ours SET TBLPROPERTIES ('transactional'='false')")
    )
    assert [tuple(row) for row in spark.sql("SELECT * FROM ours").collect()] == [(7, "x")]
    spark.sql("TRUNCATE TABLE ours")
    assert spark.table("ours").count() == 0
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
