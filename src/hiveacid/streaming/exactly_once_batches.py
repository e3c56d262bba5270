"""Exactly-once writes of a streaming query's batches through a `Connection`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey, StreamProgress, batch_error
from hiveacid.errors import StreamReplayedError
from hiveacid.ports.store import stream_store
from hiveacid.streaming.connection import Connection, retry_conflicts

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class StreamingQueryWriter:
    """Registered writer of one run of a streaming query. ``first``: this run had not registered before."""

    connection: Connection
    progress: StreamProgress
    first: bool

    @classmethod
    def register(
        cls, connection: Connection, query: str, run: str, checkpoint: str, *, restart: bool = False
    ) -> StreamingQueryWriter:
        """Register a run of the query, or let it continue.

        Raises StreamFencedError (a newer run has taken over), StreamCheckpointError (see ``core.transactions.commit_records``).
        """
        stream = StreamKey(connection.table, query)
        store = stream_store(connection.store, stream)
        before = store.stream_progress(stream)
        progress = store.register_stream(stream, run, checkpoint, restart=restart)
        return cls(connection, progress, first=before is None or before.epoch != progress.epoch)

    def deliver(self, batch_id: int, rows: Callable[[], Iterable[Any]]) -> int | None:
        """Write a batch in one transaction; return its number of rows, None if the table already has the batch.

        ``rows`` returns the arguments for `Connection.write`; it is called again if another transaction overwrote a
        partition. Raises the errors of `Connection.write` and `Connection.commit`, and StreamFencedError; then no row of
        the batch is visible.
        """
        progress = self.progress
        batch = StreamBatch(progress.stream, progress.checkpoint, progress.epoch, batch_id)
        try:
            refused = batch_error(progress, batch)
            if refused is not None:
                raise refused
            return retry_conflicts(
                f"batch {batch_id} of stream {batch.stream}", lambda: self._attempt(batch, rows())
            )
        except StreamReplayedError as replayed:
            logger.info("%s", replayed)
            return None

    def _attempt(self, batch: StreamBatch, rows: Iterable[Any]) -> int:
        connection = self.connection
        connection.begin_transaction()
        try:
            connection.add_stream_progress(batch)
            for records in rows:
                connection.write(records)
        except BaseException:
            if connection.in_transaction:
                connection.abort()
            raise
        return connection.commit()
