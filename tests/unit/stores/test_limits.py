"""How long calls to a store that is away are repeated."""

from __future__ import annotations

from hiveacid.core.model import TxnId
from hiveacid.stores.limits import RetryDeadlines
from support.clock import ManualClock


def test_a_late_heartbeat_gives_a_transaction_its_time_again() -> None:
    clock = ManualClock()
    retry_deadlines = RetryDeadlines(clock)
    retry_deadlines.opened([TxnId(1)], 300, clock.now())
    clock.advance(271)
    assert retry_deadlines.remaining() == 0
    retry_deadlines.record_heartbeat([TxnId(1)], clock.now())
    clock.advance(5)
    assert retry_deadlines.remaining() == 265
    retry_deadlines.ended([TxnId(1)])
    assert retry_deadlines.remaining() == 0


def test_a_transaction_that_nobody_ended_is_forgotten() -> None:
    clock = ManualClock()
    retry_deadlines = RetryDeadlines(clock)
    retry_deadlines.opened([TxnId(1)], 300, clock.now())
    clock.advance(571)
    assert retry_deadlines.remaining() == 0
    retry_deadlines.record_heartbeat([TxnId(1)], clock.now())
    assert retry_deadlines.remaining() == 0
