"""Where the keys of delete events lie, and which files with rows none of them can reach.

The statistics in the footers tell: of a file with rows, and of one with delete events, the lowest and highest write
id, bucket property and row id. Rows that no event can reach need no lookup.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from hiveacid.orc.summary import Range

if TYPE_CHECKING:
    from hiveacid.core.in_order import Key

_MOST = 8
"""Boxes kept: each is a comparison for each delete event (`hiveacid.spark.deletes.delete_key`)."""
WORTH = 1_000_000
"""Rows from which a scan of their own, without a lookup, is faster: it costs some 30 ms, a lookup 0.05 µs."""


@dataclass(frozen=True)
class Box:
    """Keys of which each part lies between two ends."""

    write_id: Range
    bucket: Range
    row_id: Range

    @classmethod
    def between(cls, keys: tuple[Key, Key]) -> Box:
        """Return the box of a file's keys (`hiveacid.orc.summary.FileSummary.keys`)."""
        return cls(*(Range(low, high) for low, high in zip(*keys, strict=True)))

    @property
    def parts(self) -> tuple[Range, Range, Range]:
        """Return the three ranges in the order of a key."""
        return self.write_id, self.bucket, self.row_id

    def meets(self, other: Box) -> bool:
        """Tell whether a key may lie in both."""
        return all(
            one.low <= its.high and its.low <= one.high
            for one, its in zip(self.parts, other.parts, strict=True)
        )


def hull(boxes: Iterable[Box]) -> Box:
    """Return the smallest box around some. Raises ValueError where there are none."""
    ranges = zip(*(box.parts for box in boxes), strict=True)
    return Box(*(Range(min(one.low for one in some), max(one.high for one in some)) for some in ranges))


def few(boxes: Iterable[Box]) -> tuple[Box, ...]:
    """Return at most eight boxes that hold all keys of the given ones: those of one bucket are joined first."""
    found = sorted(set(boxes), key=_place)
    if len(found) <= _MOST:
        return tuple(found)
    buckets: dict[tuple[int, int], list[Box]] = defaultdict(list)
    for box in found:
        buckets[box.bucket.low, box.bucket.high].append(box)
    joined = [hull(some) for some in buckets.values()]
    size = -(-len(joined) // _MOST)
    return tuple(hull(joined[start : start + size]) for start in range(0, len(joined), size))


Span = tuple[int, int, int, int, int]
"""Place, write id and bucket of rows, lowest and highest row id."""


def spans(files: Iterable[tuple[int, int, tuple[Key, Key] | None]]) -> list[Span] | None:
    """Return the keys of all rows of some files; None where statistics don't tell each of them.

    Of a file its place, number of rows and two keys around them are given. It has every row id between its lowest and
    its highest if it has as many rows, all of one write id and bucket: no id is there twice.
    """
    found: list[Span] = []
    for place, rows, keys in files:
        if keys is None:
            return None
        (write_id, bucket, low), (highest, last, high) = keys
        if (write_id, bucket) != (highest, last) or high - low + 1 != rows:
            return None
        found.append((place, write_id, bucket, low, high))
    found.sort()
    overlap = any(one[:3] == other[:3] and one[4] >= other[3] for one, other in pairwise(found))
    return None if overlap else found


def _place(box: Box) -> tuple[int, ...]:
    return tuple(end for part in (box.bucket, box.write_id, box.row_id) for end in (part.low, part.high))


def unreached(
    boxes: Sequence[Box], rows: Mapping[str, tuple[int, Box | None]], least: int = WORTH
) -> Collection[str]:
    """Return the files that are better read without a lookup: all that no box meets, or none.

    ``rows``: number of rows and their box by file; None: unknown. ``boxes``: the delete events'; none: unknown.
    ``least``: with fewer rows beside those that are looked up it is not worth it.
    """
    if not boxes:
        return ()
    free = {path for path, (_, own) in rows.items() if own is not None and not any(map(own.meets, boxes))}
    is_worth = len(free) == len(rows) or sum(rows[path][0] for path in free) >= least
    return free if is_worth else ()
