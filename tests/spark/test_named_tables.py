"""Names of the tables in a statement, as Spark's parsed plan holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.parser.relations import named_tables
from hiveacid.spark.session.environment import SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NAMES = {
    "INSERT INTO /* x */ `H` -- y\n SELECT * FROM d.`s`": ["d.s", "h"],
    "WITH s AS (SELECT 1), h AS (SELECT * FROM s) INSERT INTO h SELECT * FROM h": ["h"],
    "WITH h AS (SELECT * FROM h) SELECT * FROM h": ["h"],
    "FROM (SELECT 1 AS a) INSERT INTO h SELECT a INSERT INTO h2 SELECT a": ["h", "h2"],
    "DELETE FROM h WHERE id IN (SELECT id FROM g WHERE EXISTS (TABLE k))": ["g", "h", "k"],
    "MERGE INTO h USING p ON h.id = p.id WHEN MATCHED THEN DELETE": ["h", "p"],
    "CREATE TABLE n LIKE h": ["h", "n"],
    "CREATE TEMPORARY VIEW v AS SELECT * FROM h": ["h"],
    "CACHE TABLE c AS SELECT * FROM h": ["h"],
    "LOAD DATA INPATH '/x' INTO TABLE h": ["h"],
    "EXPLAIN SELECT * FROM h": ["h"],
    "DROP TABLE IDENTIFIER('d.h')": ["d.h"],
    "SELECT * FROM IDENTIFIER('h') VERSION AS OF 1": ["h"],
    "INSERT INTO IDENTIFIER('h') SELECT * FROM s": ["h", "s"],
    "DROP TEMPORARY FUNCTION h": [],
    "this is no statement": [],
}
COMPUTED = ["SELECT (SELECT max(id) FROM IDENTIFIER('h' || 'i'))", "DROP TABLE IDENTIFIER(:name)"]
SINCE_4 = {
    "EXECUTE IMMEDIATE 'DROP TABLE h'": ["h"],
    "SET VAR x = (SELECT max(id) FROM h)": ["h"],
    "CREATE FUNCTION f() RETURNS INT RETURN SELECT max(id) FROM IDENTIFIER('h')": ["h"],
    "BEGIN IF EXISTS (SELECT 1 FROM g) THEN INSERT INTO h VALUES (1); ELSE DROP TABLE k; END IF; END": [
        "g",
        "h",
        "k",
    ],
    "BEGIN WHILE (SELECT max(id) FROM g) > 1 DO TRUNCATE TABLE h; END WHILE; END": ["g", "h"],
    "BEGIN FOR r AS SELECT * FROM g DO UPDATE h SET a = r.a; END FOR; END": ["g", "h"],
    "BEGIN DECLARE EXIT HANDLER FOR SQLEXCEPTION BEGIN DROP TABLE h; END; TABLE g; END": ["g", "h"],
}


def found(spark: SparkSession, text: str) -> list[str]:
    return sorted({".".join(name) for name in named_tables(SparkEnvironment(spark), text)})


def test_a_plan_names_what_a_statement_reads_and_writes(spark: SparkSession) -> None:
    assert {text: found(spark, text) for text in NAMES} == NAMES


def test_scripts_functions_and_immediate_statements_are_looked_into(spark: SparkSession) -> None:
    if SparkEnvironment(spark).version < (4, 1):
        pytest.skip("Spark 4.1 is the first whose grammar has all of these")
    assert {text: found(spark, text) for text in SINCE_4} == SINCE_4
    with pytest.raises(UnsupportedFeatureError, match="EXECUTE IMMEDIATE"):
        found(spark, "BEGIN EXECUTE IMMEDIATE 'DROP ' || 'TABLE h'; END")


@pytest.mark.parametrize("text", COMPUTED)
def test_computed_names_are_refused(spark: SparkSession, text: str) -> None:
    with pytest.raises(UnsupportedFeatureError, match="computed when the statement runs"):
        found(spark, text)


def test_names_in_double_quotes(spark: SparkSession) -> None:
    switches = ("spark.sql.ansi.enabled", "spark.sql.ansi.doubleQuotedIdentifiers")
    before = {key: spark.conf.get(key) for key in switches}
    try:
        for key in switches:
            spark.conf.set(key, "true")
        assert found(spark, 'INSERT INTO "d"."H" SELECT "a" FROM "s"') == ["d.h", "s"]
    finally:
        for key, value in before.items():
            spark.conf.set(key, value or "false")
