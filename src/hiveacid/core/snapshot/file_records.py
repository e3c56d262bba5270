"""Records of the files that commits put into a table: what a listing of its locations shows of committed writers.

A commit in a store of hiveacid's own records the directories that it made, with names, sizes and footers' facts of their files.
The records of a table are complete if its location was empty when it was created, and each later commit that had
a write id or compacted told what it made, if only that it made nothing. The store keeps a mark of complete tables. A commit that
does not tell, such as one that has made a directory without its files' names, takes the mark away in the same step. A directory
that counts without a commit, as that of a compaction for Hive 3, takes it before it appears. So a reader who finds the mark
knows all directories that its snapshot could select.

Records hold no directory of open or aborted writers. A selection does not read those, so that it selects the same from both.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, NamedTuple, overload

from hiveacid.core.format.names import ACID_VERSION_FILE
from hiveacid.core.model import TableName
from hiveacid.core.snapshot.directory_listing import FileEntry, FooterFacts
from hiveacid.core.snapshot.selection import AcidState

_LENGTH = 4  # bytes of a length among the statistics
_WITHOUT_FACTS = 2  # parts of a file without facts: name and size
_AT_ONCE = 10_000  # texts that are read together
LONGEST_FIRST_PART = 24
"""Characters that `first_part` may have."""
_LONGEST = 4 << 20  # characters of a text: MariaDB refuses a statement of more than 16 MB


class RecordedFile(NamedTuple):
    """A file: its name in its directory, its size in bytes; ``facts``: None where the footer has to be read."""

    name: str
    size: int
    facts: FooterFacts | None = None


@dataclass(frozen=True)
class RecordedDirectory:
    """A directory of the ACID layout as a commit left it. ``has_version_file``: it holds ``_orc_acid_version``.

    ``made``: when its files were published, ms since the epoch by their writer's clock, 0 if unknown. It tells files of one
    path apart, whose table was dropped and made again, as their modification times do.
    """

    name: str
    files: tuple[RecordedFile, ...] = ()
    has_version_file: bool = False
    made: int = 0


@dataclass(frozen=True)
class NewDirectory:
    """A directory that a transaction made in the partition of these values (none: in a table without partitions)."""

    values: tuple[str | None, ...]
    directory: RecordedDirectory


@dataclass(frozen=True)
class TableRecords:
    """All directories that a transaction made in a table, none if it made none."""

    table: TableName
    directories: tuple[NewDirectory, ...] = ()


RecordedPlaces = Mapping[tuple[str, ...], Sequence[RecordedDirectory]]
"""Recorded directories by the key of their partition (`core.model.Partition.key`)."""
NO_PLACES: RecordedPlaces = MappingProxyType({})


def listed_entries(directories: Iterable[RecordedDirectory]) -> tuple[FileEntry, ...]:
    """Return the entries that a listing of a location would have of these directories."""
    entries: list[FileEntry] = []
    for directory in directories:
        name = directory.name
        entries.append(FileEntry(name, is_dir=True))
        if directory.has_version_file:
            entries.append(FileEntry(f"{name}/{ACID_VERSION_FILE}", is_dir=False, size=1))
        made = directory.made
        entries += [
            FileEntry(f"{name}/{file.name}", False, file.size, made, False, file.facts)  # noqa: FBT003
            for file in directory.files
        ]
    return tuple(entries)


def first_difference(listed: AcidState, recorded: AcidState) -> tuple[str, str] | None:
    """Return the path of the first difference between what a snapshot reads by a listing and by records, and a text of it."""
    found, known = _read_files(listed), _read_files(recorded)
    for path in sorted(found.keys() | known.keys()):
        if path not in known:
            return path, "a snapshot reads it, and no commit has recorded it"
        if path not in found:
            return path, "a commit has recorded it, and it is not there"
        if found[path] != known[path]:
            return path, f"{found[path]} were found, and {known[path]} were recorded"
    order = [[directory.path for directory in state.directories_to_read] for state in (listed, recorded)]
    return (
        None
        if order[0] == order[1]
        else ("", f"directories are read as {order[0]}, by records as {order[1]}")
    )


def _read_files(state: AcidState) -> Mapping[str, str]:
    found = {file.path: f"{file.size} bytes" for file in state.originals}
    for directory in state.directories_to_read:
        how = "" if not directory.may_lack_acid_columns else ", perhaps without row ids"
        found[directory.path] = f"{directory.validity.name} rows{how}"
        found |= {
            file.path: f"{file.size} bytes" + (", growing" if file.flush_length_path else "")
            for file in directory.files
        }
    return found


def directory_text(directory: RecordedDirectory) -> str:
    """Return the text that a store keeps of a directory, beside its name: JSON in ASCII.

    It is without the files' facts if it would be too long with them.
    """
    text = _text(directory)
    if len(text) <= _LONGEST:
        return text
    return _text(replace(directory, files=tuple(file._replace(facts=None) for file in directory.files)))


def first_part(directory: RecordedDirectory) -> str:
    """Return the first characters of the text of a directory, which tell it from another one of its name."""
    return f"[{directory.has_version_file | directory.made << 1},"


def _text(directory: RecordedDirectory) -> str:
    schemas = dict.fromkeys(file.facts.schema for file in directory.files if file.facts is not None)
    numbers = {schema: number for number, schema in enumerate(schemas)}
    rows: list[list[object]] = []
    statistics: list[bytes] = []
    for name, size, facts in directory.files:
        if facts is None:
            rows.append([name, size])
            continue
        bits = facts.is_acid | facts.has_events << 1
        rows.append([name, size, facts.rows, numbers[facts.schema], bits, facts.keys, len(facts.statistics)])
        statistics += facts.statistics
    packed = b"".join(len(data).to_bytes(_LENGTH, "big") + data for data in statistics)
    parts: list[object] = [directory.has_version_file | directory.made << 1, rows]
    if schemas:
        parts.append(list(schemas))
    if packed:
        parts.append(b64encode(zlib.compress(packed, 1)).decode())
    return json.dumps(parts, separators=(",", ":"))


def directory_of_text(name: str, text: str) -> RecordedDirectory:
    """Read the text that a store keeps of a directory."""
    return directories_of_texts([(name, text)])[0]


def directories_of_texts(texts: Sequence[tuple[str, str]]) -> list[RecordedDirectory]:
    """Read the texts that a store keeps of directories, given by name and text.

    All at once: a call of JSON's reader takes as long as the text of a few files.
    """
    found: list[RecordedDirectory] = []
    for start in range(0, len(texts), _AT_ONCE):
        some = texts[start : start + _AT_ONCE]
        parsed = json.loads(f"[{','.join([text for _, text in some])}]")
        found += [_directory(name, *parts) for (name, _), parts in zip(some, parsed, strict=True)]
    return found


def _directory(name: str, made: int, rows: list[Any], *more: Any) -> RecordedDirectory:
    schemas = more[0] if more else ()
    packed = _PackedStatistics(more[1]) if len(more) > 1 else None
    files, first = [], 0
    for row in rows:
        facts = None
        if len(row) > _WITHOUT_FACTS:
            _, _, count, schema, bits, keys, columns = row
            statistics = _FileStatistics(packed, first, first + columns) if packed and columns else ()
            facts = FooterFacts(count, schemas[schema], bits & 1 > 0, bits & 2 > 0, tuple(keys), statistics)
            first += columns
        files.append(RecordedFile(row[0], row[1], facts))
    return RecordedDirectory(name, tuple(files), made & 1 > 0, made >> 1)


class _PackedStatistics:
    """Column statistics of all files of a directory, unpacked when a condition first asks for some."""

    __slots__ = ("_held",)

    def __init__(self, text: str) -> None:
        self._held: str | tuple[bytes, ...] = text

    def all(self) -> tuple[bytes, ...]:
        held = self._held
        if isinstance(held, str):
            held = self._held = tuple(_unpack(zlib.decompress(b64decode(held))))
        return held


class _FileStatistics(Sequence[bytes]):
    """Column statistics of one of these files; equal to a tuple of the same."""

    __slots__ = ("_packed", "_span")

    def __init__(self, packed: _PackedStatistics, first: int, end: int) -> None:
        self._packed, self._span = packed, range(first, end)

    def __len__(self) -> int:
        return len(self._span)

    @overload
    def __getitem__(self, index: int) -> bytes: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[bytes, ...]: ...
    def __getitem__(self, index: int | slice) -> bytes | tuple[bytes, ...]:
        if isinstance(index, slice):
            return tuple(self)[index]
        return self._packed.all()[self._span[index]]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))


def _unpack(packed: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(packed):
        end = start + _LENGTH + int.from_bytes(packed[start : start + _LENGTH], "big")
        yield packed[start + _LENGTH : end]
        start = end
