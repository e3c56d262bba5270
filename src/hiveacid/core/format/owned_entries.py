"""Entries of a location that belong to its table: DROP, TRUNCATE and the cleaner delete nothing else.

A transactional table owns whole directories of the ACID layout, files named like those of Hive's writers
(``000000_0``), and what hiveacid stages. A plain table owns every file that is not hidden, because those are its rows.
An insert-only table owns both kinds of entries. Every other entry is foreign and stays. Named pipes, sockets
and devices are foreign under any name, except inside a directory that is owned as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from hiveacid.core.format.names import is_layout, parse_original_file
from hiveacid.core.model import TableKind
from hiveacid.core.schema.partitions import unescape
from hiveacid.core.snapshot.directory_listing import FileEntry, ancestors

OWN_PREFIX = ".hiveacid-"
"""Name prefix of everything that hiveacid stages in a location."""
# a file that was being written (`storage.local_file_system`)
_SCRATCH = re.compile(r"\.(.+)\.[0-9a-f]{8}\.tmp")
_CHECKSUM = re.compile(r"\.(.+)\.crc")  # Hadoop's checksums of a local file
_SUCCESS = "_SUCCESS"  # marker that Hadoop's committers write after a job


@dataclass(frozen=True)
class OwnedEntries:
    """A location's entries: ``owned`` may be deleted, each with everything below it; ``foreign`` must stay.

    Paths are relative to the location. No owned directory contains a foreign entry.
    """

    owned: tuple[str, ...]
    foreign: tuple[str, ...]


def split_by_owner(
    entries: Iterable[FileEntry], kind: TableKind, partition_columns: Sequence[str] = ()
) -> OwnedEntries:
    """Divide a listing into owned and foreign entries.

    ``partition_columns``: those of the table for the location of a table, none for the location of a partition.
    """
    columns = [column.lower() for column in partition_columns]
    own, others, directories = [], [], []
    for entry in entries:
        if _is_own(entry, kind, columns):
            own.append(entry.path)
        elif entry.is_dir:
            directories.append(entry.path)
        else:
            others.append(entry.path)
    with_own = {directory for path in own for directory in ancestors(path)}
    with_others = {directory for path in others for directory in ancestors(path)}
    # a directory that is not owned is deleted with the owned files in it, and kept if it holds none
    foreign = {*others, *(path for path in directories if path not in with_own and path not in with_others)}
    protected = {*foreign, *(directory for path in foreign for directory in ancestors(path))}
    owned = {top for path in own if (top := _topmost(path, protected)) is not None}
    return OwnedEntries(tuple(sorted(owned)), tuple(sorted(foreign)))


def is_own_staging(name: str) -> bool:
    """Tell whether hiveacid has staged an entry of a location, now or in an earlier run that crashed."""
    return name.startswith(OWN_PREFIX)


def _is_own(entry: FileEntry, kind: TableKind, columns: Sequence[str]) -> bool:
    parts = entry.path.split("/")
    depth = _partition_depth(parts, columns)
    rest = parts[depth:]
    if not rest:
        return entry.is_dir
    if entry.is_special and len(rest) == 1:
        return False
    if is_own_staging(rest[0]):
        return True
    if depth < len(columns):  # beside partition directories, where readers ignore every file
        return rest == [_SUCCESS]
    if kind is not TableKind.PLAIN and is_layout(rest[0]) and (entry.is_dir or len(rest) > 1):
        return True
    *directories, name = rest
    if entry.is_special or any(_is_hidden(directory) for directory in directories):
        return False
    name = _name_of_final_file(name)
    if kind is TableKind.FULL_ACID:
        return not entry.is_dir and (name == _SUCCESS or parse_original_file(name) is not None)
    return name == _SUCCESS or not _is_hidden(name)


def _partition_depth(parts: Sequence[str], columns: Sequence[str]) -> int:
    """Return how many components of a path name partitions of these columns, from the first on."""
    depth = 0
    for part, column in zip(parts, columns, strict=False):
        name, equals, _ = part.partition("=")
        if not equals or unescape(name).lower() != column:
            break
        depth += 1
    return depth


def _name_of_final_file(name: str) -> str:
    """Return the name of the file to which a scratch or checksum file belongs, for other files the name itself."""
    match = _CHECKSUM.fullmatch(name) or _SCRATCH.fullmatch(name)
    return match[1] if match else name


def _is_hidden(name: str) -> bool:
    return name.startswith(("_", "."))


def _topmost(path: str, protected: set[str]) -> str | None:
    """Return the topmost component of a path that contains nothing protected, None if the path itself is protected."""
    return next(
        (component for component in (*reversed([*ancestors(path)]), path) if component not in protected),
        None,
    )
