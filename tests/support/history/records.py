"""What clients recorded of their transactions: values, and one JSON line a piece.

Every element that is ever written is unique and carries its writer: the transaction id and a number. So a
reader's record tells whom it saw, even of writers that were killed before they could record anything.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

Element = tuple[int, int]
"""Transaction id of the writer, and a number that it gave only once."""


class Kind(StrEnum):
    """A LIST is read, changed and written back (an update); to a BAG elements are added (an insert)."""

    LIST = "list"
    BAG = "bag"


@dataclass(frozen=True, order=True)
class Key:
    """What is read and written: the list or the bag of a partition."""

    table: str
    partition: str
    kind: Kind

    def __str__(self) -> str:
        """Return the key as messages name it."""
        return f"{self.kind} {self.table}/{self.partition}"


@dataclass(frozen=True)
class Read:
    """What a transaction read, in the order of the row ids; its own appends included."""

    key: Key
    elements: tuple[Element, ...]


@dataclass(frozen=True)
class Append:
    """What a transaction added."""

    key: Key
    element: Element


class Outcome(StrEnum):
    """How a transaction ended, as far as its client knows. UNKNOWN: it was killed, or lost the answer."""

    COMMITTED = "committed"
    ABORTED = "aborted"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Moment:
    """When something happened in the store: after ``asked``, before ``answered`` (None: nobody heard of it).

    Nanoseconds of a clock that all clients share (``time.monotonic_ns`` on one machine).
    """

    asked: int
    answered: int | None = None


@dataclass(frozen=True)
class Record:
    """A transaction as its client saw it.

    ``snapshot``, ``commit``: None while it has not come to that. ``write_ids``: by table. ``locks``: ids of
    its requests. ``conflict``: the commit was refused because another one came first.
    """

    txn_id: int
    client: str = ""
    operations: tuple[Read | Append, ...] = ()
    outcome: Outcome = Outcome.UNKNOWN
    snapshot: Moment | None = None
    commit: Moment | None = None
    write_ids: Mapping[str, int] = field(default_factory=dict)
    locks: tuple[int, ...] = ()
    conflict: bool = False

    @property
    def appends(self) -> tuple[Append, ...]:
        """Return what it added, in order."""
        return tuple(one for one in self.operations if isinstance(one, Append))

    @property
    def reads(self) -> tuple[Read, ...]:
        """Return what it read, in order."""
        return tuple(one for one in self.operations if isinstance(one, Read))


@dataclass(frozen=True)
class History:
    """All records of a run.

    ``states``: what the store says of transactions in the end (open, committed, aborted, unknown).
    ``reaped``: those that a reaper said it aborted. ``last``: transactions that read when all others had
    ended; what they do not read of a key is not judged to the end.
    """

    records: tuple[Record, ...]
    states: Mapping[int, str] = field(default_factory=dict)
    reaped: frozenset[int] = frozenset()
    last: frozenset[int] = frozenset()


def to_line(record: Record) -> str:
    """Return a record as one line of JSON."""
    return json.dumps(
        {
            "txn": record.txn_id,
            "client": record.client,
            "do": [_operation_to_json(one) for one in record.operations],
            "outcome": record.outcome.value,
            "snapshot": _moment_to_json(record.snapshot),
            "commit": _moment_to_json(record.commit),
            "write_ids": dict(record.write_ids),
            "locks": record.locks,
            "conflict": record.conflict,
        },
        separators=(",", ":"),
    )


def read_lines(lines: Iterable[str]) -> tuple[Record, ...]:
    """Return the records of one client's log; a later line about a transaction replaces the earlier ones.

    The last line may be cut off: its writer was killed.
    """
    found: dict[int, Record] = {}
    again: list[Record] = []
    for line in lines:
        if not line.endswith("\n"):
            continue
        record = _from_json(json.loads(line))
        if record.txn_id in found and found[record.txn_id].outcome is not Outcome.UNKNOWN:
            again.append(record)  # an id that was given twice must not hide what it did before
        else:
            found[record.txn_id] = record
    return (*found.values(), *again)


def end(record: Record, outcome: Outcome, *, conflict: bool = False) -> Record:
    """Return a record that has ended."""
    return replace(record, outcome=outcome, conflict=conflict)


def _operation_to_json(one: Read | Append) -> list[object]:
    key = [one.key.table, one.key.partition, one.key.kind.value]
    return [*key, one.elements] if isinstance(one, Read) else [*key, None, one.element]


def _moment_to_json(moment: Moment | None) -> list[int | None] | None:
    return None if moment is None else [moment.asked, moment.answered]


def _from_json(value: dict[str, Any]) -> Record:
    return Record(
        txn_id=value["txn"],
        client=value["client"],
        operations=tuple(_operation(*one) for one in value["do"]),
        outcome=Outcome(value["outcome"]),
        snapshot=_moment(value["snapshot"]),
        commit=_moment(value["commit"]),
        write_ids=value["write_ids"],
        locks=tuple(value["locks"]),
        conflict=value["conflict"],
    )


def _operation(
    table: str, partition: str, kind: str, elements: list[list[int]] | None, element: list[int] | None = None
) -> Read | Append:
    key = Key(table, partition, Kind(kind))
    if elements is not None:
        return Read(key, tuple((txn_id, number) for txn_id, number in elements))
    assert element is not None
    return Append(key, (element[0], element[1]))


def _moment(value: list[int] | None) -> Moment | None:
    return None if value is None else Moment(value[0], value[1])
