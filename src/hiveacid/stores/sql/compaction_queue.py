"""The compaction queue and its history (``CompactionTxnHandler``); what may follow what is ``core.states``'."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, bindparam, delete, insert, or_, select, update

from hiveacid.core import states
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.states import COMPACTION, fire
from hiveacid.ports import Compaction, CompactionRequest
from hiveacid.stores import checks, refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import Database, chunks
from hiveacid.stores.sql.open_txns import TOP
from hiveacid.stores.sql.rows import NOW, hold, is_open
from hiveacid.stores.sql.tables import compactions, written

_ALL = select(compactions).order_by(compactions.c.id)
_ONE = _ALL.where(compactions.c.id == bindparam("id", type_=BigInteger))


def enqueue_compaction(database: Database, request: CompactionRequest, initiator: str) -> Compaction:
    """Queue a job, unless one for the same place is queued or at work."""
    checks.compaction(request)
    checks.text("the name of the initiator", initiator)
    return database.write(lambda connection: _enqueue(database, connection, request, initiator))


def _enqueue(
    database: Database, connection: Connection, request: CompactionRequest, initiator: str
) -> Compaction:
    database.dialect.serialise(connection, {"compactions": True})
    place = {
        "database_name": request.table.database,
        "table_name": request.table.name,
        "partition_name": request.partition,
    }
    for other in connection.execute(_BUSY, place):
        if other.partition_name == request.partition:
            raise refusals.scheduled(request, other.state, other.id)
    values = {
        **place,
        "kind": request.kind,
        "state": COMPACTION.start,
        "pool": "default",
        "initiator": initiator,
        "enqueued": NOW,
    }
    made = connection.execute(insert(compactions).values(values), {"now": database.now()})
    (number,) = made.inserted_primary_key or (None,)
    return _compaction(connection.execute(_ONE, {"id": number}).mappings().one())


_BUSY = _ALL.where(
    compactions.c.state.in_(("initiated", "working")),
    compactions.c.database_name == bindparam("database_name"),
    compactions.c.table_name == bindparam("table_name"),
)


def claim_compaction(database: Database, worker: str, compaction_id: int | None) -> Compaction | None:
    """Take the oldest job that waits, or that one."""
    checks.text("the name of the worker", worker)

    def work(connection: Connection) -> Compaction | None:
        statement = _NEXT if compaction_id is None else _NEXT.where(compactions.c.id == compaction_id)
        number = connection.scalar(statement)
        if number is None:
            return None
        values = {"state": fire(COMPACTION, COMPACTION.start, "claim"), "worker": worker, "started": NOW}
        _change(connection, number, values, database.now())
        return _compaction(connection.execute(_ONE, {"id": number}).mappings().one())

    return database.write(work)


_NEXT = (
    select(compactions.c.id)
    .where(compactions.c.state == COMPACTION.start)
    .order_by(compactions.c.id)
    .limit(1)
    .with_for_update(skip_locked=True)
)


def start_compaction(database: Database, compaction_id: int, txn_id: TxnId, high_watermark: WriteId) -> None:
    """Note the job's transaction; should it be aborted, it stays so until the cleaner has been there."""

    def work(connection: Connection) -> None:
        one = _held(connection, compaction_id)
        if one.state != "working":
            raise refusals.compaction_not_working(compaction_id, one.state)
        hold(connection, [txn_id])
        _change(connection, compaction_id, {"txn_id": txn_id, "high_watermark": high_watermark}, None)
        trace = {
            "txn_id": txn_id,
            "database_name": one.request.table.database,
            "table_name": one.request.table.name,
            "partition_name": one.request.partition,
            "operation": "c",
            "write_id": high_watermark,
        }
        connection.execute(insert(written), trace)

    database.write(work)


def end_compaction(
    database: Database, compaction_id: int, state: str, error: str | None, next_txn_id: TxnId | None
) -> None:
    """Move a job on."""

    def work(connection: Connection) -> None:
        one = _held(connection, compaction_id)
        to = states.end_compaction(one.state, state)
        values: dict[str, object] = {"state": to, "error": checks.said(error)}
        if to in COMPACTION.final_states:
            values["ended"] = NOW
        if next_txn_id is not None:
            values["next_txn_id"] = next_txn_id
        if to == "ready for cleaning" and one.txn_id is None:
            values["commit_time"] = NOW
            if next_txn_id is None and one.next_txn_id is None:
                database.dialect.block_opens(connection)
                values["next_txn_id"] = TOP + 1
        _change(connection, compaction_id, values, database.now())

    database.write(work)


def show_compactions(database: Database) -> tuple[Compaction, ...]:
    """List queue and history by id."""
    rows = database.read(lambda connection: connection.execute(_ALL).mappings().all())
    return tuple(_compaction(row) for row in rows)


def committed(connection: Connection, txn_id: TxnId, now: int | None) -> None:
    """Note that a job's transaction commits: its directories are visible, the cleaner knows whom to wait for."""
    for row in connection.execute(_OF_TXNS, {"ids": [txn_id]}).mappings().all():
        values = {
            "state": fire(COMPACTION, row["state"], "finish"),
            "next_txn_id": TOP + 1,
            "commit_time": NOW,
        }
        _change(connection, row["id"], values, now)


def lost(connection: Connection, txn_ids: Sequence[TxnId], reason: str, now: int | None) -> None:
    """Note that nobody heard of these jobs any more."""
    for some in chunks(txn_ids):
        for row in connection.execute(_OF_TXNS, {"ids": some}).mappings().all():
            values = {"state": fire(COMPACTION, row["state"], "fail"), "error": reason, "ended": NOW}
            _change(connection, row["id"], values, now)


_OF_TXNS = _ALL.where(
    compactions.c.txn_id.in_(bindparam("ids", expanding=True)),
    compactions.c.state.in_(("working", "ready for cleaning")),
)


def revoke(connection: Connection, limits: Limits, now: int | None) -> None:
    """Queue again what a worker claimed and never came back to (``hive.compactor.worker.timeout``)."""
    parameters = {"timeout": int(limits.worker_timeout * 1000), "now": now}
    for row in connection.execute(_ABANDONED, parameters).mappings().all():
        values = {
            "state": fire(COMPACTION, row["state"], "revoke"),
            "worker": None,
            "started": None,
            "txn_id": None,
            "high_watermark": None,
        }
        _change(connection, row["id"], values, now)


_ABANDONED = _ALL.where(
    compactions.c.state == "working",
    compactions.c.started < NOW - bindparam("timeout", type_=BigInteger),
    or_(compactions.c.txn_id.is_(None), ~is_open(compactions.c.txn_id)),
).with_for_update()


def prune(connection: Connection, limits: Limits) -> None:
    """Keep the newest ended jobs of each table or partition and state."""
    seen: dict[tuple[object, ...], int] = defaultdict(int)
    surplus = []
    for row in connection.execute(_ENDED, {"states": list(limits.history)}):
        place = (row.database_name, row.table_name, row.partition_name, row.state)
        seen[place] += 1
        if seen[place] > limits.history[row.state]:
            surplus.append(row.id)
    for some in chunks(surplus):
        connection.execute(delete(compactions).where(compactions.c.id.in_(some)))


_ENDED = (
    select(compactions)
    .where(compactions.c.state.in_(bindparam("states", expanding=True)))
    .order_by(compactions.c.id.desc())
)


def _held(connection: Connection, compaction_id: int) -> Compaction:
    row = connection.execute(_ONE.with_for_update(), {"id": compaction_id}).mappings().one_or_none()
    if row is None:
        raise refusals.no_compaction(compaction_id)
    return _compaction(row)


def _change(
    connection: Connection, compaction_id: int, values: Mapping[str, object], now: int | None
) -> None:
    statement = update(compactions).where(compactions.c.id == compaction_id).values(**values)
    connection.execute(statement, {"now": now} if any(one is NOW for one in values.values()) else {})


def _compaction(row: Mapping[Any, Any]) -> Compaction:
    values = dict(row)
    table = TableName(values.pop("database_name"), values.pop("table_name"))
    request = CompactionRequest(table, values.pop("partition_name"), values.pop("kind"))
    return Compaction(request=request, **values)
