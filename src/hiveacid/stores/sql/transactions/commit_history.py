"""Rows of commit records: written in the database transaction of the commit, dropped by housekeeping."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    Text,
    and_,
    bindparam,
    case,
    delete,
    func,
    insert,
    literal,
    null,
    or_,
    select,
)
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import (
    CommitRecord,
    OperationSummary,
    TableOperation,
    sort_commits,
)
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, SqlBase
from hiveacid.stores.sql.schema import commits, is_of_table, table_parameters, txns, write_ids


def record_commit(connection: Connection, txn_id: TxnId, operations: Sequence[TableOperation]) -> None:
    """Record the commit of a transaction that has just ended, with a row for each of its write ids."""
    summary: ColumnElement[Any] = null()
    if operations:
        whens = [
            (
                and_(
                    write_ids.c.database_name == operation.table.database,
                    write_ids.c.table_name == operation.table.name,
                ),
                literal(operation.summary.to_text(), Text()),
            )
            for operation in operations
        ]
        summary = case(*whens, else_=null())
    rows = select(
        write_ids.c.database_name,
        write_ids.c.table_name,
        write_ids.c.write_id,
        case((txns.c.ended < _LATEST, _LATEST), else_=txns.c.ended),
        txns.c.id,
        txns.c.user_name,
        txns.c.host,
        txns.c.agent,
        summary,
    ).where(write_ids.c.txn_id == txns.c.id, txns.c.id == bindparam("of_txn", type_=BigInteger))
    connection.execute(insert(commits).from_select(_COLUMNS, rows), {"of_txn": txn_id})


# Even if the clock goes back, a commit is recorded no earlier than the commits whose rows it may have changed.
_EARLIER = commits.alias()
_LATEST = (
    select(_EARLIER.c.committed)
    .where(
        _EARLIER.c.database_name == write_ids.c.database_name,
        _EARLIER.c.table_name == write_ids.c.table_name,
    )
    .order_by(_EARLIER.c.write_id.desc())
    .limit(1)
    .correlate(write_ids)
    .scalar_subquery()
)
_COLUMNS = (
    "database_name",
    "table_name",
    "write_id",
    "committed",
    "txn_id",
    "user_name",
    "host",
    "agent",
    "operation_summary",
)


def start_history(connection: Connection, name: TableName, operation: str, now: int | None) -> None:
    """Start a table's history now: records of earlier commits are dropped."""
    connection.execute(delete(commits).where(is_of_table(commits)), table_parameters(name))
    text = OperationSummary(operation).to_text()
    parameters = {"for_database": name.database, "for_table": name.name, "summary": text, "now": now}
    connection.execute(_BEGIN, parameters)


_BEGIN = insert(commits).values(
    database_name=bindparam("for_database"),
    table_name=bindparam("for_table"),
    write_id=0,
    committed=NOW,
    operation_summary=bindparam("summary"),
)


class CommitRecords(SqlBase):
    """Method that lists commit records."""

    def commits(self, table: TableName, after: int | None = None) -> tuple[CommitRecord, ...]:
        """Return the earliest known commit and all commits later than ``after``."""
        refusals.table_name(table)
        parameters = table_parameters(table)
        if after is not None:
            parameters["after"] = after
        statement = _ALL if after is None else _LATER
        return sort_commits(
            _commit(row) for row in self._database.read(lambda c: c.execute(statement, parameters).all())
        )


_ALL = select(commits).where(is_of_table(commits))
_LATER = _ALL.where(
    or_(
        commits.c.committed > bindparam("after", type_=BigInteger),
        commits.c.write_id
        == select(commits.c.write_id)
        .where(is_of_table(commits))
        .order_by(commits.c.committed, commits.c.write_id)
        .limit(1)
        .scalar_subquery(),
    )
)


def _commit(row: Any) -> CommitRecord:
    txn_id = None if row.txn_id is None else TxnId(row.txn_id)
    summary = OperationSummary.of_text(row.operation_summary)
    return CommitRecord(
        WriteId(row.write_id), row.committed, txn_id, row.user_name, row.host, row.agent, summary
    )


def prune_commits(connection: Connection, limits: Limits, now: int | None) -> None:
    """Drop old commits of each table, except the last of them, which represents the earlier ones."""
    keep = int(limits.commits_retention * 1000)
    for row in connection.execute(_OLD, {"now": now, "keep": keep}).all():
        parameters = {"database": row.database_name, "name": row.table_name, "last": row.last}
        connection.execute(_FORGET, parameters)


_LAST = func.max(commits.c.committed).label("last")
_OLD = (
    select(commits.c.database_name, commits.c.table_name, _LAST)
    .where(commits.c.committed <= NOW - bindparam("keep", type_=BigInteger))
    .group_by(commits.c.database_name, commits.c.table_name)
    .having(func.min(commits.c.committed) < _LAST)
)
_FORGET = delete(commits).where(
    is_of_table(commits), commits.c.committed < bindparam("last", type_=BigInteger)
)
