"""A connection that is cut at each round trip, and a server that is killed: nothing lost, nothing done twice."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from server_rules import Place

from hiveacid.config import Settings
from hiveacid.core.model import Partition, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import CommitStateUnknownError, StoreUnavailableError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Start
from hiveacid.stores.sql.store import SqlStore
from support.samples import CLIENT, ORDERS, database, lock_on, table, wrote
from support.servers.databases import Server
from support.servers.wire import Cut, Wire

START = Start((lock_on(LockType.SHARED_WRITE, "orders", "p=1"),), (ORDERS,), (ORDERS,))
NEW = CatalogChanges((), (NewPartition(ORDERS, Partition(("1", "oslo"), "file:/x")),))
COMMITS = {
    "insert": (CatalogChanges(), (wrote(ORDERS, Operation.INSERT, "p=1"),)),
    "update": (CatalogChanges(), (wrote(ORDERS, Operation.UPDATE, "p=1"),)),
    "partition": (NEW, (wrote(ORDERS, Operation.UPDATE, "p=1"),)),
}


@dataclass
class Line:
    """A store at the end of a wire, and one with a line of its own that sees what happened."""

    wire: Wire
    store: SqlStore
    witness: SqlStore
    place: Place


@pytest.fixture(scope="module", params=["postgres_server", "mariadb_server", "mysql_server"])
def place(request: pytest.FixtureRequest) -> Place:
    server: Server = request.getfixturevalue(request.param)
    return Place(server, "wire")


@pytest.fixture
def line(place: Place) -> Iterator[Line]:
    place.empty()
    wire = Wire(place.server.port)
    store = SqlStore(place.server.url(place.name, port=wire.port))
    witness = SqlStore(place.url)
    witness.create_database(database())
    witness.create_table(table(ORDERS))
    yield Line(wire, store, witness, place)
    store.close()
    witness.close()
    wire.close()


def write(store: SqlStore, kind: str) -> TxnId:
    changes, written = COMMITS[kind]
    begun = store.begin_txn(CLIENT, START)
    assert begun.snapshot is not None
    store.commit_txn(begun.txn_id, changes, written)
    return begun.txn_id


def rows(line: Line, statement: str) -> list[tuple[object, ...]]:
    with line.place.engine.connect() as connection:
        return [tuple(row) for row in connection.exec_driver_sql(statement)]


@pytest.mark.parametrize("kind", COMMITS)
def test_round_trips_of_a_writing_transaction(line: Line, kind: str) -> None:
    """One to begin and one to commit on PostgreSQL, unless the catalog changes, too."""
    for _ in range(7):  # until the driver has prepared its statements
        write(line.store, kind)
    line.wire.start()
    write(line.store, kind)
    expected = {"insert": 2, "update": 2, "partition": 15} if line.place.server.driver == "psycopg" else {}
    assert line.wire.turns <= expected.get(kind, 30)
    assert line.wire.turns == 2 or kind == "partition" or not expected


@pytest.mark.sampled(2, "contract/test_lost_answers.py cuts off each verb")
@pytest.mark.parametrize("kind", COMMITS)
@pytest.mark.parametrize("where", Cut)
def test_a_cut_at_each_round_trip(line: Line, kind: str, where: Cut) -> None:
    """The transaction ends well, and is committed exactly once."""
    write(line.store, kind)
    line.wire.start()
    write(line.store, kind)
    trips = line.wire.turns
    counted = kind != "insert"
    for turn in range(1, trips + 1):
        before = rows(line, "SELECT value FROM hiveacid_counters WHERE name = 'commit sequence'")[0][0]
        line.wire.start()
        line.wire.cut_at(turn, where)
        txn_id = write(line.store, kind)
        assert line.wire.cuts == 1
        assert line.witness.txn_state(txn_id) == "committed"
        assert len(rows(line, f"SELECT 1 FROM hiveacid_written WHERE txn_id = {txn_id}")) == 1
        after = rows(line, "SELECT value FROM hiveacid_counters WHERE name = 'commit sequence'")[0][0]
        assert after == before + counted  # type: ignore[operator]
        assert len(rows(line, "SELECT 1 FROM hiveacid_partitions")) == (kind == "partition")
        assert line.witness.show_transactions() == ()
        assert line.witness.show_locks() == ()
    ids = [row[0] for row in rows(line, "SELECT write_id FROM hiveacid_write_ids")]
    assert sorted(ids) == list(range(1, len(ids) + 1))  # type: ignore[type-var]


def test_a_server_killed_at_each_round_trip_of_a_commit(line: Line) -> None:
    """And started again: the client asks what became of its commit."""
    server = line.place.server
    for where in Cut:
        begun = line.store.begin_txn(CLIENT, START)
        line.wire.start()
        line.wire.cut_at(1, where)
        restarted = threading.Thread(target=_restart, args=(server,))
        restarted.start()
        line.store.commit_txn(begun.txn_id, written=[wrote(ORDERS, Operation.UPDATE, "p=1")])
        restarted.join()
        line.place.engine.dispose()
        assert line.witness.txn_state(begun.txn_id) == "committed"
        assert len(rows(line, f"SELECT 1 FROM hiveacid_written WHERE txn_id = {begun.txn_id}")) == 1


def _restart(server: Server) -> None:
    server.stop(signal.SIGQUIT)
    server.start()


def test_a_commit_whose_answer_is_lost_and_nobody_to_ask(line: Line) -> None:
    """Then nobody pretends to know; for a beginning it does not matter."""
    line.store.apply_settings(
        Settings.of({"hive.txn.timeout": "1s"})
    )  # for as long as that it is asked again
    one, other = line.store.begin_txn(CLIENT, START), line.store.begin_txn(CLIENT, START)
    line.wire.start()
    line.store.commit_txn(one.txn_id, written=[wrote(ORDERS, Operation.INSERT, "p=1")])
    last = line.wire.turns if line.place.server.driver == "pymysql" else 1
    line.store._database.tries = 2
    line.wire.start()
    line.wire.cut_at(last, Cut.AFTER)
    line.wire.refuse()
    with pytest.raises(CommitStateUnknownError):
        line.store.commit_txn(other.txn_id, written=[wrote(ORDERS, Operation.INSERT, "p=1")])
    assert line.witness.txn_state(other.txn_id) == "committed"
    with pytest.raises(StoreUnavailableError):
        line.store.begin_txn(CLIENT, START)
