"""`AcidSession`: a connection that speaks SQL. `connect` opens one."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from textwrap import shorten
from typing import Self

from pyspark.sql import DataFrame, SparkSession

from hiveacid import errors
from hiveacid.catalog.connection import WarehouseConnection, make_context
from hiveacid.config import setting_definitions
from hiveacid.core.format import write_id_lists
from hiveacid.core.model import TableName
from hiveacid.datasource import can_register, register
from hiveacid.services import Services
from hiveacid.services.runner import Runner
from hiveacid.spark.session.callback_server import use_secret_ids
from hiveacid.spark.session.classic_session import filled_in
from hiveacid.spark.session.environment import is_classic, without_hiveacid_parser
from hiveacid.spark.session.error_translation import spark_errors_logged
from hiveacid.spark.session.jvm import active_session, substitute_variables
from hiveacid.sql.binding.parameters import Arguments, with_arguments, with_written_names
from hiveacid.sql.binding.table_binder import Binder
from hiveacid.sql.execute.catalog_statements import adopted_definition
from hiveacid.sql.execute.context import ExecutionContext
from hiveacid.sql.execute.dispatch import execute
from hiveacid.sql.execute.queries_and_views import AcidView
from hiveacid.sql.grammar.parse import parse
from hiveacid.sql.statements import Slice, Statement
from hiveacid.sql.statements.administration import Rollback
from hiveacid.sql.statements.definitions import CreateTable
from hiveacid.table.acid_table import AcidTable
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

_NO_GUARD_WARNING = (
    "this session has Hive support and is not native: spark.sql and spark.table, unlike acid.sql, read transactional tables "
    "of a Hive Metastore as plain ones; they show wrong rows and spoil tables that they write. "
    "hiveacid.configure(builder, native=True, store=...) guards against that (docs/metastore.md)"
)
_FAILED_TEXT_LENGTH = 200  # characters of a failed statement


def connect(
    spark: SparkSession,
    warehouse: str | None = None,
    store: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> AcidSession:
    """Open a warehouse, or create it.

    ``warehouse``: the directory of the tables; a Hive Metastore knows its own. ``store``: an SQLAlchemy URL, or
    ``thrift://host:9083`` for a Hive Metastore (docs/metastore.md); by default an SQLite file inside the warehouse.
    ``settings``: Hive's names with values as texts (docs/settings.md). On Spark 4, ``format("hiveacid")`` is registered in
    the session. A native session (docs/native.md) has a connection already, which is returned if neither ``warehouse``
    nor ``store`` is given; otherwise the connection has a copy of the session, with Spark's own SQL.
    Raises ConfigError, StorageError, StoreUnavailableError, StoreVersionError; UnsupportedFeatureError in a client of
    Spark Connect.
    """
    inside = getattr(spark, "acid", None)
    if warehouse is None and store is None and isinstance(inside, AcidSession):
        return inside
    session = open_session(without_hiveacid_parser(spark), warehouse, store, settings)
    env = session.context.env
    if inside is None and env.hive_support:
        logger.warning(_NO_GUARD_WARNING)
    return session


def open_session(
    spark: SparkSession, warehouse: str | None, store: str | None, settings: Mapping[str, str] | None
) -> AcidSession:
    """Open a connection as `connect` does for a session that is not native, without the warning about Spark's catalog."""
    if not is_classic(spark):
        raise errors.UnsupportedFeatureError(
            "this session is a client of Spark Connect, which cannot call the JVM: start the server with a native session "
            "(docs/connect.md), whose clients need no hiveacid"
        )
    use_secret_ids(spark)  # of foreachBatch functions, too
    session = AcidSession(make_context(spark, warehouse, store, dict(settings or {})))
    if can_register(spark):
        register(spark)
    session.follow_auto_compact()
    return session


@dataclass(repr=False)
class AcidSession(WarehouseConnection):
    """A connection with SQL. Not thread-safe: each thread needs its own.

    ``joined``: the transaction that statements join, if there is one: that of a block ``with acid.transaction()``, or the
    one that START TRANSACTION began (``by_statement``).
    """

    by_statement: bool = False
    read_only: bool = False
    reader: Transaction | None = None  # of snapshot()
    runner: Runner | None = field(default=None, compare=False, repr=False)  # of hiveacid.auto_compact

    def sql(
        self, text: str, args: Arguments | None = None, *, first_line: int = 1, **values: object
    ) -> DataFrame:
        """Run one statement; return its rows.

        ``args``: values for ``:name`` (a mapping) or ``?`` (a sequence) in the text. ``values``: for ``{name}`` in the
        text, as in Spark's ``sql``; a DataFrame is a table of the statement.

        Statements that change rows return one row: num_affected_rows, num_inserted_rows, num_updated_rows,
        num_deleted_rows, write_id (NULL if nothing was written), num_retries (how often it was run again after a write
        conflict). Definitions return no rows. ``first_line``: the number of the text's first line, for messages. Raises
        ParseError with line and column for a text outside the grammar. After any error the statement has changed
        nothing.
        """
        if values:
            with filled_in(self.context.env, text, values) as filled:
                return self.sql(filled, args, first_line=first_line)
        with self.statement(text):
            source = Slice(substitute_variables(self.context.env, text))
            written = with_written_names(self.context.env, Slice(self.with_arguments(source, args)))
            return self.run(text, parse(written.text, first_line))

    def run(self, text: str, statement: Statement) -> DataFrame:
        """Carry out a parsed statement; ``text``: the user's text, which the tables' histories record."""
        return execute(self.execution(text), statement)

    @contextmanager
    def statement(self, text: str) -> Iterator[None]:
        """Run a statement in the block; if it fails, roll back the transaction that START TRANSACTION began.

        The transaction then accepts only ROLLBACK, as if Hive had rolled it back (``TestTxnCommands.testErrors``).
        Raises FailedTransactionError for any other statement, COMMIT included.
        """
        txn = self.joined if self.by_statement else None
        if txn is not None and txn.failed and not _is_rollback(text):
            raise errors.FailedTransactionError(txn.txn_id, txn.failed)
        self.context = self.context.with_own_sql()
        try:
            with spark_errors_logged(), active_session(self.context.env):
                yield
        except BaseException as error:
            if (
                self.by_statement
                and self.joined is not None
                and not isinstance(error, errors.FailedTransactionError)
            ):
                reason = str(error).partition("\n")[0] or type(error).__name__
                self.joined.failed = f"{shorten(text, _FAILED_TEXT_LENGTH)} ({reason})"
                self.joined.abort(f"a statement failed: {reason}"[:200])
            raise

    def with_arguments(self, source: Slice, args: Arguments | None) -> str:
        """Return a text with its parameters replaced by literals."""
        if not args:
            return source.text
        escaped = self.context.env.spark.conf.get("spark.sql.parser.escapedStringLiterals")
        return with_arguments(source, args, escapes=str(escaped).lower() != "true")

    def adopt(
        self,
        create_table_sql: str,
        location: str | None = None,
        valid_write_ids: str | write_id_lists.ValidWriteIdList | None = None,
        valid_txns: str | write_id_lists.ValidTxnList | None = None,
    ) -> AcidTable:
        """Adopt a table directory that another engine wrote, without changing any file.

        ``create_table_sql``: the output of SHOW CREATE TABLE of Hive. ``location`` replaces the location in it.
        ``valid_write_ids``: the table's ValidWriteIdList as Hive prints it (``db.t:5:9223372036854775807::3``); open ids
        count as aborted. Without it everything on disk is valid. ``valid_txns``: the ValidTxnList of the same moment.
        Raises StatementError, MissingDirectoryError, AlreadyExistsError, NoSuchDatabaseError.
        """
        statement = parse(create_table_sql)
        if not isinstance(statement, CreateTable):
            raise errors.StatementError("adopt takes the text of SHOW CREATE TABLE")
        table = adopted_definition(self.context, statement, location)
        if isinstance(valid_write_ids, str):
            valid_write_ids = write_id_lists.parse_write_id_list(valid_write_ids)
        if isinstance(valid_txns, str):
            valid_txns = write_id_lists.parse_txn_list(valid_txns)
        return self.adopt_table(table, valid_write_ids, valid_txns)

    @contextmanager
    def snapshot(self) -> Iterator[Self]:
        """Read all queries and scans of the block at one snapshot; writes are refused inside.

        DataFrames made in the block keep the snapshot as long as they can run.
        """
        if self.joined is not None:
            raise errors.TransactionStateError("a transaction has its snapshot already")
        with self.context.read_leases.acquire(self.context.settings) as reader:
            self.reader = self.joined = reader
            try:
                yield self
            finally:
                self.reader = self.joined = None

    def set(self, name: str, value: str) -> None:
        """Change a setting of this session. Raises ConfigError."""
        super().set(name, value)
        self.follow_auto_compact()

    def follow_auto_compact(self) -> None:
        """Start or stop background compaction, as ``hiveacid.auto_compact`` says.

        The services keep the settings from the time of their start.
        """
        setting = self.context.settings.get(setting_definitions.AUTO_COMPACT)
        if setting and self.runner is None and self.joined is None:
            self.runner = Runner(Services(self))
            self.context.transactions.heartbeats.on_commit(self.runner.wake_up_initiator_and_workers)
            self.runner.start()
        elif not setting and self.runner is not None:
            self.runner.stop()
            self.runner = None

    def table(self, name: str | TableName) -> AcidTable:
        """Return a table of the catalog, or an `AcidView`, whose rows can only be read. Raises NoSuchTableError."""
        self.context = self.context.with_own_sql()
        full_name = self.context.resolve(name)
        try:
            return super().table(full_name)
        except errors.CatalogError:
            if self.context.catalog.get_view(full_name) is None:
                raise
            return AcidView(self.context, full_name, self.joined, binder=self.binder)

    def binder(self, txn: Transaction | None = None) -> AbstractContextManager[Binder]:
        """Provide a binder that reads in ``txn``, by default in the session's transaction, otherwise the current state."""
        return self.execution().binder(txn)

    def execution(self, text: str | None = None) -> ExecutionContext:
        """Return the execution context of a statement; ``text``: as the tables' histories record it."""
        self.context = self.context.with_own_sql()
        return ExecutionContext(
            self.context if text is None else replace(self.context, statement=text),
            self.joined,
            self.reader,
            self.read_only,
            begin=self._begin_by_statement,
            end=self.end_by_statement,
            set=self.set,
            use=self.use,
        )

    def _begin_by_statement(self, txn: Transaction, read_only: bool) -> None:  # noqa: FBT001 - a callback's
        self.joined, self.by_statement, self.read_only = txn, True, read_only

    def end_by_statement(self, verb: str) -> Transaction:
        """Remove the transaction that START TRANSACTION began from the session, and return it; ``verb``: for the error."""
        if self.joined is None or not self.by_statement:
            where = "; the block of acid.transaction() ends its own" if self.joined is not None else ""
            raise errors.TransactionStateError(
                f"{verb}: no transaction was begun by START TRANSACTION{where}"
            )
        txn = self.joined
        self.joined, self.by_statement, self.read_only = None, False, False
        return txn

    def close(self) -> None:
        """Roll back an open transaction, stop background compaction, end snapshots and heartbeats."""
        try:
            self.end_own()
        finally:
            super().close()

    def end_own(self) -> None:
        """Roll back an open transaction and stop background compaction, which no other connection shares."""
        try:
            if self.runner is not None:
                self.runner.stop()
                self.runner = None
        finally:
            if self.joined is not None and self.by_statement:
                self.end_by_statement("close").abort("the session was closed")


def _is_rollback(text: str) -> bool:
    try:
        return isinstance(parse(text), Rollback)
    except errors.HiveAcidError:
        return False
