"""The door between Spark's SQL and ours: what all sessions of an application share that use one warehouse."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from hiveacid.spark.inside import current_database, has_database, make_database
from hiveacid.spark.session import SparkFacts
from hiveacid.sql import statements as s
from hiveacid.sql import store_rows
from hiveacid.sql.execute import execute
from hiveacid.sql.ownership import Judged, Owner, judge
from hiveacid.sql.rows import frame_of
from hiveacid.sql.session import AcidSession

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Sessions come and go (a stream clones its own); only one that was made this moment is asked for.
_REMEMBERED = 100
_SHOWN = (("namespace", "string"), ("tableName", "string"), ("isTemporary", "boolean"))


@dataclass
class Door:
    """Who gets a statement, and what both sides have to know of each other.

    ``root``: the connection whose store all share. ``open``: False lets every statement through to Spark.
    """

    root: AcidSession
    open: bool = True
    _parsers: list[tuple[Any, Any]] = field(default_factory=list)
    _passing: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def connection(self, spark: SparkSession, parser: Any) -> AcidSession:
        """Return a connection on the shared store for one thread of a Spark session; ``parser``: Spark's own."""
        return AcidSession(replace(self.root.context, facts=SparkFacts(spark, parser=parser)))

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
    def passing(self, text: str) -> Iterator[None]:
        """Let the parser inside of Spark leave a text alone that was judged already."""
        with self._lock:
            self._passing[text] += 1
        try:
            yield
        finally:
            with self._lock:
                self._passing -= Counter([text])

    def passes(self, text: str) -> bool:
        """Tell whether the parser inside of Spark is to leave a text alone."""
        return not self.open or text in self._passing

    def mirror(self, facts: SparkFacts) -> None:
        """Make our databases known to Spark, so that USE takes their names."""
        for name in self.root.context.catalog.list_databases():
            make_database(facts, name)


def judged(session: AcidSession, text: str) -> Judged:
    """Tell whose statement a text is, in Spark's current database; see `ownership.judge`.

    Of a statement that both have a part in, ours is done.
    """
    context = session.context
    context.database = current_database(context.facts)
    found = judge(session, text)
    match found.statement:
        case s.CreateTable(table=table) | s.CreateTableLike(table=table) if found.owner is Owner.OURS:
            database = table.resolve(context.database).database
            if context.catalog.get_database(database) is None and has_database(context.facts, database):
                execute(session, s.CreateDatabase(database, if_not_exists=True))
        case s.CreateDatabase(name=name) if context.catalog.get_database(name) is None:
            execute(session, found.statement)
        case s.DropDatabase(name=name) if context.catalog.get_database(name) is not None:
            execute(session, found.statement)
            make_database(context.facts, name)
        case s.ResetOption(key=None):
            execute(session, found.statement)
        case s.UseDatabase(name=name) if context.catalog.get_database(name) is not None:
            make_database(context.facts, name)
    return found


def with_our_tables(session: AcidSession, statement: s.ShowTables, theirs: DataFrame) -> DataFrame:
    """Return what SHOW TABLES of Spark says, with our tables in it."""
    database = statement.database or session.context.database
    if session.context.catalog.get_database(database) is None:
        return theirs
    names = [row[0] for row in store_rows.table_rows(session.context.catalog, database, statement.pattern)]
    known = {(row["namespace"], row["tableName"]) for row in theirs.collect()}
    rows = [(database, name, "false") for name in names if (database, name) not in known]
    ours = frame_of(session.context.facts, _SHOWN, rows)
    return theirs.union(ours).orderBy("namespace", "tableName")
