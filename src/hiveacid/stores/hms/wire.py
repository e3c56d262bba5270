"""One connection to one metastore: a call goes out, its answer comes back. The Thrift library is loaded here."""

from __future__ import annotations

import os
import socket
import ssl
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from hiveacid.errors import ConfigError
from hiveacid.stores.hms.address import Address
from hiveacid.stores.hms.layout import Method, Struct
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.sasl import NotSentError, SaslTransport

_CALL, _EXCEPTION = 1, 3  # kinds of messages
_UNKNOWN_METHOD = 1  # a TApplicationException's type
_PROBES = MappingProxyType(
    {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
)  # dead after two minutes
_LARGEST_TEXT = 512 * 1024 * 1024  # bytes; a view's text, or the properties of a table with statistics


class Refusal(Exception):  # noqa: N818 - becomes one of our errors in ``faults.py``
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
    """Raise ConfigError where the package ``thrift`` is not installed."""
    try:
        import thrift  # noqa: PLC0415 - only who talks to a metastore needs it
    except ImportError as error:
        raise ConfigError(
            "a Hive Metastore as store needs the package thrift: pip install 'hiveacid[hms]'"
        ) from error
    del thrift


class Wire:
    """An open connection; used by one thread at a time. ``methods``: those of the service.

    Making one raises Unreachable, and StoreError where Kerberos or the metastore refuses.
    """

    def __init__(
        self, server: tuple[str, int], address: Address, methods: Mapping[str, Method] = METHODS
    ) -> None:
        from thrift.protocol.TBinaryProtocol import TBinaryProtocolAccelerated  # noqa: PLC0415
        from thrift.transport.TSocket import TSocket  # noqa: PLC0415
        from thrift.transport.TTransport import TBufferedTransport  # noqa: PLC0415

        self.server = server
        self._patience = address.timeout
        self._methods = methods
        self.process = os.getpid()
        self._socket = _connected(server, address)
        plain = TSocket(*server)
        plain.setHandle(self._socket)
        self._transport = TBufferedTransport(_authenticated(self._socket, server, address) or plain)
        self._protocol = TBinaryProtocolAccelerated(self._transport, string_length_limit=_LARGEST_TEXT)
        self._number = 0

    def call(self, method: str, *values: Any, within: float | None = None) -> Any:
        """Call a method; return its answer. Raises Refusal, UnknownMethod, LostAnswer, Unreachable.

        ``within``: seconds that the answer may take, if not as long as the address says.
        After anything that the metastore did not say itself the connection is of no use any more.
        """
        known = self._methods[method]
        names = [field[2] for field in known.arguments.thrift_spec if field is not None]
        arguments = known.arguments(**dict(zip(names, values, strict=True)))
        answer = known.answer()
        try:
            self._socket.settimeout(self._patience if within is None else within)
            self._send(method, arguments)
            kind = self._receive(answer)
        except NotSentError as error:
            raise Unreachable(_said(error)) from error
        except (OSError, EOFError) as error:
            raise LostAnswer(_said(error)) from error
        except Exception as error:
            if _of_library(error):
                raise LostAnswer(_said(error)) from error
            raise
        if kind is not None:
            if kind.type == _UNKNOWN_METHOD:
                raise UnknownMethod(method)
            raise Refusal(method, "TApplicationException", kind.message or "no reason was given")
        for number, name in known.errors.items():
            said = getattr(answer, f"o{number}")
            if said is not None:
                raise Refusal(method, name, said.message or "")
        return getattr(answer, "success", None)

    def alive(self) -> bool:
        """Tell whether the other end still holds the connection, as far as that can be told without asking.

        To be asked between two calls: what there is to read then is the connection's end, or nobody's. TLS has to read
        it to know: tickets of TLS 1.3, which servers send when they like, are no end. (Thrift's own ``isOpen`` takes
        every TLS connection for open.)
        """
        try:
            before = self._socket.gettimeout()
            self._socket.settimeout(0)
            try:
                self._socket.recv(1)
            finally:
                self._socket.settimeout(before)
        except (BlockingIOError, ssl.SSLWantReadError):
            return True
        except OSError:
            return False
        return False

    def close(self) -> None:
        """Hang up."""
        self._transport.close()

    def _send(self, method: str, arguments: Struct) -> None:
        self._number += 1
        self._protocol.writeMessageBegin(method, _CALL, self._number)
        arguments.write(self._protocol)
        self._protocol.writeMessageEnd()
        self._transport.flush()

    def _receive(self, answer: Struct) -> Any:
        from thrift.Thrift import TApplicationException  # noqa: PLC0415

        _, kind, number = self._protocol.readMessageBegin()
        if kind == _EXCEPTION:
            said = TApplicationException()
            said.read(self._protocol)
            self._protocol.readMessageEnd()
            return said
        if number != self._number:
            raise EOFError(f"answer {number} came where {self._number} was due")
        answer.read(self._protocol)
        self._protocol.readMessageEnd()
        return None


def _of_library(error: Exception) -> bool:
    from thrift.Thrift import TException  # noqa: PLC0415

    return isinstance(error, TException)


def _said(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _connected(server: tuple[str, int], address: Address) -> socket.socket:
    """Return a connection that waits for ``connect_timeout``, as what comes before the first call has to."""
    try:
        plain = socket.create_connection(server, timeout=address.connect_timeout)
    except OSError as error:
        raise Unreachable(f"{server[0]}:{server[1]}: {error}") from error
    try:
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        _keep_alive(plain)
        made = _secured(plain, server, address) if address.tls else plain
    except OSError as error:
        plain.close()
        raise Unreachable(f"{server[0]}:{server[1]}: {error}") from error
    return made


def _keep_alive(plain: socket.socket) -> None:
    """Let the system find out that a host has gone without a word, and firewalls see that the connection is used."""
    plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES.items():
        if hasattr(socket, option):  # not everywhere
            plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


def _authenticated(
    connected: socket.socket, server: tuple[str, int], address: Address
) -> SaslTransport | None:
    if address.principal is None:
        return None
    try:
        return SaslTransport(connected, address.principal.replace("_HOST", server[0].lower()))
    except (OSError, EOFError) as error:
        connected.close()
        raise Unreachable(f"{server[0]}:{server[1]}: {error}") from error
    except BaseException:
        connected.close()
        raise


def _secured(plain: socket.socket, server: tuple[str, int], address: Address) -> socket.socket:
    try:
        context = ssl.create_default_context(cafile=address.ca)
    except OSError as error:
        raise ConfigError(f"the certificates in {address.ca} cannot be read: {error}") from error
    return context.wrap_socket(plain, server_hostname=server[0])
