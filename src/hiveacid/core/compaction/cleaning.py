"""Plan of the cleaner for one location: what to delete, and up to which aborted write id no row is left.

Rules: Hive's ``Cleaner`` and ``CleanupRequest`` handlers. Two questions decide: which directories does no open
transaction read, and which aborted rows stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum

from hiveacid.core.format.names import NO_VISIBILITY, BaseName, DeltaName, parse_directory
from hiveacid.core.format.owned_entries import split_by_owner
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableKind, TxnId, WriteId
from hiveacid.core.snapshot.listing import ListedEntry
from hiveacid.core.snapshot.selection import AcidState, select


class DeletionReason(StrEnum):
    """Reason why no reader needs a directory or file."""

    OBSOLETE = "compacted or overwritten"
    ABORTED = "written by an aborted transaction"
    HALF = "half of a compaction that was not finished"


@dataclass(frozen=True)
class Deletion:
    """A directory or file to delete; ``path`` is relative to the location."""

    path: str
    reason: DeletionReason


@dataclass(frozen=True)
class CleaningPlan:
    """Work of the cleaner at one location.

    ``deletions``: in the order to carry them out. Bases go first, lowest write id first: a cleaner that dies
    half way leaves nothing that a time traveller could take for the whole history.
    ``postponed``: obsolete too, but a transaction that is still open may read it; empty means the compaction's
    queue entry is done. ``history_from``: after this turn only snapshots of this write id or later are whole
    (None: nothing of the history is lost); to be recorded before deleting.
    ``forget_aborted_up_to``: aborted write ids up to it have no rows left here once the deletions are done.
    ``unexplained``: entries of the location that are not of the layout; they are left alone.
    """

    deletions: tuple[Deletion, ...]
    postponed: tuple[str, ...]
    history_from: WriteId | None
    forget_aborted_up_to: WriteId
    unexplained: tuple[str, ...] = ()


def plan_cleaning(
    entries: Iterable[ListedEntry],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    metadata: Mapping[str, str] | None = None,
    *,
    high_watermark: WriteId,
    min_open_txn_id: TxnId,
    unsettled: AbstractSet[TxnId] = frozenset(),
    adopted_txn_id: TxnId = NO_VISIBILITY,
    aborted_only: bool = False,
    dead_halves: Iterable[str] = (),
    row_ids: bool = True,
) -> CleaningPlan:
    """Decide what may be deleted of a table's or partition's location.

    ``write_ids``, ``txns``: as of now. ``high_watermark``: the highest write id that the compaction covered
    (``CQ_HIGHEST_WRITE_ID``); all transactions up to it had ended, and every open transaction began after
    that compaction's commit (``CQ_NEXT_TXN_ID`` <= the lowest open transaction id): the caller sees to that.
    ``min_open_txn_id``: lowest open transaction id, or the next to be given. ``unsettled``: transactions of
    other compactions of which the same cannot be said yet. ``aborted_only``: leave obsolete ones alone
    (after an aborted dynamic-partition insert, HIVE-25502). ``metadata``, ``adopted_txn_id``: as in ``select``.
    ``dead_halves``: those of its ``halves`` whose compactions are not open any more. ``row_ids``: False for an
    insert-only table: there joined deltas don't tell any more which row is of which write id.

    Raises what ``select`` raises, save NotEnoughHistoryError.
    """
    listed = [entry for entry in entries if not _is_base_above(entry.path, high_watermark)]
    view = write_ids.cleaner(high_watermark)
    everybody = seen_by_all(txns, min_open_txn_id, unsettled)
    state = select(listed, view, everybody, metadata, adopted_txn_id=adopted_txn_id)
    latest = select(listed, view, txns, metadata, adopted_txn_id=adopted_txn_id)
    kind = TableKind.FULL_ACID if row_ids else TableKind.INSERT_ONLY
    # a directory of original files (older than the conversion) may also hold foreign files
    strange = {path.partition("/")[0] for path in split_by_owner(listed, kind).foreign}.intersection(
        latest.obsolete
    )
    ended = [path for path in state.obsolete if path not in strange and _has_ended(path, write_ids)]
    obsolete = [] if aborted_only else ended
    deletions = [
        *(Deletion(path, DeletionReason.OBSOLETE) for path in sorted(obsolete, key=_deletion_order)),
        *(Deletion(path, DeletionReason.ABORTED) for path in sorted(state.aborted, key=_deletion_order)),
        *(Deletion(path, DeletionReason.HALF) for path in sorted(dead_halves)),
    ]
    deleted = {deletion.path for deletion in deletions}
    return CleaningPlan(
        tuple(deletions),
        () if aborted_only else tuple(sorted({*latest.obsolete, *latest.aborted} - deleted - strange)),
        _history_from(state, row_ids=row_ids) if obsolete else None,
        _forgettable(listed, write_ids, deleted, WriteId(min(high_watermark, write_ids.high_watermark))),
        tuple(sorted({*latest.foreign, *strange})),
    )


def seen_by_all(
    txns: ValidTxnList, min_open_txn_id: TxnId, unsettled: AbstractSet[TxnId] = frozenset()
) -> ValidTxnList:
    """Return what every transaction that is still open sees as committed; arguments as in `plan_cleaning`."""
    return ValidTxnList(
        TxnId(min(txns.high_watermark, min_open_txn_id - 1)),
        tuple(txn_id for txn_id in {*txns.open, *unsettled} if txn_id not in txns.aborted),
        txns.aborted,
    )


def _is_base_above(path: str, high_watermark: int) -> bool:
    """Tell whether the entry belongs to a base that a later turn looks at."""
    top = path.partition("/")[0]
    name = parse_directory(top) if top.startswith("base_") else None
    return isinstance(name, BaseName) and name.write_id > high_watermark


def _has_ended(path: str, write_ids: ValidWriteIdList) -> bool:
    """Tell whether no writer can still be at work in a directory."""
    name = parse_directory(path)
    if not isinstance(name, DeltaName):
        return True
    return not write_ids.has_open(name.min_write_id, name.max_write_id)


def _deletion_order(path: str) -> tuple[int, int, str]:
    name = parse_directory(path)
    if isinstance(name, BaseName):
        return 0, name.write_id, path
    return 1, name.min_write_id if isinstance(name, DeltaName) else 0, path


def _history_from(state: AcidState, *, row_ids: bool) -> WriteId | None:
    """Deltas joined by a minor compaction keep their history (with row ids), what lies below a base does not."""
    reach = [state.base.name.write_id] if state.base and isinstance(state.base.name, BaseName) else []
    if not row_ids:
        deltas = [one.name for one in state.deltas if isinstance(one.name, DeltaName)]
        reach += [name.max_write_id for name in deltas if name.min_write_id != name.max_write_id]
    return max(reach, default=None)


def _forgettable(
    entries: Iterable[ListedEntry], write_ids: ValidWriteIdList, deleted: AbstractSet[str], top: WriteId
) -> WriteId:
    """Return the id up to which no aborted row stays on disk (HIVE-24481: streamed deltas keep some).

    Once forgotten, an aborted id counts as committed: a directory that holds its rows must not be there. Without
    visibility suffix a minor compaction looks like a streamed delta, so it holds ids back until a major one.
    """
    lowest = top
    for path in {entry.path.partition("/")[0] for entry in entries} - deleted:
        name = None if path.startswith(("_", ".")) else parse_directory(path)
        if not isinstance(name, DeltaName) or name.visibility_txn_id:
            continue  # no compaction with _v keeps such rows, no base that is still here does
        first = write_ids.first_aborted(name.min_write_id, name.max_write_id)
        if first is not None:
            lowest = WriteId(min(lowest, first - 1))
    return lowest
