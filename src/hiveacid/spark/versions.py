"""Rows of ACID v1 (Hive 0.13 to 2.x): updates lie beside inserts, under the key of the row that they change.

Rule of ``OrcRawRecordMerger.ReaderKey`` (internals §3.4): events are merged by key; of each key the one of the
largest current transaction counts, of one transaction a delete before anything else, then that of the highest
statement. Instead of sorting all rows the events alone are gathered: a row is left out where an event of its
key is newer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyspark.sql import functions as F

from hiveacid.spark.deletes import KEY_PARTS

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_STATEMENT = r"^delta_[0-9]+_[0-9]+_([0-9]+)$"


def statement_of(depth: int) -> SparkColumn:
    """Return the statement id in the name of the directory that a row lies in, 0 where there is none.

    ``depth``: path components of the file below its location.
    """
    path = F.col("_metadata.file_path")
    directory = F.substring_index(F.substring_index(path, "/", -depth), "/", 1)
    found = F.regexp_extract(directory, _STATEMENT, 1)
    return F.when(found == "", F.lit(0)).otherwise(found.cast("int"))


def versions(events: DataFrame, place: SparkColumn, depth: int) -> DataFrame:
    """Return keys (``__hiveacid_dk``) and versions (``__hiveacid_dv``) of events."""
    deletes = F.coalesce(F.col("operation"), F.lit(-1)) == F.lit(2)
    version = _version(deletes, statement_of(depth))
    return events.select(_key(place).alias("__hiveacid_dk"), version.alias("__hiveacid_dv"))


def row_version(place: SparkColumn, statement: SparkColumn) -> Sequence[SparkColumn]:
    """Return key and version of rows as columns, to be compared by `is_older`."""
    version = _version(F.lit(False), statement)  # noqa: FBT003
    return [_key(place).alias("__hiveacid_k"), version.alias("__hiveacid_v")]


def is_older() -> SparkColumn:
    """Return the condition that a newer event of a row's key exists."""
    same = F.col("__hiveacid_k") == F.col("__hiveacid_dk")
    return same & (F.col("__hiveacid_v") < F.col("__hiveacid_dv"))


def _key(place: SparkColumn) -> SparkColumn:
    return F.struct(F.expr(KEY_PARTS).alias("key"), place.alias("place"))


def _version(deletes: SparkColumn, statement: SparkColumn) -> SparkColumn:
    current = F.coalesce(F.col("currentTransaction"), F.lit(-1)).cast("bigint")
    return F.struct(current.alias("current"), deletes.alias("deletes"), statement.alias("statement"))
