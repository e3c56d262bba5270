"""Ports for a whole store: the union of the smaller ports that one adapter implements."""

from __future__ import annotations

from typing import Protocol

from hiveacid.config import Settings
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.compaction_queue import CompactionQueuePort
from hiveacid.ports.locks import LockPort
from hiveacid.ports.services import ServicePort
from hiveacid.ports.stream_progress import StreamProgressPort
from hiveacid.ports.transactions import TransactionPort
from hiveacid.ports.write_ids import WriteIdPort


class StoreConnection(Protocol):
    """A store's connections, its clock, and the settings that it applies or prescribes."""

    def now(self) -> int:
        """Return the store's own time (ms since the epoch), the clock of every time that the store returns."""

    def apply_settings(self, settings: Settings) -> None:
        """Use the time-outs and limits of these settings from now on (``hive.txn.timeout``, ``hive.max.open.txns``)."""

    def layout_level(self) -> str | None:
        """Return the ``hiveacid.layout.level`` that the Hive of this store can read; None if only hiveacid reads the tables."""

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""


class TransactionStore(
    TransactionPort,
    WriteIdPort,
    LockPort,
    CompactionQueuePort,
    StreamProgressPort,
    ServicePort,
    StoreConnection,
    Protocol,
):
    """A store that keeps all transactional state (Hive's transaction manager). Adapters rely on no remembered state.

    Every adapter passes ``tests/support/contract/suites.py``.
    """


class WarehouseStore(TransactionStore, Catalog, Protocol):
    """The transaction store and the catalog of a warehouse, in one adapter: every adapter is both."""
