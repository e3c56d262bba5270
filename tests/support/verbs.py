"""``begin_txn`` spelt out in the verbs that it stands for: for wrappers of stores that want to see each of them."""

from __future__ import annotations

from hiveacid.core.transactions.locks_and_conflicts import LockState
from hiveacid.ports.store import TransactionStore
from hiveacid.ports.transactions import Begun, Client, Start, TxnKind


def begin_by_verbs(store: TransactionStore, client: Client, start: Start, kind: TxnKind) -> Begun:
    """Open, lock, look, translate, allocate; what fails half-way is aborted."""
    (txn_id,) = store.open_txns(client, 1, kind)
    try:
        answer = store.lock(txn_id, start.locks) if start.locks else None
        if answer is not None and answer.state is LockState.WAITING:
            return Begun(txn_id, answer)
        snapshot = store.take_snapshot(txn_id)
        lists = store.valid_write_ids(snapshot, start.tables) if start.tables else {}
        given = {table: store.allocate_write_ids([txn_id], table)[0] for table in start.writes}
        return Begun(txn_id, answer, snapshot, lists, given)
    except BaseException:
        store.abort_txns([txn_id], "it could not begin")
        raise
