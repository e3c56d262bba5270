"""Contract: figures of tables over time, and the counts of transactions and conflicts."""

from __future__ import annotations

from dataclasses import replace

import pytest
from sqlalchemy import text

from hiveacid.core.compaction.advice import FigureRecord
from hiveacid.core.model import TableDefinition, TableName
from hiveacid.errors import WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Operation
from hiveacid.stores.sql.database import Database
from hiveacid.stores.sql.store import MIGRATIONS, SqlStore, migrate
from support.clock import ManualClock
from support.samples import CLIENT, ORDERS, STOCK, Store, database, table, wrote

HOUR, DAY = 3600, 86_400
KEPT = 30.0 * DAY


def _make(store: Store, name: TableName = ORDERS) -> TableDefinition:
    if name.database not in store.list_databases():
        store.create_database(database())
    store.create_table(table(name))
    made = store.get_table(name)
    assert made is not None
    return made


def _record(store: Store, made: TableDefinition | None, time: int, **figures: int | None) -> None:
    name, incarnation = (None, "") if made is None else (made.name, made.incarnation)
    store.record_figures([FigureRecord(name, time, figures, incarnation)])


def _times(store: Store, made: TableDefinition | None) -> list[int]:
    return [record.time for record in store.recorded_figures(made)]


def require_figures_in_an_older_store(url: str) -> None:
    """Bring up a store of the version before the figures, in use; record in it."""
    new = Database(url, SystemClock())
    migrate(new, MIGRATIONS[:2])
    name = "INSERT INTO hiveacid_counters (name, value) VALUES ('commit sequence 2', 7)"
    new.write(lambda connection: connection.execute(text(name)))
    new.close()
    store = SqlStore(url)
    try:
        count = text("SELECT value FROM hiveacid_counters WHERE name = 'commit sequence 2'")
        assert store._database.read(lambda connection: connection.scalar(count)) == 7
        orders = _make(store)
        assert store.claim_figures(HOUR, KEPT)
        _record(store, orders, store.now(), deltas=1)
        assert len(store.recorded_figures(orders)) == 1
        assert store.count_transactions() == (0, 0)
    finally:
        store.close()


class FigureHistoryContract:
    """Records are those of one table, as long as they are kept."""

    def test_one_caller_in_an_interval_records(self, store: Store, clock: ManualClock) -> None:
        """Whoever asks first, by the store's clock; also after the clock went back."""
        assert [store.claim_figures(HOUR, KEPT) for _ in range(3)] == [True, False, False]
        clock.advance(HOUR - 1)
        assert not store.claim_figures(HOUR, KEPT)
        clock.advance(1)
        assert [store.claim_figures(HOUR, KEPT) for _ in range(2)] == [True, False]
        clock.advance(-2 * HOUR)
        assert [store.claim_figures(HOUR, KEPT) for _ in range(2)] == [True, False]

    def test_what_was_recorded_is_told_by_table(self, store: Store) -> None:
        """With unknown values, and the store's own beside them."""
        orders, stock = _make(store), _make(store, STOCK)
        _record(store, orders, 2000, deltas=3, rows=None)
        _record(store, orders, 1000, deltas=2**40)
        _record(store, stock, 1500, bytes=7)
        _record(store, None, 1700, tables=2)
        found = store.recorded_figures(orders)
        assert [(one.time, dict(one.figures)) for one in found] == [
            (1000, {"deltas": 2**40}),
            (2000, {"deltas": 3, "rows": None}),
        ]
        assert [dict(one.figures) for one in store.recorded_figures(None)] == [{"tables": 2}]
        latest = {name: (one.table, one.time) for name, one in store.latest_figures().items()}
        assert latest == {ORDERS: (ORDERS, 2000), STOCK: (STOCK, 1500)}

    def test_a_clock_that_was_ahead_keeps_no_table_from_being_recorded(
        self, store: Store, clock: ManualClock
    ) -> None:
        orders, before = _make(store), clock.now()
        _record(store, orders, before, deltas=1)
        _record(store, orders, before + 3650 * DAY * 1000, deltas=9)
        assert store.latest_figures()[ORDERS].time == before
        clock.advance(1)
        _record(store, orders, clock.now(), deltas=2)
        assert dict(store.latest_figures()[ORDERS].figures) == {"deltas": 2}

    def test_the_same_moment_is_recorded_once(self, store: Store) -> None:
        """A call may be repeated after its answer was lost."""
        orders = _make(store)
        for deltas in (1, 2):
            _record(store, orders, 5000, deltas=deltas)
        assert [dict(one.figures) for one in store.recorded_figures(orders)] == [{"deltas": 2}]

    def test_old_records_are_thinned_and_then_dropped(self, store: Store, clock: ManualClock) -> None:
        """Sixty days of hours: two days of all of them, thirty of one each, and no more."""
        orders = _make(store)
        for _ in range(60 * 24):
            assert store.claim_figures(HOUR, KEPT)
            _record(store, orders, clock.now(), deltas=1)
            _record(store, None, clock.now(), tables=1)
            clock.advance(HOUR)
        now = clock.now() - HOUR * 1000
        for made in (orders, None):
            times = _times(store, made)
            assert times[-49:] == [now - hour * HOUR * 1000 for hour in range(48, -1, -1)]
            days = [time // (DAY * 1000) for time in times[:-49]]
            assert days == sorted(set(days))
            assert len(times) <= 49 + 30
            assert times[0] >= now - KEPT * 1000

    def test_records_follow_the_table(self, store: Store) -> None:
        """RENAME takes them along, DROP deletes them; a table of the name begins anew."""
        orders = _make(store)
        _record(store, orders, 1000, deltas=1)
        store.alter_table(ORDERS, replace(orders, name=STOCK))
        stock = store.get_table(STOCK)
        assert stock is not None
        assert _times(store, stock) == [1000]
        assert _make(store).name == ORDERS
        assert _times(store, store.get_table(ORDERS)) == []
        store.drop_table(STOCK)
        assert store.latest_figures() == {}
        _record(store, stock, 2000, deltas=2)  # of a service that had measured it before
        again = _make(store, STOCK)
        assert _times(store, again) == []
        _record(store, again, 3000, deltas=3)
        assert _times(store, again) == [3000]

    def test_conflicts_are_counted_for_good(self, store: Store, clock: ManualClock) -> None:
        """Also once the rows of refused transactions are dropped; other aborts are none."""
        _make(store)
        before = store.count_transactions()
        for _ in range(3):
            winner, loser, quitter = store.open_txns(CLIENT, 3)
            for txn_id in (winner, loser):
                store.take_snapshot(txn_id)
                store.add_written(txn_id, [wrote(ORDERS, Operation.UPDATE)])
            store.abort_txns([quitter], "no more")
            store.commit_txn(winner)
            with pytest.raises(WriteConflictError):
                store.commit_txn(loser)
        assert store.count_transactions() == (before[0] + 9, 3)
        for _ in range(2):
            clock.advance(DAY)
            store.housekeep()
            (txn_id,) = store.open_txns(CLIENT)
            store.commit_txn(txn_id)
            assert store.count_transactions()[1] == 3
        assert not [row for row in store.show_transactions() if row.state == "ABORTED"]
