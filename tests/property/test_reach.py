"""No file of which an event may delete a row is taken for one out of reach."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.orc.summary import Range
from hiveacid.spark.reach import WORTH, Box, few, hull, unreached

RANGES = st.tuples(st.integers(0, 12), st.integers(0, 4)).map(lambda ends: Range(ends[0], sum(ends)))
BOXES = st.builds(Box, RANGES, RANGES, RANGES)


def holds(box: Box, key: tuple[int, int, int]) -> bool:
    return all(part.low <= value <= part.high for part, value in zip(box.parts, key, strict=True))


@given(st.lists(BOXES, min_size=1, max_size=40), st.tuples(*[st.integers(0, 17)] * 3))
def test_few_boxes_hold_all_keys(boxes: list[Box], key: tuple[int, int, int]) -> None:
    found = few(boxes)
    assert len(found) <= 8
    if any(holds(box, key) for box in boxes):
        assert any(holds(box, key) for box in found)
        assert holds(hull(found), key)
    if len(set(boxes)) <= 8:
        assert set(found) == set(boxes)


@given(
    st.lists(BOXES, max_size=20),
    st.dictionaries(
        st.sampled_from("abcdef"), st.tuples(st.sampled_from([1, WORTH]), st.none() | BOXES), max_size=6
    ),
    st.tuples(*[st.integers(0, 17)] * 3),
    st.sampled_from([0, WORTH]),
)
def test_a_file_with_a_deleted_row_is_looked_up(
    boxes: list[Box], rows: dict[str, tuple[int, Box | None]], key: tuple[int, int, int], least: int
) -> None:
    free = unreached(few(boxes), rows, least)
    assert set(free) <= set(rows)
    for path in free:
        own = rows[path][1]
        assert own is not None
        assert not (holds(own, key) and any(holds(box, key) for box in boxes))
    if free and len(free) < len(rows):
        assert sum(rows[path][0] for path in free) >= least


def test_rows_are_read_apart_where_that_is_worth_it() -> None:
    here, there = (Box(Range(1, 1), Range(bucket, bucket), Range(0, 9)) for bucket in (0, 1))
    assert set(unreached([here], {"a": (10, here), "b": (WORTH, there)})) == {"b"}
    assert set(unreached([here], {"a": (10, here), "b": (WORTH - 1, there)})) == set()
    assert set(unreached([here], {"b": (1, there)})) == {"b"}
    assert set(unreached([], {"b": (WORTH, there)})) == set()
