"""Cleaning of one location: list it, plan (``core.compaction.cleaning_plan``), delete."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from hiveacid.config.property_definitions import HISTORY_FROM, NO_CLEANUP
from hiveacid.core.compaction.cleaning_plan import CleaningPlan, plan_cleaning
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import PAIR_FILE, parse_number
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.core.transactions.states import CompactionState, TransactionState
from hiveacid.errors import NotEnoughHistoryError, StorageError
from hiveacid.storage.snapshot_locations import adopted_txn_id, id_property, list_adopted, read_metadata
from hiveacid.storage.staging import staging_txn_id
from hiveacid.table.cleaning.remove_dropped_files import lock_against_drop
from hiveacid.table.context import Context
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)


_LONGEST_ID = 20  # digits

_CLEANERS = "_hiveacid_cleaner"
"""Name in the place of a database, for locks that only cleaners request."""


def ready_jobs(context: Context) -> list[Compaction]:
    """List the jobs that wait for the cleaner, lowest high watermark first."""
    jobs = [
        job for job in context.store.show_compactions() if job.state == CompactionState.READY_FOR_CLEANING
    ]
    return sorted(jobs, key=lambda job: (int(job.high_watermark or 0), job.id))


def list_possibly_unseen_txns(ready: Iterable[Compaction], min_open: TxnId) -> set[TxnId]:
    """Return the transactions of compactions that an open transaction may not see as committed."""
    return {job.txn_id for job in ready if job.txn_id and (job.next_txn_id or 0) > min_open}


@contextmanager
def cleaner_lock(context: Context, name: TableName) -> Iterator[Transaction | None]:
    """Lock a table against DROP, ALTER and other cleaners (`lock_against_drop`) while its files are listed and removed.

    The lock has two reasons: a table that is dropped and created again has directories of the same names, and two
    cleaners could overwrite each other's record of the history. Raises TransactionAbortedError instead of
    NotEnoughHistoryError once it has timed out: the name then has the write ids of another table.
    """
    other_cleaners = LockComponent(LockType.EXCLUSIVE, _CLEANERS, name.name, name.database)
    with lock_against_drop(context, name, other_cleaners) as held:
        try:
            yield held
        except NotEnoughHistoryError:
            if held is not None:
                held.require_open_in_store()
            raise


def is_cleanup_disabled(context: Context, table: TableDefinition, partition: Partition | None) -> bool:
    """Tell whether ``no_cleanup`` is set on a partition, its table or its database."""
    database = context.catalog.get_database(table.name.database)
    groups = (
        () if database is None else database.properties,
        table.properties,
        () if partition is None else partition.properties,
    )
    texts = [text for group in groups for key, text in group if key.lower() == NO_CLEANUP.name]
    return any(text.strip().lower() == "true" for text in texts)


def plan_location_cleaning(
    context: Context,
    table: TableDefinition,
    root: str,
    high_watermark: WriteId | None,
    min_open: TxnId,
    possibly_unseen_txns: Iterable[TxnId] = (),
    *,
    aborted_only: bool = False,
    partition: Partition | None = None,
) -> CleaningPlan:
    """List a location and plan its cleaning; arguments as in ``plan_cleaning``, ``high_watermark`` None: the present."""
    # listed before the snapshot is taken: the listing then has no files that were published after the snapshot
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
        possibly_unseen_txns=frozenset(possibly_unseen_txns),
        adopted_txn_id=adopted_txn_id(table),
        aborted_only=aborted_only,
        abandoned_unpaired_deltas=_abandoned_unpaired_deltas(context, root, entries),
        row_ids=table.kind is TableKind.FULL_ACID,
        min_write_id=0 if partition is None else partition.min_write_id,
    )


def _abandoned_unpaired_deltas(context: Context, root: str, entries: Sequence[FileEntry]) -> list[str]:
    """Return marked deltas and delete deltas of compactions that ended without the counterpart; no snapshot reads them."""
    marked = {path.rpartition("/")[0]: path for path in (e.path for e in entries) if path.endswith(PAIR_FILE)}
    marked = {directory: path for directory, path in marked.items() if "/" not in directory}
    abandoned = []
    for directory, path in marked.items():
        kind, _, span = directory.rpartition("delta_")
        if f"{'' if kind else 'delete_'}delta_{span}" in marked:
            continue
        try:
            text = context.fs.read_bytes(f"{root}/{path}", 0, _LONGEST_ID).decode("ascii", "replace")
        except StorageError:
            continue
        txn_id = parse_number(text) if text.isdecimal() else None
        if txn_id is not None and context.store.txn_state(TxnId(txn_id)) != TransactionState.OPEN:
            abandoned.append(directory)
    return abandoned


def delete_planned(
    context: Context, table: TableDefinition, root: str, plan: CleaningPlan, held: Transaction
) -> list[str]:
    """Carry out a plan; return the deleted paths, without those that another writer has changed since (`delete_listed`).

    ``held``: the transaction of `cleaner_lock`. Raises TransactionAbortedError once it has timed out, as after a pause of
    the process: without the lock, the table may have been dropped and created again with the same directory names.
    """
    removed_paths = []
    contents: dict[str, list[FileEntry]] = {deletion.path: [] for deletion in plan.deletions}
    for entry in plan.listed:
        contents.get(entry.path.partition("/")[0], []).append(entry)
    if plan.history_from is not None:
        record_history_start(context, table.name, plan.history_from, held)
    for deletion in plan.deletions:
        path = f"{root}/{deletion.path}"
        held.require_open_in_store()
        if context.fs.delete_listed(root, contents[deletion.path]):
            logger.warning("kept %s: it was changed after the cleaner had listed it", path)
            continue
        logger.info("removed %s (%s)", path, deletion.reason)
        removed_paths.append(path)
    foreign = [path for path in plan.foreign if staging_txn_id(path) is None]
    if foreign and not table.partition_columns:
        logger.info("left alone in %s, not of the ACID layout: %s", root, ", ".join(foreign))
    return removed_paths


def record_history_start(context: Context, name: TableName, earliest: WriteId, held: Transaction) -> None:
    """Record the first write id whose snapshot will still be complete, before anything is deleted.

    Hive's cleaner keeps no such record, so readers do not rely on it with a metastore (``core.snapshot.change_feed``).
    ``held``: a transaction with a lock for which ALTER TABLE waits. Otherwise two changes of the definition could overwrite
    each other. Raises TransactionAbortedError once it has timed out.
    """
    table = context.catalog.get_table(name)
    if table is None or id_property(table, HISTORY_FROM) >= earliest:
        return
    held.require_open_in_store()
    context.catalog.alter_table(name, table.with_properties({HISTORY_FROM.name: str(int(earliest))}))
