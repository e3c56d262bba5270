"""The metastore's compaction queue: we ask, Hive's workers do it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.queue import DEFAULT_POOL, Compaction, CompactionRequest
from hiveacid.errors import CompactionRefusedError
from hiveacid.stores import checks
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.names import plain_partition, plain_table

if TYPE_CHECKING:
    from hiveacid.stores.hms.client import MetastoreClient

_KINDS = {"minor": 1, "major": 2, "rebalance": 3}  # CompactionType
_NAMES = {number: name for name, number in _KINDS.items()}


def enqueue(client: MetastoreClient, request: CompactionRequest, initiator: str) -> Compaction:
    """Queue a job; CompactionRefusedError while the same one waits or runs."""
    checks.compaction(request)
    plain_table(request.table)
    asked = protocol.CompactionRequest(
        dbname=request.table.database,
        tablename=request.table.name,
        partitionname=plain_partition(request.partition),
        type=_KINDS[request.kind],
        initiatorId=initiator,
    )
    answer = client.call("compact2", asked)
    if not answer.accepted:
        partition = "" if request.partition is None else f"/{request.partition}"
        raise CompactionRefusedError(
            answer.errormessage
            or f"Compaction is already scheduled with state='{answer.state}' and id={answer.id} "
            f"for {request.table}{partition}"
        )
    return next(
        (one for one in show(client) if one.id == answer.id), Compaction(answer.id, request, answer.state)
    )


def show(client: MetastoreClient) -> tuple[Compaction, ...]:
    """List queue and history by id."""
    rows = client.call("show_compact", protocol.ShowCompactRequest()).compacts or ()
    found = [_row(one) for one in rows if one.type in _NAMES]
    return tuple(sorted(found, key=lambda one: one.id))


def _row(one: Any) -> Compaction:
    state = one.state or "initiated"
    return Compaction(
        id=one.id or 0,
        request=CompactionRequest(
            TableName(one.dbname, one.tablename),
            one.partitionname,
            _NAMES[one.type],
            pool=one.poolName or DEFAULT_POOL,
        ),
        state="did not initiate" if state == "attempted" else state,  # Hive 3's word
        worker=one.workerid,
        enqueued=one.enqueueTime or None,
        started=one.start or None,
        ended=one.endTime or None,
        error=one.errorMessage or one.metaInfo or None,
        initiator=one.initiatorId,
        txn_id=TxnId(one.txnId) if one.txnId else None,
        next_txn_id=TxnId(one.nextTxnId) if one.nextTxnId else None,
        commit_time=one.commitTime or None,
        high_watermark=WriteId(one.hightestWriteId) if one.hightestWriteId else None,
    )
