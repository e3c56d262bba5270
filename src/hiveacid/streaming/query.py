"""Batches of a query through a `Connection`, each exactly once."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hiveacid.core.transactions.stream_progress import StreamBatch, StreamKey, StreamProgress, refusal
from hiveacid.errors import StreamReplayedError, WriteConflictError

if TYPE_CHECKING:
    from hiveacid.streaming.connection import Connection

logger = logging.getLogger(__name__)

_ATTEMPTS = 5  # at a batch whose partitions others overwrite


@dataclass(frozen=True)
class QueryStream:
    """A query that writes through a connection; made by `register`. ``first``: nothing was written by this run yet."""

    connection: Connection
    progress: StreamProgress
    first: bool

    @classmethod
    def register(
        cls, connection: Connection, query: str, run: str, checkpoint: str, *, restart: bool = False
    ) -> QueryStream:
        """Let a run of the query begin, or go on.

        Raises StreamFencedError (a newer run has taken over), StreamCheckpointError (see ``core.transactions.stream_progress``).
        """
        stream = StreamKey(connection.table, query)
        before = connection.store.stream_progress(stream)
        progress = connection.store.register_stream(stream, run, checkpoint, restart=restart)
        return cls(connection, progress, first=before is None or before.epoch != progress.epoch)

    def deliver(self, batch_id: int, rows: Callable[[], Iterable[Any]]) -> int | None:
        """Write a batch in one transaction; return its rows, None if the table has it.

        ``rows``: gives what `Connection.write` takes, anew if asked again (after a partition was overwritten by
        somebody). Raises what `Connection.write` and `Connection.commit` do, and StreamFencedError; then nothing of the
        batch is visible.
        """
        known = self.progress
        batch = StreamBatch(known.stream, known.checkpoint, known.epoch, batch_id)
        try:
            refused = refusal(known, batch)
            if refused is not None:
                raise refused
            for attempt in range(1, _ATTEMPTS + 1):
                try:
                    return self._attempt(batch, rows())
                except WriteConflictError:
                    if attempt == _ATTEMPTS:
                        raise
        except StreamReplayedError as replayed:
            logger.info("%s", replayed)
        return None

    def _attempt(self, batch: StreamBatch, rows: Iterable[Any]) -> int:
        stream = self.connection
        stream.begin_transaction()
        try:
            stream.carry(batch)
            for some in rows:
                stream.write(some)
        except BaseException:
            if stream.in_transaction:
                stream.abort()
            raise
        return stream.commit()
