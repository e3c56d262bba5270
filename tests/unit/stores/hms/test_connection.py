"""Connections that ended unseen, with TLS and without, and servers that are there and do not answer."""

from __future__ import annotations

import select
import ssl
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hiveacid.errors import StoreError, StoreUnavailableError
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient, ThriftConnection
from hiveacid.stores.hms.metastores import MetastoreAddress, parse_metastore_url
from hiveacid.stores.hms.store import MetastoreStore
from support.clock import ManualClock
from support.servers.certificates import server_context
from support.servers.thrift_server import Answer, Server

BEATEN = protocol.HeartbeatTxnRangeResponse(aborted=set(), nosuch=set())
COMMIT = protocol.CommitTxnRequest(txnid=1)


@pytest.fixture(params=["TLSv1_2", "TLSv1_3"])
def secured(
    request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[Callable[..., tuple[Server, MetastoreAddress]]]:
    """Return what starts a server with TLS of a version, and says its address."""
    context, certificate = server_context(tmp_path)
    context.minimum_version = context.maximum_version = ssl.TLSVersion[request.param]
    started: list[Server] = []

    def run(answer: Answer, *, terse: bool = False) -> tuple[Server, MetastoreAddress]:
        started.append(Server(answer, context, terse=terse))
        return started[-1], parse_metastore_url(
            f"thrift://localhost:{started[-1].port}?tls=true&ca={certificate}&timeout=20"
        )

    yield run
    for one in started:
        one.stop()


def at_once(client: MetastoreClient, count: int) -> None:
    """Make so many calls side by side; the server lets them go when all are there."""
    calls = [threading.Thread(target=client.call, args=("get_all_databases",)) for _ in range(count)]
    for one in calls:
        one.start()
    for one in calls:
        one.join()


def test_with_tls_a_server_that_was_started_anew_is_found_again(
    secured: Callable[..., tuple[Server, MetastoreAddress]],
) -> None:
    """None of the connections that it left is used, not for one call that may be sent once only."""
    together = threading.Barrier(4)

    def answer(name: str, _: object) -> dict[str, object]:
        if name == "get_all_databases":
            together.wait(30)
        return {"success": []} if name == "get_all_databases" else {}

    server, address = secured(answer)
    client = MetastoreClient(address, ManualClock())
    at_once(client, 4)
    server.hang_up()
    client.call("commit_txn", COMMIT)
    client.call("commit_txn", COMMIT)
    assert server.calls.count("commit_txn") == 2
    assert server.connections == 5
    client.close()


def test_with_tls_a_connection_that_the_server_took_leave_of_is_not_used(
    secured: Callable[..., tuple[Server, MetastoreAddress]],
) -> None:
    server, address = secured(lambda *_: {}, terse=True)
    client = MetastoreClient(address, ManualClock())
    for _ in range(3):
        client.call("commit_txn", COMMIT)
        assert server.goodbyes.acquire(timeout=30)
    assert server.calls == ["commit_txn"] * 3
    client.close()


@pytest.mark.parametrize(
    ("said", "seconds"),
    [
        ("300s", 300),
        ("300", 300),
        ("5min", 300),
        ("90000ms", 90),
        ("1s", 1),
        ("soon", None),
        ("0s", None),
        ("", None),
    ],
)
def test_a_metastore_says_its_time_out_of_transactions(
    start: Callable[[Answer], Server], said: str, seconds: float | None
) -> None:
    """A heartbeat waits for a third of it at most: one that is lost must leave room for another."""
    server = start(lambda name, _: {"success": "4.0.1" if name == "getVersion" else said})
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}")
    assert store.txn_timeout() == seconds
    assert store.client.fast_call_timeout == (1 if seconds == 1 else 30)
    store.close()


def test_a_certificate_that_is_not_trusted_is_not_asked_for_again(
    secured: Callable[..., tuple[Server, MetastoreAddress]],
) -> None:
    """Trying again cannot help, and the user is told how to trust it."""
    server, address = secured(lambda *_: {})
    client = MetastoreClient(replace(address, ca=None), ManualClock())
    with pytest.raises(
        StoreError, match=r"not trusted: self.signed certificate; .* store URL: ca=FILE"
    ) as caught:
        client.call("get_all_databases")
    assert not isinstance(caught.value, StoreUnavailableError)
    assert server.connections == 1
    client.close()


def test_tickets_of_tls_are_no_end(secured: Callable[..., tuple[Server, MetastoreAddress]]) -> None:
    """A server of TLS 1.3 sends them after the handshake, unasked: the connection has something to read, and is alive."""
    server, address = secured(lambda *_: {"success": "4.0.1"})
    wire = ThriftConnection(address.servers[0], address)
    assert bool(select.select([wire._socket], [], [], 5.0 if _is_newest(wire) else 0.0)[0]) == _is_newest(
        wire
    )
    assert wire.alive()
    assert wire.call("getVersion") == "4.0.1"
    assert wire.alive()
    server.hang_up()
    assert not wire.alive()
    wire.close()
    assert not wire.alive()


def _is_newest(wire: ThriftConnection) -> bool:
    assert isinstance(wire._socket, ssl.SSLSocket)
    return wire._socket.version() == "TLSv1.3"


def test_a_server_that_does_not_answer_is_left(start: Callable[..., Server]) -> None:
    """Its other connections are no better: none of them costs a call another wait; and the next server comes first."""
    free, together = threading.Event(), threading.Barrier(3)

    def answer(name: str, _: object) -> dict[str, object]:
        if name == "get_all_databases":
            together.wait(30)
            return {"success": []}
        free.wait(30)
        return {}

    silent, other = start(answer), start(lambda *_: {})
    servers = (("127.0.0.1", silent.port), ("127.0.0.1", other.port))
    client = MetastoreClient(MetastoreAddress(servers, timeout=2), ManualClock())
    at_once(client, 3)
    request = protocol.AbortTxnRequest(txnid=1)
    client.call("abort_txn", request)
    assert (silent.calls.count("abort_txn"), other.calls) == (1, ["abort_txn"])
    client.close()
    client.call("abort_txn", request)
    assert (silent.calls.count("abort_txn"), other.calls) == (1, ["abort_txn"] * 2)
    free.set()


def test_a_heartbeat_waits_less_than_other_calls(start: Callable[..., Server]) -> None:
    """A server that hangs would keep it longer than transactions live without, and the next one is well."""
    free = threading.Event()

    def wait(*_: object) -> dict[str, object]:
        free.wait(60)
        return {"success": BEATEN}

    silent, other = start(wait), start(lambda *_: {"success": BEATEN})
    servers = (("127.0.0.1", silent.port), ("127.0.0.1", other.port))
    client = MetastoreClient(MetastoreAddress(servers, timeout=600), ManualClock())
    assert client.fast_call_timeout * len(servers) < 100  # Hive's 300 s, of which a third may have passed
    client.fast_call_timeout = 0.2
    client.call("heartbeat_txn_range", protocol.HeartbeatTxnRangeRequest(min=1, max=1))
    assert (silent.calls, other.calls) == (["heartbeat_txn_range"],) * 2
    free.set()
