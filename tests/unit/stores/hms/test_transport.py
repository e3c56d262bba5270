"""What can be told of Kerberos without a realm; the rest is in tests/interop/test_hive_kerberos.py.

The library ``gssapi`` is one of these tests' here: it says when a ticket is refused, or a context comes to its end.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

from hiveacid.core.model import TxnId
from hiveacid.errors import CommitStateUnknownError, ConfigError, StoreError, StoreUnavailableError
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.metastores import parse_metastore_url
from hiveacid.stores.hms.transactions import commit_txn
from hiveacid.stores.hms.transport import SaslTransport
from support.clock import ManualClock
from support.servers.thrift_server import Answer, Server


class GssError(Exception):
    """As that of the library."""


class Kerberos:
    """Stands for the library: contexts whose messages are what they are made of."""

    exceptions = SimpleNamespace(GSSError=GssError)
    NameType = SimpleNamespace(kerberos_principal=1)
    RequirementFlag = SimpleNamespace(
        mutual_authentication=1, integrity=2, confidentiality=4, out_of_sequence_detection=8
    )

    def __init__(self) -> None:
        self.unknown = ["127.0.0.1"]  # hosts without a principal
        self.ends_at: str | None = None  # what contexts fail at once, after the negotiation
        self.contexts = self.refused = 0

    def Name(self, principal: str, _: int) -> str:  # noqa: N802 - the library's
        if any(host in principal for host in self.unknown):
            self.refused += 1
            raise GssError(f"Server {principal} not found in Kerberos database")
        return principal

    def SecurityContext(self, **_: object) -> _Context:  # noqa: N802 - the library's
        self.contexts += 1
        return _Context(self)


class _Context:
    complete = True

    def __init__(self, library: Kerberos) -> None:
        self._library = library
        self._wrapped = self._unwrapped = 0

    def step(self, _: bytes | None = None) -> bytes:
        return b"token"

    def wrap(self, data: bytes, _: bool) -> SimpleNamespace:  # noqa: FBT001 - the library's
        self._wrapped += 1
        return self._made("wrap", data, self._wrapped)

    def unwrap(self, data: bytes) -> SimpleNamespace:
        self._unwrapped += 1
        return self._made("unwrap", data, self._unwrapped)

    def _made(self, verb: str, data: bytes, turn: int) -> SimpleNamespace:
        if turn > 1 and self._library.ends_at == verb:
            self._library.ends_at = None
            raise GssError("The context has expired")
        return SimpleNamespace(message=data)


@pytest.fixture
def kerberos(monkeypatch: pytest.MonkeyPatch) -> Kerberos:
    made = Kerberos()
    monkeypatch.setitem(sys.modules, "gssapi", made)  # type: ignore[arg-type]
    return made


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(lambda name, _: {"success": []} if name == "get_all_databases" else {}, sasl=True)
    yield made
    made.stop()


def client(*places: str, patience: float = 20) -> MetastoreClient:
    url = f"thrift://{','.join(places)}?auth=kerberos&principal=hive/_HOST@REALM&connect_timeout={patience}"
    return MetastoreClient(parse_metastore_url(url), ManualClock())


def commit_with(one: MetastoreClient) -> None:
    commit_txn(one, TxnId(7), wrote=True)


def test_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "gssapi", None)
    ours, theirs = socket.socketpair()
    with ours, theirs, pytest.raises(ConfigError, match=r"pip install 'hiveacid\[kerberos\]'"):
        SaslTransport(ours, "hive/_HOST@REALM", "LOCALHOST")


def test_the_next_server_is_asked_where_kerberos_refuses_the_first(
    kerberos: Kerberos, server: Server
) -> None:
    one = client("127.0.0.1:1", f"127.0.0.1:{server.port}", f"localhost:{server.port}")
    one.call("commit_txn", protocol.CommitTxnRequest(txnid=7))
    assert server.calls == ["commit_txn"]
    assert kerberos.contexts == 1


def test_the_next_server_is_asked_where_one_does_not_negotiate(kerberos: Kerberos, server: Server) -> None:
    """It takes the connection and hangs; a call's own time-out would let transactions die meanwhile."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        places = f"localhost:{silent.getsockname()[1]}", f"localhost:{server.port}"
        client(*places, patience=1).call("commit_txn", protocol.CommitTxnRequest(txnid=7))
    assert server.calls == ["commit_txn"]
    assert kerberos.contexts >= 2


def test_refused_by_all(kerberos: Kerberos, server: Server) -> None:
    """It is not tried again; beside a server that is not there it may be worth it."""
    place = f"127.0.0.1:{server.port}"
    with pytest.raises(StoreError, match="run kinit") as caught:
        client(place, place).call("get_all_databases")
    assert not isinstance(caught.value, StoreUnavailableError)
    assert kerberos.refused == 2
    with pytest.raises(StoreUnavailableError, match=r"run kinit.*refused"):
        client(place, "127.0.0.1:1").call("get_all_databases")
    assert kerberos.contexts == 0


def test_a_context_that_came_to_its_end_is_replaced(kerberos: Kerberos, server: Server) -> None:
    """Nothing has gone out: what may be sent once goes out with a new one."""
    one = client(f"localhost:{server.port}")
    kerberos.ends_at = "wrap"
    request = protocol.CommitTxnRequest(txnid=7)
    one.call("commit_txn", request)
    assert (server.calls, kerberos.contexts) == (["commit_txn"], 2)
    kerberos.ends_at = "unwrap"
    with pytest.raises(CommitStateUnknownError):
        one.call("commit_txn", request)
    kerberos.ends_at = "unwrap"
    commit_with(one)
    assert server.calls == ["commit_txn"] * 4


def test_a_lost_commit_and_no_ticket_to_ask(kerberos: Kerberos, server: Server) -> None:
    """The refusal says nothing about the commit, which may have been carried out."""
    one = client(f"localhost:{server.port}")
    one.call("get_all_databases")

    def lost(*_: object) -> dict[str, object]:
        kerberos.ends_at = "unwrap"
        kerberos.unknown = ["localhost"]
        return {}

    answer: Answer = lost
    server.answer = answer
    with pytest.raises(CommitStateUnknownError):
        commit_with(one)
    assert server.calls[1:] == ["commit_txn"]
