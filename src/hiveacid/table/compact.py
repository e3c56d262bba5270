"""COMPACT as a user says it: jobs are queued, and run by a worker service, or here where there is none."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.config.overrides import compactor_settings
from hiveacid.core.compaction import CompactionKind
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName
from hiveacid.core.queue import DEFAULT_POOL, OWN_POOLS, READY, CompactionRequest
from hiveacid.errors import (
    CompactionError,
    CompactionRefusedError,
    ConfigError,
    NoSuchPartitionError,
    NotTransactionalError,
    StatementCancelledError,
    TransactionStateError,
)
from hiveacid.spark.failures import translated
from hiveacid.spark.jobs import cancel_jobs
from hiveacid.spark.lease import let_go
from hiveacid.spark.rebalance import MOST_BUCKETS, check_order
from hiveacid.table.cleaning import clean_after, clean_job
from hiveacid.table.compaction_job import job_group, never, run_job
from hiveacid.table.insert import static_values
from hiveacid.table.layout import partition_name
from hiveacid.table.read import partitions_of
from hiveacid.table.report import CompactionReport
from hiveacid.table.side_by_side import side_by_side

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiveacid.core.queue import Compaction
    from hiveacid.ports import Clock
    from hiveacid.table.compaction_write import Writing
    from hiveacid.table.context import Context

SERVICE_IS_GONE = 60.0
"""Seconds after which a service that did not announce itself counts as gone."""
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 10.0  # seconds between two looks at a job that somebody else works on
_LOOK = 0.5  # seconds between two looks whether a statement is being stopped
_UNDER_WAY = ("initiated", "working")


@dataclass(frozen=True)
class CompactionOptions:
    """How to compact: the clauses of ALTER TABLE … COMPACT. None: as settings and properties say."""

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
    """Compact a table, a partition, or every partition that has something to do (``hiveacid.compactor.threads`` at once).

    With a full ``spec``, or on an unpartitioned table, CompactionRefusedError says that there is nothing to
    do. Where a service with a worker for the pool is there, the job is left to it: ``wait`` waits for its end
    (``hive.compactor.wait.timeout``), and takes it over if nobody does. Otherwise it runs here at once.
    """
    options = options or CompactionOptions()
    wanted = _kind(kind, options)
    table = context.require(name)
    if table.kind is TableKind.PLAIN:
        raise NotTransactionalError(f"COMPACT on {name}: the table is not transactional")
    _check(context, table, options)
    targets = _targets(context, table, spec)
    requests = [_request(context, table, partition, wanted, options) for partition in targets]
    reports = _all(context, requests, wait=wait)
    reports = [replace(report, removed=removed) for report, removed in clean_after(context, reports)]
    refused = [report for report in reports if report.state == "refused"]
    if len(targets) == 1 and refused:
        raise CompactionRefusedError(f"{name}: {refused[0].reason}")
    return reports


def _kind(kind: str, options: CompactionOptions) -> CompactionKind:
    try:
        wanted = CompactionKind(kind.strip().lower())
    except ValueError:
        kinds = ", ".join(CompactionKind)
        raise ConfigError(f"compaction type {kind!r}: there are {kinds}") from None
    if wanted is not CompactionKind.REBALANCE and (options.buckets or options.order_by):
        raise ConfigError("CLUSTERED INTO … BUCKETS and ORDER BY are for COMPACT 'rebalance' only")
    return wanted


def _check(context: Context, table: TableDefinition, options: CompactionOptions) -> None:
    """Refuse what no worker could do, before it is queued."""
    if options.buckets is not None and not 1 <= options.buckets <= MOST_BUCKETS:
        raise ConfigError(f"CLUSTERED INTO {options.buckets} BUCKETS: there can be 1 to {MOST_BUCKETS}")
    if options.order_by is not None:
        with translated():
            check_order(context.facts, table, options.order_by)


def _targets(
    context: Context, table: TableDefinition, spec: Mapping[str, object] | None
) -> Sequence[Partition | None]:
    static = static_values(context, table, spec)
    partitions = partitions_of(context, table)
    if partitions is None:
        return [None]
    names = [c.name for c in table.partition_columns]
    chosen = [
        p
        for p in partitions
        if all(dict(zip(names, p.values, strict=True))[key] == value for key, value in static.items())
    ]
    if static and not chosen:
        raise NoSuchPartitionError(f"{table.name} has no such partition: see SHOW PARTITIONS {table.name}")
    return chosen


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
        pool=options.pool or _own_pool(context) or settings.get(keys.WORKER_POOL) or DEFAULT_POOL,
        priority=settings.get(keys.PRIORITY),
        buckets=options.buckets,
        order_by=options.order_by,
        properties=options.properties,
    )


def _own_pool(context: Context) -> str | None:
    """Return the name of a pool that nobody else's workers look into, where jobs of a metastore are done here."""
    if context.store.upkeep_is_ours() or not context.settings.get(keys.COMPACT_HERE):
        return None
    return OWN_POOLS + secrets.token_hex(8)


@dataclass(frozen=True)
class _AtWork:
    """The jobs that a statement has under way, to stop them with it: they go back into the queue."""

    context: Context
    stopping: threading.Event
    jobs: set[int] = field(default_factory=set)
    queueing: threading.Lock = field(default_factory=threading.Lock)
    """Of who may clean before it queues: one excludes all others from a table."""

    def run(self, job: Compaction) -> CompactionReport | None:
        """Take a job and do it; None if somebody else has it, or the statement is being stopped."""
        if self.stopping.is_set():
            return None
        self.jobs.add(job.id)
        try:
            return _run_here(self.context, job, interrupted=self.stopping.is_set)
        finally:
            self.jobs.discard(job.id)

    def stop(self) -> None:
        """Begin no other job, and stop those under way. For another thread to call."""
        self.stopping.set()
        for job_id in tuple(self.jobs):
            cancel_jobs(self.context.facts, job_group(job_id))


@dataclass(frozen=True)
class _StoppableClock:
    """A clock whose sleepers wake up when a statement is being stopped; they are in other threads than Ctrl-C comes to."""

    clock: Clock
    stopping: threading.Event

    def now(self) -> int:
        """Return milliseconds since 1970."""
        return self.clock.now()

    def sleep(self, seconds: float) -> None:
        """Wait. Raises StatementCancelledError as soon as the statement is being stopped."""
        while seconds > 0:
            if self.stopping.is_set():
                raise StatementCancelledError("the statement was stopped while it waited")
            self.clock.sleep(min(seconds, _LOOK))
            seconds -= _LOOK


def _all(context: Context, requests: Sequence[CompactionRequest], *, wait: bool) -> list[CompactionReport]:
    stopping = threading.Event()
    alone = len(requests) == 1
    if not alone:
        clock = _StoppableClock(context.clock, stopping)
        context = replace(context, clock=clock, transactions=replace(context.transactions, clock=clock))
    at_work = _AtWork(context, stopping)
    works = [partial(_one, context, request, at_work, wait=wait, alone=alone) for request in requests]
    return side_by_side(context.facts, works, context.settings.get(keys.COMPACT_THREADS), at_work.stop)


def _one(
    context: Context, request: CompactionRequest, at_work: _AtWork, *, wait: bool, alone: bool
) -> CompactionReport:
    try:
        with at_work.queueing:
            job = _queued_at_last(context, request)
    except CompactionRefusedError as error:
        if alone:
            raise
        return CompactionReport(0, request.kind, request.partition, "refused", str(error))
    if _is_served(context, request.pool):
        if not wait:
            return _as_report(job)
        job = _waited(context, job, at_work.stopping)
        if job.state != "initiated":
            return _as_report(job)
    done = at_work.run(job)
    return done or _as_report(_waited(context, job, at_work.stopping) if wait else job)


def compact_place(
    context: Context,
    table: TableDefinition,
    partition: Partition | None,
    kind: CompactionKind,
    writing: Writing | None = None,
) -> CompactionReport:
    """Queue one job, take it and do it here; ``writing`` as in ``run_job``.

    Raises CompactionRefusedError while another one for the same place is waiting or at work.
    """
    job = _queued(context, _request(context, table, partition, kind, CompactionOptions()))
    return _run_here(context, job, writing) or _as_report(job)


def _run_here(
    context: Context,
    job: Compaction,
    writing: Writing | None = None,
    interrupted: Callable[[], bool] = never,
) -> CompactionReport | None:
    """Take a job and do it, as ``run_job``; None if somebody else has it.

    The worker's name tells this call from any other; in a simulation, where seeds repeat runs, names do anyway.
    """
    client = context.transactions.client
    worker = f"{client.host}-{client.agent}"
    if writing is None:
        worker += f".{secrets.token_hex(4)}"
    claimed = context.store.claim_compaction(worker, job.id)
    return None if claimed is None else run_job(context, claimed, worker, interrupted, writing)


def _is_served(context: Context, pool: str) -> bool:
    services = context.store.show_services(SERVICE_IS_GONE)
    return any(one.kind == "worker" and one.pool == pool for one in services)


def _queued_at_last(context: Context, request: CompactionRequest) -> Compaction:
    """Queue a job; what only frames that nobody uses any more keep from being cleaned is cleaned first."""
    try:
        return _queued(context, request)
    except CompactionRefusedError:
        if not context.store.upkeep_is_ours():
            raise
        let_go(context.facts, context.snapshots.sweep)
        return _queued(context, request)


def _queued(context: Context, request: CompactionRequest) -> Compaction:
    """Queue a job, or return the same one that waits in the queue already: its owner may be gone.

    What a dead worker has is given up first, as soon as ``hive.txn.timeout`` is over; so is a job that only
    its cleaning keeps in the way.
    """
    store = context.store
    store.abort_timed_out()
    initiator = f"{context.transactions.client.host}-manual"
    try:
        return store.enqueue_compaction(request, initiator)
    except CompactionRefusedError:
        if not store.upkeep_is_ours():
            raise
        place = (request.table, request.partition)
        queue = [
            job for job in store.show_compactions() if (job.request.table, job.request.partition) == place
        ]
        silent_since = store.now() - 1000 * context.settings.get(keys.TXN_TIMEOUT)
        for job in queue:
            _give_up(context, job, request, silent_since)
        waiting = [
            job
            for job in store.show_compactions()
            if (job.request.table, job.request.partition, job.request.kind) == (*place, request.kind)
            and job.state == "initiated"
        ]
        return waiting[0] if waiting else store.enqueue_compaction(request, initiator)


def _give_up(context: Context, job: Compaction, wanted: CompactionRequest, silent_since: float) -> None:
    """End a job that stands in the way of another one and seems dead, or needs no more than to be cleaned."""
    covered = (job.request.kind, wanted.kind) == (CompactionKind.MINOR, CompactionKind.MAJOR)
    with suppress(TransactionStateError, CompactionError):  # somebody else was quicker
        if job.state == "working" and (job.started or 0) < silent_since and not _is_at_work(context, job):
            context.store.end_compaction(job.id, "failed", "its worker has not been heard of any more")
        if job.state == "initiated" and covered and (job.enqueued or 0) < silent_since:
            why = "a major compaction was asked for meanwhile"
            context.store.end_compaction(job.id, "did not initiate", why)
        if job.state == READY:
            clean_job(context, job.id)


def _is_at_work(context: Context, job: Compaction) -> bool:
    """Tell whether a job's transaction is open. A worker may die before it opens one, and after it aborted it."""
    return job.txn_id is not None and context.store.txn_state(job.txn_id) == "open"


def _waited(context: Context, job: Compaction, stopping: threading.Event) -> Compaction:
    """Return a job when it has ended, or as it is when the time is over or the statement is being stopped.

    One that nobody takes is returned after ``hive.compactor.worker.max.sleep.time`` at most: workers that are
    alive and have nothing else to do look at the queue more often than that.
    """
    timeout = context.settings.get(keys.WAIT_TIMEOUT)
    patience = min(timeout / 2, context.settings.get(keys.WORKER_MAX_SLEEP))
    waited, pause, now = 0.0, _FIRST_PAUSE, job
    while now.state in _UNDER_WAY and waited < (patience if now.state == "initiated" else timeout):
        if stopping.is_set():
            break
        context.clock.sleep(pause)
        waited += pause
        pause = min(2 * pause, _LONGEST_PAUSE)
        found = [one for one in context.store.show_compactions() if one.id == job.id]
        if not found:
            return now
        now = found[0]
    return now


def _as_report(job: Compaction) -> CompactionReport:
    reason = "left to the worker service" if job.state in _UNDER_WAY and not job.error else job.error
    return CompactionReport(job.id, job.request.kind, job.request.partition, job.state, reason)
