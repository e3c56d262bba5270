"""Advice on the compaction of a table, in one sentence; figures of tables, now and over time.

`initiation_and_retry_policy` decides what is due. This module adds what an operator wants to know besides: rows that are
deleted and still read, small files, failed jobs, and services that do not run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from hiveacid.core.compaction.initiation_and_retry_policy import Decision, LocationSizes
from hiveacid.core.compaction.queue_records import ChangedPartition, Compaction
from hiveacid.core.model import TableKind, TableName
from hiveacid.core.snapshot.selection import AcidState
from hiveacid.core.transactions.commit_records import VISIBLE_WITHIN
from hiveacid.core.transactions.states import UNDER_WAY, CompactionState

SMALL_FILE = 1 << 24
"""Bytes below which a file counts as small; a reader spends more time on opening it than on its rows."""
_MANY_DELETED = 0.2
"""Share of deleted rows from which a compaction is advised."""
_DAY = 86_400_000  # ms
_ALL_KEPT = 2 * _DAY
_MANY_SMALL = 100
_LONGEST_ERROR = 160


class Need(StrEnum):
    """Urgency of a table's compaction, the most urgent first."""

    FAILING = "failing"
    DUE = "due"
    RUNNING = "running"
    WORTHWHILE = "worthwhile"
    FINE = "fine"
    UNKNOWN = "unknown"
    NONE = "none"

    @property
    def rank(self) -> int:
        """Return the place in the order of urgency."""
        return _RANKS[self]


_RANKS = {need: place for place, need in enumerate(Need)}


@dataclass(frozen=True)
class Advice:
    """A need and the sentence that explains it."""

    need: Need
    text: str


@dataclass(frozen=True)
class LocationFigures:
    """Figures of a location as readers see it. ``rows``, ``deletes``: rows and delete events in the files; None: unknown."""

    sizes: LocationSizes
    files: int = 0
    small_files: int = 0
    small_delta_files: int = 0
    rows: int | None = None
    deletes: int | None = None
    delete_deltas: int = 0

    @property
    def bytes(self) -> int:
        """Bytes of all files that are read."""
        return self.sizes.base_bytes + self.sizes.delta_bytes


@dataclass(frozen=True)
class LocationNeed:
    """A location's figures, the decision on it, and its latest job (state and error), if there is one."""

    partition: str | None
    figures: LocationFigures
    decision: Decision
    state: str | None = None
    error: str | None = None


@dataclass(frozen=True)
class TableFigures:
    """Sums over the locations of a table."""

    bytes: int = 0
    delta_bytes: int = 0
    deltas: int = 0
    files: int = 0
    small_files: int = 0
    small_delta_files: int = 0
    rows: int | None = 0
    deletes: int | None = 0
    delete_deltas: int = 0

    @property
    def deleted_share(self) -> float | None:
        """Share of the rows in the files that delete events hide; None if unknown."""
        if self.rows is None or self.deletes is None:
            return None
        return min(1.0, self.deletes / self.rows) if self.rows else 0.0

    @property
    def live_rows(self) -> int | None:
        """Rows that readers see, if each delete event hides one; None if unknown."""
        return None if self.rows is None or self.deletes is None else max(0, self.rows - self.deletes)


def file_figures(state: AcidState, sizes: LocationSizes) -> LocationFigures:
    """Count what a snapshot reads at a location; the rows are not known from a listing."""
    settled = (*(() if state.base is None else state.base.files), *state.originals)
    deltas = [file for item in (*state.deltas, *state.delete_deltas) for file in item.files]
    small = sum(file.size < SMALL_FILE for file in deltas)
    return LocationFigures(
        sizes,
        files=len(settled) + len(deltas),
        small_files=sum(file.size < SMALL_FILE for file in settled) + small,
        small_delta_files=small,
        delete_deltas=len(state.delete_deltas),
    )


def sum_figures(locations: Iterable[LocationFigures]) -> TableFigures:
    """Sum up locations; rows that are unknown of one are unknown of the table."""
    found = list(locations)

    def total(counts: Iterable[int | None]) -> int | None:
        known = list(counts)
        return None if None in known else sum(count or 0 for count in known)

    return TableFigures(
        sum(one.bytes for one in found),
        sum(one.sizes.delta_bytes for one in found),
        sum(one.sizes.deltas for one in found),
        sum(one.files for one in found),
        sum(one.small_files for one in found),
        sum(one.small_delta_files for one in found),
        total(one.rows for one in found),
        total(one.deletes for one in found),
        sum(one.delete_deltas for one in found),
    )


def advise(
    kind: TableKind, locations: Sequence[LocationNeed], disabled: str | None, *, initiator_runs: bool
) -> Advice:
    """Return the advice on a table.

    ``disabled``: where automatic compaction is off (`CompactionCandidate`). ``initiator_runs``: some process queues due jobs.
    """
    if kind is TableKind.PLAIN:
        return Advice(Need.NONE, "The table is not transactional: there is nothing to compact.")
    failed = [one for one in locations if one.state == CompactionState.FAILED]
    if failed:
        error = (failed[0].error or "no error was recorded")[:_LONGEST_ERROR]
        return Advice(Need.FAILING, f"The last compaction{_of(failed, locations)} failed: {error}")
    due = [one for one in locations if one.decision.kind is not None]
    if due and disabled is None and initiator_runs:
        return Advice(
            Need.DUE, f"Due{_of(due, locations)}, and queued soon: {_sentence(due[0].decision.reason)}"
        )
    if due:
        why = "no initiator runs" if disabled is None else f"no_auto_compaction is set on the {disabled}"
        reason = due[0].decision.reason
        return Advice(
            Need.DUE, f"Compact it{_of(due, locations)} by hand, because {why}: {_sentence(reason)}"
        )
    running = [one for one in locations if one.state in UNDER_WAY]
    if running:
        does = "runs" if any(one.state == CompactionState.WORKING for one in running) else "is queued"
        return Advice(Need.RUNNING, f"A compaction{_of(running, locations)} {does}.")
    declined = [one for one in locations if one.state == CompactionState.DID_NOT_INITIATE]
    if declined:
        reason = declined[0].error or declined[0].decision.reason
        return Advice(Need.FAILING, f"Not compacted{_of(declined, locations)}: {_sentence(reason)}")
    return _advise_on_figures(sum_figures(one.figures for one in locations), disabled)


def _advise_on_figures(figures: TableFigures, disabled: str | None) -> Advice:
    share = figures.deleted_share
    if share is not None and share >= _MANY_DELETED:
        text = f"{share:.0%} of the rows are deleted and still read: a major compaction removes them."
        return Advice(Need.WORTHWHILE, text)
    if figures.small_delta_files >= _MANY_SMALL:
        text = f"{figures.small_delta_files:,} small files lie in deltas: a minor compaction merges them."
        return Advice(Need.WORTHWHILE, text)
    if figures.deltas:
        off = "" if disabled is None else f" Automatic compaction is off (on the {disabled})."
        plural = "" if figures.deltas == 1 else "s"
        return Advice(
            Need.FINE, f"{figures.deltas:,} delta{plural}, which readers merge without much cost.{off}"
        )
    return Advice(Need.FINE, "Compacted: there are no deltas.")


def _of(some: Sequence[LocationNeed], all_: Sequence[LocationNeed]) -> str:
    """Return in which partitions; nothing for an unpartitioned table."""
    if some[0].partition is None:
        return ""
    return f" of {some[0].partition}" if len(some) == 1 else f" of {len(some):,} of {len(all_):,} partitions"


def _sentence(reason: str) -> str:
    """Return a reason as the end of a sentence."""
    return reason if reason.endswith(".") else f"{reason}."


@dataclass(frozen=True)
class SizeChange:
    """A commit or compaction as it changed the size of a table; ``grown`` None: by an unknown number of bytes."""

    time: int
    grown: int | None


def size_history(
    changes: Sequence[SizeChange], bytes_now: int, now: int, since: int
) -> list[tuple[int, int]]:
    """Return times (ms, ascending) and sizes of a table, going back from its present size.

    ``changes``: ascending. The past ends at ``since``, or behind the latest change by an unknown size (an overwrite).
    """
    points = [(now, bytes_now)]
    size = bytes_now
    for change in reversed(changes):
        if change.time < since:
            break
        points.append((change.time, size))
        if change.grown is None:
            return points[::-1]
        size = max(0, size - change.grown)
        points.append((change.time, size))
    points.append((min(since, points[-1][0]), size))
    return points[::-1]


@dataclass(frozen=True)
class FigureRecord:
    """Figures of a table, or (None) of the whole store, at a moment (ms). ``incarnation``: of the table."""

    table: TableName | None
    time: int
    figures: Mapping[str, int | None]
    incarnation: str = ""


def superseded_records(times: Iterable[int], time: int) -> list[int]:
    """Return which of a table's records go when one of ``time`` comes: older than two days, the last of a day (UTC) stays."""
    known = set(times)
    last = {moment // _DAY: moment for moment in sorted({*known, time})}
    return sorted(
        moment
        for moment in known
        if moment == time or (moment < time - _ALL_KEPT and moment != last[moment // _DAY])
    )


def tables_to_record(
    names: Iterable[TableName],
    latest: Mapping[TableName, FigureRecord],
    changed: Iterable[ChangedPartition],
    jobs: Iterable[Compaction],
) -> list[TableName]:
    """Return the tables that were written or compacted since their latest record, or have none; the oldest record first."""
    changes = [(one.table, one.changed) for one in changed]
    changes += [(job.request.table, job.commit_time) for job in jobs]
    newest: dict[TableName, int] = {}
    for table, time in changes:
        newest[table] = max(time or 0, newest.get(table, 0))
    recorded = {name: latest[name].time if name in latest else 0 for name in names}
    due = [name for name, time in recorded.items() if time <= newest.get(name, 0) + VISIBLE_WITHIN]
    return sorted(due, key=lambda name: (recorded[name], name))
