"""Port for the clock."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Source of the current time, which tests replace."""

    def now(self) -> int:
        """Return the current time in milliseconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""
