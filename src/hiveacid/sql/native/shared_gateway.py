"""`Gateway`: the state that all native sessions of an application share, and the routing of statements."""

from __future__ import annotations

import threading
import weakref
from collections import Counter, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame, SparkSession

from hiveacid.core.model import TableName
from hiveacid.spark.session.callback_server import CallingThreads, copy_with_parser
from hiveacid.spark.session.classic_session import create_database, current_database, set_current_database
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.sql.binding.parameters import Arguments
from hiveacid.sql.session import AcidSession
from hiveacid.sql.statements import Statement
from hiveacid.table.acid_table import AcidTable
from hiveacid.transactions.transaction import Transaction


@dataclass(eq=False, repr=False)
class NativeConnection(AcidSession):
    """The connection of one thread of a Spark session; its current database is Spark's.

    ``abandoned``: queue for a transaction that is still open when the connection is garbage-collected after its thread
    has ended. The heartbeat aborts it. (A garbage collection may interrupt any code, so it must not wait for the store.)
    """

    abandoned: deque[Transaction] = field(default_factory=deque, repr=False)

    def follow(self) -> None:
        """Use Spark's current database."""
        self.context.session.database = current_database(self.context.env)

    def use(self, database: str) -> None:
        """Make a database the current one, Spark's too. Raises NoSuchDatabaseError."""
        super().use(database)
        create_database(self.context.env, self.context.database)
        set_current_database(self.context.env, self.context.database)

    def sql(
        self, text: str, args: Arguments | None = None, *, first_line: int = 1, **values: object
    ) -> DataFrame:
        """Run one statement in Spark's current database, as `AcidSession.sql` does."""
        self.follow()
        return super().sql(text, args, first_line=first_line, **values)

    def table(self, name: str | TableName) -> AcidTable:
        """Return a table or view of the catalog; a name without a database is in Spark's current one."""
        self.follow()
        return super().table(name)

    def close(self) -> None:
        """Roll back an open transaction and stop background compaction; the rest ends with the Spark session."""
        self.end_own()

    def __del__(self) -> None:
        """Leave an open transaction to the heartbeat, which aborts it."""
        if self.by_statement and self.joined is not None:
            self.abandoned.append(self.joined)


class SessionParser(Protocol):
    """The parser inside a JVM session (`NativeParser`), which Py4J keeps until the session is collected.

    ``own_parser``: Spark's, which it replaced. ``session_number``: the session's ``hashCode``.
    """

    own_parser: JavaObject
    session_number: int


class Guard(Protocol):
    """Session of a client, which may not run every statement, and has one connection."""

    @property
    def acid(self) -> NativeConnection:
        """The connection."""

    def require_allowed(self, statement: Statement | None) -> None:
        """Raise ConfigError for a statement that the session may not run."""


@dataclass
class Gateway:
    """Shared connection, Spark's parsers, and texts whose owner is already decided.

    ``root``: the connection whose store all sessions share. ``open``: False passes every statement to Spark.
    """

    root: AcidSession
    open: bool = True
    calling_threads: CallingThreads = field(default_factory=CallingThreads)
    _parsers: weakref.WeakValueDictionary[int, SessionParser] = field(
        default_factory=weakref.WeakValueDictionary
    )
    _guards: weakref.WeakValueDictionary[int, Guard] = field(default_factory=weakref.WeakValueDictionary)
    _resolved_by_spark: Counter[tuple[int, str]] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _connections: list[weakref.ref[NativeConnection]] = field(default_factory=list)
    _abandoned: deque[Transaction] = field(default_factory=deque)
    _on_close: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Register `sweep` with the heartbeat."""
        self.root.context.transactions.heartbeats.add_sweeper(self.sweep)

    def connection(self, spark: SparkSession, parser: JavaObject) -> NativeConnection:
        """Return a connection on the shared store for one thread of a Spark session; ``parser``: Spark's own."""
        root = self.root.context
        env = SparkEnvironment(spark, parser=parser, executor_python=root.env.executor_python)
        context = replace(root, env=env, session=replace(root.session))
        connection = NativeConnection(context, abandoned=self._abandoned)
        with self._lock:
            references = [reference for reference in self._connections if reference() is not None]
            self._connections = [*references, weakref.ref(connection)]
        return connection

    def sweep(self) -> None:
        """Abort open transactions of threads that have ended; close their connections."""
        if self.open:
            self.calling_threads.close_ended()
        while self._abandoned:
            self._abandoned.popleft().abort("its thread ended without COMMIT or ROLLBACK")

    def on_close(self, restore: Callable[[], None]) -> None:
        """Call a function once when the sessions are closed."""
        self._on_close.append(restore)

    def close(self) -> None:
        """Pass every statement to Spark from now on; close all connections, the shared one last."""
        self.open = False
        while self._on_close:
            self._on_close.pop()()
        with ExitStack() as ending:
            ending.callback(self.root.close)
            for reference in self._connections:
                connection = reference()
                if connection is not None:
                    ending.callback(connection.close)
            ending.callback(self.sweep)

    def remember(self, parser: SessionParser) -> None:
        """Remember the parser inside a JVM session, as long as that session exists."""
        with self._lock:
            self._parsers[parser.session_number] = parser

    def guard(self, session: JavaObject, guard: Guard) -> None:
        """Ask ``guard``, as long as it exists, about the statements that Spark runs inside others in a JVM session."""
        self._guards[session.hashCode()] = guard

    def require_allowed(self, session: int, statement: Statement | None) -> None:
        """Raise ConfigError for a statement that a session (given by its ``hashCode``) may not run."""
        guard = self._guards.get(session)
        if guard is not None:
            guard.require_allowed(statement)

    def connection_of_client(self, session: int) -> NativeConnection | None:
        """Return the connection of a client's session (given by its ``hashCode``); None for another session."""
        guard = self._guards.get(session)
        return None if guard is None else guard.acid

    def without_parser(self, session: JavaObject) -> JavaObject:
        """Return a JVM session with Spark's own SQL: the given one, or a copy if its parser is hiveacid's."""
        session.sessionState()  # creates the parser
        with self._lock:
            if not self.open or self._parsers.get(session.hashCode()) is None:
                return session
        copy = copy_with_parser(session, self.parser_of)
        with self._lock:
            self._parsers.pop(copy.hashCode(), None)
        return copy

    def parser_of(self, session: JavaObject) -> JavaObject:
        """Return Spark's own parser of a JVM session, even if `NativeParser` replaced it."""
        state = session.sessionState()  # creates both parsers at the first call
        with self._lock:
            replacing = self._parsers.get(session.hashCode())
        # a session that is older than the native session has no other parser than Spark's
        return state.sqlParser() if replacing is None else replacing.own_parser

    @contextmanager
    def resolved_by_spark(self, session: JavaObject, text: str) -> Iterator[None]:
        """Make the parser inside a JVM session leave a text to Spark, because its owner is already decided."""
        key = (session.hashCode(), text)  # Java's own, of the object
        with self._lock:
            self._resolved_by_spark[key] += 1
        try:
            yield
        finally:
            with self._lock:
                self._resolved_by_spark -= Counter([key])

    def is_resolved_by_spark(self, session: int, text: str) -> bool:
        """Tell whether the parser inside a session (given by its ``hashCode``) must leave a text to Spark."""
        return not self.open or (session, text) in self._resolved_by_spark
