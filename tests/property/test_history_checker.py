"""The history checker finds an anomaly exactly where no order of snapshots and commits explains a history.

The oracle tries every order of events of a small history and replays it under the rules of snapshot isolation.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.exhaustive import examples
from support.history.anomalies import AnomalyKind
from support.history.check import anomalies
from support.history.records import (
    Append,
    Element,
    History,
    Key,
    Kind,
    Moment,
    Outcome,
    Read,
    Record,
    read_lines,
    to_line,
)

KEYS = [Key(table, "p=1", kind) for table in ("a", "b") for kind in (Kind.LIST, Kind.BAG)]
Event = tuple[int, str]  # transaction, "snapshot" or "commit"
LAST = 99


# --- the oracle ---------------------------------------------------------------------------------------


def explained(records: Sequence[Record]) -> bool:
    """Try all orders of the events of committed transactions; others only read."""
    return any(replays(order, records) for order in orders(records))


def orders(records: Sequence[Record]) -> Iterator[list[Event]]:
    events = [(one.txn_id, what) for one in records for what in ("snapshot", "commit")]
    for order in itertools.permutations(events):
        if all(
            order.index((one.txn_id, "snapshot")) < order.index((one.txn_id, "commit")) for one in records
        ):
            yield list(order)


def replays(order: Sequence[Event], records: Sequence[Record]) -> bool:
    """Tell whether snapshot isolation with first committer wins gives these reads in this order."""
    by_id = {one.txn_id: one for one in records}
    state: dict[Key, tuple[Element, ...]] = dict.fromkeys(KEYS, ())
    begun: dict[int, int] = {}
    changed: dict[Key, int] = {}
    for number, (txn_id, what) in enumerate(order):
        record = by_id[txn_id]
        if what == "snapshot":
            begun[txn_id] = number
            if not reads_fit(record, state):
                return False
        elif record.outcome is Outcome.COMMITTED:
            for one in record.appends:
                if one.key.kind is Kind.LIST and changed.get(one.key, -1) > begun[txn_id]:
                    return False
                state[one.key] = (*state[one.key], one.element)
            changed |= {one.key: number for one in record.appends}
    return True


def reads_fit(record: Record, state: Mapping[Key, tuple[Element, ...]]) -> bool:
    own: dict[Key, tuple[Element, ...]] = {}
    for one in record.operations:
        if isinstance(one, Append):
            own[one.key] = (*own.get(one.key, ()), one.element)
        else:
            expected = (*state[one.key], *own.get(one.key, ()))
            found, wanted = (one.elements, expected)
            if one.key.kind is Kind.BAG:
                found, wanted = tuple(sorted(found)), tuple(sorted(wanted))
            if found != wanted:
                return False
    return True


# --- histories ----------------------------------------------------------------------------------------


def play(random: Random, count: int, *, bug: str = "") -> tuple[Record, ...]:
    """Let ``count`` transactions run interleaved, correctly or with a bug, and a last one read everything."""
    state: dict[Key, tuple[Element, ...]] = dict.fromkeys(KEYS, ())
    changed: dict[Key, int] = {}
    waiting = [number for number in range(1, count + 1) for _ in range(3)]
    random.shuffle(waiting)
    running: dict[int, dict[Key, tuple[Element, ...]]] = {}
    begun: dict[int, int] = {}
    records: dict[int, Record] = {}
    for now, txn_id in enumerate([*waiting, LAST, LAST, LAST]):
        if txn_id not in running:
            running[txn_id], begun[txn_id] = dict(state), now
            records[txn_id] = Record(txn_id, snapshot=Moment(10 * now, 10 * now + 1))
        elif records[txn_id].operations == ():
            seen = running[txn_id]
            if bug == "late" and random.random() < 0.5:
                seen |= {key: state[key] for key in KEYS if key.table == "b"}
            if bug == "dirty" and random.random() < 0.5:
                others = [
                    one for other in records.values() if other is not records[txn_id] for one in other.appends
                ]
                seen |= {
                    one.key: (*seen[one.key], one.element)
                    for one in others
                    if one.element not in seen[one.key]
                }
            chosen = KEYS if txn_id == LAST else random.sample(KEYS, random.randint(1, 3))
            operations = list(work(random, txn_id, seen, chosen))
            records[txn_id] = replace(records[txn_id], operations=tuple(operations))
        else:
            record = records[txn_id]
            lists = {one.key for one in record.appends if one.key.kind is Kind.LIST}
            lost = any(changed.get(key, -1) > begun[txn_id] for key in lists) and bug != "conflicts off"
            commits = not lost and random.random() < 0.9
            outcome = Outcome.COMMITTED if commits else Outcome.ABORTED
            records[txn_id] = replace(
                record, outcome=outcome, conflict=lost, commit=Moment(10 * now, 10 * now + 1)
            )
            if commits:
                for key in {one.key for one in record.appends}:
                    mine = tuple(one.element for one in record.appends if one.key == key)
                    before = running[txn_id][key] if key.kind is Kind.LIST else state[key]
                    state[key] = (*before, *mine)
                    changed[key] = now
    return tuple(records.values())


def work(
    random: Random, txn_id: int, seen: Mapping[Key, tuple[Element, ...]], keys: Sequence[Key]
) -> Iterator[Read | Append]:
    number = itertools.count()
    for key in keys:
        yield Read(key, seen[key])
        own: tuple[Element, ...] = ()
        for _ in range(random.choice((0, 1, 1, 2)) if txn_id != LAST else 0):
            own = (*own, (txn_id, next(number)))
            yield Append(key, own[-1])
        if own and random.random() < 0.5:
            yield Read(key, (*seen[key], *own))


def history(records: Sequence[Record]) -> History:
    states = {one.txn_id: one.outcome.value for one in records}
    return History(tuple(records), states, last=frozenset({LAST}))


@settings(max_examples=examples(300))
@given(st.integers(0, 2**32), st.integers(1, 12))
def test_histories_under_snapshot_isolation_are_clean(seed: int, count: int) -> None:
    assert anomalies(history(play(Random(seed), count))) == ()


@settings(max_examples=examples(60))
@given(st.integers(0, 2**32), st.sampled_from(["", "late", "dirty", "conflicts off"]))
def test_anomalies_are_what_no_order_explains(seed: int, bug: str) -> None:
    """Without times: then any order that replays is an explanation."""
    records = [replace(one, snapshot=None, commit=None) for one in play(Random(seed), 3, bug=bug)]
    records = [one if one.outcome is Outcome.COMMITTED else replace(one, conflict=False) for one in records]
    found = [one for one in anomalies(history(records)) if one.kind is not AnomalyKind.OUTCOME]
    assert (found == []) == explained(records), [str(one) for one in found]


@pytest.mark.parametrize(
    ("bug", "kinds"),
    [
        ("late", {AnomalyKind.G_SINGLE, AnomalyKind.REAL_TIME}),
        ("dirty", {AnomalyKind.ABORTED_READ, AnomalyKind.REAL_TIME, AnomalyKind.INCOMPATIBLE}),
        ("conflicts off", {AnomalyKind.LOST_UPDATE, AnomalyKind.LOST_APPEND}),
    ],
)
def test_planted_bugs_are_found(bug: str, kinds: set[AnomalyKind]) -> None:
    found = {one.kind for seed in range(30) for one in anomalies(history(play(Random(seed), 8, bug=bug)))}
    assert kinds <= found


# --- each anomaly by itself ---------------------------------------------------------------------------

LIST, BAG = KEYS[0], KEYS[1]
OTHER = KEYS[2]


def committed(txn_id: int, *operations: Read | Append, **more: object) -> Record:
    return Record(txn_id, operations=operations, outcome=Outcome.COMMITTED, commit=Moment(0), **more)  # type: ignore[arg-type]


def kinds_of(*records: Record, **more: object) -> set[AnomalyKind]:
    states = {one.txn_id: "committed" if one.outcome is Outcome.COMMITTED else "aborted" for one in records}
    return {one.kind for one in anomalies(History(records, **({"states": states} | more)))}  # type: ignore[arg-type]


def test_write_skew_is_allowed() -> None:
    one = committed(1, Read(LIST, ()), Read(OTHER, ()), Append(LIST, (1, 0)))
    two = committed(2, Read(LIST, ()), Read(OTHER, ()), Append(OTHER, (2, 0)))
    last = committed(3, Read(LIST, ((1, 0),)), Read(OTHER, ((2, 0),)))
    assert kinds_of(one, two, last, last=frozenset({3})) == set()


def test_lost_update() -> None:
    one = committed(1, Read(LIST, ()), Append(LIST, (1, 0)))
    two = committed(2, Read(LIST, ()), Append(LIST, (2, 0)))
    assert AnomalyKind.LOST_UPDATE in kinds_of(one, two)
    last = committed(3, Read(LIST, ((2, 0),)))
    assert AnomalyKind.LOST_APPEND in kinds_of(one, two, last, last=frozenset({3}))


def test_reads_of_what_is_not_committed() -> None:
    aborted = Record(1, operations=(Append(BAG, (1, 0)),), outcome=Outcome.ABORTED)
    reader = committed(2, Read(BAG, ((1, 0),)))
    assert kinds_of(aborted, reader) == {AnomalyKind.ABORTED_READ}
    assert kinds_of(reader) == {AnomalyKind.UNWRITTEN}
    halves = committed(1, Append(BAG, (1, 0)), Append(BAG, (1, 1)))
    assert kinds_of(halves, reader) == {AnomalyKind.INTERMEDIATE_READ}


def test_reads_inside_of_a_transaction() -> None:
    writer = committed(1, Append(BAG, (1, 0)))
    assert kinds_of(writer, committed(2, Read(BAG, ()), Read(BAG, ((1, 0),)))) == {AnomalyKind.NON_REPEATABLE}
    assert kinds_of(committed(2, Append(BAG, (2, 0)), Read(BAG, ()))) == {AnomalyKind.OWN_WRITE}
    twice = committed(2, Read(BAG, ((1, 0), (1, 0))))
    assert kinds_of(writer, twice) == {AnomalyKind.DOUBLED}


def test_orders_and_cycles() -> None:
    one = committed(1, Append(LIST, (1, 0)))
    two = committed(2, Append(LIST, (2, 0)))
    readers = [committed(3, Read(LIST, ((1, 0), (2, 0)))), committed(4, Read(LIST, ((2, 0),)))]
    assert AnomalyKind.INCOMPATIBLE in kinds_of(one, two, *readers)
    mutual = [
        committed(1, Append(BAG, (1, 0)), Read(OTHER, ((2, 0),))),
        committed(2, Append(OTHER, (2, 0)), Read(BAG, ((1, 0),))),
    ]
    assert kinds_of(*mutual) == {AnomalyKind.G1C}
    skew = [
        committed(1, Append(BAG, (1, 0)), Append(OTHER, (1, 1))),
        committed(2, Read(BAG, ((1, 0),)), Read(OTHER, ())),
    ]
    assert kinds_of(*skew) == {AnomalyKind.G_SINGLE}
    long_fork = [
        committed(1, Append(BAG, (1, 0))),
        committed(2, Append(OTHER, (2, 0))),
        committed(3, Read(BAG, ((1, 0),)), Read(OTHER, ())),
        committed(4, Read(BAG, ()), Read(OTHER, ((2, 0),))),
    ]
    assert kinds_of(*long_fork) == {AnomalyKind.G_SI}
    writes = [
        committed(1, Append(LIST, (1, 0)), Append(OTHER, (1, 1))),
        committed(2, Append(LIST, (2, 0)), Append(OTHER, (2, 1))),
        committed(3, Read(LIST, ((1, 0), (2, 0))), Read(OTHER, ((2, 1), (1, 1)))),
    ]
    assert AnomalyKind.G0 in kinds_of(*writes)


def test_real_time() -> None:
    """A snapshot shows what was committed before it was asked for, and nothing asked for after its answer."""
    writer = replace(committed(1, Append(BAG, (1, 0))), snapshot=Moment(10, 11), commit=Moment(20, 30))
    for asked, answered, seen, is_right in (
        (31, 32, True, True),
        (31, 32, False, False),
        (25, 26, True, True),
        (25, 26, False, True),
        (18, 19, False, True),
        (18, 19, True, False),
        (18, 40, True, True),
    ):
        read = Read(BAG, ((1, 0),) if seen else ())
        reader = replace(committed(2, read), snapshot=Moment(asked, answered), commit=Moment(50, 51))
        assert kinds_of(writer, reader) == (set() if is_right else {AnomalyKind.REAL_TIME}), (asked, seen)


def test_ids_and_answers() -> None:
    assert kinds_of(committed(1), committed(1)) == {AnomalyKind.ID_TWICE}
    assert kinds_of(committed(1, write_ids={"t": 1}), committed(2, write_ids={"t": 1})) == {
        AnomalyKind.ID_TWICE
    }
    assert kinds_of(committed(1, write_ids={"t": 1}), committed(2, write_ids={"u": 1})) == set()
    assert kinds_of(committed(1, locks=(1,)), committed(2, locks=(1,))) == {AnomalyKind.ID_TWICE}
    assert kinds_of(committed(1), states={1: "aborted"}) == {AnomalyKind.OUTCOME}
    assert kinds_of(Record(1, outcome=Outcome.ABORTED), states={1: "committed"}) == {AnomalyKind.OUTCOME}
    assert kinds_of(Record(1), states={1: "committed"}) == {AnomalyKind.OUTCOME}
    assert kinds_of(committed(1), reaped=frozenset({1})) == {AnomalyKind.OUTCOME}
    assert kinds_of(Record(1, commit=Moment(1)), states={1: "committed"}) == set()


def test_conflicts_have_a_cause() -> None:
    change = (Read(LIST, ()), Append(LIST, (1, 0)))
    loser = Record(1, operations=change, outcome=Outcome.ABORTED, conflict=True)
    assert kinds_of(loser) == {AnomalyKind.NEEDLESS_CONFLICT}
    assert kinds_of(loser, committed(2, Read(LIST, ()), Append(LIST, (2, 0)))) == set()
    assert kinds_of(loser, committed(2, Append(OTHER, (2, 0)))) == {AnomalyKind.NEEDLESS_CONFLICT}


# --- the log ------------------------------------------------------------------------------------------


@given(st.integers(0, 2**32))
def test_records_survive_their_log(seed: int) -> None:
    records = play(Random(seed), 4)
    lines = [to_line(one) + "\n" for one in records]
    assert read_lines(lines) == records
    assert read_lines([*lines, lines[0][:17]]) == records  # the last line was cut off
    unknown = to_line(replace(records[0], outcome=Outcome.UNKNOWN, operations=())) + "\n"
    assert read_lines([unknown, *lines]) == records
    assert len(read_lines([*lines, *lines])) == 2 * len(records)
