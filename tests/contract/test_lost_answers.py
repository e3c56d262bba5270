"""Verbs that cannot be done twice, on a connection that is cut at each of their round trips: done once, as told."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import pytest
from server_rules import Place
from sqlalchemy import text

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.model import Partition, TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import StreamBatch, StreamKey
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.ports.transactions import Begun, Operation, Start, TxnKind
from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, database, lock_on, table, wrote
from support.servers.databases import Server
from support.servers.wire import Cut, Wire

OTHER = TableName("shop", "other")
P = Partition(("1", "oslo"), "file:/x")


@dataclass(frozen=True)
class Verb:
    """What comes before, the verb, and what is true afterwards, answer included."""

    prepare: Callable[[SqlStore], object]
    run: Callable[[SqlStore], object]
    holds: Callable[[SqlStore, object], bool]


def nothing(_: SqlStore) -> object:
    return None


def opened(store: SqlStore) -> object:
    return store.open_txns(CLIENT, 2)


def queued(store: SqlStore) -> object:
    return [store.enqueue_compaction(CompactionRequest(ORDERS, f"p={p}", "minor"), "x") for p in (1, 2)]


def working(store: SqlStore) -> object:
    queued(store)
    store.open_txns(CLIENT)
    return store.claim_compaction("w", 1)


def first_job(store: SqlStore) -> Compaction:
    return store.show_compactions()[0]


def shown(store: SqlStore) -> list[TxnId]:
    """Return the open and aborted transactions without the ids that a server has left out."""
    return [row.txn_id for row in store.show_transactions()]


def begin(kind: LockType, *more: str) -> Callable[[SqlStore], object]:
    """Return a verb that begins as a statement that writes into a table; several locks take the general way."""
    locks = tuple(lock_on(kind, name) for name in ("orders", *more))
    return lambda store: store.begin_txn(CLIENT, Start(locks, (ORDERS,), (ORDERS,)))


def begun_once(store: SqlStore, answer: object) -> bool:
    """Tell whether there is one transaction, which holds all its locks, and the first write id."""
    assert isinstance(answer, Begun)
    assert answer.lock is not None
    assert answer.snapshot is not None
    return (
        shown(store) == [answer.txn_id]
        and answer.lock.state is LockState.ACQUIRED
        and {row.lock_id.partition(".")[0] for row in store.show_locks()} == {str(answer.lock.lock_id)}
        and answer.allocated == {ORDERS: 1} == {ORDERS: count(store, "hiveacid_write_ids")}
    )


def held(store: SqlStore) -> object:
    return store.begin_txn(CLIENT, Start((lock_on(LockType.EXCLUSIVE, "orders"),)))


def waits_once(store: SqlStore, answer: object) -> bool:
    assert isinstance(answer, Begun)
    assert answer.lock is not None
    holder, waiter = store.show_locks()
    return (
        answer.lock.state is LockState.WAITING
        and waiter.txn_id == answer.txn_id
        and shown(store) == [holder.txn_id, waiter.txn_id]
        and count(store, "hiveacid_write_ids") == 0
    )


STREAM = StreamKey(ORDERS, "clicks")


def commit_batch(store: SqlStore) -> object:
    """Commit the first batch of a stream; a commit that is asked for again finds it done."""
    (txn_id,) = store.open_txns(CLIENT)
    progress = store.register_stream(STREAM, "run", "check")
    store.commit_txn(txn_id, batch=StreamBatch(STREAM, "check", progress.epoch, 0))
    return store.txn_state(txn_id)


VERBS = {
    "open": Verb(
        nothing,
        lambda store: store.open_txns(CLIENT, 3),
        lambda store, answer: answer == tuple(shown(store)),
    ),
    "begin to read": Verb(
        nothing,
        lambda store: store.begin_txn(CLIENT, Start(tables=(ORDERS,)), TxnKind.READ_ONLY).txn_id,
        lambda store, answer: [answer] == shown(store),
    ),
    "begin to insert": Verb(nothing, begin(LockType.SHARED_READ), begun_once),
    "begin to overwrite": Verb(nothing, begin(LockType.EXCL_WRITE), begun_once),
    "begin to overwrite two tables": Verb(nothing, begin(LockType.EXCL_WRITE, "stock"), begun_once),
    "begin and wait": Verb(held, begin(LockType.EXCL_WRITE), waits_once),
    "register a stream": Verb(
        lambda store: store.register_stream(STREAM, "old run", "check"),
        lambda store: store.register_stream(STREAM, "run", "check"),
        lambda store, answer: answer == store.stream_progress(STREAM) and answer.epoch == 2,  # type: ignore[attr-defined]
    ),
    "commit a batch": Verb(
        nothing,
        commit_batch,
        lambda store, answer: answer == "committed" and store.stream_progress(STREAM).last_batch_id == 0,  # type: ignore[union-attr]
    ),
    "create database": Verb(
        nothing,
        lambda store: store.create_database(database("other")),
        lambda store, _: store.list_databases() == ("other", "shop"),
    ),
    "drop database": Verb(
        lambda store: store.create_database(database("other")),
        lambda store: store.drop_database("other"),
        lambda store, _: store.list_databases() == ("shop",),
    ),
    "create table": Verb(
        nothing,
        lambda store: store.create_table(table(STOCK)),
        lambda store, _: store.get_table(STOCK) == table(STOCK),
    ),
    "drop table": Verb(
        nothing,
        lambda store: store.drop_table(ORDERS),
        lambda store, _: store.get_table(ORDERS) is None,
    ),
    "rename table": Verb(
        nothing,
        lambda store: store.alter_table(ORDERS, replace(table(ORDERS), name=OTHER)),
        lambda store, _: store.list_tables("shop") == ("other",),
    ),
    "partitions": Verb(
        nothing,
        lambda store: store.add_partitions(ORDERS, [P]),
        lambda store, _: store.list_partitions(ORDERS) == (P,),
    ),
    "seed write ids": Verb(
        nothing,
        lambda store: store.seed_write_ids(ORDERS, WriteId(7), [WriteId(3)]),
        lambda store, _: store.aborted_write_ids(ORDERS) == (3,),
    ),
    "lock": Verb(
        opened,
        lambda store: store.lock(store.valid_txns().open[0], [lock_on(LockType.EXCLUSIVE, "orders")]),
        lambda store, answer: (
            answer.state is LockState.ACQUIRED and len(store.show_locks()) == 1  # type: ignore[attr-defined]
        ),
    ),
    "add written": Verb(
        opened,
        lambda store: store.add_written(store.valid_txns().open[0], [wrote(ORDERS, Operation.UPDATE)]),
        lambda store, _: count(store, "hiveacid_written") == 1,
    ),
    "abort": Verb(
        opened,
        lambda store: store.abort_txns(store.valid_txns().open, "x"),
        lambda store, answer: answer == store.valid_txns().aborted != (),
    ),
    "enqueue": Verb(
        nothing,
        lambda store: store.enqueue_compaction(CompactionRequest(ORDERS, "p=1", "minor"), "x"),
        lambda store, answer: (answer,) == store.show_compactions(),
    ),
    "decline": Verb(
        nothing,
        lambda store: store.decline_compaction(CompactionRequest(ORDERS, "p=1", "minor"), "x", "why"),
        lambda store, answer: (answer,) == store.show_compactions(),
    ),
    "claim": Verb(
        queued,
        lambda store: store.claim_compaction("w"),
        lambda store, answer: (
            answer == first_job(store)
            and [one.state for one in store.show_compactions()] == ["working", "initiated"]
        ),
    ),
    "start": Verb(
        working,
        lambda store: store.start_compaction(1, store.valid_txns().open[0], WriteId(5), "w"),
        lambda store, _: first_job(store).high_watermark == 5 and count(store, "hiveacid_written") == 1,
    ),
    "release": Verb(
        working,
        lambda store: store.release_compaction(1, "w"),
        lambda store, _: (first_job(store).state, first_job(store).claims) == ("initiated", 0),
    ),
    "end": Verb(
        working,
        lambda store: store.end_compaction(1, "failed", "why", worker="w"),
        lambda store, _: first_job(store).state == "failed",
    ),
}


def count(store: SqlStore, name: str) -> int | None:
    return store._database.read(lambda connection: connection.scalar(text(f"SELECT count(*) FROM {name}")))


@pytest.fixture(scope="module", params=["postgres_server", "mariadb_server", "mysql_server"])
def place(request: pytest.FixtureRequest) -> Place:
    server: Server = request.getfixturevalue(request.param)
    return Place(server, "lost")


@pytest.fixture
def lines(place: Place) -> Iterator[tuple[Wire, SqlStore, SqlStore]]:
    """Yield a wire, a store at its end and one with a line of its own."""
    wire = Wire(place.server.port)
    store = SqlStore(place.server.url(place.name, port=wire.port))
    witness = SqlStore(place.url)
    yield wire, store, witness
    store.close()
    witness.close()
    wire.close()


def fresh(place: Place, witness: SqlStore, verb: Verb) -> None:
    place.empty()
    witness.create_database(database())
    witness.create_table(table(ORDERS))
    verb.prepare(witness)


@pytest.mark.sampled(12, "every verb stays on PostgreSQL", cases=("mysql",))
@pytest.mark.sampled(12, "every verb stays on PostgreSQL", cases=("mariadb",))
@pytest.mark.parametrize("name", VERBS)
def test_a_verb_is_done_once(place: Place, lines: tuple[Wire, SqlStore, SqlStore], name: str) -> None:
    """Wherever the wire is cut, before a round trip or after what it did: nobody hears of it."""
    wire, store, witness = lines
    verb = VERBS[name]
    for _ in range(2):  # the first time a verb may do more: keys to lock by are made
        fresh(place, witness, verb)
        wire.start()
        assert verb.holds(witness, verb.run(store))
    last = wire.turns
    for turn, where in [*((turn, Cut.AFTER) for turn in range(1, last + 1)), (last, Cut.BEFORE)]:
        fresh(place, witness, verb)
        wire.start()
        wire.cut_at(turn, where)
        assert verb.holds(witness, verb.run(store)), (turn, where)
        assert wire.cuts == 1


def test_marks_do_not_stay(place: Place) -> None:
    """Housekeeping drops them."""
    clock = ManualClock()
    store = SqlStore(place.url, clock=clock, server_time=False)
    fresh(place, store, VERBS["create table"])
    assert count(store, "hiveacid_done") == 2
    clock.advance(299)
    store.housekeep()
    assert count(store, "hiveacid_done") == 2
    clock.advance(2)
    store.housekeep()
    assert count(store, "hiveacid_done") == 0
    store.close()
