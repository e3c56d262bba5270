"""One connection to one metastore, for one call at a time. Only this module loads the Thrift library."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hiveacid.errors import ConfigError, StoreError
from hiveacid.stores.hms.address import MetastoreAddress
from hiveacid.stores.hms.thrift.protocol import METHODS
from hiveacid.stores.hms.thrift.structs import Method, ThriftStruct, missing_required_field
from hiveacid.stores.hms.thrift.transport import (
    LARGEST_ANSWER,
    MOST_ITEMS,
    NotSentError,
    SaslTransport,
    TimedSocket,
    Transport,
)

_CALL, _REPLY, _EXCEPTION = 1, 2, 3  # kinds of messages
_UNKNOWN_METHOD = 1  # a TApplicationException's type
_PROBES = MappingProxyType(
    {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
)  # dead after two minutes
# raised by the Thrift library for malformed bytes, besides its own exceptions
_UNREADABLE = (
    OSError,
    EOFError,
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    MemoryError,
    RecursionError,
)


class Refusal(Exception):  # noqa: N818 - becomes an error of hiveacid in ``failover_client``
    """The metastore answered with one of its exceptions; ``kind`` is the exception's name."""

    def __init__(self, method: str, kind: str, message: str) -> None:
        super().__init__(message)
        self.method = method
        self.kind = kind
        self.message = message


class UnknownMethod(Exception):  # noqa: N818 - likewise
    """The metastore does not know the call: it is older than the call, or dropped it."""


class Unreachable(Exception):  # noqa: N818 - likewise
    """Nothing was sent: the server is not there, or its connection had ended before."""


class LostAnswer(Exception):  # noqa: N818 - likewise
    """The connection broke after something was sent: the call may have been carried out."""


def require_library() -> None:
    """Raise ConfigError if the package ``thrift`` is not installed."""
    try:
        import thrift  # noqa: PLC0415 - only who talks to a metastore needs it
    except ImportError as error:
        raise ConfigError(
            "a Hive Metastore as store needs the package thrift: pip install 'hiveacid[hms]'"
        ) from error
    del thrift


class ThriftConnection:
    """An open connection, used by one thread at a time. ``methods``: those of the service.

    The constructor raises Unreachable, and StoreError where Kerberos or the metastore refuses.
    """

    def __init__(
        self, server: tuple[str, int], address: MetastoreAddress, methods: Mapping[str, Method] = METHODS
    ) -> None:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated  # noqa: PLC0415

        self.server = server
        self._answer_timeout = address.timeout
        self._methods = methods
        self.process = os.getpid()
        self._socket = _connected(server, address)
        self._timed = TimedSocket(self._socket, address.connect_timeout)
        self._transport = Transport(_authenticated(self._timed, server, address) or self._timed)
        self._protocol = TBinaryProtocolAccelerated(
            self._transport,
            strictRead=True,
            string_length_limit=LARGEST_ANSWER,
            container_length_limit=MOST_ITEMS,
        )
        self._number = 0

    def call(self, method: str, *values: Any, within: float | None = None) -> Any:
        """Call a method; return its answer. Raises Refusal, UnknownMethod, LostAnswer, Unreachable.

        ``within``: seconds for the whole call, from the first byte sent to the last one received; default: the address's
        timeout. An answer that cannot be read, or lacks a required field, is a LostAnswer. After any error that the metastore
        did not send itself, the connection must not be used again.
        """
        signature = self._methods[method]
        names = [field[2] for field in signature.arguments.thrift_spec if field is not None]
        arguments = signature.arguments(**dict(zip(names, values, strict=True)))
        answer = signature.answer()
        try:
            self._timed.expect(self._answer_timeout if within is None else within)
            self._send(method, arguments)
            kind = self._received(method, answer)
        except NotSentError as error:
            raise Unreachable(_said(error)) from error
        except (OSError, EOFError) as error:
            raise LostAnswer(_said(error)) from error
        if kind is not None:
            if kind.type == _UNKNOWN_METHOD:
                raise UnknownMethod(method)
            raise Refusal(method, "TApplicationException", kind.message or "no reason was given")
        for number, name in signature.errors.items():
            server_error = getattr(answer, f"o{number}")
            if server_error is not None:
                raise Refusal(method, name, server_error.message or "")
        missing = missing_required_field(answer)
        if missing is not None:
            raise LostAnswer(f"the answer to {method} lacks {missing}")
        return getattr(answer, "success", None)

    def alive(self) -> bool:
        """Tell whether the server still holds the connection, as far as that shows without sending anything.

        Call it between two calls, when readable bytes can only mean the connection's end. With TLS they must be read,
        because a server may send session tickets (TLS 1.3) at any time. (Thrift's own ``isOpen`` reports every TLS
        connection as open.)
        """
        try:
            timeout = self._socket.gettimeout()
            self._socket.settimeout(0)
            try:
                self._socket.recv(1)
            finally:
                self._socket.settimeout(timeout)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Close the connection."""
        self._transport.close()

    def _send(self, method: str, arguments: ThriftStruct) -> None:
        self._number += 1
        self._transport.begin()
        self._protocol.writeMessageBegin(method, _CALL, self._number)
        arguments.write(self._protocol)
        self._protocol.writeMessageEnd()
        self._transport.flush()

    def _received(self, method: str, answer: ThriftStruct) -> Any:
        from thrift.Thrift import TException  # noqa: PLC0415

        try:
            reply_error = self._receive(method, answer)
            self._transport.require_end()
        except (TException, *_UNREADABLE) as error:
            raise LostAnswer(f"the answer to {method} cannot be read: {_said(error)}") from error
        return reply_error

    def _receive(self, method: str, answer: ThriftStruct) -> Any:
        """Read the answer, or return the library's exception that came instead."""
        from thrift.Thrift import TApplicationException  # noqa: PLC0415

        name, kind, number = self._protocol.readMessageBegin()
        if (name, number) != (method, self._number) or kind not in (_REPLY, _EXCEPTION):
            raise EOFError(
                f"message {number} of type {kind} for {name[:80]!r} came where {self._number} for {method} was due"
            )
        reply_error = TApplicationException() if kind == _EXCEPTION else None
        (answer if reply_error is None else reply_error).read(self._protocol)
        self._protocol.readMessageEnd()
        return reply_error


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _connected(server: tuple[str, int], address: MetastoreAddress) -> socket.socket:
    """Open a connection; it and every exchange before the first call have the time limit ``connect_timeout``."""
    try:
        plain = socket.create_connection(server, timeout=address.connect_timeout)
        try:
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _keep_alive(plain)
            return _secured(plain, server, address) if address.tls else plain
        except BaseException:
            plain.close()
            raise
    except ssl.SSLCertVerificationError as error:  # it will not change by trying again
        raise StoreError(
            f"the certificate of {server[0]}:{server[1]} is not trusted: {error.verify_message}; "
            "name its authority in the store URL: ca=FILE"
        ) from error
    except OSError as error:
        raise Unreachable(f"{server[0]}:{server[1]}: {error}") from error


def _keep_alive(plain: socket.socket) -> None:
    """Enable TCP keep-alive, which detects a dead host and keeps firewalls from dropping an idle connection."""
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES.items():
        if hasattr(socket, option):  # not everywhere
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _authenticated(
    connected: TimedSocket, server: tuple[str, int], address: MetastoreAddress
) -> SaslTransport | None:
    if address.principal is None:
        return None
    try:
        return SaslTransport(connected, address.principal, server[0])
    except (OSError, EOFError) as error:
        connected.close()
        raise Unreachable(f"{server[0]}:{server[1]}: {error}") from error
    except BaseException:
        connected.close()
        raise


def _secured(plain: socket.socket, server: tuple[str, int], address: MetastoreAddress) -> socket.socket:
    try:
        context = ssl.create_default_context(cafile=address.ca)
    except OSError as error:
        raise ConfigError(f"the certificates in {address.ca} cannot be read: {error}") from error
    return context.wrap_socket(plain, server_hostname=server[0])
