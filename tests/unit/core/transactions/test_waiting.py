"""Chains and circles of lock waits, and the cleanings that an open transaction holds back."""

from __future__ import annotations

from hiveacid.core.compaction.queue_records import Compaction, CompactionRequest
from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.waiting import Wait, held_back_cleanings, lock_waits


def test_a_chain_leads_to_the_one_that_holds_all_others_up() -> None:
    locks = [
        ("1.1", 10, None),
        ("2.1", 11, "1.1"),
        ("3.1", 12, "2.1"),
        ("3.2", 12, "1.1"),
        ("4.1", 20, None),
        ("5.1", 21, "4.1"),
    ]
    assert lock_waits(locks) == (Wait(11, 10, 10, 1), Wait(12, 11, 10, 2), Wait(21, 20, 20, 1))


def test_locks_without_transaction_or_unknown_wait_for_nobody() -> None:
    assert lock_waits([("1.1", None, None), ("2.1", 5, "1.1"), ("3.1", 6, "9.9"), ("4.1", 7, "4.1")]) == ()


def test_a_circle_is_a_deadlock() -> None:
    locks = [("1.1", 1, "2.1"), ("2.1", 2, "1.1"), ("3.1", 3, "1.1")]
    waits = {wait.txn_id: wait for wait in lock_waits(locks)}
    assert all(wait.deadlocked and wait.root == 1 for wait in waits.values())
    assert waits[3].waits_for == 1


def test_open_transactions_hold_back_cleanings_of_later_compactions() -> None:
    def job(number: int, next_txn_id: int | None, state: str = "ready for cleaning") -> Compaction:
        request = CompactionRequest(TableName("d", "t"), None, "major")
        return Compaction(
            number, request, state, next_txn_id=None if next_txn_id is None else TxnId(next_txn_id)
        )

    jobs = [job(1, 10), job(2, 20), job(3, None), job(4, 99, "succeeded")]
    assert held_back_cleanings([5, 10, 19, 20], jobs) == {5: (1, 2), 10: (2,), 19: (2,)}
