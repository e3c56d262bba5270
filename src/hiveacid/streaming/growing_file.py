"""Growing ORC file of a stream: each transaction appends stripes and a footer over all stripes so far.

The transactions of a batch share the file. Its side file ``_flush_length`` holds the length up to the last footer that
readers may use (``OrcRecordUpdater.flush``). Until the first commit, the file lies in the hidden staging directory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from hiveacid.core.format.bucket_property import BucketProperty
from hiveacid.core.format.names import FLUSH_LENGTH_SUFFIX
from hiveacid.core.model import TableDefinition, WriteId
from hiveacid.errors import StorageError
from hiveacid.orc.acid_footer_rewrite import acid_metadata, nest_row_columns, set_true_types
from hiveacid.orc.splice_stripes import HEADER, PlacedStripes, StripeBlock, merged_tail, place_stripes
from hiveacid.orc.writing import RecordKeys, write_rows
from hiveacid.ports.file_system import FileSystem, FileVersion
from hiveacid.table.cast_to_table_columns import single_batch

_LONG = 8  # bytes of a length
_ROWS = 1_000_000  # per batch that is encoded, in one stripe or more


@dataclass
class GrowingFile:
    """File of a bucket in one directory. ``acid``: its rows have row ids. ``shared``: several transactions write to it.

    ``require_open`` raises once the store has ended the transaction. The directory may belong to a later table then. It is
    called when a new file is staged, before it gets its name: DROP TABLE and the cleaner delete what is staged.
    """

    fs: FileSystem
    table: TableDefinition
    codec: str
    path: str
    staged: str
    bucket: int
    acid: bool
    shared: bool
    require_open: Callable[[], None]
    flushed: int = 0  # bytes up to the last footer
    written: int = 0  # bytes of the file
    published: bool = False
    buffered: int = 0  # bytes of rows in memory
    _flushed_stripes: list[PlacedStripes] = field(default_factory=list)
    _pending_stripes: list[PlacedStripes] = field(default_factory=list)
    _rows: list[Any] = field(default_factory=list)
    _transaction_rows: int = 0  # rows of the open transaction
    _next_row_id: int = 0  # row id within the write id
    _flushes: int = 0
    # of the file and its side file, after the last write; None if the storage cannot tell
    _versions: dict[str, FileVersion | None] = field(default_factory=dict)

    def add(self, rows: Any) -> None:
        """Add rows of the open transaction, which stay in memory until `spill` or `flush`."""
        self._rows.append(rows)
        self.buffered += rows.nbytes
        self._transaction_rows += rows.num_rows

    def spill(self, write_id: WriteId) -> None:
        """Write the rows in memory at the end of the file; no reader sees them before `flush`."""
        body, pending = self._encode(write_id)
        if pending:
            self._append(body)
            self._pending_stripes += pending

    def flush(self, write_id: WriteId) -> int:
        """Write the remaining rows and a footer, and publish the new length. Return the transaction's number of rows.

        Raises StorageError if the stripes hold another number of rows than was added.
        """
        body, pending = self._encode(write_id)
        pending = [*self._pending_stripes, *pending]
        rows = sum(piece.tail.number_of_rows for piece in pending)
        if rows != self._transaction_rows:
            raise StorageError(
                f"{self._transaction_rows} rows were written to {self.path}, but its stripes hold {rows}; nothing was committed"
            )
        self._pending_stripes, self._next_row_id, self._transaction_rows = [], 0, 0
        if not pending:
            return 0
        end = (self.written or len(HEADER)) + len(body)
        self._append(body + self._tail([*self._flushed_stripes, *pending], end))
        self._flushed_stripes += pending
        self.flushed = self.written
        self._publish()
        return rows

    def forget(self) -> None:
        """Drop the rows of an aborted transaction; no footer will cover the stripes that it has spilled."""
        self._rows, self._pending_stripes = [], []
        self._next_row_id = self._transaction_rows = self.buffered = 0

    @property
    def has_side_file(self) -> bool:
        """Tell whether the file has a side file with its flushed length."""
        return self._flushes > 0

    def seal(self) -> None:
        """Cut the file after its last footer and delete the side file, which is no longer needed."""
        side = self.path + FLUSH_LENGTH_SUFFIX
        self._replace_tail(self.path, self.flushed, b"")
        if self.fs.file_version(side) == self._versions[side]:
            self.fs.delete_tree(side)

    def _encode(self, write_id: WriteId) -> tuple[bytes, list[PlacedStripes]]:
        """Encode the rows in memory as stripes for the end of the file."""
        offset = self.written or len(HEADER)
        bodies: list[bytes] = []
        pending = []
        for batch in _join_batches(self._rows):
            piece = self._encode_batch(batch, write_id)
            pending.append(place_stripes(piece, offset))
            bodies.append(piece.body)
            offset += len(piece.body)
            self._next_row_id += piece.rows
        self._rows, self.buffered = [], 0
        return b"".join(bodies), pending

    def _encode_batch(self, batch: Any, write_id: WriteId) -> StripeBlock:
        keys = None
        if self.acid:
            keys = RecordKeys(int(write_id), BucketProperty(1, self.bucket).encode(), self._next_row_id)
        return write_rows(batch, self.table.columns, keys, self.codec)

    def _tail(self, pieces: list[PlacedStripes], end: int) -> bytes:
        tail, flat = merged_tail(pieces, end, self.path)
        if self.acid:
            start, footer = nest_row_columns(
                tail, self.table.columns, acid_metadata(tail, self.path, deletes=False)
            )
        else:
            start, footer = set_true_types(tail, self.table.columns)
        return flat[: start - end] + footer

    def _append(self, data: bytes) -> None:
        if self.published:
            self._replace_tail(self.path, self.written, data)
            self.written += len(data)
        elif self.written:
            self.fs.replace_tail(self.staged, self.written, data)
            self.written += len(data)
        else:
            self.fs.write_bytes(self.staged, HEADER + data)
            self.written = len(HEADER) + len(data)

    def _replace_tail(self, path: str, start: int, tail: bytes) -> None:
        """Change a published file, but not one that another writer has put in its place."""
        self._versions[path] = self.fs.replace_tail(path, start, tail, self._versions[path])

    def _move(self, staged: str, path: str) -> None:
        version = self.fs.file_version(staged) or ()
        self.fs.move_file(staged, path)
        moved = self.fs.file_version(path) or ()
        # what is at the path may be another writer's by now, unless it was copied to another disk
        self._versions[path] = version if moved[:1] == version[:1] else moved

    def _publish(self) -> None:
        """Give the file its final name, then write the new length to the side file.

        A new file ends with its footer, and is read whole until the side file is there. In the other order a side file
        could come beside another writer's file. Neither replaces an existing file.
        """
        side = self.path + FLUSH_LENGTH_SUFFIX
        length = self.flushed.to_bytes(_LONG, "big")
        if self.published:
            if self.shared:
                self._replace_tail(side, self._flushes * _LONG, length)
                self._flushes += 1
            return
        if self.shared:
            self.fs.write_bytes(self.staged + FLUSH_LENGTH_SUFFIX, length)
        self.require_open()
        self._move(self.staged, self.path)
        self.published = True
        if self.shared:
            self._move(self.staged + FLUSH_LENGTH_SUFFIX, side)
            self._flushes += 1


def _join_batches(batches: list[Any]) -> list[Any]:
    """Join small batches, because each batch becomes at least one stripe."""
    if len(batches) < 2:  # noqa: PLR2004 - nothing to join
        return batches
    table = pa.Table.from_batches(batches)
    return [single_batch(table.slice(offset, _ROWS)) for offset in range(0, table.num_rows, _ROWS)]
