"""Which files of a compaction need no sorting."""

from __future__ import annotations

from hiveacid.core.compaction.disjoint_files import KeyedFile, files_in_key_order
from support.corpus.acid_files import bucket_property

B0, B1 = bucket_property(0), bucket_property(1)
LARGE, SMALL = 100, 1


def file(name: str, size: int, low: int, high: int, bucket: int = B0) -> KeyedFile:
    return KeyedFile(name, size, (low, bucket, 0), (high, bucket, 9))


def test_a_base_below_small_deltas_is_not_sorted_and_they_are() -> None:
    files = [file("delta_7", SMALL, 7, 7), file("base_5", LARGE, 1, 5), file("delta_6", SMALL, 6, 6)]
    assert files_in_key_order(files, LARGE) == {"base_5"}
    assert files_in_key_order([*files, file("delta_8", LARGE, 8, 8)], LARGE) == {
        one.path for one in files
    } | {"delta_8"}


def test_a_base_that_is_most_of_its_bucket_counts_as_large_much_earlier() -> None:
    deltas = [file("delta_6", SMALL, 6, 6), file("delta_7", 3, 7, 7)]
    assert files_in_key_order([file("base_5", 13, 1, 5), *deltas], LARGE) == {"base_5"}
    assert files_in_key_order([file("base_5", 12, 1, 5), *deltas], LARGE) == set()
    assert files_in_key_order([file("base_5", 90, 1, 5), file("delta_8", 40, 8, 8)], LARGE) == set()


def test_many_small_files_below_a_large_one_are_sorted_with_it() -> None:
    small = [file(f"delta_{n}", SMALL, n, n) for n in range(2, 20)]
    first, last = file("base_1", LARGE, 1, 1), file("delta_20", LARGE, 20, 20)
    assert files_in_key_order([first, *small, last], LARGE) == {"base_1"}


def test_files_that_overlap_are_sorted_and_so_is_what_lies_above_them() -> None:
    base = file("base_1", LARGE, 1, 1)
    streams = [file("delta_2_5", LARGE, 2, 5), file("delta_4_7", LARGE, 4, 7)]
    assert files_in_key_order([base, *streams, file("delta_8", LARGE, 8, 8)], LARGE) == {"base_1"}
    assert files_in_key_order(streams, LARGE) == set()
    assert files_in_key_order([base, file("again", LARGE, 1, 1)], LARGE) == set()


def test_buckets_and_statements_are_told_apart() -> None:
    buckets = [file("b0", LARGE, 1, 9), file("b1", LARGE, 1, 9, B1)]
    assert files_in_key_order(buckets, LARGE) == {"b0", "b1"}
    statements = [
        file("s0", LARGE, 3, 3, bucket_property(0, 0)),
        file("s1", LARGE, 3, 3, bucket_property(0, 1)),
    ]
    assert files_in_key_order(statements, LARGE) == {"s0", "s1"}


def test_nothing_is_passed_on_where_files_hold_several_buckets_or_old_bucket_numbers() -> None:
    mixed = KeyedFile("mixed", LARGE, (1, B0, 0), (1, B1, 9))
    assert files_in_key_order([mixed, file("b5", LARGE, 9, 9, bucket_property(5))], LARGE) == set()
    assert files_in_key_order([KeyedFile("v0", LARGE, (1, 0, 0), (1, 0, 9))], LARGE) == set()
    assert files_in_key_order([KeyedFile("v7", LARGE, (1, -1, 0), (1, -1, 9))], LARGE) == set()
