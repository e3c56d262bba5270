"""Snapshot selection: directories of a location to read, obsolete ones, and those of aborted writers.

Rules: Hive 4's ``AcidUtils.getAcidState``. Where Hive 3 and 4 are wrong or differ, the selection follows the commits:

- an INSERT OVERWRITE base is read only when its write id is valid. Hive 4.0.1 also reads an open one whose id is
  the lowest open write id; 3.1.3 fails when the only base is an aborted one;
- of several compactions of one range the newest counts (HIVE-29210);
- a streamed delta that reaches beyond a base or compacted delta stays, because no compaction reads a range
  with an open part. Hive loses its committed rows while the rest is open;
- if no base is usable and one of them is compacted, that is an error, whichever base is the oldest.

A selection asks a snapshot only about the ids in directory names. Two snapshots that agree on all ids up to the highest
of these select the same files.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property

from hiveacid.core.format.names import (
    NO_VISIBILITY,
    PRE_ACID_WRITE_ID,
    BaseName,
    DeltaName,
    is_hidden,
    parse_bucket_file,
    parse_directory,
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

__all__ = ["AcidDirectory", "AcidState", "DataFile", "as_acid_directory", "format_ids", "select"]


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

    def with_files(self, files: tuple[DataFile, ...]) -> AcidDirectory:
        """Return the directory in another location, whose files have the same names."""
        found = AcidDirectory(self.path, self.name, files, self.validity, self.may_lack_acid_columns)
        if len(self.acid_files) == len(files):  # known then, and cached: names are not parsed again
            vars(found).update(acid_files=files, loaded_files=())
        return found


class Unread(StrEnum):
    """State of an entry that a snapshot does not read."""

    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    PENDING = "open"


_Unread = dict[str, tuple[Unread, str]]


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
    ``unread``: state and reason of each obsolete, aborted or pending entry.
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
    unread: Mapping[str, tuple[Unread, str]] = field(default_factory=dict, compare=False, repr=False)

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
    visible: list[ListedDirectory] = []
    unpaired_deltas = _unpaired_deltas(listing.directories)
    unread: _Unread = {}
    for directory in listing.directories:
        path, txn_id = directory.path, directory.name.visibility_txn_id
        if path in unpaired_deltas:
            reason = "the delta or delete delta that its compaction made beside it is missing"
            unread[path] = Unread.PENDING, reason
        elif not row_ids and _reaches_beyond(directory.name, write_ids):
            reason = "it holds rows that this snapshot must not see, and rows here have no write ids"
            unread[path] = Unread.PENDING, reason
        elif txn_id <= adopted_txn_id or txns is None or txns.is_valid(txn_id):
            visible.append(directory)
        elif txns.is_aborted(txn_id):
            unread[path] = Unread.ABORTED, f"transaction {txn_id} of its compaction was aborted"
        else:
            unread[path] = Unread.PENDING, f"transaction {txn_id} of its compaction had not committed yet"
    base, compacted = _choose_base(visible, write_ids, metadata or {}, unread, history_kept=history_kept)
    remaining = _drop_covered(_live_deltas(visible, write_ids, unread), base, unread)
    if base is not None:
        reason = f"{base.path} holds or replaces the rows of the original files"
        unread |= dict.fromkeys(listing.original_paths, (Unread.OBSOLETE, reason))

    def paths(state: Unread) -> tuple[str, ...]:
        return tuple(sorted(path for path, (found, _) in unread.items() if found is state))

    return AcidState(
        base=None if base is None else as_acid_directory(base, RangeShare.ALL, compacted=compacted),
        deltas=tuple(
            _as_acid_delta(delta, write_ids) for delta in remaining if not _delta_name(delta).is_delete
        ),
        delete_deltas=tuple(
            _as_acid_delta(delta, write_ids) for delta in remaining if _delta_name(delta).is_delete
        ),
        originals=() if base is not None else listing.originals,
        obsolete=paths(Unread.OBSOLETE),
        aborted=paths(Unread.ABORTED),
        uncompacted_aborts=any(_holds_aborted_rows(_delta_name(delta), write_ids) for delta in remaining),
        foreign=listing.foreign,
        pending=paths(Unread.PENDING),
        unpaired_deltas=tuple(sorted(unpaired_deltas)),
        unread=unread,
    )


def format_ids(name: BaseName | DeltaName, one: str = "is", many: str = "are") -> str:
    """Return the write ids of a directory as the subject of a sentence, with its verb."""
    low, high = name.span
    return f"write id {low} {one}" if low == high else f"write ids {low} to {high} {many}"


def _why_invisible(name: BaseName | DeltaName, write_ids: ValidWriteIdList) -> str:
    low, high = name.span
    if low > write_ids.high_watermark:
        return (
            f"{format_ids(name, 'lies', 'lie')} above the table's last write id, {write_ids.high_watermark}"
        )
    if write_ids.has_open(low, high):
        return f"write id {next(write_id for write_id in write_ids.open if low <= write_id <= high)} is open"
    return f"it was compacted together with write ids that this snapshot must not see (open: {write_ids.min_open})"


def _reaches_beyond(name: BaseName | DeltaName, write_ids: ValidWriteIdList) -> bool:
    """Tell whether a delta merges write ids of this snapshot with later ones."""
    if not isinstance(name, DeltaName) or name.min_write_id > write_ids.high_watermark:
        return False
    low, high = name.min_write_id, name.max_write_id
    # A compaction merges no open ids: an id that is open here committed after the moment of the snapshot. Also without _v,
    # as at layout level hive3: a stream of Hive (HiveStreamingConnection) appends to full ACID tables only.
    return high > write_ids.high_watermark or (
        write_ids.has_open(low, high) and write_ids.count_valid(low, high) > 0
    )


def _unpaired_deltas(directories: Iterable[ListedDirectory]) -> set[str]:
    """Return the paths of marked deltas and delete deltas of compactions whose counterpart is missing."""
    marked = {directory.name: directory.path for directory in directories if directory.has_pair_file}
    return {
        path
        for name, path in marked.items()
        if isinstance(name, DeltaName) and replace(name, is_delete=not name.is_delete) not in marked
    }


def _choose_base(
    visible: Iterable[ListedDirectory],
    write_ids: ValidWriteIdList,
    metadata: Mapping[str, str],
    unread: _Unread,
    *,
    history_kept: bool,
) -> tuple[ListedDirectory | None, bool]:
    """Return the usable base with the highest write id, and whether it is compacted; such a one wins over its source."""
    usable: list[tuple[tuple[int, bool, int], ListedDirectory]] = []
    too_new: list[int] = []
    for directory in visible:
        if not isinstance(directory.name, BaseName):
            continue
        write_id = directory.name.write_id
        compacted = is_compacted(directory, metadata)
        if _is_usable(write_id, write_ids, compacted=compacted):
            usable.append(((write_id, compacted, directory.name.visibility_txn_id), directory))
        elif not compacted and write_ids.is_aborted(write_id):
            unread[directory.path] = Unread.ABORTED, f"{format_ids(directory.name)} aborted"
        else:
            unread[directory.path] = Unread.PENDING, _why_invisible(directory.name, write_ids)
            too_new.extend([write_id] if compacted else [])
    if not usable:
        if not history_kept:
            _refuse_lost_history(too_new, write_ids)
        return None, False
    usable.sort(key=lambda pair: pair[0])
    (_, chosen_compacted, _), chosen = usable.pop()
    replaced = Unread.OBSOLETE, f"{chosen.path} holds or replaces its rows"
    unread |= dict.fromkeys((base.path for _, base in usable), replaced)
    return chosen, chosen_compacted


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
    visible: Iterable[ListedDirectory], write_ids: ValidWriteIdList, unread: _Unread
) -> list[ListedDirectory]:
    live: list[ListedDirectory] = []
    for directory in visible:
        name = directory.name
        if not isinstance(name, DeltaName):
            continue
        span = name.min_write_id, name.max_write_id
        if write_ids.aborted_share(*span) is RangeShare.ALL:
            unread[directory.path] = Unread.ABORTED, f"{format_ids(name)} aborted"
        elif write_ids.directory_share(*span) is not RangeShare.NONE:
            live.append(directory)
        else:
            unread[directory.path] = Unread.PENDING, _why_invisible(name, write_ids)
    return sorted(live, key=_delta_order)


def _delta_order(directory: ListedDirectory) -> tuple[int, int, int, int, str]:
    """Wide before narrow, no statement id before statement ids, newest compaction first."""
    name = _delta_name(directory)
    statement = -1 if name.statement_id is None else name.statement_id
    return name.min_write_id, -name.max_write_id, statement, -name.visibility_txn_id, directory.path


def _drop_covered(
    ordered: Iterable[ListedDirectory], base: ListedDirectory | None, unread: _Unread
) -> list[ListedDirectory]:
    """Return the deltas with rows that no earlier one holds."""
    from_base = 0 if base is None else base.name.span[1]
    covered_up_to = from_base
    ends_with_statement_deltas = False  # whether directories of single statements end at ``covered_up_to``
    previous: DeltaName | None = None
    remaining: list[ListedDirectory] = []
    holders: dict[bool, str] = {}  # of rows (False) and delete events (True) up to ``covered_up_to``
    for directory in ordered:
        name = _delta_name(directory)
        if name.max_write_id > covered_up_to:
            covered_up_to, ends_with_statement_deltas = name.max_write_id, name.statement_id is not None
            holders = {}
        elif not _is_other_half(name, previous) and not (
            ends_with_statement_deltas and name.max_write_id == covered_up_to
        ):
            if base is not None and name.max_write_id <= from_base:
                reason = f"{base.path} holds or replaces its rows"
            else:
                reason = f"{holders.get(name.is_delete) or next(iter(holders.values()), 'another directory')} holds its rows"
            unread[directory.path] = Unread.OBSOLETE, reason
            continue
        holders.setdefault(name.is_delete, directory.path)
        remaining.append(directory)
        previous = name
    return remaining


def _is_other_half(name: DeltaName, previous: DeltaName | None) -> bool:
    """Tell whether a delta and a delete delta are the two halves of one statement or compaction."""
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
