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
from hiveacid.core.format.names import (
    BaseName,
    DeltaName,
    is_hidden,
    parse_directory,
)
from hiveacid.core.model import TableDefinition, TableName, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import MissingDirectoryError, WriteConflictError
from hiveacid.ports.file_system import FileSystem
from hiveacid.ports.store import TransactionStore
from hiveacid.ports.transactions import Operation, Start, current_write_ids_of
from hiveacid.table.context import Context
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

    A SQL store refuses such a commit, too (``stores.sql.begin_and_commit``). A metastore does not, so that locations
    are always listed there.
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
    the caller brings rows that it read from the table before (`update_delete.reads_table`). With them a retry, or a
    statement that waited for the lock of another one, would undo the other writer's change, and raises
    WriteConflictError.
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

    ``work``: what it writes. ``max_retries``: number of retries. ``exhausted``: returns the error to raise after the
    last of them. ``is_stale`` as in `run_with_retry`.
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
