"""Seeded runs of writers, readers, compactor, cleaner and reaper; planted bugs, and the same run twice."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from support.simulation.__main__ import explain
from support.simulation.planted import BUGS
from support.simulation.run import Outcome, simulate
from support.simulation.scheduler import BrokenInvariantError

STEPS = 2000


def run(seed: int) -> Outcome:
    try:
        return simulate(seed, STEPS)
    except BrokenInvariantError as broken:
        pytest.fail(explain(broken))


@pytest.mark.parametrize("first", range(0, 50, 10))
def test_a_hundred_thousand_steps(first: int) -> None:
    """No reader loses a file, no committed row vanishes, no aborted one appears, nothing of the dead stays."""
    outcomes = [run(seed) for seed in range(first, first + 10)]
    assert sum(one.steps for one in outcomes) >= 10 * STEPS
    for what in ("commits", "reads", "compactions", "deaths"):
        assert sum(getattr(one, what) for one in outcomes) > 20, what


@pytest.mark.parametrize("bug", [bug for bug in BUGS if bug])
def test_planted_bugs_are_caught(bug: str) -> None:
    """Within sixty seeds, and the seed finds it again in as many steps."""
    broken = next(filter(None, (broken_by(seed, STEPS, bug) for seed in range(60))))
    again = broken_by(broken.seed, broken.steps, bug)
    assert again is not None
    assert (again.what, again.trace) == (broken.what, broken.trace)
    assert f"--seed {broken.seed} --steps {broken.steps} --bug '{bug}'" in explain(broken, bug)


def broken_by(seed: int, steps: int, bug: str) -> BrokenInvariantError | None:
    try:
        simulate(seed, steps, bug)
    except BrokenInvariantError as broken:
        return broken
    return None


def test_a_seed_replays_a_run_in_another_process() -> None:
    """Whatever order sets of texts have there."""
    command = [
        sys.executable,
        "-m",
        "support.simulation",
        "--seed",
        "5",
        "--steps",
        "1500",
        "--trace",
    ]
    traces = {
        subprocess.run(
            command, check=True, capture_output=True, text=True, env={**os.environ, "PYTHONHASHSEED": seed}
        ).stdout
        for seed in ("1", "2")
    }
    assert len(traces) == 1
    assert "1501" in traces.pop()
