"""The lookup in the delete bitmap finds the rows of a set of keys, and no others: beyond its levels, at NULL, at odd keys."""

from __future__ import annotations

from itertools import product
from random import Random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from hiveacid.core.format.acid_columns import KeyBox, Range
from hiveacid.orc.build_delete_bitmap import BUCKET_SHIFT, build_delete_bitmap
from hiveacid.spark.read.delete_events import BitmapLookup

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from hiveacid import AcidSession

V1 = 1 << 29
EVERYWHERE = [KeyBox(*(Range(0, (1 << 63) - 1),) * 3)]
NAMES = ("originalTransaction", "bucket", "rowId")
WRITE_IDS = (1, 2, 1023, 1024, 5_000, (1 << 31) - 1, 1 << 31, (1 << 31) + 7, 70_000_000_000, (1 << 62) + 3)
BUCKETS = tuple(
    V1 | bucket << BUCKET_SHIFT | statement for bucket, statement in product((0, 1, 5, 4095), (0, 1, 6))
)
ROW_IDS = (0, 1, 63, 64, 511, 512, 4_095, 4_096, 32_767, 32_768, 70_000, 300_000)
ODD_WRITE_IDS = (None, 0, -1, (1 << 63) - 1, *WRITE_IDS)
ODD_BUCKETS = (None, 0, -1, 1, 1 << BUCKET_SHIFT, V1 << 1, V1 | 1 << 28, V1 | 1 << 15, *BUCKETS)
ODD_ROW_IDS = (None, -1, (1 << 31) + 1, 1 << 32, 1 << 40, (1 << 63) - 1, *ROW_IDS)


@pytest.mark.parametrize("ansi", ["true", "false"])
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize(
    "near", [(1, 2), (1023, 1024), ((1 << 31) - 1, 1 << 31), (70_000_000_000,), ((1 << 62) + 3,)]
)
def test_a_row_is_deleted_if_its_key_is_among_the_events(
    acid: AcidSession, spark: SparkSession, near: tuple[int, ...], partitions: int, ansi: str
) -> None:
    random = Random(f"{near} {partitions}")
    few_buckets, few_rows = random.sample(BUCKETS[:9], 3), random.sample(ROW_IDS, 5)
    gone = [
        {key for key in product(near, few_buckets, few_rows) if random.random() < 0.5 or not place}
        for place in range(partitions)
    ]
    tables = [
        pa.table(
            {name: pa.array([key[i] for key in sorted(keys)], pa.int64()) for i, name in enumerate(NAMES)}
        )
        for keys in gone
    ]
    bitmap = build_delete_bitmap(tables, EVERYWHERE)
    assert bitmap is not None
    rows = [
        (place, *key)
        for place in range(partitions)
        for key in {*gone[place], *random.sample([*product(ODD_WRITE_IDS, ODD_BUCKETS, ODD_ROW_IDS)], 600)}
    ]
    rows += [
        (place, *key)
        for place in range(partitions)
        for key in product((*near, None), (*few_buckets, None), ODD_ROW_IDS)
    ]
    before = spark.conf.get("spark.sql.ansi.enabled")
    spark.conf.set("spark.sql.ansi.enabled", ansi)
    try:
        lookup = BitmapLookup.of(acid.context.env, bitmap)
        frame = spark.createDataFrame(rows, "place int, originalTransaction bigint, bucket int, rowId bigint")
        flagged = frame.select("*", lookup.is_deleted(acid.context.env, "place", "dead"))
        found = {tuple(row)[:4] for row in flagged.where("dead").collect()}
        kept = {tuple(row)[:4] for row in flagged.where("NOT dead").collect()}
    finally:
        spark.conf.set("spark.sql.ansi.enabled", str(before))
    deleted = {(place, *key) for place, keys in enumerate(gone) for key in keys}
    assert found == deleted
    assert kept == set(rows) - deleted
