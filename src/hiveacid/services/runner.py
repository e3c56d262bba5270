"""Services of one process: `Services.step` runs them one after the other, `Runner` side by side, a thread each, until it is told to stop."""

from __future__ import annotations

import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from importlib import metadata
from typing import Self

from hiveacid.catalog.connection import WarehouseConnection
from hiveacid.config import setting_definitions
from hiveacid.core.compaction.queue_records import DEFAULT_POOL, Service
from hiveacid.core.model import TxnId
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import CompactionError, HiveAcidError, UnsupportedFeatureError
from hiveacid.ports.store import own_store
from hiveacid.services.steps import Cleaner, CleaningResult, Housekeeper, Initiator, InitiatorFinding, Worker
from hiveacid.table.compaction.run_compaction import CompactionReport


@dataclass(frozen=True)
class Turn:
    """Results of one turn of all services."""

    aborted: tuple[TxnId, ...] = ()
    findings: tuple[InitiatorFinding, ...] = ()
    compactions: tuple[CompactionReport, ...] = ()
    cleaned: CleaningResult = field(default_factory=CleaningResult)

    @property
    def failed(self) -> bool:
        """Tell whether a compaction or a cleaning failed."""
        failed = any(report.state == CompactionState.FAILED for report in self.compactions)
        return failed or bool(self.cleaned.errors)


class Services:
    """Initiator, workers, cleaner and housekeeper of a connection; a scheduler calls `step`.

        services = hiveacid.services.Services(acid)
        services.step()

    ``initiator``, ``cleaner``, ``housekeeper``: whether this process runs one. ``workers``: number of workers of ``pool``.
    `step` lets one worker run all queued jobs; ``runner.Runner`` runs all workers side by side.

    With a Hive Metastore 4 only workers are possible: they take jobs from its queue, and Hive itself runs the other
    services; asking for one of those raises UnsupportedFeatureError. With Hive 3 any service does.
    """

    def __init__(
        self,
        connection: WarehouseConnection,
        *,
        initiator: bool = True,
        workers: int = 1,
        cleaner: bool = True,
        housekeeper: bool = True,
        pool: str = DEFAULT_POOL,
    ) -> None:
        context = connection.context
        if not context.store.maintained_by_hiveacid() and (initiator or cleaner or housekeeper):
            raise UnsupportedFeatureError(
                "a Hive Metastore has an initiator, a cleaner and housekeepers of its own; only workers can run here "
                "(hiveacid services --workers N)"
            )
        context.store.require_claimable_jobs()
        # a copy, so that SET in the session does not change running services
        self.context = replace(context, session=replace(context.session))
        # containers with their host's network have one host name, and pid 1
        self.name = f"{context.transactions.client.host}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self.initiator = Initiator(self.context, f"{self.name}.initiator") if initiator else None
        self.workers = [
            Worker(self.context, f"{self.name}.worker{number}", pool) for number in range(workers)
        ]
        self.cleaner = Cleaner(self.context) if cleaner else None
        self.housekeeper = Housekeeper(self.context) if housekeeper else None

    def step(self) -> Turn:
        """Do one turn: abort silent transactions, queue due compactions, run all queued jobs, clean."""
        aborted = self.housekeeper.step() if self.housekeeper else ()
        findings = self.initiator.step() if self.initiator else []
        reports: list[CompactionReport] = []
        if self.workers:
            reports.extend(iter(self.workers[0].step, None))
        cleaned = self.cleaner.step() if self.cleaner else CleaningResult()
        return Turn(tuple(aborted), tuple(findings), tuple(reports), cleaned)


logger = logging.getLogger(__name__)

_ANNOUNCE_INTERVAL = 15.0  # seconds between two announcements of a service in the store
_ANNOUNCER = "hiveacid-announce"
_LONGEST_ERROR_PAUSE = 10.0  # seconds before a failed service tries again, at most


@dataclass(frozen=True)
class LoopState:
    """State of a service's thread; the page ``/health`` shows the fields under these names.

    ``turns``, ``failures``: numbers of successful and of failed turns. ``seconds``: duration of the last successful turn.
    ``last``, ``began``: end of the last successful turn and begin of the running one, in ms since the epoch; None if there
    is no such turn. ``interval``: seconds within which a turn should begin.
    """

    kind: str
    interval: float
    turns: int = 0
    failures: int = 0
    seconds: float = 0.0
    last: int | None = None
    began: int | None = None
    error: str | None = None


class Runner:
    """Runs services side by side: `start`, `wake_up_initiator_and_workers`, `stop`; `loops` tells their states."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._wake_ups: dict[str, threading.Event] = {}
        self._lock = threading.Lock()
        self._loops: dict[str, LoopState] = {}

    def __enter__(self) -> Self:
        """Start."""
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop."""
        self.stop()

    @property
    def loops(self) -> dict[str, LoopState]:
        """Return the state of each service's thread by its name."""
        with self._lock:
            return dict(self._loops)

    def start(self) -> None:
        """Start the threads; the first turns begin at once."""
        services, settings = self._services, self._services.context.settings
        if services.housekeeper is not None:
            pause = settings.get(setting_definitions.HOUSEKEEPER_INTERVAL)
            self._run(f"{services.name}.housekeeper", "housekeeper", services.housekeeper.step, pause)
        if services.initiator is not None:
            pause = settings.get(setting_definitions.CHECK_INTERVAL)
            turn = partial(self._initiate, services.initiator)
            self._run(services.initiator.name, "initiator", turn, pause)
        for worker in services.workers:
            self._run_worker(worker)
        if services.cleaner is not None:
            pause = settings.get(setting_definitions.CLEANER_RUN_INTERVAL)
            self._run(f"{services.name}.cleaner", "cleaner", partial(_clean, services.cleaner), pause)
        self._threads.append(threading.Thread(target=self._announce, name=_ANNOUNCER, daemon=True))
        for thread in self._threads:
            thread.start()

    def wake_up_initiator_and_workers(self) -> None:
        """Let initiator and workers begin their next turn at once."""
        for name, wake_up in self._wake_ups.items():
            if self._loops[name].kind in ("initiator", "worker"):
                wake_up.set()

    def stop(self, grace: float = 0.0) -> None:
        """Stop all services. A running compaction has ``grace`` seconds to end, then it goes back into the queue."""
        self._stop.set()
        for wake_up in self._wake_ups.values():
            wake_up.set()
        busy = [thread for thread in self._threads if thread.name != _ANNOUNCER]
        until = time.monotonic() + grace
        for thread in busy:
            thread.join(max(0.0, until - time.monotonic()))
        while any(thread.is_alive() for thread in busy):
            for worker in self._services.workers:
                worker.stop()
            for thread in busy:
                thread.join(0.2)
        for thread in self._threads:
            thread.join()
        store = self._services.context.store
        for name in self._loops if store.maintained_by_hiveacid() else ():
            with suppress(HiveAcidError):
                own_store(store).withdraw_service(name)

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until `stop` is called. Returns False if ``seconds`` pass first."""
        return self._stop.wait(seconds)

    def _initiate(self, initiator: Initiator) -> None:
        if any(finding.decision.kind and finding.job for finding in initiator.step()):
            for worker in self._services.workers:
                self._wake_ups[worker.name].set()

    def _run_worker(self, worker: Worker) -> None:
        settings = self._services.context.settings
        shortest, longest = (
            settings.get(setting_definitions.WORKER_SLEEP),
            settings.get(setting_definitions.WORKER_MAX_SLEEP),
        )
        pauses = _doubling_pauses(shortest, longest)

        def turn() -> None:
            nonlocal pauses
            while not self._stop.is_set():
                if worker.step() is None:
                    return
                pauses = _doubling_pauses(shortest, longest)

        self._run(worker.name, "worker", turn, longest, lambda: next(pauses), worker.pool)

    def _run(
        self,
        name: str,
        kind: str,
        turn: Callable[[], object],
        interval: float,
        pause: Callable[[], float] | None = None,
        pool: str | None = None,
    ) -> None:
        wake_up = threading.Event()
        self._loops[name], self._wake_ups[name] = LoopState(kind, interval), wake_up
        self._announce_service(name, pool)

        def loop() -> None:
            while not self._stop.is_set():
                went_well = self._one_turn(name, turn)
                usual = interval if pause is None else pause()
                wake_up.wait(usual if went_well else min(_LONGEST_ERROR_PAUSE, interval))
                wake_up.clear()

        self._threads.append(threading.Thread(target=loop, name=f"hiveacid-{kind}", daemon=True))

    def _one_turn(self, name: str, turn: Callable[[], object]) -> bool:
        """Do one turn; tell whether it succeeded."""
        clock = self._services.context.clock
        began = clock.now()
        self._update_loop(name, began=began)
        try:
            turn()
        except Exception as error:  # a service never ends by an error; the next turn may succeed
            logger.warning("%s: %s", name, error, exc_info=not isinstance(error, HiveAcidError))
            loop = self._loops[name]
            self._update_loop(name, failures=loop.failures + 1, began=None, error=str(error)[:500])
            return False
        now = clock.now()
        seconds = (now - began) / 1000
        turns = self._loops[name].turns + 1
        self._update_loop(name, turns=turns, seconds=seconds, last=now, began=None, error=None)
        return True

    def _update_loop(self, name: str, **changes: object) -> None:
        with self._lock:
            self._loops[name] = replace(self._loops[name], **changes)  # type: ignore[arg-type]

    def _announce(self) -> None:
        pools = {worker.name: worker.pool for worker in self._services.workers}
        while not self._stop.wait(_ANNOUNCE_INTERVAL):
            for name in self.loops:
                self._announce_service(name, pools.get(name))

    def _announce_service(self, name: str, pool: str | None) -> None:
        store = self._services.context.store
        if not store.maintained_by_hiveacid():
            return  # a metastore knows of its own services only
        service = Service(name, self._loops[name].kind, pool, _installed_version())
        try:
            own_store(store).announce_service(service)
        except HiveAcidError as error:
            logger.warning("%s could not be announced in the store: %s", name, error)


@cache
def _installed_version() -> str:
    try:
        return metadata.version("hiveacid")
    except metadata.PackageNotFoundError:
        return "unknown"


def _clean(cleaner: Cleaner) -> None:
    """Clean. The turn counts as failed if any cleaning failed, even if others succeeded."""
    errors = cleaner.step().errors
    if errors:
        raise CompactionError(f"{len(errors)} could not be cleaned: {errors[0]}")


def _doubling_pauses(first: float, longest: float) -> Iterator[float]:
    """Yield pauses that double up to ``longest``, without end."""
    pause = first
    while True:
        yield min(pause, longest)
        pause = min(2 * pause, longest)
