"""Plans of queries and expressions in which the rows of a snapshot stand for the name of a table.

A plan names a table by `UnresolvedRelation`. Its place is taken by the plan of a DataFrame under the table's name and
database, so that ``column``, ``table.column`` and ``database.table.column`` mean what they mean in Spark.

Columns may be hidden, as Spark hides ``_metadata`` of files: a name finds them, but no star, ordinal, set operator,
join or pipe sees them. They are the metadata output of a projection (``Project.hiddenOutputTag``). An alias ends a
metadata output, so the projection stands above the alias.

The query of a view is analysed apart from the reader's session. Spark analyses those of its own views with the functions of
the view's database and the settings of its creator, without temporary functions and variables. A session of its own does
the same here. The time zone is the reader's, unlike with Spark's views: a TIMESTAMP of Hive has no zone, so its rows are read
in the reader's.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from hiveacid.core.model import TableName, ViewDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.spark.formats.expressions import Expression, Qualifier, parenthesised
from hiveacid.spark.parser.relations import FunctionCall, Relation
from hiveacid.spark.session.callback_server import set_catalog_parser
from hiveacid.spark.session.classic_session import dataset_class, frame_of_plan, has_database, plan_of
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import (
    active_session,
    java_class,
    java_sequence,
    java_value,
    scala_items,
    scala_sequence,
    session_of,
)

SPARK_CATALOG = "spark_catalog"
"""Name of Spark's own catalog, under which a query finds every table."""
_PLANS = "org.apache.spark.sql.catalyst.plans.logical"
_METADATA_COLUMN = "__metadata_col"  # Spark's METADATA_COL_ATTR_KEY
# Settings that change what a query means.
_ALWAYS = ("spark.sql.ansi.enabled",)  # kept even where it is the default
_NAMES = frozenset(
    {"spark.sql.caseSensitive", "spark.sql.decimalOperations.allowPrecisionLoss", "spark.sql.groupByAliases"}
    | {"spark.sql.groupByOrdinal", "spark.sql.mapKeyDedupPolicy", "spark.sql.orderByOrdinal"}
    | {"spark.sql.storeAssignmentPolicy", "spark.sql.timestampType", *_ALWAYS}
)
_PREFIXES = ("spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.parser.")
_SEPARATOR, _ARROW = "\x1e", " -> "

Settings = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class BoundTable:
    """Rows that stand for a name: the table's name as written, its catalog and database.

    ``hidden``: how many of the last columns only their names find.
    """

    frame: DataFrame
    name: str
    qualifier: tuple[str, ...] = ()
    hidden: int = 0


def with_own_ids(frame: DataFrame) -> DataFrame:
    """Return the same rows in columns with new ids: Spark renews those of tables that occur twice, but not of hidden columns."""
    return frame.select(*[F.col(quote_name(column)).alias(column) for column in frame.columns])


def named_frame(env: SparkEnvironment, table: BoundTable) -> DataFrame:
    """Return a DataFrame whose columns may be called by the table's name, with its database or without."""
    return frame_of_plan(env, _aliased(env, table, _own_name(env, table)))


def called(env: SparkEnvironment, frame: DataFrame, name: str | TableName) -> DataFrame:
    """Return a DataFrame whose columns may be called by an alias, or by a table's name as in `named_frame`."""
    if isinstance(name, str):
        return frame.alias(name)
    return named_frame(env, BoundTable(frame, name.name, (SPARK_CATALOG, name.database)))


def qualifier_of(name: str | TableName | None) -> Qualifier:
    """Return the parts of the name by which columns may be called in `called`."""
    if isinstance(name, TableName):
        return SPARK_CATALOG, name.database, name.name
    return (name,) if name else ()


def last_part(name: str | TableName | None) -> str:
    """Return the name of one part by which columns may be called in `called`; empty without a name."""
    return name.name if isinstance(name, TableName) else name or ""


def with_tables(
    env: SparkEnvironment, plan: JavaObject, tables: Sequence[tuple[Relation | FunctionCall, BoundTable]]
) -> JavaObject:
    """Return a plan in which tables stand for the names, or calls, that `read_query` found in it.

    A table with hidden columns stands for one name: two projections with the same ones could not be told apart.
    """
    if not tables:
        return plan
    # nodes of one name are equal: only their identity tells them apart
    replacements = java_class(env, "java.util.IdentityHashMap")()
    for place, table in tables:
        if place.alias is not None:
            replacements.put(place.alias, _aliased(env, table, place.alias.identifier()))
        else:
            replacements.put(place.node, _aliased(env, table, _own_name(env, table)))
    # a Scala map is a partial function
    converters = java_class(env, "scala.collection.JavaConverters")
    return plan.transformDownWithSubqueries(converters.mapAsScalaMap(replacements))


def _own_name(env: SparkEnvironment, table: BoundTable) -> JavaObject:
    identifier = java_class(env, "org.apache.spark.sql.catalyst.AliasIdentifier")
    return identifier(table.name, java_sequence(env, table.qualifier))


def _aliased(env: SparkEnvironment, table: BoundTable, alias: JavaObject) -> JavaObject:
    """Return a table's plan under a name, with the hidden columns outside its output."""
    rows = java_class(env, f"{_PLANS}.SubqueryAlias")(alias, plan_of(table.frame))
    if not table.hidden:
        return rows
    output = list(scala_items(rows.output()))
    project = java_class(env, f"{_PLANS}.Project")
    metadata = java_class(env, "org.apache.spark.sql.types.Metadata")
    shown, hidden = output[: -table.hidden], output[-table.hidden :]
    hidden = [
        column.withMetadata(metadata.fromJson(json.dumps({_METADATA_COLUMN: str(column.name())})))
        for column in hidden
    ]
    plan = project(scala_sequence(env, shown), rows)
    plan.setTagValue(project.hiddenOutputTag(), scala_sequence(env, hidden))
    return plan


def settings_of_meaning(env: SparkEnvironment) -> Settings:
    """Return the session's settings that a view keeps from its creator."""
    always = {key: str(env.spark.conf.get(key)) for key in _ALWAYS}
    own = {key: value for key, value in _all_settings(env).items() if _changes_meaning(key)}
    return tuple(sorted((own | always).items()))


def session_of_views(env: SparkEnvironment) -> SparkEnvironment:
    """Return a session for the views of one statement; a later one must see functions that were replaced."""
    session = session_of(env).newSession()
    if env.parser is not None:  # a native session: bodies of functions refer to Spark's tables
        set_catalog_parser(session, env.parser)
    return replace(env, spark=SparkSession(env.spark.sparkContext, session)).with_own_sql()


def read_as_creator(reader: SparkEnvironment, apart: SparkEnvironment, view: ViewDefinition) -> None:
    """Make a session of views read names, literals and functions as the view's creator did.

    Names of functions are looked for in the view's database. A view without settings has the reader's.
    """
    settings = view.settings or settings_of_meaning(reader)
    own = {key: value for key, value in settings if _changes_meaning(key)}
    others = {key: value for key, value in _all_settings(reader).items() if not _changes_meaning(key)}
    properties = java_class(reader, "java.util.Properties")()
    properties.putAll(java_value(reader, others | own))
    state = apart.state
    state.conf().clear()
    state.conf().setConf(properties)
    if has_database(reader, view.database):
        apart.session_catalog.setCurrentDatabase(view.database)


def analysed_apart(env: SparkEnvironment, apart: SparkEnvironment, plan: JavaObject) -> DataFrame:
    """Return the rows of a view's query, of which ``plan`` is the parsed plan."""
    session = session_of(apart)
    with active_session(apart):
        analysed = dataset_class(env).ofRows(session, plan).queryExecution().analyzed()
    return frame_of_plan(env, analysed)


def _all_settings(env: SparkEnvironment) -> dict[str, str]:
    settings = env.state.conf().getAllConfs()
    if settings.isEmpty():
        return {}
    entries = str(settings.mkString(_SEPARATOR)).split(_SEPARATOR)
    return {key: value for key, _, value in (entry.partition(_ARROW) for entry in entries)}


def _changes_meaning(key: str) -> bool:
    return key in _NAMES or key.startswith(_PREFIXES)


def filter_rows(
    env: SparkEnvironment, frame: DataFrame, where: Expression | None, name: str | TableName
) -> DataFrame:
    """Return the rows that a condition selects; the condition may call the frame by ``name`` (`called`)."""
    rows = called(env, frame, name)
    return rows if where is None else rows.where(parenthesised(where))
