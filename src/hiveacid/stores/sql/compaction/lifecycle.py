"""State changes of compactions when transactions end and when time passes (``CompactionHouseKeeperService``)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, or_, select

from hiveacid.core.compaction.queue import list_surplus_jobs
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import COMPACTION, CompactionState, fire
from hiveacid.stores.limits_and_retries import Limits
from hiveacid.stores.sql.compaction.job_rows import ALL, compaction_from_row, requeued_columns, update_job
from hiveacid.stores.sql.database import chunks
from hiveacid.stores.sql.schema import compactions
from hiveacid.stores.sql.transactions.open_txns import TOP
from hiveacid.stores.sql.transactions.txn_rows import NOW, is_open


def finish_committed_job(connection: Connection, txn_id: TxnId, now: int | None) -> None:
    """Make the job of a committing transaction ready for cleaning, which waits for readers that began earlier."""
    for row in connection.execute(_OF_TXNS, {"ids": [txn_id]}).mappings().all():
        values = {
            "state": fire(COMPACTION, row["state"], "finish"),
            "next_txn_id": TOP + 1,
            "commit_time": NOW,
        }
        update_job(connection, row["id"], values, now)


def requeue_or_fail_lost_jobs(
    connection: Connection, limits: Limits, txn_ids: Sequence[TxnId], reason: str, now: int | None
) -> None:
    """Queue the jobs of timed-out transactions again, or fail those that lost too many workers."""
    for some in chunks(txn_ids):
        for row in connection.execute(_OF_TXNS, {"ids": some}).mappings().all():
            job = compaction_from_row(row)
            if job.state == CompactionState.WORKING and job.claims < limits.max_lost_workers:
                update_job(connection, job.id, requeued_columns(job) | {"error": reason}, now)
                continue
            values = {"state": fire(COMPACTION, job.state, "fail"), "error": reason, "ended": NOW}
            update_job(connection, job.id, values, now)


_OF_TXNS = ALL.where(
    compactions.c.txn_id.in_(bindparam("ids", expanding=True)),
    compactions.c.state.in_((CompactionState.WORKING, CompactionState.READY_FOR_CLEANING)),
)


def requeue_abandoned_jobs(connection: Connection, limits: Limits, now: int | None) -> None:
    """Put jobs of workers that have been silent for too long back into the queue.

    The limit is ``hive.compactor.worker.timeout``, or ``hive.txn.timeout`` while the job has no transaction yet.
    """
    timeouts = {"begun": int(limits.worker_timeout * 1000), "claimed": int(limits.txn_timeout * 1000)}
    for row in connection.execute(_ABANDONED, {**timeouts, "now": now}).mappings().all():
        job = compaction_from_row(row)
        update_job(connection, job.id, requeued_columns(job), now)


_ABANDONED = ALL.where(
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
    ),
).with_for_update()


def prune_history(connection: Connection, limits: Limits, now: int | None) -> None:
    """Drop old ended jobs: keep the newest of each table or partition and state, failures only until a later success."""
    oldest = int(connection.scalar(select(NOW), {"now": now}) or 0) - int(limits.history_timeout * 1000)
    rows = connection.execute(_ENDED, {"states": list(limits.history)}).mappings()
    surplus = list_surplus_jobs(map(compaction_from_row, rows), limits.history, oldest)
    for some in chunks(surplus):
        connection.execute(delete(compactions).where(compactions.c.id.in_(some)))


_ENDED = (
    select(compactions)
    .where(compactions.c.state.in_(bindparam("states", expanding=True)))
    .order_by(compactions.c.id.desc())
)
