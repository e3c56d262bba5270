"""Broken and hostile metastores: typed errors only, within a second and 200 MB."""

from __future__ import annotations

import random
import resource
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from thrift.protocol.TBinaryProtocol import TBinaryProtocol
from thrift.transport.TTransport import TMemoryBuffer

from hiveacid.core.model import TableName, TxnId
from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StoreUnavailableError
from hiveacid.ports.transactions import Client, TxnKind
from hiveacid.stores.hms import protocol
from hiveacid.stores.hms.client import MetastoreClient
from hiveacid.stores.hms.definitions import table_of
from hiveacid.stores.hms.metastores import parse_metastore_url
from hiveacid.stores.hms.protocol import METHODS
from hiveacid.stores.hms.store import MetastoreStore
from support.clock import ManualClock
from support.exhaustive import examples

SEED, MUTATIONS = 20, examples(3000)
LONGEST, MOST_MEMORY = 10.0, 200 << 10  # seconds; KB
REPLY, EXCEPTION = 2, 3
NAME = TableName("shop", "orders")
Change = Callable[[bytes], bytes]


class Peer:
    """Answers each call with the bytes of a real answer, as ``change`` leaves them, and hangs up where they are short."""

    def __init__(self) -> None:
        self.change: Change = lambda data: data
        self.slowly = 0.0  # seconds between two bytes
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._stopped = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                handle, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(handle,), daemon=True).start()

    def _serve(self, handle: socket.socket) -> None:
        with handle:
            try:
                while name := _request(handle):
                    data = self.change(answer(*name))
                    for piece in [data] if not self.slowly else [bytes([byte]) for byte in data]:
                        handle.sendall(piece)
                        if self.slowly and self._stopped.wait(self.slowly):
                            return
                    if data != answer(*name):
                        return
            except OSError:
                return


def _request(handle: socket.socket) -> tuple[str, int] | None:
    data = handle.recv(1 << 16)
    if not data:
        return None
    (length,) = struct.unpack(">I", data[4:8])
    return data[8 : 8 + length].decode(), int.from_bytes(data[8 + length : 12 + length], "big")


def answer(method: str, number: int) -> bytes:
    """Return a whole message as a metastore of Hive 4.0.1 sends it."""
    buffer = TMemoryBuffer()
    wire = TBinaryProtocol(buffer)
    wire.writeMessageBegin(method, REPLY, number)
    METHODS[method].answer(**ANSWERS.get(method, {})).write(wire)
    wire.writeMessageEnd()
    return bytes(buffer.getvalue())


_COLUMNS = [protocol.FieldSchema(name="id", type="int"), protocol.FieldSchema(name="s", type="struct<a:int>")]
_STORAGE = protocol.StorageDescriptor(
    cols=_COLUMNS,
    location="file:/data/wh/orders",
    inputFormat="org.apache.hadoop.hive.ql.io.orc.OrcInputFormat",
    outputFormat="org.apache.hadoop.hive.ql.io.orc.OrcOutputFormat",
    numBuckets=2,
    serdeInfo=protocol.SerDeInfo(serializationLib="org.apache.hadoop.hive.ql.io.orc.OrcSerde", parameters={}),
    bucketCols=["id"],
    sortCols=[],
    parameters={},
    skewedInfo=protocol.SkewedInfo(skewedColNames=["id"], skewedColValues=[["1"], ["2"]]),
)
_TABLE = protocol.Table(
    tableName="orders",
    dbName="shop",
    owner="ann",
    createTime=1,
    sd=_STORAGE,
    partitionKeys=[protocol.FieldSchema(name="p", type="string")],
    parameters={"transactional": "true"},
    tableType="MANAGED_TABLE",
)
_IDS = protocol.TableValidWriteIds(
    fullTableName="shop.orders", writeIdHighWaterMark=9, invalidWriteIds=[3, 4], abortedBits=b"\x01"
)
_JOB = protocol.ShowCompactResponseElement(
    id=1, dbname="shop", tablename="orders", type=2, state="working", workerid="w", start=5
)
_LOCK = protocol.ShowLocksResponseElement(
    lockid=1, dbname="shop", tablename="orders", state=1, type=1, txnid=4, user="ann", hostname="h"
)
ANSWERS: dict[str, dict[str, Any]] = {
    "getVersion": {"success": "4.0.1"},
    "get_config_value": {"success": "300s"},
    "open_txns": {"success": protocol.OpenTxnsResponse(txn_ids=[7])},
    "get_open_txns": {
        "success": protocol.GetOpenTxnsResponse(
            txn_high_water_mark=9, open_txns=[4, 7], min_open_txn=4, abortedBits=b"\x01"
        )
    },
    "get_open_txns_info": {
        "success": protocol.GetOpenTxnsInfoResponse(
            txn_high_water_mark=9, open_txns=[protocol.TxnInfo(id=4, state=2, user="ann", hostname="h")]
        )
    },
    "heartbeat_txn_range": {"success": protocol.HeartbeatTxnRangeResponse(aborted={4}, nosuch=set())},
    "get_valid_write_ids": {"success": protocol.GetValidWriteIdsResponse(tblValidWriteIds=[_IDS])},
    "allocate_table_write_ids": {
        "success": protocol.AllocateTableWriteIdsResponse(
            txnToWriteIds=[protocol.TxnToWriteId(txnId=7, writeId=10)]
        )
    },
    "check_lock": {"success": protocol.LockResponse(lockid=1, state=1)},
    "show_locks": {"success": protocol.ShowLocksResponse(locks=[_LOCK])},
    "show_compact": {"success": protocol.ShowCompactResponse(compacts=[_JOB])},
    "get_all_databases": {"success": ["default", "shop"]},
    "get_database": {"success": protocol.Database(name="shop", locationUri="file:/data/wh", parameters={})},
    "get_tables_by_type": {"success": ["orders"]},
    "get_table_req": {"success": protocol.GetTableResult(table=_TABLE)},
    "get_partitions": {
        "success": [protocol.Partition(values=["x"], dbName="shop", tableName="orders", sd=_STORAGE)]
    },
    "get_all_table_constraints": {
        "success": protocol.AllTableConstraintsResponse(
            allTableConstraints=protocol.SQLAllTableConstraints(
                notNullConstraints=[
                    protocol.SQLNotNullConstraint(column_name="id", nn_name="nn", enable_cstr=True)
                ],
                defaultConstraints=[],
                checkConstraints=[],
            )
        )
    },
}
VERBS: dict[str, Callable[[MetastoreStore], object]] = {
    "open": lambda store: store.open_txns(Client("ann", "h", "test"), 1, TxnKind.DEFAULT),
    "valid txns": lambda store: store.valid_txns(),
    "write ids": lambda store: store.valid_write_ids(store.take_snapshot(TxnId(7)), [NAME]),
    "allocate": lambda store: store.allocate_write_ids([TxnId(7)], NAME),
    "heartbeat": lambda store: store.heartbeat([TxnId(4)]),
    "check lock": lambda store: store.check_lock(1),  # type: ignore[arg-type]
    "locks": lambda store: store.show_locks(),
    "transactions": lambda store: store.show_transactions(),
    "compactions": lambda store: store.show_compactions(),
    "databases": lambda store: store.list_databases(),
    "database": lambda store: store.get_database("shop"),
    "tables": lambda store: store.list_tables("shop"),
    "table": lambda store: store.get_table(NAME),
    "view": lambda store: store.get_view(NAME),
    "partitions": lambda store: store.list_partitions(NAME),
    "constraints": lambda store: store.constraints(table_of(_TABLE)),
    "timeout": lambda store: store.txn_timeout(),
    "commit": lambda store: store.commit_txn(TxnId(7)),
}


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.stop()


@pytest.fixture
def store(peer: Peer) -> Iterator[MetastoreStore]:
    made = MetastoreStore(f"thrift://127.0.0.1:{peer.port}?timeout=30", clock=ManualClock())
    yield made
    made.close()


def mutated(data: bytes, dice: random.Random) -> bytes:
    """Return bytes with one to four changes: flipped bits, numbers at their limits, cuts, doubled and moved pieces."""
    out = bytearray(data)
    for _ in range(dice.randint(1, 4)):
        place = dice.randrange(len(out)) if out else 0
        match dice.randrange(6):
            case 0:
                out[place : place + 1] = bytes([dice.randrange(256)])
            case 1:
                limit = dice.choice((0, -1, 1, 2**31 - 1, -(2**31), 2**20, 2**24))
                out[place : place + 4] = struct.pack(">i", limit)
            case 2:
                del out[place:]
            case 3:
                end = place + dice.randint(1, 40)
                out[place:place] = out[place:end]
            case 4:
                del out[place : place + dice.randint(1, 16)]
            case _:
                out[place : place + 1] = bytes([dice.choice((0, 2, 3, 6, 8, 10, 11, 12, 13, 14, 15))])
    return bytes(out)


def test_mutated_answers(peer: Peer, store: MetastoreStore) -> None:
    """Every verb on answers of which some bytes are others."""
    verbs = list(VERBS.items())
    for _, verb in verbs:
        verb(store)  # each of them works on real answers
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    refused = 0
    for index in range(MUTATIONS):
        dice = random.Random(SEED + index)
        peer.change = lambda data, dice=dice: mutated(data, dice)  # type: ignore[misc]
        name, verb = verbs[index % len(verbs)]
        began = time.monotonic()
        try:
            verb(store)
        except HiveAcidError:
            refused += 1
        except Exception as error:
            raise AssertionError(f"mutation {index} of {name!r}") from error
        assert time.monotonic() - began < LONGEST, (index, name)
    assert refused > MUTATIONS // 3
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


def header(method: str, kind: int, number: int) -> bytes:
    name = method.encode()
    return struct.pack(">II", 0x80010000 | kind, len(name)) + name + struct.pack(">i", number)


def field(kind: int, number: int) -> bytes:
    return struct.pack(">bh", kind, number)


DATABASES = "get_all_databases"
BODY = answer(DATABASES, 1)[len(header(DATABASES, REPLY, 1)) :]
LIST, TEXT, STRUCT = 15, 11, 12


@pytest.mark.parametrize(
    "sent",
    [
        pytest.param(lambda number: header("getVersion", REPLY, number) + BODY, id="another method"),
        pytest.param(lambda number: header(DATABASES, REPLY, number + 1) + BODY, id="another call"),
        pytest.param(lambda number: header(DATABASES, EXCEPTION, number + 1) + b"\0", id="another exception"),
        pytest.param(lambda number: header(DATABASES, 1, number) + BODY, id="a call"),
        pytest.param(lambda number: header(DATABASES, 4, number) + BODY, id="a call without answer"),
        pytest.param(lambda number: header(DATABASES, REPLY, number)[4:] + BODY, id="no version"),
        pytest.param(
            lambda number: header(DATABASES, REPLY, number) + BODY + b"\0", id="more than an answer"
        ),
        pytest.param(lambda number: header(DATABASES, REPLY, number) + b"\0", id="no result"),
        pytest.param(
            lambda number: header(DATABASES, REPLY, number) + field(LIST, 0) + b"\x0b\x7f\xff\xff\xff",
            id="2^31 items",
        ),
        pytest.param(
            lambda number: header(DATABASES, REPLY, number) + field(LIST, 0) + b"\x0b\xff\xff\xff\xff",
            id="-1 items",
        ),
        pytest.param(
            lambda number: (
                header(DATABASES, REPLY, number) + field(LIST, 0) + b"\x0b\0\0\0\1\x7f\xff\xff\xff"
            ),
            id="a text of 2 GB",
        ),
        pytest.param(
            lambda number: (
                header(DATABASES, REPLY, number) + field(LIST, 0) + b"\x0b\0\0\0\1\x1f\xff\xff\xff"
            ),
            id="a text of 511 MB",
        ),
        pytest.param(
            lambda number: header(DATABASES, REPLY, number) + field(STRUCT, 9) * 1_000_000, id="deep structs"
        ),
        pytest.param(
            lambda number: header(DATABASES, REPLY, number) + field(LIST, 9) + b"\x0f\0\0\0\1" * 1_000_000,
            id="deep lists",
        ),
    ],
)
def test_what_is_no_answer(peer: Peer, store: MetastoreStore, sent: Callable[[int], bytes]) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def change(data: bytes) -> bytes:
        return sent(int.from_bytes(data[8 + len(DATABASES) : 12 + len(DATABASES)], "big"))

    peer.change = change
    began = time.monotonic()
    with pytest.raises(StoreUnavailableError, match=DATABASES):
        store.list_databases()
    assert time.monotonic() - began < LONGEST
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MOST_MEMORY


def test_one_deadline_for_a_call(peer: Peer) -> None:
    """A server that sends a byte now and then gains no time; what may have been carried out is said to be unknown."""
    client = MetastoreClient(parse_metastore_url(f"thrift://127.0.0.1:{peer.port}?timeout=1"), ManualClock())
    peer.slowly = 0.4  # 9 seconds for the 23 bytes of the answer
    began = time.monotonic()
    with pytest.raises(CommitStateUnknownError, match="timed out"):
        client.call("commit_txn", protocol.CommitTxnRequest(txnid=1))
    assert time.monotonic() - began < 7
    client.close()
