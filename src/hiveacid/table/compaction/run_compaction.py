"""One claimed compaction up to its commit, in a transaction of its own (Hive's ``Worker``), and the report of it.

A job never blocks readers. Only a rebalance, which gives rows new ids, excludes other updates and deletes. A job
reads write ids below the lowest open one. Readers accept the directories that it writes once its transaction
commits, because of their ``_v`` suffix; at layout level hive3 see ``table.compaction.write_compacted_files``.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass, field, replace

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
from hiveacid.table.cleaning.remove_files import cleaner_lock, record_history_start
from hiveacid.table.compaction.write_compacted_files import (
    CompactionJob,
    CompactionWriter,
    DataVolume,
    FileWriter,
    measure_input,
    rewrite,
)
from hiveacid.table.context import Context
from hiveacid.table.partitions import find_partition
from hiveacid.table.read.footers import read_footers
from hiveacid.transactions.transaction import Transaction

# attempts to get the lock of a cleaner, and seconds between two of them
_CLEANER_ATTEMPTS, _CLEANER_PAUSE = 240, 0.5

logger = logging.getLogger(__name__)

BUCKETED = "Cannot execute rebalancing compaction on bucketed tables."
"""Hive's message."""


@dataclass(frozen=True)
class CompactionReport:
    """One compaction job: its final state, and the directories read, written and removed, with their contents.

    ``before``: contents of the directories read; ``after``: contents of those written. Both exclude the base, which a
    minor compaction leaves alone. ``seconds``: from the claim of the job to its commit.
    """

    id: int
    kind: str
    partition: str | None
    state: str
    reason: str | None = None
    read: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    before: DataVolume = field(default_factory=DataVolume)
    after: DataVolume = field(default_factory=DataVolume)
    seconds: float = 0.0

    @property
    def rows(self) -> int:
        """Rows written (without delete events)."""
        return self.after.rows or 0

    @property
    def files(self) -> int:
        """Files written."""
        return self.after.files

    @property
    def bytes(self) -> int:
        """Bytes written."""
        return self.after.bytes

    @property
    def deletes_applied(self) -> int:
        """Delete events that the result no longer needs."""
        return (self.before.deletes or 0) - (self.after.deletes or 0)

    def details(self) -> str:
        """Return the JSON text that the queue records (``core.compaction.queue_records.Compaction.details``)."""
        return json.dumps(
            {
                "phase": "done",
                "seconds": round(self.seconds, 3),
                "before": asdict(self.before),
                "after": asdict(self.after),
                "deletes_applied": self.deletes_applied,
            }
        )


class _RefusedError(Exception):
    """The job has nothing to compact, or must not run now; ``cleaning_needed`` as in `CompactionRefusal`.

    ``state``: the job's, once it has ended.
    """

    def __init__(self, reason: str, *, cleaning_needed: bool = False) -> None:
        super().__init__(reason)
        self.cleaning_needed = cleaning_needed
        self.state: str | None = None


def job_group(job_id: int) -> str:
    """Return the name of the group of a compaction's Spark jobs (``spark.session.running_jobs_and_plans``)."""
    return f"hiveacid-compaction-{job_id}"


def run_job(
    context: Context,
    record: Compaction,
    worker: str,
    interrupted: Callable[[], bool] = lambda: False,
    writer: CompactionWriter | None = None,
) -> CompactionReport:
    """Run a job that ``worker`` has claimed; return the report.

    An error ends the job as failed and is raised. If another worker has the job meanwhile, its state does not change.
    KeyboardInterrupt and SystemExit put the job back into the queue; so does any error once ``interrupted`` returns
    True, because the worker was told to stop. ``writer``: of the files; default: Spark.
    """
    began = context.clock.now()
    subject = f"{record.request.table}{f' {record.request.partition}' if record.request.partition else ''}"
    try:
        naming: AbstractContextManager[None] = nullcontext()
        if writer is None:
            naming = named_jobs(
                context.env, job_group(record.id), f"{record.request.kind} compaction of {subject}"
            )
        with naming:
            report = _run(context, record, worker, writer or FileWriter())
    except _RefusedError as refused:
        state = refused.state or _refuse(context, record, worker, refused)
        return CompactionReport(record.id, record.request.kind, record.request.partition, state, str(refused))
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt | SystemExit) or interrupted():
            with suppress(errors.HiveAcidError):
                context.store.release_compaction(record.id, worker)
            raise
        logger.warning("compaction %s of %s failed: %s", record.id, subject, error)
        # another worker has it, or the table is gone
        with suppress(errors.TransactionStateError, errors.CompactionError):
            context.store.end_compaction(record.id, CompactionState.FAILED, str(error)[:500], worker=worker)
        raise
    report = replace(report, seconds=(context.clock.now() - began) / 1000)
    with suppress(errors.CompactionError):
        context.store.note_compaction(record.id, report.details())
    logger.info(
        "compaction %s (%s of %s): %s files, %s bytes -> %s files, %s bytes in %.1f s",
        record.id,
        record.request.kind,
        subject,
        report.before.files,
        report.before.bytes,
        report.after.files,
        report.after.bytes,
        report.seconds,
    )
    return report


def _refuse(context: Context, record: Compaction, worker: str, refused: _RefusedError) -> str:
    """End a job without work, or hand it to the cleaner if there is something to clean."""
    state = CompactionState.READY_FOR_CLEANING if refused.cleaning_needed else CompactionState.REFUSED
    try:
        context.store.end_compaction(record.id, state, str(refused), worker)
    # the claim expired meanwhile, and another worker has the job
    except (errors.TransactionStateError, errors.CompactionError):
        return CompactionState.FAILED
    return state


def _run(context: Context, record: Compaction, worker: str, writer: CompactionWriter) -> CompactionReport:
    name, kind = record.request.table, _kind_of(record)
    table = context.catalog.get_table(name)
    if table is None:  # the texts "Unable to find …" are those of Hive's worker, for which operators search
        raise _RefusedError(f"Unable to find table {name}, assuming it was dropped and moving on.")
    if kind is CompactionKind.REBALANCE:
        if table.bucketing is not None:
            raise _RefusedError(BUCKETED)
        if table.kind is TableKind.INSERT_ONLY:
            kind = CompactionKind.MAJOR  # rows without ids need no new numbers (as in Hive)
    database = context.catalog.get_database(name.database)
    properties = (
        () if database is None else database.properties,
        table.properties,
        record.request.properties,
    )
    settings = compactor_settings(context.settings, *properties)
    context = replace(context, session=replace(context.session, settings=settings))
    txn = context.transactions.begin(context.settings, TxnKind.COMPACTION)
    try:
        report = _in_transaction(context, record, worker, kind, txn, writer)
        txn.commit()
    except _RefusedError as refused:
        if refused.cleaning_needed or not context.store.maintained_by_hiveacid():
            txn.abort(f"compaction refused: {refused}"[:200])
        else:  # nothing was written: no trace stays
            try:
                refused.state = _refuse(context, record, worker, refused)
                txn.commit()
            finally:
                txn.abort("compaction refused")  # if it could not be committed
        raise
    except BaseException as error:
        try:
            lost = context.transactions.abort_error(txn, error)
        finally:
            txn.abort(f"compaction failed: {error}"[:200])
        if lost is not None:
            raise lost from error
        raise
    return report


def _kind_of(record: Compaction) -> CompactionKind:
    try:
        return CompactionKind(record.request.kind)
    except ValueError:
        raise errors.CompactionError(
            f"compaction {record.id} of {record.request.table} is of the unknown kind {record.request.kind!r} (there are "
            f"{', '.join(CompactionKind)}): a newer version or a manual change of the queue added it; request it again"
        ) from None


def _in_transaction(
    context: Context,
    record: Compaction,
    worker: str,
    kind: CompactionKind,
    txn: Transaction,
    writer: CompactionWriter,
) -> CompactionReport:
    name, partition_name = record.request.table, record.request.partition
    lock = LockType.EXCL_WRITE if kind is CompactionKind.REBALANCE else LockType.SHARED_READ
    txn.lock([LockComponent(lock, name.database, name.name, partition_name)])
    table = context.catalog.get_table(name)  # as of now: it may have a new column, which must not get lost
    if table is None:
        raise _RefusedError(f"Unable to find table {name}, assuming it was dropped and moving on.")
    partition = _partition(context, table, partition_name)
    write_ids = txn.valid_write_ids(name).compactor()
    try:
        context.store.start_compaction(record.id, txn.txn_id, write_ids.high_watermark, worker)
    except errors.TransactionStateError as error:  # the claim expired while the job waited for its lock
        raise errors.CompactionError(
            f"compaction {record.id} was given up: nothing was heard of its worker for hive.txn.timeout, or the table has another "
            "name now; run it again"
        ) from error
    partitions = None if partition is None else [partition]
    (location,) = list_locations(context.fs, table, partitions, write_ids, txn.snapshot())
    plan = _plan(context, table, kind, location, write_ids, txn, have_footers=writer.counts)
    before = measure_input(context, table, location, plan, count_rows=writer.counts)
    job = CompactionJob(context, record, table, location, plan, txn, before)
    job.note_phase("writing")
    if kind is CompactionKind.REBALANCE:
        # later changes refer to the new row ids, so the replaced directories cannot explain them
        _record_history_start(context, name, plan.high_watermark)
        # a concurrent update by the old row ids then fails at its commit with a write conflict
        txn.pending.add_written([Written(name, partition_name, Operation.UPDATE, 0)])
    directories, after = rewrite(job, writer)
    read = (*((plan.base,) if plan.base else ()), *plan.deltas, *plan.delete_deltas)
    return CompactionReport(
        record.id,
        plan.kind.value,
        partition_name,
        CompactionState.READY_FOR_CLEANING,
        read=tuple(directory.path for directory in read),
        written=directories,
        before=before,
        after=after,
    )


def _partition(context: Context, table: TableDefinition, name: str | None) -> Partition | None:
    if name is None and not table.partition_columns:
        return None
    partition = find_partition(context, table, name)
    if partition is None:
        reason = f"Unable to find partition {table.name}.{name}, assuming it was dropped and moving on."
        raise _RefusedError(reason)
    return partition


def _plan(
    context: Context,
    table: TableDefinition,
    kind: CompactionKind,
    location: Location,
    write_ids: ValidCompactorWriteIdList,
    txn: Transaction,
    *,
    have_footers: bool,
) -> CompactionPlan:
    """Return the inputs and the result of a job. ``have_footers``: the files have footers, which can be read."""
    level = context.layout_level(table)
    plan = plan_compaction(location.state, write_ids, kind, level, txn.txn_id)
    if kind is CompactionKind.MINOR and have_footers:
        footers = read_footers(context, table, [location], txn)
        if footers.has_acid_v1_events:  # only a major compaction can read them
            raise _RefusedError(str(errors.acid_v1(table.name)))
    if isinstance(plan, CompactionRefusal):
        raise _RefusedError(plan.reason, cleaning_needed=plan.cleaning_needed)
    if level is LayoutLevel.HIVE3 and not context.fs.renames_directories(location.root):
        raise errors.UnsupportedFeatureError(
            f"compaction of {table.name} at layout level hive3 needs a file system that renames directories in "
            "one step: readers could see half of the result. Use level hive4 (hiveacid.layout.level)"
        )
    return plan


def _record_history_start(context: Context, name: TableName, earliest: WriteId) -> None:
    """Record the start of a table's history under the cleaner's lock, so that neither overwrites the other's record."""
    for _ in range(_CLEANER_ATTEMPTS):
        with cleaner_lock(context, name) as held:
            if held:
                record_history_start(context, name, earliest, held)
                return
        context.clock.sleep(_CLEANER_PAUSE)
    raise errors.CompactionError(f"a cleaner or a backup is at work in {name}: compact it again later")
