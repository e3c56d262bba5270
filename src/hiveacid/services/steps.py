"""Initiator, worker, cleaner and housekeeper: each carries out one kind of due work in a ``step()``.

The initiator examines tables with new writes and queues due compactions (Hive's ``Initiator``). A worker carries out the
compactions of the queue one by one (Hive's ``Worker``). It does not repeat a failed job: the initiator decides when to
queue it again (`core.compaction.initiation_and_retry_policy`). The jobs of a worker that died go back into the queue. The
cleaner removes directories that no reader needs any more (Hive's ``Cleaner`` with its two handlers). The housekeeper aborts
silent transactions, drops old rows of the store (Hive's ``AcidHouseKeeper``) and records figures of tables over time.
`runner` pauses between steps.
"""

from __future__ import annotations

import logging
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import islice

from hiveacid.config import setting_definitions
from hiveacid.config.property_definitions import COMPACTOR, compactor_settings
from hiveacid.core.compaction import initiation_and_retry_policy as policy
from hiveacid.core.compaction.advice import FigureRecord, sum_figures, tables_to_record
from hiveacid.core.compaction.plan import CompactionKind
from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    ChangedPartition,
    Compaction,
    CompactionRequest,
)
from hiveacid.core.model import TableKind, TableName, TxnId
from hiveacid.core.transactions.commit_records import VISIBLE_WITHIN
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import CompactionError, CompactionRefusedError, ConfigError, HiveAcidError, StoreError
from hiveacid.ports.store import OwnStore, own_store
from hiveacid.spark.session.error_translation import is_spark_error
from hiveacid.spark.session.running_jobs_and_plans import cancel_jobs
from hiveacid.table.cleaning.clean_after_overwrite import OverwrittenCleaner
from hiveacid.table.cleaning.clean_compacted_and_aborted import clean_aborted, clean_job
from hiveacid.table.cleaning.remove_files import cleaning_delay
from hiveacid.table.compaction.need import (
    MOST_PARTITIONS,
    CompactedTable,
    Measurer,
    decide,
    load_table,
    state_of_files,
)
from hiveacid.table.compaction.run_compaction import CompactionReport, job_group, run_job
from hiveacid.table.context import Context, table_names

logger = logging.getLogger(__name__)

_LONGEST_RECORDING = 5_000  # ms of a turn, after which the next one goes on
_RECORDS_AT_ONCE = 50  # of figures, in one transaction of the database
_MOST_REMEMBERED = 100_000  # numbers of rows of files
_SUMS = ("bytes", "deltas", "delete_deltas", "files", "small_files")

_ENDED_BADLY = (CompactionState.FAILED, CompactionState.DID_NOT_INITIATE)

_WINDOW = setting_definitions.COMPACTION_WINDOW.name
_Key = tuple[TableName, str | None]


@dataclass(frozen=True)
class InitiatorFinding:
    """Decision on one table or partition; ``job``: the queued job, or the history's entry "did not initiate"."""

    table: TableName
    partition: str | None
    decision: policy.Decision
    figures: policy.LocationSizes | None = None
    job: Compaction | None = None


@dataclass
class Initiator:
    """Examines tables and partitions written since its last turn; at its first turn, all of them.

    Several initiators may run: the queue takes one job per table or partition. ``figures``: sizes at the last look at each
    table or partition with deltas, by database, table and partition ("" for none).
    """

    context: Context
    name: str
    figures: dict[tuple[str, str, str], policy.LocationSizes] = field(default_factory=dict, init=False)
    _seen: int = field(default=0, init=False)  # ms: commits and aborts from then on are examined
    # when (ms) to examine a location although nothing was written: a major compaction is due by time, or its window opens
    _again: dict[_Key, int] = field(default_factory=dict, init=False)

    def step(self) -> list[InitiatorFinding]:
        """Do one turn; return the decision on each table or partition with new writes or aborts.

        Returns nothing if ``hive.compactor.initiator.on`` is false.
        """
        if not self.context.settings.get(setting_definitions.INITIATOR_ON):
            return []
        store = own_store(self.context.store)
        now = store.now()
        attempts: dict[_Key, list[Compaction]] = defaultdict(list)
        for job in self.context.store.show_compactions():
            attempts[job.request.table, job.request.partition].append(job)
        candidates = {
            (partition.table, partition.partition): partition
            for partition in store.changed_partitions(self._seen)
        }
        for key, jobs in attempts.items():
            if jobs[-1].state in _ENDED_BADLY:  # a failed compaction is tried again even without new writes
                candidates.setdefault(key, ChangedPartition(*key))
        for key in [key for key, time in self._again.items() if time <= now]:
            candidates.setdefault(key, ChangedPartition(*key))
        loaded: dict[TableName, CompactedTable | None] = {}
        findings = [*self._findings(candidates, attempts, loaded, now)]
        self._forget_dropped(loaded)
        self._seen = max(0, now - VISIBLE_WITHIN)
        return findings

    def _findings(
        self,
        candidates: Mapping[_Key, ChangedPartition],
        attempts: Mapping[_Key, Sequence[Compaction]],
        tables: dict[TableName, CompactedTable | None],
        now: int,
    ) -> Iterator[InitiatorFinding]:
        for key, changed in sorted(candidates.items(), key=lambda item: (item[0][0], item[0][1] or "")):
            name, partition = key
            try:
                if name not in tables:
                    tables[name] = load_table(self.context.catalog, self.context.settings, name)
                table = tables[name]
                if table is None or partition not in table.partitions:
                    self._again.pop(key, None)
                    continue  # the table was dropped; or a writer aborted in an unknown partition: the cleaner's work
                yield self._assess(table, changed, attempts.get(key, ()), now)
            except HiveAcidError as error:
                yield self._decline_after_error(key, error, attempts.get(key, ()))

    def _assess(
        self, table: CompactedTable, changed: ChangedPartition, jobs: Sequence[Compaction], now: int
    ) -> InitiatorFinding:
        figures: policy.LocationSizes | None = None

        def measure() -> policy.LocationSizes:
            nonlocal figures
            partition = table.partitions[changed.partition]
            state = state_of_files(self.context, table.definition, partition)
            figures = policy.LocationSizes(0, 0, 0) if state is None else policy.measure_location(state)
            key = changed.table.database, changed.table.name, changed.partition or ""
            if figures.deltas or figures.obsolete_deltas:
                self.figures[key] = figures
            else:
                self.figures.pop(key, None)
            return figures

        decision = decide(table.candidate(changed, jobs), table.thresholds, now, measure)
        if decision.again is not None:
            self._again[changed.table, changed.partition] = decision.again
        else:
            self._again.pop((changed.table, changed.partition), None)
        job = self._enqueue_or_decline(table, changed, decision, jobs)
        logger.log(
            logging.INFO if job else logging.DEBUG,
            "%s%s: %s: %s",
            *(
                changed.table,
                f" {changed.partition}" if changed.partition else "",
                decision.kind,
                decision.reason,
            ),
        )
        return InitiatorFinding(changed.table, changed.partition, decision, figures, job)

    def _forget_dropped(self, loaded: Mapping[TableName, CompactedTable | None]) -> None:
        """Forget the figures of tables and partitions that are gone. No later write would do it."""
        names = set(table_names(self.context.catalog))

        def is_there(database: str, table: str, partition: str) -> bool:
            known = loaded.get(name := TableName(database, table))
            return name in names and (known is None or (partition or None) in known.partitions)

        self.figures = {key: sizes for key, sizes in self.figures.items() if is_there(*key)}

    def _enqueue_or_decline(
        self,
        table: CompactedTable,
        changed: ChangedPartition,
        decision: policy.Decision,
        jobs: Sequence[Compaction],
    ) -> Compaction | None:
        kind = decision.kind.value if decision.kind else "major"
        request = table.request(changed.partition, kind, decision.reason)
        window = table.settings.text(_WINDOW)
        # that of the table or database; the worker knows the service's
        if window != self.context.settings.text(_WINDOW):
            request = replace(request, properties=((COMPACTOR.name.replace("NAME", _WINDOW), window),))
        if decision.kind is not None:
            try:
                return self.context.store.enqueue_compaction(request, self.name)
            except CompactionRefusedError:
                # another initiator was first, or the same job is done and waits for the cleaner: the next turn looks
                self._again[changed.table, changed.partition] = 0
                return None
        if decision.noted and not (jobs and jobs[-1].state == CompactionState.DID_NOT_INITIATE):
            return own_store(self.context.store).decline_compaction(request, self.name, decision.reason)
        return None

    def _decline_after_error(
        self, key: _Key, error: HiveAcidError, jobs: Sequence[Compaction]
    ) -> InitiatorFinding:
        reason = f"Caught exception while trying to determine if we should compact: {error}"
        logger.warning("%s: %s", key[0], reason)
        job = None
        if not (jobs and jobs[-1].state == CompactionState.DID_NOT_INITIATE and jobs[-1].error == reason):
            request = CompactionRequest(*key, kind="major", reason=reason)
            job = own_store(self.context.store).decline_compaction(request, self.name, reason)
        return InitiatorFinding(*key, policy.Decision(None, reason, noted=True), job=job)


STOPPED = "the worker was told to stop; the job waits for the next one"


@dataclass
class Worker:
    """Worker of one pool. ``name`` must be unique among all workers, because the queue assigns jobs by it."""

    context: Context
    name: str
    pool: str = DEFAULT_POOL
    _stopping: bool = field(default=False, init=False)
    _job: Compaction | None = field(default=None, init=False)

    def stop(self) -> None:
        """Stop the running job, which goes back into the queue. Called from another thread."""
        self._stopping = True
        job = self._job
        if job is not None:
            cancel_jobs(self.context.env, job_group(job.id))

    def _claim(self) -> Compaction | None:
        """Claim the next job that may start now.

        A job whose window has closed while it waited goes back into the queue, and one behind it is taken instead.
        """
        store = self.context.store
        job = store.claim_compaction(self.name, pool=self.pool)
        if job is None or self._may_start(job):
            return job
        store.release_compaction(job.id, self.name)
        waiting = [
            other
            for other in store.show_compactions()
            if (other.state, other.request.pool) == (CompactionState.INITIATED, self.pool)
            and self._may_start(other)
        ]
        for other in sorted(waiting, key=lambda each: (-each.request.priority, each.id)):
            job = store.claim_compaction(self.name, other.id, self.pool)
            if job is not None:
                return job
        return None

    def _may_start(self, job: Compaction) -> bool:
        """Tell whether a job may start: an automatic major compaction only inside its window, or the service's if it has none."""
        if job.request.kind != CompactionKind.MAJOR or job.request.reason is None:
            return True
        try:
            settings = compactor_settings(self.context.settings, job.request.properties)
        except ConfigError:  # a time zone that this machine does not know: the job fails by it, and says so
            return True
        window = policy.parse_quiet_hours(settings.get(setting_definitions.COMPACTION_WINDOW))
        return window.is_open(own_store(self.context.store).now())

    def step(self) -> CompactionReport | None:
        """Carry out the next job and return its report, also after a failure; None if no job waits."""
        job = self._claim()
        if job is None:
            return None
        self._job = job
        try:
            return run_job(self.context, job, self.name, lambda: self._stopping)
        except Exception as error:
            if self._stopping:
                return CompactionReport(
                    job.id, job.request.kind, job.request.partition, CompactionState.INITIATED, STOPPED
                )
            if not isinstance(error, HiveAcidError) and not is_spark_error(error):
                raise
            logger.debug("compaction %s failed", job.id, exc_info=True)
            return CompactionReport(
                job.id, job.request.kind, job.request.partition, CompactionState.FAILED, str(error)[:500]
            )
        finally:
            self._job = None


_SWEEP_INTERVAL_MS = 600_000
"""Time between two searches of all tables for files of aborted writers and compactions."""


@dataclass(frozen=True)
class CleaningResult:
    """Result of one turn: removed paths, and texts of errors."""

    removed: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()


@dataclass
class Cleaner:
    """Cleans after compactions and overwrites whose old readers have ended, and after aborted transactions."""

    context: Context
    _overwritten: OverwrittenCleaner = field(init=False)
    _swept: int | None = field(default=None, init=False)
    _newest_abort_time_by_table: dict[TableName, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Create the cleaner of overwritten directories, which remembers obsolete files between turns."""
        self._overwritten = OverwrittenCleaner(self.context)

    def step(self) -> CleaningResult:
        """Clean everything that is ready.

        A failed cleaning after a compaction is repeated after growing pauses. Other failures are only reported: aborted
        writes get their next attempt at the search of all tables, overwritten files after the next write.
        """
        context = self.context
        context.read_leases.sweep()
        removed: list[str] = []
        errors: list[str] = []
        for job in own_store(context.store).ready_to_clean(cleaning_delay(context)):
            try:
                removed += clean_job(context, job.id)
            except HiveAcidError as error:
                errors.append(f"compaction {job.id} of {job.request.table}: {error}")
                self._postpone(job, error)

        def attempt(name: TableName, work: Callable[[], list[str]]) -> None:
            try:
                removed.extend(work())
            except HiveAcidError as error:
                errors.append(f"{name}: {error}")
                logger.warning("cleaning of %s failed: %s", name, error)

        self._overwritten.step(attempt)
        for name in self._tables_to_clean():
            attempt(name, partial(clean_aborted, context, name))
        return CleaningResult(tuple(removed), tuple(errors))

    def _postpone(self, job: Compaction, error: HiveAcidError) -> None:
        """Schedule the next attempt, or fail the job after its last one (Hive's rule).

        ``hive.compactor.cleaner.retry.maxattempts`` limits the attempts. The wait starts at
        ``hive.compactor.cleaner.retry.retention.time`` and doubles.
        """
        settings, store = self.context.settings, own_store(self.context.store)
        logger.warning("cleaning after compaction %s failed: %s", job.id, error)
        try:
            if job.cleanings + 1 >= settings.get(setting_definitions.CLEANER_MAX_RETRIES):
                store.end_compaction(job.id, CompactionState.FAILED, str(error)[:500])
            else:
                wait = settings.get(setting_definitions.CLEANER_RETRY_RETENTION) * 2**job.cleanings
                store.retry_cleaning(job.id, str(error)[:500], wait)
        except CompactionError:  # dropped with its table
            logger.debug("compaction %s is gone", job.id)

    def _tables_to_clean(self) -> list[TableName]:
        """Return tables with transactions aborted since the last turn; every ten minutes, all tables."""
        store = own_store(self.context.store)
        now = store.now()
        latest: dict[TableName, int] = {}  # time of the newest abort
        for changed in store.changed_partitions(now + 1):
            for abort_time in changed.aborted:
                latest[changed.table] = max(abort_time, latest.get(changed.table, 0))
        if self._swept is None or now - self._swept >= _SWEEP_INTERVAL_MS:
            self._swept = now
            names = table_names(self.context.catalog)
        else:
            newest = self._newest_abort_time_by_table
            names = [name for name, abort_time in latest.items() if abort_time > newest.get(name, 0)]
        self._newest_abort_time_by_table = latest
        return names


@dataclass
class Housekeeper:
    """Housekeeper of a context."""

    context: Context
    _recorder: FigureRecorder = field(init=False)

    def __post_init__(self) -> None:
        """Create the recorder of figures, which goes on from turn to turn."""
        self._recorder = FigureRecorder(self.context)

    def step(self) -> tuple[TxnId, ...]:
        """Do one turn; return the transactions that were aborted because their heartbeats stopped."""
        store = own_store(self.context.store)
        aborted = store.abort_timed_out()
        store.housekeep()
        self._recorder.step()
        return aborted


@dataclass
class FigureRecorder:
    """Records tables that changed, once per ``hiveacid.figures.interval`` in one process of all, and then the whole store."""

    context: Context
    _measurer: Measurer = field(init=False)
    _waiting: deque[TableName] = field(default_factory=deque, init=False)

    def __post_init__(self) -> None:
        """Remember nothing yet."""
        self._measurer = Measurer(self.context, _MOST_REMEMBERED)

    def step(self) -> int:
        """Record for some seconds; return the number of tables."""
        settings, store = self.context.settings, own_store(self.context.store)
        interval = settings.get(setting_definitions.FIGURES_INTERVAL)
        if not self._waiting:
            retention = settings.get(setting_definitions.FIGURES_RETENTION)
            if not interval or not store.claim_figures(interval, retention):
                return 0
            self._waiting += tables_to_record(
                table_names(self.context.catalog),
                store.latest_figures(),
                store.changed_partitions(),
                store.show_compactions(),
            )
        clock, recorded = self.context.clock, 0
        end = clock.now() + _LONGEST_RECORDING
        while self._waiting and clock.now() < end:
            records: list[FigureRecord] = []
            while self._waiting and len(records) < _RECORDS_AT_ONCE and clock.now() < end:
                record = self._measure(self._waiting.popleft(), store)
                records += [] if record is None else [record]
            store.record_figures(records)
            recorded += len(records)
        if not self._waiting:
            self._record_store(store)
        return recorded

    def _measure(self, name: TableName, store: OwnStore) -> FigureRecord | None:
        """Return the figures of a table; None if it is gone, plain, or cannot be looked at."""
        try:
            table = load_table(self.context.catalog, self.context.settings, name)
            if table is None or table.definition.kind is TableKind.PLAIN:
                return None
            now, places = store.now(), islice(table.partitions, MOST_PARTITIONS)
            figures = sum_figures(self._measurer.figures_of(table, partition) for partition in places)
        except StoreError:
            raise
        except HiveAcidError as error:
            logger.warning("the figures of %s cannot be recorded now: %s", name, error)
            return None
        return FigureRecord(name, now, asdict(figures), table.definition.incarnation)

    def _record_store(self, store: OwnStore) -> None:
        names = set(table_names(self.context.catalog))  # one may have been dropped while it was measured
        tables = [record.figures for name, record in store.latest_figures().items() if name in names]
        begun, conflicts = store.count_transactions()
        sums = {name: sum(one[name] or 0 for one in tables) for name in _SUMS}
        figures = {**sums, "tables": len(tables), "begun": begun, "conflicts": conflicts}
        store.record_figures([FigureRecord(None, store.now(), figures)])
