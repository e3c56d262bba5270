"""What a monitor asks a service process over HTTP: ``/health`` as JSON, ``/metrics`` for Prometheus.

On the loopback address only: whoever wants it elsewhere puts a proxy before it.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, Self

from hiveacid.errors import ConfigError, HiveAcidError
from hiveacid.services.metrics import Metric, StoreFigures, loop_metrics, place_metrics, store_metrics
from hiveacid.table.compact import SERVICE_IS_GONE

if TYPE_CHECKING:
    from hiveacid.services.runner import Loop, Runner
    from hiveacid.services.services import Services

logger = logging.getLogger(__name__)

LOOPBACK = "127.0.0.1"
_LATE = 3.0
"""A service that is asleep for more than this many of its intervals is not well."""


def health(loops: dict[str, Loop], now: int) -> tuple[bool, dict[str, object]]:
    """Return whether all services are well, and a report; ``now`` by the clock of the loops (ms)."""
    report = {name: asdict(loop) | {"well": _is_well(loop, now)} for name, loop in loops.items()}
    well = all(one["well"] for one in report.values())
    return well, {"status": "ok" if well else "failing", "services": report}


def _is_well(loop: Loop, now: int) -> bool:
    if loop.error is not None:
        return False
    asleep = loop.began is None and loop.last is not None
    return not asleep or now - (loop.last or 0) <= _LATE * 1000 * max(loop.interval, 1.0)


def collect(services: Services, loops: dict[str, Loop]) -> Iterator[Metric]:
    """Yield all metrics of a service process as of now."""
    store = services.context.store
    now = store.now()
    figures = StoreFigures(
        now,
        store.show_compactions(),
        store.show_transactions(),
        store.show_locks(),
        store.show_services(SERVICE_IS_GONE),
        store.changed_places(now + 1),
    )
    yield from store_metrics(figures)
    yield from loop_metrics(loops)
    if services.initiator is not None:
        yield from place_metrics(services.initiator.figures)


def exposition(metrics: Iterable[Metric]) -> bytes:
    """Return metrics in Prometheus' text format. Raises ConfigError where its client is not installed."""
    try:
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415 - an extra
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415
    except ImportError as error:
        message = "metrics need the Prometheus client: pip install 'hiveacid[services]'"
        raise ConfigError(message) from error
    kinds = {"gauge": GaugeMetricFamily, "counter": CounterMetricFamily}

    class Collector:
        def collect(self) -> Iterator[Any]:
            for one in metrics:
                names = [key for key, _ in next(iter(one.values), ())]
                family = kinds[one.kind](one.name, one.help, labels=names)
                for labels, value in one.values.items():
                    family.add_metric([text for _, text in labels], value)
                yield family

    registry = CollectorRegistry()
    registry.register(Collector())
    page: bytes = generate_latest(registry)
    return page


class Endpoint:
    """Answers on a port of the loopback address (0: any free one; see ``port``) while it is open."""

    def __init__(self, services: Services, runner: Runner, port: int) -> None:
        exposition(())  # fails now, not when the first monitor comes
        clock = services.context.clock

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                try:
                    self._answer()
                except HiveAcidError as error:
                    self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain", str(error).encode())

            def _answer(self) -> None:
                path = self.path.partition("?")[0].rstrip("/")
                if path == "/health":
                    well, report = health(runner.loops, clock.now())
                    status = HTTPStatus.OK if well else HTTPStatus.SERVICE_UNAVAILABLE
                    self._send(status, "application/json", json.dumps(report).encode())
                elif path == "/metrics":
                    text = exposition(collect(services, runner.loops))
                    self._send(HTTPStatus.OK, "text/plain; version=0.0.4; charset=utf-8", text)
                else:
                    self._send(HTTPStatus.NOT_FOUND, "text/plain", b"there are /health and /metrics\n")

            def _send(self, status: HTTPStatus, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the base class
                logger.debug(format, *args)

        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), Handler)
        except OSError as error:
            raise ConfigError(f"port {port} cannot be listened on: {error.strerror}") from error
        self._server.daemon_threads = True
        self.port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, name="hiveacid-http", daemon=True)

    def __enter__(self) -> Self:
        """Begin to answer."""
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Close the port."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
