"""ORC file of a stream's transaction: its stripes are staged as they come, and the commit gives it footer and final name."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hiveacid.core.format.record_keys import BucketProperty
from hiveacid.core.model import TableDefinition, TableKind, WriteId
from hiveacid.errors import StorageError
from hiveacid.orc.acid_footer import acid_metadata, nest_row_columns, set_true_types
from hiveacid.orc.writing import (
    HEADER,
    PlacedStripes,
    RecordKeys,
    StripeBlock,
    merged_tail,
    place_stripes,
    write_rows,
)
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.final_names import FinalNames
from hiveacid.table.cast_to_table_columns import single_batch

_ROWS = 1_000_000  # per batch that is encoded, in one stripe or more


@dataclass
class StreamFile:
    """Rows of one transaction for one bucket of one partition.

    ``staged``: path in the transaction's hidden staging directory. ``path``: final path. ``size``: bytes written so far.
    ``buffered``: bytes of rows in memory.
    """

    fs: FileSystem
    table: TableDefinition
    codec: str
    write_id: WriteId
    bucket: int
    staged: str
    path: str
    size: int = 0
    buffered: int = 0
    _parts: list[tuple[str, int]] = field(default_factory=list)  # staged files, and their lengths
    _stripes: list[PlacedStripes] = field(default_factory=list)
    _batches: list[Any] = field(default_factory=list)  # rows in memory
    _rows: int = 0  # number of all rows
    _encoded_rows: int = 0

    def add(self, rows: Any) -> None:
        """Add rows, which stay in memory until `spill`."""
        self._batches.append(rows)
        self.buffered += rows.nbytes
        self._rows += rows.num_rows

    def spill(self) -> None:
        """Write the rows in memory as stripes at the end of the staged file, or into another one where no file grows."""
        start = self.size or len(HEADER)
        bodies: list[bytes] = []
        for batch in _join_batches(self._batches):
            block = self._encode(batch)
            self._stripes.append(place_stripes(block, start + sum(map(len, bodies))))
            bodies.append(block.body)
            self._encoded_rows += block.rows
        self._batches, self.buffered = [], 0
        data = b"".join(bodies)
        if not bodies:
            return
        if self._parts and self.fs.replaces_tail_in_place(self.staged):
            self.fs.replace_tail(self.staged, self.size, data)
            self._parts = [(self.staged, start + len(data))]
        else:
            path = f"{self.staged}-{len(self._parts)}" if self._parts else self.staged
            part = data if self._parts else HEADER + data
            self.fs.write_bytes(path, part)
            self._parts.append((path, len(part)))
        self.size = start + len(data)

    def publish(self, final: FinalNames) -> int:
        """Write the footer and give the file its final name; return the number of rows.

        All rows are spilled. Raises StorageError if the stripes hold another number of rows than was added.
        """
        if self._encoded_rows != self._rows:
            raise StorageError(
                f"{self._rows} rows were written to {self.path}, but its stripes hold {self._encoded_rows}; nothing was committed"
            )
        tail = self._tail()
        final.join(self._parts, self.path, tail)
        self.size += len(tail)
        return self._rows

    def _encode(self, batch: Any) -> StripeBlock:
        keys = None
        if self.table.kind is TableKind.FULL_ACID:
            keys = RecordKeys(int(self.write_id), BucketProperty(1, self.bucket).encode(), self._encoded_rows)
        return write_rows(batch, self.table.columns, keys, self.codec)

    def _tail(self) -> bytes:
        """Return the metadata section and the footer over all stripes."""
        tail, flat = merged_tail(self._stripes, self.size, self.path)
        if self.table.kind is TableKind.FULL_ACID:
            start, footer = nest_row_columns(
                tail, self.table.columns, acid_metadata(tail, self.path, deletes=False)
            )
        else:
            start, footer = set_true_types(tail, self.table.columns)
        return flat[: start - self.size] + footer


def _join_batches(batches: list[Any]) -> list[Any]:
    """Join small batches, because each batch becomes at least one stripe."""
    if len(batches) < 2:  # noqa: PLR2004 - nothing to join
        return batches
    table = pa.Table.from_batches(batches)
    return [single_batch(table.slice(offset, _ROWS)) for offset in range(0, table.num_rows, _ROWS)]
