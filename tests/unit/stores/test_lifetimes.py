"""How long calls to a store that is away are repeated."""

from __future__ import annotations

from hiveacid.core.model import TxnId
from hiveacid.stores.lifetimes import Lifetimes
from support.clock import ManualClock


def test_a_late_heartbeat_gives_a_transaction_its_time_again() -> None:
    clock = ManualClock()
    lifetimes = Lifetimes(clock)
    lifetimes.opened([TxnId(1)], 300, clock.now())
    clock.advance(271)
    assert lifetimes.remaining() == 0
    lifetimes.record_heartbeat([TxnId(1)], clock.now())
    clock.advance(5)
    assert lifetimes.remaining() == 265
    lifetimes.ended([TxnId(1)])
    assert lifetimes.remaining() == 0


def test_a_transaction_that_nobody_ended_is_forgotten() -> None:
    clock = ManualClock()
    lifetimes = Lifetimes(clock)
    lifetimes.opened([TxnId(1)], 300, clock.now())
    clock.advance(571)
    assert lifetimes.remaining() == 0
    lifetimes.record_heartbeat([TxnId(1)], clock.now())
    assert lifetimes.remaining() == 0
