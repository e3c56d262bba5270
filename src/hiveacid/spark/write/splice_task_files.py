"""Splice the files that several tasks wrote into one file for each bucket, without sorting.

The rows of each file must be in key order (``orc.key_order``), and the files of a bucket must follow one another. The
stripes of the later files are then appended to those of the first (``orc.writing``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from hiveacid.core.compaction.plan import bucket_of
from hiveacid.orc.key_order import KeyRun, read_keys_if_ascending
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.orc.writing import PlacedStripes, merged_tail, stripe_extent
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.write.staged_files import StagedFile
from hiveacid.storage.arrow_file_system import blocks

_THREADS = 8


@dataclass(frozen=True)
class _Part:
    file: StagedFile
    tail: OrcTail
    run: KeyRun | None


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

    with ThreadPoolExecutor(_THREADS) as pool:
        parts = [part for part in pool.map(read_part, files) if part.tail.number_of_rows]
    buckets = _order_by_bucket(parts)
    if buckets is None:
        return None
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda item: _join(fs, item[0], item[1]), sorted(buckets.items())))


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
