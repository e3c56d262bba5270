"""Who acts next, and when: one thread runs at a time, and one random generator decides everything.

Every call of a store or file system is a step. Between two steps of one process any other may act, time
passes, and a process may die, sleep with its heart beating, or freeze. The code under test is the real one;
threads are only there because it cannot be stopped half-way otherwise.
"""

from __future__ import annotations

import hashlib
import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from random import Random

from support.clock import ManualClock
from support.crash.faults import SimulatedCrash

_TRACE = 40
_MILLISECONDS = (0, 1, 5, 20, 100, 400)


class Over(BaseException):
    """The run has ended. No ``except Exception`` may catch it."""


class BrokenInvariantError(AssertionError):
    """Something happened that must not; ``trace``: the last steps before."""

    def __init__(self, what: str, seed: int, steps: int, trace: tuple[str, ...]) -> None:
        super().__init__(f"seed {seed}, step {steps}: {what}")
        self.what = what
        self.seed = seed
        self.steps = steps
        self.trace = trace


@dataclass(frozen=True)
class Chances:
    """Probabilities at each step of a process: to die, to freeze, to sleep with its heart beating."""

    dies: float = 0.004
    freezes: float = 0.006
    sleeps: float = 0.02
    goes_on: float = 0.5  # the same process also takes the next step
    longest: float = 3.0  # freezes and sleeps, in time-outs
    paused: tuple[str, ...] = ()  # roles that freeze so often; others a tenth of it (none given: all)
    before: Mapping[str, float] = field(
        default_factory=dict
    )  # to freeze before certain calls, for the roles above


@dataclass(eq=False)
class Process:
    """A simulated process. ``work`` runs in a thread of its own until the process dies."""

    name: str
    work: Callable[[], None]
    beat: Callable[[], None]
    dead: bool = False
    frozen: bool = False
    until: int = 0  # ms; it does nothing before
    next_beat: int = 0
    turn: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None


class Scheduler:
    """Runs processes, one step at a time, until so many steps are done or something breaks."""

    def __init__(self, seed: int, steps: int, timeout: float, chances: Chances) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.clock = ManualClock()
        self.steps = 0
        self.deaths = 0
        self.trace: deque[str] = deque(maxlen=_TRACE)
        self._history = hashlib.sha256()
        self.failure: BaseException | None = None
        self.quiet = False  # calls are no steps: the one who checks makes them
        self._limit = steps
        self._timeout = timeout
        self._chances = chances
        self._processes: list[Process] = []
        self._roles: dict[Process, Callable[[], Process]] = {}
        self._over = False
        self._finished = threading.Event()

    def add(self, make: Callable[[], Process]) -> None:
        """Start a process; when it dies, another one like it begins."""
        process = make()
        self._roles[process] = make
        self._processes.append(process)
        process.turn.acquire()
        process.next_beat = self.clock.now() + int(500 * self._timeout)
        process.thread = threading.Thread(target=self._live, args=(process,), name=process.name, daemon=True)
        process.thread.start()

    def run(self) -> None:
        """Let them run. Raises BrokenInvariantError, or what a process raised."""
        started = [one.thread for one in self._processes]
        self._choose().turn.release()
        self._finished.wait()
        for process in self._processes:
            if process.turn.locked():
                process.turn.release()
        for thread in [*started, *(one.thread for one in self._processes)]:
            if thread is not None:
                thread.join()
        if self.failure is not None:
            raise self.failure

    def step(self, process: Process, what: str, *, at_once: bool = False) -> None:
        """Wait for the process's turn, then count and note what it is about to do.

        ``at_once``: nobody else acts between the last step of the process and this one.
        """
        if self.quiet:
            return
        self._require_life(process)
        if not at_once:
            self._befall(process, what)
        following = process
        if not at_once and (process.until > self.clock.now() or self.random.random() > self._chances.goes_on):
            following = self._choose()
        if following is not process:
            following.turn.release()
            process.turn.acquire()
            self._require_life(process)
        self.steps += 1
        self.clock.advance(self.random.choice(_MILLISECONDS) / 1000)
        self._beat()
        self._record(f"{self.steps} {process.name}: {what}")
        if self.steps > self._limit:
            self._end()
            raise Over

    @property
    def digest(self) -> str:
        """Return a number of the whole history: two runs that did the same have the same one."""
        return self._history.hexdigest()

    def note(self, what: str) -> None:
        """Write something about the last step into the trace."""
        if not self.quiet:
            self._record(f"    {what}")

    def sleep(self, process: Process, seconds: float) -> None:
        """Let a process wait, its heart beating."""
        process.until = self.clock.now() + int(seconds * 1000)
        self.step(process, f"slept {seconds:g} s")

    def broken(self, what: str) -> Over:
        """Note that an invariant is broken and end the run; raise what this returns."""
        if self.failure is None:
            steps = min(self.steps, self._limit)  # what is found in the end replays with the whole run
            self.failure = BrokenInvariantError(what, self.seed, steps, tuple(self.trace))
        self._end()
        return Over()

    # --- inside ---------------------------------------------------------------------------------

    def _record(self, what: str) -> None:
        self.trace.append(what)
        self._history.update(what.encode() + b"\n")

    def _live(self, process: Process) -> None:
        process.turn.acquire()
        try:
            if not self._over:
                process.work()
        except (SimulatedCrash, Over):
            pass
        except BaseException as error:  # noqa: BLE001 - it ends the run and is raised there
            self.failure = self.failure or error
            self._end()
        if not self._over:
            self._succeed(process)

    def _succeed(self, process: Process) -> None:
        """Begin another process of the same role a while after this one's death, and hand the turn on."""
        process.dead = True
        make = self._roles.pop(process)
        self._processes.remove(process)
        self.add(make)
        self._processes[-1].until = self.clock.now() + int(1000 * self.random.uniform(0, 1) * self._timeout)
        self._choose().turn.release()

    def _require_life(self, process: Process) -> None:
        if self._over:
            raise Over
        if process.dead:
            raise SimulatedCrash

    def _befall(self, process: Process, what: str) -> None:
        """Let the process die, freeze or sleep, as chance has it."""
        chance, chances = self.random.random(), self._chances
        process.frozen = False
        if chance < chances.dies:
            process.dead = True
            self.deaths += 1
            self._record(f"    {process.name} dies")
            raise SimulatedCrash
        chance -= chances.dies
        freezes = chances.freezes
        if chances.paused and not process.name.startswith(chances.paused):
            freezes /= 10
        else:
            freezes = max(freezes, chances.before.get(what.partition("(")[0], 0.0))
        if chance < freezes + chances.sleeps:
            process.frozen = chance < freezes
            long = self.random.random() ** 3 * chances.longest * self._timeout
            process.until = self.clock.now() + int(1000 * long)
            if process.frozen:  # thawed, its heart need not be the first to act
                process.next_beat = process.until + int(500 * self.random.random() * self._timeout)
            self._record(f"    {process.name} {'freezes' if process.frozen else 'sleeps'} for {long:.1f} s")

    def _choose(self) -> Process:
        now = self.clock.now()
        ready = [one for one in self._processes if one.until <= now]
        if not ready:
            first = min(self._processes, key=lambda one: one.until)
            self.clock.advance((first.until - now + 1) / 1000)
            self._beat()
            ready = [first]
        return self.random.choice(ready)

    def _beat(self) -> None:
        """Send the heartbeats that are due: processes beat from a thread of their own, whatever they do."""
        now = self.clock.now()
        for process in self._processes:
            if process.next_beat <= now and not process.dead and not (process.frozen and process.until > now):
                process.next_beat = now + int(500 * self._timeout)
                self.quiet = True
                try:
                    process.beat()
                finally:
                    self.quiet = False

    def _end(self) -> None:
        self._over = True
        self._finished.set()
