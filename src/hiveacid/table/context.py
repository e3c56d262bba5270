"""Context that every operation on a table receives: the services of a connection, and the state of its session."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Protocol, Self

from hiveacid import errors
from hiveacid.config import Settings, property_definitions, setting_definitions
from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.errors import did_you_mean
from hiveacid.orc.footer_summary import SummaryCache
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.clock import Clock
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import TransactionStore
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.table.connection_caches import DeleteEventCache, LocationCache
from hiveacid.transactions.heartbeats import heartbeat_interval
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transactions

HOW_TO_MAKE_TRANSACTIONAL = (
    "CREATE TABLE n STORED AS ORC TBLPROPERTIES ('transactional'='true') AS SELECT * FROM the table makes one that is; "
    "after SET hive.create.as.acid=true each CREATE TABLE does"
)


class WriterContext(Protocol):
    """Part of a context that every writer has, streams included."""

    @property
    def fs(self) -> FileSystem:
        """Return the storage."""

    @property
    def catalog(self) -> Catalog:
        """Return the catalog."""

    @property
    def transactions(self) -> Transactions:
        """Return what begins transactions."""

    @property
    def settings(self) -> Settings:
        """Return the session's settings."""

    @property
    def statement(self) -> str | None:
        """Return the SQL text of the running statement, for the history of tables; None without one."""


@dataclass
class SessionState:
    """Part of a connection that its statements change: SET the settings, USE the current database."""

    settings: Settings
    database: str = "default"
    closed: bool = False
    shares_store: bool = False  # settings must not change the store, which clients of a server share
    fixed: frozenset[str] = frozenset()  # settings that RESET leaves as they are: those of a server


@dataclass(frozen=True, kw_only=True)
class StoreContext:
    """One connection without an engine: storage, store and catalog, which never change, and the session's state."""

    fs: FileSystem
    store: TransactionStore
    catalog: Catalog
    transactions: Transactions
    read_leases: ReadLeases
    clock: Clock
    warehouse: str
    session: SessionState
    kept: LocationCache = field(default_factory=LocationCache)

    @property
    def settings(self) -> Settings:
        """The session's settings."""
        return self.session.settings

    @property
    def database(self) -> str:
        """The session's current database."""
        return self.session.database

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on, also in the store and for the heartbeat if they are this connection's."""
        self.session.settings = settings
        if self.session.shares_store:
            return
        self.store.apply_settings(settings)
        self.transactions.heartbeats.interval = heartbeat_interval(settings)

    def close(self) -> None:
        """End snapshots, heartbeats and the store's connections."""
        self.session.closed = True
        try:
            self.read_leases.close()
        finally:
            self.transactions.heartbeats.close()
            self.store.close()

    def require_open(self) -> None:
        """Raise TransactionStateError once the warehouse is closed."""
        if self.session.closed:
            raise errors.TransactionStateError("the warehouse is closed: hiveacid.open(...) opens it again")

    def resolve(self, name: str | TableName) -> TableName:
        """Return a full name; a name without a database is in the current one."""
        if isinstance(name, TableName):
            return name
        if not isinstance(name, str):
            raise errors.ConfigError(f"{name!r} is not the name of a table")
        return TableName.parse(name, self.database)

    def require(self, name: TableName) -> TableDefinition:
        """Return a table's definition or raise NoSuchTableError (NoSuchDatabaseError)."""
        return require_table(self.catalog, name)

    def layout_level(self, table: TableDefinition) -> LayoutLevel:
        """Return the layout level of a table, as `layout_level` does with the session's settings."""
        return layout_level(table, self.settings)


@dataclass(frozen=True, kw_only=True)
class Context(StoreContext):
    """One connection with Spark, as one statement sees it."""

    env: SparkEnvironment
    summaries: SummaryCache = field(default_factory=SummaryCache)
    delete_cache: DeleteEventCache = field(default_factory=DeleteEventCache)
    statement: str | None = None  # SQL text of the running statement, for the history of tables

    def with_transactions(self, transactions: Transactions) -> Self:
        """Return a context whose transactions and read leases begin, and wait, as ``transactions`` says."""
        leases = self.read_leases.of_client(transactions)
        return replace(self, clock=transactions.clock, transactions=transactions, read_leases=leases)

    def with_own_sql(self) -> Self:
        """Return this context, with the environment of `SparkEnvironment.with_own_sql`."""
        env = self.env.with_own_sql()
        return self if env is self.env else replace(self, env=env)

    def require_transactional(self, name: TableName, what: str) -> TableDefinition:
        """Return a transactional table. Raises NotTransactionalError, whose text begins with ``what`` and the name."""
        table = self.require(name)
        if table.kind is TableKind.PLAIN:
            raise errors.NotTransactionalError(
                f"{what} {name}: the table is not transactional: {HOW_TO_MAKE_TRANSACTIONAL}"
            )
        return table

    def require_full_acid(self, name: TableName, verb: str) -> TableDefinition:
        """Return a table whose rows can be changed; NotTransactionalError, InsertOnlyError otherwise."""
        table = self.require_transactional(name, f"{verb} on")
        if table.kind is TableKind.INSERT_ONLY:
            raise errors.InsertOnlyError(
                f"{verb} on {name}: the table is insert-only (transactional_properties): INSERT OVERWRITE replaces its rows"
            )
        return table

    def single_bucket(self, table: TableDefinition) -> bool:
        """Tell whether all new rows of a table without buckets go to bucket 0: by its property or the setting."""
        if table.kind is not TableKind.FULL_ACID or table.bucketing is not None:
            return False
        text = property_definitions.SINGLE_BUCKET.of(table)
        return (
            self.settings.get(setting_definitions.SINGLE_BUCKET)
            if text is None
            else setting_definitions.SINGLE_BUCKET.parse(text)
        )


def layout_level(table: TableDefinition, settings: Settings) -> LayoutLevel:
    """Return the layout level of a table: its own property, else the session's setting."""
    text = property_definitions.LAYOUT_LEVEL.of(table)
    return LayoutLevel(
        setting_definitions.LAYOUT_LEVEL.parse(text)
        if text
        else settings.get(setting_definitions.LAYOUT_LEVEL)
    )


def require_table(catalog: Catalog, name: TableName) -> TableDefinition:
    """Return a table's definition or raise NoSuchTableError (NoSuchDatabaseError); CatalogError for a view."""
    table = catalog.get_table(name)
    if table is not None:
        moving = property_definitions.MIGRATION.of(table)
        if moving is not None:
            raise errors.CatalogError(
                f"table {name} is being moved {moving}: run the same hiveacid migrate again to complete the move"
            )
        return table
    if catalog.get_database(name.database) is None:
        raise errors.no_such_database(name.database, catalog.list_databases())
    if catalog.get_view(name) is not None:
        raise errors.CatalogError(
            f"{name} is a view: it can be queried, altered by ALTER VIEW and dropped by DROP VIEW"
        )
    raise missing_table(catalog, name)


def missing_table(catalog: Catalog, name: TableName) -> errors.NoSuchTableError:
    """Return the error for a table that does not exist; it suggests a similar name."""
    near = did_you_mean(name.name, catalog.list_tables(name.database))
    return errors.NoSuchTableError(f"table {name} does not exist: see SHOW TABLES IN {name.database}{near}")


def table_names(catalog: Catalog) -> list[TableName]:
    """Return the names of all tables, database by database."""
    databases = catalog.list_databases()
    return [TableName(database, name) for database in databases for name in catalog.list_tables(database)]
