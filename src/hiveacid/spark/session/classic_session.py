"""A classic Spark session: plans as DataFrames, and the databases, tables and views of Spark's own catalogs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from py4j.java_gateway import JavaClass, JavaObject, JVMView
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame

from hiveacid.config.property_definitions import TRANSACTIONAL
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import is_unsupported_metastore
from hiveacid.spark.session.jvm import (
    java_class,
    java_packages,
    parser_of,
    scala_items,
    scala_sequence,
    session_of,
)

ANOTHER_CATALOG = "(another catalog)"
"""Name of the current database while a name without one is Spark's alone. No database has this name."""
_FIRST_PATH_VERSION = (4, 3)


def current_database(env: SparkEnvironment) -> str:
    """Return the session's current database; `ANOTHER_CATALOG` if the current catalog is not Spark's own.

    Also with a SQL PATH (Spark 4.3), because Spark then looks for names in several databases.
    """
    if env.catalog_manager.currentCatalog().name() != "spark_catalog" or _has_sql_path(env):
        return ANOTHER_CATALOG
    return str(env.session_catalog.getCurrentDatabase()).lower()


def _has_sql_path(env: SparkEnvironment) -> bool:
    """Tell whether the session has a SQL PATH (``SET PATH``, ``spark.sql.defaultPath``)."""
    if env.version < _FIRST_PATH_VERSION:
        return False
    conf = env.state.conf()
    if str(conf.getConfString("spark.sql.path.enabled", "false")).lower() != "true":
        return False
    set_by_statement = bool(env.catalog_manager.sessionPathEntries().isDefined())
    return set_by_statement or bool(conf.getConfString("spark.sql.defaultPath", ""))


def set_current_database(env: SparkEnvironment, name: str) -> None:
    """Make a database of Spark's own catalog the session's current one."""
    frame_of_plan(env, env.parser.parsePlan(f"USE spark_catalog.{quote_name(name)}")).collect()


def has_database(env: SparkEnvironment, name: str) -> bool:
    """Tell whether Spark's own catalog has a database."""
    return bool(env.session_catalog.databaseExists(name))


def external_catalog(env: SparkEnvironment) -> JavaObject:
    """Return the JVM's object behind Spark's own catalog, which changes it without resolving names."""
    return env.session_catalog.externalCatalog()


def spark_catalog_tables(env: SparkEnvironment, database: str) -> list[str]:
    """Return the tables and views of a database of Spark's own catalog; none if the database does not exist."""
    catalog = external_catalog(env)
    if not catalog.databaseExists(database):
        return []
    return [str(name).lower() for name in scala_items(catalog.listTables(database))]


@dataclass(frozen=True)
class SparkCatalogTable:
    """A table or view of Spark's own catalog; ``text``: a view's query, whose names are resolved in ``database``."""

    transactional: bool
    text: str | None
    database: str


def spark_catalog_table(env: SparkEnvironment, database: str, table: str) -> SparkCatalogTable | None:
    """Return the table or view of this name in Spark's own catalog; None if there is none."""
    catalog = external_catalog(env)
    try:
        if not catalog.tableExists(database, table):
            return None
    except Exception as error:
        if not is_unsupported_metastore(error):
            raise
        return None
    entry = catalog.getTable(database, table)
    property_, text = entry.properties().get(TRANSACTIONAL.name), entry.viewText()
    transactional = bool(property_.isDefined()) and str(property_.get()).lower() == "true"
    if text.isEmpty():
        return SparkCatalogTable(transactional, None, database)
    # Empty for a view that Hive created, whose names are all qualified.
    namespace = list(scala_items(entry.viewCatalogAndNamespace()))
    return SparkCatalogTable(transactional, str(text.get()), str(namespace[-1]) if namespace else database)


def create_database(env: SparkEnvironment, name: str) -> None:
    """Create a database in Spark's own catalog, whatever the current one is, unless it exists."""
    if not has_database(env, name):
        text = f"CREATE DATABASE IF NOT EXISTS spark_catalog.{quote_name(name)}"
        frame_of_plan(env, env.parser.parsePlan(text)).collect()


def frame_of_plan(env: SparkEnvironment, plan: JavaObject) -> DataFrame:
    """Return a plan of Spark's parser as a DataFrame; if the plan is a command, this call runs it."""
    return DataFrame(dataset_class(env).ofRows(session_of(env), plan), env.spark)


def frame_of_text(env: SparkEnvironment, text: str) -> DataFrame:
    """Return the result of a query that hiveacid itself writes, without tables and parameters.

    Spark's own parser reads it: through the session's, hiveacid would bind it once more (30 round trips).
    """
    return frame_of_plan(env, parser_of(env).parsePlan(text))


def dataset_class(env: SparkEnvironment) -> JavaClass:
    """Return the JVM's class that makes a Dataset of a plan."""
    sql = java_packages(env.spark).org.apache.spark.sql
    return sql.Dataset if env.version < (4, 0) else sql.classic.Dataset


def in_session(env: SparkEnvironment, frame: DataFrame) -> DataFrame:
    """Return a DataFrame in the session of a connection, even if it was made in another one.

    Expressions that are added to it then have the connection's settings, and so have the jobs that write it. Frames of
    streaming queries (``foreachBatch``) and of ``newSession()`` have other sessions.
    """
    if session_of(env).equals(frame.sparkSession._jsparkSession):  # noqa: SLF001
        return frame
    return frame_of_plan(env, rows_of(frame))


def plan_of(frame: DataFrame) -> JavaObject:
    """Return a DataFrame's analysed plan."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def unsteady_expression(frame: DataFrame) -> str | None:
    """Return an expression of a DataFrame that may have another value each time (``rand()``); None if there is none."""
    node = plan_of(frame)
    if node.deterministic():
        return None
    while (below := _first_unsteady(node.children())) is not None:
        node = below
    expression: JavaObject = _first_unsteady(node.expressions())
    while (below := _first_unsteady(expression.children())) is not None:
        expression = below
    return str(expression.sql())


def at_one_moment(env: SparkEnvironment, frames: Sequence[DataFrame]) -> list[DataFrame]:
    """Return DataFrames with one moment for ``current_timestamp()`` and the like; each alone would take that of its own run."""
    patterns = java_class(env, "org.apache.spark.sql.catalyst.trees.TreePattern")
    plans = [plan_of(frame) for frame in frames]
    if not any(plan.containsPattern(patterns.CURRENT_LIKE()) for plan in plans):
        return list(frames)
    union = java_class(env, "org.apache.spark.sql.catalyst.plans.logical.Union")
    rule = java_class(env, "org.apache.spark.sql.catalyst.optimizer.ComputeCurrentTime")
    together = rule.apply(union(scala_sequence(env, plans), False, False))  # noqa: FBT003 - Scala's defaults
    return [frame_of_plan(env, plan) for plan in scala_items(together.children())]


def _first_unsteady(nodes: JavaObject) -> JavaObject | None:
    return next((node for node in scala_items(nodes) if not node.deterministic()), None)


def rows_of(frame: DataFrame) -> JavaObject:
    """Return a DataFrame's analysed plan; of a command, which has run, the plan of its result."""
    return frame._jdf.queryExecution().commandExecuted()  # noqa: SLF001


def command_result_of(frame: DataFrame) -> JavaObject:
    """Return the plan of a command that has run, with the rows of a DataFrame.

    For any other plan, Spark Connect keeps only the text of the statement, and runs it again when a client asks for rows.
    """
    execution = frame._jdf.queryExecution()  # noqa: SLF001
    jvm: JVMView = frame.sparkSession._jvm  # noqa: SLF001
    logical, physical = execution.analyzed(), execution.executedPlan()
    rows = jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(physical.executeCollect()))
    return jvm.org.apache.spark.sql.catalyst.plans.logical.CommandResult(
        logical.output(), logical, physical, rows
    )


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
