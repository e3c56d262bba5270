"""Contract: what initiator, workers and cleaner ask of the compaction queue."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hiveacid.core.compaction.queue_records import ChangedPartition, Compaction, CompactionRequest, Service
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.errors import (
    CatalogError,
    CompactionError,
    CompactionRefusedError,
    TransactionStateError,
)
from hiveacid.ports.transactions import Operation, TxnKind
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table, wrote

MAJOR = CompactionRequest(ORDERS, None, "major")


def _write(store: Store, name: TableName, *partitions: str | None, end: str = "commit") -> TxnId:
    """Write to partitions in a transaction of its own, and end it."""
    (txn_id,) = store.open_txns(CLIENT)
    store.allocate_write_ids([txn_id], name)
    store.add_written(txn_id, [wrote(name, Operation.INSERT, partition) for partition in partitions])
    if end == "commit":
        store.commit_txn(txn_id)
    elif end == "abort":
        store.abort_txns([txn_id], "no")
    return txn_id


def _ready(store: Store, request: CompactionRequest = MAJOR, top: int = 1) -> Compaction:
    """Bring a job to "ready for cleaning"."""
    made = store.enqueue_compaction(request, "host-1-initiator")
    store.claim_compaction("w", made.id)
    (txn_id,) = store.open_txns(CLIENT, kind=TxnKind.COMPACTION)
    store.start_compaction(made.id, txn_id, WriteId(top))
    store.commit_txn(txn_id)
    return _job(store, made.id)


def _job(store: Store, number: int) -> Compaction:
    return next(one for one in store.show_compactions() if one.id == number)


class QueueContract:
    """Scenarios C7, C8, C12, C16 as far as the store decides them."""

    def test_a_request_is_kept_as_it_was_made(self, store: Store) -> None:
        """All of it."""
        request = CompactionRequest(
            ORDERS,
            "p=1",
            "rebalance",
            pool="night",
            priority=7,
            buckets=3,
            order_by="`a` DESC",
            properties=(("compactor.x", "'1' — ü"), ("k", "")),
            reason="11 deltas",
        )
        assert store.enqueue_compaction(request, "me").request == request
        assert store.show_compactions()[0].request == request
        with pytest.raises(CatalogError):
            store.enqueue_compaction(replace(request, partition="p=2", pool=""), "me")
        with pytest.raises(CatalogError):
            store.enqueue_compaction(replace(request, partition="p=2", order_by="a\0"), "me")

    def test_higher_priorities_come_first(self, store: Store) -> None:
        """And of one priority the oldest."""
        numbers = [
            store.enqueue_compaction(replace(MAJOR, partition=f"p={n}", priority=priority), "me").id
            for n, priority in enumerate((0, 5, -1, 5))
        ]
        claimed = [store.claim_compaction("w") for _ in range(5)]
        assert [one and one.id for one in claimed] == [numbers[n] for n in (1, 3, 0, 2)] + [None]

    def test_workers_take_jobs_of_their_own_pool(self, store: Store, clock: ManualClock) -> None:
        """C16: those of the default pool also what has waited for ``hive.compactor.worker.pool.timeout`` elsewhere."""
        night = store.enqueue_compaction(replace(MAJOR, pool="night"), "me").id
        day = store.enqueue_compaction(replace(MAJOR, table=STOCK), "me").id
        assert store.claim_compaction("w", pool="morning") is None
        assert [store.claim_compaction("w", pool="default") for _ in (1, 2)] == [_job(store, day), None]
        clock.advance(43_200)
        assert store.claim_compaction("w") is None
        clock.advance(1)
        assert store.claim_compaction("w", pool="morning") is None
        claimed = store.claim_compaction("w")
        assert claimed is not None
        assert (claimed.id, claimed.request.pool) == (night, "night")
        again = store.enqueue_compaction(replace(MAJOR, partition="p=1", pool="night"), "me").id
        assert store.claim_compaction("w", again) == _job(store, again)

    def test_the_same_again_is_refused_until_it_is_clean(self, store: Store) -> None:
        """Hive 4.0.1: not at the same highest write id, there whatever the kind; here a major one follows a minor."""
        _write(store, ORDERS, None)
        ready = _ready(store, replace(MAJOR, kind="minor"), top=1)
        with pytest.raises(CompactionRefusedError, match=f"ready for cleaning' and id={ready.id}"):
            store.enqueue_compaction(replace(MAJOR, kind="minor"), "me")
        more = _ready(store, top=1)
        for kind in ("minor", "major"):
            with pytest.raises(
                CompactionRefusedError, match=f"ready for cleaning' and id=({ready.id}|{more.id})"
            ):
                store.enqueue_compaction(replace(MAJOR, kind=kind), "me")
        store.enqueue_compaction(replace(MAJOR, partition="p=1"), "me")
        (running,) = store.open_txns(CLIENT)
        store.allocate_write_ids([running], ORDERS)
        with pytest.raises(CompactionRefusedError):
            store.enqueue_compaction(MAJOR, "me")  # what is open cannot be compacted yet
        store.commit_txn(running)
        second = _ready(store, top=2)
        store.end_compaction(second.id, "succeeded")
        assert store.enqueue_compaction(MAJOR, "me").id > second.id

    def test_what_was_not_queued_is_noted(self, store: Store, clock: ManualClock) -> None:
        """With its reason; nobody works on it, and it is in nobody's way."""
        noted = store.decline_compaction(replace(MAJOR, reason="11 deltas"), "host-1", "failed twice \0")
        assert (noted.state, noted.error) == ("did not initiate", "failed twice \ufffd")
        assert (noted.enqueued, noted.ended) == (clock.now(), clock.now())
        assert store.claim_compaction("w") is None
        assert store.enqueue_compaction(MAJOR, "me").id > noted.id
        with pytest.raises(TransactionStateError):
            store.end_compaction(noted.id, "failed")

    def test_a_queued_job_can_be_aborted(self, store: Store) -> None:
        """ABORT COMPACTIONS; one that is at work cannot."""
        number = store.enqueue_compaction(MAJOR, "me").id
        store.end_compaction(number, "aborted", "Compaction Aborted by Abort Compaction request.")
        assert store.claim_compaction("w") is None
        second = store.enqueue_compaction(MAJOR, "me").id
        store.claim_compaction("w")
        with pytest.raises(TransactionStateError):
            store.end_compaction(second, "aborted")

    def test_details_are_kept(self, store: Store) -> None:
        """In every state."""
        number = store.enqueue_compaction(MAJOR, "me").id
        store.note_compaction(number, '{"rows": 1}')
        store.claim_compaction("w")
        assert _job(store, number).details == '{"rows": 1}'
        store.end_compaction(number, "failed")
        store.note_compaction(number, "at the end \0")
        assert _job(store, number).details == "at the end \ufffd"
        with pytest.raises(CompactionError):
            store.note_compaction(77, "?")

    def test_the_cleaner_waits_for_readers(self, store: Store) -> None:
        """Lowest high watermark first; a job without transaction waits for all that are open."""
        (reader,) = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
        upper = _ready(store, top=8)
        lower = _ready(store, replace(MAJOR, table=STOCK), top=3)
        assert store.ready_to_clean() == ()
        (late,) = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)
        store.commit_txn(reader)
        assert store.ready_to_clean() == (lower, upper)
        store.commit_txn(late)
        store.end_compaction(lower.id, "succeeded")
        assert store.ready_to_clean() == (upper,)

    def test_delayed_cleaning(self, store: Store, clock: ManualClock) -> None:
        """C8: ``hive.compactor.delayed.cleanup.enabled``."""
        ready = _ready(store)
        clock.advance(299)
        assert store.ready_to_clean(300.0) == ()
        assert store.ready_to_clean() == (ready,)
        clock.advance(1)
        assert store.ready_to_clean(300.0) == (ready,)

    def test_cleaning_that_failed_is_put_off(self, store: Store, clock: ManualClock) -> None:
        """``hive.compactor.cleaner.retry.*``: attempts are counted."""
        ready = _ready(store)
        store.retry_cleaning(ready.id, "disk \0", 300.0)
        put_off = _job(store, ready.id)
        assert (put_off.state, put_off.error, put_off.cleanings) == ("ready for cleaning", "disk \ufffd", 1)
        clock.advance(299)
        assert store.ready_to_clean() == ()
        clock.advance(1)
        assert store.ready_to_clean() == (put_off,)
        store.retry_cleaning(ready.id, "disk", 600.0)
        assert _job(store, ready.id).cleanings == 2
        store.end_compaction(ready.id, "failed", "gave up")
        with pytest.raises(TransactionStateError, match="not ready for cleaning"):
            store.retry_cleaning(ready.id, "disk", 1.0)

    def test_old_failures_go_once_something_succeeded(self, store: Store, clock: ManualClock) -> None:
        """``metastore.compactor.history.retention.timeout``: a minor success does not outlive a major failure."""
        for kind, end in (("major", "failed"), ("minor", "failed"), ("minor", "succeeded")):
            made = store.enqueue_compaction(replace(MAJOR, kind=kind), kind)
            store.claim_compaction("w")
            if end == "succeeded":
                store.end_compaction(made.id, "ready for cleaning")
            store.end_compaction(made.id, end)
        clock.advance(604_800)
        store.housekeep()
        assert len(store.show_compactions()) == 3
        clock.advance(1)
        store.housekeep()
        ends = [(one.request.kind, one.state) for one in store.show_compactions()]
        assert ends == [("major", "failed"), ("minor", "succeeded")]

    def test_the_time_is_the_store_s(self, store: Store, clock: ManualClock) -> None:
        """Times of answers can be compared with it."""
        assert store.now() == clock.now()

    def test_services_are_known_as_long_as_they_say_so(self, store: Store, clock: ManualClock) -> None:
        """So that a job can be left to them, and metrics can count them."""
        first, second = Service("h-1-worker-0", "worker", "night", "0.1"), Service("h-1-cleaner-0", "cleaner")
        began = clock.now()
        for service in (first, second):
            store.announce_service(service)
        clock.advance(10)
        store.announce_service(replace(first, version="0.2"))
        now = clock.now()
        seen = replace(first, version="0.2", started=began, last_seen=now)
        assert store.show_services(9.0) == (seen,)
        assert store.show_services(10.0) == (replace(second, started=began, last_seen=began), seen)
        store.withdraw_service(first.name)
        store.withdraw_service("nobody")
        assert [one.name for one in store.show_services(10.0)] == [second.name]
        clock.advance(86_400)
        store.housekeep()
        assert store.show_services(10**6) == ()
        with pytest.raises(CatalogError):
            store.announce_service(replace(first, name=""))


class ChangedPlacesContract:
    """Where the initiator looks."""

    def test_places_that_were_written(self, store: Store, clock: ManualClock) -> None:
        """With the last commit; nothing of open transactions or compactions."""
        _write(store, ORDERS, "p=2", "p=1")
        before = clock.now()
        clock.advance(10)
        last = clock.now()
        _write(store, ORDERS, "p=2")
        _write(store, STOCK, None)
        _write(store, STOCK, "p=9", end="")
        _ready(store, replace(MAJOR, partition="p=7"))
        assert store.changed_partitions() == (
            ChangedPartition(ORDERS, "p=1", before),
            ChangedPartition(ORDERS, "p=2", last),
            ChangedPartition(STOCK, None, last),
        )
        assert [one.partition for one in store.changed_partitions(last)] == ["p=2", None]
        assert store.changed_partitions(last + 1) == ()

    def test_what_is_only_said_with_the_commit_counts_too(self, store: Store, clock: ManualClock) -> None:
        """As most writers do."""
        (txn_id,) = store.open_txns(CLIENT)
        store.allocate_write_ids([txn_id], ORDERS)
        store.commit_txn(txn_id, written=[wrote(ORDERS, Operation.INSERT, "p=4")])
        assert store.changed_partitions() == (ChangedPartition(ORDERS, "p=4", clock.now()),)

    def test_housekeeping_does_not_forget_them(self, store: Store, clock: ManualClock) -> None:
        """However long ago; a later commit counts."""
        _write(store, ORDERS, "p=1")
        before = clock.now()
        for _ in range(2):
            clock.advance(1000)
            store.housekeep()
            assert store.changed_partitions() == (ChangedPartition(ORDERS, "p=1", before),)
        _write(store, ORDERS, "p=1")
        last = clock.now()
        for _ in range(2):
            assert store.changed_partitions() == (ChangedPartition(ORDERS, "p=1", last),)
            clock.advance(1000)
            store.housekeep()

    def test_later_commits_to_some_of_many_partitions(self, store: Store, clock: ManualClock) -> None:
        """Housekeeping replaces the times of these, and keeps those of the others."""
        names = [f"p={number:04}" for number in range(1100)]
        times: dict[str, int] = {}
        for changed in (names, names[5:900]):
            clock.advance(1)
            _write(store, ORDERS, *changed)
            _write(store, STOCK, None)
            times |= dict.fromkeys(changed, clock.now())
            last = clock.now()
            clock.advance(1000)
            store.housekeep()
        expected = [ChangedPartition(ORDERS, name, times[name]) for name in names]
        assert store.changed_partitions() == (*expected, ChangedPartition(STOCK, None, last))

    def test_aborted_transactions_count_until_they_are_forgotten(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Where they said they wrote, else somewhere in the table; not those without a write id."""
        _write(store, ORDERS, "p=1", "p=1", end="abort")
        at = clock.now()
        clock.advance(1)
        _write(store, ORDERS, "p=1", end="abort")
        _write(store, ORDERS, end="abort")
        (idle,) = store.open_txns(CLIENT)
        store.add_written(idle, [wrote(STOCK, Operation.UPDATE)])
        store.abort_txns([idle], "no")
        assert store.changed_partitions(10**15) == (
            ChangedPartition(ORDERS, None, None, (at + 1000,)),
            ChangedPartition(ORDERS, "p=1", None, (at, at + 1000)),
        )
        store.forget_aborted(ORDERS, None, WriteId(3))
        assert store.changed_partitions() == ()

    def test_places_go_with_their_table(self, store: Store, clock: ManualClock) -> None:
        """Or get its new name."""
        store.create_database(database())
        for name in (ORDERS, STOCK):
            store.create_table(table(name))
            _write(store, name, "p=1")
        clock.advance(1000)
        store.housekeep()
        store.drop_table(STOCK)
        renamed = replace(ORDERS, name="sold")
        store.alter_table(ORDERS, table(renamed))
        assert [one.table for one in store.changed_partitions()] == [renamed]
        store.drop_table(renamed)
        assert store.changed_partitions() == ()
