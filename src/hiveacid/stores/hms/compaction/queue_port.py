"""The compaction queue port on a metastore; initiator and cleaner are Hive's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    PRIVATE_POOL_PREFIX,
    Compaction,
    CompactionRequest,
)
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import TransactionStateError, UnsupportedFeatureError
from hiveacid.stores.hms.capabilities import Capabilities
from hiveacid.stores.hms.compaction import queue_calls
from hiveacid.stores.hms.thrift.failover_client import MetastoreClient

_OURS = "~"
"""Begins the names of our workers in the queue. A metastore that starts takes the jobs from all workers whose names
begin with its own host's name: they were threads of it."""
_REBALANCE = "rebalance compactions of a metastore's tables are left to Hive's workers (let them have a pool: POOL '...')"


class MetastoreCompactionQueue:
    """Implements :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`; jobs come from Hive 4 metastores only."""

    client: MetastoreClient
    capabilities: Capabilities

    owner: str
    get_table: Callable[[TableName], TableDefinition | None]
    _running_jobs: dict[
        TxnId, Compaction
    ]  # running in this process; the queue decides which worker owns a job
    _claimed: dict[
        int, CompactionRequest
    ]  # as the queue gave them, which shows neither buckets nor properties

    def maintained_by_hiveacid(self) -> bool:
        """Return False: Hive's initiator and cleaner maintain the tables."""
        return False

    def require_claimable_jobs(self) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        if not self.capabilities.remote_workers:
            raise UnsupportedFeatureError(
                "a metastore of Hive 3 gives compactions to its own workers only: see hive.compactor.worker.threads"
            )

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue_calls.enqueue_job(self.client, self.capabilities, request, initiator)

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """Claim the next job of a pool; a given job only from a pool that holds no other (``PRIVATE_POOL_PREFIX``).

        None with a metastore of Hive 3: its jobs are its own workers'. There are no priorities.
        """
        if not self.capabilities.remote_workers:
            return None
        if compaction_id is not None:
            queued_job = queue_calls.find_job(self.client, compaction_id)
            if (
                queued_job is None
                or queued_job.state != CompactionState.INITIATED
                or not queued_job.request.pool.startswith(PRIVATE_POOL_PREFIX)
            ):
                return None
            pool = queued_job.request.pool
        job = queue_calls.next_job(self.client, _OURS + worker, pool)
        if job is not None and job.request.kind == "rebalance":
            queue_calls.mark_job(self.client, "mark_refused", queue_calls.job_struct(job), _REBALANCE)
            return None
        if job is not None:
            self._claimed[job.id] = job.request
        return job

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        job = self._job_of_worker(compaction_id, worker)
        self._running_jobs[txn_id] = job
        user = owner_of(self.get_table(job.request.table)) or self.owner
        queue_calls.start_job(self.client, job, txn_id, high_watermark, user)

    def _job_of_worker(self, compaction_id: int, worker: str | None) -> Compaction:
        """Return a working job, as the queue has it now. Raises TransactionStateError if another worker has it."""
        job = queue_calls.find_job(self.client, compaction_id)
        if (
            job is None
            or job.state != CompactionState.WORKING
            or (worker is not None and job.worker != _OURS + worker)
        ):
            now = "is gone" if job is None else f"is {job.state!r} and {job.worker or 'nobody'}'s"
            raise TransactionStateError(f"compaction {compaction_id} {now}: it was taken from {worker}")
        return job

    def _mark_job_compacted(self, txn_id: TxnId) -> None:
        """Mark a job as ready for cleaning, just before its transaction commits, as Hive's worker does.

        The cleaner takes nothing before that commit, and after it not before all have ended who began earlier.
        Raises TransactionStateError where the job was given to another worker, whose result counts then.
        """
        job = self._running_jobs.get(txn_id)
        if job is not None:
            self._job_of_worker(job.id, (job.worker or "").removeprefix(_OURS))
            queue_calls.mark_job(self.client, "mark_compacted", queue_calls.job_struct(job))
            self._claimed.pop(job.id, None)

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """Do nothing: the queue has no place for it."""

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """Queue the same job again. No call of the metastore returns a job, so this one counts as failed."""
        job = self._job_of_worker(compaction_id, worker)
        request = self._claimed.pop(compaction_id, job.request)
        queue_calls.mark_job(
            self.client, "mark_failed", queue_calls.job_struct(job), "its worker was stopped; queued again"
        )
        pool = DEFAULT_POOL if request.pool.startswith(PRIVATE_POOL_PREFIX) else request.pool
        queue_calls.enqueue_job(
            self.client, self.capabilities, replace(request, pool=pool), job.initiator or worker
        )

    def end_compaction(
        self,
        compaction_id: int,
        state: str,
        error: str | None = None,
        worker: str | None = None,
    ) -> None:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`. Raises UnsupportedFeatureError for cleaning."""
        if state == CompactionState.ABORTED and self.capabilities.remote_workers:
            queue_calls.abort_job(self.client, compaction_id)
            return
        calls: dict[str, str] = {
            CompactionState.READY_FOR_CLEANING: "mark_compacted",
            CompactionState.FAILED: "mark_failed",
            CompactionState.REFUSED: "mark_refused",
        }
        if state not in calls or not self.capabilities.remote_workers:
            raise _hive_services_only(compaction_id)
        self._claimed.pop(compaction_id, None)
        job = self._job_of_worker(compaction_id, worker)
        queue_calls.mark_job(self.client, calls[state], queue_calls.job_struct(job), error)

    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.compaction_queue.CompactionQueuePort`."""
        return queue_calls.list_jobs(self.client)


def _hive_services_only(compaction_id: int) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"compaction {compaction_id} of a Hive Metastore is the business of Hive's own services"
    )


def owner_of(table: TableDefinition | None) -> str | None:
    """Return the user that cleans a table: its directory's owner, else its own (Hive's ``TxnUtils.findUserToRunAs``)."""
    if table is None:
        return None
    try:
        return Path(table.location).owner()
    except (
        KeyError,
        OSError,
        NotImplementedError,
    ):  # unknown owner, missing directory, or a system without owners
        return table.owner or None
