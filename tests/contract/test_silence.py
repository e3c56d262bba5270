"""Clients that stop inside a transaction of the database, and servers that stop answering: nobody waits for them for ever."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from server_rules import Place

from hiveacid.core.model import Partition, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import StoreUnavailableError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Begun, Operation, Start
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT, ORDERS, database, lock_on, table, wrote
from support.servers.databases import Server
from support.servers.wire import Wire

START = Start((lock_on(LockType.SHARED_WRITE, "orders", "p=1"),), (ORDERS,), (ORDERS,))
TIMEOUT = 15.0  # s: a call waits three seconds for a byte of the server
PATIENCE = 120.0  # s: what waits as long waits for ever


@pytest.fixture(scope="module", params=["postgres_server", "mariadb_server", "mysql_server"])
def place(request: pytest.FixtureRequest) -> Place:
    server: Server = request.getfixturevalue(request.param)
    return Place(server, "silence")


@pytest.fixture
def witness(place: Place) -> Iterator[SqlStore]:
    place.empty()
    made = SqlStore(place.url, txn_timeout=TIMEOUT)
    made.create_database(database())
    made.create_table(table(ORDERS))
    yield made
    made.close()


@pytest.fixture
def wire(place: Place) -> Iterator[Wire]:
    made = Wire(place.server.port)
    yield made
    made.close()


@pytest.fixture
def store(place: Place, wire: Wire, witness: SqlStore) -> Iterator[SqlStore]:  # noqa: ARG001 - makes the schema
    made = SqlStore(place.server.url(place.name, port=wire.port), txn_timeout=TIMEOUT)
    yield made
    made.close()


class Call(threading.Thread):
    """A call in a thread of its own, with its answer or error."""

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__(daemon=True)
        self._call = call
        self.answer: object = None
        self.start()

    def run(self) -> None:
        try:
            self.answer = self._call()
        except Exception as error:  # noqa: BLE001 - judged by the test
            self.answer = error

    def ended(self) -> object:
        """Return the answer."""
        self.join(PATIENCE)
        assert not self.is_alive(), "it waits for ever"
        return self.answer


def write(store: SqlStore, partition: str = "p=1") -> TxnId:
    begun = store.begin_txn(CLIENT, START)
    store.commit_txn(begun.txn_id, NEW, [wrote(ORDERS, Operation.UPDATE, partition)])
    return begun.txn_id


NEW = CatalogChanges((), (NewPartition(ORDERS, Partition(("1", "oslo"), "file:/x")),))

STOPS = """
import os, signal, sys
from test_silence import TIMEOUT, write
from hiveacid.stores.sql.store import SqlStore
store = SqlStore(sys.argv[1], txn_timeout=TIMEOUT)
dialect = store._database.dialect
step = "take_txn_ids" if dialect.has_txn_id_counter else "increment_counter"
real = getattr(dialect, step)
def stop(*arguments):
    setattr(dialect, step, real)
    number = real(*arguments)
    os.kill(os.getpid(), signal.SIGSTOP)
    return number
setattr(dialect, step, stop)
print(write(store, "p=2"))
"""


def test_a_stopped_client_stops_nobody(place: Place, witness: SqlStore) -> None:
    """It holds a counter that every commit needs; the server ends its transaction, and it begins again when it goes on."""
    paths = [str(Path(__file__).parent), str(Path(__file__).parents[1]), *sys.path]
    stopped = subprocess.Popen(
        [sys.executable, "-c", STOPS, place.url],
        stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    _, status = os.waitpid(stopped.pid, os.WUNTRACED)
    assert os.WIFSTOPPED(status)
    call = Call(lambda: write(witness))
    txn_id = call.ended()
    stopped.send_signal(signal.SIGCONT)
    other, _ = stopped.communicate(timeout=PATIENCE)
    assert stopped.returncode == 0
    assert witness.txn_state(TxnId(int(other))) == "committed"
    assert isinstance(txn_id, int)
    assert witness.txn_state(TxnId(txn_id)) == "committed"


def until_lost(store: SqlStore) -> None:
    """Wait until a call has given a connection up."""
    end = time.monotonic() + PATIENCE
    while store._database._generation == 0:
        assert time.monotonic() < end, "it waits for ever"
        time.sleep(0.01)


def test_a_heartbeat_meets_a_silent_server(store: SqlStore, witness: SqlStore, wire: Wire) -> None:
    """It is sent again before the transaction expires, by a connection of its own."""
    (txn_id,) = store.open_txns(CLIENT)
    wire.freeze()
    call = Call(lambda: store.heartbeat([txn_id]))
    until_lost(store)
    wire.thaw()
    answer = call.ended()
    assert not isinstance(answer, Exception), answer
    assert witness.abort_timed_out() == ()
    assert witness.txn_state(txn_id) == "open"


def test_a_server_that_stays_silent(store: SqlStore, wire: Wire, caplog: pytest.LogCaptureFixture) -> None:
    """The calls of a client end about when its transactions expire, with a warning before."""
    (txn_id,) = store.open_txns(CLIENT)
    wire.freeze()
    store._database.tries = 2
    with caplog.at_level(logging.WARNING):
        answer = Call(lambda: store.heartbeat([txn_id])).ended()
    assert isinstance(answer, StoreUnavailableError)
    assert "does not answer; trying for another" in caplog.text


@pytest.mark.parametrize("general", [True, False])
def test_a_commit_meets_a_silent_server(
    store: SqlStore, witness: SqlStore, wire: Wire, *, general: bool
) -> None:
    """It is committed once, although the server hears of it twice in the end."""
    for _ in range(2):
        write(store)
    begun = store.begin_txn(CLIENT, START)
    wire.freeze()
    changes = NEW if general else CatalogChanges()
    call = Call(lambda: store.commit_txn(begun.txn_id, changes, [wrote(ORDERS, Operation.UPDATE, "p=1")]))
    until_lost(store)
    wire.thaw()
    assert call.ended() is None
    assert witness.txn_state(begun.txn_id) == "committed"
    assert witness.show_locks() == ()


def test_a_begin_meets_a_silent_server(store: SqlStore, witness: SqlStore, wire: Wire) -> None:
    """It opens one transaction, although the server hears of it twice in the end."""
    start = Start((lock_on(LockType.EXCL_WRITE, "orders"),), (ORDERS,), (ORDERS,))
    for _ in range(2):
        store.commit_txn(store.begin_txn(CLIENT, start).txn_id)
    wire.freeze()
    call = Call(lambda: store.begin_txn(CLIENT, start))
    until_lost(store)
    wire.thaw()
    begun = call.ended()
    assert isinstance(begun, Begun)
    assert begun.snapshot is not None
    assert [row.txn_id for row in witness.show_transactions()] == [begun.txn_id]
    assert witness.aborted_write_ids(ORDERS) == ()
