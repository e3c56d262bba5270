"""What a run leaves out, by marks at the tests with their reasons, and how much it does (HIVEACID_TEST_… variables).

    @pytest.mark.exhaustive("the SQL scripts have the statements")   in `make test-all`, not in `make test`
    @pytest.mark.cluster("crash/test_kill.py kills drivers")   in `make cluster` only
    @pytest.mark.sampled(8, "the cases differ in one value each")   one of 8 in `make test`

CI runs `make test`. The reason of the first two is the smaller test that stays. ``cases=("minor", "1]")`` narrows a mark to cases whose ids
begin so (``]`` ends an id), at a class to tests of these names. HIVEACID_TEST_ALL says what runs (:data:`LEVELS`), and
HIVEACID_TEST_SEED which samples. A test that the command line names by its id always runs.
"""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from math import ceil
from random import Random, SystemRandom
from typing import TypeVar

import pytest

T = TypeVar("T")

LEVELS = ("", "1", "cluster", "stress")
"""Values of HIVEACID_TEST_ALL: `make test` and CI, `make test-all`, `make cluster`, `make stress`."""

_VALUE = os.environ.get("HIVEACID_TEST_ALL", "")
if _VALUE not in LEVELS:
    raise ValueError(f"HIVEACID_TEST_ALL is {_VALUE!r} and may be empty, {', '.join(LEVELS[1:])}")
LEVEL = LEVELS.index(_VALUE)

ALL = LEVEL > 0
"""Whether every behaviour is tested with all of its values; set by ``make test-all`` and for other Sparks and engines."""

STRESS = LEVELS[LEVEL] == "stress"
"""Whether tests try every point at which a client may die, however long it takes; set by ``make stress``."""

COUNT = int(os.environ.get("HIVEACID_TEST_COUNT", "0"))
"""How many cases or rounds a test of random cases takes, if it is given; the docstring of its module says of what."""

SECONDS = float(os.environ.get("HIVEACID_TEST_SECONDS", "0"))
"""How long writers race and servers are away, if it is given."""

# The first level that runs the tests of a mark.
_FROM = {"exhaustive": "1", "cluster": "cluster"}

MARKS = (
    "exhaustive(reason, cases=()): not in `make test`; the reason is the smaller test that stays",
    "cluster(reason, cases=()): in `make cluster` only; the reason is the smaller test of `make test-all`",
    "sampled(number, reason, cases=()): of so many cases `make test` runs one, drawn by HIVEACID_TEST_SEED",
)


def left_out(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return the tests that this run leaves out."""
    items = list(items)
    left = {
        item
        for name, level in _FROM.items()
        if LEVELS.index(level) > LEVEL
        for item, _, _ in _marked(items, name)
    }
    return left if ALL else left | _not_drawn(items)


def _not_drawn(items: Sequence[pytest.Item]) -> set[pytest.Item]:
    """Return the sampled tests that this run leaves out."""
    groups: dict[tuple[str, int], list[pytest.Item]] = defaultdict(list)
    for item, group, mark in _marked(items, "sampled"):
        groups[group, mark.args[0]].append(item)
    left: set[pytest.Item] = set()
    for (group, cases_for_one), members in groups.items():
        cases = sorted(members, key=lambda item: item.nodeid)
        # Every worker has to draw the same ones.
        random = Random(f"{steady_seed()} {group}")
        kept = ceil(len(cases) / cases_for_one)
        left.update(set(cases) - set(random.sample(cases, kept)))
    return left


def _marked(items: Sequence[pytest.Item], name: str) -> Iterator[tuple[pytest.Item, str, pytest.Mark]]:
    """Yield the tests with a mark, what the mark belongs to, and the mark; raise error for cases that no test has."""
    missed: dict[tuple[str, str], bool] = {}
    for item in items:
        for node, mark in item.iter_markers_with_node(name):
            _require_reason(item, mark)
            owner = item.nodeid.partition("[")[0] if node is item else f"{node.nodeid}::"
            owner = owner.removeprefix("tests/")
            begins: Sequence[str] = mark.kwargs.get("cases", ("",))
            text = item.nodeid.partition("[")[2] if node is item else item.name
            for begin in begins:
                missed[owner, begin] = missed.get((owner, begin), True) and not text.startswith(begin)
            if text.startswith(tuple(begins)):
                yield item, f"{owner}[{begins[0]}" if begins[0] else owner, mark
    for (owner, begin), is_missed in missed.items():
        if is_missed:
            raise pytest.UsageError(f"{owner} is marked {name} for {begin!r}, but has no such case")


def _require_reason(item: pytest.Item, mark: pytest.Mark) -> None:
    if not all(mark.args) or len(mark.args) != (2 if mark.name == "sampled" else 1):
        raise pytest.UsageError(f"the mark {mark.name} of {item.nodeid} gives no reason")
    if mark.name == "sampled" and mark.args[0] < 2:
        raise pytest.UsageError(f"the mark sampled of {item.nodeid} keeps all cases")


def examples(count: int) -> int:
    """Return how many examples hypothesis tries: all in ``make test-all``, otherwise a quarter.

    >>> @settings(max_examples=examples(200))
    """
    return count if ALL else max(1, count // 4)


def sample(cases: Sequence[T], count: int) -> list[T]:
    """Return all cases in ``make test-all``, otherwise a few drawn by HIVEACID_TEST_SEED, in their order.

    >>> for statement in sample(STATEMENTS, 10): ...
    """
    if ALL or len(cases) <= count:
        return list(cases)
    start = seed()
    print(f"HIVEACID_TEST_SEED={start}")  # noqa: T201 - shown where a test fails
    return [cases[index] for index in sorted(Random(start).sample(range(len(cases)), count))]


def seed() -> int:
    """Return HIVEACID_TEST_SEED: on CI 1, elsewhere another one each time."""
    given = os.environ.get("HIVEACID_TEST_SEED", "1" if os.environ.get("CI") else "")
    return int(given) if given else SystemRandom().randrange(10**6)


def steady_seed() -> int:
    """Return HIVEACID_TEST_SEED: 1 unless it is given, where all processes or versions have to draw the same."""
    return int(os.environ.get("HIVEACID_TEST_SEED", "1"))
