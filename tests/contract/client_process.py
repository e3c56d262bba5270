"""A client of a store in a process of its own: prints one JSON object a transaction.

Arguments: URL, seed, transactions. It behaves as a writer does: open, lock, snapshot, write id, changes, commit;
now and then it aborts or only reads.
"""

from __future__ import annotations

import json
import random
import sys
import time

from hiveacid.core.transactions.locks_and_conflicts import LockType
from hiveacid.errors import WriteConflictError
from hiveacid.ports.transactions import Client, Operation, Written
from hiveacid.stores.sql.store import SqlStore
from support.samples import ORDERS, lock_on

PARTITIONS = ("p=1", "p=2", "p=3")


def transaction(store: SqlStore, chance: random.Random) -> dict[str, object]:
    """Run one transaction and say what happened."""
    partition = chance.choice(PARTITIONS)
    (txn_id,) = store.open_txns(Client("process", "localhost", "test"))
    lock = store.lock(txn_id, [lock_on(LockType.SHARED_WRITE, "orders", partition)])
    snapshot = store.take_snapshot(txn_id)
    seen = store.valid_write_ids(snapshot, [ORDERS])[ORDERS]
    (write_id,) = store.allocate_write_ids([txn_id], ORDERS)
    if chance.random() < 0.3:
        time.sleep(chance.random() / 100)
    operation = chance.choice(list(Operation))
    store.add_written(txn_id, [Written(ORDERS, partition, operation)])
    outcome = "committed"
    if chance.random() < 0.1:
        store.abort_txns([txn_id], "changed my mind")
        outcome = "aborted"
    else:
        try:
            store.commit_txn(txn_id)
        except WriteConflictError:
            outcome = "conflict"
    return {
        "txn": txn_id,
        "lock": lock.lock_id,
        "snapshot": snapshot.to_string(),
        "seen": seen.to_string(),
        "write_id": write_id,
        "partition": partition,
        "operation": operation.value,
        "outcome": outcome,
    }


def main() -> None:
    """Run the transactions."""
    url, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    chance = random.Random(seed)
    store = SqlStore(url)
    for _ in range(count):
        print(json.dumps(transaction(store, chance)), flush=True)  # noqa: T201 - what the parent reads
    store.close()


if __name__ == "__main__":
    main()
