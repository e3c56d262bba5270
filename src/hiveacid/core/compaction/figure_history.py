"""Figures of tables over time, as the services record them: which tables are due, which records are kept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hiveacid.core.compaction.queue_records import ChangedPartition, Compaction
from hiveacid.core.model import TableName
from hiveacid.core.transactions.commit_records import VISIBLE_WITHIN

_DAY = 86_400_000  # ms
_ALL_KEPT = 2 * _DAY


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
