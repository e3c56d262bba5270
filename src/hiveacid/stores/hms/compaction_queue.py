"""The compaction queue of a metastore, and the calls of a worker; initiator and cleaner are Hive's own.

Workers of hiveacid take jobs from a metastore of Hive 4; a metastore of Hive 3 has no calls for that.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hiveacid import errors
from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    PRIVATE_POOL_PREFIX,
    Compaction,
    CompactionRequest,
)
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.stores import refusals
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.definitions import plain_partition, plain_table
from hiveacid.stores.hms.metastores import Capabilities
from hiveacid.stores.hms.thrift_structs import ThriftStruct

_KINDS = {"minor": 1, "major": 2, "rebalance": 3}  # CompactionType
_NAMES = {number: name for name, number in _KINDS.items()}
_LENGTH = re.compile(r"(\d+):")
_LONGEST_ERROR = 500  # characters
_LOST = "the metastore's answer was lost, so buckets and properties of the job are unknown: request it again"
_ENGINE_NAME = "hiveacid"
"""Worker version, and text of SHOW COMPACTIONS in place of a Hadoop job id."""


def _refuse_hive4_options(request: CompactionRequest) -> None:
    if request.pool.startswith(PRIVATE_POOL_PREFIX):
        raise errors.UnsupportedFeatureError(
            f"COMPACT of {request.table} with hiveacid.compactor.here: a Hive 3 metastore gives jobs only to Hive's own "
            "workers; without that property they carry it out"
        )
    if request.kind == "rebalance" or request.pool != DEFAULT_POOL:
        raise errors.UnsupportedFeatureError(
            f"COMPACT of {request.table}: a Hive 3 metastore knows neither 'rebalance' nor pools"
        )


def list_jobs(client: MetastoreClient) -> tuple[Compaction, ...]:
    """List queue and history by id."""
    rows = client.call("show_compact", protocol.ShowCompactRequest()).compacts or ()
    jobs = [_job_from_row(row) for row in rows if row.type in _NAMES]
    return tuple(sorted(jobs, key=lambda job: job.id))


def find_job(client: MetastoreClient, compaction_id: int) -> Compaction | None:
    """Return a job of the queue or its history."""
    return next((job for job in list_jobs(client) if job.id == compaction_id), None)


def next_job(client: MetastoreClient, worker: str, pool: str) -> Compaction | None:
    """Claim the next job of a pool, whose state becomes working."""
    request = protocol.FindNextCompactRequest(
        workerId=worker, workerVersion=_ENGINE_NAME, poolName=None if pool == DEFAULT_POOL else pool
    )
    try:
        info = client.call("find_next_compact2", request).ci
    except errors.CommitStateUnknownError:
        # the job is failed, because the queue does not show its buckets and properties
        for job in list_jobs(client):
            if job.state == CompactionState.WORKING and job.worker == worker:
                mark_job(client, "mark_failed", job_struct(job), _LOST)
        return None
    if info is None or not info.id:
        return None
    if info.type not in _NAMES:
        mark_job(client, "mark_failed", info, "not a compaction that hiveacid knows")
        return None
    return Compaction(
        id=info.id,
        request=CompactionRequest(
            TableName(info.dbname, info.tablename),
            info.partitionname,
            _NAMES[info.type],
            pool=info.poolname or DEFAULT_POOL,
            buckets=info.numberOfBuckets or None,
            order_by=info.orderByClause or None,
            properties=parse_properties(info.properties),
        ),
        state=CompactionState.WORKING,
        worker=worker,
        claims=1,
    )


def start_job(
    client: MetastoreClient, job: Compaction, txn_id: TxnId, high_watermark: WriteId, user: str
) -> None:
    """Record a job's transaction before it writes a file, so that the cleaner knows its directories.

    The cleaner deletes as ``user``; without one it fails at every turn (``CompactorUtil.runJobAsSelf`` of 4.0.1).
    """
    info = job_struct(job)
    info.highestWriteId, info.runas = high_watermark, user
    client.call("update_compactor_state", info, txn_id)
    client.call("set_hadoop_jobid", _ENGINE_NAME, job.id)


def mark_job(client: MetastoreClient, call: str, info: ThriftStruct, error: str | None = None) -> None:
    """End a job; a repeated call after a lost answer is not an error."""
    info.errorMessage = None if error is None else error[:_LONGEST_ERROR]
    before = find_job(client, info.id)
    try:
        client.call(call, info)
    except errors.StoreError:
        now = find_job(client, info.id)
        if now is None or before is None or now.state == before.state:
            raise


def job_struct(job: Compaction) -> ThriftStruct:
    """Return a job as the metastore's struct."""
    return protocol.CompactionInfoStruct(
        id=job.id,
        dbname=job.request.table.database,
        tablename=job.request.table.name,
        partitionname=job.request.partition,
        type=_KINDS[job.request.kind],
        workerId=job.worker,
        highestWriteId=job.high_watermark or 0,
    )


def parse_properties(text: str | None) -> tuple[tuple[str, str], ...]:
    """Parse Hive's text of WITH OVERWRITE TBLPROPERTIES (``StringableMap``): ``2:3:key5:value…``."""
    if not text:
        return ()
    words: list[str] = []
    position, expected_count = 0, 1
    while len(words) < expected_count and (length_match := _LENGTH.match(text, position)):
        position, length = length_match.end(), int(length_match.group(1))
        if expected_count == 1 and not words:
            expected_count = 1 + 2 * length
            words.append("")
            continue
        words.append(text[position : position + length])
        position += length
    pairs = words[1:]
    return tuple(sorted(zip(pairs[::2], pairs[1::2], strict=False)))


def _job_from_row(row: ThriftStruct) -> Compaction:
    state = row.state or CompactionState.INITIATED
    return Compaction(
        id=row.id or 0,
        request=CompactionRequest(
            TableName(row.dbname, row.tablename),
            row.partitionname,
            _NAMES[row.type],
            pool=row.poolName or DEFAULT_POOL,
        ),
        state=CompactionState.DID_NOT_INITIATE if state == "attempted" else state,  # Hive 3's word
        worker=row.workerid,
        enqueued=row.enqueueTime or None,
        started=row.start or None,
        ended=row.endTime or None,
        error=row.errorMessage or row.metaInfo or None,
        initiator=row.initiatorId,
        txn_id=TxnId(row.txnId) if row.txnId else None,
        next_txn_id=TxnId(row.nextTxnId) if row.nextTxnId else None,
        commit_time=row.commitTime or None,
        high_watermark=WriteId(row.hightestWriteId) if row.hightestWriteId else None,
    )


_OURS = "~"
"""Begins the names of our workers in the queue. A metastore that starts takes the jobs from all workers whose names
begin with its own host's name: they were threads of it."""
_REBALANCE = "rebalance compactions of a metastore's tables are left to Hive's workers (let them have a pool: POOL '...')"


class MetastoreCompactionQueue:
    """Implements :class:`hiveacid.ports.store.CompactionQueuePort`; jobs come from Hive 4 metastores only."""

    client: MetastoreClient
    capabilities: Capabilities

    owner: str
    get_table: Callable[[TableName], TableDefinition | None]
    # running in this process; the queue decides which worker owns a job
    _running_jobs: dict[TxnId, Compaction]
    # as the queue gave them, which shows neither buckets nor properties
    _claimed: dict[int, CompactionRequest]

    def require_claimable_jobs(self) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        if not self.capabilities.remote_workers:
            raise errors.UnsupportedFeatureError(
                "a metastore of Hive 3 gives compactions to its own workers only: see hive.compactor.worker.threads"
            )

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """Queue a job. Raises CompactionRefusedError if the same compaction waits or runs.

        Raises UnsupportedFeatureError for options that a Hive 3 metastore cannot store: it would silently ignore them.
        """
        refusals.compaction(request)
        plain_table(request.table)
        message = protocol.CompactionRequest(
            dbname=request.table.database,
            tablename=request.table.name,
            partitionname=plain_partition(request.partition),
            type=_KINDS[request.kind],
            initiatorId=initiator,
            properties=dict(request.properties) or None,
        )
        if self.capabilities.remote_workers:
            message.poolName = None if request.pool == DEFAULT_POOL else request.pool
            message.numberOfBuckets, message.orderByClause = request.buckets, request.order_by
        else:
            _refuse_hive4_options(request)
        answer = self.client.call("compact2", message)
        # Hive 3 sends no message, only id and state of the job that is queued already
        if answer.accepted is False:
            partition = "" if request.partition is None else f"/{request.partition}"
            raise errors.CompactionRefusedError(
                answer.errormessage
                or f"Compaction is already scheduled with state='{answer.state}' and id={answer.id} "
                f"for {request.table}{partition}"
            )
        return find_job(self.client, answer.id) or Compaction(answer.id, request, answer.state)

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """Claim the next job of a pool; a given job only from a pool that holds no other (``PRIVATE_POOL_PREFIX``).

        None with a metastore of Hive 3: its jobs are its own workers'. There are no priorities.
        """
        if not self.capabilities.remote_workers:
            return None
        if compaction_id is not None:
            queued_job = find_job(self.client, compaction_id)
            if (
                queued_job is None
                or queued_job.state != CompactionState.INITIATED
                or not queued_job.request.pool.startswith(PRIVATE_POOL_PREFIX)
            ):
                return None
            pool = queued_job.request.pool
        job = next_job(self.client, _OURS + worker, pool)
        if job is not None and job.request.kind == "rebalance":
            mark_job(self.client, "mark_refused", job_struct(job), _REBALANCE)
            return None
        if job is not None:
            self._claimed[job.id] = job.request
        return job

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        job = self._job_of_worker(compaction_id, worker)
        self._running_jobs[txn_id] = job
        user = owner_of(self.get_table(job.request.table)) or self.owner
        start_job(self.client, job, txn_id, high_watermark, user)

    def _job_of_worker(self, compaction_id: int, worker: str | None) -> Compaction:
        """Return a working job, as the queue has it now. Raises TransactionStateError if another worker has it."""
        job = find_job(self.client, compaction_id)
        if (
            job is None
            or job.state != CompactionState.WORKING
            or (worker is not None and job.worker != _OURS + worker)
        ):
            now = "is gone" if job is None else f"is {job.state!r} and {job.worker or 'no worker'}'s"
            raise errors.TransactionStateError(
                f"compaction {compaction_id} {now}: it was taken from {worker}"
            )
        return job

    def _mark_job_compacted(self, txn_id: TxnId) -> None:
        """Mark a job as ready for cleaning, just before its transaction commits, as Hive's worker does.

        The cleaner takes nothing before that commit, and after it not before all have ended who began earlier.
        Raises TransactionStateError where the job was given to another worker, whose result counts then.
        """
        job = self._running_jobs.get(txn_id)
        if job is not None:
            self._job_of_worker(job.id, (job.worker or "").removeprefix(_OURS))
            mark_job(self.client, "mark_compacted", job_struct(job))
            self._claimed.pop(job.id, None)

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """Do nothing: the queue has no place for it."""

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """Queue the same job again. No call of the metastore returns a job, so this one counts as failed."""
        job = self._job_of_worker(compaction_id, worker)
        request = self._claimed.pop(compaction_id, job.request)
        mark_job(self.client, "mark_failed", job_struct(job), "its worker was stopped; queued again")
        pool = DEFAULT_POOL if request.pool.startswith(PRIVATE_POOL_PREFIX) else request.pool
        self.enqueue_compaction(replace(request, pool=pool), job.initiator or worker)

    def end_compaction(
        self, compaction_id: int, state: str, error: str | None = None, worker: str | None = None
    ) -> None:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`. Raises UnsupportedFeatureError for cleaning."""
        if state == CompactionState.ABORTED and self.capabilities.remote_workers:
            answer = self.client.call(
                "abort_Compactions", protocol.AbortCompactionRequest(compactionIds=[compaction_id])
            )
            result = (answer.abortedcompacts or {}).get(compaction_id)
            if result is None or result.status != "Success":
                raise errors.TransactionStateError(
                    f"compaction {compaction_id}: {result.message if result else 'is not known'}"
                )
            return
        calls: dict[str, str] = {
            CompactionState.READY_FOR_CLEANING: "mark_compacted",
            CompactionState.FAILED: "mark_failed",
            CompactionState.REFUSED: "mark_refused",
        }
        if state not in calls or not self.capabilities.remote_workers:
            raise errors.UnsupportedFeatureError(
                f"compaction {compaction_id} of a Hive Metastore is the business of Hive's own services"
            )
        self._claimed.pop(compaction_id, None)
        job = self._job_of_worker(compaction_id, worker)
        mark_job(self.client, calls[state], job_struct(job), error)

    def show_compactions(self) -> tuple[Compaction, ...]:
        """See :class:`hiveacid.ports.store.CompactionQueuePort`."""
        return list_jobs(self.client)


def owner_of(table: TableDefinition | None) -> str | None:
    """Return the user that cleans a table: its directory's owner, else its own (Hive's ``TxnUtils.findUserToRunAs``)."""
    if table is None:
        return None
    try:
        return Path(table.location).owner()
    # unknown owner, missing directory, or a system without owners
    except (KeyError, OSError, NotImplementedError):
        return table.owner or None
