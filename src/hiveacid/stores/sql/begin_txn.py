"""Opening a transaction with its lock, snapshot, write-id lists and write ids: all or nothing, in one go."""

from __future__ import annotations

from typing import Any

from sqlalchemy import Connection

from hiveacid.core.locks import LockState
from hiveacid.core.model import TableName, WriteId
from hiveacid.ports import Begun, Client, Start, TxnKind
from hiveacid.stores import checks
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql import quick
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.lock import enqueue, keys_of
from hiveacid.stores.sql.open_txns import insert_txns, opening
from hiveacid.stores.sql.snapshots import look, note_moment, settled, txn_list
from hiveacid.stores.sql.write_ids import give, lists


def begin_txn(database: Database, limits: Limits, client: Client, start: Start, kind: TxnKind) -> Begun:
    """Open a transaction and take what its first statement needs."""
    checks.start(start, kind)
    parameters = opening(database, limits, client, 1, kind)

    if database.dialect.pipelines and quick.can_begin(start):
        found = database.once(
            lambda connection: quick.begin(connection, database.dialect, start, parameters), twice=True
        )
        if found is not None:
            begun, row = found
            if row.moment != row.sequence:  # somebody committed changes between the two statements
                database.write(lambda connection: note_moment(connection, begun.txn_id, row.sequence))
            return _finished(database, begun, row)

    def work(connection: Connection) -> tuple[Begun, Any]:
        if start.locks:
            database.dialect.serialise(connection, keys_of(start.locks))
        (txn_id,) = insert_txns(database, connection, parameters)
        answer = enqueue(database, connection, txn_id, start.locks) if start.locks else None
        if answer is not None and answer.state is LockState.WAITING:
            return Begun(txn_id, answer), None
        row = look(database, connection, txn_id)
        if row.moment != row.sequence:
            note_moment(connection, txn_id, row.sequence)
        snapshot = txn_list(row)
        found = lists(connection, snapshot, start.tables)
        given: dict[TableName, WriteId] = {}
        for table in dict.fromkeys(start.writes):
            given[table] = give(database, connection, [txn_id], table)[txn_id]
        return Begun(txn_id, answer, snapshot, found, given), row

    durability = Durability.FULL if start.writes else Durability.WITH_CLIENT
    return _finished(database, *database.write(work, durability, twice=True))


def _finished(database: Database, begun: Begun, row: Any) -> Begun:
    """Do what need not be in the same transaction."""
    if row is not None:
        settled(database, row)
    return begun
