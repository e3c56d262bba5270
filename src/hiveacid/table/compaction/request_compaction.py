"""COMPACT: queue jobs, and leave them to a worker service or run them in this process."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import compactor_settings
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    PRIVATE_POOL_PREFIX,
    SERVICE_TIMEOUT,
    Compaction,
    CompactionRequest,
    sort_columns,
)
from hiveacid.core.format.acid_columns import MAX_BUCKETS
from hiveacid.core.model import Partition, TableDefinition, TableName
from hiveacid.core.schema.partitions import require_partitions
from hiveacid.core.transactions.states import UNDER_WAY, CompactionState, TransactionState
from hiveacid.ports.clock import Clock
from hiveacid.ports.store import own_store
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.running_jobs_and_plans import cancel_jobs, release_unused_plans, run_in_parallel
from hiveacid.spark.write.rebalance_compaction import require_sortable
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean_job
from hiveacid.table.compaction.need import enqueue_for_user
from hiveacid.table.compaction.run_compaction import CompactionReport, job_group, run_job
from hiveacid.table.context import Context
from hiveacid.table.partitions import partition_name, partitions_of, static_values

_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0  # seconds between two checks of a job that another worker runs
# part of the time-out after which a heartbeat is overdue; clients send one at half of it
_OVERDUE_SHARE = 0.6
_STOP_CHECK_INTERVAL = 0.5  # seconds between two looks whether a statement is being stopped
_NOT_ABORTED = (TransactionState.OPEN, TransactionState.COMMITTED)


@dataclass(frozen=True)
class CompactionOptions:
    """Clauses of ALTER TABLE … COMPACT. None: settings and properties decide."""

    pool: str | None = None
    buckets: int | None = None
    order_by: str | None = None
    properties: tuple[tuple[str, str], ...] = ()


def compact(
    context: Context,
    name: TableName,
    kind: str,
    spec: Mapping[str, object] | None,
    options: CompactionOptions | None = None,
    *,
    wait: bool = True,
) -> list[CompactionReport]:
    """Compact a table or partitions of it (``hiveacid.compactor.threads`` at a time).

    Raises CompactionRefusedError if there is nothing to compact in an unpartitioned table or in the one partition of a
    full ``spec``. Of several partitions those without work are skipped.

    If a service has a worker for the pool, the job is left to it. ``wait`` then waits for its end
    (``hive.compactor.wait.timeout``), and runs the job here if no worker takes it. Without a service it runs here.
    """
    options = options or CompactionOptions()
    compaction_kind = _kind(kind, options)
    table = context.require_transactional(name, "COMPACT on")
    _check(context, table, options)
    static, partitions = static_values(context, table, spec), partitions_of(context, table)
    targets = [None] if partitions is None else require_partitions(table, partitions, static)
    requests = [_request(context, table, partition, compaction_kind, options) for partition in targets]
    reports, overdue = _run_requests(context, requests, wait=wait)
    reports = _clean_after(context, reports)
    refused = [report for report in reports if report.state == CompactionState.REFUSED]
    if len(targets) == 1 and refused:
        raise errors.CompactionRefusedError(f"{name}: {refused[0].reason}")
    if overdue:
        suffix = "; all other partitions are done" if len(targets) > len(overdue) else ""
        raise errors.CompactionRefusedError(f"{'; '.join(overdue)}{suffix}")
    return reports


def _kind(kind: str, options: CompactionOptions) -> CompactionKind:
    try:
        compaction_kind = CompactionKind(kind.strip().lower())
    except ValueError:
        kinds = ", ".join(CompactionKind)
        raise errors.ConfigError(f"compaction type {kind!r}: there are {kinds}") from None
    if compaction_kind is not CompactionKind.REBALANCE and (options.buckets or options.order_by):
        raise errors.ConfigError("CLUSTERED INTO … BUCKETS and ORDER BY are for COMPACT 'rebalance' only")
    return compaction_kind


def _check(context: Context, table: TableDefinition, options: CompactionOptions) -> None:
    """Refuse options that no worker can carry out, before a job is queued."""
    if options.buckets is not None and not 1 <= options.buckets <= MAX_BUCKETS:
        raise errors.ConfigError(f"CLUSTERED INTO {options.buckets} BUCKETS: there can be 1 to {MAX_BUCKETS}")
    if options.order_by is not None:
        order = sort_columns(options.order_by, [column.name for column in table.columns])
        with translate_errors():
            require_sortable(context.env, table, order)


def _request(
    context: Context,
    table: TableDefinition,
    partition: Partition | None,
    kind: CompactionKind,
    options: CompactionOptions,
) -> CompactionRequest:
    database = context.catalog.get_database(table.name.database)
    properties = (() if database is None else database.properties, table.properties, options.properties)
    settings = compactor_settings(context.settings, *properties)
    return CompactionRequest(
        table.name,
        partition_name(table, partition.values) if partition else None,
        kind.value,
        pool=options.pool
        or _own_pool(context)
        or settings.get(setting_definitions.WORKER_POOL)
        or DEFAULT_POOL,
        priority=settings.get(setting_definitions.PRIORITY),
        buckets=options.buckets,
        order_by=options.order_by,
        properties=options.properties,
    )


def _own_pool(context: Context) -> str | None:
    """Return the name of a private pool if this process runs its own jobs of a metastore, else None."""
    if context.store.maintained_by_hiveacid() or not context.settings.get(setting_definitions.COMPACT_HERE):
        return None
    return PRIVATE_POOL_PREFIX + secrets.token_hex(8)


@dataclass(frozen=True)
class _RunningJobs:
    """Running jobs of one statement. Stopping the statement puts them back into the queue."""

    context: Context
    stopping: threading.Event
    jobs: set[int] = field(default_factory=set)
    queueing: threading.Lock = field(default_factory=threading.Lock)
    """Held while a job is enqueued, because the cleaning before it locks the table against other threads."""
    overdue: list[str] = field(default_factory=list)
    """Refusals because of workers that missed a heartbeat."""

    def run(self, job: Compaction) -> CompactionReport | None:
        """Claim and run a job; None if another worker has it or the statement is being stopped."""
        if self.stopping.is_set():
            return None
        self.jobs.add(job.id)
        client = self.context.transactions.client
        worker = f"{client.host}-{client.agent}.{secrets.token_hex(4)}"  # unique to this call
        try:
            claimed = self.context.store.claim_compaction(worker, job.id)
            return None if claimed is None else run_job(self.context, claimed, worker, self.stopping.is_set)
        finally:
            self.jobs.discard(job.id)

    def stop(self) -> None:
        """Start no further job, and cancel the running ones. Called from another thread."""
        self.stopping.set()
        for job_id in tuple(self.jobs):
            cancel_jobs(self.context.env, job_group(job_id))


@dataclass(frozen=True)
class _StoppableClock:
    """A clock whose sleeping threads wake up when the statement is stopped; Ctrl-C reaches only the main thread."""

    clock: Clock
    stopping: threading.Event

    def now(self) -> int:
        """Return milliseconds since 1970."""
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait. Raises StatementCancelledError once the statement is stopped."""
        while seconds > 0:
            if self.stopping.is_set():
                raise errors.StatementCancelledError("the statement was stopped while it waited")
            self.clock.sleep(min(seconds, _STOP_CHECK_INTERVAL))
            seconds -= _STOP_CHECK_INTERVAL


def _run_requests(
    context: Context, requests: Sequence[CompactionRequest], *, wait: bool
) -> tuple[list[CompactionReport], list[str]]:
    """Run the jobs; return reports, and refusals because of workers that missed a heartbeat."""
    stopping = threading.Event()
    alone = len(requests) == 1
    if not alone:
        clock = _StoppableClock(context.clock, stopping)
        context = replace(context, clock=clock, transactions=replace(context.transactions, clock=clock))
    at_work = _RunningJobs(context, stopping)
    works = [partial(_run_request, context, request, at_work, wait=wait, alone=alone) for request in requests]
    reports = run_in_parallel(
        context.env, works, context.settings.get(setting_definitions.COMPACT_THREADS), at_work.stop
    )
    return reports, at_work.overdue


def _run_request(
    context: Context, request: CompactionRequest, at_work: _RunningJobs, *, wait: bool, alone: bool
) -> CompactionReport:
    try:
        with at_work.queueing:
            job = _enqueue_after_sweep(context, request)
    except errors.CompactionRefusedError as error:
        if alone:
            raise
        if isinstance(error, _HeartbeatOverdueError):
            at_work.overdue.append(str(error))
        return CompactionReport(0, request.kind, request.partition, CompactionState.REFUSED, str(error))
    if _is_served(context, request.pool):
        if not wait:
            return _report_of(job)
        job = _wait_for_end(context, job, at_work.stopping)
        if job.state != CompactionState.INITIATED:
            return _report_of(job)
    report = at_work.run(job)
    return report or _report_of(_wait_for_end(context, job, at_work.stopping) if wait else job)


def _is_served(context: Context, pool: str) -> bool:
    if not context.store.maintained_by_hiveacid():
        return False
    services = own_store(context.store).show_services(SERVICE_TIMEOUT)
    return any(service.kind == "worker" and service.pool == pool for service in services)


def _enqueue_after_sweep(context: Context, request: CompactionRequest) -> Compaction:
    """Enqueue a job; after a refusal, end the snapshots of unreferenced DataFrames and enqueue once more."""
    try:
        return _enqueue(context, request)
    except errors.CompactionRefusedError:
        if not context.store.maintained_by_hiveacid():
            raise
        release_unused_plans(context.env, context.read_leases.sweep, patient=True)
        return _enqueue(context, request)


def _enqueue(context: Context, request: CompactionRequest) -> Compaction:
    """Enqueue a job, or return an equal job that waits; the user who asked for it may be gone.

    After a refusal, end blocking jobs of workers without a heartbeat for ``hive.txn.timeout``, and clean after jobs that
    wait only for the cleaner. Then try once more.
    """
    store = context.store
    store.abort_timed_out()
    initiator = f"{context.transactions.client.host}-manual"
    try:
        return enqueue_for_user(store, request, initiator)
    except errors.CompactionRefusedError:
        if not store.maintained_by_hiveacid():
            raise
        key = (request.table, request.partition)
        queue = [job for job in store.show_compactions() if (job.request.table, job.request.partition) == key]
        silent_since = store.now() - 1000 * context.settings.get(setting_definitions.TXN_TIMEOUT)
        for job in queue:
            _end_stale_job(context, job, request, silent_since)
        waiting = [
            job
            for job in store.show_compactions()
            if (job.request.table, job.request.partition, job.request.kind) == (*key, request.kind)
            and job.state == CompactionState.INITIATED
        ]
        if waiting:
            return waiting[0]
        try:
            return store.enqueue_compaction(request, initiator)
        except errors.CompactionRefusedError as error:
            raise _with_expiry(context, request, error) from None


class _HeartbeatOverdueError(errors.CompactionRefusedError):
    """A refusal because of a job whose worker missed a heartbeat and may have crashed."""


def _with_expiry(
    context: Context, request: CompactionRequest, error: errors.CompactionRefusedError
) -> errors.CompactionRefusedError:
    """Add to a refusal the time at which the running job expires if its worker has crashed."""
    store = context.store
    key = (request.table, request.partition, CompactionState.WORKING)
    jobs = [
        job
        for job in store.show_compactions()
        if (job.request.table, job.request.partition, job.state) == key
    ]
    if not jobs:
        return error
    job = jobs[0]
    expiry, missed = _expiry(context, job)
    announced = any(service.name == job.worker for service in own_store(store).show_services(SERVICE_TIMEOUT))
    deadline = datetime.fromtimestamp(expiry / 1000, UTC).isoformat(sep=" ", timespec="seconds")
    kind = _HeartbeatOverdueError if missed and not announced else errors.CompactionRefusedError
    return kind(
        f"{error}: {job.worker} is at work on it. If that worker is dead, its job is given up at {deadline}; repeat COMPACT "
        "then"
    )


def _expiry(context: Context, job: Compaction) -> tuple[int, bool]:
    """Return when a running job expires (ms) without a heartbeat of its worker, and whether a heartbeat is overdue."""
    store = context.store
    open_txn = next(
        (row for row in store.show_transactions() if (row.txn_id, row.state) == (job.txn_id, "OPEN")), None
    )
    timeout = int(1000 * context.settings.get(setting_definitions.TXN_TIMEOUT))
    heard = job.started or 0
    if open_txn is not None:
        timeout, heard = open_txn.timeout or timeout, open_txn.last_heartbeat
    return heard + timeout, store.now() - heard > timeout * _OVERDUE_SHARE


def _end_stale_job(
    context: Context, job: Compaction, request: CompactionRequest, silent_since: float
) -> None:
    """End a job that blocks another one, if its worker seems dead or only its cleaning is left."""
    covered = (job.request.kind, request.kind) == (CompactionKind.MINOR, CompactionKind.MAJOR)
    # another client has ended the job meanwhile
    with suppress(errors.TransactionStateError, errors.CompactionError):
        # A worker may crash before it opens a transaction, or after it aborted it. With one that has just committed, the
        # job is done, and only while it is ready for cleaning the cleaner waits for readers that do not see its result.
        if (
            job.state == CompactionState.WORKING
            and (job.started or 0) < silent_since
            and not (job.txn_id is not None and context.store.txn_state(job.txn_id) in _NOT_ABORTED)
        ):
            context.store.end_compaction(
                job.id, CompactionState.FAILED, "its worker has not been heard of any more"
            )
        if job.state == CompactionState.INITIATED and covered and (job.enqueued or 0) < silent_since:
            reason = "a major compaction was asked for meanwhile"
            context.store.end_compaction(job.id, CompactionState.DID_NOT_INITIATE, reason)
        if job.state == CompactionState.READY_FOR_CLEANING:
            clean_job(context, job.id)


def _wait_for_end(context: Context, job: Compaction, stopping: threading.Event) -> Compaction:
    """Wait for the end of a job, up to a time-out or until the statement is stopped; return the job.

    A job that no worker takes is returned after ``hive.compactor.worker.max.sleep.time`` at the latest. Idle workers
    check the queue more often than that.
    """
    timeout = context.settings.get(setting_definitions.WAIT_TIMEOUT)
    patience = min(timeout / 2, context.settings.get(setting_definitions.WORKER_MAX_SLEEP))
    waited, pause, now = 0.0, _FIRST_PAUSE, job
    while now.state in UNDER_WAY and waited < (
        patience if now.state == CompactionState.INITIATED else timeout
    ):
        if stopping.is_set():
            break
        context.clock.sleep(pause)
        context.store.abort_timed_out()  # the job of a crashed worker is queued again
        waited += pause
        pause = min(2 * pause, _LONGEST_PAUSE)
        rows = [row for row in context.store.show_compactions() if row.id == job.id]
        if not rows:
            return now
        now = rows[0]
    return now


def _report_of(job: Compaction) -> CompactionReport:
    reason = "left to the worker service" if job.state in UNDER_WAY and not job.error else job.error
    return CompactionReport(job.id, job.request.kind, job.request.partition, job.state, reason)


def _clean_after(context: Context, reports: Sequence[CompactionReport]) -> list[CompactionReport]:
    """Clean after finished jobs; return the reports with the removed paths."""
    ready = [report for report in reports if report.state == CompactionState.READY_FOR_CLEANING]
    if ready:
        context.transactions.heartbeats.beat()
        release_unused_plans(context.env, context.read_leases.sweep)
    removed = {report.id: tuple(clean_job(context, report.id)) for report in ready}
    return [replace(report, removed=removed.get(report.id, ())) for report in reports]
