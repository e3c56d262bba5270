"""Partition values that are canonical already become texts without a query, as Spark's query would give them."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

import pytest

from hiveacid.core.model import Column
from hiveacid.spark.formats import file_columns
from hiveacid.spark.session.environment import SparkEnvironment

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Colour(str, Enum):  # noqa: UP042 - the case
    """A text that an f-string shows as ``Colour.RED``."""

    RED = "red"


VALUES = [
    ("int", 7), ("int", "7"), ("int", -1), ("int", 0), ("bigint", 1 << 62), ("tinyint", -128), ("smallint", "32767"),
    ("string", "a"), ("string", " a "), ("string", ""), ("string", "01"), ("string", "ä/b=c"),
    ("string", "__HIVE_DEFAULT_PARTITION__"), ("int", None),
    ("int", "01"), ("int", "+7"), ("int", "-0"), ("int", " 7"), ("string", 7), ("int", True), ("string", Colour.RED), ("tinyint", 128),
    ("tinyint", "x"), ("varchar(2)", "abc"), ("date", "2026-01-01"), ("decimal(5,2)", 7), ("boolean", "true"),
]  # fmt: skip


@pytest.mark.parametrize("policy", ["ansi", "legacy", "strict"])
def test_they_are_those_of_a_query(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, policy: str) -> None:
    env = SparkEnvironment(spark)
    before = str(spark.conf.get("spark.sql.storeAssignmentPolicy"))
    spark.conf.set("spark.sql.storeAssignmentPolicy", policy)

    def texts() -> list[object]:
        found: list[object] = []
        for kind, value in VALUES:
            try:
                answer = file_columns.partition_values_as_text(env, {"p": Column("p", kind)}, {"p": value})
                found.append((kind, value, answer["p"]))
            except Exception as error:  # noqa: BLE001 - the same kind of error
                found.append((kind, value, type(error)))
        return found

    try:
        quick = texts()
        monkeypatch.setattr(file_columns, "_plain_text", lambda *_: None)
        assert quick == texts()
        assert {type(found) for *_, found in quick} <= {str, type(None), type}
        assert quick[:4] == [("int", 7, "7"), ("int", "7", "7"), ("int", -1, "-1"), ("int", 0, "0")]
        # Spark, too, takes a text for a whole number here under each policy: it has static values as texts only
        spark.sql("CREATE TABLE of_spark (id INT, p INT) USING parquet PARTITIONED BY (p)")
        spark.sql("INSERT INTO of_spark PARTITION (p = '7') VALUES (1)")
        assert [row.p for row in spark.sql("SELECT p FROM of_spark").collect()] == [7]
    finally:
        spark.sql("DROP TABLE IF EXISTS of_spark")
        spark.conf.set("spark.sql.storeAssignmentPolicy", before)


@pytest.mark.parametrize("kind", ["timestamp", "string"])
def test_a_wall_clock_stays_itself_in_every_time_zone(spark: SparkSession, kind: str) -> None:
    """PySpark takes a datetime for one of the zone of this process."""
    env, before = SparkEnvironment(spark), str(spark.conf.get("spark.sql.session.timeZone"))
    try:
        for zone in ("America/New_York", "Asia/Kolkata"):
            spark.conf.set("spark.sql.session.timeZone", zone)
            row = spark.sql("SELECT TIMESTAMP_NTZ'2024-01-01 00:30:00.5'").first()
            assert row is not None
            answer = file_columns.partition_values_as_text(env, {"p": Column("p", kind)}, {"p": row[0]})
            assert answer == {"p": "2024-01-01 00:30:00.5"}
    finally:
        spark.conf.set("spark.sql.session.timeZone", before)


def test_plain_values_need_no_session() -> None:
    columns = {"p": Column("p", "int"), "q": Column("q", "string")}
    nothing: SparkEnvironment = None  # type: ignore[assignment] # it would fail
    assert file_columns.partition_values_as_text(nothing, columns, {"p": 7, "q": "b"}) == {"p": "7", "q": "b"}
