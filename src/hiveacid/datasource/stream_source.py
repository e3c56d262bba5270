"""Streaming source: the changes of a table as a streaming query.

A process on the driver lives as long as the query and determines offsets and files (``datasource.stream_offsets``). Python
workers read the files stripe by stripe as Arrow batches (``datasource.change_feed_task``). With a key, one worker pairs the
deletes and inserts of a whole batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import types as T
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition

from hiveacid.arrow.warehouse import open_warehouse
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.core.snapshot.change_feed import CHANGE_TYPE, WRITE_ID
from hiveacid.datasource import options as source_options
from hiveacid.datasource.change_feed_task import FileChanges, read_file_changes
from hiveacid.datasource.stream_offsets import ChangeSource, Offset
from hiveacid.errors import ConfigError, SchemaMismatchError
from hiveacid.spark.formats.types import spark_type
from hiveacid.spark.predicates.column_conditions import char_metadata
from hiveacid.spark.session.python_workers import SentToWorkers


def change_schema(options: Mapping[str, str]) -> T.StructType:
    """Return the columns of a source: the table's (`spark_columns`), and the change columns if requested.

    Values of CHAR are padded. By the metadata, Spark pads literals that are compared with them.
    """
    address = source_options.TableAddress.of(options)
    # of both, because Spark does not say yet whether it is a batch read or a stream
    source_options.require_known(options, source_options.READ | source_options.READ_STREAM)
    source_options.require_warehouse(options)
    change_options = source_options.parse_change_options(options, address)
    with open_warehouse(address.warehouse, address.store) as warehouse:
        table = warehouse.table(address.table).definition
    marks = [char_metadata(column.type) for column in table.all_columns]
    fields = [
        T.StructField(name, kind, metadata=mark)
        for (name, kind), mark in zip(spark_columns(table), marks, strict=True)
    ]
    if change_options.changes:
        clashes = {CHANGE_TYPE, WRITE_ID}.intersection(name for name, _ in spark_columns(table))
        if clashes:
            raise ConfigError(
                f"{table.name} has a column {', '.join(sorted(clashes))}, as changes have: rename it to stream changes"
            )
        fields += [T.StructField(CHANGE_TYPE, T.StringType()), T.StructField(WRITE_ID, T.LongType())]
    return T.StructType(fields)


def spark_columns(table: TableDefinition) -> Iterator[tuple[str, T.DataType]]:
    """Yield a table's columns in Spark's types: TIMESTAMP without time zone, CHAR and VARCHAR as STRING."""
    for column in table.all_columns:
        kind = parse_type(column.type)
        if isinstance(kind, Primitive) and kind.name == "timestamp":
            yield column.name, T.TimestampNTZType()
        elif isinstance(kind, Primitive) and kind.name in ("char", "varchar"):
            yield column.name, T.StringType()
        else:
            yield column.name, spark_type(kind)


def require_expected_columns(table: TableDefinition, fields: Sequence[T.StructField]) -> None:
    """Raise SchemaMismatchError if the table's columns are not those that Spark expects."""
    actual = [f"{name} {kind.simpleString()}" for name, kind in spark_columns(table)]
    expected = [f"{field.name} {field.dataType.simpleString()}" for field in fields]
    if actual != expected:
        raise SchemaMismatchError(
            f"{table.name} has the columns {', '.join(actual)}, and Spark was told {', '.join(expected)}: leave .schema(...) out, "
            "use select and cast instead; after its table was altered, create a view again, and start a streaming query again"
        )


@dataclass
class FilePartition(InputPartition):
    """One file of a batch, for one task."""

    file: FileChanges


class _ChangeReader(SentToWorkers, DataSourceStreamReader):
    """Reader of offsets and files; `read` runs in the tasks, everything else in the driver's process."""

    def __init__(self, options: Mapping[str, str], schema: T.StructType) -> None:
        self.schema = schema
        self.change_options = source_options.parse_change_options(
            options, source_options.TableAddress.of(options)
        )
        source_options.require_known(options, source_options.READ_STREAM)
        source_options.require_warehouse(options)
        self.source: ChangeSource | None = None
        self.target: Offset | None = None

    def _open(self) -> ChangeSource:
        if self.source is None:
            self.source = ChangeSource(self.change_options)
        return self.source

    def initialOffset(self) -> Offset:  # noqa: N802 - Spark's
        """Return the offset at which a new query begins."""
        return self._open().start_offset()

    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        """Return the files of a batch. Raises SchemaMismatchError if the table was altered since the query began."""
        files = self._open().files(start, end)
        fields = self.schema.fields[:-2] if self.change_options.changes else self.schema.fields
        require_expected_columns(self._open().definition(), fields)
        return [FilePartition(file) for file in files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one file, in a task."""
        assert isinstance(partition, FilePartition)  # noqa: S101 - made above
        return read_file_changes(partition.file)

    def commit(self, end: Offset) -> None:
        """Release the read transaction of a committed batch."""
        if self.source is not None:
            self.source.committed(end)

    def stop(self) -> None:
        """Close the source."""
        source, self.source = self.source, None
        if source is not None:
            source.close()


class UnlimitedReader(_ChangeReader):
    """Reader without limits, for Spark 4.0 and 4.1, which do not pass the start of a batch."""

    def latestOffset(self) -> Offset:  # type: ignore[override] # noqa: N802 - of earlier Sparks
        """Return the offset at which the next batch ends."""
        return self._open().next_end_offset(None)


def stream_reader(options: Mapping[str, str], schema: T.StructType) -> DataSourceStreamReader:
    """Return the reader of a query. Raises ConfigError. ``schema``: the columns that Spark expects."""
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow  # noqa: PLC0415 - Spark 4.2
    except ImportError:
        reader = UnlimitedReader(options, schema)
        if reader.change_options.max_write_ids or reader.change_options.max_bytes:
            raise ConfigError(
                "max_write_ids_per_trigger and max_bytes_per_trigger need Spark 4.2 or later: leave them out here"
            ) from None
        return reader

    class LimitedReader(_ChangeReader, SupportsTriggerAvailableNow):
        def latestOffset(self, start: Offset, limit: object) -> Offset:  # noqa: ARG002, N802 - Spark's; the options limit
            return self._open().next_end_offset(start, self.target)

        def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802 - Spark's
            self.target = self._open().next_end_offset(None)

    return LimitedReader(options, schema)
