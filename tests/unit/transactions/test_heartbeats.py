"""Heartbeats go on, whatever fails beside them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from hiveacid.core.model import TxnId
from hiveacid.errors import StoreUnavailableError
from hiveacid.ports.transactions import Client, HeartbeatAnswer, Remains
from hiveacid.transactions.heartbeats import Heartbeats
from support.clock import ManualClock
from support.memory_store.store import MemoryStore

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


class RestlessStore(MemoryStore):
    """Does not answer the first heartbeat, nor others while it is out of reach."""

    def __init__(self) -> None:
        super().__init__()
        self.beats = 0
        self.out_of_reach = False
        self.answered = threading.Event()

    def heartbeat(self, txn_ids: object) -> HeartbeatAnswer:
        self.beats += 1
        if self.beats == 1 or self.out_of_reach:
            raise StoreUnavailableError("not now")
        self.answered.set()
        return super().heartbeat(txn_ids)  # type: ignore[arg-type]


class HastyStore(RestlessStore):
    """Ends transactions earlier than its users know, and says so when it is asked a second time."""

    asked = 0

    def txn_timeout(self) -> float | None:
        self.asked += 1
        if self.asked == 1:
            raise StoreUnavailableError("not now")
        return 0.15


def test_the_time_out_of_the_store_counts() -> None:
    store = HastyStore()
    heartbeats = Heartbeats(store, 0.05)
    (txn_id,) = store.open_txns(Client("ann", "here", "test"))
    heartbeats.track(TxnId(txn_id))
    assert store.answered.wait(30)  # so it was asked twice
    heartbeats.interval = 150.0  # SET hive.txn.timeout=300s
    store.answered.clear()
    assert store.answered.wait(30)
    heartbeats.close()


def test_a_beat_that_failed_is_sent_again_and_sweeps_are_in_nobodys_way() -> None:
    """A sweep that raises at every turn kept the heart still."""
    store = RestlessStore()
    heartbeats = Heartbeats(store, 0.05)
    swept = threading.Event()

    def sweep() -> None:
        swept.set()
        raise RuntimeError("always")

    heartbeats.add_sweeper(sweep)
    (txn_id,) = store.open_txns(Client("ann", "here", "test"))
    heartbeats.track(TxnId(txn_id))
    assert store.answered.wait(30)
    assert swept.wait(30)
    heartbeats.close()


class StubbornStore(MemoryStore):
    """Cannot abort the first transaction."""

    def __init__(self) -> None:
        super().__init__()
        self.aborted = threading.Event()

    def abort_txns(
        self, txn_ids: Sequence[TxnId], reason: str, remains: Remains = Remains.UNKNOWN
    ) -> tuple[TxnId, ...]:
        if 1 in txn_ids:
            raise StoreUnavailableError("its row is locked")
        self.aborted.set()
        return super().abort_txns(txn_ids, reason, remains)


def test_an_abort_that_fails_again_and_again_does_not_keep_back_others() -> None:
    store = StubbornStore()
    heartbeats = Heartbeats(store, 0.05)
    first, second, third = store.open_txns(Client("ann", "here", "test"), 3)
    heartbeats.enqueue_abort([first, second], "the store was away")
    heartbeats.track(third)
    assert store.aborted.wait(30)
    heartbeats.close()
    assert (store.txn_state(first), store.txn_state(second)) == ("open", "aborted")


def test_a_sweep_that_waits_does_not_keep_the_heart_still() -> None:
    """It may ask a server that does not answer: what is alive would be aborted meanwhile."""
    store = RestlessStore()
    heartbeats = Heartbeats(store, 0.05)
    sweeping, free = threading.Event(), threading.Event()

    def sweep() -> None:
        sweeping.set()
        free.wait(60)

    store.out_of_reach = True
    (txn_id,) = store.open_txns(Client("ann", "here", "test"))
    heartbeats.track(TxnId(txn_id))
    heartbeats.add_sweeper(sweep)
    assert sweeping.wait(30)
    store.out_of_reach = False
    assert store.answered.wait(30)
    free.set()
    heartbeats.close()


def test_whose_a_transaction_is() -> None:
    store = MemoryStore()
    heartbeats = Heartbeats(store, 100.0)
    own, other = (store.open_txns(Client("ann", "here", "test"))[0] for _ in range(2))
    heartbeats.track(TxnId(own))
    thread = threading.Thread(target=heartbeats.track, args=(TxnId(other),))
    thread.start()
    ident = thread.ident
    thread.join()
    assert heartbeats.tracked() == {own, other}
    assert (heartbeats.tracked(threading.get_ident()), heartbeats.tracked(ident)) == ({own}, {other})
    heartbeats.forget(TxnId(own))
    assert heartbeats.tracked() == {other}
    heartbeats.close()


def test_silent_transactions_of_others_expire_where_no_service_runs() -> None:
    """Any session with an open transaction aborts them (issue 20, point 21)."""
    clock = ManualClock()
    store = ExpiringStore(clock=clock)
    (silent,) = store.open_txns(Client("bob", "there", "test"))
    clock.advance(301)
    (txn_id,) = store.open_txns(Client("ann", "here", "test"))
    heartbeats = Heartbeats(store, 0.05)
    heartbeats.track(TxnId(txn_id))
    assert store.expired.wait(30)
    assert (store.txn_state(silent), store.txn_state(txn_id)) == ("aborted", "open")
    heartbeats.close()


class ExpiringStore(MemoryStore):
    """Tells when it has aborted silent transactions."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock=clock)
        self.expired = threading.Event()

    def abort_timed_out(self) -> tuple[TxnId, ...]:
        found = super().abort_timed_out()
        if found:
            self.expired.set()
        return found


def test_a_transaction_keeps_the_interval_that_it_began_with() -> None:
    """A longer ``hive.txn.timeout`` is for later transactions: this one would expire."""
    store = RestlessStore()
    heartbeats = Heartbeats(store, 0.05)
    (txn_id,) = store.open_txns(Client("ann", "here", "test"))
    heartbeats.track(TxnId(txn_id))
    heartbeats.interval = 150.0
    assert store.answered.wait(30)
    heartbeats.close()


def test_a_shorter_time_out_does_not_wait_for_the_turn_of_a_longer_one() -> None:
    """SET hive.txn.timeout=8s while the thread waits for ten seconds."""
    store = RestlessStore()
    heartbeats = Heartbeats(store, 150.0)
    client = Client("ann", "here", "test")
    heartbeats.track(store.open_txns(client)[0])
    heartbeats.interval = 0.05
    heartbeats.track(store.open_txns(client)[0])
    assert store.answered.wait(5)
    heartbeats.close()


class SlowlyPlanned(Heartbeats):
    """Begins a transaction of a short time-out at the moment when the thread plans a long wait."""

    begin: Callable[[], None] | None = None

    def _turn(self) -> float:
        seconds = super()._turn()
        if self.begin is not None and seconds > 1:
            thread, self.begin = threading.Thread(target=self.begin), None
            thread.start()
            thread.join(0.2)  # it ends at once if it need not wait for the plan
        return seconds


def test_a_transaction_that_begins_while_a_long_wait_is_planned_ends_it() -> None:
    """It compared its interval with the wait before, so that its first heartbeat came after ten seconds."""
    store = RestlessStore()
    heartbeats = SlowlyPlanned(store, 0.05)
    first, second = (store.open_txns(Client("ann", "here", "test"))[0] for _ in range(2))
    heartbeats.track(first)
    assert store.answered.wait(30)

    began = threading.Event()

    def begin() -> None:
        heartbeats.interval = 0.05
        heartbeats.track(second)
        store.answered.clear()
        began.set()

    heartbeats.begin = begin
    heartbeats.interval = 150.0
    heartbeats.forget(first)
    assert began.wait(30)
    assert store.answered.wait(5)
    heartbeats.close()
