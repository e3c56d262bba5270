"""Contract: opening, snapshots, heartbeats, what is shown."""

from __future__ import annotations

import pytest

from hiveacid.config import Settings
from hiveacid.core.format.write_id_lists import ValidTxnList
from hiveacid.core.model import TxnId
from hiveacid.errors import (
    CatalogError,
    ConfigError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionError,
    TransactionStateError,
)
from hiveacid.ports.transactions import Client, HeartbeatAnswer, TransactionRow, TxnKind
from support.clock import ManualClock
from support.samples import CLIENT, Store

UNKNOWN = TxnId(999)


class TransactionContract:
    """Scenarios T1, T8, T15 of the transaction manager."""

    def test_ids_ascend_from_one_in_batches(self, store: Store) -> None:
        """Ids are never given twice; a batch is consecutive."""
        assert store.open_txns(CLIENT) == (1,)
        assert store.open_txns(CLIENT, 3) == (2, 3, 4)
        store.abort_txns([TxnId(4)], "done")
        assert store.open_txns(CLIENT) == (5,)

    @pytest.mark.parametrize("count", [0, -1, 1001])
    def test_impossible_batches_are_refused(self, store: Store, count: int) -> None:
        """``hive.txn.max.open.batch`` is 1000."""
        with pytest.raises(ConfigError, match=r"max\.open\.batch"):
            store.open_txns(CLIENT, count)
        assert store.show_transactions() == ()

    def test_a_client_is_kept_literally(self, store: Store) -> None:
        """Quotes and the like are data; NUL is refused."""
        store.open_txns(Client("o'neill\"; drop table x", "hôst", ""))
        assert [(row.user, row.host) for row in store.show_transactions()] == [
            ("o'neill\"; drop table x", "hôst")
        ]
        with pytest.raises(CatalogError, match="NUL"):
            store.open_txns(Client("a\0b", "h", ""))

    def test_nothing_has_happened_yet(self, store: Store) -> None:
        """An empty store answers too."""
        assert store.valid_txns() == ValidTxnList(TxnId(0))
        assert store.min_open_txn_id() == 1
        assert store.last_txn_id() == 0
        assert store.show_transactions() == ()
        assert store.show_locks() == ()
        assert store.txn_state(TxnId(1)) == "unknown"

    def test_a_snapshot_knows_who_is_open_and_aborted(self, store: Store) -> None:
        """Committed ones are those up to the high watermark that are not listed; oneself counts as open."""
        one, two, three, four = store.open_txns(CLIENT, 4)
        store.commit_txn(one)
        store.abort_txns([two], "no")
        assert store.take_snapshot(three) == ValidTxnList(four, (three, four), (two,))
        assert store.valid_txns() == ValidTxnList(four, (three, four), (two,))

    def test_a_later_transaction_that_committed_is_seen(self, store: Store) -> None:
        """The snapshot's moment decides, not the order of opening."""
        mine, other = store.open_txns(CLIENT, 2)
        store.commit_txn(other)
        assert store.take_snapshot(mine) == ValidTxnList(other, (mine,))

    def test_snapshots_of_ended_transactions_are_refused(self, store: Store) -> None:
        """Aborted, committed and unknown transactions read nothing."""
        committed, aborted = store.open_txns(CLIENT, 2)
        store.commit_txn(committed)
        store.abort_txns([aborted], "changed my mind")
        with pytest.raises(TransactionStateError):
            store.take_snapshot(committed)
        with pytest.raises(TransactionAbortedError, match="changed my mind"):
            store.take_snapshot(aborted)
        with pytest.raises(NoSuchTransactionError):
            store.take_snapshot(UNKNOWN)

    def test_the_lowest_open_transaction(self, store: Store) -> None:
        """Readers hold the cleaner too; with nobody open it is the next id."""
        reader = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0]
        writer = store.open_txns(CLIENT)[0]
        assert store.min_open_txn_id() == reader
        store.commit_txn(reader)
        assert store.min_open_txn_id() == writer
        store.abort_txns([writer], "")
        assert store.min_open_txn_id() == writer + 1
        assert store.last_txn_id() == writer

    def test_states(self, store: Store) -> None:
        """A client that lost an answer asks here."""
        one, two, three = store.open_txns(CLIENT, 3)
        store.commit_txn(one)
        store.abort_txns([two], "no")
        states = [store.txn_state(txn_id) for txn_id in (one, two, three, UNKNOWN)]
        assert states == ["committed", "aborted", "open", "unknown"]

    def test_ids_that_another_engine_left_are_passed_over(self, store: Store, clock: ManualClock) -> None:
        """They stand in names of directories (``_v7``): later ids are higher, they themselves committed."""
        running = store.open_txns(CLIENT)[0]
        store.seed_txns(TxnId(7))
        store.seed_txns(TxnId(3))
        assert store.valid_txns() == ValidTxnList(TxnId(7), (running,))
        assert store.min_open_txn_id() == running
        assert store.open_txns(CLIENT, 2) == (8, 9)
        store.commit_txn(running)
        clock.advance(10_000)
        store.housekeep()
        assert store.take_snapshot(TxnId(9)) == ValidTxnList(TxnId(9), (TxnId(8), TxnId(9)))

    def test_heartbeats_tell_who_is_gone(self, store: Store) -> None:
        """Ids of one heartbeat may be in any state and any order."""
        one, two, three, four = store.open_txns(CLIENT, 4)
        store.commit_txn(two)
        store.abort_txns([three], "no")
        answer = store.heartbeat([UNKNOWN, four, three, two, one, one])
        assert answer == HeartbeatAnswer(aborted=(three,), missing=(two, UNKNOWN))
        assert store.heartbeat([one, four]) == HeartbeatAnswer()
        assert store.heartbeat([]) == HeartbeatAnswer()

    def test_heartbeats_of_many(self, store: Store) -> None:
        """More ids than a database takes in one statement."""
        ids = [txn_id for _ in range(2) for txn_id in store.open_txns(CLIENT, 1000)]
        store.abort_txns(ids[:1500], "no")
        assert store.heartbeat(ids) == HeartbeatAnswer(aborted=tuple(ids[:1500]))

    def test_the_silent_are_aborted(self, store: Store, clock: ManualClock) -> None:
        """``hive.txn.timeout`` after the last heartbeat, by the store's clock, and not earlier."""
        silent, alive = store.open_txns(CLIENT, 2)
        clock.advance(200)
        store.heartbeat([alive])
        clock.advance(100)
        assert store.abort_timed_out() == ()
        clock.advance(0.001)
        assert store.abort_timed_out() == (silent,)
        assert store.txn_state(alive) == "open"
        assert store.heartbeat([silent, alive]) == HeartbeatAnswer(aborted=(silent,))
        with pytest.raises(TransactionAbortedError, match=r"hive\.txn\.timeout"):
            store.commit_txn(silent)
        with pytest.raises(TransactionAbortedError):
            store.take_snapshot(silent)

    def test_limits_can_change(self, store: Store, clock: ManualClock) -> None:
        """A session that says SET hive.txn.timeout is obeyed at once."""
        store.apply_settings(Settings.of({"hive.txn.timeout": "10s", "hive.max.open.txns": "2"}))
        ids = store.open_txns(CLIENT, 2)
        with pytest.raises(TransactionError, match=r"hive\.max\.open\.txns allows 2"):
            store.open_txns(CLIENT)
        clock.advance(11)
        assert store.abort_timed_out() == ids
        store.apply_settings(Settings())
        assert len(store.open_txns(CLIENT, 3)) == 3
        clock.advance(11)
        assert store.abort_timed_out() == ()

    def test_a_transaction_keeps_the_timeout_of_its_client(self, store: Store, clock: ManualClock) -> None:
        """Neither a client with a shorter ``hive.txn.timeout`` nor one with a longer one changes it."""
        (usual,) = store.open_txns(CLIENT)
        store.apply_settings(Settings.of({"hive.txn.timeout": "10s"}))
        short = store.begin_txn(CLIENT).txn_id
        clock.advance(11)
        store.apply_settings(Settings.of({"hive.txn.timeout": "1h"}))
        assert store.abort_timed_out() == (short,)
        with pytest.raises(TransactionAbortedError, match=r"hive\.txn\.timeout \(10 s\)"):
            store.commit_txn(short)
        (long,) = store.open_txns(CLIENT)
        store.apply_settings(Settings.of({"hive.txn.timeout": "10s"}))
        clock.advance(289)
        assert store.abort_timed_out() == ()
        clock.advance(0.001)
        assert store.abort_timed_out() == (usual,)
        clock.advance(3300)
        assert store.abort_timed_out() == ()
        store.commit_txn(long)
        store.housekeep()
        assert [row.timeout for row in store.show_transactions()] in ([], [300_000])
        clock.advance(3599)
        store.housekeep()
        assert store.txn_state(long) == "committed"

    def test_show_transactions(self, store: Store, clock: ManualClock) -> None:
        """Open and aborted ones by id, with Hive's columns."""
        started = clock.now()
        one, two, three = store.open_txns(CLIENT, 3)
        clock.advance(5)
        store.heartbeat([three])
        store.commit_txn(two)
        store.abort_txns([one], "no")
        assert store.show_transactions() == (
            TransactionRow(one, "ABORTED", started, started, "ann", "host-1", 300_000),
            TransactionRow(three, "OPEN", started, started + 5000, "ann", "host-1", 300_000),
        )
