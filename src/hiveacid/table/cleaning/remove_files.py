"""Deletion of files: what the cleaner's plan names at a location, or what a dropped or emptied table owns; no foreign files.

Files that compactions and overwrites replaced stay for `cleaning_delay` and `history_retention`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress

from hiveacid import errors
from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import HISTORY_FROM, HISTORY_RETENTION, NO_CLEANUP
from hiveacid.config.setting_types import parse_duration
from hiveacid.core.compaction.cleaning_plan import CleaningPlan, plan_cleaning
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import PAIR_FILE, parse_number
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName, TxnId, WriteId
from hiveacid.core.schema.location_overlap import lies_in, overlap
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.snapshot.directory_listing import (
    FileEntry,
    OwnedEntries,
    ancestors,
    is_own_staging,
    split_by_owner,
)
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.core.transactions.states import CompactionState, TransactionState
from hiveacid.ports.store import own_store
from hiveacid.storage.paths import is_local, real_path, real_paths
from hiveacid.storage.snapshot_locations import adopted_txn_id, id_property, list_adopted, read_metadata
from hiveacid.storage.staging import staging_txn_id
from hiveacid.table.context import Context, StoreContext, WriterContext
from hiveacid.table.read.history_and_time_travel import live_tags
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

_LONGEST_ID = 20  # digits
_ROOT = FileEntry("", is_dir=True)
_ATTEMPTS = 3

_CLEANERS = "_hiveacid_cleaner"
"""Name in the place of a database, for locks of `lock_of_cleaners`."""


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
    with lock_against_drop(context, name, lock_of_cleaners(name, LockType.EXCLUSIVE)) as held:
        try:
            yield held
        except errors.NotEnoughHistoryError:
            if held is not None:
                held.require_open_in_store()
            raise


def lock_of_cleaners(name: TableName, kind: LockType) -> LockComponent:
    """Return a lock on the cleaning of a table: EXCLUSIVE of a cleaner, SHARED_READ of who holds cleaners back."""
    return LockComponent(kind, _CLEANERS, name.name, name.database)


def is_cleanup_disabled(context: Context, table: TableDefinition, partition: Partition | None) -> bool:
    """Tell whether ``no_cleanup`` is set on a partition, its table or its database."""
    database = context.catalog.get_database(table.name.database)
    return NO_CLEANUP.is_set(
        () if database is None else database.properties,
        table.properties,
        () if partition is None else partition.properties,
    )


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
        tagged=[tag.write_ids for tag in live_tags(context, table)],
    )


def _abandoned_unpaired_deltas(context: Context, root: str, entries: Sequence[FileEntry]) -> list[str]:
    """Return marked deltas and delete deltas of compactions that ended without the counterpart; no snapshot reads them."""
    marked = {path.rpartition("/")[0]: path for path in (e.path for e in entries) if path.endswith(PAIR_FILE)}
    marked = {directory: path for directory, path in marked.items() if "/" not in directory}
    abandoned = []
    for directory, path in marked.items():
        kind, _, span = directory.rpartition("delta_")
        other = f"{'' if kind else 'delete_'}delta_{span}"
        if other in marked:
            continue
        try:
            text = context.fs.read_bytes(f"{root}/{path}", 0, _LONGEST_ID).decode("ascii", "replace")
        except errors.StorageError:
            continue
        txn_id = parse_number(text) if text.isdecimal() else None
        if txn_id is None or context.store.txn_state(TxnId(txn_id)) == TransactionState.OPEN:
            continue
        if not context.fs.exists(f"{root}/{other}/{PAIR_FILE}"):  # else it came after the listing
            abandoned.append(directory)
    return abandoned


def delete_planned(
    context: Context,
    table: TableDefinition,
    root: str,
    partition: Partition | None,
    plan: CleaningPlan,
    held: Transaction,
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
    if plan.deletions and context.store.maintained_by_hiveacid():
        # before the files: what is still recorded is there
        directories = [deletion.path for deletion in plan.deletions]
        own_store(context.store).forget_directories(table.name, partition, directories, held.txn_id)
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
    marked = table.with_properties({HISTORY_FROM.name: str(int(earliest))})
    context.catalog.alter_table(name, marked, seen=table)


def first_foreign_entry(context: StoreContext, location: str) -> str | None:
    """Return the first entry of a directory, hidden or not, that hiveacid did not stage; None if there is none."""
    if not context.fs.exists(location):
        return None
    entries = context.fs.list_directory(location)
    return next((entry.path for entry in entries if entry.is_special or not is_own_staging(entry.path)), None)


def locations_to_remove(table: TableDefinition, partitions: Sequence[Partition]) -> tuple[str, ...]:
    """Return the locations that `remove_table` cleans: those of partitions outside the table, and the table's."""
    locations_outside = [
        partition.location
        for partition in partitions
        if partition.location
        != f"{table.location}/{format_partition(table.partition_column_names, partition.values)}"
    ]
    return (*locations_outside, table.location)


@contextmanager
def lock_against_drop(
    context: WriterContext, name: TableName, *more: LockComponent
) -> Iterator[Transaction | None]:
    """Hold a SHARED_READ on a name, for which DROP and CREATE wait, and ``more`` locks, in a transaction of its own.

    Yields the transaction; None if another client holds such a lock.
    """
    with context.transactions.scope(context.settings) as txn:
        lock = LockComponent(LockType.SHARED_READ, name.database, name.name)
        answer = txn.store.lock(txn.txn_id, [lock, *more], zero_wait=True)
        yield txn if answer.state is LockState.ACQUIRED else None


def remove_aborted(context: WriterContext, table: TableDefinition, directories: Iterable[str]) -> None:
    """Delete directories that an aborted transaction made in a table; no reader sees them, but they take space.

    If the table was dropped and created again since, nothing is deleted. Write ids of the new table begin at 1 again, so its
    directories may have the same names. The same holds for another table at the location, if the table is not, or no
    longer, in the catalog. What cannot be locked is left to the cleaner.
    """
    directories = sorted(directories)
    if not directories:
        return
    with lock_against_drop(context, table.name) as held:
        now = context.catalog.get_table(table.name)
        if now is None:  # of a CREATE TABLE AS SELECT, or dropped
            directories = without_owner(context, directories)
        elif held is None or not table.is_same_table(now):
            return
        for directory in directories:
            delete_directory(context, directory, held)


def delete_directory(context: WriterContext, directory: str, held: Transaction | None) -> None:
    """Delete a directory as it is now, if ``held`` still holds its lock in the store. Raises TransactionAbortedError."""
    with suppress(errors.MissingDirectoryError):
        entries = context.fs.list_tree(directory)  # before the store is asked
        if held is not None:
            held.require_open_in_store()
        context.fs.delete_listed(directory, (_ROOT, *entries))


def without_owner(context: WriterContext, paths: Iterable[str]) -> list[str]:
    """Return the paths that overlap the location of no table or partition in the catalog."""
    resolve = real_paths()
    taken = [resolve(place.location) for place in context.catalog.places() if place.table is not None]
    return [path for path in paths if not any(overlap(real_path(path), location) for location in taken)]


def require_listable(context: WriterContext, locations: Iterable[str]) -> None:
    """Raise StorageError for a location that cannot be listed, such as one with a symbolic link to itself.

    DROP checks this before it changes the catalog. The table or partition stays in the catalog until its files can be
    listed.
    """
    for location in locations:
        if not _is_link(location):
            with suppress(errors.MissingDirectoryError):
                context.fs.list_tree(location)


def remove_table(
    context: Context, table: TableDefinition, partitions: Sequence[Partition], held: Transaction | None = None
) -> None:
    """Delete the files of a table and its partitions, but no foreign ones; arguments as in `remove_location`."""
    *locations_outside, _ = locations_to_remove(table, partitions)
    for location in locations_outside:
        remove_location(context, location, table.kind, held=held)
    columns = table.partition_column_names
    remove_location(context, table.location, table.kind, columns, held)


def remove_location(
    context: Context,
    location: str,
    kind: TableKind,
    partition_columns: Sequence[str] = (),
    held: Transaction | None = None,
) -> None:
    """Delete the entries of a location that a table owns (``core.snapshot.directory_listing``).

    Deletes the directory, too, unless foreign entries remain, which are logged as a warning. If the location is a
    symbolic link, only the link is deleted. ``held``: the transaction that holds the lock of a DROP. Once it has timed
    out, nothing is deleted: another client may have created the table or partition again. Without one, nothing is deleted
    if the location has an owner in the catalog. For the same reason only files that were listed under the lock are
    deleted (`ports.file_system.FileSystem.delete_listed`). Raises StorageError.
    """
    if _is_link(location):
        if _may_delete(context, held, location):
            folder, _, name = location.rstrip("/").rpartition("/")
            context.fs.delete_listed(folder or "/", (FileEntry(name, is_dir=True),))
        return
    division = OwnedEntries((), ())
    for _ in range(_ATTEMPTS):  # a writer that the lock has thrown out may just have added a file
        try:
            entries = context.fs.list_tree(location)
        except errors.MissingDirectoryError:
            return
        division = split_by_owner(entries, kind, partition_columns)
        if not _may_delete(context, held, location):
            return
        if division.foreign:
            remove_entries(context, location, division.owned, entries)
            break
        if not context.fs.delete_listed(location, (_ROOT, *entries)):
            return
    logger.warning(
        "kept %s: it holds files that do not belong to the table (%s); remove them yourself if they are not needed",
        location,
        errors.first_few(division.foreign),
    )


def _may_delete(context: Context, held: Transaction | None, location: str) -> bool:
    """Tell whether the lock of a DROP still holds, or else the location has no owner; otherwise log that it is left."""
    if held is None:
        return bool(without_owner(context, [location]))
    try:
        held.require_open_in_store()
    except errors.TransactionAbortedError:
        logger.warning(
            "kept %s: the lock of the DROP expired after the catalog was changed (hive.txn.timeout, or ABORT "
            "TRANSACTIONS), and another table or partition may use the directory; remove it yourself if none does",
            location,
        )
        return False
    return True


def delete_plain_files(context: WriterContext, locations: Iterable[str], check: Callable[[], object]) -> None:
    """Delete the rows of plain tables or partitions; hidden entries stay.

    ``check``: raises if the transaction is not open any more. It is called between the listing and the deletion of each.
    """
    for location in locations:
        try:
            entries = context.fs.list_tree(location)
        except errors.MissingDirectoryError:
            continue
        owned = split_by_owner(entries, TableKind.PLAIN).owned
        check()
        remove_entries(
            context, location, [path for path in owned if not path.startswith((".", "_"))], entries
        )


def remove_entries(
    context: WriterContext, location: str, paths: Iterable[str], entries: Iterable[FileEntry]
) -> list[str]:
    """Delete entries of a location, except those behind a symbolic link; return the absolute paths of the deleted.

    ``entries``: the listing by which ``paths`` were chosen; only what it holds is deleted.
    """
    root = real_path(location)
    chosen = {path for path in paths if real_path(_parent(f"{location}/{path}")) == _parent(f"{root}/{path}")}
    below: dict[str, list[FileEntry]] = {path: [] for path in sorted(chosen)}
    for entry in entries:
        top = next((path for path in (entry.path, *ancestors(entry.path)) if path in chosen), None)
        if top is not None:
            below[top].append(entry)
    if not below:
        return []
    kept = context.fs.delete_listed(location, [entry for listed in below.values() for entry in listed])
    return [f"{location}/{path}" for path in below if not any(lies_in(entry, path) for entry in kept)]


def _parent(path: str) -> str:
    return path.rpartition("/")[0]


def _is_link(location: str) -> bool:
    """Tell whether the last component of a local path is a symbolic link."""
    folder, _, name = location.rstrip("/").rpartition("/")
    return is_local(location) and real_path(location) != f"{real_path(folder or '/').rstrip('/')}/{name}"


def cleaning_delay(context: Context) -> float:
    """Return the delay in seconds between a compaction and the removal of its sources."""
    delayed = context.settings.get(setting_definitions.DELAYED_CLEANUP)
    return context.settings.get(setting_definitions.CLEANER_RETENTION) if delayed else 0.0


def history_retention(table: TableDefinition | None) -> float:
    """Return the seconds for which a table keeps replaced files; 0 without the table property.

    Raises ConfigError for a negative duration and for other texts; nothing may be removed then.
    """
    text = None if table is None else HISTORY_RETENTION.of(table)
    if text is None:
        return 0.0
    try:
        return parse_duration(text)
    except errors.ConfigError as error:
        raise errors.ConfigError(f"table property {HISTORY_RETENTION.name}: {error}") from error
