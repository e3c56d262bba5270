"""Open the store of a warehouse, without Spark."""

from __future__ import annotations

import logging
import os
import pwd
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from hiveacid.config import Settings, setting_definitions
from hiveacid.core.model import DatabaseDefinition
from hiveacid.core.schema.location_overlap import STORE_DIRECTORY, STORE_FILE
from hiveacid.errors import AlreadyExistsError, ConfigError, StorageError, did_you_mean
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.clock import Clock
from hiveacid.ports.store import StoreConnection, WarehouseStore
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.paths import absolute, is_local, real_paths
from hiveacid.stores.hms.metastores import is_metastore
from hiveacid.transactions.heartbeats import Heartbeats, heartbeat_interval
from hiveacid.transactions.transaction import Transactions, this_client

logger = logging.getLogger(__name__)


def open_store(
    warehouse: str | None, store: str | None, settings: Settings, clock: Clock
) -> tuple[WarehouseStore, str]:
    """Open (or make) a warehouse's store; return it and the warehouse's absolute path.

    ``store``: an SQLAlchemy URL, or ``thrift://host:9083[,host2]`` for a Hive Metastore. The default is SQLite inside
    the warehouse directory. ``warehouse`` may be None with a metastore, whose default database then gives its path.
    Raises ConfigError, StorageError, StoreUnavailableError, StoreVersionError, MisplacedStoreError.
    """
    if store is not None and is_metastore(store):
        return _open_metastore(warehouse, store, settings, clock)
    if warehouse is None:
        raise ConfigError(
            "warehouse= is missing: the directory that tables are kept in; or store= of a Hive Metastore"
        )
    from hiveacid.stores.limits import Limits  # noqa: PLC0415 - SQLAlchemy only when it is needed
    from hiveacid.stores.sql.dialects.sqlite import protect_directory, sqlite_url  # noqa: PLC0415
    from hiveacid.stores.sql.store import SqlStore  # noqa: PLC0415

    root = absolute(warehouse)
    file = Path(root, STORE_DIRECTORY, STORE_FILE)
    if store is None and is_local(root):
        _require_accessible(file.parent)
    if is_local(root):
        is_new = not file.parent.exists()
        LocalFileSystem().make_directory(str(file.parent))
        if store is None:
            protect_directory(file.parent, is_new=is_new)
    elif store is None:
        raise ConfigError(
            f"the warehouse {root} needs store=: an SQLite database can't lie there; give the URL of a PostgreSQL, "
            "MariaDB or MySQL database that all clients of the warehouse can reach, or thrift://… of a Hive Metastore"
        )
    opened = SqlStore(
        store or sqlite_url(file), clock=clock, limits=Limits.of(settings), real_paths=real_paths
    )
    try:
        if opened.get_database("default") is None:
            create_database_if_missing(opened, DatabaseDefinition("default", root, "Default Hive database"))
    except BaseException:
        opened.close()
        raise
    return opened, root


def _require_accessible(directory: Path) -> None:
    """Raise StorageError if another user's store is closed to this process."""
    try:
        owner = directory.stat().st_uid
    except PermissionError as error:
        raise StorageError(
            f"{directory} cannot be reached: a directory above it is closed to this user"
        ) from error
    except OSError:  # not there yet
        return
    if not os.access(directory, os.R_OK | os.X_OK, effective_ids=os.access in os.supports_effective_ids):
        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = str(owner)
        raise StorageError(
            f"the store in {directory} is closed to this user; {name} owns it, and can open it to a group: chgrp GROUP and "
            "chmod 2770 (docs/operate.md)"
        )


def require_existing_warehouse(warehouse: str | None, store: str | None, *, mounted: bool = False) -> None:
    """Raise ConfigError if opening would create a warehouse or an SQLite store, for callers that must not create one.

    ``mounted``: require the directory of a local warehouse with a store elsewhere, too. Commands that read no files do
    without it.
    """
    if is_metastore(store) or warehouse is None:
        return
    if store is not None:
        from hiveacid.stores.sql.dialects.sqlite import file_of  # noqa: PLC0415 - imports SQLAlchemy

        file = file_of(store)
        if file is not None and not file.is_file():
            raise ConfigError(f"there is no store at {file}: hiveacid.connect(spark, store=...) creates one")
    if not is_local(warehouse) or (store is not None and not mounted):
        return
    root = Path(absolute(warehouse))
    if store is None:
        _require_accessible(root / STORE_DIRECTORY)
    exists = root.is_dir() if store is not None else (root / STORE_DIRECTORY / STORE_FILE).is_file()
    if not exists:
        raise ConfigError(
            f"there is no warehouse at {warehouse}: create it by hiveacid.connect(spark, warehouse=...), or by CREATE TABLE "
            "in hiveacid sql"
        )


def new_warehouse_notice(warehouse: str, store: str | None) -> str | None:
    """Return a line about the local warehouse that a command is about to create; None if there is one.

    Raises ConfigError if the directory above it does not exist either (a misspelt path).
    """
    root = _new_warehouse(warehouse, store)
    if root is None:
        return None
    if not root.parent.is_dir():
        raise ConfigError(
            f"there is no warehouse at {warehouse}, and no directory {root.parent} for a new one: correct the path, or "
            "create that directory"
        )
    return f"creating a new warehouse at {root}{_near(root)}"


def log_new_warehouse(warehouse: str, store: str | None) -> None:
    """Log that connecting is about to create a local warehouse: as a warning if the path may be misspelt."""
    root = _new_warehouse(warehouse, store)
    if root is not None:
        near, above = _near(root), "" if root.parent.is_dir() else f", and the directory {root.parent}"
        level = logging.WARNING if near or above else logging.INFO
        logger.log(level, "creating a new warehouse at %s%s%s", root, above, near)


def _new_warehouse(warehouse: str, store: str | None) -> Path | None:
    if not is_local(warehouse) or is_metastore(store):
        return None
    root = Path(absolute(warehouse))
    _require_accessible(root / STORE_DIRECTORY)
    return None if Path(root, STORE_DIRECTORY).exists() else root


def _near(root: Path) -> str:
    others = (path.parent.name for path in root.parent.glob(f"*/{STORE_DIRECTORY}"))
    return did_you_mean(root.name, others)


def _open_metastore(
    warehouse: str | None, store: str, settings: Settings, clock: Clock
) -> tuple[WarehouseStore, str]:
    from hiveacid.stores.hms.store import MetastoreStore  # noqa: PLC0415 - slow; only metastores need it
    from hiveacid.stores.limits import Limits  # noqa: PLC0415

    opened = MetastoreStore(store, clock=clock, limits=Limits.of(settings), owner=this_client().user)
    try:
        opened.apply_settings(settings)
        return opened, warehouse_of(opened, warehouse)
    except BaseException:
        opened.close()
        raise


def warehouse_of(catalog: Catalog, given: str | None) -> str:
    """Return the absolute path below which new databases are created: the given one, else the default database's."""
    default = catalog.get_database("default")
    place = given or (default.location if default else "")
    if not place:
        raise ConfigError("the metastore's database default has no location: give warehouse=")
    return absolute(place)


def begin_session(
    opened: WarehouseStore, given: Mapping[str, str], clock: Clock, agent: str = "hiveacid"
) -> tuple[Settings, Transactions]:
    """Return a session's settings, and its transactions with their heartbeats.

    The store implies the layout level if it is a metastore: that of its Hive. ``agent``: as SHOW TRANSACTIONS shows it.
    """
    settings = Settings.of(dict(implied_settings(opened).changed) | dict(given))
    heartbeats = Heartbeats(opened, heartbeat_interval(settings))
    return settings, Transactions(opened, heartbeats, clock, this_client(agent))


def implied_settings(store: StoreConnection) -> Settings:
    """Return a session's settings before any is given: a metastore implies the layout level of its Hive."""
    level = store.layout_level()
    return Settings.of({} if level is None else {setting_definitions.LAYOUT_LEVEL.name: level})


def create_database_if_missing(catalog: Catalog, database: DatabaseDefinition) -> None:
    """Create a database unless it exists; another process may create it at the same time."""
    with suppress(AlreadyExistsError):
        catalog.create_database(database)
