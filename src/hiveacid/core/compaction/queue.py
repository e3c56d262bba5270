"""Records of the compaction queue: requests, jobs, changed partitions, running services."""

from __future__ import annotations

from dataclasses import dataclass

from hiveacid.core.model import TableName, TxnId, WriteId

DEFAULT_POOL = "default"
"""The pool of compaction jobs that name none."""
OWN_POOLS = "hiveacid."
"""Prefix of the names of pools for one job each, which only its requester takes; a random text follows.

A Hive Metastore gives a worker the next job of a pool, not a certain one.
"""


@dataclass(frozen=True)
class CompactionRequest:
    """Request for a compaction.

    ``kind``: minor, major or rebalance. ``partition``: Hive's name or None. ``pool``: whose workers take it.
    ``priority``: higher ones first. ``buckets``, ``order_by``: of a rebalance. ``properties``: of WITH
    OVERWRITE TBLPROPERTIES. ``reason``: why the initiator asks for it.
    """

    table: TableName
    partition: str | None
    kind: str
    pool: str = DEFAULT_POOL
    priority: int = 0
    buckets: int | None = None
    order_by: str | None = None
    properties: tuple[tuple[str, str], ...] = ()
    reason: str | None = None


@dataclass(frozen=True)
class Compaction:
    """One row of the compaction queue or its history.

    ``state`` is a name of ``core.transactions.states`` (initiated, working, ready for cleaning, succeeded, failed,
    did not initiate, refused, aborted). ``high_watermark``: highest write id the job covered.
    ``next_txn_id``: the cleaner may delete once no transaction below it is open. ``details``: what the worker
    says of its progress and result (JSON). ``claims``: how often a worker has taken it. ``cleanings``: attempts
    to clean that failed; the next one is not before ``clean_from``.
    """

    id: int
    request: CompactionRequest
    state: str
    worker: str | None = None
    enqueued: int | None = None
    started: int | None = None
    ended: int | None = None
    error: str | None = None
    initiator: str | None = None
    txn_id: TxnId | None = None
    next_txn_id: TxnId | None = None
    commit_time: int | None = None
    high_watermark: WriteId | None = None
    details: str | None = None
    claims: int = 0
    cleanings: int = 0
    clean_from: int | None = None


@dataclass(frozen=True)
class ChangedPartition:
    """A table or partition that the initiator should look at.

    ``changed``: when a transaction that wrote there committed last; None: none did since the time asked for.
    ``aborted``: when transactions that wrote there (or, where nobody said where, into the table) were aborted
    whose write ids are not forgotten yet, ascending.
    """

    table: TableName
    partition: str | None
    changed: int | None = None
    aborted: tuple[int, ...] = ()


@dataclass(frozen=True)
class Service:
    """A running initiator, worker, cleaner or housekeeper, as it announces itself.

    ``name``: unique, ``host-pid-kind-number``. ``pool``: of a worker. Times by the store's clock.
    """

    name: str
    kind: str
    pool: str | None = None
    version: str | None = None
    started: int | None = None
    last_seen: int | None = None


def is_covered(done: str, wanted: str) -> bool:
    """Tell whether a compaction that was done leaves nothing to do for a wanted one at the same high watermark.

    Hive 4.0.1 counts every kind as covered; then readers that hold back the cleaning after a minor compaction would
    hold back a major one, too.
    """
    return done == wanted or (done, wanted) == ("major", "minor")
