"""A store that gives write ids before its locks, as a metastore does: what others commit in between is not touched."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from hiveacid.config import Settings
from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.transactions.locks_and_conflicts import LockComponent, LockState, LockType
from hiveacid.errors import WriteConflictError
from hiveacid.ports.clock import SystemClock
from hiveacid.ports.transactions import Client, LockAnswer, Start
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.table.write.write_conflicts import require_no_missed_commits, require_not_overtaken
from hiveacid.transactions.heartbeats import Heartbeats
from hiveacid.transactions.transaction import Transaction, Transactions
from support.memory_store.store import MemoryStore

SETTINGS = Settings.of({})
CLIENT = Client("u", "h", "test")
TABLE = TableName("d", "t")
LOCK = LockComponent(LockType.SHARED_WRITE, "d", "t", operation="u")
START = Start((LOCK,), (TABLE,), (TABLE,))


class Early(MemoryStore):
    """Gives write ids, and lets somebody in, before it queues a request."""

    between: Callable[[], object] | None = None
    waits = False

    def lock(
        self, txn_id: TxnId, components: Sequence[LockComponent], *, zero_wait: bool = False
    ) -> LockAnswer:
        (given,) = self.allocate_write_ids([txn_id], TABLE)
        act, self.between = self.between, None
        if act is not None:
            act()
        answer = super().lock(txn_id, components, zero_wait=zero_wait)
        state = LockState.WAITING if self.waits and act is not None else answer.state
        return replace(answer, state=state, allocated={TABLE: given})


@pytest.fixture
def store() -> Early:
    return Early()


def begun(store: Early, how: str) -> Transaction:
    """Begin a statement while somebody else commits: its lock is there at once, after a wait, or asked for later."""
    transactions = Transactions(store, Heartbeats(store, 150.0), SystemClock(), CLIENT)
    store.waits = how == "waits"
    if how != "later":
        return transactions.begin(SETTINGS, start=START)
    txn = transactions.begin(SETTINGS)
    txn.lock([LOCK])
    return txn


@pytest.mark.parametrize("how", ["at once", "waits", "later"])
def test_what_others_committed_above_ones_own_write_id_is_not_seen(store: Early, how: str) -> None:
    """Its rows could be read, but not deleted or hidden: they would be there twice."""
    store.between = lambda: other(store)
    txn = begun(store, how)
    seen = txn.valid_write_ids(TABLE)
    assert txn.write_id(TABLE) == 1
    assert [one for one in range(1, 4) if seen.is_valid(one)] == [1]
    assert txn.has_later_commits(TABLE)
    txn.commit()
    with Transactions(store, Heartbeats(store, 150.0), SystemClock(), CLIENT).scope(SETTINGS) as reader:
        assert reader.valid_write_ids(TABLE).count_valid(1, 2) == 2
        assert not reader.has_later_commits(TABLE)


@pytest.mark.parametrize("how", ["at once", "waits", "later"])
@pytest.mark.parametrize("ends", ["commits", "aborts", "nobody"])
def test_rows_below_a_base_of_somebody_who_came_in_between_are_refused(
    store: Early, tmp_path: Path, how: str, ends: str
) -> None:
    """Only where he committed: nobody believes the base else."""
    (tmp_path / "base_2").mkdir()
    store.between = None if ends == "nobody" else lambda: other(store, commits=ends == "commits")
    txn = begun(store, how)
    assert txn.write_id(TABLE) == 1
    table: Any = SimpleNamespace(name=TABLE)
    if ends == "commits":
        with pytest.raises(WriteConflictError, match="overwrote"):
            require_not_overtaken(LocalFileSystem(), table, txn, WriteId(1), [str(tmp_path)])
    else:
        require_not_overtaken(LocalFileSystem(), table, txn, WriteId(1), [str(tmp_path)])
    txn.abort("done")


@pytest.mark.parametrize("how", ["at once", "waits", "later"])
@pytest.mark.parametrize("ends", ["commits", "aborts", "nobody"])
def test_a_statement_that_depends_on_all_rows_is_refused_if_somebody_came_in_between(
    store: Early, how: str, ends: str
) -> None:
    """A MERGE would insert his keys again."""
    store.between = None if ends == "nobody" else lambda: other(store, commits=ends == "commits")
    txn = begun(store, how)
    context: Any = SimpleNamespace(store=store)
    if ends == "commits":
        with pytest.raises(WriteConflictError, match=r"MERGE d\.t: another transaction wrote"):
            require_no_missed_commits(context, TABLE, txn, "MERGE")
    else:
        require_no_missed_commits(context, TABLE, txn, "MERGE")
    txn.abort("done")


def other(store: Early, *, commits: bool = True) -> None:
    (txn_id,) = store.open_txns(CLIENT)
    store.allocate_write_ids([txn_id], TABLE)
    if commits:
        store.commit_txn(txn_id)
    else:
        store.abort_txns([txn_id], "test")
