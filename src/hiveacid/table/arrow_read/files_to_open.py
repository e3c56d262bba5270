"""Files that a read has to open: those of the snapshot, without partitions that the filter excludes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from hiveacid.core.format.names import DeltaName
from hiveacid.core.format.write_id_lists import RangeShare, ValidWriteIdList
from hiveacid.core.model import Column, Partition, TableDefinition, TableKind
from hiveacid.core.schema.partitions import canonical_text
from hiveacid.core.schema.types import LOCAL_TIMESTAMP, parse_type
from hiveacid.core.snapshot.directory_listing import DataFile
from hiveacid.core.snapshot.originals import OriginalRows, number_originals
from hiveacid.core.snapshot.selection import AcidDirectory
from hiveacid.errors import BadFileError, FormatError, UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema, arrow_type, to_stored_values
from hiveacid.orc.tail import read_tail
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.snapshot_locations import Location
from hiveacid.table.arrow_read.pruning import partition_guarantee, possible_fragments
from hiveacid.table.cast_to_table_columns import cast
from hiveacid.table.context import StoreContext
from hiveacid.table.read.flush_length_files import readable_length
from hiveacid.table.read.time_travel import PointInTime
from hiveacid.table.read.visible_locations import list_as_of, warn_of_foreign_files, write_ids_of
from hiveacid.transactions.transaction import Transaction


@dataclass(frozen=True)
class RowFile:
    """A file with rows. ``length``: the bytes that may be read.

    ``acid``: it has the columns of ACID events. ``partly_valid``: the write id of each row decides whether the row is
    visible (row-level validity). ``original``: the row ids of an original file, which does not store them. ``statement``:
    the statement id of its directory. ``growing``: its writer may still append to it.
    """

    path: str
    length: int
    acid: bool = False
    partly_valid: bool = False
    original: OriginalRows | None = None
    statement: int = 0
    growing: bool = False


@dataclass(frozen=True)
class EventFile:
    """A file of delete events. ``partly_valid`` and ``statement`` as in `RowFile`."""

    path: str
    length: int
    partly_valid: bool
    statement: int = 0


@dataclass(frozen=True)
class PartitionFiles:
    """Files of a partition, or of a table without partitions: with rows, and with delete events.

    ``values``: an Arrow scalar for each partition column.
    """

    values: tuple[Any, ...]
    rows: tuple[RowFile, ...]
    events: tuple[EventFile, ...]
    partition: Partition | None = None


@dataclass(frozen=True)
class Snapshot:
    """Table, write ids and files of one read."""

    table: TableDefinition
    write_ids: ValidWriteIdList
    partitions: tuple[PartitionFiles, ...]


def take_snapshot(
    context: StoreContext,
    table: TableDefinition,
    txn: Transaction,
    *,
    partitions: Sequence[Partition] | None = None,
    as_of: PointInTime | None = None,
    predicate: Any = None,
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
    return Snapshot(table, write_ids, tuple(_files(context.fs, table, location) for location in locations))


def possible_partitions(
    table: TableDefinition, partitions: Sequence[Partition], predicate: Any
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


def partition_values(table: TableDefinition, partition: Partition | None) -> tuple[Any, ...]:
    """Return a partition's values as Arrow scalars of their columns' types. Raises UnsupportedFeatureError."""
    if partition is None:
        return ()
    return tuple(
        _partition_column_values(column, [text])[0]
        for column, text in zip(table.partition_columns, partition.values, strict=True)
    )


def _partition_column_values(column: Column, texts: Sequence[str | None]) -> Any:
    """Return the values of one partition column as an Arrow array, from the texts of some partitions."""
    hive = parse_type(column.type)
    if column.type == LOCAL_TIMESTAMP and any(text is not None for text in texts):
        raise UnsupportedFeatureError(
            f"partition column {column.name}: the text of a {column.type} depends on a session's time zone"
        )
    values = [text and (canonical_text(text, column.type) or text) for text in texts]  # as Spark casts it
    try:
        return to_stored_values(cast(pa.array(values, pa.string()), arrow_type(hive)), hive)
    except pa.ArrowException as error:
        raise UnsupportedFeatureError(
            f"partition column {column.name} has a value that cannot be read without Spark as {column.type} ({error})"
        ) from error


def _files(fs: FileSystem, table: TableDefinition, location: Location) -> PartitionFiles:
    values = partition_values(table, location.partition)
    if table.kind is TableKind.FULL_ACID:
        return PartitionFiles(values, row_files(fs, location), event_files(fs, location), location.partition)
    state = location.state
    files = [file for directory in state.row_directories for file in directory.files] + [*state.originals]
    rows = tuple(RowFile(f"{location.root}/{file.path}", file.size) for file in files if file.size)
    return PartitionFiles(values, rows, (), location.partition)


def event_files(fs: FileSystem, location: Location) -> tuple[EventFile, ...]:
    """Return a location's files of delete events, without empty ones. Raises BadFileError, StorageError."""
    return tuple(
        EventFile(path, length, directory.validity is not RangeShare.ALL, _statement_id(directory))
        for directory in location.state.delete_deltas
        for file in directory.acid_files
        if (path := f"{location.root}/{file.path}") and (length := readable_length(fs, path, file))
    )


def row_files(fs: FileSystem, location: Location) -> tuple[RowFile, ...]:
    """Return the files with rows of a full ACID table's location. Raises BadFileError, StorageError."""
    state = location.state
    rows: list[RowFile] = []
    for directory in state.row_directories:
        for file in directory.acid_files:
            length = readable_length(fs, f"{location.root}/{file.path}", file)
            if length:
                rows.append(
                    RowFile(
                        f"{location.root}/{file.path}",
                        length,
                        acid=True,
                        partly_valid=directory.validity is not RangeShare.ALL,
                        statement=_statement_id(directory),
                        growing=file.flush_length_path is not None,
                    )
                )
        rows += _originals(fs, location, directory.loaded_files, directory)
    rows += _originals(fs, location, state.originals, None)
    return tuple(rows)


def _statement_id(directory: AcidDirectory) -> int:
    name = directory.name
    return (name.statement_id or 0) if isinstance(name, DeltaName) else 0


def _originals(
    fs: FileSystem, location: Location, files: Sequence[DataFile], directory: AcidDirectory | None
) -> Iterator[RowFile]:
    counts = {
        file.path: read_tail(fs, f"{location.root}/{file.path}", file.size).number_of_rows for file in files
    }
    try:
        numbered = number_originals(files, counts, directory)
    except FormatError as error:
        raise error.below(location.root) from error
    for original in numbered:
        if counts[original.file.path]:
            yield RowFile(f"{location.root}/{original.file.path}", original.file.size, original=original)


def require_row_ids_as_named(file: RowFile, *, is_acid: bool, rows: int) -> None:
    """Raise BadFileError unless the file has row ids (``is_acid``) exactly if its name says so."""
    if rows and is_acid != file.acid:
        raise BadFileError(
            "the file has row ids, but a file at this path should have none"
            if is_acid
            else "the file has no row ids, but a file at this path should have them",
            path=file.path,
        )
