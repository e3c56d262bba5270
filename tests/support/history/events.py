"""The order of events that a history asks for: snapshots and commits, and a cycle where there can be none.

Under snapshot isolation every transaction has two events, its snapshot and its commit, and all events have
one order: who reads a write took its snapshot after that commit, who does not read it, before; who writes
over a version took its snapshot after that version's commit. A history is explained by such an order exactly
if these demands have no cycle (Cerone and Gotsman 2018: no cycle without two anti-dependencies in a row).
Real time makes demands, too: an event that was answered comes before one that was asked for later.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import IntEnum

from support.history.records import Moment


class Why(IntEnum):
    """Why one event comes before another."""

    SELF = 0  # a transaction's snapshot before its commit, and marks of time
    TIME = 1
    WW = 2
    WR = 3
    RW = 4


@dataclass(frozen=True)
class Step:
    """An edge of a cycle, between transactions (places in the sequence of transactions)."""

    source: int
    target: int
    why: Why


class Events:
    """A graph of 2n events, snapshot and commit of each of n transactions, and of marks in time."""

    def __init__(self, transactions: int) -> None:
        self._transactions = transactions
        self._targets: list[list[int]] = [[] for _ in range(2 * transactions)]
        self._reasons: list[list[Why]] = [[] for _ in range(2 * transactions)]
        for one in range(transactions):
            self._edge(2 * one, 2 * one + 1, Why.SELF)

    def commit_before_snapshot(self, writer: int, reader: int, why: Why) -> None:
        """Demand that ``reader`` saw ``writer``."""
        self._edge(2 * writer + 1, 2 * reader, why)

    def snapshot_before_commit(self, reader: int, writer: int) -> None:
        """Demand that ``reader`` did not see ``writer``."""
        self._edge(2 * reader, 2 * writer + 1, Why.RW)

    def in_time(self, snapshots: Sequence[Moment | None], commits: Sequence[Moment | None]) -> None:
        """Demand the order of real time, by a chain of marks: one for each event that was answered."""
        moments: list[tuple[int, Moment]] = []
        for place, (snapshot, commit) in enumerate(zip(snapshots, commits, strict=True)):
            moments += [(2 * place, snapshot)] if snapshot is not None else []
            moments += [(2 * place + 1, commit)] if commit is not None else []
        answered = sorted(
            (moment.answered, event) for event, moment in moments if moment.answered is not None
        )
        first = len(self._targets)
        self._targets += [[] for _ in answered]
        self._reasons += [[] for _ in answered]
        for mark, (_, event) in enumerate(answered, first):
            self._edge(event, mark, Why.TIME)
            if mark > first:
                self._edge(mark - 1, mark, Why.SELF)
        times = [time for time, _ in answered]
        for event, moment in moments:
            past = bisect_left(times, moment.asked)
            if past:
                self._edge(first + past - 1, event, Why.SELF)

    def cycles(self, most: int = 5) -> list[tuple[Step, ...]]:
        """Return shortest cycles through some events, each with only the steps between transactions."""
        left = self._core()
        found: dict[frozenset[int], tuple[Step, ...]] = {}
        for event in sorted(left):
            if len(found) == most:
                break
            path = self._shortest(event, left)
            if path is not None:
                found.setdefault(frozenset(path), self._steps(path))
        return sorted(found.values(), key=len)

    def _edge(self, source: int, target: int, why: Why) -> None:
        self._targets[source].append(target)
        self._reasons[source].append(why)

    def _core(self) -> set[int]:
        """Return the events that are on a cycle or between two: what is left when loose ends are cut off."""
        forward = _not_sortable(self._targets)
        if not forward:
            return set()
        backward: list[list[int]] = [[] for _ in self._targets]
        for source in forward:
            for target in self._targets[source]:
                backward[target].append(source)
        return _not_sortable(backward) & forward

    def _shortest(self, start: int, inside: set[int]) -> list[int] | None:
        """Return the events of a shortest cycle through ``start``."""
        came: dict[int, int] = {}
        queue = deque([start])
        while queue:
            event = queue.popleft()
            for target in self._targets[event]:
                if target == start:
                    path = [event]
                    while path[-1] != start:
                        path.append(came[path[-1]])
                    return path[::-1]
                if target in inside and target not in came:
                    came[target] = event
                    queue.append(target)
        return None

    def _steps(self, path: Sequence[int]) -> tuple[Step, ...]:
        """Leave out events of one transaction and marks of time."""
        steps: list[Step] = []
        source, reason = None, Why.SELF
        turned = self._from_a_transaction(path)
        for event, following in zip(turned, [*turned[1:], turned[0]], strict=True):
            if event < 2 * self._transactions:
                source, reason = event // 2, Why.SELF
            why = max(
                why
                for target, why in zip(self._targets[event], self._reasons[event], strict=True)
                if target == following
            )
            reason = max(reason, why)
            if following < 2 * self._transactions and source is not None and following // 2 != source:
                steps.append(Step(source, following // 2, reason))
        return tuple(steps)

    def _from_a_transaction(self, path: Sequence[int]) -> list[int]:
        first = next(place for place, event in enumerate(path) if event < 2 * self._transactions)
        return [*path[first:], *path[:first]]


def _not_sortable(targets: Sequence[Iterable[int]]) -> set[int]:
    """Return the nodes that a topological sort cannot reach."""
    incoming = [0] * len(targets)
    for some in targets:
        for target in some:
            incoming[target] += 1
    ready = [node for node, count in enumerate(incoming) if count == 0]
    done = 0
    while ready:
        node = ready.pop()
        done += 1
        for target in targets[node]:
            incoming[target] -= 1
            if incoming[target] == 0:
                ready.append(target)
    if done == len(targets):
        return set()
    return {node for node, count in enumerate(incoming) if count > 0}
