"""Plan of a scan: the files that a snapshot reads of a location, and how to read each. Pure values.

Spark's scan, reads by Arrow, the stream source and compactions execute it. Functions of the caller tell what a listing does
not: how many bytes of a growing file were flushed, and how many rows an original file has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from hiveacid.core.format.acid_columns import KeyBox
from hiveacid.core.format.names import DeltaName
from hiveacid.core.format.write_id_lists import RangeShare
from hiveacid.core.model import TableKind
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.originals import OriginalRows, number_originals
from hiveacid.core.snapshot.selection import AcidDirectory, AcidState
from hiveacid.errors import BadFileError, FormatError


class ScanFile(NamedTuple):  # a plan makes 100,000 of them
    """A file to read: its absolute path, as it was listed, and the bytes that may be read.

    ``acid``: it has the columns of ACID events. ``partly_valid``: the write id of each row decides whether the row is
    visible (row-level validity). ``statement``: the statement id of its directory. ``original``: the row ids of an original
    file, which does not store them.

    Facts of its footer, if the footer was read: ``rows`` (-1: unknown); ``mapping`` of its columns to those of the table;
    ``has_events``: it may hold update events of ACID v1; ``keys``: the box of its record keys. ``copy``: the file that Spark
    reads instead, a copy of the flushed part.
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
    keys: KeyBox | None = None
    copy: str | None = None

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
