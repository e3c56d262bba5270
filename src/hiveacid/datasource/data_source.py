"""Data source class of ``format("hiveacid")``, which Spark instantiates in its own Python processes."""

from __future__ import annotations

import uuid
from collections.abc import MutableMapping

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from hiveacid.datasource.batch_read_write import BatchReader, batch_writer
from hiveacid.datasource.stream_sink import stream_writer
from hiveacid.datasource.stream_source import change_schema, stream_reader
from hiveacid.datasource.worker_pickling import SentToWorkers


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
        """Return the reader of one snapshot (``datasource.batch_read_write``)."""
        return BatchReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
        """Return the writer that appends to the table, or overwrites it as INSERT OVERWRITE does."""
        return batch_writer(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        """Return the streaming reader of the table's changes (``datasource.stream_source``)."""
        return stream_reader(dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """Return the writer of a streaming query's batches (``datasource.stream_sink``)."""
        return stream_writer(dict(self.options), self.run, schema, overwrite=overwrite)
