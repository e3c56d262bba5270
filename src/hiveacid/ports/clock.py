"""Port for the time."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The time, so that tests can turn it."""

    def now(self) -> int:
        """Milliseconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Wait."""
