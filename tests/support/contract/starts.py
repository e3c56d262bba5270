"""Contract: a transaction that begins with everything its first statement needs, and commits with what it wrote."""

from __future__ import annotations

import pytest

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import Partition, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.errors import (
    AlreadyExistsError,
    CatalogError,
    ConfigError,
    HiveAcidError,
    TransactionError,
    TransactionStateError,
    WriteConflictError,
)
from hiveacid.ports.catalog import CatalogChanges, NewPartition
from hiveacid.ports.transactions import Operation, Start, TxnKind
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, database, lock_on, table, wrote

READ, WRITE, EXCL_WRITE, EXCLUSIVE = LockType
INSERT, UPDATE, DELETE = Operation


def _start(lock: LockType = WRITE, partition: str | None = None) -> Start:
    return Start((lock_on(lock, "orders", partition),), (ORDERS,), (ORDERS,))


class StartContract:
    """``begin_txn`` is its five verbs in one; ``commit_txn`` with ``written`` is two."""

    def test_everything_at_once(self, store: Store, clock: ManualClock) -> None:
        """Id, lock, snapshot, list and write id, as the single verbs would give them."""
        (other,) = store.open_txns(CLIENT)
        store.allocate_write_ids([other], ORDERS)
        store.abort_txns([other], "no")
        (running,) = store.open_txns(CLIENT)
        store.allocate_write_ids([running], ORDERS)
        begun = store.begin_txn(CLIENT, _start(partition="p=1"))
        assert begun.txn_id == 3
        assert begun.lock is not None
        assert (begun.lock.state, begun.lock.blocked_by) == (LockState.ACQUIRED, None)
        assert begun.snapshot == ValidTxnList(TxnId(3), (TxnId(2), TxnId(3)), (TxnId(1),))
        # The list is older than the write id, and so does not know it as one that is open.
        assert begun.write_ids == {ORDERS: ValidWriteIdList(ORDERS, WriteId(2), (WriteId(2),), (WriteId(1),))}
        assert begun.allocated == {ORDERS: WriteId(3)}
        (row,) = store.show_locks()
        assert (row.lock_id, row.txn_id, row.type) == (
            f"{begun.lock.lock_id}.1",
            begun.txn_id,
            "SHARED_WRITE",
        )
        assert (row.database, row.table, row.partition) == ("shop", "orders", "p=1")
        assert (row.state, row.acquired_at, row.blocked_by) == ("ACQUIRED", clock.now(), None)
        shown = store.show_transactions()[-1]
        assert (shown.txn_id, shown.state, shown.started, shown.user) == (3, "OPEN", clock.now(), "ann")
        assert store.allocate_write_ids([begun.txn_id], ORDERS) == (3,)
        store.commit_txn(begun.txn_id, written=[wrote(ORDERS, INSERT, "p=1")])
        assert store.show_locks() == ()

    def test_nothing_but_a_snapshot(self, store: Store) -> None:
        """What a read or START TRANSACTION needs."""
        begun = store.begin_txn(CLIENT, kind=TxnKind.READ_ONLY)
        assert begun.lock is None
        assert begun.snapshot == ValidTxnList(TxnId(1), (TxnId(1),))
        assert (begun.write_ids, begun.allocated) == ({}, {})

    def test_several_of_each(self, store: Store) -> None:
        """A multi-table statement; a table that nobody wrote to has an empty list."""
        odd = TableName("s%", "o_'\";")
        locks = (lock_on(READ, "stock"), lock_on(WRITE, "orders", "p=1"), lock_on(WRITE, "orders", "p=2"))
        begun = store.begin_txn(CLIENT, Start(locks, (ORDERS, STOCK, odd), (ORDERS, STOCK)))
        assert begun.write_ids == {name: ValidWriteIdList(name, WriteId(0)) for name in (ORDERS, STOCK, odd)}
        assert begun.allocated == {ORDERS: WriteId(1), STOCK: WriteId(1)}
        assert [row.lock_id.split(".")[1] for row in store.show_locks()] == ["1", "2", "3"]

    def test_a_lock_that_has_to_wait_ends_the_start(self, store: Store) -> None:
        """The transaction is open and in the queue; the rest is for later, with a snapshot of later."""
        first = store.begin_txn(CLIENT, _start(EXCLUSIVE))
        second = store.begin_txn(CLIENT, _start(READ))
        assert second.lock is not None
        assert second.lock.state is LockState.WAITING
        assert "EXCLUSIVE on shop.orders" in (second.lock.blocked_by or "")
        assert (second.snapshot, second.write_ids, second.allocated) == (None, {}, {})
        store.commit_txn(first.txn_id, written=[wrote(ORDERS, INSERT)])
        assert store.check_lock(second.lock.lock_id).state is LockState.ACQUIRED
        seen = store.take_snapshot(second.txn_id)
        assert store.valid_write_ids(seen, [ORDERS])[ORDERS].is_valid(1)

    @pytest.mark.parametrize(
        ("held", "wanted", "expected"),
        [
            (lock_on(READ), lock_on(EXCLUSIVE, "orders"), LockState.ACQUIRED),
            (lock_on(EXCLUSIVE, "orders", "p=1"), lock_on(WRITE, "orders", "p=2"), LockState.ACQUIRED),
            (lock_on(EXCLUSIVE, "orders", "p=1"), lock_on(WRITE, "orders"), LockState.WAITING),
            (lock_on(EXCLUSIVE, "orders"), lock_on(WRITE, "orders", "p=1"), LockState.WAITING),
            (lock_on(EXCLUSIVE), lock_on(READ, "orders", "p=1"), LockState.WAITING),
            (lock_on(EXCLUSIVE, "stock"), lock_on(EXCLUSIVE, "orders"), LockState.ACQUIRED),
            (lock_on(EXCL_WRITE, "orders"), lock_on(WRITE, "orders"), LockState.WAITING),
            (lock_on(EXCL_WRITE, "orders"), lock_on(READ, "orders"), LockState.ACQUIRED),
        ],
    )
    def test_the_queue_is_the_same(
        self, store: Store, held: object, wanted: object, expected: LockState
    ) -> None:
        """Whether requests come by this verb or by ``lock``."""
        (txn_id,) = store.open_txns(CLIENT)
        store.lock(txn_id, [held])  # type: ignore[list-item]
        begun = store.begin_txn(CLIENT, Start((wanted,)))  # type: ignore[arg-type]
        assert begun.lock is not None
        assert begun.lock.state is expected
        (late,) = store.open_txns(CLIENT)
        assert store.lock(late, [lock_on(EXCLUSIVE, "orders")]).state is LockState.WAITING

    def test_the_moment_is_that_of_the_snapshot(self, store: Store) -> None:
        """Conflicts are with what was committed after it, and only with that."""
        for _ in range(2):
            before = store.begin_txn(CLIENT, _start())
            store.commit_txn(before.txn_id, written=[wrote(ORDERS, UPDATE)])
        one, two = store.begin_txn(CLIENT, _start()), store.begin_txn(CLIENT, _start())
        store.commit_txn(one.txn_id, written=[wrote(ORDERS, UPDATE)])
        with pytest.raises(WriteConflictError, match=rf"Aborting .txnid:{two.txn_id},4. .* d/u$"):
            store.commit_txn(two.txn_id, written=[wrote(ORDERS, DELETE)])
        assert store.txn_state(two.txn_id) == "aborted"
        assert store.aborted_write_ids(ORDERS) == (4,)

    def test_a_loser_is_remembered_where_it_wrote(self, store: Store) -> None:
        """The cleaner of one partition may forget it once it was there."""
        one, two = store.begin_txn(CLIENT, _start()), store.begin_txn(CLIENT, _start())
        store.commit_txn(one.txn_id, written=[wrote(ORDERS, UPDATE, "p=1")])
        with pytest.raises(WriteConflictError):
            store.commit_txn(two.txn_id, written=[wrote(ORDERS, UPDATE, "p=1")])
        store.forget_aborted(ORDERS, "p=2", WriteId(9))
        assert store.aborted_write_ids(ORDERS) == (2,)
        store.forget_aborted(ORDERS, "p=1", WriteId(9))
        assert store.aborted_write_ids(ORDERS) == ()

    def test_earlier_and_last_writes_count_together(self, store: Store) -> None:
        """What ``add_written`` was told before, and what comes with the commit."""
        one, two, three = (store.begin_txn(CLIENT, _start()) for _ in range(3))
        store.add_written(one.txn_id, [wrote(ORDERS, UPDATE, "p=1")])
        store.commit_txn(one.txn_id, written=[wrote(ORDERS, INSERT, "p=9"), wrote(ORDERS, UPDATE, "p=2")])
        for loser, partition in ((two, "p=1"), (three, "p=2")):
            with pytest.raises(WriteConflictError, match=partition):
                store.commit_txn(loser.txn_id, written=[wrote(ORDERS, UPDATE, partition)])
        late = store.begin_txn(CLIENT, _start())
        store.add_written(late.txn_id, [wrote(ORDERS, UPDATE, "p=1")])
        store.commit_txn(late.txn_id, written=[wrote(ORDERS, INSERT, "p=1")])

    def test_an_early_update_with_a_last_insert_still_conflicts(self, store: Store) -> None:
        """The commit looks at all that was written, not only at what it brings."""
        one, two = store.begin_txn(CLIENT, _start()), store.begin_txn(CLIENT, _start())
        store.add_written(two.txn_id, [wrote(ORDERS, UPDATE)])
        store.commit_txn(one.txn_id, written=[wrote(ORDERS, UPDATE)])
        with pytest.raises(WriteConflictError):
            store.commit_txn(two.txn_id, written=[wrote(STOCK, INSERT)])

    def test_asking_again_writes_nothing_twice(self, store: Store) -> None:
        """The answer may have been lost; what is told once more is not a second change."""
        one, two = store.begin_txn(CLIENT, _start()), store.begin_txn(CLIENT, _start())
        for _ in range(3):
            store.commit_txn(one.txn_id, written=[wrote(ORDERS, UPDATE)])
        with pytest.raises(WriteConflictError, match=rf"committed by .txnid:{one.txn_id},1. u/u$"):
            store.commit_txn(two.txn_id, written=[wrote(ORDERS, UPDATE)])
        for _ in range(2):
            with pytest.raises(WriteConflictError, match=rf"committed by .txnid:{one.txn_id},1. u/u$"):
                store.commit_txn(two.txn_id, written=[wrote(ORDERS, UPDATE)])

    def test_partitions_come_with_the_commit(self, store: Store) -> None:
        """And with it only; those that are there already stay as they are."""
        store.create_database(database())
        store.create_table(table(ORDERS))
        store.add_partitions(ORDERS, [Partition(("1", "oslo"), "file:/new/")])
        places = {"1": "file:/new", "2": "file:/next"}
        new = tuple(NewPartition(ORDERS, Partition((day, "oslo"), place)) for day, place in places.items())
        begun = store.begin_txn(CLIENT, _start())
        assert len(store.list_partitions(ORDERS)) == 1
        store.commit_txn(begun.txn_id, CatalogChanges((), new), [wrote(ORDERS, UPDATE, "dt=2/city=oslo")])
        assert [(one.values[0], one.location) for one in store.list_partitions(ORDERS)] == [
            ("1", "file:/new/"),
            ("2", "file:/next"),
        ]

    def test_changes_that_do_not_fit_change_nothing(self, store: Store) -> None:
        """The transaction is open as before, and has written nothing."""
        store.create_database(database())
        store.create_table(table(ORDERS))
        one, two = store.begin_txn(CLIENT, _start()), store.begin_txn(CLIENT, _start())
        with pytest.raises(AlreadyExistsError):
            store.commit_txn(one.txn_id, CatalogChanges((table(ORDERS),)), [wrote(ORDERS, UPDATE)])
        assert store.txn_state(one.txn_id) == "open"
        store.commit_txn(two.txn_id, written=[wrote(ORDERS, UPDATE)])
        store.commit_txn(one.txn_id)

    @pytest.mark.parametrize(
        ("start", "kind", "error"),
        [
            (Start((lock_on(READ, "orders", "p=\0"),)), TxnKind.DEFAULT, CatalogError),
            (Start((lock_on(READ, None, "p=1"),)), TxnKind.DEFAULT, ConfigError),
            (Start((), (TableName("shop", ""),)), TxnKind.DEFAULT, CatalogError),
            (Start((), (), (TableName("sh\0p", "x"),)), TxnKind.DEFAULT, CatalogError),
            (Start((), (ORDERS,), (ORDERS,)), TxnKind.READ_ONLY, TransactionStateError),
        ],
    )
    def test_a_start_without_sense_opens_nothing(
        self, store: Store, start: Start, kind: TxnKind, error: type[HiveAcidError]
    ) -> None:
        """Bad input is refused before anything happens."""
        with pytest.raises(error):
            store.begin_txn(CLIENT, start, kind)
        assert store.show_transactions() == ()
        assert store.show_locks() == ()

    def test_too_many_are_refused_here_too(self, store: Store) -> None:
        """``hive.max.open.txns``; nothing of the start happens."""
        from hiveacid.config import Settings  # noqa: PLC0415 - only here

        store.apply_settings(Settings.of({"hive.max.open.txns": "1"}))
        begun = store.begin_txn(CLIENT, _start())
        with pytest.raises(TransactionError, match=r"hive\.max\.open\.txns"):
            store.begin_txn(CLIENT, _start())
        assert [row.txn_id for row in store.show_locks()] == [begun.txn_id]
        store.commit_txn(begun.txn_id)
        assert store.begin_txn(CLIENT, _start()).allocated == {ORDERS: WriteId(2)}

    def test_readers_commit_nothing(self, store: Store) -> None:
        """What a read-only transaction says it wrote is refused, and it stays open."""
        reader = store.begin_txn(CLIENT, kind=TxnKind.READ_ONLY)
        with pytest.raises(TransactionStateError, match="read-only"):
            store.commit_txn(reader.txn_id, written=[wrote(ORDERS, INSERT)])
        assert store.txn_state(reader.txn_id) == "open"
        store.commit_txn(reader.txn_id)
