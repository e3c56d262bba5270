"""A small HTTP server that no client can block: deadlines, few threads, checks of Host and token."""

from __future__ import annotations

import hmac
import io
import logging
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from hiveacid.errors import ConfigError, HiveAcidError

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
PROBES = frozenset({"/live", "/ready"})
"""Paths whose answers are a status and one word, for any client that reaches the address."""
_LOCAL_NAMES = frozenset({LOOPBACK, "localhost", "::1"})
_MAX_CONNECTIONS = 8
_LONGEST_LENGTH = 19  # digits of a Content-Length
_PATIENCE = 5.0
"""Seconds that a client has for its TLS handshake, and again for its request."""
_FULL = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


@dataclass(frozen=True)
class Access:
    """Address on which an endpoint listens, and the clients that it accepts.

    ``names``: host names accepted in the ``Host`` header, besides ``address`` and the loopback names; this refuses a
    foreign web page whose host name resolves to this machine (DNS rebinding). ``token``: the text that clients must send
    as ``Authorization: Bearer``. ``patience``: seconds that a client has for its request. ``probes_only``: the address
    is reached by other machines and has neither token nor TLS, so that it answers `PROBES` only.
    """

    address: str = LOOPBACK
    names: frozenset[str] = frozenset()
    token: str | None = field(default=None, repr=False)
    tls: ssl.SSLContext | None = None
    patience: float = _PATIENCE
    probes_only: bool = False

    @classmethod
    def of(
        cls,
        address: str = LOOPBACK,
        names: tuple[str, ...] = (),
        token: Path | None = None,
        certificate: Path | None = None,
        key: Path | None = None,
    ) -> Access:
        """Read token, certificate and private key from files.

        At an address other than loopback, give both token and certificate, or neither: then the server answers probes only.
        Raises ConfigError if one of them is missing, and for unreadable or invalid files.
        """
        reachable = address not in _LOCAL_NAMES
        if reachable and (token is None) != (certificate is None):
            raise ConfigError(
                f"listening on {address} needs a token and a TLS certificate: other machines reach it. With none of both it "
                f"answers {' and '.join(sorted(PROBES))} only"
            )
        secret = None if token is None else read_token(token)
        tls = server_tls(certificate, key)
        accepted = frozenset(name.lower() for name in names)
        return cls(address, accepted, secret, tls, probes_only=reachable and tls is None)

    @property
    def family(self) -> socket.AddressFamily:
        """IPv6 or IPv4, as the address is written."""
        return socket.AF_INET6 if ":" in self.address else socket.AF_INET

    def url(self, port: int) -> str:
        """Return the URL of a port of the address."""
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'http' if self.tls is None else 'https'}://{host}:{port}"

    @property
    def is_local(self) -> bool:
        """True if no other machine reaches the address."""
        return self.address in _LOCAL_NAMES

    def refusal(self, path: str, hosts: list[str], authorization: str | None) -> HTTPStatus | None:
        """Return the status with which to refuse a request, judged by its headers; None if it is allowed.

        Probes contain no data and need neither token nor host name: an orchestrator asks by address.
        """
        if path in PROBES:
            return None
        if len(hosts) != 1:
            return HTTPStatus.BAD_REQUEST
        try:
            name = (urlsplit(f"//{hosts[0]}").hostname or "").lower()
        except ValueError:
            return HTTPStatus.BAD_REQUEST
        if name not in self.names | _LOCAL_NAMES | {self.address.lower()}:
            return HTTPStatus.MISDIRECTED_REQUEST
        credentials = (authorization or "").encode("utf-8", "replace")
        if self.token is not None and not hmac.compare_digest(credentials, f"Bearer {self.token}".encode()):
            return HTTPStatus.UNAUTHORIZED
        return HTTPStatus.FORBIDDEN if self.probes_only else None


def read_token(file: Path) -> str:
    """Read the text that clients must send. Raises ConfigError."""
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"the token cannot be read: {error}") from error
    if not token:
        raise ConfigError(f"the file {file} contains no token")
    return token


def server_tls(certificate: Path | None, key: Path | None) -> ssl.SSLContext | None:
    """Read certificate chain and private key; None without a certificate. Raises ConfigError."""
    if certificate is None:
        return None
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        tls.load_cert_chain(certificate, key)
    except (OSError, ValueError) as error:
        raise ConfigError(f"certificate or private key cannot be read: {error}") from error
    return tls


@dataclass(frozen=True)
class Page:
    """Answer to a request; ``kind``: its Content-Type; ``headers``: names and values of others."""

    status: HTTPStatus
    kind: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Request:
    """A whole request. ``target``: path and query as sent; ``peer``: address of the client."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    peer: str = ""

    @property
    def path(self) -> str:
        """Return the path without a slash at its end."""
        return self.target.partition("?")[0].rstrip("/")


class HttpServer:
    """Answers requests with the `Page` that ``answer`` returns; HiveAcidError becomes status 503.

    ``connections``: how many are held at a time. ``longest_body``: bytes that a POST may send; 0: only GET is answered.
    """

    def __init__(
        self,
        access: Access,
        port: int,
        answer: Callable[[Request], Page],
        *,
        connections: int = _MAX_CONNECTIONS,
        longest_body: int = 0,
    ) -> None:
        """Listen on ``port``; 0 takes a free one, which the attribute ``port`` holds. Raises ConfigError if that fails."""
        try:
            self._server = _Server(access, port, answer, connections, longest_body)
        except OSError as error:
            message = f"port {port} of {access.address} cannot be listened on: {error.strerror}"
            raise ConfigError(message) from error
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="hiveacid-http", daemon=True)

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 64  # a client that finds the queue full tries again after a second, then three

    def __init__(
        self,
        access: Access,
        port: int,
        answer: Callable[[Request], Page],
        connections: int,
        longest_body: int,
    ) -> None:
        self.access = access
        self.answer = answer
        self.longest_body = longest_body
        self._most = connections
        self._open: dict[socket.socket, bool] = {}  # oldest first; True until the request has been read
        self._lock = threading.Lock()
        self.address_family = access.family
        super().__init__((access.address, port), _Handler)

    def process_request(self, request: Any, client_address: object) -> None:
        """Answer in a new thread; refuse at once if too many requests are being answered."""
        if not self._admit(request):
            with suppress(OSError):
                request.setblocking(False)  # noqa: FBT003 - the socket's own signature
                if self.access.tls is None:
                    request.send(_FULL)
            self.shutdown_request(request)
            return
        try:
            super().process_request(request, client_address)
        except BaseException:
            self._forget(request)
            raise

    def _admit(self, request: socket.socket) -> bool:
        """Register a connection; if there are too many, end the oldest one that has not sent its request."""
        with self._lock:
            if len(self._open) >= self._most:
                oldest = next((other for other, is_reading in self._open.items() if is_reading), None)
                if oldest is None:
                    return False
                del self._open[oldest]
                with suppress(OSError):  # its thread wakes up and closes it
                    socket.socket.shutdown(oldest, socket.SHUT_RDWR)
            self._open[request] = True
            return True

    def _forget(self, request: socket.socket) -> None:
        with self._lock:
            self._open.pop(request, None)

    def keep(self, request: socket.socket) -> None:
        """Let no other connection take the place of one whose request has been read."""
        with self._lock:
            if request in self._open:
                self._open[request] = False

    def _with_tls(self, tls: ssl.SSLContext, plain: socket.socket) -> ssl.SSLSocket:
        """Do the TLS handshake. Raises OSError, also if the connection had to make room for another one."""
        request = tls.wrap_socket(plain, server_side=True, do_handshake_on_connect=False)
        with self._lock:
            if self._open.pop(plain, None) is not None:
                self._open[request] = True
            is_open = request in self._open
        if not is_open:
            request.close()
            raise OSError("the connection made room for another one")
        try:
            request.do_handshake()
        except BaseException:
            self._forget(request)
            request.close()
            raise
        return request

    def process_request_thread(self, request: Any, client_address: object) -> None:
        """Do the TLS handshake in this thread: in the accepting thread one client would block all others."""
        try:
            request.settimeout(self.access.patience)
            if self.access.tls is not None:
                request = self._with_tls(self.access.tls, request)
            super().process_request_thread(request, client_address)
        except OSError as error:
            logger.debug("a monitor's connection failed: %s", error)
            self.shutdown_request(request)
        finally:
            self._forget(request)

    def handle_error(self, request: object, client_address: object) -> None:
        """Log; the base class prints to standard error."""
        del request, client_address
        logger.debug("a monitor's request failed", exc_info=sys.exc_info())


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(_DeadlineReader(self.connection, self.server.access.patience))

    def do_GET(self) -> None:
        self._answer(b"")

    def do_POST(self) -> None:
        if not self.server.longest_body:
            self._refuse(HTTPStatus.NOT_IMPLEMENTED)
            return
        lengths = self.headers.get_all("Content-Length") or []
        if self.headers.get("Transfer-Encoding") is not None or len(lengths) != 1:
            self._refuse(HTTPStatus.LENGTH_REQUIRED)
        elif not (lengths[0].isascii() and lengths[0].isdigit()) or len(lengths[0]) > _LONGEST_LENGTH:
            self._refuse(HTTPStatus.BAD_REQUEST)
        elif int(lengths[0]) > self.server.longest_body:
            self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        else:
            body = self.rfile.read(int(lengths[0]))
            if len(body) == int(lengths[0]):
                self._answer(body)

    def _answer(self, body: bytes) -> None:
        self.server.keep(self.connection)
        request = Request(
            self.command, self.path, tuple(self.headers.items()), body, str(self.client_address[0])
        )
        hosts, authorization = self.headers.get_all("Host") or [], self.headers.get("Authorization")
        refusal = self.server.access.refusal(request.path, hosts, authorization)
        if refusal is not None:
            self._refuse(refusal)
            return
        try:
            page = self.server.answer(request)
        except HiveAcidError as error:
            page = Page(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", f"{error}\n".encode())
        self._send(page)

    def _refuse(self, status: HTTPStatus) -> None:
        headers = (("WWW-Authenticate", "Bearer"),) if status is HTTPStatus.UNAUTHORIZED else ()
        self._send(Page(status, "text/plain", f"{status.phrase}\n".encode(), headers))

    def _send(self, page: Page) -> None:
        self.connection.settimeout(self.server.access.patience)
        self.send_response(page.status)
        for name, value in page.headers:
            self.send_header(name, value)
        self.send_header("Content-Type", page.kind)
        self.send_header("Content-Length", str(len(page.body)))
        self.end_headers()
        self.wfile.write(page.body)

    def version_string(self) -> str:
        """Return the Server header, without the version of Python."""
        return "hiveacid"

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
        logger.debug(format, *args)


class _DeadlineReader(io.RawIOBase):
    """Reads a request with one deadline for all of it, because a time-out per read would allow one byte at a time."""

    def __init__(self, connection: socket.socket, patience: float) -> None:
        self._connection = connection
        self._until = time.monotonic() + patience

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        remaining = self._until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError("the request took too long")
        self._connection.settimeout(remaining)
        return self._connection.recv_into(buffer)
