"""Rows of SHOW TRANSACTIONS, SHOW LOCKS and SHOW TABLES, and ABORT TRANSACTIONS, all without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.errors import (
    NoSuchTransactionError,
    StatementError,
    TransactionStateError,
    no_such_database,
)
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.transactions import LockRow, TransactionPort
from hiveacid.storage.paths import LONGEST_PATTERN, compile_wildcards

TextRow = tuple[str, ...]

TRANSACTION_COLUMNS = ("txnid", "state", "startedtime", "lastheartbeattime", "user", "host")
LOCK_COLUMNS = (
    "lockid", "database", "table", "partition", "lock_state", "blocked_by", "lock_type", "transaction_id",
    "last_heartbeat", "acquired_at", "user", "hostname", "agent_info",
)  # fmt: skip
TABLE_COLUMNS = ("tab_name",)
_WILDCARD = re.compile(r"[*%]")
_LARGEST_ID = (1 << 63) - 1  # that a store can be asked for
_NO_BLOCKER = " " * 12  # ShowLocksOperation: "try to keep cols aligned"


def matching(names: Iterable[str], pattern: str | None) -> list[str]:
    """Return the names that match a Hive pattern; all names without a pattern. Case does not matter.

    ``*`` and ``%`` match any text, ``|`` separates alternatives. Hive 4 also reads ``_`` as one arbitrary letter; here it
    matches only itself, because names often contain it. (Hive: ``UDFLike``, ``SearchUtils``; the SHOW TABLES of Hive 3.1
    knew ``*`` and ``|`` only.)
    """
    if pattern is None:
        return list(names)
    if len(pattern) > LONGEST_PATTERN:
        raise StatementError(f"the pattern has {len(pattern)} characters; the limit is {LONGEST_PATTERN}")
    expressions = [
        compile_wildcards([re.escape(piece) for piece in _WILDCARD.split(part.strip())], flags=re.IGNORECASE)
        for part in pattern.split("|")
    ]
    return [name for name in names if any(expression.fullmatch(name) for expression in expressions)]


def table_rows(catalog: Catalog, database: str, pattern: str | None = None) -> list[TextRow]:
    """Return the names of a database's tables and, as Hive and Spark do, its views. Raises NoSuchDatabaseError."""
    views = view_rows(catalog, database, pattern)
    tables = [(name,) for name in matching(catalog.list_tables(database), pattern)]
    return sorted((*tables, *views))


def view_rows(catalog: Catalog, database: str, pattern: str | None = None) -> list[TextRow]:
    """Return the names of a database's views. Raises NoSuchDatabaseError."""
    if catalog.get_database(database) is None:
        raise no_such_database(database, catalog.list_databases())
    return [(name,) for name in matching(catalog.list_views(database), pattern)]


def transaction_rows(store: TransactionPort, time: Callable[[int], str] = str) -> list[TextRow]:
    """Return open and aborted transactions, expired ones as aborted.

    ``time``: the text of milliseconds since the epoch, by default their number, as Hive prints it.
    """
    store.abort_timed_out()
    return [
        (str(txn.txn_id), txn.state, time(txn.started), time(txn.last_heartbeat), txn.user, txn.host)
        for txn in store.show_transactions()
    ]


def lock_rows(locks: Iterable[LockRow], time: Callable[[int], str] = str) -> list[TextRow]:
    """Return locks in Hive's new format, with Hive's texts for missing values; ``time`` as in `transaction_rows`."""
    return [
        (
            lock.lock_id,
            lock.database,
            lock.table or "NULL",
            lock.partition or "NULL",
            lock.state,
            lock.blocked_by or _NO_BLOCKER,
            lock.type,
            "NULL" if lock.txn_id is None else str(lock.txn_id),
            time(lock.last_heartbeat),
            "NULL" if lock.acquired_at is None else time(lock.acquired_at),
            lock.user,
            lock.host,
            lock.agent,
        )
        for lock in locks
    ]


def abort_transactions(store: TransactionPort, ids: Sequence[int]) -> None:
    """Abort all transactions, or none if one of the ids is unknown or committed."""
    states = {
        txn_id: store.txn_state(TxnId(txn_id)) if txn_id <= _LARGEST_ID else TransactionState.UNKNOWN
        for txn_id in ids
    }
    for txn_id, state in states.items():
        if state == TransactionState.UNKNOWN:
            raise NoSuchTransactionError(f"transaction {txn_id} does not exist: see SHOW TRANSACTIONS")
        if state == TransactionState.COMMITTED:
            raise TransactionStateError(f"transaction {txn_id} has committed: it cannot be aborted any more")
    store.abort_txns([TxnId(txn_id) for txn_id in ids], "ABORT TRANSACTIONS")
