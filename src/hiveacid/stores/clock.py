"""Clock of this machine."""

from __future__ import annotations

import time


class SystemClock:
    """The time of this machine, in milliseconds since the epoch."""

    def now(self) -> int:
        """Return the current time in milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Block the calling thread for ``seconds``."""
        time.sleep(seconds)
