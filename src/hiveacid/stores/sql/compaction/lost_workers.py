"""Jobs of lost workers: back into the queue, or failed after too many losses.

A worker is lost if its transaction timed out, or if it has been silent for too long. Hive always queues the job again
(``CompactionTxnHandler.revokeTimedoutWorkers``).
"""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, and_, bindparam, or_, select

from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import COMPACTION, CompactionState, fire
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.compaction.job_states import (
    JOBS_OF_TXNS,
    SELECT_JOBS,
    compaction_from_row,
    requeued_columns,
    update_job,
)
from hiveacid.stores.sql.database import NOW, chunks
from hiveacid.stores.sql.schema import ABORTED, compactions, txns
from hiveacid.stores.sql.transactions.txn_rows import is_open


def requeue_or_fail_lost_jobs(
    connection: Connection, limits: Limits, txn_ids: Sequence[TxnId], reason: str, now: int | None
) -> None:
    """Queue the jobs of timed-out transactions again, or fail those that lost ``max_lost_workers`` workers."""
    for chunk in chunks(txn_ids):
        for row in connection.execute(JOBS_OF_TXNS, {"ids": chunk}).mappings().all():
            job = compaction_from_row(row)
            if job.state == CompactionState.WORKING and job.claims < limits.max_lost_workers:
                update_job(connection, job.id, requeued_columns(job) | {"error": reason}, now)
                continue
            values = {"state": fire(COMPACTION, job.state, "fail"), "error": reason, "ended": NOW}
            update_job(connection, job.id, values, now)


def requeue_abandoned_jobs(connection: Connection, limits: Limits, now: int | None) -> None:
    """Put jobs of workers that have been silent for too long back into the queue.

    The limit is ``hive.compactor.worker.timeout``, or ``hive.txn.timeout`` while the job has no transaction yet, and from
    the abort of its transaction on.
    """
    timeouts = {"begun": int(limits.worker_timeout * 1000), "claimed": int(limits.txn_timeout * 1000)}
    for row in connection.execute(_ABANDONED, {**timeouts, "now": now}).mappings().all():
        job = compaction_from_row(row)
        update_job(connection, job.id, requeued_columns(job), now)


_ABANDONED = SELECT_JOBS.where(
    compactions.c.state == CompactionState.WORKING,
    or_(
        and_(
            compactions.c.txn_id.is_(None),
            compactions.c.started < NOW - bindparam("claimed", type_=BigInteger),
        ),
        and_(
            ~is_open(compactions.c.txn_id),
            compactions.c.started < NOW - bindparam("begun", type_=BigInteger),
        ),
        select(txns.c.id)
        .where(
            txns.c.id == compactions.c.txn_id,
            txns.c.state == ABORTED,
            txns.c.ended < NOW - bindparam("claimed", type_=BigInteger),
        )
        .exists(),
    ),
).with_for_update()
