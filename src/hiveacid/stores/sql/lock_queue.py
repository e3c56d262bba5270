"""The lock queue (``EnqueueLockFunction``, ``CheckLockFunction``), by the rules of :mod:`hiveacid.core.transactions.locks_and_conflicts`.

Requests are served by id. On a server, two requests that may conflict are enqueued one after the other
(:func:`keys_of`), so that the later one sees the earlier. Requests that cannot conflict are not held up.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, or_, select, update

from hiveacid.core.model import LockId, TxnId
from hiveacid.core.transactions.locks_and_conflicts import (
    WAITS_FOR,
    HeldLock,
    LockComponent,
    LockState,
    LockType,
    first_blocking_lock,
)
from hiveacid.core.transactions.states import LOCK, fire
from hiveacid.ports.transactions import LockAnswer, LockRow
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import NOW, Database, SqlBase, write_exactly_once
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import lock_components, lock_requests, txns, write_ids, written
from hiveacid.stores.sql.txn_rows import lock_open_txns

_MUTUAL = frozenset({LockType.SHARED_READ, LockType.SHARED_WRITE})
"""Lock types that never wait for each other."""


class LockQueue(SqlBase):
    """Implements :class:`hiveacid.ports.transactions.LockPort`."""

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        """Enqueue a request and check it; with ``zero_wait`` it is not enqueued if it would have to wait."""
        requested = refusals.components(components)

        def work(connection: Connection) -> LockAnswer:
            lock_open_txns(self._database, connection, [txn_id])
            self._database.dialect.serialise(connection, keys_of(requested))
            return enqueue(self._database, connection, txn_id, requested, zero_wait=zero_wait)

        return write_exactly_once(self._database, work, Durability.WITH_CLIENT)

    def check_lock(self, lock_id: LockId) -> LockAnswer:
        """Check a waiting request again. Only requests with smaller ids can block it, and no new ones can appear."""
        rows = self._database.read(
            lambda connection: connection.execute(_REQUEST, {"lock_id": lock_id}).all()
        )
        if not rows:
            raise refusals.request_gone(lock_id)
        state, blocked_by, txn_id = rows[0].state, rows[0].blocked_by, TxnId(rows[0].txn_id)
        if state == LockState.ACQUIRED.value:
            return LockAnswer(lock_id, LockState.ACQUIRED)
        requested = [_component(row) for row in rows]
        blocker = self._database.read(lambda connection: _blocker(connection, txn_id, requested, lock_id))
        if blocker is not None and blocker.name == blocked_by:
            return LockAnswer(lock_id, LockState.WAITING, str(blocker))
        if blocker is None:
            state = fire(LOCK, state, "grant")
        name = None if blocker is None else blocker.name
        parameters = {"lock_id": lock_id, "to": state, "by": name, "now": self._database.now()}
        statement = _GRANT if blocker is None else _STILL
        changed = self._database.write_statement(
            lambda connection: connection.execute(statement, parameters).rowcount, Durability.WITH_CLIENT
        )
        if not changed:
            raise refusals.request_gone(lock_id)
        return LockAnswer(lock_id, LockState(state), None if blocker is None else str(blocker))

    def unlock(self, lock_id: LockId) -> None:
        """Withdraw a request; a missing one is not an error."""
        self._database.write(lambda connection: _unlock(connection, lock_id), Durability.WITH_CLIENT)

    def show_locks(self) -> tuple[LockRow, ...]:
        """List locks by request and component."""
        rows = self._database.read(lambda connection: connection.execute(_LOCKS).all())
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
            for row in rows
        )


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


def enqueue(
    database: Database,
    connection: Connection,
    txn_id: TxnId,
    components: Sequence[LockComponent],
    *,
    zero_wait: bool = False,
) -> LockAnswer:
    """Enqueue a request of an open transaction. The caller must hold the keys of :func:`keys_of`."""
    blocker = _blocker(connection, txn_id, components, None)
    if blocker is not None and zero_wait:
        fire(LOCK, LOCK.start, "deny")
        return LockAnswer(LockId(0), LockState.NOT_ACQUIRED, str(blocker))
    state = LOCK.start if blocker else fire(LOCK, LOCK.start, "grant")
    parameters = {
        "txn_id": txn_id,
        "state": state,
        "blocked_by": None if blocker is None else blocker.name,
        "now": database.now(),
    }
    result = connection.execute(_ENQUEUE if blocker else _ENQUEUE_GRANTED, parameters)
    (lock_id,) = result.inserted_primary_key or (0,)
    rows = [_row(lock_id, number, txn_id, component) for number, component in enumerate(components, 1)]
    connection.execute(_COMPONENTS, rows)
    return LockAnswer(LockId(lock_id), LockState(state), None if blocker is None else str(blocker))


def request_of(connection: Connection, txn_id: TxnId) -> LockAnswer:
    """Return the answer to the only lock request of a transaction."""
    row = connection.execute(_REQUEST_OF, {"txn_id": txn_id}).one()
    return LockAnswer(LockId(row.id), LockState(row.state), row.blocked_by)


_REQUEST_OF = select(lock_requests.c.id, lock_requests.c.state, lock_requests.c.blocked_by).where(
    lock_requests.c.txn_id == bindparam("txn_id")
)
_COMPONENTS = insert(lock_components)


def _row(lock_id: int, number: int, txn_id: TxnId, component: LockComponent) -> dict[str, object]:
    return {
        "request_id": lock_id,
        "number": number,
        "txn_id": txn_id,
        "type": component.type.value,
        "database_name": component.database,
        "table_name": component.table,
        "partition_name": component.partition,
    }


_ENQUEUE = insert(lock_requests).values(
    txn_id=bindparam("txn_id"), state=bindparam("state"), blocked_by=bindparam("blocked_by")
)
_ENQUEUE_GRANTED = _ENQUEUE.values(acquired_at=NOW)


def keys_of(components: Sequence[LockComponent]) -> Mapping[str, bool]:
    """Return keys for ``Dialect.serialise``: two requests that may have to wait for each other have one in common.

    A lock on a database can conflict with all locks in it, a lock on a table or partition only with those of the table.
    Compatible types share the key.
    """
    keys: dict[str, bool] = {}
    for component in components:
        exclusive = component.type not in _MUTUAL
        database = f"lock {component.database}"
        keys[database] = keys.get(database, False) or (exclusive and component.on_database)
        if component.table is not None:
            table = f"lock {component.database}\0{component.table}"
            keys[table] = keys.get(table, False) or exclusive
    return keys


_REQUEST = (
    select(lock_requests.c.state, lock_requests.c.blocked_by, lock_components)
    .join(lock_components, lock_components.c.request_id == lock_requests.c.id)
    .where(lock_requests.c.id == bindparam("lock_id"))
    .order_by(lock_components.c.number)
)
_STILL = (
    update(lock_requests)
    .where(lock_requests.c.id == bindparam("lock_id"))
    .values(state=bindparam("to"), blocked_by=bindparam("by"))
)
_GRANT = _STILL.values(acquired_at=NOW)


def _unlock(connection: Connection, lock_id: LockId) -> None:
    row = connection.execute(_OWNER, {"lock_id": lock_id}).one_or_none()
    if row is None:
        return
    if row.state == LockState.ACQUIRED.value and row.wrote:
        raise refusals.lock_in_use(lock_id, TxnId(row.txn_id))
    fire(LOCK, row.state, "withdraw")
    connection.execute(delete(lock_requests).where(lock_requests.c.id == lock_id))


_OWNER = (
    select(
        lock_requests.c.state,
        lock_requests.c.txn_id,
        or_(
            select(written.c.txn_id).where(written.c.txn_id == lock_requests.c.txn_id).exists(),
            select(write_ids.c.txn_id).where(write_ids.c.txn_id == lock_requests.c.txn_id).exists(),
        ).label("wrote"),
    )
    .join(txns, txns.c.id == lock_requests.c.txn_id)
    .where(lock_requests.c.id == bindparam("lock_id"))
    .with_for_update(of=txns)
)


def _blocker(
    connection: Connection, txn_id: TxnId, requested: Sequence[LockComponent], before: LockId | None
) -> HeldLock | None:
    """Read the locks that may block the request, as few as possible, and apply the lock rule to them."""
    whole_database = any(component.on_database for component in requested)
    parameters = {
        "txn_id": txn_id,
        "before": before or _NO_LIMIT,
        "types": sorted({kind.value for component in requested for kind in WAITS_FOR[component.type]}),
        "databases": sorted({component.database for component in requested}),
    }
    if whole_database:
        rows = connection.execute(_IN_DATABASES, parameters)
    else:
        parameters["names"] = sorted(
            {component.table for component in requested if component.table is not None}
        )
        rows = connection.execute(_ON_TABLES, parameters)
    earlier = [
        HeldLock(LockId(row.request_id), row.number, TxnId(row.txn_id), _component(row)) for row in rows
    ]
    return first_blocking_lock(txn_id, requested, earlier)


_NO_LIMIT = 2**62
_IN_DATABASES = select(lock_components).where(
    lock_components.c.database_name.in_(bindparam("databases", expanding=True)),
    lock_components.c.type.in_(bindparam("types", expanding=True)),
    lock_components.c.txn_id != bindparam("txn_id", type_=BigInteger),
    lock_components.c.request_id < bindparam("before", type_=BigInteger),
)
_ON_TABLES = _IN_DATABASES.where(
    or_(
        lock_components.c.table_name.is_(None),
        lock_components.c.table_name.in_(bindparam("names", expanding=True)),
    )
)


def _component(row: Any) -> LockComponent:
    return LockComponent(LockType(row.type), row.database_name, row.table_name, row.partition_name)
