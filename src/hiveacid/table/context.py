"""What the verbs of a table work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.names import LayoutLevel
from hiveacid.errors import (
    CatalogError,
    InsertOnlyError,
    NoSuchDatabaseError,
    NoSuchTableError,
    NotTransactionalError,
)
from hiveacid.orc.summary import Summaries
from hiveacid.storage.listing import MIGRATION

if TYPE_CHECKING:
    from hiveacid.config import Settings
    from hiveacid.ports import Catalog, Clock, FileSystem, TransactionStore
    from hiveacid.snapshots import Snapshots
    from hiveacid.spark.session import SparkFacts
    from hiveacid.transaction import Transactions


STORE_DIRECTORY = ".hiveacid"
"""What belongs to the connection itself, inside of the warehouse."""


@dataclass
class Context:
    """One connection: Spark, storage, store, catalog, and the session's changeable settings."""

    facts: SparkFacts
    fs: FileSystem
    store: TransactionStore
    catalog: Catalog
    transactions: Transactions
    snapshots: Snapshots
    clock: Clock
    warehouse: str
    settings: Settings
    database: str = "default"
    summaries: Summaries = field(default_factory=Summaries)
    statement: str | None = None  # the SQL text that is being carried out, for tables' histories
    closed: bool = False

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on; store and heartbeat follow."""
        self.settings = settings
        self.store.obey(settings)
        self.transactions.heartbeats.interval = settings.get(keys.TXN_TIMEOUT) / 2

    def resolve(self, name: str | TableName) -> TableName:
        """Return a full name; a name without a database is in the current one."""
        if isinstance(name, TableName):
            return name
        database, dot, table = name.strip().replace("`", "").rpartition(".")
        return TableName((database if dot else self.database).lower(), table.lower())

    def require(self, name: TableName) -> TableDefinition:
        """Return a table's definition or raise NoSuchTableError (NoSuchDatabaseError)."""
        return require_table(self.catalog, name)

    def require_full_acid(self, name: TableName, verb: str) -> TableDefinition:
        """Return a table whose rows can be changed; NotTransactionalError, InsertOnlyError otherwise."""
        table = self.require(name)
        if table.kind is TableKind.INSERT_ONLY:
            raise InsertOnlyError(f"{verb} on {name}: the table is insert-only (transactional_properties)")
        if table.kind is TableKind.PLAIN:
            raise NotTransactionalError(
                f"{verb} on {name}: the table is not transactional; create it with "
                "TBLPROPERTIES ('transactional'='true')"
            )
        return table

    def layout_level(self, table: TableDefinition) -> LayoutLevel:
        """Return the layout level of a table: its own property, else the session's setting."""
        key = keys.LAYOUT_LEVEL.name
        return LayoutLevel(table.property(key) or self.settings.get(keys.LAYOUT_LEVEL))


def require_table(catalog: Catalog, name: TableName) -> TableDefinition:
    """Return a table's definition or raise NoSuchTableError (NoSuchDatabaseError)."""
    table = catalog.get_table(name)
    if table is not None:
        moving = table.property(MIGRATION)
        if moving is not None:
            raise CatalogError(
                f"table {name} is on its way to or from {moving}: run hiveacid migrate again, which brings it to its end"
            )
        return table
    if catalog.get_database(name.database) is None:
        raise NoSuchDatabaseError(f"database {name.database} does not exist: see SHOW DATABASES")
    raise NoSuchTableError(f"table {name} does not exist: see SHOW TABLES IN {name.database}")
