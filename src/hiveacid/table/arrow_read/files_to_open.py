"""Files that a read has to open: those of the snapshot, without partitions and stripes in which a filter selects no row.

Arrow decides which these are, by simplifying the filter. Each partition or stripe is a fragment of an Arrow data set, and its
partition expression is a guarantee: true for all of its rows. No file is read for this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial, reduce
from operator import and_

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from hiveacid.core.format.names import LayoutLevel
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.core.model import Column, Partition, TableDefinition, TableKind
from hiveacid.core.schema.partitions import canonical_text
from hiveacid.core.schema.types import INTEGER_TYPES, LOCAL_TIMESTAMP, parse_type
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.scan_plan import LocationPlan, ScanFile, plan_location
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.orc.column_statistics import HIVE_8732, ColumnStatistics, column_bounds
from hiveacid.orc.stored_values import arrow_schema, arrow_type, to_stored_values
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.arrow_read.filters import ALWAYS
from hiveacid.table.cast_to_table_columns import cast
from hiveacid.table.context import StoreContext
from hiveacid.table.read.flush_length_files import readable_length
from hiveacid.table.read.history_and_time_travel import PointInTime
from hiveacid.table.read.visible_locations import list_as_of, warn_of_foreign_files, write_ids_of
from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class PartitionFiles:
    """Files of a partition, or of a table without partitions: with rows, and with delete events.

    ``values``: an Arrow scalar for each partition column.
    """

    values: tuple[pa.Scalar, ...]
    rows: tuple[ScanFile, ...]
    events: tuple[ScanFile, ...]
    partition: Partition | None = None


@dataclass(frozen=True)
class Snapshot:
    """Table, its layout level, write ids and files of one read."""

    table: TableDefinition
    level: LayoutLevel
    write_ids: ValidWriteIdList
    partitions: tuple[PartitionFiles, ...]


def take_snapshot(
    context: StoreContext,
    table: TableDefinition,
    txn: Transaction,
    *,
    partitions: Sequence[Partition] | None = None,
    as_of: PointInTime | None = None,
    predicate: pc.Expression | None = None,
) -> Snapshot:
    """List the files of a table in a transaction's snapshot, or at a point in the past (``as_of``).

    ``partitions``: those that the transaction sees; None for those of the catalog. ``predicate``: the filter.
    Raises NotEnoughHistoryError, FormatError, StorageError, UnsupportedFeatureError.
    """
    write_ids = write_ids_of(context, table, txn, as_of)
    if table.partition_columns:
        existing = context.catalog.list_partitions(table.name) if partitions is None else partitions
        partitions = possible_partitions(table, existing, predicate)
    locations = list_as_of(context, table, partitions, write_ids, txn, as_of)
    warn_of_foreign_files(table, locations, txn)
    files = tuple(
        PartitionFiles(
            partition_scalars(table, location.partition),
            *plan_files(context.fs, table.kind, location),
            location.partition,
        )
        for location in locations
    )
    return Snapshot(table, context.layout_level(table), write_ids, files)


def possible_partitions(
    table: TableDefinition, partitions: Sequence[Partition], predicate: pc.Expression | None
) -> Sequence[Partition]:
    """Return the partitions that may hold rows for which a filter is true. Raises UnsupportedFeatureError."""
    if predicate is None or not partitions:
        return partitions
    names = table.partition_column_names
    values = [
        _partition_column_values(column, [partition.values[index] for partition in partitions])
        for index, column in enumerate(table.partition_columns)
    ]
    guarantees = [partition_guarantee(names, row) for row in zip(*values, strict=True)]
    schema = arrow_schema(table.all_columns)
    return [partitions[index] for index in possible_fragments(guarantees, schema, predicate)]


def partition_scalars(table: TableDefinition, partition: Partition | None) -> tuple[pa.Scalar, ...]:
    """Return a partition's values as Arrow scalars of their columns' types. Raises UnsupportedFeatureError."""
    if partition is None:
        return ()
    return tuple(
        _partition_column_values(column, [text])[0]
        for column, text in zip(table.partition_columns, partition.values, strict=True)
    )


def _partition_column_values(column: Column, texts: Sequence[str | None]) -> pa.Array:
    """Return the values of one partition column as an Arrow array, from the texts of some partitions.

    They are those of Spark's scan, which cuts a CHAR and leaves a VARCHAR as it is. Raises UnsupportedFeatureError.
    """
    hive = parse_type(column.type)
    if column.type == LOCAL_TIMESTAMP and any(text is not None for text in texts):
        raise UnsupportedFeatureError(
            f"partition column {column.name}: the text of a {column.type} depends on a session's time zone"
        )
    canonical = [text and canonical_text(text, column.type) for text in texts]  # as Spark casts it
    values = [text if value is None else value for text, value in zip(texts, canonical, strict=True)]
    try:
        if column.type in INTEGER_TYPES and canonical != values:  # Arrow takes 0x10 for 16
            raise pa.ArrowInvalid("not a whole number in its range")
        typed = cast(pa.array(values, pa.string()), arrow_type(hive))
        return typed if column.type.startswith("varchar") else to_stored_values(typed, hive)
    except pa.ArrowException as error:
        raise UnsupportedFeatureError(
            f"partition column {column.name} has a value that cannot be read without Spark as {column.type} ({error})"
        ) from error


def plan_files(fs: FileSystem, kind: TableKind, location: Location) -> LocationPlan:
    """Return the files of a location of a table of this kind. Raises BadFileError, StorageError."""

    def count(path: str, file: DataFile) -> int:
        return read_tail(fs, path, file.size).number_of_rows

    return plan_location(location.root, location.state, kind, partial(readable_length, fs), count)


def possible_fragments(
    guarantees: Sequence[pc.Expression], schema: pa.Schema, predicate: pc.Expression
) -> list[int]:
    """Return the indexes of the partitions or stripes that may hold a row that the filter ``predicate`` selects.

    ``guarantees``: for each partition or stripe, an expression that is true for all of its rows.
    """
    if not guarantees:
        return []
    dataset = ds.FileSystemDataset.from_paths(
        [str(index) for index in range(len(guarantees))],
        schema=schema,
        format=ds.IpcFileFormat(),
        filesystem=LocalFileSystem(),  # which nobody asks: only the guarantees are looked at
        partitions=list(guarantees),
    )
    try:
        return sorted(int(fragment.path) for fragment in dataset.get_fragments(filter=predicate))
    except pa.ArrowInvalid:  # Arrow refuses to compare whole numbers beyond 2**53 with floating point numbers
        return list(range(len(guarantees)))


def partition_guarantee(names: Sequence[str], values: Sequence[pa.Scalar]) -> pc.Expression:
    """Return the guarantee of a partition; ``values``: an Arrow scalar for each partition column."""
    parts = [
        ds.field(name) == value if value.is_valid else ds.field(name).is_null()
        for name, value in zip(names, values, strict=True)
    ]
    return reduce(and_, parts)


def possible_stripes(
    tail: OrcTail, columns: Mapping[str, tuple[int, str]], schema: pa.Schema, predicate: pc.Expression
) -> list[int]:
    """Return the indexes of a file's stripes that may hold a row that the filter selects.

    ``columns``: ORC column id and type of those columns of the filter whose statistics hold for the table's values.
    """
    if not columns or not any(len(stripe.statistics) for stripe in tail.stripes):
        return list(range(len(tail.stripes)))
    guarantees = []
    for stripe in tail.stripes:
        parts = [
            _guarantee(tail, name, hive, stripe.statistics[column_id], schema.field(name).type, stripe.rows)
            for name, (column_id, hive) in columns.items()
            if column_id < len(stripe.statistics)
        ]
        guarantees.append(reduce(and_, [part for part in parts if part is not None], ALWAYS))
    return possible_fragments(guarantees, schema, predicate)


def _guarantee(
    tail: OrcTail, name: str, hive: str, statistics: ColumnStatistics, data_type: pa.DataType, rows: int
) -> pc.Expression | None:
    """Return the guarantee that a stripe's statistics give for a column; None if they give none that is safe to use.

    Those of timestamps are not used, because they are instants.
    """
    column = ds.field(name)
    low, high, has_null, has_value = column_bounds(statistics, parse_type(hive))
    if not has_value and statistics.has_null and rows:
        return column.is_null()
    if low is None or high is None or isinstance(low, datetime):
        return None
    if isinstance(low, str) and tail.writer_version < HIVE_8732:
        return None
    try:
        within = (column >= pa.scalar(low, data_type)) & (column <= pa.scalar(high, data_type))
    except (pa.ArrowException, OverflowError):  # values of another type
        return None
    return within | column.is_null() if has_null else within
