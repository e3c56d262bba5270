"""Keys by which MERGE in the driver selects the target rows of a partition."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pyarrow as pa

from hiveacid.table.write.merge_in_driver import keys_in_partition

KEYS = [
    ("k", pa.array([1, 2, 3, 4, None])),
    ("day", pa.array([7, 7, 8, None, 7], pa.int32())),
    ("name", pa.array(["a", "b", "a", "a", "a"])),
]


def listed(partition: dict[str, Any]) -> list[tuple[str, list[Any]]]:
    return [(name, values.to_pylist()) for name, values in keys_in_partition(KEYS, partition)]


def test_only_source_rows_of_a_partition_give_keys() -> None:
    assert listed({"day": pa.scalar(7, pa.int32())}) == [("k", [1, 2, None]), ("name", ["a", "b", "a"])]
    assert listed({"day": pa.scalar(7, pa.int32()), "name": pa.scalar("a")}) == [("k", [1, None])]
    assert listed({"day": pa.scalar(9, pa.int32())}) == [("k", []), ("name", [])]


def test_a_partition_of_null_matches_no_key() -> None:
    assert listed({"day": pa.scalar(None, pa.int32())}) == [("k", []), ("name", [])]


def test_partition_columns_that_are_not_compared_leave_all_keys() -> None:
    assert listed({"month": pa.scalar(dt.date(2026, 11, 1))}) == [
        (name, values.to_pylist()) for name, values in KEYS
    ]
    assert listed({}) == [(name, values.to_pylist()) for name, values in KEYS]
