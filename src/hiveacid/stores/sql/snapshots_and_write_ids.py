"""Snapshots of transactions at one instant, and their write ids: allocation, seeding, and the valid write-id lists.

After Hive's ``GetOpenTxnsFunction``, ``AllocateTableWriteIdsFunction`` and ``GetValidWriteIdsFunction``. A server assigns a
transaction id before others see its row. Such a gap below the highest id counts as open. Ids up to the counter SETTLED
have no unseen rows, so that a gap is recognised with certainty.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Protocol, cast

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    Select,
    Subquery,
    Text,
    bindparam,
    func,
    insert,
    literal,
    or_,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.transactions import TransactionRow
from hiveacid.stores import refusals
from hiveacid.stores.sql.commit_records import own_changes
from hiveacid.stores.sql.database import Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.dialects import Durability, joined_ids
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMIT_SEQUENCE,
    COMMITTED,
    OPEN,
    SETTLED,
    counters,
    is_of_any_table,
    is_of_same_table,
    is_of_table,
    next_write_ids,
    table_columns,
    table_pairs,
    table_parameters,
    txns,
    write_ids,
)
from hiveacid.stores.sql.txns_and_locks import LOWEST_OPEN, TOP, counter_value, lock_writing_txns

_FAR_BEHIND = 256
"""A snapshot raises SETTLED only if it can do so by more than this number; every snapshot reads all ids above SETTLED."""


class SnapshotRow(Protocol):
    """Row of `snapshot_query`; ids are texts, joined by commas. Databases whose ids may have gaps add two columns."""

    top: int
    open_ids: str | None
    aborted_ids: str | None
    sequence: int
    state: str
    moment: int
    reason: str | None
    code: str | None
    has_written: bool
    settled: int
    gaps: str | None


class Snapshots(SqlBase):
    """Methods that return open, committed and aborted transactions."""

    def take_snapshot(self, txn_id: TxnId) -> ValidTxnList:
        """Return the snapshot of an open transaction, and record its moment.

        After the transaction has recorded an update or delete, a new snapshot keeps the recorded moment: the transaction
        read the changed rows in an earlier snapshot. One statement; a second one only if changes were committed since
        the opening.
        """
        row = self._database.read(lambda connection: read_snapshot_row(self._database, connection, txn_id))
        if row.state != TransactionState.OPEN:
            raise refusals.not_open(txn_id, row.state or TransactionState.UNKNOWN, row.reason, row.code)
        if row.moment != row.sequence and not row.has_written:
            noted = self._database.write_statement(
                lambda connection: record_moment(connection, txn_id, row.sequence), Durability.WITH_CLIENT
            )
            if not noted:
                answer = self._database.read(
                    lambda connection: read_snapshot_row(self._database, connection, txn_id)
                )
                raise refusals.not_open(
                    txn_id, answer.state or TransactionState.UNKNOWN, answer.reason, answer.code
                )
        raise_settled_counter(self._database, row)
        return snapshot_of_row(row)

    def valid_txns(self) -> ValidTxnList:
        """Return the current snapshot."""
        row = self._database.read(lambda connection: read_snapshot_row(self._database, connection, TxnId(0)))
        raise_settled_counter(self._database, row)
        return snapshot_of_row(row)

    def min_open_txn_id(self) -> TxnId:
        """Return the lowest id that is open or just being opened; if there is none, the next one."""
        statement = _lowest(gaps=self._database.dialect.ids_may_gap)
        minima = self._database.read(lambda connection: connection.execute(statement).one())
        return TxnId(min(txn_id for txn_id in minima if txn_id is not None))

    def last_txn_id(self) -> TxnId:
        """Return the highest id while no transaction can be opened."""

        def work(connection: Connection) -> TxnId:
            self._database.dialect.block_opens(connection)
            return TxnId(connection.scalars(select(TOP)).one())

        return self._database.write(work, Durability.WITH_CLIENT, repeatable=True)

    def txn_state(self, txn_id: TxnId) -> str:
        """Return open, committed, aborted or unknown."""
        row = self._database.read(
            lambda connection: connection.execute(_STATE, {"txn_id": txn_id}).one_or_none()
        )
        if row is None or self._database.own_txns.is_foreign(txn_id, row.mark):
            return TransactionState.UNKNOWN
        return str(row.state)

    def show_transactions(self) -> tuple[TransactionRow, ...]:
        """List open and aborted transactions by id."""
        rows = self._database.read(lambda connection: connection.execute(_OPEN_AND_ABORTED).all())
        return tuple(
            TransactionRow(
                TxnId(row.id),
                row.state.upper(),
                row.started,
                row.heartbeat,
                row.user_name,
                row.host,
                row.timeout,
                row.code,
                row.ended,
            )
            for row in rows
        )


_OPEN_AND_ABORTED = select(txns).where(txns.c.state != COMMITTED).order_by(txns.c.id)
_STATE = select(txns.c.state, txns.c.mark).where(txns.c.id == bindparam("txn_id"))


def read_snapshot_row(database: Database, connection: Connection, txn_id: TxnId) -> SnapshotRow:
    """Return the row from which :func:`snapshot_of_row` makes a snapshot."""
    query = _snapshot_query(gaps=database.dialect.ids_may_gap)
    return cast("SnapshotRow", connection.execute(query, {"txn_id": txn_id}).one())


@cache
def _snapshot_query(*, gaps: bool) -> Executable:
    return snapshot_query(bindparam("txn_id", type_=BigInteger), gaps=gaps)


def snapshot_query(txn_id: ColumnElement[int], *, gaps: bool) -> Executable:
    """Return the statement that reads everything for a snapshot in one row, and therefore at one instant."""
    nobody = select(literal(1).label("one")).subquery("nobody")
    columns: list[ColumnElement[Any]] = [
        TOP.label("top"),
        _all_ids(OPEN).label("open_ids"),
        _all_ids(ABORTED).label("aborted_ids"),
        counter_value(COMMIT_SEQUENCE).label("sequence"),
        txns.c.state,
        txns.c.moment,
        txns.c.reason,
        txns.c.code,
        own_changes(txns.c.id).exists().label("has_written"),
    ]
    if gaps:
        around = _ids_with_predecessors()
        text = sql_cast(around.c.before, Text) + "-" + sql_cast(around.c.id, Text)
        columns += [
            counter_value(SETTLED).label("settled"),
            select(func.string_agg(text, ","))
            .where(around.c.id > around.c.before + 1)
            .scalar_subquery()
            .label("gaps"),
        ]
    return select(*columns).select_from(nobody.outerjoin(txns, txns.c.id == txn_id))


def _all_ids(state: ColumnElement[str]) -> ColumnElement[str]:
    others = txns.alias("others")
    return select(joined_ids(others.c.id)).where(others.c.state == state).scalar_subquery()


def _ids_with_predecessors() -> Subquery:
    """Return each id above SETTLED with its predecessor."""
    later = txns.alias("later")
    settled = counter_value(SETTLED)
    before = func.coalesce(func.lag(later.c.id).over(order_by=later.c.id), settled)
    return select(later.c.id, before.label("before")).where(later.c.id > settled).subquery("around")


@cache
def _lowest(*, gaps: bool) -> Executable:
    columns: list[ColumnElement[Any]] = [LOWEST_OPEN, TOP + 1]
    if gaps:
        around = _ids_with_predecessors()
        gap = select(func.min(around.c.before + 1)).where(around.c.id > around.c.before + 1)
        columns.append(gap.scalar_subquery())
    return select(*columns)


def raise_settled_counter(database: Database, row: SnapshotRow) -> None:
    """Raise the counter SETTLED to the first gap in a row of :func:`read_snapshot_row` if it is far behind."""
    if database.dialect.ids_may_gap:
        up_to = min((before for before, _ in _gaps_of(row)), default=int(row.top))
        if up_to > row.settled + _FAR_BEHIND:
            database.write_statement(
                lambda connection: connection.execute(_SETTLE, {"to": up_to}), Durability.WITH_CLIENT
            )


def snapshot_of_row(row: SnapshotRow) -> ValidTxnList:
    """Convert a row of :func:`read_snapshot_row` to a snapshot; ids in its gaps count as open."""
    between = tuple(TxnId(txn_id) for before, after in _gaps_of(row) for txn_id in range(before + 1, after))
    return ValidTxnList(TxnId(int(row.top)), _ids(row.open_ids) + between, _ids(row.aborted_ids))


def _gaps_of(row: SnapshotRow) -> list[tuple[int, int]]:
    """Return the ids around each gap; only databases that can have gaps have this column."""
    gaps = getattr(row, "gaps", None)
    if not gaps:
        return []
    pairs = (gap.split("-") for gap in gaps.split(","))
    return [(int(before), int(after)) for before, after in pairs]


def _ids(joined: str | None) -> tuple[TxnId, ...]:
    # Ids are ints that only the type checker tells apart; a call for each of 100,000 would cost as much again.
    return cast("tuple[TxnId, ...]", tuple(map(int, joined.split(",")))) if joined else ()


_SETTLE = (
    update(counters)
    .where(counters.c.name == SETTLED, counters.c.value < bindparam("to"))
    .values(value=bindparam("to"))
)


def record_moment(connection: Connection, txn_id: TxnId, sequence: int) -> bool:
    """Record the commit sequence at a transaction's snapshot; tell whether the transaction is open."""
    return bool(connection.execute(_MOMENT, {"txn_id": txn_id, "sequence": sequence}).rowcount)


_MOMENT = (
    update(txns)
    .where(txns.c.id == bindparam("txn_id"), txns.c.state == OPEN)
    .values(moment=bindparam("sequence"))
)


_GIVEN = select(write_ids.c.txn_id, write_ids.c.write_id).where(
    write_ids.c.txn_id.in_(bindparam("ids", expanding=True)), is_of_table(write_ids)
)


class WriteIds(SqlBase):
    """Methods that allocate write ids and list the valid ones."""

    def allocate_write_ids(self, txn_ids: Sequence[TxnId], table: TableName) -> tuple[WriteId, ...]:
        """Return the write ids of open transactions; those that have none get consecutive ones, in the order of their ids."""
        refusals.table_name(table)
        if not txn_ids:
            return ()
        allocated = self._database.write(
            lambda connection: allocate(self._database, connection, sorted(set(txn_ids)), table)
        )
        return tuple(allocated[txn_id] for txn_id in txn_ids)

    def seed_write_ids(self, table: TableName, high_watermark: WriteId, aborted: Sequence[WriteId]) -> None:
        """Continue the write ids of another engine; its aborted ids belong to no transaction."""
        refusals.table_name(table)
        ids = refusals.seed(high_watermark, aborted)
        write_exactly_once(
            self._database, lambda connection: seed(self._database, connection, table, high_watermark, ids)
        )

    def ended_up_to(self, table: TableName) -> WriteId:
        """Return the write id up to which every writer has ended, after waiting for partitions that are just being recorded."""
        refusals.table_name(table)
        lowest = self._database.write(
            lambda connection: lowest_open_write_id(self._database, connection, table, exclusive=True),
            repeatable=True,
        )
        return WriteId(lowest - 1)

    def valid_write_ids(
        self, txns: ValidTxnList, tables: Sequence[TableName]
    ) -> dict[TableName, ValidWriteIdList]:
        """Translate a snapshot into write-id lists; commits after the snapshot do not count."""
        for table in tables:
            refusals.table_name(table)
        return self._database.read(lambda connection: write_id_lists(connection, txns, tables))


def lowest_open_write_id(
    database: Database, connection: Connection, table: TableName, *, exclusive: bool
) -> int:
    """Return the lowest write id whose transaction is open, or the next one.

    ``exclusive``: wait until every database transaction that called this with False has committed.
    """
    database.dialect.serialise(connection, {"partitions": exclusive})
    return int(connection.scalar(_LOWEST_OPEN_OR_NEXT, table_parameters(table)))


# One statement: a writer that began between two would be neither among the open ones nor below the next id.
_LOWEST_OPEN_OR_NEXT = select(
    func.coalesce(
        select(func.min(write_ids.c.write_id))
        .where(is_of_table(write_ids), write_ids.c.txn_id == txns.c.id, txns.c.state == OPEN)
        .scalar_subquery(),
        select(next_write_ids.c.next_id).where(is_of_table(next_write_ids)).scalar_subquery(),
        1,
    )
)


def allocate(
    database: Database, connection: Connection, txn_ids: Sequence[TxnId], table: TableName
) -> dict[TxnId, WriteId]:
    """Return the write ids of open transactions; assign them to those that have none."""
    lock_writing_txns(database, connection, txn_ids)
    key = table_parameters(table)
    allocated = {
        TxnId(row.txn_id): WriteId(row.write_id)
        for chunk in chunks(txn_ids)
        for row in connection.execute(_GIVEN, {**key, "ids": chunk})
    }
    without = [txn_id for txn_id in txn_ids if txn_id not in allocated]
    return allocated | assign_write_ids(database, connection, without, table) if without else allocated


def assign_write_ids(
    database: Database, connection: Connection, txn_ids: Sequence[TxnId], table: TableName
) -> dict[TxnId, WriteId]:
    """Assign write ids to open transactions that have none for the table."""
    first = database.dialect.take_write_ids(connection, table, len(txn_ids))
    allocated = {txn_id: WriteId(first + step) for step, txn_id in enumerate(txn_ids)}
    connection.execute(_INSERT, [_row(table, write_id, txn_id) for txn_id, write_id in allocated.items()])
    return allocated


_INSERT = insert(write_ids)


def _row(table: TableName, write_id: int, txn_id: TxnId | None) -> dict[str, object]:
    return {**table_columns(table), "write_id": write_id, "txn_id": txn_id}


def seed(
    database: Database,
    connection: Connection,
    table: TableName,
    high_watermark: WriteId,
    ids: Sequence[WriteId],
) -> None:
    """Let a table begin above a write id; ``ids``, at or below it, count as aborted. Raises TransactionStateError if it has begun."""
    if database.dialect.take_write_ids(connection, table, high_watermark) != 1:
        raise refusals.ids_given(table)
    if ids:
        connection.execute(_INSERT, [_row(table, write_id, None) for write_id in ids])


def write_id_lists(
    connection: Connection, txns_seen: ValidTxnList, tables: Sequence[TableName]
) -> dict[TableName, ValidWriteIdList]:
    """Return the lists of :func:`valid_write_ids` in an open database transaction."""
    lists: dict[TableName, ValidWriteIdList] = {}
    first = min(txns_seen.min_open, txns_seen.high_watermark + 1)
    for chunk in chunks(dict.fromkeys(tables)):
        for row in connection.execute(_POSSIBLY_INVALID, {"places": table_pairs(chunk), "first": first}):
            name = TableName(row.database_name, row.table_name)
            lists[name] = write_id_list(name, row.next_id - 1, row.possibly_invalid, txns_seen)
    return {table: lists.get(table) or ValidWriteIdList(table, WriteId(0)) for table in tables}


# Transactions below the lowest one open in the snapshot had ended then, so their current state in the store is valid.
_ABORTED_FOR_EVER = select(txns.c.id).where(txns.c.id == write_ids.c.txn_id, txns.c.state == ABORTED).exists()
_PAIR = sql_cast(write_ids.c.write_id, Text) + "," + sql_cast(func.coalesce(write_ids.c.txn_id, 0), Text)


def _possibly_invalid_ids(first: ColumnElement[int]) -> Select[tuple[str, str, int, str]]:
    """Return the statement that reads the counter of each table and the write ids that may not be valid."""
    joined = (
        select(joined_ids(_PAIR))
        .where(
            is_of_same_table(write_ids, next_write_ids),
            or_(write_ids.c.txn_id.is_(None), write_ids.c.txn_id >= first, _ABORTED_FOR_EVER),
        )
        .scalar_subquery()
    )
    return select(
        next_write_ids.c.database_name,
        next_write_ids.c.table_name,
        next_write_ids.c.next_id,
        joined.label("possibly_invalid"),
    )


_POSSIBLY_INVALID = _possibly_invalid_ids(bindparam("first", type_=BigInteger)).where(
    is_of_any_table(next_write_ids)
)


def possibly_invalid_write_ids_query(first: ColumnElement[int]) -> Select[tuple[str, str, int, str]]:
    """Return the statement for one table; ``first``: no transaction below it was open at the snapshot."""
    return _possibly_invalid_ids(first).where(is_of_table(next_write_ids))


def _pairs(joined: str | None) -> Sequence[tuple[int, int]]:
    """Read ``write id,transaction id,...``; aborted ids without a transaction have transaction 0."""
    if not joined:
        return ()
    ids = list(map(int, joined.split(",")))
    return list(zip(ids[::2], ids[1::2], strict=True))


def write_id_list(
    table: TableName, top: int, joined: str | None, txns_seen: ValidTxnList
) -> ValidWriteIdList:
    """Divide possibly invalid ids into open and aborted ones, and cut off the highest ids if later transactions hold them."""
    possibly_invalid = _pairs(joined)
    later = {write_id for write_id, txn_id in possibly_invalid if txn_id > txns_seen.high_watermark}
    while top in later:
        top -= 1
    still_open, aborted = set(txns_seen.open), {0, *txns_seen.aborted}
    aborted_ids = (
        WriteId(write_id) for write_id, txn_id in possibly_invalid if txn_id in aborted and write_id <= top
    )
    open_ids = (
        WriteId(write_id)
        for write_id, txn_id in possibly_invalid
        # the cleaner knows aborted ones above its high watermark
        if write_id <= top and (txn_id in still_open or write_id in later) and txn_id not in aborted
    )
    return ValidWriteIdList(table, WriteId(top), tuple(open_ids), tuple(aborted_ids))
