"""Contract: commit, and first committer wins."""

from __future__ import annotations

import itertools

import pytest

from hiveacid.core.model import TableName, TxnId
from hiveacid.errors import (
    CatalogError,
    NoSuchTransactionError,
    TransactionAbortedError,
    TransactionStateError,
    WriteConflictError,
)
from hiveacid.ports.transactions import Operation, TxnKind, Written
from support.samples import CLIENT, ORDERS, STOCK, Store, wrote

INSERT, UPDATE, DELETE = Operation


def _begin(store: Store, count: int = 2) -> tuple[TxnId, ...]:
    """Open transactions that all have a snapshot and a write id."""
    ids = store.open_txns(CLIENT, count)
    for txn_id in ids:
        store.take_snapshot(txn_id)
    store.allocate_write_ids(ids, ORDERS)
    return ids


class CommitContract:
    """Scenarios T3, T4, T10, D22."""

    def test_commit_makes_visible(self, store: Store) -> None:
        """Before it nobody sees the write id, after it everybody with a new snapshot."""
        txn_id = _begin(store, 1)[0]
        assert not store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].is_valid(1)
        store.commit_txn(txn_id)
        assert store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].is_valid(1)

    def test_commit_is_idempotent(self, store: Store) -> None:
        """A client that lost the answer may ask again."""
        txn_id = _begin(store, 1)[0]
        store.add_written(txn_id, [wrote(ORDERS, UPDATE)])
        store.commit_txn(txn_id)
        store.commit_txn(txn_id)
        assert store.txn_state(txn_id) == "committed"

    def test_commit_after_the_end(self, store: Store) -> None:
        """An aborted or unknown transaction cannot be committed, a committed one not aborted."""
        one, two = store.open_txns(CLIENT, 2)
        store.abort_txns([one], "ABORT TRANSACTIONS")
        with pytest.raises(TransactionAbortedError, match="ABORT TRANSACTIONS"):
            store.commit_txn(one)
        with pytest.raises(NoSuchTransactionError):
            store.commit_txn(TxnId(99))
        store.commit_txn(two)
        assert store.abort_txns([two], "late") == ()
        assert store.txn_state(two) == "committed"

    @pytest.mark.parametrize(("first", "second"), list(itertools.product(Operation, Operation)))
    def test_first_committer_wins(self, store: Store, first: Operation, second: Operation) -> None:
        """Updates and deletes exclude each other; inserts never conflict."""
        one, two = _begin(store)
        store.add_written(one, [wrote(ORDERS, first)])
        store.add_written(two, [wrote(ORDERS, second)])
        store.commit_txn(one)
        if INSERT in (first, second):
            store.commit_txn(two)
            return
        with pytest.raises(WriteConflictError) as caught:
            store.commit_txn(two)
        assert str(caught.value) == (
            f"Aborting [txnid:{two},2] due to a write conflict on shop/orders "
            f"committed by [txnid:{one},1] {second}/{first}"
        )
        assert caught.value.retryable
        assert store.txn_state(two) == "aborted"
        found = store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS]
        assert (found.is_valid(1), found.is_aborted(2)) == (True, True)

    def test_the_loser_is_told_the_same_again(self, store: Store) -> None:
        """Its answer may have been lost as well."""
        one, two = _begin(store)
        for txn_id in (one, two):
            store.add_written(txn_id, [wrote(ORDERS, DELETE, "p=1")])
        store.commit_txn(one)
        messages = []
        for _ in range(2):
            with pytest.raises(WriteConflictError) as caught:
                store.commit_txn(two)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]
        assert "on shop/orders/p=1 committed by" in messages[0]

    def test_partitions_and_tables_apart(self, store: Store) -> None:
        """Other partitions, other tables and the table as a whole are other places."""
        places = [(ORDERS, "p=1"), (ORDERS, "p=2"), (ORDERS, "P=1"), (ORDERS, None), (STOCK, "p=1")]
        ids = _begin(store, len(places))
        for txn_id, (table, partition) in zip(ids, places, strict=True):
            store.add_written(txn_id, [wrote(table, UPDATE, partition)])
        for txn_id in ids:
            store.commit_txn(txn_id)
        assert {store.txn_state(txn_id) for txn_id in ids} == {"committed"}

    @pytest.mark.parametrize("at_once", [True, False])
    def test_rows_below_the_base_of_a_later_overwrite_are_refused(
        self, store: Store, *, at_once: bool
    ) -> None:
        """No reader would see them. Rows above it, in other places, or of a later snapshot are safe."""
        below, elsewhere, whole, overwriting, above = _begin(store, 5)
        self._commit(store, overwriting, Written(ORDERS, "p=1", UPDATE, 0, replaced=True), at_once=at_once)
        for safe, partition in ((elsewhere, "p=2"), (whole, None), (above, "p=1")):
            self._commit(store, safe, wrote(ORDERS, INSERT, partition), at_once=at_once)
        with pytest.raises(
            WriteConflictError, match=rf"transaction {overwriting} overwrote shop/orders/p=1"
        ) as caught:
            self._commit(store, below, wrote(ORDERS, INSERT, "p=1"), at_once=at_once)
        assert caught.value.retryable
        assert store.txn_state(below) == "aborted"
        late = _begin(store, 1)[0]
        self._commit(store, late, wrote(ORDERS, INSERT, "p=1"), at_once=at_once)
        assert store.txn_state(late) == "committed"

    def test_rows_below_an_overwrite_that_was_rolled_back_are_kept(self, store: Store) -> None:
        """Its base is invisible, and so is an update, which hides no rows of others."""
        below, overwriting, updating = _begin(store, 3)
        store.add_written(overwriting, [Written(ORDERS, None, UPDATE, 0, replaced=True)])
        store.abort_txns([overwriting], "no")
        store.commit_txn(updating, written=[wrote(ORDERS, UPDATE)])
        store.commit_txn(below, written=[wrote(ORDERS, INSERT)])
        assert store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS].is_valid(1)

    @staticmethod
    def _commit(store: Store, txn_id: TxnId, written: Written, *, at_once: bool) -> None:
        """Record what was written with the commit, or before it."""
        if not at_once:
            store.add_written(txn_id, [written])
        store.commit_txn(txn_id, written=[written] if at_once else [])

    def test_one_common_partition_is_enough(self, store: Store) -> None:
        """A transaction over many partitions fails as a whole."""
        one, two = _begin(store)
        store.add_written(one, [wrote(ORDERS, UPDATE, "p=7"), wrote(STOCK, INSERT)])
        for p in range(10):
            store.add_written(two, [wrote(ORDERS, INSERT, f"p={p}"), wrote(ORDERS, DELETE, f"p={p}")])
        store.commit_txn(one)
        with pytest.raises(WriteConflictError, match=r"shop/orders/p=7 committed by .* d/u$"):
            store.commit_txn(two)

    def test_what_was_committed_before_the_snapshot_is_no_conflict(self, store: Store) -> None:
        """It was seen, even by a transaction that was opened earlier."""
        early, other = store.open_txns(CLIENT, 2)
        store.add_written(other, [wrote(ORDERS, UPDATE)])
        store.commit_txn(other)
        store.take_snapshot(early)
        store.add_written(early, [wrote(ORDERS, UPDATE)])
        store.commit_txn(early)
        assert store.txn_state(early) == "committed"

    def test_without_a_snapshot_the_opening_counts(self, store: Store) -> None:
        """What was committed since then may not have been seen."""
        early, other = store.open_txns(CLIENT, 2)
        for txn_id in (early, other):
            store.add_written(txn_id, [wrote(ORDERS, UPDATE)])
        store.commit_txn(other)
        with pytest.raises(WriteConflictError):
            store.commit_txn(early)

    def test_a_new_snapshot_moves_the_moment_until_something_is_written(self, store: Store) -> None:
        """A statement may look again before it writes; afterwards its old reading binds it."""
        fresh, stale, other = _begin(store, 3)
        store.add_written(stale, [wrote(ORDERS, UPDATE)])
        store.add_written(other, [wrote(ORDERS, UPDATE)])
        store.commit_txn(other)
        for txn_id in (fresh, stale):
            store.take_snapshot(txn_id)
        store.add_written(fresh, [wrote(ORDERS, UPDATE)])
        with pytest.raises(WriteConflictError):
            store.commit_txn(stale)
        store.commit_txn(fresh)

    def test_aborted_changes_are_no_conflict(self, store: Store) -> None:
        """Only what was committed counts."""
        one, two, three = _begin(store, 3)
        for txn_id in (one, two, three):
            store.add_written(txn_id, [wrote(ORDERS, UPDATE)])
        store.abort_txns([one], "no")
        store.commit_txn(two)
        with pytest.raises(WriteConflictError, match=f"committed by .txnid:{two},"):
            store.commit_txn(three)
        retry = _begin(store, 1)[0]
        store.add_written(retry, [wrote(ORDERS, UPDATE)])
        store.commit_txn(retry)

    def test_the_earliest_winner_is_named(self, store: Store) -> None:
        """Among several the first to commit."""
        loser = _begin(store, 1)[0]
        store.add_written(loser, [wrote(ORDERS, UPDATE, "p=1"), wrote(ORDERS, UPDATE, "p=2")])
        for p in (2, 1):
            winner = _begin(store, 1)[0]
            store.add_written(winner, [wrote(ORDERS, UPDATE, f"p={p}")])
            store.commit_txn(winner)
        with pytest.raises(WriteConflictError, match=rf"p=2 committed by \[txnid:{loser + 1},1\]"):
            store.commit_txn(loser)

    def test_only_open_writers_record(self, store: Store) -> None:
        """Readers and ended transactions write nothing; names are checked."""
        reader = store.open_txns(CLIENT, kind=TxnKind.READ_ONLY)[0]
        writer, ended = store.open_txns(CLIENT, 2)
        store.abort_txns([ended], "no")
        with pytest.raises(TransactionStateError, match="read-only"):
            store.add_written(reader, [wrote(ORDERS, INSERT)])
        with pytest.raises(TransactionAbortedError):
            store.add_written(ended, [wrote(ORDERS, INSERT)])
        for bad in ("", "p=\0"):
            with pytest.raises(CatalogError):
                store.add_written(writer, [wrote(ORDERS, INSERT, bad)])
        store.add_written(writer, [])

    def test_odd_names_conflict_literally(self, store: Store) -> None:
        """Patterns, quotes and unicode are only letters."""
        odd = TableName("s%", "o_'\";")
        one, two, three = _begin(store, 3)
        store.add_written(one, [wrote(odd, UPDATE, "p=%27é")])
        store.add_written(two, [wrote(TableName("sx", "ox'\";"), UPDATE, "p=%27é")])
        store.add_written(three, [wrote(odd, UPDATE, "p=%27é")])
        store.commit_txn(one)
        store.commit_txn(two)
        with pytest.raises(WriteConflictError):
            store.commit_txn(three)
