"""Background services of tables: initiator, workers, cleaner, housekeeper; one ``step()`` each.

- The initiator looks where rows were written and queues compactions that the thresholds call for.
- A worker takes one job of its pool from the queue and carries it out.
- The cleaner deletes directories that no open reader needs any more.
- The housekeeper aborts transactions without a heartbeat and drops old rows of the store.

`Services` holds those of one process and runs them one after the other. `runner.Runner` runs each in a thread of its own,
with pauses and retries. `endpoint` answers ``/health`` and ``/metrics`` for monitors.

Any number of processes may share a store: the queue gives a job to one worker only, and every step may be repeated.
"""

from hiveacid.services.services import Services, Turn

__all__ = ["Services", "Turn"]
