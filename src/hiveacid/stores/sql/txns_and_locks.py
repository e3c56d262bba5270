"""Rows of transactions and the queue of their locks (``OpenTxnsFunction``, ``EnqueueLockFunction``, ``CheckLockFunction``).

Transactions are opened, locked and ended here, and their ids raised. Lock requests are served by id, by the rules of
:mod:`hiveacid.core.transactions.locks_and_conflicts`. On a server, two requests that may conflict are enqueued one after the
other (:func:`keys_of`), so that the later one sees the earlier. Requests that cannot conflict are not held up.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count as attempt_numbers
from typing import Any, TypedDict

from sqlalchemy import (
    CTE,
    BigInteger,
    BindParameter,
    Connection,
    Delete,
    FromClause,
    Insert,
    Select,
    String,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import LockId, TxnId
from hiveacid.core.transactions.locks_and_conflicts import (
    WAITS_FOR,
    HeldLock,
    LockComponent,
    LockState,
    LockType,
    first_blocking_lock,
)
from hiveacid.core.transactions.states import LOCK, TRANSACTION, TransactionState, fire
from hiveacid.ports.transactions import Client, LockAnswer, LockRow, TxnKind
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.dialects.dialect import NamedRow
from hiveacid.stores.sql.schema import (
    COMMIT_SEQUENCE,
    COMMITTED,
    OPEN,
    SETTLED,
    counters,
    lock_components,
    lock_requests,
    txns,
    write_ids,
    written,
)

_STATE = select(
    txns.c.id, txns.c.state, txns.c.kind, txns.c.reason, txns.c.code, txns.c.mark
).with_for_update()
_ONE = _STATE.where(txns.c.id == bindparam("txn_id"))
_SOME = _STATE.where(txns.c.id.in_(bindparam("ids", expanding=True))).order_by(txns.c.id)


def lock_open_txns(
    database: Database, connection: Connection, txn_ids: Sequence[TxnId]
) -> Sequence[NamedRow]:
    """Lock and return the rows of transactions that must be open, so that they cannot end; raise if one is not open."""
    if len(txn_ids) == 1:
        return _require_open(database, txn_ids, connection.execute(_ONE, {"txn_id": txn_ids[0]}).all())
    rows: list[NamedRow] = []
    for chunk in chunks(sorted(set(txn_ids))):
        rows += _require_open(database, chunk, connection.execute(_SOME, {"ids": chunk}).all())
    return rows


def _require_open(
    database: Database, txn_ids: Sequence[TxnId], rows: Sequence[NamedRow]
) -> Sequence[NamedRow]:
    rows_by_id = {row.id: row for row in rows}
    for txn_id in txn_ids:
        row = rows_by_id.get(txn_id)
        if row is None or database.own_txns.is_foreign(txn_id, row.mark):
            raise refusals.not_open(txn_id, TransactionState.UNKNOWN)
        if row.state != TRANSACTION.start:
            raise refusals.not_open(txn_id, row.state, row.reason, row.code)
    return rows


def lock_writing_txns(database: Database, connection: Connection, txn_ids: Sequence[TxnId]) -> None:
    """Lock as :func:`lock_open_txns`, and refuse read-only transactions."""
    for row in lock_open_txns(database, connection, txn_ids):
        if row.kind == TxnKind.READ_ONLY.value:
            raise refusals.read_only(row.id)


_END = update(txns).values(
    state=bindparam("to"), ended=NOW, reason=bindparam("why"), code=bindparam("why_code")
)
END_ONE = _END.where(txns.c.id == bindparam("txn_id", type_=BigInteger))
_END_SOME = _END.where(txns.c.id.in_(bindparam("ids", expanding=True)))


def release_locks_of(txn_id: ColumnElement[int]) -> Delete:
    """Return the statement that withdraws a transaction's lock requests."""
    return delete(lock_requests).where(lock_requests.c.txn_id == txn_id)


_RELEASE_ONE = release_locks_of(bindparam("txn_id"))
_RELEASE_SOME = delete(lock_requests).where(lock_requests.c.txn_id.in_(bindparam("ids", expanding=True)))


def end_txns(
    connection: Connection,
    txn_ids: Sequence[TxnId],
    event: str,
    now: int | None,
    reason: str | None = None,
    code: str | None = None,
) -> None:
    """End open transactions whose rows are locked, by an event of ``core.transactions.states``, and release their locks."""
    state = fire(TRANSACTION, TRANSACTION.start, event)
    parameters: dict[str, object] = {"to": state, "now": now, "why": reason, "why_code": code}
    if len(txn_ids) == 1:
        connection.execute(END_ONE, parameters | {"txn_id": txn_ids[0]})
        connection.execute(_RELEASE_ONE, {"txn_id": txn_ids[0]})
        return
    for chunk in chunks(txn_ids):
        connection.execute(_END_SOME, parameters | {"ids": chunk})
        connection.execute(_RELEASE_SOME, {"ids": chunk})


HAS_STOPPED: ColumnElement[bool] = and_(txns.c.code.is_not(None), txns.c.code != refusals.TIME_OUT)
"""The SQL condition that the writer of an aborted transaction has stopped (``Remains``)."""


def is_open(alias_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the SQL condition that the transaction of this id is open."""
    return select(txns.c.id).where(txns.c.id == alias_id, txns.c.state == OPEN).exists()


def counter_value(name: str) -> ColumnElement[int]:
    """Return the SQL expression for a counter's value."""
    return select(counters.c.value).where(counters.c.name == name).scalar_subquery()


LOWEST_OPEN: ColumnElement[int] = select(func.min(txns.c.id)).where(txns.c.state == OPEN).scalar_subquery()
TOP: ColumnElement[int] = select(func.coalesce(func.max(txns.c.id), 0)).scalar_subquery()


class OpenTxns(SqlBase):
    """Methods that open transactions and raise their ids."""

    def open_txns(self, client: Client, count: int = 1, kind: TxnKind = TxnKind.DEFAULT) -> tuple[TxnId, ...]:
        """Open transactions.

        Each transaction records the commit sequence and the lowest open id, so that housekeeping keeps the rows it needs.
        """
        database, sent, limits = self._database, self._clock.now(), self._limits
        parameters, attempts = open_parameters(database, limits, client, count, kind), attempt_numbers()

        def work(connection: Connection) -> tuple[TxnId, ...]:
            opened = find_opened(connection, parameters) if next(attempts) else ()
            return opened or insert_txns(database, connection, parameters)

        if database.dialect.has_txn_id_counter:
            opened = database.write(work, repeatable=True)
        else:
            opened = database.write_statement(work, Durability.WITH_CLIENT, repeatable=True)
        database.retry_deadlines.opened(opened, limits.txn_timeout, sent)
        database.own_txns.opened(opened, parameters["mark"])
        return opened

    def seed_txns(self, high_watermark: TxnId) -> None:
        """Make later ids higher than ``high_watermark``; the skipped ids count as committed."""
        refusals.seedable(high_watermark)
        self._database.write(lambda connection: _seed(self._database, connection, high_watermark))


class OpenParameters(TypedDict):
    """Parameters of `insert_txns`. ``mark``: from it a repeated call finds the transactions that it has opened."""

    count: int
    kind: str
    user: str
    host: str
    agent: str
    timeout: int
    limit: int
    now: int | None
    mark: str


def open_parameters(
    database: Database, limits: Limits, client: Client, count: int, kind: TxnKind
) -> OpenParameters:
    """Return the parameters of :func:`insert_txns`. Raises ConfigError, CatalogError."""
    refusals.client(client)
    refusals.open_count(count, limits)
    return {
        "count": count,
        "kind": kind.value,
        "user": client.user,
        "host": client.host,
        "agent": client.agent,
        "timeout": int(limits.txn_timeout * 1000),
        "limit": limits.max_open_txns,
        "now": database.now(),
        "mark": uuid.uuid4().hex,
    }


def find_opened(connection: Connection, parameters: OpenParameters) -> tuple[TxnId, ...]:
    """Return the transactions that an earlier attempt with these parameters has opened; its answer was lost."""
    marks = [f"{parameters['mark']}-{number}" for number in range(1, parameters["count"] + 1)]
    rows = [row for chunk in chunks(marks) for row in connection.execute(_MARKED, {"marks": chunk})]
    for row in rows:
        if row.state != TRANSACTION.start:
            raise refusals.not_open(TxnId(row.id), row.state, row.reason, row.code)
    return tuple(sorted(TxnId(row.id) for row in rows))


_MARKED = select(txns.c.id, txns.c.state, txns.c.reason, txns.c.code).where(
    txns.c.mark.in_(bindparam("marks", expanding=True))
)


def insert_txns(database: Database, connection: Connection, parameters: OpenParameters) -> tuple[TxnId, ...]:
    """Insert open transactions. Raises TransactionError beyond hive.max.open.txns."""
    dialect = database.dialect
    if dialect.has_txn_id_counter:
        first = dialect.take_txn_ids(connection, parameters["count"])
        statement = insert_open_txns(_numbers(), gaps=False, counted=True)
        result = connection.execute(statement, {**parameters, "first": first})
        txn_ids = list(range(first, first + result.rowcount))
    else:
        statement = insert_open_txns(_numbers(), gaps=dialect.ids_may_gap)
        txn_ids = dialect.insert_ids(connection, statement, parameters)
    if not txn_ids:
        raise refusals.too_many_open(parameters["limit"])
    return tuple(map(TxnId, txn_ids))


@cache
def insert_open_txns(
    numbers: FromClause, *conditions: ColumnElement[bool], gaps: bool, counted: bool = False
) -> Insert:
    """Return the INSERT statement of a transaction for each of ``numbers``, if all ``conditions`` hold.

    ``gaps``: ids above the counter SETTLED may belong to open transactions whose rows are not visible yet. ``counted``: ids
    follow each other from the parameter ``first`` on.
    """
    lowest: ColumnElement[int] = func.coalesce(LOWEST_OPEN, TOP + 1)
    if gaps:
        settled = counter_value(SETTLED)
        lowest = case((lowest > settled, settled + 1), else_=lowest)
    values: dict[str, ColumnElement[Any]] = {
        "kind": bindparam("kind"),
        "state": OPEN,
        "started": NOW,
        "heartbeat": NOW,
        "timeout": bindparam("timeout", type_=BigInteger),
        "moment": counter_value(COMMIT_SEQUENCE),
        "min_open": lowest,
        "user_name": bindparam("user"),
        "host": bindparam("host"),
        "agent": bindparam("agent"),
    }
    open_count: ColumnElement[int] = (
        select(func.count()).select_from(txns).where(txns.c.state == OPEN).scalar_subquery()
    )
    fits = open_count + bindparam("count", type_=BigInteger) <= bindparam("limit", type_=BigInteger)
    values["mark"] = bindparam("mark", type_=String) + "-" + cast(numbers.c.n, String)
    if counted:
        values["id"] = bindparam("first", type_=BigInteger) + numbers.c.n - 1
    rows = select(*values.values()).select_from(numbers).where(fits, *conditions)
    return insert(txns).from_select(list(values), rows)


@cache
def _numbers() -> CTE:
    """Return a query of the numbers from 1 to the parameter ``count``."""
    first = select(literal(1).label("n")).cte("numbers", recursive=True)
    next_numbers = select(first.c.n + 1).where(first.c.n < bindparam("count", type_=BigInteger))
    return first.union_all(next_numbers)


def _seed(database: Database, connection: Connection, high_watermark: TxnId) -> None:
    database.dialect.block_opens(connection)
    if connection.scalars(select(TOP)).one() >= high_watermark:
        return
    row = {
        "id": high_watermark,
        "kind": TxnKind.DEFAULT.value,
        "state": COMMITTED,
        "started": NOW,
        "heartbeat": NOW,
        "timeout": 0,
        "ended": NOW,
        "moment": counter_value(COMMIT_SEQUENCE),
        "min_open": high_watermark,
        "user_name": "",
        "host": "",
        "agent": "",
    }
    connection.execute(insert(txns).values(row), {"now": database.now()})
    database.dialect.advance_txn_id_sequence(connection, high_watermark)
    connection.execute(update(counters).where(counters.c.name == SETTLED).values(value=high_watermark))


_MUTUAL = frozenset(
    one for one in LockType if not WAITS_FOR[one] & {LockType.SHARED_READ, LockType.SHARED_WRITE}
)
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
_Choice = BindParameter[Any] | Sequence[ColumnElement[Any]]


def held_in_databases(types: _Choice, databases: _Choice) -> Select[Any]:
    """Return the query of the locks of these types in databases; the rule of core is applied to them."""
    return select(lock_components).where(
        lock_components.c.database_name.in_(databases), lock_components.c.type.in_(types)
    )


def on_tables(held: Select[Any], names: _Choice) -> Select[Any]:
    """Restrict the query to locks on the tables, and on whole databases."""
    return held.where(or_(lock_components.c.table_name.is_(None), lock_components.c.table_name.in_(names)))


_IN_DATABASES = held_in_databases(
    bindparam("types", expanding=True), bindparam("databases", expanding=True)
).where(
    lock_components.c.txn_id != bindparam("txn_id", type_=BigInteger),
    lock_components.c.request_id < bindparam("before", type_=BigInteger),
)
_ON_TABLES = on_tables(_IN_DATABASES, bindparam("names", expanding=True))


def _component(row: NamedRow) -> LockComponent:
    return LockComponent(LockType(row.type), row.database_name, row.table_name, row.partition_name)
