"""Walks along the tables of ``core.transactions.states``: every store's transactions, locks and compactions live by them.

An event that the table has leads to the state that the table says; any other changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hiveacid.core.compaction.queue_records import CompactionRequest
from hiveacid.core.model import LockId, TableName, TxnId
from hiveacid.core.transactions.locks_and_conflicts import LockState, LockType
from hiveacid.core.transactions.states import COMPACTION, LOCK, TRANSACTION, Machine
from hiveacid.errors import HiveAcidError
from hiveacid.ports.transactions import Operation
from support.clock import ManualClock
from support.exhaustive import examples
from support.samples import CLIENT, Store, lock_on, wrote

_A_DAY = 90_000  # seconds; more than hive.compactor.worker.timeout


class _Subject:
    """Something that lives by a table: how its events are brought about, and the state it is in."""

    machine: Machine

    def __init__(self, store: Store, clock: ManualClock) -> None:
        self.store = store
        self.clock = clock
        (self.txn_id,) = store.open_txns(CLIENT)
        self.place = f"walk{self.txn_id}"
        self.events: Mapping[str, Callable[[], object]] = {}

    def state(self) -> str:
        raise NotImplementedError


class _Transaction(_Subject):
    machine = TRANSACTION

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store, clock)
        self._change(self.txn_id)
        self.events = {
            "commit": lambda: store.commit_txn(self.txn_id),
            "conflict": self._conflict,
            "abort": lambda: store.abort_txns([self.txn_id], "walk"),
            "time out": self._time_out,
        }

    def state(self) -> str:
        return self.store.txn_state(self.txn_id)

    def _change(self, txn_id: TxnId) -> None:
        self.store.take_snapshot(txn_id)
        self.store.add_written(txn_id, [wrote(TableName("shop", self.place), Operation.UPDATE)])

    def _conflict(self) -> None:
        (other,) = self.store.open_txns(CLIENT)
        self._change(other)
        self.store.commit_txn(other)
        self.store.commit_txn(self.txn_id)

    def _time_out(self) -> None:
        self.clock.advance(301)
        self.store.abort_timed_out()


class _Lock(_Subject):
    """A request that waits for another one."""

    machine = LOCK

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store, clock)
        (self._holder,) = store.open_txns(CLIENT)
        self._wanted = [lock_on(LockType.EXCLUSIVE, self.place)]
        store.lock(self._holder, self._wanted)
        self._id = store.lock(self.txn_id, self._wanted).lock_id
        self._denied = False
        self.events = {
            "grant": self._grant,
            "deny": self._deny,
            "withdraw": lambda: store.unlock(self._id),
            "end of transaction": lambda: store.abort_txns([self.txn_id], "walk"),
        }

    def state(self) -> str:
        if self._denied:
            return LockState.NOT_ACQUIRED.value
        states = {row.lock_id: row.state for row in self.store.show_locks()}
        return states.get(f"{self._id}.1", "released")

    def _grant(self) -> None:
        self.store.abort_txns([self._holder], "walk")
        self.store.check_lock(self._id)

    def _deny(self) -> None:
        """Ask again without waiting: only who waits can be denied."""
        if self.state() != LOCK.start:
            self.store.check_lock(LockId(self._id))
            return
        self.store.unlock(self._id)
        answer = self.store.lock(self.txn_id, self._wanted, zero_wait=True)
        self._denied = answer.state is LockState.NOT_ACQUIRED


class _Compaction(_Subject):
    machine = COMPACTION

    def __init__(self, store: Store, clock: ManualClock) -> None:
        super().__init__(store, clock)
        request = CompactionRequest(TableName("shop", self.place), None, "minor")
        self._id = store.enqueue_compaction(request, "walk").id
        self.events = {
            "claim": lambda: store.claim_compaction("worker", self._id),
            "give up": self._end("did not initiate"),
            "abort": self._end("aborted"),
            "finish": self._end("ready for cleaning"),
            "refuse": self._end("refused"),
            "fail": self._end("failed"),
            "revoke": self._revoke,
            "clean": self._end("succeeded"),
        }

    def state(self) -> str:
        return next(one.state for one in self.store.show_compactions() if one.id == self._id)

    def _end(self, state: str) -> Callable[[], None]:
        return lambda: self.store.end_compaction(self._id, state)

    def _revoke(self) -> None:
        self.clock.advance(_A_DAY)
        self.store.housekeep()


class WalkContract:
    """What every store does with the life cycles of ``core.transactions.states``."""

    def test_transactions_live_by_their_table(self, store: Store, clock: ManualClock) -> None:
        """Commit, conflict, abort, time out."""
        _walk_often(lambda: _Transaction(store, clock))

    def test_lock_requests_live_by_their_table(self, store: Store, clock: ManualClock) -> None:
        """Grant, deny, withdraw, end of transaction."""
        _walk_often(lambda: _Lock(store, clock))

    def test_compactions_live_by_their_table(self, store: Store, clock: ManualClock) -> None:
        """From the queue to the history."""
        _walk_often(lambda: _Compaction(store, clock))

    def test_every_transition_of_the_tables_happens(self, store: Store, clock: ManualClock) -> None:
        """Each one by itself, on the shortest way to its beginning."""
        for kind in (_Transaction, _Lock, _Compaction):
            for one in kind.machine.transitions:
                subject = kind(store, clock)
                for event in (*_way_to(kind.machine, one.source), one.event):
                    _bring_about(subject, event)
                assert subject.state() == one.target, one


def _walk_often(make: Callable[[], _Subject]) -> None:
    @settings(max_examples=examples(12), deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def walk(data: st.DataObject) -> None:
        _walk(make(), data)

    walk()


def _walk(subject: _Subject, data: st.DataObject) -> None:
    state = subject.machine.start
    assert set(subject.events) == {one.event for one in subject.machine.transitions}
    for _ in range(data.draw(st.integers(1, 5))):
        assert subject.state() == state
        event = data.draw(st.sampled_from(sorted(subject.events)))
        _bring_about(subject, event)
        state = _target(subject.machine, state, event) or state
    assert subject.state() == state


def _bring_about(subject: _Subject, event: str) -> None:
    """Let an event happen; where it may not, the store refuses it or nothing comes of it."""
    with suppress(HiveAcidError):
        subject.events[event]()


def _target(machine: Machine, state: str, event: str) -> str | None:
    found = (one.target for one in machine.transitions if (one.source, one.event) == (state, event))
    return next(found, None)


def _way_to(machine: Machine, state: str) -> tuple[str, ...]:
    """Return the events of a shortest way from the start to a state."""
    ways: dict[str, tuple[str, ...]] = {machine.start: ()}
    while state not in ways:
        for one in machine.transitions:
            if one.source in ways:
                ways.setdefault(one.target, (*ways[one.source], one.event))
    return ways[state]
