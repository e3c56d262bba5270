"""Background services of tables: initiator, workers, cleaner, housekeeper; one ``step()`` each.

- The initiator examines tables with new writes and queues the compactions that exceed the thresholds.
- A worker takes one job of its pool from the queue and carries it out. It does not repeat a failed job: the initiator queues
  the table again (``core.compaction.initiation_and_retry_policy``). The store queues jobs of lost workers again
  (``Limits.max_lost_workers``).
- The cleaner deletes directories that no open reader needs any more.
- The housekeeper aborts transactions without a heartbeat, drops old rows of the store, and records figures of tables.

`Services` holds the services of one process and runs them one after the other. `runner.Runner` runs each in a thread of
its own, with pauses and retries. `monitoring` answers ``/health`` and ``/metrics`` for monitors.

Any number of processes may share a store: the queue gives a job to one worker only, and every step can be repeated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hiveacid.services.runner import Services, Turn

__all__ = ["Services", "Turn"]


def __getattr__(name: str) -> object:
    """Import a public name at its first use: `http_server` needs no PySpark, and ``hiveacid web`` works without it."""
    if name not in __all__:
        message = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(message)
    from hiveacid.services import runner  # noqa: PLC0415

    return getattr(runner, name)
