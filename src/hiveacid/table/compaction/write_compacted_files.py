"""Files of a compaction: rows and delete events, written and then published in one step where possible.

The result is written to a hidden directory below the location and then renamed, so no reader sees half of it. With the
``_v`` suffix readers ignore it before the commit. On object stores, which cannot rename a directory in one step, files
are therefore written straight to their final names. Layout level hive3 has no suffix: readers may use the result from
the moment of the renaming, and it holds the same rows. A result of two directories is marked there, so that readers
ignore one without the other (``names.PAIR_FILE``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Protocol

from pyspark.sql import DataFrame

from hiveacid.config import setting_definitions
from hiveacid.core.compaction.plan import CompactionKind, CompactionPlan
from hiveacid.core.compaction.queue_records import Compaction, sort_columns
from hiveacid.core.format.names import METADATA_FILE, PAIR_FILE, LayoutLevel
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.file_records import NewDirectory
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState
from hiveacid.errors import StorageError
from hiveacid.orc.tail import read_tail
from hiveacid.ports.store import own_store
from hiveacid.spark.read.delete_joins import scan_deletes
from hiveacid.spark.read.scan_source import ScanSource
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write import sort_and_stage
from hiveacid.spark.write.rebalance_compaction import bucket_count, renumber_rows, stage_runs
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, TaskReport, list_staged_files
from hiveacid.storage.snapshot_locations import Location, map_in_threads
from hiveacid.storage.staging import delete_staging, mark_directory, staging_name
from hiveacid.table.cleaning.remove_files import remove_aborted
from hiveacid.table.codec_and_writer_options import writer_options
from hiveacid.table.compaction.stage_without_shuffle import (
    stage_events_in_driver,
    stage_in_order,
    stage_rows_in_driver,
)
from hiveacid.table.context import Context
from hiveacid.table.read.flush_length_files import readable_length
from hiveacid.table.read.footers import read_footers
from hiveacid.table.read.table_snapshot import scan_locations
from hiveacid.table.write import publish
from hiveacid.table.write.arrow_staging import StagedOutput, stage_empty
from hiveacid.transactions.transaction import Transaction

_ONLY_ONE = "c0"
"""Staging name: a compaction's transaction has only one staging directory."""
_STAGED = "-staged"
"""Suffix of the staging directory of rows or events, beside the directory that becomes the result."""


@dataclass(frozen=True)
class DataVolume:
    """Contents of some directories; ``rows`` and ``deletes`` (delete events) are None if footers have no counts."""

    directories: int = 0
    files: int = 0
    bytes: int = 0
    rows: int | None = None
    deletes: int | None = None


@dataclass(frozen=True)
class CompactionJob:
    """A claimed job of the queue, in its transaction: the location that it compacts, and the plan of the result.

    ``before``: contents of the directories that the plan reads.
    """

    context: Context
    record: Compaction
    table: TableDefinition
    location: Location
    plan: CompactionPlan
    txn: Transaction
    before: DataVolume

    @property
    def level(self) -> LayoutLevel:
        """Return the layout level of the table."""
        return self.context.layout_level(self.table)

    @property
    def scratch(self) -> str:
        """Return the hidden directory of the job, below the location."""
        return f"{self.location.root}/{staging_name(self.txn.txn_id, _ONLY_ONE)}"

    def staging(self, output: str) -> str:
        """Return the directory in which the rows or events of ``output`` are staged."""
        return f"{self.scratch}/{output.rpartition('/')[2]}{_STAGED}"

    @property
    def target(self) -> sort_and_stage.StagingTarget:
        """Return the target of staged rows and events."""
        options = writer_options(self.table, self.context.settings)
        return sort_and_stage.StagingTarget(
            self.context.env, self.table, self.plan.high_watermark, {}, options
        )

    def note_phase(self, phase: str) -> None:
        """Record in the queue what the job does now."""
        details = {"phase": phase, "before": asdict(self.before)}
        self.context.store.note_compaction(self.record.id, json.dumps(details))


class CompactionWriter(Protocol):
    """Writer of the rows and delete events of a result into their directories (absolute paths)."""

    @property
    def counts(self) -> bool:
        """Tell whether the files are real ORC files, whose footers can be read (False in a simulation)."""

    def rows(self, job: CompactionJob, output: str) -> publish.PublishedFiles:
        """Write the rows."""

    def events(self, job: CompactionJob, output: str) -> publish.PublishedFiles:
        """Write the delete events."""


def measure_input(
    context: Context, table: TableDefinition, location: Location, plan: CompactionPlan, *, count_rows: bool
) -> DataVolume:
    """Sum up the input of a plan; ``count_rows``: also count rows, by the files' footers."""
    inserts = [*((plan.base,) if plan.base else ()), *plan.deltas]
    data = [*_files(inserts), *plan.originals]
    events = _files(plan.delete_deltas)
    rows = deletes = None
    if count_rows and publish.reads_footers(table):
        rows, deletes = (_count_rows(context, location.root, files) for files in (data, events))
    return DataVolume(
        len(inserts) + len(plan.delete_deltas),
        len(data) + len(events),
        sum(file.size for file in (*data, *events)),
        rows,
        deletes,
    )


def _files(directories: Iterable[AcidDirectory]) -> list[DataFile]:
    return [file for directory in directories for file in directory.files]


def _count_rows(context: Context, root: str, files: Sequence[DataFile]) -> int:
    def count(file: DataFile) -> int:
        path = f"{root}/{file.path}"  # a writer that was killed left more than it flushed
        return read_tail(context.fs, path, readable_length(context.fs, path, file)).number_of_rows

    return sum(map_in_threads(count, files, root))


def rewrite(job: CompactionJob, writer: CompactionWriter) -> tuple[tuple[str, ...], DataVolume]:
    """Write the result of a plan and move it to its final place.

    Returns the new directories (absolute paths) and what they hold. Raises StorageError if the numbers of rows do not fit
    the input (`require_balance`).
    """
    fs, root, plan = job.context.fs, job.location.root, job.plan
    scratch = job.scratch
    # renaming protects readers only if it is one step; otherwise the suffix does, and each file is written once
    direct = not fs.renames_directories(root)
    directory = root if direct else scratch
    if direct:
        job.txn.published = True
        job.txn.pending.on_abort.append(
            lambda: _remove(job, [name for name in (plan.output, plan.delete_output) if name])
        )
    try:
        outputs: dict[str, publish.PublishedFiles] = {}
        if plan.output:
            outputs[plan.output] = writer.rows(job, f"{directory}/{plan.output}")
        if plan.delete_output:
            outputs[plan.delete_output] = writer.events(job, f"{directory}/{plan.delete_output}")
        require_balance(job, outputs.values())
        job.note_phase("publishing")
        if direct:
            job.txn.heartbeats.check(job.txn.txn_id)
        else:
            _put_in_place(job, scratch, list(outputs))
    finally:
        delete_staging(fs, scratch)
    if job.level is LayoutLevel.HIVE4:  # at hive3 the table has lost its mark
        now = job.context.clock.now()
        values = () if job.location.partition is None else job.location.partition.values
        made = {
            f"{root}/{name}": NewDirectory(values, published.record(f"{directory}/{name}", now))
            for name, published in outputs.items()
        }
        job.txn.pending.add_records(job.table.name, made)
    rows = sum(published.total(StagedKind.INSERTED) for published in outputs.values())
    events = sum(published.total(StagedKind.DELETE) for published in outputs.values())
    count_rows = writer.counts and publish.reads_footers(job.table)
    output_volume = DataVolume(
        len(outputs),
        sum(published.files for published in outputs.values()),
        sum(published.bytes for published in outputs.values()),
        rows if count_rows else None,
        events if count_rows else None,
    )
    return tuple(f"{root}/{name}" for name in outputs), output_volume


def require_balance(job: CompactionJob, made: Iterable[publish.PublishedFiles]) -> None:
    """Compare the rows read, the delete events applied and the rows written, and the events of a minor compaction.

    Usually each event deletes one row. Numbers may differ where deltas hold rows or events of aborted transactions, a
    row was deleted twice, or two rows have one row id: then, and only then, a query counts them.
    """
    before = job.before
    if before.rows is None or before.deletes is None:
        return
    made = list(made)
    rows, events = (
        sum(published.total(kind) for published in made) for kind in (StagedKind.INSERTED, StagedKind.DELETE)
    )
    applied = before.deletes if job.plan.applied_deletes else 0
    if job.plan.output and rows != before.rows - applied and rows != (live := _live_rows(job)):
        raise _unbalanced(
            job,
            f"{before.rows} rows and {applied} delete events to apply were read, {rows} rows were written, and a query "
            f"finds {live}",
        )
    if (
        job.plan.delete_output
        and events != before.deletes
        and events != (valid := _valid_delete_events(job).count())
    ):
        raise _unbalanced(
            job,
            f"{before.deletes} delete events were read, {events} were written, and a query finds {valid} of committed "
            "transactions",
        )


def _unbalanced(job: CompactionJob, message: str) -> StorageError:
    return StorageError(
        f"compaction of {job.location.root}: {message}; nothing was committed. Likely cause: executors that read or write "
        "other files under this path than the driver does, or a file that was changed meanwhile"
    )


def _live_rows(job: CompactionJob) -> int:
    job = replace(job, context=_without_time_zone(job.context, job.table))
    return scan_locations(job.context, job.table, [_input_location(job)], job.plan.write_ids, job.txn).count()


def _put_in_place(job: CompactionJob, scratch: str, names: Sequence[str]) -> None:
    fs, root = job.context.fs, job.location.root
    moved_names: list[str] = []
    if job.level is LayoutLevel.HIVE3 and len(names) > 1:
        for name in names:
            fs.write_bytes(f"{scratch}/{name}/{PAIR_FILE}", _mark(job))
    if job.level is LayoutLevel.HIVE3 and job.context.store.maintained_by_hiveacid():
        # The result counts without this commit, so the cleaner may delete what the records have
        own_store(job.context.store).end_records(job.table.name, job.txn.txn_id)
    job.txn.published = True
    job.txn.pending.on_abort.append(partial(_undo, job, moved_names, names))
    for name in names:
        # without its lock, the table may have been dropped and created again, and would show these rows
        job.txn.require_open_in_store()
        fs.move_directory(f"{scratch}/{name}", f"{root}/{name}")
        moved_names.append(name)


def _undo(job: CompactionJob, moved_names: Sequence[str], names: Sequence[str]) -> None:
    """Remove what `_put_in_place` has moved, after an abort."""
    if job.level is LayoutLevel.HIVE4:
        _remove(job, moved_names)
    # without suffix a complete result may have readers by now, and it is correct even without the commit
    elif len(moved_names) < len(names):
        # Another worker, which took the job over, may have made the other half; and this one, once the cleaner had
        # deleted ours.
        _remove(job, [name for name in moved_names if _is_own_half(job, name)])


def _is_own_half(job: CompactionJob, name: str) -> bool:
    """Tell by its mark whether a directory is this job's half of a result at layout level hive3."""
    try:
        return job.context.fs.read_bytes(f"{job.location.root}/{name}/{PAIR_FILE}") == _mark(job)
    except StorageError:  # it is gone
        return False


def _mark(job: CompactionJob) -> bytes:
    return str(int(job.txn.txn_id)).encode()


def _remove(job: CompactionJob, names: Iterable[str]) -> None:
    remove_aborted(job.context, job.table, [f"{job.location.root}/{name}" for name in names])


def _without_time_zone(context: Context, table: TableDefinition) -> Context:
    """Return a context that does not convert timestamps, as the session's time zone may skip an hour that they use.

    Text files hold no instants: Spark parses their timestamps, and hashes them, in the zone of a session, here one in UTC.
    """
    if file_kind(table.storage) is FileKind.TEXTFILE:
        in_utc = context.env.with_settings({"spark.sql.session.timeZone": "UTC"})
        return replace(context, env=in_utc)
    env = replace(context.env, copies_timestamps=True, files_in_driver_zone=not publish.reads_footers(table))
    return replace(context, env=env)


class FileWriter:
    """Writer of ORC files, with Spark or by Arrow in the driver."""

    counts = True

    def rows(self, job: CompactionJob, output: str) -> publish.PublishedFiles:
        """Write the rows: without a shuffle if that is possible."""
        job = replace(job, context=_without_time_zone(job.context, job.table))
        plan, table, directory = job.plan, job.table, job.staging(output)
        location = _input_location(job)
        full_acid = table.kind is TableKind.FULL_ACID
        with translate_errors():
            staged = None
            if full_acid and plan.kind is not CompactionKind.REBALANCE:
                staged = _stage_without_shuffle(job, location, directory)
            if staged is None:
                staged = _stage_by_shuffle(job, location, directory)
        published = _publish(job, *staged, output, StagedKind.INSERTED)
        if plan.metadata:
            job.context.fs.write_bytes(f"{output}/{METADATA_FILE}", plan.metadata.encode())
        return published

    def events(self, job: CompactionJob, output: str) -> publish.PublishedFiles:
        """Write the delete events."""
        job.context.env.require_plain_names()
        directory = job.staging(output)
        kind, location, write_ids = StagedKind.DELETE, _event_location(job), job.plan.write_ids
        staged = stage_events_in_driver(job.context, job.target, location, write_ids, directory)
        if staged is None:
            with translate_errors():
                reported = sort_and_stage.stage_delete_events(
                    job.target, _valid_delete_events(job), directory
                )
            staged = list_staged_files(job.context.fs, directory, kind, reported), reported
        return _publish(job, *staged, output, kind)


def _stage_without_shuffle(job: CompactionJob, location: Location, directory: str) -> StagedOutput | None:
    """Stage rows in the driver, or large files in key order without a shuffle; None if a job has to sort all rows."""
    write_ids = job.plan.write_ids
    staged = stage_rows_in_driver(job.context, job.target, location, write_ids, directory)
    if staged is not None:
        return staged
    footers = read_footers(job.context, job.table, [location], job.txn)
    return stage_in_order(job.context, job.target, location, write_ids, footers, f"{directory}-in-order")


def _input_location(job: CompactionJob) -> Location:
    """Return the location with the directories and delete events that the rows of the result come from."""
    plan = job.plan
    state = AcidState(plan.base, plan.deltas, plan.applied_deletes, plan.originals)
    return replace(job.location, state=state)


def _stage_by_shuffle(job: CompactionJob, location: Location, directory: str) -> StagedOutput:
    """Stage all rows by a shuffle: sorted, rebalanced, or in any order if rows have no ids."""
    plan, full_acid = job.plan, job.table.kind is TableKind.FULL_ACID
    frame = scan_locations(job.context, job.table, [location], plan.write_ids, job.txn, current=full_acid)
    if plan.kind is CompactionKind.REBALANCE:
        frame = _rebalanced(job, frame, f"{directory}-runs")
    if full_acid:
        reported = sort_and_stage.stage_rows_with_ids(job.target, frame, directory)
    else:
        reported = sort_and_stage.stage_flat(job.target, frame, directory, [], [], small=False)
    return list_staged_files(job.context.fs, directory, StagedKind.INSERTED, reported), reported


def _rebalanced(job: CompactionJob, frame: DataFrame, directory: str) -> DataFrame:
    context, request = job.context, job.record.request
    order = sort_columns(request.order_by, [column.name for column in job.table.columns])
    runs = stage_runs(context.env, context.fs, job.table, frame, directory, order)
    size = sum(entry.size for entry in context.fs.list_tree(directory))
    fixed_buckets = request.buckets or (1 if context.single_bucket(job.table) else None)
    buckets = bucket_count(fixed_buckets, size, context.settings.get(setting_definitions.TARGET_FILE_SIZE))
    return renumber_rows(context.env, job.table, runs, buckets, reordered=bool(order))


def _event_location(job: CompactionJob) -> Location:
    """Return the location with the delete events only."""
    return replace(job.location, state=AcidState(None, (), job.plan.delete_deltas, ()))


def _valid_delete_events(job: CompactionJob) -> DataFrame:
    """Return the delete events of a minor compaction that committed transactions wrote."""
    location = _event_location(job)
    footers = read_footers(job.context, job.table, [location], job.txn)
    source = ScanSource(job.context.env, job.context.fs, job.table, job.plan.write_ids, footers.plans)
    return scan_deletes(source, [location])


def _publish(
    job: CompactionJob, files: Sequence[StagedFile], reported: TaskReport, output: str, kind: StagedKind
) -> publish.PublishedFiles:
    """Move staged files into the result. Without rows, a file without rows becomes the result."""
    fs, table, check = job.context.fs, job.table, job.txn.open_check()
    insert_only, staging = table.kind is TableKind.INSERT_ONLY, job.staging(output)
    if insert_only:
        check()
        fs.make_directory(output)
    publish_staged = partial(publish.publish_transactional, fs, table)
    published = publish_staged(files, lambda *_: output, reported, staging, check)
    if published.directories or insert_only:
        return published
    if kind is StagedKind.DELETE:
        check()
        mark_directory(fs, output, staging)
        return published
    files, reported = stage_empty(fs, job.target, f"{staging}-none")
    return publish_staged(files, lambda *_: output, reported, staging, check, keep_empty=True)
