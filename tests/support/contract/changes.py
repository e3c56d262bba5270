"""Contract: the catalog and transactions together."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import Partition, TableDefinition, TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.errors import (
    AlreadyExistsError,
    ConfigError,
    NoSuchDatabaseError,
    NoSuchTableError,
    TransactionAbortedError,
    TransactionStateError,
    WriteConflictError,
)
from hiveacid.ports.catalog import CatalogChanges, NewPartition, SeededWriteIds
from hiveacid.ports.transactions import Operation, Remains
from support.samples import CLIENT, ORDERS, STOCK, Store, database, lock_on, table, wrote

INSERT, UPDATE, DELETE = Operation
DAY = Partition(("2026-01-01", "oslo"), "file:/p1")


def _shop(store: Store, *tables: TableDefinition) -> None:
    store.create_database(database())
    for one in tables:
        store.create_table(one)


def _writer(store: Store, name: TableName = ORDERS) -> TxnId:
    txn_id = store.open_txns(CLIENT)[0]
    store.take_snapshot(txn_id)
    store.allocate_write_ids([txn_id], name)
    return txn_id


class CatalogChangesContract:
    """Scenarios D9, D14, D20."""

    def test_tables_and_partitions_appear_with_the_commit(self, store: Store) -> None:
        """CTAS and dynamic partitions: not before, and all together."""
        _shop(store, table())
        txn_id = _writer(store)
        made, other = table(STOCK), Partition(DAY.values, "file:/q1")
        changes = CatalogChanges((made,), (NewPartition(ORDERS, DAY), NewPartition(STOCK, other)))
        assert (store.get_table(STOCK), store.list_partitions(ORDERS)) == (None, ())
        store.commit_txn(txn_id, changes)
        store.commit_txn(txn_id, changes)
        assert store.get_table(STOCK) == made
        assert (store.list_partitions(ORDERS), store.list_partitions(STOCK)) == ((DAY,), (other,))

    def test_a_definition_changes_and_write_ids_are_passed_over_with_the_commit(self, store: Store) -> None:
        """A conversion: readers see the old table, or the new one with room for its older rows."""
        _shop(store, table())
        txn_id = _writer(store)
        altered = table().with_properties({"transactional": "true"})
        store.commit_txn(txn_id, CatalogChanges(altered=(altered,), skipped=((ORDERS, 10_000_000),)))
        assert store.get_table(ORDERS) == altered
        (next_txn,) = store.open_txns(CLIENT)
        assert store.allocate_write_ids([next_txn], ORDERS) == (10_000_002,)
        with pytest.raises(NoSuchTableError):
            store.commit_txn(next_txn, CatalogChanges(altered=(table(STOCK),)))

    def test_an_adopted_table_comes_with_its_partitions_and_write_ids(self, store: Store) -> None:
        """The rows of its partitions are old, and a refused commit leaves nothing."""
        _shop(store)
        seeded = SeededWriteIds(ORDERS, WriteId(7), (WriteId(3),))
        changes = CatalogChanges((table(),), (NewPartition(ORDERS, DAY),), seeded=(seeded,))
        (txn_id,) = store.open_txns(CLIENT)
        with pytest.raises(ConfigError):
            store.commit_txn(txn_id, replace(changes, seeded=(replace(seeded, aborted=(WriteId(8),)),)))
        store.commit_txn(txn_id, changes)
        store.commit_txn(txn_id, changes)
        assert store.list_partitions(ORDERS)[0].min_write_id <= 1
        ids = store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS]
        assert (ids.high_watermark, ids.open, ids.aborted) == (7, (), (3,))
        store.allocate_write_ids(store.open_txns(CLIENT), STOCK)
        begun = replace(
            changes, tables=(table(STOCK),), partitions=(), seeded=(replace(seeded, table=STOCK),)
        )
        (late,) = store.open_txns(CLIENT)
        with pytest.raises(TransactionStateError):
            store.commit_txn(late, begun)
        assert (store.get_table(STOCK), store.txn_state(late)) == (None, "open")

    def test_a_table_is_adopted_after_a_failed_creation_of_its_name(self, store: Store) -> None:
        """The write id of that CREATE TABLE AS SELECT is given again, once its writer has stopped."""
        _shop(store)
        (failed,) = store.open_txns(CLIENT)
        store.allocate_write_ids([failed], ORDERS)
        for reason in (None, Remains.UNKNOWN, Remains.FILES):  # open; perhaps still at work; stopped
            if reason is not None:
                store.abort_txns([failed], "no", reason)
            store.restart_write_ids(table(), ("", ""))
            (txn_id,) = store.open_txns(CLIENT)
            seeded = SeededWriteIds(ORDERS, WriteId(7), (WriteId(3),))
            if reason is not Remains.FILES:
                with pytest.raises(TransactionStateError):
                    store.commit_txn(txn_id, CatalogChanges((table(),), seeded=(seeded,)))
        store.commit_txn(txn_id, CatalogChanges((table(),), seeded=(seeded,)))
        store.restart_write_ids(table(), ("", ""))  # there is such a table now
        ids = store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS]
        assert (ids.high_watermark, ids.open, ids.aborted) == (7, (), (3,))

    def test_partitions_go_with_the_commit(self, store: Store) -> None:
        """DROP PARTITION: together with the mark in the definition, and those of other tables stay."""
        _shop(store, table(), table(STOCK))
        kept = Partition(("2026-01-02", "oslo"), "file:/p2")
        store.add_partitions(ORDERS, [DAY, kept])
        of_stock = Partition(DAY.values, "file:/q1")
        store.add_partitions(STOCK, [of_stock])
        marked = table().with_properties({"hiveacid.partitions.dropped": "1"})
        changes = CatalogChanges(altered=(marked,), dropped=((ORDERS, DAY), (ORDERS, DAY)))
        refused, txn_id = _writer(store), _writer(store)
        store.abort_txns([refused], "no")
        with pytest.raises(TransactionAbortedError):
            store.commit_txn(refused, changes)
        assert (store.get_table(ORDERS), len(store.list_partitions(ORDERS))) == (table(), 2)
        store.commit_txn(txn_id, changes)
        assert store.get_table(ORDERS) == marked
        assert (store.list_partitions(ORDERS), store.list_partitions(STOCK)) == ((kept,), (of_stock,))

    def test_a_partition_that_is_there_already_stays(self, store: Store) -> None:
        """Two writers may create the same one."""
        _shop(store, table())
        there = Partition(DAY.values, DAY.location, (("k", "v"),))
        store.add_partitions(ORDERS, [there])
        store.commit_txn(_writer(store), CatalogChanges(partitions=(NewPartition(ORDERS, DAY),)))
        assert store.list_partitions(ORDERS) == (there,)

    def test_a_partition_that_came_to_be_elsewhere_stops_the_commit(self, store: Store) -> None:
        """Nobody would look for the rows where they were written; the transaction is aborted, and nothing is left."""
        _shop(store, table(), table(STOCK))
        txn_id = _writer(store)
        elsewhere = Partition(DAY.values, "file:/elsewhere")
        store.add_partitions(ORDERS, [elsewhere])
        other = Partition(("2026-01-02", "oslo"), "file:/p2")
        changes = CatalogChanges(
            (table(TableName("shop", "made")),),
            (NewPartition(STOCK, DAY), NewPartition(ORDERS, other), NewPartition(ORDERS, DAY)),
        )
        with pytest.raises(WriteConflictError, match=r"run the statement again"):
            store.commit_txn(txn_id, changes, [wrote(ORDERS, UPDATE)])
        assert store.txn_state(txn_id) == "aborted"
        assert elsewhere in store.list_partitions(ORDERS)
        assert store.get_table(TableName("shop", "made")) is None
        with pytest.raises(WriteConflictError):
            store.commit_txn(txn_id, changes)
        again = _writer(store)
        store.commit_txn(again, CatalogChanges(partitions=(NewPartition(ORDERS, elsewhere),)))
        assert store.txn_state(again) == "committed"

    def test_of_those_who_make_a_partition_in_several_places_one_commits(self, store: Store) -> None:
        """All at once: what is committed lies where the partition is."""
        _shop(store, table())
        txns = [_writer(store) for _ in range(8)]

        def commit(txn_id: TxnId) -> bool:
            place = Partition(DAY.values, f"file:/p{txn_id}")
            try:
                store.commit_txn(txn_id, CatalogChanges(partitions=(NewPartition(ORDERS, place),)))
            except WriteConflictError:
                return False
            return True

        with ThreadPoolExecutor(len(txns)) as pool:
            done = [txn_id for txn_id, well in zip(txns, pool.map(commit, txns), strict=True) if well]
        (there,) = store.list_partitions(ORDERS)
        assert [f"file:/p{txn_id}" for txn_id in done] == [there.location]

    def test_a_table_that_is_there_already_stops_the_commit(self, store: Store) -> None:
        """Nothing of it happens; the transaction is still open, to be aborted."""
        _shop(store, table())
        txn_id = _writer(store)
        store.add_written(txn_id, [wrote(ORDERS, UPDATE)])
        new, lost = table(TableName("shop", "new")), table(TableName("none", "t"))
        partition = NewPartition(ORDERS, DAY)
        with pytest.raises(AlreadyExistsError):
            store.commit_txn(txn_id, CatalogChanges((new, table()), (partition,)))
        with pytest.raises(NoSuchDatabaseError):
            store.commit_txn(txn_id, CatalogChanges((new, lost), (partition,)))
        assert store.list_tables("shop") == ("orders",)
        assert store.list_partitions(ORDERS) == ()
        assert store.txn_state(txn_id) == "open"
        other = _writer(store)
        store.add_written(other, [wrote(ORDERS, UPDATE)])
        store.commit_txn(other)
        with pytest.raises(WriteConflictError):
            store.commit_txn(txn_id)

    def test_a_refused_commit_changes_no_catalog(self, store: Store) -> None:
        """A write conflict wins over everything else."""
        _shop(store, table())
        one, two = _writer(store), _writer(store)
        for txn_id in (one, two):
            store.add_written(txn_id, [wrote(ORDERS, UPDATE)])
        store.commit_txn(one)
        with pytest.raises(WriteConflictError):
            store.commit_txn(two, CatalogChanges((table(STOCK), table()), (NewPartition(ORDERS, DAY),)))
        assert store.get_table(STOCK) is None
        assert store.list_partitions(ORDERS) == ()

    def test_dropping_a_table_forgets_all_about_it(self, store: Store) -> None:
        """A new one of its name begins at write id 1, without aborted ids, conflicts or compactions."""
        _shop(store, table(), table(STOCK))
        for name in (ORDERS, STOCK):
            store.abort_txns([_writer(store, name)], "no")
            store.enqueue_compaction(CompactionRequest(name, None, "major"), "manual")
        stale = _writer(store, STOCK)
        changed = _writer(store)
        store.add_written(changed, [wrote(ORDERS, UPDATE)])
        store.commit_txn(changed)
        store.drop_table(ORDERS)
        store.create_table(table())
        assert store.aborted_write_ids(ORDERS) == ()
        assert [one.request.table for one in store.show_compactions()] == [STOCK]
        store.add_written(stale, [wrote(ORDERS, UPDATE)])
        store.commit_txn(stale)
        assert store.allocate_write_ids(store.open_txns(CLIENT), ORDERS) == (1,)
        assert store.aborted_write_ids(STOCK) == (1,)

    def test_a_table_dropped_under_a_writer(self, store: Store) -> None:
        """Its commit goes through for what is left."""
        _shop(store, table(), table(STOCK))
        txn_id = _writer(store)
        store.allocate_write_ids([txn_id], STOCK)
        store.add_written(txn_id, [wrote(ORDERS, UPDATE), wrote(STOCK, UPDATE)])
        store.drop_table(ORDERS)
        store.commit_txn(
            txn_id, CatalogChanges(partitions=(NewPartition(ORDERS, DAY), NewPartition(STOCK, DAY)))
        )
        assert store.get_table(ORDERS) is None
        assert store.list_partitions(STOCK) == (DAY,)
        assert store.valid_write_ids(store.valid_txns(), [STOCK])[STOCK].is_valid(1)

    def test_renaming_takes_everything_along(self, store: Store) -> None:
        """Write ids, aborted ids, recorded writes, conflicts, locks, compactions."""
        _shop(store, table())
        store.seed_write_ids(ORDERS, WriteId(7), [WriteId(3)])
        first, second = _writer(store), _writer(store)
        store.lock(first, [lock_on(LockType.SHARED_WRITE, "orders", "p=1"), lock_on(LockType.SHARED_READ)])
        store.add_written(first, [wrote(ORDERS, UPDATE)])
        store.enqueue_compaction(CompactionRequest(ORDERS, None, "major"), "manual")
        new = TableName("shop", "renamed")
        store.alter_table(ORDERS, table(new))
        store.add_written(second, [wrote(new, UPDATE)])
        store.commit_txn(second)
        with pytest.raises(WriteConflictError, match="shop/renamed"):
            store.commit_txn(first)
        third = _writer(store, new)
        store.lock(third, [lock_on(LockType.SHARED_WRITE, "orders", "p=1"), lock_on(LockType.SHARED_READ)])
        found = store.valid_write_ids(store.valid_txns(), [new, ORDERS])
        assert found[new].to_string() == "shop.renamed:10:10:10:3,8"
        assert found[ORDERS].high_watermark == 0
        assert [one.request.table for one in store.show_compactions()] == [new]

    def test_only_granted_locks_are_renamed_with_their_table(self, store: Store) -> None:
        """A statement that waits for a name writes into the table that then has the name, and locks that one."""
        _shop(store, table())
        holder, waiting, other = store.open_txns(CLIENT, 3)
        store.lock(holder, [lock_on(LockType.EXCLUSIVE, "orders"), lock_on(LockType.SHARED_READ)])
        request = store.lock(waiting, [lock_on(LockType.SHARED_WRITE, "orders", "p=1")]).lock_id
        store.alter_table(ORDERS, table(STOCK))
        assert [row.table for row in store.show_locks()] == ["stock", None, "orders"]
        store.create_table(table())
        assert store.check_lock(request).state is LockState.ACQUIRED
        overwrite = lock_on(LockType.EXCL_WRITE, "orders", "p=1")
        assert store.lock(other, [overwrite], zero_wait=True).state is LockState.NOT_ACQUIRED

    def test_a_name_that_was_used_without_a_table(self, store: Store) -> None:
        """A write id taken on a dropped table does not follow whoever gets the name by renaming."""
        _shop(store, table())
        late = store.open_txns(CLIENT)[0]
        assert store.allocate_write_ids([late], STOCK) == (1,)
        mine = _writer(store)
        store.alter_table(ORDERS, table(STOCK))
        found = store.valid_write_ids(store.valid_txns(), [STOCK])[STOCK]
        assert found.open == (1,)
        assert store.allocate_write_ids([mine], STOCK) == (1,)
        assert store.allocate_write_ids([late], STOCK) == (2,)
