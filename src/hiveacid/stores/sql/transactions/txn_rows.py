"""Rows of single transactions: locking, ending, and conditions on them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, and_, bindparam, delete, select, update
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import TRANSACTION, TransactionState, fire
from hiveacid.ports.transactions import TxnKind
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import NOW, Database, chunks
from hiveacid.stores.sql.schema import OPEN, lock_requests, txns

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
