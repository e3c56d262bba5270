"""Lock compatibility as data (``TxnHandler.checkLock`` of Hive 4), and write conflicts at the commit.

A request waits for every earlier request of another transaction on an overlapping resource if their types are
incompatible. Earlier requests that are themselves waiting count, too. This keeps the queue fair: later readers wait
behind a waiting EXCLUSIVE.

A commit fails if another transaction changed the same partition first (first committer wins). The unit is the partition, or
the table where there are none (``CommitTxnFunction.checkForWriteConflict`` of Hive 4): update and delete conflict with each
other and with themselves, inserts never.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType

from hiveacid.core.model import LockId, TableName, TxnId


class LockType(StrEnum):
    """Hive's four lock types."""

    SHARED_READ = "SHARED_READ"
    SHARED_WRITE = "SHARED_WRITE"
    EXCL_WRITE = "EXCL_WRITE"
    EXCLUSIVE = "EXCLUSIVE"


class LockState(StrEnum):
    """State of a lock request."""

    ACQUIRED = "ACQUIRED"
    WAITING = "WAITING"
    NOT_ACQUIRED = "NOT_ACQUIRED"


WAITS_FOR: Mapping[LockType, frozenset[LockType]] = MappingProxyType(
    {
        LockType.SHARED_READ: frozenset({LockType.EXCLUSIVE}),
        LockType.SHARED_WRITE: frozenset({LockType.EXCL_WRITE, LockType.EXCLUSIVE}),
        LockType.EXCL_WRITE: frozenset({LockType.SHARED_WRITE, LockType.EXCL_WRITE, LockType.EXCLUSIVE}),
        LockType.EXCLUSIVE: frozenset(LockType),
    }
)
"""Earlier lock types that a requested type waits for, on overlapping resources (``CheckLockFunction``)."""


@dataclass(frozen=True)
class LockComponent:
    """One lock: on a database, a table (``partition`` None) or a partition ('p=1/q=2').

    ``operation``: i, u or d, the operation that the holder plans there (insert, update, delete). A Hive Metastore needs
    it. Stores that learn of writes only at the commit do not.
    """

    type: LockType
    database: str
    table: str | None = None
    partition: str | None = None
    operation: str | None = None

    @property
    def on_database(self) -> bool:
        """Tell whether the lock is on a whole database."""
        return self.table is None

    def __str__(self) -> str:
        """Return the type and the resource, as people read it: ``EXCLUSIVE on db.tbl/p=1``."""
        table = "" if self.table is None else f".{self.table}"
        partition = "" if self.partition is None else f"/{self.partition}"
        return f"{self.type} on {self.database}{table}{partition}"


@dataclass(frozen=True)
class HeldLock:
    """A component of a request that is in the queue already, granted or waiting; ``number`` counts from 1."""

    lock_id: LockId
    number: int
    txn_id: TxnId
    component: LockComponent

    @property
    def name(self) -> str:
        """Return ``request.component``, the lock id that SHOW LOCKS prints."""
        return f"{self.lock_id}.{self.number}"

    def __str__(self) -> str:
        """Return the lock as a waiting client is told about it."""
        return f"lock {self.name} ({self.component}, transaction {self.txn_id})"


def overlap(one: LockComponent, other: LockComponent) -> bool:
    """Tell whether the resources of two locks overlap: a database covers its tables, a table its partitions."""
    if one.database != other.database:
        return False
    if one.table is None or other.table is None:
        return True
    if one.table != other.table:
        return False
    return one.partition is None or other.partition is None or one.partition == other.partition


def covers(held: LockComponent, wanted: LockComponent) -> bool:
    """Tell whether a held lock makes a wanted one redundant: it is as strong, and covers the whole resource."""
    if held.database != wanted.database or _STRENGTH[held.type] < _STRENGTH[wanted.type]:
        return False
    if held.table is None:
        # A transaction that drops a table does not wait for a SHARED_READ on its database.
        return wanted.table is None or held.type is not LockType.SHARED_READ
    return held.table == wanted.table and held.partition in (None, wanted.partition)


_STRENGTH: Mapping[LockType, int] = MappingProxyType(
    {lock_type: place for place, lock_type in enumerate(LockType)}
)
"""Rank of each type: a type blocks every request that a type of lower rank blocks."""


def must_wait(requested: LockComponent, earlier: LockComponent) -> bool:
    """Tell whether ``requested`` has to wait for ``earlier``, both of different transactions.

    One exception to :data:`WAITS_FOR`: a SHARED_READ on a database (CREATE TABLE in it) and an EXCLUSIVE on one of its
    tables (DROP of another table) are compatible.
    """
    if earlier.type not in WAITS_FOR[requested.type] or not overlap(requested, earlier):
        return False
    return not (_are_create_and_drop(requested, earlier) or _are_create_and_drop(earlier, requested))


def _are_create_and_drop(database_lock: LockComponent, table_lock: LockComponent) -> bool:
    return (
        database_lock.type is LockType.SHARED_READ
        and database_lock.on_database
        and table_lock.type is LockType.EXCLUSIVE
        and not table_lock.on_database
    )


def first_blocking_lock(
    txn_id: TxnId, request: Sequence[LockComponent], earlier: Iterable[HeldLock]
) -> HeldLock | None:
    """Return the first earlier lock (by request and component) that the request waits for, or None.

    A request is granted as a whole or not at all. ``earlier`` are the requests with smaller ids; a
    transaction never waits for itself.
    """
    index = _RequestIndex(request)
    blocking = [
        lock
        for lock in earlier
        if lock.txn_id != txn_id
        and any(must_wait(component, lock.component) for component in index.overlapping(lock.component))
    ]
    return min(blocking, key=lambda lock: (lock.lock_id, lock.number), default=None)


class _RequestIndex:
    """A request indexed by resource, for fast comparison of thousands of partition locks with thousands of others."""

    def __init__(self, request: Sequence[LockComponent]) -> None:
        self._at: dict[_Resource, list[LockComponent]] = defaultdict(list)
        self._below: dict[_Resource, list[LockComponent]] = defaultdict(list)
        for component in request:
            self._at[component.database, component.table, component.partition].append(component)
            if component.table is not None:
                self._below[component.database, None, None].append(component)
            if component.partition is not None:
                self._below[component.database, component.table, None].append(component)

    def overlapping(self, held: LockComponent) -> Iterator[LockComponent]:
        """Yield the components whose resource is that of ``held``, contains it, or is contained in it."""
        resources: list[_Resource] = [(held.database, None, None)]
        if held.table is not None:
            resources.append((held.database, held.table, None))
        if held.partition is not None:
            resources.append((held.database, held.table, held.partition))
        for resource in resources:
            yield from self._at.get(resource, ())
        yield from self._below.get(resources[-1], ())


_Resource = tuple[str, str | None, str | None]


@dataclass(frozen=True)
class Wait:
    """A waiting transaction. ``root``: the one that has to end first; ``depth``: how many waits lie between, at least 1.

    ``deadlocked``: the waits form a circle, which only an abort or a time-out ends; ``root`` is then one of them.
    """

    txn_id: int
    waits_for: int
    root: int
    depth: int
    deadlocked: bool = False


def lock_waits(locks: Iterable[tuple[str, int | None, str | None]]) -> tuple[Wait, ...]:
    """Return the waiting transactions, those with the most others behind them first.

    ``locks``: id, transaction and the lock waited for (None: it does not wait), as SHOW LOCKS lists them.
    """
    rows = list(locks)
    owners = {lock_id: txn_id for lock_id, txn_id, _ in rows}
    edges: dict[int, int] = {}
    for _, txn_id, blocked_by in rows:
        blocker = owners.get(blocked_by or "")
        if txn_id is not None and blocker is not None and blocker != txn_id:
            edges.setdefault(txn_id, blocker)
    waits = [_follow(txn_id, edges) for txn_id in edges]
    behind: dict[int, int] = defaultdict(int)
    for wait in waits:
        behind[wait.root] += 1
    return tuple(sorted(waits, key=lambda wait: (-behind[wait.root], wait.root, wait.depth, wait.txn_id)))


def _follow(txn_id: int, edges: Mapping[int, int]) -> Wait:
    seen = [txn_id]
    while (after := edges.get(seen[-1])) is not None:
        if after in seen:
            return Wait(txn_id, edges[txn_id], min(seen[seen.index(after) :]), len(seen), deadlocked=True)
        seen.append(after)
    return Wait(txn_id, edges[txn_id], seen[-1], len(seen) - 1)


CONFLICTING_OPERATIONS = ("u", "d")
"""Operations of which any two exclude each other. Stores build their queries for conflicts from this tuple.

Hive 3.1 let two deletes pass.
"""


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
            if {change.operation, theirs.change.operation} <= {*CONFLICTING_OPERATIONS}:
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
