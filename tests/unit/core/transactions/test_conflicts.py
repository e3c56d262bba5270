"""First committer wins."""

from __future__ import annotations

import pytest

from hiveacid.core.model import TableName, TxnId
from hiveacid.core.transactions.conflicts import Change, CommittedChange, conflict_message, first_conflict

ORDERS = TableName("shop", "orders")


class CountedText(str):
    """A text that counts its comparisons."""

    compared = 0
    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        """Compare and count."""
        CountedText.compared += 1
        return super().__eq__(other)

    __hash__ = str.__hash__


def committed(
    txn_id: int, sequence: int, operation: str = "u", partition: str | None = None
) -> CommittedChange:
    return CommittedChange(TxnId(txn_id), sequence, Change(ORDERS, partition, operation))


@pytest.mark.parametrize(
    ("mine", "theirs", "conflict"),
    [
        ("u", "u", True),
        ("u", "d", True),
        ("d", "u", True),
        ("d", "d", True),
        ("i", "u", False),
        ("u", "i", False),
        ("i", "i", False),
        ("d", "c", False),
    ],
)
def test_operations(mine: str, theirs: str, *, conflict: bool) -> None:
    found = first_conflict(0, [Change(ORDERS, None, mine)], [committed(1, 1, theirs)])
    assert (found is not None) is conflict


def test_what_was_seen_is_no_conflict() -> None:
    changes = [Change(ORDERS, None, "u")]
    assert first_conflict(5, changes, [committed(1, 5)]) is None
    assert first_conflict(4, changes, [committed(1, 5)]) is not None


def test_the_same_place_only() -> None:
    mine = [Change(ORDERS, "p=1", "u")]
    others = [
        committed(1, 1, partition="p=2"),
        committed(1, 1, partition=None),
        committed(1, 1, partition="P=1"),
        CommittedChange(TxnId(1), 1, Change(TableName("shop", "stock"), "p=1", "u")),
    ]
    assert first_conflict(0, mine, others) is None


def test_many_changes_are_not_compared_one_by_one() -> None:
    CountedText.compared = 0
    mine = [Change(ORDERS, CountedText(f"p={number}"), "u") for number in range(500)]
    theirs = [committed(1, 1, partition=CountedText(f"q={number}")) for number in range(500)]
    assert first_conflict(0, mine, theirs) is None
    assert first_conflict(0, mine, [*theirs, committed(1, 1, partition="p=499")]) is not None
    assert CountedText.compared < 5000


def test_the_first_committer_is_named_in_the_words_of_hive() -> None:
    mine = [Change(ORDERS, "p=1", "d"), Change(ORDERS, "p=1", "u"), Change(ORDERS, "p=2", "i")]
    found = first_conflict(
        3, mine, [committed(9, 8, "u", "p=1"), committed(8, 6, "d", "p=1"), committed(7, 2)]
    )
    assert found is not None
    assert conflict_message(TxnId(5), 9, found) == (
        "Aborting [txnid:5,9] due to a write conflict on shop/orders/p=1 committed by [txnid:8,6] u/d"
    )
    whole = first_conflict(0, [Change(ORDERS, None, "d")], [committed(2, 3)])
    assert whole is not None
    assert conflict_message(TxnId(3), 3, whole) == (
        "Aborting [txnid:3,3] due to a write conflict on shop/orders committed by [txnid:2,3] d/u"
    )
