"""Records of the files that commits put into a table: what a listing of its locations shows of committed writers.

A commit in a store of hiveacid's own records the directories that it made, with names, sizes and footers' facts of their files.
The records of a table are complete if its location was empty when it was created, and each later commit that had
a write id or compacted told what it made, if only that it made nothing. The store keeps a mark of complete tables. A commit that
does not tell, such as one that has made a directory without its files' names, takes the mark away in the same step. So a
reader who finds the mark knows all directories that its snapshot could select.

Records hold no directory of open or aborted writers. A selection does not read those, so that it selects the same from both.
"""

from __future__ import annotations

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from hiveacid.core.format.names import ACID_VERSION_FILE
from hiveacid.core.model import TableName
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.core.snapshot.selection import AcidState

_LENGTH = 4  # bytes of a length among the statistics
_LONGEST = 4 << 20  # characters of a text: MariaDB refuses a statement of more than 16 MB


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
    statistics: tuple[bytes, ...] = ()


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


def listed_entries(directories: Iterable[RecordedDirectory]) -> tuple[FileEntry, ...]:
    """Return the entries that a listing of a location would have of these directories."""
    entries: list[FileEntry] = []
    for directory in directories:
        name = directory.name
        entries.append(FileEntry(name, is_dir=True))
        if directory.has_version_file:
            entries.append(FileEntry(f"{name}/{ACID_VERSION_FILE}", is_dir=False, size=1))
        made = directory.made
        entries += [FileEntry(f"{name}/{file.name}", False, file.size, made) for file in directory.files]  # noqa: FBT003
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
    made, rows, *more = json.loads(text)
    schemas = more[0] if more else ()
    statistics = _unpack(zlib.decompress(b64decode(more[1]))) if len(more) > 1 else iter(())
    files = []
    for file, size, *facts in rows:
        if not facts:
            files.append(RecordedFile(file, size))
            continue
        count, schema, bits, keys, columns = facts
        bounds = tuple(next(statistics) for _ in range(columns))
        footer = FooterFacts(count, schemas[schema], bool(bits & 1), bool(bits & 2), tuple(keys), bounds)
        files.append(RecordedFile(file, size, footer))
    return RecordedDirectory(name, tuple(files), bool(made & 1), made >> 1)


def _unpack(packed: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(packed):
        end = start + _LENGTH + int.from_bytes(packed[start : start + _LENGTH], "big")
        yield packed[start + _LENGTH : end]
        start = end
