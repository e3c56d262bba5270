"""Lists and bags over a whole history: the order of a list's versions, and reads that fit none of them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from support.history.anomalies import Anomaly, AnomalyKind, names
from support.history.observations import Eyes, Observation
from support.history.records import Element, Key, Kind


@dataclass
class KeyHistory:
    """Everything about one key. ``appends``: committed ones, by transaction, in order."""

    key: Key
    observations: list[Observation] = field(default_factory=list)
    appends: dict[int, list[Element]] = field(default_factory=dict)

    @property
    def versions(self) -> tuple[Element, ...]:
        """Return the longest version of a list that anybody read: all others must be its beginnings."""
        return max((one.elements for one in self.observations), key=len, default=())


def by_key(eyes: Mapping[int, Eyes], committed: AbstractSet[int]) -> dict[Key, KeyHistory]:
    """Sort observations and committed appends by key."""
    found: dict[Key, KeyHistory] = {}
    for one in eyes.values():
        for key, elements in one.observed.items():
            observation = Observation(one.record, key, elements)
            found.setdefault(key, KeyHistory(key)).observations.append(observation)
        if one.record.txn_id in committed:
            for key, written in one.written.items():
                found.setdefault(key, KeyHistory(key)).appends[one.record.txn_id] = written
    return found


def judge_key(
    history: KeyHistory, known: AbstractSet[int], committed: AbstractSet[int], last: AbstractSet[int]
) -> Iterator[Anomaly]:
    """Yield what is wrong with the reads of one key, whatever the other keys hold.

    ``known``: all transactions; ``last``: those that read when all others had ended.
    """
    yield from _writers(history, known, committed)
    yield from _halves(history)
    if history.key.kind is Kind.LIST:
        yield from _orders(history)
        yield from _lost_updates(history)
    yield from _vanished(history, last)


def _writers(history: KeyHistory, known: AbstractSet[int], committed: AbstractSet[int]) -> Iterator[Anomaly]:
    """Find reads of what nobody wrote and of what was never committed."""
    for observation in history.observations:
        for element in observation.elements:
            writer = element[0]
            if element in history.appends.get(writer, ()):
                continue
            reader = observation.reader.txn_id
            text = f"transaction {reader} on {history.key} reads {names([element])}"
            if writer in committed or writer not in known:
                yield Anomaly(AnomalyKind.UNWRITTEN, text, (reader, writer))
            else:
                why = f"{text}, and transaction {writer} did not commit"
                yield Anomaly(AnomalyKind.ABORTED_READ, why, (reader, writer))


def _halves(history: KeyHistory) -> Iterator[Anomaly]:
    """Find reads of some and not all that a transaction appended here."""
    several = {txn_id: set(written) for txn_id, written in history.appends.items() if len(written) > 1}
    if not several:
        return
    for observation in history.observations:
        seen = set(observation.elements)
        for writer, written in several.items():
            if writer != observation.reader.txn_id and 0 < len(seen & written) < len(written):
                missing = names(sorted(written - seen))
                reader = observation.reader.txn_id
                text = (
                    f"transaction {reader} on {history.key} reads transaction {writer} without its {missing}"
                )
                yield Anomaly(AnomalyKind.INTERMEDIATE_READ, text, (reader, writer))


def _orders(history: KeyHistory) -> Iterator[Anomaly]:
    versions = history.versions
    for observation in history.observations:
        if observation.elements != versions[: len(observation.elements)]:
            reader = observation.reader.txn_id
            text = (
                f"transaction {reader} on {history.key} reads {names(observation.elements)}, "
                f"another one {names(versions)}"
            )
            yield Anomaly(AnomalyKind.INCOMPATIBLE, text, (reader,))


def _lost_updates(history: KeyHistory) -> Iterator[Anomaly]:
    """Find committed changes that began from the same version."""
    changed: dict[tuple[Element, ...], list[int]] = defaultdict(list)
    for observation in history.observations:
        if observation.reader.txn_id in history.appends:
            changed[observation.elements].append(observation.reader.txn_id)
    for version, txns in changed.items():
        if len(txns) > 1:
            who = " and ".join(map(str, txns))
            text = f"transactions {who} on {history.key} all changed {names(version)} and committed"
            yield Anomaly(AnomalyKind.LOST_UPDATE, text, tuple(txns))


def _vanished(history: KeyHistory, last: AbstractSet[int]) -> Iterator[Anomaly]:
    """Find committed appends that are not there in the end."""
    for observation in history.observations:
        if observation.reader.txn_id not in last:
            continue
        seen = set(observation.elements)
        for writer, written in history.appends.items():
            missing = [one for one in written if one not in seen]
            if missing:
                text = (
                    f"transaction {writer} committed {names(missing)} to {history.key}; in the end it is gone"
                )
                yield Anomaly(AnomalyKind.LOST_APPEND, text, (writer,))


def in_order(versions: Sequence[Element]) -> tuple[int, ...]:
    """Return the writers of a list's versions, each once."""
    return tuple(dict.fromkeys(txn_id for txn_id, _ in versions))
