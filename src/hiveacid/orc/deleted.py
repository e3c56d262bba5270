"""Which rows delete events hide, as bits: one for each row id between the lowest and the highest of a page.

A page is one write id and bucket of one place (a partition). Reading a few million events and setting their bits
takes a fraction of a second, and may be kept as long as the files last; a look at a bit costs a row a tenth of a
look into a hash table of as many keys.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hiveacid.core.in_order import Key
from hiveacid.core.write_ids import ValidWriteIdList
from hiveacid.errors import FormatError
from hiveacid.orc.keys import DELETE
from hiveacid.orc.vectors import are_valid, numbers

_OPERATION, _CURRENT = "operation", "currentTransaction"
_KEY = ("originalTransaction", "bucket", "rowId")
_V1 = 1 << 29  # bucket properties below are of codec version 0: the bucket alone
BUCKET_STEP = 1 << 16
"""Between the bucket properties of one bucket and the next; what lies between them are statements."""
_MOST_PAGES = 1 << 17
_MOST_BITS = 1 << 26
_MOST_WASTE = 4  # pages of one size make a look cheaper, for as many times the bits
Ends = tuple[Key, Key]
"""Two keys of which each part is the lowest, and the highest, of some keys."""


@dataclass(frozen=True)
class DeletedRows:
    """The keys of delete events.

    ``first``, ``last``: keys around all of them; ``places``: how many places there are. Pages are numbered by place,
    write id and bucket, in this order. Row id r of page p has bit r + ``shifts``[p], which lies in ``starts``[p] to
    ``starts``[p + 1]. ``stride``: bits of each page where all have as many, and the same lowest row id; else 0.
    """

    first: Key
    last: Key
    places: int
    starts: Sequence[int] = field(repr=False)
    shifts: Sequence[int] = field(repr=False)
    bits: Any = field(repr=False, compare=False)  # a BooleanArray
    stride: int = 0

    @property
    def write_ids(self) -> int:
        """Return the number of pages of one bucket, a place."""
        return self.last[0] - self.first[0] + 1

    @property
    def buckets(self) -> int:
        """Return the number of pages of one write id, a place."""
        return (self.last[1] - self.first[1]) // BUCKET_STEP + 1

    def page(self, place: int, write_id: int, bucket: int) -> int | None:
        """Return the number of a page; None where no event is near."""
        column, odd = divmod(bucket - self.first[1], BUCKET_STEP)
        inside = self.first[0] <= write_id <= self.last[0] and 0 <= column < self.buckets
        if odd or not inside:
            return None
        return (place * self.write_ids + write_id - self.first[0]) * self.buckets + column

    def count(self, place: int, write_id: int, bucket: int, low: int, high: int) -> int:
        """Return how many of these row ids, ``high`` included, are deleted."""
        page = self.page(place, write_id, bucket)
        if page is None:
            return 0
        start = max(low + self.shifts[page], self.starts[page])
        end = min(high + 1 + self.shifts[page], self.starts[page + 1])
        return int(self.bits.slice(start, end - start).true_count) if start < end else 0

    @property
    def words(self) -> bytes:
        """Return the bits as little-endian longs, the lowest bit first."""
        found = self.bits.buffers()[1].to_pybytes()[: -(-len(self.bits) // 8)]
        return bytes(found + bytes(-len(found) % 8))


def read_events(data: bytes, valid: ValidWriteIdList | None) -> Any:
    """Return the keys of a file's delete events, as a table of three columns of long.

    ``valid``: both write ids of an event must be; None: they are. Raises what pyarrow raises.
    """
    found = orc.ORCFile(io.BytesIO(data)).read(columns=[_OPERATION, *_KEY, _CURRENT])
    found = found.filter(pc.equal(found.column(_OPERATION), DELETE))
    if valid is not None:
        for name in (_KEY[0], _CURRENT):
            found = found.filter(are_valid(valid, found.column(name)))
    return pa.table({name: found.column(name).cast(pa.int64()) for name in _KEY})


def deleted_rows(places: Iterable[Any], within: Sequence[Ends]) -> DeletedRows | None:
    """Return the bits of the events of some places (`read_events`), None where they would be too many.

    Raises FormatError where a key lies in none of the boxes ``within``: files out of their reach are not looked at.
    """
    tables = list(places)
    number = [pa.repeat(pa.scalar(nth, pa.int64()), one.num_rows) for nth, one in enumerate(tables)]
    place = pa.chunked_array(number, pa.int64())
    events = pa.concat_tables(tables)
    if not events.num_rows:
        return None
    write_id, bucket, row_id = (events.column(name) for name in _KEY)
    _require_inside((write_id, bucket, row_id), within)
    ends = [pc.min_max(column).as_py() for column in (write_id, bucket, row_id)]
    first, last = ((one[0], one[1], one[2]) for one in ([end[key] for end in ends] for key in ("min", "max")))
    low = pc.subtract(bucket, first[1])
    if first[1] < _V1 or pc.any(pc.not_equal(pc.bit_wise_and(low, BUCKET_STEP - 1), 0)).as_py():
        return None
    shell = DeletedRows(first, last, len(tables), (), (), None)
    pages = len(tables) * shell.write_ids * shell.buckets
    if pages > _MOST_PAGES:
        return None
    page = pc.add(pc.multiply(place, shell.write_ids), pc.subtract(write_id, first[0]))
    page = pc.add(pc.multiply(page, shell.buckets), pc.shift_right(low, 16))
    starts, shifts = _laid_out(page, row_id, pages)
    stride = last[2] - first[2] + 1
    if pages * stride <= min(_MOST_WASTE * starts[-1], _MOST_BITS):
        starts = [nth * stride for nth in range(pages + 1)]
        shifts = [start - first[2] for start in starts[:-1]]
    else:
        stride = 0
    if starts[-1] > _MOST_BITS:
        return None
    at = row_id if pages == 1 else pc.add(row_id, pc.take(pa.array(shifts, pa.int64()), page))
    at = pc.add(at, shifts[0]) if pages == 1 else at
    bits = _set(_ascending(at.combine_chunks()), starts[-1])
    return DeletedRows(first, last, len(tables), starts, shifts, bits, stride)


def _require_inside(columns: Sequence[Any], within: Sequence[Ends]) -> None:
    known = None
    for low, high in within:
        here = None
        for column, least, most in zip(columns, low, high, strict=True):
            one = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))
            here = one if here is None else pc.and_(here, one)
        known = here if known is None else pc.or_(known, here)
    if known is None or not pc.all(known).as_py():
        raise FormatError("a delete event lies outside of the statistics of its file")


def _laid_out(page: Any, row_id: Any, pages: int) -> tuple[list[int], list[int]]:
    """Return where each page's bits start (and the last one's end), and what a row id is shifted by."""
    ranges = (
        pa.table({"page": page, "row": row_id}).group_by("page").aggregate([("row", "min"), ("row", "max")])
    )
    sizes, lows = [0] * pages, [0] * pages
    for nth, low, high in zip(
        *(ranges.column(c).to_pylist() for c in ("page", "row_min", "row_max")), strict=True
    ):
        sizes[nth], lows[nth] = high - low + 1, low
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    return starts, [start - low for (start, _), low in zip(pairwise(starts), lows, strict=True)]


def _ascending(places: Any) -> Any:
    """Return what an array holds, in order and once."""
    if len(places) > 1 and not pc.all(pc.greater(places[1:], places[:-1])).as_py():
        places = pc.unique(places)
        places = places.take(pc.array_sort_indices(places))
    return places


def _set(places: Any, size: int) -> Any:
    """Return so many bits, those at ascending places set."""
    gap = pc.not_equal(pc.subtract(places[1:], places[:-1]), 1)
    edge = pa.array([True])
    starts = places.filter(pa.concat_arrays([edge, gap]))
    ends = pc.add(places.filter(pa.concat_arrays([gap, edge])), 1)
    count = len(starts)
    number = numbers(2 * count)
    odd = pc.bit_wise_and(number, 1)
    order = pc.add(pc.shift_right(number, 1), pc.multiply(odd, count))  # start, end, start, end …
    runs, values = pa.concat_arrays([starts, ends]).take(order), pc.equal(odd, 1)
    if runs[0].as_py() == 0:
        runs, values = runs[1:], values[1:]
    if runs[-1].as_py() < size:
        runs = pa.concat_arrays([runs, pa.array([size], pa.int64())])
        values = pa.concat_arrays([values, pa.array([False])])
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(runs, values))
