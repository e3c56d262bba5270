"""Progress of streams, read and changed in the database transaction that commits their rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection, Row, bindparam, delete, insert, select, update

from hiveacid.core.model import TableName
from hiveacid.core.transactions.stream_progress import (
    StreamBatch,
    StreamKey,
    StreamProgress,
    batch_error,
    register_writer,
)
from hiveacid.errors import StreamFencedError, StreamReplayedError
from hiveacid.stores import refusals
from hiveacid.stores.sql.database import SqlBase
from hiveacid.stores.sql.schema import is_of_table, streams, table_columns, table_parameters

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
            self._database.dialect.serialise(
                connection, {f"stream {parameters['of']}": True}
            )  # a new stream has no row to lock
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


def _progress(stream: StreamKey, row: Row[Any]) -> StreamProgress:
    writers = tuple((name, epoch) for name, epoch in json.loads(row.writers))
    return StreamProgress(stream, row.checkpoint, row.epoch, row.batch_id, writers)


def _row(table: TableName, progress: StreamProgress) -> dict[str, object]:
    key = progress.stream
    return {
        **table_columns(table),
        "digest": _parameters(key)["of"],
        "query": key.query,
        **_values(progress),
    }


def _values(progress: StreamProgress) -> dict[str, object]:
    return {
        "checkpoint": progress.checkpoint,
        "epoch": progress.epoch,
        "batch_id": progress.last_batch_id,
        "writers": json.dumps(progress.writers, separators=(",", ":")),
    }


def _parameters(stream: StreamKey) -> Mapping[str, str]:
    return table_parameters(stream.table) | {"of": hashlib.sha256(stream.query.encode()).hexdigest()}
