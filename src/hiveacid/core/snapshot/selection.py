"""Snapshot selection: directories of a location to read, obsolete ones, and those of aborted writers.

Rules: Hive 4's ``AcidUtils.getAcidState``. Where Hive 3 and 4 are wrong or differ, the selection follows the commits:

- an INSERT OVERWRITE base is read only when its write id is valid. Hive 4.0.1 also reads an open one whose id is
  the lowest open write id; 3.1.3 fails when the only base is an aborted one;
- of several compactions of one range the newest counts (HIVE-29210);
- a streamed delta that reaches beyond a base or compacted delta stays, because no compaction reads a range
  with an open part. Hive loses its committed rows while the rest is open;
- if no base is usable and one of them is compacted, that is an error, whichever base is the oldest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from hiveacid.core.format.names import (
    NO_VISIBILITY,
    PRE_ACID_WRITE_ID,
    BaseName,
    DeltaName,
    parse_bucket_file,
    parse_original_file,
)
from hiveacid.core.format.write_id_lists import NO_OPEN_ID, RangeShare, ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TxnId
from hiveacid.core.snapshot.directory_listing import (
    DataFile,
    FileEntry,
    ListedDirectory,
    is_compacted,
    read_listing,
)
from hiveacid.errors import NotEnoughHistoryError

__all__ = ["AcidDirectory", "AcidState", "DataFile", "as_acid_directory", "select"]


@dataclass(frozen=True)
class AcidDirectory:
    """A directory to read.

    ``files``: all visible, non-empty files, sorted by path. An insert-only table reads all of them. A full-ACID table
    reads only :attr:`acid_files` and :attr:`loaded_files`.
    ``validity``: SOME if rows must be filtered by their own write id (``currentTransaction``), else ALL.
    ``may_lack_acid_columns``: whether there may be files without ACID columns (LOAD DATA, or written before a conversion),
    which only a file's schema can tell.
    """

    path: str
    name: BaseName | DeltaName
    files: tuple[DataFile, ...]
    validity: RangeShare
    may_lack_acid_columns: bool

    @cached_property
    def acid_files(self) -> tuple[DataFile, ...]:
        """Return the files named ``bucket_N[_A]``."""
        return tuple(file for file in self.files if parse_bucket_file(file.name) is not None)

    @cached_property
    def loaded_files(self) -> tuple[DataFile, ...]:
        """Return the files that may lack the ACID columns, named like originals: ``NNNNNN_M[_copy_K]``."""
        files = self.files if self.may_lack_acid_columns else ()
        return tuple(file for file in files if parse_original_file(file.name) is not None)


@dataclass(frozen=True)
class AcidState:
    """A location as one snapshot sees it. Paths are relative to the location.

    ``deltas``, ``delete_deltas``: to be read on top of ``base`` (None: on top of ``originals``), in Hive's order.
    ``originals``: files older than the conversion, sorted by path, which is the order of their row ids.
    ``obsolete``: files and directories that a newer base or compacted delta supersedes. ``aborted``: directories of which every
    write id, or the compaction, is aborted.
    ``uncompacted_aborts``: a directory to be read holds rows of aborted write ids (HIVE-24481).
    ``foreign``: entries of the root that do not belong to the layout.
    ``pending``: directories that the snapshot must not read, because their writers are open or began later.
    ``unpaired_deltas``: pending deltas whose delete delta of the same minor compaction is missing, or the reverse
    (``names.PAIR_FILE``).
    """

    base: AcidDirectory | None
    deltas: tuple[AcidDirectory, ...]
    delete_deltas: tuple[AcidDirectory, ...]
    originals: tuple[DataFile, ...]
    obsolete: tuple[str, ...] = ()
    aborted: tuple[str, ...] = ()
    uncompacted_aborts: bool = False
    foreign: tuple[str, ...] = ()
    pending: tuple[str, ...] = ()
    unpaired_deltas: tuple[str, ...] = ()

    @property
    def row_directories(self) -> tuple[AcidDirectory, ...]:
        """The directories that hold rows: the base, if there is one, and the deltas."""
        return self.deltas if self.base is None else (self.base, *self.deltas)

    @property
    def directories_to_read(self) -> tuple[AcidDirectory, ...]:
        """All directories that are read: those with rows, and the delete deltas."""
        return (*self.row_directories, *self.delete_deltas)


def select(
    entries: Iterable[FileEntry],
    write_ids: ValidWriteIdList,
    txns: ValidTxnList | None,
    metadata: Mapping[str, str] | None = None,
    *,
    adopted_txn_id: TxnId = NO_VISIBILITY,
    row_ids: bool = True,
    history_kept: bool = False,
) -> AcidState:
    """Select the directories and files of a location that a snapshot reads.

    ``entries``: everything below the location of a table or partition.
    ``txns``: decides which ``_v`` directories are committed; None if all are (a copy of a directory without a store).
    ``metadata``: texts of the ``_metadata_acid`` files of ``directory_listing.metadata_paths``, by directory path.
    ``adopted_txn_id``: visibility ids up to it belong to another engine and count as committed; the store
    that adopted the table assigns only higher transaction ids.
    ``row_ids``: False for an insert-only table, whose rows have no write ids. A delta that merges write ids of this
    snapshot with later ones is then pending, and the directories that it was made from are read.
    ``history_kept``: the caller has ensured that no directory of this snapshot was removed. Compacted bases that are
    too new for the snapshot are then no error.

    Raises BadDirectoryNameError, BadFileError (``_metadata_acid``), and NotEnoughHistoryError if rows of this snapshot
    exist only in a compacted base, beside rows that it must not see.
    """
    listing = read_listing(entries)
    aborted: list[str] = []
    visible: list[ListedDirectory] = []
    unpaired_deltas = _unpaired_deltas(listing.directories)
    for directory in listing.directories:
        if directory.path in unpaired_deltas or (not row_ids and _reaches_beyond(directory.name, write_ids)):
            continue
        txn_id = directory.name.visibility_txn_id
        if txn_id <= adopted_txn_id or txns is None or txns.is_valid(txn_id):
            visible.append(directory)
        elif txns.is_aborted(txn_id):
            aborted.append(directory.path)
    bases = _choose_base(visible, write_ids, metadata or {}, history_kept=history_kept)
    deltas, aborted_deltas = _live_deltas(visible, write_ids)
    remaining, covered = _drop_covered(deltas, bases.chosen)
    aborted.extend((*bases.aborted, *aborted_deltas))
    obsolete = [*bases.obsolete, *covered]
    if bases.chosen is not None:
        obsolete.extend(listing.original_paths)
    settled = {*aborted, *obsolete, *(delta.path for delta in remaining)}
    return AcidState(
        base=bases.to_read(),
        deltas=tuple(
            _as_acid_delta(delta, write_ids) for delta in remaining if not _delta_name(delta).is_delete
        ),
        delete_deltas=tuple(
            _as_acid_delta(delta, write_ids) for delta in remaining if _delta_name(delta).is_delete
        ),
        originals=() if bases.chosen is not None else listing.originals,
        obsolete=tuple(sorted(obsolete)),
        aborted=tuple(sorted(aborted)),
        uncompacted_aborts=any(_holds_aborted_rows(_delta_name(delta), write_ids) for delta in remaining),
        foreign=listing.foreign,
        pending=tuple(
            sorted(
                entry.path
                for entry in listing.directories
                if entry is not bases.chosen and entry.path not in settled
            )
        ),
        unpaired_deltas=tuple(sorted(unpaired_deltas)),
    )


def _reaches_beyond(name: BaseName | DeltaName, write_ids: ValidWriteIdList) -> bool:
    """Tell whether a delta merges write ids of this snapshot with later ones."""
    if not isinstance(name, DeltaName) or name.min_write_id > write_ids.high_watermark:
        return False
    low, high = name.min_write_id, name.max_write_id
    return high > write_ids.high_watermark or (
        # a compaction merges no open ids: an id that is open here committed after the moment of the snapshot
        bool(name.visibility_txn_id)
        and write_ids.has_open(low, high)
        and write_ids.count_valid(low, high) > 0
    )


def _unpaired_deltas(directories: Iterable[ListedDirectory]) -> set[str]:
    """Return the paths of marked deltas and delete deltas of compactions whose counterpart is missing."""
    marked = {directory.name: directory.path for directory in directories if directory.has_pair_file}
    return {
        path
        for name, path in marked.items()
        if isinstance(name, DeltaName) and replace(name, is_delete=not name.is_delete) not in marked
    }


@dataclass(frozen=True)
class _ChosenBase:
    chosen: ListedDirectory | None
    chosen_compacted: bool
    obsolete: tuple[str, ...]
    aborted: tuple[str, ...]

    def to_read(self) -> AcidDirectory | None:
        if self.chosen is None:
            return None
        return as_acid_directory(self.chosen, RangeShare.ALL, compacted=self.chosen_compacted)


def _choose_base(
    visible: Iterable[ListedDirectory],
    write_ids: ValidWriteIdList,
    metadata: Mapping[str, str],
    *,
    history_kept: bool,
) -> _ChosenBase:
    """Choose the usable base with the highest write id; a compacted base wins over the base it was made from."""
    usable: list[tuple[tuple[int, bool, int], ListedDirectory]] = []
    aborted: list[str] = []
    too_new: list[int] = []
    for directory in visible:
        if not isinstance(directory.name, BaseName):
            continue
        write_id = directory.name.write_id
        compacted = is_compacted(directory, metadata)
        if _is_usable(write_id, write_ids, compacted=compacted):
            usable.append(((write_id, compacted, directory.name.visibility_txn_id), directory))
        elif compacted:
            too_new.append(write_id)
        elif write_ids.is_aborted(write_id):
            aborted.append(directory.path)
    if not usable:
        if not history_kept:
            _refuse_lost_history(too_new, write_ids)
        return _ChosenBase(None, chosen_compacted=False, obsolete=(), aborted=tuple(aborted))
    usable.sort(key=lambda pair: pair[0])
    (_, chosen_compacted, _), chosen = usable.pop()
    return _ChosenBase(chosen, chosen_compacted, tuple(base.path for _, base in usable), tuple(aborted))


def _is_usable(write_id: int, write_ids: ValidWriteIdList, *, compacted: bool) -> bool:
    if write_id == PRE_ACID_WRITE_ID:
        return True
    if compacted:
        min_open = NO_OPEN_ID if write_ids.min_open is None else write_ids.min_open
        return write_id <= write_ids.high_watermark and write_id < min_open
    return write_ids.is_valid(write_id)


def _refuse_lost_history(too_new: list[int], write_ids: ValidWriteIdList) -> None:
    if not too_new:
        return
    min_open = "x" if write_ids.min_open is None else str(write_ids.min_open)
    raise NotEnoughHistoryError(
        f"Not enough history available for ({write_ids.high_watermark},{min_open}). "
        f"Oldest available base: {min(too_new)}"
    )


def _live_deltas(
    visible: Iterable[ListedDirectory], write_ids: ValidWriteIdList
) -> tuple[list[ListedDirectory], list[str]]:
    live: list[ListedDirectory] = []
    aborted: list[str] = []
    for directory in visible:
        name = directory.name
        if not isinstance(name, DeltaName):
            continue
        span = name.min_write_id, name.max_write_id
        if write_ids.aborted_share(*span) is RangeShare.ALL:
            aborted.append(directory.path)
        elif write_ids.directory_share(*span) is not RangeShare.NONE:
            live.append(directory)
    return sorted(live, key=_delta_order), aborted


def _delta_order(directory: ListedDirectory) -> tuple[int, int, int, int, str]:
    """Wide before narrow, no statement id before statement ids, newest compaction first."""
    name = _delta_name(directory)
    statement = -1 if name.statement_id is None else name.statement_id
    return name.min_write_id, -name.max_write_id, statement, -name.visibility_txn_id, directory.path


def _drop_covered(
    ordered: Iterable[ListedDirectory], base: ListedDirectory | None
) -> tuple[list[ListedDirectory], list[str]]:
    """Return the deltas with rows that no earlier one holds, and the paths of the others."""
    covered_up_to = 0 if base is None or not isinstance(base.name, BaseName) else base.name.write_id
    ends_with_statement_deltas = False  # whether directories of single statements end at ``covered_up_to``
    previous: DeltaName | None = None
    remaining: list[ListedDirectory] = []
    covered: list[str] = []
    for directory in ordered:
        name = _delta_name(directory)
        if name.max_write_id > covered_up_to:
            covered_up_to, ends_with_statement_deltas = name.max_write_id, name.statement_id is not None
        elif not _is_other_half(name, previous) and not (
            ends_with_statement_deltas and name.max_write_id == covered_up_to
        ):
            covered.append(directory.path)
            continue
        remaining.append(directory)
        previous = name
    return remaining, covered


def _is_other_half(name: DeltaName, previous: DeltaName | None) -> bool:
    """Tell whether a delta and a delete delta are the two unpaired_deltas of one statement or compaction."""
    return (
        previous is not None
        and name.is_delete != previous.is_delete
        and (name.min_write_id, name.max_write_id) == (previous.min_write_id, previous.max_write_id)
        and name.statement_id == previous.statement_id
        and name.visibility_txn_id == previous.visibility_txn_id
    )


def _as_acid_delta(directory: ListedDirectory, write_ids: ValidWriteIdList) -> AcidDirectory:
    name = _delta_name(directory)
    validity = write_ids.visible_share(name.min_write_id, name.max_write_id)
    compacted = bool(name.visibility_txn_id) or name.min_write_id != name.max_write_id
    return as_acid_directory(directory, validity, compacted=compacted or name.is_delete)


def as_acid_directory(directory: ListedDirectory, validity: RangeShare, *, compacted: bool) -> AcidDirectory:
    """Return a directory as a snapshot reads it; ``compacted``: written by a compaction, or a delete delta."""
    may_lack_acid_columns = not compacted and _may_lack_acid_columns(directory)
    return AcidDirectory(directory.path, directory.name, directory.files, validity, may_lack_acid_columns)


def _may_lack_acid_columns(directory: ListedDirectory) -> bool:
    """Decide by names: Hive's own writers make ``bucket_N`` and the version file, LOAD DATA makes neither."""
    if directory.has_version_file or any(parse_bucket_file(file.name) for file in directory.files):
        return False
    return any(parse_original_file(file.name) for file in directory.files)


def _holds_aborted_rows(name: DeltaName, write_ids: ValidWriteIdList) -> bool:
    """Tell whether a delta may hold rows of aborted write ids.

    Compactions drop such rows. Without ``_v`` the delta may be a streamed one, which keeps them.
    """
    if name.visibility_txn_id:
        return False
    return write_ids.aborted_share(name.min_write_id, name.max_write_id) is not RangeShare.NONE


def _delta_name(directory: ListedDirectory) -> DeltaName:
    if not isinstance(directory.name, DeltaName):
        raise TypeError(directory.path)
    return directory.name
