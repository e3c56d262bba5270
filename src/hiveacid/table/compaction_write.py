"""The files of a compaction: rows and delete events written together, put in place in one step where there is one.

The result is made ready below the location, in a hidden directory, and then renamed: nobody sees half of it.
With the ``_v`` suffix nobody believes it before the commit either, so that where renaming is not one step (object
stores) its files are written straight to their final names. At layout level hive3, which knows no
suffix, a reader may take it from the moment of the renaming, and may: it holds the same rows. What consists of
two directories is marked there, so that one without the other is passed over (``names.PAIR_FILE``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.compaction import CompactionKind, CompactionPlan
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.names import ACID_VERSION_FILE, METADATA_FILE, PAIR_FILE, LayoutLevel
from hiveacid.core.snapshot import AcidDirectory, AcidState
from hiveacid.orc.tail import read_tail
from hiveacid.spark.failures import translated
from hiveacid.spark.publish import (
    Published,
    StagedFile,
    footers_count,
    publish_acid,
    publish_flat,
    staged_files,
)
from hiveacid.spark.rebalance import bucket_count, renumbered, stage_runs
from hiveacid.spark.scan import Source, scan_deletes
from hiveacid.spark.write import Kind, Target, stage_empty, stage_events, stage_flat, stage_kept
from hiveacid.storage.staging import staging_name
from hiveacid.table.in_order import stage_in_order
from hiveacid.table.read import frame_of
from hiveacid.table.report import Amount
from hiveacid.table.survey import survey

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.core.listing import DataFile
    from hiveacid.core.queue import CompactionRequest
    from hiveacid.storage.listing import Location
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction


_ONLY_ONE = "c0"
"""A compaction's transaction has one staging directory."""
_THREADS = 16
_STAGED = "-staged"
"""What Spark's own directory is called, beside the one that becomes the result."""


@dataclass(frozen=True)
class Rewrite:
    """What to write: a plan for a location of a table, in a transaction."""

    context: Context
    table: TableDefinition
    location: Location
    plan: CompactionPlan
    txn: Transaction
    request: CompactionRequest
    level: LayoutLevel

    @property
    def scratch(self) -> str:
        """Return the hidden directory of the job, below the location."""
        return f"{self.location.root}/{staging_name(self.txn.txn_id, _ONLY_ONE)}"

    def staging(self, output: str) -> str:
        """Return where Spark writes what goes to ``output``."""
        return f"{self.scratch}/{output.rpartition('/')[2]}{_STAGED}"

    @property
    def target(self) -> Target:
        """Return where Spark writes to."""
        codec = self.context.codec(self.table)
        return Target(self.context.facts, self.table, self.plan.high_watermark, {}, codec)


@dataclass(frozen=True)
class Writing:
    """How rows, and delete events, get into their directories (absolute paths).

    ``counts``: the files are ORC files, whose footers tell how many rows they hold, and of which layout they are.
    """

    rows: Callable[[Rewrite, str], Published]
    events: Callable[[Rewrite, str], Published]
    counts: bool = True


@dataclass(frozen=True)
class Rewritten:
    """The directories that were put in place (absolute), and what they hold."""

    directories: tuple[str, ...]
    amount: Amount


def amount_before(
    context: Context, table: TableDefinition, location: Location, plan: CompactionPlan, *, counted: bool
) -> Amount:
    """Sum up what a plan reads; rows are counted by the files' footers, if ``counted``."""
    inserts = [*((plan.base,) if plan.base else ()), *plan.deltas]
    data = [*_files(inserts), *plan.originals]
    events = _files(plan.delete_deltas)
    rows = deletes = None
    if counted and footers_count(table):
        rows, deletes = (_rows(context, location.root, files) for files in (data, events))
    return Amount(
        len(inserts) + len(plan.delete_deltas),
        len(data) + len(events),
        sum(file.size for file in (*data, *events)),
        rows,
        deletes,
    )


def _files(directories: Iterable[AcidDirectory]) -> list[DataFile]:
    return [file for directory in directories for file in directory.files]


def _rows(context: Context, root: str, files: Sequence[DataFile]) -> int:
    def count(file: DataFile) -> int:
        return read_tail(context.fs, f"{root}/{file.path}", file.size).number_of_rows

    with ThreadPoolExecutor(_THREADS) as pool:
        return sum(pool.map(count, files))


def by_spark() -> Writing:
    """Return the way in which compactions write, unless a simulation has another one."""
    return Writing(_write_rows, _write_events)


def rewrite(job: Rewrite, writing: Writing, publishing: Callable[[], None]) -> Rewritten:
    """Write the result of a plan and put it in place; ``publishing`` is called in between."""
    fs, root, plan = job.context.fs, job.location.root, job.plan
    scratch = job.scratch
    # where renaming is not one step it protects from nothing: the suffix does, and each file is written once
    direct = not fs.renames_directories(root)
    place = root if direct else scratch
    if direct:
        job.txn.on_abort(lambda: _remove(job, [name for name in (plan.output, plan.delete_output) if name]))
    try:
        made: dict[str, Published] = {}
        if plan.output:
            made[plan.output] = writing.rows(job, f"{place}/{plan.output}")
        if plan.delete_output:
            made[plan.delete_output] = writing.events(job, f"{place}/{plan.delete_output}")
        publishing()
        if direct:
            job.txn.heartbeats.check(job.txn.txn_id)
        else:
            _put_in_place(job, scratch, list(made))
    finally:
        fs.delete_tree(scratch)
    rows = sum(one.total(Kind.INSERTED) for one in made.values())
    events = sum(one.total(Kind.DELETE) for one in made.values())
    counted = writing.counts and footers_count(job.table)
    return Rewritten(
        tuple(f"{root}/{name}" for name in made),
        Amount(
            len(made),
            sum(one.files for one in made.values()),
            sum(one.bytes for one in made.values()),
            rows if counted else None,
            events if counted else None,
        ),
    )


def _put_in_place(job: Rewrite, scratch: str, names: Sequence[str]) -> None:
    fs, root = job.context.fs, job.location.root
    moved: list[str] = []

    def undo() -> None:
        # without suffix the whole result may have readers by now, and it is right whether it commits or not
        if job.level is LayoutLevel.HIVE4 or len(moved) < len(names):
            _remove(job, names)

    if job.level is LayoutLevel.HIVE3 and len(names) > 1:
        for name in names:
            fs.write_bytes(f"{scratch}/{name}/{PAIR_FILE}", str(int(job.txn.txn_id)).encode())
    job.txn.heartbeats.check(job.txn.txn_id)
    job.txn.on_abort(undo)
    for name in names:
        fs.move_directory(f"{scratch}/{name}", f"{root}/{name}")
        moved.append(name)


def _remove(job: Rewrite, names: Iterable[str]) -> None:
    for name in names:
        job.context.fs.delete_tree(f"{job.location.root}/{name}")


def _at_rest(context: Context) -> Context:
    """Return a context that moves no wall clock: a session's time zone may skip an hour that values lie in."""
    return replace(context, facts=replace(context.facts, shown_as_stored=True))


def _write_rows(job: Rewrite, output: str) -> Published:
    job = replace(job, context=_at_rest(job.context))
    plan, table, directory = job.plan, job.table, job.staging(output)
    applied = plan.delete_deltas if plan.kind is not CompactionKind.MINOR else ()
    location = replace(job.location, state=AcidState(plan.base, plan.deltas, applied, plan.originals))
    full_acid = table.kind is TableKind.FULL_ACID
    with translated():
        files = None
        if full_acid and plan.kind is not CompactionKind.REBALANCE:
            found = survey(job.context, table, [location], job.txn)
            ordered = f"{directory}-in-order"
            files = stage_in_order(job.context, job.target, location, plan.write_ids, found, ordered)
        if files is None:
            files = _sorted(job, location, directory)
    published = _publish(job, files, f"{directory}-none", output, Kind.INSERTED)
    if plan.metadata:
        job.context.fs.write_bytes(f"{output}/{METADATA_FILE}", plan.metadata.encode())
    return published


def _sorted(job: Rewrite, location: Location, directory: str) -> list[StagedFile]:
    """Stage all rows by a shuffle: sorted, or spread anew, or in any order where rows have no ids."""
    plan, full_acid = job.plan, job.table.kind is TableKind.FULL_ACID
    frame = frame_of(job.context, job.table, [location], plan.write_ids, job.txn, current=full_acid)
    if plan.kind is CompactionKind.REBALANCE:
        frame = _rebalanced(job, frame, f"{directory}-runs")
    if full_acid:
        stage_kept(job.target, frame, directory)
    else:
        stage_flat(job.target, frame, directory, [], [], small=False)
    return staged_files(job.context.fs, directory, Kind.INSERTED)


def _rebalanced(job: Rewrite, frame: DataFrame, directory: str) -> DataFrame:
    context, request = job.context, job.request
    runs = stage_runs(context.facts, context.fs, job.table, frame, directory, request.order_by)
    size = sum(entry.size for entry in context.fs.list_tree(directory))
    buckets = bucket_count(request.buckets, size, context.settings.get(keys.TARGET_FILE_SIZE))
    return renumbered(
        context.facts, context.fs, job.table, runs, buckets, reordered=request.order_by is not None
    )


def _write_events(job: Rewrite, output: str) -> Published:
    job.context.facts.require_plain_names()
    directory = job.staging(output)
    state = AcidState(None, (), job.plan.delete_deltas, ())
    location = replace(job.location, state=state)
    found = survey(job.context, job.table, [location], job.txn)
    source = Source(job.context.facts, job.context.fs, job.table, job.plan.write_ids, found.files)
    with translated():
        stage_events(job.target, scan_deletes(source, [location]), directory)
    files = staged_files(job.context.fs, directory, Kind.DELETE)
    return _publish(job, files, f"{directory}-none", output, Kind.DELETE)


def _publish(job: Rewrite, files: Sequence[StagedFile], empty: str, output: str, kind: Kind) -> Published:
    """Move staged files into the result; ``empty``: where to stage a file if there are none."""
    fs, table = job.context.fs, job.table
    if table.kind is TableKind.INSERT_ONLY:
        fs.make_directory(output)
        return publish_flat(fs, table, files, lambda *_: output, lambda number, _: f"{number:06d}_0")
    published = publish_acid(fs, table, files, lambda *_: output)
    if published.directories:
        return published
    if kind is Kind.DELETE:
        fs.write_bytes(f"{output}/{ACID_VERSION_FILE}", b"2")
        return published
    stage_empty(job.target, empty)
    return publish_acid(fs, table, staged_files(fs, empty, kind), lambda *_: output, keep_empty=True)
