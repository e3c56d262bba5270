"""Cancelled statements that do not end: attempts become rare, and the log has one line."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hiveacid.sql.cancellation import Running, StatementThread


@dataclass
class Transactions:
    clock: object = None


@dataclass(eq=False)
class Endless(Running[Any]):
    """A statement that ends after the twentieth attempt; no time passes meanwhile."""

    pauses: list[float] = field(default_factory=list)

    def done_within(self, seconds: float) -> bool:
        self.pauses.append(seconds)
        return len(self.pauses) == 20


def test_a_statement_that_does_not_end_is_cancelled_more_and_more_rarely(
    caplog: pytest.LogCaptureFixture,
) -> None:
    context = SimpleNamespace(transactions=Transactions(), with_transactions=lambda _: context)
    session = SimpleNamespace(context=context)
    thread = StatementThread(cast("Any", session), "test", "cancelled")
    running = Endless("tag")
    running.future.set_running_or_notify_cancel()
    thread.cancel_until_done(running)
    assert running.pauses[0] == 0.1
    assert max(running.pauses) == running.pauses[-1] == 5.0
    assert sum(running.pauses) > 60
    assert len(caplog.records) == 1
    thread.close()
