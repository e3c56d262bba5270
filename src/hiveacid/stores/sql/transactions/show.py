"""Rows of SHOW TRANSACTIONS and SHOW LOCKS, and the store's time."""

from __future__ import annotations

from sqlalchemy import Connection, select

from hiveacid.core.model import LockId, TxnId
from hiveacid.ports.locks import LockRow
from hiveacid.ports.transactions import TransactionRow
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.dialects import database_now
from hiveacid.stores.sql.schema import COMMITTED, lock_components, lock_requests, txns

_TRANSACTIONS = select(txns).where(txns.c.state != COMMITTED).order_by(txns.c.id)
_LOCKS = (
    select(
        lock_components,
        lock_requests.c.state,
        lock_requests.c.acquired_at,
        lock_requests.c.blocked_by,
        txns.c.heartbeat,
        txns.c.user_name,
        txns.c.host,
        txns.c.agent,
    )
    .join(lock_requests, lock_requests.c.id == lock_components.c.request_id)
    .join(txns, txns.c.id == lock_requests.c.txn_id)
    .order_by(lock_components.c.request_id, lock_components.c.number)
)


def show_transactions(database: Database) -> tuple[TransactionRow, ...]:
    """List open and aborted transactions by id."""
    return database.read(_transactions)


def _transactions(connection: Connection) -> tuple[TransactionRow, ...]:
    return tuple(
        TransactionRow(
            TxnId(row.id), row.state.upper(), row.started, row.heartbeat, row.user_name, row.host, row.timeout
        )
        for row in connection.execute(_TRANSACTIONS)
    )


def show_locks(database: Database) -> tuple[LockRow, ...]:
    """List locks by request and component."""
    return database.read(_locks)


def _locks(connection: Connection) -> tuple[LockRow, ...]:
    return tuple(
        LockRow(
            lock_id=f"{LockId(row.request_id)}.{row.number}",
            database=row.database_name,
            table=row.table_name,
            partition=row.partition_name,
            state=row.state,
            blocked_by=row.blocked_by,
            type=row.type,
            txn_id=TxnId(row.txn_id),
            last_heartbeat=row.heartbeat,
            acquired_at=row.acquired_at,
            user=row.user_name,
            host=row.host,
            agent=row.agent,
        )
        for row in connection.execute(_LOCKS)
    )


def store_time(database: Database) -> int:
    """Return the current time of the clock that the store's times come from (ms)."""
    own = database.now()
    return int(database.read(lambda connection: connection.scalar(_NOW)) or 0) if own is None else own


_NOW = select(database_now())
