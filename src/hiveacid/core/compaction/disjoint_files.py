"""Files that a compaction copies without sorting their rows: all their keys are below those of later files.

Each file of a bucket is in key order. A base and large deltas often have disjoint key ranges, because write ids
ascend. Their rows stay in order if they are read and written file by file. The remaining files, mostly small deltas
with higher keys, are sorted. The choice relies on the key ranges of the files: ``orc.key_order`` checks the order of
the rows that were written.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from hiveacid.core.format.record_keys import Key, decode_bucket_property
from hiveacid.errors import BadFileError

_MAX_SMALL_FILES = 8
"""Limit of the small files that are copied below a large one. Each becomes a stripe, and small stripes are slow to read."""
_DOMINANT_FILE_DIVISOR = 8
"""A file with three quarters of its bucket's bytes counts as large from an eighth of the usual size on."""


@dataclass(frozen=True)
class KeyedFile:
    """A file with rows: no key is below ``low`` or above ``high``."""

    path: str
    size: int
    low: Key
    high: Key


def files_in_key_order(files: Sequence[KeyedFile], large: int) -> frozenset[str]:
    """Return the paths of the files whose rows need no sorting.

    ``large``: size in bytes from which a copy without sorting pays off (an eighth of it for a file that holds three
    quarters of its bucket).

    The result is empty if a file holds rows of several buckets, because those rows go to several files.
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
        fields = decode_bucket_property(bucket_property)
    except BadFileError:
        return None
    return fields.bucket if fields.version == 1 else None


def _disjoint_prefix(files: Sequence[KeyedFile], large: int) -> Sequence[KeyedFile]:
    """Return the first files in key order whose ranges do not overlap any other, up to the last large one.

    If too many of them are small, return only the large files at the beginning.
    """
    ordered = sorted(files, key=lambda file: (file.low, file.high))
    disjoint = 0
    while disjoint + 1 < len(ordered) and ordered[disjoint].high < ordered[disjoint + 1].low:
        disjoint += 1
    is_whole = disjoint + 1 == len(ordered)
    below = ordered if is_whole else ordered[:disjoint]
    total = sum(file.size for file in files)

    def is_large(file: KeyedFile) -> bool:
        is_dominant = file.size * 4 >= total * 3
        return file.size >= large or (is_dominant and file.size * _DOMINANT_FILE_DIVISOR >= large)

    last = max((place for place, file in enumerate(below, 1) if is_large(file)), default=0)
    if sum(not is_large(file) for file in below[:last]) <= _MAX_SMALL_FILES:
        return below[:last]
    return list(takewhile(is_large, below))
