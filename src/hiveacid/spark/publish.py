"""From staged files to ACID directories: footers put right, files moved to their names, rows counted.

Nothing here makes rows visible: that is the commit of their write id.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hiveacid.core.buckets import decode
from hiveacid.core.model import DEFAULT_PARTITION
from hiveacid.core.names import ACID_VERSION_FILE, format_bucket_file
from hiveacid.core.partitions import unescape
from hiveacid.errors import BadFileError
from hiveacid.orc.nest import acid_metadata, nest, retype
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.spark import flat
from hiveacid.spark.paths import names
from hiveacid.spark.scan import STRICT
from hiveacid.spark.write import BUCKET, KIND, Kind
from hiveacid.storage.finishing import FinalNames

if TYPE_CHECKING:
    from hiveacid.core.model import TableDefinition
    from hiveacid.ports import FileEntry, FileSystem
    from hiveacid.spark.session import SparkFacts


_Placed = tuple["StagedFile", int, str]  # a file, its rows, where it went
_BUCKET_COLUMN = 3
_THREADS = 8


@dataclass(frozen=True)
class StagedFile:
    """A file that Spark wrote: what its staging directories say of it."""

    path: str
    size: int
    kind: Kind
    values: tuple[str | None, ...]  # of dynamic partition columns
    bucket: int | None


@dataclass(frozen=True)
class Published:
    """What a write put in place: rows by kind and partition, the directories, and files by partition (absolute)."""

    rows: Mapping[tuple[Kind, tuple[str | None, ...]], int] = field(default_factory=dict)
    directories: tuple[str, ...] = ()
    files: int = 0
    bytes: int = 0
    paths: Mapping[tuple[str | None, ...], tuple[str, ...]] = field(default_factory=dict)

    def total(self, kind: Kind) -> int:
        """Return the number of rows of a kind over all partitions."""
        return sum(count for (of, _), count in self.rows.items() if of is kind)

    @property
    def partitions(self) -> tuple[tuple[str | None, ...], ...]:
        """Return the partitions that got rows."""
        return tuple(sorted({values for _, values in self.rows}, key=str))


def staged_files(fs: FileSystem, directory: str, kind: Kind) -> list[StagedFile]:
    """List what Spark left in a staging directory; ``kind`` where the directories don't say."""
    return [_parse(directory, entry, kind) for entry in fs.list_tree(directory) if _is_data(entry)]


def _is_data(entry: FileEntry) -> bool:
    name = entry.path.rpartition("/")[2]
    return not entry.is_dir and not name.startswith(("_", "."))


def _parse(directory: str, entry: FileEntry, kind: Kind) -> StagedFile:
    values: list[str | None] = []
    bucket = None
    for part in entry.path.split("/")[:-1]:
        key, _, text = part.partition("=")
        if key == KIND:
            kind = Kind(int(text))
        elif key == BUCKET:
            bucket = int(text)
        else:
            value = unescape(text)
            values.append(None if value == DEFAULT_PARTITION else value)
    return StagedFile(f"{directory}/{entry.path}", entry.size, kind, tuple(values), bucket)


def publish_acid(
    fs: FileSystem,
    table: TableDefinition,
    files: Sequence[StagedFile],
    directory_of: Callable[[Kind, tuple[str | None, ...]], str],
    *,
    keep_empty: bool = False,
) -> Published:
    """Nest each file's footer, move it to ``bucket_NNNNN`` and mark its directory; empty files are dropped.

    Raises BadFileError when rows of a file are out of order or two files claim one bucket.
    """
    final = FinalNames(fs)

    def one(file: StagedFile) -> _Placed | None:
        tail = read_tail(fs, file.path, file.size)
        if not tail.number_of_rows and not keep_empty:
            return None
        bucket = file.bucket if file.bucket is not None else _bucket_of(tail, file.path)
        metadata = acid_metadata(tail, file.path, deletes=file.kind is Kind.DELETE)
        start, data = nest(tail, table.columns, metadata)
        directory = directory_of(file.kind, file.values)
        target = f"{directory}/{format_bucket_file(bucket)}"
        final.finish(file.path, target, start, data)
        return file, tail.number_of_rows, target

    published = _collect(one, files)
    for directory in published.directories:
        fs.write_bytes(f"{directory}/{ACID_VERSION_FILE}", b"2")
    return published


def _bucket_of(tail: OrcTail, path: str) -> int:
    if not tail.number_of_rows:
        return 0
    statistics = tail.column_statistics[_BUCKET_COLUMN]
    if not isinstance(statistics.minimum, int) or statistics.minimum != statistics.maximum:
        raise BadFileError("a staged file holds rows of several buckets", path=path)
    return decode(statistics.minimum).bucket


def publish_flat(
    fs: FileSystem,
    table: TableDefinition,
    files: Sequence[StagedFile],
    directory_of: Callable[[Kind, tuple[str | None, ...]], str],
    name_of: Callable[[int, StagedFile], str],
) -> Published:
    """Move the files of an insert-only or plain table; ORC footers get the true column names and types."""
    numbered = dict(_numbers(files))
    final = FinalNames(fs)

    def one(file: StagedFile) -> _Placed | None:
        directory = directory_of(file.kind, file.values)
        target = f"{directory}/{name_of(numbered[file], file)}"
        if not footers_count(table):
            fs.move_file(file.path, target)
            return file, 0, target
        tail = read_tail(fs, file.path, file.size)
        start, data = retype(tail, table.columns)
        final.finish(file.path, target, start, data)
        return file, tail.number_of_rows, target

    return _collect(one, files)


def _numbers(files: Sequence[StagedFile]) -> Iterable[tuple[StagedFile, int]]:
    counters: dict[tuple[str | None, ...], int] = defaultdict(int)
    for file in sorted(files, key=lambda f: f.path):
        number = counters[file.values] if file.bucket is None else file.bucket
        counters[file.values] += 1
        yield file, number


def _collect(one: Callable[[StagedFile], _Placed | None], files: Sequence[StagedFile]) -> Published:
    rows: dict[tuple[Kind, tuple[str | None, ...]], int] = defaultdict(int)
    directories: dict[str, None] = {}
    paths: dict[tuple[str | None, ...], list[str]] = defaultdict(list)
    size = 0
    with ThreadPoolExecutor(_THREADS) as pool:
        for result in pool.map(one, files):
            if result is not None:
                file, count, target = result
                rows[file.kind, file.values] += count
                directories[target.rpartition("/")[0]] = None
                paths[file.values].append(target)
                size += file.size
    by_partition = {values: tuple(found) for values, found in paths.items()}
    return Published(dict(rows), tuple(directories), sum(map(len, by_partition.values())), size, by_partition)


def count_rows(facts: SparkFacts, fs: FileSystem, table: TableDefinition, files: Sequence[StagedFile]) -> int:
    """Count the rows of staged files whose footers tell nothing (text, Avro; Parquet's do, and Spark asks them)."""
    if not files:
        return 0
    return flat.read(facts, table, names(fs.spark_path(file.path) for file in files), STRICT).count()


def footers_count(table: TableDefinition) -> bool:
    """Tell whether publishing counts rows by itself (ORC)."""
    return table.storage.input_format.endswith("OrcInputFormat")
