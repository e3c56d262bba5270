"""Begin and commit in one round trip each, on a database that accepts several statements at once (PostgreSQL).

They cover the usual case only: one table, a free lock, no conflict, no change of the catalog. Each statement checks
this itself. If the case is not the usual one, nothing has happened, and the caller takes the general way
(``begin_txn``, ``commit_txn``), where :mod:`hiveacid.core` decides and the error is worded.

The conditions here must imply those of :mod:`hiveacid.core.transactions.locks_and_conflicts`: a stricter one costs a round trip,
a laxer one would let a conflict pass. States, kinds and conflicting operations come from the definitions in core. In a pipeline every statement sees what
was committed before it began, as in a transaction of read committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import cast

from sqlalchemy import BigInteger, Connection, Executable, literal_column, select
from sqlalchemy.engine.interfaces import Dialect as Compiler

from hiveacid.core.model import LockId, TxnId, WriteId
from hiveacid.core.transactions.commit_records import TableOperation
from hiveacid.core.transactions.locks_and_conflicts import CONFLICTING_OPERATIONS, WAITS_FOR, LockState
from hiveacid.core.transactions.states import LOCK, TRANSACTION, TransactionState, fire
from hiveacid.ports.transactions import Begun, LockAnswer, Start, TxnKind, Written
from hiveacid.stores.sql.database import MARK_LENGTH
from hiveacid.stores.sql.dialects import Dialect
from hiveacid.stores.sql.dialects.dialect import Step, number_keys
from hiveacid.stores.sql.schema import COMMIT_SEQUENCE, SETTLED, table_parameters, txns
from hiveacid.stores.sql.snapshots_and_write_ids import (
    SnapshotRow,
    possibly_invalid_write_ids_query,
    snapshot_of_row,
    snapshot_query,
    write_id_list,
)
from hiveacid.stores.sql.txns_and_locks import keys_of

_OWN = "nullif(current_setting('hiveacid.txn', true), '')::bigint"
"""The transaction that the pipeline's first INSERT opened; the setting is gone with the commit."""
_NOW = "coalesce(%(now)s::bigint, CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT))"
_CONFLICTING = ", ".join(f"'{operation}'" for operation in CONFLICTING_OPERATIONS)


def can_begin(start: Start) -> bool:
    """Tell whether a start fits the pipeline: one lock on a table or partition, and no other table."""
    (lock, *more) = start.locks or (None,)
    names = {*start.tables, *start.writes}
    return not more and (lock is None or lock.table is not None) and len(names) <= 1


def begin(
    connection: Connection, dialect: Dialect, start: Start, parameters: Mapping[str, object]
) -> tuple[Begun, SnapshotRow] | None:
    """Open, lock, take the snapshot and allocate in one round trip.

    Returns None and changes nothing if a lock must be waited for or the limit of open transactions is reached.
    """
    lock = start.locks[0] if start.locks else None
    steps: list[Step] = []
    if lock is None:
        steps.append((_OPEN.format(free="", asked=_NOT_ASKED), parameters))
    else:
        keys = number_keys(keys_of(start.locks))
        numbers = {f"key{index}": number for index, (number, _) in enumerate(keys)}
        steps.append((_hold(tuple(exclusive for _, exclusive in keys)), numbers))
        requested = {
            "type": lock.type.value,
            "types": sorted(lock_type.value for lock_type in WAITS_FOR[lock.type]),
            "database": lock.database,
            "table": lock.table,
            "partition": lock.partition,
            "granted": fire(LOCK, LOCK.start, "grant"),
        }
        steps.append((_OPEN.format(free=_FREE, asked=_ASKED), {**parameters, **requested}))
    compiler = connection.dialect
    steps.append(_prepared(_own_snapshot_query(), compiler))
    name = next(iter((*start.tables, *start.writes)), None)
    if name is not None:
        place = table_parameters(name)
        text, constants = _prepared(_own_possibly_invalid_ids(), compiler)
        steps.append((text, {**constants, **place}))
        if start.writes:
            steps.append((_ALLOCATE, place))
    opened, snapshot_rows, *rest = dialect.pipeline(connection, steps)[0 if lock is None else 1 :]
    if not opened:
        return None
    row = cast("SnapshotRow", snapshot_rows[0])
    snapshot = snapshot_of_row(row)
    lists = {}
    if name is not None:
        next_id, possibly_invalid = (
            (rest[0][0].next_id, rest[0][0].possibly_invalid) if rest[0] else (1, None)
        )
        lists = {
            table: write_id_list(table, next_id - 1, possibly_invalid, snapshot) for table in start.tables
        }
    allocated = {table: WriteId(rest[1][0].write_id) for table in start.writes}
    answer = None if lock is None else LockAnswer(LockId(opened[0].request), LockState.ACQUIRED)
    return Begun(TxnId(opened[0].id), answer, snapshot, lists, allocated), row


@cache
def _hold(exclusive: tuple[bool, ...]) -> str:
    """Return the statement that acquires the keys of a lock, as ``Dialect.serialise`` does."""
    calls = (
        f"pg_advisory_xact_lock{'' if key else '_shared'}(%(key{index})s::bigint) AS key{index}"
        for index, key in enumerate(exclusive)
    )
    return f"SELECT {', '.join(calls)}"


_OPEN = f"""WITH made AS (
    INSERT INTO hiveacid_txns (kind, state, started, heartbeat, timeout, moment, min_open, user_name, host, agent, mark)
    SELECT %(kind)s, '{TransactionState.OPEN}', clock.now, clock.now, %(timeout)s::bigint,
        (SELECT value FROM hiveacid_counters WHERE name = '{COMMIT_SEQUENCE}'),
        least(settled.value + 1, coalesce(lowest.id, highest.id + 1, 1)), %(user)s, %(host)s, %(agent)s,
        %(mark)s::text || '-1'
    FROM (SELECT {_NOW} AS now) clock,
        (SELECT value FROM hiveacid_counters WHERE name = '{SETTLED}') settled,
        (SELECT min(id) AS id FROM hiveacid_txns WHERE state = '{TransactionState.OPEN}') lowest,
        (SELECT max(id) AS id FROM hiveacid_txns) highest
    WHERE (SELECT count(*) FROM hiveacid_txns WHERE state = '{TransactionState.OPEN}') < %(limit)s::bigint {{free}}
    RETURNING id, started){{asked}}
"""
_FREE = """AND NOT EXISTS (SELECT 1 FROM hiveacid_lock_components held
        WHERE held.database_name = %(database)s AND held.type = ANY(%(types)s::text[])
        AND (held.table_name IS NULL OR held.table_name = %(table)s)
        AND (held.partition_name IS NULL OR %(partition)s::text IS NULL OR held.partition_name = %(partition)s))"""
_ASKED = """, asked AS (
    INSERT INTO hiveacid_lock_requests (txn_id, state, acquired_at)
    SELECT id, %(granted)s, started FROM made RETURNING id, txn_id), parts AS (
    INSERT INTO hiveacid_lock_components
        (request_id, number, txn_id, type, database_name, table_name, partition_name)
    SELECT id, 1, txn_id, %(type)s, %(database)s, %(table)s, %(partition)s FROM asked)
SELECT made.id, asked.id AS request, set_config('hiveacid.txn', made.id::text, true) FROM made, asked"""
_NOT_ASKED = """
SELECT id, set_config('hiveacid.txn', id::text, true) FROM made"""
_ALLOCATE = f"""WITH given AS (
    INSERT INTO hiveacid_next_write_ids (database_name, table_name, next_id)
    SELECT %(database)s, %(name)s, 2 WHERE {_OWN} IS NOT NULL
    ON CONFLICT (database_name, table_name) DO UPDATE SET next_id = hiveacid_next_write_ids.next_id + 1
    RETURNING next_id - 1 AS write_id), kept AS (
    INSERT INTO hiveacid_write_ids (database_name, table_name, write_id, txn_id)
    SELECT %(database)s, %(name)s, write_id, {_OWN} FROM given)
SELECT write_id FROM given"""


@cache
def _own_snapshot_query() -> Executable:
    return snapshot_query(literal_column(_OWN, BigInteger()), gaps=True)


@cache
def _own_possibly_invalid_ids() -> Executable:
    own = select(txns.c.min_open).where(txns.c.id == literal_column(_OWN, BigInteger())).scalar_subquery()
    return possibly_invalid_write_ids_query(own)


@cache
def _prepared(statement: Executable, compiler: Compiler) -> Step:
    """Compile a statement for the driver; return its text and its constants."""
    compiled = statement.compile(dialect=compiler)  # type: ignore[attr-defined]
    return str(compiled), compiled.params


def commit(
    connection: Connection,
    dialect: Dialect,
    txn_id: TxnId,
    own: str | None,
    written: Sequence[Written],
    operations: Sequence[TableOperation],
    now: int | None,
) -> bool:
    """Commit in one round trip; ``own``: the mark of the transaction, if it is known (`OwnTxns`).

    Returns False and changes nothing if the transaction is not open or a conflicting change was committed first.
    """
    parameters = {
        "txn_id": txn_id,
        "own": own,
        "to": fire(TRANSACTION, TRANSACTION.start, "commit"),
        "now": now,
        "databases": [write.table.database for write in written],
        "tables": [write.table.name for write in written],
        "partitions": [write.partition for write in written],
        "operations": [write.operation.value for write in written],
        "told_databases": [operation.table.database for operation in operations],
        "told_tables": [operation.table.name for operation in operations],
        "summaries": [operation.summary.to_text() for operation in operations],
    }
    if any(write.operation.value in CONFLICTING_OPERATIONS for write in written):
        steps = [(_HOLD_SEQUENCE, {}), (_COMMIT_CHANGES, parameters)]
    else:
        steps = [(_COMMIT, parameters)]
    return bool(dialect.pipeline(connection, steps)[-1])


_BROUGHT = """unnest(%(databases)s::text[], %(tables)s::text[], %(partitions)s::text[], %(operations)s::text[])
        AS brought (database_name, table_name, partition_name, operation)"""
_RELEASED = (
    "released AS (DELETE FROM hiveacid_lock_requests request USING done WHERE request.txn_id = done.id)"
)
# A row for each write id of the transaction, with or without an operation summary (``commit_records.record_commit``).
_RETURNED = "RETURNING id, ended, user_name, host, agent"
_NOTED = """noted AS (
    INSERT INTO hiveacid_commits
        (database_name, table_name, write_id, committed, txn_id, user_name, host, agent, operation_summary)
    SELECT given.database_name, given.table_name, given.write_id, greatest(done.ended, (
        SELECT earlier.committed FROM hiveacid_commits earlier
        WHERE earlier.database_name = given.database_name AND earlier.table_name = given.table_name
        ORDER BY earlier.write_id DESC LIMIT 1)), done.id, done.user_name, done.host, done.agent, told.summary
    FROM done JOIN hiveacid_write_ids given ON given.txn_id = done.id
    LEFT JOIN unnest(%(told_databases)s::text[], %(told_tables)s::text[], %(summaries)s::text[])
        AS told (database_name, table_name, summary)
        ON told.database_name = given.database_name AND told.table_name = given.table_name)"""
_DONE = f"""UPDATE hiveacid_txns txn SET state = %(to)s, ended = {_NOW}, reason = NULL, code = NULL
    WHERE txn.id = %(txn_id)s::bigint AND txn.state = '{TransactionState.OPEN}'
    AND (%(own)s::text IS NULL OR left(txn.mark, {MARK_LENGTH}) = %(own)s::text)"""
# A value of its own, not a column of the row to update: the planner would join what all transactions ever wrote with it.
_SINCE = "theirs.commit_sequence > (SELECT moment FROM hiveacid_txns WHERE id = %(txn_id)s::bigint)"
# `commit_txn` decides whether one of the overwrites is of a partition that this transaction wrote.
_NOT_OVERTAKEN = f"""NOT EXISTS (SELECT 1 FROM hiveacid_write_ids given JOIN hiveacid_written theirs
        ON theirs.database_name = given.database_name AND theirs.table_name = given.table_name
        WHERE given.txn_id = %(txn_id)s::bigint AND {_SINCE}
        AND theirs.write_id > given.write_id AND theirs.operation = 'u')"""
_COMMIT = f"""WITH done AS (
    {_DONE} AND txn.kind <> '{TxnKind.COMPACTION}' AND (txn.kind <> '{TxnKind.READ_ONLY}' OR cardinality(%(databases)s::text[]) = 0)
    AND NOT EXISTS (SELECT 1 FROM hiveacid_written early
        WHERE early.txn_id = %(txn_id)s::bigint AND early.operation IN ({_CONFLICTING})) AND {_NOT_OVERTAKEN}
    {_RETURNED}), kept AS (
    INSERT INTO hiveacid_written (txn_id, database_name, table_name, partition_name, operation)
    SELECT done.id, brought.* FROM done, {_BROUGHT}), {_RELEASED}, {_NOTED}
SELECT id FROM done"""
# The next committer waits here; its next statement then sees the earlier commits. The partitions are compared by ``=``,
# because with IS NOT DISTINCT FROM each of 10,000 is compared with each of 10,000. No partition's name is empty.
_HOLD_SEQUENCE = f"SELECT value FROM hiveacid_counters WHERE name = '{COMMIT_SEQUENCE}' FOR UPDATE"
_COMMIT_CHANGES = f"""WITH mine AS (
    SELECT * FROM {_BROUGHT} WHERE operation IN ({_CONFLICTING})
    UNION ALL SELECT database_name, table_name, partition_name, operation FROM hiveacid_written
    WHERE txn_id = %(txn_id)s::bigint AND operation IN ({_CONFLICTING})), done AS (
    {_DONE} AND txn.kind = '{TxnKind.DEFAULT}' AND NOT EXISTS (SELECT 1 FROM mine JOIN hiveacid_written theirs
        ON theirs.database_name = mine.database_name AND theirs.table_name = mine.table_name
        AND coalesce(theirs.partition_name, '') = coalesce(mine.partition_name, '')
        WHERE {_SINCE} AND theirs.operation IN ({_CONFLICTING})) AND {_NOT_OVERTAKEN}
    {_RETURNED}), counted AS (
    UPDATE hiveacid_counters SET value = value + 1 FROM done WHERE name = '{COMMIT_SEQUENCE}' RETURNING value), marked AS (
    UPDATE hiveacid_written early SET commit_sequence = counted.value FROM counted
    WHERE early.txn_id = %(txn_id)s::bigint), kept AS (
    INSERT INTO hiveacid_written
        (txn_id, database_name, table_name, partition_name, operation, commit_sequence)
    SELECT done.id, brought.*, counted.value FROM done, counted, {_BROUGHT}), {_RELEASED}, {_NOTED}
SELECT id FROM done"""
