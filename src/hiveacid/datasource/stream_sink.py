"""Streaming sink: Python workers stage Arrow files, the driver's process writes them in one transaction.

``write`` runs in the tasks, ``commit`` and ``abort`` in a process of the driver, which is a new one for every batch.
Staged files lie below the table in ``.hiveacid-stream-<query>/<attempt>/``, hidden from every reader. The driver turns
their instants into wall-clock times where the table has a TIMESTAMP, as in Hive. The first commit of the next run removes files
of dead attempts.
"""

from __future__ import annotations

import hashlib
import io
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, islice

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Row
from pyspark.sql import datasource as api
from pyspark.sql.datasource import DataSourceStreamWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.transactions.commit_records import require_columns
from hiveacid.datasource import options as source_options
from hiveacid.errors import StorageError, StreamCheckpointError, UnsupportedFeatureError
from hiveacid.orc.stored_values import arrow_schema, without_offset
from hiveacid.ports.file_system import FileRange
from hiveacid.spark.session.python_workers import SentToWorkers
from hiveacid.storage.arrow_file_system import BLOCK
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.local_file_system import LocalFileSystem
from hiveacid.storage.staging import STREAM_PREFIX, delete_staging
from hiveacid.streaming import Connection, StreamingQueryWriter

_BATCH_ROWS = 10_000  # of one batch


def from_rows(rows: Iterable[Row], schema: StructType) -> Iterator[pa.RecordBatch]:
    """Convert rows to batches: Spark 4.0 passes streams to Python row by row."""
    from pyspark.sql.conversion import LocalDataToArrowConversion  # noqa: PLC0415 - Spark 4.0 and later

    source = iter(rows)
    while batch := list(islice(source, _BATCH_ROWS)):
        yield from LocalDataToArrowConversion.convert(batch, schema, use_large_var_types=False).to_batches()


def wall_clock(batch: pa.RecordBatch, columns: tuple[Column, ...]) -> pa.RecordBatch:
    """Return a batch with every instant that goes to a TIMESTAMP replaced by the local time in its time zone."""
    targets = {field.name: field.type for field in arrow_schema(columns)}
    names = batch.schema.names
    arrays = [
        _to_wall_clock(values, targets.get(name.lower(), values.type))
        for name, values in zip(names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, names=names)


def _to_wall_clock(values: pa.Array, target: pa.DataType) -> pa.Array:
    """Replace instants at any depth of nesting; values below a null or outside a slice do not matter."""
    of = values.type
    if pa.types.is_timestamp(of):
        keeps = of.tz is None or (pa.types.is_timestamp(target) and target.tz is not None)
        return values if keeps else pc.local_timestamp(values)
    if not _has_instants(of) or of.id != target.id:  # another shape: the connection refuses it
        return values
    values = without_offset(values)
    if pa.types.is_struct(of):
        targets = {field.name.lower(): field.type for field in target}
        names = [field.name for field in of]
        members = [
            _to_wall_clock(child, targets.get(name.lower(), child.type))
            for name, child in zip(names, values.flatten(), strict=True)
        ]
        return pa.StructArray.from_arrays(members, names, mask=values.is_null())
    if pa.types.is_map(of):
        keys = _to_wall_clock(values.keys, target.key_type)
        items = _to_wall_clock(values.items, target.item_type)
        return pa.MapArray.from_arrays(values.offsets, keys, items, mask=values.is_null())
    return pa.ListArray.from_arrays(
        values.offsets, _to_wall_clock(values.values, target.value_type), mask=values.is_null()
    )


def _has_instants(arrow_type: pa.DataType) -> bool:
    if pa.types.is_timestamp(arrow_type):
        return arrow_type.tz is not None
    return any(_has_instants(arrow_type.field(index).type) for index in range(arrow_type.num_fields))


_UNSUPPORTED_OPTIONS = {
    "merge_on": "changes by key are merged by foreachBatch(t.stream_writer(..., merge_on=...))",
    "merge_schema": "columns are added by foreachBatch(t.stream_writer(..., merge_schema=True))",
}


@dataclass(frozen=True)
class StagedRows(WriterCommitMessage):
    """Rows that a task staged: one file of ``size`` bytes, or none if it had no rows."""

    path: str | None
    rows: int
    size: int = 0


Messages = Sequence[WriterCommitMessage | None]


@dataclass(frozen=True)
class Sink:
    """Staging area of one query. ``home``: its directory. ``attempt``: the sub-directory of one attempt at a batch."""

    options: Mapping[str, str]
    run: str
    home: str
    attempt: str

    def stage(self, batches: Iterator[pa.RecordBatch]) -> StagedRows:
        """Write a task's rows to a file of its own."""
        filled = (batch for batch in batches if batch.num_rows)
        first = next(filled, None)
        if first is None:
            return StagedRows(None, 0)
        path, rows, size = f"{self.home}/{self.attempt}/{uuid.uuid4().hex}.arrow", 0, 0

        def pieces() -> Iterator[bytes]:
            nonlocal rows, size
            out = io.BytesIO()
            with pa.ipc.new_stream(out, first.schema) as writer:
                for batch in chain([first], filled):
                    writer.write_batch(batch)
                    rows += batch.num_rows
                    yield out.getvalue()
                    size += out.tell()
                    out.seek(0)
                    out.truncate()
            size += out.tell()
            yield out.getvalue()

        # a crash of the machine ends the job, too, so that nothing has to be synced
        AnyFileSystem(local=LocalFileSystem(durable=False)).write_pieces(path, pieces())
        return StagedRows(path, rows, size)

    def commit(self, messages: Messages, batch_id: int) -> None:
        """Write the staged files in one transaction that records the batch, then delete them."""
        address, query = source_options.TableAddress.of(self.options), source_options.query_of(self.options)
        checkpoint, restart = (
            source_options.checkpoint_of(self.options),
            source_options.flag_of(self.options, "restart"),
        )
        agent = f"hiveacid stream {query}"
        with Connection(**asdict(address), agent=agent) as connection:
            stream = StreamingQueryWriter.register(connection, query, self.run, checkpoint, restart=restart)
            if stream.progress.last_batch_id < 0 < batch_id and not restart:  # a query begins with batch 0
                raise StreamCheckpointError(
                    f"batch {batch_id} of stream {stream.progress.stream} comes to a table that has no batch of it: the table was "
                    "dropped and created again, or the query had another table or name before. Begin with a new checkpoint; or "
                    "set the option restart to true to go on with this batch, without the rows of those before"
                )
            stream.deliver(batch_id, lambda: read_staged(messages, connection.columns))
        if stream.first:  # earlier runs that staged files are fenced or dead
            delete_staging(AnyFileSystem(), self.home)
        else:
            self.abort(messages)

    def abort(self, messages: Messages) -> None:
        """Delete the files that the tasks staged."""
        paths = [message.path for message in messages if isinstance(message, StagedRows) and message.path]
        for attempt in {path.rpartition("/")[0] for path in paths}:
            delete_staging(AnyFileSystem(), attempt)


def read_staged(messages: Messages, columns: tuple[Column, ...]) -> Iterator[pa.RecordBatch]:
    """Yield the staged rows as Arrow batches for a table of these columns.

    Raises StorageError if a file is missing, or if its number of rows is not the one that its task reported.
    """
    fs = AnyFileSystem()
    for staged in messages:
        if not isinstance(staged, StagedRows) or staged.path is None:
            continue
        path, rows = staged.path, 0
        if not fs.exists(path):
            raise StorageError(
                f"the staged file {path} is missing: the executors do not share this disk with the driver, or the file was "
                "older than a day. Use a shared directory, and restart the query"
            )
        source = pa.PythonFile(FileRange(fs, path, staged.size), mode="r")
        with pa.BufferedInputStream(source, BLOCK) as stream, pa.ipc.open_stream(stream) as reader:
            for batch in reader:
                rows += batch.num_rows
                yield wall_clock(batch, columns)
        if rows != staged.rows:
            raise StorageError(f"a task staged {staged.rows} rows in {path}, which holds {rows}")


def stream_writer(
    options: Mapping[str, str], run: str, schema: StructType, *, overwrite: bool
) -> DataSourceStreamWriter:
    """Check options, table and columns; return the writer of one batch.

    Raises ConfigError, NoSuchTableError, SchemaMismatchError, UnsupportedFeatureError.
    """
    address, query = source_options.TableAddress.of(options), source_options.query_of(options)
    source_options.flag_of(options, "restart")  # checks the value
    for name, instead in _UNSUPPORTED_OPTIONS.items():
        if name in options or name.replace("_", "") in options:
            raise UnsupportedFeatureError(f'format("hiveacid") has no option {name}: {instead}')
    source_options.require_known(options, source_options.WRITE_STREAM)
    source_options.require_warehouse(options)
    if overwrite:
        raise UnsupportedFeatureError(
            'outputMode("complete") would write the whole table again with every batch'
        )
    table = require_fit(address, schema)
    digest = hashlib.sha256(query.encode()).hexdigest()[:16]
    sink = Sink(dict(options), run, f"{table.location}/{STREAM_PREFIX}{digest}", uuid.uuid4().hex)
    if hasattr(api, "DataSourceStreamArrowWriter"):
        return _arrow_writer(sink)
    if "timestamp" in schema.simpleString().replace("timestamp_ntz", ""):
        raise UnsupportedFeatureError(
            "Spark 4.0 passes no time zone with a TIMESTAMP to Python: cast it to TIMESTAMP_NTZ, use Spark 4.1, or "
            "foreachBatch(t.stream_writer(...))"
        )
    return RowWriter(sink, schema)


def require_fit(address: source_options.TableAddress, schema: StructType) -> TableDefinition:
    """Return the table. Raises UnsupportedFeatureError; SchemaMismatchError if the rows do not have its columns, in any order."""
    with Connection(**asdict(address)) as connection:
        table = connection.definition
    names = table.column_names
    require_columns(table.name, [name.lower() for name in schema.fieldNames()], names, names)
    return table


class _DriverWriter(SentToWorkers, DataSourceStreamWriter):
    """Commit and abort of a batch, in the driver's process."""

    sink: Sink

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803 - Spark's
        """Write the batch to the table unless an earlier attempt has committed it."""
        self.sink.commit(messages, batchId)

    def abort(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:  # noqa: ARG002, N803 - Spark's
        """Delete the staged files."""
        self.sink.abort(messages)


class RowWriter(_DriverWriter):
    """Writer for Spark 4.0, which passes rows."""

    def __init__(self, sink: Sink, schema: StructType) -> None:
        self.sink = sink
        self.schema = schema

    def write(self, iterator: Iterator[Row]) -> StagedRows:
        """Stage a task's rows."""
        return self.sink.stage(from_rows(iterator, self.schema))


def _arrow_writer(sink: Sink) -> DataSourceStreamWriter:
    """Return the writer for Spark 4.1 and later, which passes Arrow batches."""

    class ArrowStreamWriter(_DriverWriter, api.DataSourceStreamArrowWriter):
        def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
            return self.sink.stage(iterator)

    writer = ArrowStreamWriter()
    writer.sink = sink
    return writer
