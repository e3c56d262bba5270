"""Plan of the cleaner for one location: paths to delete, and aborted write ids that no row uses any more; what cleanings wait for.

Rules: Hive's ``Cleaner`` and ``CleanupRequest`` handlers. The plan answers two questions: which directories no open
transaction reads, and which rows of aborted transactions stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from enum import StrEnum

from hiveacid.core.compaction.queue_records import Compaction
from hiveacid.core.format.names import (
    NO_VISIBILITY,
    BaseName,
    DeltaName,
    ends_below,
    has_hidden_prefix,
    parse_directory,
)
from hiveacid.core.format.write_id_lists import ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableKind, TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry, split_by_owner
from hiveacid.core.snapshot.selection import AcidState, select
from hiveacid.core.transactions.states import CompactionState


class DeletionReason(StrEnum):
    """Reason why no reader needs a directory or file."""

    OBSOLETE = "compacted or overwritten"
    ABORTED = "written by an aborted transaction"
    EARLIER = "published into a partition that was recorded after its writer had ended"
    UNPAIRED = "half of a compaction that was not finished"


@dataclass(frozen=True)
class Deletion:
    """A directory or file to delete; ``path`` is relative to the location."""

    path: str
    reason: DeletionReason


@dataclass(frozen=True)
class CleaningPlan:
    """Work of the cleaner at one location.

    ``deletions``: in the order to carry them out. Of each reason bases come first, lowest write id first. If the cleaner
    crashes half way, time travel therefore finds no old base that looks like a complete snapshot.
    ``postponed``: also obsolete, but an open transaction may still read them. If there are none, the queue entry of
    the compaction is done.
    ``history_from``: lowest write id whose snapshot is complete after this turn (None: no history is lost). The
    caller records it before it deletes anything.
    ``abort_records_removable_up_to``: after the deletions, no row here has an aborted or open write id up to this one. The
    store may then drop the records of these aborts.
    ``foreign``: entries of the location that do not belong to the layout; the cleaner leaves them alone.
    ``listed``: the listing that the plan was made from; nothing else is deleted.
    """

    deletions: tuple[Deletion, ...]
    postponed: tuple[str, ...]
    history_from: WriteId | None
    abort_records_removable_up_to: WriteId
    foreign: tuple[str, ...] = ()
    listed: tuple[FileEntry, ...] = field(default=(), compare=False, repr=False)


def plan_cleaning(
    entries: Iterable[FileEntry],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList,
    metadata: Mapping[str, str] | None = None,
    *,
    high_watermark: WriteId,
    min_open_txn_id: TxnId,
    possibly_unseen_txns: AbstractSet[TxnId] = frozenset(),
    adopted_txn_id: TxnId = NO_VISIBILITY,
    aborted_only: bool = False,
    abandoned_unpaired_deltas: Iterable[str] = (),
    row_ids: bool = True,
    min_write_id: int = 0,
    tagged: Iterable[ValidWriteIdList] = (),
) -> CleaningPlan:
    """Decide which entries in the location of a table or partition may be deleted.

    ``write_ids``, ``txns``: as of now. ``high_watermark``: the highest write id that the compaction covered
    (``CQ_HIGHEST_WRITE_ID``). The caller ensures two conditions: every transaction with a write id up to it had ended,
    and every open transaction began after that compaction's commit (``CQ_NEXT_TXN_ID`` <= the lowest open transaction
    id).

    ``min_open_txn_id``: lowest open transaction id, or the next one to be assigned if none is open.
    ``possibly_unseen_txns``: other compactions' transactions that an open transaction may not see as committed.
    ``metadata``, ``adopted_txn_id``: as in ``select``.
    ``aborted_only``: leave obsolete entries alone (after an aborted dynamic-partition insert, HIVE-25502).
    ``abandoned_unpaired_deltas``: ``unpaired_deltas`` of the snapshot whose compactions have ended.
    ``min_write_id``: that of the partition; readers pass over directories that end below it.
    ``row_ids``: False for an insert-only table, where merged deltas do not keep the write id of a row.
    ``tagged``: write ids of the table's tags. What a reader of one needs, now or before it sees all compactions, is not
    obsolete: it stays, and the cleaning does not wait for it.

    Raises the errors of ``select``, except NotEnoughHistoryError.
    """
    entries = tuple(entries)
    tops = dict.fromkeys(entry.path.partition("/")[0] for entry in entries)
    earlier = [top for top in tops if ends_below(top, min_write_id)]
    listed = [
        entry
        for entry in entries
        if entry.path.partition("/")[0] not in earlier and not _is_base_above(entry.path, high_watermark)
    ]
    view = write_ids.cleaner(high_watermark)
    visible_to_all = seen_by_all(txns, min_open_txn_id, possibly_unseen_txns)
    state_seen_by_all = select(listed, view, visible_to_all, metadata, adopted_txn_id=adopted_txn_id)
    state_seen_now = select(listed, view, txns, metadata, adopted_txn_id=adopted_txn_id)
    kind = TableKind.FULL_ACID if row_ids else TableKind.INSERT_ONLY
    # a directory of original files (older than the conversion) may also hold foreign files
    with_foreign = {path.partition("/")[0] for path in split_by_owner(listed, kind).foreign}.intersection(
        state_seen_now.obsolete
    )
    of_tags = [
        select(listed, ids, seen, metadata, adopted_txn_id=adopted_txn_id, row_ids=row_ids, history_kept=True)
        for ids in tagged
        for seen in (visible_to_all, txns)
    ]
    kept = with_foreign.union(
        path.partition("/")[0]
        for state in of_tags
        for path in (*(one.path for one in state.directories_to_read), *(one.path for one in state.originals))
    )
    ended = [path for path in state_seen_by_all.obsolete if path not in kept and _has_ended(path, write_ids)]
    obsolete = [] if aborted_only else ended
    paths_by_reason: Mapping[DeletionReason, Iterable[str]] = {
        DeletionReason.OBSOLETE: obsolete,
        DeletionReason.ABORTED: state_seen_by_all.aborted,
        DeletionReason.EARLIER: earlier,
        DeletionReason.UNPAIRED: set(abandoned_unpaired_deltas).difference(earlier),
    }
    deletions = tuple(
        Deletion(path, reason)
        for reason, paths in paths_by_reason.items()
        for path in sorted(paths, key=_deletion_order)
    )
    deleted = {deletion.path for deletion in deletions}
    postponed = {*state_seen_now.obsolete, *state_seen_now.aborted} - deleted - kept
    return CleaningPlan(
        deletions,
        () if aborted_only else tuple(sorted(postponed)),
        _history_from(state_seen_by_all, row_ids=row_ids) if obsolete else None,
        _abort_records_removable_up_to(
            listed, write_ids, deleted, WriteId(min(high_watermark, write_ids.high_watermark))
        ),
        tuple(sorted({*state_seen_now.foreign, *with_foreign})),
        entries,
    )


def seen_by_all(
    txns: ValidTxnList, min_open_txn_id: TxnId, possibly_unseen_txns: AbstractSet[TxnId] = frozenset()
) -> ValidTxnList:
    """Return the transactions that every open transaction sees as committed; arguments as in `plan_cleaning`."""
    return ValidTxnList(
        TxnId(min(txns.high_watermark, min_open_txn_id - 1)),
        tuple(txn_id for txn_id in {*txns.open, *possibly_unseen_txns} if txn_id not in txns.aborted),
        txns.aborted,
    )


def _is_base_above(path: str, high_watermark: int) -> bool:
    """Tell whether the entry belongs to a base above the high watermark, which a later turn handles."""
    top = path.partition("/")[0]
    name = parse_directory(top) if top.startswith("base_") else None
    return isinstance(name, BaseName) and name.write_id > high_watermark


def _has_ended(path: str, write_ids: ValidWriteIdList) -> bool:
    """Tell whether all writers of a directory have committed or aborted."""
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
    """Return the lowest write id whose snapshot stays complete, None if all do.

    With row ids, a minor compaction keeps the history of the deltas that it merges. The history below a base is lost.
    """
    first_whole = [state.base.name.write_id] if state.base and isinstance(state.base.name, BaseName) else []
    if not row_ids:
        deltas = [delta.name for delta in state.deltas if isinstance(delta.name, DeltaName)]
        first_whole += [name.max_write_id for name in deltas if name.min_write_id != name.max_write_id]
    return max(first_whole, default=None)


def _abort_records_removable_up_to(
    entries: Iterable[FileEntry], write_ids: ValidWriteIdList, deleted: AbstractSet[str], top: WriteId
) -> WriteId:
    """Return the write id up to which no row of an aborted or open write id stays on disk (HIVE-24481).

    Without its record, an aborted id counts as committed, so no directory with its rows may be left. An open id may be
    aborted before the records are dropped. A streamed delta may hold such rows. The result of a minor compaction
    without ``_v`` has the same form of name. Both hold the ids back until a major compaction.
    """
    lowest = top
    for path in {entry.path.partition("/")[0] for entry in entries} - deleted:
        name = None if has_hidden_prefix(path) else parse_directory(path)
        if not isinstance(name, DeltaName) or name.visibility_txn_id:
            continue  # the results of compactions with _v hold no such rows, nor do the bases that are left
        first = write_ids.first_exception(name.min_write_id, name.max_write_id)
        if first is not None:
            lowest = WriteId(min(lowest, first - 1))
    return lowest


def held_back_cleanings(open_ids: Iterable[int], jobs: Sequence[Compaction]) -> dict[int, tuple[int, ...]]:
    """Return, for each open transaction that does so, the compactions whose cleaning waits for it.

    A job waits until no transaction below its ``next_txn_id`` is open.
    """
    waiting = [
        job for job in jobs if job.state == CompactionState.READY_FOR_CLEANING and job.next_txn_id is not None
    ]
    held = {txn: tuple(job.id for job in waiting if txn < (job.next_txn_id or 0)) for txn in open_ids}
    return {txn_id: ids for txn_id, ids in held.items() if ids}
