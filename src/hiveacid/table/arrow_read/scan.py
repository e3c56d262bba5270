"""Scan of a snapshot: record batches of the live rows that a filter selects, stripe by stripe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableKind
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.errors import StatementError, UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot
from hiveacid.table.arrow_read.live_rows import LiveRows
from hiveacid.table.arrow_read.orc_file import CURRENT_WRITE_ID, OrcReader
from hiveacid.table.arrow_read.ordered_threads import map_in_order
from hiveacid.table.arrow_read.parquet_file import batch_without_columns, read_parquet_file
from hiveacid.table.arrow_read.pruning import possible_stripes
from hiveacid.table.context import StoreContext

ROW_ID_TYPE = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])
BATCH_ROWS = 131_072
_REQUEST_THREADS = 16
_MAX_CHANGED_STRIPE = 4_000_000  # rows, whose keys and columns of a condition take some 150 MB
FEW_ROWS = 50_000
"""Rows that one thread reads or writes in less time than other threads take to start."""
_MAX_READING_THREADS = 4  # each holds a stripe in memory
_POSITION = "\0position"  # no column of a table has such a name


@dataclass(frozen=True)
class Selection:
    """Columns and rows to read.

    ``columns``: in the order of the result. ``predicate``: the filter, an expression over ``filter_columns``. ``row_ids``:
    add the column ``ROW__ID`` in front. ``with_current_write_id``: add the write id of each row's version at the end, named
    `CURRENT_WRITE_ID`; only for ACID files. ``for_change``: the rows will be updated, deleted or compacted. Update events of
    ACID v1 and stripes with too many rows for one process then raise UnsupportedFeatureError.
    """

    columns: tuple[str, ...]
    predicate: Any = None
    filter_columns: tuple[str, ...] = ()
    row_ids: bool = False
    with_current_write_id: bool = False
    for_change: bool = False

    def schema(self, snapshot: Snapshot) -> Any:
        """Return the schema of the batches."""
        schema = output_schema(snapshot.table, self.columns, row_ids=self.row_ids)
        return schema.append(pa.field(CURRENT_WRITE_ID, pa.int64())) if self.with_current_write_id else schema


def output_schema(table: Any, columns: Sequence[str], *, row_ids: bool) -> Any:
    """Return the schema of some columns of a table, with ``ROW__ID`` first on request."""
    full = arrow_schema(table.all_columns)
    fields = [full.field(name) for name in columns]
    return pa.schema([*([pa.field(ROW_ID, ROW_ID_TYPE)] if row_ids else []), *fields])


def read_batches(
    context: StoreContext, snapshot: Snapshot, selection: Selection, threads: int = 1
) -> Iterator[Any]:
    """Yield the selected rows in batches, each from one stripe.

    ``threads``: number of stripes to read at the same time; only for a caller that takes all rows. Raises BadFileError,
    UnsupportedFeatureError, StorageError, and StatementError for a filter whose arithmetic exceeds the range of a type.
    """
    for partition in snapshot.partitions:
        yield from PartitionReader(context.fs, snapshot, partition, selection, threads).batches()


def reading_threads() -> int:
    """Return the number of threads for a caller that takes all rows."""
    return min(_MAX_READING_THREADS, int(pa.cpu_count()))


@dataclass
class PartitionReader:
    """Reader of one partition's files, or of those of a table without partitions.

    ``only``: the stripes to read of the first file; None for all that the filter may select.
    """

    fs: FileSystem
    snapshot: Snapshot
    files: PartitionFiles
    selection: Selection
    threads: int = 1
    only: Sequence[int] | None = None
    _column_threads: int = 1  # of one stripe, if there are fewer stripes than threads

    def batches(self) -> Iterator[Any]:
        """Yield the selected rows. Raises as `read_batches`."""
        table = self.snapshot.table
        if file_kind(table.storage) is not FileKind.ORC:
            for file in self.files.rows:
                for stored in read_parquet_file(self.fs, file, table, self._stored_names):
                    yield self._filter_batch(stored)
            return
        readers = self.open_readers()
        stripe_rows = (stripe.rows for reader in readers for stripe in reader.tail.stripes)
        if self.selection.for_change and max(stripe_rows, default=0) > _MAX_CHANGED_STRIPE:
            raise UnsupportedFeatureError(f"{table.name} has too many rows to be changed without Spark")
        if self.has_versions(readers):
            if self.selection.for_change:
                raise UnsupportedFeatureError(f"{table.name} holds update events of ACID v1")
            self._live_rows.read_versions(readers)
        else:
            self._live_rows.read_deletes()
        stripes: Iterable[tuple[OrcReader, int]]
        stripes = ((reader, stripe) for reader in readers for stripe in self.stripes(reader))
        threads = self.threads if sum(reader.tail.number_of_rows for reader in readers) > FEW_ROWS else 1
        if threads > 1:
            stripes = [*stripes]
            self._column_threads = max(1, threads // max(1, len(stripes)))
        for batch in map_in_order(self._read_stripe, stripes, threads):
            if batch.num_rows:
                yield batch

    def has_versions(self, readers: Sequence[OrcReader]) -> bool:
        """Tell whether rows may have several versions (ACID v1), so that one reader needs all files."""
        kind = self.snapshot.table.kind
        return kind is TableKind.FULL_ACID and any(reader.has_events for reader in readers)

    def open_readers(self) -> list[OrcReader]:
        """Return readers of the files that are not empty."""
        tasks = [(self.fs, file, self.snapshot.table, self.snapshot.level) for file in self.files.rows]
        readers = map_in_order(OrcReader, tasks, min(self._request_threads, len(tasks)))
        return [reader for reader in readers if reader.tail.number_of_rows]

    @property
    def _request_threads(self) -> int:
        """Return the number of threads for footers and delete events; more than one hide the latency of remote files."""
        return 1 if is_local(self.snapshot.table.location) else _REQUEST_THREADS

    @cached_property
    def _live_rows(self) -> LiveRows:
        return LiveRows(self.fs, self.files.events, self.snapshot.write_ids, self._request_threads)

    @cached_property
    def _partition(self) -> dict[str, Any]:
        names = self.snapshot.table.partition_column_names
        return dict(zip(names, self.files.values, strict=True))

    @property
    def _stored_names(self) -> list[str]:
        names = dict.fromkeys((*self.selection.filter_columns, *self.selection.columns))
        return [name for name in names if name not in self._partition]

    def stripes(self, reader: OrcReader) -> Sequence[int]:
        """Return the stripes that may hold selected rows."""
        if self.only is not None:
            return self.only
        selection = self.selection
        if selection.predicate is None:
            return range(reader.stripes)
        schema = arrow_schema(self.snapshot.table.all_columns)
        columns = reader.columns_with_statistics(selection.filter_columns)
        return possible_stripes(reader.tail, columns, schema, selection.predicate)

    def _read_stripe(self, reader: OrcReader, stripe: int) -> Any:
        """Return a batch of the live rows of a stripe that the filter selects."""
        columns, keep = self._select_rows(reader, stripe)
        count = reader.tail.stripes[stripe].rows if keep is None else keep.true_count
        if not count:
            return self._output_batch({}, 0, None)
        rest = [name for name in self._stored_names if name not in columns]
        parts = [rest[part :: self._column_threads] for part in range(self._column_threads)]
        tasks = [(stripe, part, keep) for part in parts if part]
        for values in map_in_order(reader.values, tasks, min(self._column_threads, len(tasks))):
            columns |= values
        if self.selection.with_current_write_id:
            (current,) = reader.acid_columns(stripe, [CURRENT_WRITE_ID])
            columns[CURRENT_WRITE_ID] = current if keep is None else current.filter(keep)
        ids = None
        if self.selection.row_ids:
            keys = reader.keys(stripe)
            ids = keys if keep is None else keys.filter(keep)
        return self._output_batch(columns, count, ids)

    def _select_rows(self, reader: OrcReader, stripe: int) -> tuple[dict[str, Any], Any]:
        """Return the filter's columns for the selected live rows, and a mask of these rows; None for all."""
        selection, rows = self.selection, reader.tail.stripes[stripe].rows
        mask = self._live_rows.mask(reader, stripe)
        keep = None if mask is None or mask.all() else pa.array(mask)
        live = rows if keep is None else keep.true_count
        if selection.predicate is None or not live:
            return {}, keep
        names = [name for name in selection.filter_columns if name not in self._partition]
        columns = reader.values(stripe, names, keep)
        passing = self._passing_positions(columns, live)
        if len(passing) < live:
            columns = {name: values.take(passing) for name, values in columns.items()}
            chosen = np.zeros(rows, bool)
            positions = np.arange(rows) if mask is None else np.flatnonzero(mask)
            chosen[positions[passing.to_numpy()]] = True
            keep = pa.array(chosen)
        return columns, keep

    def _filter_batch(self, stored: Any) -> Any:
        """Return a batch of the rows that the filter selects from a batch of stored columns."""
        columns = {name: stored.column(index) for index, name in enumerate(stored.schema.names)}
        count = stored.num_rows
        if self.selection.predicate is not None:
            passing = self._passing_positions(columns, count)
            columns = {name: values.take(passing) for name, values in columns.items()}
            count = len(passing)
        return self._output_batch(columns, count, None)

    def _passing_positions(self, columns: dict[str, Any], count: int) -> Any:
        """Return the positions of the rows that the filter selects, among ``count`` rows."""
        arrays = [
            columns[name] if name in columns else pa.repeat(self._partition[name], count)
            for name in self.selection.filter_columns
        ]
        positions = pa.array(np.arange(count))
        batch = pa.RecordBatch.from_arrays(
            [*arrays, positions], names=[*self.selection.filter_columns, _POSITION]
        )
        try:
            return batch.filter(self.selection.predicate).column(len(arrays))
        except pa.ArrowInvalid as error:
            raise StatementError(f"the condition cannot be evaluated for all rows ({error})") from error

    def _output_batch(self, columns: dict[str, Any], count: int, ids: Any) -> Any:
        schema = self.selection.schema(self.snapshot)
        arrays = []
        for field in schema:
            if field.name == ROW_ID and self.selection.row_ids:
                arrays.append(_row_id_column(ids, count))
            elif field.name in self._partition:
                arrays.append(pa.repeat(self._partition[field.name], count))
            else:
                arrays.append(columns[field.name] if count else pa.nulls(0, field.type))
        if not arrays:
            return batch_without_columns(count)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row_id_column(ids: Any, count: int) -> Any:
    if not count:
        return pa.nulls(0, ROW_ID_TYPE)
    columns = [ids.column(index).cast(field.type).fill_null(-1) for index, field in enumerate(ROW_ID_TYPE)]
    return pa.StructArray.from_arrays(columns, fields=list(ROW_ID_TYPE))
