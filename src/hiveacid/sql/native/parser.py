"""The parser inside of Spark: where statements come by that no `NativeSession` saw (streams, JVM code)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from hiveacid.errors import HiveAcidError, UnsupportedFeatureError
from hiveacid.spark.catalyst import items
from hiveacid.spark.inside import as_thrown, frame_of_plan, give_catalog_parser, plan_of, thrown_in_java
from hiveacid.sql import statements as s
from hiveacid.sql.binding import EXPRESSION, QUERY, is_sparks
from hiveacid.sql.hidden import HIDDEN, HiddenColumns
from hiveacid.sql.native.door import Door, judged, with_our_tables
from hiveacid.sql.ownership import Judged, Owner, refuse_transactional
from hiveacid.sql.parameters import has_parameters
from hiveacid.sql.tokens import mentions
from hiveacid.sql.values import table_ref

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid.sql.native.connection import NativeConnection

_SUBQUERIES = frozenset({"SELECT", "TABLE"})


class NativeParser:
    """Spark's ``ParserInterface`` around the one that was there: takes over what names a table of ours.

    Spark calls it on threads of its own, so it keeps a connection a thread, and transactions of several statements
    cannot be begun here. Every method that it does not know goes to the parser that was there.
    """

    def __init__(self, door: Door, spark: SparkSession, parser: Any) -> None:
        """Serve one session of the JVM; ``spark`` is a plain Python object around it."""
        self._door = door
        self._spark = spark
        self._parser = parser
        self._local = threading.local()
        self._begun = False
        self._session = spark._jsparkSession.hashCode()  # noqa: SLF001

    def parsePlan(self, text: str) -> Any:  # noqa: N802 - Spark's name
        """Return the plan of a statement; one of ours is carried out by that."""
        return self._taken(text, self._parser.parsePlan)

    def parseQuery(self, text: str) -> Any:  # noqa: N802
        """Return the plan of a query."""
        return self._taken(text, self._parser.parseQuery)

    def parsePlanWithParameters(self, text: str, parameters: Any) -> Any:  # noqa: N802
        """Return the plan of a statement with parameters (Spark 4.1 and later)."""
        return self._taken(text, lambda bound: self._parser.parsePlanWithParameters(bound, parameters))

    def parseExpression(self, text: str) -> Any:  # noqa: N802
        """Return an expression; subqueries in it may read our tables."""

        def parse() -> Any:
            parsed = self._parser.parseExpression(text)  # raises what is wrong with it; it may have an alias
            if self._door.passes(self._session, text) or not _has_subquery(text):
                return parsed
            return self._parser.parseExpression(
                self._bound(f"{EXPRESSION}{text}", QUERY).removeprefix(EXPRESSION)
            )

        return self._shielded(parse)

    def parseMultipartIdentifier(self, text: str) -> Any:  # noqa: N802
        """Return a name's parts; that of a table of ours is refused, since Spark would look for its own."""

        def parse() -> Any:
            parts = self._parser.parseMultipartIdentifier(text)
            if not self._door.passes(self._session, text):
                self._refuse_ours([str(part).lower() for part in items(parts)])
            return parts

        return self._shielded(parse)

    def _refuse_ours(self, parts: list[str]) -> None:
        ref = table_ref(parts)
        if ref is None:
            return
        self._connection().follow()
        context = self._connection().context
        name = ref.resolve(context.database)
        table = context.catalog.get_table(name)
        if table is not None and is_sparks(context, table):
            return
        if table is not None or context.catalog.get_view(name) is not None:
            raise UnsupportedFeatureError(
                f"{name} is a transactional table, or a view on such: read it by sql('SELECT ...') or spark.table, and "
                "write to a table by sql('INSERT INTO ...') or spark.acid.table(...).insert(frame)"
            )
        if context.facts.hive_support:
            refuse_transactional(context.facts, name)

    def _taken(self, text: str, parse: Callable[[str], Any]) -> Any:
        def plan() -> Any:
            if self._door.passes(self._session, text):
                return parse(text)
            session = self._connection()
            found = judged(session, text)
            if isinstance(found.statement, s.StartTransaction | s.Commit | s.Rollback):
                raise UnsupportedFeatureError(
                    "transactions of several statements need the session that getOrCreate() returned"
                )
            if found.owner is Owner.SPARK_READING_OURS:
                HiddenColumns(text).refuse_star()
                return parse(self._bound(text, QUERY))
            if found.owner is Owner.OURS and has_parameters(text):
                return parse(self._bound_query(found, text))
            if found.owner is Owner.OURS:
                return plan_of(session.sql(text))
            if isinstance(found.statement, s.ShowTables | s.ShowViews):
                theirs = frame_of_plan(session.context.facts, parse(text))
                return plan_of(with_our_tables(session, found.statement, theirs))
            return parse(text)

        return self._shielded(plan)

    def _bound_query(self, found: Judged, text: str) -> str:
        """Return a query whose parameters Spark will fill in."""
        if not isinstance(found.statement, s.Query) or mentions(text, HIDDEN):
            raise UnsupportedFeatureError(
                "parameters of this statement need the session that getOrCreate() returned, or acid.sql"
            )
        return self._bound(text, QUERY)

    def _bound(self, text: str, before: str) -> str:
        """Return a text with our tables bound to views that outlast Spark's analysis."""
        with ExitStack() as stack:
            binder = stack.enter_context(self._connection().binder())
            bound = binder.bind(s.Slice(text), before)
            if binder.frames:
                self._door.keep(stack.pop_all())
        return bound.text

    def _connection(self) -> NativeConnection:
        if not hasattr(self._local, "connection"):
            self._local.connection = self._door.connection(self._spark, self._parser)
        connection: NativeConnection = self._local.connection
        return connection

    def _shielded(self, parse: Callable[[], Any]) -> Any:
        """Let errors reach Java as exceptions of Spark's own kinds."""
        if (
            not self._begun
        ):  # views and functions of Spark's own mean Spark's tables, whatever database is the current one
            self._begun = True
            give_catalog_parser(self._spark._jsparkSession, self._parser)  # noqa: SLF001
        try:
            return parse()
        except HiveAcidError as error:
            raise thrown_in_java(self._spark, error) from error
        except Exception as error:
            raise as_thrown(error) from error

    def __getattr__(self, name: str) -> Any:
        """Hand every other method of this Spark, or the next one, to the parser that was there."""
        if not name.startswith(("parse", "split")):
            raise AttributeError(name)

        def handed(*args: Any) -> Any:
            return self._shielded(lambda: getattr(self._parser, name)(*args))

        return handed

    class Java:
        """What Py4J asks for: the interface that this is one of."""

        implements = ("org.apache.spark.sql.catalyst.parser.ParserInterface",)


def _has_subquery(text: str) -> bool:
    """Tell whether an expression that Spark takes may hold a query."""
    try:
        return bool(mentions(text, _SUBQUERIES))
    except HiveAcidError:  # of tokens that only Spark has
        return False
