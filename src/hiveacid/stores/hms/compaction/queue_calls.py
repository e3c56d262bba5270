"""Calls about the metastore's compaction queue: requests, lists, and those of a remote worker (Hive 4)."""

from __future__ import annotations

import re
from typing import Any

from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    PRIVATE_POOL_PREFIX,
    Compaction,
    CompactionRequest,
)
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import (
    CommitStateUnknownError,
    CompactionRefusedError,
    StoreError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from hiveacid.stores import refusals
from hiveacid.stores.hms.capabilities import Capabilities
from hiveacid.stores.hms.catalog.names import plain_partition, plain_table
from hiveacid.stores.hms.thrift import protocol
from hiveacid.stores.hms.thrift.failover_client import MetastoreClient

_KINDS = {"minor": 1, "major": 2, "rebalance": 3}  # CompactionType
_NAMES = {number: name for name, number in _KINDS.items()}
_LENGTH = re.compile(r"(\d+):")
_LONGEST_ERROR = 500  # characters
_LOST = "the metastore's answer was lost, so buckets and properties of the job are unknown: request it again"
_ENGINE_NAME = "hiveacid"
"""Worker version, and text of SHOW COMPACTIONS in place of a Hadoop job id."""


def enqueue_job(
    client: MetastoreClient, capabilities: Capabilities, request: CompactionRequest, initiator: str
) -> Compaction:
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
    if capabilities.remote_workers:
        message.poolName = None if request.pool == DEFAULT_POOL else request.pool
        message.numberOfBuckets, message.orderByClause = request.buckets, request.order_by
    else:
        _refuse_hive4_options(request)
    answer = client.call("compact2", message)
    # Hive 3 sends no message, only id and state of the job that is queued already
    if answer.accepted is False:
        partition = "" if request.partition is None else f"/{request.partition}"
        raise CompactionRefusedError(
            answer.errormessage
            or f"Compaction is already scheduled with state='{answer.state}' and id={answer.id} "
            f"for {request.table}{partition}"
        )
    return find_job(client, answer.id) or Compaction(answer.id, request, answer.state)


def _refuse_hive4_options(request: CompactionRequest) -> None:
    if request.pool.startswith(PRIVATE_POOL_PREFIX):
        raise UnsupportedFeatureError(
            f"COMPACT of {request.table} with hiveacid.compactor.here: a Hive 3 metastore gives jobs only to Hive's own "
            "workers; without that property they carry it out"
        )
    if request.kind == "rebalance" or request.pool != DEFAULT_POOL:
        raise UnsupportedFeatureError(
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


def abort_job(client: MetastoreClient, compaction_id: int) -> None:
    """Abort a waiting job. Raises TransactionStateError if it is not waiting."""
    answer = client.call("abort_Compactions", protocol.AbortCompactionRequest(compactionIds=[compaction_id]))
    result = (answer.abortedcompacts or {}).get(compaction_id)
    if result is None or result.status != "Success":
        raise TransactionStateError(
            f"compaction {compaction_id}: {result.message if result else 'is not known'}"
        )


def next_job(client: MetastoreClient, worker: str, pool: str) -> Compaction | None:
    """Claim the next job of a pool, whose state becomes working."""
    request = protocol.FindNextCompactRequest(
        workerId=worker, workerVersion=_ENGINE_NAME, poolName=None if pool == DEFAULT_POOL else pool
    )
    try:
        info = client.call("find_next_compact2", request).ci
    except CommitStateUnknownError:
        _fail_lost_job(client, worker)
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


def _fail_lost_job(client: MetastoreClient, worker: str) -> None:
    """Fail a job whose answer was lost: the queue's list does not show its buckets and properties."""
    for job in list_jobs(client):
        if job.state == CompactionState.WORKING and job.worker == worker:
            mark_job(client, "mark_failed", job_struct(job), _LOST)


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


def mark_job(client: MetastoreClient, call: str, info: Any, error: str | None = None) -> None:
    """End a job; a repeated call after a lost answer is not an error."""
    info.errorMessage = None if error is None else error[:_LONGEST_ERROR]
    before = find_job(client, info.id)
    try:
        client.call(call, info)
    except StoreError:
        now = find_job(client, info.id)
        if now is None or before is None or now.state == before.state:
            raise


def job_struct(job: Compaction) -> Any:
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


def _job_from_row(row: Any) -> Compaction:
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
