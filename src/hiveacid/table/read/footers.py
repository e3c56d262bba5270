"""Footers of a snapshot's ORC files: each is read once, several at a time.

A footer holds facts that a listing lacks:

- whether a file has row ids
- the columns of the file, which may differ from the table's
- the number of rows, from which original files get their row ids
- the range of keys of delete events
- whether ACID v1 left update events in the file
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from hiveacid.config import setting_definitions
from hiveacid.core.model import TableDefinition, TableKind, TableName
from hiveacid.core.schema.evolution import ColumnMapping, map_columns, matching
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.types import Struct
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.originals import OriginalRows, number_originals
from hiveacid.core.snapshot.selection import AcidDirectory
from hiveacid.errors import BadFileError, FormatError
from hiveacid.orc.footer_summary import FileKey, FileSummary, read_summary
from hiveacid.spark.read.delete_bounds import DeleteBounds, measure_delete_bounds
from hiveacid.spark.read.originals import OriginalsByRoot
from hiveacid.spark.read.scan_groups import FileFooter
from hiveacid.spark.read.scan_source import files_without_acid_columns
from hiveacid.storage.snapshot_locations import Location, PlanMemo, map_in_threads, memo_of
from hiveacid.table.context import Context
from hiveacid.table.read.flush_length_files import prepare_readable_part
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
    key = _memo_key(context, table)
    return memo_of(locations).get(key, lambda: _read_footers(context, table, locations, txn))


def footers_are_known(context: Context, table: TableDefinition, locations: Sequence[Location]) -> bool:
    """Tell whether `read_footers` has read the footers of these locations before."""
    return _memo_key(context, table) in memo_of(locations)


def _memo_key(context: Context, table: TableDefinition) -> Hashable:
    broadcast = context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS)
    return table, context.layout_level(table), broadcast


def _read_footers(
    context: Context, table: TableDefinition, locations: Sequence[Location], txn: Transaction
) -> Footers:
    if table.kind is not TableKind.FULL_ACID:
        if file_kind(table.storage) is not FileKind.ORC:
            return Footers()
        files = [
            _FileToRead.of(location, file)
            for location in locations
            for file in files_without_acid_columns(location)
        ]
        return Footers(_footers_by_path(context, table, files, read_summaries(context, files)))
    events = [
        _FileToRead.of(location, file)
        for location in locations
        for file in _files(location.state.delete_deltas)
    ]
    data = [
        _FileToRead.of(location, file)
        for location in locations
        for file in _files(location.state.row_directories)
    ]
    original_files_by_root = {location.root: list(_original_files(location)) for location in locations}
    originals = [
        _FileToRead.of(location, file)
        for location in locations
        for _, files in original_files_by_root[location.root]
        for file in files
    ]
    files = [*_readable_parts(context, table.name, txn, data), *events, *originals]
    summaries = read_summaries(context, files)
    _require_kinds(
        summaries, acid=[file.path for file in (*data, *events)], original=[file.path for file in originals]
    )
    bounds = measure_delete_bounds(
        [summaries[file.path] for file in events],
        context.settings.get(setting_definitions.BROADCAST_DELETE_EVENTS),
    )
    has_acid_v1_events = any(summaries[file.path].has_events for file in data)
    return Footers(
        _footers_by_path(context, table, files, summaries),
        _number_original_rows(original_files_by_root, summaries),
        bounds,
        has_acid_v1_events,
    )


class _FileToRead(NamedTuple):
    """A file to read: its absolute path, its readable length, and the path of a copy of that part, if any."""

    path: str
    data_file: DataFile
    size: int
    copy: str | None = None

    @classmethod
    def of(cls, location: Location, file: DataFile) -> _FileToRead:
        return cls(f"{location.root}/{file.path}", file, file.size)

    @property
    def key(self) -> FileKey:
        """Key of the footer cache: path, size and time."""
        return self.path, self.size, self.data_file.modified


def _files(directories: Iterable[AcidDirectory]) -> Iterator[DataFile]:
    for directory in directories:
        yield from directory.acid_files


def _original_files(location: Location) -> Iterator[tuple[AcidDirectory | None, Sequence[DataFile]]]:
    """Yield the files without row ids of each directory; None is the root."""
    yield None, location.state.originals
    for directory in location.state.row_directories:
        if directory.may_lack_acid_columns:
            yield directory, directory.loaded_files


def read_summaries(context: Context, files: Sequence[_FileToRead]) -> dict[str, FileSummary]:
    """Read footers, several at a time; the cache identifies them by path, size and time."""

    def read(file: _FileToRead) -> FileSummary:
        summary = read_summary(context.fs, file.path, file.size)
        cacheable = file.data_file.is_identified(context.clock.now())
        return context.summaries.put(file.key if cacheable else (file.path, file.size, 0), summary)

    cached = {file.path: context.summaries.get(file.key) for file in files}
    missing = [file for file in files if cached[file.path] is None]
    summaries = {path: summary for path, summary in cached.items() if summary is not None}
    if missing:
        summaries.update(
            zip((file.path for file in missing), map_in_threads(read, missing, missing[0].path), strict=True)
        )
    return summaries


def _footers_by_path(
    context: Context,
    table: TableDefinition,
    files: Sequence[_FileToRead],
    summaries: Mapping[str, FileSummary],
) -> dict[str, FileFooter]:
    rule = matching(table, context.layout_level(table))
    mappings: dict[int, ColumnMapping] = {}  # by identity: equal schemas are one object (`SummaryCache`)

    def mapping_of(schema: Struct) -> ColumnMapping:
        if id(schema) not in mappings:
            mappings[id(schema)] = map_columns(table.columns, schema, rule)
        return mappings[id(schema)]

    return {
        file.path: FileFooter(
            summary.rows, mapping_of(summary.schema), summary.has_events, file.copy, summary.keys
        )
        for file in files
        for summary in [summaries[file.path]]
    }


def _require_kinds(
    summaries: Mapping[str, FileSummary], *, acid: Iterable[str], original: Iterable[str]
) -> None:
    for path in original:
        if summaries[path].is_acid:
            raise BadFileError("a file with row ids has the name of a file without them", path=path)
    for path in acid:
        if summaries[path].rows and not summaries[path].is_acid:
            raise BadFileError("a file without row ids has the name of a file with them", path=path)


def _number_original_rows(
    original_files_by_root: Mapping[str, Sequence[tuple[AcidDirectory | None, Sequence[DataFile]]]],
    summaries: Mapping[str, FileSummary],
) -> OriginalsByRoot:
    numbered: OriginalsByRoot = {}
    for root, directories in original_files_by_root.items():
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
    context: Context, table: TableName, txn: Transaction, files: Sequence[_FileToRead]
) -> Iterator[_FileToRead]:
    """Yield files with their readable length, which for streamed files is the flushed part."""
    for file in files:
        if file.data_file.flush_length_path is None:
            yield file
            continue
        length, copy = prepare_readable_part(context, table, txn, file.path, file.data_file)
        yield _FileToRead(file.path, file.data_file, length, copy)
