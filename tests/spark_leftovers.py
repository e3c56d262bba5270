"""What a test module may leave in the Spark session that the next one uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def drop_leftovers(spark: SparkSession) -> None:
    """Drop temporary views, go back to the default database: which module comes next differs from run to run."""
    catalogs: Any = spark._jsparkSession.sessionState().catalog()
    catalogs.clearTempTables()
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.catalog.setCurrentDatabase("default")
