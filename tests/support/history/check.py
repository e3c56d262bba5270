"""The checker: what of a recorded history snapshot isolation does not allow."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import pairwise

from support.history.anomalies import Anomaly, AnomalyKind
from support.history.events import Events, Step, Why
from support.history.observations import Eyes
from support.history.records import History, Key, Kind, Outcome, Record
from support.history.versions import KeyHistory, by_key, in_order, judge_key


def anomalies(history: History) -> tuple[Anomaly, ...]:
    """Return everything in a history that snapshot isolation does not allow; nothing if there is nothing.

    A pure function. Elle's list-append (Kingsbury and Alvaro 2020) with two additions: bags, whose writers
    never conflict, and an exact test of what is left by the order of events (:mod:`.events`).
    """
    found = list(_ids(history.records))
    committed = _committed(history)
    found += _outcomes(history)
    eyes = {one.txn_id: Eyes(one) for one in history.records}
    for one in eyes.values():
        one.look()
        found += one.anomalies
    keys = by_key(eyes, committed)
    for _, key in sorted(keys.items()):
        found += judge_key(key, eyes.keys(), committed, history.last)
    found += _needless(history.records, keys)
    found += _cycles(list(eyes), keys, eyes, committed)
    return tuple(dict.fromkeys(found))


def _committed(history: History) -> set[int]:
    """Return who committed: ask the store; where it forgot, the client; where that does not know, who is read.

    Housekeeping forgets what nobody needs any more. That only counts as in doubt if the commit was asked for.
    """
    read = {
        writer
        for record in history.records
        if record.txn_id in history.last
        for one in record.reads
        for writer, _ in one.elements
    }
    found = set()
    for record in history.records:
        state = history.states.get(record.txn_id, "unknown")
        if state == "unknown" and record.outcome is Outcome.UNKNOWN:
            yes = record.commit is not None and record.txn_id in read
        elif state == "unknown":
            yes = record.outcome is Outcome.COMMITTED
        else:
            yes = state == "committed"
        found |= {record.txn_id} if yes else set()
    return found


def _ids(records: Sequence[Record]) -> Iterator[Anomaly]:
    owners: dict[tuple[str, int], list[int]] = defaultdict(list)
    for record in records:
        owners["transaction id", record.txn_id].append(record.txn_id)
        for lock in record.locks:
            owners["lock id", lock].append(record.txn_id)
        for table, write_id in record.write_ids.items():
            owners[f"write id of {table}", write_id].append(record.txn_id)
    for (what, number), txns in owners.items():
        if len(txns) > 1:
            who = " and ".join(map(str, txns))
            yield Anomaly(AnomalyKind.ID_TWICE, f"{what} {number} was given to {who}", tuple(txns))


def _outcomes(history: History) -> Iterator[Anomaly]:
    for record in history.records:
        state, txn_id = history.states.get(record.txn_id, "unknown"), record.txn_id
        contradiction = {
            (Outcome.COMMITTED, "aborted"): "its client was told that it committed",
            (Outcome.COMMITTED, "open"): "its client was told that it committed",
            (Outcome.ABORTED, "committed"): "its client was told that it did not commit",
        }.get((record.outcome, state))
        if contradiction is None and state == "committed" and record.commit is None:
            contradiction = "nobody asked for its commit"
        if contradiction is None and state == "committed" and txn_id in history.reaped:
            contradiction = "the reaper said that it aborted it"
        if contradiction is not None:
            text = f"transaction {txn_id} is {state} in the store; {contradiction}"
            yield Anomaly(AnomalyKind.OUTCOME, text, (txn_id,))


def _needless(records: Iterable[Record], keys: Mapping[Key, KeyHistory]) -> Iterator[Anomaly]:
    """Find conflicts of which nobody was the cause: no committed change was hidden from the loser."""
    lists: dict[tuple[str, str], list[KeyHistory]] = defaultdict(list)
    for history in keys.values():
        if history.key.kind is Kind.LIST:
            lists[history.key.table, history.key.partition].append(history)
    for record in records:
        if not record.conflict:
            continue
        changed = {one.key for one in record.appends if one.key.kind is Kind.LIST}
        places = sorted({(key.table, key.partition) for key in changed})
        if not any(_hidden_from(record, history) for place in places for history in lists[place]):
            text = f"transaction {record.txn_id} was refused, and saw all that was committed to {places}"
            yield Anomaly(AnomalyKind.NEEDLESS_CONFLICT, text, (record.txn_id,))


def _hidden_from(record: Record, history: KeyHistory) -> bool:
    seen = next((set(one.elements) for one in history.observations if one.reader is record), None)
    writers = history.appends.keys() - {record.txn_id}
    return bool(writers) if seen is None else any(history.appends[one][0] not in seen for one in writers)


def _cycles(
    txns: Sequence[int], keys: Mapping[Key, KeyHistory], eyes: Mapping[int, Eyes], committed: AbstractSet[int]
) -> Iterator[Anomaly]:
    place = {txn_id: number for number, txn_id in enumerate(txns)}
    events = Events(len(txns))
    for history in keys.values():
        if history.key.kind is Kind.LIST:
            _order_list(events, place, history)
        else:
            _order_bag(events, place, history)
    records = [eyes[txn_id].record for txn_id in txns]
    events.in_time(
        [one.snapshot for one in records],
        [one.commit if one.txn_id in committed else None for one in records],
    )
    for cycle in events.cycles():
        yield _describe(cycle, txns, committed)


def _order_list(events: Events, place: Mapping[int, int], history: KeyHistory) -> None:
    versions = history.versions
    writers = [writer for writer in in_order(versions) if writer in history.appends]
    for earlier, later in pairwise(writers):
        events.commit_before_snapshot(place[earlier], place[later], Why.WW)
    following = dict(pairwise(writers))
    unread = history.appends.keys() - set(writers)  # they came after all that was read
    for later in unread if writers else ():
        events.commit_before_snapshot(place[writers[-1]], place[later], Why.WW)
    for observation in history.observations:
        reader, seen = observation.reader.txn_id, observation.elements
        if seen != versions[: len(seen)]:
            continue
        last = next((txn_id for txn_id, _ in reversed(seen) if txn_id in history.appends), None)
        if last is not None:
            events.commit_before_snapshot(place[last], place[reader], Why.WR)
        hidden = unread | ({following[last]} if last in following else set())
        if last is None:
            hidden |= set(writers[:1])
        for writer in hidden - {reader}:
            events.snapshot_before_commit(place[reader], place[writer])


def _order_bag(events: Events, place: Mapping[int, int], history: KeyHistory) -> None:
    for observation in history.observations:
        reader, seen = observation.reader.txn_id, set(observation.elements)
        for writer, written in history.appends.items():
            if writer == reader:
                continue
            if written[0] in seen:
                events.commit_before_snapshot(place[writer], place[reader], Why.WR)
            else:
                events.snapshot_before_commit(place[reader], place[writer])


_WORDS = {
    Why.TIME: "came, in time, before",
    Why.WW: "was written over by",
    Why.WR: "was read by",
    Why.RW: "did not see",
    Why.SELF: "came before",
}


def _describe(cycle: Sequence[Step], txns: Sequence[int], committed: AbstractSet[int]) -> Anomaly:
    reasons = [step.why for step in cycle]
    kind = AnomalyKind.G_SI
    if Why.TIME in reasons or Why.SELF in reasons:
        kind = AnomalyKind.REAL_TIME
    elif all(one is Why.WW for one in reasons):
        kind = AnomalyKind.G0
    elif Why.RW not in reasons:
        kind = AnomalyKind.G1C
    elif reasons.count(Why.RW) == 1:
        kind = AnomalyKind.G_SINGLE
    who = {one: str(one) if one in committed else f"{one} (not committed)" for one in txns}
    text = ", ".join(f"{who[txns[one.source]]} {_WORDS[one.why]} {who[txns[one.target]]}" for one in cycle)
    return Anomaly(kind, text, tuple(txns[one.source] for one in cycle))
