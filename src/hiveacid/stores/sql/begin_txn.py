"""Begin: open a transaction with its lock, snapshot, write-id lists and write ids, all or nothing."""

from __future__ import annotations

from itertools import count
from typing import Any

from sqlalchemy import Connection

from hiveacid.core.model import TableName, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.ports.transactions import SNAPSHOT_ONLY, Begun, Client, Start, TxnKind
from hiveacid.stores import refusals
from hiveacid.stores.sql import begin_commit_pipelined
from hiveacid.stores.sql.database import Database, SqlBase
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.lock_queue import enqueue, keys_of, request_of
from hiveacid.stores.sql.snapshots import (
    raise_settled_counter,
    read_snapshot_row,
    record_moment,
    snapshot_of_row,
)
from hiveacid.stores.sql.txn_rows import find_opened, insert_txns, open_parameters
from hiveacid.stores.sql.write_ids import allocate, assign_write_ids, write_id_lists


class BeginTxn(SqlBase):
    """Method that opens a transaction and carries out the requests of its first statement."""

    def begin_txn(
        self, client: Client, start: Start = SNAPSHOT_ONLY, kind: TxnKind = TxnKind.DEFAULT
    ) -> Begun:
        """Open a transaction and carry out the requests of its first statement."""
        refusals.start(start, kind)
        database, sent, limits = self._database, self._clock.now(), self._limits
        parameters = open_parameters(database, limits, client, 1, kind)
        begun, row = _begin(database, start, parameters)
        database.retry_deadlines.opened([begun.txn_id], limits.txn_timeout, sent)
        database.own_txns.opened([begun.txn_id], parameters["mark"])
        if row is not None:  # it need not be in the same transaction
            raise_settled_counter(database, row)
        return begun


def _begin(database: Database, start: Start, parameters: dict[str, Any]) -> tuple[Begun, Any]:
    """Begin by one of the two ways; an attempt that is repeated looks for the transaction of the first one."""
    attempts = count()
    if database.dialect.pipelines and begin_commit_pipelined.can_begin(start):
        outcome = database.write_statement(
            lambda connection: (
                None
                if next(attempts)
                else begin_commit_pipelined.begin(connection, database.dialect, start, parameters)
            ),
            repeatable=True,
        )
        if outcome is not None:
            begun, row = outcome
            if row.moment != row.sequence:  # changes were committed between the two statements
                database.write(lambda connection: record_moment(connection, begun.txn_id, row.sequence))
            return begun, row

    def work(connection: Connection) -> tuple[Begun, Any]:
        if start.locks:
            database.dialect.serialise(connection, keys_of(start.locks))
        earlier = find_opened(connection, parameters) if next(attempts) else ()
        database.own_txns.opened(earlier, parameters["mark"])  # before `allocate`, which compares it
        (txn_id,) = earlier or insert_txns(database, connection, parameters)
        answer = None
        if start.locks:
            answer = (
                request_of(connection, txn_id)
                if earlier
                else enqueue(database, connection, txn_id, start.locks)
            )
        if answer is not None and answer.state is LockState.WAITING:
            return Begun(txn_id, answer), None
        row = read_snapshot_row(database, connection, txn_id)
        if row.moment != row.sequence:
            record_moment(connection, txn_id, row.sequence)
        snapshot = snapshot_of_row(row)
        lists = write_id_lists(connection, snapshot, start.tables)
        allocated: dict[TableName, WriteId] = {}
        for table in dict.fromkeys(start.writes):
            assign = allocate if earlier else assign_write_ids
            allocated[table] = assign(database, connection, [txn_id], table)[txn_id]
        return Begun(txn_id, answer, snapshot, lists, allocated), row

    durability = Durability.FULL if start.writes else Durability.WITH_CLIENT
    return database.write(work, durability, repeatable=True)
