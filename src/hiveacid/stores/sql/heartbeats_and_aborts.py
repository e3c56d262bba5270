"""Heartbeats, aborts, time-outs, and write ids of aborted transactions until their files are cleaned.

After Hive's ``HeartbeatTxnFunction``, ``AbortTxnsFunction`` and ``MarkCleanedFunction``.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, bindparam, delete, func, or_, select, update

from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.errors import StorePermissionError
from hiveacid.ports.transactions import HeartbeatAnswer, Remains
from hiveacid.stores import refusals
from hiveacid.stores.sql import compaction_queue
from hiveacid.stores.sql.catalog import require_table
from hiveacid.stores.sql.database import ARE_OWN, NOW, Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import (
    ABORTED,
    OPEN,
    is_of_same_table,
    is_of_table,
    table_parameters,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.txn_rows import HAS_STOPPED, end_txns

_BEAT = update(txns).where(ARE_OWN, txns.c.state == OPEN).values(heartbeat=NOW)
_STATES = select(txns.c.id, txns.c.state).where(ARE_OWN)
_OPEN_ONES = select(txns.c.id).where(ARE_OWN, txns.c.state == OPEN).order_by(txns.c.id).with_for_update()
_IS_SILENT = and_(txns.c.state == OPEN, txns.c.heartbeat + txns.c.timeout < NOW)
_SILENT = select(txns.c.id, txns.c.timeout).where(_IS_SILENT).order_by(txns.c.id).with_for_update()


class AbortTxns(SqlBase):
    """Methods for heartbeats, aborts, and remains of aborted transactions."""

    def heartbeat(self, txn_ids: Sequence[TxnId]) -> HeartbeatAnswer:
        """Record the time of the heartbeat; return the transactions that are no longer open."""
        database, sent = self._database, self._clock.now()
        aborted: list[TxnId] = []
        missing: list[TxnId] = []
        for chunk in chunks(sorted(set(txn_ids))):
            if _beat(database, chunk) == len(chunk):
                continue
            states = _states(database, chunk)
            aborted += [txn_id for txn_id in chunk if states.get(txn_id) == TransactionState.ABORTED]
            ended_states = None, TransactionState.COMMITTED
            missing += [txn_id for txn_id in chunk if states.get(txn_id) in ended_states]
        database.retry_deadlines.record_heartbeat(set(txn_ids) - {*aborted, *missing}, sent)
        # their marks stay: the owner aborts them
        database.retry_deadlines.ended([*aborted, *missing])
        return HeartbeatAnswer(tuple(aborted), tuple(missing))

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        """Abort the open transactions among ``txn_ids`` and return them."""

        def work(connection: Connection) -> tuple[TxnId, ...]:
            own = [self._database.own_txns.parameters(chunk) for chunk in chunks(sorted(set(txn_ids)))]
            open_ids: list[TxnId] = []
            for parameters in own:
                open_ids += map(TxnId, connection.scalars(_OPEN_ONES, parameters))
            end_txns(connection, open_ids, "abort", self._database.now(), refusals.storable_text(reason))
            if remains is not Remains.UNKNOWN:
                for parameters in own:
                    for statement in (_STOPPED, *(_DELETE_TRACES if remains is Remains.NOTHING else ())):
                        connection.execute(statement, parameters)
            return tuple(open_ids)

        aborted = write_exactly_once(self._database, work, Durability.WITH_CLIENT)
        self._database.retry_deadlines.ended(txn_ids)
        self._database.own_txns.ended(txn_ids)
        return aborted

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        """Abort transactions without a recent heartbeat and return them; their compactions are queued again or fail.

        Each transaction has the timeout of the client that opened it. With a database role that may not abort, nothing
        happens.
        """
        now = self._database.now()
        parameters = {"now": now}

        def work(connection: Connection) -> tuple[TxnId, ...]:
            timed_out: dict[int, list[TxnId]] = defaultdict(list)
            for row in connection.execute(_SILENT, parameters):
                timed_out[row.timeout].append(TxnId(row.id))
            for timeout, txn_ids in timed_out.items():
                reason = refusals.timed_out(timeout / 1000)
                end_txns(connection, txn_ids, "time out", now, reason, refusals.TIME_OUT)
                compaction_queue.requeue_or_fail_lost_jobs(connection, self._limits, txn_ids, reason, now)
            return tuple(sorted(txn_id for txn_ids in timed_out.values() for txn_id in txn_ids))

        if not self._database.read(lambda connection: connection.scalars(_ANY_SILENT, parameters).first()):
            return ()
        try:
            return self._database.write(work, Durability.WITH_CLIENT)
        except StorePermissionError:  # a role that only reads: writers and services do it
            return ()

    def aborted_write_ids(self, table: TableName, *, may_come: bool = False) -> tuple[WriteId, ...]:
        """Return write ids of aborted transactions that were not cleaned yet."""
        refusals.table_name(table)
        key, statement = table_parameters(table), _IDS_THAT_MAY_COME if may_come else _ABORTED_IDS
        ids = self._database.read(lambda connection: connection.scalars(statement, key).all())
        return tuple(map(WriteId, ids))

    def forget_aborted(
        self,
        table: TableName,
        partition: str | None,
        up_to: WriteId,
        before: TxnId | None = None,
        seen: TableDefinition | None = None,
    ) -> None:
        """Record that the files of aborted transactions in a partition, or (None) in the table, are removed.

        A write id stays until every partition that was recorded for it is cleaned. A write id without recorded partitions
        stays until the whole table is cleaned. After an interruption the same call goes on, as each portion of ids is a
        transaction of its own.
        """
        refusals.table_name(table)
        refusals.partition_name(partition)
        key = table_parameters(table) | {"up_to": up_to, "before": _NO_LIMIT if before is None else before}
        if not self._database.read(lambda connection: connection.scalar(_ANY_TRACE, key)):
            return
        reached = 0
        while reached < up_to:
            portion = partial(_forget_portion, self._database, key | {"reached": reached}, partition, seen)
            reached = self._database.write(portion)


def _beat(database: Database, txn_ids: Sequence[TxnId]) -> int:
    parameters = {**database.own_txns.parameters(txn_ids), "now": database.now()}
    return database.write_statement(
        lambda connection: connection.execute(_BEAT, parameters).rowcount, Durability.WITH_CLIENT
    )


def _states(database: Database, txn_ids: Sequence[TxnId]) -> dict[int, str]:
    parameters = database.own_txns.parameters(txn_ids)
    rows = database.read(lambda connection: connection.execute(_STATES, parameters).all())
    return {row.id: row.state for row in rows}


_ANY_SILENT = select(txns.c.id).where(_IS_SILENT).limit(1)

_ABORTED = or_(
    write_ids.c.txn_id.is_(None),
    select(txns.c.id).where(txns.c.id == write_ids.c.txn_id, txns.c.state == ABORTED).exists(),
)
_ON_TABLE = is_of_table(write_ids)
_ABORTED_IDS = select(write_ids.c.write_id).where(_ON_TABLE, _ABORTED).order_by(write_ids.c.write_id)
_PORTION = 2000  # ids: more in one transaction take longer than a client waits for a server
_END_OF_PORTION = (
    _ABORTED_IDS.where(
        write_ids.c.write_id > bindparam("reached", type_=BigInteger),
        write_ids.c.write_id < bindparam("up_to", type_=BigInteger),
    )
    .offset(_PORTION - 1)
    .limit(1)
)
_STOPPED_WRITER = select(txns.c.id).where(txns.c.id == write_ids.c.txn_id, HAS_STOPPED)
_IDS_THAT_MAY_COME = _ABORTED_IDS.where(~_STOPPED_WRITER.exists())
_ARE_ABORTED = and_(ARE_OWN, txns.c.state == ABORTED)
_STOPPED = (
    update(txns)
    .where(_ARE_ABORTED, or_(txns.c.code.is_(None), txns.c.code == refusals.TIME_OUT))
    .values(code=refusals.STOPPED)
)
_DELETE_TRACES = tuple(
    delete(traces).where(traces.c.txn_id.in_(select(txns.c.id).where(_ARE_ABORTED)))
    for traces in (write_ids, written)
)
_NO_LIMIT = 2**62


def _forget_portion(
    database: Database,
    key: dict[str, Any],
    partition: str | None,
    seen: TableDefinition | None,
    connection: Connection,
) -> int:
    """Forget the next ids after ``reached``; return the last of them, ``up_to`` if these were all."""
    if seen is not None:
        require_table(database, connection, seen.name, seen)
    end: int = connection.scalar(_END_OF_PORTION, key) or key["up_to"]
    key = key | {"up_to": end}
    traces: dict[int, set[str | None]] = defaultdict(set)
    for row in connection.execute(_WRITTEN_BY_ABORTED, key):
        traces[row.txn_id].add(row.partition_name)
    cleaned = sorted(txn_id for txn_id, places in traces.items() if partition is None or partition in places)
    for chunk in chunks(cleaned):
        parameters = {**key, "ids": chunk, "partition": partition}
        connection.execute(_DELETE_WRITTEN if partition is None else _DELETE_WRITTEN_IN_PARTITION, parameters)
    if partition is None:
        connection.execute(_DELETE_WRITE_IDS, key)
    for chunk in chunks(txn_id for txn_id in cleaned if traces[txn_id] == {partition}):
        connection.execute(_DELETE_WRITE_IDS_OF_TXNS, {**key, "ids": chunk})
    return end


# at most one; with min() PostgreSQL looks for it from the lowest of the table on
_OWN_ID = (
    select(write_ids.c.write_id)
    .where(write_ids.c.txn_id == written.c.txn_id, is_of_same_table(write_ids, written))
    .scalar_subquery()
)
_WRITTEN_IN_TABLE = is_of_table(written)
_WRITTEN_BY_ABORTED = (
    select(written.c.txn_id, written.c.partition_name)
    .join(txns, txns.c.id == written.c.txn_id)
    .where(
        _WRITTEN_IN_TABLE,
        txns.c.state == ABORTED,
        func.coalesce(written.c.write_id, _OWN_ID) <= bindparam("up_to", type_=BigInteger),
        or_(written.c.operation != "c", written.c.txn_id < bindparam("before", type_=BigInteger)),
    )
)
_DELETE_WRITTEN = delete(written).where(
    _WRITTEN_IN_TABLE,
    written.c.txn_id.in_(bindparam("ids", expanding=True)),
    or_(written.c.write_id.is_(None), written.c.write_id <= bindparam("up_to", type_=BigInteger)),
)
_DELETE_WRITTEN_IN_PARTITION = _DELETE_WRITTEN.where(written.c.partition_name == bindparam("partition"))
_UP_TO = write_ids.c.write_id <= bindparam("up_to", type_=BigInteger)
_ANY_TRACE = select(
    or_(
        select(write_ids.c.write_id).where(_ON_TABLE, _UP_TO, _ABORTED).exists(),
        _WRITTEN_BY_ABORTED.exists(),
    )
)
_DELETE_WRITE_IDS = delete(write_ids).where(_ON_TABLE, _UP_TO, _ABORTED)
_DELETE_WRITE_IDS_OF_TXNS = delete(write_ids).where(
    _ON_TABLE, _UP_TO, write_ids.c.txn_id.in_(bindparam("ids", expanding=True))
)
