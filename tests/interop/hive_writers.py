"""What writers of both engines do to one table, told so that it can be counted afterwards."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from hive_client import HiveError

from hiveacid.errors import CommitStateUnknownError, HiveAcidError, StoreUnavailableError
from hiveacid.services import Services
from hiveacid.services.runner import Runner

if TYPE_CHECKING:
    from hiveacid import AcidSession

logger = logging.getLogger(__name__)
COUNTERS = 4
"""Rows with ids 0 to 3, which all add one to."""
CREATE = "CREATE TABLE shared (id INT, v INT) STORED AS ORC TBLPROPERTIES ('transactional'='true')"
FILL = "INSERT INTO shared VALUES (0,0),(1,0),(2,0),(3,0)"


def settings(timeout: int) -> dict[str, str]:
    """Return those of our processes: ``timeout`` of transactions in seconds, and workers that look often."""
    return {
        "hive.txn.timeout": f"{timeout}s",
        "hive.compactor.worker.sleep.time": "200ms",
        "hive.compactor.worker.max.sleep.time": "400ms",
    }


def worker(acid: AcidSession) -> Runner:
    """Return one worker of ours on a metastore's queue."""
    return Runner(Services(acid, initiator=False, cleaner=False, housekeeper=False))


@dataclass(frozen=True)
class Task:
    """``what``: ``add K`` adds one to counter K, ``put N`` inserts a row with id N; ``both K`` does both by MERGE."""

    number: int
    what: str
    text: str


def next_statement(draw: Random, number: int) -> Task:
    """Return the next statement; ``number`` is nobody else's."""
    counter = draw.randrange(COUNTERS)
    verb = draw.choice(["add", "put", "put", "both"])
    if verb == "add":
        return Task(number, f"add {counter}", f"UPDATE shared SET v = v + 1 WHERE id = {counter}")
    if verb == "put":
        return Task(number, "put", f"INSERT INTO shared VALUES ({number}, 1)")
    return Task(
        number,
        f"both {counter}",
        f"MERGE INTO shared t USING (SELECT {counter} AS id UNION ALL SELECT {number} AS id) s ON t.id = s.id "
        "WHEN MATCHED THEN UPDATE SET v = v + 1 WHEN NOT MATCHED THEN INSERT VALUES (s.id, 1)",
    )


def ended(run: Callable[[], object]) -> str:
    """Run a statement; return done, refused (nothing happened) or unknown."""
    try:
        run()
    except CommitStateUnknownError:
        return "unknown"
    except (HiveAcidError, HiveError) as error:
        logger.info("%s: %s", type(error).__name__, str(error)[:300])
        return "unknown" if isinstance(error, StoreUnavailableError) else "refused"
    return "done"


@dataclass
class Account:
    """What has to be in the table: at least what is ``done``, at most what is ``open`` on top of it."""

    done: list[Task] = field(default_factory=list)
    open: dict[int, Task] = field(default_factory=dict)

    def begin(self, task: Task) -> None:
        self.open[task.number] = task

    def end(self, number: int, how: str) -> None:
        if how != "unknown":
            task = self.open.pop(number)
            if how == "done":
                self.done.append(task)

    def check(self, rows: list[tuple[int, int]]) -> None:
        """Compare with a table's rows: nothing lost, nothing doubled, nothing that nobody wrote."""
        values = dict(rows)
        assert len(values) == len(rows), sorted(rows)
        for counter in range(COUNTERS):
            least = sum(_adds(task, counter) for task in self.done)
            most = least + sum(_adds(task, counter) for task in self.open.values())
            assert least <= values[counter] <= most, (counter, values[counter], least, most)
        new = {key for key in values if key >= COUNTERS}
        wanted = {task.number for task in self.done if _puts(task)}
        maybe = {task.number for task in self.open.values() if _puts(task)}
        assert wanted <= new <= wanted | maybe, (sorted(wanted - new), sorted(new - wanted - maybe))
        assert all(values[key] == 1 for key in new)
        for (
            task
        ) in self.open.values():  # a MERGE does both or nothing; with one open at a counter that can be told
            if task.what.startswith("both") and len(self.open) == 1:
                counter = int(task.what.split()[1])
                extra = values[counter] - sum(_adds(one, counter) for one in self.done)
                assert extra == (task.number in new), task


def _adds(task: Task, counter: int) -> bool:
    return task.what in (f"add {counter}", f"both {counter}")


def _puts(task: Task) -> bool:
    return task.what == "put" or task.what.startswith("both")
