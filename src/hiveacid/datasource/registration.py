"""Making ``format("hiveacid")`` known to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.session.capabilities import SparkFacts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def can_register(spark: SparkSession) -> bool:
    """Tell whether a session takes data sources in Python: Spark 4.0 and later, classic and Connect."""
    return int(spark.version.partition(".")[0]) >= 4  # noqa: PLR2004 - Spark's major version


def register(spark: SparkSession) -> None:
    """Make ``format("hiveacid")`` known to a session; again does nothing. Raises UnsupportedFeatureError before Spark 4."""
    if not can_register(spark):
        raise UnsupportedFeatureError(
            f'format("hiveacid") needs Spark 4.0 or later, this is {spark.version}: write streams by '
            "foreachBatch(t.stream_writer(...))"
        )
    SparkFacts(spark).apply_settings()  # again, too: RESET takes them from the session, the source stays
    if _is_registered(spark):
        return
    from hiveacid.datasource.source import HiveAcidDataSource  # noqa: PLC0415 - Spark 3.5 has no such API

    spark.dataSource.register(HiveAcidDataSource)


def _is_registered(spark: SparkSession) -> bool:
    session = getattr(spark, "_jsparkSession", None)
    return session is not None and bool(
        session.sessionState().dataSourceManager().dataSourceExists("hiveacid")
    )
