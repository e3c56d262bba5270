"""Tasks of a read: parts of a snapshot that other processes can read, without the store."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hiveacid.core.schema.storage_formats import FileKind, file_kind
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot
from hiveacid.table.arrow_read.orc_file import OrcReader
from hiveacid.table.arrow_read.scan import BATCH_ROWS, PartitionReader, Selection

_TASK_BYTES = 128 << 20
"""Bytes of stripes from which a further task begins."""


@dataclass(frozen=True, repr=False)
class ReadTask:
    """A file, or some stripes of it, with all that a process needs to read its rows; it can be pickled.

    It holds the valid write ids, the files of delete events, the flushed length and the filter. The process opens the file
    by its own environment (docs/object-stores.md). ``rows``: of its stripes, deleted and filtered ones too; None for Parquet.
    """

    snapshot: Snapshot
    selection: Selection
    stripes: tuple[int, ...] | None = None
    rows: int | None = None

    def __repr__(self) -> str:
        """Return the files and the number of rows."""
        files = ", ".join(file.path for file in self.snapshot.partitions[0].rows)
        return f"<hiveacid task {files}{'' if self.rows is None else f', {self.rows} rows'}>"

    @property
    def schema(self) -> Any:
        """Return the schema of the batches."""
        return self.selection.schema(self.snapshot)

    def to_batches(self) -> Any:
        """Return the rows as a ``pyarrow.RecordBatchReader``.

        Raises BadFileError, UnsupportedFeatureError, and StorageError if a file was deleted because the plan is closed.
        """
        (files,) = self.snapshot.partitions
        reader = PartitionReader(AnyFileSystem(), self.snapshot, files, self.selection, only=self.stripes)
        batches = (
            batch.slice(start, BATCH_ROWS)
            for batch in reader.batches()
            for start in range(0, batch.num_rows, BATCH_ROWS)
        )
        return pa.RecordBatchReader.from_batches(self.schema, batches)

    def to_arrow(self) -> Any:
        """Return the rows as a ``pyarrow.Table``."""
        return self.to_batches().read_all()


def read_tasks(fs: FileSystem, snapshot: Snapshot, selection: Selection) -> Iterator[ReadTask]:
    """Yield tasks for all rows that a filter may select, after reading the footers of ORC files.

    Raises BadFileError, UnsupportedFeatureError, StorageError.
    """
    for files in snapshot.partitions:
        whole = ReadTask(replace(snapshot, partitions=(files,)), selection)
        if file_kind(snapshot.table.storage) is not FileKind.ORC:
            yield from (_with_files(whole, replace(files, rows=(file,))) for file in files.rows)
            continue
        partition = PartitionReader(fs, snapshot, files, selection)
        readers = partition.open_readers()
        if partition.has_versions(readers):
            yield replace(whole, rows=sum(reader.tail.number_of_rows for reader in readers))
            continue
        for reader in readers:
            task = _with_files(whole, replace(files, rows=(reader.file,)))
            for stripes in _groups(reader, partition.stripes(reader)):
                yield replace(
                    task, stripes=stripes, rows=sum(reader.tail.stripes[one].rows for one in stripes)
                )


def _with_files(task: ReadTask, files: PartitionFiles) -> ReadTask:
    return replace(task, snapshot=replace(task.snapshot, partitions=(files,)))


def _groups(reader: OrcReader, stripes: Any) -> Iterator[tuple[int, ...]]:
    group: list[int] = []
    size = 0
    for stripe in stripes:
        group.append(stripe)
        size += reader.tail.stripes[stripe].length
        if size >= _TASK_BYTES:
            yield tuple(group)
            group, size = [], 0
    if group:
        yield tuple(group)
