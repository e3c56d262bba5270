"""Files that a compaction copies without sorting their rows: all their keys are below those of later files.

Files of one bucket are in key order by themselves. A base and large deltas often have disjoint key ranges, because
write ids ascend. Their rows stay in order when they are read and written file by file. The rest, small deltas above them for the most part, is sorted. This is a choice, not a proof: what was
written is looked at again (``orc.key_order``).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from hiveacid.core.format.bucket_property import decode
from hiveacid.errors import BadFileError

Key = tuple[int, int, int]
"""Write id, bucket property, row id: in this order records are sorted."""

_FEW = 8
"""So many small files may lie below large ones; each becomes a stripe, and many small stripes are slow to read."""
_PART = 8
"""A file with most of its bucket's bytes counts as large from this part of the size on."""


@dataclass(frozen=True)
class KeyedFile:
    """A file with rows: no key is below ``low`` or above ``high``."""

    path: str
    size: int
    low: Key
    high: Key


def files_in_key_order(files: Sequence[KeyedFile], large: int) -> frozenset[str]:
    """Return the paths of the files whose rows need no sorting.

    ``large``: bytes from which that is worth it (an eighth of them for a file that holds three quarters of its bucket).

    Nothing is returned where a file holds rows of several buckets: they end up in several files.
    """
    buckets: dict[int, list[KeyedFile]] = defaultdict(list)
    for file in files:
        bucket = bucket_of(file.low[1])
        if bucket is None or bucket != bucket_of(file.high[1]):
            return frozenset()
        buckets[bucket].append(file)
    return frozenset(file.path for many in buckets.values() for file in _disjoint_prefix(many, large))


def bucket_of(bucket_property: int) -> int | None:
    """Return the bucket; None for codec version 0, where between two properties there are other buckets."""
    try:
        found = decode(bucket_property)
    except BadFileError:
        return None
    return found.bucket if found.version == 1 else None


def _disjoint_prefix(files: Sequence[KeyedFile], large: int) -> Sequence[KeyedFile]:
    ordered = sorted(files, key=lambda file: (file.low, file.high))
    apart = 0
    while apart + 1 < len(ordered) and ordered[apart].high < ordered[apart + 1].low:
        apart += 1
    is_whole = apart + 1 == len(ordered)
    below = ordered if is_whole else ordered[:apart]
    total = sum(file.size for file in files)

    def is_large(file: KeyedFile) -> bool:
        return file.size >= large or (file.size * _PART >= large and file.size * 4 >= total * 3)

    last = max((place for place, file in enumerate(below, 1) if is_large(file)), default=0)
    if sum(not is_large(file) for file in below[:last]) <= _FEW:
        return below[:last]
    return list(takewhile(is_large, below))
