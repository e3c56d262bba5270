"""Data of the pages of one table: its timeline, partitions, files and schema."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from datetime import datetime

from hiveacid.core.compaction.advice import FigureRecord, SizeChange, size_history
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.model import Partition, TableDefinition, TableName
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.snapshot.classify_entries import ItemState
from hiveacid.core.transactions.states import CompactionState
from hiveacid.ports.store import own_store
from hiveacid.table.context import require_table
from hiveacid.table.read.history_and_time_travel import history_rows
from hiveacid.table.read.inventory import TableInventory, delta_rows, file_rows, inventory_of
from hiveacid.web.pages import METASTORE, Data, Source, job_row, recorded_in, status_of, table_row
from hiveacid.web.query import Query, Span

_MOST_ROWS = 500  # of columns and properties
_REPLACES = ("OVERWRITE", "TRUNCATE", "DROP")


def _base(source: Source, name: TableName, view: str) -> tuple[TableDefinition, Data]:
    table = require_table(source.access.catalog, name)
    return table, {
        "title": str(name),
        "view": view,
        **table_row(status_of(source, name)),
        "kind": table.kind.value,
    }


def _partitions(source: Source, table: TableDefinition) -> tuple[Partition, ...] | None:
    return source.access.catalog.list_partitions(table.name) if table.partition_columns else None


def timeline(source: Source, query: Query, name: TableName) -> Data:
    """Return commits, compactions, cleanings and aborts of a table, and its size in the past."""
    table, data = _base(source, name, "timeline")
    store = source.store
    now = store.now()
    span = query.span(now)
    kind = query.choice("kind", ["", "commit", "compaction", "cleaning", "abort", "failure"], "")
    search = query.text("q").lower()
    jobs = [job for job in store.show_compactions() if job.request.table == name]
    commits = list(_commits(source, table, span))
    events = [event for event in commits if span.holds(_number(event["time"]))]
    events += [*_events_of_jobs(jobs, span), *_aborts(source, name, span)]
    events.sort(key=lambda event: -(_number(event["time"]) or 0))
    newest = max((_number(event["time"]) or 0 for event in events), default=0)
    if newest > (_number(data["measured"]) or 0):  # the size now is where the past begins
        source.keeper.refresh(name)
        table, data = _base(source, name, "timeline")
    chosen = [
        event
        for event in events
        if (not kind or event["kind"] == kind)
        and search
        in f"{event['what']} {event['text'] or ''} {event['user'] or ''} {event['partition'] or ''}".lower()
    ]
    shown, pager = query.page_of(chosen, "events")
    is_own = store.maintained_by_hiveacid()
    size = _number(data["bytes"])
    first = min((_number(event["time"]) or now for event in commits), default=now)
    start = max(span.start, first)
    return data | {
        "now": now,
        "events": shown,
        "pager": pager,
        "span": span.data(),
        "start": start,
        "event_kind": kind,
        "sizes": [
            point
            for point in (
                []
                if size is None or not is_own
                else size_history(_size_changes(commits, jobs), size, now, start)
            )
            if point[0] <= span.until
        ],
        "changes": [
            {"time": event["time"], **{key: event[key] or 0 for key in ("inserted", "updated", "deleted")}}
            for event in reversed(commits)
            if event["time"] is not None
        ],
        "compactions": [job_row(job, now) for job in reversed(jobs)][:5],
        "figures": [] if not is_own else _figures(source, table, span),
        "note_on_past": ""
        if is_own
        else f"{METASTORE} It keeps no commits: what follows is read from the directories, without time and user. It keeps no "
        "figures of the past, either.",
    }


def _figures(source: Source, table: TableDefinition, span: Span) -> list[Data]:
    """Return what the services recorded of a table, and its figures now; ``deleted``: per cent of the rows."""
    records = [*own_store(source.store).recorded_figures(table)]
    status = status_of(source, table.name)
    if status.figures is not None and status.measured is not None:
        records = [one for one in records if one.time < status.measured]
        records.append(FigureRecord(table.name, status.measured, asdict(status.figures)))
    points: list[Data] = []
    for point in recorded_in(records, span):
        rows, deletes = point["rows"], point["deletes"]
        share = None if rows is None or deletes is None else 100 * min(1.0, deletes / rows) if rows else 0.0
        points.append({**point, "deleted": share})
    return points


def _event(kind: str, time: int | None, what: str, **more: object) -> Data:
    names = (
        "write_id",
        "text",
        "user",
        "partition",
        "transaction",
        "inserted",
        "updated",
        "deleted",
        "files",
        "bytes",
    )
    return {"kind": kind, "time": time, "what": what, **{name: more.get(name) for name in names}}


def _commits(source: Source, table: TableDefinition, span: Span) -> Iterator[Data]:
    """Yield commits by the rows of the table's history; compactions there are yielded with their jobs."""
    for row in history_rows(source.access, table, _partitions(source, table), span.since):
        (
            write_id,
            moment,
            operation,
            statement,
            user,
            host,
            agent,
            txn_id,
            inserted,
            updated,
            deleted,
            files,
            size,
            partition,
        ) = row
        time = int(moment.timestamp() * 1000) if isinstance(moment, datetime) else None
        if write_id is None or (time is not None and time <= span.start):
            continue
        yield _event(
            "commit", time, str(operation or ("history begins" if write_id == 0 else "write")),
            write_id=write_id, text=str(statement or "").strip() or None, user=f"{user}@{host}" if user else agent, transaction=txn_id,
            inserted=inserted, updated=updated, deleted=deleted, files=files, bytes=size, partition=partition,
        )  # fmt: skip


def _events_of_jobs(jobs: Sequence[Compaction], span: Span) -> Iterator[Data]:
    for job in jobs:
        kind = f"{job.request.kind} compaction {job.id}"
        after = _volume(job, "after")
        committed = job.commit_time
        if committed is None and job.state == CompactionState.SUCCEEDED:
            committed = job.ended
        if committed is not None and span.holds(committed):
            yield _event(
                "compaction", committed, kind, text=job.request.reason, user=job.worker, partition=job.request.partition,
                transaction=job.txn_id, files=after.get("files"), bytes=after.get("bytes"),
            )  # fmt: skip
        if job.state == CompactionState.SUCCEEDED and job.commit_time is not None and span.holds(job.ended):
            yield _event(
                "cleaning", job.ended, f"cleaned after compaction {job.id}", partition=job.request.partition
            )
        if job.state in (CompactionState.FAILED, CompactionState.DID_NOT_INITIATE):
            time = job.ended or job.enqueued
            if span.holds(time):
                what = f"{kind} {job.state}"
                yield _event(
                    "failure", time, what, text=job.error, user=job.worker, partition=job.request.partition
                )


def _aborts(source: Source, name: TableName, span: Span) -> Iterator[Data]:
    """Yield aborted writes whose files are not cleaned yet."""
    if not source.store.maintained_by_hiveacid():
        return
    for changed in own_store(source.store).changed_partitions(source.store.now() + 1):
        if changed.table == name:
            for time in changed.aborted:
                if span.holds(time):
                    yield _event("abort", time, "a write was aborted", partition=changed.partition)


def _volume(job: Compaction, name: str) -> dict[str, int]:
    found = json.loads(job.details or "{}").get(name) or {}
    return found if isinstance(found, dict) else {}


def _size_changes(commits: Sequence[Data], jobs: Sequence[Compaction]) -> list[SizeChange]:
    changes = []
    for event in commits:
        if event["time"] is not None and event["write_id"]:
            replaces = any(word in str(event["what"]).upper() for word in _REPLACES)
            grown = None if replaces else _number(event["bytes"])
            changes.append(SizeChange(_number(event["time"]) or 0, grown))
    for job in jobs:
        if job.commit_time is not None:
            after, before = _volume(job, "after").get("bytes"), _volume(job, "before").get("bytes")
            changes.append(
                SizeChange(job.commit_time, None if after is None or before is None else after - before)
            )
    return sorted(changes, key=lambda change: change.time)


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None


def partitions(source: Source, query: Query, name: TableName) -> Data:
    """Return the partitions with their figures, those that need a compaction first."""
    table, data = _base(source, name, "partitions")
    search = query.text("q").lower()
    known = {one.partition: one for one in status_of(source, name).locations}
    rows = []
    for partition in _partitions(source, table) or ():
        text = format_partition(table.partition_column_names, partition.values)
        if search in text.lower():
            need = known.get(text)
            rows.append((need is None or need.decision.kind is None, text, partition, need))
    rows.sort(key=lambda row: row[:2])
    shown, pager = query.page_of(rows, "partitions")
    return data | {
        "listed": [
            {
                "partition": text,
                "location": partition.location,
                "kind": None if need is None or need.decision.kind is None else need.decision.kind.value,
                "reason": None if need is None else need.decision.reason,
                "state": None if need is None else need.state,
                "error": None if need is None else need.error,
                "bytes": None if need is None else need.figures.bytes,
                "deltas": None if need is None else need.figures.sizes.deltas,
                "files": None if need is None else need.figures.files,
                "rows": None if need is None else need.figures.rows,
                "deletes": None if need is None else need.figures.deletes,
            }
            for _, text, partition, need in shown
        ],
        "pager": pager,
    }


def files(source: Source, query: Query, name: TableName) -> Data:
    """Return the files or directories of a table, with their state and its reason, as ``hiveacid table files`` does."""
    table, data = _base(source, name, "files")
    by = query.choice("by", ["directory", "file"], "directory")
    state = query.choice("state", ["", *ItemState, "missing"], "")
    search = query.text("q").lower()
    inventory = inventory_of(source.access, table, _partitions(source, table))
    rows = [
        row
        for row in _rows(inventory, by)
        if (not state or row["state"] == state)
        and search in f"{row['partition'] or ''}/{row['path']}".lower()
    ]
    shown, pager = query.page_of(rows, "files" if by == "file" else "directories")
    return data | {
        "listed": shown,
        "pager": pager,
        "by": by,
        "state": state,
        "states": [one.value for one in ItemState],
        "found_bytes": sum(_number(row["bytes"]) or 0 for row in rows),
    }


def _rows(inventory: TableInventory, by: str) -> Iterator[Data]:
    if by == "file":
        for partition, directory, path, kind, size, state, reason in file_rows(inventory):
            yield {"partition": partition, "directory": directory, "path": path, "kind": kind, "bytes": size,
                   "state": state, "reason": reason, "files": 1, "write_ids": None}  # fmt: skip
        return
    for partition, path, kind, low, high, _, _, state, reason, count, size in delta_rows(inventory):
        ids = None if high is None else str(high) if low in (None, high) else f"{low} to {high}"
        yield {"partition": partition, "directory": path, "path": path, "kind": kind, "bytes": size, "state": state,
               "reason": reason, "files": count, "write_ids": ids}  # fmt: skip


def schema(source: Source, query: Query, name: TableName) -> Data:
    """Return columns, storage and properties."""
    del query
    table, data = _base(source, name, "schema")
    bucketing = table.bucketing
    return data | {
        "columns": [asdict(column) for column in table.columns][:_MOST_ROWS],
        "partition_columns": [asdict(column) for column in table.partition_columns],
        "location": table.location,
        "bucketing": None
        if bucketing is None
        else f"{', '.join(bucketing.columns)} into {bucketing.count} buckets",
        "format": table.storage.input_format,
        "properties": dict(table.properties[:_MOST_ROWS]),
    }
