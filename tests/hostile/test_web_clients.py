"""Hostile clients of hiveacid web: forged requests, roles and headers, slow ones, and large ones."""

from __future__ import annotations

import logging
import re
import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.client import HTTPConnection, HTTPSConnection
from pathlib import Path
from urllib.parse import urlencode

import pytest

from hiveacid.config import Settings
from hiveacid.core.model import DatabaseDefinition, TableName
from hiveacid.serve.authentication import hash_line
from hiveacid.services.http_server import Access
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.stores.sql.dialects.sqlite import sqlite_url
from hiveacid.stores.sql.store import SqlStore
from hiveacid.table.read.inventory import StandaloneAccess
from hiveacid.web.login import Gate
from hiveacid.web.server import WebServer
from support.busy_store import DATABASE, BusyStore
from support.servers.certificates import server_context

PATIENCE = 0.5  # seconds
ENOUGH = 30.0
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStore]:
    root = tmp_path_factory.mktemp("store")
    made = SqlStore(sqlite_url(root / "store.db"))
    made.create_database(DatabaseDefinition(DATABASE, str(root / DATABASE)))
    busy = BusyStore(made, root)
    busy.table(TableName(DATABASE, "t"))
    busy.commit(TableName(DATABASE, "t"), 5)
    yield made
    made.close()


@pytest.fixture
def users(tmp_path: Path) -> Path:
    file = tmp_path / "users"
    file.write_text("\n".join(hash_line(name, f"{name}'s word") for name in ("ann", "ben")))
    file.chmod(0o600)
    return file


def serving(stack: ExitStack, store: SqlStore, gate: Gate) -> WebServer:
    access = StandaloneAccess(LocalFileSystem(), store, store)
    return stack.enter_context(WebServer(access, Settings(), gate, 0, "tests"))


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    with ExitStack() as made:
        yield made


@pytest.fixture
def server(stack: ExitStack, store: SqlStore) -> WebServer:
    """Return a server without log-in, whose visitors may act."""
    return serving(stack, store, Gate.of(Access(patience=PATIENCE), ("local",)))


def ask(
    server: WebServer, method: str, target: str, form: dict[str, str] | None = None, **headers: str
) -> tuple[int, str, dict[str, str]]:
    connection = HTTPConnection("127.0.0.1", server.port, timeout=ENOUGH)
    sent = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(
        method, target, None if form is None else urlencode(form), sent | (FORM if form is not None else {})
    )
    answer = connection.getresponse()
    body = answer.read().decode()
    found = answer.status, body, {name.lower(): value for name, value in answer.getheaders()}
    connection.close()
    return found


def token(server: WebServer, **headers: str) -> str:
    match = re.search(r'name="token" value="(\w+)"', ask(server, "GET", "/tables/shop/t", **headers)[1])
    assert match
    return match[1]


def raw(server: WebServer, request: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", server.port), ENOUGH) as client, suppress(ConnectionError):
        client.sendall(request)
        with client.makefile("rb") as answer:
            return answer.read()
    return b""


COMPACT = {"database": DATABASE, "table": "t"}


def test_another_page_cannot_act(server: WebServer, store: SqlStore) -> None:
    """CSRF: without the token, or with it from another origin; by GET, and as another kind of body."""
    right = token(server)
    for form, headers in (
        (COMPACT, {}),
        (COMPACT | {"token": "0" * 64}, {}),
        (COMPACT | {"token": right}, {"Origin": "https://evil.example"}),
        (COMPACT | {"token": right}, {"Origin": "null"}),
        (COMPACT | {"token": right}, {"Origin": f"http://localhost:{server.port}"}),
        (COMPACT | {"token": right}, {"Sec_Fetch_Site": "cross-site"}),
    ):
        assert ask(server, "POST", "/actions/compact", form, **headers)[0] == 403
    target = f"/actions/compact?{urlencode(COMPACT | {'token': right})}"
    assert ask(server, "GET", target)[0] in (404, 405)
    assert ask(server, "POST", target, {})[0] == 403
    body = b"token=" + right.encode() + b"&database=shop&table=t"
    for kind in (b"text/plain", b"multipart/form-data", b"application/json", b""):
        head = b"POST /actions/compact HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n"
        assert raw(server, head % (kind, len(body)) + body).startswith(b"HTTP/1.0 415")
    assert store.show_compactions() == ()


def test_a_name_that_leads_here_by_dns_gets_nothing(server: WebServer) -> None:
    assert ask(server, "GET", "/", Host="evil.example")[0] == 421
    assert raw(server, b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil\r\n\r\n").startswith(b"HTTP/1.0 400")
    assert raw(server, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.0 400")


def test_a_role_cannot_be_forged(
    stack: ExitStack, store: SqlStore, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither headers, fields nor cookies that name a role or another user are looked at."""
    caplog.set_level(logging.INFO, "hiveacid.audit")
    server = serving(stack, store, Gate.of(Access(), ("ann",), users))
    assert ask(server, "GET", "/")[0] == 303
    assert ask(server, "GET", "/tables.json")[0] == 401
    status, _, headers = ask(
        server, "POST", "/login", {"user": "ben", "password": "ben's word", "next": "//evil"}
    )
    assert (status, headers["location"]) == (303, "/")
    cookie = headers["set-cookie"]
    assert {"httponly", "samesite=strict"} <= {part.strip().lower() for part in cookie.split(";")}
    name, _, session = cookie.partition(";")[0].partition("=")
    assert name == f"hiveacid_session_{server.port}"
    forged = [
        {"X_User": "ann", "X_Role": "operator", "X_Forwarded_User": "ann", "Remote_User": "ann"},
        {"Cookie": f"{name}={session}; role=operator; user=ann"},
        {"Cookie": f"{name}={session.replace('YmVu', 'YW5u')}"},
        {"Cookie": f"{name}={session}", "X_Forwarded_For": "127.0.0.1", "X_User": "ann"},
    ]
    assert "YmVu" in session
    for headers in forged:
        form = COMPACT | {"role": "operator", "user": "ann", "is_operator": "1", "token": "0" * 64}
        assert ask(server, "POST", "/actions/compact", form, **headers)[0] in (401, 403)
    page = ask(server, "GET", "/tables/shop/t", Cookie=f"{name}={session}")[1]
    assert "/actions/" not in page
    own = re.search(r'name="token" value="(\w+)"', page)
    assert own
    form = COMPACT | {"token": own[1]}
    status, text, _ = ask(server, "POST", "/actions/compact", form, Cookie=f"{name}={session}")
    assert (status, "ben may look, but not act" in text) == (403, True)
    assert store.show_compactions() == ()
    refused = [record for record in caplog.records if "web_refused" in record.getMessage()]
    assert len(refused) >= 3
    assert all(record.levelno == logging.WARNING for record in refused)


def test_wrong_passwords_are_refused_and_written_down(
    stack: ExitStack, store: SqlStore, users: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hiveacid.audit")
    server = serving(stack, store, Gate.of(Access(), (), users))
    for user, password in (
        ("ann", "x"),
        ("ann", ""),
        ("ann\r\nevent=login", "x"),
        ("x" * 5000, "y" * 5000),
        ("", ""),
    ):
        status, text, headers = ask(server, "POST", "/login", {"user": user, "password": password})
        assert (status, "set-cookie" in headers) == (403, False)
        assert "The user or the password is wrong." in text
    assert (
        ask(server, "POST", "/login", {"user": "ann", "password": "ann's word"}, Origin="https://evil")[0]
        == 403
    )
    lines = [record.getMessage() for record in caplog.records if "login_refused" in record.getMessage()]
    assert len(lines) == 5
    assert all("\n" not in line and "x" * 3000 not in line for line in lines)


def test_only_the_proxy_with_its_token_names_users(stack: ExitStack, store: SqlStore) -> None:
    access = Access(token="the proxy's")  # noqa: S106
    server = serving(stack, store, Gate.of(access, ("ann",), user_header="X-User", proxy="127.0.0.1"))
    assert ask(server, "GET", "/", X_User="ann")[0] == 401
    assert ask(server, "GET", "/", X_User="ann", Authorization="Bearer wrong")[0] == 401
    right = {"Authorization": "Bearer the proxy's"}
    assert ask(server, "GET", "/", **right)[0] == 403
    assert "ann</bdi> <span" in ask(server, "GET", "/", X_User="ann", **right)[1]
    twice = b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer the proxy's\r\nX-User: ben\r\nX-User: ann\r\n\r\n"
    assert raw(server, twice).startswith(b"HTTP/1.0 403")
    other = serving(stack, store, Gate.of(Access(), ("ann",), user_header="X-User", proxy="10.0.0.1"))
    assert ask(other, "GET", "/", X_User="ann")[0] == 403


def test_over_tls_the_session_stays_there(
    stack: ExitStack, store: SqlStore, users: Path, tmp_path: Path
) -> None:
    """Also at an address that other machines reach, by a name that is made known."""
    tls, certificate = server_context(tmp_path)
    access = Access("0.0.0.0", frozenset({"lake.example"}), tls=tls)  # noqa: S104 - what is tested
    server = serving(stack, store, Gate.of(access, ("ann",), users))
    context = ssl.create_default_context(cafile=certificate)
    connection = HTTPSConnection("localhost", server.port, context=context, timeout=ENOUGH)
    form = urlencode({"user": "ann", "password": "ann's word"})
    named = {"Host": "lake.example", "Origin": "https://lake.example"}
    connection.request("POST", "/login", form, FORM | named)
    answer = connection.getresponse()
    assert answer.status == 303
    assert "secure" in {part.strip().lower() for part in (answer.getheader("set-cookie") or "").split(";")}
    connection.close()
    assert raw(server, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n") == b""  # plain text


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HTTP/1.1\r\nX: ",
        b"POST /actions/abort HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 9\r\n\r\n",
    ],
)
def test_slow_clients_are_cut_off_and_hold_nobody_up(server: WebServer, start: bytes) -> None:
    """One deadline for the whole request, its body included."""
    with ExitStack() as stack:
        held = [
            stack.enter_context(socket.create_connection(("127.0.0.1", server.port), ENOUGH))
            for _ in range(70)
        ]
        for client in held:
            with suppress(ConnectionError):
                client.send(start)
        assert ask(server, "GET", "/live")[0] == 200
        began = time.monotonic()
        for client in held:
            client.settimeout(ENOUGH)
            with suppress(ConnectionError):
                while client.recv(4096):
                    pass
        assert time.monotonic() - began < 20 * PATIENCE


@pytest.mark.parametrize(
    ("request_", "statuses"),
    [
        (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"414",)),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 70_000 + b"\r\n\r\n", (b"431", b"400")),
        (b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: 1\r\n" * 200 + b"\r\n", (b"431",)),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 70000\r\n\r\n", (b"413",)),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 99999999999999999999999\r\n\r\n", (b"400",)),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -1\r\n\r\n", (b"400",)),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", (b"411",)),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", (b"411",)),
        (b"POST /login HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"411",)),
        (b"DELETE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"501",)),
        (b"GET http://evil/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"400",)),
        (b"GET //evil.example/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"404",)),
        (b"GET /%ff%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"404",)),
        (b"GET /tables/%ff/%00 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", (b"404", b"400")),
    ],
)  # fmt: skip
def test_large_and_crooked_requests_are_refused(
    server: WebServer, request_: bytes, statuses: tuple[bytes, ...]
) -> None:
    answer = raw(server, request_)
    assert answer.split(b" ")[1][:3] in statuses, answer[:200]
    assert b"Traceback" not in answer
    assert ask(server, "GET", "/")[0] == 200


def test_a_form_of_many_fields_is_refused(server: WebServer) -> None:
    form = {f"f{number}": "1" for number in range(100)}
    assert ask(server, "POST", "/actions/compact", form)[0] == 400


def test_a_field_that_comes_twice_is_missing(server: WebServer, store: SqlStore) -> None:
    body = f"token={token(server)}&database=shop&table=t&table=u".encode()
    head = b"POST /actions/compact HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
    assert raw(server, head + b"Content-Length: %d\r\n\r\n" % len(body) + body).startswith(b"HTTP/1.0 400")
    assert store.show_compactions() == ()
