"""`ArrowTable`: the public methods of a table that is read and appended to without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, Self, TypeAlias, TypedDict, Unpack, cast, overload

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.arrow.query_sources import Read, TableDataset, lazy_frame, limited
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableDefinition, TableKind, TableName, WriteId
from hiveacid.core.schema.storage_formats import FileKind, supported_file_kind
from hiveacid.errors import ConfigError, UnsupportedFeatureError, no_such_column
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.streaming.connection import Connection, retry_conflicts
from hiveacid.table.arrow_read.condition_grammar import parse_predicate
from hiveacid.table.arrow_read.files_to_open import Snapshot, take_snapshot
from hiveacid.table.arrow_read.filters import Condition, arrow_filter, condition_from_arrow
from hiveacid.table.arrow_read.record_batches import (
    BATCH_ROWS,
    ReadTask,
    Selection,
    output_schema,
    read_batches,
    read_tasks,
    reading_threads,
)
from hiveacid.table.context import StoreContext
from hiveacid.table.read.history_and_time_travel import Instant, PointInTime

if TYPE_CHECKING:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow.dataset as ds

    from hiveacid.ports.store import WarehouseStore

AsOf = int | str | datetime | None
Where: TypeAlias = str | pc.Expression | Condition | None
_OF_SPARK = frozenset({"insert", "overwrite", "update", "delete", "merge", "compact", "stream_writer"}) | {
    *("to_df", "scan", "changes", "inspect", "valid_write_ids")
}
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class ArrowStream(Protocol):
    """Data of any library with Arrow's C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        """Return the stream."""


ArrowRows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader | ArrowStream


class ArrowReadOptions(TypedDict, total=False):
    """Arguments of the reads besides ``columns`` and ``where``: see `ArrowTable`."""

    as_of: AsOf
    limit: int | None
    row_ids: bool


@dataclass(frozen=True)
class ScanPlan(Sequence[ReadTask]):
    """Tasks of one read, for processes that have hiveacid and reach the files; none needs the store.

    Each row is in one task; the order of the tasks is that of `ArrowTable.to_arrow`. The plan holds a read lease, so that the
    cleaner keeps the files. After `close`, a task still reads the same rows, until the cleaner has deleted a file that a
    compaction or an overwrite replaced; then it raises StorageError. The lease also ends with the warehouse.
    """

    tasks: tuple[ReadTask, ...]
    schema: pa.Schema
    _lease: ExitStack

    def __len__(self) -> int:
        """Return the number of tasks."""
        return len(self.tasks)

    @overload
    def __getitem__(self, index: int) -> ReadTask: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[ReadTask, ...]: ...
    def __getitem__(self, index: int | slice) -> ReadTask | tuple[ReadTask, ...]:
        """Return a task, or several by a slice."""
        return self.tasks[index]

    def __reduce__(self) -> NoReturn:
        """Raise TypeError: a lease stays in its process."""
        raise TypeError("a plan holds a read lease and cannot be pickled: pickle its tasks")

    def close(self) -> None:
        """End the read lease. A second call does nothing."""
        self._lease.close()

    def __enter__(self) -> Self:
        """Return the plan."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close it."""
        self.close()


@dataclass(frozen=True)
class ArrowTable:
    """A table of a warehouse without Spark. Each read takes a snapshot of its own, whose files stay while it runs.

    Arguments of the reads:

    - ``columns``: names, in the order of the result; all by default.
    - ``where``: a condition in SQL (``table.arrow_read.condition_grammar``) or an expression of pyarrow.
    - ``as_of``: a write id, or a time (a datetime, or a text such as ``2026-01-31 12:00:00``; without a zone it is local).
    - ``limit``: the most rows to return.
    - ``row_ids``: add the column ``ROW__ID`` in front.

    They raise NoSuchTableError, NoSuchColumnError, ParseError (``where``), NotEnoughHistoryError (``as_of``),
    UnsupportedFeatureError with the name of a column that only Spark reads, and BadFileError.
    """

    context: StoreContext
    name: TableName

    def __repr__(self) -> str:
        """Return the name of the table."""
        return f"<hiveacid table {self.name}>"

    if not TYPE_CHECKING:  # a checker reports unknown names itself

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AttributeError; one that says how for a method of tables with Spark."""
            advice = ": it needs Spark, hiveacid.connect(spark, ...).table(...)" if name in _OF_SPARK else ""
            raise AttributeError(f"a table without Spark has no {name}{advice}", name=name, obj=self)

    @property
    def definition(self) -> TableDefinition:
        """Return the table's present definition. Raises NoSuchTableError."""
        self.context.require_open()
        return self.context.require(self.name)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema: data columns, then partition columns."""
        table = self.definition
        return output_schema(table, table.column_names, row_ids=False)

    def to_arrow(
        self, columns: Sequence[str] | None = None, where: Where = None, **options: Unpack[ArrowReadOptions]
    ) -> pa.Table:
        """Return the rows as a ``pyarrow.Table``: ``t.to_arrow(["id"], where="qty > 1")``."""
        return self._open_reader(columns, where, sys.maxsize, reading_threads(), **options).read_all()

    def to_batches(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        as_of: AsOf = None,
        limit: int | None = None,
        row_ids: bool = False,
        batch_size: int = BATCH_ROWS,
    ) -> pa.RecordBatchReader:
        """Return the rows as a ``pyarrow.RecordBatchReader``, which holds one stripe of a file in memory at a time.

        The files stay until the reader is exhausted or garbage-collected, or the warehouse is closed.
        """
        return self._open_reader(columns, where, batch_size, 1, as_of=as_of, limit=limit, row_ids=row_ids)

    def to_pandas(
        self, columns: Sequence[str] | None = None, where: Where = None, **options: Unpack[ArrowReadOptions]
    ) -> pd.DataFrame:
        """Return the rows as a pandas DataFrame."""
        require_package("pandas")
        return self.to_arrow(columns, where, **options).to_pandas()

    def to_polars(self, as_of: AsOf = None, *, row_ids: bool = False) -> pl.LazyFrame:
        """Return a Polars LazyFrame; each ``collect`` reads the snapshot of its moment.

        Only the columns that the query uses are read. Filters drop partitions and stripes.
        """
        require_package("polars")
        return lazy_frame(*self._source(as_of, row_ids=row_ids))

    def to_duckdb(
        self, connection: duckdb.DuckDBPyConnection, as_of: AsOf = None, *, row_ids: bool = False
    ) -> duckdb.DuckDBPyRelation:
        """Return a DuckDB relation of a connection; each query reads the snapshot of its moment.

        Only the columns that the query uses are read. Filters drop partitions and stripes.
        """
        require_package("duckdb")
        return connection.from_arrow(self.to_dataset(as_of, row_ids=row_ids))

    def to_dataset(self, as_of: AsOf = None, *, row_ids: bool = False) -> ds.Dataset:
        """Return a ``pyarrow.dataset.Dataset`` whose scans push columns and filters down, for `duckdb.register`."""
        return TableDataset(str(self.name), *self._source(as_of, row_ids=row_ids))

    def count(self, where: Where = None, as_of: AsOf = None) -> int:
        """Return the number of rows. Without a condition it reads only footers, if these give the count."""
        with self._reading([], where, as_of, row_ids=False) as (snapshot, selection):
            return sum(batch.num_rows for batch in self._batches(snapshot, selection, reading_threads()))

    def head(self, n: int = 5) -> pa.Table:
        """Return the first rows, ``n`` at most, as a ``pyarrow.Table``; their order is arbitrary."""
        return self.to_arrow(limit=n)

    def plan(
        self,
        columns: Sequence[str] | None = None,
        where: Where = None,
        *,
        as_of: AsOf = None,
        row_ids: bool = False,
    ) -> ScanPlan:
        """Return the read as a list of tasks, which other processes can run: pickle them, and call ``task.to_batches()``.

        The plan keeps the files of the snapshot: close it, or leave its ``with`` block, when the tasks are done.
        """
        with ExitStack() as lease:
            reading = self._reading(columns, where, as_of, row_ids=row_ids)
            snapshot, selection = lease.enter_context(reading)
            tasks = tuple(read_tasks(self.context.fs, snapshot, selection))
            return ScanPlan(tasks, selection.schema(snapshot), lease.pop_all())

    def append(self, rows: ArrowRows) -> int:
        """Append an Arrow table, batch or reader in one transaction; return the number of rows.

        Columns are matched by name. Partition columns are among them. Raises what `streaming.Connection.write` raises,
        and WriteConflictError if other writers overwrote the same partitions during each of five attempts. No row is
        visible then. The rows are held in memory until the commit.
        """
        self.context.require_open()
        batches = _batches_of(rows)
        context = self.context
        settings = dict(context.settings.changed)

        def write() -> int:
            count = 0
            with Connection(
                self.name,
                agent="hiveacid append",
                warehouse=context.warehouse,
                store=cast("WarehouseStore", context.store),  # `open_warehouse`
                settings=settings,
                fs=context.fs,
            ) as connection:
                with connection.transaction():
                    for batch in batches:
                        connection.write(batch)
                        count += batch.num_rows
                return count

        return retry_conflicts(f"the append to {self.name}", write)

    # reading

    def _open_reader(
        self,
        columns: Sequence[str] | None,
        where: Where,
        batch_size: int,
        threads: int,
        *,
        as_of: AsOf = None,
        limit: int | None = None,
        row_ids: bool = False,
    ) -> pa.RecordBatchReader:
        """Return a reader of batches. ``threads`` as in `read_batches`; a read with a limit has one thread."""
        if batch_size < 1:
            raise ConfigError(f"batch_size={batch_size!r}: it must be at least 1")
        if limit is not None and (not hasattr(limit, "__index__") or limit < 0):
            raise ConfigError(f"limit={limit!r}: it must be a whole number, 0 or more")

        def rows() -> Iterator[pa.Schema | pa.RecordBatch]:
            with self._reading(columns, where, as_of, row_ids=row_ids) as (snapshot, selection):
                yield selection.schema(snapshot)
                batches = self._batches(snapshot, selection, threads if limit is None else 1)
                for batch in limited(batches, limit):
                    for start in range(0, batch.num_rows, batch_size):
                        yield batch.slice(start, batch_size)

        running = rows()
        schema = next(running)  # takes the snapshot now, not at the first batch
        return pa.RecordBatchReader.from_batches(schema, running)

    @contextmanager
    def _reading(
        self, columns: Sequence[str] | None, where: Where, as_of: AsOf | PointInTime, *, row_ids: bool
    ) -> Iterator[tuple[Snapshot, Selection]]:
        """Yield a snapshot, whose files stay during the block, and what to read of it."""
        table = self.definition
        kind = supported_file_kind(table)
        if kind not in (FileKind.ORC, FileKind.PARQUET):
            raise UnsupportedFeatureError(
                f"{table.name} is stored as {kind}: read it with Spark (hiveacid.connect), or copy it into a table in ORC or Parquet"
            )
        self._require_row_ids(table, row_ids=row_ids)
        selection = select(table, columns, where, row_ids=row_ids)
        context, point = self.context, _point(as_of)
        leases = context.read_leases
        try:
            with leases.acquire(context.settings) as txn:
                snapshot = take_snapshot(context, table, txn, as_of=point, predicate=selection.predicate)
                yield snapshot, selection
        except GeneratorExit:
            # Not swept here: the thread that collects a generator may hold a lock. The heartbeat sweeps.
            raise
        except Exception:
            self._sweep_leases()
            raise
        self._sweep_leases()

    def _sweep_leases(self) -> None:
        if not self.context.session.closed:
            self.context.read_leases.sweep()

    def _batches(
        self, snapshot: Snapshot, selection: Selection, threads: int = 1
    ) -> Iterator[pa.RecordBatch]:
        for batch in read_batches(self.context, snapshot, selection, threads):
            self.context.require_open()
            yield batch

    def _source(self, as_of: AsOf, *, row_ids: bool) -> tuple[pa.Schema, Read]:
        """Return the schema of all columns, and a function that reads the current snapshot for each query."""
        definition, point = self.definition, _point(as_of)
        self._require_row_ids(definition, row_ids=row_ids)
        schema = output_schema(definition, definition.column_names, row_ids=row_ids)

        def read(names: Sequence[str], predicate: pc.Expression | None) -> Iterator[pa.RecordBatch]:
            ids = row_ids and ROW_ID in names
            stored = [name for name in names if name != ROW_ID or not row_ids]
            condition = None if predicate is None else condition_from_arrow(predicate, schema)
            if condition is not None and row_ids and ROW_ID in condition.columns:
                raise UnsupportedFeatureError(
                    "filters on ROW__ID are not supported: read the rows first, then filter them"
                )
            with self._reading(stored, condition, point, row_ids=ids) as (snapshot, selection):
                for batch in self._batches(snapshot, selection):
                    yield batch.select([*names]) if names else batch

        return schema, read

    @staticmethod
    def _require_row_ids(table: TableDefinition, *, row_ids: bool) -> None:
        if row_ids and table.kind is not TableKind.FULL_ACID:
            raise ConfigError(f"{table.name}: only full ACID tables have row ids")


def select(
    table: TableDefinition, columns: Sequence[str] | None, where: Where, *, row_ids: bool
) -> Selection:
    """Check and resolve columns and filter. Raises NoSuchColumnError, ParseError, ConfigError."""
    names, condition = _columns(table, columns), _condition(table, where)
    if condition is None:
        return Selection(names, row_ids=row_ids)
    return Selection(names, condition.predicate, condition.columns, row_ids)


def _columns(table: TableDefinition, columns: Sequence[str] | None) -> tuple[str, ...]:
    if columns is None:
        return tuple(table.column_names)
    names = (columns,) if isinstance(columns, str) else tuple(columns)
    lowered = []
    for name in names:
        if str(name).lower() not in table.column_names:
            raise no_such_column(table.name, str(name), table.column_names)
        lowered.append(str(name).lower())
    if len(set(lowered)) < len(lowered):
        raise ConfigError(f"columns={list(names)}: a column is named twice")
    return tuple(lowered)


def _condition(table: TableDefinition, where: Where) -> Condition | None:
    if where is None:
        return None
    if isinstance(where, str):
        return arrow_filter(table.all_columns, parse_predicate(where, table))
    if isinstance(where, Condition):
        return where
    if isinstance(where, pc.Expression):
        return condition_from_arrow(where, arrow_schema(table.all_columns))
    raise ConfigError(f"where={where!r}: a condition in SQL or an expression of pyarrow is needed")


def _point(as_of: AsOf | PointInTime) -> PointInTime | None:
    """Convert ``as_of`` to a `PointInTime`. Raises ConfigError."""
    if as_of is None or isinstance(as_of, Instant):
        return as_of
    if isinstance(as_of, int) and not isinstance(as_of, bool):
        return WriteId(as_of)
    try:
        moment = as_of if isinstance(as_of, datetime) else datetime.fromisoformat(str(as_of))
        return Instant((moment.astimezone(UTC) - _EPOCH) // timedelta(milliseconds=1))
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(
            f"as_of={as_of!r} is neither a write id nor a time: write '2026-01-31 12:00:00' or a datetime"
        ) from error


def _batches_of(rows: ArrowRows) -> Sequence[pa.RecordBatch]:
    """Return the record batches of an Arrow table, batch, reader, or anything with Arrow's C stream interface."""
    if isinstance(rows, pa.RecordBatch):
        return [rows]
    if isinstance(rows, pa.Table):
        return [*rows.to_batches()]
    if isinstance(rows, pa.RecordBatchReader) or hasattr(rows, "__arrow_c_stream__"):
        return [*pa.RecordBatchReader.from_stream(rows)]
    raise ConfigError(
        f"append() takes Arrow data, not {type(rows).__name__}: convert it by pyarrow.table(...)"
    )


def require_package(name: str) -> None:
    """Raise UnsupportedFeatureError, with the command that installs it, for a package that is not installed."""
    try:
        import_module(name)
    except ImportError as error:
        raise UnsupportedFeatureError(f"{name} is not installed: pip install 'hiveacid[{name}]'") from error
