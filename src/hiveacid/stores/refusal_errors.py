"""Errors that all stores raise, so that their wording is the same everywhere."""

from __future__ import annotations

from hiveacid import errors
from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import LockId, Partition, TableDefinition, TableName, TxnId
from hiveacid.core.schema.location_overlap import Place
from hiveacid.core.transactions.states import TransactionState

CONFLICT = "50003"
"""Reason code of an abort by a write conflict (``TxnErrorMsg.ABORT_WRITE_CONFLICT``)."""
TIME_OUT = "50004"
"""Reason code of an abort by the reaper (``TxnErrorMsg.ABORT_TIMEOUT``)."""
STOPPED = "stopped"
"""Reason code of an abort by the owner, whose writer has stopped. That holds for all codes but `TIME_OUT`."""


def not_open(
    txn_id: TxnId, state: str, reason: str | None = None, code: str | None = None
) -> errors.HiveAcidError:
    """Return the error for a call that needs an open transaction; ``state``: the result of ``txn_state``."""
    if state == TransactionState.UNKNOWN:
        return errors.NoSuchTransactionError(
            f"transaction {txn_id} is not known: it was never opened, or ended long ago"
        )
    if state != TransactionState.ABORTED:
        return errors.TransactionStateError(f"transaction {txn_id} is {state} already")
    for kind in (errors.WriteConflictError, errors.StreamFencedError, errors.StreamReplayedError):
        if code == kind.code and reason is not None:
            return kind(reason)
    suffix = "" if not reason else f": {reason}"
    return errors.TransactionAbortedError(
        f"transaction {txn_id} was aborted{suffix}; open a new one and start over"
    )


def require_same_table(existing: TableDefinition, changed: TableDefinition) -> None:
    """Raise WriteConflictError for a changed definition that was read from an earlier table of the same name."""
    if changed.incarnation and not existing.is_same_table(changed):
        raise errors.WriteConflictError(
            f"{existing.name} was dropped and created again meanwhile; nothing was changed: run the statement again"
        )


def read_only(txn_id: TxnId) -> errors.HiveAcidError:
    """Return the error raised when a read-only transaction is asked to write."""
    return errors.TransactionStateError(f"transaction {txn_id} is read-only and may not write")


def too_many_open(limit: int) -> errors.HiveAcidError:
    """Return the error for a transaction beyond hive.max.open.txns."""
    return errors.TransactionError(f"hive.max.open.txns allows {limit} open transactions and no more")


def request_gone(lock_id: LockId) -> errors.HiveAcidError:
    """Return the error for a lock request that is no longer there."""
    return errors.TransactionStateError(
        f"lock request {lock_id} is not there: it was withdrawn, or its transaction ended"
    )


def lock_in_use(lock_id: LockId, txn_id: TxnId) -> errors.HiveAcidError:
    """Return the error for a lock that must not be released before its transaction ends."""
    return errors.TransactionStateError(
        f"lock request {lock_id} protects what transaction {txn_id} wrote; it ends with the transaction"
    )


def ids_given(table: TableName) -> errors.HiveAcidError:
    """Return the error raised when write ids are seeded too late."""
    return errors.TransactionStateError(f"{table} has write ids already; they cannot be seeded any more")


def timed_out(seconds: float) -> str:
    """Return the reason of an abort by the reaper."""
    return f"no heartbeat for more than hive.txn.timeout ({seconds:g} s)"


def scheduled(request: CompactionRequest, state: str, compaction_id: int) -> errors.HiveAcidError:
    """Return the error for a compaction that is queued or running (Hive's words)."""
    partition = "" if request.partition is None else f"/{request.partition}"
    return errors.CompactionRefusedError(
        f"Compaction is already scheduled with state='{state}' and id={compaction_id} "
        f"for {request.table}{partition}"
    )


def no_compaction(compaction_id: int) -> errors.HiveAcidError:
    """Return the error for an unknown compaction."""
    return errors.CompactionError(f"compaction {compaction_id} is not known")


def compaction_not_working(compaction_id: int, state: str) -> errors.HiveAcidError:
    """Return the error for the start of a job that no worker has claimed."""
    return errors.TransactionStateError(f"compaction {compaction_id} is {state}, not working")


def not_with_worker(compaction_id: int, worker: str) -> errors.HiveAcidError:
    """Return the error for a worker that continues a job which the store has taken from it."""
    return errors.TransactionStateError(
        f"compaction {compaction_id} is not with {worker} any more: it was silent for too long"
    )


def not_ready_for_cleaning(compaction_id: int, state: str) -> errors.HiveAcidError:
    """Return the error for the postponed cleaning of a job that is not ready for cleaning."""
    return errors.TransactionStateError(f"compaction {compaction_id} is {state}, not ready for cleaning")


def no_database(name: str) -> errors.HiveAcidError:
    """Return the error for an unknown database."""
    return errors.NoSuchDatabaseError(f"database {name!r} does not exist")


def no_table(name: TableName) -> errors.HiveAcidError:
    """Return the error for an unknown table."""
    return errors.NoSuchTableError(f"table '{name}' does not exist")


def database_exists(name: str) -> errors.HiveAcidError:
    """Return the error for a second database of one name."""
    return errors.AlreadyExistsError(f"database {name!r} exists already")


def table_exists(name: TableName) -> errors.HiveAcidError:
    """Return the error for a second table of one name."""
    return errors.AlreadyExistsError(f"table '{name}' exists already")


def no_view(name: TableName) -> errors.HiveAcidError:
    """Return the error for an unknown view."""
    return errors.NoSuchTableError(f"view '{name}' does not exist")


def view_exists(name: TableName) -> errors.HiveAcidError:
    """Return the error for a table or view with the name of an existing view."""
    return errors.AlreadyExistsError(f"view '{name}' exists already")


def location_taken(location: str, other: Place) -> errors.HiveAcidError:
    """Return the error for a database, table or partition whose location conflicts with that of another one."""
    return errors.CatalogError(
        f"the location {location} is not free: {other.owner} {other.location} is there"
    )


def misplaced_partition(table: TableName, new: Partition, existing: Partition | None) -> str:
    """Return the reason why a commit fails if another client created the same new partition at another location."""
    values = ", ".join(new.key)
    now = "was dropped again" if existing is None else f"lies in {existing.location}"
    return (
        f"another client made partition ({values}) of {table} meanwhile, and it {now}: rows written to {new.location} "
        "would not be seen; nothing was changed, run the statement again"
    )


def database_not_empty(name: str, tables: int) -> errors.HiveAcidError:
    """Return the error raised when a database that is dropped still has tables or views."""
    return errors.CatalogError(
        f"database {name!r} is not empty: it has {tables} tables and views; drop them first"
    )
