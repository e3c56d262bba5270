"""The listening socket: a thread for each connection, a bound on their number, and an orderly stop."""

from __future__ import annotations

import itertools
import logging
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.errors import ClientProtocolError, ConfigError
from hiveacid.serve.audit import audit
from hiveacid.serve.authentication import RefusedLoginError
from hiveacid.serve.sessions import Caller
from hiveacid.serve.transports import BytesInFlight, ClientLimits, Wire, authenticate, serve_http
from hiveacid.services.http_server import Access, server_tls
from hiveacid.services.monitoring import Metric

if TYPE_CHECKING:
    from pathlib import Path

    from hiveacid.serve.authentication import Authentication
    from hiveacid.serve.service import Service

logger = logging.getLogger(__name__)

_IDLE_CHECK_INTERVAL = 5.0  # seconds
_REPORT_INTERVAL = 60.0  # seconds between two lines of the log about the same lack
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 6))


@dataclass(frozen=True)
class ServerOptions:
    """Address, transport and bounds of a server. ``access``: address, names and TLS."""

    access: Access
    port: int
    authentication: Authentication
    http: bool = False
    limits: ClientLimits = field(default_factory=ClientLimits)
    max_connections: int = 256

    @classmethod
    def of(
        cls,
        host: str,
        port: int,
        authentication: Authentication,
        names: tuple[str, ...] = (),
        certificate: Path | None = None,
        key: Path | None = None,
        *,
        http: bool = False,
        limits: ClientLimits | None = None,
    ) -> ServerOptions:
        """Read the certificate. Raises ConfigError for an address that is open to others without protection."""
        access = Access(host, frozenset(name.lower() for name in names), None, server_tls(certificate, key))
        if not access.is_local and (authentication.open_to_all or access.tls is None):
            raise ConfigError(
                f"listening on {host} needs authentication (--password-file, --ldap or --keytab) and TLS (--certificate): "
                "other machines reach it"
            )
        return cls(access, port, authentication, http, limits or ClientLimits())


@dataclass(eq=False)
class _Connection:
    wire: Wire
    host: str
    number: int
    since: float = field(default_factory=time.monotonic)
    in_use: bool = False  # it has a session, or answers a request
    user: str = ""  # once it has logged in

    @property
    def owner(self) -> str:
        return f"connection {self.number}"


def bind(options: ServerOptions) -> socket.socket:
    """Return a socket with the address; port 0 picks a free port. Raises ConfigError if the port is in use.

    It does not listen yet, so that clients are refused, and do not wait, until `Server.start`.
    """
    address = options.access.address
    bound = socket.socket(options.access.family)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind((address, options.port))
    except OSError as error:
        bound.close()
        raise ConfigError(f"cannot listen on port {options.port} of {address}: {error}") from error
    return bound


class Server:
    """Serves clients until `stop`."""

    def __init__(self, service: Service, options: ServerOptions, bound: socket.socket | None = None) -> None:
        """Take the address, unless ``bound`` has it. The attribute ``port`` has its number. Raises ConfigError as `bind`."""
        self._service = service
        self._options = options
        self._socket = bind(options) if bound is None else bound
        self.port: int = self._socket.getsockname()[1]
        self._connections: set[_Connection] = set()
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._in_flight = BytesInFlight()
        self._stopping = threading.Event()
        self._refused = 0
        self._reported = -_REPORT_INTERVAL
        self._threads = [
            threading.Thread(target=run, name=name, daemon=True)
            for run, name in ((self._accept, "hiveacid-accept"), (self._close_idle_sessions, "hiveacid-idle"))
        ]

    def start(self) -> None:
        """Begin to accept clients. Raises ConfigError if another process has begun to listen meanwhile."""
        try:
            self._socket.listen(128)
        except OSError as error:
            raise ConfigError(f"cannot listen on port {self.port}: {error}") from error
        for thread in self._threads:
            thread.start()

    def stop(self, grace: float) -> None:
        """Accept no more clients; let statements end within ``grace`` seconds, then roll back and disconnect."""
        self._stopping.set()
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        self._service.sessions.close_all(grace)
        with self._lock:
            for connection in self._connections:
                connection.wire.shut_down()

    def metrics(self) -> Iterator[Metric]:
        """Yield the figures of the server."""
        service = self._service
        for name, text, value, kind in (
            ("serve_open_connections", "Connections of clients.", len(self._connections), "gauge"),
            ("serve_open_sessions", "Sessions of clients.", len(service.sessions), "gauge"),
            ("serve_sessions", "Sessions that were opened.", service.sessions.opened, "counter"),
            ("serve_calls", "Calls that were answered.", service.calls, "counter"),
            ("serve_failed_calls", "Calls that were answered by an error.", service.failures, "counter"),
            (
                "serve_refused_connections",
                "Connections refused or closed to admit others.",
                self._refused,
                "counter",
            ),
        ):
            yield Metric(name, text, {(): float(value)}, kind)

    def _accept(self) -> None:
        while not self._stopping.is_set():
            try:
                client, address = self._socket.accept()
            except OSError as error:
                if not self._stopping.wait(0.1):  # too many open files
                    self._report_full(error)
                continue
            wire = Wire(client, self._options.limits)
            connection = _Connection(wire, str(address[0]), next(self._numbers))
            if not self._admit(connection):
                self._refused += 1
                wire.close()
                continue
            try:
                threading.Thread(
                    target=self._serve, args=(connection,), name=f"hiveacid-{connection.owner}", daemon=True
                ).start()
            except RuntimeError:  # the machine has no thread for it now
                self._give_up(connection)

    def _report_full(self, error: OSError) -> None:
        """Log that no client can be accepted, once a minute."""
        now = time.monotonic()
        if now - self._reported >= _REPORT_INTERVAL:
            self._reported = now
            logger.error("no client can connect now: %s", error)

    def _admit(self, connection: _Connection) -> bool:
        """Register a connection; if there are too many, end the oldest one without a session."""
        with self._lock:
            if len(self._connections) >= self._options.max_connections:
                unused = [other for other in self._connections if not other.in_use]
                if not unused:
                    return False
                oldest = min(unused, key=lambda other: other.since)
                self._connections.discard(oldest)
                self._refused += 1
                oldest.wire.shut_down()
            self._connections.add(connection)
            return True

    def _give_up(self, connection: _Connection) -> None:
        with self._lock:
            self._connections.discard(connection)
        self._refused += 1
        connection.wire.close()

    def _serve(self, connection: _Connection) -> None:
        try:
            self._prepare(connection)
            if self._options.http:
                self._serve_http(connection)
            else:
                self._serve_binary(connection)
        except (ClientProtocolError, ssl.SSLError) as error:
            self._refused += 1
            refused = error.user if isinstance(error, RefusedLoginError) else ""
            event = "login_refused" if refused else "protocol_error"
            audit(event, refused or connection.user, connection.host, reason=str(error))
        except (EOFError, OSError) as error:
            logger.debug("%s: %s", connection.host, error)
        except Exception:
            logger.exception("%s: the connection failed unexpectedly", connection.host)
        finally:
            with self._lock:
                self._connections.discard(connection)
            connection.wire.close()
            self._service.sessions.close_owned(connection.owner)

    def _prepare(self, connection: _Connection) -> None:
        """Set TCP keepalive, which detects vanished clients; do the TLS handshake in the connection's own thread.

        Raises EOFError if the connection had to make room for another one.
        """
        wire = connection.wire
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        wire.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                wire.socket.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
        if self._options.access.tls is not None:
            wire.socket.settimeout(self._options.limits.handshake)
            tls = self._options.access.tls
            wire.socket = tls.wrap_socket(wire.socket, server_side=True, do_handshake_on_connect=False)
            # `_admit` shut down the socket that TLS has just replaced
            if connection not in self._connections:
                raise EOFError("the connection made room for another one")
            wire.socket.do_handshake()

    def _serve_binary(self, connection: _Connection) -> None:
        wire = connection.wire
        user = authenticate(wire, self._options.authentication)
        connection.user = user
        audit("login", user, connection.host)
        caller = Caller(user, connection.host, connection.owner, wire.gone)
        while True:
            size = wire.frame_size()
            with self._in_flight.hold(size):
                data = wire.read_exactly(size)
                connection.in_use = True
                self._service.answer(data, caller, wire.send_frame)
            connection.in_use = self._service.sessions.has_owner(connection.owner)

    def _serve_http(self, connection: _Connection) -> None:
        def answer(user: str, data: bytes, send: Callable[[bytes], None]) -> None:
            connection.in_use, connection.user = True, user
            try:
                caller = Caller(user, connection.host, f"user {user}", connection.wire.gone, over_http=True)
                self._service.answer(data, caller, send)
            finally:
                connection.in_use = False

        options = self._options
        serve_http(connection.wire, options.access, options.authentication, self._in_flight, answer)

    def _close_idle_sessions(self) -> None:
        while not self._stopping.wait(_IDLE_CHECK_INTERVAL):
            try:
                self._service.sessions.close_idle()
            except Exception:
                logger.warning("idle sessions could not be closed; trying again", exc_info=True)
