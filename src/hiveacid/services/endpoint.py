"""Endpoint for monitors of a service process: ``/health`` as JSON, ``/metrics`` for Prometheus, two probes.

``/live`` and ``/ready`` answer with one word, for orchestrators. A process that is not live should be started again; one
that is not ready waits for something else (Spark, the store). Only ``/metrics`` needs Prometheus' client.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from http import HTTPStatus
from typing import Any, Self

from hiveacid.errors import ConfigError
from hiveacid.ports.store import own_store
from hiveacid.services.http_server import PROBES, Access, HttpServer, Page
from hiveacid.services.metrics import Metric, StoreRows, location_metrics, loop_metrics, store_metrics
from hiveacid.services.runner import LoopState, Runner
from hiveacid.services.services_of_process import Services
from hiveacid.spark.session.jvm_watch import LIVE_SECONDS, READY_SECONDS
from hiveacid.table.compaction.request_compaction import SERVICE_TIMEOUT

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
        yield from location_metrics(services.initiator.figures)


def format_metrics(metrics: Iterable[Metric]) -> bytes:
    """Format metrics as Prometheus' text. Raises ConfigError if the Prometheus client is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - an extra
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415
    except ImportError as error:
        raise ConfigError("metrics need the Prometheus client: pip install 'hiveacid[services]'") from error
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}

    class Collector:
        def collect(self) -> Iterator[Any]:
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
        self._server = HttpServer(access or Access(), port, self._page)
        self.port = self._server.port
        self._attached: tuple[Services, Runner] | None = None
        self._more: Callable[[], Iterable[Metric]] | None = None
        self._jvm_answers: Callable[[float], bool] = lambda _: True

    def attach(self, services: Services, runner: Runner) -> None:
        """Report about these services from now on."""
        self._attached = services, runner

    def add_metrics(self, source: Callable[[], Iterable[Metric]]) -> None:
        """Add the metrics of a server (``hiveacid serve``). Then ``/ready`` does not wait for services."""
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
            return _json(HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE, report)
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


def _json(status: HTTPStatus, report: dict[str, object]) -> Page:
    return Page(status, "application/json", json.dumps(report).encode())
