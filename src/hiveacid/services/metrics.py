"""Metrics for operators under Hive 4's names (``MetricsConstants``, ``AcidMetricService``)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter

from hiveacid.core.compaction.initiation_and_retry_policy import LocationSizes
from hiveacid.core.compaction.queue_records import ChangedPartition, Compaction, Service
from hiveacid.core.transactions.states import COMPACTION, CompactionState
from hiveacid.ports.transactions import LockRow, TransactionRow
from hiveacid.services.runner import LoopState

MANY_ABORTS = 1500
"""``metastore.acidmetrics.table.aborted.txns.threshold``"""

Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Metric:
    """One metric: name, kind (gauge or counter), help text, and values by labels."""

    name: str
    help: str
    values: Mapping[Labels, float]
    kind: str = "gauge"


@dataclass(frozen=True)
class StoreRows:
    """Rows of a store from which metrics are computed; times in ms by the store's clock, ``now`` included."""

    now: int
    compactions: Sequence[Compaction]
    transactions: Sequence[TransactionRow]
    locks: Sequence[LockRow]
    services: Sequence[Service]
    changed_partitions: Sequence[ChangedPartition]


def _age(now: int, since: Iterable[int | None]) -> float:
    """Return the age in seconds of the oldest time in ``since``, 0 if there is none."""
    oldest = min((moment for moment in since if moment is not None), default=None)
    return 0.0 if oldest is None else max(0.0, (now - oldest) / 1000)


def store_metrics(figures: StoreRows) -> Iterator[Metric]:
    """Yield metrics of the store: compaction queue, transactions, locks, services."""
    yield from _queue(figures)
    yield from _pools(figures)
    yield from _transactions(figures)
    locks = [lock.acquired_at for lock in figures.locks]
    yield _gauge("num_locks", "Locks, held and waiting.", len(figures.locks))
    yield _gauge(
        "oldest_lock_age_in_sec", "Time since the oldest held lock was acquired.", _age(figures.now, locks)
    )
    for kind in ("initiator", "worker"):
        alive = [service for service in figures.services if service.kind == kind]
        versions = {service.version for service in alive}
        yield _gauge(f"compaction_num_{kind}s", f"{kind.capitalize()}s that are alive.", len(alive))
        yield _gauge(
            f"compaction_num_{kind}_versions",
            f"Different versions of the {kind}s that are alive.",
            len(versions),
        )


def _gauge(name: str, help_: str, value: float) -> Metric:
    return Metric(name, help_, {(): value})


def _queue(figures: StoreRows) -> Iterator[Metric]:
    now, jobs = figures.now, figures.compactions
    states = Counter(job.state for job in jobs)
    for state in COMPACTION.states:
        name = f"compaction_num_{state.replace(' ', '_')}"
        yield _gauge(
            name,
            f"Compactions in state {state}; ended ones as long as the history keeps them.",
            states[state],
        )

    def ages(state: str, of: Callable[[Compaction], int | None]) -> float:
        return _age(now, (of(job) for job in jobs if job.state == state))

    waiting = ages(CompactionState.INITIATED, attrgetter("enqueued"))
    working = ages(CompactionState.WORKING, attrgetter("started"))
    cleaning = ages(CompactionState.READY_FOR_CLEANING, attrgetter("commit_time"))
    yield _gauge(
        "compaction_oldest_enqueue_age_in_sec",
        "Age of the oldest compaction that waits for a worker.",
        waiting,
    )
    yield _gauge(
        "compaction_oldest_working_age_in_sec",
        "Age of the oldest compaction that a worker carries out.",
        working,
    )
    yield _gauge(
        "compaction_oldest_cleaning_age_in_sec",
        "Age of the oldest finished compaction that waits for the cleaner.",
        cleaning,
    )
    yield _gauge(
        "oldest_ready_for_cleaning_age_in_sec", "Same as compaction_oldest_cleaning_age_in_sec.", cleaning
    )


def _pools(figures: StoreRows) -> Iterator[Metric]:
    by_state = (
        (CompactionState.INITIATED, "initiated", "enqueue", attrgetter("enqueued")),
        (CompactionState.WORKING, "working", "working", attrgetter("started")),
    )
    for state, count_name, age_name, since in by_state:
        pools: dict[str, list[int | None]] = defaultdict(list)
        for job in figures.compactions:
            if job.state == state:
                pools[job.request.pool].append(since(job))
        yield Metric(
            f"compaction_pools_{count_name}_item_count",
            f"Compactions in state {state}, by pool.",
            {(("pool", pool),): float(len(times)) for pool, times in pools.items()},
        )
        yield Metric(
            f"compaction_pools_oldest_{age_name}_age_in_sec",
            f"Age of the oldest compaction in state {state}, by pool.",
            {(("pool", pool),): _age(figures.now, times) for pool, times in pools.items()},
        )


def _transactions(figures: StoreRows) -> Iterator[Metric]:
    alive = [txn for txn in figures.transactions if txn.state == "OPEN"]
    aborted = [txn for txn in figures.transactions if txn.state == "ABORTED"]
    for state, txns in (("open_non_repl", alive), ("aborted", aborted)):
        words = "open" if txns is alive else "aborted and not cleaned"
        ids, since = [int(txn.txn_id) for txn in txns], [txn.started for txn in txns]
        count = "num_open_non_repl_transactions" if txns is alive else "num_aborted_transactions"
        yield _gauge(count, f"Transactions that are {words}.", len(txns))
        yield _gauge(
            f"oldest_{state}_txn_id",
            f"Lowest id of the transactions that are {words}; 0: none.",
            min(ids, default=0),
        )
        yield _gauge(
            f"oldest_{state}_txn_age_in_sec",
            f"Age of the oldest transaction that is {words}.",
            _age(figures.now, since),
        )
    yield _gauge("num_open_transactions", "Transactions that are open.", len(alive))
    by_table: Counter[object] = Counter()
    for changed in figures.changed_partitions:
        by_table[changed.table] += len(changed.aborted)
    many = sum(count > MANY_ABORTS for count in by_table.values())
    yield _gauge(
        "tables_with_x_aborted_transactions",
        f"Tables with more than {MANY_ABORTS} aborted writes; each partition of a transaction counts.",
        many,
    )


def location_metrics(figures: Mapping[tuple[str, str, str], LocationSizes]) -> Iterator[Metric]:
    """Yield metrics of `Initiator.figures`, by database, table and partition ("" for none)."""

    def one(name: str, words: str, count: Callable[[LocationSizes], int]) -> Metric:
        values: dict[Labels, float] = {
            (("database", database), ("table", table), ("partition", partition)): float(count(sizes))
            for (database, table, partition), sizes in figures.items()
        }
        return Metric(f"compaction_num_{name}_deltas", words, values)

    yield one("active", "Deltas and delete deltas that readers read.", lambda sizes: sizes.deltas)
    yield one("small", "Deltas smaller than 1 % of the base.", lambda sizes: sizes.small_deltas)
    yield one("obsolete", "Deltas that wait for the cleaner.", lambda sizes: sizes.obsolete_deltas)


def loop_metrics(loops: Mapping[str, LoopState]) -> Iterator[Metric]:
    """Yield metrics of the turns of this process's services."""
    for kind in ("initiator", "worker", "cleaner"):
        own: dict[Labels, LoopState] = {
            (("service", name),): loop for name, loop in loops.items() if loop.kind == kind
        }
        if not own:
            continue
        turns = {labels: float(loop.turns) for labels, loop in own.items()}
        yield Metric(f"compaction_{kind}_cycle", f"Successful turns of the {kind}.", turns, "counter")
        seconds = {labels: loop.seconds for labels, loop in own.items()}
        yield Metric(
            f"compaction_{kind}_cycle_duration",
            f"Seconds that the last successful turn of the {kind} took.",
            seconds,
        )
        failures = {labels: float(loop.failures) for labels, loop in own.items()}
        yield Metric(
            f"compaction_{kind}_failure_counter", f"Failed turns of the {kind}.", failures, "counter"
        )
