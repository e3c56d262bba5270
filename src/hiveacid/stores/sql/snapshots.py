"""Snapshots: committed, open and aborted transactions at one instant (``GetOpenTxnsFunction``).

A server assigns a transaction id before others see its row. Such a gap below the highest id counts as open. Ids up to
the counter SETTLED have no unseen rows, so that a gap is recognised with certainty.
"""

from __future__ import annotations

from functools import cache
from typing import Any, cast

from sqlalchemy import (
    BigInteger,
    Connection,
    Executable,
    Subquery,
    Text,
    bindparam,
    func,
    literal,
    select,
    update,
)
from sqlalchemy import cast as sql_cast
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import TransactionState
from hiveacid.ports.transactions import TransactionRow
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import Database, SqlBase
from hiveacid.stores.sql.dialects import Durability, joined_ids
from hiveacid.stores.sql.schema import (
    ABORTED,
    COMMIT_SEQUENCE,
    COMMITTED,
    CONFLICTING,
    OPEN,
    SETTLED,
    counters,
    txns,
    written,
)
from hiveacid.stores.sql.txn_rows import LOWEST_OPEN, TOP, counter_value

_FAR_BEHIND = 256
"""A snapshot raises SETTLED only if it can do so by more than this number; every snapshot reads all ids above SETTLED."""


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
            )
            for row in rows
        )


_OPEN_AND_ABORTED = select(txns).where(txns.c.state != COMMITTED).order_by(txns.c.id)
_STATE = select(txns.c.state, txns.c.mark).where(txns.c.id == bindparam("txn_id"))


def read_snapshot_row(database: Database, connection: Connection, txn_id: TxnId) -> Any:
    """Return the row from which :func:`snapshot_of_row` makes a snapshot."""
    return connection.execute(_snapshot_query(gaps=database.dialect.ids_may_gap), {"txn_id": txn_id}).one()


@cache
def _snapshot_query(*, gaps: bool) -> Executable:
    return snapshot_query(bindparam("txn_id", type_=BigInteger), gaps=gaps)


def snapshot_query(txn_id: ColumnElement[int], *, gaps: bool) -> Executable:
    """Return the statement that reads everything for a snapshot in one row, and therefore at one instant."""
    nobody = select(literal(1).label("one")).subquery("nobody")
    has_written = select(written.c.txn_id).where(
        written.c.txn_id == txns.c.id, written.c.operation.in_(CONFLICTING)
    )
    columns: list[ColumnElement[Any]] = [
        TOP.label("top"),
        _all_ids(OPEN).label("open_ids"),
        _all_ids(ABORTED).label("aborted_ids"),
        counter_value(COMMIT_SEQUENCE).label("sequence"),
        txns.c.state,
        txns.c.moment,
        txns.c.reason,
        txns.c.code,
        has_written.exists().label("has_written"),
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


def raise_settled_counter(database: Database, row: Any) -> None:
    """Raise the counter SETTLED to the first gap in a row of :func:`read_snapshot_row` if it is far behind."""
    if database.dialect.ids_may_gap:
        up_to = min((before for before, _ in _gaps_of(row)), default=int(row.top))
        if up_to > row.settled + _FAR_BEHIND:
            database.write_statement(
                lambda connection: connection.execute(_SETTLE, {"to": up_to}), Durability.WITH_CLIENT
            )


def snapshot_of_row(row: Any) -> ValidTxnList:
    """Convert a row of :func:`read_snapshot_row` to a snapshot; ids in its gaps count as open."""
    between = tuple(TxnId(txn_id) for before, after in _gaps_of(row) for txn_id in range(before + 1, after))
    return ValidTxnList(TxnId(int(row.top)), _ids(row.open_ids) + between, _ids(row.aborted_ids))


def _gaps_of(row: Any) -> list[tuple[int, int]]:
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
