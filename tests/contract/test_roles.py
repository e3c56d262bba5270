"""Roles of a database server with no more privileges than they need: docs/security.md has the same lists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from urllib.parse import quote_plus

import pytest
from server_rules import Place

from hiveacid.core.compaction.advice import FigureRecord
from hiveacid.core.compaction.queue_records import CompactionRequest, Service
from hiveacid.core.model import Column, Partition, TableName, TxnId, ViewDefinition, WriteId
from hiveacid.core.snapshot.file_records import NewDirectory, RecordedDirectory, TableRecords
from hiveacid.core.transactions.commit_records import OperationSummary, StreamBatch, StreamKey, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.errors import StorePermissionError
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Start, TxnKind
from hiveacid.stores.sql.schema import METADATA
from hiveacid.stores.sql.store import SqlStore
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, database, lock_on, table, wrote
from support.servers.databases import PASSWORD, Server

TABLES = (
    "hiveacid_schema",
    *sorted(one.name for one in METADATA.sorted_tables if one.name != "hiveacid_schema"),
)
PARTITION = "dt=2024-01-01/city=Ulm"
VALUES = ("2024-01-01", "Ulm")


class Cast:
    """Who plays in a scenario: the role whose privileges are tried, the owner, and the clock of both."""

    def __init__(self, place: Place, url: str) -> None:
        self.clock = ManualClock()
        self.place = place
        self.owner = SqlStore(place.url, clock=self.clock, server_time=False)
        try:
            self.store = SqlStore(url, clock=self.clock, server_time=False)
        except BaseException:
            self.owner.close()
            raise

    def close(self) -> None:
        self.owner.close()
        self.store.close()


def prepare(owner: SqlStore) -> None:
    """Make two tables, one with a commit."""
    owner.create_database(database())
    owner.create_table(table(), unoccupied=True)
    owner.create_table(table(STOCK), unoccupied=True)
    owner.create_view(ViewDefinition(TableName("shop", "few"), (Column("a", "int"),), "SELECT 1 AS a"))
    write(owner, Operation.INSERT)


def write(store: SqlStore, operation: Operation) -> TxnId:
    """Run one statement that writes."""
    start = Start((lock_on(LockType.SHARED_WRITE, "orders"),), (ORDERS,), (ORDERS,))
    begun = store.begin_txn(CLIENT, start)
    store.heartbeat([begun.txn_id])
    made = NewDirectory(VALUES, RecordedDirectory("delta_0000001_0000001_0000"))
    store.commit_txn(
        begun.txn_id,
        CatalogChanges(records=(TableRecords(ORDERS, (made,)),)),
        written=[wrote(ORDERS, operation, PARTITION)],
        operations=[TableOperation(ORDERS, OperationSummary("INSERT", inserted=3))],
    )
    assert store.txn_state(begun.txn_id) == "committed"
    return begun.txn_id


def look_around(store: SqlStore) -> None:
    """Ask for all there is to see."""
    assert store.list_databases() == ("shop",)
    assert store.get_database("shop") is not None
    assert store.list_tables("shop") == ("orders", "stock")
    assert store.get_table(ORDERS) is not None
    store.list_partitions(ORDERS)
    assert store.list_views("shop") == ("few",)
    assert store.get_view(TableName("shop", "few")) is not None
    assert len(store.commits(ORDERS)) >= 1
    for verb in (
        store.show_transactions, store.show_locks, store.show_compactions, store.now, store.min_open_txn_id,
        store.changed_partitions, lambda: store.show_services(60.0), lambda: store.aborted_write_ids(ORDERS),
        lambda: store.stream_progress(StreamKey(ORDERS, "clicks")), lambda: store.recorded_figures(None), store.count_transactions,
        lambda: store.recorded_files(ORDERS, [Partition(VALUES, "")]),
    ):  # fmt: skip
        verb()


def read(cast: Cast) -> None:
    """Take snapshots and read by them, beside writers; end them."""
    store = cast.store
    look_around(store)
    begun = store.begin_txn(CLIENT, Start(), TxnKind.READ_ONLY)
    assert begun.snapshot is not None
    assert store.valid_write_ids(begun.snapshot, [ORDERS, STOCK])[ORDERS].high_watermark >= 1
    (second,) = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
    write(cast.owner, Operation.UPDATE)
    store.take_snapshot(second)
    assert store.heartbeat([begun.txn_id, second]).aborted == ()
    cast.owner.open_txns(CLIENT, 300)  # so many, and a snapshot notes how far the ids are known
    assert second in store.valid_txns().open
    (silent,) = cast.owner.open_txns(CLIENT)
    cast.clock.advance(10_000)  # s
    store.heartbeat([begun.txn_id, second])
    assert (
        silent in store.abort_timed_out() or store.txn_state(silent) == "open"
    )  # a reader leaves it to others
    for txn_id in (begun.txn_id, second):
        store.commit_txn(txn_id)
        assert store.txn_state(txn_id) == "committed"


def change(cast: Cast) -> None:
    """Run what statements run that change rows, with locks, conflicts, aborts, streams and dynamic partitions."""
    read(cast)
    store, owner = cast.store, cast.owner
    for operation in (Operation.INSERT, Operation.UPDATE, Operation.DELETE):
        write(store, operation)
    (txn_id,) = store.open_txns(CLIENT)
    store.take_snapshot(txn_id)
    store.lock(txn_id, [lock_on(LockType.SHARED_WRITE, "orders"), lock_on(LockType.SHARED_READ, "stock")])
    store.allocate_write_ids([txn_id], ORDERS)
    store.add_written(txn_id, [wrote(ORDERS, Operation.UPDATE, PARTITION)])
    store.commit_txn(txn_id)
    (holder,) = owner.open_txns(CLIENT)
    owner.lock(holder, [lock_on(LockType.EXCLUSIVE, "orders")])
    job = owner.enqueue_compaction(CompactionRequest(STOCK, None, "major"), "manual")
    owner.claim_compaction("worker", job.id)
    owner.start_compaction(job.id, owner.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0], WriteId(1), "worker")
    begun = store.begin_txn(CLIENT, Start((lock_on(LockType.SHARED_READ, "orders"),), (ORDERS,)))
    assert begun.lock is not None
    assert begun.lock.state is LockState.WAITING
    cast.clock.advance(10_000)  # s: who waits for dead clients ends their transactions
    store.heartbeat([begun.txn_id])
    assert holder in store.abort_timed_out()
    assert store.check_lock(begun.lock.lock_id).state is LockState.ACQUIRED
    store.unlock(begun.lock.lock_id)
    assert store.abort_txns([begun.txn_id], "no more") == (begun.txn_id,)
    (txn_id,) = store.open_txns(CLIENT)
    place = NewPartition(ORDERS, Partition(VALUES, f"file:/wh/shop.db/orders/{PARTITION}"))
    store.allocate_write_ids([txn_id], ORDERS)
    stream = StreamKey(ORDERS, "clicks")
    epoch = store.register_stream(stream, "writer", "checkpoint").epoch
    store.commit_txn(
        txn_id, CatalogChanges(partitions=(place,)), [wrote(ORDERS, Operation.INSERT, PARTITION)],
        StreamBatch(stream, "checkpoint", epoch, 1),
    )  # fmt: skip
    assert len(store.list_partitions(ORDERS)) == 1
    store.enqueue_compaction(CompactionRequest(ORDERS, None, "major"), "manual")


def define(cast: Cast) -> None:
    """Make, change and drop databases, tables, partitions and views."""
    change(cast)
    store = cast.store
    store.create_database(database("more"))
    name, other = TableName("more", "one"), TableName("more", "two")
    store.create_table(table(name), unoccupied=True)
    store.add_partitions(name, [Partition(VALUES, f"file:/wh/more.db/one/{PARTITION}")])
    store.drop_partitions(name, store.list_partitions(name))
    store.seed_write_ids(name, WriteId(5), [WriteId(2)])
    store.seed_txns(TxnId(10_000))
    store.alter_table(name, replace(table(other), location=table(name).location))
    view = ViewDefinition(TableName("more", "v"), (Column("a", "int"),), "SELECT 1 AS a")
    store.create_view(view)
    store.alter_view(view.name, replace(view, comment="more"))
    store.drop_view(view.name)
    (txn_id,) = store.open_txns(CLIENT)
    store.lock(txn_id, [lock_on(LockType.EXCLUSIVE)])
    store.commit_txn(txn_id, CatalogChanges(tables=(table(name, "file:/wh/more.db/three"),)))
    for one in (name, other):
        store.drop_table(one)
    store.drop_database("more")


def serve(cast: Cast) -> None:
    """Do the turns of an initiator, a worker, a cleaner and a housekeeper."""
    store, owner = cast.store, cast.owner
    look_around(store)
    store.announce_service(Service("here-1-worker-1", "worker", "default", "1", store.now(), store.now()))
    store.announce_service(Service("here-1-worker-1", "worker", "default", "1", store.now(), store.now()))
    owner.allocate_write_ids(owner.open_txns(CLIENT, 3), ORDERS)
    write(owner, Operation.UPDATE)
    request = CompactionRequest(ORDERS, None, "major")
    store.decline_compaction(request, "initiator", "too small")
    for turn in ("lost", "released", "done", "failed"):
        job = store.enqueue_compaction(request, "initiator")
        assert store.claim_compaction("here-1-worker-1", job.id) is not None
        if turn == "released":
            store.release_compaction(job.id, "here-1-worker-1")
            assert store.claim_compaction("here-1-worker-1") is not None
        (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
        snapshot = store.take_snapshot(txn_id)
        store.valid_write_ids(snapshot, [ORDERS])
        (holder,) = owner.open_txns(CLIENT)
        owner.lock(holder, [lock_on(LockType.EXCLUSIVE, "orders")])
        waiting = store.lock(txn_id, [lock_on(LockType.SHARED_READ, "orders")])
        owner.abort_txns([holder], "done")
        assert store.check_lock(waiting.lock_id).state is LockState.ACQUIRED
        store.start_compaction(job.id, txn_id, WriteId(1), "here-1-worker-1")
        store.note_compaction(job.id, "half of it")
        if turn == "lost":
            cast.clock.advance(10_000)
            assert txn_id in store.abort_timed_out()
            assert store.claim_compaction("here-1-worker-1", job.id) is not None
            store.end_compaction(job.id, "failed", "lost twice")
        elif turn == "failed":
            store.abort_txns([txn_id], "failed")
            store.end_compaction(job.id, "failed", "failed")
        else:
            store.heartbeat([txn_id])
            store.commit_txn(txn_id)
            store.end_compaction(job.id, "ready for cleaning")
            assert [one.id for one in store.ready_to_clean()] == [job.id]
            store.retry_cleaning(job.id, "not yet", 0.0)
            (txn_id,) = store.open_txns(CLIENT)
            store.lock(txn_id, [lock_on(LockType.EXCL_WRITE, "orders")], zero_wait=True)
            store.forget_aborted(ORDERS, None, WriteId(3))
            store.forget_directories(ORDERS, Partition(VALUES, ""), ["delta_0000001_0000001_0000"], txn_id)
            store.end_records(STOCK, txn_id)
            store.commit_txn(txn_id)
            store.end_compaction(job.id, "succeeded")
    keep_house(cast)
    assert store.claim_compaction("nobody") is None
    store.withdraw_service("here-1-worker-1")


def keep_house(cast: Cast) -> None:
    """Do two turns of a housekeeper."""
    store = cast.store
    for _ in range(2):
        cast.clock.advance(100_000_000)
        store.abort_timed_out()
        store.housekeep()
        assert store.claim_figures(1.0, 1.0)
        store.record_figures([FigureRecord(ORDERS, 1, {})])  # the second time in place of the first
        write(cast.owner, Operation.UPDATE)
    assert list(store.latest_figures()) == [ORDERS]


SCENES: Mapping[str, Callable[[Cast], None]] = MappingProxyType(
    {"reader": read, "writer": change, "definer": define, "services": serve}
)
GRANTS: Mapping[str, Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "reader": {"INSERT, UPDATE": ("txns",), "UPDATE": ("counters",)},
        "writer": {
            "INSERT, UPDATE, DELETE": ("lock_requests",),
            "INSERT, UPDATE": ("compactions", "counters", "next_write_ids", "streams", "txns", "written"),
            "INSERT": (
                "commits",
                "done",
                "files",
                "lock_components",
                "partitions",
                "placed_partitions",
                "write_ids",
            ),
            "DELETE": ("recorded_tables",),
        },
        "definer": {
            "INSERT, UPDATE, DELETE": (
                "commits",
                "compactions",
                "files",
                "lock_requests",
                "next_write_ids",
                "recorded_tables",
                "streams",
                "tables",
                "views",
                "write_ids",
                "written",
            ),
            "INSERT, UPDATE": ("counters", "lock_components", "txns"),
            "INSERT, DELETE": ("databases", "partitions"),
            "UPDATE, DELETE": ("changed_places", "figures"),
            "INSERT": ("done",),
        },
        "services": {
            "INSERT, UPDATE, DELETE": (
                "changed_places",
                "compactions",
                "lock_requests",
                "services",
                "txns",
            ),
            "INSERT, UPDATE": ("counters",),
            "INSERT, DELETE": ("commits", "done", "figures", "files", "written"),
            "INSERT": ("lock_components",),
            "DELETE": ("recorded_tables", "write_ids"),
        },
    }
)
"""Beside SELECT on all tables; the names without ``hiveacid_``."""


@pytest.fixture(scope="module", params=["postgres_server", "mariadb_server", "mysql_server"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    server: Server = request.getfixturevalue(request.param)
    made = Place(server, "roles")
    for role, grants in GRANTS.items():
        who = role if server.driver == "psycopg" else f"{role}@'127.0.0.1'"
        secret = f"PASSWORD '{PASSWORD}'" if server.driver == "psycopg" else "IDENTIFIED BY 'of-a-role'"
        kind = "ROLE" if server.driver == "psycopg" else "USER"
        login = "LOGIN " if server.driver == "psycopg" else ""
        run(made, f"CREATE {kind} {who} {login}{secret}")
        run(made, *(f"GRANT SELECT ON {name} TO {who}" for name in TABLES))
        run(
            made,
            *(
                f"GRANT {verbs} ON hiveacid_{name} TO {who}"
                for verbs, names in grants.items()
                for name in names
            ),
        )
        if role == "definer" and server.driver == "psycopg":
            run(made, f"GRANT UPDATE ON SEQUENCE hiveacid_txns_id_seq TO {who}")
    yield made
    for role in GRANTS:
        if server.driver == "psycopg":
            run(made, f"DROP OWNED BY {role}", f"DROP ROLE {role}")
        else:
            run(made, f"DROP USER {role}@'127.0.0.1'")
    made.engine.dispose()


def run(place: Place, *statements: str) -> None:
    with place.engine.begin() as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def url_of(place: Place, role: str) -> str:
    if place.server.driver == "psycopg":
        return place.url.replace("//postgres:", f"//{role}:")
    return place.url.replace("//hiveacid:", f"//{role}:").replace(quote_plus(PASSWORD), "of-a-role")


@pytest.fixture
def begin(place: Place) -> Iterator[Callable[[str], Cast]]:
    """Return what opens a store with two tables as a role."""
    place.empty()
    owner = SqlStore(place.url)
    prepare(owner)
    owner.close()
    opened: list[Cast] = []

    def made(role: str) -> Cast:
        opened.append(Cast(place, url_of(place, role)))
        return opened[-1]

    yield made
    for one in opened:
        one.close()


@pytest.mark.parametrize("role", GRANTS)
def test_a_role_can_do_its_work(role: str, begin: Callable[[str], Cast]) -> None:
    SCENES[role](begin(role))


WRITES: Mapping[str, Callable[[SqlStore], object]] = MappingProxyType(
    {
        "drop a table": lambda store: store.drop_table(STOCK),
        "create a table": lambda store: store.create_table(table(TableName("shop", "mine"))),
        "alter a table": lambda store: store.alter_table(
            STOCK, replace(table(STOCK), location="file:/elsewhere")
        ),
        "create a database": lambda store: store.create_database(database("mine")),
        "drop a database": lambda store: store.drop_database("empty"),
        "drop a view": lambda store: store.drop_view(TableName("shop", "few")),
        "drop partitions": lambda store: store.drop_partitions(ORDERS, store.list_partitions(ORDERS)),
    }
)
ONLY_WRITERS: Mapping[str, Callable[[SqlStore], object]] = MappingProxyType(
    {
        "write": lambda store: write(store, Operation.INSERT),
        "add partitions": lambda store: store.add_partitions(STOCK, [Partition(VALUES, "file:/elsewhere")]),
        "lock": lambda store: store.lock(store.open_txns(CLIENT)[0], [lock_on(LockType.EXCLUSIVE, "orders")]),
        "ask for a compaction": lambda store: store.enqueue_compaction(
            CompactionRequest(ORDERS, None, "major"), "me"
        ),
        "keep house": lambda store: store.housekeep(),
    }
)


def _is_denied(verb: Callable[[], object]) -> bool:
    try:
        verb()
    except StorePermissionError as error:
        return "lacks a privilege" in str(error)
    return False


@pytest.mark.parametrize("role", ["reader", "writer", "services"])
def test_a_role_cannot_change_definitions(role: str, begin: Callable[[str], Cast]) -> None:
    cast = begin(role)
    cast.owner.create_database(database("empty"))
    cast.owner.add_partitions(ORDERS, [Partition(VALUES, "file:/wh/shop.db/orders/here")])
    verbs = {**WRITES, **(ONLY_WRITERS if role == "reader" else {})}
    for name, verb in verbs.items():
        assert _is_denied(lambda v=verb: v(cast.store)), f"a {role} could {name}"
    assert cast.owner.get_table(STOCK) == table(STOCK)
    assert len(cast.owner.list_partitions(ORDERS)) == 1


def test_who_may_not_make_the_schema_is_told_who_does(place: Place) -> None:
    """And a role that owns nothing opens a store that is up to date without DDL (the other tests)."""
    url = place.server.make_database("roles_empty")
    if place.server.driver != "psycopg":
        run(place, "GRANT SELECT ON roles_empty.* TO reader@'127.0.0.1'")
    with pytest.raises(StorePermissionError, match="brought up to date by its owner"):
        SqlStore(url_of(place, "reader").replace("/roles", f"/{url.rpartition('/')[2]}"))


def test_the_security_page_has_the_same_lists() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text(encoding="utf-8")
    for role, grants in GRANTS.items():
        for verbs, names in grants.items():
            assert f"| {role} | `{verbs}` | {', '.join(f'`{name}`' for name in names)} |" in page
