"""How long calls to a store that is away are repeated."""

from __future__ import annotations

from hiveacid.core.model import TxnId
from hiveacid.stores.lifetimes import Lifetimes


class Clock:
    """A clock that the test sets."""

    def __init__(self) -> None:
        self.ms = 0

    def now(self) -> int:
        return self.ms

    def sleep(self, seconds: float) -> None:
        self.ms += int(seconds * 1000)


def test_a_late_heartbeat_gives_a_transaction_its_time_again() -> None:
    clock = Clock()
    lifetimes = Lifetimes(clock)
    lifetimes.opened([TxnId(1)], 300, 0)
    clock.ms = 271_000
    assert lifetimes.remaining() == 0
    lifetimes.record_heartbeat([TxnId(1)], 275_000)
    clock.ms = 280_000
    assert lifetimes.remaining() == 265
    lifetimes.ended([TxnId(1)])
    assert lifetimes.remaining() == 0


def test_a_transaction_that_nobody_ended_is_forgotten() -> None:
    clock = Clock()
    lifetimes = Lifetimes(clock)
    lifetimes.opened([TxnId(1)], 300, 0)
    clock.ms = 571_000
    assert lifetimes.remaining() == 0
    lifetimes.record_heartbeat([TxnId(1)], clock.ms)
    assert lifetimes.remaining() == 0
