"""Reading a table's past: what a write id or a moment stands for, and how far the past reaches back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, TypeAlias

from hiveacid.core.commits import Commit, at_moment, last_committed
from hiveacid.core.model import WriteId
from hiveacid.errors import NotEnoughHistoryError, UnsupportedFeatureError
from hiveacid.storage.listing import HISTORY_FROM

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hiveacid.core.model import TableDefinition
    from hiveacid.core.write_ids import ValidWriteIdList
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction


@dataclass(frozen=True)
class Instant:
    """A moment in a table's past: what was committed at it or before. ``millis``: since the epoch."""

    millis: int

    def __str__(self) -> str:
        """Return it in UTC, as Spark reads it."""
        return shown(moment(self.millis))


Past: TypeAlias = WriteId | Instant
"""A point in the past of a table: after a write id, or a moment."""


def moment(millis: int) -> datetime:
    """Return a moment in UTC."""
    return datetime.fromtimestamp(millis / 1000, UTC)


def shown(at: datetime) -> str:
    """Return a moment as a text that Spark reads as a timestamp."""
    return at.isoformat(sep=" ", timespec="milliseconds")


def past_ids(context: Context, table: TableDefinition, txn: Transaction, past: Past) -> ValidWriteIdList:
    """Return the write ids of a point in the past that a transaction sees.

    Raises NotEnoughHistoryError where that state is gone, with the earliest point; ConfigError for a write id that
    the table has not given yet; UnsupportedFeatureError for a moment where the store keeps none.
    """
    if isinstance(past, Instant):
        found = ids_at(context, table, txn.committed_write_ids(table.name), past)
    else:
        found = txn.valid_write_ids(table.name).at(past)
    require_past(context, table, txn, past, found)
    return found


def ids_at(
    context: Context, table: TableDefinition, present: ValidWriteIdList, instant: Instant
) -> ValidWriteIdList:
    """Return the write ids of ``present`` that were committed by a moment.

    Raises NotEnoughHistoryError for a moment before the earliest commit that the store remembers.
    """
    known = context.store.commits(table.name, instant.millis)
    if known and instant.millis < known[0].committed:
        raise _too_early(table, instant, present, context.store.commits(table.name))
    return at_moment(present, [one for one in known if one.committed > instant.millis])


def require_past(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    past: Past,
    wanted: ValidWriteIdList,
) -> None:
    """Raise NotEnoughHistoryError where the cleaner may have taken what a point in the past stands on."""
    earliest = int(table.property(HISTORY_FROM) or 0)
    if not earliest:
        return
    if isinstance(past, Instant):
        present = txn.committed_write_ids(table.name)
        whole = present.count_valid(1, earliest) <= wanted.count_valid(1, earliest)
    else:
        present = txn.valid_write_ids(table.name)
        whole = past >= earliest
    if whole:
        return
    try:
        known = context.store.commits(table.name)
    except UnsupportedFeatureError:
        known = ()
    raise _too_early(table, past, present, known)


def _too_early(
    table: TableDefinition, past: Past, present: ValidWriteIdList, known: Sequence[Commit]
) -> NotEnoughHistoryError:
    """Return the error with the earliest point that can be read: where all that is cleaned was committed."""
    earliest = int(table.property(HISTORY_FROM) or 0)
    if isinstance(past, Instant):
        said = f"{table.name} as of {past}"
        gone = "its time begins later, or what it held then was compacted or overwritten, and cleaned"
    else:
        said = f"{table.name} as of write id {past}"
        gone = "what it held then was compacted or overwritten, and cleaned"
    if not known:
        return NotEnoughHistoryError.before(
            f"{said}: {gone}; the earliest state that is whole is write id {earliest}", earliest
        )
    since = max([known[0].committed, *(one.committed for one in known if one.write_id <= earliest)])
    at = at_moment(present, [one for one in known if one.committed > since])
    first = max(earliest, int(last_committed(at))) if isinstance(past, Instant) else earliest
    error = NotEnoughHistoryError.before(
        f"{said}: {gone}; the earliest state that is whole is write id {first}, of {shown(moment(since))}",
        first,
    )
    error.since = moment(since)
    return error
