"""Access to the JVM of a classic Spark session: parser, catalog, plans as DataFrames, exceptions."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hiveacid.config.property_definitions import TRANSACTIONAL
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.spark.parser.catalyst import java_class, java_packages, scala_items, session_of
from hiveacid.spark.session.callback_server import LastReturned, keep_connections_once, use_secret_ids
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.error_translation import is_unsupported_metastore
from hiveacid.spark.session.java_methods import scala_sequence

ANOTHER_CATALOG = "(another catalog)"
"""Name of the current database while a name without one is Spark's alone. No database has this name."""
_FIRST_PATH_VERSION = (4, 3)


class _ParserBuilder:
    """Scala's ``(SparkSession, ParserInterface) => ParserInterface``, in Python."""

    def __init__(self, build: Callable[[Any, Any], Any]) -> None:
        self._build = build
        self._returned = LastReturned()

    def apply(self, session: Any, parser: Any) -> Any:
        """Return the parser of a new session."""
        return self._returned.keep(self._build(session, parser))

    class Java:
        implements = ("scala.Function2",)


def inject_parser(spark: SparkSession, build: Callable[[Any, Any], Any]) -> None:
    """Wrap Spark's own parser, in this session and in all sessions derived from it (``newSession``, streams).

    ``build`` receives the JVM's session and its present parser. The injection lasts for the life of the session; to
    disable it, ``build`` returns the parser that it received.
    """
    from pyspark import java_gateway  # noqa: PLC0415

    gateway: Any = spark.sparkContext._gateway  # noqa: SLF001
    use_secret_ids(spark)
    keep_connections_once(spark)
    start: Callable[[Any], None] = java_gateway.ensure_callback_server_started
    start(gateway)
    # Spark's own errors must leave our parser unchanged, not as text in a Py4JException.
    gateway.python_parameters.propagate_java_exceptions = True
    inner: Any = spark._jsparkSession  # noqa: SLF001
    called = threading.Event()

    def first(session: Any, parser: Any) -> Any:
        called.set()  # the parser itself must not stay here: it ends with its session
        return build(session, parser)

    inner.extensions().injectParser(_ParserBuilder(first))
    state = inner.sessionState()
    if not called.is_set():  # the session had its parser already
        _set_session_parser(state, build(inner, state.sqlParser()))


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


def external_catalog(env: SparkEnvironment) -> Any:
    """Return the JVM's object behind Spark's own catalog, which changes it without resolving names."""
    return env.session_catalog.externalCatalog()


def spark_catalog_tables(env: SparkEnvironment, database: str) -> list[str]:
    """Return the tables and views of a database of Spark's own catalog; none if the database does not exist."""
    catalog = external_catalog(env)
    if not catalog.databaseExists(database):
        return []
    return [str(name).lower() for name in scala_items(catalog.listTables(database))]


def copy_with_parser(session: Any, parser_of: Callable[[Any], Any]) -> Any:
    """Return a copy of a JVM session, with its settings and temporary views, that has another parser.

    ``parser_of`` receives the copy and returns the parser.
    """
    copy = session.cloneSession()
    state, parser = copy.sessionState(), parser_of(copy)
    _set_session_parser(state, parser)
    set_catalog_parser(copy, parser)
    return copy


def without_hiveacid_parser(spark: SparkSession) -> SparkSession:
    """Return a session whose SQL knows no tables of a native session: ``spark`` itself, or a copy if its parser does."""
    native: Any = SparkSession._instantiatedSession  # noqa: SLF001 - what getOrCreate() returns
    if not hasattr(native, "for_other_warehouse") or not hasattr(spark, "_jsparkSession"):
        return spark
    session: SparkSession = native.for_other_warehouse(spark)
    return session


def _set_session_parser(state: Any, parser: Any) -> None:
    held = state.getClass().getDeclaredField("sqlParser")
    held.setAccessible(True)
    held.set(state, parser)


def set_catalog_parser(session: Any, parser: Any) -> None:
    """Set the parser with which the catalog of a JVM session reads the texts of views and functions.

    In the session of `inject_parser` that is still Spark's own; in sessions derived from it, it is the injected parser.
    """
    catalog = session.sessionState().catalog()
    kind = catalog.getClass()
    while kind.getSimpleName() != "SessionCatalog":
        kind = kind.getSuperclass()
    held = kind.getDeclaredField("parser")
    held.setAccessible(True)
    held.set(catalog, parser)


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


def frame_of_plan(env: SparkEnvironment, plan: Any) -> DataFrame:
    """Return a plan of Spark's parser as a DataFrame; if the plan is a command, this call runs it."""
    return DataFrame(dataset_class(env).ofRows(session_of(env), plan), env.spark)


def frame_of_text(env: SparkEnvironment, text: str) -> DataFrame:
    """Return the result of a query without parameters, for which PySpark's own call makes four more round trips."""
    return DataFrame(session_of(env).sql(text), env.spark)


def dataset_class(env: SparkEnvironment) -> Any:
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


def plan_of(frame: DataFrame) -> Any:
    """Return a DataFrame's analysed plan."""
    return frame._jdf.queryExecution().analyzed()  # noqa: SLF001


def unsteady_expression(frame: DataFrame) -> str | None:
    """Return an expression of a DataFrame that may have another value each time (``rand()``); None if there is none."""
    node = plan_of(frame)
    if node.deterministic():
        return None
    while (below := _first_unsteady(node.children())) is not None:
        node = below
    expression = _first_unsteady(node.expressions())
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


def _first_unsteady(nodes: Any) -> Any:
    return next((node for node in scala_items(nodes) if not node.deterministic()), None)


def rows_of(frame: DataFrame) -> Any:
    """Return a DataFrame's analysed plan; of a command, which has run, the plan of its result."""
    return frame._jdf.queryExecution().commandExecuted()  # noqa: SLF001


def command_result_of(frame: DataFrame) -> Any:
    """Return the plan of a command that has run, with the rows of a DataFrame.

    For any other plan, Spark Connect keeps only the text of the statement, and runs it again when a client asks for rows.
    """
    execution = frame._jdf.queryExecution()  # noqa: SLF001
    jvm: Any = frame.sparkSession._jvm  # noqa: SLF001
    logical, physical = execution.analyzed(), execution.executedPlan()
    rows = jvm.org.apache.spark.api.python.PythonUtils.toSeq(list(physical.executeCollect()))
    return jvm.org.apache.spark.sql.catalyst.plans.logical.CommandResult(
        logical.output(), logical, physical, rows
    )


def to_java_exception(spark: SparkSession, error: HiveAcidError) -> Exception:
    """Return an exception for Py4J that makes Java throw one of its own, with the text of an error of hiveacid.

    Spark's ``AnalysisException`` is a checked exception that the parser's methods do not declare: a proxy must not
    throw it. PySpark shows these as ``pyspark.errors.IllegalArgumentException`` and
    ``UnsupportedOperationException``.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415

    lang: Any = spark._jvm.java.lang  # type: ignore[union-attr] # noqa: SLF001
    unsupported = isinstance(error, UnsupportedFeatureError)
    kind = lang.UnsupportedOperationException if unsupported else lang.IllegalArgumentException
    message = f"[{error.getCondition()}] {error}"
    thrown: Exception = Py4JJavaError(message, kind(message))
    return thrown


def restore_java_exception(error: Exception) -> Exception:
    """Return an exception for Py4J that makes Java throw the exception from which PySpark made an error."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415

    origin = getattr(error, "_origin", None)
    if origin is None:
        return error
    thrown: Exception = Py4JJavaError(str(error), origin)
    return thrown
