"""The streams of the reference store."""

from __future__ import annotations

from hiveacid.core.streams import StreamKey, StreamProgress, registered
from hiveacid.stores import checks
from hiveacid.stores.memory_state import MemoryPart, alone


class MemoryStreams(MemoryPart):
    """Implements the streams of :class:`hiveacid.ports.TransactionStore`."""

    @alone
    def register_stream(
        self, stream: StreamKey, writer: str, checkpoint: str, *, restart: bool = False
    ) -> StreamProgress:
        """See :class:`hiveacid.ports.TransactionStore`."""
        checks.stream(stream, writer, checkpoint)
        known = self._state.streams.get(stream)
        self._state.streams[stream] = registered(known, stream, writer, checkpoint, restart=restart)
        return self._state.streams[stream]

    @alone
    def stream_progress(self, stream: StreamKey) -> StreamProgress | None:
        """See :class:`hiveacid.ports.TransactionStore`."""
        return self._state.streams.get(checks.stream(stream))
