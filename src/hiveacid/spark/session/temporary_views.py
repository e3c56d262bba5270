"""Temporary views of the user, and tables of Spark's own catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from hiveacid.core.schema.types import quote_name
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import in_session
from hiveacid.spark.session.error_translation import is_unsupported_metastore


def drop_view(env: SparkEnvironment, name: str) -> None:
    """Drop a view; plans made from it stay valid.

    ``spark.catalog.dropTempView`` would also uncache data that the user has cached with an equal plan. The view is
    therefore dropped through the session catalog.
    """
    env.session_catalog.dropTempView(name)


@contextmanager
def filled_in(env: SparkEnvironment, text: str, values: Mapping[str, object]) -> Iterator[str]:
    """Yield a text with values in its ``{name}`` fields, as Spark's ``sql`` does; a DataFrame is a view during the block.

    The view belongs to this session even if the DataFrame belongs to that of a streaming query (``foreachBatch``).
    """
    from pyspark.sql.sql_formatter import SQLStringFormatter  # noqa: PLC0415 - only for such values

    formatter = SQLStringFormatter(env.spark)
    here = {
        name: in_session(env, value) if isinstance(value, DataFrame) else value
        for name, value in values.items()
    }
    try:
        yield formatter.format(text, **here)
    finally:
        for _, view in formatter._temp_views:  # noqa: SLF001 - its clear() would uncache the DataFrame
            drop_view(env, view)


def batch_hint(env: SparkEnvironment) -> str:
    """Return the end of an error about a missing table inside ``foreachBatch``; empty elsewhere."""
    if env.spark.sparkContext.getLocalProperty("sql.streaming.queryId") is None:
        return ""
    return (
        "; a temporary view of a batch belongs to the session of its streaming query: write {batch} in the text, and pass "
        "the DataFrame: acid.sql(text, batch=frame)"
    )


def is_temporary_view(env: SparkEnvironment, name: str) -> bool:
    """Tell whether the user has created a temporary view of this name."""
    return bool(env.session_catalog.getTempView(name).isDefined())


def exists_in_spark(env: SparkEnvironment, parts: Sequence[str]) -> bool:
    """Tell whether Spark's own catalogs have a table or view of this name (global temporary views too)."""
    name = ".".join(map(quote_name, parts))
    try:
        return bool(env.spark.catalog.tableExists(name))
    except AnalysisException as error:
        if "REQUIRES_SINGLE_PART_NAMESPACE" in str(error):  # a name of three parts, the first no catalog
            return False
        if is_unsupported_metastore(error):
            return False
        raise
