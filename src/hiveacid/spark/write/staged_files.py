"""Files and rows that tasks have staged, compared with what they report; nothing here needs Spark.

Spark's write tasks count rows and files, and the driver adds up the counts of the committed tasks, without failed and
speculative attempts. Executors may write to a directory of their own machine, if a ``file:`` location is not shared.
They then report rows, but the driver finds no files; for Spark such a job succeeds.

Files that several tasks wrote in key order (``orc.key_order``) are spliced into one file for each bucket, without sorting. The
stripes of the later files are appended to those of the first (``orc.writing``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from enum import IntEnum
from itertools import chain, pairwise
from typing import TypeVar

from hiveacid.core.compaction.plan import bucket_of
from hiveacid.core.format.names import has_hidden_prefix
from hiveacid.core.model import partition_value
from hiveacid.core.schema.partitions import unescape
from hiveacid.core.snapshot.directory_listing import FileEntry
from hiveacid.errors import StorageError
from hiveacid.orc.key_order import KeyRun, read_keys_if_ascending
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.orc.writing import PlacedStripes, merged_tail, stripe_extent
from hiveacid.ports.file_system import FileSystem
from hiveacid.storage.arrow_file_system import blocks
from hiveacid.storage.paths import is_local

T = TypeVar("T")
Item = TypeVar("Item")
KIND, BUCKET = "__k", "__b"
_THREADS = 8


class StagedKind(IntEnum):
    """Kind of a staged row; it selects the directory that the row goes to."""

    DELETE = 0
    UPDATED = 1  # the new version of an updated row
    INSERTED = 2
    DELETED_BY_UPDATE = 3  # the old version of an updated row whose new one is staged as INSERTED

    @property
    def is_delete(self) -> bool:
        """Tell whether rows of this kind are delete events."""
        return self in (StagedKind.DELETE, StagedKind.DELETED_BY_UPDATE)


@dataclass(frozen=True)
class StagedFile:
    """Staged file: its kind, partition and bucket; Spark names its staging directories after them.

    ``parts`` and ``footer`` of a file without a footer, of ``size`` bytes: paths and lengths of its parts, which are
    several where no file grows; and the footer, parsed and as bytes.
    """

    path: str
    size: int
    kind: StagedKind
    values: tuple[str | None, ...]  # of dynamic partition columns
    bucket: int | None
    parts: tuple[tuple[str, int], ...] = ()
    footer: tuple[OrcTail, bytes] | None = field(default=None, compare=False, repr=False)

    def with_footer(self, start: int, footer: bytes) -> tuple[Sequence[tuple[str, int]], bytes]:
        """Return the parts that the final file begins with, and its last bytes: ``footer``, which begins at ``start``."""
        if self.footer is None:
            return [(self.path, start)], footer
        return self.parts, self.footer[1][: start - self.size] + footer


@dataclass(frozen=True)
class TaskReport:
    """Counts that the tasks of one or more writes reported; None where Spark gives none."""

    directories: tuple[str, ...]
    rows: int | None
    files: int | None

    def require_files(self, found: int) -> None:
        """Raise StorageError if there are fewer staged files than the tasks wrote."""
        if self.files is not None and found < self.files:
            raise self._error(f"{self.files} files", f"{found}")

    def require_rows(self, found: int) -> None:
        """Raise StorageError if the staged files hold another number of rows than the tasks wrote."""
        if self.rows is not None and found != self.rows:
            raise self._error(f"{self.rows} rows", f"{found}")

    def _error(self, wrote: str, found: str) -> StorageError:
        where = self.directories[0]
        cause = (
            "executors on other machines or in other containers have a directory of their own under this path: put "
            "the table on storage that the driver and all executors share"
            if is_local(where)
            else "something else removed or wrote files there, or the driver and the executors use different storage "
            "under this name: check the file system settings of both"
        )
        return StorageError(
            f"the tasks wrote {wrote} into {', '.join(self.directories)}, but the driver finds {found} there; nothing "
            f"was committed. Likely cause: {cause}"
        )


def add_reports(reports: Sequence[TaskReport]) -> TaskReport:
    """Add up the reports of several writes."""
    rows, files = ([getattr(report, name) for report in reports] for name in ("rows", "files"))
    return TaskReport(
        tuple(directory for report in reports for directory in report.directories),
        None if None in rows else sum(rows),
        None if None in files else sum(files),
    )


def list_staged_files(
    fs: FileSystem, directory: str, kind: StagedKind, reported: TaskReport
) -> list[StagedFile]:
    """List the files in a staging directory; ``kind``: used if the directory names give none.

    Raises StorageError if files are missing that the tasks have reported.
    """
    files = [
        _parse_staged_file(directory, entry, kind) for entry in fs.list_tree(directory) if _is_data(entry)
    ]
    reported.require_files(len(files))
    return files


def _is_data(entry: FileEntry) -> bool:
    """Tell whether a task's output was committed; a speculative task may leave ``_temporary/…/part-…`` after the job's end."""
    *folders, name = entry.path.split("/")
    hidden = has_hidden_prefix(name) or any(has_hidden_prefix(part) for part in folders if "=" not in part)
    return not entry.is_dir and not hidden


def _parse_staged_file(directory: str, entry: FileEntry, kind: StagedKind) -> StagedFile:
    values: list[str | None] = []
    bucket = None
    for part in entry.path.split("/")[:-1]:
        key, _, text = part.partition("=")
        if key == KIND:
            kind = StagedKind(int(text))
        elif key == BUCKET:
            bucket = int(text)
        else:
            values.append(partition_value(unescape(text)))
    return StagedFile(f"{directory}/{entry.path}", entry.size, kind, tuple(values), bucket)


@dataclass(frozen=True)
class _Part:
    file: StagedFile
    tail: OrcTail
    run: KeyRun | None


def map_files(work: Callable[[Item], T], files: Sequence[Item]) -> Iterable[T]:
    """Yield the result for each file; several threads work, unless there is one file only."""
    if len(files) < 2:  # noqa: PLR2004
        yield from map(work, files)
        return
    with ThreadPoolExecutor(_THREADS) as pool:
        yield from pool.map(work, files)


def splice_by_bucket(fs: FileSystem, files: Sequence[StagedFile]) -> list[StagedFile] | None:
    """Return one staged file for each bucket, with the number of the bucket; files without rows are left out.

    Returns None, and changes no file, if the rows have to be sorted. This is so if the rows of a file, or the files of
    a bucket, are not in strictly ascending key order, or if a file holds rows of several buckets.
    """

    def read_part(file: StagedFile) -> _Part:
        tail = read_tail(fs, file.path, file.size)
        return _Part(
            file, tail, read_keys_if_ascending(fs, file.path, file.size) if tail.number_of_rows else None
        )

    parts = [part for part in map_files(read_part, files) if part.tail.number_of_rows]
    buckets = _order_by_bucket(parts)
    if buckets is None:
        return None
    return list(map_files(lambda item: _join(fs, item[0], item[1]), sorted(buckets.items())))


def _order_by_bucket(parts: Sequence[_Part]) -> dict[int, list[_Part]] | None:
    by_bucket: dict[int, list[tuple[KeyRun, _Part]]] = defaultdict(list)
    for part in parts:
        if part.run is None or part.run.rows != part.tail.number_of_rows:
            return None
        buckets = {bucket_of(number) for number in part.run.buckets}
        bucket = buckets.pop()
        if bucket is None or buckets:
            return None
        by_bucket[bucket].append((part.run, part))
    for runs in by_bucket.values():
        runs.sort(key=lambda item: item[0].first)
        if any(before.last >= after.first for (before, _), (after, _) in pairwise(runs)):
            return None
    return {bucket: [part for _, part in runs] for bucket, runs in by_bucket.items()}


def _join(fs: FileSystem, bucket: int, parts: Sequence[_Part]) -> StagedFile:
    first = parts[0]
    if len(parts) == 1:
        return replace(first.file, bucket=bucket)
    begin, first_end = stripe_extent(first.tail)
    placed, end = [PlacedStripes(begin, begin, first.tail)], first_end
    for part in parts[1:]:
        start, stop = stripe_extent(part.tail)
        placed.append(PlacedStripes(end, start, part.tail))
        end += stop - start
    _, tail = merged_tail(placed, end, first.file.path)
    path = first.file.path
    if fs.replaces_tail_in_place(path):
        at = first_end
        for data in _stripes(fs, parts[1:]):
            fs.replace_tail(path, at, data)
            at += len(data)
        fs.replace_tail(path, end, tail)
    else:
        path = f"{path.rpartition('/')[0]}/joined-{bucket}.orc"
        fs.write_pieces(
            path, chain(blocks(fs, first.file.path, 0, first_end), _stripes(fs, parts[1:]), [tail])
        )
    return replace(first.file, path=path, size=end + len(tail), bucket=bucket)


def _stripes(fs: FileSystem, parts: Sequence[_Part]) -> Iterator[bytes]:
    for part in parts:
        yield from blocks(fs, part.file.path, *stripe_extent(part.tail))
