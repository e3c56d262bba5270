"""`hiveacid.open`: a warehouse without Spark or Java, with its databases and tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from hiveacid.catalog.opening import begin_session, open_store, require_existing_warehouse
from hiveacid.config import Settings
from hiveacid.core.model import TableName
from hiveacid.errors import ConfigError, NoSuchDatabaseError, did_you_mean
from hiveacid.ports.clock import SystemClock
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.stores.hms.metastores import is_metastore
from hiveacid.table.context import SessionState, StoreContext
from hiveacid.transactions.read_leases import ReadLeases

if TYPE_CHECKING:
    from hiveacid.arrow.table import ArrowTable


def open_warehouse(
    warehouse: str | None = None, store: str | None = None, settings: Mapping[str, str] | None = None
) -> ArrowWarehouse:
    """Open an existing warehouse to read and append without Spark or Java.

    ``warehouse``: its directory or URI. ``store``: an SQLAlchemy URL, or ``thrift://host:9083`` for a Hive Metastore;
    by default the SQLite database inside the warehouse. ``settings``: by name, as in ``SET``.

    Raises ConfigError for a warehouse that does not exist, StoreUnavailableError, StoreVersionError.
    """
    if warehouse is None and not is_metastore(store):
        raise ConfigError("open() needs warehouse=: the directory of the tables")
    directory = None if warehouse is None else str(warehouse)
    require_existing_warehouse(directory, store, mounted=True)
    initial = Settings.of(dict(settings or {}))
    clock = SystemClock()
    opened, root = open_store(directory, store, initial, clock)
    effective, transactions = begin_session(opened, settings or {}, clock, "hiveacid arrow")
    return ArrowWarehouse(
        StoreContext(
            fs=AnyFileSystem(),
            store=opened,
            catalog=opened,
            transactions=transactions,
            read_leases=ReadLeases(transactions),
            clock=clock,
            warehouse=root,
            session=SessionState(effective),
        )
    )


@dataclass(frozen=True)
class ArrowWarehouse:
    """An open warehouse. Use it in a ``with`` block, or call `close`."""

    context: StoreContext

    def __repr__(self) -> str:
        """Return the warehouse's directory."""
        return f"<hiveacid warehouse {self.context.warehouse}{' (closed)' if self.context.session.closed else ''}>"

    def databases(self) -> list[str]:
        """Return the names of the databases."""
        self.context.require_open()
        return sorted(self.context.catalog.list_databases())

    def tables(self, database: str = "default") -> list[str]:
        """Return the names of a database's tables. Raises NoSuchDatabaseError."""
        self.context.require_open()
        if self.context.catalog.get_database(database.lower()) is None:
            names = self.databases()
            near = did_you_mean(database, names)
            raise NoSuchDatabaseError(
                f"database {database} does not exist; the warehouse has {', '.join(names)}{near}"
            )
        return sorted(self.context.catalog.list_tables(database.lower()))

    def table(self, name: str | TableName) -> ArrowTable:
        """Return a table, ``name`` or ``database.name``. Raises NoSuchTableError, NoSuchDatabaseError."""
        from hiveacid.arrow.table import ArrowTable  # noqa: PLC0415 - pyarrow at the first use

        self.context.require_open()
        full = self.context.resolve(name)
        self.context.require(full)
        return ArrowTable(self.context, full)

    def close(self) -> None:
        """End all reads and the store's connections. A second call does nothing."""
        if not self.context.session.closed:
            self.context.close()

    def close_without_ending_reads(self) -> None:
        """Close the store's connections; the cleaner keeps the files of plans until their transactions time out."""
        self.context.session.closed = True
        self.context.transactions.heartbeats.close()
        self.context.store.close()

    def __enter__(self) -> Self:
        """Return the warehouse."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()
