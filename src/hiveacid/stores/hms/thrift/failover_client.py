"""Client of several metastores: connection pool, fail-over, retries with back-off, and hiveacid's errors."""

from __future__ import annotations

import logging
import os
import random
import re
import threading
from collections.abc import Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

from hiveacid import errors
from hiveacid.ports.clock import Clock
from hiveacid.stores.hms.address import MetastoreAddress
from hiveacid.stores.hms.thrift.connection import (
    LostAnswer,
    Refusal,
    ThriftConnection,
    UnknownMethod,
    Unreachable,
    require_library,
)
from hiveacid.stores.hms.thrift.protocol import METHODS
from hiveacid.stores.limits import RetryDeadlines

logger = logging.getLogger(__name__)

ROUNDS = 3
"""Rounds over all servers before a call fails, about two seconds with the pauses.

Each further server adds a round, because a server that hangs takes the time of the others. If this client has open
transactions, it goes on beyond these rounds until the last of them is about to expire.
"""
_PAUSE, _DOUBLINGS = 0.5, 2  # seconds, doubled at each round; at most so many times
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
        StoreError where all of them, or Kerberos, refuse a connection; UnsupportedFeatureError for a call that the
        metastore does not know.
        """
        retryable = METHODS[method].retryable
        trouble: Exception | None = None
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
                self._clock.sleep(_PAUSE * 2 ** min(turn - 1, _DOUBLINGS) * random.uniform(0.5, 1.0))  # noqa: S311 - a pause
            try:
                return self._try_call(method, values)
            except Unreachable as error:
                trouble = error
            except LostAnswer as error:
                if not retryable:
                    raise errors.CommitStateUnknownError(
                        f"the metastore {self} did not answer to {method} ({error}); it may have carried it "
                        "out: look before you try again"
                    ) from error
                trouble = error
            logger.debug("%s of the metastore %s is tried again: %s", method, self, trouble)
        raise errors.StoreUnavailableError(
            f"the metastore {self} does not answer to {method}: {trouble}"
        ) from trouble

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
        while (idle := self._pop_idle_connection()) is not None:
            if idle.process == os.getpid() and idle.alive():
                return idle
            idle.close()
        return self._open_connection()

    def _avoid_server(self, server: tuple[str, int]) -> None:
        """Close the idle connections to a server that did not answer, and try other servers first."""
        with self._lock:
            idle = [connection for connection in self._idle if connection.server == server]
            self._idle = [connection for connection in self._idle if connection.server != server]
            if self._address.servers[self._preferred_server] == server:
                self._preferred_server = (self._preferred_server + 1) % len(self._address.servers)
        for connection in idle:
            connection.close()

    def _pop_idle_connection(self) -> ThriftConnection | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _open_connection(self) -> ThriftConnection:
        servers = self._address.servers
        failures: list[Unreachable | errors.StoreError] = []
        for index in range(len(servers)):
            number = (self._preferred_server + index) % len(servers)
            try:
                connection = ThriftConnection(servers[number], self._address)
            except (
                Unreachable,
                errors.StoreError,
            ) as error:  # a refusal: another server may have another principal
                failures.append(error)
                continue
            self._preferred_server = number
            return connection
        if all(
            isinstance(failure, errors.StoreError) for failure in failures
        ):  # then it is of no use to try again
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


def _as_error(refusal: Refusal) -> errors.HiveAcidError:
    """Return the error for a refusal; an unexpected one becomes a StoreError with the server's message."""
    words = " ".join(refusal.message.split())
    kind = _KINDS.get(refusal.kind, errors.StoreError)
    if kind is errors.TransactionAbortedError and _CONFLICT in words:
        return errors.WriteConflictError(words)
    if kind is errors.AlreadyExistsError:
        return errors.AlreadyExistsError(words or "it exists already")
    if refusal.kind == "NoSuchObjectException" and _NO_DATABASE.match(words):
        return errors.NoSuchDatabaseError(words)
    return kind(f"the metastore refused {refusal.method}: {words or refusal.kind}")
