"""Port for the progress of streaming queries."""

from __future__ import annotations

from typing import Protocol

from hiveacid.core.transactions.stream_progress import StreamKey, StreamProgress


class StreamProgressPort(Protocol):
    """Progress of streaming queries, committed in the same transaction as their rows."""

    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """Register a writer of a stream; repeating it for the same writer changes nothing.

        ``writer``: a text that identifies one run of the query. The rules are those of
        :func:`hiveacid.core.transactions.stream_progress.register_writer`. Raises StreamFencedError, StreamCheckpointError,
        UnsupportedFeatureError where a store cannot commit progress and rows together.
        """

    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """Return the progress of a stream, None if it never registered a writer."""
