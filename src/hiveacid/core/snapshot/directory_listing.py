"""Listing of a location, grouped by directory; the entries that its table owns.

Rules: Hive's hidden-file filter and the recursion of ``AcidUtils.getHdfsDirSnapshots``.
Files nested below a directory of the layout belong to it (HIVE_UNION_SUBDIR_n, list bucketing). Below any other
directory of the root they are original files.

DROP, TRUNCATE and the cleaner delete only entries that belong to the table. A transactional table owns whole directories of
the ACID layout, files named like those of Hive's writers (``000000_0``), and what hiveacid stages. A plain table owns every
file that is not hidden, because those are its rows. An insert-only table owns both kinds of entries. Every other entry is
foreign and stays. Named pipes, sockets and devices are foreign under any name, except inside a directory that is owned as
a whole.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from hiveacid.core.format import names
from hiveacid.core.format.names import layout_name, parse_original_file
from hiveacid.core.model import TableKind
from hiveacid.core.schema.partitions import unescape
from hiveacid.errors import BadFileError

_LONG = 8  # bytes
_SETTLED = 5_000  # milliseconds after which no other file can get the same modification time
MOST_METADATA = 1 << 16
"""Bytes of a ``_metadata_acid`` file that are read; Hive writes some fifty."""


class DataFormat(StrEnum):
    """Data format in ``_metadata_acid``: a base compacted by Hive 3, or emptied by TRUNCATE or DROP PARTITION."""

    COMPACTED = "compacted"
    TRUNCATED = "truncated"
    DROPPED = "dropped"


class FooterFacts(NamedTuple):
    """Facts of an ORC footer that a plan needs; ``schema``: text of the table's columns as a struct.

    ``keys``: lowest and highest write id, bucket and row id of an ACID file, else empty. ``statistics``: of each ORC column, as
    stored in the footer.
    """

    rows: int
    schema: str
    is_acid: bool = False
    has_events: bool = False
    keys: tuple[int, ...] = ()
    statistics: Sequence[bytes] = ()


class FileEntry(NamedTuple):  # a plan makes 100,000 of them, a tuple in a third of the time
    """A file or directory of a listing; ``path`` is relative to the root asked for, with '/'.

    ``is_special``: a named pipe, socket or device. It holds no rows, and opening a pipe can block for ever.
    ``facts``: those of the footer, if a commit has recorded them.
    """

    path: str
    is_dir: bool
    size: int = 0  # bytes; 0 for a directory
    modified: int = 0  # ms since the epoch; 0 if unknown
    is_special: bool = False
    facts: FooterFacts | None = None


def is_as_listed(entry: FileEntry, before: FileEntry | None) -> bool:
    """Tell whether an entry was in an earlier listing and is the same file with the same content, as far as that tells."""
    if before is None or entry.is_dir != before.is_dir:
        return False
    return entry.is_dir or (entry.size, entry.modified) == (before.size, before.modified)


def ancestors(path: str) -> Iterator[str]:
    """Yield the directories of a listing that contain a path, the innermost first."""
    while "/" in path:
        path = path.rpartition("/")[0]
        yield path


class DataFile(NamedTuple):  # a plan makes 100,000 of them
    """A file with rows: path relative to the location, size in bytes.

    ``flush_length_path``: the side file with the number of bytes that may be read (streaming ingest); None if there is
    no such file, so that the whole file may be read.
    """

    path: str
    size: int
    flush_length_path: str | None = None
    modified: int = 0  # ms since the epoch, 0 if unknown; not compared
    facts: FooterFacts | None = None  # as in `FileEntry`; not compared

    def __eq__(self, other: object) -> bool:
        """Compare path, size and side file."""
        return isinstance(other, DataFile) and self[:3] == other[:3]

    def __ne__(self, other: object) -> bool:
        """Compare as ``==`` does."""
        return not self == other

    def __hash__(self) -> int:
        """Return a hash of what is compared."""
        return hash(self[:3])

    def __reduce__(self) -> tuple[type[DataFile], tuple[object, ...]]:
        """Leave the facts, up to 16 KB a file, in the process that plans: tasks on executors do not need them."""
        return DataFile, (self.path, self.size, self.flush_length_path, self.modified)

    @property
    def name(self) -> str:
        """Return the last component of the path."""
        return self.path.rpartition("/")[2]

    def is_identified(self, now: int) -> bool:
        """Tell whether path, size and time identify the file, even if its table is dropped and created again.

        Object stores give times in whole seconds, so such a file must be old enough. ``now``: ms since the epoch.
        """
        return self.modified > 0 and (self.modified % 1000 > 0 or now - self.modified > _SETTLED)


@dataclass(frozen=True)
class ListedDirectory:
    """A directory of the ACID layout with its data files, sorted by path, empty files left out."""

    path: str
    name: names.BaseName | names.DeltaName
    files: tuple[DataFile, ...]
    has_version_file: bool
    has_metadata_file: bool
    has_pair_file: bool = False


@dataclass(frozen=True)
class Listing:
    """A location's entries, divided into directories of the ACID layout, original files and foreign entries.

    ``original_paths``: root files and directories that hold ``originals``, empty files included.
    ``foreign``: entries of the root that readers ignore: hidden ones, partition directories, others.
    """

    directories: tuple[ListedDirectory, ...]
    originals: tuple[DataFile, ...]
    original_paths: tuple[str, ...]
    foreign: tuple[str, ...]


def read_listing(entries: Iterable[FileEntry]) -> Listing:
    """Group the entries below a location. Directories need no entry of their own (object stores).

    Raises BadDirectoryNameError for a directory that begins like one of the layout and does not parse.
    """
    tops, root_files = _by_top(entries)
    directories: list[ListedDirectory] = []
    originals: list[DataFile] = []
    original_paths: list[str] = []
    foreign: list[str] = []
    for entry in root_files:
        if entry.is_special or names.has_hidden_prefix(entry.path):
            foreign.append(entry.path)
            continue
        original_paths.append(entry.path)
        originals.extend(_data_files([entry]))
    for top, inside in tops.items():
        name = None if names.is_hidden(top) else names.parse_directory(top)
        if name is not None:
            directories.append(_directory(top, name, inside))
        elif _holds_originals(top, inside):
            original_paths.append(top)
            originals.extend(_data_files(inside))
        else:
            foreign.append(top)
    return Listing(
        tuple(directories),
        tuple(sorted(originals, key=lambda file: file.path)),
        tuple(sorted(original_paths)),
        tuple(sorted(foreign)),
    )


def _holds_originals(top: str, inside: list[FileEntry]) -> bool:
    """Tell whether a directory of the root holds original files: that of a UNION ALL, or one with files named so.

    Hive looks for original files at any depth. Here a directory such as ``p=1`` counts as a partition.
    """
    if names.UNION_DIRECTORY.fullmatch(top):
        return True
    if names.is_hidden(top) or "=" in top:
        return False
    return any(names.parse_original_file(file.name) is not None for file in _data_files(inside))


def metadata_paths(entries: Iterable[FileEntry]) -> tuple[str, ...]:
    """Return the ``_metadata_acid`` files whose text ``select`` needs: those of bases without ``_v``."""
    paths: list[str] = []
    for entry in entries:
        directory, _, name = entry.path.rpartition("/")
        if name != names.METADATA_FILE or entry.is_dir or entry.is_special:
            continue
        parsed = names.layout_name(directory)  # select reports a bad one
        if isinstance(parsed, names.BaseName) and not parsed.visibility_txn_id:
            paths.append(entry.path)
    return tuple(paths)


def is_compacted(directory: ListedDirectory, metadata: Mapping[str, str]) -> bool:
    """Tell whether a major compaction wrote a base, rather than INSERT OVERWRITE or TRUNCATE.

    Hive 4 marks one by ``_v``, Hive 3 by ``_metadata_acid`` with data format ``compacted``
    (``AcidUtils.isCompactedBase``). ``metadata``: texts of these files by directory path. Raises BadFileError if the
    text is missing or is not one that Hive writes.
    """
    if directory.name.visibility_txn_id:
        return True
    if not directory.has_metadata_file:
        return False
    path = f"{directory.path}/{names.METADATA_FILE}"
    text = metadata.get(directory.path)
    if text is None:
        raise BadFileError("the text of this file is needed to know what the base is", path=path)
    try:
        content = json.loads(text)
    except (ValueError, RecursionError) as error:  # brackets in brackets
        raise BadFileError("not the JSON text that Hive writes", path=path) from error
    if not isinstance(content, dict) or content.get("dataFormat") not in list(DataFormat):
        raise BadFileError(f"dataFormat is none of {', '.join(DataFormat)}", path=path)
    return bool(content["dataFormat"] == DataFormat.COMPACTED)


def last_flush_length(data: bytes) -> int:
    """Return how many bytes of a streamed file may be read, from the content of its side file.

    The side file holds big-endian 64-bit numbers; the last complete one counts (``OrcAcidUtils.getLastFlushLength``).
    Without a complete number the result is 0.
    """
    whole = len(data) // _LONG * _LONG
    return max(0, int.from_bytes(data[whole - _LONG : whole], "big", signed=True)) if whole else 0


def format_metadata(data_format: DataFormat) -> str:
    """Return the text of a ``_metadata_acid`` file, exactly as Hive writes it."""
    return f'{{"thisFileVersion":"0","dataFormat":"{data_format}"}}'


def _by_top(entries: Iterable[FileEntry]) -> tuple[dict[str, list[FileEntry]], list[FileEntry]]:
    tops: dict[str, list[FileEntry]] = {}
    root_files: list[FileEntry] = []
    for entry in entries:
        top, slash, _ = entry.path.partition("/")
        if entry.is_dir:
            tops.setdefault(top, [])
        elif slash:
            tops.setdefault(top, []).extend([] if entry.is_special else [entry])
        else:
            root_files.append(entry)
    return tops, root_files


def _directory(top: str, name: names.BaseName | names.DeltaName, inside: list[FileEntry]) -> ListedDirectory:
    paths = {entry.path for entry in inside}
    return ListedDirectory(
        top,
        name,
        tuple(_data_files(inside, flush_lengths=_is_streamed(name))),
        has_version_file=f"{top}/{names.ACID_VERSION_FILE}" in paths,
        has_metadata_file=f"{top}/{names.METADATA_FILE}" in paths,
        has_pair_file=f"{top}/{names.PAIR_FILE}" in paths,
    )


def _is_streamed(name: names.BaseName | names.DeltaName) -> bool:
    """Tell whether a stream may still append to a directory: a delta of several write ids that no compaction made."""
    return (
        isinstance(name, names.DeltaName)
        and not name.is_delete
        and name.min_write_id != name.max_write_id
        and not name.visibility_txn_id
    )


def _data_files(inside: list[FileEntry], *, flush_lengths: bool = False) -> list[DataFile]:
    paths = {entry.path for entry in inside} if flush_lengths else set()
    files: list[DataFile] = []
    for entry in sorted(inside, key=lambda child: child.path):
        path = entry.path
        if entry.size == 0 or "/_" in path or "/." in path or _is_flush_length(path):
            continue
        side = path + names.FLUSH_LENGTH_SUFFIX
        files.append(DataFile(path, entry.size, side if side in paths else None, entry.modified, entry.facts))
    return files


def _is_flush_length(path: str) -> bool:
    if not path.endswith(names.FLUSH_LENGTH_SUFFIX):
        return False
    return (
        names.parse_bucket_file(path.rpartition("/")[2].removesuffix(names.FLUSH_LENGTH_SUFFIX)) is not None
    )


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
    if kind is not TableKind.PLAIN and layout_name(rest[0]) and (entry.is_dir or len(rest) > 1):
        return True
    *directories, name = rest
    if entry.is_special or any(names.has_hidden_prefix(directory) for directory in directories):
        return False
    match = _CHECKSUM.fullmatch(name) or _SCRATCH.fullmatch(name)
    name = match[1] if match else name  # the file to which a scratch or checksum file belongs
    if kind is TableKind.FULL_ACID:
        return not entry.is_dir and (name == _SUCCESS or parse_original_file(name) is not None)
    return name == _SUCCESS or not names.has_hidden_prefix(name)


def _partition_depth(parts: Sequence[str], columns: Sequence[str]) -> int:
    """Return how many components of a path name partitions of these columns, from the first on."""
    depth = 0
    for part, column in zip(parts, columns, strict=False):
        name, equals, _ = part.partition("=")
        if not equals or unescape(name).lower() != column:
            break
        depth += 1
    return depth


def _topmost(path: str, protected: set[str]) -> str | None:
    """Return the topmost component of a path that contains nothing protected, None if the path itself is protected."""
    return next(
        (component for component in (*reversed([*ancestors(path)]), path) if component not in protected), None
    )
