"""What a test module may leave in the Spark session that the next one uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def settings_of(spark: SparkSession) -> dict[str, str]:
    """Say what the session is set to; nothing before Spark 4, whose Python cannot ask."""
    return dict(getattr(spark.conf, "getAll", {}))


def drop_leftovers(spark: SparkSession, settings: dict[str, str]) -> None:
    """Drop temporary views, go back to the default database and to ``settings``: which module comes next is open."""
    catalogs: Any = spark._jsparkSession.sessionState().catalog()
    catalogs.clearTempTables()
    spark.catalog.setCurrentCatalog("spark_catalog")
    spark.catalog.setCurrentDatabase("default")
    now = settings_of(spark)
    for key in now.keys() - settings.keys():
        spark.conf.unset(key)
    for key, value in settings.items():
        if now.get(key) != value:
            spark.conf.set(key, value)


def drop_own_tables(spark: SparkSession) -> None:
    """Drop the databases, tables and views of Spark's own catalog; its warehouse lasts as long as the process."""
    spark.catalog.setCurrentDatabase(
        "default"
    )  # a test may have left the session in a database that goes now
    for database in spark.catalog.listDatabases():
        if database.name != "default":
            spark.sql(f"DROP DATABASE `{database.name}` CASCADE")
    for table in spark.catalog.listTables("default"):
        if not table.isTemporary:
            spark.sql(f"DROP {'VIEW' if table.tableType == 'VIEW' else 'TABLE'} default.`{table.name}`")
