"""Rows of the simulation and the files that hold them: small JSON instead of ORC, everything else as it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState
from hiveacid.orc.writing import HEADER


class RowId(NamedTuple):
    """What tells rows apart: the write id that inserted it, the statement, a number."""

    write_id: int
    statement: int
    number: int


class Row(NamedTuple):
    """A row: its id, a key that updates keep, and how often it was updated."""

    id: RowId
    key: int
    updates: int


class Event(NamedTuple):
    """A row that was inserted, or the deletion of one (``row`` None), by a write id."""

    write_id: int
    id: RowId
    row: Row | None


def to_bytes(events: Iterable[Event]) -> bytes:
    """Return a line of a file; files of streams have several."""
    values = [
        [one.write_id, *one.id, *((one.row.key, one.row.updates) if one.row is not None else ())]
        for one in events
    ]
    return json.dumps(values, separators=(",", ":")).encode() + b"\n"


@lru_cache(maxsize=4096)
def from_bytes(data: bytes) -> tuple[Event, ...]:
    """Return the events of a file."""
    events = []
    for line in data.removeprefix(HEADER).splitlines():
        for write_id, first, statement, number, *values in json.loads(line):
            row_id = RowId(first, statement, number)
            events.append(Event(write_id, row_id, Row(row_id, *values) if values else None))
    return tuple(events)


@dataclass(frozen=True)
class Reading:
    """Reads what a snapshot selects of a location; ``read``: how to get at a file, by its relative path."""

    write_ids: ValidWriteIdList
    read: Callable[[str], bytes]

    def rows(self, state: AcidState) -> Counter[Row]:
        """Return the live rows; one that comes twice is counted twice."""
        deleted = {event.id for event in self.events(state.delete_deltas)}
        found = (event.row for event in self.events(state.row_directories) if event.id not in deleted)
        return Counter(row for row in found if row is not None)

    def events(self, directories: Sequence[AcidDirectory]) -> Iterator[Event]:
        """Yield the events of directories that the snapshot believes."""
        for directory in directories:
            for file in directory.acid_files:
                data = self.read(file.path)
                for event in from_bytes(data):
                    if directory.validity is RangeShare.ALL or self.write_ids.is_valid(event.write_id):
                        yield event


def files_of(state: AcidState) -> tuple[DataFile, ...]:
    """Return all files that a snapshot reads."""
    return tuple(file for directory in state.directories_to_read for file in directory.acid_files)
