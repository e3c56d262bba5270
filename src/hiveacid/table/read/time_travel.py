"""Time travel: the valid write-id list of a write id or timestamp, and the check that its files still exist."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.config.property_definitions import HISTORY_FROM
from hiveacid.core.display import ShownAsText
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableDefinition, WriteId
from hiveacid.core.transactions.commit_records import CommitRecord, last_committed, write_ids_before
from hiveacid.errors import NotEnoughHistoryError, UnsupportedFeatureError
from hiveacid.storage.snapshot_locations import id_property
from hiveacid.transactions.transaction import Transaction

if TYPE_CHECKING:
    from hiveacid.table.context import StoreContext


@dataclass(frozen=True)
class Instant(ShownAsText):
    """A moment in a table's past, with all commits up to it. ``millis``: milliseconds since the epoch."""

    millis: int

    def __str__(self) -> str:
        """Return the moment in UTC, in Spark's format."""
        return format_millis(self.millis)


PointInTime: TypeAlias = WriteId | Instant
"""A point in the past of a table: after a write id, or a moment."""


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
