"""Footers of a snapshot's ORC files: each is read once, several at a time.

A footer holds facts that a listing lacks:

- whether a file has row ids
- the columns of the file, which may differ from the table's
- the number of rows, from which original files get their row ids
- the range of keys of delete events
- whether ACID v1 left update events in the file
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hiveacid.config import setting_definitions
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.evolution import Recipe, matching, recipe
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import Struct
from hiveacid.core.snapshot.listing import DataFile
from hiveacid.core.snapshot.originals import OriginalRows, number_originals
from hiveacid.core.snapshot.selection import AcidDirectory
from hiveacid.errors import BadFileError, FormatError
from hiveacid.orc.footer_summary import FileKey, FileSummary, read_summary
from hiveacid.spark.read.delete_bounds import DeleteBounds, measure_delete_bounds
from hiveacid.spark.read.originals import OriginalsByRoot
from hiveacid.spark.read.scan_groups import FileFooter
from hiveacid.spark.read.scan_source import data_directories, files_without_acid_columns
from hiveacid.storage.locations import Location, PlanMemo, map_in_threads, memo_of
from hiveacid.table.context import Context
from hiveacid.table.read.flushed_files import prepare_readable_part
from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class Footers:
    """Facts from the footers of ORC files, by absolute path.

    ``numbered``: row ids of original files. ``bounds``: key bounds of the delete events. ``has_acid_v1_events``: a file
    with rows may also hold update and delete events (ACID v1). ``memo``: results that follow from these facts alone.
    """

    files: Mapping[str, FileFooter] = field(default_factory=dict)
    numbered: OriginalsByRoot = field(default_factory=dict)
    bounds: DeleteBounds | None = None
    has_acid_v1_events: bool = False
    memo: PlanMemo = field(default_factory=PlanMemo, compare=False, repr=False)


def read_footers(
    context: Context, table: TableDefinition, locations: Sequence[Location], txn: Transaction
) -> Footers:
    """Read the footers of all files of listed locations. Raises BadFileError, with the path."""
    key = (
        table,
        context.layout_level(table),
        context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS),
    )
    return memo_of(locations).get(key, lambda: _read_footers(context, table, locations, txn))


def _read_footers(
    context: Context, table: TableDefinition, locations: Sequence[Location], txn: Transaction
) -> Footers:
    if table.kind is not TableKind.FULL_ACID:
        if file_kind(table.storage) is not FileKind.ORC:
            return Footers()
        paths = [
            _FileToRead.of(location, file)
            for location in locations
            for file in files_without_acid_columns(location)
        ]
        return Footers(_footers_by_path(context, table, paths, read_summaries(context, paths)))
    events = [
        _FileToRead.of(location, file)
        for location in locations
        for file in _files(location.state.delete_deltas)
    ]
    data = [
        _FileToRead.of(location, file)
        for location in locations
        for file in _files(data_directories(location))
    ]
    raw = {location.root: list(_original_files(location)) for location in locations}
    originals = [
        _FileToRead.of(location, file)
        for location in locations
        for _, files in raw[location.root]
        for file in files
    ]
    paths = [*_readable_parts(context, table.name, txn, data), *events, *originals]
    summaries = read_summaries(context, paths)
    _require_kinds(
        summaries, acid=[path.own for path in (*data, *events)], raw=[path.own for path in originals]
    )
    bounds = measure_delete_bounds(
        [summaries[path.own] for path in events],
        context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS),
    )
    has_acid_v1_events = any(summaries[path.own].has_events for path in data)
    return Footers(
        _footers_by_path(context, table, paths, summaries),
        _number_original_rows(raw, summaries),
        bounds,
        has_acid_v1_events,
    )


class _FileToRead(NamedTuple):
    """A file to read: its absolute path, its readable length, and the path of a copy of that part, if any."""

    own: str
    file: DataFile
    size: int
    copy: str | None = None

    @classmethod
    def of(cls, location: Location, file: DataFile) -> _FileToRead:
        return cls(f"{location.root}/{file.path}", file, file.size)

    @property
    def key(self) -> FileKey:
        """Key of the footer cache: path, size and time."""
        return self.own, self.size, self.file.modified


def _files(directories: Iterable[AcidDirectory]) -> Iterator[DataFile]:
    for directory in directories:
        yield from directory.acid_files


def _original_files(location: Location) -> Iterator[tuple[AcidDirectory | None, Sequence[DataFile]]]:
    """Yield the files without row ids of each directory; None is the root."""
    yield None, location.state.originals
    for directory in location.state.row_directories:
        if directory.raw is not False:
            yield directory, directory.raw_files


def read_summaries(context: Context, paths: Sequence[_FileToRead]) -> dict[str, FileSummary]:
    """Read footers, several at a time; the cache identifies them by path, size and time."""

    def read(path: _FileToRead) -> FileSummary:
        return context.summaries.put(path.key, read_summary(context.fs, path.own, path.size))

    cached = {path.own: context.summaries.get(path.key) for path in paths}
    missing = [path for path in paths if cached[path.own] is None]
    summaries = {own: summary for own, summary in cached.items() if summary is not None}
    if missing:
        summaries.update(
            zip((path.own for path in missing), map_in_threads(read, missing, missing[0].own), strict=True)
        )
    return summaries


def _footers_by_path(
    context: Context,
    table: TableDefinition,
    paths: Sequence[_FileToRead],
    summaries: Mapping[str, FileSummary],
) -> dict[str, FileFooter]:
    rule = matching(table, context.layout_level(table))
    recipes: dict[int, Recipe] = {}  # by identity: equal schemas are one object (`SummaryCache`)

    def recipe_of(schema: Struct) -> Recipe:
        if id(schema) not in recipes:
            recipes[id(schema)] = recipe(table.columns, schema, rule)
        return recipes[id(schema)]

    return {
        path.own: FileFooter(
            summary.rows, recipe_of(summary.schema), summary.has_events, path.copy, summary.keys
        )
        for path in paths
        for summary in [summaries[path.own]]
    }


def _require_kinds(summaries: Mapping[str, FileSummary], *, acid: Iterable[str], raw: Iterable[str]) -> None:
    for path in raw:
        if summaries[path].is_acid:
            raise BadFileError("a file with row ids under the name of one without", path=path)
    for path in acid:
        if summaries[path].rows and not summaries[path].is_acid:
            raise BadFileError("a file without row ids under the name of one with them", path=path)


def _number_original_rows(
    raw: Mapping[str, Sequence[tuple[AcidDirectory | None, Sequence[DataFile]]]],
    summaries: Mapping[str, FileSummary],
) -> OriginalsByRoot:
    numbered: OriginalsByRoot = {}
    for root, directories in raw.items():
        rows: list[OriginalRows] = []
        for directory, files in directories:
            counts = {file.path: summaries[f"{root}/{file.path}"].rows for file in files}
            try:
                rows += number_originals(files, counts, directory)
            except FormatError as error:
                raise error.below(root) from error
        if rows:
            numbered[root] = tuple(rows)
    return numbered


def _readable_parts(
    context: Context, table: TableName, txn: Transaction, paths: Sequence[_FileToRead]
) -> Iterator[_FileToRead]:
    """Yield files with their readable length, which for streamed files is the flushed part."""
    for path in paths:
        if path.file.flush_length_path is None:
            yield path
            continue
        length, copy = prepare_readable_part(context, table, txn, path.own, path.file)
        yield _FileToRead(path.own, path.file, length, copy)
