"""Client of several metastores: connections, fail-over, retries with back-off, and hiveacid's errors.

A connection is to one metastore, for one call at a time. Only this module loads the Thrift library.
"""

from __future__ import annotations

import logging
import os
import random
import re
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

from hiveacid import errors
from hiveacid.ports.clock import Clock
from hiveacid.stores.hms.metastores import MetastoreAddress
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.thrift_structs import Method, ThriftStruct, missing_required_field
from hiveacid.stores.hms.transport import (
    LARGEST_ANSWER,
    MOST_ITEMS,
    NotSentError,
    SaslTransport,
    TimedSocket,
    Transport,
)
from hiveacid.stores.limits import RetryDeadlines

logger = logging.getLogger(__name__)

ROUNDS = 3
"""Rounds over all servers before a call fails, about two seconds with the pauses.

Each further server adds a round, because a server that hangs takes the time of the others. If this client has open
transactions, it goes on beyond these rounds until the last of them is about to expire.
"""
_FIRST_PAUSE, _DOUBLINGS = 0.5, 2  # seconds, doubled at each round; at most so many times
_MAX_IDLE = 4
# A healthy server answers these at once.
_FAST_METHODS = frozenset({"getVersion", "get_config_value", "heartbeat_txn_range"})
_MAX_FAST_TIMEOUT = 30.0  # seconds
_KINDS: Mapping[str, type[errors.HiveAcidError]] = MappingProxyType(
    {
        "NoSuchTxnException": errors.NoSuchTransactionError,
        "TxnAbortedException": errors.TransactionAbortedError,
        "TxnOpenException": errors.TransactionStateError,
        "NoSuchLockException": errors.TransactionStateError,
        "NoSuchObjectException": errors.CatalogError,
        "AlreadyExistsException": errors.AlreadyExistsError,
        "InvalidObjectException": errors.CatalogError,
        "InvalidOperationException": errors.CatalogError,
    }
)
_CONFLICT = "due to a write conflict"  # the words of both versions
_NO_DATABASE = re.compile(r"(?:the |there is no )?database ", re.IGNORECASE)
"""Beginning of the messages of Hive 3.1 and 4.0 about a missing database.

Messages about tables have the word elsewhere: in the table's name, in "Specified catalog.database.table does not exist".
"""


class MetastoreClient:
    """Thread-safe: every call has a connection for itself. Nothing is connected before the first call.

    Raises ConfigError where the Thrift library is missing.
    """

    def __init__(self, address: MetastoreAddress, clock: Clock) -> None:
        require_library()
        self._address = address
        self._clock = clock
        self.retry_deadlines = RetryDeadlines(clock)
        self._lock = threading.Lock()
        self._idle: list[ThriftConnection] = []
        self.fast_call_timeout = min(address.timeout, _MAX_FAST_TIMEOUT)  # seconds
        self._preferred_server = 0  # the server that answered last

    def __str__(self) -> str:
        """Return the URL."""
        return str(self._address)

    def call(self, method: str, *values: Any) -> Any:
        """Call a method of ``protocol.METHODS``; return its answer.

        A refusal of the metastore becomes an error of hiveacid (:func:`_as_error`). A call that may not be repeated is
        sent once: CommitStateUnknownError if its answer was lost. StoreUnavailableError where no server answers;
        errors.StoreError where all of them, or Kerberos, refuse a connection; UnsupportedFeatureError for a call that the
        metastore does not know.
        """
        retryable = METHODS[method].retryable
        last_error: Exception | None = None
        rounds = ROUNDS + len(self._address.servers) - 1
        for turn in count():
            remaining = self.retry_deadlines.remaining() if turn >= rounds else 0.0
            if turn >= rounds and not remaining:
                break
            if turn == rounds:
                logger.warning(
                    "the metastore %s cannot be reached; trying for another %.0f s, until the open transactions are about "
                    "to expire", self, remaining,
                )  # fmt: skip
            if turn:
                self._clock.sleep(_FIRST_PAUSE * 2 ** min(turn - 1, _DOUBLINGS) * random.uniform(0.5, 1.0))  # noqa: S311 - a pause
            try:
                return self._try_call(method, values)
            except Unreachable as error:
                last_error = error
            except LostAnswer as error:
                if not retryable:
                    raise errors.CommitStateUnknownError(
                        f"the metastore {self} did not answer to {method} ({error}); it may have carried it "
                        "out: look before you try again"
                    ) from error
                last_error = error
            logger.debug("%s of the metastore %s is tried again: %s", method, self, last_error)
        raise errors.StoreUnavailableError(
            f"the metastore {self} does not answer to {method}: {last_error}"
        ) from last_error

    def _try_call(self, method: str, values: tuple[Any, ...]) -> Any:
        connection = self._borrow_connection()
        try:
            answer = connection.call(
                method, *values, within=self.fast_call_timeout if method in _FAST_METHODS else None
            )
        except Refusal as refusal:
            self._return(connection)
            raise _as_error(refusal) from None
        except UnknownMethod:
            self._return(connection)
            raise errors.UnsupportedFeatureError(
                f"the metastore {self} does not know the call {method}: it is of another version"
            ) from None
        except LostAnswer:
            connection.close()
            self._avoid_server(connection.server)
            raise
        except BaseException:  # an answer may still arrive, and must not be read as that of another call
            connection.close()
            raise
        self._return(connection)
        return answer

    def _borrow_connection(self) -> ThriftConnection:
        """Return a live connection: an idle one, or a new one to the first server that accepts it."""
        while True:
            with self._lock:
                idle = self._idle.pop() if self._idle else None
            if idle is None:
                return self._open_connection()
            if idle.process == os.getpid() and idle.alive():
                return idle
            idle.close()

    def _avoid_server(self, server: tuple[str, int]) -> None:
        """Close the idle connections to a server that did not answer, and try other servers first."""
        with self._lock:
            idle = [connection for connection in self._idle if connection.server == server]
            self._idle = [connection for connection in self._idle if connection.server != server]
            if self._address.servers[self._preferred_server] == server:
                self._preferred_server = (self._preferred_server + 1) % len(self._address.servers)
        for connection in idle:
            connection.close()

    def _open_connection(self) -> ThriftConnection:
        servers = self._address.servers
        failures: list[Unreachable | errors.StoreError] = []
        for index in range(len(servers)):
            number = (self._preferred_server + index) % len(servers)
            try:
                connection = ThriftConnection(servers[number], self._address)
            # a refusal: another server may have another principal
            except (Unreachable, errors.StoreError) as error:
                failures.append(error)
                continue
            self._preferred_server = number
            return connection
        # then it is of no use to try again
        if all(isinstance(failure, errors.StoreError) for failure in failures):
            raise failures[-1]
        raise Unreachable("; ".join(map(str, failures)))

    def _return(self, connection: ThriftConnection) -> None:
        with self._lock:
            if len(self._idle) < _MAX_IDLE:
                self._idle.append(connection)
                return
        connection.close()

    def close(self) -> None:
        """Close the idle connections; a later call opens new ones."""
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()


def retry_lost_answer(step: Callable[[], object]) -> None:
    """Run a repeatable step again after a lost answer. Raises StoreUnavailableError after the last attempt."""
    for turn in range(1, ROUNDS + 1):
        try:
            step()
        except errors.CommitStateUnknownError as lost:
            if turn == ROUNDS:
                message = str(lost).rpartition(";")[0] or str(lost)
                raise errors.StoreUnavailableError(f"{message}; nothing was committed: try again") from lost
        else:
            return


def _as_error(refusal: Refusal) -> errors.HiveAcidError:
    """Return the error for a refusal; an unexpected one becomes a errors.StoreError with the server's message."""
    words = " ".join(refusal.message.split())
    kind = _KINDS.get(refusal.kind, errors.StoreError)
    if kind is errors.TransactionAbortedError and _CONFLICT in words:
        return errors.WriteConflictError(words)
    if kind is errors.AlreadyExistsError:
        return errors.AlreadyExistsError(words or "it exists already")
    if refusal.kind == "NoSuchObjectException" and _NO_DATABASE.match(words):
        return errors.NoSuchDatabaseError(words)
    return kind(f"the metastore refused {refusal.method}: {words or refusal.kind}")


_CALL, _REPLY, _EXCEPTION = 1, 2, 3  # kinds of messages
_UNKNOWN_METHOD = 1  # a TApplicationException's type
# dead after two minutes
_PROBES = MappingProxyType({"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6})
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


class Refusal(Exception):  # noqa: N818 - becomes an error of hiveacid in `_as_error`
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
        raise errors.ConfigError(
            "a Hive Metastore as store needs the package thrift: pip install 'hiveacid[hms]'"
        ) from error
    del thrift


class ThriftConnection:
    """An open connection, used by one thread at a time. ``methods``: those of the service.

    The constructor raises Unreachable, and errors.StoreError where Kerberos or the metastore refuses.
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
            # keep-alive detects a dead host, and keeps firewalls from dropping an idle connection
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in _PROBES.items():
                if hasattr(socket, option):  # not everywhere
                    plain.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)
            if not address.tls:
                return plain
            try:
                context = ssl.create_default_context(cafile=address.ca)
            except OSError as error:
                raise errors.ConfigError(
                    f"the certificates in {address.ca} cannot be read: {error}"
                ) from error
            return context.wrap_socket(plain, server_hostname=server[0])
        except BaseException:
            plain.close()
            raise
    except ssl.SSLCertVerificationError as error:  # it will not change by trying again
        raise errors.StoreError(
            f"the certificate of {server[0]}:{server[1]} is not trusted: {error.verify_message}; "
            "name its authority in the store URL: ca=FILE"
        ) from error
    except OSError as error:
        raise Unreachable(f"{server[0]}:{server[1]}: {error}") from error


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
