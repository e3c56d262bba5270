"""Time limits of statements: one thread cancels those whose time is over."""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

_RETRY = 1.0  # seconds


@dataclass(eq=False)
class TimeLimit:
    """Call that is made at a time; ``action`` is None if it is cancelled before."""

    action: Callable[[], None] | None

    @property
    def cancelled(self) -> bool:
        """True if there is no call to make any more."""
        return self.action is None

    def cancel(self) -> None:
        """Let the time pass without a call, and without keeping the operation and its session until then."""
        self.action = None


@dataclass(eq=False)
class TimeLimits:
    """Calls functions at their times, in a thread that the first one starts. A call must not wait."""

    _waiting: list[tuple[float, int, TimeLimit]] = field(default_factory=list)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _changed: threading.Condition = field(default_factory=threading.Condition)
    _thread: threading.Thread | None = None

    def after(self, seconds: float, action: Callable[[], None] | TimeLimit) -> TimeLimit:
        """Call ``action`` after some seconds; a RuntimeError makes it be called again a second later."""
        limit = action if isinstance(action, TimeLimit) else TimeLimit(action)
        with self._changed:
            if sum(entry.cancelled for _, _, entry in self._waiting[:100]) > 50:  # noqa: PLR2004 - of the first hundred
                self._waiting = [entry for entry in self._waiting if not entry[2].cancelled]
                heapq.heapify(self._waiting)
            heapq.heappush(self._waiting, (time.monotonic() + seconds, next(self._numbers), limit))
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="hiveacid-time-limits", daemon=True)
                self._thread.start()
            self._changed.notify()
        return limit

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting or self._waiting[0][0] > time.monotonic():
                    left = self._waiting[0][0] - time.monotonic() if self._waiting else None
                    self._changed.wait(None if left is None else min(max(left, 0.0), threading.TIMEOUT_MAX))
                _, _, limit = heapq.heappop(self._waiting)
            action = limit.action
            if action is None:
                continue
            try:
                action()
            except RuntimeError:  # the machine has no thread for it now: this one must go on
                self.after(_RETRY, limit)
