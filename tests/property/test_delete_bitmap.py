"""Delete bitmap: membership and counts are those of a set of the same keys."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.format.acid_columns import KeyBox, Range
from hiveacid.core.format.write_id_lists import parse_write_id_list
from hiveacid.errors import FormatError
from hiveacid.orc import build_delete_bitmap as module
from hiveacid.orc.build_delete_bitmap import BUCKET_SHIFT, DeleteBitmap, build_delete_bitmap, read_delete_keys
from hiveacid.spark.read.delete_events import row_id_spans
from support.corpus.acid_files import acid_bytes, deletes, inserts

FIRST = 1 << 29
EVERYWHERE = [KeyBox(Range(0, 1 << 40), Range(0, 1 << 40), Range(0, 1 << 40))]
Key = tuple[int, int, int]
BUCKETS = st.tuples(st.integers(0, 3), st.sampled_from([0, 0, 1, 2])).map(
    lambda one: FIRST + (one[0] << BUCKET_SHIFT) + one[1]
)
# around the ends of chunks of all sizes
ROW_IDS = st.integers(0, 40) | st.sampled_from([511, 512, 4095, 4096, 4097, 32767, 32768, 70000])
KEYS = st.tuples(st.integers(1, 4), BUCKETS, ROW_IDS)
PLACES = st.lists(st.lists(KEYS, max_size=40), min_size=1, max_size=3)


def table(keys: list[Key]) -> Any:
    columns = list(zip(*keys, strict=True)) if keys else [(), (), ()]
    names = ("originalTransaction", "bucket", "rowId")
    return pa.table({name: pa.array(values, pa.int64()) for name, values in zip(names, columns, strict=True)})


def bits(places: list[list[Key]], at_a_time: int = 1 << 20) -> DeleteBitmap | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BATCH_ROWS", at_a_time)
        return build_delete_bitmap([table(keys) for keys in places], EVERYWHERE)


@given(PLACES, st.tuples(st.integers(0, 2), KEYS, st.integers(0, 40)), st.sampled_from([1, 2, 7, 1 << 20]))
def test_a_range_of_row_ids_has_as_many_deleted_as_there_are_keys(
    places: list[list[Key]], asked: tuple[int, Key, int], at_a_time: int
) -> None:
    found = bits(places, at_a_time)
    if not any(places):
        assert found is None
        return
    assert found is not None
    nth, (write_id, bucket, low), more = asked
    nth %= len(places)
    wanted = {key for key in places[nth] if key[:2] == (write_id, bucket) and low <= key[2] <= low + more}
    assert found.count(nth, write_id, bucket, low, low + more) == len(wanted)
    assert len(found.words) % 8 == 0
    words = int.from_bytes(found.words, "little")
    assert words.bit_count() == len({(nth, *key) for nth, keys in enumerate(places) for key in keys})
    for place, keys in enumerate(places):
        for key in keys:
            assert looked_up(found, words, place, key)
        near = {(key[0], key[1], key[2] + 1) for key in keys} - set(keys)
        assert not any(looked_up(found, words, place, key) for key in near)


def looked_up(found: DeleteBitmap, words: int, place: int, key: Key) -> int:
    """Look at a bit as a row of a scan does (``spark.read.delete_events``)."""
    start = found.chunk(place, *key[:2])
    if start is None or key[2] >> found.layout.row_id_bits:
        return 0
    size = found.layout.chunk_bits
    word = found.chunks[start + (key[2] >> size)].as_py() + (key[2] >> 6 & (1 << size - 6) - 1)
    return words >> 64 * word + (key[2] & 63) & 1


@given(
    st.lists(st.tuples(st.integers(0, 1), st.lists(KEYS, min_size=1, max_size=12, unique=True)), max_size=6),
    st.lists(KEYS, max_size=30),
)
def test_rows_are_counted_by_statistics_only_where_that_is_right(
    files: list[tuple[int, list[Key]]], events: list[Key]
) -> None:
    """Statistics are of the ends of each part of a key: a file with a gap, or two of one key, can't be counted so."""
    taken: set[tuple[int, Key]] = set()
    whole: list[tuple[int, list[Key]]] = []
    for place, keys in files:  # a row id is there once
        own = sorted({key for key in keys if (place, key) not in taken})
        taken |= {(place, key) for key in own}
        whole += [(place, own)] if own else []
    ends = [
        (
            place,
            len(keys),
            KeyBox(*(Range(min(part), max(part)) for part in zip(*keys, strict=True))),
        )
        for place, keys in whole
    ]
    rows = row_id_spans(ends)
    found = bits([events, events])
    if rows is None or found is None:
        return
    hidden = sum(key in events for _, keys in whole for key in keys)
    assert sum(found.count(*one) for one in rows) == hidden


def box_of(low: Key, high: Key) -> KeyBox:
    """Return the smallest box with two keys."""
    return KeyBox(*(Range(*sorted(parts)) for parts in zip(low, high, strict=True)))


def test_files_without_gaps_are_counted() -> None:
    low, high = (1, FIRST, 0), (1, FIRST, 9)
    file, other = box_of(low, high), box_of((1, FIRST, 5), (1, FIRST, 12))
    assert row_id_spans([(0, 10, file)]) == [(0, *low, 9)]
    assert row_id_spans([(0, 9, file)]) is None
    assert row_id_spans([(0, 10, None)]) is None
    assert row_id_spans([(0, 10, box_of(low, (2, FIRST, 9)))]) is None
    assert row_id_spans([(0, 10, file), (0, 8, other)]) is None, "a row id may be there twice"
    assert len(row_id_spans([(0, 10, file), (1, 8, other)]) or ()) == 2


def test_what_would_take_too_many_bits_is_left_to_a_join() -> None:
    assert bits([[(1, FIRST, 0), (1, FIRST, 1 << 40)]]) is None
    assert bits([[(1, FIRST, 0), (1 << 24, FIRST, 0)]]) is None
    assert bits([[(1, FIRST + (1 << 12), 0)]]) is None, "bits that no writer sets"
    assert bits([[(1, 7, 0)]]) is None, "a bucket as Hive 2 wrote it"
    assert bits([[(nth, FIRST, nth << 15) for nth in range(1, 3000)]]) is None
    assert bits([[(nth, FIRST, nth << 15) for nth in range(1, 500)]]) is not None
    assert bits([[(1, FIRST, 1 << 39)]]) is None, "row ids begin at 0 in each file"


def test_chunks_without_events_take_no_bits() -> None:
    far = bits([[(1, FIRST, 0), (1, FIRST, 1 << 28)]])
    assert far is not None
    assert len(far.bits) == 3 << far.layout.chunk_bits
    assert far.count(0, 1, FIRST, 0, 1 << 30) == 2
    assert far.count(0, 1, FIRST, 1, (1 << 28) - 1) == 0


def test_an_event_out_of_the_statistics_is_an_error() -> None:
    within = [KeyBox(Range(n, n), Range(FIRST, FIRST), Range(0, 5)) for n in (1, 2)]
    assert build_delete_bitmap([table([(1, FIRST, 5), (2, FIRST, 0)])], within) is not None
    with pytest.raises(FormatError, match="outside the statistics"):
        build_delete_bitmap([table([(1, FIRST, 5), (2, FIRST, 6)])], within)


def test_events_of_write_ids_that_are_not_valid_do_not_count() -> None:
    keys = [(1, FIRST, 0), (2, FIRST, 3), (3, FIRST, 1)]
    data = acid_bytes(deletes(4, keys), "id:int")
    assert read_delete_keys(data, None).to_pydict() == table(keys).to_pydict()
    without_2, until_3 = map(parse_write_id_list, ("default.t:4:2:2:", "default.t:3:9223372036854775807::"))
    assert read_delete_keys(data, without_2).column("rowId").to_pylist() == [0, 1]
    assert read_delete_keys(data, until_3).num_rows == 0
    rows = acid_bytes(inserts(1, [(1,)]), "id:int")
    assert read_delete_keys(rows, None).num_rows == 0, "a row is no delete event"
