"""Changes between two snapshots: new write ids, and the directories that hold their rows and delete events.

A change belongs to a write id that is valid in the later valid write-id list and not in the earlier one. Write ids
do not commit in ascending order, so a point in time is a list, not a number. Two lists of one table, one contained
in the other, define exactly the changes between them.

The directories of the later snapshot do not show all changes: a major compaction merges the write ids below its base,
and INSERT OVERWRITE hides them. Bases with merged new write ids are therefore left out. The directories that they
replaced are read instead, as long as the cleaner has not removed them. The cleaner records in
``hiveacid.history.from`` which history it is about to remove. If another engine cleans the table, every such base
means that history may be lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from types import MappingProxyType

from hiveacid.core.format.names import NO_VISIBILITY, BaseName, DeltaName
from hiveacid.core.format.write_id_lists import RangeShare, ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TxnId, WriteId
from hiveacid.core.snapshot.directory_listing import FileEntry, ListedDirectory, is_compacted, read_listing
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState, as_acid_directory, select
from hiveacid.errors import ConfigError, NotEnoughHistoryError

CHANGE_TYPE = "_change_type"
"""Column of a change's kind: insert, delete, update_before or update_after."""
WRITE_ID = "_write_id"
"""Column of the write id that a change was committed with."""
UPDATE_TYPES: Mapping[str, str] = MappingProxyType({"insert": "update_after", "delete": "update_before"})
"""The types that the changes of an update have in place of their own."""


@dataclass(frozen=True)
class ChangeSpan:
    """Two snapshots of one table: ``present`` contains ``until``, which contains ``after``. See `plan_span`."""

    after: ValidWriteIdList
    until: ValidWriteIdList
    present: ValidWriteIdList

    def is_new(self, write_id: int) -> bool:
        """Tell whether the write id's changes lie between the two snapshots."""
        return self.until.is_valid(write_id) and not self.after.is_valid(write_id)

    def any_new(self, low: int, high: int) -> bool:
        """Tell whether a write id of ``low`` to ``high`` is new."""
        return self.until.count_valid(low, high) > self.after.count_valid(low, high)

    def reaches_back(self, low: int, high: int) -> bool:
        """Tell whether a write id of ``low`` to ``high`` is committed now but not in ``after``.

        A directory that merges these write ids then has rows that the earlier snapshot must not have.
        """
        return self.present.count_valid(low, high) > self.after.count_valid(low, high)


def plan_span(after: ValidWriteIdList, until: ValidWriteIdList, present: ValidWriteIdList) -> ChangeSpan:
    """Return the span between two snapshots. ``present``: the list as of now.

    Ids that are aborted in a list stay aborted: the store forgets aborted ids whose files are gone, and then reports
    them as valid. Raises ConfigError if ``until`` does not contain ``after``, or ``present`` not ``until``.
    """
    _require_within(
        after, until, "the snapshot after which changes are asked for is not contained in the later one"
    )
    _require_within(until, present, "the later snapshot is not one of this table's past")
    aborted = {*after.aborted, *until.aborted}
    present = replace(
        present,
        open=tuple(write_id for write_id in present.open if write_id not in aborted),
        aborted=tuple(
            {*present.aborted, *(write_id for write_id in aborted if write_id <= present.high_watermark)}
        ),
    )
    return ChangeSpan(after, _settled(until, present), present)


def _settled(until: ValidWriteIdList, present: ValidWriteIdList) -> ValidWriteIdList:
    """Return the list with the present state of its ids, and with the highest possible high watermark.

    Ids that have aborted since then become aborted. The high watermark rises to just below the next id that is
    committed by now. A base that was compacted later without rows of later write ids can then be read.
    """
    top = int(until.high_watermark)
    while top < present.high_watermark and not present.is_valid(top + 1):
        top += 1
    between = [write_id for write_id in present.open if until.high_watermark < write_id <= top]
    aborted = {write_id for write_id in present.aborted if write_id <= top}
    return ValidWriteIdList(
        until.table,
        WriteId(top),
        tuple(write_id for write_id in (*until.open, *between) if write_id not in aborted),
        tuple(aborted),
    )


def _require_within(inner: ValidWriteIdList, outer: ValidWriteIdList, message: str) -> None:
    top, reach = int(outer.high_watermark), int(inner.high_watermark)
    # an id that is not valid in the outer list must not be valid in the inner one
    if inner.count_valid(top + 1, reach) or any(
        inner.is_valid(write_id) for write_id in (*outer.open, *outer.aborted) if write_id <= top
    ):
        raise ConfigError(f"{message}: {inner.to_string()} and {outer.to_string()}")


@dataclass(frozen=True)
class ChangedState:
    """Directories of a location that have to be read to know its changes.

    ``state``: every row of its directories existed in one of the snapshots or between them. ``state.base`` and
    ``state.originals`` are those of the earlier snapshot, and the delete deltas hold all events on these rows.
    ``overwrites``: ascending write ids of new INSERT OVERWRITE or TRUNCATE; each removes all rows of lower write ids.
    ``deletes``: rows may have been removed. If False, rows were only added, and ``state`` has only directories with
    new rows.
    """

    state: AcidState
    overwrites: tuple[WriteId, ...] = ()
    deletes: bool = False


def select_changes(
    entries: Iterable[FileEntry],
    span: ChangeSpan,
    txns: ValidTxnList | None,
    metadata: Mapping[str, str] | None = None,
    *,
    adopted_txn_id: TxnId = NO_VISIBILITY,
    row_ids: bool = True,
    history_kept: bool = True,
) -> ChangedState:
    """Select the directories of a location that tell the changes of a span.

    ``row_ids``: False for an insert-only table, whose compactions lose the write ids of rows. ``history_kept``: the
    caller has ensured that every removed directory is wholly contained in ``span.after``. Otherwise every base that
    reaches beyond ``span.after`` is taken as evidence of a removal. The other arguments are those of
    `core.snapshot.selection.select`.

    Raises the errors of ``select``; NotEnoughHistoryError, with the earliest write id, if changes may be lost.
    """
    entries, metadata = tuple(entries), metadata or {}
    left_out: set[str] = set()
    overwrites: list[ListedDirectory] = []
    for directory in read_listing(entries).directories:
        name = directory.name
        if isinstance(name, DeltaName):
            if not row_ids and _is_merged(name) and span.reaches_back(name.min_write_id, name.max_write_id):
                if not name.visibility_txn_id or not history_kept:
                    raise _history_error(directory.path, name.max_write_id)  # rows of several write ids
                left_out.add(directory.path)
            continue
        compacted = is_compacted(directory, metadata)
        if not history_kept and span.reaches_back(1, name.write_id):
            counts = (
                _is_committed(name, txns, adopted_txn_id)
                if compacted
                else span.present.is_valid(name.write_id)
            )
            if counts:
                raise _history_error(directory.path, name.write_id)
        if compacted and span.reaches_back(1, name.write_id):
            left_out.add(directory.path)
        elif not compacted and span.is_new(name.write_id):
            overwrites.append(directory)
            left_out.add(directory.path)
    remaining = [entry for entry in entries if entry.path.partition("/")[0] not in left_out]
    state = select(remaining, span.until, txns, metadata, adopted_txn_id=adopted_txn_id)
    overwrites.sort(key=lambda directory: directory.name.span)
    if not row_ids and overwrites:
        overwrite = overwrites[0].name.span[0]
        for delta in state.deltas:
            name = delta.name
            # merged rows, whose own write ids are unknown, may have been written after the overwrite
            if isinstance(name, DeltaName) and _is_merged(name) and name.max_write_id > overwrite:
                raise _history_error(delta.path, name.max_write_id)
    return _changed(state, span, overwrites)


def _changed(state: AcidState, span: ChangeSpan, overwrites: Sequence[ListedDirectory]) -> ChangedState:
    events = any(may_be_new(directory, span) for directory in state.delete_deltas)
    if not events and not overwrites:
        added = tuple(directory for directory in state.deltas if may_be_new(directory, span))
        return ChangedState(AcidState(None, added, (), ()))
    bases = [as_acid_directory(directory, RangeShare.ALL, compacted=False) for directory in overwrites]
    ids = {directory.name.span[0] for directory in overwrites}
    # rows that a transaction writes and then overwrites are never visible; the overwrite also removes the rows that
    # its delete events hit
    deltas, delete_deltas = (
        tuple(delta for delta in directories if not _is_single_of(delta, ids))
        for directories in (state.deltas, state.delete_deltas)
    )
    return ChangedState(
        replace(state, deltas=(*bases, *deltas), delete_deltas=delete_deltas),
        tuple(sorted(ids)),
        deletes=True,
    )


def _is_single_of(directory: AcidDirectory, ids: AbstractSet[int]) -> bool:
    low, high = directory.name.span
    return low == high and low in ids


def prune_unaffected(changed: ChangedState, span: ChangeSpan, low: int, high: int) -> ChangedState:
    """Leave out directories without new or deleted rows; all delete events hit write ids ``low`` to ``high``."""
    if not changed.deletes or changed.overwrites:
        return changed
    state = changed.state
    base = state.base
    if base is not None and isinstance(base.name, BaseName) and low > base.name.write_id:
        base = None
    deltas = tuple(delta for delta in state.deltas if may_be_new(delta, span) or _overlaps(delta, low, high))
    originals = state.originals if low <= 0 else ()
    return replace(changed, state=replace(state, base=base, deltas=deltas, originals=originals))


def _overlaps(directory: AcidDirectory, low: int, high: int) -> bool:
    lowest, highest = directory.name.span
    return lowest <= high and low <= highest


def may_be_new(directory: AcidDirectory, span: ChangeSpan) -> bool:
    """Tell whether the range in a directory's name contains a new write id."""
    return span.any_new(*directory.name.span)


def lost_history(name: BaseName | DeltaName, *, row_ids: bool) -> int:
    """Return the write id up to which changes may be lost if no record tells what a cleaner removed; 0: none.

    ``row_ids`` as in `select_changes`: False for an insert-only table, where a merged delta loses the write ids of its rows.
    """
    return int(name.span[1]) if isinstance(name, BaseName) or (not row_ids and _is_merged(name)) else 0


def _is_merged(name: DeltaName) -> bool:
    return name.min_write_id != name.max_write_id


def _is_committed(name: BaseName, txns: ValidTxnList | None, adopted: TxnId) -> bool:
    return txns is None or name.visibility_txn_id <= adopted or txns.is_valid(name.visibility_txn_id)


def _history_error(path: str, earliest: int) -> NotEnoughHistoryError:
    return NotEnoughHistoryError.before(
        f"{path} merges or replaces the write ids up to {earliest}: their changes can no longer be told apart; "
        f"changes can be read after write id {earliest}",
        int(earliest),
    )
