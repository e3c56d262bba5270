"""Temporary views that bind table names to snapshots while Spark analyses a statement."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from hiveacid.core.schema.types import quote_name
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.error_translation import is_unsupported_metastore
from hiveacid.spark.session.plan_lifetime import keep_plans_alive


def drop_view(facts: SparkFacts, name: str) -> None:
    """Drop a view; plans made from it stay valid.

    ``spark.catalog.dropTempView`` would also uncache data that the user has cached with an equal plan. On a classic
    session the view is therefore dropped through the session catalog.
    """
    if facts.classic:
        _session_catalog(facts).dropTempView(name)
    else:
        facts.spark.catalog.dropTempView(name)


def query_views(facts: SparkFacts, text: str, views: Mapping[str, DataFrame]) -> DataFrame:
    """Return the rows of a query over temporary views of frames, which may be dropped before it runs.

    A plan of Spark Connect is only a text until it runs, so there it includes the plans of the views. The query is
    analysed at once, so that errors in its text are raised here.
    """
    if facts.classic:
        return facts.spark.sql(text)
    named = {name: frame for name, frame in views.items() if name in text}
    if named:
        text = text.replace("{", "{{").replace("}", "}}")  # sql() would replace names between braces
        for name in named:
            text = text.replace(name, f"{{{name}}}")
    arguments: dict[str, Any] = dict(named)
    return keep_plans_alive(analyse(facts, facts.spark.sql(text, **arguments)), named.values())


def analyse(facts: SparkFacts, frame: DataFrame) -> DataFrame:
    """Return an analysed frame, on Connect as on classic sessions. Raises Spark's error."""
    if not facts.classic:
        frame.schema  # noqa: B018 - asks the server
    return frame


def is_temporary_view(facts: SparkFacts, name: str) -> bool:
    """Tell whether the user has created a temporary view of this name."""
    if facts.classic:
        return bool(_session_catalog(facts).getTempView(name).isDefined())
    views = facts.spark.catalog.listTables()
    return any(view.isTemporary and view.name.lower() == name.lower() for view in views)


def exists_in_spark(facts: SparkFacts, parts: Sequence[str]) -> bool:
    """Tell whether Spark's own catalogs have a table or view of this name (global temporary views too)."""
    name = ".".join(map(quote_name, parts))
    try:
        return bool(facts.spark.catalog.tableExists(name))
    except AnalysisException as error:
        if "REQUIRES_SINGLE_PART_NAMESPACE" in str(error):  # a name of three parts, the first no catalog
            return False
        if is_unsupported_metastore(error):
            return False
        raise


def _session_catalog(facts: SparkFacts) -> Any:
    return facts.spark._jsparkSession.sessionState().catalog()  # noqa: SLF001
