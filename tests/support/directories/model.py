"""Values of a random location of the ACID layout: files, their events, states of write ids (`maker`)."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TypeAlias

from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TxnId, WriteId

COMMITTED, ABORTED, OPEN, LATER = "committed", "aborted", "open", "later"
TXN_LIMIT = 20  # of visibility transactions that the snapshot knows

Key: TypeAlias = tuple[int, int, int]
"""Write id, bucket property, row id."""


@dataclass(frozen=True)
class Event:
    """An inserted row with its value, or (value None) the delete event of one."""

    key: Key
    current: int
    value: str | None


@dataclass(frozen=True)
class AcidRows:
    """A file of events; only the first ``readable`` of them may be read (None: all)."""

    events: tuple[Event, ...]
    readable: int | None = None


@dataclass(frozen=True)
class PlainRows:
    """A file without ACID columns."""

    values: tuple[str, ...]


@dataclass(frozen=True)
class Junk:
    """A file that is no data, or none that anybody may read."""

    data: bytes


Content: TypeAlias = AcidRows | PlainRows | Junk


@dataclass(frozen=True)
class Ids:
    """States of write ids (from 1) and of visibility transactions as the reader's snapshot has them.

    ``final``: how the ids that are open or later for the reader end (or ended meanwhile).
    """

    states: tuple[str, ...]
    final: tuple[str, ...]
    open_txns: tuple[int, ...]
    aborted_txns: tuple[int, ...]

    def valid(self, write_id: int) -> bool:
        """Tell whether the reader sees a write id."""
        return self.states[write_id - 1] == COMMITTED

    @property
    def write_ids(self) -> ValidWriteIdList:
        """Return the reader's write-id list."""
        numbered = list(enumerate(self.states, 1))
        return ValidWriteIdList(
            None,
            WriteId(sum(state != LATER for state in self.states)),
            tuple(WriteId(n) for n, state in numbered if state == OPEN),
            tuple(WriteId(n) for n, state in numbered if state == ABORTED),
        )

    @property
    def txns(self) -> ValidTxnList:
        """Return the reader's transactions."""
        return ValidTxnList(
            TxnId(TXN_LIMIT), tuple(map(TxnId, self.open_txns)), tuple(map(TxnId, self.aborted_txns))
        )


@dataclass(frozen=True)
class Location:
    """A directory: contents by path, directories (empty ones too), and the rows that a reader must find.

    ``too_new``: a base without visibility suffix swallowed what this reader must not see; where no other
    one is there, no reader can help it.
    """

    files: dict[str, Content]
    directories: frozenset[str]
    rows: dict[Key, str]
    too_new: bool


def make_ids(random: Random) -> Ids:
    """Draw what a table's transactions came to."""
    count = random.randint(1, 9)
    later = random.choice((0, 0, 0, 1, 3))
    weights = random.choice(((8, 1, 1), (4, 2, 1), (5, 3, 0), (1, 0, 0)))
    states = [
        LATER if n >= count - later else random.choices((COMMITTED, ABORTED, OPEN), weights)[0]
        for n in range(count)
    ]
    final = [
        s if s in (COMMITTED, ABORTED) else random.choice((COMMITTED, COMMITTED, ABORTED)) for s in states
    ]
    txns = list(range(1, TXN_LIMIT + 1))
    random.shuffle(txns)
    return Ids(tuple(states), tuple(final), tuple(txns[:4]), tuple(txns[4:8]))
