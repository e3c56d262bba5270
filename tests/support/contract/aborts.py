"""Contract: aborts, their clean-up, and housekeeping that changes no answer."""

from __future__ import annotations

import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import TxnId, WriteId
from hiveacid.errors import NoSuchTransactionError, WriteConflictError
from hiveacid.ports.transactions import Operation, Remains, TxnKind
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table, wrote

INSERT, UPDATE, DELETE = Operation
LONG = 10_000  # seconds: more than any time-out


def _committed(store: Store, operation: Operation = INSERT) -> TxnId:
    """Open, write and commit."""
    txn_id = store.open_txns(CLIENT)[0]
    store.allocate_write_ids([txn_id], ORDERS)
    store.add_written(txn_id, [wrote(ORDERS, operation)])
    store.commit_txn(txn_id)
    return txn_id


def _aborted(store: Store, *partitions: str | None) -> TxnId:
    """Open, write and abort."""
    txn_id = store.open_txns(CLIENT)[0]
    store.allocate_write_ids([txn_id], ORDERS)
    store.add_written(txn_id, [wrote(ORDERS, INSERT, one) for one in partitions])
    store.abort_txns([txn_id], "no")
    return txn_id


def _crashed_compaction(store: Store, clock: ManualClock) -> TxnId:
    """Commit, start a compaction of it, and abort that after a time in which another transaction began."""
    _committed(store)
    job = store.enqueue_compaction(CompactionRequest(ORDERS, "p=1", "major"), "manual")
    store.claim_compaction("w")
    txn_id = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0]
    store.start_compaction(job.id, txn_id, WriteId(1))
    store.open_txns(CLIENT)
    store.abort_txns([txn_id], "crashed")
    clock.advance(LONG)
    return txn_id


def _orders(store: Store) -> str:
    return store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].to_string()


class AbortContract:
    """Scenarios T8, T9, T16."""

    def test_abort_of_many(self, store: Store) -> None:
        """Open ones only; the answer names them, ascending."""
        one, two, three, four = store.open_txns(CLIENT, 4)
        store.commit_txn(two)
        store.abort_txns([three], "no")
        assert store.abort_txns([four, TxnId(99), three, two, one, one], "sweep") == (one, four)
        assert store.abort_txns([one], "again") == ()
        assert store.abort_txns([], "nobody") == ()

    def test_reasons_may_hold_anything(self, store: Store) -> None:
        """They come from error messages."""
        txn_id = store.open_txns(CLIENT)[0]
        assert store.abort_txns([txn_id], "a\0b \ud800 '\"; drop table x") == (txn_id,)

    def test_aborted_ids_stay_until_they_are_forgotten(self, store: Store, clock: ManualClock) -> None:
        """The cleaner says which ids left nothing behind any more; up to which id, too."""
        _aborted(store, None)
        _committed(store)
        _aborted(store, None)
        assert store.aborted_write_ids(ORDERS) == (1, 3)
        assert store.aborted_write_ids(STOCK) == ()
        clock.advance(LONG)
        store.housekeep()
        assert _orders(store) == "shop.orders:3:9223372036854775807::1,3"
        store.forget_aborted(ORDERS, None, WriteId(2))
        assert store.aborted_write_ids(ORDERS) == (3,)
        store.forget_aborted(STOCK, None, WriteId(9))
        store.forget_aborted(ORDERS, None, WriteId(3))
        store.housekeep()
        assert _orders(store) == "shop.orders:3:9223372036854775807::"

    def test_ids_of_another_table_of_the_name_are_not_forgotten(self, store: Store) -> None:
        """A cleaner that was paused read the definition of the one before."""
        store.create_database(database())
        store.create_table(table())
        before = store.get_table(ORDERS)
        store.drop_table(ORDERS)
        store.create_table(table())
        _aborted(store, None)
        with pytest.raises(WriteConflictError):
            store.forget_aborted(ORDERS, None, WriteId(1), seen=before)
        assert store.aborted_write_ids(ORDERS) == (1,)
        store.forget_aborted(ORDERS, None, WriteId(1), seen=store.get_table(ORDERS))
        assert store.aborted_write_ids(ORDERS) == ()

    def test_every_partition_has_to_be_cleaned(self, store: Store) -> None:
        """A transaction that wrote to several partitions is forgotten with the last of them."""
        _aborted(store, "p=1", "p=2")
        store.forget_aborted(ORDERS, "p=1", WriteId(1))
        store.forget_aborted(ORDERS, "p=3", WriteId(1))
        assert store.aborted_write_ids(ORDERS) == (1,)
        store.forget_aborted(ORDERS, "p=2", WriteId(0))
        assert store.aborted_write_ids(ORDERS) == (1,)
        store.forget_aborted(ORDERS, "p=2", WriteId(1))
        assert store.aborted_write_ids(ORDERS) == ()

    def test_unrecorded_writes_need_the_whole_table(self, store: Store) -> None:
        """Killed before it said where it wrote: any partition may hold its files."""
        txn_id = store.open_txns(CLIENT)[0]
        store.allocate_write_ids([txn_id], ORDERS)
        store.abort_txns([txn_id], "killed")
        store.forget_aborted(ORDERS, "p=1", WriteId(1))
        assert store.aborted_write_ids(ORDERS) == (1,)
        store.forget_aborted(ORDERS, None, WriteId(1))
        assert store.aborted_write_ids(ORDERS) == ()

    def test_what_wrote_nothing_is_forgotten_at_once(self, store: Store, clock: ManualClock) -> None:
        """Its owner says so: no write id and no trace stays, and housekeeping drops the transaction."""
        _committed(store)
        mine = store.open_txns(CLIENT, 3)
        store.allocate_write_ids(mine, ORDERS)
        store.add_written(mine[0], [wrote(ORDERS, INSERT)])
        job = store.enqueue_compaction(CompactionRequest(ORDERS, "p=1", "major"), "manual")
        store.claim_compaction("w")
        compaction = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0]
        store.start_compaction(job.id, compaction, WriteId(1))
        assert store.abort_txns([*mine, compaction], "nothing", Remains.NOTHING) == (*mine, compaction)
        assert store.aborted_write_ids(ORDERS) == ()
        assert _orders(store) == "shop.orders:4:9223372036854775807::"
        store.end_compaction(job.id, "failed")
        clock.advance(LONG)
        store.open_txns(CLIENT)
        store.housekeep()
        assert store.valid_txns().aborted == ()

    def test_writers_that_may_still_come(self, store: Store, clock: ManualClock) -> None:
        """Those that somebody else aborted, until their owner says what is left of them."""
        mine = store.open_txns(CLIENT, 5)
        store.allocate_write_ids(mine, ORDERS)
        for txn_id in mine[:2]:
            store.take_snapshot(txn_id)
            store.add_written(txn_id, [wrote(ORDERS, UPDATE)])
        store.commit_txn(mine[0])
        with pytest.raises(WriteConflictError):
            store.commit_txn(mine[1])
        store.abort_txns([mine[2]], "ABORT TRANSACTIONS")
        store.abort_txns([mine[3]], "failed", Remains.FILES)
        clock.advance(301)
        assert store.abort_timed_out() == (mine[4],)
        assert store.aborted_write_ids(ORDERS) == (2, 3, 4, 5)
        assert store.aborted_write_ids(ORDERS, may_come=True) == (3, 5)
        assert store.abort_txns([mine[0], mine[2]], "stopped", Remains.FILES) == ()
        assert store.aborted_write_ids(ORDERS, may_come=True) == (5,)
        assert store.abort_txns([mine[0], mine[4]], "stopped", Remains.NOTHING) == ()
        assert store.aborted_write_ids(ORDERS) == (2, 3, 4)
        assert store.txn_state(mine[0]) == "committed"

    def test_ids_of_a_table_that_was_never_made(self, store: Store, clock: ManualClock) -> None:
        """No cleaner visits it: housekeeping forgets the ids when no writer of it can come any more."""
        stopped, killed, last = store.open_txns(CLIENT, 3)
        store.allocate_write_ids([stopped, killed], ORDERS)
        store.abort_txns([stopped], "failed", Remains.FILES)
        store.abort_txns([killed], "killed")
        store.housekeep()
        assert store.aborted_write_ids(ORDERS) == (1, 2)
        clock.advance(301)
        store.housekeep()
        assert store.aborted_write_ids(ORDERS) == (2,)
        clock.advance(86_400)
        store.housekeep()
        assert store.aborted_write_ids(ORDERS) == ()
        store.housekeep()
        assert store.valid_txns().aborted == ()
        assert last in store.valid_txns().open
        assert store.allocate_write_ids([last], ORDERS) == (3,)

    def test_only_early_compactions_are_forgotten(self, store: Store, clock: ManualClock) -> None:
        """A later one may have left a directory behind the cleaner's listing."""
        txn_id = _crashed_compaction(store, clock)
        for before in (TxnId(0), txn_id):
            store.forget_aborted(ORDERS, None, WriteId(1), before)
        store.housekeep()
        assert store.valid_txns().is_aborted(txn_id)
        store.forget_aborted(ORDERS, None, WriteId(1), TxnId(txn_id + 1))
        store.housekeep()
        assert not store.valid_txns().is_aborted(txn_id)

    def test_open_and_committed_ids_are_never_forgotten(self, store: Store) -> None:
        """The cleaner's word is about aborted ones."""
        _committed(store)
        running = store.open_txns(CLIENT)[0]
        store.allocate_write_ids([running], ORDERS)
        store.add_written(running, [wrote(ORDERS, INSERT)])
        store.forget_aborted(ORDERS, None, WriteId(9))
        assert _orders(store) == "shop.orders:2:2:2:"
        store.abort_txns([running], "no")
        assert store.aborted_write_ids(ORDERS) == (2,)

    def test_housekeeping_drops_the_old(self, store: Store, clock: ManualClock) -> None:
        """Empty aborted and committed transactions go after hive.txn.timeout; the newest id stays."""
        empty, committed, last = store.open_txns(CLIENT, 3)
        store.abort_txns([empty, last], "no")
        store.commit_txn(committed)
        store.housekeep()
        assert store.txn_state(committed) == "committed"
        clock.advance(300.001)
        store.housekeep()
        states = [store.txn_state(txn_id) for txn_id in (empty, committed, last)]
        assert states == ["unknown", "unknown", "aborted"]
        with pytest.raises(NoSuchTransactionError):
            store.commit_txn(empty)
        assert store.valid_txns().to_string() == "3:9223372036854775807::3"
        assert store.open_txns(CLIENT) == (4,)

    def test_housekeeping_changes_no_list(self, store: Store, clock: ManualClock) -> None:
        """Neither new readers' nor old ones'."""
        for _ in range(3):
            _committed(store, UPDATE)
        writer = store.open_txns(CLIENT)[0]
        store.allocate_write_ids([writer], ORDERS)
        reader = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0]
        snapshot = store.take_snapshot(reader)
        store.commit_txn(writer)
        _aborted(store, None)
        before = store.valid_write_ids(snapshot, [ORDERS]), _orders(store)
        for _ in range(3):
            clock.advance(299)
            store.heartbeat([reader])
            store.housekeep()
        assert (store.valid_write_ids(snapshot, [ORDERS]), _orders(store)) == before
        assert _orders(store) == "shop.orders:5:9223372036854775807::5"
        store.commit_txn(reader)
        clock.advance(LONG)
        store.housekeep()
        assert _orders(store) == "shop.orders:5:9223372036854775807::5"
        assert store.allocate_write_ids(store.open_txns(CLIENT), ORDERS) == (6,)

    def test_housekeeping_forgets_no_conflict(self, store: Store, clock: ManualClock) -> None:
        """What an open transaction has not seen stays on record."""
        slow = store.open_txns(CLIENT)[0]
        store.take_snapshot(slow)
        store.add_written(slow, [wrote(ORDERS, UPDATE)])
        _committed(store, DELETE)
        for _ in range(5):
            clock.advance(250)
            store.heartbeat([slow])
            store.housekeep()
        with pytest.raises(WriteConflictError):
            store.commit_txn(slow)
        shown = next(row for row in store.show_transactions() if row.txn_id == slow)
        if store.maintained_by_hiveacid():  # a metastore does not tell
            assert (shown.code, shown.ended) == (WriteConflictError.code, clock.now())

    def test_an_aborted_compaction_stays_aborted(self, store: Store, clock: ManualClock) -> None:
        """Its directories end in its transaction id: until they are gone nobody may believe it."""
        txn_id = _crashed_compaction(store, clock)
        store.housekeep()
        store.forget_aborted(ORDERS, "p=2", WriteId(1))
        store.housekeep()
        assert store.valid_txns().is_aborted(txn_id)
        store.forget_aborted(ORDERS, "p=1", WriteId(1))
        store.housekeep()
        assert not store.valid_txns().is_aborted(txn_id)
