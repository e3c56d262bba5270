"""Read transactions, their holders, and signs of life: what goes wrong around them stays small."""

from __future__ import annotations

import inspect
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from types import FrameType

import pytest

from hiveacid.config import Settings
from hiveacid.config.setting_definitions import LOCK_NUMRETRIES
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.commit_records import StreamBatch, TableOperation
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import (
    CommitStateUnknownError,
    LockTimeoutError,
    StorageError,
    StoreUnavailableError,
    TransactionAbortedError,
    UnsupportedFeatureError,
)
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Begun, Client, Remains, Start, TxnKind, Written
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.read_leases import ReadLeases
from hiveacid.transactions.transaction import Transactions
from support.clock import ManualClock
from support.memory_store.store import MemoryStore

SETTINGS = Settings.of({})
CLIENT = Client("u", "h", "test")


class Holding:
    """A plan that can run as long as it is told so."""

    def __init__(self) -> None:
        self.runs = True

    def alive(self) -> bool:
        return self.runs


class Cut(MemoryStore):
    """A store that can be out of reach."""

    out_of_reach = False

    def _reach(self) -> None:
        if self.out_of_reach:
            raise StoreUnavailableError("no answer")

    def commit_txn(
        self,
        txn_id: TxnId,
        changes: CatalogChanges = CatalogChanges(),  # noqa: B008
        written: Sequence[Written] = (),
        batch: StreamBatch | None = None,
        operations: Sequence[TableOperation] = (),
    ) -> None:
        self._reach()
        super().commit_txn(txn_id, changes, written, batch, operations)

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        self._reach()
        return super().abort_txns(txn_ids, reason, remains)

    def begin_txn(
        self,
        client: Client,
        start: Start = Start(),  # noqa: B008
        kind: TxnKind = TxnKind.DEFAULT,
    ) -> Begun:
        self._reach()
        return super().begin_txn(client, start, kind)


@pytest.fixture
def store() -> Cut:
    return Cut()


@pytest.fixture
def transactions(store: Cut) -> Transactions:
    return Transactions(store, Heartbeats(store, 150.0), SystemClock(), Client("u", "h", "test"))


def open_ids(store: Cut) -> list[int]:
    return [row.txn_id for row in store.show_transactions() if row.state.upper() == "OPEN"]


def test_a_reaped_reader_does_not_stop_the_next_one(store: Cut, transactions: Transactions) -> None:
    snapshots = ReadLeases(transactions)
    with snapshots.acquire(SETTINGS) as first:
        snapshots.add_holder(first, Holding().alive)
    store.abort_txns([first.txn_id], "silent for too long")
    transactions.heartbeats.beat()
    with snapshots.acquire(SETTINGS) as second:
        assert second.txn_id != first.txn_id
        assert second.snapshot() is not None


@pytest.mark.parametrize("passed", [0, 149, 151, 301, 10_000])
def test_a_transaction_that_may_publish_is_not_aborted_a_moment_later(passed: int) -> None:
    """The reaper comes just after the answer to a client that was paused: an overdue heartbeat is made up for."""
    clock = ManualClock()
    store = MemoryStore(clock=clock)
    transactions = Transactions(store, Heartbeats(store, 150.0), clock, Client("u", "h", "test"))
    txn, other = transactions.begin(SETTINGS), transactions.begin(SETTINGS)
    clock.advance(passed)
    txn.require_open_in_store()
    reaped = store.abort_timed_out()
    assert reaped == ((other.txn_id,) if passed > 300 else ())
    clock.advance(140)
    assert txn.txn_id not in store.abort_timed_out()
    if reaped:
        with pytest.raises(TransactionAbortedError):
            other.require_open_in_store()
    transactions.heartbeats.close()


def test_a_transaction_whose_locks_an_older_one_holds_publishes_only_while_that_is_open(
    store: Cut, transactions: Transactions
) -> None:
    txn, guard = transactions.begin(SETTINGS), transactions.begin(SETTINGS)
    txn.guard = guard
    txn.require_open_in_store()
    store.abort_txns([guard.txn_id], "by an administrator")
    assert store.txn_state(txn.txn_id) == "open"
    with pytest.raises(TransactionAbortedError, match=f"transaction {guard.txn_id} "):
        txn.require_open_in_store()


def test_a_reader_of_a_replaced_table_is_not_shared(transactions: Transactions) -> None:
    """Without a transaction, as other tools replace tables of a metastore: the next query would fail as well."""
    snapshots = ReadLeases(transactions)
    with snapshots.acquire(SETTINGS) as first:
        snapshots.add_holder(first, Holding().alive)
        first.reads.outdated = True
    with snapshots.acquire(SETTINGS) as second:
        assert second.txn_id != first.txn_id


@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_of_several_statements_has_a_lease_from_before_its_snapshot(
    transactions: Transactions, *, commits: bool
) -> None:
    """The cleaner waits for the lowest open transaction: the lease keeps all files of that snapshot for DataFrames."""
    leases, frame = ReadLeases(transactions), Holding()
    txn = leases.begin_explicit(SETTINGS)
    assert txn.explicit
    assert txn.lease is not None
    assert txn.lease.txn_id < txn.txn_id
    assert txn.snapshot().high_watermark >= txn.txn_id
    assert leases.sweep() == 1
    leases.add_holder(txn.lease, frame.alive)
    txn.commit() if commits else txn.abort("ROLLBACK")
    assert leases.sweep() == 1
    assert transactions.store.min_open_txn_id() == txn.lease.txn_id
    frame.runs = False
    assert (leases.sweep(), txn.lease.ended) == (0, True)


def test_a_reader_that_could_not_be_ended_is_ended_later(store: Cut, transactions: Transactions) -> None:
    snapshots, holder = ReadLeases(transactions), Holding()
    with snapshots.acquire(SETTINGS) as reader:
        snapshots.add_holder(reader, holder.alive)
    holder.runs, store.out_of_reach = False, True
    snapshots.sweep()
    assert open_ids(store) == [reader.txn_id]
    store.out_of_reach = False
    assert snapshots.sweep() == 0
    assert open_ids(store) == []


def test_a_slow_answer_to_one_client_holds_up_no_other(
    store: Cut, transactions: Transactions, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the reads of others, nor the sweep, which also renews heartbeats."""
    leases, holder = ReadLeases(transactions), Holding()
    with leases.acquire(SETTINGS) as first:
        leases.add_holder(first, holder.alive)
    asked, answered = threading.Event(), threading.Event()
    valid_txns = store.valid_txns
    found = []

    def answer_late() -> object:
        if threading.current_thread() is slow:
            asked.set()
            assert answered.wait(60)
        return valid_txns()

    def read() -> None:
        with leases.acquire(SETTINGS) as lease:
            found.append(lease)

    slow = threading.Thread(target=read)
    monkeypatch.setattr(store, "valid_txns", answer_late)
    slow.start()
    assert asked.wait(60)
    holder.runs = False
    assert leases.sweep() == 1  # it is about to be used again
    with leases.of_client(transactions).acquire(SETTINGS) as other:
        assert other is not first
    answered.set()
    slow.join(60)
    assert [one.txn_id for one in found] != [first.txn_id]  # it is not the newest any more
    assert leases.sweep() == 0
    assert open_ids(store) == []


def test_a_snapshot_that_could_not_be_taken_holds_nobody(store: Cut, transactions: Transactions) -> None:
    snapshots = ReadLeases(transactions)
    store.out_of_reach = True
    with pytest.raises(StoreUnavailableError), snapshots.acquire(SETTINGS):
        pass
    store.out_of_reach = False
    snapshots.sweep()
    assert open_ids(store) == []


def test_a_failing_sweep_stops_no_heartbeat(store: Cut) -> None:
    beats = threading.Event()
    heard: Callable[..., object] = store.heartbeat
    heartbeats = Heartbeats(store, 0.05)

    def listen(ids: object) -> object:
        beats.set()
        return heard(ids)

    store.heartbeat = listen  # type: ignore[assignment,method-assign]
    heartbeats.add_sweeper(lambda: 1 // 0)
    (txn_id,) = store.open_txns(Client("u", "h", "test"))
    heartbeats.track(txn_id)
    assert beats.wait(timeout=30)
    heartbeats.close()


def test_a_long_timeout_of_ones_own_does_not_make_one_silent(store: Cut) -> None:
    """Others go by theirs: 300 s if they have not been told otherwise."""
    heartbeats = Heartbeats(store, 1800.0)
    waits: list[float] = []
    beats = threading.Event()

    def stopped_within(seconds: float) -> bool:
        waits.append(seconds)
        return len(waits) > 16  # 160 s of turns

    heartbeats._stopped_within = stopped_within  # type: ignore[method-assign]
    heartbeats.beat = beats.set  # type: ignore[method-assign]
    heartbeats._run()
    assert sum(waits) < 300
    assert beats.is_set()


def test_statement_ids_end_where_a_bucket_property_has_no_room(transactions: Transactions) -> None:
    txn = transactions.begin(SETTINGS)
    assert txn.next_statements(4095)[-1] == 4094
    assert txn.next_statements(1)[0] == 4095
    with pytest.raises(UnsupportedFeatureError, match="4096 statement ids"):
        txn.next_statements(1)
    txn.abort("done")


def test_an_unknown_outcome_is_neither_aborted_nor_cleaned_up(store: Cut, transactions: Transactions) -> None:
    """The files may be the table's: whoever does not know leaves them alone."""
    removed: list[str] = []
    txn = transactions.begin(SETTINGS, start=Start())
    txn.pending.on_abort.append(lambda: removed.append("files"))
    commit = store.commit_txn

    def loses_the_answer(*arguments: object) -> None:
        commit(*arguments)  # type: ignore[arg-type]
        raise CommitStateUnknownError("no answer")

    store.commit_txn = loses_the_answer  # type: ignore[method-assign]
    with pytest.raises(CommitStateUnknownError):
        txn.commit()
    txn.abort("the statement failed")
    assert store.txn_state(txn.txn_id) == "committed"
    assert removed == []


def test_an_abort_without_a_store_keeps_the_first_error(store: Cut, transactions: Transactions) -> None:
    """What went wrong is said; the transaction is aborted later, and its files stay for the cleaner."""
    removed: list[str] = []

    def work() -> None:
        with transactions.scope(SETTINGS, start=Start()) as txn:
            txn.pending.on_abort.append(lambda: removed.append("files"))
            store.out_of_reach = True
            raise UnsupportedFeatureError("the first error")

    with pytest.raises(UnsupportedFeatureError, match="the first error"):
        work()
    store.out_of_reach = False
    assert removed == []
    assert len(open_ids(store)) == 1


@pytest.mark.parametrize("ends", [StoreUnavailableError("no answer"), KeyboardInterrupt()])
def test_a_statement_whose_files_and_store_are_both_away_is_aborted(
    store: Cut, transactions: Transactions, ends: BaseException
) -> None:
    """Heartbeats would keep its locks, and what the cleaner may not remove, until the process ends."""

    def away(_: TxnId) -> str:
        raise ends

    def work() -> None:
        with transactions.scope(SETTINGS, start=Start(locks=(EXCL_WRITE,))):
            store.txn_state = away  # type: ignore[method-assign,assignment]
            raise StorageError("no file system")

    expected = StorageError if isinstance(ends, StoreUnavailableError) else KeyboardInterrupt
    with pytest.raises(expected):
        work()
    assert transactions.heartbeats.tracked() == frozenset()
    assert (open_ids(store), store.show_locks()) == ([], ())


def test_what_could_not_be_aborted_is_aborted_when_the_store_is_back(store: Cut) -> None:
    """Its locks would stay until the time-out of the store otherwise, with Hive's default for five minutes."""
    heartbeats = Heartbeats(store, 0.05)
    txn = Transactions(store, heartbeats, SystemClock(), CLIENT).begin(SETTINGS)
    txn.lock([EXCL_WRITE])
    store.out_of_reach = True
    txn.abort("the statement failed")
    assert open_ids(store) == [txn.txn_id]
    store.out_of_reach = False
    deadline = time.monotonic() + 30
    while open_ids(store) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert (open_ids(store), store.show_locks()) == ([], ())
    heartbeats.close()


EXCL_WRITE = LockComponent(LockType.EXCL_WRITE, "d", "t")
PATIENT = Settings.of({"hive.lock.numretries": "3"})


class Hurried(SystemClock):
    """Does something instead of sleeping."""

    def __init__(self, instead: Callable[[], object]) -> None:
        self.instead = instead

    def sleep(self, seconds: float) -> None:
        del seconds
        self.instead()


def test_who_holds_a_lock_does_not_queue_for_it_again(store: Cut, transactions: Transactions) -> None:
    """Behind one who waits for it both would wait for ever."""
    one = transactions.begin(SETTINGS, start=Start((EXCL_WRITE,)))
    (other,) = store.open_txns(CLIENT)
    assert store.lock(other, [EXCL_WRITE]).state is LockState.WAITING
    one.lock([EXCL_WRITE])
    one.lock([LockComponent(LockType.SHARED_WRITE, "d", "t", "p=1")])
    assert [row.txn_id for row in store.show_locks()] == [one.txn_id, other]
    one.lock([LockComponent(LockType.SHARED_READ, "d", "u")])
    one.lock([LockComponent(LockType.SHARED_READ, "d", "u")])
    assert len(store.show_locks()) == 3
    one.abort("done")


def test_a_lock_that_is_not_waited_for(store: Cut, transactions: Transactions) -> None:
    """An error at once, and no request."""
    (other,) = store.open_txns(CLIENT)
    store.lock(other, [EXCL_WRITE])
    one = transactions.begin(SETTINGS)
    with pytest.raises(LockTimeoutError, match=f"transaction {other}"):
        one.lock([EXCL_WRITE], zero_wait=True)
    assert [row.txn_id for row in store.show_locks()] == [other]


@pytest.mark.parametrize(
    ("checks", "said", "seconds"),
    [("100", "100 checks take 23 minutes", 1380), ("10", "10 take 41 seconds", 41)],
)
def test_the_settings_page_says_how_long_a_lock_is_waited_for(
    store: Cut, checks: str, said: str, seconds: int
) -> None:
    assert said in LOCK_NUMRETRIES.doc
    slept: list[float] = []

    class Listing(SystemClock):
        def sleep(self, seconds: float) -> None:
            slept.append(seconds)

    (other,) = store.open_txns(CLIENT)
    store.lock(other, [EXCL_WRITE])
    one = Transactions(store, Heartbeats(store, 150.0), Listing(), CLIENT).begin(
        Settings.of({"hive.lock.numretries": checks})
    )
    with pytest.raises(LockTimeoutError):
        one.lock([EXCL_WRITE])
    assert len(slept) == int(checks)
    assert sum(slept) == pytest.approx(seconds, rel=0.02)


@pytest.mark.parametrize("begins", [True, False])
def test_ctrl_c_while_waiting_leaves_no_lock(store: Cut, *, begins: bool) -> None:
    """Neither where a statement begins, nor within a transaction; the first takes its transaction along."""

    def interrupt() -> None:
        raise KeyboardInterrupt

    transactions = Transactions(store, Heartbeats(store, 150.0), Hurried(interrupt), CLIENT)
    (other,) = store.open_txns(CLIENT)
    store.lock(other, [EXCL_WRITE])
    if begins:
        with pytest.raises(KeyboardInterrupt):
            transactions.begin(PATIENT, start=Start((EXCL_WRITE,)))
        assert open_ids(store) == [other]
    else:
        one = transactions.begin(PATIENT)
        with pytest.raises(KeyboardInterrupt):
            one.lock([EXCL_WRITE])
        assert open_ids(store) == [other, one.txn_id]
    assert [row.txn_id for row in store.show_locks()] == [other]


def test_a_lock_that_does_not_come_in_time_leaves_no_request(store: Cut) -> None:
    """The error names who is in the way."""
    slept: list[None] = []
    transactions = Transactions(store, Heartbeats(store, 150.0), Hurried(lambda: slept.append(None)), CLIENT)
    (other,) = store.open_txns(CLIENT)
    store.lock(other, [EXCL_WRITE])
    with pytest.raises(LockTimeoutError, match=f"transaction {other}"):
        transactions.begin(PATIENT, start=Start((EXCL_WRITE,)))
    assert len(slept) == 3
    assert [row.txn_id for row in store.show_locks()] == [other]
    assert open_ids(store) == [other]


def test_closed_sessions_free_the_cleaner(store: Cut, transactions: Transactions) -> None:
    """Whatever could still run on their snapshots."""
    snapshots = ReadLeases(transactions)
    with snapshots.acquire(SETTINGS) as reader:
        snapshots.add_holder(reader, Holding().alive)
    assert store.min_open_txn_id() == reader.txn_id
    snapshots.sweep()
    assert store.min_open_txn_id() == reader.txn_id
    snapshots.close()
    assert store.min_open_txn_id() == reader.txn_id + 1


def test_a_closed_session_leaves_nothing_to_a_turn_that_goes_wrong(
    store: Cut, transactions: Transactions
) -> None:
    """A turn of the heartbeat is just ending a reader, and does not reach the store: the session's end does it."""
    snapshots, ending, cut = ReadLeases(transactions), threading.Event(), threading.Event()
    commit: Callable[..., object] = store.commit_txn

    def lost(*given: object, **more: object) -> object:
        if ending.is_set():
            return commit(*given, **more)
        ending.set()
        assert cut.wait(timeout=30)
        raise StoreUnavailableError("gone")

    store.commit_txn = lost  # type: ignore[assignment,method-assign]
    with snapshots.acquire(SETTINGS) as reader:
        snapshots.add_holder(reader, (holder := Holding()).alive)
    holder.runs = False
    turn = threading.Thread(target=snapshots.sweep)
    turn.start()
    assert ending.wait(timeout=30)
    closing = threading.Thread(target=snapshots.close)
    closing.start()
    closing.join(timeout=0.2)
    cut.set()
    for thread in (turn, closing):
        thread.join(timeout=30)
    assert open_ids(store) == []


def test_the_log_names_a_committed_transaction_with_its_write_ids(
    transactions: Transactions, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="hiveacid"):
        writer = transactions.begin(SETTINGS)
        own = writer.write_id(TableName("db", "t"))
        writer.commit()
        transactions.begin(SETTINGS).commit()  # nothing written: only for debugging
    assert caplog.messages == [f"transaction {writer.txn_id} committed: db.t with write id {own}"]


class _CtrlC:
    """A profiler that raises KeyboardInterrupt at one of the calls and returns in modules of a directory."""

    def __init__(self, at: int, directory: str) -> None:
        self.at = at
        self.directory = directory
        self.count = 0

    def __call__(self, frame: FrameType, event: str, _argument: object) -> None:
        code = frame.f_code
        if event == "return" and code.co_flags & inspect.CO_GENERATOR:
            return  # a yield: Python interrupts nowhere between it and the caller
        if event in ("call", "return") and self.directory in code.co_filename:
            self.count += 1
            if self.count == self.at:
                sys.setprofile(None)
                raise KeyboardInterrupt


def test_ctrl_c_leaves_no_transaction_that_gets_heartbeats(store: Cut, transactions: Transactions) -> None:
    """Its lock would be held until the process ends."""
    start = Start(
        (LockComponent(LockType.EXCL_WRITE, "d", "t"),), (TableName("d", "t"),), (TableName("d", "t"),)
    )

    def run(at: int) -> int:
        interrupt = _CtrlC(at, "/hiveacid/transactions/")
        sys.setprofile(interrupt)
        with suppress(KeyboardInterrupt), transactions.scope(SETTINGS, start=start):
            pass
        sys.setprofile(None)
        return interrupt.count

    for at in range(1, run(0) + 1):
        run(at)
        left = transactions.heartbeats.tracked()
        assert left == frozenset(), at
        store.abort_txns(open_ids(store), "next")  # type: ignore[arg-type]
    transactions.heartbeats.close()


def test_a_failed_statement_that_published_nothing_leaves_no_aborted_write_id(
    store: Cut, transactions: Transactions
) -> None:
    table = TableName("d", "t")
    start = Start(tables=(table,), writes=(table,))

    def fail(*, publishing: bool) -> None:
        with transactions.scope(SETTINGS, start=start) as txn:
            txn.write_id(table, publishing=publishing)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail(publishing=False)
    assert store.aborted_write_ids(table) == ()
    with pytest.raises(ZeroDivisionError):
        fail(publishing=True)
    assert store.aborted_write_ids(table) == (2,)
    assert store.aborted_write_ids(table, may_come=True) == ()
    transactions.heartbeats.close()


class LikeMetastore(MemoryStore):
    """A store that keeps the write ids from before a wait, as a metastore's adapter."""

    def begin_txn(
        self,
        client: Client,
        start: Start = Start(),  # noqa: B008
        kind: TxnKind = TxnKind.DEFAULT,
    ) -> Begun:
        begun = super().begin_txn(client, start, kind)
        if begun.lock is None or begun.lock.state is LockState.ACQUIRED:
            return begun
        return replace(begun, before=self.valid_write_ids(self.valid_txns(), start.tables))


@pytest.mark.parametrize("kind", [MemoryStore, LikeMetastore])
@pytest.mark.parametrize("commits", [True, False])
def test_a_transaction_knows_that_it_waited_for_another_writer(
    kind: type[MemoryStore], *, commits: bool
) -> None:
    """Rows that its statement read before may be stale. With write ids from before the wait it knows whether others committed."""
    store = kind(clock=ManualClock())
    table = TableName("default", "t")
    start = Start((LockComponent(LockType.EXCL_WRITE, "default", "t"),), (table,), (table,))
    first = store.begin_txn(CLIENT, start)

    class Waiting(ManualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            store.commit_txn(first.txn_id) if commits else store.abort_txns([first.txn_id], "enough")

    transactions = Transactions(store, Heartbeats(store, 60), Waiting(), CLIENT)
    second = transactions.begin(SETTINGS, start=start)
    assert second.waited is (commits or kind is MemoryStore)
    second.abort("enough")
    third = transactions.begin(SETTINGS, start=start)
    assert not third.waited
    third.abort("enough")
    transactions.heartbeats.close()
