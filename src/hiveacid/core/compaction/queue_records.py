"""Records of the compaction queue: requests, jobs, changed partitions, running services.

The queue holds the ORDER BY of a rebalance as text, and other clients write to the queue, too. The text is therefore parsed
when the compaction is requested and again by the worker. It never reaches Spark as SQL.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from hiveacid.core.model import TableName, TxnId, WriteId
from hiveacid.core.schema.types import quote_name
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import StatementError, no_such_column

DEFAULT_POOL = "default"
"""The pool of compaction jobs that name none."""
PRIVATE_POOL_PREFIX = "hiveacid."
"""Prefix of a pool that holds a single job, which only its requester takes; a random text follows.

A Hive Metastore gives a worker the next job of a pool. A worker cannot ask for a particular job.
"""


@dataclass(frozen=True)
class CompactionRequest:
    """Request for a compaction.

    ``kind``: minor, major or rebalance. ``partition``: Hive's name or None. ``pool``: pool of the workers that may
    take it. ``priority``: jobs with a higher one are taken first. ``buckets``, ``order_by``: clauses of a rebalance.
    ``properties``: of WITH OVERWRITE TBLPROPERTIES. ``reason``: why the initiator requests it.
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
    ``next_txn_id``: the cleaner may delete once no transaction below it is open. ``details``: progress and result
    that the worker reported (JSON). ``claims``: how often a worker has taken it. ``cleanings``: failed attempts to
    clean; the next attempt starts at ``clean_from`` at the earliest.
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

    ``changed``: last commit time of a transaction that wrote there; None: there was none since the requested time.
    ``aborted``: ascending abort times of transactions that wrote there and whose write ids are not forgotten yet. A
    transaction that named no partition counts for the table.
    """

    table: TableName
    partition: str | None
    changed: int | None = None
    aborted: tuple[int, ...] = ()


SERVICE_TIMEOUT = 60.0
"""Seconds after which a service without a new announcement counts as gone."""


@dataclass(frozen=True)
class Service:
    """A running initiator, worker, cleaner or housekeeper, as it registers with the store.

    ``name``: unique, ``host-pid-kind-number``. ``pool``: of a worker. Times are those of the store's clock.
    """

    name: str
    kind: str
    pool: str | None = None
    version: str | None = None
    started: int | None = None
    last_seen: int | None = None


def is_covered(done: str, wanted: str) -> bool:
    """Tell whether a finished compaction makes a requested one unnecessary at the same high watermark.

    In Hive 4.0.1 every kind covers every other. Readers that delay the cleaning after a minor compaction would then
    delay a major compaction, too.
    """
    return done == wanted or (done, wanted) == ("major", "minor")


def list_changed_partitions(
    changed: Mapping[tuple[TableName, str | None], int],
    aborted: Mapping[tuple[TableName, str | None], Sequence[int]],
) -> tuple[ChangedPartition, ...]:
    """Return the partitions with a commit or aborted transactions, by name; the values are times."""
    partitions = sorted({*changed, *aborted}, key=lambda partition: (partition[0], partition[1] or ""))
    return tuple(
        ChangedPartition(*partition, changed.get(partition), tuple(sorted(aborted.get(partition, ()))))
        for partition in partitions
    )


def list_surplus_jobs(ended: Iterable[Compaction], limits: Mapping[str, int], oldest: int) -> tuple[int, ...]:
    """Return the ids of the jobs that the history need not keep (``PurgeCompactionHistoryFunction``).

    ``ended``: newest first. ``limits``: how many jobs of each state a partition keeps. A failure that ended before
    ``oldest`` (ms) is dropped if a later job of the same or a stronger kind succeeded.
    """
    counts: dict[tuple[TableName, str | None, str], int] = defaultdict(int)
    succeeded: dict[tuple[TableName, str | None], set[str]] = defaultdict(set)
    surplus: list[int] = []
    for job in ended:
        partition = job.request.table, job.request.partition
        counts[*partition, job.state] += 1
        if job.state == CompactionState.SUCCEEDED:
            succeeded[partition].add(job.request.kind)
        if counts[*partition, job.state] > limits[job.state] or _is_superseded(
            job, succeeded[partition], oldest
        ):
            surplus.append(job.id)
    return tuple(surplus)


def _is_superseded(job: Compaction, succeeded: Iterable[str], oldest: int) -> bool:
    if job.state == CompactionState.SUCCEEDED or (job.ended or 0) >= oldest:
        return False
    return any(kind != "minor" or job.request.kind == "minor" for kind in succeeded)


_LONGEST = 100_000  # characters
_PREFIX = re.compile(r"\s*ORDER\s+BY\b", re.IGNORECASE)  # Hive's compactor takes the clause with its keywords
_ITEM = re.compile(
    r"\s*(?:`((?:[^`]|``)+)`|(\w+))(?:\s+(ASC|DESC))?(?:\s+NULLS\s+(FIRST|LAST))?\s*(,|\Z)", re.IGNORECASE
)


@dataclass(frozen=True)
class SortColumn:
    """A column to sort by. Without NULLS FIRST or LAST, nulls are the smallest values, as in Spark."""

    name: str
    descending: bool = False
    nulls_first: bool = True


def parse_sort_order(text: str) -> tuple[SortColumn, ...]:
    """Parse ``column [ASC | DESC] [NULLS FIRST | LAST], ...``; names become lower case.

    Raises StatementError for anything else: expressions, positions, LIMIT.
    """
    prefix = _PREFIX.match(text)
    place = prefix.end() if prefix else 0
    columns: list[SortColumn] = []
    separator = ","
    while separator:
        item = _ITEM.match(text, place) if len(text) <= _LONGEST else None
        if item is None or (item[2] or "").isdecimal():
            raise StatementError(
                f"ORDER BY of a compaction takes columns, each with ASC or DESC and NULLS FIRST or LAST: "
                f"not understood from {text[place : place + 60].strip()!r}"
            )
        name = item[2] or item[1].replace("``", "`")
        descending = (item[3] or "").upper() == "DESC"
        nulls_first = item[4].upper() == "FIRST" if item[4] else not descending
        columns.append(SortColumn(name.lower(), descending, nulls_first))
        place, separator = item.end(), item[5]
    return tuple(columns)


def format_sort_order(columns: Sequence[SortColumn]) -> str:
    """Write columns as `parse_sort_order` reads them, each with its direction and null order."""
    return ", ".join(
        f"{quote_name(column.name)} {'DESC' if column.descending else 'ASC'} "
        f"NULLS {'FIRST' if column.nulls_first else 'LAST'}"
        for column in columns
    )


def sort_columns(text: str | None, names: Collection[str]) -> tuple[SortColumn, ...]:
    """Return the columns of a clause of the queue, each of which must be one of ``names``; () for None.

    Raises StatementError, and NoSuchColumnError.
    """
    columns = () if text is None else parse_sort_order(text)
    for column in columns:
        if column.name not in names:
            raise no_such_column("ORDER BY of a compaction: the table", column.name, names)
    return columns
