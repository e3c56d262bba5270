"""The cleaner: removes the sources of finished compactions and the files of aborted write ids.

``core.compaction.cleaning_plan`` decides what may be removed.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial

from hiveacid.core.compaction.cleaning_plan import CleaningPlan, seen_by_all
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import PAIR_FILE, BaseName, ends_below, layout_name, may_be_compacted
from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import LAST_ID, Partition, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.snapshot.selection import select
from hiveacid.core.transactions.states import UNDER_WAY, CompactionState, TransactionState
from hiveacid.errors import (
    CompactionError,
    HiveAcidError,
    MissingDirectoryError,
    TransactionStateError,
    UnsupportedFeatureError,
)
from hiveacid.ports.store import own_store
from hiveacid.spark.session.running_jobs_and_plans import release_unused_plans
from hiveacid.storage.paths import real_path
from hiveacid.storage.snapshot_locations import (
    adopted_txn_id,
    list_adopted,
    path_visibility_txn_id,
    read_metadata,
)
from hiveacid.storage.staging import abandoned_staging, expired_staging
from hiveacid.table.cleaning import remove_files
from hiveacid.table.cleaning.clean_after_overwrite import OverwrittenCleaner
from hiveacid.table.cleaning.remove_files import cleaning_delay, history_retention, remove_entries
from hiveacid.table.context import Context, table_names
from hiveacid.table.partitions import find_partition, partitions_of, partitions_on_disk
from hiveacid.table.read.flush_length_files import delete_copies
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

_FORGOTTEN = 86_400_000
"""Milliseconds after which files that a job staged outside transactions are removed."""


def clean_on_request(context: Context, only: TableName | None = None) -> list[str]:
    """Clean all tables or one, after the snapshots of unreferenced DataFrames have ended; return the removed paths.

    Raises UnsupportedFeatureError with a Hive Metastore.
    """
    if not context.store.maintained_by_hiveacid():
        raise UnsupportedFeatureError("tables of a Hive Metastore are cleaned by its own cleaner")
    context.transactions.heartbeats.beat()
    release_unused_plans(context.env, context.read_leases.sweep)
    context.store.abort_timed_out()
    return clean(context, only)


def clean(context: Context, only: TableName | None = None) -> list[str]:
    """Clean after all finished compactions, overwrites and aborted writes, or those of one table; return the removed paths.

    The error of one job or table does not stop the cleaning of others. The first error is raised at the end, with the
    others as notes.
    """
    removed_paths: list[str] = []
    errors: list[HiveAcidError] = []

    def attempt(name: TableName, work: Callable[[], list[str]], task: str = "") -> None:
        if only not in (None, name):
            return
        try:
            removed_paths.extend(work())
        except HiveAcidError as error:
            logger.warning("cleaning of %s%s: %s", name, task, error)
            errors.append(error)

    for job in remove_files.ready_jobs(context):
        attempt(job.request.table, partial(clean_job, context, job.id), f" (compaction {job.id})")
    OverwrittenCleaner(context).step(attempt)
    for name in table_names(context.catalog) if only is None else [only]:
        attempt(name, partial(clean_aborted, context, name))
    own_store(context.store).housekeep()
    delete_copies(context)
    if errors:
        for other in errors[1:]:
            errors[0].add_note(str(other))
        raise errors[0]
    return removed_paths


def clean_job(context: Context, job_id: int) -> list[str]:
    """Remove the directories that a compaction replaced, if no open transaction can read them; return the paths.

    While a reader may need some of it, the job stays "ready for cleaning" and a later turn removes the rest.
    """
    if not context.store.maintained_by_hiveacid():
        return []
    # This order matters: a compaction that commits between the two calls then counts among the transactions that a
    # reader may not see.
    min_open = context.store.min_open_txn_id()
    ready = remove_files.ready_jobs(context)
    job = next((candidate for candidate in ready if candidate.id == job_id), None)
    if job is None or job.next_txn_id is None or job.next_txn_id > min_open:
        return []
    delay = cleaning_delay(context)
    if delay and (job.commit_time or 0) > context.store.now() - 1000 * delay:
        return []
    retention = history_retention(context.catalog.get_table(job.request.table))
    if (
        retention
        and (job.commit_time or job.ended or job.started or 0) > context.store.now() - 1000 * retention
    ):
        return []
    with remove_files.cleaner_lock(context, job.request.table) as held:
        return _clean_after_job(context, job, min_open, held) if held else []


def _clean_after_job(context: Context, job: Compaction, min_open: TxnId, held: Transaction) -> list[str]:
    ready = remove_files.ready_jobs(context)
    # dropped or renamed with its table, or cleaned by another client
    if (job.id, job.request) not in {(candidate.id, candidate.request) for candidate in ready}:
        return []
    table = context.catalog.get_table(job.request.table)
    name = job.request.partition
    partition = find_partition(context, table, name) if table is not None and name is not None else None
    if table is None or (name is not None and partition is None):
        _succeed(context, job, "the table or partition is gone")
        return []
    root = table.location if partition is None else partition.location
    if remove_files.is_cleanup_disabled(context, table, partition):
        return []
    possibly_unseen_txns = remove_files.list_possibly_unseen_txns(ready, min_open)
    try:
        plan = remove_files.plan_location_cleaning(
            context, table, root, job.high_watermark, min_open, possibly_unseen_txns, partition=partition
        )
        if _may_hide(context, job, plan, min_open, held):
            return []
        removed_paths = remove_files.delete_planned(context, table, root, partition, plan, held)
    except MissingDirectoryError:
        removed_paths, plan = [], None
    if plan is None or (not plan.postponed and len(removed_paths) == len(plan.deletions)):
        _succeed(context, job)
    return removed_paths


def _may_hide(
    context: Context, job: Compaction, plan: CleaningPlan, min_open: TxnId, held: Transaction
) -> bool:
    """Tell whether a later compaction of the place may have hidden files that open readers had listed.

    Without ``_v`` its result counts from its renaming on, whatever becomes of the job. The cleaning after it waits for these
    readers; if it has failed, those that began before its end count. The names tell, because the worker's session may have had
    another layout level. Call it after the listing; ``min_open``: from before it.
    """
    names = [layout_name(entry.path) for entry in plan.listed]
    if not any(name is not None and may_be_compacted(name) for name in names):
        return False
    rows = context.store.show_transactions()
    began = [row.started for row in rows if row.state == "OPEN" and row.txn_id != held.txn_id]
    place = job.request.table, job.request.partition
    return any(
        other.id > job.id and place == (other.request.table, other.request.partition) and other.claims > 0
        for other in context.store.show_compactions()
        if other.state in UNDER_WAY
        or (other.state == CompactionState.READY_FOR_CLEANING and (other.next_txn_id or 0) > min_open)
        or (other.state != CompactionState.SUCCEEDED and min(began, default=LAST_ID) <= (other.ended or 0))
    )


def _succeed(context: Context, job: Compaction, note: str | None = None) -> None:
    """End a job, unless another cleaner has ended it."""
    with suppress(TransactionStateError, CompactionError):
        context.store.end_compaction(job.id, CompactionState.SUCCEEDED, note)


def clean_aborted(context: Context, name: TableName) -> list[str]:
    """Remove directories of aborted writes and compactions, and staging leftovers of transactions that ended.

    An aborted write id is forgotten when no directory with its rows is left. If its writer may still publish, as one that
    was paused beyond its time-out, every partition must also have a base above it: readers then ignore late files.
    Partitions that are not in the catalog have no base: a partition that is recorded later hides the ids that had ended
    before the first listing (`Partition.min_write_id`).
    """
    min_open = context.store.min_open_txn_id()
    with remove_files.cleaner_lock(context, name) as held:
        return _clean_aborted_of(context, name, min_open, held) if held else []


def _clean_aborted_of(context: Context, name: TableName, min_open: TxnId, held: Transaction) -> list[str]:
    table = context.catalog.get_table(name)
    if table is None or remove_files.is_cleanup_disabled(context, table, None):
        return []
    # before the first listing: a later writer may publish behind the listings and be aborted after them
    ended_up_to = context.store.ended_up_to(name)
    partitions = partitions_of(context, table)
    locations = [table.location] if partitions is None else [p.location for p in partitions]
    by_root = {partition.location: partition for partition in partitions or ()}
    removed_paths, unread = _clean_staging(context, table, locations, by_root)
    if table.kind is TableKind.PLAIN:
        return removed_paths
    # where files have their final names at once, a compaction that was paused beyond its time-out may still write some
    stopped_before = min_open if all(map(context.fs.renames_directories, locations)) else TxnId(0)
    if not context.store.aborted_write_ids(name):
        for root in unread:
            removed_paths += _clean_aborted_at(context, table, root, min_open, held, by_root.get(root))[0]
        if context.store.maintained_by_hiveacid():
            own_store(context.store).forget_aborted(name, None, ended_up_to, stopped_before, table)
        return removed_paths
    # new partitions of a writer that crashed before its commit are not in the catalog
    disk_locations = [partition.location for partition in partitions_on_disk(context, table)]
    possibly_unseen_txns = remove_files.list_possibly_unseen_txns(remove_files.ready_jobs(context), min_open)
    may_come = min(context.store.aborted_write_ids(name, may_come=True), default=None)
    reach, bases = [int(ended_up_to)], []
    for root in dict.fromkeys((*locations, *disk_locations)):
        partition, base = by_root.get(root), 0
        try:
            paths, forgettable = _clean_aborted_at(context, table, root, min_open, held, partition)
            removed_paths += paths
            reach.append(forgettable)
            if root in locations:
                visible_txns = seen_by_all(context.store.valid_txns(), min_open, possibly_unseen_txns)
                base = _base_write_id(context, table, root, visible_txns, partition)
        except MissingDirectoryError:  # a writer that was paused may still make it
            base = 0 if partition is None else partition.min_write_id - 1
        if root in locations:
            bases.append(base)
    if may_come is not None:
        reach.append(max(may_come - 1, min(bases, default=0)))
    if min(reach) > 0:
        own_store(context.store).forget_aborted(name, None, WriteId(min(reach)), stopped_before, table)
    return removed_paths


def _clean_aborted_at(
    context: Context,
    table: TableDefinition,
    root: str,
    min_open: TxnId,
    held: Transaction,
    partition: Partition | None,
) -> tuple[list[str], int]:
    plan = remove_files.plan_location_cleaning(
        context, table, root, None, min_open, aborted_only=True, partition=partition
    )
    removed_paths = remove_files.delete_planned(context, table, root, partition, plan, held)
    # otherwise rows of aborted transactions are still there
    complete = len(removed_paths) == len(plan.deletions)
    return removed_paths, int(plan.abort_records_removable_up_to) if complete else 0


def _base_write_id(
    context: Context, table: TableDefinition, root: str, txns: ValidTxnList, partition: Partition | None
) -> int:
    entries = list_adopted(context.fs, table, root, partition)
    write_ids = context.store.valid_write_ids(txns, [table.name])[table.name]
    metadata = read_metadata(context.fs, root, entries)
    base = select(entries, write_ids, txns, metadata, adopted_txn_id=adopted_txn_id(table)).base
    return int(base.name.write_id) if base is not None and isinstance(base.name, BaseName) else 0


def _clean_staging(
    context: Context, table: TableDefinition, locations: Iterable[str], partitions: Mapping[str, Partition]
) -> tuple[list[str], list[str]]:
    """Remove hidden staging directories of writers and compactions that have ended; return the removed paths.

    Searches below the table and in partitions outside it, but not behind symbolic links below these. Also returns
    the locations with directories that no reader reads: those of aborted compactions, those that end below the first write
    id of their partition (``partitions``, by location), and marked ones of a compaction, whose other half may be missing.
    """
    inside = real_path(table.location).rstrip("/") + "/"
    # the location of a partition may be a symbolic link to a directory outside the table's
    elsewhere = [root for root in locations if not f"{real_path(root)}/".startswith(inside)]
    removed_paths: list[str] = []
    unread: dict[str, None] = {}
    for root in (table.location, *elsewhere):
        try:
            entries = context.fs.list_tree(root)
        except HiveAcidError:
            continue
        over = abandoned_staging(
            entries, lambda txn_id: context.store.txn_state(txn_id) == TransactionState.OPEN
        )
        removed_paths += remove_entries(
            context, root, (*over, *expired_staging(entries, context.store.now() - _FORGOTTEN)), entries
        )
        txns, adopted = context.store.valid_txns(), adopted_txn_id(table)
        for entry in entries:
            above, _, last = entry.path.rpartition("/")
            if entry.is_dir:
                partition = partitions.get(f"{root}/{above}".rstrip("/"))
                txn_id = path_visibility_txn_id(last) if layout_name(last) else 0
                dead = txn_id > adopted and txns.is_aborted(txn_id)
                if partition is not None and layout_name(last):
                    dead = dead or ends_below(last, partition.min_write_id)
            else:
                dead, above = last == PAIR_FILE, above.rpartition("/")[0]
            if dead:
                unread[f"{root}/{above}".rstrip("/")] = None
    return removed_paths, [root for root in unread if root in {*locations, table.location}]
