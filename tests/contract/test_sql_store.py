"""What is special about the SQL store: schema, errors, secrets, durability."""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from sqlalchemy import Connection, create_engine, event, inspect, text
from sqlalchemy.exc import OperationalError

from hiveacid.config import Settings
from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import WriteId
from hiveacid.core.snapshot.file_records import NewDirectory, RecordedDirectory, TableRecords
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import (
    CommitStateUnknownError,
    ConfigError,
    StoreError,
    StoreUnavailableError,
    StoreVersionError,
    TransactionAbortedError,
    WriteConflictError,
)
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Operation, Remains, Start, TxnKind
from hiveacid.stores.limits import Limits
from hiveacid.stores.sql import file_records
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.dialects import Durability, ErrorKind
from hiveacid.stores.sql.dialects import mariadb_and_mysql as mariadb
from hiveacid.stores.sql.dialects.dialect import number_keys
from hiveacid.stores.sql.schema import METADATA
from hiveacid.stores.sql.store import MIGRATIONS, SqlStore, migrate
from support.clock import ManualClock
from support.contract.figures import require_figures_in_an_older_store
from support.samples import CLIENT, ORDERS, database, lock_on, wrote
from support.samples import table as orders


def url_in(directory: Path) -> str:
    return f"sqlite:///{directory}/store.db"


@pytest.fixture
def store(tmp_path: Path) -> SqlStore:
    return SqlStore(url_in(tmp_path), clock=ManualClock())


def test_the_schema_is_what_statements_expect(tmp_path: Path) -> None:
    """Columns, keys and what may be empty."""
    SqlStore(url_in(tmp_path)).close()
    engine = create_engine(url_in(tmp_path))
    found = inspect(engine)
    assert set(found.get_table_names()) - {"sqlite_sequence"} == set(METADATA.tables)
    for name, table in METADATA.tables.items():
        columns = {one["name"]: one["nullable"] for one in found.get_columns(name)}
        if name == "hiveacid_schema":
            columns["version"] = False
        assert columns == {one.name: one.nullable for one in table.columns} | {
            one.name: columns[one.name] for one in table.primary_key.columns if one.name == "id"
        }, name
        assert found.get_pk_constraint(name)["constrained_columns"] == [
            c.name for c in table.primary_key.columns
        ]
    engine.dispose()


def test_steps_go_forward_from_every_version(tmp_path: Path) -> None:
    """A store of an older version is brought up with all it holds; a newer one is refused."""
    old = SqlStore(url_in(tmp_path))
    (txn_id,) = old.open_txns(CLIENT)
    old.close()
    database = Database(url_in(tmp_path), SystemClock())
    steps = (*MIGRATIONS, ("ALTER TABLE hiveacid_txns ADD COLUMN note {text}", "CREATE TABLE more (a {key})"))
    migrate(database, steps)
    migrate(database, steps)
    found = database.read(
        lambda connection: connection.scalars(text("SELECT version FROM hiveacid_schema")).all()
    )
    assert found == list(range(1, len(steps) + 1))
    assert database.read(lambda connection: connection.scalar(text("SELECT id FROM hiveacid_txns"))) == txn_id
    database.close()
    with pytest.raises(StoreVersionError, match=f"version {len(steps)}, and this hiveacid knows none above"):
        SqlStore(url_in(tmp_path))


def test_a_store_without_figures_gets_them(tmp_path: Path) -> None:
    """One of the version before."""
    require_figures_in_an_older_store(url_in(tmp_path))


def test_a_step_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """Not half a schema."""
    SqlStore(url_in(tmp_path)).close()
    database = Database(url_in(tmp_path), SystemClock())
    with pytest.raises(StoreError):
        migrate(database, (*MIGRATIONS, ("CREATE TABLE more (a {key})", "CREATE TABLE more (a {key})")))
    names = database.read(lambda connection: inspect(connection).get_table_names())
    assert "more" not in names
    database.close()
    SqlStore(url_in(tmp_path)).close()


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        "oracle://u:hush@h/d",
        "no url at all:hush",
        "postgresql+nodriver://u:hush@h/d",
    ],
)
def test_impossible_urls(url: str) -> None:
    """Refused, without saying the password."""
    with pytest.raises(ConfigError) as caught:
        SqlStore(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    "version",
    ["5.7.44-log", "8.0.16", "8.0.11-TiDB-v7.5.0", "5.5.5-10.5.22-MariaDB", "10.3.39-MariaDB-0+deb10u1"],
)
def test_servers_that_are_too_old_are_refused(version: str) -> None:
    """MySQL without the collation of exact texts, and a MariaDB without SKIP LOCKED."""
    with pytest.raises(
        ConfigError, match=r"10\.6 or newer" if "MariaDB" in version else r"8\.0\.17 or newer"
    ):
        mariadb._prepare(SimpleNamespace(server_version=version), None)


@pytest.mark.parametrize(
    "version",
    ["8.0.17", "8.4.6", "9.7.4-2", "8.0.mysql_aurora.3.08.0", "5.5.5-10.6.25-MariaDB", "11.8.2-MariaDB"],
)
def test_newer_servers_are_accepted(version: str) -> None:
    """Aurora does not say which 8.0 it is: the oldest is 8.0.23."""
    connection = MagicMock(server_version=version)
    mariadb._prepare(connection, None)
    connection.cursor.assert_called_once()


def test_a_package_that_a_login_needs(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyMySQL cannot encrypt a password for MySQL by itself, if the connection is plain text."""

    def connect(**_options: object) -> None:
        raise RuntimeError("'cryptography' package is required")

    monkeypatch.setattr("pymysql.connect", connect)
    with pytest.raises(ConfigError, match=r"offers no TLS.*cryptography") as caught:
        SqlStore("mysql+pymysql://u:hush@h/d")
    assert "hush" not in str(caught.value)


def test_no_password_is_said() -> None:
    """Neither by the store's name nor by a driver's complaint."""
    pytest.importorskip("psycopg", reason="psycopg is not installed (pip install 'hiveacid[postgres]')")
    database = Database("postgresql+psycopg://u:hu%2Fsh@host/name", SystemClock())
    assert "hu" not in str(database)
    error = database._store_error(StoreError, RuntimeError("cannot log in with hu/sh or hu%2Fsh"))
    assert "sh" not in str(error).split("failed", 1)[1].replace("***", "")


def test_a_place_that_cannot_be(tmp_path: Path) -> None:
    """A file where a directory should be."""
    (tmp_path / "file").write_text("x")
    with pytest.raises(StoreUnavailableError, match=r"store\.db"):
        SqlStore(f"sqlite:///{tmp_path}/file/store.db")
    made = SqlStore(f"sqlite:///{tmp_path}/a/b/store.db")
    made.close()


def test_a_file_that_is_no_store(tmp_path: Path) -> None:
    """An error of ours that names the place."""
    (tmp_path / "store.db").write_bytes(b"this is not a database" * 100)
    with pytest.raises(StoreError, match="not a database"):
        SqlStore(url_in(tmp_path))


def test_a_locked_database(store: SqlStore, tmp_path: Path) -> None:
    """Tried again and again, then a retryable error; as soon as it is free, all is well."""
    store._database.tries = 2
    with store._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailableError, match="locked") as caught:
        store.open_txns(CLIENT)
    assert caught.value.retryable
    assert store.valid_txns().high_watermark == 0
    other.execute("ROLLBACK")
    assert store.open_txns(CLIENT) == (1,)
    other.close()


def test_waits_for_the_lock_of_another_client_have_the_limit_of_the_settings(tmp_path: Path) -> None:
    """Also once they change, and on a connection that is open already."""
    limits = Limits.of(Settings())
    store = SqlStore(url_in(tmp_path), limits=replace(limits, txn_timeout=9.0))

    def milliseconds() -> int:
        return store._database.read(lambda connection: connection.scalar(text("PRAGMA busy_timeout")) or 0)

    assert milliseconds() == 3000
    store.apply_settings(Settings().with_value("hive.txn.timeout", "25s"))
    assert milliseconds() == 5000
    store.close()


def test_a_warning_about_a_lock_names_no_time_that_is_none(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A client without open transactions gives up after its tries, not at an end of transactions."""
    SqlStore(url_in(tmp_path)).close()
    holder = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    clock = ManualClock()
    store = SqlStore(url_in(tmp_path), clock=clock)
    with store._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")
    holder.execute("BEGIN IMMEDIATE")
    clock.sleep = lambda seconds: clock.advance(30 + seconds)  # type: ignore[method-assign]
    with pytest.raises(StoreUnavailableError):
        store.open_txns(CLIENT)
    assert caplog.text.count("is locked by another client; trying again") == 1
    assert "another 0 s" not in caplog.text
    holder.close()
    store.close()


class _ReleasesLater(ManualClock):
    """A clock whose sleepers release a lock of the database once so many seconds are over."""

    def __init__(self, holder: sqlite3.Connection, seconds: float) -> None:
        super().__init__()
        self._holder = holder
        self._until = self.now() + int(1000 * seconds)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        if self.now() >= self._until:
            self._until = 2**62
            self._holder.execute("ROLLBACK")


def test_a_stopped_client_that_holds_the_database(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A client with an open transaction waits longer than 20 seconds, with a warning, as for a server that is away."""
    SqlStore(url_in(tmp_path)).close()
    holder = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    store = SqlStore(url_in(tmp_path), clock=_ReleasesLater(holder, 100))
    (txn_id,) = store.open_txns(CLIENT)
    with store._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA busy_timeout = 1")
    holder.execute("BEGIN IMMEDIATE")
    assert store.heartbeat([txn_id]).aborted == ()
    assert caplog.text.count("is locked by another client; trying for another 2") == 1
    holder.close()
    store.close()


def test_a_full_disk(store: SqlStore) -> None:
    """Reported as what it is; nothing of the verb happened."""
    (txn_id,) = store.open_txns(CLIENT)
    with store._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1")
    with pytest.raises(StoreUnavailableError, match="full"):
        store.open_txns(CLIENT, 1000)
    with store._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA max_page_count = 1000000")
    store.commit_txn(txn_id)
    assert store.txn_state(txn_id) == "committed"


def test_a_look_at_all_changes_may_take_long(store: SqlStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is a row for each partition and commit since the oldest reader: a server is silent while it groups millions."""
    waits: list[float] = []
    monkeypatch.setattr(store._database.dialect, "limit_waits", lambda _, seconds: waits.append(seconds))
    store.valid_txns()
    store.changed_partitions()
    assert waits == [10.0, 900.0]


class _LosesAnswers:
    """Lets the COMMIT happen, or not, and breaks the connection before its answer comes."""

    def __init__(self, store: SqlStore, losses: int, *, happens: bool) -> None:
        self.losses = losses
        self.happens = happens
        dialect = store._database.dialect
        self.run = dialect.run
        dialect.run = self.lose  # type: ignore[method-assign]
        dialect.classify_error = lambda _error: ErrorKind.LOST  # type: ignore[method-assign]

    def lose(self, connection: Connection, statement: str) -> None:
        if statement != "COMMIT" or self.losses == 0:
            self.run(connection, statement)
            return
        self.losses -= 1
        if self.happens:
            self.run(connection, statement)
        connection.invalidate()
        raise OperationalError(statement, None, sqlite3.OperationalError("the wire was cut"))


@pytest.mark.parametrize("happens", [True, False])
def test_a_lost_answer_to_a_commit_is_asked_for(store: SqlStore, *, happens: bool) -> None:
    """It was committed once, whether the first try got through or not."""
    (txn_id,) = store.open_txns(CLIENT)
    store.allocate_write_ids([txn_id], ORDERS)
    lost = _LosesAnswers(store, losses=1, happens=happens)
    store.commit_txn(txn_id)
    assert lost.losses == 0
    assert store.txn_state(txn_id) == "committed"


def test_a_commit_in_doubt(store: SqlStore) -> None:
    """If the store cannot be asked, nobody pretends to know."""
    (txn_id,) = store.open_txns(CLIENT)
    store._database.tries = 3
    _LosesAnswers(store, losses=1_000_000, happens=False)
    with pytest.raises(CommitStateUnknownError, match="wire was cut"):
        store.commit_txn(txn_id)


@pytest.mark.parametrize("kind", [ErrorKind.DENIED, ErrorKind.OTHER, ErrorKind.UNAVAILABLE])
def test_a_commit_in_doubt_that_cannot_be_asked_for(store: SqlStore, kind: ErrorKind) -> None:
    """The answer is lost, and the next server is a read-only copy: a repeated statement would write twice."""
    (txn_id,) = store.open_txns(CLIENT)
    store.allocate_write_ids([txn_id], ORDERS)
    lost, dialect = _LosesAnswers(store, losses=1, happens=True), store._database.dialect
    begin = dialect.begin

    def refuse(connection: Connection, durability: Durability) -> None:
        if not lost.losses:
            raise OperationalError("BEGIN", None, sqlite3.OperationalError("read-only"))
        begin(connection, durability)

    dialect.begin = refuse  # type: ignore[method-assign]
    dialect.classify_error = lambda error: kind if "BEGIN" in str(error) else ErrorKind.LOST  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknownError, match="read-only"):
        store.commit_txn(txn_id)
    dialect.begin = begin  # type: ignore[method-assign]
    assert store.txn_state(txn_id) == "committed"


def test_what_must_survive_a_power_cut_waits_for_the_disk(store: SqlStore) -> None:
    """Write ids and commits do; what dies with its client does not."""
    seen: list[tuple[str, int]] = []
    begin = store._database.dialect.begin

    def spy(connection: Connection, durability: Durability) -> None:
        begin(connection, durability)
        seen.append((durability.name, connection.exec_driver_sql("PRAGMA synchronous").scalar()))

    store._database.dialect.begin = spy  # type: ignore[method-assign]
    (txn_id,) = store.open_txns(CLIENT)
    store.add_written(txn_id, [])
    store.allocate_write_ids([txn_id], ORDERS)
    store.commit_txn(txn_id)
    assert seen == [("WITH_CLIENT", 1), ("FULL", 2), ("FULL", 2)]


def test_limits(tmp_path: Path) -> None:
    """hive.max.open.txns; the time-out that is given wins."""
    store = SqlStore(url_in(tmp_path), limits=replace(Limits.of(Settings()), max_open_txns=3), txn_timeout=7)
    assert store.open_txns(CLIENT, 3) == (1, 2, 3)
    with pytest.raises(Exception, match=r"hive\.max\.open\.txns allows 3"):
        store.open_txns(CLIENT)
    store.abort_txns([2], "room")  # type: ignore[list-item]
    assert store.open_txns(CLIENT) == (4,)
    assert store._limits.txn_timeout == 7
    store.close()


def test_housekeeping_of_many_partitions_takes_few_statements(tmp_path: Path) -> None:
    """It holds SQLite's only write lock meanwhile."""
    clock = ManualClock()
    store = SqlStore(url_in(tmp_path), clock=clock)
    statements: list[str] = []
    event.listen(store._database._engine, "before_cursor_execute", lambda *event: statements.append(event[2]))
    for _ in range(2):
        (txn_id,) = store.open_txns(CLIENT)
        store.allocate_write_ids([txn_id], ORDERS)
        rows = [wrote(ORDERS, Operation.INSERT, f"p={number}") for number in range(2000)]
        store.commit_txn(txn_id, written=rows)
        clock.advance(10_000)
        statements.clear()
        store.housekeep()
        assert len(statements) < 40
    assert len(store.changed_partitions()) == 2000
    store.close()


def test_history_does_not_make_the_store_grow(tmp_path: Path) -> None:
    """Thousands of transactions later, housekeeping leaves a handful of rows in every table."""
    clock = ManualClock()
    store = SqlStore(url_in(tmp_path), clock=clock)
    start = Start((lock_on(LockType.SHARED_WRITE, "orders"),), (ORDERS,), (ORDERS,))

    def history() -> dict[str, int]:
        for turn in range(60):
            clock.advance(1)
            begun = store.begin_txn(CLIENT, start)
            kind = Operation.UPDATE if turn % 2 else Operation.INSERT
            store.commit_txn(begun.txn_id, written=[wrote(ORDERS, kind, f"p={turn % 5}")])
            job = store.enqueue_compaction(CompactionRequest(ORDERS, None, "minor"), "x")
            store.claim_compaction("w", job.id)
            store.end_compaction(job.id, "refused")
        lost = store.open_txns(CLIENT, 1000)
        store.allocate_write_ids(lost, ORDERS)
        store.lock(lost[0], start.locks)
        clock.advance(301)
        assert len(store.abort_timed_out()) == 1000
        top = store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].high_watermark
        store.forget_aborted(ORDERS, None, top)
        clock.advance(31 * 86_400)
        store.housekeep()
        names = [name for name in METADATA.tables if name != "hiveacid_schema"]
        return store._database.read(
            lambda connection: {
                name: connection.scalar(text(f"SELECT count(*) FROM {name}")) or 0 for name in names
            }
        )

    first, *later = (history() for _ in range(3))
    assert later == [first] * 2
    assert max(first.values()) <= 5, first
    store.close()


def test_a_refused_commit_is_the_end_of_a_transaction_for_its_client(store: SqlStore) -> None:
    """Nobody aborts it later: its mark would stay for ever, and retries would go on as if it could still commit."""
    earlier, later = store.open_txns(CLIENT, 2)
    change = [wrote(ORDERS, Operation.UPDATE)]
    store.commit_txn(earlier, written=change)
    database = store._database
    assert (database.own_txns.mark(later) is None, database.retry_deadlines.remaining()) == (False, 270)
    with pytest.raises(WriteConflictError):
        store.commit_txn(later, written=change)
    assert (database.own_txns.mark(later), database.retry_deadlines.remaining()) == (None, 0)


def test_a_commit_after_the_time_out_is_the_end_of_a_transaction_for_its_client(tmp_path: Path) -> None:
    """As a read lease of a process that slept: each kept its mark for ever."""
    clock = ManualClock()
    store = SqlStore(url_in(tmp_path), clock=clock)
    database = store._database
    for kind, written in ((TxnKind.DEFAULT, [wrote(ORDERS, Operation.INSERT)]), (TxnKind.READ_ONLY, [])):
        (txn_id,) = store.open_txns(CLIENT, kind=kind)
        clock.advance(301)
        assert store.abort_timed_out() == (txn_id,)
        assert database.own_txns.mark(txn_id) is not None
        with pytest.raises(TransactionAbortedError):
            store.commit_txn(txn_id, written=written)
        assert database.own_txns.mark(txn_id) is None
    store.close()


def _abort_writers(store: SqlStore, count: int) -> None:
    for _ in range(count // 500):
        txn_ids = store.open_txns(CLIENT, 500)
        store.allocate_write_ids(txn_ids, ORDERS)
        for txn_id in txn_ids[:20]:
            store.add_written(txn_id, [wrote(ORDERS, Operation.INSERT, f"p={txn_id % 3}")])
        store.abort_txns(txn_ids, "no", Remains.FILES)


def test_a_backlog_of_aborted_ids_is_forgotten_in_portions(store: SqlStore) -> None:
    """One transaction for all takes longer than a client waits for a server; an interrupted call is made again."""
    _abort_writers(store, 5000)
    deleted: list[int] = []

    def count(_connection: object, cursor: Any, statement: str, *_rest: object) -> None:
        if statement.startswith("DELETE FROM hiveacid_write_ids"):
            deleted.append(cursor.rowcount)
            if len(deleted) == 2 and sum(deleted) < 5000:
                deleted.append(0)
                raise KeyboardInterrupt

    event.listen(store._database._engine, "after_cursor_execute", count)
    with pytest.raises(KeyboardInterrupt):
        store.forget_aborted(ORDERS, None, WriteId(4900))
    assert len(store.aborted_write_ids(ORDERS)) == 3000
    store.forget_aborted(ORDERS, None, WriteId(4900))
    assert store.aborted_write_ids(ORDERS) == tuple(range(4901, 5001))
    assert 0 < max(deleted) <= 2000
    with store._database._engine.connect() as connection:
        kept = connection.scalar(text("SELECT count(*) FROM hiveacid_written"))
    assert kept == 0


def test_the_work_for_aborted_ids_grows_with_their_number_only(tmp_path: Path) -> None:
    """Not with its square: ten thousand of them are what a broken writer leaves in a night."""
    work: dict[int, int] = {}
    for count in (1000, 4000):
        store = SqlStore(f"sqlite:///{tmp_path}/{count}.db", clock=ManualClock())
        _abort_writers(store, count)
        with store._database._engine.connect() as connection:
            # a change of each, as a batch of a stream has one
            connection.exec_driver_sql(
                "INSERT INTO hiveacid_written (txn_id, database_name, table_name, operation)"
                f" SELECT id, '{ORDERS.database}', '{ORDERS.name}', 'i' FROM hiveacid_txns"
            )
            driver: Any = connection.connection.driver_connection
            steps = iter(range(1 << 60))
            driver.set_progress_handler(lambda steps=steps: next(steps) < 0, 100)
        store.changed_partitions()
        store.forget_aborted(ORDERS, None, WriteId(count))
        work[count] = next(steps)
        assert store.aborted_write_ids(ORDERS) == ()
        store.close()
    assert 10 < work[1000] < work[4000] < 6 * work[1000], work


def test_frequent_statements_use_indexes(store: SqlStore) -> None:
    """None of a writer's statements reads a whole table that grows."""
    said: list[tuple[str, object]] = []

    def listen(
        _connection: object, _cursor: object, statement: str, parameters: object, *_rest: object
    ) -> None:
        said.append((statement, parameters))

    event.listen(store._database._engine, "before_cursor_execute", listen)
    (txn_id,) = store.open_txns(CLIENT)
    request = store.lock(txn_id, [lock_on(LockType.SHARED_WRITE, "orders")])
    store.check_lock(request.lock_id)
    seen = store.take_snapshot(txn_id)
    store.valid_write_ids(seen, [ORDERS])
    store.allocate_write_ids([txn_id], ORDERS)
    store.add_written(txn_id, [wrote(ORDERS, Operation.UPDATE)])
    store.heartbeat([txn_id])
    store.commit_txn(txn_id)
    scans = set()
    with store._database._engine.connect() as connection:
        for statement, parameters in said[:]:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters).all()  # type: ignore[arg-type]
            scans |= {row[3] for row in plan if row[3].startswith("SCAN") and "hiveacid" in row[3]}
    assert len(said) > 15
    # Only the indexes on open and on aborted transactions are read whole, and they hold no others.
    assert {scan for scan in scans if "INDEX hiveacid_txns_" not in scan} == set()


def test_keys_of_one_number_are_locked_exclusively_if_one_of_them_is() -> None:
    shared, exclusive = {"a": False, "b": False}, {"a": True, "b": False, "c": False}
    assert [is_exclusive for _, is_exclusive in number_keys(shared, 1)] == [False]
    assert [is_exclusive for _, is_exclusive in number_keys(exclusive, 1)] == [True]
    assert number_keys(exclusive) == sorted(number_keys(exclusive))
    assert sorted(is_exclusive for _, is_exclusive in number_keys(exclusive)) == [False, False, True]


@pytest.mark.parametrize("change", ["ended", "forgotten"])
def test_records_that_change_while_they_are_read_are_not_taken_for_complete(
    store: SqlStore, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    """A reader that knows some directories asks twice, and no transaction of the database joins the questions."""
    made = replace(orders(), partition_columns=())
    store.create_database(database())
    store.create_table(made, unoccupied=True)
    directories = [RecordedDirectory(f"delta_000000{n}_000000{n}_0000", made=n) for n in (1, 2)]

    def add(directory: RecordedDirectory) -> None:
        told = TableRecords(ORDERS, (NewDirectory((), directory),))
        txn_id = store.begin_txn(CLIENT, Start((), (ORDERS,), (ORDERS,))).txn_id
        store.commit_txn(txn_id, CatalogChanges(records=(told,)), [wrote(ORDERS, Operation.INSERT)])

    add(directories[0])
    known = store.recorded_files(ORDERS, None)
    assert known == {(): directories[:1]}
    add(directories[1])
    (held,) = store.open_txns(CLIENT)

    def between(*given: object) -> object:
        monkeypatch.undo()
        if change == "ended":
            store.end_records(ORDERS, held)
        else:
            store.forget_directories(ORDERS, None, [directories[1].name], held)
        return file_records._kept(*given)  # type: ignore[arg-type]

    monkeypatch.setattr(file_records, "_kept", between)
    assert store.recorded_files(ORDERS, None, known) is None
