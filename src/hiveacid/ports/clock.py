"""Port for the clock, and the clock of this machine."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """Source of the current time, which tests replace."""

    def now(self) -> int:
        """Return the current time in milliseconds since the epoch."""

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""


class SystemClock:
    """The time of this machine, in milliseconds since the epoch."""

    def now(self) -> int:
        """Return the current time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""
        time.sleep(seconds)
