"""Transport to a metastore: one deadline for a whole call, and a limit for the size of an answer."""

from __future__ import annotations

import socket
import time
from io import BytesIO
from typing import Protocol

LARGEST_ANSWER = 512 << 20
"""Maximum size of one answer in bytes (a view's text, a table's partitions). Memory grows with the bytes received, not with an announced length."""
MOST_ITEMS = 2 << 20
"""Most items of one list, set or map: the Thrift library allocates the announced number before it reads the first."""
_PIECE = 1 << 18  # bytes of one read at most


class ByteStream(Protocol):
    """A connection that may sign or encrypt what it carries."""

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, at least one. Raises OSError, EOFError."""

    def write(self, data: bytes) -> None:
        """Send ``data``, or keep it until `flush`."""

    def flush(self) -> None:
        """Send the kept bytes."""

    def close(self) -> None:
        """Close the connection."""


class TimedSocket:
    """A socket with one deadline for all that is sent and received; a server that sends byte by byte gains no time."""

    def __init__(self, plain: socket.socket, seconds: float) -> None:
        self.plain = plain
        self.expect(seconds)

    def expect(self, seconds: float) -> None:
        """Set the deadline to ``seconds`` from now."""
        self._seconds, self._end = seconds, time.monotonic() + seconds

    def recv(self, size: int) -> bytes:
        """Return at most ``size`` bytes, none at the connection's end. Raises TimeoutError, OSError."""
        self._limit()
        return self.plain.recv(min(size, _PIECE))

    def sendall(self, data: bytes) -> None:
        """Send all; the socket's timeout limits the whole ``sendall``, not each ``send``."""
        self._limit()
        self.plain.sendall(data)

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes, at least one."""
        data = self.recv(size)
        if not data:
            raise EOFError("the metastore hung up")
        return data

    def write(self, data: bytes) -> None:
        """Send all."""
        self.sendall(data)

    def flush(self) -> None:
        """Do nothing: `write` has sent everything."""

    def close(self) -> None:
        """Close the connection."""
        self.plain.close()

    def _limit(self) -> None:
        seconds = self._end - time.monotonic()
        if seconds <= 0:
            raise TimeoutError(f"timed out: no whole answer within {self._seconds:g} seconds")
        self.plain.settimeout(seconds)


class Transport:
    """Buffered transport that the Thrift library reads from and writes to (its ``CReadableTransport``)."""

    def __init__(self, below: ByteStream) -> None:
        self._below = below
        self._out = BytesIO()
        self.cstringio_buf = BytesIO()  # the library's compiled half reads from it
        self._left = LARGEST_ANSWER

    def begin(self) -> None:
        """Begin a call: drop bytes received earlier, which do not belong to its answer."""
        self._out, self.cstringio_buf, self._left = BytesIO(), BytesIO(), LARGEST_ANSWER

    def require_end(self) -> None:
        """Raise EOFError if bytes follow the answer."""
        if self.cstringio_buf.read(1):
            raise EOFError("the metastore sent more than one answer")

    def cstringio_refill(self, partial: bytes, size: int) -> BytesIO:
        """Return a buffer that begins with ``partial`` and holds ``size`` bytes at least."""
        self.cstringio_buf = BytesIO(self._filled(partial, size))
        return self.cstringio_buf

    def readAll(self, size: int) -> bytes:  # noqa: N802 - Thrift's name
        """Return ``size`` bytes."""
        data = self.cstringio_buf.read(size)
        if len(data) < size:
            self.cstringio_refill(data, size)
            data = self.cstringio_buf.read(size)
        return data

    def write(self, data: bytes) -> None:
        """Keep ``data`` until :meth:`flush`."""
        self._out.write(data)

    def flush(self) -> None:
        """Send the written bytes."""
        self._below.write(self._out.getvalue())
        self._out = BytesIO()
        self._below.flush()

    def close(self) -> None:
        """Close the connection."""
        self._below.close()

    def _filled(self, partial: bytes, size: int) -> bytes:
        data = bytearray(partial)
        while len(data) < size:
            piece = self._below.read(max(size - len(data), 4096))
            self._left -= len(piece)
            if self._left < 0:
                raise EOFError(f"the answer has more than {LARGEST_ANSWER >> 20} MB")
            data += piece
        return bytes(data)
