"""Builders of small Spark sessions for tests: no web page, no progress bars, no network but this machine's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def quiet_spark(
    name: str, settings: Mapping[str, str], master: str = "local[2]", *, shuffles: int = 1
) -> Any:
    """Return a builder; ``settings`` win over its own, ``shuffles`` is the number of partitions of a shuffle."""
    from pyspark.sql import SparkSession  # noqa: PLC0415 - tests without Spark import it, too

    builder: Any = SparkSession.builder.master(master).appName(name)
    common = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": str(shuffles),
    }
    for key, value in {**common, **settings}.items():
        builder = builder.config(key, value)
    return builder
