"""Newest row versions of ACID v1 (Hive 0.13 to 2.x), which keeps update events beside inserts.

Rule of ``OrcRawRecordMerger.ReaderKey``: events are merged by key, and the newest event of a key counts. Newest is the
largest current transaction; within one transaction a delete, then the highest statement id. Instead of sorting all
rows, the scan gathers the events alone, and drops each row for whose key a newer event exists.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.spark.formats.expressions import Expression, as_column, named, selected
from hiveacid.spark.read.acid_rows import DELETES, UPDATES_AND_DELETES, all_rows, read_acid_files
from hiveacid.spark.read.delete_join_keys import KEY_STRUCT
from hiveacid.spark.read.partition_lookup import partition_lookup
from hiveacid.spark.read.path_expressions import statement_id_from_path
from hiveacid.spark.read.scan_groups import group_files
from hiveacid.spark.read.scan_source import ScanSource, delete_event_files, v1_event_files
from hiveacid.storage.snapshot_locations import Location


def newest_versions(source: ScanSource, locations: Sequence[Location]) -> list[DataFrame]:
    """Return the newest version of each row, unless it is a delete."""
    groups = [
        (group, operations)
        for files_of, operations in (
            (v1_event_files(source), UPDATES_AND_DELETES),
            (delete_event_files(source), DELETES),
        )
        for group in group_files(source.table, locations, files_of)
    ]
    events = []
    for group, operations in groups:
        frame = read_acid_files(source, group, operations)
        partition = partition_lookup(source.env, source.table, group, frame)
        events.append(_event_versions(frame, partition.name, group.depth))
    newest = reduce(lambda left, right: left.union(right), events)
    newest = newest.groupBy("__hiveacid_event_key").agg(
        F.max("__hiveacid_event_version").alias("__hiveacid_event_version")
    )
    rows = all_rows(source, locations, lambda partition, statement: _row_version(partition.name, statement))
    return [
        frame.join(newest, _has_newer_event(), "left_anti").drop(
            "__hiveacid_row_key", "__hiveacid_row_version"
        )
        for frame, _ in rows
    ]


def _event_versions(events: DataFrame, partition: Expression, depth: int) -> DataFrame:
    """Return keys (``__hiveacid_event_key``) and versions (``__hiveacid_event_version``) of events."""
    version = _version("coalesce(operation, -1) = 2", statement_id_from_path(depth))
    return selected(
        events, [named(_key(partition), "__hiveacid_event_key"), named(version, "__hiveacid_event_version")]
    )


def _row_version(partition: Expression, statement: str) -> Sequence[Expression]:
    """Return key and version of rows as columns, for `_has_newer_event`."""
    return [
        named(_key(partition), "__hiveacid_row_key"),
        named(_version("false", statement), "__hiveacid_row_version"),
    ]


def _has_newer_event() -> SparkColumn:
    """Return the condition that a newer event of a row's key exists."""
    same_key = F.col("__hiveacid_row_key") == F.col("__hiveacid_event_key")
    return same_key & (F.col("__hiveacid_row_version") < F.col("__hiveacid_event_version"))


def _key(partition: Expression) -> Expression:
    if isinstance(partition, str):
        return f"struct({KEY_STRUCT} AS key, {partition} AS place)"
    return F.struct(F.expr(KEY_STRUCT).alias("key"), as_column(partition).alias("place"))


def _version(deletes: str, statement: str) -> str:
    current = "CAST(coalesce(currentTransaction, -1) AS BIGINT)"
    return f"struct({current} AS current, {deletes} AS deletes, {statement} AS statement)"
