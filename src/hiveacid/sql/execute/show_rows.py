"""Rows of SHOW TRANSACTIONS, SHOW LOCKS, SHOW COMPACTIONS and SHOW TABLES, and ABORT TRANSACTIONS, all without Spark."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.errors import NoSuchTransactionError, StatementError, TransactionStateError, no_such_database
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.transactions import LockRow, TransactionPort, TransactionRow
from hiveacid.storage.paths import LONGEST_PATTERN, compile_wildcards

TextRow = tuple[str, ...]

Key = int | str
T = TypeVar("T")
TRANSACTION_COLUMNS: Mapping[str, Callable[[TransactionRow], Key | None]] = {
    "txnid": lambda txn: txn.txn_id,
    "state": lambda txn: txn.state,
    "startedtime": lambda txn: txn.started,
    "lastheartbeattime": lambda txn: txn.last_heartbeat,
    "user": lambda txn: txn.user,
    "host": lambda txn: txn.host,
}
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


def open_and_aborted(store: TransactionPort) -> tuple[TransactionRow, ...]:
    """Return open and aborted transactions, expired ones as aborted."""
    store.abort_timed_out()
    return store.show_transactions()


def transaction_rows(
    transactions: Iterable[TransactionRow], time: Callable[[int], str] = str
) -> list[TextRow]:
    """Return the texts of transactions.

    ``time``: the text of milliseconds since the epoch, by default their number, as Hive prints it.
    """
    return [
        (str(txn.txn_id), txn.state, time(txn.started), time(txn.last_heartbeat), txn.user, txn.host)
        for txn in transactions
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


_NO_VALUE = " --- "  # MetaStoreUtils.NO_VAL
_ORDER = re.compile(r"[`'\"]?(\w+)[`'\"]?(?:\s+(asc|desc))?", re.IGNORECASE)


def compaction_rows(jobs: Iterable[Compaction]) -> list[TextRow]:
    """Return jobs as Hive 4 shows them."""
    return [tuple(_cell(value(job)) for value in COMPACTION_COLUMNS.values()) for job in jobs]


def sorted_transactions(transactions: Sequence[TransactionRow], order: str) -> Sequence[TransactionRow]:
    """Sort transactions by the text behind ORDER BY. Raises StatementError."""
    return sorted_rows("SHOW TRANSACTIONS", transactions, order, TRANSACTION_COLUMNS)


def sorted_compactions(jobs: Sequence[Compaction], order: str) -> Sequence[Compaction]:
    """Sort jobs by the text behind ORDER BY; columns may have their names in the metastore. Raises StatementError."""
    return sorted_rows("SHOW COMPACTIONS", jobs, order, _SORTED_BY, _ALIASES)


def sorted_rows(
    statement: str,
    items: Sequence[T],
    order: str,
    columns: Mapping[str, Callable[[T], Any]],
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> Sequence[T]:
    """Sort items by the columns of ORDER BY; nulls come first, as in Hive."""
    for part in reversed(order.split(",")):
        match = _ORDER.fullmatch(part.strip())
        column = match[1].lower() if match else ""
        short = re.sub(r"^c[cq]_", "", column)
        key = columns.get(column) or columns.get(aliases.get(short, short))
        if match is None or key is None:
            raise StatementError(
                f"{statement} cannot be ordered by {part.strip()}: its columns are {', '.join(columns)}"
            )
        items = sorted(items, key=_null_first(key), reverse=(match[2] or "").lower() == "desc")
    return items


def _duration(job: Compaction) -> int | None:
    return None if job.ended is None or job.started is None else job.ended - job.started


COMPACTION_COLUMNS: Mapping[str, Callable[[Compaction], Key | None]] = {
    "compactionid": lambda job: job.id,
    "dbname": lambda job: job.request.table.database,
    "tabname": lambda job: job.request.table.name,
    "partname": lambda job: job.request.partition,
    "type": lambda job: job.request.kind.upper(),
    "state": lambda job: job.state,
    "workerhost": lambda job: _host_and_id(job.worker)[0],
    "workerid": lambda job: _host_and_id(job.worker)[1],
    "enqueuetime": lambda job: job.enqueued,
    "starttime": lambda job: job.started,
    "duration": _duration,
    "hadoopjobid": lambda _: None,
    "errormessage": lambda job: job.error,
    "initiatorhost": lambda job: _host_and_id(job.initiator)[0],
    "initiatorid": lambda job: _host_and_id(job.initiator)[1],
    "poolname": lambda job: job.request.pool,
    "txnid": lambda job: job.txn_id,
    "nexttxnid": lambda job: job.next_txn_id,
    "committime": lambda job: job.commit_time,
    "hightestwriteid": lambda job: job.high_watermark,
}
NUMBERS = frozenset(
    {"txnid", "startedtime", "lastheartbeattime", "compactionid", "enqueuetime", "starttime", "duration"}
    | {"nexttxnid", "committime", "hightestwriteid"}
)
"""Columns of SHOW TRANSACTIONS and SHOW COMPACTIONS that are numbers in a condition."""
# Workers and initiators are sorted by host and id together.
_SORTED_BY: Mapping[str, Callable[[Compaction], Key | None]] = {
    name: value
    for name, value in COMPACTION_COLUMNS.items()
    if name not in {"workerhost", "hadoopjobid", "initiatorhost"}
} | {"workerid": lambda job: job.worker, "initiatorid": lambda job: job.initiator}
# Columns of the metastore's tables, as Hive's own clause names them.
_ALIASES: Mapping[str, str] = {
    "id": "compactionid",
    "database": "dbname",
    "table": "tabname",
    "partition": "partname",
    "worker_id": "workerid",
    "enqueue_time": "enqueuetime",
    "start": "starttime",
    "error_message": "errormessage",
    "initiator_id": "initiatorid",
    "pool_name": "poolname",
    "txn_id": "txnid",
    "next_txn_id": "nexttxnid",
    "commit_time": "committime",
    "highest_write_id": "hightestwriteid",
}


def _null_first(key: Callable[[T], Any]) -> Callable[[T], tuple[bool, Any]]:
    def sort_key(item: T) -> tuple[bool, Any]:
        value = key(item)
        return value is not None, 0 if value is None else value

    return sort_key


def _cell(value: str | int | None) -> str:
    return _NO_VALUE if value is None else str(value)


def _host_and_id(worker: str | None) -> tuple[str | None, str | None]:
    """Split ``host-id`` at its last dash (``MetaStoreUtils.getHostFromId``)."""
    if worker is None:
        return None, None
    host, _, own_id = worker.rpartition("-")
    return (host, own_id) if host else (own_id, None)
