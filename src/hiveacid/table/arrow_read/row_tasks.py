"""Tasks that read the selected rows of a table in other processes, as `read_batches` reads them in this one.

A task has parts of files, all that their reader needs, and limits. It can be pickled and needs neither the store nor Spark.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import TypeAlias

import pyarrow as pa

from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.errors import HiveAcidError, StorageError
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.file_system_routing import AnyFileSystem, Opener
from hiveacid.table.arrow_read.files_to_open import PartitionFiles, Snapshot
from hiveacid.table.arrow_read.record_batches import PartitionReader, RowBudget, Selection

_MIN_PART = 4 << 20  # bytes of files, which are read in less time than a task takes to start
_MAX_PART = 256 << 20


@dataclass(frozen=True)
class FilePart:
    """The stripes of a file that begin at ``begin`` or later, but before ``end``. ``partition``: its number in the snapshot."""

    partition: int
    file: ScanFile
    begin: int
    end: int


def divide_files(snapshot: Snapshot, tasks: int) -> list[list[FilePart]]:
    """Return the parts of files that about so many tasks read, all with about the same number of bytes.

    A part of a file may hold no stripe, because only the footer, which the task reads, tells where stripes begin.
    """
    files = [(number, file) for number, part in enumerate(snapshot.partitions) for file in part.rows]
    share = sum(file.length for _, file in files) // max(1, tasks) + 1
    share = min(max(share, _MIN_PART), _MAX_PART)
    groups: list[list[FilePart]] = []
    room = 0
    for number, file in files:
        pieces = max(1, round(file.length / share))
        bounds = [file.length * piece // pieces for piece in range(pieces + 1)]
        for begin, end in pairwise(bounds):
            if end - begin > room or not groups:
                groups.append([])
                room = share + share // 2
            groups[-1].append(FilePart(number, file, begin, end))
            room -= end - begin
    return groups


@dataclass(frozen=True)
class PartitionRows:
    """Selected rows of one partition, as bytes of Arrow's stream format. ``partition``: its number in the snapshot."""

    partition: int
    stream: bytes

    def batches(self) -> list[pa.RecordBatch]:
        """Return the rows."""
        return [*pa.ipc.open_stream(self.stream)]


@dataclass(frozen=True)
class Refusal:
    """A reason why a task cannot read rows. ``no_access``: it cannot read the file system."""

    reason: str
    no_access: bool = False


Result: TypeAlias = list[PartitionRows] | Refusal | None
"""Result of a task: the selected rows; None if they are too many."""


@dataclass(frozen=True)
class RowTask:
    """A task: parts of files, and what its reader needs.

    ``snapshot``: with the partitions of these parts only. ``numbers``: of these in the whole snapshot. ``opener``: of remote
    file systems.
    """

    snapshot: Snapshot
    numbers: tuple[int, ...]
    parts: tuple[FilePart, ...]
    selection: Selection
    max_rows: int
    max_bytes: int
    opener: Opener = field(repr=False)

    @classmethod
    def of(
        cls,
        snapshot: Snapshot,
        parts: Sequence[FilePart],
        selection: Selection,
        max_rows: int,
        max_bytes: int,
        opener: Opener,
    ) -> RowTask:
        """Return the task that reads these parts."""
        files: dict[int, dict[str, ScanFile]] = defaultdict(dict)
        for part in parts:
            files[part.partition][part.file.path] = part.file
        partitions = tuple(
            replace(snapshot.partitions[number], rows=tuple(found.values()))
            for number, found in files.items()
        )
        own = replace(snapshot, partitions=partitions)
        return cls(own, tuple(files), tuple(parts), selection, max_rows, max_bytes, opener)

    def __call__(self) -> Result:
        """Read the rows. A repetition, or a second attempt beside the first, returns the same."""
        try:
            return self._read()
        except (HiveAcidError, pa.ArrowException) as error:
            return Refusal(f"{type(error).__name__}: {error}", no_access=isinstance(error, StorageError))

    def _read(self) -> list[PartitionRows] | None:
        budget, fs = RowBudget(self.max_rows, self.max_bytes), AnyFileSystem(self.opener)
        found = []
        for number, files in zip(self.numbers, self.snapshot.partitions, strict=True):
            batches = budget.take(self._batches(fs, number, files))
            if batches is None:
                return None
            if batches:
                sink = pa.BufferOutputStream()
                with pa.ipc.new_stream(sink, batches[0].schema) as stream:
                    for batch in batches:
                        stream.write_batch(batch)
                found.append(PartitionRows(number, sink.getvalue().to_pybytes()))
        return found

    def _batches(self, fs: FileSystem, number: int, files: PartitionFiles) -> Iterator[pa.RecordBatch]:
        ranges: dict[str, list[tuple[int, int]]] = defaultdict(list)
        for part in self.parts:
            if part.partition == number:
                ranges[part.file.path].append((part.begin, part.end))
        reader = PartitionReader(fs, self.snapshot, files, self.selection, ranges=ranges)
        return reader.batches()
