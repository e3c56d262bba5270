"""The past of a table: points in time that can be read, and its history as rows, newest first. Needs no Spark.

Time travel turns a write id or a timestamp into a valid write-id list, and checks that the files of that state still exist.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeAlias

from hiveacid.config.property_definitions import HISTORY_FROM, TAGS
from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import BaseName, DeltaName
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, ShownAsText, TableDefinition, WriteId
from hiveacid.core.snapshot.directory_listing import DataFormat
from hiveacid.core.snapshot.tags import Tag, TagName, parse_tags
from hiveacid.core.transactions.commit_records import CommitRecord, last_committed, write_ids_before
from hiveacid.core.transactions.states import CompactionState
from hiveacid.errors import NotEnoughHistoryError, UnsupportedFeatureError, did_you_mean
from hiveacid.storage.snapshot_locations import id_property
from hiveacid.table.context import StoreContext
from hiveacid.table.read.inventory import Row, TableAccess, TableInventory, current_snapshot, inventory_of
from hiveacid.transactions.transaction import Transaction

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


@dataclass(frozen=True)
class Instant(ShownAsText):
    """A moment in a table's past, with all commits up to it. ``millis``: milliseconds since the epoch."""

    millis: int

    def __str__(self) -> str:
        """Return the moment in UTC, in Spark's format."""
        return format_millis(self.millis)


PointInTime: TypeAlias = WriteId | Instant | TagName
"""A point in the past of a table: after a write id, a moment, or that of a tag."""


def point_of_version(version: int | str) -> WriteId | TagName:
    """Return the point of VERSION AS OF: a write id, or the name of a tag."""
    return TagName(version.lower()) if isinstance(version, str) else WriteId(version)


def utc_datetime(millis: int) -> datetime:
    """Return a moment in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC)


def format_datetime(moment: datetime) -> str:
    """Return a moment as a text that Spark reads as a timestamp."""
    return moment.isoformat(sep=" ", timespec="milliseconds")


def format_millis(millis: int) -> str:
    """Return a moment, given in milliseconds since the epoch, as such a text in UTC.

    Spark's years, which a statement may name, are more than Python's.
    """
    try:
        return format_datetime(utc_datetime(millis))
    except (ValueError, OverflowError):
        return f"{millis / 1000} seconds since 1970"


def write_ids_at(
    context: StoreContext, table: TableDefinition, txn: Transaction, past: PointInTime
) -> ValidWriteIdList:
    """Return the write ids of a point in the past that a transaction sees.

    Raises NotEnoughHistoryError, with the earliest point, if files of that state were removed; ConfigError for a write
    id that the table has not assigned yet; UnsupportedFeatureError for a moment if the store keeps no commit times.
    """
    if isinstance(past, Instant):
        write_ids = write_ids_at_instant(context, table, txn.committed_write_ids(table.name), past)
    elif isinstance(past, TagName):
        write_ids = replace(find_tag(context, table, past.name).write_ids, table=table.name)
    else:
        write_ids = txn.valid_write_ids(table.name).at(past)
    require_history(context, table, txn, past, write_ids)
    return write_ids


def write_ids_at_instant(
    context: StoreContext, table: TableDefinition, present: ValidWriteIdList, instant: Instant
) -> ValidWriteIdList:
    """Return the write ids of ``present`` that were committed by a moment.

    Raises NotEnoughHistoryError for a moment before the earliest commit that the store has a record of.
    """
    commits = context.store.commits(table.name, instant.millis)
    if commits and instant.millis < commits[0].committed:
        raise _too_early(table, instant, present, context.store.commits(table.name))
    return write_ids_before(present, [commit for commit in commits if commit.committed > instant.millis])


def require_history(
    context: StoreContext,
    table: TableDefinition,
    txn: Transaction,
    past: PointInTime,
    write_ids: ValidWriteIdList,
) -> None:
    """Raise NotEnoughHistoryError if the cleaner may have removed files of a point in time."""
    if isinstance(past, TagName):
        find_tag(context, table, past.name)
        return
    earliest = id_property(table, HISTORY_FROM)
    if not earliest:
        return
    if isinstance(past, Instant):
        present = txn.committed_write_ids(table.name)
        is_complete = present.count_valid(1, earliest) <= write_ids.count_valid(1, earliest)
    else:
        present = txn.valid_write_ids(table.name)
        is_complete = past >= earliest
    if is_complete:
        return
    try:
        commits = context.store.commits(table.name)
    except UnsupportedFeatureError:
        commits = ()
    raise _too_early(table, past, present, commits)


def _too_early(
    table: TableDefinition, past: PointInTime, present: ValidWriteIdList, commits: Sequence[CommitRecord]
) -> NotEnoughHistoryError:
    """Return the error with the earliest readable point, at which all cleaned write ids were committed."""
    earliest = id_property(table, HISTORY_FROM)
    if isinstance(past, Instant):
        subject = f"{table.name} as of {past}"
        reason = "its time begins later, or what it held then was compacted or overwritten, and cleaned"
    else:
        subject = f"{table.name} as of write id {past}"
        reason = "what it held then was compacted or overwritten, and cleaned"
    if not commits:
        return NotEnoughHistoryError.before(
            f"{subject}: {reason}; the earliest state that is whole is write id {earliest}", earliest
        )
    since = max(
        [commits[0].committed, *(commit.committed for commit in commits if commit.write_id <= earliest)]
    )
    write_ids = write_ids_before(present, [commit for commit in commits if commit.committed > since])
    first = max(earliest, int(last_committed(write_ids))) if isinstance(past, Instant) else earliest
    error = NotEnoughHistoryError.before(
        f"{subject}: {reason}; the earliest state that is whole is write id {first}, of {format_datetime(utc_datetime(since))}",
        first,
    )
    error.since = utc_datetime(since)
    return error


def live_tags(context: StoreContext, table: TableDefinition) -> list[Tag]:
    """Return the tags whose states the cleaner keeps, by name. Raises ConfigError for a property that is damaged."""
    text = TAGS.of(table)
    now = 0 if text is None else context.store.now()
    return [tag for _, tag in sorted(parse_tags(text).items()) if tag.is_live(now)]


def find_tag(context: StoreContext, table: TableDefinition, name: str) -> Tag:
    """Return a tag. Raises NotEnoughHistoryError if there is none, or its time is over."""
    tags = {tag.name: tag for tag in live_tags(context, table)}
    if name not in tags:
        ended = parse_tags(TAGS.of(table)).get(name)
        reason = (
            "there is no such tag"
            if ended is None
            else f"it was kept until {format_millis(ended.until or 0)}"
        )
        raise NotEnoughHistoryError(f"{table.name} as of tag '{name}': {reason}{did_you_mean(name, tags)}")
    return tags[name]


def history_rows(
    access: TableAccess,
    table: TableDefinition,
    partitions: Sequence[Partition] | None,
    after: int | None = None,
) -> list[HistoryRow]:
    """Return the commits of a table and its compactions, newest first (`HISTORY`).

    ``after``: leave out commits up to this time (ms), but for the earliest one, if the store keeps commits.

    A compaction has no write id; its row gives the partition, and the number and size of the files that it wrote. A
    Hive Metastore keeps no commits. Rows of write ids then come from the existing directories, with files and bytes, and
    all else is NULL; a compaction stands above the highest write id that it covered.
    """
    jobs = [
        (job, moment)
        for job in access.store.show_compactions()
        if job.request.table == table.name
        and job.state in _DONE
        # a metastore of Hive 3 knows only when the job ended
        and (moment := job.commit_time or job.ended) is not None
    ]
    try:
        commits = access.store.commits(table.name, after)
        rows = [(commit.committed, _commit_row(commit)) for commit in commits]
    except UnsupportedFeatureError:
        written = [
            (write_id, 0, row) for write_id, row in _rows_on_disk(inventory_of(access, table, partitions))
        ]
        compacted = [(job.high_watermark or 0, moment, _compaction_row(job, moment)) for job, moment in jobs]
        return [row for *_, row in sorted([*written, *compacted], key=lambda one: one[:2], reverse=True)]
    rows += [(moment, _compaction_row(job, moment)) for job, moment in jobs]
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


def _compaction_row(job: Compaction, committed: int) -> HistoryRow:
    output = json.loads(job.details or "{}").get("after") or {}
    request = job.request
    operation = f"COMPACT {request.kind.upper()}"
    txn_id = None if job.txn_id is None else int(job.txn_id)
    numbers = (None, None, None, output.get("files"), output.get("bytes"))
    actor = (None, None, job.worker)
    return (None, utc_datetime(committed), operation, None, *actor, txn_id, *numbers, request.partition)


def _rows_on_disk(inventory: TableInventory) -> Iterator[tuple[int, HistoryRow]]:
    sizes: dict[int, list[int]] = defaultdict(lambda: [0, 0])
    for location in inventory.locations:
        for directory in location.directories:
            writer = _writer_of(directory.name, location.metadata.get(directory.path, ""))
            if writer is not None and inventory.snapshot.write_ids.is_valid(writer):
                sizes[int(writer)][0] += directory.files
                sizes[int(writer)][1] += directory.bytes
    for write_id, (files, size) in sizes.items():
        yield write_id, (write_id, *[None] * 10, files, size, None)


def _writer_of(name: BaseName | DeltaName | None, metadata: str) -> WriteId | None:
    """Return the write id whose statement wrote a directory; None for several, and for a base of a compaction.

    ``metadata``: text of the ``_metadata_acid`` file, by which Hive 3 marks such a base.
    """
    if name is None or name.span[0] != name.span[1]:
        return None
    if isinstance(name, BaseName) and (name.visibility_txn_id or DataFormat.COMPACTED in metadata):
        return None
    return name.span[0]


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
