"""A clock that only moves when it is told to."""

from __future__ import annotations


class ManualClock:
    """Milliseconds since the epoch, starting at ``start``; sleeping moves it on at once."""

    def __init__(self, start: int = 1_700_000_000_000) -> None:
        self._now = start

    def now(self) -> int:
        """Return the time."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Let the time pass."""
        self._now += int(seconds * 1000)
