"""Waits for transactions: requests for locks, and cleanings that open transactions hold back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.transactions.states import CompactionState


@dataclass(frozen=True)
class Wait:
    """A waiting transaction. ``root``: the one that has to end first; ``depth``: how many waits lie between, at least 1.

    ``deadlocked``: the waits form a circle, which only an abort or a time-out ends; ``root`` is then one of them.
    """

    txn_id: int
    waits_for: int
    root: int
    depth: int
    deadlocked: bool = False


def lock_waits(locks: Iterable[tuple[str, int | None, str | None]]) -> tuple[Wait, ...]:
    """Return the waiting transactions, those with the most others behind them first.

    ``locks``: id, transaction and the lock waited for (None: it does not wait), as SHOW LOCKS lists them.
    """
    rows = list(locks)
    owners = {lock_id: txn_id for lock_id, txn_id, _ in rows}
    edges: dict[int, int] = {}
    for _, txn_id, blocked_by in rows:
        blocker = owners.get(blocked_by or "")
        if txn_id is not None and blocker is not None and blocker != txn_id:
            edges.setdefault(txn_id, blocker)
    waits = [_follow(txn_id, edges) for txn_id in edges]
    behind: dict[int, int] = defaultdict(int)
    for wait in waits:
        behind[wait.root] += 1
    return tuple(sorted(waits, key=lambda wait: (-behind[wait.root], wait.root, wait.depth, wait.txn_id)))


def _follow(txn_id: int, edges: Mapping[int, int]) -> Wait:
    seen = [txn_id]
    while (after := edges.get(seen[-1])) is not None:
        if after in seen:
            return Wait(txn_id, edges[txn_id], min(seen[seen.index(after) :]), len(seen), deadlocked=True)
        seen.append(after)
    return Wait(txn_id, edges[txn_id], seen[-1], len(seen) - 1)


def held_back_cleanings(open_ids: Iterable[int], jobs: Sequence[Compaction]) -> dict[int, tuple[int, ...]]:
    """Return, for each open transaction that does so, the compactions whose cleaning waits for it.

    A job waits until no transaction below its ``next_txn_id`` is open.
    """
    waiting = [
        job for job in jobs if job.state == CompactionState.READY_FOR_CLEANING and job.next_txn_id is not None
    ]
    held = {txn: tuple(job.id for job in waiting if txn < (job.next_txn_id or 0)) for txn in open_ids}
    return {txn_id: ids for txn_id, ids in held.items() if ids}
