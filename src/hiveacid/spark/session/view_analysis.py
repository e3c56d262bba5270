"""Analysis of a view's query apart from the reader's session (classic sessions only).

Spark analyses the query of its own views with the functions of the view's database and the settings of its creator,
and without temporary functions and variables. A session of its own does the same here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.core.model import ViewDefinition
from hiveacid.spark.parser.catalyst import active_session, java_class, java_value, parser_of, session_of
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.spark.session.classic_session import (
    dataset_class,
    frame_of_plan,
    has_database,
    set_catalog_parser,
)

# Settings that change what a query means; those that Spark always keeps with its views come first.
_ALWAYS = ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")
_NAMES = frozenset(
    {"spark.sql.caseSensitive", "spark.sql.decimalOperations.allowPrecisionLoss", "spark.sql.groupByAliases"}
    | {"spark.sql.groupByOrdinal", "spark.sql.mapKeyDedupPolicy", "spark.sql.orderByOrdinal"}
    | {"spark.sql.storeAssignmentPolicy", "spark.sql.timestampType", *_ALWAYS}
)
_PREFIXES = ("spark.sql.ansi.", "spark.sql.legacy.", "spark.sql.parser.")
_SEPARATOR, _ARROW = "\x1e", " -> "

Settings = tuple[tuple[str, str], ...]


def settings_of_meaning(facts: SparkFacts) -> Settings:
    """Return the session's settings that a view keeps from its creator."""
    always = {key: str(facts.spark.conf.get(key)) for key in _ALWAYS}
    own = {key: value for key, value in _all_settings(facts).items() if _changes_meaning(key)}
    return tuple(sorted((own | always).items()))


def new_session(facts: SparkFacts) -> Any:
    """Return a JVM session for the views of one statement; a later one must see functions that were replaced."""
    session = session_of(facts).newSession()
    if facts.parser is not None:  # a native session: bodies of functions refer to Spark's tables
        set_catalog_parser(session, facts.parser)
    return session


def analyse_apart(
    facts: SparkFacts, session: Any, text: str, bind: Callable[[Any], Any], view: ViewDefinition
) -> DataFrame:
    """Return the rows of a view's query; ``bind``: puts rows for tables into its parsed plan.

    Names of functions are looked for in the view's database. A view without settings has the reader's.
    """
    state = session.sessionState()
    reader = {key: value for key, value in _all_settings(facts).items() if not _changes_meaning(key)}
    properties = java_class(facts, "java.util.Properties")()
    properties.putAll(java_value(facts, reader | dict(view.settings or settings_of_meaning(facts))))
    state.conf().clear()
    state.conf().setConf(properties)
    if has_database(facts, view.database):
        state.catalog().setCurrentDatabase(view.database)
    with active_session(facts, session):
        plan = bind(parser_of(facts).parsePlan(text))
        analysed = dataset_class(facts).ofRows(session, plan).queryExecution().analyzed()
    return frame_of_plan(facts, analysed)


def _all_settings(facts: SparkFacts) -> dict[str, str]:
    settings = session_of(facts).sessionState().conf().getAllConfs()
    if settings.isEmpty():
        return {}
    entries = str(settings.mkString(_SEPARATOR)).split(_SEPARATOR)
    return {key: value for key, _, value in (entry.partition(_ARROW) for entry in entries)}


def _changes_meaning(key: str) -> bool:
    return key in _NAMES or key.startswith(_PREFIXES)
