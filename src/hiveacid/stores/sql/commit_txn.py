"""Commit, and the record of written partitions (``CommitTxnFunction``, ``AddDynamicPartitions``).

``transactions.transaction`` logs the end of a transaction, whatever its store.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, and_, bindparam, insert, select, update

from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.commit_records import StreamBatch, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import (
    CONFLICTING_OPERATIONS,
    Change,
    CommittedChange,
    Conflict,
    conflict_message,
    first_conflict,
    overtaken_message,
)
from hiveacid.core.transactions.states import TRANSACTION, TransactionState, fire
from hiveacid.errors import TransactionAbortedError, WriteConflictError
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.transactions import Operation, TxnKind, Written
from hiveacid.stores import refusals
from hiveacid.stores.sql import begin_commit_pipelined, catalog, commit_records, compaction_queue
from hiveacid.stores.sql.database import IS_OWN, NOW, Database, SqlBase, write_exactly_once
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.schema import (
    COMMIT_SEQUENCE,
    OPEN,
    is_of_any_table,
    is_of_same_table,
    lock_requests,
    table_columns,
    table_pairs,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.txn_rows import counter_value, end_txns, lock_writing_txns
from hiveacid.stores.sql.write_ids import seed


class CommitTxn(SqlBase):
    """Methods that record writes and commit."""

    def add_written(self, txn_id: TxnId, written: Sequence[Written]) -> None:
        """Record what a transaction wrote, before it commits."""
        writes = refusals.written(written)

        def work(connection: Connection) -> None:
            lock_writing_txns(self._database, connection, [txn_id])
            _record(connection, txn_id, writes)

        write_exactly_once(self._database, work, Durability.WITH_CLIENT)

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = NO_CHANGES,
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        """Commit, all or nothing; a conflict aborts the transaction in the same database transaction."""
        refusals.changes(changes)
        writes, operations = (
            refusals.written(written),
            refusals.storable_operations(operations),
        )
        database = self._database
        answer = tried = False
        refused = None
        if changes == NO_CHANGES and batch is None:
            answer = not writes and not operations and _end_read(database, txn_id)
            if not answer and database.dialect.pipelines and not any(write.replaced for write in writes):
                tried, now, own = True, database.now(), database.own_txns.mark(txn_id)
                answer = database.write_statement(
                    lambda connection: begin_commit_pipelined.commit(
                        connection, database.dialect, txn_id, own, writes, operations, now
                    )
                )
        if not answer:
            refused = database.write(
                lambda connection: _commit(database, connection, txn_id, changes, writes, batch, operations),
                in_doubt=tried,  # its answer may have been lost, and the second try then finds nothing to commit
            )
        database.retry_deadlines.ended([txn_id])
        database.own_txns.ended([txn_id])
        if refused is not None:
            raise refused


def _record(connection: Connection, txn_id: TxnId, changes: Sequence[Written]) -> None:
    if changes:
        own_ids = {}
        if any(write.replaced for write in changes):
            own = connection.execute(_OWN_WRITE_IDS, {"txn_id": txn_id})
            own_ids = {TableName(row.database_name, row.table_name): row.write_id for row in own}
        rows = [
            {
                "txn_id": txn_id,
                **table_columns(write.table),
                "partition_name": write.partition,
                "operation": write.operation.value,
                "write_id": own_ids.get(write.table) if write.replaced else None,
            }
            for write in changes
        ]
        connection.execute(_RECORD, rows)


_RECORD = insert(written)
_OWN_WRITE_IDS = select(write_ids).where(write_ids.c.txn_id == bindparam("txn_id"))


def _end_read(database: Database, txn_id: TxnId) -> bool:
    """Commit a read-only transaction without locks by one UPDATE of its row; return False for any other transaction.

    A reader's role therefore needs no privilege on the tables of locks and commits.
    """
    parameters = {"txn_id": txn_id, "now": database.now(), "own": database.own_txns.mark(txn_id)}
    answer = database.write_statement(
        lambda connection: connection.execute(_END_READ, parameters).rowcount,
        Durability.WITH_CLIENT,
        repeatable=True,
    )
    return bool(answer)


_END_READ = (
    update(txns)
    .where(
        txns.c.id == bindparam("txn_id"),
        txns.c.state == OPEN,
        txns.c.kind == TxnKind.READ_ONLY.value,
        IS_OWN,
        ~select(lock_requests.c.id).where(lock_requests.c.txn_id == txns.c.id).exists(),
    )
    .values(state=fire(TRANSACTION, TRANSACTION.start, "commit"), ended=NOW, reason=None, code=None)
)


def _commit(
    database: Database,
    connection: Connection,
    txn_id: TxnId,
    changes: CatalogChanges,
    written_now: Sequence[Written],
    batch: StreamBatch | None,
    operations: Sequence[TableOperation],
) -> TransactionAbortedError | None:
    """Commit in the open database transaction, or abort; return the reason if the transaction was aborted instead."""
    rows: Sequence[Any] = connection.execute(_WITH_CHANGES, {"txn_id": txn_id}).all()
    if rows and database.own_txns.is_foreign(txn_id, rows[0].mark):
        rows = []
    state = rows[0].state if rows else TransactionState.UNKNOWN
    if state == TransactionState.COMMITTED:
        return None
    if state != TRANSACTION.start:
        reason, code = (rows[0].reason, rows[0].code) if rows else (None, None)
        raise refusals.not_open(txn_id, state, reason, code)
    if written_now and rows[0].kind == TxnKind.READ_ONLY.value:
        raise refusals.read_only(txn_id)
    now = database.now()
    stale = None if batch is None else commit_records.batch_refusal(connection, batch)
    if stale is not None:
        end_txns(connection, [txn_id], "abort", now, str(stale), stale.code)
        return stale
    _record(connection, txn_id, written_now)
    existing = catalog.existing_partitions(database, connection, changes)
    elsewhere = catalog.misplaced_partition(changes, existing)
    if elsewhere is not None:
        end_txns(connection, [txn_id], "conflict", now, elsewhere, refusals.CONFLICT)
        return WriteConflictError(elsewhere)
    own_changes = [_change(row) for row in rows if row.operation is not None]
    own_changes += [
        Change(write.table, write.partition, write.operation.value)
        for write in written_now
        if write.operation.value in CONFLICTING_OPERATIONS
    ]
    refusal = _refusal(database, connection, txn_id, rows[0], own_changes)
    if refusal is not None:
        end_txns(connection, [txn_id], "conflict", now, refusal, refusals.CONFLICT)
        return WriteConflictError(refusal)
    catalog.apply_changes(database, connection, changes, existing)
    for name, count in changes.skipped:
        database.dialect.take_write_ids(connection, name, count)
    for seeded in changes.seeded:  # after the partitions, whose rows may have any of these write ids
        ids = refusals.seed(seeded.high_watermark, seeded.aborted)
        seed(database, connection, seeded.table, seeded.high_watermark, ids)
    if rows[0].kind == TxnKind.COMPACTION.value:
        # Transactions opened from now on have the compaction in their snapshots.
        database.dialect.block_opens(connection)
        compaction_queue.finish_committed_job(connection, txn_id, now)
    if batch is not None:
        commit_records.record_batch(connection, batch)
    end_txns(connection, [txn_id], "commit", now)
    commit_records.record_commit(connection, txn_id, operations)
    return None


_WITH_CHANGES = (
    select(
        txns.c.state,
        txns.c.kind,
        txns.c.moment,
        counter_value(COMMIT_SEQUENCE).label("sequence"),
        txns.c.reason,
        txns.c.code,
        txns.c.mark,
        written.c.database_name,
        written.c.table_name,
        written.c.partition_name,
        written.c.operation,
    )
    .select_from(
        txns.outerjoin(
            written, and_(written.c.txn_id == txns.c.id, written.c.operation.in_(CONFLICTING_OPERATIONS))
        )
    )
    .where(txns.c.id == bindparam("txn_id"))
    .with_for_update(of=txns)
)
# Rows of overwrites that committed since a moment with a higher write id than the transaction's own.
_OVERWRITES = (
    select(written)
    .join(write_ids, is_of_same_table(write_ids, written))
    .where(
        write_ids.c.txn_id == bindparam("txn_id"),
        written.c.commit_sequence > bindparam("moment", type_=BigInteger),
        written.c.operation == Operation.UPDATE.value,  # not the trace of a compaction
        written.c.write_id > write_ids.c.write_id,
    )
)
_OWN_WRITES = select(written).where(written.c.txn_id == bindparam("txn_id"))
_MARK = (
    update(written).where(written.c.txn_id == bindparam("id")).values(commit_sequence=bindparam("sequence"))
)


def _refusal(
    database: Database, connection: Connection, txn_id: TxnId, row: Any, own_changes: Sequence[Change]
) -> str | None:
    """Return why a transaction cannot commit after those that committed since its snapshot, None if it can.

    It then has its place in the sequence of commits, if it updates or deletes. ``row``: its row of ``_WITH_CHANGES``.
    """
    sequence = 0
    if own_changes:
        # The counter's row is held until the commit: numbers become visible in order, and the
        # next committer sees what was committed before.
        sequence = database.dialect.increment_counter(connection, COMMIT_SEQUENCE)
        conflict = _conflict(connection, row.moment, own_changes)
        if conflict is not None:
            return conflict_message(txn_id, sequence, conflict)
    if own_changes or row.sequence > row.moment:
        overtaken = _overtaken(connection, txn_id, row.moment)
        if overtaken is not None:
            return overtaken_message(*overtaken)
    if own_changes:
        connection.execute(_MARK, {"id": txn_id, "sequence": sequence})
    return None


def _conflict(connection: Connection, moment: int, own_changes: Sequence[Change]) -> Conflict | None:
    tables = sorted({change.table for change in own_changes})
    rows = connection.execute(_SINCE, {"places": table_pairs(tables), "moment": moment})
    committed = [CommittedChange(TxnId(row.txn_id), row.commit_sequence, _change(row)) for row in rows]
    return first_conflict(moment, own_changes, committed)


def _overtaken(connection: Connection, txn_id: TxnId, moment: int) -> tuple[Change, TxnId] | None:
    """Return a write of the transaction that lies below the base of an overwrite, and the overwriter.

    Two queries: databases join thousands of partitions with thousands of others row by row.
    """
    rows = connection.execute(_OVERWRITES, {"txn_id": txn_id, "moment": moment})
    overwriters = {(change.table, change.partition): row.txn_id for row in rows for change in (_change(row),)}
    own_writes = connection.execute(_OWN_WRITES, {"txn_id": txn_id}) if overwriters else ()
    for change in map(_change, own_writes):
        overwriter = overwriters.get((change.table, change.partition))
        if overwriter is not None:
            return change, TxnId(overwriter)
    return None


_SINCE = select(written).where(
    is_of_any_table(written),
    written.c.commit_sequence > bindparam("moment", type_=BigInteger),
    written.c.operation.in_(CONFLICTING_OPERATIONS),
)


def _change(row: Any) -> Change:
    return Change(TableName(row.database_name, row.table_name), row.partition_name, row.operation)
