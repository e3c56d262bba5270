"""What the verbs of a table work with."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.names import LayoutLevel
from hiveacid.core.storage_formats import FileKind, file_kind
from hiveacid.errors import (
    CatalogError,
    ConfigError,
    InsertOnlyError,
    NoSuchDatabaseError,
    NoSuchTableError,
    NotTransactionalError,
    UnsupportedFeatureError,
)
from hiveacid.orc.summary import Summaries
from hiveacid.storage.listing import MIGRATION
from hiveacid.table.kept import Events

if TYPE_CHECKING:
    from hiveacid.config import Settings
    from hiveacid.ports import Catalog, Clock, FileSystem, TransactionStore
    from hiveacid.snapshots import Snapshots
    from hiveacid.spark.session import SparkFacts
    from hiveacid.transaction import Transactions


_PARQUET_CODECS = ("UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD")
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
    events: Events = field(default_factory=Events)
    statement: str | None = None  # the SQL text that is being carried out, for tables' histories
    closed: bool = False
    in_view: bool = False  # the text of a view is being read, and ``database`` is the view's

    def change_settings(self, settings: Settings) -> None:
        """Use other settings from now on; store and heartbeat follow."""
        self.settings = settings
        self.store.obey(settings)
        self.transactions.heartbeats.interval = settings.get(keys.TXN_TIMEOUT) / 2

    def resolve(self, name: str | TableName) -> TableName:
        """Return a full name; a name without a database is in the current one."""
        if isinstance(name, TableName):
            return name
        if not isinstance(name, str):
            raise ConfigError(f"{name!r} is not the name of a table")
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

    def codec(self, table: TableDefinition) -> str:
        """Return the codec of a table's new ORC or Parquet files, in Spark's word: by its property or the setting.

        Raises ConfigError for a codec that nobody knows, UnsupportedFeatureError for one that Hive 3.1 cannot read.
        """
        if file_kind(table.storage) is FileKind.PARQUET:
            return _known_codec(table, "parquet.compression", _PARQUET_CODECS, "SNAPPY")
        choices = tuple(keys.ORC_COMPRESS.kind.split(" | "))
        found = _known_codec(table, "orc.compress", choices, self.settings.get(keys.ORC_COMPRESS))
        if found == "zstd" and self.layout_level(table) is LayoutLevel.HIVE3:
            raise UnsupportedFeatureError(
                f"{table.name}: Hive 3.1 cannot read ORC files with ZSTD: take ZLIB, SNAPPY or LZ4 "
                f"(orc.compress, {keys.ORC_COMPRESS.name})"
            )
        return found


def _known_codec(table: TableDefinition, key: str, known: tuple[str, ...], default: str) -> str:
    given = table.property(key) or default
    if given.upper() not in known:
        raise ConfigError(f"{table.name}: {key} is {given!r}, not one of {', '.join(known)}")
    return given.lower()


def require_table(catalog: Catalog, name: TableName) -> TableDefinition:
    """Return a table's definition or raise NoSuchTableError (NoSuchDatabaseError); CatalogError for a view."""
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
    if catalog.get_view(name) is not None:
        raise CatalogError(
            f"{name} is a view: it can be queried, altered by ALTER VIEW and dropped by DROP VIEW"
        )
    raise NoSuchTableError(f"table {name} does not exist: see SHOW TABLES IN {name.database}")
