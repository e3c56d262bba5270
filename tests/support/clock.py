"""A clock that only moves when it is told to."""

from __future__ import annotations

from hiveacid.ports.clock import SystemClock


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


class LaterClock(SystemClock):
    """A clock ten seconds ahead, to which no directory has changed just now: listings are kept at once."""

    def now(self) -> int:
        """Return the time in ten seconds, in milliseconds since the epoch."""
        return super().now() + 10_000
