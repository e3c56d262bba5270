"""Delete events of a scan: the data files that they may match, and the lookup of a row's id in the delete bitmap.

Bounds: the footers of data files and of delete files give the lowest and the highest write id, bucket property and row id.
Rows outside the ranges of all delete files need no lookup in the delete bitmap and no delete join.

Bitmap (`hiveacid.orc.build_delete_bitmap`): it goes into the plan as literal arrays. A query neither reads delete events nor
builds a hash table of their keys.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise

from pyspark.sql import Column

from hiveacid.core.format.acid_columns import BUCKET_SHIFT, V1_PROPERTY, AcidColumn, KeyBox, Range
from hiveacid.core.snapshot.scan_plan import ScanFile
from hiveacid.orc.build_delete_bitmap import DeleteBitmap
from hiveacid.spark.formats.expressions import Expression, as_column
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.jvm import column_of_text, int_array, long_array

_LONG_BITS = 63
_MAX_BOXES = 8
"""Maximum number of boxes; each costs a comparison for each delete event (`spark.read.delete_joins.delete_key`)."""
SEPARATE_SCAN_ROWS = 1_000_000
"""Rows from which a separate scan without lookup is faster: the scan costs some 30 ms, a lookup 0.05 µs a row."""
KEY_EXPRESSIONS = (
    f"coalesce({AcidColumn.ORIGINAL_WRITE_ID}, -1L)",
    f"coalesce({AcidColumn.BUCKET}, -1)",
    f"coalesce({AcidColumn.ROW_ID}, -1L)",
)
"""Write id, bucket property and row id as expressions over an ACID file's root columns; never pushed down."""
_WORD_INDEX_BITS = 6  # a position in a 64-bit word
# Names of columns in the text of the lookup
_PAGES, _CHUNKS, _WORDS, _PARTITION = (
    f"__hiveacid_bitmap_{part}" for part in ("pages", "chunks", "words", "partition")
)
_KNOWN_PARTITION = (
    f"coalesce(CAST({_PARTITION} AS BIGINT), CAST(raise_error('[HIVEACID_INTERNAL] a row lies in none of the places "
    "whose delete events were read') AS BIGINT))"
)


@dataclass(frozen=True)
class DeleteBounds:
    """Number of delete events, and the boxes that their keys lie in.

    ``boxes``: each key lies in one of them; empty if some footer has no key statistics. ``fits_memory``: the delete
    events are few enough to be broadcast to every executor.
    """

    events: int
    boxes: tuple[KeyBox, ...] = ()
    fits_memory: bool = True

    @cached_property
    def box(self) -> KeyBox | None:
        """Return the smallest box around all keys; None if unknown."""
        return enclosing_box(self.boxes) if self.boxes else None

    @property
    def with_single_box(self) -> DeleteBounds:
        """Return the same bounds with one box, which needs fewer comparisons."""
        return replace(self, boxes=(enclosing_box(self.boxes),)) if self.boxes else self

    @property
    def keys_fit_long(self) -> bool:
        """Tell whether a key, relative to the box, fits into one long."""
        box = self.box
        return box is not None and sum(part.bits for part in box.parts) <= _LONG_BITS

    def may_match(self, file: ScanFile) -> bool:
        """Tell whether a delete event may match a row of an original file."""
        ids = file.original
        if ids is None or not self.keys_fit_long:
            return True  # keys of three columns are not checked against the boxes either
        write_id, last = int(ids.write_id), ids.first_row_id + file.rows - 1
        buckets = Range(ids.bucket_property, ids.bucket_property)
        own = KeyBox(Range(write_id, write_id), buckets, Range(ids.first_row_id, last))
        return any(map(own.intersects, self.boxes))


def measure_delete_bounds(files: Sequence[ScanFile], limit: int) -> DeleteBounds | None:
    """Return the bounds of delete files, which all hold events; None if there are none.

    ``limit``: most delete events that are broadcast to every executor (``hiveacid.read.broadcast.delete.events``).
    """
    if not files:
        return None
    events = sum(file.rows for file in files)
    keys = [file.keys for file in files]
    boxes = merge_boxes(box for box in keys if box is not None)
    box = enclosing_box(boxes) if boxes else None
    if None in keys or box is None or (box.write_id.low <= 0 and box.bucket.low < V1_PROPERTY):
        boxes = ()  # unknown, or keys of codec version 0, which the scan translates first
    return DeleteBounds(events, boxes, fits_memory=events <= limit)


def enclosing_box(boxes: Iterable[KeyBox]) -> KeyBox:
    """Return the smallest box around some boxes. Raises ValueError if there are none."""
    columns = zip(*(box.parts for box in boxes), strict=True)
    return KeyBox(
        *(Range(min(part.low for part in parts), max(part.high for part in parts)) for parts in columns)
    )


def merge_boxes(boxes: Iterable[KeyBox]) -> tuple[KeyBox, ...]:
    """Return at most eight boxes around all keys of the given ones; boxes of the same buckets are merged first."""
    distinct = sorted(set(boxes), key=_sort_key)
    if len(distinct) <= _MAX_BOXES:
        return tuple(distinct)
    by_buckets: dict[tuple[int, int], list[KeyBox]] = defaultdict(list)
    for box in distinct:
        by_buckets[box.bucket.low, box.bucket.high].append(box)
    merged = [enclosing_box(group) for group in by_buckets.values()]
    size = -(-len(merged) // _MAX_BOXES)
    return tuple(enclosing_box(merged[start : start + size]) for start in range(0, len(merged), size))


def _sort_key(box: KeyBox) -> tuple[int, ...]:
    return tuple(end for part in (box.bucket, box.write_id, box.row_id) for end in (part.low, part.high))


RowIdSpan = tuple[int, int, int, int, int]
"""Partition number, write id and bucket property of rows, lowest and highest row id."""


def row_id_spans(files: Iterable[tuple[int, int, KeyBox | None]]) -> list[RowIdSpan] | None:
    """Return the row ids of all rows of some files; None if footer statistics do not give them exactly.

    Each file is given by partition number, number of rows, and the box of its keys. If all its rows have
    one write id and bucket property, and there are as many rows as row ids in the range, the file has every row id of the
    range. Spans must not overlap, so that no row id occurs twice.
    """
    spans: list[RowIdSpan] = []
    for partition, rows, keys in files:
        if keys is None:
            return None
        ids = keys.row_id
        if not (keys.write_id.is_single and keys.bucket.is_single and ids.high - ids.low + 1 == rows):
            return None
        spans.append((partition, keys.write_id.low, keys.bucket.low, ids.low, ids.high))
    spans.sort()
    overlap = any(span[:3] == after[:3] and span[4] >= after[3] for span, after in pairwise(spans))
    return None if overlap else spans


def files_without_deletes(
    boxes: Sequence[KeyBox],
    files: Mapping[str, tuple[int, KeyBox | None]],
    min_rows: int = SEPARATE_SCAN_ROWS,
) -> Collection[str]:
    """Return the files to be read without a lookup: all that no box intersects, or none.

    ``boxes``: those of the delete events, empty if unknown. ``files``: number of rows and box by file, the box None
    if unknown. ``min_rows``: fewer rows do not justify a separate scan beside the files that need a lookup.
    """
    if not boxes:
        return ()
    free = {
        path for path, (_, box) in files.items() if box is not None and not any(map(box.intersects, boxes))
    }
    is_worth = len(free) == len(files) or sum(files[path][0] for path in free) >= min_rows
    return free if is_worth else ()


@dataclass(frozen=True)
class BitmapLookup:
    """A delete bitmap, and its tables as literals of a session."""

    bitmap: DeleteBitmap
    _tables: dict[str, Column] = field(repr=False, compare=False)

    @classmethod
    def of(cls, env: SparkEnvironment, bitmap: DeleteBitmap) -> BitmapLookup:
        """Copy the bitmap into the session's JVM."""
        pages, chunks = (
            int_array(env, table.buffers()[1].to_pybytes()) for table in (bitmap.pages, bitmap.chunks)
        )
        words = long_array(env, bitmap.words)
        return cls(bitmap, {_PAGES: pages, _CHUNKS: chunks, _WORDS: words})

    def is_deleted(self, env: SparkEnvironment, partition_number: Expression, name: str) -> Column:
        """Return a boolean column over the root columns of an ACID file: whether a delete event matches the row.

        Java compiles the generated code for each statement, so it is short: a single comparison tells whether the row
        has a page, no operand is nullable, and `|` joins numbers, because sums carry overflow checks. A NULL key becomes
        -1, which has no page. Spark evaluates the right side of AND only if the left side holds. No column stands bare,
        so that Spark pushes nothing down to ORC.
        """
        layout = self.bitmap.layout
        write_id, bucket, row_id = KEY_EXPRESSIONS
        if layout.first_write_id:
            write_id = f"({write_id} - {layout.first_write_id}L)"
        bucket_mask, statement_mask = (1 << layout.bucket_bits) - 1, (1 << layout.statement_bits) - 1
        used_bits = bucket_mask << BUCKET_SHIFT | statement_mask  # all others hold the codec version
        has_page = (
            f"(shiftright({write_id}, {layout.write_id_bits}) | shiftright({row_id}, {layout.row_id_bits})"
            f" | CAST(({bucket} & {~used_bits}) ^ {V1_PROPERTY} AS BIGINT)) = 0L"
        )
        page, columns = write_id, self._tables
        if layout.partitions > 1:
            page = f"shiftleft({_KNOWN_PARTITION}, {layout.write_id_bits}) | {write_id}"
            columns = {**columns, _PARTITION: as_column(partition_number)}
        chunk = f"CAST(shiftright({row_id}, {layout.chunk_bits}) AS INT)"
        if bucket_mask or statement_mask:
            bucket_in_page = (
                f"shiftleft(shiftright({bucket}, {BUCKET_SHIFT}) & {bucket_mask}, {layout.statement_bits})"
            )
            statement = f"({bucket_in_page} | ({bucket} & {statement_mask}))"
            chunk = f"shiftleft({statement}, {layout.row_id_bits - layout.chunk_bits}) | {chunk}"
        row_in_chunk = f"CAST({row_id} & {(1 << layout.chunk_bits) - 1}L AS INT)"
        first_chunk = f"coalesce(get({_PAGES}, {page}), 0)"
        first_word = f"coalesce(get({_CHUNKS}, {first_chunk} | {chunk}), 0)"
        word = f"coalesce(get({_WORDS}, {first_word} | shiftright({row_in_chunk}, {_WORD_INDEX_BITS})), 0L)"
        bit = f"shiftright({word}, {row_in_chunk}) & 1L"  # Java takes the lowest six bits of the distance
        return column_of_text(env, f"({has_page} AND ({bit}) = 1L) AS {name}", columns)
