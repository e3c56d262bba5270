"""Reuse of a selection by another snapshot of an unchanged location.

A selection asks a snapshot only about the ids in directory names. Two snapshots that agree on all ids up to the highest
of these select the same files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hiveacid.core.format.names import BaseName, is_hidden, parse_directory
from hiveacid.core.format.write_id_lists import RangeShare, ValidTxnList, ValidWriteIdList
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import AcidState

Reach = tuple[int, int]
"""Highest write id and highest visibility txn id in the names of a location's directories."""
IdView = tuple[object, ...]
"""Part of a snapshot's lists that a selection can depend on."""


@dataclass(frozen=True)
class SnapshotIds:
    """Lists of a snapshot: valid write ids, and valid transactions (None: all are committed)."""

    write_ids: ValidWriteIdList
    txns: ValidTxnList | None
    _views: dict[Reach, IdView] = field(default_factory=dict, compare=False, repr=False)

    def view(self, reach: Reach) -> IdView:
        """Return the part of the lists up to the highest ids of a location."""
        view = self._views.get(reach)
        if view is None:
            view = self._views[reach] = self._view(*reach)
        return view

    def _view(self, write_id: int, txn_id: int) -> IdView:
        write_ids, txns = self.write_ids, self.txns
        min_open = write_ids.min_open
        return (
            type(write_ids),
            min(write_ids.high_watermark, write_id),
            _up_to(write_ids.open, write_id),
            _up_to(write_ids.aborted, write_id),
            min_open if min_open is not None and min_open <= write_id else None,
            None
            if txns is None
            else (min(txns.high_watermark, txn_id), _up_to(txns.open, txn_id), _up_to(txns.aborted, txn_id)),
        )


def _up_to(ids: Sequence[int], last: int) -> tuple[int, ...]:
    return tuple(ids[: bisect_right(ids, last)])


def measure_reach(entries: Iterable[FileEntry]) -> Reach:
    """Return the highest ids in the names of a location's directories. Raises BadDirectoryNameError."""
    write_id = txn_id = 0
    for top in {entry.path.partition("/")[0] for entry in entries if entry.is_dir or "/" in entry.path}:
        name = None if is_hidden(top) else parse_directory(top)
        if name is not None:
            last = name.write_id if isinstance(name, BaseName) else name.max_write_id
            write_id, txn_id = max(write_id, last), max(txn_id, name.visibility_txn_id)
    return write_id, txn_id


def is_final(state: AcidState) -> bool:
    """Tell whether the files that a selection reads can no longer change while the directories keep their entries.

    Files of a delta or base are complete when their transaction commits. Exceptions: original files, streamed files with
    a flushed length, directories with an open write id, pending ones, and ``unpaired_deltas``.
    """
    return not (state.originals or state.pending or state.unpaired_deltas) and all(
        directory.validity is RangeShare.ALL
        and not any(file.flush_length_path is not None for file in directory.files)
        for directory in state.directories_to_read
    )
