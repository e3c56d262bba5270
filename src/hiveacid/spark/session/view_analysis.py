"""Analysis of a view's query apart from the reader's session.

Spark analyses the query of its own views with the functions of the view's database and the settings of its creator,
and without temporary functions and variables. A session of its own does the same here. The time zone is the reader's,
unlike with Spark's views: a TIMESTAMP of Hive has no zone, so its rows are read in the reader's.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from hiveacid.core.model import ViewDefinition
from hiveacid.spark.parser.catalyst import active_session, java_class, java_value, session_of
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.session.classic_session import (
    dataset_class,
    frame_of_plan,
    has_database,
    set_catalog_parser,
)

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
    return replace(env, spark=SparkSession(env.spark.sparkContext, session))


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


def analysed_apart(env: SparkEnvironment, apart: SparkEnvironment, plan: Any) -> DataFrame:
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
