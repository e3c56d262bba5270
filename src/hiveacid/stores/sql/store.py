"""`SqlStore`: one class that inherits the methods of all ports from the modules that implement them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from sqlalchemy import URL, select

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Constraint, TableDefinition, TableName, TxnId
from hiveacid.core.schema.location_overlap import Place
from hiveacid.ports.clock import Clock, SystemClock
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.begin_txn import BeginTxn
from hiveacid.stores.sql.catalog import SqlCatalog
from hiveacid.stores.sql.commit_records import CommitRecords, Streams
from hiveacid.stores.sql.commit_txn import CommitTxn
from hiveacid.stores.sql.compaction_queue import CompactionQueue
from hiveacid.stores.sql.database import TRIES, Database
from hiveacid.stores.sql.dialects import database_now
from hiveacid.stores.sql.heartbeats_and_aborts import AbortTxns
from hiveacid.stores.sql.home import Relocation, relocate, require_home, warehouse_of
from hiveacid.stores.sql.lock_queue import LockQueue
from hiveacid.stores.sql.maintenance import ChangedPartitions, Housekeeping, ServiceRegister
from hiveacid.stores.sql.migrations import migrate
from hiveacid.stores.sql.snapshots import Snapshots
from hiveacid.stores.sql.stored_definitions import StoredLocations, remember_paths
from hiveacid.stores.sql.txn_rows import OpenTxns
from hiveacid.stores.sql.write_ids import WriteIds


class SqlStore(
    OpenTxns,
    BeginTxn,
    Snapshots,
    WriteIds,
    LockQueue,
    CommitTxn,
    CommitRecords,
    Streams,
    AbortTxns,
    Housekeeping,
    CompactionQueue,
    ChangedPartitions,
    ServiceRegister,
    SqlCatalog,
):
    """Implements :class:`hiveacid.ports.store.WarehouseStore` over one database.

    Each base class has the verbs of one module; here are those that need no statement.

    ``url``: ``sqlite:///path``, ``postgresql+psycopg://...`` or ``mysql+pymysql://...`` (MariaDB, MySQL); the schema is created
    or upgraded. ``txn_timeout`` (seconds) overrides that of ``limits``. ``clock`` is the time of an embedded store; a
    server has its own, unless ``server_time`` is False. Raises ConfigError for an impossible URL,
    StoreUnavailableError, StoreVersionError, and MisplacedStoreError for a file that was copied or moved (`home`), unless
    it is being ``relocated``. ``real_paths``: as in `StoredLocations`. Every verb may raise StoreError and its kinds.
    """

    def __init__(
        self,
        url: str | URL,
        *,
        txn_timeout: float | None = None,
        limits: Limits | None = None,
        clock: Clock | None = None,
        server_time: bool | None = None,
        real_paths: Callable[[], Callable[[str], str]] = lambda: str,
        relocated: bool = False,
    ) -> None:
        limits = limits or Limits.of(Settings())
        if txn_timeout is not None:
            limits = replace(limits, txn_timeout=txn_timeout)
        clock = clock or SystemClock()
        super().__init__(Database(url, clock, server_time=server_time), limits, clock)
        self._database.dialect.silence = limits.silence
        file = self._database.file
        self._database.locations = StoredLocations(
            file and warehouse_of(file), remember_paths(real_paths, clock)
        )
        try:
            migrate(self._database)
            if file is not None and not relocated:
                require_home(self._database, file)
        except BaseException:
            self._database.close()
            raise
        self._database.tries = TRIES  # it was reached once

    def __repr__(self) -> str:
        """Return the URL without its password."""
        return f"SqlStore({str(self._database)!r})"

    def apply_settings(self, settings: Settings) -> None:
        """Apply the limits of ``settings`` from now on."""
        self._limits = Limits.of(settings)
        self._database.dialect.silence = self._limits.silence

    def layout_level(self) -> str | None:
        """Return None: the settings choose the layout level."""
        return None

    def txn_timeout(self) -> float | None:
        """Return None: each transaction has the timeout of its client."""
        return None

    def record_read_write_ids(self, txn_id: TxnId, write_ids: Sequence[ValidWriteIdList]) -> None:
        """Do nothing: the cleaner waits for open transactions, not for write ids."""

    def restart_write_ids(self, table: TableDefinition, mark: tuple[str, str]) -> None:
        """Do nothing: DROP TABLE has deleted the table's write ids."""

    def require_claimable_jobs(self) -> None:
        """Do nothing: every worker may claim jobs."""

    def maintained_by_hiveacid(self) -> bool:
        """Return True: hiveacid's initiator, workers and cleaner maintain the tables."""
        return True

    def enabled_constraints(self, name: TableName) -> tuple[Constraint, ...]:  # noqa: ARG002 - the same for all
        """Return none: CREATE TABLE refuses them."""
        return ()

    def relocate(self, links: Sequence[Place], *, keep_outside: bool) -> Relocation:
        """Make the store independent of the one that it is a copy of, or that was here before (`home.relocate`)."""
        return relocate(self._database, self._database.file or "", links, keep_outside=keep_outside)

    def close(self) -> None:
        """Close the connections."""
        self._database.close()

    def now(self) -> int:
        """Return the current time of the store's clock (ms): the database's, or for an embedded store the client's."""
        own = self._database.now()
        if own is not None:
            return own
        return int(self._database.read(lambda connection: connection.scalar(select(database_now()))) or 0)
