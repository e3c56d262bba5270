"""Data source class of ``format("hiveacid")``, which Spark instantiates in its own Python processes, and its batch reads and writes.

Python workers read and stage files, without Spark's readers and writers. A write is one transaction of a streaming
connection in the driver's process; it writes the Arrow files that the tasks staged. Files of failed, killed and duplicate
tasks are ignored. A read is planned as one without Spark (`ArrowTable.plan`).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import asdict, dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.types import StructType

from hiveacid.arrow.warehouse import open_warehouse
from hiveacid.datasource.change_feed_task import require_readable
from hiveacid.datasource.options import READ, WRITE, TableAddress, count_of, require_known, require_warehouse
from hiveacid.datasource.stream_sink import Sink, StagedRows, read_staged, require_fit, stream_writer
from hiveacid.datasource.stream_source import change_schema, require_expected_columns, stream_reader
from hiveacid.spark.session.python_workers import SentToWorkers
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.storage.staging import WRITE_PREFIX, delete_staging
from hiveacid.streaming import Connection
from hiveacid.streaming.connection import retry_conflicts
from hiveacid.table.arrow_read.record_batches import ReadTask


class HiveAcidDataSource(SentToWorkers, DataSource):
    """``format("hiveacid")``.

    A query makes one instance and keeps it, pickled, until it ends: ``run`` tells one run of a query from the next.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Keep the options; the reader or writer checks them."""
        super().__init__(options)
        self.run = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "hiveacid"

    def schema(self) -> StructType:
        """Return the columns that a read of the table has (``datasource.stream_source``)."""
        return change_schema(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader of one snapshot."""
        return BatchReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
        """Return the writer that appends to the table, or overwrites it as INSERT OVERWRITE does."""
        return batch_writer(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's
        """Return the streaming reader of the table's changes (``datasource.stream_source``)."""
        return stream_reader(dict(self.options), schema)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """Return the writer of a streaming query's batches (``datasource.stream_sink``)."""
        return stream_writer(dict(self.options), self.run, schema, overwrite=overwrite)


@dataclass
class BatchWriter(SentToWorkers, DataSourceArrowWriter):
    """Stages rows in the tasks, writes them all when the job is done."""

    sink: Sink
    overwrite: bool

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedRows:
        """Stage a task's rows."""
        return self.sink.stage(iterator)

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        """Write the staged files in one transaction, then delete them.

        Raises the errors of `Connection.write` and `Connection.commit`; then no row is visible.
        """
        try:
            retry_conflicts(f"the write to {self.sink.options['table']}", lambda: self._write(messages))
        finally:
            self.abort(messages)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:  # noqa: ARG002 - of lost attempts, too
        """Delete all staged files of this job."""
        delete_staging(AnyFileSystem(), self.sink.home)

    def _write(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        address = TableAddress.of(self.sink.options)
        connection = Connection(**asdict(address), agent="hiveacid format", overwrite=self.overwrite)
        with connection, connection.transaction():
            for batch in read_staged(messages, connection.columns):
                connection.write(batch)


def batch_writer(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> BatchWriter:
    """Check options, table and columns; return the writer of one job.

    Raises ConfigError, NoSuchTableError, SchemaMismatchError, UnsupportedFeatureError.
    """
    address = TableAddress.of(options)
    require_known(options, WRITE)
    require_warehouse(options)
    table = require_fit(address, schema)
    home = f"{table.location}/{WRITE_PREFIX}{uuid.uuid4().hex}"
    return BatchWriter(Sink(dict(options), "", home, "rows"), overwrite)


@dataclass
class TaskPartition(InputPartition):
    """A part of the snapshot, for one task."""

    task: ReadTask


class BatchReader(SentToWorkers, DataSourceReader):
    """Reads one snapshot: the current one, or the one after the write id ``as_of``. Its tasks are those of `ArrowTable.plan`.

    It accepts no filters (``pushFilters``). Spark 4.1 to 4.3 keep one reader for all queries of a DataFrame or view, so
    that partitions left out by one query's filter would be missing in the others.
    """

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        """Check the options. ``schema``: the columns that Spark expects. Raises ConfigError."""
        self.address = TableAddress.of(options)
        require_known(options, READ)
        require_warehouse(options)
        self.schema = schema
        self.as_of = count_of(options, "as_of")

    def partitions(self) -> Sequence[InputPartition]:
        """Return the parts of the snapshot. Raises SchemaMismatchError if Spark expects other columns.

        The read transaction stays open until its time-out, so that the cleaner keeps the files: Spark ends this process.
        """
        warehouse = open_warehouse(self.address.warehouse, self.address.store)
        try:
            table = warehouse.table(self.address.table)
            require_readable(table.definition)
            require_expected_columns(table.definition, self.schema.fields)
            plan = table.plan(as_of=self.as_of)
        except BaseException:
            warehouse.close()
            raise
        warehouse.close_without_ending_reads()
        return [TaskPartition(task) for task in plan]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one part, in a task."""
        return iter(partition.task.to_batches()) if isinstance(partition, TaskPartition) else iter(())
