"""The SQL store on a real PostgreSQL passes the contract, and what is special about it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from random import Random

import psycopg
import pytest
from server_rules import Place, ServerContract, ServerRules, prepare_nothing_in
from sqlalchemy import event, select, text

from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import OperationSummary, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockType
from hiveacid.errors import HiveAcidError
from hiveacid.ports.transactions import Begun, Operation, Start, TxnKind, Written
from hiveacid.stores.sql.dialects.dialect import Step
from hiveacid.stores.sql.schema import METADATA
from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, database, table, wrote
from support.servers.databases import Server

END_IDLE = "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE state = 'idle in transaction'"


@pytest.fixture(scope="module")
def place(postgres_server: Server) -> Place:
    return Place(postgres_server, "contract")


class TestPostgres(ServerContract):
    pass


class TestPostgresServer(ServerRules):
    pass


@pytest.fixture
def store(place: Place) -> Iterator[SqlStore]:
    place.empty()
    made = SqlStore(place.url)
    yield made
    made.close()


def test_ids_given_and_not_yet_seen_count_as_open(store: SqlStore, place: Place) -> None:
    """Between nextval and its commit another client's id is a gap; rolled back it is one for a while."""
    (first,) = store.open_txns(CLIENT)
    with place.engine.connect() as slow, place.engine.connect() as broken:
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
    (kind, state, started, heartbeat, timeout, moment, min_open, user_name, host, agent)
    VALUES ('default', 'open', 0, 9999999999999, 300000, 0, 1, '', '', '')"""


def test_housekeeping_waits_for_whoever_is_just_opening(store: SqlStore, place: Place) -> None:
    """Else it might drop what that transaction is about to need."""
    with place.engine.connect() as slow:
        slow.execute(text(INSERT))
        keeper = threading.Thread(target=store.housekeep)
        keeper.start()
        keeper.join(0.5)
        assert keeper.is_alive()
        slow.commit()
    keeper.join(300)
    assert not keeper.is_alive()
    assert store.valid_txns().open == (1,)


def test_the_last_id_waits_for_whoever_is_just_opening(store: SqlStore, place: Place) -> None:
    """That transaction may have an older snapshot: the cleaner has to wait for it, too."""
    found: list[TxnId] = []
    with place.engine.connect() as slow:
        slow.execute(text(INSERT))
        asker = threading.Thread(target=lambda: found.append(store.last_txn_id()))
        asker.start()
        asker.join(0.5)
        assert asker.is_alive()
        slow.commit()
    asker.join(300)
    assert found == [1]


def test_slow_paths_make_no_create_table_impossible(store: SqlStore, place: Place) -> None:
    """The server ends a session that idles in a transaction, here whenever a path is resolved; the next try knows the path."""
    store.create_database(database())
    store.create_table(table())

    def slow_paths() -> Callable[[str], str]:
        def resolve(path: str) -> str:
            with place.engine.connect() as connection:
                connection.execute(text(END_IDLE))
            return path

        return resolve

    slow = SqlStore(place.url, real_paths=slow_paths)
    try:
        slow.create_table(table(STOCK, "file:/elsewhere"))
    finally:
        slow.close()
    assert store.list_tables("shop") == ("orders", "stock")


def test_snapshots_look_at_few_ids(store: SqlStore, place: Place) -> None:
    """The floor below which no gap can be follows the ids."""
    store.open_txns(CLIENT, 1000)
    store.valid_txns()
    with place.engine.connect() as connection:
        settled = connection.scalar(text("SELECT value FROM hiveacid_counters WHERE name = 'settled'"))
    assert settled == 1000
    assert store.valid_txns().open == tuple(range(1, 1001))


def test_the_id_of_an_aborted_writer_is_looked_up_by_its_transaction(store: SqlStore, place: Place) -> None:
    """Not from the table's lowest id on, which took 20 seconds for ten thousand of them."""
    txn_ids = store.open_txns(CLIENT, 1000)
    store.allocate_write_ids(txn_ids, STOCK)
    with place.engine.begin() as connection:
        connection.execute(text(WRITTEN), {"database": STOCK.database, "name": STOCK.name})
    store.abort_txns(txn_ids, "no")
    said: list[tuple[str, object]] = []
    event.listen(
        store._database._engine, "before_cursor_execute", lambda *call: said.append((call[2], call[3]))
    )
    store.forget_aborted(STOCK, None, WriteId(1000))
    (query,) = (one for one in said if one[0].startswith("SELECT hiveacid_written.txn_id"))
    with place.engine.connect() as connection:
        # Tables that the database has analysed meanwhile, empty as they now are, would be read whole.
        connection.exec_driver_sql("SET enable_seqscan = off")
        plan = connection.exec_driver_sql(f"EXPLAIN {query[0]}", query[1]).scalars().all()  # type: ignore[arg-type]
    assert "hiveacid_write_ids_once" in "\n".join(plan)
    assert "hiveacid_write_ids_pkey" not in "\n".join(plan)
    assert store.aborted_write_ids(STOCK) == ()


WRITTEN = """INSERT INTO hiveacid_written (txn_id, database_name, table_name, operation)
    SELECT id, :database, :name, 'i' FROM hiveacid_txns"""


def test_partitions_of_two_large_changes_are_not_compared_each_with_each(
    store: SqlStore, place: Place
) -> None:
    """A join of 10,000 with 10,000 took 35 seconds, once the planner thought it small."""
    sent: list[Step] = []
    dialect = store._database.dialect
    run = dialect.pipeline
    dialect.pipeline = lambda connection, steps: sent.extend(steps) or run(connection, steps)  # type: ignore[method-assign, func-returns-value]
    for number in range(3):
        txns = [store.begin_txn(CLIENT, Start((), (ORDERS,), (ORDERS,))).txn_id for _ in "ab"]
        for txn_id in txns:
            changes = [wrote(ORDERS, Operation.UPDATE, f"{txn_id}={part}") for part in range(1000)]
            sent.clear()
            store.commit_txn(txn_id, written=changes)
        statement, parameters = sent[-1]
        with psycopg.connect(place.url.replace("+psycopg", "")) as connection:
            plan = [row[0] for row in connection.execute(f"EXPLAIN {statement}", parameters)]  # type: ignore[call-overload]
        assert any("SetOp Intersect" in line for line in plan), number
        assert store.txn_state(txns[1]) == "committed"


def random_calls(store: SqlStore, clock: ManualClock, seed: int) -> list[str]:
    """Begin, write, commit and abort at random; return all answers and what the tables hold at the end."""
    random, calls = Random(seed), list[str]()
    names, partitions = (ORDERS, STOCK), (None, "p=1", "p=2")
    opened: list[tuple[TxnId, TableName]] = []

    def ask(what: Callable[[], object]) -> object:
        try:
            answer: object = what()
        except HiveAcidError as error:
            answer = f"{type(error).__name__}: {error}"
        calls.append(str(answer))
        return answer

    def written() -> list[Written]:
        kinds = random.choice(((Operation.INSERT,), tuple(Operation), (Operation.UPDATE,)))
        replaced = kinds == (Operation.UPDATE,)  # an overwrite
        return [
            Written(name, random.choice(partitions), random.choice(kinds), replaced=replaced)
            for _ in range(random.randrange(4))
        ]

    for _ in range(160):
        clock.advance(1)
        if random.random() < 0.45 or not opened:
            name = random.choice(names)
            lock = LockComponent(
                random.choices(tuple(LockType), (4, 5, 2, 1))[0],
                name.database,
                name.name,
                random.choice(partitions),
            )
            start = Start((lock,) * random.randrange(2), (name,), (name,) * random.randrange(2))
            kind = TxnKind.DEFAULT if start.locks or start.writes else TxnKind.READ_ONLY
            begun = ask(lambda start=start, kind=kind: store.begin_txn(CLIENT, start, kind))  # type: ignore[misc]
            opened += [(begun.txn_id, name)] if isinstance(begun, Begun) else []
            continue
        txn_id, name = random.choice(opened)
        changes, told = written(), [TableOperation(name, OperationSummary("INSERT"))] * random.randrange(2)
        match random.randrange(8):
            case 0:
                ask(lambda: store.abort_txns([txn_id], "done"))  # noqa: B023 - called at once
            case 1 | 2:
                ask(lambda: store.add_written(txn_id, changes))  # noqa: B023 - called at once
            case _:
                ask(lambda: store.commit_txn(txn_id, written=changes, operations=told))  # noqa: B023 - called at once
    with store._database._engine.connect() as connection:
        for kept in METADATA.sorted_tables:
            rows = connection.execute(select(kept)).mappings()
            calls += [f"{kept}: {row}" for row in sorted(str(dict(row) | {"mark": None}) for row in rows)]
    return calls


def test_the_pipeline_does_what_the_general_way_does(place: Place) -> None:
    everything = ""
    for seed in range(6):
        answers = []
        for pipelines in (True, False):
            place.empty()
            clock = ManualClock()
            store = SqlStore(place.url, clock=clock, server_time=False)
            prepare_nothing_in(store)
            store._database.dialect.pipelines = pipelines
            answers.append(random_calls(store, clock, seed))
            store.close()
        assert answers[0] == answers[1]
        everything += "\n".join(answers[0])
    for word in ("ACQUIRED", "WAITING", "WriteConflictError", "TransactionStateError"):
        assert word in everything
