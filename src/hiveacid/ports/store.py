"""Ports for the compaction queue, services, streams, and a whole store: the union of the ports that one adapter implements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, cast

from hiveacid.config import Settings
from hiveacid.core.compaction.advice import FigureRecord
from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    ChangedPartition,
    Compaction,
    CompactionRequest,
    Service,
)
from hiveacid.core.model import Partition, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.snapshot.file_records import NO_PLACES, RecordedPlaces
from hiveacid.core.transactions.commit_records import StreamKey, StreamProgress
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.transactions import LockPort, TransactionPort, WriteIdPort


class CompactionQueuePort(Protocol):
    """Queue of compactions (``COMPACTION_QUEUE``), its history, and the partitions that may need one."""

    def require_claimable_jobs(self) -> None:
        """Raise UnsupportedFeatureError if hiveacid's workers cannot claim jobs from this store."""

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """Queue a job.

        Raises CompactionRefusedError while a job of the same table or partition is initiated or working, or if one that
        is ready for cleaning already covers the request.
        """

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """Claim the job ``compaction_id``, or the pool's next one, atomically; None if there is none to claim.

        The default pool also takes jobs of other pools that are older than ``hive.compactor.worker.pool.timeout``.
        """

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """Record the job's transaction and high watermark. Raises TransactionStateError as `release_compaction` does."""

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """Record what a job reports of its progress or result."""

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """Put a working job back into the queue. Raises TransactionStateError if ``worker`` no longer holds it."""

    def end_compaction(
        self, compaction_id: int, state: str, error: str | None = None, worker: str | None = None
    ) -> None:
        """Move a job to ready for cleaning or to a state in which it has ended, as ``core.transactions.states`` allows.

        A job that was refused, or has an aborted transaction and is ready for cleaning, has written no file: the store
        keeps no record of its transaction. Its cleaning waits for all transactions that begin before this call ends.
        Raises TransactionStateError for any other transition, or if ``worker`` no longer holds the job.
        """

    def show_compactions(self) -> tuple[Compaction, ...]:
        """List the queued and the ended jobs, ordered by id."""


class StreamProgressPort(Protocol):
    """Progress of streaming queries, committed in the same transaction as their rows."""

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """Register a writer of a stream; repeating it for the same writer changes nothing.

        ``writer``: a text that identifies one run of the query. The rules are those of
        :func:`hiveacid.core.transactions.commit_records.register_writer`. Raises StreamFencedError, StreamCheckpointError.
        """

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """Return the progress of a stream, None if it never registered a writer."""

    def list_streams(self, table: TableName) -> tuple[StreamProgress, ...]:
        """Return the progress of all streams into a table, by the names of their queries."""

    def restore_streams(self, table: TableName, streams: Sequence[StreamProgress]) -> None:
        """Replace the progress of all streams into a table by what another store listed (``hiveacid migrate``)."""


class ServicePort(Protocol):
    """Register of running services, kept alive by repeated announcements."""

    def announce_service(self, service: Service) -> None:
        """Announce a running service: at its start, and repeatedly while it runs."""

    def withdraw_service(self, name: str) -> None:
        """Remove a service that ends from the register; an unknown name is not an error."""

    def show_services(self, within: float) -> tuple[Service, ...]:
        """List the services announced in the last ``within`` seconds, by name."""


class FileRecordsPort(Protocol):
    """Files that commits have recorded (`core.snapshot.file_records`)."""

    def recorded_files(
        self, table: TableName, partitions: Sequence[Partition] | None, known: RecordedPlaces = NO_PLACES
    ) -> RecordedPlaces | None:
        """Return the directories in these partitions, by `Partition.key`; None: in the table, which has the key ().

        They are sorted by name. ``known``: those that an earlier call has returned for the same table; what has not changed
        is not read again. If nothing has changed, the result may be ``known`` itself.

        The result is None if the records may be incomplete. A reader calls it after it took its snapshot, and then looks
        whether the name still means the same table, as after a listing.
        """

    def forget_directories(
        self, table: TableName, partition: Partition | None, directories: Sequence[str], held: TxnId
    ) -> None:
        """Forget directories, by their names, that a cleaner is about to delete; others, and unknown ones, stay as they are.

        ``held``: the transaction with the cleaner's lock. Raises TransactionAbortedError or NoSuchTransactionError if it has
        ended: the name could be another table's by now, with directories of the same names.
        """

    def end_records(self, table: TableName, held: TxnId) -> None:
        """Take the mark of complete records from a table, before a directory appears that counts without a commit.

        ``held`` as in `forget_directories`.
        """


class StoreConnection(Protocol):
    """A store's connections, its clock, and the settings that it applies or prescribes."""

    def now(self) -> int:
        """Return the store's own time (ms since the epoch), the clock of every time that the store returns."""

    def apply_settings(self, settings: Settings) -> None:
        """Use the time-outs and limits of these settings from now on (``hive.txn.timeout``, ``hive.max.open.txns``)."""

    def maintained_by_hiveacid(self) -> bool:
        """Tell whether hiveacid's own services compact and clean the tables; False: those of a Hive Metastore do."""

    def layout_level(self) -> str | None:
        """Return the ``hiveacid.layout.level`` that the Hive of this store can read; None if only hiveacid reads the tables."""

    def close(self) -> None:
        """Close the connections; a later call opens new ones."""


class MaintenancePort(Protocol):
    """Calls of hiveacid's initiator, cleaner and housekeeper, in whose place a Hive Metastore has services of its own."""

    def changed_partitions(self, since: int = 0) -> tuple[ChangedPartition, ...]:
        """List, by name, tables and partitions with commits at or after ``since``, or with aborted rows not cleaned yet."""

    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """Record in the history that a due job was not queued, and why: state "did not initiate"."""

    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """List jobs ready for cleaning whose readers have all ended, lowest high watermark first.

        Jobs whose commit is younger than ``delay`` (seconds), or that wait for another attempt, are left out.
        """

    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """Record that cleaning after a job failed; the next attempt is due in ``wait`` seconds."""

    def forget_aborted(
        self,
        table: TableName,
        partition: str | None,
        up_to: WriteId,
        before: TxnId | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """Forget aborted write ids up to ``up_to``, whose files the cleaner has removed (``markCleaned``).

        Also forgets compactions of write ids up to ``up_to`` that were aborted; with ``before`` only those of lower
        transactions. ``seen``: the definition read before; if the name is another table's now, nothing is forgotten.
        """

    def housekeep(self) -> None:
        """Drop rows of ended transactions that no snapshot, conflict check or cleaning can need."""

    def claim_figures(self, interval: float, retention: float) -> bool:
        """Tell whether the caller shall record: one caller does in each ``interval`` (s). Drop records older than ``retention`` (s)."""

    def record_figures(self, records: Sequence[FigureRecord]) -> None:
        """Record figures, and thin out earlier records (`superseded_records`). It may be repeated."""

    def recorded_figures(self, table: TableDefinition | None) -> tuple[FigureRecord, ...]:
        """Return the records of a table, or (None) of the whole store, by time; not those of an earlier table of the name."""

    def latest_figures(self) -> Mapping[TableName, FigureRecord]:
        """Return the latest record of each table that has one; none from before the store's clock went back."""

    def count_transactions(self) -> tuple[int, int]:
        """Return how many transactions began, and how many a write conflict refused, since the store was made."""


class TransactionStore(
    TransactionPort, WriteIdPort, LockPort, CompactionQueuePort, StoreConnection, Protocol
):
    """A store that keeps all transactional state (Hive's transaction manager). Adapters keep no state between calls.

    Every adapter passes ``tests/support/contract/suites.py``.
    """


class WarehouseStore(TransactionStore, Catalog, Protocol):
    """The transaction store and the catalog of a warehouse, in one adapter: every adapter is both."""


class PartitionMover(Protocol):
    """A call that only a Hive Metastore offers."""

    def rename_partition(
        self, name: TableName, partition: Partition, values: tuple[str | None, ...], seen: TableDefinition
    ) -> None:
        """Give a partition other values; the directory of a managed table's moves. ``seen``: as `Catalog.drop_table`."""


class OwnStore(TransactionStore, MaintenancePort, ServicePort, StreamProgressPort, FileRecordsPort, Protocol):
    """A store of hiveacid's own. Unlike a Hive Metastore it leaves all work to hiveacid, and keeps the progress of streams."""


def own_store(store: TransactionStore) -> OwnStore:
    """Return a store of hiveacid's own as one. Raises UnsupportedFeatureError for a Hive Metastore."""
    if not store.maintained_by_hiveacid():
        raise UnsupportedFeatureError(
            "a Hive Metastore has an initiator, a cleaner and housekeepers of its own"
        )
    return cast("OwnStore", store)
