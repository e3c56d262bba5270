"""Tasks and files of large changes: never more than there are buckets, never too few for the size."""

from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.format.acid_columns import MAX_BUCKET, BucketProperty
from hiveacid.core.format.task_and_file_counts import (
    MAX_TASKS,
    MIN_GROUPS,
    buckets_by_group,
    decide_row_groups,
    shuffled_size,
)

SIZES = st.integers(0, 1 << 60)
TASKS = st.integers(1, 100_000)


@given(st.none() | SIZES, st.integers(0, 1 << 40), TASKS, st.booleans())
def test_every_group_fits_a_bucket_and_the_number_is_a_power_of_two(
    size: int | None,
    target: int,
    tasks: int,
    partitioned: bool,  # noqa: FBT001
) -> None:
    groups = decide_row_groups(size, target, tasks, partitioned=partitioned)
    assert MIN_GROUPS <= groups <= MAX_TASKS
    assert groups & (groups - 1) == 0
    assert BucketProperty(1, groups - 1).encode()


@given(SIZES, st.integers(1, 1 << 40), TASKS)
def test_files_stay_below_the_target_unless_there_are_no_more_buckets(
    size: int, target: int, tasks: int
) -> None:
    groups = decide_row_groups(size, target, tasks, partitioned=True)
    assert groups * target >= size or groups == MAX_TASKS
    assert groups == MIN_GROUPS or groups // 2 * target < size  # and no more than twice as many as needed


def test_a_terabyte_of_updates_is_not_written_by_64_tasks() -> None:
    assert decide_row_groups(1 << 40, 256 << 20, 200, partitioned=True) == 4096
    assert decide_row_groups(100 << 30, 256 << 20, 200, partitioned=True) == 512
    assert decide_row_groups(1 << 30, 256 << 20, 200, partitioned=False) == MIN_GROUPS


def test_an_unknown_size_gets_a_group_for_each_task_but_not_in_each_partition() -> None:
    assert decide_row_groups(None, 256 << 20, 200, partitioned=False) == 256
    assert decide_row_groups(None, 256 << 20, 5000, partitioned=False) == MAX_TASKS
    assert decide_row_groups(None, 256 << 20, 5000, partitioned=True) == MIN_GROUPS


def test_the_task_is_no_bucket_where_its_number_may_repeat() -> None:
    assert not buckets_by_group(MAX_BUCKET + 1)
    assert buckets_by_group(MAX_BUCKET + 2)


@given(SIZES)
def test_a_task_of_any_target_size_fits_a_java_long(target: int) -> None:
    assert 0 < shuffled_size(target) < 1 << 63
