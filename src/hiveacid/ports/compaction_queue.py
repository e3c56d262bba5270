"""Port for the compaction queue."""

from __future__ import annotations

from typing import Protocol

from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    Compaction,
    CompactionRequest,
)
from hiveacid.core.model import TxnId, WriteId


class CompactionQueuePort(Protocol):
    """Queue of compactions (``COMPACTION_QUEUE``), its history, and the partitions that may need one."""

    def maintained_by_hiveacid(self) -> bool:
        """Tell whether hiveacid's own services compact and clean the tables; False: those of a Hive Metastore do."""

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
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        worker: str | None = None,
    ) -> None:
        """Move a job to ready for cleaning or to a state in which it has ended, as ``core.transactions.states`` allows.

        A job that was refused, or has an aborted transaction and is ready for cleaning, has written no file: the store
        keeps no record of its transaction. Its cleaning waits for all transactions that begin before this call ends.
        Raises TransactionStateError for any other transition, or if ``worker`` no longer holds the job.
        """

    def show_compactions(self) -> tuple[Compaction, ...]:
        """List the queued and the ended jobs, ordered by id."""
