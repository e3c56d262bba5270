"""The data source: Spark makes one in Python processes of its own, from its class and the options."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from hiveacid.datasource.batch import BatchReader, batch_writer
from hiveacid.datasource.sink import stream_writer
from hiveacid.datasource.stream_source import change_schema, stream_reader

if TYPE_CHECKING:
    from collections.abc import MutableMapping

    from pyspark.sql.types import StructType


class HiveAcidDataSource(DataSource):
    """``format("hiveacid")``.

    A query makes one instance and keeps it, pickled, until it ends: ``run`` tells one run of a query from the next.
    """

    def __init__(self, options: MutableMapping[str, str]) -> None:
        """Take the options as they are; they are looked at where they are used."""
        super().__init__(options)
        self.run = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "hiveacid"

    def schema(self) -> StructType:
        """Return the columns of a query over the table (``datasource.stream_source``)."""
        return change_schema(dict(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return what reads one snapshot of the table (``datasource.batch``)."""
        return BatchReader(dict(self.options), schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:  # noqa: FBT001 - Spark's
        """Return what appends to the table, or overwrites it as INSERT OVERWRITE does."""
        return batch_writer(dict(self.options), schema, overwrite=overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: ARG002, N802 - Spark's
        """Return what reads the changes of the table."""
        return stream_reader(dict(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: FBT001, N802 - Spark's
        """Return what writes the batches of a streaming query (``datasource.sink``)."""
        return stream_writer(dict(self.options), self.run, schema, overwrite=overwrite)
