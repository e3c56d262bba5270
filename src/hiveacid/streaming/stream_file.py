"""Rows of a stream's transaction that go to one file: they are encoded and staged when they fill the memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hiveacid.core.format.record_keys import BucketProperty
from hiveacid.core.model import TableDefinition, TableKind, WriteId
from hiveacid.errors import StorageError
from hiveacid.orc.writing import RecordKeys, StripeBlock, write_rows
from hiveacid.spark.write.staged_files import StagedFile, StagedKind
from hiveacid.table.cast_to_table_columns import single_batch
from hiveacid.table.partitions import PartitionValues
from hiveacid.table.write.stripe_file import StripeFile

_ROWS = 1_000_000  # per batch that is encoded, in one stripe or more


@dataclass
class StreamFile:
    """Rows of one transaction for one bucket of one partition. ``buffered``: bytes of rows in memory."""

    table: TableDefinition
    codec: str
    write_id: WriteId
    values: PartitionValues
    bucket: int
    stripes: StripeFile
    buffered: int = 0
    _batches: list[Any] = field(default_factory=list)  # rows in memory
    _rows: int = 0  # number of all rows

    def add(self, rows: Any) -> None:
        """Add rows, which stay in memory until `spill`."""
        self._batches.append(rows)
        self.buffered += rows.nbytes
        self._rows += rows.num_rows

    def spill(self) -> None:
        """Stage the rows in memory as stripes."""
        self.stripes.append(self._encode())
        self._batches, self.buffered = [], 0

    def staged(self) -> StagedFile:
        """Stage all rows; return the file. Raises StorageError if its stripes hold another number of rows than was added."""
        self.spill()
        if self.stripes.rows != self._rows:
            raise StorageError(
                f"{self._rows} rows were written to {self.stripes.path}, but its stripes hold {self.stripes.rows}; nothing "
                "was committed"
            )
        return self.stripes.staged(StagedKind.INSERTED, self.values, self.bucket)

    def _encode(self) -> Iterator[StripeBlock]:
        row = self.stripes.rows
        for batch in _join_batches(self._batches):
            keys = None
            if self.table.kind is TableKind.FULL_ACID:
                keys = RecordKeys(int(self.write_id), BucketProperty(1, self.bucket).encode(), row)
            row += batch.num_rows
            yield write_rows(batch, self.table.columns, keys, self.codec)


def _join_batches(batches: list[Any]) -> list[Any]:
    """Join small batches, because each batch becomes at least one stripe."""
    if len(batches) < 2:  # noqa: PLR2004 - nothing to join
        return batches
    table = pa.Table.from_batches(batches)
    return [single_batch(table.slice(offset, _ROWS)) for offset in range(0, table.num_rows, _ROWS)]
