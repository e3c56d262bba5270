"""Findings about names and side files, which need an inventory but no open data file."""

from __future__ import annotations

from collections.abc import Iterator

from hiveacid.core.format.names import FLUSH_LENGTH_SUFFIX, parse_original_file
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import TableKind
from hiveacid.core.snapshot.findings import Finding, FindingKind
from hiveacid.core.snapshot.inventory import ROOT, DirectoryItem, Inventory, ItemState
from hiveacid.core.snapshot.listing import last_flush_length
from hiveacid.errors import BadDirectoryNameError, NotEnoughHistoryError

_LENGTH = 8  # bytes of a number in a _flush_length file
_LEFT = {
    ItemState.OBSOLETE: FindingKind.OBSOLETE,
    ItemState.ABORTED: FindingKind.ABORTED,
    ItemState.STAGING: FindingKind.STAGING,
    ItemState.HIDDEN: FindingKind.LEFTOVER,
    ItemState.FOREIGN: FindingKind.FOREIGN_FILE,
}


def check_layout(
    found: Inventory, write_ids: ValidWriteIdList, kind: TableKind, root: str, partition: str | None
) -> Iterator[Finding]:
    """Judge a location's directories and the names of its files."""
    for error in found.errors:
        which = FindingKind.BAD_SIDE_FILE
        if isinstance(error, BadDirectoryNameError):
            which = FindingKind.BAD_NAME
        elif isinstance(error, NotEnoughHistoryError):
            which = FindingKind.HISTORY_LOST
        path = f"{root}/{error.path}" if error.path else root
        yield Finding(which, path, str(error), partition)
    for item in found.directories:
        which_left = _left(item, write_ids)
        if which_left is not None and item.path != ROOT:
            yield Finding(which_left, f"{root}/{item.path}", item.reason, partition)
    if any(item.path == ROOT and item.state is ItemState.OBSOLETE for item in found.directories):
        reason = next(item.reason for item in found.directories if item.path == ROOT)
        yield Finding(FindingKind.OBSOLETE, root, reason, partition)
    yield from _files(found, kind, root, partition)


def _left(item: DirectoryItem, write_ids: ValidWriteIdList) -> FindingKind | None:
    if item.state is not ItemState.OPEN:
        return _LEFT.get(item.state)
    low = 0 if item.name is None else item.name.span[0]
    return FindingKind.BEYOND if low > write_ids.high_watermark else FindingKind.OPEN


def _files(found: Inventory, kind: TableKind, root: str, partition: str | None) -> Iterator[Finding]:
    states = {item.path: item.state for item in found.directories}
    for file in found.files:
        used = states.get(file.directory) is ItemState.USED
        if file.state is ItemState.FOREIGN and used:
            yield Finding(FindingKind.FOREIGN_FILE, f"{root}/{file.path}", file.reason, partition)
        elif kind is TableKind.FULL_ACID and file.kind == "original" and file.state is ItemState.USED:
            name = file.path.rpartition("/")[2]
            if parse_original_file(name) is None:
                message = "named neither NNNNNN_M nor NNNNNN_M_copy_K: its rows count as bucket 0"
                yield Finding(FindingKind.ORIGINAL_NAME, f"{root}/{file.path}", message, partition)


def check_version_files(
    texts: dict[str, bytes | None], root: str, partition: str | None
) -> Iterator[Finding]:
    """Judge the contents of ``_orc_acid_version`` files by directory; None: the directory has none."""
    for directory, text in texts.items():
        if text is None:
            message = "Hive's own writers leave one; LOAD DATA and empty bases of Hive 4 have none"
            yield Finding(FindingKind.NO_VERSION_FILE, f"{root}/{directory}", message, partition)
        elif text.strip() != b"2":
            yield Finding(
                FindingKind.VERSION_FILE, f"{root}/{directory}", f"it holds {text[:20]!r}", partition
            )


def check_flush_length(path: str, size: int, side: bytes, partition: str | None) -> Iterator[Finding]:
    """Compare a streamed file of ``size`` bytes with its side file: big-endian numbers, the last whole one counts."""
    if len(side) % _LENGTH:
        message = f"{path}{FLUSH_LENGTH_SUFFIX} has {len(side)} bytes, not a multiple of {_LENGTH}"
        yield Finding(FindingKind.TORN_FLUSH_LENGTH, path, message, partition)
    length = last_flush_length(side)
    if length > size:
        message = f"{length} bytes were written, {size} are there"
        yield Finding(FindingKind.SHORT_FILE, path, message, partition)
    elif length < size:
        message = f"of {size} bytes only {length} are read"
        yield Finding(FindingKind.TORN_FLUSH_LENGTH, path, message, partition)
