"""Transports of a client's messages: whole frames on a socket, with SASL's negotiation in the frames of Thrift, or HTTP.

Each HTTP request carries one message, and the client's name and password (Basic) or ticket (Negotiate). Every wait has a
deadline, every message a limit.
"""

from __future__ import annotations

import base64
import re
import select
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from hiveacid.errors import ClientProtocolError, HiveAcidError
from hiveacid.serve.authentication import (
    Authentication,
    Kerberos,
    RefusedLoginError,
    RefusedTicketError,
    TicketCheck,
)
from hiveacid.serve.hs2_messages import EXCEPTION, encode_exception, encode_message
from hiveacid.services.http_server import Access

_LENGTH = struct.Struct(">I")
_HEAD = struct.Struct(">BI")
_START, _OK, _BAD, _ERROR, _COMPLETE = 1, 2, 3, 4, 5
_MAX_RECEIVED = 1 << 18
_SMALL = 1 << 16  # bytes of a message that need not be counted
_LARGEST_NEGOTIATION = 1 << 16
_DISCONNECTED = select.POLLHUP | select.POLLERR | getattr(select, "POLLRDHUP", 0)
_WITHOUT_SASL = b"\x80\x01"  # the first bytes of a message without SASL


@dataclass(frozen=True)
class ClientLimits:
    """Bounds for each client, in seconds and bytes.

    ``handshake``: time for the client to authenticate. ``patience``: for the rest of a message after its first byte.
    ``send_timeout``: for the client to read an answer. ``idle``: between two messages. ``message``: most bytes of one.
    """

    handshake: float = 10.0
    patience: float = 30.0
    send_timeout: float = 120.0
    idle: float = 4 * 3600.0
    message: int = 32 << 20


class BytesInFlight:
    """Bytes of large messages that are received or answered now, of all clients together."""

    def __init__(self, limit: int = 256 << 20) -> None:
        """``limit``: bound of their sum."""
        self._limit, self._sum = limit, 0
        self._lock = threading.Lock()

    @contextmanager
    def hold(self, size: int) -> Iterator[None]:
        """Count a message in the block. Raises ClientProtocolError if there are too many bytes already."""
        counted = size if size > _SMALL else 0
        with self._lock:
            if self._sum + counted > self._limit:
                raise ClientProtocolError("the server is receiving too many large messages: try again later")
            self._sum += counted
        try:
            yield
        finally:
            with self._lock:
                self._sum -= counted


@dataclass
class Wire:
    """Socket of a client. A deadline is for a whole message, so a client that sends byte by byte gains no time."""

    socket: socket.socket
    limits: ClientLimits
    _deadline: float = 0.0
    _pushed_back: bytes = b""

    def set_deadline(self, seconds: float) -> None:
        """Set the deadline of the next reads."""
        self._deadline = time.monotonic() + seconds

    def read_exactly(self, size: int) -> bytes:
        """Return ``size`` bytes. Memory grows with the bytes received, not with the announced size."""
        data = bytearray()
        while len(data) < size:
            piece = self.read_some(size - len(data))
            if not piece:
                raise EOFError("the client disconnected")
            data += piece
        return bytes(data)

    def read_some(self, max_bytes: int) -> bytes:
        """Return at least one byte; none at the end of the connection. Raises TimeoutError."""
        if self._pushed_back:
            piece, self._pushed_back = self._pushed_back[:max_bytes], self._pushed_back[max_bytes:]
            return piece
        remaining = self._deadline - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the client took too long")
        self.socket.settimeout(remaining)
        return self.socket.recv(min(max_bytes, _MAX_RECEIVED))

    def push_back(self, data: bytes) -> None:
        """Let the next read begin with ``data``."""
        self._pushed_back = data + self._pushed_back

    def frame_size(self) -> int:
        """Return the size of the next frame. The idle time-out is for its first byte, the shorter ``patience`` for the rest."""
        self.set_deadline(self.limits.idle)
        head = self.read_exactly(1)
        self.set_deadline(self.limits.patience)
        size = int.from_bytes(head + self.read_exactly(3), "big")
        if size > self.limits.message:
            raise ClientProtocolError(f"the message has {size} bytes; the limit is {self.limits.message}")
        return size

    def send(self, data: bytes) -> None:
        """Send all bytes; the connection of a client that does not read them is closed."""
        self.socket.settimeout(self.limits.send_timeout)
        self.socket.sendall(data)

    def send_frame(self, data: bytes) -> None:
        """Send one frame."""
        self.send(_LENGTH.pack(len(data)) + data)

    def gone(self) -> bool:
        """Tell whether the client has closed its side of the connection, or this server its own."""
        poll = select.poll()
        try:
            poll.register(self.socket, _DISCONNECTED)
        except ValueError:  # the socket is closed
            return True
        return bool(poll.poll(0))

    def shut_down(self) -> None:
        """Shut down the connection from any thread; the connection's own thread wakes up and closes the socket.

        Closing the socket here would free its number while the connection's thread may still wait for it, or wrap it for
        TLS. That thread would then use the next client's connection.
        """
        with suppress(OSError):
            # the method of a TLS socket would drop the connection's state during a handshake
            socket.socket.shutdown(self.socket, socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection."""
        self.shut_down()
        self.socket.close()


def authenticate(wire: Wire, authentication: Authentication) -> str:
    """Negotiate SASL and return the user's name. Raises ClientProtocolError after a refusal was sent."""
    wire.set_deadline(wire.limits.handshake)
    status, mechanism = _receive(wire)
    if status != _START:
        raise _refusal(wire, "the SASL negotiation must begin with a mechanism", status=_ERROR)
    offered = b"PLAIN" if authentication.kerberos is None else b"GSSAPI"
    if mechanism != offered:
        name = re.sub(rb"[^\w-]", b"?", mechanism[:20]).decode()  # the log gets it, too
        raise _refusal(
            wire, f"the mechanism {name} is not offered here; this server offers {offered.decode()}"
        )
    if authentication.kerberos is not None:
        user = _ticket_user(wire, authentication.kerberos)
    else:
        user = _plain_user(wire, _receive(wire)[1], authentication)
    _send(wire, _COMPLETE, b"")
    return user


def _ticket_user(wire: Wire, kerberos: Kerberos) -> str:
    """Check the messages of SASL's GSSAPI (RFC 4752): tokens, an empty one, and the choice of a layer."""
    check = TicketCheck(kerberos)
    try:
        while not check.complete:
            answer = check.step(_receive(wire)[1])
            if answer or not check.complete:
                _send(wire, _OK, answer)
        if answer:
            _receive(wire)
        _send(wire, _OK, check.offer())
        check.require_choice(_receive(wire)[1])
        return check.user()
    except RefusedTicketError as error:
        raise _refusal(wire, str(error)) from error


def _plain_user(wire: Wire, response: bytes, authentication: Authentication) -> str:
    """Check the message of SASL's PLAIN (RFC 4616): identity, name, password."""
    try:
        identity, user, password = response.decode().split("\0")
    except ValueError as error:
        raise _refusal(wire, "the response is not a message of the mechanism PLAIN") from error
    if identity not in ("", user):
        raise _refusal(wire, "a user may not act as another one", user)
    try:
        accepted = authentication.accepts(user, password)
    except HiveAcidError as error:
        raise _refusal(wire, str(error), user, _ERROR) from error
    if not accepted:
        raise _refusal(wire, "wrong user or password", user)
    return authentication.canonical_name(user)


def _receive(wire: Wire) -> tuple[int, bytes]:
    head = wire.read_exactly(_HEAD.size)
    if head.startswith(_WITHOUT_SASL):
        text = "this server needs SASL: auth=NONE or LDAP (PyHive), auth_mechanism=PLAIN (impyla), no auth=noSasl (JDBC)"
        wire.send(encode_message("OpenSession", EXCEPTION, 0, encode_exception(text, 7)))
        raise ClientProtocolError("the client does not use SASL")
    status, size = _HEAD.unpack(head)
    if status not in (_START, _OK, _COMPLETE) or size > _LARGEST_NEGOTIATION:
        raise ClientProtocolError("the data is not a message of the SASL negotiation")
    return status, wire.read_exactly(size)


def _send(wire: Wire, status: int, payload: bytes) -> None:
    wire.send(_HEAD.pack(status, len(payload)) + payload)


def _refusal(wire: Wire, reason: str, user: str = "", status: int = _BAD) -> RefusedLoginError:
    _send(wire, status, reason.encode())
    return RefusedLoginError(f"authentication refused: {reason}", user)


PATH = "/cliservice"
_LARGEST_HEAD = 16 << 10
_END_OF_HEAD = b"\r\n\r\n"
_IDLE = 60.0  # seconds between two requests of a connection
# a foreign web page would need a CORS preflight for it, which is not answered
_CONTENT_TYPE = "application/x-thrift"


@dataclass(frozen=True)
class Request:
    """Head of a request; names of headers in lower case, each with all of its values."""

    method: str
    path: str
    headers: dict[str, list[str]] = field(default_factory=dict)

    def header(self, name: str) -> str:
        """Return the only value of a header; empty if it is absent. Raises ClientProtocolError for several."""
        values = self.headers.get(name, [""])
        if len(values) != 1:
            raise ClientProtocolError(f"the header {name} occurs more than once")
        return values[0]


class RefusedRequestError(RefusedLoginError):
    """A request that is refused with an HTTP status; ``user``: if its log-in is refused."""

    def __init__(self, status: HTTPStatus, text: str, user: str = "") -> None:
        """Keep the status."""
        self.status = status
        super().__init__(text, user)


def serve_http(
    wire: Wire,
    access: Access,
    authentication: Authentication,
    in_flight: BytesInFlight,
    answer: Callable[[str, bytes, Callable[[bytes], None]], None],
) -> None:
    """Answer the requests of a connection.

    ``answer`` is called with the user's name, the message, and a function that sends the reply.
    """
    keep = True
    while keep:
        try:
            request = _read_head(wire)
            if request is None:
                return
            _require_call(request, access)
            user, proof = _authenticated_user(request, authentication)
            size = _body_size(request, wire)
            keep = request.header("connection").lower() != "close"
            send = partial(_send_answer, wire, HTTPStatus.OK, kind=_CONTENT_TYPE, keep=keep, challenge=proof)
            with in_flight.hold(size):
                answer(user, wire.read_exactly(size), send)
        except RefusedRequestError as refused:
            challenge = authentication.challenge if refused.status is HTTPStatus.UNAUTHORIZED else ""
            _send_answer(
                wire, refused.status, str(refused).encode(), "text/plain", keep=False, challenge=challenge
            )
            raise
        except ClientProtocolError as error:
            _send_answer(wire, HTTPStatus.BAD_REQUEST, str(error).encode(), "text/plain", keep=False)
            raise


def _read_head(wire: Wire) -> Request | None:
    """Read a request's head; None at the end of the connection."""
    wire.set_deadline(_IDLE)
    data = wire.read_some(_LARGEST_HEAD)
    if not data:
        return None
    wire.set_deadline(wire.limits.patience)
    while _END_OF_HEAD not in data:
        if len(data) >= _LARGEST_HEAD:
            raise RefusedRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large")
        piece = wire.read_some(_LARGEST_HEAD)
        if not piece:
            raise EOFError("the client disconnected")
        data += piece
    head, _, rest = data.partition(_END_OF_HEAD)
    wire.push_back(rest)
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):  # noqa: PLR2004 - method, path, version
        raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "the request is not HTTP/1.1")
    headers: dict[str, list[str]] = {}
    for line in lines[1:]:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip():
            raise RefusedRequestError(HTTPStatus.BAD_REQUEST, "a header is malformed")
        headers.setdefault(name.lower(), []).append(value.strip())
    return Request(words[0], words[1].partition("?")[0], headers)


def _require_call(request: Request, access: Access) -> None:
    """Raise RefusedRequestError unless path, type and Host header are those that a client of this server sends."""
    if request.method != "POST" or request.path.rstrip("/") != PATH:
        raise RefusedRequestError(HTTPStatus.NOT_FOUND, f"only POST {PATH} exists")
    if request.header("content-type").partition(";")[0].strip().lower() != _CONTENT_TYPE:
        raise RefusedRequestError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type must be {_CONTENT_TYPE}"
        )
    refusal = access.refusal(request.path, request.headers.get("host", []), None)
    if refusal is not None:
        raise RefusedRequestError(refusal, "the Host header is not a name of this server: see --host-name")


def _authenticated_user(request: Request, authentication: Authentication) -> tuple[str, str]:
    """Return the user's name, and the server's token for the client ('' without Kerberos). Raises RefusedRequestError."""
    scheme, _, encoded = request.header("authorization").partition(" ")
    try:
        sent = base64.b64decode(encoded.lstrip(": ").rstrip(), validate=True)  # Hive JDBC sends a colon
    except ValueError:  # not Base64
        sent = b""
    if scheme.lower() != authentication.challenge.partition(" ")[0].lower():
        sent = b""
    if authentication.kerberos is not None:
        return _user_of_ticket(sent, authentication.kerberos)
    try:
        user, _, password = sent.decode().partition(":")
    except UnicodeDecodeError:
        user, password = "", ""
    if authentication.open_to_all:
        user = user or "anonymous"
    try:
        accepted = authentication.accepts(user, password)
    except HiveAcidError as error:
        raise RefusedRequestError(HTTPStatus.SERVICE_UNAVAILABLE, str(error), user) from error
    if not accepted:
        raise RefusedRequestError(HTTPStatus.UNAUTHORIZED, "wrong user or password", user)
    return authentication.canonical_name(user), ""


def _user_of_ticket(token: bytes, kerberos: Kerberos) -> tuple[str, str]:
    check = TicketCheck(kerberos)
    try:
        proof = check.step(token)
        return check.user(), f"Negotiate {base64.b64encode(proof).decode()}"
    except RefusedTicketError as error:
        raise RefusedRequestError(HTTPStatus.UNAUTHORIZED, str(error)) from error


def _body_size(request: Request, wire: Wire) -> int:
    length = request.header("content-length")
    if "transfer-encoding" in request.headers or not (length.isascii() and length.isdigit()):
        raise RefusedRequestError(HTTPStatus.LENGTH_REQUIRED, "the request needs a Content-Length")
    if len(length) > 12 or int(length) > wire.limits.message:  # noqa: PLR2004 - digits
        raise RefusedRequestError(
            HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"the limit is {wire.limits.message} bytes"
        )
    return int(length)


def _send_answer(
    wire: Wire, status: HTTPStatus, body: bytes, kind: str, *, keep: bool, challenge: str = ""
) -> None:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    if challenge:
        lines.append(f"WWW-Authenticate: {challenge}")
    wire.send("\r\n".join([*lines, "", ""]).encode() + body)
