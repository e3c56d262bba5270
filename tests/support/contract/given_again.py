"""What holds when a database gives transaction ids out again: after a restore, or a failover to a replica that lagged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hiveacid.core.model import WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.core.transactions.states import TransactionState
from hiveacid.errors import NoSuchTransactionError
from hiveacid.ports.transactions import Operation, Remains, TxnKind
from support.samples import CLIENT, ORDERS, Store, lock_on, wrote


def require_that_ids_of_others_are_safe(old: Store, new: Store, go_back: Callable[[], object]) -> None:
    """Check that a client with open transactions does not touch those of ``new`` that have the same ids.

    ``go_back`` brings the database back to the state before the transactions of ``old``.
    """
    opened = (*old.open_txns(CLIENT, 1, TxnKind.READ_ONLY), *old.open_txns(CLIENT, 2))
    go_back()
    assert old.heartbeat(opened).missing == opened
    given_again = new.open_txns(CLIENT, 3)
    assert given_again == opened
    new.allocate_write_ids(given_again, ORDERS)
    reader, writer, updater = opened
    assert old.heartbeat(opened).missing == opened  # and keeps none of the others alive
    for txn_id, written in (
        (reader, ()),
        (writer, [wrote(ORDERS, Operation.INSERT)]),
        (updater, [wrote(ORDERS, Operation.UPDATE)]),
    ):
        with pytest.raises(NoSuchTransactionError):
            old.commit_txn(txn_id, written=written)
        assert old.txn_state(txn_id) == TransactionState.UNKNOWN
    for ask in (
        lambda: old.allocate_write_ids([writer], ORDERS),
        lambda: old.lock(writer, [lock_on(LockType.SHARED_READ, "orders")]),
        lambda: old.add_written(updater, [wrote(ORDERS, Operation.UPDATE)]),
    ):
        with pytest.raises(NoSuchTransactionError):
            ask()
    assert old.abort_txns(opened, "give up", Remains.NOTHING) == ()
    assert [new.txn_state(txn_id) for txn_id in given_again] == [TransactionState.OPEN] * 3
    new.commit_txn(writer)
    new.abort_txns([reader, updater], "leaves files", Remains.FILES)
    assert new.aborted_write_ids(ORDERS) == (WriteId(1), WriteId(3))
