"""Calls to whichever metastore of the list answers: pool, fail-over, tries, errors of ours."""

from __future__ import annotations

import logging
import os
import random
import threading
from typing import Any

from hiveacid.errors import (
    CommitStateUnknownError,
    StoreError,
    StoreUnavailableError,
    UnsupportedFeatureError,
)
from hiveacid.ports import Clock
from hiveacid.stores.hms.address import Address
from hiveacid.stores.hms.faults import as_error
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.wire import LostAnswer, Refusal, UnknownMethod, Unreachable, Wire, require_library

logger = logging.getLogger(__name__)

ROUNDS = 3
"""How often all servers are tried before a call fails; with the pauses about two seconds.

Once more for each further server: one that is there, and does not answer, keeps the others from their turn.
"""
_PAUSE, _LONGEST = 0.5, 4  # seconds, doubled at each round; at most so many times
_MOST_IDLE = 4
_SHORT = frozenset(
    {"getVersion", "get_config_value", "heartbeat_txn_range"}
)  # a healthy server answers at once
_LONGEST_SHORT = 30.0  # seconds


class MetastoreClient:
    """Thread-safe: every call has a connection for itself. Nothing is connected before the first call.

    Raises ConfigError where the Thrift library is missing.
    """

    def __init__(self, address: Address, clock: Clock) -> None:
        require_library()
        self._address = address
        self._clock = clock
        self._lock = threading.Lock()
        self._idle: list[Wire] = []
        self.patience = min(address.timeout, _LONGEST_SHORT)  # for the answers of short calls, in seconds
        self._first = 0  # the server that answered last

    def __str__(self) -> str:
        """Return the URL."""
        return str(self._address)

    def call(self, method: str, *values: Any) -> Any:
        """Call a method of ``protocol.METHODS``; return its answer.

        What the metastore refuses becomes one of our errors (``faults.py``). A call that may not be repeated is
        sent once: CommitStateUnknownError if its answer was lost. StoreUnavailableError where no server answers;
        StoreError where all of them, or Kerberos, refuse a connection; UnsupportedFeatureError for a call that the
        metastore does not know.
        """
        again = METHODS[method].again
        trouble: Exception | None = None
        for turn in range(ROUNDS + len(self._address.servers) - 1):
            if turn:
                self._clock.sleep(_PAUSE * min(2 ** (turn - 1), _LONGEST) * random.uniform(0.5, 1.0))  # noqa: S311 - a pause
            try:
                return self._once(method, values)
            except Unreachable as error:
                trouble = error
            except LostAnswer as error:
                if not again:
                    raise CommitStateUnknownError(
                        f"the metastore {self} did not answer to {method} ({error}); it may have carried it "
                        "out: look before you try again"
                    ) from error
                trouble = error
            logger.debug("%s of the metastore %s is tried again: %s", method, self, trouble)
        raise StoreUnavailableError(
            f"the metastore {self} does not answer to {method}: {trouble}"
        ) from trouble

    def _once(self, method: str, values: tuple[Any, ...]) -> Any:
        wire = self._lend()
        try:
            answer = wire.call(method, *values, within=self.patience if method in _SHORT else None)
        except Refusal as refusal:
            self._give_back(wire)
            raise as_error(refusal) from None
        except UnknownMethod:
            self._give_back(wire)
            raise UnsupportedFeatureError(
                f"the metastore {self} does not know the call {method}: it is of another version"
            ) from None
        except LostAnswer:
            wire.close()
            self._leave(wire.server)
            raise
        except BaseException:  # an answer may still be under way, and it is nobody's
            wire.close()
            raise
        self._give_back(wire)
        return answer

    def _lend(self) -> Wire:
        """Return a connection that is alive: an idle one, else a new one to the first server that is there."""
        while (idle := self._take_idle()) is not None:
            if idle.process == os.getpid() and idle.alive():
                return idle
            idle.close()
        return self._connected()

    def _leave(self, server: tuple[str, int]) -> None:
        """Hang up on a server that did not answer: its other connections may be no better, others come first now."""
        with self._lock:
            left = [one for one in self._idle if one.server == server]
            self._idle = [one for one in self._idle if one.server != server]
            if self._address.servers[self._first] == server:
                self._first = (self._first + 1) % len(self._address.servers)
        for one in left:
            one.close()

    def _take_idle(self) -> Wire | None:
        with self._lock:
            return self._idle.pop() if self._idle else None

    def _connected(self) -> Wire:
        servers = self._address.servers
        failures: list[Unreachable | StoreError] = []
        for place in range(len(servers)):
            number = (self._first + place) % len(servers)
            try:
                wire = Wire(servers[number], self._address)
            except (Unreachable, StoreError) as error:  # a refusal: another server may have another principal
                failures.append(error)
                continue
            self._first = number
            return wire
        if all(isinstance(one, StoreError) for one in failures):  # then it is of no use to try again
            raise failures[-1]
        raise Unreachable("; ".join(map(str, failures)))

    def _give_back(self, wire: Wire) -> None:
        with self._lock:
            if len(self._idle) < _MOST_IDLE:
                self._idle.append(wire)
                return
        wire.close()

    def close(self) -> None:
        """Hang up; whoever goes on gets new connections."""
        with self._lock:
            idle, self._idle = self._idle, []
        for wire in idle:
            wire.close()
