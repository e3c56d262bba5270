"""Heartbeats (``HeartbeatTxnFunction``)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, bindparam, select, update

from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.transactions import HeartbeatAnswer
from hiveacid.stores.sql.database import Database, chunks
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import OPEN, txns
from hiveacid.stores.sql.transactions.txn_rows import NOW

_IDS = bindparam("ids", expanding=True, type_=BigInteger)
_BEAT = update(txns).where(txns.c.id.in_(_IDS), txns.c.state == OPEN).values(heartbeat=NOW)
_STATES = select(txns.c.id, txns.c.state).where(txns.c.id.in_(_IDS))


def heartbeat(database: Database, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
    """Record the time; return which of the transactions are no longer open."""
    aborted: list[TxnId] = []
    missing: list[TxnId] = []
    for some in chunks(sorted(set(txn_ids))):
        if _beat(database, some) == len(some):
            continue
        states = _states(database, some)
        aborted += [txn_id for txn_id in some if states.get(txn_id) == TransactionState.ABORTED]
        missing += [txn_id for txn_id in some if states.get(txn_id) in (None, TransactionState.COMMITTED)]
    return HeartbeatAnswer(tuple(aborted), tuple(missing))


def _beat(database: Database, txn_ids: Sequence[TxnId]) -> int:
    parameters = {"ids": txn_ids, "now": database.now()}
    return database.write_statement(
        lambda connection: connection.execute(_BEAT, parameters).rowcount, Durability.HARMLESS
    )


def _states(database: Database, txn_ids: Sequence[TxnId]) -> dict[int, str]:
    rows = database.read(lambda connection: connection.execute(_STATES, {"ids": txn_ids}).all())
    return {row.id: row.state for row in rows}
