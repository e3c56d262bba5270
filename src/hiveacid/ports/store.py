"""Ports for services, for streams, and for a whole store: the union of the ports that one adapter implements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from hiveacid.config import Settings
from hiveacid.core.compaction.queue_records import Service
from hiveacid.core.model import TableName
from hiveacid.core.transactions.stream_progress import StreamKey, StreamProgress
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.compaction_queue import CompactionQueuePort
from hiveacid.ports.locks import LockPort
from hiveacid.ports.transactions import TransactionPort
from hiveacid.ports.write_ids import WriteIdPort


class StreamProgressPort(Protocol):
    """Progress of streaming queries, committed in the same transaction as their rows."""

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """Register a writer of a stream; repeating it for the same writer changes nothing.

        ``writer``: a text that identifies one run of the query. The rules are those of
        :func:`hiveacid.core.transactions.stream_progress.register_writer`. Raises StreamFencedError, StreamCheckpointError,
        UnsupportedFeatureError where a store cannot commit progress and rows together.
        """

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """Return the progress of a stream, None if it never registered a writer."""

    def list_streams(self, table: TableName) -> tuple[StreamProgress, ...]:
        """Return the progress of all streams into a table, by the names of their queries."""

    def restore_streams(self, table: TableName, streams: Sequence[StreamProgress]) -> None:
        """Replace the progress of all streams into a table by what another store listed (``hiveacid migrate``).

        A store that refuses streams ignores it.
        """


class ServicePort(Protocol):
    """Register of running services, kept alive by repeated announcements."""

    def announce_service(self, service: Service) -> None:
        """Announce a running service: at its start, and repeatedly while it runs."""

    def withdraw_service(self, name: str) -> None:
        """Remove a service that ends from the register; an unknown name is not an error."""

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services announced in the last ``within`` seconds, by name."""


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
