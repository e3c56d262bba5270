"""Source of a scan: session, file system, table and write ids, the files of its locations, and their groups for one scan each."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind, TableName
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.schema.partitions import format_partition
from hiveacid.core.snapshot.scan_plan import LocationPlan, ScanFile
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.formats.types import ROW_ID_TYPE, column_type
from hiveacid.spark.read.delete_events import BitmapLookup
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.running_jobs_and_plans import TABLE_OPTION, rows_without_files
from hiveacid.storage.paths import spark_path
from hiveacid.storage.snapshot_locations import Location, PlanMemo

CURRENT_WRITE_ID_COLUMN = "__hiveacid_current"
STRICT_READ = {"ignoreCorruptFiles": "false", "ignoreMissingFiles": "false"}
"""Reader options: unreadable files are an error even if the session skips them, which would lose rows silently."""
PROLEPTIC_CALENDAR = {"orc.proleptic.gregorian.default": "true"}
"""Reader option: of the writers of ACID files without a calendar mark, Hive 3.1 counts days by this calendar."""

Plans = Mapping[Partition | None, LocationPlan]
"""Plans of locations, by their partition; None is the table's own location."""
_GLOB = re.compile(r"[\\*?{}\[\]]")
_UNESCAPED = re.compile(r"[A-Za-z0-9_.=/-]*")


@dataclass(frozen=True)
class ScanSource:
    """Source of a scan: facts of the session, file system, table, valid write-id list.

    ``plans``: of its locations. ``arguments``: returns ORC search-argument options for files of
    a mapping. ``delete_bitmap``: returns the delete bitmap of locations, None where a delete join is needed.
    ``memo``: results that follow from the locations of the scan and ``plans`` alone. ``index_ahead``: returns Spark's file
    index of a group if it was made ahead, else None. ``subqueries``: conditions on the rows may have correlated
    subqueries (`acid_rows`).
    """

    env: SparkEnvironment
    fs: FileSystem
    table: TableDefinition
    write_ids: ValidWriteIdList
    plans: Plans = field(default_factory=dict)
    arguments: Callable[[ColumnMapping], Mapping[str, str]] = lambda _: {}
    delete_bitmap: Callable[[Sequence[Location]], BitmapLookup | None] = lambda _: None
    memo: PlanMemo = field(default_factory=PlanMemo, compare=False, repr=False)
    index_ahead: Callable[[FileGroup], JavaObject | None] = lambda _: None
    subqueries: bool = False

    def row_files(self, location: Location) -> Sequence[ScanFile]:
        """Return the files with rows of a location."""
        return self.plans[location.partition].rows

    def data_files(self, location: Location) -> Sequence[ScanFile]:
        """Return those `row_files` that have ACID columns."""
        return [file for file in self.row_files(location) if file.acid]

    def original_files(self, location: Location) -> Sequence[ScanFile]:
        """Return those `row_files` of a full ACID table that have no ACID columns."""
        return [file for file in self.row_files(location) if not file.acid]

    def v1_event_files(self, location: Location) -> Sequence[ScanFile]:
        """Return the data files that may hold update and delete events as well (ACID v1)."""
        return [file for file in self.data_files(location) if file.has_events]

    def delete_event_files(self, location: Location) -> Sequence[ScanFile]:
        """Return the files in the delete deltas of a location."""
        return self.plans[location.partition].events


def scan_columns(source: ScanSource, *, current: bool) -> list[tuple[str, T.DataType]]:
    """Return names and types of a scan's columns; ``current`` adds the current write id."""
    table = source.table
    columns: list[tuple[str, T.DataType]] = [(c.name, column_type(c)) for c in table.all_columns]
    if table.kind is TableKind.FULL_ACID:
        columns.append((ROW_ID, ROW_ID_TYPE))
    columns.append((FILE_NAME, T.StringType()))
    if current:
        columns.append((CURRENT_WRITE_ID_COLUMN, T.LongType()))
    return columns


def empty_frame(source: ScanSource, *, current: bool) -> DataFrame:
    """Return a scan's columns without rows; made in the JVM, without a Python worker."""
    columns = scan_columns(source, current=current)
    no_rows = rows_without_files(source.env, source.table.name, 0)
    return no_rows.select(*[F.lit(None).cast(kind).alias(name) for name, kind in columns])


class ReadOptions(NamedTuple):
    """Options of reading a file; files with equal options share a scan.

    ``check``: rows of invalid write ids must be filtered out. ``mapping``: None if the file is not ORC.
    ``original``: the file's own path if a copy of it is read.
    """

    check: bool = False
    mapping: ColumnMapping | None = None
    original: str | None = None


FilesOf = Callable[[Location], Sequence[ScanFile]]
"""Returns files of a location."""


@dataclass(frozen=True)
class FileGroup:
    """Files of one scan.

    ``depth``: path components below the location. ``numbers``: for each file, the index of its location in
    ``locations``. ``location``: the location of all files, None if it follows from their paths, which are then as Hive
    makes them. ``decode``: some partition name is escaped. ``sizes``: bytes and modification time in ms, by file.
    """

    files: tuple[str, ...]
    depth: int
    options: ReadOptions
    numbers: tuple[int, ...]
    locations: Sequence[Location]
    location: Location | None
    decode: bool = False
    sizes: tuple[tuple[int, int], ...] = ()
    table: TableName | None = None

    @property
    def identity(self) -> dict[str, str]:
        """Reader options: one that differs if the files of two scans do, and one that names the table, for lineage.

        Spark takes scans of the same paths for the same rows, and answers them from a DataFrame that is cached. A table that
        was dropped and created again, or a plain one that was overwritten, has files of the same names.
        """
        files = {"hiveacid.files": blake2b(repr(self.sizes).encode(), digest_size=16).hexdigest()}
        return files if self.table is None else files | {TABLE_OPTION: str(self.table)}


def group_files(table: TableDefinition, locations: Sequence[Location], files_of: FilesOf) -> list[FileGroup]:
    """Group the files of all locations into as few scans as possible (100 scans cost 8 times one scan)."""
    single = len(locations) == 1
    groups: dict[tuple[int, str | None, ReadOptions], list[tuple[str, int, tuple[int, int]]]] = defaultdict(
        list
    )
    known: dict[
        Hashable, list[tuple[str, int, tuple[int, int]]]
    ] = {}  # by identity: a mapping takes long to hash
    names: set[str] = set()
    for number, location in enumerate(locations):
        name = _regular_name(table, location)
        if name is not None:
            names.add(name)
        root = spark_path(location.root)
        for file in files_of(location):
            listed, copy = file.listed, file.copy
            original = None if copy is None else spark_path(file.path)
            place = location.root if single or name is None or copy is not None else None
            depth = listed.path.count("/") + 1
            key = (depth, place, file.partly_valid, id(file.mapping), original)
            if key not in known:
                options = ReadOptions(file.partly_valid, file.mapping, original)
                known[key] = groups[depth, place, options]
            path = f"{root}/{listed.path}" if copy is None else spark_path(copy)
            known[key].append((path, number, (listed.size, listed.modified)))
    decode = not all(_UNESCAPED.fullmatch(name) for name in names)
    file_groups = []
    for (depth, place, options), members in groups.items():
        files, numbers, sizes = (tuple(column) for column in zip(*members, strict=True))
        shared = None if place is None else locations[numbers[0]]
        file_groups.append(
            FileGroup(files, depth, options, numbers, locations, shared, decode, sizes, table.name)
        )
    return file_groups


def escape_globs(paths: Iterable[str]) -> list[str]:
    """Escape the glob characters of paths, so that Spark's readers take them literally.

    The readers' option that turns globs off reads the other files of a scan twice (seen on 4.3).
    """
    return [_GLOB.sub(r"\\\g<0>", path) for path in paths]


def _regular_name(table: TableDefinition, location: Location) -> str | None:
    """Return the name of a partition that lies at Hive's default path; None for any other location."""
    if location.partition is None:
        return None
    name = format_partition(table.partition_column_names, location.partition.values)
    return name if location.root.rstrip("/") == f"{table.location.rstrip('/')}/{name}" else None


def partition_key(table: TableDefinition, location: Location) -> str:
    """Return the key that tells partitions apart: a row id is unique only within its partition."""
    return _regular_name(table, location) or location.root
