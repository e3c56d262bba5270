"""Port for the compaction queue."""

from __future__ import annotations

from typing import Protocol

from hiveacid.core.compaction.queue import DEFAULT_POOL, ChangedPartition, Compaction, CompactionRequest
from hiveacid.core.model import TxnId, WriteId


class CompactionQueuePort(Protocol):
    """Queue of compactions (``COMPACTION_QUEUE``), its history, and the partitions that may need one."""

    def maintained_by_hiveacid(self) -> bool:
        """Tell whether hiveacid's initiator, workers and cleaner maintain the tables; False: those of a Hive Metastore do."""

    def require_claimable_jobs(self) -> None:
        """Raise UnsupportedFeatureError where the store gives no jobs to hiveacid's workers."""

    def changed_partitions(self, since: int = 0) -> tuple[ChangedPartition, ...]:
        """List tables and partitions with commits at or after ``since``, or with aborted rows not cleaned yet; by name."""

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """Queue a job.

        Raises CompactionRefusedError while the same one is initiated or working, or ready for cleaning with as much done.
        """

    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """Record that a job was due and was not queued, and why: state "did not initiate"."""

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """Claim that job, or the pool's next one, atomically.

        The default pool also takes jobs of other pools that are older than ``hive.compactor.worker.pool.timeout``.
        """

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """Record the job's transaction and high watermark; TransactionStateError as `release_compaction`."""

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """Record what a job reports of its progress or result."""

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """Queue a working job again. Raises TransactionStateError if this worker does not have it any more."""

    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        next_txn_id: TxnId | None = None,
        worker: str | None = None,
    ) -> None:
        """Move a job to ready for cleaning, refused, failed, succeeded or aborted, as ``core.transactions.states`` allows.

        Raises TransactionStateError for another transition, or if this worker does not have the job any more.
        """

    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """List jobs ready for cleaning whose readers have all ended, lowest high watermark first.

        Jobs whose commit is younger than ``delay`` (seconds), or that wait for another attempt, are left out.
        """

    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """Record a failed cleaning after a job; it is not tried again for ``wait`` seconds."""

    def show_compactions(self) -> tuple[Compaction, ...]:
        """List queue and history by id."""
