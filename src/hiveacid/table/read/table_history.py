"""History of a table as rows, newest first, and the points in time that can be read. Needs no Spark."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TypeAlias

from hiveacid.config.property_definitions import HISTORY_FROM
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import DeltaName
from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.transactions.commit_records import CommitRecord, last_committed, write_ids_before
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.storage.snapshot_locations import id_property
from hiveacid.table.read.inventory import Row, TableAccess, TableInventory, current_snapshot, inventory_of
from hiveacid.table.read.time_travel import format_datetime, utc_datetime

HISTORY = (
    "write_id bigint, committed_at timestamp, operation string, statement string, user string, host string, "
    "agent string, txn_id bigint, inserted bigint, updated bigint, deleted bigint, files bigint, bytes bigint, "
    "partition string"
)
SNAPSHOTS = (
    "write_id bigint, committed_at timestamp, operation string, valid_write_ids string, readable boolean"
)
"""Columns of `snapshot_rows`."""
HistoryRow: TypeAlias = tuple[str | int | datetime | None, ...]

_DONE = (CompactionState.READY_FOR_CLEANING, CompactionState.SUCCEEDED)


def history_rows(
    access: TableAccess, table: TableDefinition, partitions: Sequence[Partition] | None
) -> list[HistoryRow]:
    """Return the commits of a table and its compactions, newest first (`HISTORY`).

    A compaction has no write id; its row gives the partition, and the number and size of the files that it wrote. A
    Hive Metastore keeps no commits. Rows then come from the existing directories, with write id, files and bytes, and
    all else is NULL.
    """
    try:
        rows = [(commit.committed, _commit_row(commit)) for commit in access.store.commits(table.name)]
    except UnsupportedFeatureError:
        rows = [(write_id, row) for write_id, row in _rows_on_disk(inventory_of(access, table, partitions))]
        return [row for _, row in sorted(rows, key=lambda pair: -pair[0])]
    for job in access.store.show_compactions():
        if job.request.table == table.name and job.state in _DONE and job.commit_time is not None:
            rows.append((job.commit_time, _compaction_row(job)))
    return [row for _, row in sorted(rows, key=lambda pair: (-pair[0], -(_number(pair[1][0]))))]


def format_times(row: HistoryRow) -> Row:
    """Return a row with its timestamps as texts in UTC, in Spark's format."""
    return tuple(format_datetime(value) if isinstance(value, datetime) else value for value in row)


def _number(value: object) -> int:
    return value if isinstance(value, int) else -1


def _commit_row(commit: CommitRecord) -> HistoryRow:
    summary = commit.summary
    return (
        int(commit.write_id),
        utc_datetime(commit.committed),
        summary.operation,
        summary.statement,
        commit.user,
        commit.host,
        commit.agent,
        None if commit.txn_id is None else int(commit.txn_id),
        summary.inserted,
        summary.updated,
        summary.deleted,
        summary.files,
        summary.bytes,
        None,
    )


def _compaction_row(job: Compaction) -> HistoryRow:
    output = json.loads(job.details or "{}").get("after") or {}
    request = job.request
    operation = f"COMPACT {request.kind.upper()}"
    txn_id = None if job.txn_id is None else int(job.txn_id)
    numbers = (None, None, None, output.get("files"), output.get("bytes"))
    actor = (None, None, job.worker)
    return (
        None,
        utc_datetime(job.commit_time or 0),
        operation,
        None,
        *actor,
        txn_id,
        *numbers,
        request.partition,
    )


def _rows_on_disk(inventory: TableInventory) -> Iterator[tuple[int, HistoryRow]]:
    sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for location in inventory.locations:
        for directory in location.directories:
            name = directory.name
            if not isinstance(name, DeltaName) or name.min_write_id != name.max_write_id:
                continue
            if inventory.snapshot.write_ids.is_valid(name.min_write_id):
                sizes[int(name.min_write_id)][0] += directory.files
                sizes[int(name.min_write_id)][1] += directory.bytes
    for write_id, (files, size) in sizes.items():
        yield write_id, (write_id, *[None] * 10, files, size, None)


def snapshot_rows(access: TableAccess, table: TableDefinition) -> list[HistoryRow]:
    """Return the points in time that the store remembers, newest first (`SNAPSHOTS`).

    ``write_id``: the highest write id that was committed at that time. ``readable``: the cleaner has not removed files
    of the snapshot. Commits of one millisecond are one point. Raises UnsupportedFeatureError on a Hive Metastore.
    """
    commits = access.store.commits(table.name)
    write_ids = current_write_ids = current_snapshot(access, table).write_ids
    earliest = id_property(table, HISTORY_FROM)
    total = current_write_ids.count_valid(1, earliest)
    rows: list[HistoryRow] = []
    later: list[CommitRecord] = []
    for index in range(len(commits) - 1, -1, -1):
        commit = commits[index]
        if later and later[-1].committed != commit.committed:
            write_ids = write_ids_before(write_ids, later)
            later = []
        if not later:
            readable = write_ids.count_valid(1, earliest) >= total
            rows.append(
                (
                    int(last_committed(write_ids)),
                    utc_datetime(commit.committed),
                    commit.summary.operation,
                    write_ids.to_string(),
                    readable,
                )
            )
        later.append(commit)
    return rows
