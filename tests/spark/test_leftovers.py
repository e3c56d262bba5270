"""A module begins with a session in which no other one has left anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spark_leftovers import drop_leftovers

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_views_and_the_current_database_go(spark: SparkSession) -> None:
    spark.range(3).createOrReplaceTempView("left_behind")
    spark.sql("CREATE DATABASE elsewhere")
    spark.sql("USE elsewhere")
    try:
        drop_leftovers(spark)
        assert spark.catalog.currentDatabase() == "default"
        assert not [view for view in spark.catalog.listTables() if view.isTemporary]
    finally:
        spark.sql("DROP DATABASE elsewhere")
