"""The SQL store on a real PostgreSQL passes the contract, and what is special about a server."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from histories import anomalies, needless_conflicts, run_clients
from hypothesis import HealthCheck, settings
from postgres_server import PASSWORD, PostgresServer, why_not
from sqlalchemy import Engine, create_engine, text

from hiveacid.core.locks import LockState, LockType
from hiveacid.core.model import TxnId
from hiveacid.core.write_ids import ValidTxnList
from hiveacid.errors import StoreUnavailableError, WriteConflictError
from hiveacid.ports import Clock, CompactionRequest, Operation, TxnKind
from hiveacid.stores.sql.store import SqlStore
from hiveacid.stores.sql.tables import METADATA
from hiveacid.testing.clock import ManualClock
from hiveacid.testing.contracts import CatalogContract, TransactionStoreContract
from hiveacid.testing.samples import CLIENT, ORDERS, Store, lock_on, wrote
from hiveacid.testing.store_machine import StoreMachine

pytestmark = [
    pytest.mark.skipif(why_not() is not None, reason=str(why_not())),
    pytest.mark.xdist_group("postgres"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    made = PostgresServer()
    made.start()
    SqlStore(made.url()).close()
    yield made
    made.remove()


@pytest.fixture(scope="module")
def engine(server: PostgresServer) -> Iterator[Engine]:
    made = create_engine(server.url())
    yield made
    made.dispose()


def empty(engine: Engine) -> None:
    """Bring the schema back to its first day."""
    keep = ("hiveacid_schema", "hiveacid_counters")
    statements = [
        f"DELETE FROM {table.name}" for table in reversed(METADATA.sorted_tables) if table.name not in keep
    ]
    statements += [
        f"ALTER TABLE hiveacid_{name} ALTER COLUMN id RESTART"
        for name in ("txns", "lock_requests", "compactions")
    ]
    with engine.begin() as connection:
        connection.execute(text("; ".join([*statements, "UPDATE hiveacid_counters SET value = 0"])))


class TestPostgres(TransactionStoreContract, CatalogContract):
    @pytest.fixture
    def store(self, clock: ManualClock, server: PostgresServer, engine: Engine) -> Iterator[SqlStore]:
        empty(engine)
        made = SqlStore(server.url(), clock=clock, own_time=False)
        yield made
        made.close()


class PostgresMachine(StoreMachine):
    server: PostgresServer
    engine: Engine

    def make_store(self, clock: Clock) -> Store:
        empty(self.engine)
        self.opened = SqlStore(self.server.url(), clock=clock, own_time=False)
        return self.opened

    def teardown(self) -> None:
        self.opened.close()


def test_walks(server: PostgresServer, engine: Engine) -> None:
    """Random walks: every answer is the reference store's."""
    PostgresMachine.server, PostgresMachine.engine = server, engine
    case = PostgresMachine.TestCase
    case.settings = settings(
        max_examples=8, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
    )
    case().runTest()


@pytest.fixture
def store(server: PostgresServer, engine: Engine) -> Iterator[SqlStore]:
    empty(engine)
    made = SqlStore(server.url())
    yield made
    made.close()


def test_ids_given_and_not_yet_seen_count_as_open(store: SqlStore, engine: Engine) -> None:
    """Between nextval and its commit another client's id is a gap; rolled back it is one for a while."""
    (first,) = store.open_txns(CLIENT)
    with engine.connect() as slow, engine.connect() as broken:
        for connection in (slow, broken):
            connection.execute(text(INSERT))
        (last,) = store.open_txns(CLIENT)
        for txn_id in (first, last):
            store.commit_txn(txn_id)
        assert store.valid_txns() == ValidTxnList(TxnId(4), (TxnId(2), TxnId(3)))
        assert store.min_open_txn_id() == 2
        (reader,) = store.open_txns(CLIENT)
        assert store.take_snapshot(reader) == ValidTxnList(TxnId(5), (TxnId(2), TxnId(3), TxnId(5)))
        slow.commit()
        broken.rollback()
    assert store.valid_txns() == ValidTxnList(TxnId(5), (TxnId(2), TxnId(3), TxnId(5)))
    store.abort_txns([TxnId(2)], "done")
    assert store.min_open_txn_id() == 3
    store.housekeep()
    assert store.valid_txns() == ValidTxnList(TxnId(5), (TxnId(5),), (TxnId(2),))
    assert store.min_open_txn_id() == 5


INSERT = """INSERT INTO hiveacid_txns
    (kind, state, started, heartbeat, moment, min_open, user_name, host, agent)
    VALUES ('default', 'open', 0, 9999999999999, 0, 1, '', '', '')"""


def test_housekeeping_waits_for_whoever_is_just_opening(store: SqlStore, engine: Engine) -> None:
    """Else it might drop what that transaction is about to need."""
    with engine.connect() as slow:
        slow.execute(text(INSERT))
        keeper = threading.Thread(target=store.housekeep)
        keeper.start()
        keeper.join(0.5)
        assert keeper.is_alive()
        slow.commit()
    keeper.join(30)
    assert not keeper.is_alive()
    assert store.valid_txns().open == (1,)


def test_snapshots_look_at_few_ids(store: SqlStore, engine: Engine) -> None:
    """The floor below which no gap can be follows the ids."""
    store.open_txns(CLIENT, 1000)
    store.valid_txns()
    with engine.connect() as connection:
        settled = connection.scalar(text("SELECT value FROM hiveacid_counters WHERE name = 'settled'"))
    assert settled == 1000
    assert store.valid_txns().open == tuple(range(1, 1001))


def test_the_time_is_the_servers(server: PostgresServer, engine: Engine) -> None:
    """A client with a wrong clock neither ages nor refreshes a transaction."""
    empty(engine)
    store = SqlStore(server.url(), clock=ManualClock(5), txn_timeout=0.3)
    (txn_id,) = store.open_txns(CLIENT)
    with engine.connect() as connection:
        now = connection.scalar(text("SELECT extract(epoch FROM clock_timestamp()) * 1000"))
    (row,) = store.show_transactions()
    assert abs(row.started - float(now)) < 60_000
    assert store.abort_timed_out() == ()
    time.sleep(0.4)
    assert store.abort_timed_out() == (txn_id,)
    store.close()


def at_once(verbs: list[Callable[[], object]]) -> list[object]:
    """Run verbs in threads that start together; return answers or errors."""
    barrier = threading.Barrier(len(verbs))
    answers: list[object] = [None] * len(verbs)

    def run(place: int) -> None:
        barrier.wait()
        try:
            answers[place] = verbs[place]()
        except WriteConflictError as error:
            answers[place] = error

    threads = [threading.Thread(target=run, args=(place,)) for place in range(len(verbs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return answers


@pytest.mark.parametrize("kind", [LockType.EXCLUSIVE, LockType.EXCL_WRITE])
def test_requests_at_the_same_moment(store: SqlStore, kind: LockType) -> None:
    """One of them gets the lock, on a table and between a table and its database."""
    for turn in range(10):
        txn_ids = store.open_txns(CLIENT, 4)
        where = [None, "orders", "orders", "orders"] if turn % 2 else ["orders"] * 4
        wanted = [lock_on(kind, name) for name in where]
        answers = at_once(
            [
                lambda t=txn_id, w=one: store.lock(t, [w]).state
                for txn_id, one in zip(txn_ids, wanted, strict=True)
            ]
        )
        assert sorted(map(str, answers)) == [LockState.ACQUIRED, *[LockState.WAITING] * 3]
        store.abort_txns(txn_ids, "next")


def test_commits_at_the_same_moment(store: SqlStore) -> None:
    """One wins; nobody is lost, nobody hangs."""
    for _ in range(10):
        txn_ids = store.open_txns(CLIENT, 4)
        for txn_id in txn_ids:
            store.take_snapshot(txn_id)
            store.add_written(txn_id, [wrote(ORDERS, Operation.UPDATE)])
        answers = at_once([lambda t=txn_id: store.commit_txn(t) for txn_id in txn_ids])
        assert sum(answer is None for answer in answers) == 1
        assert sum(isinstance(answer, WriteConflictError) for answer in answers) == 3


def test_one_transaction_asks_twice_at_once(store: SqlStore) -> None:
    """For its write id: it is the same one."""
    for turn in range(1, 6):
        (txn_id,) = store.open_txns(CLIENT)
        answers = at_once([lambda t=txn_id: store.allocate_write_ids([t], ORDERS)] * 4)
        assert answers == [(turn,)] * 4


def test_jobs_are_claimed_once(store: SqlStore) -> None:
    """By several workers at the same moment."""
    for p in range(4):
        store.enqueue_compaction(CompactionRequest(ORDERS, f"p={p}", "minor"), "x")
    answers = at_once([lambda: store.claim_compaction("w")] * 6)
    assert sorted(one.id for one in answers if one is not None) == [1, 2, 3, 4]  # type: ignore[attr-defined]
    request = CompactionRequest(ORDERS, None, "major")
    refused = at_once([lambda: _refused(store, request)] * 4)
    assert sorted(map(bool, refused)) == [False, True, True, True]


def _refused(store: SqlStore, request: CompactionRequest) -> bool:
    try:
        store.enqueue_compaction(request, "x")
    except Exception as error:  # noqa: BLE001 - the kind is looked at
        return "already scheduled" in str(error)
    return False


def test_processes(server: PostgresServer, engine: Engine) -> None:
    """Six of them: no id twice, no gap, no lost conflict, no dirty read."""
    empty(engine)
    history = run_clients(server.url(), processes=6, transactions=20)
    assert len(history) == 120
    assert anomalies(history) == []
    assert needless_conflicts(history) == []
    assert {one["outcome"] for one in history} == {"committed", "aborted", "conflict"}


def test_a_restarted_server(server: PostgresServer, store: SqlStore, engine: Engine) -> None:
    """Connections that broke are made anew; transactions go on where they were."""
    (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.DEFAULT)
    store.take_snapshot(txn_id)
    for how in (signal.SIGINT, signal.SIGQUIT):
        server.stop(how)
        starter = threading.Timer(0.5, server.start)
        starter.start()
        assert store.txn_state(txn_id) == "open"
        starter.join()
        store.heartbeat([txn_id])
    store.commit_txn(txn_id)
    assert store.txn_state(txn_id) == "committed"
    engine.dispose()


def test_a_server_that_is_not_there_and_one_that_says_no(server: PostgresServer) -> None:
    """A retryable error of ours, without the password."""
    for url in (server.url(password="wr0ng/" + PASSWORD), server.url("nosuchdatabase")):
        with pytest.raises(StoreUnavailableError) as caught:
            SqlStore(url)
        said = str(caught.value)
        assert PASSWORD not in said
        assert "wr0ng" not in said
        assert "***" in said
