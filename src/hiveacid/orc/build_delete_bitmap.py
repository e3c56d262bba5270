"""Three-level bitmap of deleted row ids (partition and write id → bucket and statement → row ids).

A page holds one write id of one partition; it exists only if delete events have that write id. A page is cut into chunks of
row ids, for each bucket and statement, and only chunks with delete events have bits. Building the bitmap of a few
million events takes a fraction of a second. Testing a bit costs a tenth of probing a hash table of as many keys.

All sizes are rounded up to powers of two. Spark writes the sizes into the code that it generates as literals, and
Java recompiles that code whenever a literal changes. The rounding lets a query run the same code after more deletes.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from hiveacid.core.format.acid_columns import (
    BUCKET_BITS,
    BUCKET_SHIFT,
    DELETE_EVENT,
    KEY_COLUMNS,
    STATEMENT_BITS,
    V1_PROPERTY,
    AcidColumn,
    KeyBox,
)
from hiveacid.core.format.write_id_lists import ValidWriteIdList
from hiveacid.errors import FormatError

_BATCH_ROWS = 1 << 20  # delete events handled at a time: the arrays computed from one take some tens of bytes
_PARTITION = "place"
NO_DELETE_KEYS = pa.table({name: pa.array([], pa.int64()) for name in KEY_COLUMNS})
"""Result of `read_delete_keys` for a file without delete events."""
_BELOW_BUCKET = (1 << BUCKET_SHIFT) - 1  # the statement id and reserved bits
_MAX_CHUNKS = 1 << 23
_MAX_BITS = 1 << 28
_WORD_BITS = 64
_CHUNK_SIZES = (9, 12, 15)  # binary logarithms of the row ids in a chunk
_CHUNK_ENTRY_BITS = 32  # memory of one entry in the table of chunks
_SPARE_WRITE_ID_BITS, _SPARE_PAGE_BITS = 10, 16  # room for later write ids, which costs next to nothing


@dataclass(frozen=True)
class BitmapLayout:
    """Sizes of the bitmap's levels, as numbers of bits.

    A partition has 2 ** ``write_id_bits`` pages, beginning with the page of ``first_write_id``. A page has
    2 ** ``bucket_bits`` buckets, a bucket 2 ** ``statement_bits`` statements, and a statement 2 ** ``row_id_bits``
    row ids in chunks of 2 ** ``chunk_bits``.
    """

    partitions: int
    first_write_id: int
    write_id_bits: int
    bucket_bits: int
    statement_bits: int
    row_id_bits: int
    chunk_bits: int = _CHUNK_SIZES[0]

    @property
    def chunks_per_statement(self) -> int:
        """Return the number of chunks of one statement."""
        return 1 << self.row_id_bits - self.chunk_bits

    @property
    def chunks_per_page(self) -> int:
        """Return the number of chunks of one page."""
        return self.chunks_per_statement << self.bucket_bits + self.statement_bits

    def page(self, partition: int, write_id: int) -> int | None:
        """Return the number of a page; None if no page can hold the write id."""
        offset = write_id - self.first_write_id
        return None if offset >> self.write_id_bits else (partition << self.write_id_bits) + offset

    def chunk(self, bucket_property: int) -> int | None:
        """Return the first chunk of a bucket property, counted within its page; None if no page can hold it."""
        bucket, statement = (bucket_property ^ V1_PROPERTY) >> BUCKET_SHIFT, bucket_property & _BELOW_BUCKET
        if bucket >> self.bucket_bits or statement >> self.statement_bits:
            return None
        return (bucket << self.statement_bits | statement) * self.chunks_per_statement


@dataclass(frozen=True)
class DeleteBitmap:
    """Keys of delete events as bits.

    ``pages``: the first chunk of each page. ``chunks``: the first 64-bit word of each chunk in ``bits``. All pages
    without delete events share page 0, and all chunks without delete events share the first chunk of ``bits``.
    """

    layout: BitmapLayout
    pages: pa.Int32Array = field(repr=False, compare=False)
    chunks: pa.Int32Array = field(repr=False, compare=False)
    bits: pa.BooleanArray = field(repr=False, compare=False)

    def chunk(self, partition: int, write_id: int, bucket_property: int) -> int | None:
        """Return the number of the first chunk of a bucket property; None if it has no delete event."""
        page, chunk = self.layout.page(partition, write_id), self.layout.chunk(bucket_property)
        return None if page is None or chunk is None else int(self.pages[page].as_py()) + chunk

    def count(self, partition: int, write_id: int, bucket_property: int, low: int, high: int) -> int:
        """Return the number of deleted row ids from ``low`` to ``high``, both included."""
        first_chunk = self.chunk(partition, write_id, bucket_property)
        high = min(high, (1 << self.layout.row_id_bits) - 1)
        if first_chunk is None or low > high:
            return 0
        return self._count_before(first_chunk, high + 1) - self._count_before(first_chunk, low)

    def _count_before(self, first_chunk: int, row_id: int) -> int:
        """Return the number of bits set in all chunks before a row id of a statement."""
        chunk = first_chunk + (row_id >> self.layout.chunk_bits)
        offset = row_id & ((1 << self.layout.chunk_bits) - 1)
        if not offset:  # the next statement may begin here, and the table may end
            return int(self._sums[chunk].as_py())
        begin = self.chunks[chunk].as_py() * _WORD_BITS
        return int(self._sums[chunk].as_py()) + int(self.bits.slice(begin, offset).true_count)

    @cached_property
    def _sums(self) -> pa.Int32Array:
        """Return the number of bits set before each chunk, and the total."""
        size = 1 << self.layout.chunk_bits
        starts = range(0, len(self.bits), size)
        counts = pa.array([int(self.bits.slice(start, size).true_count) for start in starts], pa.int32())
        counts = counts.take(pc.divide(self.chunks, size // _WORD_BITS))
        return pc.cumulative_sum(pa.concat_arrays([pa.array([0], pa.int32()), counts]))

    @property
    def words(self) -> bytes:
        """Return the bits as little-endian 64-bit words, the lowest bit first."""
        return bytes(self.bits.buffers()[1].to_pybytes()[: len(self.bits) // 8])

    @property
    def size_in_memory(self) -> int:
        """Return the size in bytes, sums included."""
        return len(self.bits) // 8 + 8 * len(self.chunks) + 4 * len(self.pages)


def read_delete_events(data: bytes, valid: ValidWriteIdList | None) -> pa.Table:
    """Return a file's delete events as an Arrow table of int64 columns: those of the key, and ``currentTransaction``.

    ``valid``: both write ids of an event must be valid; None if all are. Raises what pyarrow raises.
    """
    names = (*KEY_COLUMNS, AcidColumn.CURRENT_WRITE_ID)
    file = orc.ORCFile(io.BytesIO(data))
    if not file.nrows:
        return pa.table({name: pa.array([], pa.int64()) for name in names})
    events = file.read(columns=[AcidColumn.OPERATION, *names])
    events = events.filter(pc.equal(events.column(AcidColumn.OPERATION), DELETE_EVENT))
    events = pa.table({name: events.column(name).cast(pa.int64()) for name in names})
    if valid is not None:
        for name in (AcidColumn.ORIGINAL_WRITE_ID, AcidColumn.CURRENT_WRITE_ID):
            events = events.filter(are_valid(valid, events.column(name)))
    return events


def read_delete_keys(data: bytes, valid: ValidWriteIdList | None) -> pa.Table:
    """Return the keys of `read_delete_events`."""
    return read_delete_events(data, valid).select([*KEY_COLUMNS])


def build_delete_bitmap(partitions: Iterable[pa.Table], bounds: Sequence[KeyBox]) -> DeleteBitmap | None:
    """Return the bitmap of the keys of some partitions (`read_delete_keys`); None if it would be too large.

    Raises FormatError for a key outside all ``bounds``: scans skip the lookup for files outside them.
    """
    tables = list(partitions)
    batches = list(_batches(tables))
    if not batches:
        return None
    for batch in batches:
        _require_within([batch.column(name) for name in KEY_COLUMNS], bounds)
    layout = _layout_of(batches, len(tables))
    if layout is None:
        return None
    pages = _sorted_distinct(_page_numbers(layout, batch) for batch in batches)
    if (len(pages) + 1) * replace(layout, chunk_bits=_CHUNK_SIZES[-1]).chunks_per_page > _MAX_CHUNKS:
        return None
    used_chunks = _sorted_distinct(_chunk_numbers(layout, pages, batch) for batch in batches)
    choices = [
        choice
        for size in _CHUNK_SIZES
        if (choice := _with_chunk_size(layout, len(pages) + 1, used_chunks, size))
    ]
    if not choices:
        return None
    _, layout, used_chunks = min(choices, key=lambda choice: choice[0])
    return _fill(layout, pages, used_chunks, batches)


def _batches(tables: Sequence[pa.Table]) -> Iterator[pa.Table]:
    """Yield the keys of all partitions in batches, with the number of each key's partition."""
    pieces, rows = [], 0
    for number, table in enumerate(tables):
        numbered = table.append_column(_PARTITION, pa.repeat(pa.scalar(number, pa.int64()), table.num_rows))
        for start in range(0, table.num_rows, _BATCH_ROWS):
            pieces.append(numbered.slice(start, _BATCH_ROWS))
            rows += pieces[-1].num_rows
            if rows >= _BATCH_ROWS:
                yield pa.concat_tables(pieces).combine_chunks()
                pieces, rows = [], 0
    if rows:
        yield pa.concat_tables(pieces).combine_chunks()


def _layout_of(batches: Sequence[pa.Table], partitions: int) -> BitmapLayout | None:
    """Return the layout for all keys with the smallest chunks; None for numbers that no known writer produces."""
    write_id, bucket_property, row_id = (
        _min_max(_column(batch, name) for batch in batches) for name in KEY_COLUMNS
    )
    statement = _min_max(_statement_ids(_column(batch, KEY_COLUMNS[1])) for batch in batches)[1]
    bucket = (bucket_property[1] ^ V1_PROPERTY) >> BUCKET_SHIFT
    if bucket_property[0] < V1_PROPERTY or bucket >> BUCKET_BITS or statement >> STATEMENT_BITS:
        return None
    if row_id[0] < 0:
        return None
    # Spare pages: the next write ids fit into the same layout, and the generated code stays the same for a while.
    spare_bits = min(_SPARE_WRITE_ID_BITS, max(0, _SPARE_PAGE_BITS - partitions.bit_length()))
    bits = max(spare_bits, (write_id[1] - write_id[0]).bit_length())
    first = write_id[0] >> bits << bits
    bits += (write_id[1] - first) >> bits
    if partitions << bits > _MAX_CHUNKS:
        return None
    return BitmapLayout(
        partitions,
        first,
        bits,
        bucket_bits=_round_up(bucket.bit_length(), 2),
        statement_bits=_round_up(statement.bit_length(), 2),
        row_id_bits=_round_up(max(_CHUNK_SIZES[-1], row_id[1].bit_length()), 3),
    )


def _round_up(number: int, step: int) -> int:
    return -(-number // step) * step


def _min_max(columns: Iterable[pa.Array]) -> tuple[int, int]:
    ends = [pc.min_max(column).as_py() for column in columns]
    return min(pair["min"] for pair in ends), max(pair["max"] for pair in ends)


def _column(events: pa.Table, name: str) -> pa.Int64Array:
    """Return a column of one piece as an array."""
    column = events.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _statement_ids(bucket_properties: pa.Int64Array) -> pa.Int64Array:
    return pc.bit_wise_and(bucket_properties, _BELOW_BUCKET)


def _sorted_distinct(arrays: Iterable[pa.Int64Array]) -> pa.Int64Array:
    """Return the distinct values of some arrays in ascending order."""
    values = pc.unique(pa.chunked_array([pc.unique(values) for values in arrays]))
    return values.take(pc.array_sort_indices(values))


def _page_numbers(layout: BitmapLayout, events: pa.Table) -> pa.Int64Array:
    partition = pc.shift_left(_column(events, _PARTITION), layout.write_id_bits)
    return pc.add(partition, pc.subtract(_column(events, KEY_COLUMNS[0]), layout.first_write_id))


def _chunk_numbers(layout: BitmapLayout, pages: pa.Int64Array, events: pa.Table) -> pa.Int64Array:
    """Return the chunk number of each event; ``pages``: the numbers of the pages that exist."""
    bucket_property, row_id = _column(events, KEY_COLUMNS[1]), _column(events, KEY_COLUMNS[2])
    page = pc.add(pc.index_in(_page_numbers(layout, events), pages).cast(pa.int64()), 1)
    bucket = pc.shift_right(pc.bit_wise_xor(bucket_property, V1_PROPERTY), BUCKET_SHIFT)
    statement = pc.add(pc.shift_left(bucket, layout.statement_bits), _statement_ids(bucket_property))
    chunk = pc.add(
        pc.multiply(statement, layout.chunks_per_statement), pc.shift_right(row_id, layout.chunk_bits)
    )
    return pc.add(pc.multiply(page, layout.chunks_per_page), chunk)


def _with_chunk_size(
    smallest: BitmapLayout, pages: int, used_chunks: pa.Int64Array, chunk_bits: int
) -> tuple[int, BitmapLayout, pa.Int64Array] | None:
    """Return memory in bits, layout and used chunks for one chunk size; None if the bitmap would be too large.

    ``used_chunks``: the chunks with events under the ``smallest`` chunk size.
    """
    layout = replace(smallest, chunk_bits=chunk_bits)
    if pages * layout.chunks_per_page > _MAX_CHUNKS:
        return None
    larger_by = chunk_bits - smallest.chunk_bits
    larger = pc.unique(pc.shift_right(used_chunks, larger_by))  # a statement has a power of two of chunks
    bits = (len(larger) + 1) << chunk_bits
    if bits > _MAX_BITS:
        return None
    return bits + _CHUNK_ENTRY_BITS * pages * layout.chunks_per_page, layout, larger


def _fill(
    layout: BitmapLayout, pages: pa.Int64Array, used_chunks: pa.Int64Array, batches: Sequence[pa.Table]
) -> DeleteBitmap:
    """Set the bits of all events, given the pages and chunks that have some."""
    chunk_rows = 1 << layout.chunk_bits
    page_table = _offset_table(layout.partitions << layout.write_id_bits, pages, layout.chunks_per_page)
    chunk_table = _offset_table(
        (len(pages) + 1) * layout.chunks_per_page, used_chunks, chunk_rows // _WORD_BITS
    )
    bits = None
    for batch in batches:
        first_word = chunk_table.take(_chunk_numbers(layout, pages, batch)).cast(pa.int64())
        offset = pc.bit_wise_and(_column(batch, KEY_COLUMNS[2]), chunk_rows - 1)
        positions = pc.bit_wise_or(pc.multiply(first_word, _WORD_BITS), offset)
        if len(positions) > 1 and not pc.all(pc.greater(positions[1:], positions[:-1])).as_py():
            positions = pc.unique(positions)
            positions = positions.take(pc.array_sort_indices(positions))
        batch_bits = _bits_at(positions, (len(used_chunks) + 1) << layout.chunk_bits)
        bits = batch_bits if bits is None else pc.or_(bits, batch_bits)
    return DeleteBitmap(layout, page_table, chunk_table, bits)


def _offset_table(length: int, positions: pa.Int64Array, step: int) -> pa.Int32Array:
    """Return zeros with ``step``, 2 * ``step``, … at ascending positions."""
    values = array("i", bytes(4 * length))
    for number, position in enumerate(positions.to_pylist(), start=1):
        values[position] = number * step
    return pa.Array.from_buffers(pa.int32(), length, [None, pa.py_buffer(values)])


def _require_within(columns: Sequence[pa.Array | pa.ChunkedArray], bounds: Sequence[KeyBox]) -> None:
    in_any = None
    for box in bounds:
        in_this = None
        for column, part in zip(columns, box.parts, strict=True):
            in_range = pc.and_(pc.greater_equal(column, part.low), pc.less_equal(column, part.high))
            in_this = in_range if in_this is None else pc.and_(in_this, in_range)
        in_any = in_this if in_any is None else pc.or_(in_any, in_this)
    if in_any is None or not pc.all(in_any, skip_nulls=False).as_py():
        raise FormatError("a delete event lies outside the statistics of its file")


def _bits_at(positions: pa.Int64Array, size: int) -> pa.BooleanArray:
    """Return an array with the bits at ascending positions set; position 0 is not among them."""
    gap = pc.not_equal(pc.subtract(positions[1:], positions[:-1]), 1)
    edge = pa.array([True])
    starts = positions.filter(pa.concat_arrays([edge, gap]))
    ends = pc.add(positions.filter(pa.concat_arrays([gap, edge])), 1)
    count = len(starts)
    number = row_numbers(2 * count)
    odd = pc.bit_wise_and(number, 1)
    order = pc.add(pc.shift_right(number, 1), pc.multiply(odd, count))  # start, end, start, end …
    runs, values = pa.concat_arrays([starts, ends]).take(order), pc.equal(odd, 1)
    if runs[-1].as_py() < size:
        runs = pa.concat_arrays([runs, pa.array([size], pa.int64())])
        values = pa.concat_arrays([values, pa.array([False])])
    return pc.run_end_decode(pa.RunEndEncodedArray.from_arrays(runs, values))


def are_valid(write_ids: ValidWriteIdList, values: pa.Array | pa.ChunkedArray) -> pa.BooleanArray:
    """Return a BooleanArray: for each write id, whether it is valid."""
    exceptions = pa.array([int(write_id) for write_id in (*write_ids.open, *write_ids.aborted)], pa.int64())
    visible = pc.less_equal(values, int(write_ids.high_watermark))
    return pc.and_(visible, pc.invert(pc.is_in(values, value_set=exceptions)))


def row_numbers(rows: int) -> pa.Int64Array:
    """Return an Int64Array of the numbers 0, 1, 2 … below ``rows``."""
    return pc.subtract(pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), rows)), 1)
