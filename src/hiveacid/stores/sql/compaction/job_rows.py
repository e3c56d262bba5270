"""Rows of the compaction queue: read, lock and update a job."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, select, update

from hiveacid.core.compaction.queue import Compaction, CompactionRequest
from hiveacid.core.model import TableName
from hiveacid.core.transactions.states import COMPACTION, fire
from hiveacid.stores import refusals
from hiveacid.stores.sql.schema import compactions
from hiveacid.stores.sql.table_names import table_columns
from hiveacid.stores.sql.transactions.txn_rows import NOW

ALL = select(compactions).order_by(compactions.c.id)
ONE = ALL.where(compactions.c.id == bindparam("id", type_=BigInteger))
_HOW = ("kind", "pool", "priority", "buckets", "order_by", "reason")


def lock_job(connection: Connection, compaction_id: int, worker: str | None = None) -> Compaction:
    """Return a job, locked until the end of the database transaction.

    Raises CompactionError; TransactionStateError where it is not with ``worker`` (None: any worker).
    """
    row = connection.execute(ONE.with_for_update(), {"id": compaction_id}).mappings().one_or_none()
    if row is None:
        raise refusals.no_compaction(compaction_id)
    if worker is not None and row["worker"] != worker:
        raise refusals.not_with_worker(compaction_id, worker)
    return compaction_from_row(row)


def update_job(
    connection: Connection, compaction_id: int, values: Mapping[str, object], now: int | None
) -> None:
    """Set columns of a job; ``NOW`` among them needs the store's time."""
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
        **{name: values.pop(name) for name in _HOW},
    )
    return Compaction(request=request, **values)


def request_columns(request: CompactionRequest) -> dict[str, object]:
    """Convert a request to columns of its row."""
    return {
        **table_columns(request.table),
        "partition_name": request.partition,
        "properties": json.dumps(request.properties) if request.properties else None,
        **{name: getattr(request, name) for name in _HOW},
    }
