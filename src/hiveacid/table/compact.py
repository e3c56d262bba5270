"""Minor and major compaction, one job a partition, in a transaction of its own.

A job never blocks readers or writers: it reads what is ended below the lowest open write id and writes a
directory that nobody believes before its transaction commits (the ``_v`` suffix).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.compaction import CompactionKind, CompactionPlan, CompactionRefusal, plan_compaction
from hiveacid.core.locks import LockComponent, LockType
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.names import ACID_VERSION_FILE, METADATA_FILE, LayoutLevel
from hiveacid.core.snapshot import AcidState
from hiveacid.errors import (
    CompactionError,
    CompactionRefusedError,
    ConfigError,
    NoSuchPartitionError,
    NotTransactionalError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from hiveacid.ports import CompactionRequest, Start, TxnKind
from hiveacid.spark.failures import translated
from hiveacid.spark.publish import Published, publish_acid, publish_flat, staged_files
from hiveacid.spark.scan import Source, scan_deletes
from hiveacid.spark.write import Kind, Target, stage_empty, stage_events, stage_flat, stage_kept
from hiveacid.storage.listing import Location, list_locations
from hiveacid.table.cleaning import clean_after
from hiveacid.table.insert import static_values
from hiveacid.table.layout import partition_name, staging
from hiveacid.table.read import OLD_EVENTS, frame_of, partitions_of
from hiveacid.table.report import CompactionReport
from hiveacid.table.survey import survey

if TYPE_CHECKING:
    from collections.abc import Mapping

    from hiveacid.ports import Compaction
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

logger = logging.getLogger(__name__)


def compact(
    context: Context,
    name: TableName,
    kind: str,
    spec: Mapping[str, object] | None,
    *,
    wait: bool = True,
) -> list[CompactionReport]:
    """Compact a table, a partition, or every partition that has something to do.

    With a full ``spec``, or on an unpartitioned table, CompactionRefusedError says that there is nothing to
    do. ``wait`` is for Hive's grammar: jobs run at once in this process either way.
    """
    del wait
    wanted = _kind(kind)
    table = context.require(name)
    if table.kind is TableKind.PLAIN:
        raise NotTransactionalError(f"COMPACT on {name}: the table is not transactional")
    if context.layout_level(table) is LayoutLevel.HIVE3:
        # Without a visibility id in its name a result counts file by file, as it is published.
        raise UnsupportedFeatureError(
            f"COMPACT on {name}: at layout level hive3 readers could see half of the result; compact it with "
            "hiveacid.layout.level=hive4, or by Hive"
        )
    targets = _targets(context, table, spec)
    reports = [run_job(context, table, partition, wanted) for partition in targets]
    reports = [replace(report, removed=removed) for report, removed in clean_after(context, reports)]
    refused = [report for report in reports if report.state == "refused"]
    if len(targets) == 1 and refused:
        raise CompactionRefusedError(f"{name}: {refused[0].reason}")
    return reports


def _kind(kind: str) -> CompactionKind:
    try:
        return CompactionKind(kind.strip().lower())
    except ValueError:
        raise ConfigError(f"compaction type {kind!r}: there are minor and major") from None


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


@dataclass(frozen=True)
class Writing:
    """How a job's rows, and its delete events, get into their directories (absolute paths).

    ``has_old_events``: whether files of a location hold delete events of a layout that a minor one cannot join.
    """

    rows: Callable[[Job, str], Published]
    events: Callable[[Job, str], Published]
    has_old_events: Callable[[Context, TableDefinition, Location, Transaction], bool]


def run_job(
    context: Context,
    table: TableDefinition,
    partition: Partition | None,
    kind: CompactionKind,
    writing: Writing | None = None,
) -> CompactionReport:
    """Queue one job, take it and do it; ``writing``: by Spark, unless somebody (the simulation) says otherwise.

    Raises CompactionRefusedError while another one for the same place is waiting or at work.
    """
    writing = writing or Writing(_compact_rows, _compact_events, _has_old_events)
    place = partition_name(table, partition.values) if partition else None
    client = context.transactions.client
    job = _queued(context, CompactionRequest(table.name, place, kind.value))
    claimed = context.store.claim_compaction(f"{client.host}-{client.agent}", job.id)
    if claimed is None:
        return CompactionReport(job.id, kind.value, place, "initiated", "another worker took the job")
    try:
        return _work(context, table, partition, claimed, kind, writing)
    except BaseException as error:
        _give_up(context, claimed, error)
        raise


def _give_up(context: Context, claimed: Compaction, error: BaseException) -> None:
    """End a job that failed, unless it is not ours any more: whoever reaped its transaction ended it, too.

    Nor is it when housekeeping queued it again and another worker took it.
    """
    now = next((job for job in context.store.show_compactions() if job.id == claimed.id), None)
    if now is None or (now.state, now.worker, now.started) != ("working", claimed.worker, claimed.started):
        return
    with suppress(TransactionStateError, CompactionError):
        context.store.end_compaction(claimed.id, "failed", str(error)[:500])


def _queued(context: Context, request: CompactionRequest) -> Compaction:
    """Queue a job, or return the same one that waits in the queue already: its owner may be gone.

    What stands in its way and seems dead is given up first, as soon as ``hive.txn.timeout`` is over: a job
    whose worker is silent, and a waiting minor one where a major one is wanted.
    """
    context.store.abort_timed_out()
    silent_since = context.clock.now() - 1000 * context.settings.get(keys.TXN_TIMEOUT)
    place = (request.table, request.partition)
    queue = [
        job for job in context.store.show_compactions() if (job.request.table, job.request.partition) == place
    ]
    for job in queue:
        covered = (job.request.kind, request.kind) == (CompactionKind.MINOR, CompactionKind.MAJOR)
        with suppress(TransactionStateError, CompactionError):  # somebody else was quicker
            if job.state == "working" and (job.started or 0) < silent_since and not _is_at_work(context, job):
                context.store.end_compaction(job.id, "failed", "its worker has not been heard of any more")
            if job.state == "initiated" and covered and (job.enqueued or 0) < silent_since:
                why = "a major compaction was asked for meanwhile"
                context.store.end_compaction(job.id, "did not initiate", why)
    waiting = [job for job in queue if job.state == "initiated" and job.request == request]
    client = context.transactions.client
    return waiting[0] if waiting else context.store.enqueue_compaction(request, f"{client.host}-manual")


def _is_at_work(context: Context, job: Compaction) -> bool:
    """Tell whether a job's transaction is open. A worker may die before it opens one, and after it aborted it."""
    return job.txn_id is not None and context.store.txn_state(job.txn_id) == "open"


def _work(
    context: Context,
    table: TableDefinition,
    partition: Partition | None,
    job: Compaction,
    kind: CompactionKind,
    writing: Writing,
) -> CompactionReport:
    place = job.request.partition
    lock = LockComponent(LockType.SHARED_READ, table.name.database, table.name.name, place)
    start = Start((lock,), (table.name,))
    txn = context.transactions.begin(context.settings, TxnKind.COMPACTION, start=start)
    try:
        table = context.require(table.name)  # as of now: a column added since must not get lost
        _require_partition(context, table, partition)
        write_ids = txn.valid_write_ids(table.name).compactor()
        _start(context, job, txn, write_ids.high_watermark)
        partitions = None if partition is None else [partition]
        (location,) = list_locations(context.fs, table, partitions, write_ids, txn.snapshot())
        plan = plan_compaction(location.state, write_ids, kind, context.layout_level(table), txn.txn_id)
        if kind is CompactionKind.MINOR and writing.has_old_events(context, table, location, txn):
            plan = CompactionRefusal(OLD_EVENTS, cleaning_needed=False)
        if isinstance(plan, CompactionRefusal):
            txn.abort("nothing to compact")
            state = _refuse(context, job, plan)
            return CompactionReport(job.id, kind.value, place, state, plan.reason)
        report = _execute(Job(context, table, location, plan, txn), job, writing)
        txn.commit()
    except BaseException as error:
        lost = context.transactions.lost(txn, error)
        txn.abort(f"compaction failed: {error}"[:200])
        if lost is not None:
            raise lost from error
        raise
    return report


def _at_rest(context: Context) -> Context:
    """Return a context that moves no wall clock: a session's time zone may skip an hour that values lie in."""
    return replace(context, facts=replace(context.facts, shown_as_stored=True))


def _start(context: Context, job: Compaction, txn: Transaction, high_watermark: WriteId) -> None:
    """Say what the job is about to do. Raises CompactionError if it was given up meanwhile."""
    try:
        context.store.start_compaction(job.id, txn.txn_id, high_watermark)
    except TransactionStateError as error:
        raise CompactionError(
            f"compaction {job.id} was given up: nothing was heard of its worker for hive.txn.timeout; run it again"
        ) from error


def _refuse(context: Context, job: Compaction, refusal: CompactionRefusal) -> str:
    """End a job that has nothing to do; where something is left to clean, say whom the cleaner waits for."""
    state, following = "refused", None
    if refusal.cleaning_needed:
        # whoever begins after this moment reads what replaced the obsolete directories
        state, following = "ready for cleaning", TxnId(context.store.valid_txns().high_watermark + 1)
    try:
        context.store.end_compaction(job.id, state, refusal.reason, following)
    except (TransactionStateError, CompactionError):  # it was reaped meanwhile, and so is the job
        return "failed"
    return state


def _require_partition(context: Context, table: TableDefinition, partition: Partition | None) -> None:
    if partition is not None and partition not in (partitions_of(context, table) or ()):
        raise NoSuchPartitionError(f"{table.name} lost a partition while its compaction waited")


@dataclass(frozen=True)
class Job:
    """A job whose plan is made."""

    context: Context
    table: TableDefinition
    location: Location
    plan: CompactionPlan
    txn: Transaction

    @property
    def target(self) -> Target:
        """Return what Spark writes to."""
        return Target(self.context.facts, self.table, self.plan.high_watermark, {})

    def directory(self, name: str) -> str:
        """Return a directory's absolute path."""
        return f"{self.location.root}/{name}"


def _execute(job: Job, queued: Compaction, writing: Writing) -> CompactionReport:
    plan = job.plan
    outputs = [job.directory(name) for name in (plan.output, plan.delete_output) if name]

    def remove() -> None:
        for path in outputs:
            job.context.fs.delete_tree(path)

    job.txn.on_abort(remove)
    published = []
    if plan.output:
        published.append(writing.rows(job, job.directory(plan.output)))
    if plan.delete_output:
        published.append(writing.events(job, job.directory(plan.delete_output)))
    read = (*((plan.base,) if plan.base else ()), *plan.deltas, *plan.delete_deltas)
    return CompactionReport(
        queued.id,
        plan.kind.value,
        queued.request.partition,
        "ready for cleaning",
        read=tuple(directory.path for directory in read),
        written=tuple(outputs),
        rows=sum(sum(one.rows.values()) for one in published),
        files=sum(one.files for one in published),
        bytes=sum(one.bytes for one in published),
    )


def _has_old_events(context: Context, table: TableDefinition, location: Location, txn: Transaction) -> bool:
    return bool(survey(context, table, [location], txn).old)


def _compact_rows(job: Job, output: str) -> Published:
    job = replace(job, context=_at_rest(job.context))
    plan, table = job.plan, job.table
    is_major = plan.kind is CompactionKind.MAJOR
    state = AcidState(plan.base, plan.deltas, plan.delete_deltas if is_major else (), plan.originals)
    location = replace(job.location, state=state)
    full_acid = table.kind is TableKind.FULL_ACID
    with staging(job.context, table, job.txn) as directory, translated():
        frame = frame_of(job.context, table, [location], plan.write_ids, job.txn, current=full_acid)
        if full_acid:
            stage_kept(job.target, frame, directory)
        else:
            stage_flat(job.target, frame, directory, [], [], small=False)
        published = _publish(job, directory, output, Kind.INSERTED)
    if plan.metadata:
        job.context.fs.write_bytes(f"{output}/{METADATA_FILE}", plan.metadata.encode())
    return published


def _publish(job: Job, directory: str, output: str, kind: Kind) -> Published:
    fs, table = job.context.fs, job.table
    files = staged_files(fs, directory, kind)
    if table.kind is TableKind.INSERT_ONLY:
        fs.make_directory(output)
        return publish_flat(fs, table, files, lambda *_: output, lambda number, _: f"{number:06d}_0")
    published = publish_acid(fs, table, files, lambda *_: output)
    if published.directories:
        return published
    if kind is Kind.DELETE:
        fs.write_bytes(f"{output}/{ACID_VERSION_FILE}", b"2")
        return published
    with staging(job.context, table, job.txn) as empty:
        stage_empty(job.target, empty)
        return publish_acid(fs, table, staged_files(fs, empty, kind), lambda *_: output, keep_empty=True)


def _compact_events(job: Job, output: str) -> Published:
    plan = job.plan
    state = AcidState(None, (), plan.delete_deltas, ())
    location = replace(job.location, state=state)
    files = survey(job.context, job.table, [location], job.txn).files
    source = Source(job.context.facts, job.context.fs, job.table, plan.write_ids, files)
    with staging(job.context, job.table, job.txn) as directory, translated():
        stage_events(job.target, scan_deletes(source, [location]), directory)
        return _publish(job, directory, output, Kind.DELETE)
