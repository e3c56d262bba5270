"""The contract of all stores on real metastores. `metastore_cannot` names what it can't do."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hive_server import HiveServers

from hiveacid.config import Settings
from hiveacid.core.model import TableName
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import TransactionError, WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Operation, Start
from hiveacid.stores.hms.store import MetastoreStore
from hiveacid.transactions.transaction import Heartbeats, Transactions
from support.clock import ManualClock
from support.contract.metastore_cannot import CANNOT, CANNOT_HIVE3
from support.contract.suites import TransactionStoreContract
from support.samples import CLIENT, ORDERS, wrote


class TestMetastore(TransactionStoreContract):
    @pytest.fixture
    def store(
        self, hive: HiveServers, clock: ManualClock, request: pytest.FixtureRequest
    ) -> Iterator[MetastoreStore]:
        reason = CANNOT.get(request.node.originalname) or CANNOT_HIVE3.get(request.node.name)
        if reason is not None:
            pytest.skip(reason)
        hive.forget_transactions()
        made = MetastoreStore(hive.url, clock=clock, owner="ann")
        yield made
        made.close()


@pytest.fixture
def store(hive: HiveServers) -> Iterator[MetastoreStore]:
    hive.forget_transactions()
    made = MetastoreStore(hive.url, clock=ManualClock())
    yield made
    made.close()


@pytest.mark.parametrize("other", [Operation.UPDATE, None])
def test_a_wait_for_a_lock_is_not_in_vain(store: MetastoreStore, other: Operation | None) -> None:
    """Whoever waited for one that changed the table sees what he did, and commits; nobody else comes in between."""
    lock = LockComponent(LockType.EXCL_WRITE, "shop", "orders", None, Operation.UPDATE)
    start = Start((lock,), (ORDERS,), (ORDERS,))
    first = store.begin_txn(CLIENT, start)
    transactions = Transactions(store, Heartbeats(store, 60), SystemClock(), CLIENT)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(transactions.begin, Settings(), start=start)
        deadline = time.monotonic() + 300
        while not any(row.state == "WAITING" for row in store.show_locks()):
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(1)  # what it sees while it waits is asked for right after
        third = store.begin_txn(CLIENT, start)
        store.commit_txn(first.txn_id, written=[] if other is None else [wrote(ORDERS, other)])
        txn = waiting.result(300)
    assert third.lock is not None
    assert store.check_lock(third.lock.lock_id).state is LockState.WAITING
    assert txn.valid_write_ids(ORDERS).is_valid(1)
    txn.write_id(ORDERS)
    txn.pending.add_written([wrote(ORDERS, Operation.UPDATE)])
    txn.commit()
    assert store.check_lock(third.lock.lock_id).state is LockState.ACQUIRED
    store.abort_txns([third.txn_id], "enough")
    assert store.show_locks() == ()
    assert [row for row in store.show_transactions() if row.state == "OPEN"] == []
    transactions.heartbeats.close()


@pytest.mark.parametrize("first", Operation)
@pytest.mark.parametrize("second", Operation)
@pytest.mark.parametrize("partition", [None, "p=1"])
def test_conflicts_in_hives_words(
    store: MetastoreStore, hive: HiveServers, first: Operation, second: Operation, partition: str | None
) -> None:
    """Updates and deletes exclude each other; Hive 3 lets two deletes pass."""
    one, two = store.open_txns(CLIENT, 2)
    for txn_id in (one, two):
        store.allocate_write_ids([txn_id], ORDERS)
    store.add_written(one, [wrote(ORDERS, first, partition)])
    store.commit_txn(one)
    pass_by = Operation.INSERT in (first, second) or (
        hive.is_hive3 and first is Operation.DELETE and second is Operation.DELETE
    )
    written = [wrote(ORDERS, second, partition)]
    if pass_by:
        store.commit_txn(two, written=written)
        return
    for error in (WriteConflictError, TransactionError):
        with pytest.raises(error):
            store.commit_txn(two, written=written)
    lists = store.valid_write_ids(store.valid_txns(), [ORDERS])[ORDERS]
    assert (lists.is_valid(1), lists.is_aborted(2)) == (True, True)


def test_ids_younger_than_a_snapshot_are_not_believed_while_they_are_open(store: MetastoreStore) -> None:
    """The metastore itself would: an older transaction took a higher id since."""
    slow, reader = store.open_txns(CLIENT, 2)
    snapshot = store.take_snapshot(reader)
    (young,) = store.open_txns(CLIENT)
    store.allocate_write_ids([young], ORDERS)
    store.allocate_write_ids([slow], ORDERS)
    store.commit_txn(slow)
    found = store.valid_write_ids(snapshot, [ORDERS])[ORDERS]
    assert not found.is_valid(1)
    assert not found.is_valid(2)
    assert TableName("shop", "orders") == found.table
