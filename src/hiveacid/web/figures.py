"""Figures of all tables, measured in the background, so that a page waits for no file system."""

from __future__ import annotations

import logging
import threading
from collections import defaultdict, deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from hiveacid.config import Settings
from hiveacid.core.compaction.advice import (
    Advice,
    FigureRecord,
    LocationNeed,
    Need,
    TableFigures,
    advise,
    sum_figures,
)
from hiveacid.core.compaction.queue_records import SERVICE_TIMEOUT, ChangedPartition, Compaction, Service
from hiveacid.core.model import TableKind, TableName
from hiveacid.core.transactions.commit_records import VISIBLE_WITHIN
from hiveacid.errors import HiveAcidError
from hiveacid.ports.store import own_store
from hiveacid.table.compaction.need import MOST_PARTITIONS, CompactedTable, Measurer, decide, load_table
from hiveacid.table.context import table_names
from hiveacid.table.read.inventory import TableAccess

logger = logging.getLogger(__name__)

INTERVAL = 15.0
"""Seconds between two turns."""
_SHORTEST_AGE = 60_000  # ms between two looks at a table that is written all the time
_SHOWN_AGE = 300_000  # ms after which a table that a page shows is measured again
_FOREIGN_AGE = (
    3_600_000  # ms after which a table is measured again, in a store that does not tell what changed
)
_MOST_REMEMBERED = 500_000  # numbers of rows of files
_STOPPING_SECONDS = 5.0  # that a call to a store that is away may take at the end
_SAMPLES = 24 * 60 * 4


_NOT_MEASURED = Advice(Need.UNKNOWN, "Not measured yet.")


@dataclass(frozen=True)
class TableStatus:
    """A table as it was last measured (ms; None: not yet). ``note``: what the figures lack."""

    name: TableName
    kind: str = ""
    advice: Advice = _NOT_MEASURED
    figures: TableFigures | None = None
    partitions: int = 0
    locations: tuple[LocationNeed, ...] = ()
    disabled: str | None = None
    measured: int | None = None
    note: str = ""


@dataclass(frozen=True)
class ConflictSample:
    """Transactions that had begun, and those that a conflict had refused, by a moment (ms)."""

    time: int
    begun: int
    conflicts: int


@dataclass(frozen=True)
class Overview:
    """All that the keeper knows. ``tables`` is filled while it measures. ``error``: why its last turn failed.

    ``recorded``: figures of the whole store, as services recorded them.
    """

    now: int = 0
    tables: dict[TableName, TableStatus] = field(default_factory=dict)
    jobs: tuple[Compaction, ...] = ()
    services: tuple[Service, ...] | None = None
    samples: tuple[ConflictSample, ...] = ()
    recorded: tuple[FigureRecord, ...] = ()
    tells_conflicts: bool = True
    error: str | None = None

    @property
    def initiator_runs(self) -> bool:
        """Tell whether due compactions are queued by themselves; a metastore's own initiator is taken to run."""
        return self.services is None or any(one.kind == "initiator" for one in self.services)


class FigureKeeper:
    """Measures tables that were written or compacted; `overview` is what it knows now."""

    def __init__(self, access: TableAccess, settings: Settings) -> None:
        """Know nothing yet."""
        self._access = access
        self._settings = settings
        self._overview = Overview()
        self._measurer = Measurer(access, _MOST_REMEMBERED)
        self._fingerprints: dict[TableName, tuple[object, object]] = {}
        self._samples: deque[ConflictSample] = deque(maxlen=_SAMPLES)
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._listed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="hiveacid-figures", daemon=True)

    @property
    def overview(self) -> Overview:
        """Return what is known now."""
        return self._overview

    def start(self) -> None:
        """Begin to measure."""
        self._thread.start()

    def wait_for_names(self, seconds: float) -> None:
        """Wait until the tables are listed for the first time, or cannot be."""
        self._listed.wait(seconds)

    def close(self) -> None:
        """End."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join(_STOPPING_SECONDS)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                self.turn()
            except Exception as error:  # the pages go on with what is known, and show the error
                logger.warning(
                    "tables cannot be measured now: %s", error, exc_info=not isinstance(error, HiveAcidError)
                )
                self._publish(error=str(error)[:500])
                self._listed.set()
            self._stop.wait(INTERVAL)

    def turn(self) -> None:
        """Ask the store once, and measure the tables that need it."""
        access, store = self._access, self._access.store
        now, jobs = store.now(), store.show_compactions()
        own = own_store(store) if store.maintained_by_hiveacid() else None
        services = None if own is None else own.show_services(SERVICE_TIMEOUT)
        changed: dict[TableName, list[ChangedPartition]] = defaultdict(list)
        for partition in () if own is None else own.changed_partitions(0):
            changed[partition.table].append(partition)
        by_table: dict[TableName, list[Compaction]] = defaultdict(list)
        for job in jobs:
            by_table[job.request.table].append(job)
        self._sample(now)
        names = table_names(access.catalog)
        known = self._overview.tables
        tables = {name: known.get(name) or TableStatus(name) for name in names}
        recorded = () if own is None else own.recorded_figures(None)
        self._publish(now=now, tables=tables, jobs=jobs, services=services, recorded=recorded, error=None)
        self._listed.set()
        for gone in set(self._fingerprints) - tables.keys():
            del self._fingerprints[gone]
        for name in sorted(names, key=lambda name: name not in changed):
            if self._stop.is_set():
                return
            jobs_now = tuple((job.id, job.state) for job in by_table[name])
            writes_now = tuple((one.partition, one.changed, one.aborted) for one in changed[name])
            newest = max((one.changed or 0 for one in changed[name]), default=0)
            before = tables[name].measured
            age = now - (before or 0)
            jobs_then, writes_then = self._fingerprints.get(name, (None, None))
            is_old = age > _FOREIGN_AGE if own is None else newest > (before or 0) - VISIBLE_WITHIN
            if (
                before is None
                or jobs_now != jobs_then
                or (age >= _SHORTEST_AGE and (is_old or writes_now != writes_then))
            ):
                self._put(self._measure(name, by_table[name], changed[name], now))
                self._fingerprints[name] = jobs_now, writes_now

    def ask_for(self, name: TableName) -> None:
        """Let the next turn measure a table that a page shows, if that was not done lately."""
        known = self._overview.tables.get(name)
        if known is not None and self._overview.now - (known.measured or 0) >= _SHOWN_AGE:
            self._fingerprints.pop(name, None)

    def refresh(self, name: TableName) -> None:
        """Measure one table now, after an action on it."""
        store = self._access.store
        jobs = store.show_compactions()
        self._publish(jobs=jobs)
        of_table = [job for job in jobs if job.request.table == name]
        self._put(self._measure(name, of_table, (), store.now()))

    def _publish(self, **changes: object) -> None:
        with self._lock:
            before = self._overview
            after = replace(before, **changes)  # type: ignore[arg-type]
            if after.initiator_runs != before.initiator_runs:
                after = replace(
                    after,
                    tables={
                        name: _advised(one, runs=after.initiator_runs) for name, one in after.tables.items()
                    },
                )
            self._overview = after

    def _put(self, status: TableStatus) -> None:
        with self._lock:
            advised = _advised(status, runs=self._overview.initiator_runs)
            tables = self._overview.tables
            if status.name in tables:
                tables[status.name] = advised

    def _sample(self, now: int) -> None:
        """Note how many transactions began and were refused by a conflict, which a store of hiveacid's own counts."""
        store = self._access.store
        own = store.maintained_by_hiveacid()
        if own:
            self._samples.append(ConflictSample(now, *own_store(store).count_transactions()))
        self._publish(samples=tuple(self._samples), tells_conflicts=own)

    def _measure(
        self, name: TableName, jobs: Sequence[Compaction], changed: Sequence[ChangedPartition], now: int
    ) -> TableStatus:
        try:
            table = load_table(self._access.catalog, self._settings, name)
            if table is None:
                return TableStatus(name)
            return self._measure_table(table, jobs, changed, now)
        except HiveAcidError as error:
            text = f"Its files cannot be looked at: {error}"[:300]
            return TableStatus(name, advice=Advice(Need.FAILING, text), measured=now)

    def _measure_table(
        self, table: CompactedTable, jobs: Sequence[Compaction], changed: Sequence[ChangedPartition], now: int
    ) -> TableStatus:
        definition = table.definition
        status = TableStatus(
            definition.name,
            definition.kind.value,
            partitions=len(table.partitions) if definition.partition_columns else 0,
            disabled=table.disabled,
            measured=now,
        )
        if definition.kind is TableKind.PLAIN:
            return status
        latest: dict[str | None, list[Compaction]] = defaultdict(list)
        for job in jobs:
            latest[job.request.partition].append(job)
        aborted = {one.partition: one for one in changed}
        locations = [
            self._need(table, partition, aborted.get(partition), latest[partition], now)
            for partition in list(table.partitions)[:MOST_PARTITIONS]
        ]
        note = ""
        if len(table.partitions) > MOST_PARTITIONS:
            note = f"Measured of {MOST_PARTITIONS:,} of {len(table.partitions):,} partitions."
        figures = sum_figures(one.figures for one in locations)
        return replace(status, figures=figures, locations=tuple(locations), note=note)

    def _need(
        self,
        table: CompactedTable,
        partition: str | None,
        changed: ChangedPartition | None,
        jobs: Sequence[Compaction],
        now: int,
    ) -> LocationNeed:
        figures = self._measurer.figures_of(table, partition)
        candidate = replace(
            table.candidate(changed or ChangedPartition(table.definition.name, partition), jobs),
            disabled=None,
        )
        decision = decide(candidate, table.thresholds, now, lambda: figures.sizes)
        last = jobs[-1] if jobs else None
        return LocationNeed(
            partition,
            figures,
            decision,
            None if last is None else last.state,
            None if last is None else last.error,
        )


def _advised(status: TableStatus, *, runs: bool) -> TableStatus:
    """Return a status with the advice on it."""
    if not status.kind:
        return status
    kind = TableKind(status.kind)
    advice = advise(kind, status.locations, status.disabled, initiator_runs=runs)
    return replace(status, advice=advice)
