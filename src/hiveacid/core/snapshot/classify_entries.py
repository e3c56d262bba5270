"""Inventory of a location: the state of each directory and file in a snapshot, with the reason.

``core.snapshot.selection.select`` decides what is read. This module gives the state of every entry, even if ``select``
refuses the whole location.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property
from typing import TypeAlias

from hiveacid.core.format import names as layout
from hiveacid.core.format.write_id_lists import RangeShare, ValidTxnList, ValidWriteIdList
from hiveacid.core.model import TableKind, TxnId
from hiveacid.core.snapshot.directory_listing import DataFile, FileEntry
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState, format_ids, select
from hiveacid.errors import BadDirectoryNameError, FormatError

ROOT = ""
"""Path of the location itself, which holds the original files."""


class ItemState(StrEnum):
    """State of a directory or file in a snapshot."""

    USED = "used"
    OBSOLETE = "obsolete"
    ABORTED = "aborted"
    OPEN = "open"
    REFUSED = "refused"
    STAGING = "staging"
    HIDDEN = "hidden"
    SIDE_FILE = "side file"
    EMPTY = "empty"
    FOREIGN = "foreign"


@dataclass(frozen=True)
class DirectoryItem:
    """A top-level directory of a location, or the location's own files (path '').

    ``files``, ``bytes``: everything below a directory. ``kind``: base, delta, delete_delta, original (the location's own
    files, or a sub-directory of original files), other. ``name`` is None where the path is not a name of the layout.
    """

    path: str
    kind: str
    state: ItemState
    reason: str
    name: layout.BaseName | layout.DeltaName | None = None
    files: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class FileItem:
    """A file: path relative to the location, the directory that it belongs to, size in bytes."""

    path: str
    directory: str
    kind: str
    bytes: int
    state: ItemState
    reason: str


@dataclass(frozen=True)
class Inventory:
    """All items of a location. ``state``: the selection of ``select``; None if ``errors`` prevent it."""

    directories: tuple[DirectoryItem, ...]
    files: tuple[FileItem, ...]
    state: AcidState | None
    errors: tuple[FormatError, ...] = ()


@dataclass(frozen=True)
class InventorySnapshot:
    """Snapshot that an inventory refers to.

    ``uncommitted_at_adoption``: visibility transactions that had not committed when the table was adopted.
    """

    write_ids: ValidWriteIdList
    txns: ValidTxnList | None
    adopted_txn_id: TxnId = layout.NO_VISIBILITY
    uncommitted_at_adoption: AbstractSet[int] = frozenset()


def take_inventory(
    entries: Sequence[FileEntry],
    snapshot: InventorySnapshot,
    metadata: Mapping[str, str],
    kind: TableKind,
    staging_txn_id: Callable[[str], TxnId | None],
    min_write_id: int = 0,
) -> Inventory:
    """Return the state of each directory and file; errors of the layout are part of the result.

    ``metadata``: as for ``select``. ``staging_txn_id``: function that returns the transaction of a staging directory
    by its name, None for other names. ``min_write_id``: that of the partition (`core.model.Partition`).
    """
    top_names = dict.fromkeys(entry.path.partition("/")[0] for entry in entries)
    folders = {e.path for e in entries if e.is_dir} | {
        p for e in entries for p, s, _ in [e.path.partition("/")] if s
    }
    names, errors = _names(top for top in top_names if top in folders and kind is not TableKind.PLAIN)
    bad = {error.path for error in errors}
    state: AcidState | None = None
    if kind is not TableKind.PLAIN:
        good = [
            e
            for e in entries
            if e.path.partition("/")[0] not in bad
            and not _is_uncommitted(names, e.path, snapshot.uncommitted_at_adoption)
            and not layout.ends_below(e.path.partition("/")[0], min_write_id)
        ]
        try:
            state = select(
                good,
                snapshot.write_ids,
                snapshot.txns,
                metadata,
                adopted_txn_id=snapshot.adopted_txn_id,
                row_ids=kind is TableKind.FULL_ACID,
            )
        except FormatError as error:
            errors = [*errors, error]
    classifier = _Classifier(
        snapshot, kind, state, names, {e.path or "": str(e) for e in errors}, staging_txn_id, min_write_id
    )
    classified = {top: classifier.directory(top) for top in top_names if top in folders}
    files = tuple(
        classifier.file(e.path, e.size, classified)
        for e in sorted(entries, key=lambda e: e.path)
        if not e.is_dir
    )
    return Inventory(classifier.items(classified, files), files, None if errors else state, tuple(errors))


def _names(
    top_names: Iterable[str],
) -> tuple[dict[str, layout.BaseName | layout.DeltaName], list[FormatError]]:
    names: dict[str, layout.BaseName | layout.DeltaName] = {}
    errors: list[FormatError] = []
    for top in top_names:
        try:
            name = None if layout.is_hidden(top) else layout.parse_directory(top)
        except BadDirectoryNameError as error:
            errors.append(error)
            continue
        if name is not None:
            names[top] = name
    return names, errors


def _is_uncommitted(
    names: Mapping[str, layout.BaseName | layout.DeltaName],
    path: str,
    uncommitted_at_adoption: AbstractSet[int],
) -> bool:
    name = names.get(path.partition("/")[0])
    return name is not None and int(name.visibility_txn_id) in uncommitted_at_adoption


_Classification: TypeAlias = tuple[ItemState, str]


@dataclass(frozen=True)
class _Classifier:
    snapshot: InventorySnapshot
    kind: TableKind
    state: AcidState | None
    names: Mapping[str, layout.BaseName | layout.DeltaName]
    refused: Mapping[str, str]  # by path
    staging_txn_id: Callable[[str], TxnId | None]
    min_write_id: int

    @cached_property
    def used(self) -> Mapping[str, AcidDirectory]:
        """Return the directories that are read, by path."""
        state = self.state
        if state is None:
            return {}
        return {directory.path: directory for directory in state.directories_to_read}

    @cached_property
    def data(self) -> Mapping[str, DataFile]:
        """Return the data files of directories that are read, by path."""
        return {file.path: file for directory in self.used.values() for file in directory.files}

    @cached_property
    def original_directories(self) -> AbstractSet[str]:
        """Return the top-level directories of original files, read or replaced."""
        if self.state is None:
            return frozenset()
        top_names = {file.path.partition("/")[0] for file in self.state.originals if "/" in file.path}
        return top_names | {path for path in self.state.obsolete if path not in self.names}

    # directories ---------------------------------------------------------------------------------

    def items(
        self, classified: Mapping[str, _Classification], files: Iterable[FileItem]
    ) -> tuple[DirectoryItem, ...]:
        """Return the directories with their sizes, and one more item for the files directly in the root."""
        sizes: dict[str, list[int]] = {}
        for file in files:
            sizes.setdefault(file.directory, []).append(file.bytes)
        if ROOT in sizes:
            classified = {**classified, ROOT: self._originals()}
        return tuple(
            DirectoryItem(
                path,
                self._kind(path),
                state,
                reason,
                self.names.get(path),
                len(sizes.get(path, ())),
                sum(sizes.get(path, ())),
            )
            for path, (state, reason) in sorted(classified.items())
        )

    def _kind(self, path: str) -> str:
        name = self.names.get(path)
        if isinstance(name, layout.BaseName):
            return "base"
        if isinstance(name, layout.DeltaName):
            return "delete_delta" if name.is_delete else "delta"
        return "original" if path == ROOT or self._is_original(path) else "other"

    def _is_original(self, path: str) -> bool:
        return layout.UNION_DIRECTORY.fullmatch(path) is not None or path in self.original_directories

    def directory(self, path: str) -> _Classification:
        """Classify a directory of the root."""
        txn_id = self.staging_txn_id(path)
        if txn_id is not None:
            return ItemState.STAGING, f"files of a statement of transaction {txn_id} that was not published"
        if layout.is_hidden(path):
            return ItemState.HIDDEN, "hidden: no reader looks at it"
        if path in self.refused:
            return ItemState.REFUSED, self.refused[path]
        name = self.names.get(path)
        if name is not None:
            return self._acid_directory(path, name)
        if self.kind is TableKind.PLAIN or self._is_original(path):
            return self._originals()
        return ItemState.FOREIGN, "not of the layout: no reader looks at it"

    def _acid_directory(self, path: str, name: layout.BaseName | layout.DeltaName) -> _Classification:
        if int(name.visibility_txn_id) in self.snapshot.uncommitted_at_adoption:
            return ItemState.ABORTED, (
                f"transaction {name.visibility_txn_id} of its compaction had not committed when the table was adopted"
            )
        if layout.ends_below(path, self.min_write_id):
            why = f"the partition was recorded later, when {self.min_write_id} was the lowest write id in use"
            return ItemState.OBSOLETE, f"{format_ids(name, 'had', 'had')} ended before: {why}"
        if self.state is None:
            return self._unreadable()
        if path in self.used:
            return ItemState.USED, _why_used(self.used[path])
        state, reason = self.state.unread[path]
        return ItemState(state), reason

    def _unreadable(self) -> _Classification:
        return ItemState.REFUSED, next(iter(self.refused.values()), "the location cannot be read")

    def _originals(self) -> _Classification:
        if self.kind is TableKind.PLAIN:
            return ItemState.USED, "a table without transactions: every file is read"
        if self.state is None:
            return self._unreadable()
        if self.state.base is not None:
            return (
                ItemState.OBSOLETE,
                f"{self.state.base.path} holds or replaces the rows of the original files",
            )
        return ItemState.USED, "files older than the table's conversion, or of Trino's CTAS"

    # files ---------------------------------------------------------------------------------------

    def file(self, path: str, size: int, classified: Mapping[str, _Classification]) -> FileItem:
        """Classify a file."""
        top, slash, _ = path.partition("/")
        directory = top if slash else ROOT
        classification = classified[directory] if slash else self._originals()
        state, reason = self._classify_file(path, directory, size, classification)
        return FileItem(path, directory, self._kind(directory), size, state, reason)

    def _classify_file(
        self, path: str, directory: str, size: int, classification: _Classification
    ) -> _Classification:
        if classification[0] in (ItemState.STAGING, ItemState.HIDDEN, ItemState.REFUSED, ItemState.FOREIGN):
            return classification
        side = self._side_file(path)
        if side is not None:
            return side
        if size == 0:
            return ItemState.EMPTY, "no bytes, no rows"
        if (
            classification[0] is not ItemState.USED
            or self.kind is not TableKind.FULL_ACID
            or directory not in self.used
        ):
            return classification
        return self._in_read_directory(path, self.used[directory], classification)

    def _side_file(self, path: str) -> _Classification | None:
        name = path.rpartition("/")[2]
        if name in (layout.ACID_VERSION_FILE, layout.METADATA_FILE) and "/" in path:
            return ItemState.SIDE_FILE, "of Hive's layout"
        if any(layout.has_hidden_prefix(part) for part in path.split("/")):
            return ItemState.HIDDEN, "hidden: no reader looks at it"
        bucket = layout.parse_bucket_file(name.removesuffix(layout.FLUSH_LENGTH_SUFFIX))
        if name.endswith(layout.FLUSH_LENGTH_SUFFIX) and bucket is not None:
            return ItemState.SIDE_FILE, "says how much of a streamed file may be read"
        return None

    def _in_read_directory(
        self, path: str, directory: AcidDirectory, classification: _Classification
    ) -> _Classification:
        """Classify a file of a directory that is read, by its name."""
        file = self.data[path]
        if layout.parse_bucket_file(file.name) is not None:
            limit = "read as far as its _flush_length file says"
            return ItemState.USED, classification[1] if file.flush_length_path is None else limit
        if directory.may_lack_acid_columns and layout.parse_original_file(file.name) is not None:
            return ItemState.USED, "a file without row ids (LOAD DATA)"
        return ItemState.FOREIGN, "not named bucket_N: no reader looks at it"


def _why_used(directory: AcidDirectory) -> str:
    if isinstance(directory.name, layout.BaseName):
        return "the newest base that this snapshot may read"
    if directory.validity is RangeShare.SOME:
        return "some of its write ids are open or aborted: its rows are looked at one by one"
    return f"{format_ids(directory.name)} committed"
