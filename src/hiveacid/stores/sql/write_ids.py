"""Write ids: allocation, seeding, and the valid write-id lists of snapshots.

After Hive's ``AllocateTableWriteIdsFunction`` and ``GetValidWriteIdsFunction``.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import BigInteger, Connection, Select, Text, bindparam, cast, func, insert, or_, select
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import Database, SqlBase, chunks, write_exactly_once
from hiveacid.stores.sql.dialects import joined_ids
from hiveacid.stores.sql.schema import (
    ABORTED,
    OPEN,
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
from hiveacid.stores.sql.txn_rows import lock_writing_txns

_GIVEN = select(write_ids.c.txn_id, write_ids.c.write_id).where(
    write_ids.c.txn_id.in_(bindparam("ids", expanding=True)),
    is_of_table(write_ids),
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
_PAIR = cast(write_ids.c.write_id, Text) + "," + cast(func.coalesce(write_ids.c.txn_id, 0), Text)


def _possibly_invalid_ids(first: ColumnElement[int]) -> Select[Any]:
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


def possibly_invalid_write_ids_query(first: ColumnElement[int]) -> Select[Any]:
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
