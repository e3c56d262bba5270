"""Rows of the compaction queue: reading, locking and updating jobs, and removal of old ended ones.

The removal follows Hive's ``CompactionHouseKeeperService``. ``lost_workers`` has the jobs of workers that died.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, delete, select, update

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest, list_surplus_jobs
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.states import COMPACTION, CompactionState, fire
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, chunks
from hiveacid.stores.sql.schema import compactions, table_columns
from hiveacid.stores.sql.transactions.open_txns import TOP

SELECT_JOBS = select(compactions).order_by(compactions.c.id)
SELECT_JOB = SELECT_JOBS.where(compactions.c.id == bindparam("id", type_=BigInteger))
_REQUEST_COLUMNS = ("kind", "pool", "priority", "buckets", "order_by", "reason")


def lock_job(connection: Connection, compaction_id: int, worker: str | None = None) -> Compaction:
    """Return a job, locked until the end of the database transaction.

    Raises CompactionError if it does not exist, TransactionStateError if ``worker`` does not hold it (None: not checked).
    """
    row = connection.execute(SELECT_JOB.with_for_update(), {"id": compaction_id}).mappings().one_or_none()
    if row is None:
        raise refusals.no_compaction(compaction_id)
    if worker is not None and row["worker"] != worker:
        raise refusals.not_with_worker(compaction_id, worker)
    return compaction_from_row(row)


def update_job(
    connection: Connection, compaction_id: int, values: Mapping[str, object], now: int | None
) -> None:
    """Set columns of a job. ``now``: the result of `Database.now`, for values that are ``NOW``."""
    statement = update(compactions).where(compactions.c.id == compaction_id).values(**values)
    connection.execute(statement, {"now": now} if any(value is NOW for value in values.values()) else {})


def requeued_columns(job: Compaction) -> dict[str, object]:
    """Return the columns of a job that is queued again. Raises TransactionStateError if it is not working."""
    state = fire(COMPACTION, job.state, "revoke")
    return {"state": state, "worker": None, "started": None, "txn_id": None, "high_watermark": None}


def compaction_from_row(row: Mapping[Any, Any]) -> Compaction:
    """Convert a row of the queue to a `Compaction`."""
    values = dict(row)
    request = CompactionRequest(
        TableName(values.pop("database_name"), values.pop("table_name")),
        values.pop("partition_name"),
        properties=tuple((key, text) for key, text in json.loads(values.pop("properties") or "[]")),
        **{name: values.pop(name) for name in _REQUEST_COLUMNS},
    )
    return Compaction(request=request, **values)


def request_columns(request: CompactionRequest) -> dict[str, object]:
    """Convert a request to columns of its row."""
    return {
        **table_columns(request.table),
        "partition_name": request.partition,
        "properties": json.dumps(request.properties) if request.properties else None,
        **{name: getattr(request, name) for name in _REQUEST_COLUMNS},
    }


def finish_committed_job(connection: Connection, txn_id: TxnId, now: int | None) -> None:
    """Make the job of a committing transaction ready for cleaning, which waits for readers that began earlier."""
    for row in connection.execute(JOBS_OF_TXNS, {"ids": [txn_id]}).mappings().all():
        values = {
            "state": fire(COMPACTION, row["state"], "finish"),
            "next_txn_id": TOP + 1,
            "commit_time": NOW,
        }
        update_job(connection, row["id"], values, now)


JOBS_OF_TXNS = SELECT_JOBS.where(
    compactions.c.txn_id.in_(bindparam("ids", expanding=True)),
    compactions.c.state.in_((CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)),
)


def prune_history(connection: Connection, limits: Limits, now: int | None) -> None:
    """Delete ended jobs: all but the newest of each location and state, and old failures before a later success."""
    oldest = int(connection.scalar(select(NOW), {"now": now}) or 0) - int(limits.history_timeout * 1000)
    rows = connection.execute(_ENDED, {"states": list(limits.history)}).mappings()
    surplus = list_surplus_jobs(map(compaction_from_row, rows), limits.history, oldest)
    for chunk in chunks(surplus):
        connection.execute(delete(compactions).where(compactions.c.id.in_(chunk)))


_ENDED = (
    select(compactions)
    .where(compactions.c.state.in_(bindparam("states", expanding=True)))
    .order_by(compactions.c.id.desc())
)
