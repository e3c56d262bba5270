"""Scan of a snapshot: record batches of the live rows that a filter selects, stripe by stripe.

`read_tasks` divides a scan into tasks for other processes, which read them without the store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from threading import Lock
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.format.acid_columns import ROW_ID_PARTS, AcidColumn
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableDefinition, TableKind
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.errors import StatementError, UnsupportedFeatureError, acid_v1
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot, possible_stripes
from hiveacid.table.arrow_read.live_rows import DeleteKeys, LiveRows, newest_versions
from hiveacid.table.arrow_read.orc_file import OrcReader, read_events
from hiveacid.table.arrow_read.parquet_file import batch_without_columns, read_parquet_file
from hiveacid.table.context import StoreContext

T = TypeVar("T")
ROW_ID_TYPE = pa.struct([*zip(ROW_ID_PARTS, (pa.int64(), pa.int32(), pa.int64()), strict=True)])
BATCH_ROWS = 131_072
_REQUEST_THREADS = 16
_SMALL_FILE = 8 << 20  # bytes; so many as threads take less memory than a few large stripes
_MAX_CHANGED_STRIPE = 4_000_000  # rows, whose keys and columns of a condition take some 150 MB
FEW_ROWS = 50_000
"""Rows that one thread reads or writes in less time than other threads take to start."""
_MAX_READING_THREADS = 4  # each holds a stripe in memory
_ROW_BYTES = 100  # that a row takes in the JVM besides its values
_POSITION = "\0position"  # no column of a table has such a name

_TASK_BYTES = 128 << 20  # of stripes, from which a further task begins


@dataclass(frozen=True)
class Selection:
    """Columns and rows to read.

    ``columns``: in the order of the result. ``predicate``: the filter, an expression over ``filter_columns``. ``row_ids``:
    add the column ``ROW__ID`` in front. ``with_current_write_id``: add the write id of each row's version at the end, named
    `AcidColumn.CURRENT_WRITE_ID`; only for ACID files. ``for_change``: the rows will be updated, deleted or compacted.
    Update events of ACID v1 and stripes with too many rows for one process then raise UnsupportedFeatureError.
    """

    columns: tuple[str, ...]
    predicate: pc.Expression | None = None
    filter_columns: tuple[str, ...] = ()
    row_ids: bool = False
    with_current_write_id: bool = False
    for_change: bool = False

    def schema(self, snapshot: Snapshot) -> pa.Schema:
        """Return the schema of the batches."""
        schema = output_schema(snapshot.table, self.columns, row_ids=self.row_ids)
        return (
            schema.append(pa.field(AcidColumn.CURRENT_WRITE_ID, pa.int64()))
            if self.with_current_write_id
            else schema
        )


def output_schema(table: TableDefinition, columns: Sequence[str], *, row_ids: bool) -> pa.Schema:
    """Return the schema of some columns of a table, with ``ROW__ID`` first on request."""
    full = arrow_schema(table.all_columns)
    fields = [full.field(name) for name in columns]
    return pa.schema([*([pa.field(ROW_ID, ROW_ID_TYPE)] if row_ids else []), *fields])


def read_batches(
    context: StoreContext, snapshot: Snapshot, selection: Selection, threads: int = 1
) -> Iterator[pa.RecordBatch]:
    """Yield the selected rows in batches, each from one stripe.

    ``threads``: number of stripes to read at the same time; only for a caller that takes all rows. Raises BadFileError,
    UnsupportedFeatureError, StorageError, and StatementError for a filter whose arithmetic exceeds the range of a type.
    """
    for partition in snapshot.partitions:
        yield from PartitionReader(context.fs, snapshot, partition, selection, threads).batches()


def reading_threads() -> int:
    """Return the number of threads for a caller that takes all rows."""
    return min(_MAX_READING_THREADS, int(pa.cpu_count()))


@dataclass(frozen=True)
class AtOnce:
    """Number of partitions to read at the same time, and of stripes in each, for a caller that takes all rows.

    ``remote_files``: files that are read at the same time; 0 if they are local. More than there are processors hide the
    latency of small files.
    """

    partitions: int
    stripes: int
    remote_files: int = 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> AtOnce:
        """Choose by the files of a snapshot. Their stripes are in memory: few large ones, or many small ones."""
        if is_local(snapshot.table.location):
            return cls(1, reading_threads())
        lengths = (file.length for part in snapshot.partitions for file in part.rows)
        small = max(lengths, default=0) <= _SMALL_FILE
        files = _REQUEST_THREADS if small else _MAX_READING_THREADS
        partitions = max(1, min(files, len(snapshot.partitions)))
        return cls(partitions, files // partitions, files)


@dataclass
class PartitionReader:
    """Reader of one partition's files, or of those of a table without partitions.

    ``only``: the stripes to read of the first file; None for all that the filter may select. ``ranges``: those ranges of bytes
    of each file, by its path, in which the stripes to read begin; None for whole files.
    """

    fs: FileSystem
    snapshot: Snapshot
    files: PartitionFiles
    selection: Selection
    threads: int = 1
    only: Sequence[int] | None = None
    ranges: Mapping[str, Sequence[tuple[int, int]]] | None = None
    _column_threads: int = 1  # of one stripe, if there are fewer stripes than threads

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the selected rows. Raises as `read_batches`."""
        table = self.snapshot.table
        if file_kind(table.storage) is not FileKind.ORC:
            for file in self.files.rows:
                for stored in read_parquet_file(self.fs, file, table, self._stored_names):
                    yield self._filter_batch(stored)
            return
        for _, _, batch in self.batches_of_stripes():
            yield batch

    def batches_of_stripes(self) -> Iterator[tuple[OrcReader, int, pa.RecordBatch]]:
        """Yield the stripes of ORC files with selected rows, by reader and number, with these rows. Raises as `read_batches`."""
        table = self.snapshot.table
        readers = self.open_readers()
        stripe_rows = (stripe.rows for reader in readers for stripe in reader.tail.stripes)
        if self.selection.for_change and max(stripe_rows, default=0) > _MAX_CHANGED_STRIPE:
            raise UnsupportedFeatureError(f"{table.name} has too many rows to be changed without Spark")
        live_rows = self._live_rows(readers)
        stripes: Iterable[tuple[OrcReader, int]]
        stripes = ((reader, stripe) for reader in readers for stripe in self.stripes(reader))
        remote = not is_local(self.snapshot.table.location)
        many = remote or sum(reader.tail.number_of_rows for reader in readers) > FEW_ROWS
        threads = self.threads if many else 1
        if threads > 1 and not remote:  # where each thread would fetch the same ranges
            stripes = [*stripes]
            self._column_threads = max(1, threads // max(1, len(stripes)))
        for found in map_in_order(partial(self._read_stripe, live_rows), stripes, threads):
            if found[-1].num_rows:
                yield found

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

    def _live_rows(self, readers: Sequence[OrcReader]) -> LiveRows:
        """Read the delete events, and the update events if there are any."""
        files, write_ids = self.files.events, self.snapshot.write_ids
        tasks = [(self.fs, file, write_ids) for file in files]
        events = map_in_order(read_events, tasks, min(self._request_threads, len(tasks)))
        if not self.has_versions(readers):
            return LiveRows(write_ids, DeleteKeys.of(events))
        if self.selection.for_change:
            raise acid_v1(self.snapshot.table.name)
        return LiveRows(
            write_ids, newest=newest_versions(readers, zip(files, events, strict=True), write_ids)
        )

    @cached_property
    def _partition(self) -> dict[str, pa.Scalar]:
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
        chosen: Sequence[int] = range(reader.stripes)
        if selection.predicate is not None:
            schema = arrow_schema(self.snapshot.table.all_columns)
            columns = reader.columns_with_statistics(selection.filter_columns)
            chosen = possible_stripes(reader.tail, columns, schema, selection.predicate)
        if self.ranges is None:
            return chosen
        ranges, stripes = self.ranges[reader.file.path], reader.tail.stripes
        return [one for one in chosen if any(begin <= stripes[one].offset < end for begin, end in ranges)]

    def _read_stripe(
        self, live_rows: LiveRows, reader: OrcReader, stripe: int
    ) -> tuple[OrcReader, int, pa.RecordBatch]:
        """Return a stripe with a batch of its live rows that the filter selects."""
        try:
            return reader, stripe, self._rows_of_stripe(live_rows, reader, stripe)
        finally:
            reader.forget_fetched()

    def _rows_of_stripe(self, live_rows: LiveRows, reader: OrcReader, stripe: int) -> pa.RecordBatch:
        columns, keep = self._select_rows(live_rows, reader, stripe)
        count = reader.tail.stripes[stripe].rows if keep is None else keep.true_count
        if not count:
            return self._output_batch({}, 0, None)
        rest = [name for name in self._stored_names if name not in columns]
        parts = [rest[part :: self._column_threads] for part in range(self._column_threads)]
        tasks = [(stripe, part, keep) for part in parts if part]
        for values in map_in_order(reader.values, tasks, min(self._column_threads, len(tasks))):
            columns |= values
        if self.selection.with_current_write_id:
            (current,) = reader.acid_columns(stripe, [AcidColumn.CURRENT_WRITE_ID])
            columns[AcidColumn.CURRENT_WRITE_ID] = current if keep is None else current.filter(keep)
        ids = None
        if self.selection.row_ids:
            keys = reader.keys(stripe)
            ids = keys if keep is None else keys.filter(keep)
        return self._output_batch(columns, count, ids)

    def _select_rows(
        self, live_rows: LiveRows, reader: OrcReader, stripe: int
    ) -> tuple[dict[str, pa.Array], pa.BooleanArray | None]:
        """Return the filter's columns for the selected live rows, and a mask of these rows; None for all."""
        selection, rows = self.selection, reader.tail.stripes[stripe].rows
        mask = live_rows.mask(reader, stripe)
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

    def _filter_batch(self, stored: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the rows that the filter selects from a batch of stored columns."""
        columns = {name: stored.column(index) for index, name in enumerate(stored.schema.names)}
        count = stored.num_rows
        if self.selection.predicate is not None:
            passing = self._passing_positions(columns, count)
            columns = {name: values.take(passing) for name, values in columns.items()}
            count = len(passing)
        return self._output_batch(columns, count, None)

    def _passing_positions(self, columns: dict[str, pa.Array], count: int) -> pa.Int64Array:
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

    def _output_batch(
        self, columns: dict[str, pa.Array], count: int, ids: pa.RecordBatch | None
    ) -> pa.RecordBatch:
        schema = self.selection.schema(self.snapshot)
        arrays = []
        for wanted in schema:
            if wanted.name == ROW_ID and self.selection.row_ids:
                arrays.append(_row_id_column(ids, count))
            elif wanted.name in self._partition:
                arrays.append(pa.repeat(self._partition[wanted.name], count))
            else:
                arrays.append(columns[wanted.name] if count else pa.nulls(0, wanted.type))
        if not arrays:
            return batch_without_columns(count)
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _row_id_column(ids: pa.RecordBatch | None, count: int) -> pa.StructArray:
    if ids is None or not count:
        return pa.nulls(0, ROW_ID_TYPE)
    columns = [ids.column(index).cast(field.type).fill_null(-1) for index, field in enumerate(ROW_ID_TYPE)]
    return pa.StructArray.from_arrays(columns, fields=list(ROW_ID_TYPE))


@dataclass
class RowBudget:
    """Rows, and bytes of them, that a statement may still take into the driver; for several threads."""

    rows: int
    bytes: int
    _lock: Lock = field(default_factory=Lock, repr=False, compare=False)

    def take(self, batches: Iterable[pa.RecordBatch]) -> list[pa.RecordBatch] | None:
        """Return all batches; None as soon as they exceed the budget."""
        taken = []
        for batch in batches:
            taken.append(batch)
            with self._lock:
                self.rows -= batch.num_rows
                self.bytes -= batch.nbytes + _ROW_BYTES * batch.num_rows
                if self.rows < 0 or self.bytes < 0:
                    return None
        return taken


@dataclass(frozen=True, repr=False)
class ReadTask:
    """A file, or some stripes of it, with all that a process needs to read its rows; it can be pickled.

    It holds the valid write ids, the files of delete events, the flushed length and the filter. The process opens the file
    by its own environment (docs/object-stores.md). ``rows``: of its stripes, deleted and filtered ones too; None for Parquet.
    """

    snapshot: Snapshot
    selection: Selection
    stripes: tuple[int, ...] | None = None
    rows: int | None = None

    def __repr__(self) -> str:
        """Return the files and the number of rows."""
        files = ", ".join(file.path for file in self.snapshot.partitions[0].rows)
        return f"<hiveacid task {files}{'' if self.rows is None else f', {self.rows} rows'}>"

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the batches."""
        return self.selection.schema(self.snapshot)

    def to_batches(self) -> pa.RecordBatchReader:
        """Return the rows as a ``pyarrow.RecordBatchReader``.

        Raises BadFileError, UnsupportedFeatureError, and StorageError if a file was deleted because the plan is closed.
        """
        (files,) = self.snapshot.partitions
        reader = PartitionReader(AnyFileSystem(), self.snapshot, files, self.selection, only=self.stripes)
        batches = (
            batch.slice(start, BATCH_ROWS)
            for batch in reader.batches()
            for start in range(0, batch.num_rows, BATCH_ROWS)
        )
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_arrow(self) -> pa.Table:
        """Return the rows as a ``pyarrow.Table``."""
        return self.to_batches().read_all()


def read_tasks(fs: FileSystem, snapshot: Snapshot, selection: Selection) -> Iterator[ReadTask]:
    """Yield tasks for all rows that a filter may select, after reading the footers of ORC files.

    Raises BadFileError, UnsupportedFeatureError, StorageError.
    """
    for files in snapshot.partitions:
        whole = ReadTask(replace(snapshot, partitions=(files,)), selection)
        if file_kind(snapshot.table.storage) is not FileKind.ORC:
            yield from (_with_files(whole, replace(files, rows=(file,))) for file in files.rows)
            continue
        partition = PartitionReader(fs, snapshot, files, selection)
        readers = partition.open_readers()
        if partition.has_versions(readers):
            yield replace(whole, rows=sum(reader.tail.number_of_rows for reader in readers))
            continue
        for reader in readers:
            task = _with_files(whole, replace(files, rows=(reader.file,)))
            for stripes in _groups(reader, partition.stripes(reader)):
                yield replace(
                    task, stripes=stripes, rows=sum(reader.tail.stripes[one].rows for one in stripes)
                )


def _with_files(task: ReadTask, files: PartitionFiles) -> ReadTask:
    return replace(task, snapshot=replace(task.snapshot, partitions=(files,)))


def _groups(reader: OrcReader, stripes: Iterable[int]) -> Iterator[tuple[int, ...]]:
    group: list[int] = []
    size = 0
    for stripe in stripes:
        group.append(stripe)
        size += reader.tail.stripes[stripe].length
        if size >= _TASK_BYTES:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)


def map_in_order(work: Callable[..., T], tasks: Iterable[tuple[object, ...]], threads: int) -> Iterator[T]:
    """Yield the results of ``work`` in the order of the tasks; at most ``threads`` tasks are ahead of the caller."""
    if threads < 2:  # noqa: PLR2004 - the calling thread
        yield from (work(*task) for task in tasks)
        return
    running: deque[Future[T]] = deque()
    pool = ThreadPoolExecutor(threads, thread_name_prefix="hiveacid-read")
    try:
        for task in tasks:
            running.append(pool.submit(work, *task))
            if len(running) == threads:
                yield running.popleft().result()
        while running:
            yield running.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
