"""Temporary views that stand for a snapshot while Spark analyses a statement's text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from hiveacid.core.types import quote_name

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.spark.session import SparkFacts


def create_view(frame: DataFrame, name: str) -> None:
    """Name a DataFrame for SQL text; the view keeps its analysed plan, not its text."""
    frame.createOrReplaceTempView(name)


def drop_view(facts: SparkFacts, name: str) -> None:
    """Forget a view. Plans made from it go on.

    ``spark.catalog.dropTempView`` would also uncache whatever the user cached with an equal plan, so a classic
    session is asked one level below.
    """
    if facts.classic:
        _session_catalog(facts).dropTempView(name)
    else:
        facts.spark.catalog.dropTempView(name)


def is_temporary_view(facts: SparkFacts, name: str) -> bool:
    """Tell whether the user made a temporary view of this name."""
    if facts.classic:
        return bool(_session_catalog(facts).getTempView(name).isDefined())
    views = facts.spark.catalog.listTables()
    return any(view.isTemporary and view.name.lower() == name.lower() for view in views)


def spark_knows(facts: SparkFacts, parts: Sequence[str]) -> bool:
    """Tell whether Spark's own catalogs have a table or view of this name (global temporary views too)."""
    name = ".".join(map(quote_name, parts))
    return bool(facts.spark.catalog.tableExists(name))


def _session_catalog(facts: SparkFacts) -> Any:
    return facts.spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
