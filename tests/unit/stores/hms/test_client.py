"""The client against a server of the Thrift library's own protocol: fail-over, lost answers, what may be repeated.

Its connections: those that ended unseen, with TLS and without, and servers that are there and do not answer.
"""

from __future__ import annotations

import select
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from thrift.Thrift import TApplicationException

from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey
from hiveacid.errors import (
    CatalogError,
    CommitStateUnknownError,
    NoSuchDatabaseError,
    NoSuchTransactionError,
    StoreError,
    StoreUnavailableError,
    TransactionAbortedError,
    UnsupportedFeatureError,
    WriteConflictError,
)
from hiveacid.stores.hms import definitions, protocol
from hiveacid.stores.hms.client import ROUNDS, MetastoreClient, ThriftConnection
from hiveacid.stores.hms.metastores import MetastoreAddress, parse_metastore_url
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.stores.hms.thrift_structs import ThriftStruct
from hiveacid.stores.hms.transactions import commit_txn
from support.clock import ManualClock
from support.samples import ORDERS
from support.samples import table as sample
from support.servers.certificates import server_context
from support.servers.thrift_server import HANG_UP, Answer, Server


def client(*ports: int) -> MetastoreClient:
    return MetastoreClient(
        MetastoreAddress(tuple(("127.0.0.1", port) for port in ports), timeout=20), ManualClock()
    )


def refused(kind: str, message: str, method: str = "commit_txn") -> dict[str, object]:
    number = next(number for number, name in METHODS[method].errors.items() if name == kind)
    said = next(field[3][0] for field in METHODS[method].answer.thrift_spec if field and field[0] == number)
    return {f"o{number}": said(message=message)}


def test_structs_cross_the_wire_whole(start: Callable[[Answer], Server]) -> None:
    """Lists, maps, sets, bytes, flags, nested; what is absent stays absent."""
    seen: list[ThriftStruct] = []

    def answer(_: str, arguments: ThriftStruct) -> dict[str, object]:
        seen.append(arguments.req)
        return {"success": protocol.AlterTableResponse()}

    table = protocol.Table(
        tableName="t",
        dbName="d",
        createTime=2**31 - 1,
        sd=protocol.StorageDescriptor(
            cols=[protocol.FieldSchema(name="ü😀", type="int")], compressed=False, bucketCols=[]
        ),
        parameters={"k": "v", "é": ""},
        writeId=-(2**63),
    )
    client(start(answer).port).call("alter_table_req", protocol.AlterTableRequest(dbName="d", table=table))
    assert repr(seen[0].table) == repr(table)
    assert seen[0].writeId is None


def test_what_a_definition_does_not_say_goes_back_as_it_came(start: Callable[[Answer], Server]) -> None:
    """ALTER TABLE sends the whole table: where skewed values lie, and what Hive keeps of a SerDe."""
    kept = definitions.raw_table(sample())
    kept.sd.serdeInfo = protocol.SerDeInfo(
        name="orders",
        description="why",
        serializerClass="a.Writer",
        deserializerClass="a.Reader",
        serdeType=2,
    )
    kept.sd.skewedInfo = protocol.SkewedInfo(
        skewedColNames=["id", "item"],
        skewedColValues=[["1", "a"], ["2", "b"]],
        skewedColValueLocationMaps={("1", "a"): "file:/skewed/1", ("2", "b"): "file:/skewed/2"},
    )
    sent: list[ThriftStruct] = []

    def answer(name: str, arguments: ThriftStruct) -> dict[str, object]:
        if name == "get_table_req":
            return {"success": protocol.GetTableResult(table=kept)}
        if name == "get_database":
            return {"success": protocol.Database(name="shop", locationUri="file:/wh")}
        if name == "alter_table_req":
            sent.append(arguments.req.table)
            return {"success": protocol.AlterTableResponse()}
        return {"success": "4.0.1"}

    MetastoreStore(f"thrift://127.0.0.1:{start(answer).port}").alter_table(
        ORDERS, replace(sample(), comment="new")
    )
    assert sent[0].parameters["comment"] == "new"
    assert repr(sent[0].sd.skewedInfo) == repr(kept.sd.skewedInfo)
    given = _of_serde(kept.sd.serdeInfo)
    assert {name: getattr(sent[0].sd.serdeInfo, name) for name in given} == given


def _of_serde(serde: ThriftStruct) -> dict[str, object]:
    """Return what a SerDe has beside its class and its properties."""
    names = ("name", "description", "serializerClass", "deserializerClass", "serdeType")
    return {name: getattr(serde, name) for name in names}


def test_the_next_server_answers_where_the_first_is_not_there(start: Callable[[Answer], Server]) -> None:
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    server = start(lambda *_: {"success": "4.0.1"})
    one = client(port, server.port)
    assert [one.call("getVersion") for _ in range(3)] == ["4.0.1"] * 3
    assert server.connections == 1


def test_nobody_is_there() -> None:
    gone = socket.create_server(("127.0.0.1", 0))
    port = gone.getsockname()[1]
    gone.close()
    with pytest.raises(StoreUnavailableError, match=f"127.0.0.1:{port}"):
        client(port).call("getVersion")


def test_a_server_that_was_started_anew_is_found_again(start: Callable[[Answer], Server]) -> None:
    """An idle connection that has ended is not used, not even for what may be sent once only."""
    server = start(lambda *_: {})
    one = client(server.port)
    for _ in range(2):
        one.call("commit_txn", protocol.CommitTxnRequest(txnid=1))
        server.hang_up()
    assert server.calls == ["commit_txn"] * 2


def test_a_lost_answer_is_asked_for_again_where_that_does_no_harm(start: Callable[[Answer], Server]) -> None:
    answers = iter([HANG_UP, HANG_UP, {"success": "4.0.1"}])
    server = start(lambda *_: next(answers))
    assert client(server.port).call("getVersion") == "4.0.1"
    assert len(server.calls) == 3


def test_calls_are_repeated_until_the_open_transaction_is_about_to_expire(
    start: Callable[[Answer], Server],
) -> None:
    """With the pauses, thirty lost answers are a minute; a transaction of 300 seconds can still commit then."""
    answers = iter([HANG_UP] * 30 + [{"success": "4.0.1"}])
    server = start(lambda *_: next(answers, HANG_UP))
    clock = ManualClock()
    one = MetastoreClient(MetastoreAddress((("127.0.0.1", server.port),), timeout=20), clock)
    one.retry_deadlines.opened([TxnId(7)], 300, clock.now())
    begin = clock.now()
    assert one.call("getVersion") == "4.0.1"
    with pytest.raises(StoreUnavailableError):
        one.call("getVersion")
    assert 260 <= (clock.now() - begin) / 1000 <= 280
    one.retry_deadlines.opened([TxnId(8)], 300, clock.now())
    one.retry_deadlines.ended([TxnId(8)])
    calls = len(server.calls)
    with pytest.raises(StoreUnavailableError):
        one.call("getVersion")
    assert len(server.calls) == calls + ROUNDS


def test_what_may_not_be_repeated_is_sent_once(start: Callable[[Answer], Server]) -> None:
    server = start(lambda *_: HANG_UP)
    with pytest.raises(CommitStateUnknownError, match="commit_txn"):
        client(server.port).call("commit_txn", protocol.CommitTxnRequest(txnid=1))
    assert server.calls == ["commit_txn"]
    with pytest.raises(StoreUnavailableError):
        client(server.port).call("get_all_databases")
    assert len(server.calls) == 1 + ROUNDS


def test_a_silent_server_does_not_hold_us_for_ever(start: Callable[[Answer], Server]) -> None:
    free = threading.Event()
    server = start(lambda *_: {"success": str(free.wait(30))})
    address = MetastoreAddress((("127.0.0.1", server.port),), timeout=0.2)
    with pytest.raises(StoreUnavailableError):
        MetastoreClient(address, ManualClock()).call("getVersion")
    free.set()


def test_refusals_are_errors_of_ours(start: Callable[[Answer], Server]) -> None:
    """And the connection goes on."""
    words = "Aborting [txnid:7,9] due to a write conflict on d/t committed by [txnid:8,9] u/u"
    answers = iter(
        [
            refused("TxnAbortedException", words),
            refused("TxnAbortedException", "Transaction txnid:7 already aborted"),
            TApplicationException(TApplicationException.UNKNOWN_METHOD, "Invalid method name"),
            TApplicationException(TApplicationException.INTERNAL_ERROR, "Internal error processing"),
            {},
        ]
    )
    server = start(lambda *_: next(answers))
    one = client(server.port)
    request = protocol.CommitTxnRequest(txnid=7)
    with pytest.raises(WriteConflictError) as caught:
        one.call("commit_txn", request)
    assert str(caught.value) == words
    for error in (TransactionAbortedError, UnsupportedFeatureError, StoreError):
        with pytest.raises(error):
            one.call("commit_txn", request)
    one.call("commit_txn", request)
    assert server.connections == 1


@pytest.mark.parametrize(
    ("method", "words", "error"),
    [
        ("get_database", "database hive.away", NoSuchDatabaseError),
        ("get_database", "There is no database hive.away", NoSuchDatabaseError),
        ("create_table_req", "The database hive.away does not exist", NoSuchDatabaseError),
        ("get_partitions", "default.database table not found", CatalogError),
        ("get_partitions", "Specified catalog.database.table does not exist : hive.d.t", CatalogError),
    ],
)
def test_only_a_missing_database_is_said_to_be_missing(
    start: Callable[[Answer], Server], method: str, words: str, error: type[CatalogError]
) -> None:
    """A table whose name has the word "database" in it is a table."""
    server = start(lambda *_: refused("NoSuchObjectException", words, method))
    one = client(server.port)
    values = {"get_database": ("away",), "get_partitions": ("d", "t", -1)}
    with pytest.raises(CatalogError) as caught:
        one.call(method, *values.get(method, (protocol.CreateTableRequest(table=None),)))
    assert type(caught.value) is error
    one.close()


def test_a_lost_commit_is_asked_for_again(start: Callable[[Answer], Server]) -> None:
    """Committed: all is well. Forgotten: nobody knows, unless nothing was written."""
    gone = refused("NoSuchTxnException", "No such transaction txnid:7")
    answers = iter([HANG_UP, {}, HANG_UP, gone, HANG_UP, gone, HANG_UP, HANG_UP])
    server = start(lambda *_: next(answers))
    one = client(server.port)
    commit_txn(one, TxnId(7), wrote=True)
    with pytest.raises(CommitStateUnknownError):
        commit_txn(one, TxnId(7), wrote=True)
    commit_txn(one, TxnId(7), wrote=False)
    with pytest.raises(CommitStateUnknownError):
        commit_txn(one, TxnId(7), wrote=False)
    assert server.calls == ["commit_txn"] * 8


def test_a_lost_commit_and_nobody_to_ask(start: Callable[[Answer], Server]) -> None:
    """The server went away with its answer. "Not there" would say that nothing happened, and files would be deleted."""

    def answer(*_: object) -> object:
        server._listener.shutdown(socket.SHUT_RDWR)
        return HANG_UP

    server = start(answer)
    one = client(server.port)
    with pytest.raises(CommitStateUnknownError):
        commit_txn(one, TxnId(7), wrote=True)
    assert server.calls == ["commit_txn"]


def test_a_forgotten_transaction_has_not_committed(start: Callable[[Answer], Server]) -> None:
    """It may have been aborted while we slept, and cleaned: to say that all is well would lose rows."""
    snapshot = {"success": protocol.GetOpenTxnsResponse(txn_high_water_mark=9, open_txns=[], abortedBits=b"")}

    def answer(name: str, arguments: ThriftStruct) -> Any:
        if name == "get_open_txns":
            return snapshot
        assert arguments.rqst.exclWriteEnabled is False  # else Hive 4 looks for no conflicts
        return refused("NoSuchTxnException", "No such transaction txnid:7")

    one = client(start(answer).port)
    with pytest.raises(NoSuchTransactionError):
        commit_txn(one, TxnId(7), wrote=True)
    commit_txn(one, TxnId(7), wrote=False)


def test_a_plain_port_is_no_tls_server(start: Callable[[Answer], Server]) -> None:
    server = start(lambda *_: {"success": "4.0.1"})
    one = MetastoreClient(
        parse_metastore_url(f"thrift://127.0.0.1:{server.port}?tls=true&connect_timeout=1"), ManualClock()
    )
    with pytest.raises(StoreUnavailableError):
        one.call("getVersion")


def test_the_library_is_loaded_by_the_first_connection_only() -> None:
    """Whoever uses another store never pays for it."""
    code = (
        "import sys, hiveacid, hiveacid.stores.hms.client; "
        "print(sorted(name for name in sys.modules if name == 'thrift' or name.startswith('thrift.')))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_metastore_takes_no_progress_of_a_stream(start: Callable[[Answer], Server]) -> None:
    """It is a row of a table: refused before anything is sent."""
    server = start(lambda _method, _arguments: {"success": "4.0.1"})
    store = MetastoreStore(f"thrift://127.0.0.1:{server.port}")
    stream = StreamKey(TableName("shop", "orders"), "clicks")
    with pytest.raises(UnsupportedFeatureError, match="keeps no progress"):
        store.commit_txn(TxnId(1), batch=StreamBatch(stream, "check", 1, 0))
    assert server.calls == ["getVersion"]
    store.close()


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
