"""Monitoring of a service process: ``/health`` as JSON, and ``/metrics`` for Prometheus under Hive 4's names.

The names are those of ``MetricsConstants`` and ``AcidMetricService``.
``/live`` and ``/ready`` answer with one word, for orchestrators. A process that is not live should be started again; one
that is not ready waits for something else (Spark, the store). Only ``/metrics`` needs Prometheus' client.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from http import HTTPStatus
from operator import attrgetter
from typing import TYPE_CHECKING, Self

from hiveacid.core.compaction.initiation_and_retry_policy import LocationSizes
from hiveacid.core.compaction.queue_records import SERVICE_TIMEOUT, ChangedPartition, Compaction, Service
from hiveacid.core.transactions.states import COMPACTION, CompactionState
from hiveacid.errors import ConfigError
from hiveacid.ports.store import own_store
from hiveacid.ports.transactions import LockRow, TransactionRow
from hiveacid.services.http_server import PROBES, Access, HttpServer, Page
from hiveacid.services.runner import LoopState, Runner, Services
from hiveacid.spark.session.jvm_process import LIVE_SECONDS, READY_SECONDS

if TYPE_CHECKING:
    from prometheus_client.core import Metric as PrometheusMetric

MANY_ABORTS = 1500
"""``metastore.acidmetrics.table.aborted.txns.threshold``"""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One metric: name, kind (gauge or counter), help text, and values by labels."""

    name: str
    help: str
    values: Mapping[Labels, float]
    kind: str = "gauge"


@dataclass(frozen=True)
class StoreRows:
    """Rows of a store from which metrics are computed; times in ms by the store's clock, ``now`` included."""

    now: int
    compactions: Sequence[Compaction]
    transactions: Sequence[TransactionRow]
    locks: Sequence[LockRow]
    services: Sequence[Service]
    changed_partitions: Sequence[ChangedPartition]


def _age(now: int, since: Iterable[int | None]) -> float:
    """Return the age in seconds of the oldest time in ``since``, 0 if there is none."""
    oldest = min((moment for moment in since if moment is not None), default=None)
    return 0.0 if oldest is None else max(0.0, (now - oldest) / 1000)


def store_metrics(figures: StoreRows) -> Iterator[Metric]:
    """Yield metrics of the store: compaction queue, transactions, locks, services."""
    yield from _queue(figures)
    yield from _pools(figures)
    yield from _transactions(figures)
    locks = [lock.acquired_at for lock in figures.locks]
    yield _gauge("num_locks", "Locks, held and waiting.", len(figures.locks))
    yield _gauge(
        "oldest_lock_age_in_sec", "Time since the oldest held lock was acquired.", _age(figures.now, locks)
    )
    for kind in ("initiator", "worker"):
        alive = [service for service in figures.services if service.kind == kind]
        versions = {service.version for service in alive}
        yield _gauge(f"compaction_num_{kind}s", f"{kind.capitalize()}s that are alive.", len(alive))
        yield _gauge(
            f"compaction_num_{kind}_versions",
            f"Different versions of the {kind}s that are alive.",
            len(versions),
        )


def _gauge(name: str, help_: str, value: float) -> Metric:
    return Metric(name, help_, {(): value})


def _queue(figures: StoreRows) -> Iterator[Metric]:
    now, jobs = figures.now, figures.compactions
    states = Counter(job.state for job in jobs)
    for state in COMPACTION.states:
        name = f"compaction_num_{state.replace(' ', '_')}"
        yield _gauge(
            name,
            f"Compactions in state {state}; ended ones as long as the history keeps them.",
            states[state],
        )

    def ages(state: str, of: Callable[[Compaction], int | None]) -> float:
        return _age(now, (of(job) for job in jobs if job.state == state))

    waiting = ages(CompactionState.INITIATED, attrgetter("enqueued"))
    working = ages(CompactionState.WORKING, attrgetter("started"))
    cleaning = ages(CompactionState.READY_FOR_CLEANING, attrgetter("commit_time"))
    yield _gauge(
        "compaction_oldest_enqueue_age_in_sec",
        "Age of the oldest compaction that waits for a worker.",
        waiting,
    )
    yield _gauge(
        "compaction_oldest_working_age_in_sec",
        "Age of the oldest compaction that a worker carries out.",
        working,
    )
    yield _gauge(
        "compaction_oldest_cleaning_age_in_sec",
        "Age of the oldest finished compaction that waits for the cleaner.",
        cleaning,
    )
    yield _gauge(
        "oldest_ready_for_cleaning_age_in_sec", "Same as compaction_oldest_cleaning_age_in_sec.", cleaning
    )


def _pools(figures: StoreRows) -> Iterator[Metric]:
    by_state = (
        (CompactionState.INITIATED, "initiated", "enqueue", attrgetter("enqueued")),
        (CompactionState.WORKING, "working", "working", attrgetter("started")),
    )
    for state, count_name, age_name, since in by_state:
        pools: dict[str, list[int | None]] = defaultdict(list)
        for job in figures.compactions:
            if job.state == state:
                pools[job.request.pool].append(since(job))
        yield Metric(
            f"compaction_pools_{count_name}_item_count",
            f"Compactions in state {state}, by pool.",
            {(("pool", pool),): float(len(times)) for pool, times in pools.items()},
        )
        yield Metric(
            f"compaction_pools_oldest_{age_name}_age_in_sec",
            f"Age of the oldest compaction in state {state}, by pool.",
            {(("pool", pool),): _age(figures.now, times) for pool, times in pools.items()},
        )


def _transactions(figures: StoreRows) -> Iterator[Metric]:
    alive = [txn for txn in figures.transactions if txn.state == "OPEN"]
    aborted = [txn for txn in figures.transactions if txn.state == "ABORTED"]
    for state, txns in (("open_non_repl", alive), ("aborted", aborted)):
        words = "open" if txns is alive else "aborted and not cleaned"
        ids, since = [int(txn.txn_id) for txn in txns], [txn.started for txn in txns]
        count = "num_open_non_repl_transactions" if txns is alive else "num_aborted_transactions"
        yield _gauge(count, f"Transactions that are {words}.", len(txns))
        yield _gauge(
            f"oldest_{state}_txn_id",
            f"Lowest id of the transactions that are {words}; 0: none.",
            min(ids, default=0),
        )
        yield _gauge(
            f"oldest_{state}_txn_age_in_sec",
            f"Age of the oldest transaction that is {words}.",
            _age(figures.now, since),
        )
    yield _gauge("num_open_transactions", "Transactions that are open.", len(alive))
    by_table: Counter[object] = Counter()
    for changed in figures.changed_partitions:
        by_table[changed.table] += len(changed.aborted)
    many = sum(count > MANY_ABORTS for count in by_table.values())
    yield _gauge(
        "tables_with_x_aborted_transactions",
        f"Tables with more than {MANY_ABORTS} aborted writes; each partition of a transaction counts.",
        many,
    )


def location_metrics(figures: Mapping[tuple[str, str, str], LocationSizes]) -> Iterator[Metric]:
    """Yield metrics of `Initiator.figures`, by database, table and partition ("" for none)."""

    def one(name: str, words: str, count: Callable[[LocationSizes], int]) -> Metric:
        values: dict[Labels, float] = {
            (("database", database), ("table", table), ("partition", partition)): float(count(sizes))
            for (database, table, partition), sizes in figures.items()
        }
        return Metric(f"compaction_num_{name}_deltas", words, values)

    yield one("active", "Deltas and delete deltas that readers read.", lambda sizes: sizes.deltas)
    yield one("small", "Deltas smaller than 1 % of the base.", lambda sizes: sizes.small_deltas)
    yield one("obsolete", "Deltas that wait for the cleaner.", lambda sizes: sizes.obsolete_deltas)


def loop_metrics(loops: Mapping[str, LoopState]) -> Iterator[Metric]:
    """Yield metrics of the turns of this process's services."""
    for kind in ("initiator", "worker", "cleaner"):
        own: dict[Labels, LoopState] = {
            (("service", name),): loop for name, loop in loops.items() if loop.kind == kind
        }
        if not own:
            continue
        turns = {labels: float(loop.turns) for labels, loop in own.items()}
        yield Metric(f"compaction_{kind}_cycle", f"Successful turns of the {kind}.", turns, "counter")
        seconds = {labels: loop.seconds for labels, loop in own.items()}
        yield Metric(
            f"compaction_{kind}_cycle_duration",
            f"Seconds that the last successful turn of the {kind} took.",
            seconds,
        )
        failures = {labels: float(loop.failures) for labels, loop in own.items()}
        yield Metric(
            f"compaction_{kind}_failure_counter", f"Failed turns of the {kind}.", failures, "counter"
        )


_LATE_AFTER_INTERVALS = 3.0
"""A service that has slept for more than this many of its intervals counts as failing."""


def health(
    loops: dict[str, LoopState], now: int, *, jvm_answers: bool = True
) -> tuple[bool, dict[str, object]]:
    """Return whether all services are well, and a report. ``now``: ms, by the clock of ``LoopState``."""
    report = {
        name: asdict(loop) | {"well": loop.error is None and _takes_turns(loop, now)}
        for name, loop in loops.items()
    }
    well = jvm_answers and all(state["well"] for state in report.values())
    return well, {"status": "ok" if well else "failing", "services": report}


def is_live(loops: dict[str, LoopState], now: int) -> bool:
    """Tell whether every service still takes turns, failed ones included: a store that is away is not a reason to restart."""
    return all(_takes_turns(loop, now) for loop in loops.values())


def _takes_turns(loop: LoopState, now: int) -> bool:
    if loop.error is not None:
        return True  # it failed in a turn, and tries again
    asleep = loop.began is None and loop.last is not None
    return not asleep or now - (loop.last or 0) <= _LATE_AFTER_INTERVALS * 1000 * max(loop.interval, 1.0)


def collect(services: Services, loops: dict[str, LoopState]) -> Iterator[Metric]:
    """Yield the current metrics of a service process."""
    store = services.context.store
    own = own_store(store) if store.maintained_by_hiveacid() else None
    now = store.now()
    figures = StoreRows(
        now,
        store.show_compactions(),
        store.show_transactions(),
        store.show_locks(),
        own.show_services(SERVICE_TIMEOUT) if own else (),
        own.changed_partitions(now + 1) if own else (),
    )
    yield from store_metrics(figures)
    yield from loop_metrics(loops)
    if services.initiator is not None:
        yield from location_metrics(dict(services.initiator.figures))  # the initiator's thread changes them


def format_metrics(metrics: Iterable[Metric]) -> bytes:
    """Format metrics as Prometheus' text. Raises ConfigError if the Prometheus client is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - an extra
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError("metrics need the Prometheus client: pip install 'hiveacid[services]'") from error
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}

    class Collector:
        def collect(self) -> Iterator[PrometheusMetric]:
            for metric in metrics:
                names = [key for key, _ in next(iter(metric.values), ())]
                family = kinds[metric.kind](metric.name, metric.help, labels=names)
                for labels, value in metric.values.items():
                    family.add_metric([text for _, text in labels], value)
                yield family

    registry = CollectorRegistry()
    registry.register(Collector())
    page: bytes = generate_latest(registry)
    return page


class Endpoint:
    """Answers a monitor while it is open. Until services are attached, ``/health`` reports that the process is starting.

    with Endpoint(9100) as endpoint:
        endpoint.attach(services, runner)
    """

    def __init__(self, port: int, access: Access | None = None) -> None:
        """Listen on ``port``; 0 takes a free one, which the attribute ``port`` holds. Raises ConfigError if it is in use."""
        self._server = HttpServer(access or Access(), port, lambda request: self._page(request.path))
        self.port = self._server.port
        self._attached: tuple[Services, Runner] | None = None
        self._more: Callable[[], Iterable[Metric]] | None = None
        self._jvm_answers: Callable[[float], bool] = lambda _: True

    def attach(self, services: Services, runner: Runner) -> None:
        """Report about these services from now on."""
        self._attached = services, runner

    def report_server(self, source: Callable[[], Iterable[Metric]]) -> None:
        """Report a server (``hiveacid serve``), with its metrics. Then ``/ready`` does not wait for services."""
        self._more = source

    def watch_jvm(self, answers: Callable[[float], bool]) -> None:
        """Report failure while the JVM is silent. ``answers``: tells whether it answered less than some seconds ago."""
        self._jvm_answers = answers

    def _page(self, path: str) -> Page:
        attached = self._attached
        if path in PROBES:
            if not self._jvm_answers(LIVE_SECONDS if path == "/live" else READY_SECONDS):
                return Page(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", b"failing\n")
            return _probe(path, attached, serving=self._more is not None)
        if path == "/health":
            jvm_answers = self._jvm_answers(READY_SECONDS)
            report: dict[str, object]
            if attached is None:
                status = "starting" if self._more is None else "ok"
                well, report = jvm_answers, {"status": status if jvm_answers else "failing", "services": {}}
            else:
                services, runner = attached
                well, report = health(runner.loops, services.context.clock.now(), jvm_answers=jvm_answers)
            code = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
            return Page(code, "application/json", json.dumps(report).encode())
        if path == "/metrics":
            figures = [] if attached is None else list(collect(attached[0], attached[1].loops))
            figures += [] if self._more is None else self._more()
            return Page(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", format_metrics(figures))
        return Page(HTTPStatus.NOT_FOUND, "text/plain", b"only /health, /metrics, /live and /ready exist\n")

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self._server.close()


def _probe(path: str, attached: tuple[Services, Runner] | None, *, serving: bool) -> Page:
    word, is_healthy = ("ok", True) if serving else ("starting", path == "/live")
    if attached is not None:
        services, runner = attached
        loops, now = runner.loops, services.context.clock.now()
        is_healthy = is_live(loops, now) if path == "/live" else health(loops, now)[0]
        word = "ok" if is_healthy else "failing"
    status = HTTPStatus.OK if is_healthy else HTTPStatus.SERVICE_UNAVAILABLE
    return Page(status, "text/plain", f"{word}\n".encode())
