"""Which places may not meet."""

from __future__ import annotations

import pytest

from hiveacid.core.model import TableName
from hiveacid.core.schema.location_overlap import (
    Place,
    first_overlapping_place,
    lies_in,
    may_lie_in,
    place_of_database,
    place_of_table,
)
from hiveacid.storage.paths import real_path

T = TableName("shop", "orders")


def taken_by(new: str, taken: Place) -> bool:
    return first_overlapping_place(Place(new, "a query"), [taken], real_path) == taken


@pytest.mark.parametrize(
    ("new", "taken"),
    [
        ("/wh", "/wh/t"),
        ("hdfs://nn/wh/t", "hdfs://NN:8020/wh/t"),
        # on the default file system, which may be that of the table
        ("hdfs://nn:9000/wh", "hdfs:///wh/t"),
        ("hdfs:///wh/t", "hdfs:///wh/t"),
        ("hdfs:///", "hdfs://nn/wh"),
    ],
)
def test_places_that_are_or_hold_the_same(new: str, taken: str) -> None:
    assert taken_by(new, place_of_table(T, taken))
    assert taken_by(f"{taken}/x", place_of_table(T, taken))
    assert taken_by(new, place_of_database("shop", taken))
    assert not taken_by(f"{taken}/x", place_of_database("shop", taken))


@pytest.mark.parametrize(
    ("new", "taken"),
    [
        ("/wh/t2", "/wh/t"),
        ("hdfs://nn/wh/t", "hdfs://other/wh/t"),
        ("hdfs://nn/wh/t", "hdfs://nn:9000/wh/t"),
        ("hdfs:///wh/t2", "hdfs://nn/wh/t"),
        ("hdfs:///wh/t", "s3a://nn/wh/t"),
        ("hdfs:///wh/t", "/wh/t"),
    ],
)
def test_places_apart(new: str, taken: str) -> None:
    assert not taken_by(new, place_of_table(T, taken))
    assert not taken_by(new, place_of_database("shop", taken))


def test_the_default_file_system_may_be_any() -> None:
    """Of HDFS; where it is not, a location does not lie in one of the same path elsewhere."""
    for default, named in (("hdfs:///wh/t/f", "hdfs://nn/wh/t"), ("hdfs://nn/wh/t/f", "hdfs:///wh/t")):
        assert may_lie_in(default, named)
        assert not lies_in(default, named)
        assert not may_lie_in(named, default)
    assert not may_lie_in("hdfs://nn/wh/t/f", "hdfs://other/wh/t")
    assert not may_lie_in("hdfs:///wh/t/f", "s3a://nn/wh/t")
