"""Data of the pages, as plain values: templates render them, and the same are the answer in JSON.

Values are those of the verbs behind SHOW TRANSACTIONS, SHOW LOCKS, SHOW COMPACTIONS, a table's history and its inventory.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.config import Settings
from hiveacid.core.compaction.advice import FigureRecord, Need
from hiveacid.core.compaction.cleaning_plan import held_back_cleanings
from hiveacid.core.compaction.queue_records import SERVICE_TIMEOUT, Compaction
from hiveacid.core.model import TableName
from hiveacid.core.transactions.locks_and_conflicts import Wait, lock_waits
from hiveacid.core.transactions.states import COMPACTION, UNDER_WAY, CompactionState
from hiveacid.ports.store import TransactionStore, own_store
from hiveacid.ports.transactions import LockRow
from hiveacid.table.read.inventory import TableAccess
from hiveacid.web.figures import ConflictSample, FigureKeeper, Overview, TableStatus
from hiveacid.web.query import Query, Span

if TYPE_CHECKING:
    from hiveacid.services.runner import LoopState

Data: TypeAlias = dict[str, object]

METASTORE = "The store is a Hive Metastore."
NO_FIGURES = f"{METASTORE} It keeps no figures of the past."
RETRIED = (
    CompactionState.FAILED,
    CompactionState.DID_NOT_INITIATE,
    CompactionState.ABORTED,
    CompactionState.REFUSED,
)
"""States of a job that may be queued again."""
_SORTS: Mapping[str, Callable[[TableStatus], object]] = {
    "need": lambda one: (-one.advice.need.rank, 0 if one.figures is None else one.figures.deltas),
    "name": lambda one: one.name,
    "bytes": lambda one: -1 if one.figures is None else one.figures.bytes,
    "deltas": lambda one: -1 if one.figures is None else one.figures.deltas,
    "deleted": lambda one: -1.0 if one.figures is None else one.figures.deleted_share or 0.0,
    "small": lambda one: -1 if one.figures is None else one.figures.small_files,
}
_UPWARDS = ("name",)
_FIRST_LISTING = 3.0  # seconds that the first page waits after a start


@dataclass(frozen=True)
class Source:
    """Origin of the data of all pages. ``loops``: turns of this process's own services (``hiveacid services --web``), by name."""

    access: TableAccess
    settings: Settings
    keeper: FigureKeeper
    loops: Callable[[], Mapping[str, LoopState]] = dict

    @property
    def store(self) -> TransactionStore:
        """The store."""
        return self.access.store


def overview(source: Source, query: Query) -> Data:
    """Return tables by need of compaction."""
    source.keeper.wait_for_names(_FIRST_LISTING)
    known = source.keeper.overview
    search, need = query.text("q").lower(), query.choice("need", ["", *Need], "")
    sort = query.choice("sort", list(_SORTS), "need")
    order = query.choice("order", ["asc", "desc"], "asc" if sort in _UPWARDS else "desc")
    span = query.span(known.now, "7d")
    counts = Counter(one.advice.need.value for one in known.tables.values())
    tables = [
        one
        for one in known.tables.values()
        if search in str(one.name) and (not need or one.advice.need.value == need)
    ]
    tables.sort(key=lambda one: one.name)
    tables.sort(key=_SORTS[sort], reverse=order == "desc")  # type: ignore[arg-type]
    shown, pager = query.page_of(tables, "tables")
    for one in shown:
        source.keeper.ask_for(one.name)
    return {
        "title": "Tables",
        "tables": [table_row(one) for one in shown],
        "needs": {one.value: counts[one.value] for one in Need if counts[one.value]},
        "pager": pager,
        "sort": sort,
        "order": order,
        "summary": summary(known),
        "span": span.data(),
        "trend": recorded_in(known.recorded, span),
        "note": "" if known.tells_conflicts else NO_FIGURES,
    }


def recorded_in(records: Sequence[FigureRecord], span: Span) -> list[dict[str, int | None]]:
    """Return the records in a time range, and the one before it, which still holds at its begin."""
    ended = [record for record in records if record.time <= span.until]
    earlier = sum(record.time <= span.start for record in ended)
    return [{"time": record.time, **record.figures} for record in ended[max(0, earlier - 1) :]]


def table_row(one: TableStatus) -> Data:
    """Return a table's figures and the advice on it."""
    figures: Mapping[str, object] = {} if one.figures is None else asdict(one.figures)
    return {
        "database": one.name.database,
        "table": one.name.name,
        "kind": one.kind,
        "need": one.advice.need.value,
        "advice": one.advice.text,
        "deleted_share": None if one.figures is None else one.figures.deleted_share,
        "live_rows": None if one.figures is None else one.figures.live_rows,
        "partitions": one.partitions,
        "measured": one.measured,
        "note": one.note,
        **{
            name: figures.get(name)
            for name in (
                "bytes",
                "delta_bytes",
                "deltas",
                "delete_deltas",
                "files",
                "small_files",
                "rows",
                "deletes",
            )
        },
    }


def summary(known: Overview) -> Data:
    """Return the state of the store in a few numbers."""
    states = Counter(job.state for job in known.jobs)
    return {
        "now": known.now,
        "error": known.error,
        "tables": len(known.tables),
        "unmeasured": sum(one.measured is None for one in known.tables.values()),
        "bytes": sum(one.figures.bytes for one in known.tables.values() if one.figures is not None),
        "queued": states[CompactionState.INITIATED],
        "working": states[CompactionState.WORKING],
        "cleaning": states[CompactionState.READY_FOR_CLEANING],
        "failed": states[CompactionState.FAILED],
        "services": None if known.services is None else Counter(one.kind for one in known.services),
        "initiator_runs": known.initiator_runs,
    }


def transactions(source: Source, query: Query) -> Data:
    """Return open and aborted transactions, what the open ones hold back, and the rate of conflicts."""
    store = source.store
    search = query.text("q").lower()
    state = query.choice("state", ["open", "aborted", "all"], "open")
    store.abort_timed_out()
    now, rows = store.now(), store.show_transactions()
    is_open = [row for row in rows if row.state == "OPEN"]
    jobs = store.show_compactions()
    held = held_back_cleanings((int(row.txn_id) for row in is_open), jobs)
    locks = store.show_locks()
    waits = {wait.txn_id: wait for wait in waits_of(locks)}
    behind = Counter(wait.root for wait in waits.values())
    number_of_locks = Counter(int(lock.txn_id) for lock in locks if lock.txn_id is not None)
    tables: dict[int, set[str]] = defaultdict(set)
    for lock in locks:
        if lock.txn_id is not None and lock.table is not None:
            tables[int(lock.txn_id)].add(f"{lock.database}.{lock.table}")
    chosen = [
        row
        for row in rows
        if (state == "all" or row.state.lower() == state)
        and search in f"{row.txn_id} {row.user} {row.host}".lower()
    ]
    if state == "aborted":
        chosen.reverse()
    shown, pager = query.page_of(chosen, "transactions")
    compacting = {
        int(job.txn_id): job.id for job in jobs if job.txn_id is not None and job.state in UNDER_WAY
    }
    span = query.span(now)
    return {
        "title": "Transactions",
        "now": now,
        "transactions": [
            {
                "id": txn_id,
                "state": row.state,
                "user": row.user,
                "host": row.host,
                "started": row.started,
                "age": (now - row.started) / 1000,
                "silent": (now - row.last_heartbeat) / 1000,
                "timeout": None if row.timeout is None else row.timeout / 1000,
                "ended": row.ended,
                "code": row.code,
                "locks": number_of_locks[txn_id],
                "tables": sorted(tables[txn_id])[:5],
                "blocks": behind[txn_id],
                "waits_for": waits[txn_id].waits_for if txn_id in waits else None,
                "holds_back": held.get(txn_id, ())[:20],
                "holds_back_count": len(held.get(txn_id, ())),
                "compaction": compacting.get(txn_id),
            }
            for txn_id, row in ((int(row.txn_id), row) for row in shown)
        ],
        "open": len(is_open),
        "aborted": len(rows) - len(is_open),
        "oldest": max(((now - row.started) / 1000 for row in is_open), default=None),
        "held_back": len({job for ids in held.values() for job in ids}),
        "pager": pager,
        "state": state,
        "span": span.data(),
        "conflicts": conflicts(source.keeper.overview, span.start, span.until),
        "note": ""
        if source.store.maintained_by_hiveacid()
        else f"{METASTORE} It tells neither why a transaction was aborted, nor which cleanings wait for one.",
    }


def conflicts(known: Overview, since: int, until: int) -> Data:
    """Return how many transactions began and conflicted in a time range, as far as services or this process noted it."""
    recorded = [
        ConflictSample(one.time, one.figures["begun"] or 0, one.figures["conflicts"] or 0)
        for one in known.recorded
    ]
    samples = sorted((*recorded, *known.samples), key=lambda sample: sample.time)
    inside = [sample for sample in samples if since <= sample.time <= until]
    if not known.tells_conflicts or not inside:
        return {"known_since": None, "begun": 0, "conflicts": 0, "rate": None, "samples": []}
    steps = [
        {
            "time": later.time,
            "begun": max(0, later.begun - earlier.begun),
            "conflicts": max(0, later.conflicts - earlier.conflicts),
        }
        for earlier, later in pairwise(inside)
    ]
    # not the last less the first: counts of two processes may be out of order after a clock was set back
    begun, found = (sum(step[kind] for step in steps) for kind in ("begun", "conflicts"))
    rate = found / begun if begun else 0.0
    return {"known_since": inside[0].time, "begun": begun, "conflicts": found, "rate": rate, "samples": steps}


def waits_of(locks: Iterable[LockRow]) -> tuple[Wait, ...]:
    """Return who waits for whom."""
    return lock_waits(
        (lock.lock_id, None if lock.txn_id is None else int(lock.txn_id), lock.blocked_by) for lock in locks
    )


def locks(source: Source, query: Query) -> Data:
    """Return locks, held and waiting, and the waits."""
    store = source.store
    search, state = query.text("q").lower(), query.choice("state", ["all", "waiting", "acquired"], "all")
    store.abort_timed_out()
    now, rows = store.now(), store.show_locks()
    chosen = [
        row
        for row in rows
        if (state == "all" or row.state.lower() == state)
        and search
        in f"{row.database}.{row.table or ''}/{row.partition or ''} {row.txn_id} {row.user}@{row.host}".lower()
    ]
    shown, pager = query.page_of(chosen, "locks")
    users = {int(row.txn_id): f"{row.user}@{row.host}" for row in rows if row.txn_id is not None}
    waits = waits_of(rows)
    return {
        "title": "Locks",
        "now": now,
        "locks": [asdict(row) for row in shown],
        "waits": [asdict(wait) for wait in waits[:200]],
        "waiting": len(waits),
        "users": {wait.txn_id: users.get(wait.txn_id, "") for wait in waits[:200]}
        | {wait.root: users.get(wait.root, "") for wait in waits[:200]},
        "deadlocked": sum(wait.deadlocked for wait in waits),
        "pager": pager,
        "state": state,
    }


def compactions(source: Source, query: Query) -> Data:
    """Return the queue and its history, newest first, with durations and errors."""
    store = source.store
    search = query.text("q").lower()
    state = query.choice("state", ["", "active", *COMPACTION.states], "")
    now, jobs = store.now(), store.show_compactions()
    span = query.span(now, "7d")
    chosen = [
        job
        for job in reversed(jobs)
        if (not state or job.state == state or (state == "active" and _is_active(job)))
        and search in f"{job.id} {job.request.table} {job.request.partition or ''} {job.error or ''}".lower()
        and (_is_active(job) or span.holds(job.enqueued or job.ended))
    ]
    shown, pager = query.page_of(chosen, "compactions")
    known = source.keeper.overview
    pools = {one.pool for one in known.services or () if one.kind == "worker"}
    waiting = [job for job in jobs if job.state == CompactionState.INITIATED]
    return {
        "title": "Compactions",
        "now": now,
        "compactions": [job_row(job, now) for job in shown],
        "states": dict(Counter(job.state for job in jobs)),
        "pager": pager,
        "state": state,
        "span": span.data(),
        "without_worker": sorted({job.request.pool for job in waiting if job.request.pool not in pools})
        if known.services is not None
        else [],
        "durations": [
            {"time": job.ended, "seconds": (job.ended - job.started) / 1000, "state": job.state}
            for job in chosen
            if job.ended is not None and job.started is not None
        ][:1000],
    }


def _is_active(job: Compaction) -> bool:
    return job.state in (*UNDER_WAY, CompactionState.READY_FOR_CLEANING)


def job_row(job: Compaction, now: int) -> Data:
    """Return a job of the queue."""
    request = job.request
    end = job.ended or job.commit_time or (now if job.state == CompactionState.WORKING else None)
    start = job.started or (now if job.state == CompactionState.INITIATED else None)
    return {
        "id": job.id,
        "database": request.table.database,
        "table": request.table.name,
        "partition": request.partition,
        "kind": request.kind,
        "state": job.state,
        "pool": request.pool,
        "reason": request.reason,
        "error": job.error,
        "worker": job.worker,
        "initiator": job.initiator,
        "enqueued": job.enqueued,
        "started": job.started,
        "ended": job.ended,
        "waited": None if job.enqueued is None or start is None else (start - job.enqueued) / 1000,
        "seconds": None if job.started is None or end is None else (end - job.started) / 1000,
        "transaction": job.txn_id,
        "may_retry": job.state in RETRIED,
        "may_abort": job.state == CompactionState.INITIATED,
    }


def services(source: Source, query: Query) -> Data:
    """Return the services that are alive, with their last turns or the last job of each."""
    store = source.store
    search = query.text("q").lower()
    now, jobs = store.now(), store.show_compactions()
    last: dict[str | None, Compaction] = {}
    for job in jobs:
        last[job.worker] = job
        last[job.initiator] = job
    own = own_store(store) if store.maintained_by_hiveacid() else None
    alive = () if own is None else own.show_services(SERVICE_TIMEOUT)
    loops = source.loops()
    rows: list[Data] = [
        {
            "name": one.name,
            "kind": one.kind,
            "pool": one.pool,
            "version": one.version,
            "started": one.started,
            "last_seen": one.last_seen,
            "silent": None if one.last_seen is None else (now - one.last_seen) / 1000,
            "turns": asdict(loops[one.name]) if one.name in loops else None,
            "last_job": job_row(last[one.name], now) if one.name in last else None,
        }
        for one in alive
        if search in f"{one.name} {one.kind} {one.pool or ''}".lower()
    ]
    shown, pager = query.page_of(rows, "services")
    missing = [
        kind
        for kind in ("initiator", "worker", "cleaner", "housekeeper")
        if kind not in {one.kind for one in alive}
    ]
    return {
        "title": "Services",
        "now": now,
        "services": shown,
        "missing": missing if own is not None else [],
        "pager": pager,
        "workers": _workers(jobs, now) if own is None else [],
        "note": ""
        if own is not None
        else f"{METASTORE} It does not tell which of its services run; below are the workers that its queue names.",
    }


def _workers(jobs: Sequence[Compaction], now: int) -> list[Data]:
    last = {job.worker: job for job in jobs if job.worker}
    rows: list[Data] = [{"name": name, "last_job": job_row(job, now)} for name, job in sorted(last.items())]
    return rows[:200]


def status_of(source: Source, name: TableName) -> TableStatus:
    """Return what is known of a table, which is measured again soon."""
    source.keeper.ask_for(name)
    return source.keeper.overview.tables.get(name) or TableStatus(name)
