"""Contract: the lock queue."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from hiveacid.core.model import LockId, TxnId
from hiveacid.core.transactions.locks_and_conflicts import WAITS_FOR, LockComponent, LockState, LockType
from hiveacid.errors import (
    CatalogError,
    ConfigError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionStateError,
)
from hiveacid.ports.transactions import LockRow, Operation
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, lock_on, wrote

READ, WRITE, EXCL_WRITE, EXCLUSIVE = LockType
ACQUIRED, WAITING, NOT_ACQUIRED = LockState


def _states(store: Store, *requests: LockComponent) -> list[LockState]:
    """Enqueue each request in a transaction of its own and return the answers."""
    ids = store.open_txns(CLIENT, len(requests))
    return [store.lock(txn_id, [one]).state for txn_id, one in zip(ids, requests, strict=True)]


class LockContract:
    """Scenarios T5, T6, T7."""

    @pytest.mark.parametrize(("earlier", "requested"), list(itertools.product(LockType, LockType)))
    def test_the_matrix(self, store: Store, earlier: LockType, requested: LockType) -> None:
        """All pairs on one table, the second one asking."""
        found = _states(store, lock_on(earlier, "orders"), lock_on(requested, "orders"))
        assert found == [ACQUIRED, WAITING if earlier in WAITS_FOR[requested] else ACQUIRED]

    @pytest.mark.parametrize(
        ("first", "second", "expected"),
        [
            (lock_on(EXCLUSIVE), lock_on(READ, "orders"), WAITING),
            (lock_on(EXCLUSIVE), lock_on(READ, "orders", "p=1"), WAITING),
            (lock_on(EXCLUSIVE, "orders"), lock_on(READ, "orders", "p=1"), WAITING),
            (lock_on(EXCLUSIVE, "orders", "p=1"), lock_on(READ, "orders"), WAITING),
            (lock_on(EXCLUSIVE, "orders", "p=1"), lock_on(READ, "orders", "p=1"), WAITING),
            (lock_on(EXCLUSIVE, "orders", "p=1"), lock_on(EXCLUSIVE, "orders", "p=2"), ACQUIRED),
            (lock_on(EXCLUSIVE, "orders", "p=1"), lock_on(EXCLUSIVE, "stock", "p=1"), ACQUIRED),
            (lock_on(EXCLUSIVE), LockComponent(EXCLUSIVE, "other"), ACQUIRED),
            (lock_on(WRITE, "orders", "p=1"), lock_on(EXCLUSIVE), WAITING),
            (lock_on(EXCL_WRITE, "orders"), lock_on(WRITE), WAITING),
            # The exception: reading a database's existence and dropping one of its tables.
            (lock_on(READ), lock_on(EXCLUSIVE, "orders"), ACQUIRED),
            (lock_on(EXCLUSIVE, "orders"), lock_on(READ), ACQUIRED),
            (lock_on(READ), lock_on(EXCLUSIVE), WAITING),
            (lock_on(EXCLUSIVE), lock_on(READ), WAITING),
            (lock_on(READ, "orders"), lock_on(EXCLUSIVE), WAITING),
        ],
    )
    def test_levels(
        self, store: Store, first: LockComponent, second: LockComponent, expected: LockState
    ) -> None:
        """A database covers its tables, a table its partitions."""
        assert _states(store, first, second) == [ACQUIRED, expected]

    def test_a_waiting_writer_holds_back_later_readers(self, store: Store) -> None:
        """The queue is fair: requests are served in the order in which they came."""
        one, two, three = store.open_txns(CLIENT, 3)
        assert store.lock(one, [lock_on(READ, "orders")]).state is ACQUIRED
        exclusive = store.lock(two, [lock_on(EXCLUSIVE, "orders")])
        late = store.lock(three, [lock_on(READ, "orders")])
        assert [exclusive.state, late.state] == [WAITING, WAITING]
        assert "EXCLUSIVE on shop.orders" in (late.blocked_by or "")
        store.commit_txn(one)
        assert store.check_lock(late.lock_id).state is WAITING
        assert store.check_lock(exclusive.lock_id).state is ACQUIRED
        assert store.check_lock(exclusive.lock_id).state is ACQUIRED
        store.abort_txns([two], "no")
        assert store.check_lock(late.lock_id).state is ACQUIRED

    def test_a_request_is_granted_as_a_whole(self, store: Store) -> None:
        """One component that must wait keeps the others waiting, and they hold back others."""
        one, two, three = store.open_txns(CLIENT, 3)
        store.lock(one, [lock_on(WRITE, "orders")])
        both = store.lock(two, [lock_on(EXCLUSIVE, "stock"), lock_on(EXCL_WRITE, "orders")])
        assert both.state is WAITING
        assert store.lock(three, [lock_on(READ, "stock")]).state is WAITING
        assert {row.state for row in store.show_locks() if row.txn_id == two} == {"WAITING"}

    def test_nobody_waits_for_oneself(self, store: Store) -> None:
        """A statement may need more than an earlier one of its transaction."""
        txn_id = store.open_txns(CLIENT)[0]
        store.lock(txn_id, [lock_on(READ, "orders")])
        assert store.lock(txn_id, [lock_on(EXCLUSIVE, "orders")]).state is ACQUIRED
        assert store.lock(txn_id, [lock_on(EXCLUSIVE)]).state is ACQUIRED

    def test_zero_wait_leaves_nothing_behind(self, store: Store) -> None:
        """Not acquired at once: the request is gone, nobody waits for it."""
        one, two, three = store.open_txns(CLIENT, 3)
        store.lock(one, [lock_on(READ, "orders")])
        answer = store.lock(two, [lock_on(EXCLUSIVE, "orders")], zero_wait=True)
        assert answer.state is NOT_ACQUIRED
        assert "SHARED_READ on shop.orders" in (answer.blocked_by or "")
        assert store.lock(three, [lock_on(READ, "orders")], zero_wait=True).state is ACQUIRED
        assert [row.txn_id for row in store.show_locks()] == [one, three]

    def test_the_end_of_a_transaction_frees_its_locks(self, store: Store, clock: ManualClock) -> None:
        """Commit, abort and time-out alike; a waiting request is gone too."""
        one, two, three = store.open_txns(CLIENT, 3)
        store.lock(one, [lock_on(EXCLUSIVE, "orders")])
        second = store.lock(two, [lock_on(EXCLUSIVE, "orders")])
        third = store.lock(three, [lock_on(EXCLUSIVE, "orders")])
        store.abort_txns([two], "gave up")
        store.commit_txn(one)
        assert store.check_lock(third.lock_id).state is ACQUIRED
        with pytest.raises(TransactionStateError, match="not there"):
            store.check_lock(second.lock_id)
        clock.advance(301)
        store.abort_timed_out()
        assert store.show_locks() == ()

    def test_withdrawing(self, store: Store) -> None:
        """A waiting request always; an acquired one while nothing was written; a gone one quietly."""
        one, two = store.open_txns(CLIENT, 2)
        held = store.lock(one, [lock_on(EXCLUSIVE, "orders")])
        waiting = store.lock(two, [lock_on(READ, "orders")])
        store.unlock(waiting.lock_id)
        store.unlock(waiting.lock_id)
        store.unlock(held.lock_id)
        assert store.show_locks() == ()
        held = store.lock(one, [lock_on(EXCLUSIVE, "orders")])
        waiting = store.lock(two, [lock_on(READ, "orders")])
        store.allocate_write_ids([one, two], STOCK)
        with pytest.raises(TransactionStateError, match="protects"):
            store.unlock(held.lock_id)
        store.unlock(waiting.lock_id)
        assert [row.txn_id for row in store.show_locks()] == [one]

    def test_what_was_recorded_keeps_the_lock_too(self, store: Store) -> None:
        """Plain tables have no write ids, but their writers have locks."""
        txn_id = store.open_txns(CLIENT)[0]
        held = store.lock(txn_id, [lock_on(EXCLUSIVE, "orders")])
        store.add_written(txn_id, [wrote(ORDERS, Operation.INSERT)])
        with pytest.raises(TransactionStateError, match="protects"):
            store.unlock(held.lock_id)

    def test_only_open_transactions_lock(self, store: Store) -> None:
        """Ended and unknown ones are told what is wrong."""
        committed, aborted = store.open_txns(CLIENT, 2)
        store.commit_txn(committed)
        store.abort_txns([aborted], "no")
        for txn_id, error in (
            (committed, TransactionStateError),
            (aborted, TransactionAbortedError),
            (TxnId(77), NoSuchTransactionError),
        ):
            with pytest.raises(error):
                store.lock(txn_id, [lock_on(READ, "orders")])
        with pytest.raises(TransactionStateError):
            store.check_lock(LockId(12))
        assert store.show_locks() == ()

    def test_requests_without_sense(self, store: Store) -> None:
        """Empty ones, partitions of no table, impossible names."""
        txn_id = store.open_txns(CLIENT)[0]
        with pytest.raises(ConfigError):
            store.lock(txn_id, [])
        with pytest.raises(ConfigError):
            store.lock(txn_id, [LockComponent(READ, "shop", None, "p=1")])
        with pytest.raises(CatalogError):
            store.lock(txn_id, [lock_on(READ, "orders", "p=\0")])
        assert store.show_locks() == ()

    def test_many_partitions(self, store: Store) -> None:
        """A statement over thousands of partitions is one request; others are not in its way."""
        one, two, three = store.open_txns(CLIENT, 3)
        for txn_id, first in ((one, 0), (two, 3000)):
            request = [lock_on(EXCL_WRITE, "orders", f"p={p}") for p in range(first, first + 3000)]
            assert store.lock(txn_id, request).state is ACQUIRED
        assert store.lock(three, [lock_on(EXCL_WRITE, "orders", "p=5999")]).state is WAITING

    def test_show_locks(self, store: Store, clock: ManualClock) -> None:
        """Hive's columns; the lock id is request.component; who is waited for."""
        one, two = store.open_txns(CLIENT, 2)
        started = clock.now()
        first = store.lock(one, [lock_on(READ, "orders", "p=a'b"), lock_on(READ)]).lock_id
        clock.advance(1)
        second = store.lock(two, [lock_on(EXCLUSIVE, "orders")]).lock_id
        on_partition = LockRow(
            lock_id=f"{first}.1",
            database="shop",
            table="orders",
            partition="p=a'b",
            state="ACQUIRED",
            blocked_by=None,
            type="SHARED_READ",
            txn_id=one,
            last_heartbeat=started,
            acquired_at=started,
            user="ann",
            host="host-1",
            agent="tests",
        )
        on_database = replace(on_partition, lock_id=f"{first}.2", table=None, partition=None)
        waiting = replace(
            on_partition,
            lock_id=f"{second}.1",
            partition=None,
            state="WAITING",
            blocked_by=f"{first}.1",
            type="EXCLUSIVE",
            txn_id=two,
            acquired_at=None,
        )
        assert store.show_locks() == (on_partition, on_database, waiting)
        store.commit_txn(one)
        store.check_lock(second)
        assert [(row.state, row.blocked_by, row.acquired_at) for row in store.show_locks()] == [
            ("ACQUIRED", None, started + 1000)
        ]
