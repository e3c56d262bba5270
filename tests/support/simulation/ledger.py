"""What really happened, written down beside the store and the files, and what must always be true.

The ledger knows nothing of write-id lists or directories. It hears of commits when they happen and of rows
when a writer decides on them; from that it knows what each snapshot has to read.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableName, TxnId, WriteId
from support.simulation.rows import Row, RowId

NEVER = 1 << 60


class Place(NamedTuple):
    """A directory of rows: the incarnation of its table, and where it lies. Later tables lie at the same roots."""

    table: str
    root: str


@dataclass
class Life:
    """When a row came and went, in commits."""

    row: Row
    inserted: int = NEVER
    deleted: int = NEVER


@dataclass
class Work:
    """What a transaction did: by place, rows inserted and deleted; ``emptied``: places overwritten."""

    inserted: dict[Place, list[Row]] = field(default_factory=lambda: defaultdict(list))
    deleted: dict[Place, list[RowId]] = field(default_factory=lambda: defaultdict(list))
    emptied: set[Place] = field(default_factory=set)

    def places(self) -> set[Place]:
        """Return where it did something."""
        return {*self.inserted, *self.deleted, *self.emptied}


@dataclass(eq=False)
class Holding:
    """A snapshot in use.

    ``moment``: commits before it. ``lists``: what its client got from the store. ``needs``: files that it will read.
    """

    txn_id: TxnId
    moment: int
    snapshot: ValidTxnList
    lists: dict[TableName, ValidWriteIdList] = field(default_factory=dict)
    needs: dict[str, Place] = field(default_factory=dict)


class Ledger:
    """The truth about transactions, tables and rows. ``commits`` counts changes of definitions, too."""

    def __init__(self) -> None:
        self.commits = 0
        self.committed: dict[TxnId, int] = {}
        self.work: dict[TxnId, Work] = defaultdict(Work)
        self.holdings: dict[TxnId, Holding] = {}
        self.tables: dict[str, TableName] = {}  # incarnations that are there
        self.changed: dict[TableName, int] = {}  # the last DROP, RENAME or DROP PARTITION of a name
        self.adopting: dict[str, dict[str, list[Row]]] = {}  # by the table's location, by root
        self._exact_from: dict[
            str | Place, int
        ] = {}  # earlier snapshots of a table or place read it or raise
        self._lives: dict[Place, dict[RowId, Life]] = defaultdict(dict)
        self._write_ids: dict[tuple[str, WriteId], TxnId] = {}

    def took_snapshot(self, txn_id: TxnId, snapshot: ValidTxnList) -> None:
        """Note which commits a snapshot has to show."""
        self.holdings[txn_id] = Holding(txn_id, self.commits, snapshot)

    def got_lists(self, snapshot: ValidTxnList, lists: Iterable[tuple[TableName, ValidWriteIdList]]) -> None:
        """Note what the client of a snapshot will go by from now on."""
        for holding in self.holdings.values():
            if holding.snapshot is snapshot:
                holding.lists.update(lists)

    def gave_write_id(self, table: str, write_id: WriteId, txn_id: TxnId) -> TxnId | None:
        """Note who got a write id; return another one who has it."""
        owner = self._write_ids.setdefault((table, write_id), txn_id)
        return None if owner == txn_id else owner

    def write_id_of(self, table: str, txn_id: TxnId) -> WriteId | None:
        """Return the write id of a transaction."""
        own = (key[1] for key, owner in self._write_ids.items() if owner == txn_id and key[0] == table)
        return next(own, None)

    # --- definitions --------------------------------------------------------------------------------

    def created(self, table: TableDefinition) -> None:
        """Note a new table."""
        self.commits += 1
        self.tables[table.incarnation] = table.name
        self._exact_from[table.incarnation] = self.commits

    def adopted(self, table: TableDefinition) -> None:
        """Note that a new table was adopted: every snapshot sees its rows, as no transaction wrote them."""
        for root, rows in self.adopting.pop(table.location).items():
            place = Place(table.incarnation, root)
            self._lives[place].update({row.id: Life(row, 0) for row in rows})

    def dropped(self, name: TableName) -> None:
        """Note that the table of a name is gone."""
        self.commits += 1
        self.changed[name] = self.commits
        for incarnation in [one for one, called in self.tables.items() if called == name]:
            del self.tables[incarnation]
            self._exact_from[incarnation] = self.commits
            for place in [one for one in self._lives if one.table == incarnation]:
                del self._lives[place]
            self._need_no_longer(lambda place, table=incarnation: place.table == table)  # type: ignore[misc]

    def renamed(self, old: TableName, new: TableName) -> None:
        """Note that a table has another name."""
        self.commits += 1
        self.changed[old] = self.changed[new] = self.commits
        for incarnation in [one for one, called in self.tables.items() if called == old]:
            self.tables[incarnation] = new
            self._exact_from[incarnation] = self.commits

    def _need_no_longer(self, gone: Callable[[Place], bool]) -> None:
        for holding in self.holdings.values():
            holding.needs = {path: place for path, place in holding.needs.items() if not gone(place)}

    # --- rows ---------------------------------------------------------------------------------------

    def commit(self, txn_id: TxnId, dropped: Iterable[tuple[TableName, Place]] = ()) -> set[Place]:
        """Note a commit, perhaps of a DROP PARTITION; return the places where it shows."""
        if txn_id in self.committed:
            return set()
        self.commits += 1
        self.committed[txn_id] = self.commits
        self.holdings.pop(txn_id, None)
        work = self.work.pop(txn_id, Work())
        for name, place in dropped:
            self.changed[name] = self._exact_from[place] = self.commits
            work.emptied.add(place)
            self._need_no_longer(lambda one, gone=place: one == gone)  # type: ignore[misc]
        for place in work.emptied:
            for life in self._lives[place].values():
                if life.inserted < self.commits:
                    life.deleted = min(life.deleted, self.commits)
        for place, rows in work.inserted.items():
            for row in rows:
                self._lives[place].setdefault(row.id, Life(row)).inserted = self.commits
        for place, row_ids in work.deleted.items():
            for life in filter(None, map(self._lives[place].get, row_ids)):
                life.deleted = min(life.deleted, self.commits)
        return work.places()

    def ended(self, txn_ids: Iterable[TxnId]) -> None:
        """Note transactions whose snapshots count no longer."""
        for txn_id in txn_ids:
            self.holdings.pop(txn_id, None)

    def is_exact(self, place: Place, moment: int) -> bool:
        """Tell whether a snapshot of a moment still has all that it read at a place."""
        return max(self._exact_from.get(place.table, 0), self._exact_from.get(place, 0)) <= moment

    def rows(self, place: Place, moment: int | None = None) -> Counter[Row]:
        """Return what a snapshot of a moment (None: now) has to read."""
        last = self.commits if moment is None else moment
        lives = self._lives[place].values() if place in self._lives else ()
        return Counter(life.row for life in lives if life.inserted <= last < life.deleted)

    def places_of(self, table: str, moment: int | None = None) -> set[Place]:
        """Return the places of a table that have rows."""
        return {place for place in self._lives if place.table == table and self.rows(place, moment)}

    def own(self, txn_id: TxnId, place: Place, rows: Counter[Row]) -> Counter[Row]:
        """Return what a transaction has to read: ``rows`` of its snapshot with its own work done to them."""
        work = self.work[txn_id]
        deleted = set(work.deleted.get(place, ()))
        mine = Counter(work.inserted.get(place, ()))
        return Counter({row: count for row, count in (rows + mine).items() if row.id not in deleted})

    def forget_the_past(self) -> None:
        """Drop rows that no snapshot in use can see any more."""
        oldest = min((one.moment for one in self.holdings.values()), default=self.commits)
        for lives in self._lives.values():
            for row_id in [row_id for row_id, life in lives.items() if life.deleted <= oldest]:
                del lives[row_id]


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
