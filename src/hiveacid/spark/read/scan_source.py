"""Source of a scan: session, file system, table and write ids, and the files that a location contributes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.selection import AcidDirectory
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.read.delete_bitmap_lookup import BitmapLookup
from hiveacid.spark.read.scan_groups import FileFooter, FileGroup, FilesOf, ReadOptions
from hiveacid.spark.session.capabilities import SparkFacts
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location, PlanMemo

CURRENT_WRITE_ID = "__hiveacid_current"
ROW_ID_TYPE = T.StructType(
    [
        T.StructField("writeid", T.LongType()),
        T.StructField("bucketid", T.IntegerType()),
        T.StructField("rowid", T.LongType()),
    ]
)
STRICT_READ = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Reader options: unreadable files are an error even if the session skips them, which would lose rows silently."""
PROLEPTIC_CALENDAR = {"orc.proleptic.gregorian.default": "true"}
"""Reader option: of the writers of ACID files without a calendar mark, Hive 3.1 counts days by this calendar."""


@dataclass(frozen=True)
class ScanSource:
    """Source of a scan: facts of the session, file system, table, valid write-id list.

    ``files``: footers of ORC files by absolute path. ``arguments``: returns ORC search-argument options for files of
    a mapping. ``delete_bitmap``: returns the delete bitmap of locations, None where a delete join is needed.
    ``memo``: results that follow from the locations of the scan and ``files`` alone. ``index_ahead``: returns Spark's file
    index of a group if it was made ahead, else None. ``skipped``: paths of data files that need not be read; ``memo`` follows
    from them, too. ``subqueries``: conditions on the rows may have correlated subqueries (`acid_rows`).
    """

    facts: SparkFacts
    fs: FileSystem
    table: TableDefinition
    write_ids: ValidWriteIdList
    files: Mapping[str, FileFooter] = field(default_factory=dict)
    arguments: Callable[[ColumnMapping], Mapping[str, str]] = lambda _: {}
    delete_bitmap: Callable[[Sequence[Location]], BitmapLookup | None] = lambda _: None
    memo: PlanMemo = field(default_factory=PlanMemo, compare=False, repr=False)
    index_ahead: Callable[[FileGroup], Any] = lambda _: None
    skipped: Collection[str] = frozenset()
    subqueries: bool = False


def filter_files(files_of: FilesOf, condition: Callable[[Location, DataFile], bool]) -> FilesOf:
    """Return a function that yields those files of ``files_of`` for which the condition holds."""
    return lambda location: (entry for entry in files_of(location) if condition(location, entry[0]))


def data_files(source: ScanSource) -> FilesOf:
    """Return a function that yields the data files of a location."""
    return lambda location: _files_with_rows(source, location, location.state.row_directories)


def v1_event_files(source: ScanSource) -> FilesOf:
    """Return a function that yields the data files that may hold update and delete events as well (ACID v1)."""
    return lambda location: (
        (file, options, copy)
        for file, options, copy in _files_with_rows(source, location, location.state.row_directories)
        if source.files[f"{location.root}/{file.path}"].has_events
    )


def delete_event_files(source: ScanSource) -> FilesOf:
    """Return a function that yields the files in the delete deltas of a location."""
    return lambda location: _files_with_rows(source, location, location.state.delete_deltas)


def _files_with_rows(
    source: ScanSource, location: Location, directories: Iterable[AcidDirectory]
) -> Iterable[tuple[DataFile, ReadOptions, str | None]]:
    """Yield the files that have rows and are not skipped, and whether the scan must check the write ids of these."""
    for directory in directories:
        check = directory.validity is not RangeShare.ALL
        for file in directory.acid_files:
            path = f"{location.root}/{file.path}"
            footer = source.files[path]
            if footer.rows and path not in source.skipped:
                original = None if footer.copy is None else spark_path(path)
                yield file, ReadOptions(check, footer.mapping, original), footer.copy


def flat_table_files(source: ScanSource) -> FilesOf:
    """Return a function that yields the data files of an insert-only or plain location that have rows."""

    def files_of(location: Location) -> Iterable[tuple[DataFile, ReadOptions, None]]:
        for file in files_without_acid_columns(location):
            footer = source.files.get(f"{location.root}/{file.path}")
            if footer is None or footer.rows:
                yield file, ReadOptions(mapping=None if footer is None else footer.mapping), None

    return files_of


def files_without_acid_columns(location: Location) -> Iterable[DataFile]:
    """Yield all data files of an insert-only or plain location."""
    for directory in location.state.row_directories:
        yield from directory.files
    yield from location.state.originals


def scan_columns(source: ScanSource, *, current: bool) -> list[tuple[str, T.DataType]]:
    """Return names and types of a scan's columns; ``current`` adds the current write id."""
    table = source.table
    columns: list[tuple[str, T.DataType]] = [(c.name, column_type(c)) for c in table.all_columns]
    if table.kind is TableKind.FULL_ACID:
        columns.append((ROW_ID, ROW_ID_TYPE))
    columns.append((FILE_NAME, T.StringType()))
    if current:
        columns.append((CURRENT_WRITE_ID, T.LongType()))
    return columns


def empty_frame(source: ScanSource, *, current: bool) -> DataFrame:
    """Return a scan's columns without rows; made in the JVM, without a Python worker."""
    columns = scan_columns(source, current=current)
    return source.facts.spark.range(0).select(*[F.lit(None).cast(kind).alias(name) for name, kind in columns])
