"""Contract: the compaction queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.errors import (
    CompactionError,
    CompactionRefusedError,
    ConfigError,
    TransactionAbortedError,
    TransactionStateError,
)
from hiveacid.ports.transactions import TxnKind
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table

MAJOR = CompactionRequest(ORDERS, None, "major")
PARTITION = CompactionRequest(ORDERS, "p=1", "minor")


def _started(store: Store) -> tuple[int, TxnId]:
    """Queue, claim and start a job; return it and its transaction."""
    made = store.enqueue_compaction(MAJOR, "manual")
    store.claim_compaction("worker-1", made.id)
    txn_id = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0]
    store.start_compaction(made.id, txn_id, WriteId(4))
    return made.id, txn_id


def _only(store: Store) -> Compaction:
    (found,) = store.show_compactions()
    return found


def _forget_ended(store: Store, clock: ManualClock) -> None:
    """Let housekeeping drop all ended transactions; the newest one always stays."""
    store.commit_txn(store.open_txns(CLIENT)[0])
    clock.advance(2 * 86_400)
    store.housekeep()


class CompactionContract:
    """Scenarios C12, T15 and the life of a job."""

    def test_the_life_of_a_job(self, store: Store, clock: ManualClock) -> None:
        """Queued, claimed, started, committed, cleaned."""
        enqueued = clock.now()
        made = store.enqueue_compaction(MAJOR, "manual")
        assert made == Compaction(made.id, MAJOR, "initiated", enqueued=enqueued, initiator="manual")
        clock.advance(1)
        claimed = store.claim_compaction("worker-1")
        assert claimed == replace(made, state="working", worker="worker-1", started=enqueued + 1000, claims=1)
        txn_id = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0]
        reader = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0]
        store.start_compaction(made.id, txn_id, WriteId(4))
        assert _only(store) == replace(claimed, txn_id=txn_id, high_watermark=WriteId(4))
        clock.advance(1)
        store.commit_txn(txn_id)
        ready = replace(
            _only(store),
            state="ready for cleaning",
            next_txn_id=TxnId(reader + 1),
            commit_time=enqueued + 2000,
        )
        assert _only(store) == ready
        store.end_compaction(made.id, "ready for cleaning")
        assert _only(store) == ready
        clock.advance(1)
        store.end_compaction(made.id, "succeeded")
        assert _only(store) == replace(ready, state="succeeded", ended=enqueued + 3000)

    def test_the_cleaner_learns_nothing_before_the_commit(self, store: Store) -> None:
        """A worker may be ready before its transaction is; the readers to wait for are known at the commit."""
        number, txn_id = _started(store)
        store.end_compaction(number, "ready for cleaning")
        assert (_only(store).next_txn_id, _only(store).commit_time) == (None, None)
        store.open_txns(CLIENT, 5)
        store.commit_txn(txn_id)
        assert _only(store).next_txn_id == txn_id + 6

    def test_cleaning_after_a_job_that_wrote_nothing(self, store: Store, clock: ManualClock) -> None:
        """It waits for all transactions that are open, and nothing is left of its own."""
        number, txn_id = _started(store)
        (reader,) = store.open_txns(CLIENT)
        store.abort_txns([txn_id], "nothing to compact")
        store.end_compaction(number, "ready for cleaning", "nothing to compact", worker="worker-1")
        assert (_only(store).next_txn_id, _only(store).commit_time) == (reader + 1, clock.now())
        store.end_compaction(number, "failed", "disk full \0")
        assert (_only(store).state, _only(store).error) == ("failed", "disk full \ufffd")
        second = store.enqueue_compaction(MAJOR, "manual").id
        store.claim_compaction("w")
        store.end_compaction(second, "ready for cleaning")
        assert store.show_compactions()[1].next_txn_id == reader + 1
        store.abort_txns([reader], "done")
        _forget_ended(store, clock)
        assert store.valid_txns().aborted == ()

    def test_a_refused_job_leaves_no_transaction(self, store: Store, clock: ManualClock) -> None:
        """A nightly COMPACT of 10,000 partitions without deltas would lengthen every snapshot."""
        for _ in range(3):
            number, txn_id = _started(store)
            store.abort_txns([txn_id], "nothing to compact")
            store.end_compaction(number, "refused", "nothing to compact", worker="worker-1")
        _forget_ended(store, clock)
        assert store.valid_txns().aborted == ()

    def test_a_failed_job_leaves_its_transaction(self, store: Store, clock: ManualClock) -> None:
        """Its worker may be paused and publish late: readers have to know that it was aborted."""
        number, txn_id = _started(store)
        store.abort_txns([txn_id], "disk full")
        store.end_compaction(number, "failed", "disk full", worker="worker-1")
        _forget_ended(store, clock)
        assert store.valid_txns().aborted == (txn_id,)

    def test_a_job_whose_transaction_was_aborted_is_queued_again(
        self, store: Store, clock: ManualClock
    ) -> None:
        """By somebody else than the time-out, after ``hive.txn.timeout``: its worker may still end it."""
        number, txn_id = _started(store)
        store.abort_txns([txn_id], "by an operator")
        clock.advance(300)
        store.housekeep()
        assert _only(store).state == "working"
        clock.advance(1)
        store.housekeep()
        assert (_only(store).id, _only(store).state, _only(store).txn_id) == (number, "initiated", None)

    def test_a_second_request_is_refused_while_one_is_queued_or_running(self, store: Store) -> None:
        """For the same table or partition; Hive's words."""
        number = store.enqueue_compaction(MAJOR, "manual").id
        store.enqueue_compaction(PARTITION, "manual")
        store.enqueue_compaction(replace(MAJOR, table=STOCK), "manual")
        for state in ("initiated", "working"):
            with pytest.raises(CompactionRefusedError) as caught:
                store.enqueue_compaction(replace(MAJOR, kind="minor"), "manual")
            assert f"Compaction is already scheduled with state='{state}' and id={number}" in str(
                caught.value
            )
            store.claim_compaction("w", number)
        store.end_compaction(number, "ready for cleaning")
        assert store.enqueue_compaction(MAJOR, "manual").id > number

    def test_jobs_are_claimed_once_oldest_first(self, store: Store) -> None:
        """Or by number, if it still waits."""
        first = store.enqueue_compaction(MAJOR, "manual").id
        second = store.enqueue_compaction(PARTITION, "manual").id
        third = store.enqueue_compaction(replace(MAJOR, table=STOCK), "manual").id
        claimed = [store.claim_compaction("w", number) for number in (None, third, third, None, None)]
        assert [one and one.id for one in claimed] == [first, third, None, second, None]

    def test_wrong_turns(self, store: Store) -> None:
        """The transition table is the law."""
        number = store.enqueue_compaction(MAJOR, "manual").id
        txn_id = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0]
        with pytest.raises(TransactionStateError):
            store.start_compaction(number, txn_id, WriteId(1))
        for state in ("succeeded", "ready for cleaning", "failed", "working", "no such state"):
            with pytest.raises(TransactionStateError):
                store.end_compaction(number, state)
        store.claim_compaction("w")
        store.abort_txns([txn_id], "no")
        with pytest.raises(TransactionAbortedError):
            store.start_compaction(number, txn_id, WriteId(1))
        store.end_compaction(number, "refused", "nothing to do")
        with pytest.raises(TransactionStateError):
            store.end_compaction(number, "failed")
        with pytest.raises(CompactionError):
            store.end_compaction(77, "failed")
        with pytest.raises(CompactionError):
            store.start_compaction(77, txn_id, WriteId(1))
        with pytest.raises(ConfigError, match="not a kind"):
            store.enqueue_compaction(replace(MAJOR, kind="huge"), "manual")
        assert _only(store).error == "nothing to do"

    def test_the_job_of_a_lost_worker_is_queued_again(self, store: Store, clock: ManualClock) -> None:
        """Its transaction times out; a job that loses three workers has failed."""
        number, _ = _started(store)
        for lost in (1, 2, 3):
            clock.advance(301)
            store.abort_timed_out()
            state = "failed" if lost == 3 else "initiated"
            assert (_only(store).state, _only(store).claims) == (state, lost)
            assert "hive.txn.timeout" in (_only(store).error or "")
            if lost < 3:
                store.claim_compaction("worker-2", number)
                (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
                store.start_compaction(number, txn_id, WriteId(4))
        store.enqueue_compaction(MAJOR, "manual")

    def test_a_worker_may_give_its_job_back(self, store: Store) -> None:
        """When it has to stop: that counts for nothing."""
        number, txn_id = _started(store)
        with pytest.raises(TransactionStateError, match="not with worker-2 any more"):
            store.release_compaction(number, "worker-2")
        store.release_compaction(number, "worker-1")
        assert _only(store) == Compaction(
            number, MAJOR, "initiated", enqueued=_only(store).enqueued, initiator="manual"
        )
        with pytest.raises(TransactionStateError):
            store.release_compaction(number, "worker-1")
        with pytest.raises(
            TransactionAbortedError, match="another one may have replaced the same directories"
        ):
            store.commit_txn(txn_id)
        assert (_only(store).state, store.txn_state(txn_id)) == ("initiated", "aborted")

    def test_a_renamed_table_takes_its_jobs_along(self, store: Store) -> None:
        """A worker that has claimed one, and not begun, knows the old name, which another table may get."""
        claimed, waiting = (store.enqueue_compaction(one, "manual").id for one in (MAJOR, PARTITION))
        store.claim_compaction("worker-1", claimed)
        new = TableName(ORDERS.database, "renamed")
        store.create_database(database())
        store.create_table(table())
        store.alter_table(ORDERS, table(new))
        jobs = [(job.id, job.request.table, job.state, job.claims) for job in store.show_compactions()]
        assert jobs == [(claimed, new, "initiated", 0), (waiting, new, "initiated", 0)]
        (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
        with pytest.raises(TransactionStateError, match="not with worker-1 any more"):
            store.start_compaction(claimed, txn_id, WriteId(4), "worker-1")

    def test_a_job_nobody_came_back_to_is_queued_again(self, store: Store, clock: ManualClock) -> None:
        """``hive.compactor.worker.timeout``; not while its transaction is open."""
        made = store.enqueue_compaction(MAJOR, "manual")
        store.claim_compaction("w")
        txn_id = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)[0]
        store.start_compaction(made.id, txn_id, WriteId(4))
        clock.advance(90_000)
        store.housekeep()
        assert _only(store).state == "working"
        store.abort_txns([txn_id], "an operator said so")
        store.housekeep()
        assert _only(store) == replace(made, claims=1)

    def test_a_worker_that_never_began_loses_its_job_soon(self, store: Store, clock: ManualClock) -> None:
        """There is no transaction to beat for yet: ``hive.txn.timeout``; what it does afterwards is refused."""
        made = store.enqueue_compaction(MAJOR, "manual")
        store.claim_compaction("w-1")
        clock.advance(300)
        store.housekeep()
        assert _only(store).state == "working"
        clock.advance(1)
        store.housekeep()
        assert _only(store) == replace(made, claims=1)
        store.claim_compaction("w-2")
        late, mine = store.open_txns(CLIENT, 2, TxnKind.COMPACTION)
        with pytest.raises(TransactionStateError, match="not with w-1 any more"):
            store.start_compaction(made.id, late, WriteId(4), "w-1")
        with pytest.raises(TransactionStateError, match="not with w-1 any more"):
            store.end_compaction(made.id, "failed", worker="w-1")
        store.start_compaction(made.id, mine, WriteId(4), "w-2")
        store.end_compaction(made.id, "failed", worker="w-2")

    def test_history_is_kept_short(self, store: Store) -> None:
        """The newest ones of each place and outcome (``hive.compactor.history.retention.*``)."""
        for request in (MAJOR, PARTITION):
            for number in range(5):
                made = store.enqueue_compaction(request, f"{number}")
                store.claim_compaction("w")
                store.end_compaction(made.id, "refused")
        store.enqueue_compaction(MAJOR, "last")
        store.housekeep()
        assert [one.initiator for one in store.show_compactions()] == ["2", "3", "4", "2", "3", "4", "last"]
