"""One compaction from claim to commit, in a transaction of its own (Hive's ``Worker``).

A job never blocks readers. Only a rebalance, which gives rows new ids, excludes other updates and deletes. A job
reads write ids below the lowest open one. Readers accept the directories that it writes once its transaction
commits, because of their ``_v`` suffix; at layout level hive3 see ``table.compaction.write_compacted_files``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, replace

from hiveacid import errors
from hiveacid.config.property_definitions import compactor_settings
from hiveacid.core.compaction.plan import CompactionKind, CompactionPlan, CompactionRefusal, plan_compaction
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import ValidCompactorWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.core.transactions.states import CompactionState
from hiveacid.ports.transactions import Operation, TxnKind, Written
from hiveacid.spark.session.running_jobs_and_plans import named_jobs
from hiveacid.storage.snapshot_locations import Location, list_locations
from hiveacid.table.cleaning.delete_files import cleaner_lock, record_history_start
from hiveacid.table.compaction import write_compacted_files
from hiveacid.table.compaction.report import CompactionReport, DataVolume
from hiveacid.table.context import Context
from hiveacid.table.partitions import find_partition
from hiveacid.table.read.footers import read_footers
from hiveacid.table.read.scan import ACID_V1_EVENTS
from hiveacid.transactions.transaction import Transaction

_TURNS, _PAUSE = 240, 0.5  # attempts to get the lock of a cleaner, and seconds between two of them

logger = logging.getLogger(__name__)

BUCKETED = "Cannot execute rebalancing compaction on bucketed tables."
"""Hive's message."""


class _RefusedError(Exception):
    """The job has nothing to compact, or must not run now; ``cleaning_needed`` as in `CompactionRefusal`.

    ``state``: the job's, once it has ended.
    """

    def __init__(self, reason: str, *, cleaning_needed: bool = False) -> None:
        super().__init__(reason)
        self.cleaning_needed = cleaning_needed
        self.state: str | None = None


@dataclass(frozen=True)
class _Job:
    """A claimed job with its table, partition, transaction and writer."""

    context: Context
    job: Compaction
    worker: str
    table: TableDefinition
    partition: Partition | None
    kind: CompactionKind
    txn: Transaction
    writing: write_compacted_files.CompactionWriter

    @property
    def level(self) -> LayoutLevel:
        return self.context.layout_level(self.table)


def never_interrupted() -> bool:
    """Return False: the worker was not told to stop."""
    return False


def job_group(job_id: int) -> str:
    """Return the name of the group of a compaction's Spark jobs (``spark.session.running_jobs_and_plans``)."""
    return f"hiveacid-compaction-{job_id}"


def run_job(
    context: Context,
    job: Compaction,
    worker: str,
    interrupted: Callable[[], bool] = never_interrupted,
    writing: write_compacted_files.CompactionWriter | None = None,
) -> CompactionReport:
    """Run a job that ``worker`` has claimed; return the report.

    An error ends the job as failed and is raised. If another worker has the job meanwhile, its state does not change.
    KeyboardInterrupt and SystemExit put the job back into the queue; so does any error once ``interrupted`` returns
    True, because the worker was told to stop. ``writing``: functions that write the files; default: Spark.
    """
    began = context.clock.now()
    subject = f"{job.request.table}{f' {job.request.partition}' if job.request.partition else ''}"
    try:
        naming: AbstractContextManager[None] = nullcontext()
        if writing is None:
            naming = named_jobs(context.env, job_group(job.id), f"{job.request.kind} compaction of {subject}")
        with naming:
            report = _run(context, job, worker, writing or write_compacted_files.file_writer())
    except _RefusedError as refused:
        state = refused.state or _refuse(context, job, worker, refused)
        return CompactionReport(job.id, job.request.kind, job.request.partition, state, str(refused))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit) or interrupted():
            with suppress(errors.HiveAcidError):
                context.store.release_compaction(job.id, worker)
            raise
        logger.warning("compaction %s of %s failed: %s", job.id, subject, error)
        # another worker has it, or the table is gone
        with suppress(errors.TransactionStateError, errors.CompactionError):
            context.store.end_compaction(job.id, CompactionState.FAILED, str(error)[:500], worker=worker)
        raise
    report = replace(report, seconds=(context.clock.now() - began) / 1000)
    with suppress(errors.CompactionError):
        context.store.note_compaction(job.id, report.details())
    logger.info(
        "compaction %s (%s of %s): %s files, %s bytes -> %s files, %s bytes in %.1f s",
        *(job.id, job.request.kind, subject),
        *(report.before.files, report.before.bytes, report.after.files, report.after.bytes, report.seconds),
    )
    return report


def _refuse(context: Context, job: Compaction, worker: str, refused: _RefusedError) -> str:
    """End a job without work, or hand it to the cleaner if there is something to clean."""
    state = CompactionState.READY_FOR_CLEANING if refused.cleaning_needed else CompactionState.REFUSED
    try:
        context.store.end_compaction(job.id, state, str(refused), worker)
    # the claim expired meanwhile, and another worker has the job
    except (errors.TransactionStateError, errors.CompactionError):
        return CompactionState.FAILED
    return state


def _run(
    context: Context, job: Compaction, worker: str, writing: write_compacted_files.CompactionWriter
) -> CompactionReport:
    name, kind = job.request.table, _kind_of(job)
    table = context.catalog.get_table(name)
    if table is None:
        raise _RefusedError(f"Unable to find table {name}, assuming it was dropped and moving on.")
    if kind is CompactionKind.REBALANCE:
        if table.bucketing is not None:
            raise _RefusedError(BUCKETED)
        if table.kind is TableKind.INSERT_ONLY:
            kind = CompactionKind.MAJOR  # rows without ids need no new numbers (as in Hive)
    database = context.catalog.get_database(name.database)
    properties = (() if database is None else database.properties, table.properties, job.request.properties)
    context = replace(context, settings=compactor_settings(context.settings, *properties))
    txn = context.transactions.begin(context.settings, TxnKind.COMPACTION)
    try:
        report = _in_transaction(context, job, worker, kind, txn, writing)
        txn.commit()
    except _RefusedError as refused:
        if refused.cleaning_needed or not context.store.maintained_by_hiveacid():
            txn.abort(f"compaction refused: {refused}"[:200])
        else:  # nothing was written: no trace stays
            refused.state = _refuse(context, job, worker, refused)
            txn.commit()
        raise
    except BaseException as error:
        lost = context.transactions.abort_error(txn, error)
        txn.abort(f"compaction failed: {error}"[:200])
        if lost is not None:
            raise lost from error
        raise
    return report


def _kind_of(job: Compaction) -> CompactionKind:
    try:
        return CompactionKind(job.request.kind)
    except ValueError:
        raise errors.CompactionError(
            f"compaction {job.id} of {job.request.table} is of the unknown kind {job.request.kind!r} (there are "
            f"{', '.join(CompactionKind)}): a newer version or a manual change of the queue added it; request it again"
        ) from None


def _in_transaction(
    context: Context,
    job: Compaction,
    worker: str,
    kind: CompactionKind,
    txn: Transaction,
    writing: write_compacted_files.CompactionWriter,
) -> CompactionReport:
    name, partition_name = job.request.table, job.request.partition
    lock = LockType.EXCL_WRITE if kind is CompactionKind.REBALANCE else LockType.SHARED_READ
    txn.lock([LockComponent(lock, name.database, name.name, partition_name)])
    table = context.catalog.get_table(name)  # as of now: it may have a new column, which must not get lost
    if table is None:
        raise _RefusedError(f"Unable to find table {name}, assuming it was dropped and moving on.")
    work = _Job(context, job, worker, table, _partition(context, table, partition_name), kind, txn, writing)
    write_ids = txn.valid_write_ids(name).compactor()
    _record_transaction(work, write_ids)
    partitions = None if work.partition is None else [work.partition]
    (location,) = list_locations(context.fs, table, partitions, write_ids, txn.snapshot())
    return _rewrite(work, location, _plan(work, location, write_ids))


def _record_transaction(work: _Job, write_ids: ValidCompactorWriteIdList) -> None:
    """Record the job's transaction. Raises CompactionError if the claim expired while the job waited for its lock."""
    top = write_ids.high_watermark
    try:
        work.context.store.start_compaction(work.job.id, work.txn.txn_id, top, work.worker)
    except errors.TransactionStateError as error:
        raise errors.CompactionError(
            f"compaction {work.job.id} was given up: nothing was heard of its worker for hive.txn.timeout; run it again"
        ) from error


def _partition(context: Context, table: TableDefinition, name: str | None) -> Partition | None:
    if name is None and not table.partition_columns:
        return None
    partition = find_partition(context, table, name)
    if partition is None:
        reason = f"Unable to find partition {table.name}.{name}, assuming it was dropped and moving on."
        raise _RefusedError(reason)
    return partition


def _plan(work: _Job, location: Location, write_ids: ValidCompactorWriteIdList) -> CompactionPlan:
    plan = plan_compaction(location.state, write_ids, work.kind, work.level, work.txn.txn_id)
    if work.kind is CompactionKind.MINOR and work.writing.counts:
        footers = read_footers(work.context, work.table, [location], work.txn)
        if footers.has_acid_v1_events:  # only a major compaction can read them
            raise _RefusedError(f"{work.table.name} {ACID_V1_EVENTS}")
    if isinstance(plan, CompactionRefusal):
        raise _RefusedError(plan.reason, cleaning_needed=plan.cleaning_needed)
    if work.level is LayoutLevel.HIVE3 and not work.context.fs.renames_directories(location.root):
        raise errors.UnsupportedFeatureError(
            f"compaction of {work.table.name} at layout level hive3 needs a file system that renames directories in "
            "one step: readers could see half of the result. Use level hive4 (hiveacid.layout.level)"
        )
    return plan


def _rewrite(work: _Job, location: Location, plan: CompactionPlan) -> CompactionReport:
    context, partition_name = work.context, work.job.request.partition
    input_volume = write_compacted_files.measure_input(
        context, work.table, location, plan, counted=work.writing.counts
    )
    _record_progress(work, "writing", input_volume)
    if work.kind is CompactionKind.REBALANCE:
        # later changes refer to the new row ids, so the replaced directories cannot explain them
        _record_history_start(context, work.table.name, plan.high_watermark)
        # a concurrent update by the old row ids then fails at its commit with a write conflict
        work.txn.add_written([Written(work.table.name, partition_name, Operation.UPDATE, 0)])
    directories, output_volume = write_compacted_files.rewrite(
        write_compacted_files.RewriteTask(
            context, work.table, location, plan, work.txn, work.job.request, work.level
        ),
        work.writing,
        input_volume,
        lambda: _record_progress(work, "publishing", input_volume),
    )
    read = (*((plan.base,) if plan.base else ()), *plan.deltas, *plan.delete_deltas)
    return CompactionReport(
        work.job.id,
        plan.kind.value,
        partition_name,
        CompactionState.READY_FOR_CLEANING,
        read=tuple(directory.path for directory in read),
        written=directories,
        before=input_volume,
        after=output_volume,
    )


def _record_history_start(context: Context, name: TableName, earliest: WriteId) -> None:
    """Record the start of a table's history under the cleaner's lock, so that neither overwrites the other's record."""
    for _ in range(_TURNS):
        with cleaner_lock(context, name) as held:
            if held:
                record_history_start(context, name, earliest, held)
                return
        context.clock.sleep(_PAUSE)
    raise errors.CompactionError(f"a cleaner has been at work in {name} for a long time: compact it again")


def _record_progress(work: _Job, phase: str, before: DataVolume) -> None:
    work.context.store.note_compaction(work.job.id, json.dumps({"phase": phase, "before": asdict(before)}))
