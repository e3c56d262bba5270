"""What each transaction saw of others: its reads without its own writes, and what is wrong with them alone."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from support.history.anomalies import Anomaly, AnomalyKind, names
from support.history.records import Append, Element, Key, Kind, Read, Record


@dataclass(frozen=True)
class Observation:
    """The first read of a key by a transaction, without what it had written itself."""

    reader: Record
    key: Key
    elements: tuple[Element, ...]


@dataclass
class Eyes:
    """One transaction, operation by operation."""

    record: Record
    observed: dict[Key, tuple[Element, ...]] = field(default_factory=dict)
    written: dict[Key, list[Element]] = field(default_factory=dict)
    anomalies: list[Anomaly] = field(default_factory=list)

    def look(self) -> None:
        """Go through all operations."""
        for one in self.record.operations:
            if isinstance(one, Append):
                self.written.setdefault(one.key, []).append(one.element)
            else:
                self._read(one)

    def _read(self, read: Read) -> None:
        doubled = [one for one, count in Counter(read.elements).items() if count > 1]
        if doubled:
            self._found(AnomalyKind.DOUBLED, read.key, f"{names(doubled)} more than once")
        own = self.written.get(read.key, [])
        others = tuple(one for one in read.elements if one[0] != self.record.txn_id)
        mine = [one for one in read.elements if one[0] == self.record.txn_id]
        in_place = read.key.kind is Kind.BAG or read.elements == (*others, *mine)
        if sorted(mine) != sorted(own) or (read.key.kind is Kind.LIST and mine != own) or not in_place:
            self._found(
                AnomalyKind.OWN_WRITE, read.key, f"it wrote {names(own)} and reads {names(mine)} of it"
            )
        seen = others if read.key.kind is Kind.LIST else tuple(sorted(others))
        before = self.observed.setdefault(read.key, seen)
        if before != seen:
            self._found(AnomalyKind.NON_REPEATABLE, read.key, f"first {names(before)}, then {names(seen)}")

    def _found(self, kind: AnomalyKind, key: Key, what: str) -> None:
        text = f"transaction {self.record.txn_id} on {key}: {what}"
        self.anomalies.append(Anomaly(kind, text, (self.record.txn_id,)))
