"""Contract: what a store remembers of each table's commits."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.commit_records import (
    CommitRecord,
    OperationSummary,
    TableOperation,
    write_ids_before,
)
from hiveacid.ports.catalog import CatalogChanges
from hiveacid.ports.transactions import Operation
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table, wrote

INSERT, UPDATE, DELETE = Operation
DEED = OperationSummary("INSERT", "INSERT INTO orders VALUES (1) -- 'quoted' \"ünï\"", 1, 0, 0, 2, 300)
_DAY = 86_400


def _begin(store: Store, *tables: TableName) -> TxnId:
    (txn_id,) = store.open_txns(CLIENT)
    store.take_snapshot(txn_id)
    for one in tables or (ORDERS,):
        store.allocate_write_ids([txn_id], one)
    return txn_id


def _commit(store: Store, *operations: TableOperation, operation: Operation = INSERT) -> TxnId:
    txn_id = _begin(store)
    store.commit_txn(txn_id, written=[wrote(ORDERS, operation)], operations=operations)
    return txn_id


def _ids(commits: Sequence[CommitRecord]) -> list[int]:
    return [one.write_id for one in commits]


class PastContract:
    """Who committed what and when, written with the commit itself."""

    def test_every_write_id_that_is_committed_has_its_row(self, store: Store) -> None:
        """In the usual case, with changes, with a catalog change, of several tables; never of aborted ones."""
        store.create_database(database())
        store.create_table(table())
        assert _ids(store.commits(ORDERS)) == [0]
        first = _commit(store, TableOperation(ORDERS, DEED))
        store.abort_txns([_begin(store)], "no")
        second = _commit(
            store, TableOperation(ORDERS, OperationSummary("DELETE", deleted=3)), operation=DELETE
        )
        third = _begin(store, ORDERS, STOCK)
        operations = [
            TableOperation(STOCK, OperationSummary("INSERT", inserted=7)),
            TableOperation(ORDERS, OperationSummary("MERGE")),
        ]
        store.commit_txn(third, CatalogChanges(tables=(table(STOCK),)), operations=operations)
        store.commit_txn(third, CatalogChanges(tables=(table(STOCK),)), operations=operations)
        silent = _commit(store)
        read_only = store.open_txns(CLIENT)[0]
        store.commit_txn(read_only)
        found = store.commits(ORDERS)
        assert [(one.write_id, one.txn_id) for one in found] == [
            (0, None),
            (1, first),
            (3, second),
            (4, third),
            (5, silent),
        ]
        assert [one.summary for one in found[1:]] == [
            DEED,
            OperationSummary("DELETE", deleted=3),
            OperationSummary("MERGE"),
            OperationSummary(),
        ]
        assert {(one.user, one.host, one.agent) for one in found[1:]} == {("ann", "host-1", "tests")}
        times = [one.committed for one in found]
        assert times == sorted(times)
        assert times[-1] <= store.now()
        assert [(one.write_id, one.summary.inserted) for one in store.commits(STOCK)] == [(0, None), (1, 7)]

    def test_only_what_is_later_is_asked_for_and_the_earliest_row(
        self, store: Store, clock: ManualClock
    ) -> None:
        """Commits of one moment go together."""
        store.create_database(database())
        store.create_table(table())
        late = _begin(store)
        for _ in range(3):
            clock.advance(1)
            _commit(store)
        clock.advance(1)
        store.commit_txn(late)
        found = store.commits(ORDERS)
        assert _ids(found) == [0, 2, 3, 4, 1]
        assert _ids(store.commits(ORDERS, found[2].committed)) == [0, 4, 1]
        assert _ids(store.commits(ORDERS, store.now() + 1000)) == [0]
        present = store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS]
        before = write_ids_before(present, [one for one in found if one.write_id in (1, 4)])
        assert (before.high_watermark, before.open, before.is_valid(1)) == (WriteId(3), (1,), False)

    def test_a_clock_that_goes_back_leaves_commits_in_their_order(
        self, store: Store, clock: ManualClock
    ) -> None:
        """A moment never shows a change without the rows that it changed."""
        store.create_database(database())
        store.create_table(table())
        clock.advance(60)
        _commit(store)
        clock.advance(-30)
        _commit(store, operation=UPDATE)
        _commit(store)
        found = store.commits(ORDERS)
        assert _ids(found) == [0, 1, 2, 3]
        assert _ids(store.commits(ORDERS, store.now())) == [0, 1, 2, 3]
        clock.advance(60)

    def test_a_clock_that_goes_back_after_write_ids_committed_out_of_order(
        self, store: Store, clock: ManualClock
    ) -> None:
        """The latest commit counts, not that of the highest write id."""
        store.create_database(database())
        store.create_table(table())
        overtaken = _begin(store)
        clock.advance(10)
        _commit(store)
        clock.advance(10)
        store.commit_txn(overtaken, written=[wrote(ORDERS, INSERT)])
        clock.advance(-10)
        _commit(store, operation=UPDATE)
        _commit(store)
        found = store.commits(ORDERS)
        assert _ids(found) == [0, 2, 1, 3, 4]
        assert {one.committed for one in found[2:]} == {found[1].committed + 10_000}
        clock.advance(10)

    def test_old_commits_are_forgotten_but_for_the_last(self, store: Store, clock: ManualClock) -> None:
        """The last one stands for those before it."""
        store.create_database(database())
        store.create_table(table())
        _commit(store)
        _commit(store)
        store.housekeep()
        assert _ids(store.commits(ORDERS)) == [0, 1, 2]
        clock.advance(1)
        _commit(store)
        clock.advance(31 * _DAY)
        store.housekeep()
        assert _ids(store.commits(ORDERS)) == [3]
        _commit(store)
        clock.advance(_DAY)
        store.housekeep()
        assert _ids(store.commits(ORDERS)) == [3, 4]

    def test_the_past_goes_with_its_table(self, store: Store, clock: ManualClock) -> None:
        """Renamed, it keeps it; dropped and made anew, or converted, its time begins anew."""
        store.create_database(database())
        plain = table(STOCK).with_properties({"transactional": "false"})
        store.create_table(table())
        store.create_table(plain)
        assert store.commits(STOCK) == ()
        _commit(store)
        other = TableName("shop", "sold")
        store.alter_table(ORDERS, table(other, table().location))
        assert (_ids(store.commits(other)), store.commits(ORDERS)) == ([0, 1], ())
        clock.advance(5)
        store.drop_table(other)
        store.create_table(table())
        (born,) = store.commits(ORDERS)
        assert born.committed == clock.now() == store.now()
        _commit(store)
        store.alter_table(ORDERS, table().with_properties({"note": "kept"}))
        assert _ids(store.commits(ORDERS)) == [0, 1]
        txn_id = _begin(store, STOCK)
        converted = plain.with_properties({"transactional": "true"})
        store.commit_txn(txn_id, CatalogChanges(altered=(converted,), skipped=((STOCK, 9),)))
        found = store.commits(STOCK)
        assert [(one.write_id, one.txn_id) for one in found] == [(0, None), (1, txn_id)]
        assert (born.summary, found[0].summary) == (
            OperationSummary("CREATE TABLE"),
            OperationSummary("CONVERT"),
        )
