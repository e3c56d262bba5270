"""`NativeParser`: the parser inside Spark, for statements of streams and JVM code."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from py4j.java_gateway import JavaObject, JVMView
from pyspark.sql import SparkSession

from hiveacid.errors import HiveAcidError, StatementTooLargeError, UnsupportedFeatureError
from hiveacid.spark.parser.lexer import mentions, tokenize
from hiveacid.spark.session import classic_session
from hiveacid.spark.session.callback_server import (
    LastReturned,
    restore_java_exception,
    set_catalog_parser,
    to_java_exception,
)
from hiveacid.spark.session.classic_session import is_temporary_view
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import spark_errors_logged
from hiveacid.spark.session.jvm import scala_items
from hiveacid.sql.binding.parameters import has_identifier_clause, has_parameters, with_written_names
from hiveacid.sql.binding.statement_owner import Owner, refuse_transactional
from hiveacid.sql.binding.table_binder import EXPRESSION, QUERY, find_hiveacid_relation, is_view_of_session
from hiveacid.sql.binding.table_sources import METADATA_TABLES, SYSTEM, find_metadata_table
from hiveacid.sql.native import both_catalogs
from hiveacid.sql.native.connect_server import READ, ClientTables, callers_of, refuse_own_catalogs
from hiveacid.sql.native.shared_gateway import Gateway, NativeConnection
from hiveacid.sql.statements import Slice, administration, dml, table_ref

_SUBQUERIES = frozenset({"SELECT", "TABLE", "FROM"})
# Of Spark 3.5, Spark 4 and Spark Connect: what parses the names of functions and databases.
_NOT_OF_TABLES = (
    ".call_function(",
    ".call_udf(",
    "ColumnNodeToExpressionConverter",
    ".transformCallFunction(",
    ".transformUnresolvedFunction(",
    ".Catalog.functionExists(",
    ".Catalog.getFunction(",
    ".Catalog.listFunctions(",
    ".Catalog.listTables(",
    ".Catalog.databaseExists(",
    ".Catalog.getDatabase(",
    ".Catalog.setCurrentDatabase(",
)
# What makes a table of Spark's own if a name is only that of a temporary view.
_CREATE_TABLES = (
    ".DataFrameWriter.saveAsTable",
    ".DataFrameWriterV2.",
    ".DataStreamWriter.",
    ".Catalog.createTable(",
)


class NativeParser:
    """A ``ParserInterface`` around Spark's own that takes over statements on tables of the hiveacid catalog.

    Spark calls it on its own threads, so each thread has a connection, and transactions of several statements cannot be
    begun here. Every method that it does not define goes to Spark's parser.
    """

    def __init__(self, gateway: Gateway, spark: SparkSession, parser: JavaObject) -> None:
        """Serve one JVM session; ``spark``: a plain Python session around it.

        The JVM session owns this object, which refers to it weakly: otherwise neither would ever be collected.
        """
        self._sql_gateway = gateway
        self._spark_context = spark.sparkContext
        jvm: JVMView = spark._jvm  # noqa: SLF001
        self._weak_session = jvm.java.lang.ref.WeakReference(spark._jsparkSession)  # noqa: SLF001
        self.own_parser = parser
        self._settings = gateway.root.context.settings
        self._local = threading.local()
        self._returned = LastReturned()
        self._catalog_parser_is_set = False
        self._client_tables = ClientTables(self._connection, self._with_java_errors)
        self.session_number = int(spark._jsparkSession.hashCode())  # noqa: SLF001

    @property
    def _spark(self) -> SparkSession:
        """A plain Python session; the JVM session exists while it calls its parser."""
        return SparkSession(self._spark_context, self._weak_session.get())

    def parsePlan(self, text: str) -> JavaObject:
        """Return the plan of a statement; a statement of hiveacid is carried out here."""
        return self._plan_by_owner(text, self.own_parser.parsePlan)

    def parseQuery(self, text: str) -> JavaObject:
        """Return the plan of a query."""
        return self._plan_by_owner(text, self.own_parser.parseQuery)

    def parsePlanWithParameters(self, text: str, parameters: JavaObject) -> JavaObject:
        """Return the plan of a statement with parameters (Spark 4.1 and later)."""
        return self._plan_by_owner(
            text, lambda bound: self.own_parser.parsePlanWithParameters(bound, parameters)
        )

    def parseExpression(self, text: str) -> JavaObject:
        """Return an expression; its subqueries may read hiveacid tables."""
        with self._java_errors():
            _refuse_too_large(text)
            # parsed first, so that errors in the text are Spark's; the text may include an alias
            parsed = self.own_parser.parseExpression(text)
            if not self._sql_gateway.is_resolved_by_spark(self.session_number, text) and _has_subquery(text):
                refuse_own_catalogs(text)
                bound = self._bound(Slice(text), EXPRESSION)
                parsed = parsed if bound is None else bound.condition()
            return self._returned.keep(parsed)

    def parseMultipartIdentifier(self, text: str) -> JavaObject:
        """Return a name's parts; refuse the name of a hiveacid table, because most callers would look for Spark's own."""
        with self._java_errors():
            _refuse_too_large(text)
            parts = self.own_parser.parseMultipartIdentifier(text)
            return self._returned.keep(self._parts_for_caller(text, parts) or parts)

    def parseTemporalTableIdentifier(self, text: str) -> JavaObject:
        """Return a name's parts, and the version that may stand behind them, as `parseMultipartIdentifier` (Spark 4.3)."""
        with self._java_errors():
            _refuse_too_large(text)
            name = self.own_parser.parseTemporalTableIdentifier(text)
            parts = self._parts_for_caller(text, name.nameParts())
            if parts is not None:
                name = name.copy(parts, name.timestamp(), name.version())
            return self._returned.keep(name)

    def _parts_for_caller(self, text: str, written: JavaObject) -> JavaObject:
        """Return the parts under which Spark finds a table of hiveacid's; None for the parts that are written."""
        if self._sql_gateway.is_resolved_by_spark(self.session_number, text):
            return None
        refuse_own_catalogs(text)
        parts = [str(part).lower() for part in scala_items(written)]
        self._connection().follow()
        context = self._connection().context
        ref = table_ref(parts)
        if ref is not None and ref.database is None and is_temporary_view(context.env, ref.name):
            callers = callers_of(context.env)
            if any(caller in callers for caller in _CREATE_TABLES):
                is_view_of_session(context, ref)
            return None
        name = None if ref is None else find_hiveacid_relation(context, ref)
        if name is None and parts[-1] in METADATA_TABLES and READ in (callers := callers_of(context.env)):
            source = find_metadata_table(context, parts)
            if source is None or source.metadata == SYSTEM:
                return None
            named = [source.table.database, source.table.name, parts[-1]]
            return self._client_tables.parts(named, callers)
        if name is None:
            if ref is not None and context.env.hive_support:
                refuse_transactional(context.env, ref.resolve(context.database))
            return None
        callers = callers_of(context.env)
        if any(caller in callers for caller in _NOT_OF_TABLES):
            return None
        found = self._client_tables.parts([name.database, name.name], callers)
        if found is None:
            raise UnsupportedFeatureError(
                f"{name} is a transactional table, or a view that reads one, and this call (of Spark Connect, foreachBatch or JVM "
                "code) knows Spark's own tables only: use sql('SELECT ...'), sql('INSERT INTO ...'), sql('DESCRIBE ...')"
            )
        return found

    def _plan_by_owner(self, text: str, parse: Callable[[str], JavaObject]) -> JavaObject:
        with self._java_errors():
            return self._returned.keep(self._plan(text, parse))

    def _plan(self, text: str, parse: Callable[[str], JavaObject]) -> JavaObject:
        """Return the plan of a statement by its owner; ``parse``: the method of Spark's own parser."""
        if self._sql_gateway.is_resolved_by_spark(self.session_number, text):
            return parse(text)
        self._client_tables.forget_name()
        session = self._connection()
        source = _with_written_names(session.context.env, Slice(text))
        refuse_own_catalogs(source.text)
        ownership = both_catalogs.decide_ownership(session, source)
        self._sql_gateway.require_allowed(self.session_number, ownership.statement)  # EXECUTE IMMEDIATE
        both_catalogs.update_both_catalogs(session, source, ownership)
        if isinstance(
            ownership.statement,
            administration.StartTransaction | administration.Commit | administration.Rollback,
        ):
            raise UnsupportedFeatureError(
                "transactions of several statements need the Python session that getOrCreate() returned, in the driver: "
                "here (Spark Connect, foreachBatch, JVM code) each statement is a transaction of its own"
            )
        if ownership.owner is Owner.SPARK_READING_HIVEACID:
            return self._bound(source, QUERY, parse)
        if ownership.owner is Owner.HIVEACID and has_parameters(source):
            if not isinstance(ownership.statement, dml.Query):
                raise UnsupportedFeatureError(
                    "parameters of this statement need the Python session that getOrCreate() returned, or acid.sql: here (Spark "
                    "Connect, foreachBatch, JVM code) write the values into the text, or select them from a temporary view"
                )
            return self._bound(source, QUERY, parse)
        if ownership.owner is Owner.HIVEACID:
            frame = session.sql(source.text)
            self._settings = self._local.settings = session.context.settings
            is_query = isinstance(ownership.statement, dml.Query)
            return classic_session.plan_of(frame) if is_query else classic_session.command_result_of(frame)
        if isinstance(ownership.statement, administration.ShowTables):
            theirs = classic_session.frame_of_plan(session.context.env, parse(text))
            return classic_session.plan_of(
                both_catalogs.add_hiveacid_tables(session, ownership.statement, theirs)
            )
        changed = both_catalogs.change_mirror(session, source, ownership)
        return parse(text) if changed is None else classic_session.command_result_of(changed)

    def _bound(
        self, source: Slice, kind: str, parse: Callable[[str], JavaObject] | None = None
    ) -> JavaObject:
        """Return the plan of a text in which the rows of a snapshot stand for the tables' names."""
        with self._connection().binder() as binder:
            return binder.bind(source, kind, parse).plan

    def _connection(self) -> NativeConnection:
        # EXECUTE IMMEDIATE of a client: its transactions have the client's name, and end when the statement is cancelled
        of_client = self._sql_gateway.connection_of_client(self.session_number)
        if of_client is not None:
            return of_client
        if not hasattr(self._local, "connection"):
            self._local.connection = self._sql_gateway.connection(self._spark, self.own_parser)
            # its settings stay those of the driver
            self._local.connection.context.session.shares_store = True
            self._local.settings = None
        connection: NativeConnection = self._local.connection
        # Spark Connect has a thread for each statement: what SET changed in another one holds here, too.
        if self._local.settings is not self._settings:
            self._local.settings = connection.context.session.settings = self._settings
        return connection

    def _with_java_errors(self, parse: Callable[[], JavaObject]) -> JavaObject:
        """Return what a function returns; its errors become Java's."""
        with self._java_errors():
            return self._returned.keep(parse())

    @contextmanager
    def _java_errors(self) -> Iterator[None]:
        """Convert Python errors to Java exceptions of Spark's own classes."""
        self._sql_gateway.calling_threads.note(self._spark_context)
        if not self._catalog_parser_is_set:
            # views and functions of Spark's catalog refer to Spark's tables, whatever the current database is
            self._catalog_parser_is_set = True
            set_catalog_parser(self._spark._jsparkSession, self.own_parser)  # noqa: SLF001
        try:
            with spark_errors_logged(unless=Exception):  # the caller's thread logs the Java exception
                yield
        except HiveAcidError as error:
            raise self._returned.keep_thrown(to_java_exception(self._spark, error)) from error
        except Exception as error:
            raise self._returned.keep_thrown(restore_java_exception(error)) from error

    def __getattr__(self, name: str) -> JavaObject:
        """Pass every other method, of this or a later Spark version, to Spark's parser."""
        if not name.startswith(("parse", "split")):
            raise AttributeError(name)

        def delegate(*args: object) -> JavaObject:
            with self._java_errors():
                for text in args:
                    if isinstance(text, str):
                        _refuse_too_large(text)
                return self._returned.keep(getattr(self.own_parser, name)(*args))

        return delegate

    class Java:
        """The Java interface that this class implements, as Py4J asks for it."""

        implements = ("org.apache.spark.sql.catalyst.parser.ParserInterface",)


def _refuse_too_large(text: str) -> None:
    """Raise StatementTooLargeError for a text that would occupy Spark's parser for ever."""
    try:
        tokenize(text)
    except StatementTooLargeError:
        raise
    except HiveAcidError:  # tokens that only Spark knows
        return


def _with_written_names(env: SparkEnvironment, source: Slice) -> Slice:
    """Write out the names of IDENTIFIER clauses; refuse one with a parameter, whose value Spark keeps to itself."""
    if not has_identifier_clause(source):
        return source
    written = with_written_names(env, source)
    if has_identifier_clause(written) and has_parameters(written):
        raise UnsupportedFeatureError(
            "IDENTIFIER with a parameter needs the Python session that getOrCreate() returned: here (Spark Connect, "
            "foreachBatch, JVM code) write the name into the text, because it may be that of a transactional table"
        )
    return written


def _has_subquery(text: str) -> bool:
    """Tell whether an expression that Spark accepts may contain a query."""
    try:
        return bool(mentions(tokenize(text), _SUBQUERIES))
    except StatementTooLargeError:
        raise
    except HiveAcidError:  # tokens that only Spark knows
        return False
