"""A history of clients that are processes: killed, stopped past the time-out, cut off from the server.

Run it as a program of its own (``python -m support.history``): it forks, and so wants no threads.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random

from hiveacid.config import Settings
from hiveacid.errors import StoreError
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.store import SqlStore
from support.history.client import HistoryClient, Workload
from support.history.planted import with_bug
from support.history.records import History, Record, read_lines
from support.history.tables import Tables
from support.history.verdict import history_of
from support.history.wire import Wire, address_of, through

OpenStore = Callable[[str, Limits], SqlStore]


def open_plainly(url: str, limits: Limits) -> SqlStore:
    """Open a store as it is."""
    return SqlStore(url, limits=limits)


@dataclass(frozen=True)
class Misfortune:
    """How often something happens to a client.

    ``killed``, ``stopped``: at an operation, a probability. ``struck``: killed or stopped at any instant,
    times a second; ``cut``: one of all connections is cut, times a second.
    """

    killed: float = 0.001
    stopped: float = 0.001
    struck: float = 0.5
    cut: float = 1.0


@dataclass
class ProcessRun:
    """So many transactions by ``clients`` processes on the store of a URL; ``timeout``: hive.txn.timeout, s.

    ``bug``: one of ``planted.BUGS``, put in front of every client's store. ``open_store``: how clients open it.
    """

    url: str
    directory: Path
    transactions: int
    clients: int = 6
    seed: int = 0
    timeout: float = 1.0
    misfortune: Misfortune = field(default_factory=Misfortune)
    workload: Workload = field(default_factory=Workload)
    bug: str = ""
    open_store: OpenStore = open_plainly
    longest: float = 600.0  # seconds

    def run(self) -> History:
        """Run it and return the history. Raises RuntimeError if a client failed, or it takes too long."""
        self._random = Random(self.seed)
        self._limits = replace(Limits.of(Settings()), txn_timeout=self.timeout)
        self._parent = os.getpid()
        self._board = _Board(self.clients)
        self._running: dict[int, int] = {}  # process id -> slot
        self._wakes: dict[int, float] = {}  # stopped process -> when it goes on
        self._helpers: list[int] = []
        self._lives = 0
        (self.directory / "logs").mkdir(parents=True)
        (self.directory / "reaped").touch()  # a short run may end before the reaper has begun
        SqlStore(self.url).close()
        try:
            self._start()
            self._watch()
        finally:
            self._kill_all()
        return self._history()

    # --- the processes ------------------------------------------------------------------------

    def _start(self) -> None:
        self._client_url = self.url
        server = address_of(self.url)
        if server is not None and self.misfortune.cut:
            wire = Wire(server, self.seed, self.misfortune.cut)
            self._client_url = through(self.url, wire.port)
            self._helpers.append(self._fork(wire.run))
        self._helpers.append(self._fork(self._keep_house))
        for slot in range(self.clients):
            self._start_client(slot)

    def _start_client(self, slot: int) -> None:
        self._lives += 1
        name = f"{slot}.{self._lives}"
        self._running[self._fork(lambda: self._work(slot, name))] = slot

    def _fork(self, work: Callable[[], None]) -> int:
        child = os.fork()
        if child:
            return child
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - the process ends here, whatever it was
            traceback.print_exc()
        finally:
            os._exit(code)

    def _work(self, slot: int, name: str) -> None:
        """Be a client."""
        random = Random(f"{self.seed} {name}")
        store = with_bug(self.bug, self.open_store(self._client_url, self._limits))
        with (self.directory / "logs" / name).open("a", encoding="utf-8") as log:

            def note(line: str) -> None:
                log.write(line)
                log.flush()

            client = HistoryClient(
                name, store, Tables(self.directory), note, random, self.timeout, self.workload,
                lambda _txn: self._suffer(random),
            )  # fmt: skip
            while not self._board.enough(self.transactions) and os.getppid() == self._parent:
                if client.run() is not None:
                    self._board.count(slot)

    def _suffer(self, random: Random) -> None:
        chance = random.random()
        if chance < self.misfortune.killed:
            os.kill(os.getpid(), signal.SIGKILL)
        elif chance < self.misfortune.killed + self.misfortune.stopped:
            os.kill(os.getpid(), signal.SIGSTOP)

    def _keep_house(self) -> None:
        """Be the reaper and the housekeeper."""
        store = SqlStore(self.url, limits=self._limits)
        with (self.directory / "reaped").open("a", encoding="utf-8") as log:
            while os.getppid() == self._parent:
                for turn in range(4):
                    with suppress(StoreError):
                        log.write("".join(f"{one}\n" for one in store.abort_timed_out()))
                        log.flush()
                        if turn == 0:
                            store.housekeep()
                    time.sleep(self.timeout / 4)

    # --- the one who watches ------------------------------------------------------------------

    def _watch(self) -> None:
        deadline = time.monotonic() + self.longest
        next_strike = self._next_strike()
        while self._running:
            time.sleep(0.01)
            self._reap()
            self._wake()
            if time.monotonic() > deadline:
                raise RuntimeError(f"the history takes longer than {self.longest:g} s")
            if self._running and time.monotonic() > next_strike:  # `_reap` may have taken the last one
                next_strike = self._next_strike()
                self._strike()

    def _next_strike(self) -> float:
        if not self.misfortune.struck:
            return float("inf")
        return time.monotonic() + self._random.expovariate(self.misfortune.struck)

    def _strike(self) -> None:
        victim = self._random.choice(sorted(self._running))
        kind = self._random.choice((signal.SIGKILL, signal.SIGSTOP))
        os.kill(victim, kind)

    def _reap(self) -> None:
        for process, slot in list(self._running.items()):
            found, status = os.waitpid(process, os.WNOHANG | os.WUNTRACED)
            if not found:
                continue
            if os.WIFSTOPPED(status):
                self._wakes.setdefault(
                    process, time.monotonic() + self._random.uniform(0.2, 2) * self.timeout
                )
                continue
            del self._running[process]
            self._wakes.pop(process, None)
            if os.WIFEXITED(status) and os.WEXITSTATUS(status):
                raise RuntimeError("a client failed; see its traceback above")
            if os.WIFSIGNALED(status) and not self._board.enough(self.transactions):
                self._start_client(slot)

    def _wake(self) -> None:
        for process, when in list(self._wakes.items()):
            if time.monotonic() >= when:
                del self._wakes[process]
                os.kill(process, signal.SIGCONT)

    def _kill_all(self) -> None:
        for process in (*self._running, *self._helpers):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(process, 0)

    # --- the end ------------------------------------------------------------------------------

    def _history(self) -> History:
        store = SqlStore(self.url, limits=self._limits)
        try:
            store.abort_txns([one.txn_id for one in store.show_transactions()], "the run is over")
            reaped = (self.directory / "reaped").read_text(encoding="utf-8").split()
            return history_of(
                store, Tables(self.directory), list(self._records()), self.workload, map(int, reaped)
            )
        finally:
            store.close()

    def _records(self) -> Iterator[Record]:
        for path in sorted((self.directory / "logs").iterdir()):
            with path.open(encoding="utf-8") as lines:
                yield from read_lines(lines)


class _Board:
    """Counters that forked processes share: how many transactions each has run."""

    def __init__(self, slots: int) -> None:
        self._memory = mmap.mmap(-1, 8 * slots)
        self._slots = slots

    def count(self, slot: int) -> None:
        """Count one on; only the slot's own client does."""
        (before,) = struct.unpack_from("q", self._memory, 8 * slot)
        struct.pack_into("q", self._memory, 8 * slot, before + 1)

    def enough(self, wanted: int) -> bool:
        """Tell whether all have run enough together."""
        done: int = sum(struct.unpack(f"{self._slots}q", self._memory))
        return done >= wanted
