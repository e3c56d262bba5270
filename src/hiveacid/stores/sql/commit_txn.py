"""Commit, and what a transaction says it wrote (``CommitTxnFunction``, ``AddDynamicPartitions``)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, bindparam, insert, select, update

from hiveacid.core.commits import Told
from hiveacid.core.conflicts import Change, CommittedChange, Conflict, conflict_message, first_conflict
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.states import TRANSACTION
from hiveacid.core.streams import StreamBatch
from hiveacid.errors import TransactionAbortedError, WriteConflictError
from hiveacid.ports import CatalogChanges, TxnKind, Written
from hiveacid.stores import checks, refusals
from hiveacid.stores.sql import catalog, commits, compaction_upkeep, quick, streams
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.once import write_once
from hiveacid.stores.sql.rows import end, hold_writers, places, same_place
from hiveacid.stores.sql.tables import COMMIT_SEQUENCE, txns, written

_COUNTING = ("u", "d")
_NO_CHANGES = CatalogChanges()


def add_written(database: Database, txn_id: TxnId, changes: Sequence[Written]) -> None:
    """Record what a transaction wrote, before it commits."""
    ones = checks.written(changes)

    def work(connection: Connection) -> None:
        hold_writers(connection, [txn_id])
        _record(connection, txn_id, ones)

    write_once(database, work, Durability.WITH_CLIENT)


def _record(connection: Connection, txn_id: TxnId, changes: Sequence[Written]) -> None:
    if changes:
        rows = [
            {
                "txn_id": txn_id,
                "database_name": one.table.database,
                "table_name": one.table.name,
                "partition_name": one.partition,
                "operation": one.operation.value,
            }
            for one in changes
        ]
        connection.execute(_RECORD, rows)


_RECORD = insert(written)


def commit_txn(
    database: Database,
    txn_id: TxnId,
    changes: CatalogChanges,
    written_now: Sequence[Written],
    batch: StreamBatch | None = None,
    told: Sequence[Told] = (),
) -> None:
    """Commit, all or nothing; a conflict aborts the transaction in the same database transaction."""
    checks.changes(changes)
    ones, told = checks.written(written_now), checks.told(told)
    if database.dialect.pipelines and changes == _NO_CHANGES and batch is None:
        now = database.now()
        if database.once(
            lambda connection: quick.commit(connection, database.dialect, txn_id, ones, told, now)
        ):
            return
    refused = database.write(
        lambda connection: _commit(database, connection, txn_id, changes, ones, batch, told)
    )
    if refused is not None:
        raise refused


def _commit(
    database: Database,
    connection: Connection,
    txn_id: TxnId,
    changes: CatalogChanges,
    written_now: Sequence[Written],
    batch: StreamBatch | None,
    told: Sequence[Told],
) -> TransactionAbortedError | None:
    """Return why the transaction was aborted instead, if it was."""
    rows = connection.execute(_WITH_CHANGES, {"txn_id": txn_id}).all()
    state = rows[0].state if rows else "unknown"
    if state == "committed":
        return None
    if state != TRANSACTION.start:
        reason, code = (rows[0].reason, rows[0].code) if rows else (None, None)
        raise refusals.not_open(txn_id, state, reason, code)
    if written_now and rows[0].kind == TxnKind.READ_ONLY.value:
        raise refusals.read_only(txn_id)
    now = database.now()
    stale = None if batch is None else streams.refused(connection, batch)
    if stale is not None:
        end(connection, [txn_id], "abort", now, str(stale), stale.code)
        return stale
    _record(connection, txn_id, written_now)
    there = catalog.partitions_there(connection, changes)
    elsewhere = catalog.partition_elsewhere(changes, there)
    if elsewhere is not None:
        end(connection, [txn_id], "conflict", now, elsewhere, refusals.CONFLICT)
        return WriteConflictError(elsewhere)
    mine = [_change(row) for row in rows if row.operation is not None]
    mine += [
        Change(one.table, one.partition, one.operation.value)
        for one in written_now
        if one.operation.value in _COUNTING
    ]
    if mine:
        # The counter's row is held until the commit: numbers become visible in their order, and whoever
        # counts next sees what was committed before.
        sequence = database.dialect.next_count(connection, COMMIT_SEQUENCE)
        conflict = _conflict(connection, rows[0].moment, mine)
        if conflict is not None:
            message = conflict_message(txn_id, sequence, conflict)
            end(connection, [txn_id], "conflict", now, message, refusals.CONFLICT)
            return WriteConflictError(message)
        connection.execute(_MARK, {"id": txn_id, "sequence": sequence})
    catalog.apply_changes(database, connection, changes, there)
    for name, count in changes.skipped:
        database.dialect.take_write_ids(connection, name, count)
    if rows[0].kind == TxnKind.COMPACTION.value:
        # Whoever opens from now on takes a snapshot that has the compaction in it.
        database.dialect.block_opens(connection)
        compaction_upkeep.committed(connection, txn_id, now)
    if batch is not None:
        streams.advance(connection, batch)
    end(connection, [txn_id], "commit", now)
    commits.record(connection, txn_id, told)
    return None


_WITH_CHANGES = (
    select(
        txns.c.state,
        txns.c.kind,
        txns.c.moment,
        txns.c.reason,
        txns.c.code,
        written.c.database_name,
        written.c.table_name,
        written.c.partition_name,
        written.c.operation,
    )
    .select_from(
        txns.outerjoin(written, and_(written.c.txn_id == txns.c.id, written.c.operation.in_(_COUNTING)))
    )
    .where(txns.c.id == bindparam("txn_id"))
    .with_for_update(of=txns)
)
_MARK = (
    update(written).where(written.c.txn_id == bindparam("id")).values(commit_sequence=bindparam("sequence"))
)


def _conflict(connection: Connection, moment: int, mine: Sequence[Change]) -> Conflict | None:
    tables = sorted({change.table for change in mine})
    rows = connection.execute(_SINCE, {"places": places(tables), "moment": moment})
    committed = [CommittedChange(TxnId(row.txn_id), row.commit_sequence, _change(row)) for row in rows]
    return first_conflict(moment, mine, committed)


_SINCE = select(written).where(
    same_place(written.c.database_name, written.c.table_name),
    written.c.commit_sequence > bindparam("moment", type_=BigInteger),
    written.c.operation.in_(_COUNTING),
)


def _change(row: Any) -> Change:
    return Change(TableName(row.database_name, row.table_name), row.partition_name, row.operation)
