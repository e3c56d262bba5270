"""Write conflicts: the locks by which statements avoid them, checks of those that the store cannot see, and retries.

A metastore sees neither bases above the transaction's write id nor changes of engines that report none.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from hiveacid.config import Settings, setting_definitions
from hiveacid.config.property_definitions import PARTITIONS_DROPPED
from hiveacid.core.format.acid_columns import AcidColumn
from hiveacid.core.format.names import (
    FLUSH_LENGTH_SUFFIX,
    BaseName,
    DeltaName,
    ends_below,
    has_hidden_prefix,
    is_hidden,
    parse_directory,
)
from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableName, WriteId
from hiveacid.core.snapshot.directory_listing import last_flush_length
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import CatalogError, FormatError, MissingDirectoryError, WriteConflictError
from hiveacid.orc.tail import read_tail
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import TransactionStore
from hiveacid.ports.transactions import Operation, Start, current_write_ids_of
from hiveacid.storage.snapshot_locations import id_property
from hiveacid.table.context import Context, WriterContext
from hiveacid.table.write.publish import WriteReport
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)

T = TypeVar("T")


def require_not_overtaken(
    fs: FileSystem, table: TableDefinition, txn: Transaction, write_id: WriteId, locations: Iterable[str]
) -> None:
    """Refuse rows that no reader would see: a base with a higher write id lies above them.

    A transaction of several statements has its write id from the first of them, and one on a metastore has it before its
    lock. Before it gets the lock, another transaction may overwrite the location (INSERT OVERWRITE, TRUNCATE), and readers
    of the new base ignore smaller write ids. Under the lock no such base can follow. Raises WriteConflictError.

    A SQL store refuses such a commit, too (``stores.sql.begin_and_commit``). A metastore does not, so that locations are always listed there.
    """
    early = txn.explicit or not txn.store.maintained_by_hiveacid()
    if not early and not txn.has_later_commits(table.name):
        return  # its write id is newer than its lock, or no other transaction committed one in between
    for location in locations:
        if is_overwritten(fs, txn.store, table, location, write_id):
            raise WriteConflictError(
                f"{table.name}: another transaction overwrote {location} since this one began to write to the "
                "table, and rows written there now would be lost; run the transaction again"
            )


def require_no_missed_commits(context: Context, table: TableName, txn: Transaction, statement: str) -> None:
    """Refuse a statement that depends on all rows of a table if the snapshot of its transaction lacks commits.

    A statement of its own takes its exclusive lock before its snapshot. A transaction of several statements takes its
    snapshot first, and other sessions may insert rows before the lock. On a metastore a transaction has its write id before
    the lock, and its snapshot lacks what others committed with a higher one. No conflict would be found at the commit. The
    statement would then lose these rows, leave them, or insert their keys again. Call it under the lock. Raises
    WriteConflictError.
    """
    txn.valid_write_ids(table)  # which finds the later commits
    if txn.has_later_commits(table) or (
        txn.explicit and txn.misses_commits_of(table, current_write_ids_of(context.store, table))
    ):
        raise WriteConflictError(
            f"{statement} {table}: another transaction wrote to the table since this one began, and its rows "
            "would be lost, or stay beside the new ones; run the transaction again"
        )


def require_no_silent_conflict(
    context: Context, table: TableDefinition, txn: Transaction, locations: Sequence[str], *, updates: bool
) -> None:
    """Abort a transaction where another engine deleted or updated rows of the same partitions since its snapshot.

    Needed for metastores: they detect conflicts by the partitions that writers report, and Trino's UPDATE, DELETE and
    MERGE report none. Their commits are found by their delete deltas. ``locations``: where the transaction itself wrote
    delete events. ``updates``: it also wrote new versions; otherwise deletes by others do no harm. Plain inserts and
    compactions (whose directories have no statement id) are no conflict.

    It costs one call to the store, and a listing of each location only after a commit by another writer. Raises
    WriteConflictError.
    """
    store = context.store
    now = current_write_ids_of(store, table.name)
    if not txn.misses_commits_of(table.name, now):
        return
    snapshot = txn.valid_write_ids(table.name)
    for location in locations:
        entries = context.fs.list_directory(location)
        names = [
            parse_directory(entry.path) for entry in entries if entry.is_dir and not is_hidden(entry.path)
        ]
        single = [name for name in names if isinstance(name, DeltaName) and name.statement_id is not None]
        new_deltas = [
            name
            for name in single
            if now.is_valid(name.min_write_id) and not snapshot.is_valid(name.min_write_id)
        ]
        inserts = {name.min_write_id for name in new_deltas if not name.is_delete}
        conflicting = [
            name.min_write_id
            for name in new_deltas
            if name.is_delete and (updates or name.min_write_id in inserts)
        ]
        if conflicting:
            reason = (
                f"{table.name}: another engine changed rows of {location} (write id {min(conflicting)}) after the "
                f"snapshot of transaction {txn.txn_id} was taken; it is rolled back: run it again"
            )
            txn.abort(reason[:200])
            raise WriteConflictError(reason)


def require_no_leftovers(
    context: WriterContext,
    table: TableDefinition,
    location: str,
    committed: ValidWriteIdList,
    exists_by_now: Callable[[], bool] = lambda: False,
) -> None:
    """Refuse a directory that holds visible rows: it must not become a new partition. Raises CatalogError.

    Such rows remain where DROP PARTITION, which removes a partition from the catalog before its files, could not delete
    these. Files outside delta and base directories are visible, too. A store of hiveacid's own hides what was dropped from
    the new partition (`Partition.min_write_id`), and its cleaner deletes it.

    ``committed``: the table's write ids, read before its partitions, so that none of them belongs to a writer that
    created the partition since. Directories of other write ids are those of concurrent or failed writers, the caller
    among them. ``exists_by_now``: tells whether another writer has created the partition meanwhile, as a stream of Hive
    may in a directory with older ids.
    """
    fs = context.fs
    try:
        entries = fs.list_directory(location)
    except MissingDirectoryError:
        return
    for entry in entries:
        if is_hidden(entry.path):
            continue
        name = parse_directory(entry.path) if entry.is_dir else None
        if _holds_visible_rows(fs, f"{location}/{entry.path}", name, committed, is_dir=entry.is_dir):
            if exists_by_now():
                return
            dropped = id_property(table, PARTITIONS_DROPPED)
            if dropped and ends_below(
                entry.path, 1 + min(dropped, context.transactions.store.ended_up_to(table.name))
            ):
                continue
            raise CatalogError(
                f"{location} holds rows already ({entry.path}), though the table has no such partition. Perhaps it was "
                "dropped, and its files could not be deleted. A new partition would show them: move that directory away"
            )


def _holds_visible_rows(
    fs: FileSystem, path: str, name: BaseName | DeltaName | None, committed: ValidWriteIdList, *, is_dir: bool
) -> bool:
    """Tell whether readers would see rows of an entry of a new partition's directory; ``name``: None if it is no ACID one."""
    share = RangeShare.ALL if name is None else committed.visible_share(*name.span)
    if share is RangeShare.NONE or not is_dir:
        return share is not RangeShare.NONE
    files = {file.path: file for file in fs.list_directory(path) if not has_hidden_prefix(file.path)}
    if share is RangeShare.ALL or name is None or name.visibility_txn_id:
        return bool(files)
    # The directory of a stream of Hive has the ids of many transactions, of which some wrote to other partitions only.
    return any(
        _has_valid_stripe(
            fs, f"{path}/{file.path}", file.size, committed, side=f"{file.path}{FLUSH_LENGTH_SUFFIX}" in files
        )
        for file in files.values()
        if not file.path.endswith(FLUSH_LENGTH_SUFFIX)
    )


def _has_valid_stripe(
    fs: FileSystem, path: str, size: int, committed: ValidWriteIdList, *, side: bool
) -> bool:
    """Tell whether a stripe of a stream's file is of a committed write id; each stripe has the rows of one id.

    True for a file that cannot be read. ``side``: a side file tells the length up to which it has been flushed.
    """
    try:
        length = last_flush_length(fs.read_bytes(path + FLUSH_LENGTH_SUFFIX)) if side else size
        stripes = read_tail(fs, path, min(size, length)).stripes if length else ()
        column = AcidColumn.CURRENT_WRITE_ID.orc_id
        ids = [len(stripe.statistics) and stripe.statistics[column].integers for stripe in stripes]
    except FormatError:
        return True
    return any(
        not found or committed.visible_share(found.low, found.high) is not RangeShare.NONE for found in ids
    )


def is_overwritten(
    fs: FileSystem, store: TransactionStore, table: TableDefinition, location: str, write_id: WriteId
) -> bool:
    """Tell whether INSERT OVERWRITE or TRUNCATE left a base of a higher write id, which would hide rows written now.

    Call it while holding the lock, which prevents further overwrites. The bases of compactions end below every open
    write id and are therefore harmless.
    """
    try:
        entries = fs.list_directory(location)
    except MissingDirectoryError:
        return False
    names = (parse_directory(entry.path) for entry in entries if entry.is_dir and not is_hidden(entry.path))
    bases = (name for name in names if isinstance(name, BaseName) and not name.visibility_txn_id)
    above = [base.write_id for base in bases if base.write_id > write_id]
    now = current_write_ids_of(store, table.name) if above else None
    return now is not None and any(map(now.is_valid, above))


def run_with_retry(
    context: Context,
    name: TableName,
    verb: str,
    joined: Transaction | None,
    run: Callable[[TableDefinition, Transaction], WriteReport],
    *,
    exclusive: bool = False,
    is_stale: Callable[[], bool] = lambda: False,
) -> WriteReport:
    """Run UPDATE, DELETE, MERGE or an overwrite by condition under its lock; after a write conflict, run it again with a new snapshot.

    A statement with a transaction of its own has ``hive.txn.retrysnapshot.max.count`` retries. Inside
    ``acid.transaction()`` (``joined``) the first conflict raises WriteConflictError. ``exclusive``: wait for other
    writers even if ``hive.txn.xlock.write`` is false. Such a statement depends on rows that others insert. Inside
    ``acid.transaction()`` it raises WriteConflictError if the snapshot lacks commits of the table. ``is_stale``: tells whether
    the caller brings rows that it read from the table before (`update_delete.reads_table`). With them a retry, or a statement that waited for
    the lock of another one, would undo the other writer's change, and raises WriteConflictError.
    """
    if joined is not None:
        return _run_once(context, name, verb, joined, run, exclusive, 0)
    attempt = partial(_run_once, context, name, verb, None, run, exclusive, is_stale=is_stale)
    max_retries = context.settings.get(setting_definitions.RETRY_SNAPSHOT)
    return repeat_after_conflicts(f"{verb} on {name}", max_retries, attempt, retries_exhausted, is_stale)


def _run_once(
    context: Context,
    name: TableName,
    verb: str,
    joined: Transaction | None,
    run: Callable[[TableDefinition, Transaction], WriteReport],
    exclusive: bool,  # noqa: FBT001 - as in `run_with_retry`
    retries: int,
    is_stale: Callable[[], bool] = lambda: False,
) -> WriteReport:
    operation = Operation.DELETE if verb == "DELETE" else Operation.UPDATE
    start = change_start(context, name, operation, exclusive=exclusive)
    with context.transactions.scope(
        context.settings, joined, start, lambda: context.require_full_acid(name, verb)
    ) as txn:
        table = context.require_full_acid(name, verb)
        if exclusive:
            require_no_missed_commits(context, name, txn, verb)
        require_fresh_rows(txn, is_stale)
        report = run(table, txn)
    return replace(report, retries=retries)


def require_fresh_rows(txn: Transaction, is_stale: Callable[[], bool]) -> None:
    """Refuse rows that were read from the target before a wait for the lock of another writer, who may have changed them.

    ``is_stale`` as in `run_with_retry`. The store finds no conflict: the transaction's snapshot begins after the wait. Raises
    WriteConflictError.
    """
    if txn.waited and is_stale():
        raise WriteConflictError("another statement held the lock of the table, and may have changed it")


def repeat_after_conflicts(
    work: str,
    max_retries: int,
    attempt: Callable[[int], T],
    exhausted: Callable[[str, int, WriteConflictError], WriteConflictError],
    is_stale: Callable[[], bool] = lambda: False,
) -> T:
    """Return the result of ``attempt``, which is called with the number of retries so far, until it has no write conflict.

    ``work``: what it writes. ``max_retries``: number of retries. ``exhausted``: returns the error to raise after the last of them.
    ``is_stale`` as in `run_with_retry`.
    """
    for retries in range(max_retries + 1):
        try:
            return attempt(retries)
        except WriteConflictError as error:
            if retries == max_retries:
                raise exhausted(work, retries + 1, error) from error
            if is_stale():
                raise WriteConflictError(
                    f"{work}: {error}. It was not tried again, because it takes rows of a DataFrame or a temporary view that were read "
                    "from the table before: make that anew, and run the statement again"
                ) from error
            logger.info("%s had a write conflict; trying again in a new transaction", work)
    raise AssertionError  # the loop returns or raises


def retries_exhausted(statement: str, times: int, error: WriteConflictError) -> WriteConflictError:
    """Return the error of a statement that had ``times`` write conflicts, of which ``error`` is the last."""
    tried = "once" if times == 1 else f"{times} times, each time with a new snapshot"
    return WriteConflictError(
        f"{statement} was tried {tried}, and other writers committed changes of the same table or partition first. "
        f"Nothing was written. Run it again, allow more retries ({setting_definitions.RETRY_SNAPSHOT.name}, now "
        f"{times - 1}), or let writers wait for each other ({setting_definitions.XLOCK_WRITE.name}=true). Last conflict: {error}"
    )


def change_start(context: Context, name: TableName, operation: str, *, exclusive: bool) -> Start:
    """Return what a transaction of an UPDATE, DELETE or MERGE begins with, so that its lock comes before its snapshot."""
    lock = replace(change_lock(context, name, exclusive=exclusive), operation=operation)
    return Start((lock,), (name,), (name,))


def change_lock(context: Context, name: TableName, *, exclusive: bool = False) -> LockComponent:
    """Return the lock that UPDATE, DELETE and MERGE take."""
    excludes_writers = exclusive or context.settings.get(setting_definitions.XLOCK_WRITE)
    return LockComponent(
        LockType.EXCL_WRITE if excludes_writers else LockType.SHARED_WRITE, name.database, name.name
    )


def insert_lock_type(settings: Settings, store: TransactionStore, *, overwrite: bool) -> LockType:
    """Return the lock type of INSERT, LOAD and streams, or of their overwriting forms and TRUNCATE (``overwrite``).

    The base of an overwrite hides rows that commit later with a lower write id. Both kinds therefore wait for each
    other, whatever the settings of the two sessions: the settings only make the lock of the overwrite stronger.

    Beside a metastore an overwrite is EXCLUSIVE. With ``hive.txn.xlock.write=true`` Hive's INSERT takes SHARED_READ, for
    which no other type waits.
    """
    if not overwrite:
        return LockType.SHARED_WRITE
    exclusive = settings.get(setting_definitions.XLOCK_WRITE) and settings.get(
        setting_definitions.XLOCK_OVERWRITE
    )
    return LockType.EXCLUSIVE if exclusive or not store.maintained_by_hiveacid() else LockType.EXCL_WRITE
