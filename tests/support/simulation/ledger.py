"""What really happened, written down beside the store and the files, and what must always be true.

The ledger knows nothing of write-id lists or directories. It hears of commits when they happen and of rows
when a writer decides on them; from that it knows what each snapshot has to read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableName, TxnId, WriteId
from support.simulation.rows import Row, RowId

NEVER = 1 << 60


@dataclass
class Life:
    """When a row came and went, in commits."""

    row: Row
    inserted: int = NEVER
    deleted: int = NEVER


@dataclass
class Work:
    """What a transaction did: by location, rows inserted and deleted; ``emptied``: locations overwritten."""

    inserted: dict[str, list[Row]] = field(default_factory=lambda: defaultdict(list))
    deleted: dict[str, list[RowId]] = field(default_factory=lambda: defaultdict(list))
    emptied: set[str] = field(default_factory=set)

    def locations(self) -> set[str]:
        """Return where it did something."""
        return {*self.inserted, *self.deleted, *self.emptied}


@dataclass(eq=False)
class Holding:
    """A snapshot in use. ``moment``: commits before it; ``lists``: what its client got from the store."""

    txn_id: TxnId
    moment: int
    snapshot: ValidTxnList
    lists: dict[TableName, ValidWriteIdList] = field(default_factory=dict)
    needs: set[str] = field(default_factory=set)


class Ledger:
    """The truth about transactions and rows."""

    def __init__(self) -> None:
        self.commits = 0
        self.committed: dict[TxnId, int] = {}
        self.work: dict[TxnId, Work] = defaultdict(Work)
        self.holdings: dict[TxnId, Holding] = {}
        self.tables: dict[str, TableName] = {}  # of locations
        self._lives: dict[str, dict[RowId, Life]] = defaultdict(dict)
        self._write_ids: dict[tuple[TableName, WriteId], TxnId] = {}

    def took_snapshot(self, txn_id: TxnId, snapshot: ValidTxnList) -> None:
        """Note which commits a snapshot has to show."""
        self.holdings[txn_id] = Holding(txn_id, self.commits, snapshot)

    def got_lists(self, snapshot: ValidTxnList, lists: Iterable[tuple[TableName, ValidWriteIdList]]) -> None:
        """Note what the client of a snapshot will go by from now on."""
        for holding in self.holdings.values():
            if holding.snapshot is snapshot:
                holding.lists.update(lists)

    def gave_write_id(self, table: TableName, write_id: WriteId, txn_id: TxnId) -> TxnId | None:
        """Note who got a write id; return another one who has it."""
        owner = self._write_ids.setdefault((table, write_id), txn_id)
        return None if owner == txn_id else owner

    def commit(self, txn_id: TxnId) -> set[str]:
        """Note a commit; return the locations where it shows."""
        if txn_id in self.committed:
            return set()
        self.commits += 1
        self.committed[txn_id] = self.commits
        self.holdings.pop(txn_id, None)
        work = self.work[txn_id]
        for location in work.emptied:
            for life in self._lives[location].values():
                if life.inserted < self.commits:
                    life.deleted = min(life.deleted, self.commits)
        for location, rows in work.inserted.items():
            for row in rows:
                self._lives[location].setdefault(row.id, Life(row)).inserted = self.commits
        for location, row_ids in work.deleted.items():
            for life in filter(None, map(self._lives[location].get, row_ids)):
                life.deleted = min(life.deleted, self.commits)
        return work.locations()

    def ended(self, txn_ids: Iterable[TxnId]) -> None:
        """Note transactions whose snapshots count no longer."""
        for txn_id in txn_ids:
            self.holdings.pop(txn_id, None)

    def rows(self, location: str, moment: int | None = None) -> Counter[Row]:
        """Return what a snapshot of a moment (None: now) has to read."""
        last = self.commits if moment is None else moment
        lives = self._lives[location].values()
        return Counter(life.row for life in lives if life.inserted <= last < life.deleted)

    def own(self, txn_id: TxnId, location: str, rows: Counter[Row]) -> Counter[Row]:
        """Return what a transaction has to read: ``rows`` of its snapshot with its own work done to them."""
        work = self.work[txn_id]
        deleted = set(work.deleted.get(location, ()))
        mine = Counter(work.inserted.get(location, ()))
        return Counter({row: count for row, count in (rows + mine).items() if row.id not in deleted})

    def forget_the_past(self) -> None:
        """Drop rows that no snapshot in use can see any more."""
        oldest = min((one.moment for one in self.holdings.values()), default=self.commits)
        for lives in self._lives.values():
            for row_id in [row_id for row_id, life in lives.items() if life.deleted <= oldest]:
                del lives[row_id]

    def locations_of(self, table: TableName) -> Iterator[str]:
        """Return the locations of a table."""
        return (location for location, owner in self.tables.items() if owner == table)


def strange(rows: Counter[Row]) -> str | None:
    """Return what is wrong with live rows by themselves: ids or keys that come twice."""
    twice = [row for row, count in rows.items() if count > 1]
    if twice:
        return f"read twice: {twice[0]}"
    keys = Counter(row.key for row in rows)
    ids = Counter(row.id for row in rows)
    for what, counts in (("key", keys), ("row id", ids)):
        for value, count in counts.items():
            if count > 1:
                return f"{count} live rows have the {what} {value}"
    return None


def difference(expected: Counter[Row], found: Counter[Row]) -> str:
    """Say how rows differ."""
    missing, foreign = list(expected - found), list(found - expected)
    parts = [f"missing {_some(missing)}"] if missing else []
    parts += [f"not to be seen {_some(foreign)}"] if foreign else []
    return "; ".join(parts)


def _some(rows: list[Row]) -> str:
    shown = ", ".join(f"{row.id.write_id}.{row.id.statement}.{row.id.number}" for row in rows[:4])
    return f"rows {shown}{' ...' if len(rows) > 4 else ''}"
