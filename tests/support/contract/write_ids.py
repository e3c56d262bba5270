"""Contract: allocation of write ids and the valid write-id lists made from snapshots."""

from __future__ import annotations

import pytest

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.errors import CatalogError, ConfigError, TransactionAbortedError, TransactionStateError
from hiveacid.ports.transactions import TxnKind
from support.samples import CLIENT, ORDERS, STOCK, Store

ODD = TableName("d'b\";--", "t a.b`l%e_ñ😀")


def _list(store: Store, txns: ValidTxnList, table: TableName = ORDERS) -> ValidWriteIdList:
    return store.valid_write_ids(txns, [table])[table]


class WriteIdContract:
    """Scenarios T1, T11, T12, T13."""

    def test_ids_are_gapless_for_each_table(self, store: Store) -> None:
        """Each table counts for itself; in a batch the lower transaction gets the lower id."""
        one, two, three = store.open_txns(CLIENT, 3)
        assert store.allocate_write_ids([two], ORDERS) == (1,)
        assert store.allocate_write_ids([three, one], ORDERS) == (3, 2)
        assert store.allocate_write_ids([three], STOCK) == (1,)

    def test_a_transaction_keeps_its_id(self, store: Store) -> None:
        """Asking again, alone or among others, gives the same id (an answer may be lost)."""
        one, two = store.open_txns(CLIENT, 2)
        assert store.allocate_write_ids([two], ORDERS) == (1,)
        assert store.allocate_write_ids([two], ORDERS) == (1,)
        assert store.allocate_write_ids([one, two, one], ORDERS) == (2, 1, 2)
        assert store.allocate_write_ids([], ORDERS) == ()

    def test_all_or_none(self, store: Store) -> None:
        """One ended transaction in a batch, and nobody gets an id."""
        one, two = store.open_txns(CLIENT, 2)
        store.abort_txns([two], "no")
        with pytest.raises(TransactionAbortedError):
            store.allocate_write_ids([one, two], ORDERS)
        assert store.allocate_write_ids([one], ORDERS) == (1,)

    def test_readers_get_none(self, store: Store) -> None:
        """A read-only transaction may not write."""
        reader = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0]
        with pytest.raises(TransactionStateError, match="read-only"):
            store.allocate_write_ids([reader], ORDERS)

    def test_large_batches(self, store: Store) -> None:
        """As many as one call may open."""
        ids = store.open_txns(CLIENT, 1000)
        assert store.allocate_write_ids(ids, ORDERS) == tuple(range(1, 1001))

    def test_a_table_nobody_wrote(self, store: Store) -> None:
        """Its list is empty, with high watermark 0."""
        assert _list(store, store.valid_txns()) == ValidWriteIdList(ORDERS, WriteId(0))
        assert _list(store, store.valid_txns()).to_string() == "shop.orders:0:9223372036854775807::"

    def test_only_committed_ids_are_valid(self, store: Store) -> None:
        """Open and aborted ones are exceptions."""
        done, running, failed, last = store.open_txns(CLIENT, 4)
        store.allocate_write_ids([done, running, failed, last], ORDERS)
        store.commit_txn(done)
        store.abort_txns([failed], "no")
        store.commit_txn(last)
        assert _list(store, store.valid_txns()).to_string() == "shop.orders:4:2:2:3"

    def test_several_tables_at_once(self, store: Store) -> None:
        """One list a table, all as of the same snapshot."""
        one, two = store.open_txns(CLIENT, 2)
        store.allocate_write_ids([one, two], ORDERS)
        store.allocate_write_ids([two], STOCK)
        store.commit_txn(two)
        found = store.valid_write_ids(store.valid_txns(), [STOCK, ORDERS, TableName("shop", "none")])
        assert {str(name): one.to_string().split(":", 1)[1] for name, one in found.items()} == {
            "shop.orders": "2:1:1:",
            "shop.stock": "1:9223372036854775807::",
            "shop.none": "0:9223372036854775807::",
        }

    def test_an_old_snapshot_stays_as_it_was(self, store: Store) -> None:
        """Whoever commits, aborts or begins later changes no answer: readers repeat what they read."""
        early, open_then = store.open_txns(CLIENT, 2)
        store.allocate_write_ids([early, open_then], ORDERS)
        store.commit_txn(early)
        reader = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0]
        snapshot = store.take_snapshot(reader)
        before = _list(store, snapshot)
        store.commit_txn(open_then)
        late = store.open_txns(CLIENT, 2)
        store.allocate_write_ids(late, ORDERS)
        store.commit_txn(late[1])
        store.abort_txns([late[0]], "no")
        assert before.to_string() == "shop.orders:2:2:2:"
        assert _list(store, snapshot) == before
        assert store.valid_write_ids(snapshot, [STOCK])[STOCK].high_watermark == 0

    def test_an_open_transaction_that_writes_after_the_snapshot(self, store: Store) -> None:
        """It was open in the snapshot, so its id is an exception, wherever it lies."""
        slow, reader = store.open_txns(CLIENT, 2)
        snapshot = store.take_snapshot(reader)
        young = store.open_txns(CLIENT)[0]
        store.allocate_write_ids([young], ORDERS)
        store.allocate_write_ids([slow], ORDERS)
        store.commit_txn(young)
        store.commit_txn(slow)
        found = _list(store, snapshot)
        # The young one's id lies below one that counts, so the high watermark cannot hide it.
        assert found.to_string() == "shop.orders:2:1:1,2:"
        assert not any(found.is_valid(write_id) for write_id in (1, 2, 3))

    def test_ids_of_later_transactions_at_the_top_are_cut_off(self, store: Store) -> None:
        """``getValidWriteIds``: the high watermark is the last id of the transactions up to the snapshot's."""
        first = store.open_txns(CLIENT)[0]
        store.allocate_write_ids([first], ORDERS)
        store.commit_txn(first)
        snapshot = store.valid_txns()
        store.allocate_write_ids(store.open_txns(CLIENT, 3), ORDERS)
        assert _list(store, snapshot).to_string() == "shop.orders:1:9223372036854775807::"

    def test_a_snapshot_from_text(self, store: Store) -> None:
        """The list in hand decides, not what the store knows by now."""
        one, two, three = store.open_txns(CLIENT, 3)
        store.allocate_write_ids([one, two, three], ORDERS)
        for txn_id in (one, two, three):
            store.commit_txn(txn_id)
        told = ValidTxnList(TxnId(2), (TxnId(1),))
        assert _list(store, told).to_string() == "shop.orders:2:1:1:"

    def test_seeded_ids(self, store: Store) -> None:
        """A directory of another engine: the count goes on, its aborted ids stay invisible."""
        store.seed_write_ids(ORDERS, WriteId(5), [WriteId(3), WriteId(2), WriteId(3)])
        assert _list(store, store.valid_txns()).to_string() == "shop.orders:5:9223372036854775807::2,3"
        assert store.aborted_write_ids(ORDERS) == (2, 3)
        writer = store.open_txns(CLIENT)[0]
        assert store.allocate_write_ids([writer], ORDERS) == (6,)
        assert _list(store, store.take_snapshot(writer)).to_string() == "shop.orders:6:6:6:2,3"
        store.forget_aborted(ORDERS, None, WriteId(2))
        assert store.aborted_write_ids(ORDERS) == (3,)

    def test_seeding_comes_first(self, store: Store) -> None:
        """Not on a table that gave out ids; not with ids that make no sense."""
        store.allocate_write_ids(store.open_txns(CLIENT), ORDERS)
        with pytest.raises(TransactionStateError, match="seeded"):
            store.seed_write_ids(ORDERS, WriteId(5), [])
        for top, aborted in ((2, [3]), (2, [0]), (-1, [])):
            with pytest.raises(ConfigError):
                store.seed_write_ids(STOCK, WriteId(top), [WriteId(one) for one in aborted])
        store.seed_write_ids(STOCK, WriteId(0), [])
        store.seed_write_ids(STOCK, WriteId(10_000_000), [])
        assert store.allocate_write_ids(store.open_txns(CLIENT), STOCK) == (10_000_001,)

    def test_any_name_is_data(self, store: Store) -> None:
        """Quotes, semicolons, dots, blanks, unicode; case counts; NUL and half characters are refused."""
        txn_id = store.open_txns(CLIENT)[0]
        other = TableName(ODD.database, ODD.name.upper())
        assert store.allocate_write_ids([txn_id], ODD) == (1,)
        assert _list(store, store.valid_txns(), ODD).high_watermark == 1
        assert _list(store, store.valid_txns(), other).high_watermark == 0
        for bad in ("a\0b", "\ud800", "", "x" * 300):
            with pytest.raises(CatalogError):
                store.allocate_write_ids([txn_id], TableName("shop", bad))
            with pytest.raises(CatalogError):
                store.valid_write_ids(store.valid_txns(), [TableName(bad, "t")])
