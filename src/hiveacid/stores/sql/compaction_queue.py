"""The compaction queue and its history (``CompactionTxnHandler``).

A job changes its state only by the transitions of :mod:`hiveacid.core.transactions.states`, and only while its row is
locked. The commit of a job's transaction makes it ready for cleaning in the same database transaction. Jobs of lost workers
go back into the queue, or fail after too many losses.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from sqlalchemy import (
    BigInteger,
    Connection,
    RowMapping,
    String,
    and_,
    bindparam,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    Compaction,
    CompactionRequest,
    is_covered,
    list_surplus_jobs,
)
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions import states
from hiveacid.core.transactions.states import COMPACTION, UNDER_WAY, CompactionState, fire
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.schema import (
    ABORTED,
    compactions,
    is_of_table,
    next_write_ids,
    table_columns,
    table_parameters,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.txns_and_locks import LOWEST_OPEN, TOP, is_open, lock_open_txns

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


def compaction_from_row(row: RowMapping) -> Compaction:
    """Convert a row of the queue to a `Compaction`."""
    values = dict(row)
    request = CompactionRequest(
        TableName(values.pop("database_name"), values.pop("table_name")),
        values.pop("partition_name"),
        properties=tuple((key, text) for key, text in json.loads(values.pop("properties") or "[]")),
        **{name: values.pop(name) for name in _REQUEST_COLUMNS},
    )
    return Compaction(request=request, **values)


def is_job_lost(connection: Connection, txn_id: TxnId) -> bool:
    """Tell whether a transaction has started a job that is not its own any more; else lock the job until the commit."""
    jobs = connection.execute(JOBS_OF_TXNS.with_for_update(), {"ids": [txn_id]}).all()
    return not jobs and connection.scalar(_TRACE, {"txn_id": txn_id}) is not None


def finish_committed_job(connection: Connection, txn_id: TxnId, now: int | None) -> None:
    """Make the job of a committing transaction ready for cleaning, which waits for readers that began earlier."""
    for row in connection.execute(JOBS_OF_TXNS, {"ids": [txn_id]}).mappings().all():
        values = {
            "state": fire(COMPACTION, row["state"], "finish"),
            "next_txn_id": TOP + 1,
            "commit_time": NOW,
        }
        update_job(connection, row["id"], values, now)


def requeue_claimed_jobs(connection: Connection, table: TableName) -> None:
    """Put the claimed jobs of a table that gets another name back into the queue: their workers know the old name.

    These wait for the lock that RENAME holds, and another table may have the name when they get it.
    """
    for row in connection.execute(_CLAIMED, table_parameters(table)).mappings().all():
        job = compaction_from_row(row)
        update_job(connection, job.id, requeued_columns(job) | {"claims": job.claims - 1}, None)


_CLAIMED = SELECT_JOBS.where(
    is_of_table(compactions), compactions.c.state == CompactionState.WORKING
).with_for_update()
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
            ~is_open(compactions.c.txn_id), compactions.c.started < NOW - bindparam("begun", type_=BigInteger)
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


class CompactionQueue(SqlBase):
    """Methods of :class:`hiveacid.ports.store.CompactionQueuePort` for jobs."""

    def enqueue_compaction(self, request: CompactionRequest, initiator: str) -> Compaction:
        """Queue a job, unless a job of the same table or partition is queued or working, or has just done the same."""
        refusals.compaction(request)
        refusals.require_storable("the name of the initiator", initiator)

        def work(connection: Connection) -> Compaction:
            self._database.dialect.serialise(connection, {"compactions": True})
            table = table_parameters(request.table)
            top = _compactor_high_watermark(connection, table)
            for other in connection.execute(_IN_QUEUE, table):
                covered = (
                    other.state == CompactionState.READY_FOR_CLEANING
                    and other.high_watermark == top
                    and is_covered(other.kind, request.kind)
                )
                if other.partition_name == request.partition and (covered or other.state in UNDER_WAY):
                    raise refusals.scheduled(request, other.state, other.id)
            return _insert(
                self._database, connection, request, {"state": COMPACTION.start, "initiator": initiator}
            )

        return write_exactly_once(self._database, work)

    def decline_compaction(self, request: CompactionRequest, initiator: str, error: str) -> Compaction:
        """Record in the history that a job was not queued."""
        refusals.compaction(request)
        refusals.require_storable("the name of the initiator", initiator)
        state = fire(COMPACTION, COMPACTION.start, "give up")
        values = {
            "state": state,
            "initiator": initiator,
            "error": refusals.storable_text(error),
            "ended": NOW,
        }
        return write_exactly_once(
            self._database, lambda connection: _insert(self._database, connection, request, values)
        )

    def claim_compaction(
        self, worker: str, compaction_id: int | None = None, pool: str = DEFAULT_POOL
    ) -> Compaction | None:
        """Claim the next waiting job of the pool, or the job ``compaction_id``."""
        refusals.require_storable("the name of the worker", worker)
        refusals.pool_name(pool)
        now = self._database.now()

        def work(connection: Connection) -> Compaction | None:
            candidates = (
                [compaction_id]
                if compaction_id is not None
                else _candidates(connection, self._limits, pool, now)
            )
            # One row per query: MariaDB locks all rows that a locking query sorts, so other workers would find none.
            number = next(
                (number for number in candidates if connection.scalar(_THAT, {"id": number}) is not None),
                None,
            )
            if number is None:
                return None
            values = {
                "state": fire(COMPACTION, COMPACTION.start, "claim"),
                "worker": worker,
                "started": NOW,
                "claims": compactions.c.claims + 1,
            }
            update_job(connection, number, values, now)
            return compaction_from_row(connection.execute(SELECT_JOB, {"id": number}).mappings().one())

        return write_exactly_once(self._database, work)

    def start_compaction(
        self, compaction_id: int, txn_id: TxnId, high_watermark: WriteId, worker: str | None = None
    ) -> None:
        """Record the job's transaction. If it aborts, the record stays until the cleaner has removed its files."""

        def work(connection: Connection) -> None:
            job = lock_job(connection, compaction_id, worker)
            if job.state != CompactionState.WORKING:
                raise refusals.compaction_not_working(compaction_id, job.state)
            lock_open_txns(self._database, connection, [txn_id])
            update_job(connection, compaction_id, {"txn_id": txn_id, "high_watermark": high_watermark}, None)
            trace = {
                "txn_id": txn_id,
                **table_columns(job.request.table),
                "partition_name": job.request.partition,
                "operation": "c",
                "write_id": high_watermark,
            }
            connection.execute(insert(written), trace)

        write_exactly_once(self._database, work)

    def note_compaction(self, compaction_id: int, details: str) -> None:
        """Record what a job reports of its progress."""

        def work(connection: Connection) -> None:
            lock_job(connection, compaction_id)
            update_job(connection, compaction_id, {"details": refusals.storable_text(details)}, None)

        self._database.write(work)

    def release_compaction(self, compaction_id: int, worker: str) -> None:
        """Put a job back into the queue."""

        def work(connection: Connection) -> None:
            job = lock_job(connection, compaction_id, worker)
            update_job(connection, compaction_id, requeued_columns(job) | {"claims": job.claims - 1}, None)

        write_exactly_once(self._database, work)

    def end_compaction(
        self, compaction_id: int, state: str, error: str | None = None, worker: str | None = None
    ) -> None:
        """Move a job to its next state."""

        def work(connection: Connection) -> None:
            job = lock_job(connection, compaction_id, worker)
            to = states.end_compaction(job.state, state)
            values: dict[str, object] = {"state": to, "error": refusals.storable_text(error)}
            if to in COMPACTION.final_states:
                values["ended"] = NOW
            wrote_nothing = job.txn_id is None or bool(connection.scalar(_IS_ABORTED, {"txn_id": job.txn_id}))
            if to == CompactionState.READY_FOR_CLEANING and wrote_nothing:
                values["commit_time"] = NOW
                if job.next_txn_id is None:
                    self._database.dialect.block_opens(connection)
                    values["next_txn_id"] = TOP + 1
            if to == CompactionState.REFUSED or (to == CompactionState.READY_FOR_CLEANING and wrote_nothing):
                connection.execute(_DELETE_TRACE, {"txn_id": job.txn_id})
            update_job(connection, compaction_id, values, self._database.now())

        write_exactly_once(self._database, work)

    def ready_to_clean(self, delay: float = 0.0) -> tuple[Compaction, ...]:
        """List the jobs that the cleaner may work on, lowest high watermark first."""
        parameters = {"delay": int(delay * 1000), "now": self._database.now()}
        rows = self._database.read(lambda connection: connection.execute(_READY, parameters).mappings().all())
        jobs = map(compaction_from_row, rows)
        return tuple(sorted(jobs, key=lambda job: (job.high_watermark or 0, job.id)))

    def retry_cleaning(self, compaction_id: int, error: str, wait: float) -> None:
        """Postpone the cleaning after a job."""
        parameters = {"now": self._database.now()}

        def work(connection: Connection) -> None:
            job = lock_job(connection, compaction_id)
            if job.state != CompactionState.READY_FOR_CLEANING:
                raise refusals.not_ready_for_cleaning(compaction_id, job.state)
            until = int(connection.scalar(select(NOW), parameters) or 0) + int(wait * 1000)
            values = {
                "error": refusals.storable_text(error),
                "cleanings": job.cleanings + 1,
                "clean_from": until,
            }
            update_job(connection, compaction_id, values, None)

        write_exactly_once(self._database, work)

    def show_compactions(self) -> tuple[Compaction, ...]:
        """List queue and history by id."""
        rows = self._database.read(lambda connection: connection.execute(SELECT_JOBS).mappings().all())
        return tuple(map(compaction_from_row, rows))


def _insert(
    database: Database, connection: Connection, request: CompactionRequest, values: Mapping[str, object]
) -> Compaction:
    row = {
        **table_columns(request.table),
        "partition_name": request.partition,
        "properties": json.dumps(request.properties) if request.properties else None,
        **{name: getattr(request, name) for name in _REQUEST_COLUMNS},
        **values,
        "claims": 0,
        "cleanings": 0,
        "enqueued": NOW,
    }
    result = connection.execute(insert(compactions).values(row), {"now": database.now()})
    (number,) = result.inserted_primary_key or (None,)
    return compaction_from_row(connection.execute(SELECT_JOB, {"id": number}).mappings().one())


_IS_ABORTED = select(txns.c.id).where(txns.c.id == bindparam("txn_id"), txns.c.state == ABORTED)
_OWN_TRACE = written.c.txn_id == bindparam("txn_id", type_=BigInteger), written.c.operation == "c"
_TRACE = select(written.c.txn_id).where(*_OWN_TRACE)
_DELETE_TRACE = delete(written).where(*_OWN_TRACE)

_IN_QUEUE = SELECT_JOBS.where(
    compactions.c.state.in_((*UNDER_WAY, CompactionState.READY_FOR_CLEANING)), is_of_table(compactions)
)


def _compactor_high_watermark(connection: Connection, table: dict[str, str]) -> int:
    """Return the highest write id below all open ones (``TxnUtils.createValidCompactWriteIdList``)."""
    top = int(connection.scalar(_NEXT_WRITE_ID, table) or 1) - 1
    lowest = connection.scalar(_LOWEST_OPEN_WRITE_ID, table)
    return top if lowest is None else min(top, int(lowest) - 1)


_NEXT_WRITE_ID = select(next_write_ids.c.next_id).where(is_of_table(next_write_ids))
_LOWEST_OPEN_WRITE_ID = select(func.min(write_ids.c.write_id)).where(
    is_of_table(write_ids), is_open(write_ids.c.txn_id)
)


def _candidates(connection: Connection, limits: Limits, pool: str, now: int | None) -> Sequence[int]:
    """List the ids of the jobs that wait in a pool, the next one first."""
    if pool != DEFAULT_POOL:
        return connection.scalars(_NEXT, {"pool": pool}).all()
    parameters = {"pool": pool, "timeout": int(limits.pool_timeout * 1000), "now": now}
    return connection.scalars(_NEXT_OF_DEFAULT, parameters).all()


_WAITING = select(compactions.c.id).where(compactions.c.state == COMPACTION.start)
_THAT = _WAITING.where(compactions.c.id == bindparam("id", type_=BigInteger)).with_for_update(
    skip_locked=True
)
_IN_POOL = compactions.c.pool == bindparam("pool", type_=String)
_IN_ORDER = (compactions.c.priority.desc(), compactions.c.id)
_NEXT = _WAITING.where(_IN_POOL).order_by(*_IN_ORDER)
_FORGOTTEN = compactions.c.enqueued < NOW - bindparam("timeout", type_=BigInteger)
_NEXT_OF_DEFAULT = _WAITING.where(or_(_IN_POOL, _FORGOTTEN)).order_by(*_IN_ORDER)


_READY = SELECT_JOBS.where(
    compactions.c.state == CompactionState.READY_FOR_CLEANING,
    compactions.c.next_txn_id <= func.coalesce(LOWEST_OPEN, TOP + 1),
    func.coalesce(compactions.c.commit_time, 0) <= NOW - bindparam("delay", type_=BigInteger),
    func.coalesce(compactions.c.clean_from, 0) <= NOW,
)
