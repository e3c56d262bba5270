"""Rows spread evenly over bucket files, under new row ids (Hive's ``RebalanceQueryCompactor``).

All rows are sorted (by row id, or as the user wants) and numbered through; bucket and row id follow from the
number. Spark numbers rows within a partition only, so the sorted rows are staged once, the footers tell how
many each partition has, and the second pass adds up.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.core.types import quote_name
from hiveacid.errors import BadFileError
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.spark.scan import CURRENT, ROW_ID, STRICT
from hiveacid.spark.types import column_type
from hiveacid.spark.write import bucket_property, write_orc

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from hiveacid.core.model import TableDefinition
    from hiveacid.ports import FileSystem
    from hiveacid.spark.session import SparkFacts

MOST_BUCKETS = 4096
"""What a bucket property can hold (``BucketCodec.V1``)."""

_WRITE_ID, _PLACE = "__w", "__m"
_PART = re.compile(r"part-([0-9]+)-")
_BITS = 33  # of monotonically_increasing_id: the number within a partition


@dataclass(frozen=True)
class Runs:
    """Sorted rows on disk: number of rows by Spark's partition number, and the highest write id."""

    directory: str
    rows: Mapping[int, int]
    highest_write_id: int

    @property
    def total(self) -> int:
        """All rows."""
        return sum(self.rows.values())


def check_order(facts: SparkFacts, table: TableDefinition, order_by: str) -> None:
    """Let Spark judge an ORDER BY list, before anything is queued."""
    columns = [F.lit(None).cast(column_type(c)).alias(c.name) for c in table.columns]
    _ordered(facts, facts.spark.range(0).select(*columns), order_by)


def _ordered(facts: SparkFacts, frame: DataFrame, order_by: str) -> DataFrame:
    text = order_by.replace("{", "{{").replace("}", "}}")
    return facts.spark.sql(f"SELECT * FROM {{frame}} ORDER BY {text}", frame=frame)


def stage_runs(
    facts: SparkFacts,
    fs: FileSystem,
    table: TableDefinition,
    frame: DataFrame,
    directory: str,
    order_by: str | None,
) -> Runs:
    """Write the live rows of a location in their new order.

    ``frame``: user columns, ``ROW__ID`` and the current write id, as ``scan`` gives them.
    """
    users = [quote_name(c.name) for c in table.columns]
    if order_by is None:
        keys = [f"{ROW_ID}.writeid", f"{ROW_ID}.bucketid", f"{ROW_ID}.rowid"]
        ordered = frame.select(ROW_ID, *users).orderBy(*keys)
    else:
        ordered = _ordered(facts, frame.select(ROW_ID, *users), order_by)
    staged = ordered.select(
        F.col(f"{ROW_ID}.writeid").alias(_WRITE_ID),
        F.monotonically_increasing_id().alias(_PLACE),
        *[F.col(name).alias(f"c{i}") for i, name in enumerate(users)],
    )
    write_orc(staged, directory, [], "zlib")
    rows: dict[int, int] = {}
    highest = 0
    for entry in fs.list_tree(directory):
        match = _PART.match(entry.path)
        if match is None or entry.is_dir:
            continue
        tail = read_tail(fs, f"{directory}/{entry.path}", entry.size)
        rows[int(match[1])] = rows.get(int(match[1]), 0) + tail.number_of_rows
        highest = max(highest, _highest(tail))
    return Runs(directory, rows, highest)


def _highest(tail: OrcTail) -> int:
    if not tail.number_of_rows:
        return 0
    found = tail.column_statistics[1].maximum
    if not isinstance(found, int):
        raise BadFileError("a staged file has no highest write id", path=tail.path)
    return found


def renumbered(
    facts: SparkFacts, fs: FileSystem, table: TableDefinition, runs: Runs, buckets: int, *, reordered: bool
) -> DataFrame:
    """Return the rows of `stage_runs` with their new row ids, as ``write.stage_kept`` takes them.

    Row n of all goes to bucket ``n DIV ceil(all / buckets)`` and is number n. Its write id stays, unless the
    rows were put in another order: then all get the highest.
    """
    kinds = ", ".join(f"c{i} {column_type(c).simpleString()}" for i, c in enumerate(table.columns))
    reader = facts.spark.read.schema(f"{_WRITE_ID} bigint, {_PLACE} bigint, {kinds}").options(**STRICT)
    frame = reader.orc(fs.spark_path(runs.directory))
    number = _offset(runs.rows) + F.col(_PLACE).bitwiseAND(F.lit((1 << _BITS) - 1))
    each = -(-runs.total // buckets) or 1
    bucket = F.expr(bucket_property(f"CAST(__n DIV {each} AS INT)", "0"))
    write_id = F.lit(runs.highest_write_id).cast("bigint") if reordered else F.col(_WRITE_ID)
    row_id = F.struct(
        write_id.alias("writeid"),
        bucket.alias("bucketid"),
        F.col("__n").alias("rowid"),
    )
    users = [F.col(f"c{i}").alias(c.name) for i, c in enumerate(table.columns)]
    return frame.withColumn("__n", number).select(*users, row_id.alias(ROW_ID), write_id.alias(CURRENT))


def _offset(rows: Mapping[int, int]) -> SparkColumn:
    """Return how many rows the partitions before a row's own have."""
    offsets = [0]
    for part in range(max(rows, default=0)):
        offsets.append(offsets[-1] + rows.get(part, 0))
    place = F.shiftright(F.col(_PLACE), _BITS).cast("int") + F.lit(1)
    return F.element_at(F.array(*[F.lit(one).cast("bigint") for one in offsets]), place)


def bucket_count(wanted: int | None, size: int, target: int) -> int:
    """Return how many files to make: as many as asked for, or of about ``target`` bytes each."""
    return min(max(1, wanted or -(-size // max(target, 1))), MOST_BUCKETS)
