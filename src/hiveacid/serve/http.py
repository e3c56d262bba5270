"""HTTP transport: each request carries one message, and the client's name and password (Basic) or ticket (Negotiate)."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING

from hiveacid.errors import ClientProtocolError, HiveAcidError
from hiveacid.serve.authentication import RefusedLoginError, RefusedTicketError, TicketCheck
from hiveacid.services.http_server import Access

if TYPE_CHECKING:
    from hiveacid.serve.authentication import Authentication, Kerberos
    from hiveacid.serve.wire import BytesInFlight, Wire

PATH = "/cliservice"
_LARGEST_HEAD = 16 << 10
_END = b"\r\n\r\n"
_IDLE = 60.0  # seconds between two requests of a connection
_KIND = "application/x-thrift"  # a foreign web page would need a CORS preflight for it, which is not answered


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
            user, proof = _authenticated_user(request, authentication, wire.limits.refusal_delay)
            size = _body_size(request, wire)
            keep = request.header("connection").lower() != "close"
            send = partial(_send, wire, HTTPStatus.OK, kind=_KIND, keep=keep, challenge=proof)
            with in_flight.hold(size):
                answer(user, wire.read_exactly(size), send)
        except RefusedRequestError as refused:
            challenge = authentication.challenge if refused.status is HTTPStatus.UNAUTHORIZED else ""
            _send(wire, refused.status, str(refused).encode(), "text/plain", keep=False, challenge=challenge)
            raise
        except ClientProtocolError as error:
            _send(wire, HTTPStatus.BAD_REQUEST, str(error).encode(), "text/plain", keep=False)
            raise


def _read_head(wire: Wire) -> Request | None:
    """Read a request's head; None at the end of the connection."""
    wire.set_deadline(_IDLE)
    data = wire.read_some(_LARGEST_HEAD)
    if not data:
        return None
    wire.set_deadline(wire.limits.patience)
    while _END not in data:
        if len(data) >= _LARGEST_HEAD:
            raise RefusedRequestError(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "the headers are too large")
        piece = wire.read_some(_LARGEST_HEAD)
        if not piece:
            raise EOFError("the client disconnected")
        data += piece
    head, _, rest = data.partition(_END)
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
    if request.header("content-type").partition(";")[0].strip().lower() != _KIND:
        raise RefusedRequestError(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the Content-Type must be {_KIND}")
    refusal = access.refusal(request.path, request.headers.get("host", []), None)
    if refusal is not None:
        raise RefusedRequestError(refusal, "the Host header is not a name of this server: see --host-name")


def _authenticated_user(request: Request, authentication: Authentication, delay: float) -> tuple[str, str]:
    """Return the user's name, and the server's token for the client ('' without Kerberos). Raises RefusedRequestError."""
    scheme, _, encoded = request.header("authorization").partition(" ")
    try:
        sent = base64.b64decode(encoded.lstrip(": ").rstrip(), validate=True)  # Hive JDBC sends a colon
        if scheme.lower() != authentication.challenge.partition(" ")[0].lower():
            sent = b""
        user, _, password = ("", "", "") if authentication.kerberos else sent.decode().partition(":")
    except ValueError:  # no base 64, no ASCII, or no UTF-8 in it
        sent, user, password = b"", "", ""
    if authentication.kerberos is not None:
        return _ticket_user(sent, authentication.kerberos)
    if authentication.open_to_all:
        user = user or "anonymous"
    try:
        accepted = authentication.accepts(user, password)
    except HiveAcidError as error:
        raise RefusedRequestError(
            HTTPStatus.SERVICE_UNAVAILABLE, "the password cannot be checked now", user
        ) from error
    if not accepted:
        if user:  # drivers ask for the challenge first
            time.sleep(delay)
        raise RefusedRequestError(HTTPStatus.UNAUTHORIZED, "wrong user or password", user)
    return authentication.canonical_name(user), ""


def _ticket_user(token: bytes, kerberos: Kerberos) -> tuple[str, str]:
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


def _send(wire: Wire, status: HTTPStatus, body: bytes, kind: str, *, keep: bool, challenge: str = "") -> None:
    lines = [
        f"HTTP/1.1 {status.value} {status.phrase}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        f"Connection: {'keep-alive' if keep else 'close'}",
    ]
    if challenge:
        lines.append(f"WWW-Authenticate: {challenge}")
    wire.send("\r\n".join([*lines, "", ""]).encode() + body)
