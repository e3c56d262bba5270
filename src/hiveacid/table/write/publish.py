"""Publish staged files: rewrite footers, move files to their final names, count rows; and what a statement has written.

Publishing makes no row visible. Only the commit of the write id does. Files that Arrow writes are staged without a footer
(`StripeFile`).
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from hiveacid.core.format.acid_columns import decode_bucket_property
from hiveacid.core.format.names import format_bucket_file, format_original_file
from hiveacid.core.model import TableDefinition, TableKind, WriteId
from hiveacid.core.schema.storage_formats import is_orc
from hiveacid.core.snapshot.file_records import RecordedDirectory, RecordedFile
from hiveacid.core.transactions.commit_records import LONGEST_STATEMENT, OperationSummary
from hiveacid.errors import BadFileError
from hiveacid.orc.acid_footer import acid_metadata, nest_row_columns, set_true_types
from hiveacid.orc.footer_summary import facts_of_end
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.orc.writing import HEADER, PlacedStripes, StripeBlock, merged_tail, place_stripes
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.write.staged_files import StagedFile, StagedKind, TaskReport, map_files
from hiveacid.storage.staging import FinalNames, mark_directory, stage_version_file
from hiveacid.table.partitions import PartitionValues

T = TypeVar("T")
_PublishedFile = tuple[StagedFile, int, str, RecordedFile]  # a file, its number of rows, its final directory
_BUCKET_COLUMN = 3


@dataclass(frozen=True)
class WriteReport:
    """Numbers of inserted, updated and deleted rows, the write id (None: nothing was written), number of retries."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    write_id: WriteId | None = None
    retries: int = 0
    files: int = field(default=0, compare=False)  # number of written files
    bytes: int = field(default=0, compare=False)  # size of the written files

    def summary(self, operation: str, statement: str | None) -> OperationSummary:
        """Return the summary for the table's history."""
        text = None if statement is None else statement[:LONGEST_STATEMENT]
        return OperationSummary(
            operation, text, self.inserted, self.updated, self.deleted, self.files, self.bytes
        )

    @property
    def affected(self) -> int:
        """Number of rows that were inserted, updated or deleted."""
        return self.inserted + self.updated + self.deleted


@dataclass(frozen=True)
class PublishedFiles:
    """Result of a write: rows by kind and partition, directories, and absolute file paths by partition.

    ``recorded``: files by directory, for the store. ``marked``: the directories have a version file.
    """

    rows: Mapping[tuple[StagedKind, tuple[str | None, ...]], int] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    paths: Mapping[tuple[str | None, ...], tuple[str, ...]] = field(default_factory=dict)
    recorded: Mapping[str, tuple[RecordedFile, ...]] = field(default_factory=dict)
    marked: bool = False

    def record(self, path: str, now: int) -> RecordedDirectory:
        """Return the record of one of the directories; ``now``: ms since the epoch."""
        return RecordedDirectory(path.rpartition("/")[2], self.recorded.get(path, ()), self.marked, now)

    def total(self, kind: StagedKind) -> int:
        """Return the number of rows of a kind over all partitions."""
        return sum(count for (of, _), count in self.rows.items() if of is kind)


def publish_transactional(
    fs: FileSystem,
    table: TableDefinition,
    files: Sequence[StagedFile],
    directory_of: Callable[[StagedKind, tuple[str | None, ...]], str],
    reported: TaskReport,
    staging: str,
    check: Callable[[], None],
    *,
    keep_empty: bool = False,
) -> PublishedFiles:
    """Publish the files of a full ACID table by `publish_acid`, of an insert-only one by `publish_without_acid_columns`."""
    if table.kind is TableKind.FULL_ACID:
        return publish_acid(fs, table, files, directory_of, reported, staging, check, keep_empty=keep_empty)
    return publish_without_acid_columns(
        fs, table, files, directory_of, lambda number, _: format_original_file(number), reported, check
    )


def publish_acid(
    fs: FileSystem,
    table: TableDefinition,
    files: Sequence[StagedFile],
    directory_of: Callable[[StagedKind, tuple[str | None, ...]], str],
    reported: TaskReport,
    staging: str,
    check: Callable[[], None],
    *,
    keep_empty: bool = False,
) -> PublishedFiles:
    """Nest each file's footer, move the file to ``bucket_NNNNN`` and mark its directory; empty files are dropped.

    ``staging``: the statement's own directory, which DROP TABLE deletes. ``check`` (`Transaction.open_check`) is called
    before a directory or file gets its final name.

    Raises BadFileError if a file's rows are out of order, have wrong events or belong to several buckets. Raises
    StorageError if a file of that name exists, and, before any file is moved, if the tasks reported other row counts.
    """
    final = FinalNames(fs)
    tails = _read_tails(fs, files, reported)
    marked, lock = set[str](), threading.Lock()

    def publish_file(file: StagedFile) -> _PublishedFile | None:
        tail = tails[file]
        if not tail.number_of_rows and not keep_empty:
            return None
        bucket = file.bucket if file.bucket is not None else _bucket_of(tail, file.path)
        metadata = acid_metadata(tail, deletes=file.kind.is_delete)
        start, data = nest_row_columns(tail, table.columns, metadata)
        check()
        directory = directory_of(file.kind, file.values)
        name = format_bucket_file(bucket)
        parts, end = file.with_footer(start, data)
        size = final.join(parts, end, f"{directory}/{name}")
        with lock:
            is_first = directory not in marked
            marked.add(directory)
        if is_first:
            check()
            mark_directory(fs, directory, staging)
        return (
            file,
            tail.number_of_rows,
            directory,
            RecordedFile(name, size, facts_of_end(end, size, file.path)),
        )

    stage_version_file(fs, staging)
    check()
    return replace(_publish_all(publish_file, files), marked=True)


def _read_tails(
    fs: FileSystem, files: Sequence[StagedFile], reported: TaskReport
) -> dict[StagedFile, OrcTail]:
    """Read the footers and compare their rows with what the tasks reported."""
    tails = {file: file.footer[0] for file in files if file.footer is not None}
    unread = [file for file in files if file not in tails]
    tails.update(
        zip(unread, map_files(lambda file: read_tail(fs, file.path, file.size), unread), strict=True)
    )
    reported.require_rows(sum(tail.number_of_rows for tail in tails.values()))
    return tails


def _bucket_of(tail: OrcTail, path: str) -> int:
    if not tail.number_of_rows:
        return 0
    statistics = tail.column_statistics[_BUCKET_COLUMN]
    if not isinstance(statistics.minimum, int) or statistics.minimum != statistics.maximum:
        raise BadFileError("a staged file holds rows of several buckets", path=path)
    return decode_bucket_property(statistics.minimum).bucket


def publish_without_acid_columns(
    fs: FileSystem,
    table: TableDefinition,
    files: Sequence[StagedFile],
    directory_of: Callable[[StagedKind, tuple[str | None, ...]], str],
    name_of: Callable[[int, StagedFile], str],
    reported: TaskReport,
    check: Callable[[], None],
) -> PublishedFiles:
    """Move the files of an insert-only or plain table; ORC footers get the true column names and types.

    ``check`` as in `publish_acid`.

    Raises StorageError, before any ORC file is moved, when the tasks have reported another number of rows.
    """
    numbers: dict[
        StagedFile, int
    ] = {}  # of files without a bucket: in each partition, in the order of their paths
    counters: dict[tuple[str | None, ...], int] = defaultdict(int)
    for file in sorted(files, key=lambda f: f.path):
        numbers[file] = counters[file.values] if file.bucket is None else file.bucket
        counters[file.values] += 1
    final = FinalNames(fs)
    tails = _read_tails(fs, files, reported) if reads_footers(table) else {}

    def publish_file(file: StagedFile) -> _PublishedFile | None:
        check()
        directory = directory_of(file.kind, file.values)
        name = name_of(numbers[file], file)
        if not reads_footers(table):
            fs.move_file(file.path, f"{directory}/{name}")
            return file, 0, directory, RecordedFile(name, file.size)
        tail = tails[file]
        parts, end = file.with_footer(*set_true_types(tail, table.columns))
        size = final.join(parts, end, f"{directory}/{name}")
        return (
            file,
            tail.number_of_rows,
            directory,
            RecordedFile(name, size, facts_of_end(end, size, file.path)),
        )

    check()
    return _publish_all(publish_file, files)


def _publish_all(
    publish_file: Callable[[StagedFile], _PublishedFile | None], files: Sequence[StagedFile]
) -> PublishedFiles:
    rows: dict[tuple[StagedKind, tuple[str | None, ...]], int] = defaultdict(int)
    recorded: dict[str, list[RecordedFile]] = defaultdict(list)
    paths: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    for result in map_files(publish_file, files):
        if result is not None:
            file, count, directory, published = result
            rows[file.kind, file.values] += count
            recorded[directory].append(published)
            paths[file.values].append(f"{directory}/{published.name}")
    return PublishedFiles(
        dict(rows),
        tuple(recorded),
        sum(map(len, recorded.values())),
        sum(file.size for found in recorded.values() for file in found),
        {values: tuple(found) for values, found in paths.items()},
        {directory: tuple(found) for directory, found in recorded.items()},
    )


def reads_footers(table: TableDefinition) -> bool:
    """Tell whether this process reads and rewrites the footers of the files (ORC only)."""
    return is_orc(table.storage)


@dataclass
class StripeFile:
    """Stripes of one file that Arrow writes into a hidden staging directory, as they come. ``size``: bytes written so far; ``rows``: rows in them."""

    fs: FileSystem
    path: str
    size: int = 0
    rows: int = 0
    _parts: list[tuple[str, int]] = field(default_factory=list)  # staged files, and their lengths
    _stripes: list[PlacedStripes] = field(default_factory=list)

    def append(self, blocks: Iterable[StripeBlock]) -> None:
        """Write stripes at the end of the file, or into another one where no file grows."""
        start = self.size or len(HEADER)
        bodies: list[bytes] = []
        end = start
        for block in blocks:
            self._stripes.append(place_stripes(block, end))
            bodies.append(block.body)
            end += len(block.body)
            self.rows += block.rows
        if not bodies:
            return
        data = b"".join(bodies)
        if self._parts and self.fs.replaces_tail_in_place(self.path):
            self.fs.replace_tail(self.path, start, data)
            self._parts = [(self.path, end)]
        else:
            path = f"{self.path}-{len(self._parts)}" if self._parts else self.path
            part = data if self._parts else HEADER + data
            self.fs.write_bytes(path, part, durable=False)
            self._parts.append((path, len(part)))
        self.size = end

    def staged(self, kind: StagedKind, values: PartitionValues, bucket: int) -> StagedFile:
        """Return the file for `publish_acid`, with the footer over all stripes, which is in memory only."""
        footer = merged_tail(self._stripes, self.size, self.path)
        return StagedFile(self.path, self.size, kind, values, bucket, tuple(self._parts), footer)


def stage_file(
    fs: FileSystem,
    block: StripeBlock,
    path: str,
    kind: StagedKind,
    values: PartitionValues = (),
    bucket: int = 0,
) -> StagedFile:
    """Write the stripes of one file to ``path``."""
    file = StripeFile(fs, path)
    file.append([block])
    return file.staged(kind, values, bucket)
