"""A server that goes away while the tasks of a statement run, for HIVEACID_TEST_SECONDS (3)."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.exhaustive import SECONDS

if TYPE_CHECKING:
    from hiveacid import AcidSession

AWAY = SECONDS or 3.0
_PATIENCE = 400.0 + 4 * AWAY


@dataclass
class Scene:
    """A table of 100 rows in two deltas, and what takes its server away."""

    acid: AcidSession
    away: Callable[[], object]
    back: Callable[[], object]
    must_succeed: bool = False

    def rows(self) -> dict[tuple[Any, ...], tuple[int, str]]:
        """Return the rows by their ids."""
        found = self.acid.sql("SELECT ROW__ID, id, v FROM t").collect()
        rows = {tuple(row[0]): (row[1], row[2]) for row in found}
        assert len(rows) == len(found), "two rows have one row id"
        return rows

    def during(self, statement: Callable[[], object]) -> BaseException | None:
        """Run a statement whose server goes away while its tasks run; return its error."""
        tracker = self.acid.context.env.spark.sparkContext.statusTracker()
        failed: list[BaseException] = []

        def run() -> None:
            try:
                statement()
            except BaseException as error:  # noqa: BLE001 - judged by the test
                failed.append(error)

        thread = threading.Thread(target=run)
        thread.start()
        while thread.is_alive() and not tracker.getActiveStageIds():
            thread.join(0.01)
        assert thread.is_alive(), failed
        self.away()
        try:
            thread.join(AWAY)
        finally:
            self.back()
        thread.join(_PATIENCE)
        assert not thread.is_alive(), "it hangs"
        return failed[0] if failed else None
