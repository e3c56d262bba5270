"""One file a bucket out of the files that several tasks wrote, none of them sorted across tasks.

Every file proves first that its rows are in key order (``orc.order``), and the files of a bucket that they follow
one another. Then the stripes of the later ones are put behind those of the first (``orc.splice``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import TYPE_CHECKING

from hiveacid.core.in_order import bucket_of
from hiveacid.orc.order import KeyRun, key_run
from hiveacid.orc.splice import Placed, extent, spliced_tail
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.storage.arrow import blocks

if TYPE_CHECKING:
    from hiveacid.ports import FileSystem
    from hiveacid.spark.publish import StagedFile

_THREADS = 8


@dataclass(frozen=True)
class _Part:
    file: StagedFile
    tail: OrcTail
    run: KeyRun | None


def spliced(fs: FileSystem, files: Sequence[StagedFile]) -> list[StagedFile] | None:
    """Return one staged file a bucket, with its number; files without rows are left out.

    None where the rows of a file, or the files of a bucket, are not in strictly ascending key order, or a file
    holds rows of several buckets: then they have to be sorted. Nothing is changed in that case.
    """

    def look(file: StagedFile) -> _Part:
        tail = read_tail(fs, file.path, file.size)
        return _Part(file, tail, key_run(fs, file.path, file.size) if tail.number_of_rows else None)

    with ThreadPoolExecutor(_THREADS) as pool:
        parts = [part for part in pool.map(look, files) if part.tail.number_of_rows]
    buckets = _in_order(parts)
    if buckets is None:
        return None
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(lambda item: _join(fs, item[0], item[1]), sorted(buckets.items())))


def _in_order(parts: Sequence[_Part]) -> dict[int, list[_Part]] | None:
    found: dict[int, list[tuple[KeyRun, _Part]]] = defaultdict(list)
    for part in parts:
        if part.run is None or part.run.rows != part.tail.number_of_rows:
            return None
        buckets = {bucket_of(one) for one in part.run.buckets}
        bucket = buckets.pop()
        if bucket is None or buckets:
            return None
        found[bucket].append((part.run, part))
    for runs in found.values():
        runs.sort(key=lambda item: item[0].first)
        if any(before.last >= after.first for (before, _), (after, _) in pairwise(runs)):
            return None
    return {bucket: [part for _, part in runs] for bucket, runs in found.items()}


def _join(fs: FileSystem, bucket: int, parts: Sequence[_Part]) -> StagedFile:
    first = parts[0]
    if len(parts) == 1:
        return replace(first.file, bucket=bucket)
    begin, first_end = extent(first.tail)
    placed, end = [Placed(begin, begin, first.tail)], first_end
    for part in parts[1:]:
        start, stop = extent(part.tail)
        placed.append(Placed(end, start, part.tail))
        end += stop - start
    _, tail = spliced_tail(placed, end, first.file.path)
    path = first.file.path
    if fs.changes_files(path):
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
        yield from blocks(fs, part.file.path, *extent(part.tail))
