"""What holds on every database server, with real connections and processes."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from histories import anomalies, history, needless_conflicts, run_clients
from hypothesis import HealthCheck, settings
from sqlalchemy import Connection, Engine, create_engine, event, text
from sqlalchemy.exc import DBAPIError

from hiveacid.config import Settings
from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import Partition, TableName, TxnId
from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.errors import (
    HiveAcidError,
    StoreUnavailableError,
    StoreVersionError,
    TransactionAbortedError,
    WriteConflictError,
)
from hiveacid.ports.clock import Clock, SystemClock
from hiveacid.ports.transactions import Begun, Operation, Start, TxnKind
from hiveacid.stores import refusals
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.schema import METADATA
from hiveacid.stores.sql.store import MIGRATIONS, SqlStore, migrate
from support.clock import ManualClock
from support.contract.figures import require_figures_in_an_older_store
from support.contract.given_again import require_that_ids_of_others_are_safe
from support.contract.suites import CatalogContract, TransactionStoreContract
from support.exhaustive import examples
from support.samples import CLIENT, ORDERS, Store, database, lock_on, table, wrote
from support.servers.databases import PASSWORD, Server
from support.store_machine import StoreMachine

SERIALS = ("hiveacid_txns", "hiveacid_lock_requests", "hiveacid_compactions")
USED = """SELECT table_name FROM information_schema.tables
    WHERE table_schema = DATABASE() AND auto_increment > 1 AND table_name <> 'hiveacid_txns'"""
_KEPT = ("hiveacid_schema", "hiveacid_counters")


# What a full disk does to the next transaction: the server's own error, by whatever runs out at once.
FULL = {
    "psycopg": (
        """CREATE FUNCTION fill() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN COPY (SELECT repeat('x', 100000)) TO '/dev/full'; RETURN NEW; END $$""",
        "CREATE TRIGGER fill BEFORE INSERT ON hiveacid_txns FOR EACH ROW EXECUTE FUNCTION fill()",
    ),
    "pymysql": (
        "CREATE TABLE small (a CHAR(250)) ENGINE=MEMORY MAX_ROWS=1",
        """CREATE TRIGGER fill BEFORE INSERT ON hiveacid_txns FOR EACH ROW
            INSERT INTO small SELECT repeat('x', 250) FROM information_schema.collations a, information_schema.collations b""",
    ),
}
ROOM = {
    "psycopg": ("DROP TRIGGER fill ON hiveacid_txns", "DROP FUNCTION fill"),
    "pymysql": ("DROP TRIGGER fill", "DROP TABLE small"),
}


class Place:
    """A database on a server: how to reach it, and how to empty it between tests."""

    def __init__(self, server: Server, name: str) -> None:
        self.server = server
        self.name = name
        self.url = server.make_database(name)
        SqlStore(self.url).close()
        self.engine: Engine = create_engine(self.url, connect_args=_secret(server))
        self._statements = [
            f"DELETE FROM {table.name}"
            for table in reversed(METADATA.sorted_tables)
            if table.name not in _KEPT
        ]
        self._statements.append("UPDATE hiveacid_counters SET value = 0")

    def empty(self) -> None:
        """Bring the schema back to its first day."""
        with self.engine.begin() as connection:
            for statement in (*self._statements, *self._restarts(connection)):
                connection.exec_driver_sql(statement)

    def _restarts(self, connection: Connection) -> list[str]:
        """Return what lets ids begin at 1 again; where that is slow, for tables that gave some out."""
        if self.server.driver == "psycopg":
            return [f"ALTER TABLE {name} ALTER COLUMN id RESTART" for name in SERIALS]
        used = connection.scalars(text(USED)).all()
        return [f"ALTER TABLE {name} AUTO_INCREMENT = 1" for name in used if name in SERIALS]


def _secret(server: Server) -> dict[str, object]:
    return {"password": PASSWORD.encode()} if server.driver == "pymysql" else {}


class ServerContract(TransactionStoreContract, CatalogContract):
    """The contract, on a database that a subclass gives as the fixture ``place``."""

    @pytest.fixture
    def store(self, clock: ManualClock, place: Place) -> Iterator[SqlStore]:
        place.empty()
        made = SqlStore(place.url, clock=clock, server_time=False)
        yield made
        made.close()


def prepare_nothing_in(store: SqlStore) -> None:
    """Keep psycopg from preparing statements: it drops all of them after a ROLLBACK, ours of pipelines too.

    The next pipeline then has to be sent twice, and the ids of the first time are lost: a gap that the model does not have.
    """

    def prepare_nothing(driver: Any, _: object = None) -> None:
        driver.prepare_threshold = None

    engine = store._database._engine
    event.listen(engine, "connect", prepare_nothing)
    with engine.connect() as connection:
        prepare_nothing(connection.connection.driver_connection)


def walk(place: Place) -> None:
    """Walk at random: every answer is the reference store's."""

    class Machine(StoreMachine):
        def make_store(self, clock: Clock) -> Store:
            place.empty()
            self.opened = SqlStore(place.url, clock=clock, server_time=False)
            prepare_nothing_in(self.opened)
            return self.opened

        def teardown(self) -> None:
            self.opened.close()

    case = Machine.TestCase
    case.settings = settings(
        max_examples=examples(8),
        stateful_step_count=30,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case().runTest()


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
        thread.join(300)
    return answers


def _refused(store: SqlStore, request: CompactionRequest) -> bool:
    return _refused_with("already scheduled", lambda: store.enqueue_compaction(request, "x"))


def _refused_with(words: str, verb: Callable[[], object]) -> bool:
    try:
        verb()
    except HiveAcidError as error:
        return words in str(error)
    return False


def committed(store: SqlStore, txn_id: TxnId, batch: StreamBatch) -> bool:
    try:
        store.commit_txn(txn_id, batch=batch)
    except TransactionAbortedError:
        return False
    return True


class _OutageClock(ManualClock):
    """A clock whose sleepers wait, in its own time, until a server that was stopped is started again."""

    def __init__(self, server: Server, outage: float) -> None:
        super().__init__()
        self._server = server
        self._outage = outage
        self._until: int | None = None

    def stop(self, outage: float | None = None) -> None:
        """Stop the server for so many seconds of this clock."""
        self._server.stop(signal.SIGQUIT)
        self._until = self.now() + int(1000 * (outage or self._outage))

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self._until is not None and self.now() >= self._until:
            self._until = None
            self._server.start()


class ServerRules:
    """What the contract cannot show: several at once, the server's own time, a server that goes away."""

    @pytest.fixture
    def store(self, place: Place) -> Iterator[SqlStore]:
        place.empty()
        made = SqlStore(place.url)
        yield made
        made.close()

    def test_walks(self, place: Place) -> None:
        walk(place)

    def test_the_time_is_the_servers(self, place: Place) -> None:
        """A client with a wrong clock neither ages nor refreshes a transaction."""
        place.empty()
        store = SqlStore(place.url, clock=ManualClock(5), txn_timeout=60)
        hasty = SqlStore(place.url, clock=ManualClock(5), txn_timeout=0.3)
        (txn_id,) = hasty.open_txns(CLIENT)
        (row,) = store.show_transactions()
        store.open_txns(CLIENT)
        assert abs(row.started - time.time() * 1000) < 60_000  # the server runs on this machine
        time.sleep(0.4)
        assert store.abort_timed_out() == (txn_id,)
        for one in (store, hasty):
            one.close()

    @pytest.mark.parametrize("kind", [LockType.EXCLUSIVE, LockType.EXCL_WRITE])
    def test_requests_at_the_same_moment(self, store: SqlStore, kind: LockType) -> None:
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

    def test_commits_at_the_same_moment(self, store: SqlStore) -> None:
        """One wins; nobody is lost, nobody hangs."""
        for _ in range(10):
            txn_ids = store.open_txns(CLIENT, 4)
            for txn_id in txn_ids:
                store.take_snapshot(txn_id)
                store.add_written(txn_id, [wrote(ORDERS, Operation.UPDATE)])
            answers = at_once([lambda t=txn_id: store.commit_txn(t) for txn_id in txn_ids])
            assert sum(answer is None for answer in answers) == 1
            assert sum(isinstance(answer, WriteConflictError) for answer in answers) == 3

    def test_writers_of_a_stream_at_the_same_moment(self, store: SqlStore) -> None:
        """Each has an epoch of its own, and of batches that are committed at once one goes in: the newest writer's."""
        stream = StreamKey(ORDERS, "clicks")
        for turn in range(10):
            epochs = at_once(
                [
                    lambda w=f"{turn}-{one}": store.register_stream(stream, w, "check").epoch
                    for one in range(4)
                ]
            )
            newest = turn * 4 + 4
            assert set(epochs) == set(range(newest - 3, newest + 1))
            txn_ids = store.open_txns(CLIENT, 8)
            numbers = [epoch for epoch in epochs if isinstance(epoch, int)] * 2
            batches = [StreamBatch(stream, "check", epoch, turn) for epoch in numbers]
            ends = at_once(
                [
                    lambda t=txn, b=one: committed(store, t, b)
                    for txn, one in zip(txn_ids, batches, strict=True)
                ]
            )
            assert [epoch for epoch, end in zip(numbers, ends, strict=True) if end] == [newest]

    def test_one_transaction_asks_twice_at_once(self, store: SqlStore) -> None:
        """For its write id: it is the same one."""
        for turn in range(1, 6):
            (txn_id,) = store.open_txns(CLIENT)
            answers = at_once([lambda t=txn_id: store.allocate_write_ids([t], ORDERS)] * 4)
            assert answers == [(turn,)] * 4

    def test_tables_made_at_the_same_moment(self, store: SqlStore) -> None:
        """In one place: one of them is there."""
        store.create_database(database())
        for turn in range(5):
            names = [TableName("shop", f"t{turn}_{number}") for number in range(4)]
            places = [f"file:/wh/{turn}", f"file:/wh/{turn}/in/it", f"file:/wh/{turn}", f"file:/wh/{turn}/in"]
            answers = at_once(
                [
                    lambda n=name, p=place: _refused_with(
                        "is not free", lambda: store.create_table(table(n, p))
                    )
                    for name, place in zip(names, places, strict=True)
                ]
            )
            assert sorted(map(bool, answers)) == [False, True, True, True]

    def test_a_writer_that_begins_while_a_partition_is_added(self, store: SqlStore, place: Place) -> None:
        """At whatever statement it begins, its write id is not below those that the partition shows."""
        store.create_database(database())
        store.create_table(table())
        other = SqlStore(place.url)
        start = Start((lock_on(LockType.SHARED_WRITE, "orders"),), (ORDERS,), (ORDERS,))
        statements = begin_at = 0
        begun: list[Begun] = []

        def begin_between(*_: object) -> None:
            nonlocal statements
            statements += 1
            if statements == begin_at:
                begun.append(other.begin_txn(CLIENT, start))

        event.listen(store._database._engine, "before_cursor_execute", begin_between)
        try:
            while statements >= begin_at:
                statements, begin_at = 0, begin_at + 1
                begun.clear()
                partition = Partition(("2026-01-01", str(begin_at)), f"/warehouse/{begin_at}")
                store.add_partitions(ORDERS, [partition])
                for one in begun:  # `other` asks, whose statements do not count
                    lowest = {p.values: p.min_write_id for p in other.list_partitions(ORDERS)}
                    assert lowest[partition.values] <= one.allocated[ORDERS]
                    other.abort_txns([one.txn_id], "test")
            assert begin_at > 3
        finally:
            other.close()

    def test_jobs_are_claimed_once(self, store: SqlStore) -> None:
        """By several workers at the same moment."""
        for p in range(4):
            store.enqueue_compaction(CompactionRequest(ORDERS, f"p={p}", "minor"), "x")
        answers = at_once([lambda: store.claim_compaction("w")] * 6)
        assert sorted(one.id for one in answers if one is not None) == [1, 2, 3, 4]  # type: ignore[attr-defined]
        request = CompactionRequest(ORDERS, None, "major")
        refused = at_once([lambda: _refused(store, request)] * 4)
        assert sorted(map(bool, refused)) == [False, True, True, True]

    def test_processes(self, place: Place) -> None:
        """Six of them: no id twice, no gap, no lost conflict, no dirty read."""
        place.empty()
        found = run_clients(place.url, processes=6, transactions=20)
        assert len(found) == 120
        assert anomalies(found) == []
        assert needless_conflicts(found) == []
        assert {one["outcome"] for one in found} == {"committed", "aborted", "conflict"}

    def test_a_history(self, place: Place) -> None:
        """Clients are killed, stopped and cut off; what they saw is what snapshot isolation allows."""
        url = place.server.make_database(f"{place.name}_history")
        code, said = history(url, "--transactions", "150", "--clients", "5")
        assert code == 0, said
        assert "no anomaly" in said

    def test_the_schema_is_made_once(self, place: Place) -> None:
        """Whoever comes first."""
        url = place.server.make_database(f"{place.name}_fresh")
        stores = at_once([lambda: SqlStore(url)] * 6)
        assert all(isinstance(one, SqlStore) for one in stores)
        stores[0].open_txns(CLIENT)  # type: ignore[attr-defined]
        for one in stores:
            one.close()  # type: ignore[attr-defined]

    def test_an_older_schema_is_brought_up_once(self, place: Place) -> None:
        """By whoever comes first of several that start at once; what it holds is there afterwards."""
        url = place.server.make_database(f"{place.name}_older")
        database = Database(url, SystemClock())
        migrate(database, MIGRATIONS)
        database.write(
            lambda connection: connection.execute(text("INSERT INTO hiveacid_done VALUES ('a', 1)"))
        )
        step = ("CREATE TABLE more (a {key}){options}", "ALTER TABLE hiveacid_done ADD COLUMN more BIGINT")
        newer = (*MIGRATIONS, step)
        others = [Database(url, SystemClock()) for _ in range(4)]
        assert at_once([lambda d=one: migrate(d, newer) for one in others]) == [None] * 4
        found = text("SELECT (SELECT max(version) FROM hiveacid_schema), (SELECT mark FROM hiveacid_done)")
        assert database.read(lambda connection: connection.execute(found).one()) == (len(newer), "a")
        with pytest.raises(StoreVersionError, match="a newer version of hiveacid made it"):
            SqlStore(url)
        for one in (database, *others):
            one.close()

    def test_a_store_without_figures_gets_them(self, place: Place) -> None:
        """One of the version before: its tables, its transactions and its counters stay, and of six services one records."""
        url = place.server.make_database(f"{place.name}_figures")
        require_figures_in_an_older_store(url)
        stores = [SqlStore(url) for _ in range(6)]
        assert at_once([lambda one=one: one.claim_figures(3600.0, 86_400.0) for one in stores]) == [False] * 6
        stores[0]._database.write(
            lambda connection: connection.execute(
                text("UPDATE hiveacid_counters SET value = 0 WHERE name = 'figures'")
            )
        )
        assert sorted(
            map(str, at_once([lambda one=one: one.claim_figures(3600.0, 86_400.0) for one in stores]))
        ) == [
            *["False"] * 5,
            "True",
        ]
        for one in stores:
            one.close()

    def test_more_than_a_thousand_ids_at_once(self, place: Place) -> None:
        """Servers stop a recursion after a thousand turns, if they are not told otherwise."""
        store = SqlStore(place.url, limits=replace(Limits.of(Settings()), max_open_batch=3000))
        assert len(store.open_txns(CLIENT, 3000)) == 3000
        store.close()

    def test_ids_given_out_again_after_a_failover(self, store: SqlStore, place: Place) -> None:
        """To a replica that did not have the latest transactions; a role may restore a database, too."""
        other = SqlStore(place.url)
        require_that_ids_of_others_are_safe(store, other, place.empty)
        other.close()

    def test_of_two_changes_of_a_definition_at_once_one_is_refused(
        self, store: SqlStore, place: Place, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Both have seen it as it was before: each of the clients lost its lock while it was paused."""
        store.create_database(database())
        store.create_table(table())
        seen, compare, met = store.get_table(ORDERS), refusals.require_same_table, threading.Barrier(2)

        def compare_together(*given: Any) -> None:
            compare(*given)
            with suppress(threading.BrokenBarrierError):  # the other one waits for the row
                met.wait(1.0)

        monkeypatch.setattr(refusals, "require_same_table", compare_together)
        other = SqlStore(place.url)

        def change(client: SqlStore, key: str) -> bool:
            assert seen is not None
            try:
                client.alter_table(ORDERS, seen.with_properties({key: "v"}), seen=seen)
            except WriteConflictError:
                return False
            return True

        changed = at_once([lambda: change(store, "a"), lambda: change(other, "b")])
        assert sorted(changed) == [False, True]
        other.close()

    def test_changes_of_thousands_of_partitions(self, place: Place) -> None:
        """They are compared with thousands of others at once: no statement takes so long that the server counts as lost."""
        store = SqlStore(place.url, txn_timeout=20)
        start = Start((lock_on(LockType.SHARED_WRITE, "orders"),), (ORDERS,), (ORDERS,))
        changes = [wrote(ORDERS, Operation.UPDATE, f"p={number}") for number in range(6000)]
        for _ in range(2):
            store.commit_txn(store.begin_txn(CLIENT, start).txn_id, written=changes)
        one, two = store.begin_txn(CLIENT, start), store.begin_txn(CLIENT, start)
        store.commit_txn(one.txn_id, written=changes[:3000])
        overwrites = [replace(write, replaced=True) for write in changes[3000:-1]]
        store.commit_txn(two.txn_id, written=overwrites)
        three, four = store.begin_txn(CLIENT, start), store.begin_txn(CLIENT, start)
        store.commit_txn(four.txn_id, written=overwrites)
        with pytest.raises(
            WriteConflictError, match=f"transaction {four.txn_id} overwrote shop/orders/p=4000"
        ):
            store.commit_txn(three.txn_id, written=[wrote(ORDERS, Operation.INSERT, "p=4000")])
        lost_connections = store._database._generation
        assert lost_connections == 0
        store.close()

    def test_a_full_disk(self, store: SqlStore, place: Place) -> None:
        """The server says so; nothing of the verb happened, and it works again as soon as there is room."""
        (txn_id,) = store.open_txns(CLIENT)
        with place.engine.begin() as connection:
            for statement in FULL[place.server.driver]:
                connection.exec_driver_sql(statement)
        with pytest.raises(StoreUnavailableError, match=r"[Nn]o space left|is full") as caught:
            store.open_txns(CLIENT)
        assert caught.value.retryable
        with pytest.raises(StoreUnavailableError):
            store.begin_txn(CLIENT)
        with place.engine.begin() as connection:
            for statement in ROOM[place.server.driver]:
                connection.exec_driver_sql(statement)
        assert store.valid_txns().open == (txn_id,)
        store.commit_txn(txn_id)
        assert len(store.open_txns(CLIENT)) == 1

    def test_the_victim_of_a_deadlock_is_tried_again(self, store: SqlStore, place: Place) -> None:
        """It holds the counter of commits and wants a transaction's row, another one the other way round."""
        begun = store.begin_txn(CLIENT)
        rows = (
            text(f"SELECT id FROM hiveacid_txns WHERE id = {begun.txn_id} FOR UPDATE"),
            text("SELECT value FROM hiveacid_counters WHERE name = 'commit sequence' FOR UPDATE"),
        )
        first, second = rows if place.server.driver == "psycopg" else reversed(rows)
        change = [wrote(ORDERS, Operation.UPDATE, "p=1")]
        committer = threading.Thread(target=lambda: store.commit_txn(begun.txn_id, written=change))
        with place.engine.connect() as connection:
            connection.execute(first)
            committer.start()
            time.sleep(0.3)
            with suppress(DBAPIError):  # it may be the victim itself
                connection.execute(second)
            connection.rollback()
        committer.join(300)
        assert store.txn_state(begun.txn_id) == "committed"

    def test_a_restarted_server(self, place: Place, store: SqlStore) -> None:
        """Connections that broke are made anew; transactions go on where they were."""
        (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.DEFAULT)
        store.take_snapshot(txn_id)
        for how in (signal.SIGINT, signal.SIGQUIT):
            place.server.stop(how)
            starter = threading.Timer(0.5, place.server.start)
            starter.start()
            assert store.txn_state(txn_id) == "open"
            starter.join()
            store.heartbeat([txn_id])
        store.commit_txn(txn_id)
        assert store.txn_state(txn_id) == "committed"
        place.engine.dispose()

    def test_an_outage_shorter_than_the_timeout_of_the_transaction(self, place: Place) -> None:
        """A statement goes on after 200 s without a server, and gives up shortly before its 300 s are over."""
        clock = _OutageClock(place.server, 200)
        store = SqlStore(place.url, clock=clock)
        begun = store.begin_txn(CLIENT, Start(writes=(ORDERS,)))
        clock.stop()
        store.commit_txn(begun.txn_id, written=[wrote(ORDERS, Operation.INSERT)])
        assert store.txn_state(begun.txn_id) == "committed"
        store.begin_txn(CLIENT)
        clock.stop(1_000_000)
        stopped = clock.now()
        with pytest.raises(StoreUnavailableError):
            store.get_database("shop")
        assert 265_000 <= clock.now() - stopped <= 275_000
        with pytest.raises(StoreUnavailableError):
            store.list_databases()
        assert clock.now() - stopped <= 300_000
        place.server.start()
        store.close()
        place.engine.dispose()

    def test_a_server_that_says_no(self, place: Place) -> None:
        """An error of ours, without the password."""
        server = place.server
        for url in (server.url(password="wr0ng/" + PASSWORD), server.url("nosuchdatabase")):
            with pytest.raises(StoreUnavailableError) as caught:
                SqlStore(url)
            said = str(caught.value)
            assert PASSWORD not in said
            assert "wr0ng" not in said
            assert "***" in said

    def test_a_server_that_became_read_only(self, store: SqlStore, place: Place) -> None:
        """After a failover the old connections may still lead to the former writer; a new one leads to the present one."""
        read_only = {
            "psycopg": "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY",
            "pymysql": "SET SESSION TRANSACTION READ ONLY",
        }
        with store._database._engine.connect() as connection:
            store.valid_txns()  # on a second connection
            connection.exec_driver_sql(read_only[place.server.driver])
        begun = store.begin_txn(CLIENT, Start((), (), (ORDERS,)))
        with store._database._engine.connect() as connection:
            connection.exec_driver_sql(read_only[place.server.driver])
        store.commit_txn(begun.txn_id, written=[wrote(ORDERS, Operation.UPDATE)])
        assert store.txn_state(begun.txn_id) == "committed"

    def test_odd_texts_are_kept_and_told_apart(self, store: SqlStore, place: Place) -> None:
        """Case, accents, trailing blanks, emoji: no collation of the database blurs them."""
        names = ["p=a", "p=A", "p=á", "p=a ", "p=\U0001f37a", "p=ß", "p=ss", "p=';--"]
        for name in names:
            (one, two) = store.open_txns(CLIENT, 2)
            for txn_id in (one, two):
                store.take_snapshot(txn_id)
            store.add_written(one, [wrote(ORDERS, Operation.UPDATE, name)])
            store.add_written(two, [wrote(ORDERS, Operation.UPDATE, n) for n in names if n != name])
            store.commit_txn(one)
            store.commit_txn(two)
        with place.engine.connect() as connection:
            found = connection.scalars(text("SELECT DISTINCT partition_name FROM hiveacid_written")).all()
        assert sorted(found) == sorted(names)
