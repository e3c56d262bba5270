"""Hostile clients of the endpoint for monitors (issue 20, point 14)."""

from __future__ import annotations

import json
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from http import HTTPStatus
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path

import pytest

from hiveacid.errors import ConfigError
from hiveacid.services.http_server import Access, HttpServer, Page, Request
from hiveacid.services.monitoring import Endpoint, health, is_live
from hiveacid.services.runner import LoopState

PATIENCE = 0.5  # seconds
ENOUGH = 30.0  # seconds until a test gives up


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint(0, Access(patience=PATIENCE)) as made:
        yield made


def connect(endpoint: Endpoint) -> socket.socket:
    return socket.create_connection(("127.0.0.1", endpoint.port), ENOUGH)


def raw(endpoint: Endpoint, request: bytes) -> bytes:
    """Send bytes and return all that comes back."""
    with connect(endpoint) as client, suppress(ConnectionError):
        client.sendall(request)
        with client.makefile("rb") as answer:
            return answer.read()
    return b""


def ask(endpoint: Endpoint, path: str = "/health", **headers: str) -> tuple[int, bytes]:
    connection = HTTPConnection("127.0.0.1", endpoint.port, timeout=ENOUGH)
    connection.request("GET", path, headers=headers)
    answer = connection.getresponse()
    found = answer.status, answer.read()
    connection.close()
    return found


def test_an_address_of_ipv6_is_listened_on() -> None:
    access = Access("::1", patience=PATIENCE)
    assert access.url(7) == "http://[::1]:7"
    server = HttpServer(access, 0, lambda request: Page(HTTPStatus.OK, "text/plain", request.peer.encode()))
    server.start()
    connection = HTTPConnection("::1", server.port, timeout=ENOUGH)
    connection.request("GET", "/")
    answer = connection.getresponse()
    assert (answer.status, answer.read()) == (HTTPStatus.OK, b"::1")
    connection.close()
    server.close()


def closed_after(client: socket.socket, drip: bytes) -> float:
    """Send a byte whenever the server is silent; return the seconds until it closes the connection."""
    began = time.monotonic()
    client.settimeout(PATIENCE / 10)
    while time.monotonic() - began < ENOUGH:
        try:
            client.send(drip)
            if client.recv(1) == b"":
                break
        except TimeoutError:
            continue
        except ConnectionError:
            break
    return time.monotonic() - began


@pytest.mark.parametrize("start", [b"", b"GET /health HTTP/1.1\r\nX-A: "])
def test_a_client_that_sends_byte_by_byte_is_cut_off(endpoint: Endpoint, start: bytes) -> None:
    """The deadline is for the request, not for each read; others are answered meanwhile."""
    with connect(endpoint) as slow:
        slow.send(start)
        assert ask(endpoint)[0] == 200
        assert closed_after(slow, b"x") < 10 * PATIENCE


def test_slow_connections_give_way_to_new_ones_and_get_few_threads() -> None:
    with Endpoint(0, Access(patience=ENOUGH)) as endpoint, ExitStack() as stack:
        before = threading.active_count()
        held = [stack.enter_context(connect(endpoint)) for _ in range(60)]
        for client in held:
            client.settimeout(ENOUGH)
        for client in held[:52]:
            with suppress(ConnectionError):
                assert client.recv(1) == b""
        for client in held[52:]:
            client.send(b"GET /health HTTP/1.1\r\n")
        for _ in range(20):
            assert ask(endpoint, "/live")[0] == 200
        until = time.monotonic() + ENOUGH
        while threading.active_count() > before + 8:
            assert time.monotonic() < until
            time.sleep(0.01)


def test_a_request_that_is_being_answered_keeps_its_place() -> None:
    """Those above the limit are refused at once; when the others have their answers there is room again."""
    asked, answered = threading.Semaphore(0), threading.Event()

    def page(_: Request) -> Page:
        asked.release()
        assert answered.wait(ENOUGH)
        return Page(HTTPStatus.OK, "text/plain", b"")

    server = HttpServer(Access(patience=ENOUGH), 0, page)
    server.start()
    address = ("127.0.0.1", server.port)
    with ExitStack() as stack:
        held = [stack.enter_context(socket.create_connection(address, ENOUGH)) for _ in range(8)]
        for client in held:
            client.sendall(b"GET /live HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert asked.acquire(timeout=ENOUGH)
        refused = stack.enter_context(socket.create_connection(address, ENOUGH))
        with suppress(ConnectionError):
            assert refused.recv(1000) == FULL
        answered.set()
        for client in held:
            assert client.recv(100).startswith(b"HTTP/1.0 200 OK")
    server.close()


FULL = b"HTTP/1.0 503 Service Unavailable\r\nRetry-After: 1\r\nContent-Length: 0\r\n\r\n"


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        (["evil.example"], 421),
        (["evil.example:9100"], 421),
        (["127.0.0.1.evil.example"], 421),
        ([""], 421),
        (["[::1"], 400),
        ([], 400),
        (["localhost", "localhost"], 400),
        (["localhost:1"], 200),
        (["LOCALHOST"], 200),
        (["[::1]:9100"], 200),
        (["monitor.example"], 200),
    ],
)  # fmt: skip
def test_the_host_header_must_name_this_machine(hosts: list[str], status: int) -> None:
    """Otherwise a foreign page in a browser on this machine could read it (DNS rebinding)."""
    with Endpoint(0, Access(names=frozenset({"monitor.example"}))) as endpoint:
        headers = "".join(f"Host: {host}\r\n" for host in hosts)
        answer = raw(endpoint, f"GET /metrics HTTP/1.1\r\n{headers}\r\n".encode())
        assert answer.startswith(f"HTTP/1.0 {status} ".encode())
        assert b"Python/" not in answer
        assert b"Server: hiveacid\r\n" in answer


def test_the_token_must_be_sent(tmp_path: Path) -> None:
    """Every page but the probes needs it."""
    file = tmp_path / "token"
    file.write_text("s3cret\n")
    access = Access.of(token=file)
    assert "s3cret" not in repr(access)
    with Endpoint(0, access) as endpoint:
        for path in ("/health", "/metrics", "/"):
            assert ask(endpoint, path) == (401, b"Unauthorized\n")
            for wrong in ("Bearer s3cre", "Bearer s3cret2", "Basic s3cret", "s3cret", "Bearer \xe4"):
                assert ask(endpoint, path, Authorization=wrong)[0] == 401
        assert ask(endpoint, Authorization="Bearer s3cret")[0] == 200


def test_other_machines_need_token_and_tls(tmp_path: Path) -> None:
    """Files that do not fit are refused at the start."""
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(ConfigError, match="needs a token and a TLS certificate"):
        Access.of("0.0.0.0", token=empty)  # noqa: S104 - refused
    with pytest.raises(ConfigError, match="contains no token"):
        Access.of(token=empty)
    with pytest.raises(ConfigError, match="cannot be read"):
        Access.of(certificate=empty)
    with pytest.raises(ConfigError, match="cannot be read"):
        Access.of(token=tmp_path / "missing")


def test_other_machines_see_two_words_without_token_and_tls() -> None:
    """Orchestrators ask by address; what contains names of tables stays closed, whatever Host is claimed."""
    access = Access.of("0.0.0.0")  # noqa: S104 - what is tested
    with Endpoint(0, access) as endpoint:
        assert ask(endpoint, "/live", Host="10.1.2.3:9100") == (200, b"starting\n")
        assert ask(endpoint, "/ready", Host="10.1.2.3:9100") == (503, b"starting\n")
        for path in ("/health", "/metrics", "/", "/live/../metrics"):
            assert ask(endpoint, path) == (403, b"Forbidden\n")
            assert ask(endpoint, path, Host="10.1.2.3")[0] == 421
    with Endpoint(0) as endpoint:
        assert ask(endpoint, "/ready")[0] == 503
        assert ask(endpoint, "/health")[0] == 200


def test_a_service_that_fails_is_live_but_not_ready() -> None:
    """A restart does not bring a store back; it does bring back a thread that is gone."""
    running = LoopState("cleaner", 1.0, last=1_000)
    assert is_live({"cleaner": running}, 2_000)
    assert not is_live({"cleaner": running}, 60_000)
    failing = replace(running, error="store away")
    assert is_live({"cleaner": failing}, 60_000)
    assert not health({"cleaner": failing}, 60_000)[0]


def test_tls_and_a_client_that_never_shakes_hands(tmp_path: Path) -> None:
    """It does not hold up others."""
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=localhost", "-days", "1",
         "-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    with Endpoint(0, Access.of(certificate=certificate, key=key)) as endpoint, connect(endpoint):
        trusted = ssl.create_default_context(cafile=str(certificate))
        connection = HTTPSConnection("localhost", endpoint.port, timeout=ENOUGH, context=trusted)
        connection.request("GET", "/health")
        assert connection.getresponse().status == 200
        connection.close()
        assert b"200" not in raw(endpoint, b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")


def test_health_needs_neither_spark_nor_the_client_of_prometheus(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No services are attached yet, as while Spark starts."""
    monkeypatch.setitem(sys.modules, "prometheus_client", None)
    status, body = ask(endpoint)
    assert (status, json.loads(body)) == (200, {"status": "starting", "services": {}})
    status, body = ask(endpoint, "/metrics")
    assert (status, b"pip install" in body) == (503, True)


@pytest.mark.parametrize(
    "request_",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET /" + b"a" * 100_000 + b" HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(1000)) + b"\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"a" * 100_000 + b"\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"POST /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 999999999999\r\n\r\n",
        b"\r\n\r\n\x00\xff",
        b"GET /health",
    ],
    ids=lambda request_: repr(request_[:20]),
)
def test_requests_that_are_none(endpoint: Endpoint, request_: bytes) -> None:
    """They are refused or cut off, and the next client is answered."""
    assert b" 200 " not in raw(endpoint, request_)[:20]
    assert ask(endpoint)[0] == 200
