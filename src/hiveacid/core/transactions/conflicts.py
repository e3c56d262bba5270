"""Write conflicts: a commit fails if another transaction changed the same partition first (first committer wins).

The unit is the partition, or the table where there are none (``CommitTxnFunction.checkForWriteConflict`` of
Hive 4): update and delete conflict with each other and with themselves, inserts never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product

from hiveacid.core.model import TableName, TxnId

CONFLICTING_OPERATIONS = ("u", "d")
"""Operations of which any two exclude each other. Stores build their queries for conflicts from this tuple."""
CONFLICTING = frozenset(product(CONFLICTING_OPERATIONS, repeat=2))
"""Pairs (mine, theirs) of operations that exclude each other. Hive 3.1 let ("d", "d") pass."""


@dataclass(frozen=True)
class Change:
    """Operation of a transaction on a table or one of its partitions; ``operation`` is i, u or d."""

    table: TableName
    partition: str | None
    operation: str

    @property
    def resource(self) -> str:
        """Return ``db/table[/partition]``, as Hive's message spells it."""
        partition = "" if self.partition is None else f"/{self.partition}"
        return f"{self.table.database}/{self.table.name}{partition}"


@dataclass(frozen=True)
class CommittedChange:
    """A change of a committed transaction; ``sequence`` counts commits with updates or deletes."""

    txn_id: TxnId
    sequence: int
    change: Change


@dataclass(frozen=True)
class Conflict:
    """A change of this transaction and the conflicting one that was committed first."""

    mine: Change
    theirs: CommittedChange


def first_conflict(
    moment: int, changes: Iterable[Change], committed: Iterable[CommittedChange]
) -> Conflict | None:
    """Return the earliest committed change that one of ``changes`` may not follow, or None.

    ``moment``: the commit sequence when this transaction's snapshot was taken; the snapshot includes commits up to it.
    Partition names are compared exactly. A change of a whole table conflicts only with others of the whole table.
    """
    mine: dict[tuple[TableName, str | None], list[Change]] = defaultdict(list)
    for change in sorted(set(changes), key=lambda item: (item.operation != "u", item.operation)):
        mine[change.table, change.partition].append(change)
    for theirs in sorted(
        committed, key=lambda entry: (entry.sequence, entry.change.resource, entry.change.operation)
    ):
        if theirs.sequence <= moment:
            continue
        for change in mine.get((theirs.change.table, theirs.change.partition), ()):
            if (change.operation, theirs.change.operation) in CONFLICTING:
                return Conflict(change, theirs)
    return None


def overtaken_message(mine: Change, overwriter: TxnId) -> str:
    """Return the reason to refuse a commit whose rows lie below the base of an overwrite that committed first."""
    return (
        f"transaction {overwriter} overwrote {mine.resource} since this one began to write to the table, and its rows there "
        "would be lost; it is rolled back: run it again"
    )


def conflict_message(txn_id: TxnId, sequence: int, conflict: Conflict) -> str:
    """Return Hive's message; ``sequence`` is the number that the refused commit would have had."""
    theirs = conflict.theirs
    return (
        f"Aborting [txnid:{txn_id},{sequence}] due to a write conflict on {conflict.mine.resource} "
        f"committed by [txnid:{theirs.txn_id},{theirs.sequence}] "
        f"{conflict.mine.operation}/{theirs.change.operation}"
    )
