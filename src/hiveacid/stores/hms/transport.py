"""Transport to a metastore: one deadline for a whole call, a limit for the size of an answer, and Kerberos.

Kerberos is SASL's GSSAPI mechanism (RFC 4752) in the frames of Thrift's SASL transport. The library
``gssapi`` (extra ``kerberos``) is loaded when a connection is made. Credentials are those of the process: a ticket of
``kinit`` (``KRB5CCNAME``), or a keytab (``KRB5_CLIENT_KTNAME``).
"""

from __future__ import annotations

import socket
import struct
import time
from io import BytesIO
from typing import Any

from hiveacid.errors import ConfigError, StoreError

LARGEST_ANSWER = 512 << 20
"""Maximum size of one answer in bytes (a view's text, a table's partitions). Memory grows with the bytes received, not with an announced length."""
MOST_ITEMS = 2 << 20
"""Most items of one list, set or map: the Thrift library allocates the announced number before it reads the first."""
_PIECE = 1 << 18  # bytes of one read at most


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
            raise EOFError("the metastore closed the connection")
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

    def __init__(self, below: TimedSocket | SaslTransport) -> None:
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


MECHANISM = b"GSSAPI"
_START, _OK, _COMPLETE = 1, 2, 5  # a negotiation message's status; others are failures
# security layers, as bits: what the server's hadoop.rpc.protection offers
_PLAIN, _INTEGRITY, _PRIVACY = 1, 2, 4
_HEAD = struct.Struct(">BI")
_LENGTH = struct.Struct(">I")
_LARGEST_FRAME = 512 * 1024 * 1024  # bytes
_OUR_BUFFER = 0xFFFFFF  # the largest that the negotiation can name


class NotSentError(OSError):
    """Nothing was sent, because the security context failed (an expired ticket, for example)."""


def gssapi_library() -> Any:
    """Return the library gssapi. Raises ConfigError if it is not installed."""
    try:
        import gssapi  # noqa: PLC0415 - only who uses Kerberos needs it
    except ImportError as error:
        raise ConfigError(
            "Kerberos needs the package gssapi: pip install 'hiveacid[kerberos]' "
            "(it is built with MIT Kerberos' headers, libkrb5-dev on Debian)"
        ) from error
    return gssapi


class SaslTransport:
    """Authenticated transport over a socket, below Thrift's buffered transport.

    ``principal``: the metastore's; ``host`` replaces ``_HOST`` in it. The constructor raises StoreError if Kerberos or the
    metastore refuses. Everything raises OSError and EOFError as sockets do. ``layer``: 1 plain, 2 signed, 4 encrypted; the
    strongest of those that the server's ``hadoop.rpc.protection`` offers.
    """

    def __init__(self, plain: TimedSocket, principal: str, host: str) -> None:
        principal = principal.replace("_HOST", host.lower())
        gssapi = gssapi_library()
        self._refused: type[Exception] = gssapi.exceptions.GSSError
        self._socket = plain
        self._in = b""
        self._out: list[bytes] = []
        self.layer = _PLAIN
        self._context: Any = None
        try:
            self._negotiate(gssapi, principal)
        except gssapi.exceptions.GSSError as error:
            raise StoreError(
                f"Kerberos refused a ticket for {principal}: {error}; run kinit, or name a keytab by KRB5_CLIENT_KTNAME"
            ) from error

    def read(self, size: int) -> bytes:
        """Return at most ``size`` bytes of what came, at least one."""
        while not self._in:
            (length,) = _LENGTH.unpack(self._exactly(_LENGTH.size))
            frame = self._exactly(_checked(length))
            try:
                self._in = frame if self.layer == _PLAIN else self._context.unwrap(frame).message
            except self._refused as error:
                raise ConnectionError(f"the answer is not of our security context: {error}") from error
        chunk, self._in = self._in[:size], self._in[size:]
        return chunk

    def write(self, data: bytes) -> None:
        """Keep ``data`` until :meth:`flush`."""
        self._out.append(data)

    def flush(self) -> None:
        """Send the written bytes as one frame. Raises NotSentError if encryption fails before a byte is sent."""
        data, self._out = b"".join(self._out), []
        try:
            if self.layer != _PLAIN:
                data = self._context.wrap(data, self.layer == _PRIVACY).message
        except self._refused as error:
            raise NotSentError(f"Kerberos could not encrypt the message: {error}") from error
        self._socket.sendall(_LENGTH.pack(len(data)) + data)

    def close(self) -> None:
        """Hang up."""
        self._socket.close()

    def _negotiate(self, gssapi: Any, principal: str) -> None:
        name, flags = gssapi.Name(principal, gssapi.NameType.kerberos_principal), gssapi.RequirementFlag
        layers = flags.integrity | flags.confidentiality | flags.out_of_sequence_detection
        self._context = gssapi.SecurityContext(
            name=name, usage="initiate", flags=flags.mutual_authentication | layers
        )
        first = self._context.step() or b""
        self._say(_START, MECHANISM)
        self._say(_OK, first)
        while not self._context.complete:
            self._say(_OK, self._context.step(self._heard()[1]) or b"")
        self._choose_layer()

    def _choose_layer(self) -> None:
        """Choose the strongest security layer that the server offers; request no other authorisation identity."""
        offer = self._context.unwrap(self._heard()[1]).message
        offered = offer[0] if offer else 0
        self.layer = next((layer for layer in (_PRIVACY, _INTEGRITY, _PLAIN) if offered & layer), 0)
        if not self.layer:
            raise StoreError(
                f"the metastore offers no security layer that is known (its offer: {offer.hex()})"
            )
        largest = 0 if self.layer == _PLAIN else _OUR_BUFFER
        answer = _LENGTH.pack(self.layer << 24 | largest)
        self._say(_COMPLETE, self._context.wrap(answer, False).message)  # noqa: FBT003 - not encrypted, as RFC 4752 says
        if self._heard()[0] != _COMPLETE:
            raise StoreError("the metastore did not end the SASL negotiation")

    def _say(self, status: int, payload: bytes) -> None:
        self._socket.sendall(_HEAD.pack(status, len(payload)) + payload)

    def _heard(self) -> tuple[int, bytes]:
        status, length = _HEAD.unpack(self._exactly(_HEAD.size))
        payload = self._exactly(_checked(length))
        if status not in (_OK, _COMPLETE):
            raise StoreError(
                f"the metastore refused the SASL negotiation: {payload.decode(errors='replace')}"
            )
        return status, payload

    def _exactly(self, size: int) -> bytes:
        parts = bytearray()
        while len(parts) < size:
            part = self._socket.recv(min(size - len(parts), 1 << 20))
            if not part:
                raise EOFError(
                    "the metastore closed the connection: it may require another kind of authentication"
                )
            parts += part
        return bytes(parts)


def _checked(length: int) -> int:
    if length > _LARGEST_FRAME:
        raise ConnectionError(f"the metastore sent a frame of {length} bytes: it may speak without SASL")
    return int(length)
