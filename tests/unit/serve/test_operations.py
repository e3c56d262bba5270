"""Time limits of statements when the machine is short of threads."""

from __future__ import annotations

import threading

import pytest

from hiveacid.serve import operations
from hiveacid.serve.operations import TimeLimits


def test_a_cancel_that_finds_no_thread_is_repeated_and_later_limits_hold(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(operations, "_RETRY", 0.0)
    calls: list[str] = []
    first_done, second_done = threading.Event(), threading.Event()

    def first() -> None:
        calls.append("first")
        if len(calls) == 1:
            raise RuntimeError("can't start new thread")
        first_done.set()

    limits = TimeLimits()
    limits.after(0.0, first)
    assert first_done.wait(30)
    limits.after(0.0, second_done.set)
    assert second_done.wait(30)
    assert calls == ["first", "first"]
