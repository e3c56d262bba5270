"""Source of a scan: session, file system, table and write ids, and the files that a location contributes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.format.names import FILE_NAME, ROW_ID
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Partition, TableDefinition, TableKind
from hiveacid.core.schema.evolution import ColumnMapping
from hiveacid.core.snapshot.scan_plan import LocationPlan, ScanFile
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.read.delete_bitmap_lookup import BitmapLookup
from hiveacid.spark.read.scan_groups import FileGroup, FilesOf
from hiveacid.spark.session.capabilities import SparkEnvironment
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

Plans = Mapping[Partition | None, LocationPlan]
"""Plans of locations, by their partition; None is the table's own location."""


@dataclass(frozen=True)
class ScanSource:
    """Source of a scan: facts of the session, file system, table, valid write-id list.

    ``plans``: of its locations. ``arguments``: returns ORC search-argument options for files of
    a mapping. ``delete_bitmap``: returns the delete bitmap of locations, None where a delete join is needed.
    ``memo``: results that follow from the locations of the scan and ``plans`` alone. ``index_ahead``: returns Spark's file
    index of a group if it was made ahead, else None. ``subqueries``: conditions on the rows may have correlated subqueries (`acid_rows`).
    """

    env: SparkEnvironment
    fs: FileSystem
    table: TableDefinition
    write_ids: ValidWriteIdList
    plans: Plans = field(default_factory=dict)
    arguments: Callable[[ColumnMapping], Mapping[str, str]] = lambda _: {}
    delete_bitmap: Callable[[Sequence[Location]], BitmapLookup | None] = lambda _: None
    memo: PlanMemo = field(default_factory=PlanMemo, compare=False, repr=False)
    index_ahead: Callable[[FileGroup], Any] = lambda _: None
    subqueries: bool = False


def filter_files(files_of: FilesOf, condition: Callable[[ScanFile], bool]) -> FilesOf:
    """Return a function that returns those files of ``files_of`` for which the condition holds."""
    return lambda location: [file for file in files_of(location) if condition(file)]


def row_files(source: ScanSource) -> FilesOf:
    """Return a function that returns the files with rows of a location."""
    return lambda location: source.plans[location.partition].rows


def data_files(source: ScanSource) -> FilesOf:
    """Return a function that returns those `row_files` that have ACID columns."""
    return filter_files(row_files(source), lambda file: file.acid)


def original_files(source: ScanSource) -> FilesOf:
    """Return a function that returns those `row_files` of a full ACID table that have no ACID columns."""
    return filter_files(row_files(source), lambda file: not file.acid)


def v1_event_files(source: ScanSource) -> FilesOf:
    """Return a function that returns the data files that may hold update and delete events as well (ACID v1)."""
    return filter_files(row_files(source), lambda file: file.acid and file.has_events)


def delete_event_files(source: ScanSource) -> FilesOf:
    """Return a function that returns the files in the delete deltas of a location."""
    return lambda location: source.plans[location.partition].events


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
    return source.env.spark.range(0).select(*[F.lit(None).cast(kind).alias(name) for name, kind in columns])
