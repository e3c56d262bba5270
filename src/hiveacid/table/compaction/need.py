"""Need of compaction: the thresholds, files, figures and decision of a table's locations. Needs no Spark.

The initiator queues jobs by it, and `hiveacid.web` shows it. `core.compaction.initiation_and_retry_policy` decides.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from hiveacid import errors
from hiveacid.config import Settings, setting_definitions
from hiveacid.config.property_definitions import NO_AUTO_COMPACTION, compactor_settings
from hiveacid.core.compaction import initiation_and_retry_policy as policy
from hiveacid.core.compaction.advice import LocationFigures, file_figures
from hiveacid.core.compaction.queue_records import (
    DEFAULT_POOL,
    ChangedPartition,
    Compaction,
    CompactionRequest,
)
from hiveacid.core.model import Partition, TableDefinition, TableName
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.core.transactions.states import CompactionState
from hiveacid.orc.footer_summary import read_summary
from hiveacid.ports.catalog import Catalog
from hiveacid.ports.store import TransactionStore
from hiveacid.storage.snapshot_locations import read_location
from hiveacid.table.partitions import partition_name
from hiveacid.table.read.inventory import TableAccess

MOST_PARTITIONS = 2000
"""Partitions of a table that are listed."""
_MOST_FOOTERS = 2000  # of a location that are read
_GAVE_WAY = "a user asked for the same meanwhile"


@dataclass(frozen=True)
class CompactedTable:
    """A table, its settings for compaction, and its partitions by name (an unpartitioned table: itself, by None).

    ``disabled``: "table" or "database", depending on where ``no_auto_compaction`` is set; None: nowhere.
    """

    definition: TableDefinition
    settings: Settings
    thresholds: policy.Thresholds
    disabled: str | None
    partitions: Mapping[str | None, Partition | None]

    def request(self, partition: str | None, kind: str, reason: str | None = None) -> CompactionRequest:
        """Return the request for a job in the pool, and with the priority, of the table."""
        return CompactionRequest(
            self.definition.name,
            partition,
            kind,
            pool=self.settings.get(setting_definitions.WORKER_POOL) or DEFAULT_POOL,
            priority=self.settings.get(setting_definitions.PRIORITY),
            reason=reason,
        )

    def candidate(self, changed: ChangedPartition, jobs: Sequence[Compaction]) -> policy.CompactionCandidate:
        """Return what the policy asks of a location before its files; ``jobs``: those of this location."""
        return policy.CompactionCandidate(self.definition.kind, tuple(jobs), changed.aborted, self.disabled)


def thresholds_of(settings: Settings) -> policy.Thresholds:
    """Read the thresholds from settings."""
    return policy.Thresholds(
        delta_num=settings.get(setting_definitions.DELTA_NUM_THRESHOLD),
        delta_pct=settings.get(setting_definitions.DELTA_PCT_THRESHOLD),
        aborted_txns=settings.get(setting_definitions.ABORTED_TXN_THRESHOLD),
        aborted_age=settings.get(setting_definitions.ABORTED_TXN_TIME_THRESHOLD),
        failures=settings.get(setting_definitions.FAILED_COMPACTS_THRESHOLD),
        retry_after=settings.get(setting_definitions.FAILED_RETRY_TIME),
        insert_only=settings.get(setting_definitions.COMPACT_INSERT_ONLY),
        major_interval=settings.get(setting_definitions.MAJOR_INTERVAL),
        window=policy.parse_quiet_hours(settings.get(setting_definitions.COMPACTION_WINDOW)),
    )


def load_table(catalog: Catalog, settings: Settings, name: TableName) -> CompactedTable | None:
    """Look up a table; None if it does not exist."""
    definition, database = catalog.get_table(name), catalog.get_database(name.database)
    if definition is None or database is None:
        return None
    settings = compactor_settings(settings, database.properties, definition.properties)
    disabled = "database" if NO_AUTO_COMPACTION.is_set(database.properties) else None
    if NO_AUTO_COMPACTION.is_set(definition.properties):
        disabled = "table"
    by_name: dict[str | None, Partition | None] = {None: None}
    if definition.partition_columns:
        partitions = catalog.list_partitions(name)
        by_name = {partition_name(definition, partition.values): partition for partition in partitions}
    return CompactedTable(definition, settings, thresholds_of(settings), disabled, by_name)


def decide(
    candidate: policy.CompactionCandidate,
    thresholds: policy.Thresholds,
    now: int,
    measure: Callable[[], policy.LocationSizes],
) -> policy.Decision:
    """Return the decision on a location; ``measure`` lists its files, and is called only if they matter."""
    declined = policy.decide_not_to_initiate(candidate, thresholds, now)
    if declined is not None:
        return declined
    decision, figures = policy.decide_by_aborts(candidate, thresholds, now), None
    if decision is None:
        figures = measure()
        decision = policy.decide_by_files(figures, thresholds)
        decision = policy.decide_by_time(figures, thresholds, now, decision)
    return policy.wait_for_window(decision, figures, thresholds, now)


def enqueue_for_user(store: TransactionStore, request: CompactionRequest, initiator: str) -> Compaction:
    """Queue a job that a user asks for. An equal automatic one that waits, perhaps for its window, gives way to it.

    Raises CompactionRefusedError.
    """
    request = replace(request, reason=None)
    try:
        return store.enqueue_compaction(request, initiator)
    except errors.CompactionRefusedError:
        place = (request.table, request.partition, request.kind)
        for job in store.show_compactions():
            of = job.request
            if (
                job.state == CompactionState.INITIATED
                and (of.table, of.partition, of.kind) == place
                and of.reason is not None
            ):
                # a worker has just begun it
                with suppress(errors.TransactionStateError, errors.CompactionError):
                    store.end_compaction(job.id, CompactionState.DID_NOT_INITIATE, _GAVE_WAY)
                return store.enqueue_compaction(request, initiator)
        raise


def state_of_files(
    access: TableAccess, table: TableDefinition, partition: Partition | None
) -> AcidState | None:
    """Return what a compaction would find at a location now; None if the directory is missing."""
    txns = access.store.valid_txns()
    write_ids = access.store.valid_write_ids(txns, [table.name])[table.name].compactor()
    root = table.location if partition is None else partition.location
    try:
        return read_location(access.fs, table, root, partition, write_ids, txns).state
    except errors.MissingDirectoryError:
        return None


@dataclass
class Measurer:
    """Measures locations. ``most_remembered``: numbers of rows of files that are kept for the next look."""

    access: TableAccess
    most_remembered: int
    _rows: dict[tuple[str, int], int | None] = field(default_factory=dict, init=False)

    def figures_of(self, table: CompactedTable, partition: str | None) -> LocationFigures:
        """Return the figures of a partition, or (None) of an unpartitioned table; zeros if the directory is missing."""
        definition, part = table.definition, table.partitions[partition]
        state = state_of_files(self.access, definition, part)
        if state is None:
            return LocationFigures(policy.LocationSizes(0, 0, 0))
        rows, deletes = self._count_rows(definition.location if part is None else part.location, state)
        return replace(file_figures(state, policy.measure_location(state)), rows=rows, deletes=deletes)

    def _count_rows(self, root: str, state: AcidState) -> tuple[int | None, int | None]:
        """Return the rows and the delete events in the files, None if footers do not tell or are too many."""
        if len(self._rows) > self.most_remembered:
            self._rows.clear()
        with_rows = [file for item in state.row_directories for file in item.files]
        with_events = [file for item in state.delete_deltas for file in item.files]
        if len(with_rows) + len(with_events) + len(state.originals) > _MOST_FOOTERS:
            return None, None
        counts: list[int | None] = []
        for files in ((*with_rows, *state.originals), with_events):
            found = [self._rows_of(f"{root}/{file.path}", file.size) for file in files]
            counts.append(None if None in found else sum(rows or 0 for rows in found))
        return counts[0], counts[1]

    def _rows_of(self, path: str, size: int) -> int | None:
        key = path, size
        with suppress(KeyError):  # another thread may clear what is remembered at any time
            return self._rows[key]
        try:
            rows = read_summary(self.access.fs, path, size).rows
        except errors.HiveAcidError:  # no ORC file, or a damaged one: hiveacid check tells
            rows = None
        self._rows[key] = rows
        return rows
