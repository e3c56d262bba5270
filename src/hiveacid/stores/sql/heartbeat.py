"""Signs of life (``HeartbeatTxnFunction``)."""

from __future__ import annotations

from collections.abc import Sequence

from sqlalchemy import BigInteger, bindparam, select, update

from hiveacid.core.model import TxnId
from hiveacid.ports import HeartbeatAnswer
from hiveacid.stores.sql.database import Database, chunks
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.rows import NOW
from hiveacid.stores.sql.tables import OPEN, txns

_IDS = bindparam("ids", expanding=True, type_=BigInteger)
_BEAT = update(txns).where(txns.c.id.in_(_IDS), txns.c.state == OPEN).values(heartbeat=NOW)
_STATES = select(txns.c.id, txns.c.state).where(txns.c.id.in_(_IDS))


def heartbeat(database: Database, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
    """Note the time; tell which of the transactions are no longer open."""
    aborted: list[TxnId] = []
    missing: list[TxnId] = []
    for some in chunks(sorted(set(txn_ids))):
        if _beat(database, some) == len(some):
            continue
        states = _states(database, some)
        aborted += [txn_id for txn_id in some if states.get(txn_id) == "aborted"]
        missing += [txn_id for txn_id in some if states.get(txn_id) in (None, "committed")]
    return HeartbeatAnswer(tuple(aborted), tuple(missing))


def _beat(database: Database, txn_ids: Sequence[TxnId]) -> int:
    parameters = {"ids": txn_ids, "now": database.now()}
    return database.once(
        lambda connection: connection.execute(_BEAT, parameters).rowcount, Durability.HARMLESS
    )


def _states(database: Database, txn_ids: Sequence[TxnId]) -> dict[int, str]:
    rows = database.read(lambda connection: connection.execute(_STATES, {"ids": txn_ids}).all())
    return {row.id: row.state for row in rows}
