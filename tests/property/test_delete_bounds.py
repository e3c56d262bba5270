"""Delete bounds: no file whose rows a delete event may match is read without a lookup."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.format.acid_columns import KeyBox, Range
from hiveacid.spark.read.delete_events import (
    SEPARATE_SCAN_ROWS,
    enclosing_box,
    files_without_deletes,
    merge_boxes,
)

RANGES = st.tuples(st.integers(0, 12), st.integers(0, 4)).map(lambda ends: Range(ends[0], sum(ends)))
BOXES = st.builds(KeyBox, RANGES, RANGES, RANGES)


def holds(box: KeyBox, key: tuple[int, int, int]) -> bool:
    return all(part.low <= value <= part.high for part, value in zip(box.parts, key, strict=True))


@given(st.lists(BOXES, min_size=1, max_size=40), st.tuples(*[st.integers(0, 17)] * 3))
def test_few_boxes_hold_all_keys(boxes: list[KeyBox], key: tuple[int, int, int]) -> None:
    found = merge_boxes(boxes)
    assert len(found) <= 8
    if any(holds(box, key) for box in boxes):
        assert any(holds(box, key) for box in found)
        assert holds(enclosing_box(found), key)
    if len(set(boxes)) <= 8:
        assert set(found) == set(boxes)


@given(
    st.lists(BOXES, max_size=20),
    st.dictionaries(
        st.sampled_from("abcdef"),
        st.tuples(st.sampled_from([1, SEPARATE_SCAN_ROWS]), st.none() | BOXES),
        max_size=6,
    ),
    st.tuples(*[st.integers(0, 17)] * 3),
    st.sampled_from([0, SEPARATE_SCAN_ROWS]),
)
def test_a_file_with_a_deleted_row_is_looked_up(
    boxes: list[KeyBox], rows: dict[str, tuple[int, KeyBox | None]], key: tuple[int, int, int], least: int
) -> None:
    free = files_without_deletes(merge_boxes(boxes), rows, least)
    assert set(free) <= set(rows)
    for path in free:
        own = rows[path][1]
        assert own is not None
        assert not (holds(own, key) and any(holds(box, key) for box in boxes))
    if free and len(free) < len(rows):
        assert sum(rows[path][0] for path in free) >= least


def test_rows_are_read_apart_where_that_is_worth_it() -> None:
    here, there = (KeyBox(Range(1, 1), Range(bucket, bucket), Range(0, 9)) for bucket in (0, 1))
    assert set(files_without_deletes([here], {"a": (10, here), "b": (SEPARATE_SCAN_ROWS, there)})) == {"b"}
    assert (
        set(files_without_deletes([here], {"a": (10, here), "b": (SEPARATE_SCAN_ROWS - 1, there)})) == set()
    )
    assert set(files_without_deletes([here], {"b": (1, there)})) == {"b"}
    assert set(files_without_deletes([], {"b": (SEPARATE_SCAN_ROWS, there)})) == set()
