"""A module begins with a session in which no other one has left anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

from support.spark_leftovers import drop_leftovers, settings_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_views_settings_and_the_current_database_go(spark: SparkSession) -> None:
    settings = settings_of(spark)
    spark.range(3).createOrReplaceTempView("left_behind")
    spark.conf.set("spark.sql.shuffle.partitions", "77")
    spark.conf.set("hiveacid.left.behind", "1")
    spark.sql("CREATE DATABASE elsewhere")
    spark.sql("USE elsewhere")
    try:
        drop_leftovers(spark, settings)
        assert spark.catalog.currentDatabase() == "default"
        assert not [view for view in spark.catalog.listTables() if view.isTemporary]
        assert settings_of(spark) == settings
    finally:
        spark.sql("DROP DATABASE elsewhere")
