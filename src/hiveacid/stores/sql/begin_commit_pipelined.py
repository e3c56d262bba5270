"""Begin and commit in one round trip each, on a database that accepts several statements at once (PostgreSQL).

They cover the usual case only: one table, a free lock, no conflict, no change of the catalog. If the case is not the usual
one, nothing has happened, and the caller takes the general way (``begin_txn``, ``commit_txn``), where :mod:`hiveacid.core`
decides and the error is worded.

The statements and guards are those of the general way. Here they are joined into few texts, in which each takes the
transaction's id from the one that opened or ended it, and does nothing if that did nothing. In a pipeline every
statement sees what was committed before it began, as in a transaction of read committed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache, lru_cache
from typing import Any, cast

from sqlalchemy import (
    ARRAY,
    CTE,
    BigInteger,
    Connection,
    Executable,
    FromClause,
    TableValuedAlias,
    Text,
    bindparam,
    delete,
    exists,
    func,
    insert,
    literal,
    literal_column,
    or_,
    select,
    true,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.engine.interfaces import Dialect as Compiler
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import LockId, TxnId, WriteId
from hiveacid.core.snapshot.file_records import TableRecords
from hiveacid.core.transactions.commit_records import TableOperation
from hiveacid.core.transactions.locks_and_conflicts import (
    CONFLICTING_OPERATIONS,
    WAITS_FOR,
    LockState,
    LockType,
)
from hiveacid.core.transactions.states import LOCK, TRANSACTION, fire
from hiveacid.ports.transactions import Begun, LockAnswer, Start, TxnKind, Written
from hiveacid.stores.sql.commit_records import (
    changes_since,
    insert_commits,
    overwrites_since,
    own_changes,
    place_in_sequence,
)
from hiveacid.stores.sql.database import IS_OWN
from hiveacid.stores.sql.dialects import Dialect
from hiveacid.stores.sql.dialects.dialect import Step, number_keys, take_write_ids_statement
from hiveacid.stores.sql.file_records import file_rows, marked_tables
from hiveacid.stores.sql.schema import (
    COMMIT_SEQUENCE,
    CONFLICTING,
    OPEN,
    counters,
    files,
    is_of_same_table,
    lock_components,
    lock_requests,
    recorded_tables,
    table_parameters,
    txns,
    write_ids,
    written,
)
from hiveacid.stores.sql.snapshots_and_write_ids import (
    SnapshotRow,
    possibly_invalid_write_ids_query,
    snapshot_of_row,
    snapshot_query,
    write_id_list,
)
from hiveacid.stores.sql.txns_and_locks import (
    END_ONE,
    held_in_databases,
    insert_open_txns,
    keys_of,
    on_tables,
    release_locks_of,
)

_SETTING = "hiveacid.txn"
"""Setting that names the transaction that the pipeline's first INSERT opened; it is gone with the commit."""
_OWN: ColumnElement[int] = literal_column(
    f"nullif(current_setting('{_SETTING}', true), '')::bigint", BigInteger()
)


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
    compiler = connection.dialect
    lock = start.locks[0] if start.locks else None
    steps: list[Step] = []
    if lock is None:
        steps.append(_step(compiler, _open(None), parameters))
    else:
        keys = number_keys(keys_of(start.locks))
        numbers = {f"key{index}": number for index, (number, _) in enumerate(keys)}
        steps.append((_hold(tuple(exclusive for _, exclusive in keys)), numbers))
        requested = {
            "database": lock.database,
            "table": lock.table,
            "partition": lock.partition,
            "granted": fire(LOCK, LOCK.start, "grant"),
        }
        steps.append(_step(compiler, _open(lock.type), {**parameters, **requested}))
    steps.append(_step(compiler, _own_snapshot_query()))
    name = next(iter((*start.tables, *start.writes)), None)
    if name is not None:
        place = table_parameters(name)
        steps.append(_step(compiler, _own_possibly_invalid_ids(), place))
        if start.writes:
            steps.append(_step(compiler, _allocate(), {**place, "first": 2, "count": 1}))
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


@lru_cache(maxsize=500)  # each store that is opened brings a compiler, which must not stay for ever
def _compiled(statement: Executable, compiler: Compiler) -> Step:
    """Compile a statement for the driver; return its text and its constants."""
    compiled = statement.compile(dialect=compiler)  # type: ignore[attr-defined]
    return str(compiled), compiled.params


def _step(compiler: Compiler, statement: Executable, parameters: Mapping[str, object] | None = None) -> Step:
    text, constants = _compiled(statement, compiler)
    return text, {**constants, **(parameters or {})}


@cache
def _hold(exclusive: tuple[bool, ...]) -> str:
    """Return the statement that acquires the keys of a lock, as ``Dialect.serialise`` does."""
    calls = (
        f"pg_advisory_xact_lock{'' if key else '_shared'}(%(key{index})s::bigint) AS key{index}"
        for index, key in enumerate(exclusive)
    )
    return f"SELECT {', '.join(calls)}"


@cache
def _open(lock_type: LockType | None) -> Executable:
    """Return the statement that opens a transaction, and grants it a lock of this type if it is free."""
    one = select(literal_column("1").label("n")).subquery("numbers")
    if lock_type is None:
        made = insert_open_txns(one, gaps=True).returning(txns.c.id).cte("made")
        return select(made.c.id, func.set_config(_SETTING, sql_cast(made.c.id, Text), true()))
    database, table, partition = (bindparam(name, type_=Text) for name in ("database", "table", "partition"))
    types: list[ColumnElement[str]] = [
        literal_column(f"'{kind.value}'") for kind in sorted(WAITS_FOR[lock_type])
    ]
    held = on_tables(held_in_databases(types, [database]), [table]).where(
        or_(
            lock_components.c.partition_name.is_(None),
            partition.is_(None),
            lock_components.c.partition_name == partition,
        )
    )
    opened = insert_open_txns(one, ~held.exists(), gaps=True).returning(txns.c.id, txns.c.started)
    made = opened.cte("made")
    request = select(made.c.id, bindparam("granted", type_=Text), made.c.started)
    asked = (
        insert(lock_requests)
        .from_select(["txn_id", "state", "acquired_at"], request)
        .returning(lock_requests.c.id, lock_requests.c.txn_id)
        .cte("asked")
    )
    kind = literal(lock_type.value, Text)
    component = select(asked.c.id, literal_column("1"), asked.c.txn_id, kind, database, table, partition)
    columns = ["request_id", "number", "txn_id", "type", "database_name", "table_name", "partition_name"]
    parts = insert(lock_components).from_select(columns, component).cte("parts")
    remember = func.set_config(_SETTING, sql_cast(made.c.id, Text), true())
    return select(made.c.id, asked.c.id.label("request"), remember).add_cte(parts)


@cache
def _allocate() -> Executable:
    taken = take_write_ids_statement(f"{_OWN} IS NOT NULL").columns(next_id=BigInteger).cte("taken")
    names = (bindparam("database", type_=Text), bindparam("name", type_=Text))
    row = select(*names, taken.c.next_id - 1, _OWN)
    columns = ["database_name", "table_name", "write_id", "txn_id"]
    return insert(write_ids).from_select(columns, row).returning(write_ids.c.write_id)


@cache
def _own_snapshot_query() -> Executable:
    return snapshot_query(_OWN, gaps=True)


@cache
def _own_possibly_invalid_ids() -> Executable:
    return possibly_invalid_write_ids_query(
        select(txns.c.min_open).where(txns.c.id == _OWN).scalar_subquery()
    )


def commit(
    connection: Connection,
    dialect: Dialect,
    txn_id: TxnId,
    own: str | None,
    written: Sequence[Written],
    operations: Sequence[TableOperation],
    records: Sequence[TableRecords],
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
        "why": None,
        "why_code": None,
        "databases": [write.table.database for write in written],
        "tables": [write.table.name for write in written],
        "partitions": [write.partition for write in written],
        "operations": [write.operation.value for write in written],
        "told_databases": [operation.table.database for operation in operations],
        "told_tables": [operation.table.name for operation in operations],
        "summaries": [operation.summary.to_text() for operation in operations],
        "recorded_databases": [one.table.database for one in records],
        "recorded_tables": [one.table.name for one in records],
    }
    rows = file_rows(records)
    parameters |= {f"file_{column.name}": [row[column.name] for row in rows] for column in files.c}
    changes = any(write.operation.value in CONFLICTING_OPERATIONS for write in written)
    compiler = connection.dialect
    steps = [_step(compiler, _HOLD_SEQUENCE)] if changes else []
    steps.append(_step(compiler, _commit(changes=changes), parameters))
    return bool(dialect.pipeline(connection, steps)[-1])


_TXN_ID = bindparam("txn_id", type_=BigInteger)
# A value of its own, not a column of the row to update: the planner would join what all transactions ever wrote with it.
_ANY_TXN = txns.alias("any_txn")
_MOMENT: ColumnElement[int] = select(_ANY_TXN.c.moment).where(_ANY_TXN.c.id == _TXN_ID).scalar_subquery()
# The next committer waits here; its next statement then sees the earlier commits.
_HOLD_SEQUENCE = (
    select(counters.c.value).where(counters.c.name == literal(COMMIT_SEQUENCE, Text)).with_for_update()
)
_DATABASES = bindparam("databases", type_=ARRAY(Text))


def _rows_of(name: str, parameters: Mapping[str, str]) -> TableValuedAlias:
    """Return the rows of array parameters, which are given by column."""
    arrays = (bindparam(parameter, type_=ARRAY(Text)) for parameter in parameters.values())
    return func.unnest(*arrays).table_valued(*parameters, name=name).render_derived()


_BROUGHT = _rows_of(
    "brought",
    {
        "database_name": "databases",
        "table_name": "tables",
        "partition_name": "partitions",
        "operation": "operations",
    },
)
_TOLD = _rows_of(
    "told", {"database_name": "told_databases", "table_name": "told_tables", "summary": "summaries"}
)
_WITH_RECORDS = _rows_of(
    "with_records", {"database_name": "recorded_databases", "table_name": "recorded_tables"}
)
_NEW_FILES = _rows_of("new_files", {column.name: f"file_{column.name}" for column in files.c})


@cache
def _commit(*, changes: bool) -> Executable:
    """Return the statement of a commit; ``changes``: with updates or deletes, which take their place in the sequence."""
    guards: tuple[ColumnElement[bool], ...]
    if changes:
        guards = (txns.c.kind == TxnKind.DEFAULT.value, ~_conflicts())
    else:
        may_write = or_(txns.c.kind != TxnKind.READ_ONLY.value, func.cardinality(_DATABASES) == 0)
        guards = (txns.c.kind != TxnKind.COMPACTION.value, may_write, ~own_changes(_TXN_ID).exists())
    done = (
        # The general way decides whether one of the overwrites is of a partition that this transaction wrote.
        END_ONE.where(txns.c.state == OPEN, IS_OWN, *guards, ~overwrites_since(_MOMENT, _TXN_ID).exists())
        .returning(txns.c.id, txns.c.ended, txns.c.user_name, txns.c.host, txns.c.agent)
        .cte("done")
    )
    committed = select(done.c.id).scalar_subquery()
    summary = select(_TOLD.c.summary).where(is_of_same_table(_TOLD, write_ids)).scalar_subquery()
    effects = [
        release_locks_of(committed).cte("released"),
        insert_commits(done, summary).cte("noted"),
        *_record_files(committed),
        *(_record_changes(done) if changes else [_record(done)]),
    ]
    return select(done.c.id).add_cte(*effects)


def _record_files(committed: ColumnElement[int]) -> list[CTE]:
    """Return what `file_records.record_files` does."""
    marked = marked_tables(committed).cte("marked_tables")
    told = select(_WITH_RECORDS).where(is_of_same_table(_WITH_RECORDS, recorded_tables)).exists()
    changed = select(marked).where(is_of_same_table(marked, recorded_tables)).exists()
    new = select(*_NEW_FILES.c).join(marked, is_of_same_table(marked, _NEW_FILES))
    return [
        delete(recorded_tables).where(changed, ~told).cte("unmarked"),
        insert(files).from_select([column.name for column in files.c], new).cte("filed"),
    ]


def _conflicts() -> ColumnElement[bool]:
    """Return the condition that another transaction changed one of the same partitions first.

    An intersection is computed by a hash or a sort. The planner does not know how many partitions there are, and compared each
    of 10,000 with each of 10,000 in a join, for 35 seconds. NULL, a table without partitions, equals NULL here.
    """

    def places(rows: FromClause) -> tuple[ColumnElement[Any], ...]:
        return rows.c.database_name, rows.c.table_name, rows.c.partition_name

    theirs, before = written.alias("theirs"), own_changes(_TXN_ID).subquery("before")
    now = select(*places(_BROUGHT)).where(_BROUGHT.c.operation.in_(CONFLICTING))
    mine = now.union_all(select(*places(before))).subquery("mine")
    changed = changes_since(_MOMENT, theirs).with_only_columns(*places(theirs))
    return changed.intersect(select(*places(mine))).exists()


def _record(done: CTE, *sequence: ColumnElement[int]) -> CTE:
    columns = ["txn_id", "database_name", "table_name", "partition_name", "operation"]
    rows = select(done.c.id, *_BROUGHT.c, *sequence)
    return (
        insert(written).from_select([*columns, *(["commit_sequence"] if sequence else [])], rows).cte("kept")
    )


def _record_changes(done: CTE) -> list[CTE]:
    counted = (
        update(counters)
        .where(counters.c.name == literal(COMMIT_SEQUENCE, Text), exists(select(done.c.id)))
        .values(value=counters.c.value + 1)
        .returning(counters.c.value)
        .cte("counted")
    )
    sequence = select(counted.c.value).scalar_subquery()
    earlier = place_in_sequence(select(done.c.id).scalar_subquery(), sequence).cte("marked")
    return [earlier, _record(done, counted.c.value)]
