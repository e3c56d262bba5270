"""Rows of a snapshot as record batches: stripe by stripe, without deleted rows, filtered."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.core.model import TableKind
from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.core.schema.virtual_columns import ROW_ID
from hiveacid.errors import StatementError, UnsupportedFeatureError
from hiveacid.orc.arrow_arrays import are_valid
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.acid_v1 import NewestVersions, newest_versions
from hiveacid.table.arrow_read.delete_matching import DeleteKeys, Keys, deleted_among
from hiveacid.table.arrow_read.flat_files import read_flat_file
from hiveacid.table.arrow_read.orc_file import CURRENT, KEY, OrcRows, read_events
from hiveacid.table.arrow_read.pruning import possible_stripes
from hiveacid.table.arrow_read.snapshot import EventFile, PartitionFiles, Snapshot
from hiveacid.table.context import StoreContext

ROW_ID_TYPE = pa.struct([("writeid", pa.int64()), ("bucketid", pa.int32()), ("rowid", pa.int64())])
BATCH_ROWS = 131_072
_REQUEST_THREADS = 16
_MOST_CHANGING = 4_000_000  # rows of a stripe: their keys and the columns of a condition take some 150 MB
_FEW_ROWS = 50_000  # that one thread decodes in less time than others take to start
_MAX_READING_THREADS = 4  # each holds a stripe
_POSITION = "\0position"  # no column has such a name


@dataclass(frozen=True)
class Selection:
    """Columns and rows to read. ``columns``: in their order. ``predicate``: a filter over ``filtered`` columns.

    ``changing``: the caller changes the rows. Update events of ACID v1 raise UnsupportedFeatureError then, and so do stripes
    with more rows than one process should hold.
    """

    columns: tuple[str, ...]
    predicate: Any = None
    filtered: tuple[str, ...] = ()
    row_ids: bool = False
    changing: bool = False

    def schema(self, snapshot: Snapshot) -> Any:
        """Return the schema of the batches."""
        return output_schema(snapshot.table, self.columns, row_ids=self.row_ids)


def output_schema(table: Any, columns: Sequence[str], *, row_ids: bool) -> Any:
    """Return the schema of some columns of a table, with ``ROW__ID`` first on request."""
    full = arrow_schema((*table.columns, *table.partition_columns))
    fields = [full.field(name) for name in columns]
    return pa.schema([*([pa.field(ROW_ID, ROW_ID_TYPE)] if row_ids else []), *fields])


def read_batches(
    context: StoreContext, snapshot: Snapshot, selection: Selection, threads: int = 1
) -> Iterator[Any]:
    """Yield the rows, of at most one stripe at a time.

    ``threads``: stripes that are read at the same time, for a caller that takes all rows. Raises BadFileError,
    UnsupportedFeatureError, StorageError, and StatementError for a filter whose arithmetic exceeds the range of a type.
    """
    for partition in snapshot.partitions:
        yield from _PartitionReader(context, snapshot, partition, selection, threads).batches()


def reading_threads() -> int:
    """Return the threads with which a caller that takes all rows should read."""
    return min(_MAX_READING_THREADS, int(pa.cpu_count()))


@dataclass
class _PartitionReader:
    context: StoreContext
    snapshot: Snapshot
    files: PartitionFiles
    selection: Selection
    threads: int
    _newest: NewestVersions | None = None  # of a location with update events (ACID v1)
    _column_threads: int = 1  # for each stripe, if there are few

    def batches(self) -> Iterator[Any]:
        table = self.snapshot.table
        if file_kind(table.storage) is not FileKind.ORC:
            for plain in self.files.rows:
                for stored in read_flat_file(self.context.fs, plain, table, self._stored_names):
                    yield self._filter_batch(stored)
            return
        level = self.context.layout_level(table)
        opened = self._open(level)
        stripe_rows = (stripe.rows for file in opened for stripe in file.tail.stripes)
        if self.selection.changing and max(stripe_rows, default=0) > _MOST_CHANGING:
            raise UnsupportedFeatureError(f"{table.name} has too many rows to be changed without Spark")
        if table.kind is TableKind.FULL_ACID and any(file.has_events for file in opened):
            if self.selection.changing:
                raise UnsupportedFeatureError(f"{table.name} holds update events of ACID v1")
            self._newest = newest_versions(
                opened, self.files.events, self._read_events, self.snapshot.write_ids
            )
        if self._newest is None:
            _ = self._deletes  # computed before the threads start
        stripes: Iterable[tuple[OrcRows, int]]
        stripes = ((file, stripe) for file in opened for stripe in self._stripes(file))
        threads = self.threads if sum(file.tail.number_of_rows for file in opened) > _FEW_ROWS else 1
        if threads > 1:
            stripes = [*stripes]
            self._column_threads = max(1, threads // max(1, len(stripes)))
        for batch in map_in_order(self._read_stripe, stripes, threads):
            if batch.num_rows:
                yield batch

    def _open(self, level: Any) -> list[OrcRows]:
        table, fs = self.snapshot.table, self.context.fs
        tasks = [(fs, file, table, level) for file in self.files.rows]
        files = map_in_order(OrcRows, tasks, min(self._request_threads, len(tasks)))
        return [file for file in files if file.tail.number_of_rows]

    @property
    def _request_threads(self) -> int:
        """Return the number of threads that read footers: a remote file system answers late, a local one at once."""
        return 1 if is_local(self.snapshot.table.location) else _REQUEST_THREADS

    @cached_property
    def _partition(self) -> dict[str, Any]:
        names = [column.name for column in self.snapshot.table.partition_columns]
        return dict(zip(names, self.files.values, strict=True))

    @property
    def _stored_names(self) -> list[str]:
        names = dict.fromkeys((*self.selection.filtered, *self.selection.columns))
        return [name for name in names if name not in self._partition]

    def _stripes(self, file: OrcRows) -> Sequence[int]:
        selection = self.selection
        if selection.predicate is None:
            return range(file.stripes)
        schema = arrow_schema((*self.snapshot.table.columns, *self.snapshot.table.partition_columns))
        return possible_stripes(
            file.tail, file.columns_without_conversion(selection.filtered), schema, selection.predicate
        )

    def _read_stripe(self, file: OrcRows, stripe: int) -> Any:
        """Return the live rows of a stripe that pass the filter."""
        selection, rows = self.selection, file.tail.stripes[stripe].rows
        mask = self._visible_rows(file, stripe)
        keep = None if mask is None or mask.all() else pa.array(mask)
        if keep is not None and not keep.true_count:
            return self._output_batch({}, 0, None)
        columns: dict[str, Any] = {}
        if selection.predicate is not None:
            names = [name for name in selection.filtered if name not in self._partition]
            columns = file.values(stripe, names, keep)
            live = rows if keep is None else keep.true_count
            passing = self._passing_positions(columns, live)
            if len(passing) < live:
                columns = {name: values.take(passing) for name, values in columns.items()}
                chosen = np.zeros(rows, bool)
                positions = np.arange(rows) if mask is None else np.flatnonzero(mask)
                chosen[positions[passing.to_numpy()]] = True
                keep = pa.array(chosen)
                if not len(passing):
                    return self._output_batch({}, 0, None)
        count = rows if keep is None else keep.true_count
        rest = [name for name in self._stored_names if name not in columns]
        parts = [rest[part :: self._column_threads] for part in range(self._column_threads)]
        tasks = [(stripe, part, keep) for part in parts if part]
        for values in map_in_order(file.values, tasks, min(self._column_threads, len(tasks))):
            columns |= values
        ids = None
        if selection.row_ids:
            keys = file.keys(stripe)
            ids = keys if keep is None else keys.filter(keep)
        return self._output_batch(columns, count, ids)

    def _filter_batch(self, stored: Any) -> Any:
        """Return the rows of a batch of stored columns that pass the filter."""
        columns = {name: stored.column(index) for index, name in enumerate(stored.schema.names)}
        count = stored.num_rows
        if self.selection.predicate is not None:
            passing = self._passing_positions(columns, count)
            columns = {name: values.take(passing) for name, values in columns.items()}
            count = len(passing)
        return self._output_batch(columns, count, None)

    def _passing_positions(self, columns: dict[str, Any], count: int) -> Any:
        """Return the positions, among ``count`` rows, of those that pass the filter."""
        arrays = [
            columns[name] if name in columns else pa.repeat(self._partition[name], count)
            for name in self.selection.filtered
        ]
        positions = pa.array(np.arange(count))
        batch = pa.RecordBatch.from_arrays([*arrays, positions], names=[*self.selection.filtered, _POSITION])
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
        if not arrays:  # only the number of rows matters
            return pa.RecordBatch.from_struct_array(pa.StructArray.from_buffers(pa.struct([]), count, [None]))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    # deleted rows, and rows of write ids that are not valid

    def _visible_rows(self, file: OrcRows, stripe: int) -> Any:
        """Return a mask of the rows that are visible in the snapshot; None for all."""
        if self._newest is not None:
            return self._newest.live(
                file, stripe, self._valid_rows(file, stripe) if file.file.partly_valid else None
            )
        mask = self._valid_rows(file, stripe) if file.file.partly_valid else None
        deleted = self._deleted_rows(file, stripe) if self._deletes is not None else None
        if deleted is None:
            return mask
        return ~deleted if mask is None else mask & ~deleted

    def _valid_rows(self, file: OrcRows, stripe: int) -> Any:
        own, current = (
            are_valid(self.snapshot.write_ids, column.cast(pa.int64()).fill_null(-1))
            for column in file.columns_of_events(stripe, [KEY[0], CURRENT])
        )
        return pc.and_(own, current).to_numpy(zero_copy_only=False)

    @cached_property
    def _deletes(self) -> DeleteKeys | None:
        if not self.files.events:
            return None
        tasks = [(file,) for file in self.files.events]
        tables = [*map_in_order(self._read_events, tasks, min(self._request_threads, len(tasks)))]
        return DeleteKeys.of([events.select([*KEY]) for events in tables])

    def _read_events(self, file: EventFile) -> Any:
        """Return keys and current write ids of a file's valid delete events, as a table."""
        return read_events(self.context.fs, file, self.snapshot.write_ids)

    def _deleted_rows(self, file: OrcRows, stripe: int) -> Any:
        """Return a mask of deleted rows; None if no row is deleted."""
        deletes = self._deletes
        assert deletes is not None  # noqa: S101 - the caller has checked it
        ranges = file.key_ranges(stripe)
        write_id, bucket, row_id = ranges.write_id, ranges.bucket, ranges.row_id
        if write_id is None or bucket is None or write_id[0] != write_id[1] or bucket[0] != bucket[1]:
            return deletes.match(Keys.of(file.keys(stripe)))
        deleted = deletes.row_ids(write_id[0], bucket[0])
        if row_id is not None:
            begin, end = (
                np.searchsorted(deleted, row_id[0]),
                np.searchsorted(deleted, row_id[1], side="right"),
            )
            deleted = deleted[begin:end]
        if not len(deleted):
            return None
        if file.file.original is not None and row_id is not None:
            mask = np.zeros(file.tail.stripes[stripe].rows, bool)
            mask[deleted - row_id[0]] = True
            return mask
        return deleted_among(file.row_ids(stripe), deleted)


def map_in_order(work: Callable[..., Any], tasks: Iterable[tuple[Any, ...]], threads: int) -> Iterator[Any]:
    """Yield the results of ``work`` in the order of the tasks, of which at most ``threads`` run or wait to be taken."""
    if threads < 2:  # noqa: PLR2004 - the calling thread
        yield from (work(*task) for task in tasks)
        return
    running: deque[Future[Any]] = deque()
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


def _row_id_column(ids: Any, count: int) -> Any:
    if not count:
        return pa.nulls(0, ROW_ID_TYPE)
    columns = [ids.column(index).cast(field.type).fill_null(-1) for index, field in enumerate(ROW_ID_TYPE)]
    return pa.StructArray.from_arrays(columns, fields=list(ROW_ID_TYPE))
