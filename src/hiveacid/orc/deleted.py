"""Which rows delete events hide, as bits in two levels.

A page is one write id, bucket and statement of one place (a partition); it is cut into chunks of row ids, and only
chunks in which events lie have bits. Reading a few million events and setting their bits takes a fraction of a second,
and may be kept as long as the files last; a look at a bit costs a row a tenth of a look into a hash table of as many
keys.
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
BUCKET_STEP = 1 << 16
"""Between the bucket properties of one bucket and the next; the statement is in the bits below."""
_STATEMENTS = 1 << 12  # the bits between statement and bucket are reserved
_MOST_CHUNKS = 1 << 21
_MOST_BITS = 1 << 28
_WORD = 64  # bits
_SIZES = (9, 12, 15)  # of chunks, as bits of the number of a row in one
_CHUNK_BITS = 32  # of a chunk's place in the table of all
Ends = tuple[Key, Key]
"""Two keys of which each part is the lowest, and the highest, of some keys."""


@dataclass(frozen=True)
class DeletedRows:
    """The keys of delete events.

    ``first``, ``last``: keys around all of them; ``places``: how many places there are; ``statements``: the lowest and
    the highest. Chunks of 2 ** ``size`` row ids are numbered by place, write id, bucket, statement and row id, in this
    order; ``chunks``: where the bits of each begin, in longs. The first chunk of the bits has none set: chunks without
    events are there.
    """

    first: Key
    last: Key
    places: int
    statements: tuple[int, int]
    size: int
    chunks: Any = field(repr=False, compare=False)  # an Int32Array
    bits: Any = field(repr=False, compare=False)  # a BooleanArray

    @property
    def write_ids(self) -> int:
        """Return the number of write ids between the ends."""
        return self.last[0] - self.first[0] + 1

    @property
    def buckets(self) -> int:
        """Return the number of buckets between the ends."""
        return (self.last[1] >> 16) - (self.first[1] >> 16) + 1

    @property
    def of_statement(self) -> int:
        """Return the number of chunks of one statement."""
        return (self.last[2] >> self.size) - (self.first[2] >> self.size) + 1

    @property
    def of_bucket(self) -> int:
        """Return the number of chunks of one bucket."""
        return (self.statements[1] - self.statements[0] + 1) * self.of_statement

    @property
    def of_write_id(self) -> int:
        """Return the number of chunks of one write id."""
        return self.buckets * self.of_bucket

    @property
    def of_place(self) -> int:
        """Return the number of chunks of one place."""
        return self.write_ids * self.of_write_id

    def chunk(self, place: int, write_id: int, bucket: int) -> int | None:
        """Return the number of the first chunk of a page; None where no event is near."""
        column, statement = (bucket >> 16) - (self.first[1] >> 16), bucket & (BUCKET_STEP - 1)
        if not (self.first[0] <= write_id <= self.last[0] and 0 <= column < self.buckets):
            return None
        if not self.statements[0] <= statement <= self.statements[1]:
            return None
        return (
            place * self.of_place
            + (write_id - self.first[0]) * self.of_write_id
            + column * self.of_bucket
            + (statement - self.statements[0]) * self.of_statement
        )

    def count(self, place: int, write_id: int, bucket: int, low: int, high: int) -> int:
        """Return how many of these row ids, ``high`` included, are deleted."""
        start = self.chunk(place, write_id, bucket)
        low, high = max(low, self.first[2]), min(high, self.last[2])
        if start is None or low > high:
            return 0
        return self._below(start, high + 1) - self._below(start, low)

    def _below(self, start: int, row_id: int) -> int:
        """Return how many events the chunks before a row id of a page have, and those before it in its own."""
        chunk = start + (row_id >> self.size) - (self.first[2] >> self.size)
        inside = row_id & ((1 << self.size) - 1)
        if not inside:  # the next page may begin here, and the table may end
            return int(self._sums[chunk].as_py())
        begin = self.chunks[chunk].as_py() * _WORD
        return int(self._sums[chunk].as_py()) + int(self.bits.slice(begin, inside).true_count)

    @cached_property
    def _sums(self) -> Any:
        """Return the number of events before each chunk, and of all, as an Int32Array."""
        size = 1 << self.size
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
        return len(self.bits) // 8 + 8 * len(self.chunks)


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
    shell = _around(batches, len(tables))
    if shell is None:
        return None
    used = pc.unique(pa.chunked_array([pc.unique(_chunks(shell, batch)) for batch in batches]))
    sized = [one for size in _SIZES if (one := _sized(shell, used, size))]
    if not sized:
        return None
    _, shell, used = min(sized, key=lambda one: one[0])
    return _with_bits(shell, used, batches)


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


def _around(batches: Sequence[Any], places: int) -> DeletedRows | None:
    """Return what is around the keys, in the smallest chunks; None where not even the largest would do."""
    ends = [_ends(_column(batch, name) for batch in batches) for name in _KEY]
    first, last = (ends[0][0], ends[1][0], ends[2][0]), (ends[0][1], ends[1][1], ends[2][1])
    statements = _ends(_statement(_column(batch, _KEY[1])) for batch in batches)
    if first[1] < _V1 or statements[1] >= _STATEMENTS:
        return None
    shell = DeletedRows(first, last, places, statements, _SIZES[0], None, None)
    largest = replace(shell, size=_SIZES[-1])
    return None if places * largest.of_place > _MOST_CHUNKS else shell


def _ends(columns: Iterable[Any]) -> tuple[int, int]:
    found = [pc.min_max(column).as_py() for column in columns]
    return min(one["min"] for one in found), max(one["max"] for one in found)


def _column(events: Any, name: str) -> Any:
    """Return a column of one piece as an array."""
    column = events.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _statement(bucket: Any) -> Any:
    return pc.bit_wise_and(bucket, BUCKET_STEP - 1)


def _chunks(shell: DeletedRows, events: Any) -> Any:
    """Return the number of the chunk that each event lies in."""
    place, write_id, bucket, row_id = (_column(events, name) for name in (_PLACE, *_KEY))
    column = pc.subtract(pc.shift_right(bucket, 16), shell.first[1] >> 16)
    chunk = pc.add(pc.multiply(place, shell.of_place), _times(write_id, shell.first[0], shell.of_write_id))
    chunk = pc.add(chunk, pc.multiply(column, shell.of_bucket))
    chunk = pc.add(chunk, _times(_statement(bucket), shell.statements[0], shell.of_statement))
    return pc.add(chunk, pc.subtract(pc.shift_right(row_id, shell.size), shell.first[2] >> shell.size))


def _sized(smallest: DeletedRows, used: Any, size: int) -> tuple[int, DeletedRows, Any] | None:
    """Return bits of memory, what is around the keys, and the chunks with events for a size; None: too many.

    ``used``: the smallest chunks with events.
    """
    shell = replace(smallest, size=size)
    chunks = shell.places * shell.of_place
    if chunks > _MOST_CHUNKS:
        return None
    page = pc.divide(used, smallest.of_statement)
    inside = pc.subtract(used, pc.multiply(page, smallest.of_statement))
    above = pc.shift_right(pc.add(inside, smallest.first[2] >> smallest.size), size - smallest.size)
    larger = pc.add(pc.multiply(page, shell.of_statement), pc.subtract(above, shell.first[2] >> size))
    larger = pc.unique(larger)
    bits = (len(larger) + 1) << size
    return None if bits > _MOST_BITS else (bits + _CHUNK_BITS * chunks, shell, larger)


def _times(values: Any, low: int, step: int) -> Any:
    return pc.multiply(pc.subtract(values, low), step)


def _with_bits(shell: DeletedRows, used: Any, batches: Sequence[Any]) -> DeletedRows:
    """Return the bits of events, given the chunks that have some."""
    size, words = shell.size, (1 << shell.size) // _WORD
    begins = array("i", bytes(4 * shell.places * shell.of_place))
    for nth, one in enumerate(used.take(pc.array_sort_indices(used)).to_pylist(), start=1):
        begins[one] = nth * words
    chunks = pa.Array.from_buffers(pa.int32(), len(begins), [None, pa.py_buffer(begins)])
    bits = None
    for batch in batches:
        begin = pc.multiply(chunks.take(_chunks(shell, batch)).cast(pa.int64()), _WORD)
        at = pc.bit_wise_or(begin, pc.bit_wise_and(_column(batch, _KEY[2]), (1 << size) - 1))
        some = _set(_ascending(at), (len(used) + 1) << size)
        bits = some if bits is None else pc.or_(bits, some)
    return replace(shell, chunks=chunks, bits=bits)


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
