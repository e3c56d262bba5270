"""`NativeSession`: a Spark session whose own ``sql`` and ``table`` know transactional tables; `configure` asks for one."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException, UnsupportedOperationException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.readwriter import DataFrameReader

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.core.model import TableName
from hiveacid.ports.transactions import Client
from hiveacid.spark.parser.lexer import is_script, tokenize
from hiveacid.spark.session import environment
from hiveacid.spark.session.bound_plans import BoundTable, named_frame
from hiveacid.spark.session.callback_server import inject_parser
from hiveacid.spark.session.classic_session import ANOTHER_CATALOG, filled_in, is_temporary_view
from hiveacid.spark.session.error_translation import spark_errors_logged, stack_overflow, undeclared
from hiveacid.spark.session.jvm import scala_items, substitute_variables
from hiveacid.sql.binding.parameters import Arguments, has_identifier_clause, with_written_names
from hiveacid.sql.binding.statement_owner import Owner, refuse_transactional
from hiveacid.sql.binding.table_binder import find_hiveacid_relation
from hiveacid.sql.binding.table_sources import TableSource, find_metadata_table, metadata_frame
from hiveacid.sql.grammar.advice import advice_on, advice_on_query
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.native.both_catalogs import (
    add_hiveacid_tables,
    change_mirror,
    decide_ownership,
    mirror_databases,
    update_both_catalogs,
)
from hiveacid.sql.native.parser_inside_spark import NativeParser
from hiveacid.sql.native.shared_gateway import Gateway, NativeConnection
from hiveacid.sql.native.spark_catalog import ChangingCatalog, NativeCatalog
from hiveacid.sql.native.writer_targets import Target, find_target
from hiveacid.sql.native.writers import replace_writers
from hiveacid.sql.session import open_session
from hiveacid.sql.statements import SPARK_CATALOG, Slice, Statement, administration, table_ref
from hiveacid.stores.limits import OF_THE_STORE
from hiveacid.table.context import HOW_TO_MAKE_TRANSACTIONAL, Context, missing_table

if TYPE_CHECKING:
    from py4j.java_gateway import JavaObject
    from pyspark.sql._typing import OptionalPrimitiveType
    from pyspark.sql.types import StructType


_SUBSTITUTE = "spark.sql.variable.substitute"
_OF_THE_SERVER = frozenset(
    {
        _SUBSTITUTE,
        setting_definitions.AUTO_COMPACT.name,
        setting_definitions.OPENLINEAGE_TO.name,
        setting_definitions.OPENLINEAGE_NAMESPACE.name,
        *(setting.name for setting in OF_THE_STORE),
    }
)
MOST_SETTINGS = 200
"""Settings that a client may change in its session."""

ConnectArguments: TypeAlias = tuple[str | None, str | None, Mapping[str, str] | None]


class NativeSession(SparkSession):
    """Spark session in which hiveacid carries out the statements on transactional tables.

    Made by ``hiveacid.configure(SparkSession.builder, native=True, warehouse=...).getOrCreate()``. Threads may
    share it; a transaction (START TRANSACTION) belongs to the thread that began it.
    """

    def __init__(self, plain: SparkSession, gateway: Gateway, connect_arguments: ConnectArguments) -> None:
        """Wrap a session in which `open_native_session` has installed the parser."""
        super().__init__(plain.sparkContext, plain._jsparkSession)  # noqa: SLF001
        self._sql_gateway = gateway
        self._parser = gateway.parser_of(plain._jsparkSession)  # noqa: SLF001
        self._local = threading.local()
        self.connect_arguments = connect_arguments

    @property
    def acid(self) -> NativeConnection:
        """The connection of this session and thread: ``spark.acid.table("db.t").merge(...)``.

        Closing it rolls back a transaction begun by START TRANSACTION; everything else ends with the Spark session.
        """
        if not hasattr(self._local, "acid"):
            self._local.acid = self._sql_gateway.connection(self, self._parser)
        acid: NativeConnection = self._local.acid
        return acid

    def sql(self, sqlQuery: str, args: Arguments | None = None, **kwargs: object) -> DataFrame:
        """Run a statement: as Spark does, and on transactional tables as `AcidSession.sql` does.

        Raises the errors of `hiveacid.errors` for the latter.
        """
        if not self._sql_gateway.open:
            return super().sql(sqlQuery, args, **kwargs)  # type: ignore[arg-type] # Spark judges them
        if kwargs:
            with filled_in(self.acid.context.env, sqlQuery, kwargs) as text:
                return self.sql(text, args)
        # a statement that hiveacid itself runs while it carries out another
        if getattr(self._local, "in_hiveacid_statement", False):
            return self._run_in_spark(sqlQuery, args)
        self._local.in_hiveacid_statement = True
        try:
            with self.acid.statement(sqlQuery):
                text = substitute_variables(self.acid.context.env, sqlQuery)
                return self._run_by_owner(Slice(text), args)
        finally:
            self._local.in_hiveacid_statement = False

    def _run_by_owner(self, source: Slice, args: Arguments | None) -> DataFrame:
        text, given = source.text, args
        if has_identifier_clause(source):
            source = with_written_names(self.acid.context.env, Slice(self.acid.with_arguments(source, args)))
            args = None
        ownership = decide_ownership(self.acid, source)
        self.require_allowed(ownership.statement)
        update_both_catalogs(self.acid, source, ownership)
        if ownership.owner is Owner.HIVEACID and ownership.statement is not None:
            bound = parse(self.acid.with_arguments(source, args)) if args else ownership.statement
            return self.acid.run(text, bound)
        if ownership.owner is Owner.SPARK_READING_HIVEACID:
            with self.acid.binder() as binder:
                return binder.run(binder.bind(Slice(self.acid.with_arguments(source, args))))
        words = [token.keyword for token in source.tokens[:2]]
        if self.acid.joined is not None and (is_script(source.tokens) or words == ["EXECUTE", "IMMEDIATE"]):
            raise errors.UnsupportedFeatureError(
                "EXECUTE IMMEDIATE and scripts run outside the transaction, and ROLLBACK would not undo what they change: "
                "write the statements themselves, or COMMIT first"
            )
        changed = change_mirror(self.acid, source, ownership)
        if changed is not None:
            return changed
        with spark_errors_explained(self.acid.context, source.text):
            answer = self._run_in_spark(text, given)
        if isinstance(ownership.statement, administration.ShowTables):
            return add_hiveacid_tables(self.acid, ownership.statement, answer)
        return answer

    def require_allowed(self, statement: Statement | None) -> None:
        """Refuse a statement that this kind of session may not run."""

    def _run_in_spark(self, text: str, args: Arguments | None) -> DataFrame:
        """Run a text in Spark unchanged."""
        with self._sql_gateway.resolved_by_spark(self._jsparkSession, text):
            try:
                return super().sql(text, args)  # type: ignore[arg-type] # Spark judges them
            except Py4JError as error:
                meant = stack_overflow(error) or undeclared(error)
                if meant is None:
                    raise
                raise meant from error

    def table(self, tableName: str) -> DataFrame:
        """Return a table; a hiveacid table at the current snapshot."""
        ours = self.find_hiveacid_table(tableName)
        if ours is not None:
            rows = self.acid.table(ours).to_df()
            name = (SPARK_CATALOG, ours.database)
            return named_frame(self.acid.context.env, BoundTable(rows, ours.name, name))
        metadata = self.find_metadata_table(tableName)
        if metadata is not None:
            return metadata_frame(self.acid.context, metadata, None)
        self.require_readable(tableName)
        with spark_errors_explained(self.acid.context):
            return super().table(tableName)

    def find_metadata_table(self, name: str) -> TableSource | None:
        """Return the metadata table that a name refers to (``db.t.history``); None for other names."""
        parts = self._parts(name)
        return None if parts is None else find_metadata_table(self.acid.context, parts)

    def find_hiveacid_table(self, name: str) -> TableName | None:
        """Return the table or view of the hiveacid catalog that a name refers to; None if it is Spark's."""
        parts = self._parts(name)
        return None if parts is None else find_hiveacid_relation(self.acid.context, table_ref(parts))

    def _parts(self, name: str) -> list[str] | None:
        self.acid.follow()
        with spark_errors_logged():
            try:
                return [
                    str(part).lower() for part in scala_items(self._parser.parseMultipartIdentifier(name))
                ]
            except PySparkException:  # the caller's own call to Spark will report the error
                return None

    def find_target(self, name: str) -> Target | None:
        """Return the target of a writer, None if the name can only be Spark's; see `writer_targets.find_target`."""
        parts = self._parts(name)
        return None if parts is None else find_target(self.acid, parts)

    def resolved_by_spark(self, name: str) -> AbstractContextManager[None]:
        """Make Spark read a name as that of a database or a view, even if a hiveacid table has the same name."""
        return self._sql_gateway.resolved_by_spark(self._jsparkSession, name)

    def require_readable(self, name: str) -> None:
        """Raise UnsupportedFeatureError for a transactional table of Spark's own catalog (a Hive Metastore)."""
        context = self.acid.context
        if not context.env.hive_support:
            return
        parts = self._parts(name)
        ref = table_ref(parts) if parts else None
        if ref is not None and not (ref.database is None and is_temporary_view(context.env, ref.name)):
            refuse_transactional(context.env, ref.resolve(context.database))

    @property
    def read(self) -> DataFrameReader:
        """Spark's reader, whose ``table`` also finds hiveacid tables."""
        return _Reader(self)

    @property
    def catalog(self) -> Catalog:
        """Spark's catalog, which also knows hiveacid tables."""
        # older versions have none of the methods, and hasattr must tell so
        return (ChangingCatalog if hasattr(Catalog, "dropDatabase") else NativeCatalog)(self)

    def newSession(self) -> NativeSession:
        """Return a session with its own views, settings and current database, on the same tables."""
        return self.wrap(SparkSession(self.sparkContext, self._jsparkSession.newSession()))

    def wrap(self, plain: SparkSession) -> NativeSession:
        """Return a native session around another session of this application, on the same tables."""
        return NativeSession(plain, self._sql_gateway, self.connect_arguments)

    def for_other_warehouse(self, spark: SparkSession) -> SparkSession:
        """Return a session for a connection with another warehouse: ``spark``, or a copy with Spark's own SQL.

        The parser inside a session would read and write this warehouse's tables by the other's statements.
        """
        session = self._sql_gateway.without_parser(spark._jsparkSession)  # noqa: SLF001
        return spark if session is spark._jsparkSession else SparkSession(self.sparkContext, session)  # noqa: SLF001

    def for_client(self, client: Client) -> ClientSparkSession:
        """Return a session as `newSession` does, for a client: with one connection for all threads."""
        plain = SparkSession(self.sparkContext, self._jsparkSession.newSession())
        return ClientSparkSession(plain, self._sql_gateway, self.connect_arguments, client)

    def close(self) -> None:
        """Restore Spark's own SQL, close all connections and roll back their transactions; Spark keeps running."""
        self._sql_gateway.close()
        current = SparkSession._instantiatedSession  # noqa: SLF001
        if isinstance(current, NativeSession) and current._sql_gateway is self._sql_gateway:  # noqa: SLF001
            SparkSession._instantiatedSession = SparkSession(self.sparkContext, self._jsparkSession)  # noqa: SLF001

    def stop(self) -> None:
        """Close the connections and stop Spark."""
        self.close()
        super().stop()


class ClientSparkSession(NativeSession):
    """Session of a client of ``hiveacid serve``: the transaction belongs to the session, not to a thread.

    Its threads run one statement at a time. Settings of the store, and those that start services, stay those of the server.
    """

    def __init__(
        self, plain: SparkSession, gateway: Gateway, connect_arguments: ConnectArguments, client: Client
    ) -> None:
        """Create the connection, whose transactions have the client's name."""
        super().__init__(plain, gateway, connect_arguments)
        self._connection = gateway.connection(self, self._parser)
        context = self._connection.context
        context.session.shares_store, context.session.fixed = True, _OF_THE_SERVER
        transactions = replace(context.transactions, client=client)
        self._connection.context = context.with_transactions(transactions)
        self._changed_settings: set[str] = set()
        gateway.guard(self._jsparkSession, self)

    def sql(self, sqlQuery: str, args: Arguments | None = None, **kwargs: object) -> DataFrame:
        """Run a statement without Spark's variable substitution: drivers write the values of parameters into its text."""
        self.conf.set(_SUBSTITUTE, "false")  # each time, because RESET restores Spark's default
        return super().sql(sqlQuery, args, **kwargs)

    def require_changeable(self, name: str) -> None:
        """Raise ConfigError for a setting that is the server's, and for one more than `MOST_SETTINGS`."""
        key = name.lower()
        if key in _OF_THE_SERVER:
            raise errors.ConfigError(
                f"{name} is the server's, and no client may change it: see hiveacid serve --set"
            )
        self._changed_settings.add(key)
        if len(self._changed_settings) > MOST_SETTINGS:
            self._changed_settings.discard(key)
            raise errors.ConfigError(f"a session can change at most {MOST_SETTINGS} settings")

    def require_allowed(self, statement: Statement | None) -> None:
        """Raise ConfigError for SET or RESET of a setting that is the server's. The parser inside Spark calls this, too."""
        match statement:
            case administration.SetOption(str(key), str()) | administration.ResetOption(str(key)):
                self.require_changeable(key)

    @property
    def acid(self) -> NativeConnection:
        """The session's connection."""
        return self._connection


class _Reader(DataFrameReader):
    def __init__(self, spark: NativeSession) -> None:
        super().__init__(spark)
        self._native = spark
        self._options: dict[str, OptionalPrimitiveType] = {}

    def schema(self, schema: StructType | str) -> DataFrameReader:
        self._options[".schema"] = str(schema)
        return super().schema(schema)

    def option(self, key: str, value: OptionalPrimitiveType) -> DataFrameReader:
        self._options[key.lower()] = value
        return super().option(key, value)

    def options(self, **options: OptionalPrimitiveType) -> DataFrameReader:
        self._options |= {key.lower(): value for key, value in options.items()}
        return super().options(**options)

    def table(self, tableName: str) -> DataFrame:
        spark = self._native
        ours = spark.find_hiveacid_table(tableName)
        if ours is None and spark.find_metadata_table(tableName) is None:
            spark.require_readable(tableName)
            with spark_errors_explained(spark.acid.context):
                return super().table(tableName)
        options = {key: value for key, value in self._options.items() if value is not None}
        write_id, timestamp = (options.pop(key, None) for key in ("versionasof", "timestampasof"))
        if options:
            raise errors.UnsupportedFeatureError(
                f"read.table: {', '.join(options)} has no effect on {tableName}: leave it out. An earlier state is read by "
                "versionAsOf or timestampAsOf, changes by table_changes(...), other columns by .select(...)"
            )
        if write_id is timestamp is None:
            return spark.table(tableName)
        if ours is None:
            raise errors.UnsupportedFeatureError(
                f"read.table: {tableName} has no earlier states: leave out versionAsOf and timestampAsOf"
            )
        version, tag = write_id, None
        if str(version).isdecimal():
            version = int(str(version))
        elif isinstance(version, str):
            version, tag = None, version
        table = spark.acid.table(ours)
        return table.as_of(version, timestamp=timestamp, tag=tag).to_df()  # type: ignore[arg-type] # `as_of` judges them


def open_native_session(
    spark: SparkSession, warehouse: str | None, store: str | None, settings: Mapping[str, str] | None
) -> NativeSession:
    """Return a native session around ``spark``; later sessions of the application know the warehouse's tables, too.

    Raises the errors of `hiveacid.connect`.
    """
    root = open_session(spark, warehouse, store, settings)
    gateway = Gateway(root)
    try:
        restore = inject_parser(spark, lambda session, parser: _make_parser(gateway, spark, session, parser))
        gateway.on_close(restore)
        native = NativeSession(spark, gateway, (warehouse, store, settings))
        mirror_databases(native.acid)
    except BaseException:
        gateway.close()
        raise
    gateway.on_close(replace_writers(type(spark.range(0)), lambda session: _native_session(native, session)))
    SparkSession._instantiatedSession = native  # noqa: SLF001 - what SparkSession.builder.getOrCreate() returns
    return native


def _native_session(native: NativeSession, session: SparkSession) -> NativeSession | None:
    """Return the native session for the session of a DataFrame; None for one of another application.

    DataFrames in ``foreachBatch`` have plain sessions.
    """
    if isinstance(session, NativeSession):
        return session
    return native.wrap(session) if session.sparkContext is native.sparkContext else None


def _make_parser(
    gateway: Gateway, spark: SparkSession, session: JavaObject, parser: JavaObject
) -> JavaObject | NativeParser:
    if not gateway.open:
        return parser
    native_parser = NativeParser(gateway, SparkSession(spark.sparkContext, session), parser)
    gateway.remember(native_parser)
    return native_parser


def configure(
    builder: SparkSession.Builder,
    *,
    native: bool = False,
    warehouse: str | None = None,
    store: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession.Builder | NativeBuilder:
    """Return a ``SparkSession.builder`` with the settings that hiveacid works best with.

    ``native``: the session's own ``spark.sql`` carries out statements on transactional tables of ``warehouse`` and
    ``store`` (as for `connect`), and passes all others to Spark unchanged.
    With a local master it also makes Python workers use this interpreter.
    Raises ConfigError for a warehouse, store or settings without ``native``.
    """
    configured: SparkSession.Builder = environment.configure(builder)
    if native:
        return NativeBuilder(configured, warehouse, store, settings)
    if warehouse is not None or store is not None or settings:
        raise errors.ConfigError(
            "warehouse, store and settings need native=True: add it, or pass them to connect()"
        )
    return configured


class NativeBuilder:
    """``SparkSession.builder`` whose ``getOrCreate`` returns a `NativeSession`; everything else is Spark's."""

    def __init__(
        self,
        builder: SparkSession.Builder,
        warehouse: str | None,
        store: str | None,
        settings: Mapping[str, str] | None,
    ) -> None:
        """Keep warehouse, store and settings for `getOrCreate`."""
        self._builder = builder
        self._connect_arguments = (warehouse, store, dict(settings) if settings else None)

    def getOrCreate(self) -> NativeSession:
        """Return the native session; an existing one if it uses the same warehouse, or if no warehouse was given.

        Raises ConfigError if the existing native session uses another warehouse, or Java does not start; the errors of
        `connect`.
        """
        try:
            plain = self._builder.getOrCreate()
        except Exception as error:
            if "JAVA_GATEWAY_EXITED" not in str(error):
                raise
            raise errors.ConfigError(
                "Spark does not start, because Java does not: see hiveacid doctor"
            ) from error
        if not isinstance(plain, NativeSession):
            return open_native_session(plain, *self._connect_arguments)
        if self._connect_arguments not in ((None, None, None), plain.connect_arguments):
            raise errors.ConfigError(
                "this application has a native session on another warehouse: call spark.stop() first"
            )
        return plain

    def __getattr__(self, name: str) -> Any:
        """Pass other calls to Spark's builder; return this builder where Spark returns its own."""
        attribute = getattr(self._builder, name)
        if not callable(attribute):
            return attribute

        def delegate(*args: object, **kwargs: object) -> object:
            answer = attribute(*args, **kwargs)
            return self if answer is self._builder else answer

        return delegate


_CHANGES = frozenset({"UPDATE", "DELETE", "MERGE"})
_OF_VIEW = (
    "[INTERNAL_ERROR] Unexpected table relation"  # Spark's answer to a DELETE from a view of the session
)
# The last one is Spark 3.5's of statements that only Hive has.
_REFUSED_TEXTS = frozenset(
    {"PARSE_SYNTAX_ERROR", "INVALID_STATEMENT_OR_CLAUSE", "INVALID_SET_SYNTAX", "_LEGACY_ERROR_TEMP_0035"}
)
_OF_OTHERS = frozenset(
    {"DETAIL", "TEMPORARY"}
)  # DESCRIBE DETAIL, CREATE TEMPORARY TABLE: Spark reads them as something else


class MisspeltTableError(errors.NoSuchTableError, AnalysisException):
    """A table that exists in neither catalog, and hiveacid's has one of a similar name.

    Also an AnalysisException, because programs catch that to learn whether a table exists.
    """

    @property
    def message(self) -> str:
        """The message; Spark 3.5 sets it."""
        return str(self.args[0])

    @message.setter
    def message(self, _: str) -> None:
        """Leave it as it is."""

    def __str__(self) -> str:
        """Return the message."""
        return self.message


@contextmanager
def spark_errors_explained(context: Context, statement: str = "") -> Iterator[None]:
    """Raise this project's error for Spark's where it says more."""
    with spark_errors_logged():
        try:
            yield
        except (AnalysisException, UnsupportedOperationException) as error:
            explained = _explained(context, statement, error)
            if explained is None:
                raise
            raise explained from error
        except Py4JJavaError as error:
            if _OF_VIEW not in str(error):
                raise
            raise _not_changed("DELETE") from error


def _explained(context: Context, statement: str, error: PySparkException) -> errors.HiveAcidError | None:
    try:
        tokens = tokenize(statement)
    except errors.HiveAcidError:  # Spark's own grammar
        return None
    condition = (getattr(error, "getCondition", None) or error.getErrorClass)() or ""
    is_of_spark = condition not in _REFUSED_TEXTS and _OF_OTHERS.isdisjoint(
        token.keyword for token in tokens[1:2]
    )
    advice = None if is_of_spark else advice_on(tokens) or advice_on_query(tokens)
    if advice is not None:
        return errors.ParseError(advice, line=tokens[0].line, column=tokens[0].column)
    values = error.getMessageParameters() or {}
    if condition == "TABLE_OR_VIEW_NOT_FOUND":
        return _misspelt(context, values.get("relationName") or "")
    verb = (values.get("operation") or "").partition(" ")[0]  # the statement may stand in a script
    if condition.startswith("UNSUPPORTED_FEATURE.TABLE_OPERATION") and verb in _CHANGES:
        return _not_changed(verb, (values.get("tableName") or "unknown").replace("`", ""))
    return None


def _not_changed(verb: str, name: str = "unknown") -> errors.NotTransactionalError:
    # "unknown" is Spark's word for a view of the session
    subject = "this view or table" if name == "unknown" else name
    return errors.NotTransactionalError(
        f"{verb} on {subject}: it is Spark's own and not transactional: {HOW_TO_MAKE_TRANSACTIONAL}"
    )


def _misspelt(context: Context, name: str) -> MisspeltTableError | None:
    ref = table_ref([part.replace("``", "`").lower() for part in name.strip("`").split("`.`")])
    if not name or ref is None or context.database == ANOTHER_CATALOG:
        return None
    table = ref.resolve(context.database)
    if context.catalog.get_database(table.database) is None:
        return None
    message = str(missing_table(context.catalog, table))
    return MisspeltTableError(message) if "did you mean" in message else None
