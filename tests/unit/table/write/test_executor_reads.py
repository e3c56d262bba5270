"""Rounds of tasks on executors: what may come to the driver at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from hiveacid.table.write import driver_reads
from hiveacid.table.write.driver_reads import _results


@dataclass(frozen=True)
class Task:
    """A task that finds so many rows."""

    rows: int
    max_rows: int = 100
    max_bytes: int = 1000

    def __call__(self) -> list[int] | None:
        return [self.rows] if self.rows <= self.max_rows and self.rows <= self.max_bytes else None


@pytest.fixture
def rounds(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return a list that gets the most rows that the tasks of a round may return together."""
    found: list[int] = []

    def run_in_workers(_: object, tasks: Sequence[Task]) -> list[object]:
        found.append(sum(task.max_rows for task in tasks))
        return [task() for task in tasks]

    monkeypatch.setattr(driver_reads, "run_in_workers", run_in_workers)
    return found


@pytest.mark.parametrize(
    ("rows", "expected", "most"),
    [
        ([], [], []),
        ([100, 0, 0], [[100], [0], [0]], [300]),  # few tasks may return all
        ([101, 0], None, [200]),
        ([1] * 100 + [0] * 300, [[1]] * 100 + [[0]] * 300, [400]),  # each may return one
        ([0] * 399 + [100], [[0]] * 399 + [[100]], [400, 100]),  # neighbours are in one of them
        ([50, 50] + [0] * 398, [[50], [50]] + [[0]] * 398, [400, 200]),
        ([5] * 20 + [0] * 380, [[5]] * 20 + [[0]] * 380, [400, 400]),
        ([2] * 30 + [40] + [0] * 369, [[2]] * 30 + [[40]] + [[0]] * 369, [400, 372, 100]),
        ([0, 101] + [0] * 398, None, [400, 100]),
        ([2] * 400, None, [400]),  # too many: no task runs again
    ],
)
def test_no_round_brings_more_than_four_times_what_a_statement_may_have(
    rounds: list[int], rows: list[int], expected: Any, most: list[int]
) -> None:
    env: Any = None
    tasks: Any = [Task(number) for number in rows]
    found = _results(env, tasks)
    assert found == expected
    assert rounds == most
    assert max(rounds, default=0) <= 400


def test_executors_that_cannot_run_tasks_have_no_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_reads, "run_in_workers", lambda *_: None)
    env: Any = None
    tasks: Any = [Task(1)]
    assert _results(env, tasks) is None
