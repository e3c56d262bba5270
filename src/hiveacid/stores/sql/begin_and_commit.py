"""Begin and commit of a transaction, each in one call, all or nothing (``CommitTxnFunction``, ``AddDynamicPartitions``).

The begin takes the lock, the snapshot, the write-id lists and the write ids of the first statement. The commit looks for
conflicts, and records the written partitions and the changes of the catalog. ``transactions.transaction`` logs the end of
a transaction, whatever its store.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from sqlalchemy import BigInteger, Connection, and_, bindparam, insert, select, update

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import StreamBatch, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import (
    CONFLICTING_OPERATIONS,
    Change,
    CommittedChange,
    Conflict,
    LockState,
    conflict_message,
    first_conflict,
    overtaken_message,
)
from hiveacid.core.transactions.states import TRANSACTION, TransactionState, fire
from hiveacid.errors import TransactionAbortedError, WriteConflictError
from hiveacid.ports.catalog import NO_CHANGES, CatalogChanges
from hiveacid.ports.transactions import SNAPSHOT_ONLY, Begun, Client, Start, TxnKind, Written
from hiveacid.stores import refusals
from hiveacid.stores.sql import (
    begin_commit_pipelined,
    catalog,
    commit_records,
    compaction_queue,
    file_records,
)
from hiveacid.stores.sql.commit_records import changes_since, overwrites_since, place_in_sequence
from hiveacid.stores.sql.database import IS_OWN, NOW, Database, SqlBase, write_exactly_once
from hiveacid.stores.sql.dialects import Durability
from hiveacid.stores.sql.dialects.dialect import NamedRow
from hiveacid.stores.sql.schema import (
    COMMIT_SEQUENCE,
    CONFLICTING,
    OPEN,
    is_of_any_table,
    lock_requests,
    table_columns,
    table_pairs,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.snapshots_and_write_ids import (
    SnapshotRow,
    allocate,
    assign_write_ids,
    raise_settled_counter,
    read_snapshot_row,
    record_moment,
    seed,
    snapshot_of_row,
    write_id_lists,
)
from hiveacid.stores.sql.txns_and_locks import (
    OpenParameters,
    counter_value,
    end_txns,
    enqueue,
    find_opened,
    insert_txns,
    keys_of,
    lock_writing_txns,
    open_parameters,
    request_of,
)


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


def _begin(database: Database, start: Start, parameters: OpenParameters) -> tuple[Begun, SnapshotRow | None]:
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

    def work(connection: Connection) -> tuple[Begun, SnapshotRow | None]:
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
        writes, operations = (refusals.written(written), refusals.storable_operations(operations))
        database = self._database
        answer = tried = False
        refused = None
        if changes == NO_CHANGES and batch is None:
            answer = not writes and not operations and _end_read(database, txn_id)
            if not answer and database.dialect.pipelines and not any(write.replaced for write in writes):
                tried, now, own = True, database.now(), database.own_txns.mark(txn_id)
                answer = database.write_statement(
                    lambda connection: begin_commit_pipelined.commit(
                        connection, database.dialect, txn_id, own, writes, operations, changes.records, now
                    )
                )
        if not answer:
            try:
                refused = database.write(
                    lambda connection: _commit(
                        database, connection, txn_id, changes, writes, batch, operations
                    ),
                    in_doubt=tried,  # its answer may have been lost, and the second try then finds nothing to commit
                )
            except TransactionAbortedError as error:  # it had timed out
                refused = error
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
    rows: Sequence[NamedRow] = connection.execute(_WITH_CHANGES, {"txn_id": txn_id}).all()
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
    stale = _stale(connection, txn_id, rows[0].kind, batch)
    if stale is not None:
        end_txns(connection, [txn_id], "abort", now, str(stale), stale.code)
        return stale
    _record(connection, txn_id, written_now)
    existing = catalog.existing_partitions(database, connection, changes)
    outdated = _outdated(database, connection, changes, existing)
    if outdated is not None:
        end_txns(connection, [txn_id], "conflict", now, outdated, refusals.CONFLICT)
        return WriteConflictError(outdated)
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
    for name, skipped in changes.skipped:
        database.dialect.take_write_ids(connection, name, skipped)
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
    file_records.record_files(connection, txn_id, changes.records)
    return None


def _outdated(
    database: Database,
    connection: Connection,
    changes: CatalogChanges,
    existing: catalog.ExistingPartitions,
) -> str | None:
    """Return why changes of the catalog do not follow what other clients have changed meanwhile, None if they do."""
    for seen in changes.seen:
        if catalog.require_table(database, connection, seen.name, seen) != seen:
            return refusals.altered_meanwhile(seen.name)
    return catalog.misplaced_partition(changes, existing)


def _stale(
    connection: Connection, txn_id: TxnId, kind: str, batch: StreamBatch | None
) -> TransactionAbortedError | None:
    """Return why the work of a transaction belongs to another one by now, None if it does not."""
    if kind == TxnKind.COMPACTION.value and compaction_queue.is_job_lost(connection, txn_id):
        return refusals.compaction_lost(txn_id)
    return None if batch is None else commit_records.batch_refusal(connection, batch)


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
        txns.outerjoin(written, and_(written.c.txn_id == txns.c.id, written.c.operation.in_(CONFLICTING)))
    )
    .where(txns.c.id == bindparam("txn_id"))
    .with_for_update(of=txns)
)
_MOMENT, _TXN_ID = bindparam("moment", type_=BigInteger), bindparam("txn_id", type_=BigInteger)
_OVERWRITES = overwrites_since(_MOMENT, _TXN_ID)
_OWN_WRITES = select(written).where(written.c.txn_id == _TXN_ID)
_MARK = place_in_sequence(bindparam("id", type_=BigInteger), bindparam("sequence", type_=BigInteger))


def _refusal(
    database: Database, connection: Connection, txn_id: TxnId, row: NamedRow, own_changes: Sequence[Change]
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


_SINCE = changes_since(_MOMENT).where(is_of_any_table(written))


def _change(row: NamedRow) -> Change:
    return Change(TableName(row.database_name, row.table_name), row.partition_name, row.operation)
