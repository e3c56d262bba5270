"""Who waits for whom."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.model import LockId, TableName, TxnId
from hiveacid.core.transactions.locks_and_conflicts import (
    Change,
    CommittedChange,
    HeldLock,
    LockComponent,
    LockType,
    Wait,
    conflict_message,
    covers,
    first_blocking_lock,
    first_conflict,
    lock_waits,
    must_wait,
    overlap,
)

READ, WRITE, EXCL_WRITE, EXCLUSIVE = LockType

RESOURCES = st.one_of(
    st.tuples(st.sampled_from("ab"), st.none(), st.none()),
    st.tuples(st.sampled_from("ab"), st.sampled_from("tu"), st.none() | st.sampled_from(["p=1", "p=2"])),
)
COMPONENTS = st.builds(lambda type_, at: LockComponent(type_, *at), st.sampled_from(LockType), RESOURCES)
HELD = st.builds(
    HeldLock,
    st.integers(1, 9).map(LockId),
    st.integers(1, 3),
    st.integers(1, 3).map(TxnId),
    COMPONENTS,
)


def test_the_matrix_of_hive_4() -> None:
    """Rows: requested; columns: SHARED_READ, SHARED_WRITE, EXCL_WRITE, EXCLUSIVE there before."""
    rows = {
        requested: "".join(
            "w" if must_wait(LockComponent(requested, "d", "t"), LockComponent(earlier, "d", "t")) else "."
            for earlier in LockType
        )
        for requested in LockType
    }
    assert rows == {READ: "...w", WRITE: "..ww", EXCL_WRITE: ".www", EXCLUSIVE: "wwww"}


def test_reading_a_database_and_dropping_a_table_pass_each_other() -> None:
    database, table = LockComponent(READ, "d"), LockComponent(EXCLUSIVE, "d", "t")
    partition = LockComponent(EXCLUSIVE, "d", "t", "p=1")
    assert not must_wait(database, table)
    assert not must_wait(table, database)
    assert not must_wait(database, partition)
    assert not must_wait(partition, database)
    assert must_wait(database, LockComponent(EXCLUSIVE, "d"))
    assert must_wait(LockComponent(READ, "d", "t"), LockComponent(EXCLUSIVE, "d"))
    assert must_wait(LockComponent(WRITE, "d"), table)


@given(COMPONENTS, COMPONENTS)
def test_overlap_is_mutual_and_about_resources_only(one: LockComponent, other: LockComponent) -> None:
    assert overlap(one, other) == overlap(other, one)
    assert overlap(one, one)
    named = [(x, y) for x, y in ((one.table, other.table), (one.partition, other.partition)) if x and y]
    assert overlap(one, other) == (one.database == other.database and all(x == y for x, y in named))


@given(st.lists(COMPONENTS, min_size=1, max_size=4), st.lists(HELD, max_size=8))
def test_the_blocker_is_the_first_one_waited_for(
    request: list[LockComponent], earlier: list[HeldLock]
) -> None:
    mine = TxnId(2)
    naive = [
        held
        for held in earlier
        if held.txn_id != mine and any(must_wait(one, held.component) for one in request)
    ]
    found = first_blocking_lock(mine, request, earlier)
    if not naive:
        assert found is None
    else:
        assert found in naive
        assert (found.lock_id, found.number) == min((held.lock_id, held.number) for held in naive)


def test_a_lock_reads_well() -> None:
    held = HeldLock(LockId(3), 2, TxnId(7), LockComponent(EXCL_WRITE, "shop", "orders", "p=1"))
    assert str(held) == "lock 3.2 (EXCL_WRITE on shop.orders/p=1, transaction 7)"
    assert str(LockComponent(READ, "shop")) == "SHARED_READ on shop"


@pytest.mark.parametrize(
    ("held", "wanted", "expected"),
    [
        (LockComponent(LockType.EXCL_WRITE, "d", "t"), LockComponent(LockType.SHARED_WRITE, "d", "t", "p=1"), True),
        (LockComponent(LockType.EXCLUSIVE, "d"), LockComponent(LockType.SHARED_READ, "d", "t", "p=1"), True),
        (LockComponent(LockType.SHARED_WRITE, "d", "t"), LockComponent(LockType.EXCL_WRITE, "d", "t"), False),
        (LockComponent(LockType.EXCLUSIVE, "d", "t", "p=1"), LockComponent(LockType.SHARED_READ, "d", "t"), False),
        (LockComponent(LockType.EXCLUSIVE, "d", "t", "p=1"), LockComponent(LockType.SHARED_READ, "d", "t", "p=2"), False),
        (LockComponent(LockType.EXCLUSIVE, "d", "t"), LockComponent(LockType.SHARED_READ, "d"), False),
        (LockComponent(LockType.EXCLUSIVE, "d", "t"), LockComponent(LockType.SHARED_READ, "e", "t"), False),
        (LockComponent(LockType.SHARED_READ, "d"), LockComponent(LockType.SHARED_READ, "d", "t"), False),
    ],
)  # fmt: skip
def test_what_a_held_lock_makes_superfluous(
    held: LockComponent, wanted: LockComponent, *, expected: bool
) -> None:
    assert covers(held, wanted) is expected


PLACES = [(None, None), ("t", None), ("t", "p=1"), ("t", "p=2"), ("u", None)]


def test_a_lock_that_covers_another_holds_off_all_that_the_other_would() -> None:
    """Over all pairs of locks of two tables, and all that a third one may ask for."""
    every = [LockComponent(kind, "d", *place) for kind in LockType for place in PLACES]
    for held, wanted, later in itertools.product(every, every, every):
        if covers(held, wanted) and must_wait(later, wanted):
            assert must_wait(later, held), (held, wanted, later)


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
