"""The bucket property, both codec versions and the overflow rule of Hive 4; buckets of large changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hiveacid.core.format.acid_columns import (
    MAX_BUCKET,
    MAX_BUCKETS,
    MIN_GROUPS,
    AcidStatistics,
    BucketProperty,
    RecordKey,
    buckets_by_group,
    decide_row_groups,
    decode_bucket_property,
    parse_key_index,
    parse_statistics,
    shuffled_size,
)
from hiveacid.core.model import WriteId
from hiveacid.errors import BadFileError, ConfigError


@pytest.mark.parametrize(
    ("encoded", "bucket", "statement"),
    [
        (536870912, 0, 0),
        (536936448, 1, 0),
        (537001984, 2, 0),
        (536870913, 0, 1),
        (0x2FFF0FFF, 4095, 4095),
    ],
)
def test_version_1(encoded: int, bucket: int, statement: int) -> None:
    assert decode_bucket_property(encoded) == BucketProperty(1, bucket, statement)
    assert BucketProperty(1, bucket, statement).encode() == encoded


def test_version_0_is_the_bucket_itself() -> None:
    assert decode_bucket_property(7) == BucketProperty(0, 7)
    assert decode_bucket_property(100_000).bucket == 100_000
    assert BucketProperty(0, 100_000).encode() == 100_000


@pytest.mark.parametrize("bad", [2 << 29, 7 << 29, -1, -(1 << 31)])
def test_other_versions_are_refused(bad: int) -> None:
    with pytest.raises(BadFileError):
        decode_bucket_property(bad)


@pytest.mark.parametrize(
    "bad",
    [
        BucketProperty(1, 4096),
        BucketProperty(1, -1),
        BucketProperty(1, 0, 4096),
        BucketProperty(1, 0, -1),
        BucketProperty(0, 1 << 29),
        BucketProperty(0, -1),
        BucketProperty(0, 1, 1),
        BucketProperty(2, 1),
    ],
)
def test_numbers_that_do_not_fit_are_refused(bad: BucketProperty) -> None:
    with pytest.raises(ConfigError):
        bad.encode()


def key(write_id: int, bucket: int, row: int) -> RecordKey:
    return RecordKey(WriteId(write_id), bucket, row)


def test_keys_are_ordered_by_write_id_then_the_whole_bucket_property_then_row() -> None:
    ordered = [key(1, 536870912, 5), key(1, 536870913, 0), key(1, 536936448, 0), key(2, 536870912, 0)]
    assert sorted(ordered[2:] + ordered[:2]) == ordered


def test_key_index_round_trip() -> None:
    keys = (key(1, 536870912, 9999), key(3, 536936449, 0))
    assert parse_key_index("1,536870912,9999;3,536936449,0;") == keys
    assert parse_key_index("1,2,3") == (key(1, 2, 3),)
    assert parse_key_index("") == ()


def test_statistics_round_trip() -> None:
    assert AcidStatistics(4, 0, 2).to_string() == "4,0,2"
    assert parse_statistics("4,0,2") == AcidStatistics(4, 0, 2)


@pytest.mark.parametrize("text", ["1,2", "1,2,3;;4,5,6;", "a,b,c;", "1,2,3,4;", ";"])
def test_broken_key_index(text: str) -> None:
    with pytest.raises(BadFileError):
        parse_key_index(text)


@pytest.mark.parametrize("text", ["", "1,2", "-1,0,0", "1,2,3,4", "x"])
def test_broken_statistics(text: str) -> None:
    with pytest.raises(BadFileError):
        parse_statistics(text)


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
    assert MIN_GROUPS <= groups <= MAX_BUCKETS
    assert groups & (groups - 1) == 0
    assert BucketProperty(1, groups - 1).encode()


@given(SIZES, st.integers(1, 1 << 40), TASKS)
def test_files_stay_below_the_target_unless_there_are_no_more_buckets(
    size: int, target: int, tasks: int
) -> None:
    groups = decide_row_groups(size, target, tasks, partitioned=True)
    assert groups * target >= size or groups == MAX_BUCKETS
    assert groups == MIN_GROUPS or groups // 2 * target < size  # and no more than twice as many as needed


def test_a_terabyte_of_updates_is_not_written_by_64_tasks() -> None:
    assert decide_row_groups(1 << 40, 256 << 20, 200, partitioned=True) == 4096
    assert decide_row_groups(100 << 30, 256 << 20, 200, partitioned=True) == 512
    assert decide_row_groups(1 << 30, 256 << 20, 200, partitioned=False) == MIN_GROUPS


def test_an_unknown_size_gets_a_group_for_each_task_but_not_in_each_partition() -> None:
    assert decide_row_groups(None, 256 << 20, 200, partitioned=False) == 256
    assert decide_row_groups(None, 256 << 20, 5000, partitioned=False) == MAX_BUCKETS
    assert decide_row_groups(None, 256 << 20, 5000, partitioned=True) == MIN_GROUPS


def test_the_task_is_no_bucket_where_its_number_may_repeat() -> None:
    assert not buckets_by_group(MAX_BUCKET + 1)
    assert buckets_by_group(MAX_BUCKET + 2)


@given(SIZES)
def test_a_task_of_any_target_size_fits_a_java_long(target: int) -> None:
    assert 0 < shuffled_size(target) < 1 << 63
