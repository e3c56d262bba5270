"""Rebalance: spread rows evenly over bucket files under new row ids (Hive's ``RebalanceQueryCompactor``).

All rows are sorted, by row id or by the user's ORDER BY, and numbered. Bucket and row id follow from the number. Spark
numbers rows only within a partition. The first pass therefore stages the sorted rows; the footers give the number of
rows of each partition, and the second pass adds the offsets.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from hiveacid.core.compaction.queue_records import SortColumn
from hiveacid.core.format.acid_columns import MAX_BUCKETS, ROW_ID_PARTS
from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import BadFileError
from hiveacid.orc.tail import OrcTail, read_tail
from hiveacid.ports.file_system import FileSystem
from hiveacid.spark.formats.file_columns import ORC
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.read.scan_source import CURRENT_WRITE_ID_COLUMN, STRICT_READ
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write.sort_and_stage import bucket_property
from hiveacid.spark.write.write_tasks import save_frame
from hiveacid.storage.paths import spark_path

_WRITE_ID, _POSITION = "__w", "__m"
_PART = re.compile(r"part-([0-9]+)-")
_BITS = 33  # of monotonically_increasing_id: the number within a partition


@dataclass(frozen=True)
class SortedRuns:
    """Sorted rows on disk: number of rows by number of Spark's partition, and the highest write id."""

    directory: str
    rows: Mapping[int, int]
    highest_write_id: int

    @property
    def total(self) -> int:
        """Return the number of all rows."""
        return sum(self.rows.values())


def require_sortable(env: SparkEnvironment, table: TableDefinition, order: Sequence[SortColumn]) -> None:
    """Let Spark refuse columns whose types cannot be sorted (maps), before the compaction is queued."""
    columns = [F.lit(None).cast(column_type(c)).alias(c.name) for c in table.columns]
    env.spark.range(0).select(*columns).orderBy(*map(_sort_key, order))


def _sort_key(column: SortColumn) -> SparkColumn:
    value = F.col(quote_name(column.name))
    if column.descending:
        return value.desc_nulls_first() if column.nulls_first else value.desc_nulls_last()
    return value.asc_nulls_first() if column.nulls_first else value.asc_nulls_last()


def stage_runs(
    env: SparkEnvironment,
    fs: FileSystem,
    table: TableDefinition,
    frame: DataFrame,
    directory: str,
    order: Sequence[SortColumn],
) -> SortedRuns:
    """Write the live rows of a location in their new order; by row id if ``order`` is empty.

    ``frame``: user columns, ``ROW__ID`` and the current write id, as ``scan`` gives them.
    """
    users = [quote_name(c.name) for c in table.columns]
    by_row_id = [F.col(f"{ROW_ID}.{part}") for part in ROW_ID_PARTS]
    ordered = frame.select(ROW_ID, *users).orderBy(*(map(_sort_key, order) if order else by_row_id))
    staged = ordered.select(
        F.col(f"{ROW_ID}.{ROW_ID_PARTS[0]}").alias(_WRITE_ID),
        F.monotonically_increasing_id().alias(_POSITION),
        *[F.col(name).alias(f"c{i}") for i, name in enumerate(users)],
    )
    reported = save_frame(env, staged, ORC, {"compression": "zlib"}, [], directory)
    rows: dict[int, int] = {}
    highest = files = 0
    for entry in fs.list_tree(directory):
        match = _PART.match(entry.path)
        if match is None or entry.is_dir:
            continue
        files += 1
        tail = read_tail(fs, f"{directory}/{entry.path}", entry.size)
        rows[int(match[1])] = rows.get(int(match[1]), 0) + tail.number_of_rows
        highest = max(highest, _highest_write_id(tail))
    reported.require_files(files)
    reported.require_rows(sum(rows.values()))
    return SortedRuns(directory, rows, highest)


def _highest_write_id(tail: OrcTail) -> int:
    if not tail.number_of_rows:
        return 0
    write_id = tail.column_statistics[1].maximum
    if not isinstance(write_id, int):
        raise BadFileError("a staged file has no highest write id", path=tail.path)
    return write_id


def renumber_rows(
    env: SparkEnvironment, table: TableDefinition, runs: SortedRuns, buckets: int, *, reordered: bool
) -> DataFrame:
    """Return the rows of `stage_runs` with their new row ids, for `stage_rows_with_ids`.

    Row n goes to bucket ``n DIV ceil(total / buckets)`` and gets row id n. It keeps its write id, unless the rows were
    reordered: then all rows get the highest write id.
    """
    fields = [T.StructField(name, T.LongType()) for name in (_WRITE_ID, _POSITION)]
    fields += [T.StructField(f"c{i}", column_type(c)) for i, c in enumerate(table.columns)]
    reader = env.spark.read.schema(T.StructType(fields)).options(**STRICT_READ)
    frame = reader.orc(spark_path(runs.directory))
    number = _offset(runs.rows) + F.col(_POSITION).bitwiseAND(F.lit((1 << _BITS) - 1))
    each = -(-runs.total // buckets) or 1
    bucket = F.expr(bucket_property(f"CAST(__n DIV {each} AS INT)", "0"))
    write_id = F.lit(runs.highest_write_id).cast("bigint") if reordered else F.col(_WRITE_ID)
    row_id = F.struct(
        *[
            value.alias(part)
            for value, part in zip((write_id, bucket, F.col("__n")), ROW_ID_PARTS, strict=True)
        ]
    )
    users = [F.col(f"c{i}").alias(c.name) for i, c in enumerate(table.columns)]
    return frame.withColumn("__n", number).select(
        *users, row_id.alias(ROW_ID), write_id.alias(CURRENT_WRITE_ID_COLUMN)
    )


def _offset(rows: Mapping[int, int]) -> SparkColumn:
    """Return the number of rows in the partitions before a row's own."""
    offsets = [0]
    for part in range(max(rows, default=0)):
        offsets.append(offsets[-1] + rows.get(part, 0))
    index = F.shiftright(F.col(_POSITION), _BITS).cast("int") + F.lit(1)
    return F.element_at(F.array(*[F.lit(offset).cast("bigint") for offset in offsets]), index)


def bucket_count(wanted: int | None, size: int, target: int) -> int:
    """Return the number of files to write: ``wanted``, or enough for about ``target`` bytes each."""
    return min(max(1, wanted or -(-size // max(target, 1))), MAX_BUCKETS)
