"""The door between Spark's SQL and ours: what all sessions of an application share that use one warehouse."""

from __future__ import annotations

import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hiveacid.spark.catalyst import parser_of
from hiveacid.spark.inside import has_database, has_tables, make_database
from hiveacid.spark.session import SparkFacts
from hiveacid.sql import statements as s
from hiveacid.sql import store_rows
from hiveacid.sql.execute import execute
from hiveacid.sql.hidden import HiddenColumns
from hiveacid.sql.native.connection import NativeConnection
from hiveacid.sql.ownership import Judged, Owner, judge
from hiveacid.sql.rows import frame_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from hiveacid.sql.binding import Binder
    from hiveacid.sql.session import AcidSession
    from hiveacid.transaction import Transaction

# Sessions come and go (a stream clones its own); only one that was made this moment is asked for.
_REMEMBERED = 100
# How long the views of a plan that Spark analyses after we are done stay at least, in seconds.
_KEPT = 60.0
_SHOWN = (("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean"))


@dataclass
class Door:
    """Who gets a statement, and what both sides have to know of each other.

    ``root``: the connection whose store all share. ``open``: False lets every statement through to Spark.
    """

    root: AcidSession
    open: bool = True
    _parsers: list[tuple[Any, Any]] = field(default_factory=list)
    _passing: Counter[tuple[int, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _connections: list[weakref.ref[NativeConnection]] = field(default_factory=list)
    _left: deque[Transaction] = field(default_factory=deque)
    _views: list[tuple[float, ExitStack]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Let the heartbeat end what nobody else will."""
        self.root.context.transactions.heartbeats.on_turn(self.sweep)

    def connection(self, spark: SparkSession, parser: Any) -> NativeConnection:
        """Return a connection on the shared store for one thread of a Spark session; ``parser``: Spark's own."""
        context = replace(self.root.context, facts=SparkFacts(spark, parser=parser))
        made = NativeConnection(context, left=self._left)
        with self._lock:
            alive = [held for held in self._connections if held() is not None]
            self._connections = [*alive, weakref.ref(made)]
        return made

    def keep(self, views: ExitStack) -> None:
        """Leave views to a plan that Spark is going to analyse; `sweep` drops them when that must be over."""
        with self._lock:
            self._views.append((time.monotonic(), views))

    def sweep(self, kept: float = _KEPT) -> None:
        """Drop the views that are older than ``kept`` seconds; end the transactions of threads that are gone."""
        until = time.monotonic() - kept
        with self._lock:
            old = [views for made, views in self._views if made <= until]
            self._views = [(made, views) for made, views in self._views if made > until]
        while self._left:
            self._left.popleft().abort("its thread ended without COMMIT or ROLLBACK")
        with ExitStack() as ending:  # all of them, whatever one of them raises
            for views in old:
                ending.callback(views.close)

    def close(self) -> None:
        """Let every statement through to Spark from now on; end all connections, then the store's."""
        self.open = False
        with ExitStack() as ending:
            ending.callback(self.root.close)
            for held in self._connections:
                connection = held()
                if connection is not None:
                    ending.callback(connection.close)
            ending.callback(self.sweep, 0.0)

    def remember(self, session: Any, parser: Any) -> None:
        """Note the parser that a session of the JVM had before ours."""
        with self._lock:
            self._parsers = [*self._parsers[-_REMEMBERED:], (session, parser)]

    def parser_of(self, session: Any) -> Any:
        """Return the parser that a session of the JVM had before ours."""
        session.sessionState()  # makes both if they are not there yet
        with self._lock:
            return next(parser for held, parser in reversed(self._parsers) if held.equals(session))

    @contextmanager
    def passing(self, session: Any, text: str) -> Iterator[None]:
        """Let the parser inside of a session of the JVM leave a text alone that was judged already."""
        key = (session.hashCode(), text)  # Java's own, of the object
        with self._lock:
            self._passing[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._passing -= Counter([key])

    def passes(self, session: int, text: str) -> bool:
        """Tell whether the parser inside of a session (by its ``hashCode``) is to leave a text alone."""
        return not self.open or (session, text) in self._passing


def mirror(session: AcidSession) -> None:
    """Make our databases known to Spark, so that USE takes their names."""
    for name in session.context.catalog.list_databases():
        make_database(session.context.facts, name)


def bound_for_spark(binder: Binder, text: str) -> str:
    """Return a statement that Spark is to carry out, with our tables bound. Raises UnsupportedFeatureError."""
    HiddenColumns(text).refuse_star()
    return binder.bind(s.Slice(text)).text


def judged(session: NativeConnection, text: str) -> Judged:
    """Tell whose statement a text is, in Spark's current database; see `ownership.judge`.

    Of a statement that both have a part in, ours is done.
    """
    context = session.context
    session.follow()
    found = judge(session, text)
    match found.statement:
        case s.CreateTable(table=table) | s.CreateTableLike(table=table) | s.CreateView(view=table) if (
            found.owner is Owner.OURS
        ):
            database = table.resolve(context.database).database
            if context.catalog.get_database(database) is None and has_database(context.facts, database):
                execute(session, s.CreateDatabase(database, if_not_exists=True))
        case s.CreateDatabase(name=name) if context.catalog.get_database(name) is None:
            parser_of(context.facts).parsePlan(
                text
            )  # raises what Spark will not take: then neither side has it
            execute(session, found.statement)
        case s.DropDatabase(name=name, cascade=cascade) if (
            context.catalog.get_database(name) is not None
            and (cascade or not has_tables(context.facts, name))  # else Spark refuses: then both keep it
        ):
            execute(session, found.statement)
            make_database(context.facts, name)
        case s.ResetOption(key=None):
            execute(session, found.statement)
        case s.ShowDatabases():
            mirror(session)
        case (
            s.UseDatabase(name=name) | s.ShowTables(database=str(name)) | s.ShowViews(database=str(name))
        ) if context.catalog.get_database(name) is not None:
            make_database(context.facts, name)
    return found


def with_our_tables(
    session: AcidSession, statement: s.ShowTables | s.ShowViews, theirs: DataFrame
) -> DataFrame:
    """Return what SHOW TABLES or SHOW VIEWS of Spark says, with our tables, or views, in it."""
    database = statement.database or session.context.database
    if session.context.catalog.get_database(database) is None:
        return theirs
    rows_of = store_rows.view_rows if isinstance(statement, s.ShowViews) else store_rows.table_rows
    names = [row[0] for row in rows_of(session.context.catalog, database, statement.pattern)]
    known = {(row[0], row[1]) for row in theirs.collect()}
    rows = [(database, name, "false") for name in names if (database, name) not in known]
    ours = frame_of(session.context.facts, _SHOWN, rows)
    return theirs.union(ours).orderBy(*theirs.columns[:2])
