"""Which rows delete events hide, as bits in three levels.

A place (a partition) and a write id have a page, if events lie there. It is cut into chunks of row ids, for each bucket
and statement, and only chunks in which events lie have bits. Reading a few million events and setting their bits takes
a fraction of a second, and may be kept as long as the files last; a look at a bit costs a row a tenth of a look into a
hash table of as many keys.

Numbers are rounded up to powers of two: Spark writes those that a look needs into the code that it generates, and Java
compiles that anew where one of them is another. So the same query after some more deletes runs the same code.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hiveacid.core.in_order import Key
from hiveacid.core.write_ids import ValidWriteIdList
from hiveacid.errors import FormatError
from hiveacid.orc.keys import DELETE
from hiveacid.orc.vectors import are_valid, numbers

_BATCH = 1 << 20  # events: what is computed of them takes some tens of bytes each
_PLACE = "place"
_OPERATION, _CURRENT = "operation", "currentTransaction"
_KEY = ("originalTransaction", "bucket", "rowId")
NO_EVENTS = pa.table({name: pa.array([], pa.int64()) for name in _KEY})
"""What `read_events` returns of a file without events."""
_V1 = 1 << 29  # bucket properties below are of codec version 0: the bucket alone
BUCKET_SHIFT = 16
"""Bits of a bucket property below those of the bucket; the statement is in the lowest of them."""
STATEMENTS = (1 << BUCKET_SHIFT) - 1
_BUCKET_BITS, _STATEMENT_BITS = 12, 12  # the bits between statement and bucket are reserved
_MOST_CHUNKS = 1 << 23
_MOST_BITS = 1 << 28
_WORD = 64  # bits
_SIZES = (9, 12, 15)  # of chunks, as bits of the number of a row in one
_CHUNK_BITS = 32  # of a chunk's place in the table of all
_WRITE_ID_BITS, _FEW_PAGES = 10, 16
Ends = tuple[Key, Key]
"""Two keys of which each part is the lowest, and the highest, of some keys."""


@dataclass(frozen=True)
class Grid:
    """Where the keys of delete events lie: how many places, the first write id, and the bits of all other numbers.

    A place has 2 ** ``write_ids`` numbers of pages, a page 2 ** ``buckets`` buckets, a bucket 2 ** ``statements``
    statements, a statement 2 ** ``row_ids`` row ids in chunks of 2 ** ``size``.
    """

    places: int
    first: int
    write_ids: int
    buckets: int
    statements: int
    row_ids: int
    size: int = _SIZES[0]

    @property
    def of_statement(self) -> int:
        """Return the number of chunks of one statement."""
        return 1 << self.row_ids - self.size

    @property
    def of_page(self) -> int:
        """Return the number of chunks of one page."""
        return self.of_statement << self.buckets + self.statements

    def page(self, place: int, write_id: int) -> int | None:
        """Return the number of a page; None: no event is near."""
        nth = write_id - self.first
        return None if nth >> self.write_ids else (place << self.write_ids) + nth

    def chunk(self, bucket: int) -> int | None:
        """Return the number of a bucket property's first chunk in its page; None: no event is near."""
        column, statement = (bucket ^ _V1) >> BUCKET_SHIFT, bucket & STATEMENTS
        if column >> self.buckets or statement >> self.statements:
            return None
        return (column << self.statements | statement) * self.of_statement


@dataclass(frozen=True)
class DeletedRows:
    """The keys of delete events.

    ``pages``: the first chunk of each page; ``chunks``: where the bits of each begin, in longs. The first page is
    without events, those without share it; of the bits the first chunk has none set, chunks without events share it.
    """

    grid: Grid
    pages: Any = field(repr=False, compare=False)  # an Int32Array
    chunks: Any = field(repr=False, compare=False)  # an Int32Array
    bits: Any = field(repr=False, compare=False)  # a BooleanArray

    def chunk(self, place: int, write_id: int, bucket: int) -> int | None:
        """Return the number of the first chunk of a bucket property; None where no event is near."""
        page, inside = self.grid.page(place, write_id), self.grid.chunk(bucket)
        return None if page is None or inside is None else int(self.pages[page].as_py()) + inside

    def count(self, place: int, write_id: int, bucket: int, low: int, high: int) -> int:
        """Return how many of these row ids, ``high`` included, are deleted."""
        start = self.chunk(place, write_id, bucket)
        high = min(high, (1 << self.grid.row_ids) - 1)
        if start is None or low > high:
            return 0
        return self._below(start, high + 1) - self._below(start, low)

    def _below(self, start: int, row_id: int) -> int:
        """Return how many events the chunks before a row id of a statement have, and those before it in its own."""
        chunk = start + (row_id >> self.grid.size)
        inside = row_id & ((1 << self.grid.size) - 1)
        if not inside:  # the next statement may begin here, and the table may end
            return int(self._sums[chunk].as_py())
        begin = self.chunks[chunk].as_py() * _WORD
        return int(self._sums[chunk].as_py()) + int(self.bits.slice(begin, inside).true_count)

    @cached_property
    def _sums(self) -> Any:
        """Return the number of events before each chunk, and of all, as an Int32Array."""
        size = 1 << self.grid.size
        found = [int(self.bits.slice(at, size).true_count) for at in range(0, len(self.bits), size)]
        counts = pa.array(found, pa.int32()).take(pc.divide(self.chunks, size // _WORD))
        return pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), counts]))

    @property
    def words(self) -> bytes:
        """Return the bits as little-endian longs, the lowest bit first."""
        return bytes(self.bits.buffers()[1].to_pybytes()[: len(self.bits) // 8])

    @property
    def size_in_memory(self) -> int:
        """Return bytes, sums included."""
        return len(self.bits) // 8 + 8 * len(self.chunks) + 4 * len(self.pages)


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
    batches = list(_batches(tables))
    if not batches:
        return None
    for batch in batches:
        _require_inside([batch.column(name) for name in _KEY], within)
    grid = _around(batches, len(tables))
    if grid is None:
        return None
    pages = _distinct(_page_numbers(grid, batch) for batch in batches)
    if (len(pages) + 1) * replace(grid, size=_SIZES[-1]).of_page > _MOST_CHUNKS:
        return None
    used = _distinct(_chunk_numbers(grid, pages, batch) for batch in batches)
    sized = [one for size in _SIZES if (one := _sized(grid, len(pages) + 1, used, size))]
    if not sized:
        return None
    _, grid, used = min(sized, key=lambda one: one[0])
    return _with_bits(grid, pages, used, batches)


def _batches(tables: Sequence[Any]) -> Iterator[Any]:
    """Yield the events of all places, some at a time, with the number of each one's place."""
    some, rows = [], 0
    for nth, table in enumerate(tables):
        numbered = table.append_column(_PLACE, pa.repeat(pa.scalar(nth, pa.int64()), table.num_rows))
        for start in range(0, table.num_rows, _BATCH):
            some.append(numbered.slice(start, _BATCH))
            rows += some[-1].num_rows
            if rows >= _BATCH:
                yield pa.concat_tables(some).combine_chunks()
                some, rows = [], 0
    if rows:
        yield pa.concat_tables(some).combine_chunks()


def _around(batches: Sequence[Any], places: int) -> Grid | None:
    """Return what is around the keys, in the smallest chunks; None where numbers are such as no writer of today has."""
    write_id, bucket, row_id = (_ends(_column(batch, name) for batch in batches) for name in _KEY)
    statement = _ends(_statement(_column(batch, _KEY[1])) for batch in batches)[1]
    column = (bucket[1] ^ _V1) >> BUCKET_SHIFT
    if bucket[0] < _V1 or column >> _BUCKET_BITS or statement >> _STATEMENT_BITS or row_id[0] < 0:
        return None
    # as many as cost next to nothing, so that write ids may come for a while
    least = min(_WRITE_ID_BITS, max(0, _FEW_PAGES - places.bit_length()))
    bits = max(least, (write_id[1] - write_id[0]).bit_length())
    first = write_id[0] >> bits << bits
    bits += (write_id[1] - first) >> bits
    if places << bits > _MOST_CHUNKS:
        return None
    row_ids = _up(max(_SIZES[-1], row_id[1].bit_length()), 3)
    return Grid(places, first, bits, _up(column.bit_length(), 2), _up(statement.bit_length(), 2), row_ids)


def _up(number: int, step: int) -> int:
    return -(-number // step) * step


def _ends(columns: Iterable[Any]) -> tuple[int, int]:
    found = [pc.min_max(column).as_py() for column in columns]
    return min(one["min"] for one in found), max(one["max"] for one in found)


def _column(events: Any, name: str) -> Any:
    """Return a column of one piece as an array."""
    column = events.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _statement(bucket: Any) -> Any:
    return pc.bit_wise_and(bucket, STATEMENTS)


def _distinct(arrays: Iterable[Any]) -> Any:
    """Return what some arrays hold, in order and once."""
    found = pc.unique(pa.chunked_array([pc.unique(one) for one in arrays]))
    return found.take(pc.array_sort_indices(found))


def _page_numbers(grid: Grid, events: Any) -> Any:
    place = pc.shift_left(_column(events, _PLACE), grid.write_ids)
    return pc.add(place, pc.subtract(_column(events, _KEY[0]), grid.first))


def _chunk_numbers(grid: Grid, pages: Any, events: Any) -> Any:
    """Return the number of the chunk that each event lies in; ``pages``: the numbers of those with events."""
    bucket, row_id = _column(events, _KEY[1]), _column(events, _KEY[2])
    page = pc.add(pc.index_in(_page_numbers(grid, events), pages).cast(pa.int64()), 1)
    column = pc.shift_right(pc.bit_wise_xor(bucket, _V1), BUCKET_SHIFT)
    statement = pc.add(pc.shift_left(column, grid.statements), _statement(bucket))
    chunk = pc.add(pc.multiply(statement, grid.of_statement), pc.shift_right(row_id, grid.size))
    return pc.add(pc.multiply(page, grid.of_page), chunk)


def _sized(smallest: Grid, pages: int, used: Any, size: int) -> tuple[int, Grid, Any] | None:
    """Return bits of memory, the grid with chunks of a size, and those with events; None: too many.

    ``used``: the smallest chunks with events.
    """
    grid = replace(smallest, size=size)
    if pages * grid.of_page > _MOST_CHUNKS:
        return None
    larger = pc.unique(pc.shift_right(used, size - smallest.size))  # a statement has a power of two of chunks
    bits = (len(larger) + 1) << size
    return None if bits > _MOST_BITS else (bits + _CHUNK_BITS * pages * grid.of_page, grid, larger)


def _with_bits(grid: Grid, pages: Any, used: Any, batches: Sequence[Any]) -> DeletedRows:
    """Return the bits of events, given the pages and the chunks that have some."""
    size, words = grid.size, (1 << grid.size) // _WORD
    firsts = _filled(grid.places << grid.write_ids, pages, grid.of_page)
    chunks = _filled((len(pages) + 1) * grid.of_page, used, words)
    bits = None
    for batch in batches:
        begin = pc.multiply(chunks.take(_chunk_numbers(grid, pages, batch)).cast(pa.int64()), _WORD)
        at = pc.bit_wise_or(begin, pc.bit_wise_and(_column(batch, _KEY[2]), (1 << size) - 1))
        some = _set(_ascending(at), (len(used) + 1) << size)
        bits = some if bits is None else pc.or_(bits, some)
    return DeletedRows(grid, firsts, chunks, bits)


def _filled(length: int, places: Any, step: int) -> Any:
    """Return an array of ints: at ascending places one step, two steps, …, else 0."""
    values = array("i", bytes(4 * length))
    for nth, place in enumerate(places.to_pylist(), start=1):
        values[place] = nth * step
    return pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(values)])


def _require_inside(columns: Sequence[Any], within: Sequence[Ends]) -> None:
    known = None
    for low, high in within:
        here = None
        for column, least, most in zip(columns, low, high, strict=True):
            one = pc.and_(pc.greater_equal(column, least), pc.less_equal(column, most))
            here = one if here is None else pc.and_(here, one)
        known = here if known is None else pc.or_(known, here)
    if known is None or not pc.all(known, skip_nulls=False).as_py():
        raise FormatError("a delete event lies outside of the statistics of its file")


def _ascending(places: Any) -> Any:
    """Return what an array holds, in order and once."""
    if len(places) > 1 and not pc.all(pc.greater(places[1:], places[:-1])).as_py():
        places = pc.unique(places)
        places = places.take(pc.array_sort_indices(places))
    return places


def _set(places: Any, size: int) -> Any:
    """Return so many bits, those at ascending places set; the first is not."""
    gap = pc.not_equal(pc.subtract(places[1:], places[:-1]), 1)
    edge = pa.array([True])
    starts = places.filter(pa.concat_arrays([edge, gap]))
    ends = pc.add(places.filter(pa.concat_arrays([gap, edge])), 1)
    count = len(starts)
    number = numbers(2 * count)
    odd = pc.bit_wise_and(number, 1)
    order = pc.add(pc.shift_right(number, 1), pc.multiply(odd, count))  # start, end, start, end …
    runs, values = pa.concat_arrays([starts, ends]).take(order), pc.equal(odd, 1)
    if runs[-1].as_py() < size:
        runs = pa.concat_arrays([runs, pa.array([size], pa.int64())])
        values = pa.concat_arrays([values, pa.array([False])])
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(runs, values))
