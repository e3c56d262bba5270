"""Opening a warehouse's store; no Spark needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hiveacid.core.model import DatabaseDefinition
from hiveacid.errors import AlreadyExistsError, ConfigError, UnsupportedFeatureError
from hiveacid.storage.local import LocalFileSystem, absolute
from hiveacid.stores.hms.address import is_metastore, parse_address
from hiveacid.table.context import STORE_DIRECTORY

if TYPE_CHECKING:
    from hiveacid.config import Settings
    from hiveacid.ports import Catalog, Clock
    from hiveacid.stores.sql.store import SqlStore


def open_store(
    warehouse: str | None, store: str | None, settings: Settings, clock: Clock
) -> tuple[SqlStore, str]:
    """Open (or make) a warehouse's store; return it and the warehouse's absolute path.

    ``store``: an SQLAlchemy URL; default: SQLite inside of the warehouse directory. Raises ConfigError,
    StorageError, StoreUnavailableError, StoreVersionError.
    """
    if is_metastore(store):
        parse_address(str(store))
        raise UnsupportedFeatureError(
            "a Hive Metastore as store: only its client is there (hiveacid.stores.hms); transactions and catalog are "
            "under way. Until then copy nothing between engines: let one of them write"
        )
    if warehouse is None:
        raise ConfigError("connect() needs warehouse=: the directory that tables are kept in")
    from hiveacid.stores.limits import Limits  # noqa: PLC0415 - SQLAlchemy only when it is needed
    from hiveacid.stores.sql.store import SqlStore  # noqa: PLC0415

    root = absolute(warehouse)
    LocalFileSystem().make_directory(f"{root}/{STORE_DIRECTORY}")
    url = store or f"sqlite:///{root}/{STORE_DIRECTORY}/store.db"
    opened = SqlStore(url, clock=clock, limits=Limits.of(settings))
    try:
        if opened.get_database("default") is None:
            create_database_quietly(opened, DatabaseDefinition("default", root, "Default Hive database"))
    except BaseException:
        opened.close()
        raise
    return opened, root


def create_database_quietly(catalog: Catalog, database: DatabaseDefinition) -> None:
    """Create a database; one that another process made at the same moment is as good."""
    try:
        catalog.create_database(database)
    except AlreadyExistsError:
        return
