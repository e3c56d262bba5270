"""Plan of a scan: the files that a snapshot reads, and how to read each.

Spark's scan, reads by Arrow, the stream source and compactions execute it. Functions of the caller tell what a listing does
not: how many bytes of a growing file were flushed, and how many rows an original file has.

Original files have no ACID columns: they were written before a table's conversion, by LOAD DATA, or by Trino's CTAS. Their
row ids follow ``OrcRawRecordMerger.OriginalReaderPair`` and ``AcidUtils``. The write id is 0 in the root of a table or
partition, and the directory's id in a base or delta. The bucket comes from the file's name. Row ids continue through all
files of one bucket in the order of their paths, those in HIVE_UNION_SUBDIR_n included.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hiveacid.core.format.acid_columns import MAX_BUCKET, BucketProperty, KeyBox
from hiveacid.core.format.names import BaseName, DeltaName, parse_original_file
from hiveacid.core.format.write_id_lists import RangeShare
from hiveacid.core.model import TableKind, WriteId
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState
from hiveacid.errors import BadFileError, FormatError


@dataclass(frozen=True)
class OriginalRows:
    """A file whose row ``n`` (from 0) has the id (``write_id``, ``bucket_property``, ``first_row_id + n``)."""

    file: DataFile
    write_id: WriteId
    bucket_property: int
    first_row_id: int


def number_originals(
    files: Sequence[DataFile], rows: Mapping[str, int], directory: AcidDirectory | None = None
) -> tuple[OriginalRows, ...]:
    """Give every row of the files its id. ``rows``: number of rows by path; ``directory``: directory of the files.

    A file without a bucket number in its name counts as bucket 0 (Hive assumes -1 and cannot delete from it). Raises
    BadFileError, with the path, for a bucket above 4095, which fits into no row id, not even in Hive.
    """
    write_id, statement = _ids(directory)
    row_counts: dict[int, int] = defaultdict(int)
    numbered = []
    for file in sorted(files, key=lambda original: original.path):
        parsed = parse_original_file(file.name)
        bucket = parsed.bucket if parsed is not None else 0
        if bucket > MAX_BUCKET:
            msg = f"bucket {bucket}: row ids have room for bucket {MAX_BUCKET} at most"
            raise BadFileError(msg, path=file.path)
        numbered.append(
            OriginalRows(file, write_id, BucketProperty(1, bucket, statement).encode(), row_counts[bucket])
        )
        row_counts[bucket] += rows[file.path]
    return tuple(numbered)


def _ids(directory: AcidDirectory | None) -> tuple[WriteId, int]:
    if directory is None:
        return WriteId(0), 0
    if isinstance(directory.name, BaseName):
        return directory.name.write_id, 0
    assert isinstance(directory.name, DeltaName)  # noqa: S101 - the only other kind
    return directory.name.min_write_id, directory.name.statement_id or 0


class ScanFile(NamedTuple):  # a plan makes 100,000 of them
    """A file to read: its absolute path, as it was listed, and the bytes that may be read.

    ``acid``: it has the columns of ACID events. ``partly_valid``: the write id of each row decides whether the row is
    visible (row-level validity). ``statement``: the statement id of its directory. ``original``: the row ids of an original
    file, which does not store them.

    Facts of its footer, if the footer was read: ``rows`` (-1: unknown); ``mapping`` of its columns to those of the table;
    ``has_events``: it may hold update events of ACID v1; ``key_ends``: `KeyBox.ends` of its record keys, empty if unknown.
    ``copy``: the file that Spark reads instead, a copy of the flushed part.
    """

    path: str
    listed: DataFile
    length: int
    acid: bool = False
    partly_valid: bool = False
    statement: int = 0
    original: OriginalRows | None = None
    rows: int = -1
    mapping: ColumnMapping | None = None
    has_events: bool = False
    key_ends: tuple[int, ...] = ()
    copy: str | None = None

    @property
    def keys(self) -> KeyBox | None:
        """Return the box of its record keys; None if unknown."""
        return KeyBox.of_ends(self.key_ends)

    @property
    def growing(self) -> bool:
        """Tell whether its writer may still append to it."""
        return self.listed.flush_length_path is not None

    def require_row_ids_as_named(self, rows: int, *, is_acid: bool) -> None:
        """Raise BadFileError unless the file has row ids (``is_acid``) exactly if its name says so."""
        if rows and is_acid != self.acid:
            raise BadFileError(
                "the file has row ids, but a file at this path should have none"
                if is_acid
                else "the file has no row ids, but a file at this path should have them",
                path=self.path,
            )


class LocationPlan(NamedTuple):
    """Files of a location, without empty ones: with rows, and with delete events."""

    rows: tuple[ScanFile, ...]
    events: tuple[ScanFile, ...] = ()


AskFile = Callable[[str, DataFile], int]
"""Returns a number of a file, given by its absolute path and as it was listed."""


def plan_location(
    root: str, state: AcidState, kind: TableKind, length_of: AskFile, rows_of: AskFile
) -> LocationPlan:
    """Return the files of a location. ``length_of``: the bytes that may be read. ``rows_of``: the rows of an original file.

    Raises BadFileError, and what the functions raise.
    """
    if kind is not TableKind.FULL_ACID:
        files = [*(file for directory in state.row_directories for file in directory.files), *state.originals]
        return LocationPlan(
            tuple(ScanFile(f"{root}/{file.path}", file, file.size) for file in files if file.size)
        )
    rows: list[ScanFile] = []
    for directory in state.row_directories:
        rows += _acid_files(root, directory, length_of)
        rows += _originals(root, directory.loaded_files, directory, rows_of)
    rows += _originals(root, state.originals, None, rows_of)
    events = (file for directory in state.delete_deltas for file in _acid_files(root, directory, length_of))
    return LocationPlan(tuple(rows), tuple(events))


def _acid_files(root: str, directory: AcidDirectory, length_of: AskFile) -> Iterator[ScanFile]:
    name, partly_valid = directory.name, directory.validity is not RangeShare.ALL
    statement = (name.statement_id or 0) if isinstance(name, DeltaName) else 0
    for file in directory.acid_files:
        path = f"{root}/{file.path}"
        length = length_of(path, file)
        if length:
            yield ScanFile(path, file, length, True, partly_valid, statement)  # noqa: FBT003 - by name takes longer


def _originals(
    root: str, files: Sequence[DataFile], directory: AcidDirectory | None, rows_of: AskFile
) -> Iterator[ScanFile]:
    if not files:
        return
    counts = {file.path: rows_of(f"{root}/{file.path}", file) for file in files}
    try:
        numbered = number_originals(files, counts, directory)
    except FormatError as error:
        raise error.below(root) from error
    for original in numbered:
        if counts[original.file.path]:
            yield ScanFile(
                f"{root}/{original.file.path}", original.file, original.file.size, original=original
            )
