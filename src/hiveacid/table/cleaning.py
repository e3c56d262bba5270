"""The cleaner: carries out what ``core.cleaning`` allows, for finished compactions and aborted write ids."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING

from hiveacid.config import keys
from hiveacid.core.cleaning import CleaningPlan, plan_cleaning, seen_by_all
from hiveacid.core.locks import LockComponent, LockState, LockType
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.names import PAIR_FILE, BaseName, is_hidden, is_layout
from hiveacid.core.snapshot import select
from hiveacid.errors import (
    CompactionError,
    HiveAcidError,
    MissingDirectoryError,
    StorageError,
    TransactionStateError,
)
from hiveacid.spark.lease import let_go
from hiveacid.storage.listing import (
    HISTORY_FROM,
    adopted_txn_id,
    list_adopted,
    read_metadata,
    visibility,
)
from hiveacid.storage.staging import abandoned, staging_txn_id
from hiveacid.table.flushed import forget
from hiveacid.table.layout import partition_name, partitions_on_disk
from hiveacid.table.read import partitions_of

if TYPE_CHECKING:
    from hiveacid.core.queue import Compaction
    from hiveacid.core.write_ids import ValidTxnList
    from hiveacid.ports import FileEntry
    from hiveacid.table.context import Context
    from hiveacid.table.report import CompactionReport

logger = logging.getLogger(__name__)

READY = "ready for cleaning"
NO_CLEANUP = "no_cleanup"
"""Property of a table, partition or database: nothing is removed there (``MetaStoreUtils.isNoCleanUpSet``)."""


def clean_after(
    context: Context, reports: Sequence[CompactionReport]
) -> Iterator[tuple[CompactionReport, tuple[str, ...]]]:
    """Clean what these jobs (and earlier ones) left, where nobody reads it any more."""
    if any(report.state == READY for report in reports):
        context.transactions.heartbeats.beat()
        let_go(context.facts, context.snapshots.sweep)
    for report in reports:
        yield report, tuple(clean_job(context, report.id)) if report.state == READY else ()


def clean(context: Context) -> list[str]:
    """Clean after every finished compaction and every aborted write; return what was removed.

    A job or a table that cannot be cleaned keeps nobody else from it: its error is raised in the end, the first one
    with the others as notes.
    """
    removed: list[str] = []
    errors: list[HiveAcidError] = []

    def attempt(what: str, work: Callable[[], list[str]]) -> None:
        try:
            removed.extend(work())
        except HiveAcidError as error:
            logger.warning("cleaning of %s: %s", what, error)
            errors.append(error)

    for job in _ready(context):
        attempt(f"{job.request.table} (compaction {job.id})", partial(clean_job, context, job.id))
    for database in context.catalog.list_databases():
        for one in context.catalog.list_tables(database):
            name = TableName(database, one)
            attempt(str(name), partial(clean_aborted, context, name))
    context.store.housekeep()
    forget(context)
    if errors:
        for other in errors[1:]:
            errors[0].add_note(str(other))
        raise errors[0]
    return removed


def cleaning_delay(context: Context) -> float:
    """Return for how many seconds after a compaction nothing is removed."""
    delayed = context.settings.get(keys.DELAYED_CLEANUP)
    return context.settings.get(keys.CLEANER_RETENTION) if delayed else 0.0


def _ready(context: Context) -> list[Compaction]:
    jobs = [job for job in context.store.show_compactions() if job.state == READY]
    return sorted(jobs, key=lambda job: (int(job.high_watermark or 0), job.id))


def clean_job(context: Context, job_id: int) -> list[str]:
    """Remove what a compaction replaced, if its readers are gone; return the paths.

    What somebody may still read keeps the job "ready for cleaning": a later turn does the rest.
    """
    if not context.store.upkeep_is_ours():
        return []
    # In this order: a compaction that commits after the first question is unsettled in the second.
    min_open = context.store.min_open_txn_id()
    ready = _ready(context)
    job = next((one for one in ready if one.id == job_id), None)
    if job is None or job.next_txn_id is None or job.next_txn_id > min_open:
        return []
    delay = cleaning_delay(context)
    if delay and (job.commit_time or 0) > context.store.now() - 1000 * delay:
        return []
    with _held(context, job.request.table) as held:
        return _clean_after_job(context, job, min_open) if held else []


@contextmanager
def _held(context: Context, name: TableName) -> Iterator[bool]:
    """Keep DROP and ALTER from a table while its files are looked at and removed; False: somebody has it now.

    A table that is made anew under the name of a dropped one has directories of the same names.
    """
    with context.transactions.scope(context.settings) as txn:
        lock = LockComponent(LockType.SHARED_READ, name.database, name.name)
        answer = context.store.lock(txn.txn_id, [lock], zero_wait=True)
        yield answer.state is LockState.ACQUIRED


def _clean_after_job(context: Context, job: Compaction, min_open: TxnId) -> list[str]:
    ready = _ready(context)
    if job.id not in {one.id for one in ready}:  # dropped with its table, or cleaned by somebody else
        return []
    table = context.catalog.get_table(job.request.table)
    found = _place(context, table, job.request.partition) if table is not None else None
    if table is None or found is None:
        _succeed(context, job, "the table or partition is gone")
        return []
    root, partition = found
    if must_not_clean(context, table, partition):
        return []
    unsettled = _unsettled(ready, min_open)
    try:
        plan = _plan(context, table, root, job.high_watermark, min_open, unsettled)
        removed = _carry_out(context, table, root, plan)
    except MissingDirectoryError:
        removed, plan = [], None
    if plan is None or not plan.postponed:
        _succeed(context, job)
    return removed


def _unsettled(ready: Iterable[Compaction], min_open: TxnId) -> set[TxnId]:
    """Return the transactions of compactions that somebody who is still there may not see."""
    return {one.txn_id for one in ready if one.txn_id and (one.next_txn_id or 0) > min_open}


def _succeed(context: Context, job: Compaction, note: str | None = None) -> None:
    """End a job; another cleaner may have been there, too."""
    with suppress(TransactionStateError, CompactionError):
        context.store.end_compaction(job.id, "succeeded", note)


def must_not_clean(context: Context, table: TableDefinition, partition: Partition | None) -> bool:
    """Tell whether ``no_cleanup`` is set on a partition, its table or its database."""
    database = context.catalog.get_database(table.name.database)
    groups = (
        () if database is None else database.properties,
        table.properties,
        () if partition is None else partition.properties,
    )
    set_ones = [text for some in groups for key, text in some if key.lower() == NO_CLEANUP]
    return any(text.strip().lower() == "true" for text in set_ones)


def _place(
    context: Context, table: TableDefinition, partition: str | None
) -> tuple[str, Partition | None] | None:
    if partition is None:
        return table.location, None
    for known in partitions_of(context, table) or ():
        if partition_name(table, known.values) == partition:
            return known.location, known
    return None


def _plan(
    context: Context,
    table: TableDefinition,
    root: str,
    high_watermark: WriteId | None,
    min_open: TxnId,
    unsettled: Iterable[TxnId] = (),
    *,
    aborted_only: bool = False,
) -> CleaningPlan:
    # the listing comes before the snapshot: what a writer publishes in between is not in it
    entries = list_adopted(context.fs, table, root)
    txns = context.store.valid_txns()
    write_ids = context.store.valid_write_ids(txns, [table.name])[table.name]
    top = write_ids.high_watermark if high_watermark is None else high_watermark
    return plan_cleaning(
        entries,
        write_ids,
        txns,
        read_metadata(context.fs, root, entries),
        high_watermark=top,
        min_open_txn_id=min_open,
        unsettled=frozenset(unsettled),
        adopted_txn_id=adopted_txn_id(table),
        aborted_only=aborted_only,
        dead_halves=_dead_halves(context, root, entries),
    )


def _dead_halves(context: Context, root: str, entries: Sequence[FileEntry]) -> list[str]:
    """Find marked halves of compactions that ended without the other half; ``core.snapshot`` reads none of them."""
    marked = {path.rpartition("/")[0]: path for path in (e.path for e in entries) if path.endswith(PAIR_FILE)}
    marked = {directory: path for directory, path in marked.items() if "/" not in directory}
    dead = []
    for directory, path in marked.items():
        kind, _, span = directory.rpartition("delta_")
        if f"{'' if kind else 'delete_'}delta_{span}" in marked:
            continue
        try:
            txn_id = TxnId(int(context.fs.read_bytes(f"{root}/{path}")))
        except (ValueError, StorageError):
            continue
        if context.store.txn_state(txn_id) != "open":
            dead.append(directory)
    return dead


def _carry_out(context: Context, table: TableDefinition, root: str, plan: CleaningPlan) -> list[str]:
    removed = []
    if plan.history_from is not None:
        _note_history(context, table.name, plan.history_from)
    for deletion in plan.deletions:
        path = f"{root}/{deletion.path}"
        context.fs.delete_tree(path)
        logger.info("removed %s (%s)", path, deletion.reason)
        removed.append(path)
    unexplained = [path for path in plan.unexplained if staging_txn_id(path) is None]
    if unexplained and not table.partition_columns:
        logger.info("left alone in %s, not of the ACID layout: %s", root, ", ".join(unexplained))
    return removed


def _note_history(context: Context, name: TableName, earliest: WriteId) -> None:
    """Remember, before anything is deleted, from which write id on the table's history is whole.

    ALTER TABLE waits for the lock of the cleaner: neither undoes the other's change of the definition.
    """
    table = context.catalog.get_table(name)
    if table is None or int(table.property(HISTORY_FROM) or 0) >= earliest:
        return
    context.catalog.alter_table(name, table.with_properties({HISTORY_FROM: str(int(earliest))}))


def clean_aborted(context: Context, name: TableName) -> list[str]:
    """Remove directories of aborted writes and compactions, and staging leftovers of transactions that ended.

    An aborted write id is forgotten only when a base above it lies in every partition: a writer that was
    paused past its time-out and publishes late can then still not be seen.
    """
    min_open = context.store.min_open_txn_id()
    with _held(context, name) as held:
        return _clean_aborted_of(context, name, min_open) if held else []


def _clean_aborted_of(context: Context, name: TableName, min_open: TxnId) -> list[str]:
    table = context.catalog.get_table(name)
    if table is None or must_not_clean(context, table, None):
        return []
    partitions = partitions_of(context, table)
    known = [table.location] if partitions is None else [p.location for p in partitions]
    removed, compacted = _clean_staging(context, table, known)
    if table.kind is TableKind.PLAIN:
        return removed
    if not context.store.aborted_write_ids(name):
        for root in compacted:
            removed += _clean_aborted_at(context, table, root, min_open)[0]
        return removed
    # a writer that died before its commit left its new partitions to nobody
    found = [partition.location for partition in partitions_on_disk(context, table)]
    unsettled = _unsettled(_ready(context), min_open)
    reach: list[int] = []
    for root in dict.fromkeys((*known, *found)):
        try:
            gone, forgettable = _clean_aborted_at(context, table, root, min_open)
            removed += gone
            reach.append(forgettable)
            if root in known:
                seen = seen_by_all(context.store.valid_txns(), min_open, unsettled)
                reach.append(_base_write_id(context, table, root, seen))
        except MissingDirectoryError:
            continue
    if reach and min(reach) > 0:
        context.store.forget_aborted(name, None, WriteId(min(reach)))
    return removed


def _clean_aborted_at(
    context: Context, table: TableDefinition, root: str, min_open: TxnId
) -> tuple[list[str], int]:
    plan = _plan(context, table, root, None, min_open, aborted_only=True)
    return _carry_out(context, table, root, plan), int(plan.forget_aborted_up_to)


def _base_write_id(context: Context, table: TableDefinition, root: str, txns: ValidTxnList) -> int:
    entries = list_adopted(context.fs, table, root)
    write_ids = context.store.valid_write_ids(txns, [table.name])[table.name]
    metadata = read_metadata(context.fs, root, entries)
    base = select(entries, write_ids, txns, metadata, adopted_txn_id=adopted_txn_id(table)).base
    return int(base.name.write_id) if base is not None and isinstance(base.name, BaseName) else 0


def _clean_staging(
    context: Context, table: TableDefinition, locations: Iterable[str]
) -> tuple[list[str], list[str]]:
    """Remove what writers and compactions that ended left in hidden directories.

    Below the table, and in partitions that lie elsewhere. Also returns the locations that hold directories of
    compactions that were aborted, or marked halves of one (most are whole).
    """
    inside = table.location.rstrip("/") + "/"
    elsewhere = [root for root in locations if not f"{root}/".startswith(inside)]
    removed: list[str] = []
    compacted: dict[str, None] = {}
    for root in (table.location, *elsewhere):
        try:
            entries = context.fs.list_tree(root)
        except HiveAcidError:
            continue
        for path in abandoned(entries, lambda txn_id: context.store.txn_state(txn_id) == "open"):
            context.fs.delete_tree(f"{root}/{path}")
            removed.append(f"{root}/{path}")
        txns, adopted = context.store.valid_txns(), adopted_txn_id(table)
        for entry in entries:
            above, _, last = entry.path.rpartition("/")
            if entry.is_dir:
                txn_id = visibility(last) if is_layout(last) else 0
                dead = txn_id > adopted and txns.is_aborted(txn_id)
            else:
                dead, above = last == PAIR_FILE, above.rpartition("/")[0]
            if dead and not is_hidden(above.rpartition("/")[2]):
                compacted[f"{root}/{above}".rstrip("/")] = None
    return removed, [root for root in compacted if root in {*locations, table.location}]
