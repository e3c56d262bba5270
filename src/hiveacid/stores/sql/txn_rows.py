"""Rows of transactions: opening them, and raising the ids (``OpenTxnsFunction``); locking, ending, and conditions on them."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count as attempt_numbers
from typing import Any

from sqlalchemy import (
    CTE,
    BigInteger,
    Connection,
    Insert,
    String,
    and_,
    bindparam,
    case,
    cast,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import TRANSACTION, TransactionState, fire
from hiveacid.ports.transactions import Client, TxnKind
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, Database, SqlBase, chunks
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import (
    COMMIT_SEQUENCE,
    COMMITTED,
    OPEN,
    SETTLED,
    counters,
    lock_requests,
    txns,
)

_STATE = select(
    txns.c.id, txns.c.state, txns.c.kind, txns.c.reason, txns.c.code, txns.c.mark
).with_for_update()
_ONE = _STATE.where(txns.c.id == bindparam("txn_id"))
_SOME = _STATE.where(txns.c.id.in_(bindparam("ids", expanding=True))).order_by(txns.c.id)


def lock_open_txns(database: Database, connection: Connection, txn_ids: Sequence[TxnId]) -> Sequence[Any]:
    """Lock and return the rows of transactions that must be open, so that they cannot end; raise if one is not open."""
    if len(txn_ids) == 1:
        return _require_open(database, txn_ids, connection.execute(_ONE, {"txn_id": txn_ids[0]}).all())
    rows: list[Any] = []
    for chunk in chunks(sorted(set(txn_ids))):
        rows += _require_open(database, chunk, connection.execute(_SOME, {"ids": chunk}).all())
    return rows


def _require_open(database: Database, txn_ids: Sequence[TxnId], rows: Sequence[Any]) -> Sequence[Any]:
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
_END_ONE = _END.where(txns.c.id == bindparam("txn_id"))
_END_SOME = _END.where(txns.c.id.in_(bindparam("ids", expanding=True)))
_RELEASE_ONE = delete(lock_requests).where(lock_requests.c.txn_id == bindparam("txn_id"))
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
        connection.execute(_END_ONE, parameters | {"txn_id": txn_ids[0]})
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


def open_parameters(
    database: Database, limits: Limits, client: Client, count: int, kind: TxnKind
) -> dict[str, Any]:
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


def find_opened(connection: Connection, parameters: Mapping[str, Any]) -> tuple[TxnId, ...]:
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


def insert_txns(
    database: Database, connection: Connection, parameters: Mapping[str, Any]
) -> tuple[TxnId, ...]:
    """Insert open transactions. Raises TransactionError beyond hive.max.open.txns."""
    dialect = database.dialect
    if dialect.has_txn_id_counter:
        first = dialect.take_txn_ids(connection, parameters["count"])
        result = connection.execute(
            _insert_open_txns(gaps=False, counted=True), {**parameters, "first": first}
        )
        txn_ids = list(range(first, first + result.rowcount))
    else:
        txn_ids = dialect.insert_ids(connection, _insert_open_txns(gaps=dialect.ids_may_gap), parameters)
    if not txn_ids:
        raise refusals.too_many_open(parameters["limit"])
    return tuple(map(TxnId, txn_ids))


@cache
def _insert_open_txns(*, gaps: bool, counted: bool = False) -> Insert:
    """Return the INSERT statement. ``gaps``: ids above the counter SETTLED may belong to open transactions whose rows are not visible yet.

    ``counted``: ids follow each other from the parameter ``first`` on.
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
    numbers = _numbers()
    values["mark"] = bindparam("mark", type_=String) + "-" + cast(numbers.c.n, String)
    if counted:
        values["id"] = bindparam("first", type_=BigInteger) + numbers.c.n - 1
    rows = select(*values.values()).select_from(numbers).where(fits)
    return insert(txns).from_select(list(values), rows)


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
