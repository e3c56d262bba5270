"""Fault points: die, raise or wait before or after the n-th call of a verb of a store or file system.

    faults = Faults()
    faults.at("store.commit_txn", 1, Moment.BEFORE, crash)
    session = faulty(session, faults)

Every call through the ports is counted and recorded (`Faults.calls`), so that a test can run a statement once,
look at what it did, and then let it die at each of these points. A fault of kind `crash` is a dead process
that goes on living: from then on every call through these ports raises `SimulatedCrash`, so no clean-up code
of the dead one reaches disk or store. `kill` is the real thing: SIGKILL for the process itself.
"""

from __future__ import annotations

import os
import signal
import threading
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

from hiveacid.config import setting_definitions
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transactions

if TYPE_CHECKING:
    from hiveacid.catalog.connection import WarehouseConnection
    from hiveacid.core.model import TxnId
    from hiveacid.table.context import Context

_Session = TypeVar("_Session", bound="WarehouseConnection")


class SimulatedCrash(BaseException):
    """The process is taken for dead. No ``except Exception`` and no retry may catch it."""


# Threads of a session that nobody waits for: `hiveacid.transactions.heartbeats`.
_BACKGROUND = frozenset({"hiveacid-heartbeat", "hiveacid-sweep"})


class Moment(StrEnum):
    """When a fault strikes: before the verb does anything, or after it did everything but before it returns."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True)
class Point:
    """The ``nth`` call (from 1) of a verb, spelled ``store.commit_txn`` or ``fs.move_file``."""

    verb: str
    nth: int
    moment: Moment

    def __str__(self) -> str:
        """Return the name that a test gets."""
        return f"{self.moment} {self.verb} {self.nth}"


Fault = Callable[["Faults"], None]


def crash(faults: Faults) -> None:
    """Be dead from here on: this call and every later one raise `SimulatedCrash`."""
    faults.die()


def kill(_: Faults) -> None:
    """Kill this process as ``kill -9`` does."""
    os.kill(os.getpid(), signal.SIGKILL)


def failing(error: Exception) -> Fault:
    """Return a fault that raises ``error`` once; the process lives and may clean up."""

    def fail(_: Faults) -> None:
        raise error

    return fail


@dataclass
class Pause:
    """A fault that waits: `reached` tells that the point was come to, `go` lets it go on."""

    reached: threading.Event = field(default_factory=threading.Event)
    go: threading.Event = field(default_factory=threading.Event)
    longest: float = 60.0  # seconds

    def __call__(self, _: Faults) -> None:
        """Wait until somebody sets `go`."""
        self.reached.set()
        self.go.wait(self.longest)


class Faults:
    """Counts calls and strikes where it was told to. Shared by the wrappers of one session; thread-safe."""

    def __init__(self) -> None:
        """Start without any fault."""
        self.calls: list[str] = []
        self.struck: list[Point] = []
        self._planned: dict[Point, Fault] = {}
        self._counts: Counter[str] = Counter()
        self._lock = threading.RLock()
        self._dead = False

    @property
    def dead(self) -> bool:
        """Tell whether a `crash` has struck."""
        return self._dead

    def at(self, verb: str, nth: int, moment: Moment, fault: Fault) -> None:
        """Plan a fault; counting begins anew with `start`."""
        self._planned[Point(verb, nth, moment)] = fault

    def start(self) -> None:
        """Forget the calls so far: the next call of each verb is its first."""
        with self._lock:
            self.calls.clear()
            self._counts.clear()

    def die(self) -> None:
        """Take the process for dead."""
        self._dead = True
        raise SimulatedCrash

    def call(self, verb: str, run: Callable[[], Any]) -> Any:
        """Make one call of a verb, with what was planned for it."""
        with self._lock:
            self._require_life()
            self._counts[verb] += 1
            self.calls.append(verb)
            nth = self._counts[verb]
        self._strike(Point(verb, nth, Moment.BEFORE))
        result = run()
        self._strike(Point(verb, nth, Moment.AFTER))
        self._require_life()
        return result

    def _strike(self, point: Point) -> None:
        fault = self._planned.get(point)
        if fault is not None:
            self.struck.append(point)
            fault(self)

    def _require_life(self) -> None:
        if not self._dead:
            return
        if threading.current_thread().name in _BACKGROUND:
            # Not SimulatedCrash: the traceback of a thread that ends would fail whatever test runs meanwhile.
            raise ConnectionError("the process is taken for dead")
        raise SimulatedCrash


class FaultyPort:
    """Passes every verb of a port on, through `Faults`. What is no method passes as it is."""

    def __init__(self, port: object, name: str, faults: Faults) -> None:
        """``name``: what stands before the dot in a verb's name: ``store`` or ``fs``."""
        self._port = port
        self._name = name
        self._faults = faults

    def __getattr__(self, verb: str) -> Any:
        """Return the verb with its fault points."""
        found = getattr(self._port, verb)
        if not callable(found) or verb in _PURE:
            return found

        @wraps(found)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            return self._faults.call(f"{self._name}.{verb}", lambda: found(*args, **kwargs))

        return guarded


_PURE = frozenset(
    {"replaces_tail_in_place", "renames_directories", "close", "txn_timeout"}
)  # nothing can happen there


class FaultyStore(FaultyPort):
    """A transaction store and catalog with fault points ``store.<verb>``."""

    def __init__(self, store: object, faults: Faults) -> None:
        """Wrap a store that is the catalog too, as all of ours are."""
        super().__init__(store, "store", faults)


class FaultyFileSystem(FaultyPort):
    """A file system with fault points ``fs.<verb>``."""

    def __init__(self, fs: object, faults: Faults) -> None:
        """Wrap a file system."""
        super().__init__(fs, "fs", faults)


def faulty(
    session: _Session, faults: Faults, store: object | None = None, *, heartbeats: bool = False
) -> _Session:
    """Return a session like this one whose every call to storage and store goes through ``faults``.

    ``store``: use this one instead of the session's. ``heartbeats``: keep its transactions alive from a
    thread, as usual; without them a session that `crash` has struck is silent at once.
    """
    context = session.context
    wrapped_store = cast("Any", FaultyStore(store or context.store, faults))
    beats = Heartbeats if heartbeats else _NoHeartbeats
    transactions = Transactions(
        wrapped_store,
        beats(wrapped_store, context.settings.get(setting_definitions.TXN_TIMEOUT) / 2),
        context.clock,
        context.transactions.client,
    )
    wrapped: Context = replace(
        context,
        fs=cast("Any", FaultyFileSystem(context.fs, faults)),
        store=wrapped_store,
        catalog=wrapped_store,
        transactions=transactions,
        read_leases=ReadLeases(transactions),
    )
    return replace(session, context=wrapped)


class _NoHeartbeats(Heartbeats):
    """Starts no thread: a turn of it would call a store that is dead."""

    def track(self, txn_id: TxnId) -> None:
        """Do nothing."""
