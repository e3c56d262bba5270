"""Records of commits: what they changed, a table's history and the progress of streams, written in the commit's own transaction.

Queries of what others committed first decide whether a transaction may commit, in the general way and in the pipeline. The
general way reads their rows, applies the rule of :mod:`hiveacid.core.transactions.locks_and_conflicts` to them, and words the
error. The pipeline asks only whether there are none. ``moment`` is the commit sequence at the transaction's snapshot, ``txn_id``
its id; both are SQL expressions.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import (
    BigInteger,
    Connection,
    FromClause,
    Insert,
    Select,
    Text,
    Update,
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
    update,
)
from sqlalchemy.sql.elements import ColumnElement

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import (
    CommitRecord,
    OperationSummary,
    StreamBatch,
    StreamKey,
    StreamProgress,
    TableOperation,
    batch_error,
    register_writer,
    sort_commits,
)
from hiveacid.errors import StreamFencedError, StreamReplayedError
from hiveacid.ports.transactions import Operation
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import NOW, SqlBase
from hiveacid.stores.sql.dialects.dialect import NamedRow
from hiveacid.stores.sql.schema import (
    CONFLICTING,
    commits,
    is_of_same_table,
    is_of_table,
    streams,
    table_columns,
    table_parameters,
    txns,
    write_ids,
    written,
)


def own_changes(txn_id: ColumnElement[int]) -> Select[Any]:
    """Return the query of what a transaction has recorded as updated or deleted."""
    own = written.alias("own")
    return select(own).where(own.c.txn_id == txn_id, own.c.operation.in_(CONFLICTING))


def changes_since(moment: ColumnElement[int], theirs: FromClause = written) -> Select[Any]:
    """Return the query of updates and deletes that others have committed since."""
    return select(theirs).where(theirs.c.commit_sequence > moment, theirs.c.operation.in_(CONFLICTING))


def overwrites_since(moment: ColumnElement[int], txn_id: ColumnElement[int]) -> Select[Any]:
    """Return the query of overwrites committed since with a higher write id than the transaction's own."""
    return (
        select(written)
        .join(write_ids, is_of_same_table(write_ids, written))
        .where(
            write_ids.c.txn_id == txn_id,
            written.c.commit_sequence > moment,
            written.c.operation == Operation.UPDATE.value,  # not the trace of a compaction
            written.c.write_id > write_ids.c.write_id,
        )
    )


def place_in_sequence(txn_id: ColumnElement[int], sequence: ColumnElement[int]) -> Update:
    """Return the statement that gives what a transaction has recorded its place in the sequence of commits."""
    return update(written).where(written.c.txn_id == txn_id).values(commit_sequence=sequence)


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
    own = txns.c.id == bindparam("of_txn", type_=BigInteger)
    connection.execute(insert_commits(txns, summary, own), {"of_txn": txn_id})


def insert_commits(
    ended: FromClause, summary: ColumnElement[Any], *conditions: ColumnElement[bool]
) -> Insert:
    """Return the INSERT of a row for each write id of transactions that have ended."""
    txn = ended.c
    committed = case((txn.ended < _LATEST, _LATEST), else_=txn.ended)
    rows = select(
        write_ids.c.database_name,
        write_ids.c.table_name,
        write_ids.c.write_id,
        committed,
        txn.id,
        txn.user_name,
        txn.host,
        txn.agent,
        summary,
    ).where(write_ids.c.txn_id == txn.id, *conditions)
    return insert(commits).from_select(_COLUMNS, rows)


# Even if the clock goes back, a commit is recorded no earlier than the commits whose rows it may have changed.
_EARLIER = commits.alias()
_LATEST = (
    select(_EARLIER.c.committed)
    .where(
        _EARLIER.c.database_name == write_ids.c.database_name, _EARLIER.c.table_name == write_ids.c.table_name
    )
    .order_by(_EARLIER.c.committed.desc())
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
        parameters: dict[str, str | int] = {**table_parameters(table)}
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


def _commit(row: NamedRow) -> CommitRecord:
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


_OF_STREAM = (is_of_table(streams), streams.c.digest == bindparam("of"))
_SELECT = select(streams).where(*_OF_STREAM)
_OF_TABLE = select(streams).where(is_of_table(streams))
_DELETE_OF_TABLE = delete(streams).where(is_of_table(streams))
_INSERT = insert(streams)
_SELECT_FOR_UPDATE = _SELECT.with_for_update()
_UPDATE = update(streams).where(*_OF_STREAM)


class Streams(SqlBase):
    """Implements :class:`hiveacid.ports.store.StreamProgressPort`."""

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """Register a writer. The call can be repeated without effect, so it is repeated if its answer was lost."""
        refusals.stream(stream, writer, checkpoint)
        parameters = _parameters(stream)

        def work(connection: Connection) -> StreamProgress:
            # a new stream has no row to lock
            self._database.dialect.serialise(connection, {f"stream {parameters['of']}": True})
            known = _read_progress(connection, stream, hold=True)
            progress = register_writer(known, stream, writer, checkpoint, restart=restart)
            if known is None:
                connection.execute(_INSERT, _row(stream.table, progress))
            elif progress != known:
                connection.execute(_UPDATE.values(_values(progress)), parameters)
            return progress

        return self._database.write(work, repeatable=True)

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """Return the progress of a stream."""
        refusals.stream(stream)
        return self._database.read(lambda connection: _read_progress(connection, stream))

    def list_streams(self, table: TableName) -> tuple[StreamProgress, ...]:
        """Return the progress of all streams into a table."""
        refusals.table_name(table)
        rows = self._database.read(
            lambda connection: connection.execute(_OF_TABLE, table_parameters(table)).all()
        )
        found = [_progress(StreamKey(table, row.query), row) for row in rows]
        return tuple(sorted(found, key=lambda progress: progress.stream.query))

    def restore_streams(self, table: TableName, streams: Sequence[StreamProgress]) -> None:
        """Replace the progress of all streams into a table."""
        refusals.table_name(table)
        rows = [_row(table, progress) for progress in streams]

        def work(connection: Connection) -> None:
            connection.execute(_DELETE_OF_TABLE, table_parameters(table))
            if rows:
                connection.execute(_INSERT, rows)

        self._database.write(work, repeatable=True)


def batch_refusal(
    connection: Connection, batch: StreamBatch
) -> StreamFencedError | StreamReplayedError | None:
    """Return the error that forbids a batch to commit, None if it may; lock the stream's row until the transaction ends."""
    return batch_error(_read_progress(connection, batch.stream, hold=True), batch)


def record_batch(connection: Connection, batch: StreamBatch) -> None:
    """Record a batch as committed; the caller has locked the stream's row."""
    connection.execute(_UPDATE.values(batch_id=batch.batch_id), _parameters(batch.stream))


def _read_progress(connection: Connection, stream: StreamKey, *, hold: bool = False) -> StreamProgress | None:
    row = connection.execute(_SELECT_FOR_UPDATE if hold else _SELECT, _parameters(stream)).one_or_none()
    return None if row is None else _progress(stream, row)


def _progress(stream: StreamKey, row: NamedRow) -> StreamProgress:
    writers = tuple((name, epoch) for name, epoch in json.loads(row.writers))
    return StreamProgress(stream, row.checkpoint, row.epoch, row.batch_id, writers)


def _row(table: TableName, progress: StreamProgress) -> dict[str, object]:
    key = progress.stream
    return {**table_columns(table), "digest": _parameters(key)["of"], "query": key.query, **_values(progress)}


def _values(progress: StreamProgress) -> dict[str, object]:
    return {
        "checkpoint": progress.checkpoint,
        "epoch": progress.epoch,
        "batch_id": progress.last_batch_id,
        "writers": json.dumps(progress.writers, separators=(",", ":")),
    }


def _parameters(stream: StreamKey) -> Mapping[str, str]:
    return table_parameters(stream.table) | {"of": hashlib.sha256(stream.query.encode()).hexdigest()}
