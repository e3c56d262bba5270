"""Retries of UPDATE, DELETE, MERGE and INSERT OVERWRITE after a write conflict, each with a new snapshot."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace

from hiveacid.config import setting_definitions
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import WriteConflictError
from hiveacid.ports.transactions import Operation, Start
from hiveacid.table.context import Context
from hiveacid.table.write.conflict_checks import require_no_missed_commits
from hiveacid.table.write.report import WriteReport
from hiveacid.transactions.transaction import Transaction

logger = logging.getLogger(__name__)


def run_with_retry(
    context: Context,
    name: TableName,
    verb: str,
    joined: Transaction | None,
    run: Callable[[TableDefinition, Transaction], WriteReport],
    *,
    exclusive: bool = False,
) -> WriteReport:
    """Run a changing statement under its lock; after a write conflict, run it again with a new snapshot.

    A statement with a transaction of its own has ``hive.txn.retrysnapshot.max.count`` retries. Inside
    ``acid.transaction()`` (``joined``) the first conflict raises WriteConflictError. ``exclusive``: wait for other
    writers even if ``hive.txn.xlock.write`` is false. Such a statement depends on rows that others insert. Inside
    ``acid.transaction()`` it raises WriteConflictError if the snapshot lacks commits of the table.
    """
    attempts = 0 if joined is not None else context.settings.get(setting_definitions.RETRY_SNAPSHOT)
    for attempt in range(attempts + 1):
        try:
            operation = Operation.DELETE if verb == "DELETE" else Operation.UPDATE
            lock = replace(change_lock(context, name, exclusive=exclusive), operation=operation)
            start = Start((lock,), (name,), (name,))
            with context.transactions.scope(
                context.settings, joined, start, lambda: context.require_full_acid(name, verb)
            ) as txn:
                if exclusive:
                    require_no_missed_commits(context, name, txn, verb)
                report = run(context.require_full_acid(name, verb), txn)
            return replace(report, retries=attempt)
        except WriteConflictError as error:
            if joined is not None:
                raise
            if attempt == attempts:
                raise retries_exhausted(f"{verb} on {name}", attempt + 1, error) from error
            logger.info("%s on %s had a write conflict; retrying with a new snapshot", verb, name)
    raise AssertionError  # the loop returns or raises


def retries_exhausted(statement: str, times: int, error: WriteConflictError) -> WriteConflictError:
    """Return the error of a statement that had ``times`` write conflicts, of which ``error`` is the last."""
    tried = "once" if times == 1 else f"{times} times, each time with a new snapshot"
    return WriteConflictError(
        f"{statement} was tried {tried}, and other writers committed changes of the same table or partition first. "
        f"Nothing was written. Run it again, allow more retries ({setting_definitions.RETRY_SNAPSHOT.name}, now "
        f"{times - 1}), or let writers wait for each other ({setting_definitions.XLOCK_WRITE.name}=true). Last conflict: {error}"
    )


def change_lock(context: Context, name: TableName, *, exclusive: bool = False) -> LockComponent:
    """Return the lock that UPDATE, DELETE and MERGE take."""
    excludes_writers = exclusive or context.settings.get(setting_definitions.XLOCK_WRITE)
    return LockComponent(
        LockType.EXCL_WRITE if excludes_writers else LockType.SHARED_WRITE, name.database, name.name
    )
