"""Frames of ACID events, staged as flat ORC files by Spark's own writer.

A staged file holds the five ACID columns, a boolean placeholder ``row`` and the user's columns ``c0 … cn``,
all flat; `publish` turns the placeholder into the struct ``row`` by rewriting the footer (a third cheaper than
a nested write). Rows of one file must be in key order, one file a bucket and directory: the frames here
shuffle and sort so, and `publish` checks it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

from pyspark.sql import Window
from pyspark.sql import functions as F

from hiveacid.core.model import DEFAULT_PARTITION, TableDefinition, TableKind, WriteId
from hiveacid.core.types import quote_name
from hiveacid.spark import flat
from hiveacid.spark.hashing import bucket_number
from hiveacid.spark.scan import CURRENT, ROW_ID
from hiveacid.spark.timezone import to_file
from hiveacid.spark.types import column_type

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from hiveacid.spark.session import SparkFacts

KIND, BUCKET = "__k", "__b"
ACTION = "__hiveacid_action"
_SHUFFLE = "__h"
_ROW_MASK = (1 << 33) - 1  # monotonically_increasing_id keeps the task in the bits above
_MAX_WRITERS = 1000  # tasks that write an unbucketed table: one bucket each, 4096 at most
_SPREAD = 64  # shuffle parts of new rows of an unbucketed table; Spark joins small ones again
ACID = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")


class Kind(IntEnum):
    """What a staged row is: it tells the directory that the row goes to."""

    DELETE = 0
    UPDATED = 1  # the new version of an updated row
    INSERTED = 2


class Action(IntEnum):
    """What a changed row asks for, in the frame given to `stage_changes`."""

    NOTHING = 0
    DELETE = 1
    UPDATE = 2
    INSERT = 3


@dataclass(frozen=True)
class Target:
    """Where events go: table, write id, the statement id of each kind, the layout of a single partition."""

    facts: SparkFacts
    table: TableDefinition
    write_id: WriteId
    statements: dict[Kind, int]


def partition_key(index: int) -> str:
    """Return the staging name of a partition column: its text, never null."""
    return f"__p{index}"


def value_name(index: int) -> str:
    """Return the staging name of a user column."""
    return f"c{index}"


def partition_text(value: SparkColumn, hive: str) -> SparkColumn:
    """Return a partition value as Hive writes it in directory names (NULL and '' are the default partition)."""
    text = F.rtrim(value) if hive.startswith("char(") else value.cast("string")
    return F.when(F.coalesce(text, F.lit("")) == "", F.lit(DEFAULT_PARTITION)).otherwise(
        F.coalesce(text, F.lit(DEFAULT_PARTITION))
    )


def stage_insert(
    target: Target,
    frame: DataFrame,
    directory: str,
    *,
    dynamic: bool,
    small: bool,
    kind: Kind = Kind.INSERTED,
) -> None:
    """Write new rows into ``directory``.

    ``frame``: the table's columns under their names, of their types. ``dynamic``: rows go to the partitions
    that their partition columns name. ``small``: one task is enough (a list of VALUES).
    """
    table, facts = target.table, target.facts
    keys = [partition_key(i) for i in range(len(table.partition_columns))] if dynamic else []
    columns = [
        partition_text(F.col(quote_name(c.name)), c.type).alias(key)
        for key, c in zip(keys, table.partition_columns, strict=False)
    ]
    if table.kind is not TableKind.FULL_ACID:
        stage_flat(target, frame, directory, columns, keys, small=small)
        return
    if table.bucketing:
        columns.append(_bucket(target).alias(BUCKET))
        keys.append(BUCKET)
    values = [
        to_file(facts, F.col(quote_name(c.name)), c.type).alias(value_name(i))
        for i, c in enumerate(table.columns)
    ]
    placed = _place(frame.select(*values, *columns), keys, bucketed=table.bucketing is not None, small=small)
    bucket = F.col(BUCKET) if table.bucketing else F.spark_partition_id()
    write_id = F.lit(int(target.write_id)).cast("bigint")
    events = placed.select(
        F.lit(0).alias("operation"),
        write_id.alias("originalTransaction"),
        bucket_property(bucket, F.lit(target.statements[kind])).alias("bucket"),
        _next_row_id().alias("rowId"),
        write_id.alias("currentTransaction"),
        F.lit(True).alias("row"),  # noqa: FBT003
        *[value_name(i) for i in range(len(table.columns))],
        *keys,
    )
    write_orc(events, directory, keys)


def stage_changes(target: Target, frame: DataFrame, directory: str, *, check_cardinality: bool) -> None:
    """Write delete events and new rows of an UPDATE, DELETE or MERGE into ``directory`` in one job.

    ``frame``: `ACTION` (`Action`), ``ROW__ID`` of the changed row (null for inserts), the table's columns
    with their new values (any value for deletes). With ``check_cardinality`` a target row that appears twice
    fails the job (``[HIVEACID_CARDINALITY]``); rows with `Action.NOTHING` count, too.
    """
    table = target.table
    places = [partition_key(i) for i in range(len(table.partition_columns))]
    prepared = frame.select(
        F.col(ACTION),
        F.col(ROW_ID).alias("__id"),
        *[
            partition_text(F.col(quote_name(c.name)), c.type).alias(key)
            for key, c in zip(places, table.partition_columns, strict=True)
        ],
        *[
            to_file(target.facts, F.col(quote_name(c.name)), c.type).alias(value_name(i))
            for i, c in enumerate(table.columns)
        ],
        _new_bucket(target).alias("__new"),
    )
    if not check_cardinality:
        prepared = prepared.where(F.col(ACTION) != int(Action.NOTHING))
    events = prepared.withColumn(KIND, F.explode(_kinds(F.col(ACTION))))
    deleted = F.col(KIND) == int(Kind.DELETE)
    events = events.withColumn(
        _SHUFFLE, F.when(deleted, bucket_of(F.col("__id.bucketid"))).otherwise(F.col("__new"))
    )
    events = events.repartition(KIND, *places, _SHUFFLE)
    if check_cardinality:
        events = _refuse_doubles(events, places)
    own = F.col(_SHUFFLE) if table.bucketing else F.spark_partition_id()
    events = events.withColumn(BUCKET, F.when(deleted, F.col(_SHUFFLE)).otherwise(own))
    keys = [KIND, *places, BUCKET]
    ordered = events.sortWithinPartitions(*keys, "__id.writeid", "__id.bucketid", "__id.rowid")
    write_orc(_change_columns(target, ordered, deleted, keys), directory, keys)


def _change_columns(target: Target, frame: DataFrame, deleted: SparkColumn, keys: Sequence[str]) -> DataFrame:
    write_id = F.lit(int(target.write_id)).cast("bigint")
    statement = F.when(F.col(KIND) == int(Kind.UPDATED), F.lit(target.statements.get(Kind.UPDATED, 0)))
    statement = statement.otherwise(F.lit(target.statements.get(Kind.INSERTED, 0)))
    values = [value_name(i) for i in range(len(target.table.columns))]
    return frame.select(
        F.when(deleted, F.lit(2)).otherwise(F.lit(0)).alias("operation"),
        F.when(deleted, F.col("__id.writeid")).otherwise(write_id).alias("originalTransaction"),
        F.when(deleted, F.col("__id.bucketid"))
        .otherwise(bucket_property(F.col(BUCKET), statement))
        .alias("bucket"),
        F.when(deleted, F.col("__id.rowid")).otherwise(_next_row_id()).alias("rowId"),
        write_id.alias("currentTransaction"),
        F.when(~deleted, F.lit(True)).alias("row"),  # noqa: FBT003
        *[F.when(~deleted, F.col(name)).alias(name) for name in values],
        *keys,
    )


def stage_kept(target: Target, frame: DataFrame, directory: str) -> None:
    """Write live rows with the row ids they have (major compaction, minor compaction of inserts).

    ``frame``: user columns, ``ROW__ID`` and the current write id under ``CURRENT``.
    """
    values = [
        to_file(target.facts, F.col(quote_name(c.name)), c.type).alias(value_name(i))
        for i, c in enumerate(target.table.columns)
    ]
    _stage_keyed(frame.select(ROW_ID, CURRENT, *values), directory, operation=0, columns=len(values))


def stage_events(target: Target, frame: DataFrame, directory: str) -> None:
    """Write delete events as they are (minor compaction). ``frame``: ``ROW__ID`` and ``CURRENT``."""
    values = [
        F.lit(None).cast(kind).alias(value_name(i)) for i, kind in enumerate(_spark_types(target.table))
    ]
    _stage_keyed(frame.select(ROW_ID, CURRENT, *values), directory, operation=2, columns=len(values))


def _stage_keyed(frame: DataFrame, directory: str, *, operation: int, columns: int) -> None:
    keyed = frame.withColumn(BUCKET, bucket_of(F.col(f"{ROW_ID}.bucketid"))).repartition(BUCKET)
    row_id = [f"{ROW_ID}.writeid", f"{ROW_ID}.bucketid", f"{ROW_ID}.rowid"]
    ordered = keyed.sortWithinPartitions(BUCKET, *row_id, F.col(CURRENT).desc())
    events = ordered.select(
        F.lit(operation).alias("operation"),
        F.col(row_id[0]).alias("originalTransaction"),
        F.col(row_id[1]).alias("bucket"),
        F.col(row_id[2]).alias("rowId"),
        F.col(CURRENT).alias("currentTransaction"),
        F.lit(None if operation else True).cast("boolean").alias("row"),
        *[value_name(i) for i in range(columns)],
        BUCKET,
    )
    write_orc(events, directory, [BUCKET])


def write_orc(frame: DataFrame, directory: str, keys: Sequence[str]) -> None:
    """Write a staged frame with Spark's ORC writer, one directory level a key."""
    writer = frame.write.mode("error").options(compression="zlib", maxRecordsPerFile=0)
    (writer.partitionBy(*keys) if keys else writer).orc(directory)


def stage_empty(target: Target, directory: str) -> None:
    """Write one ORC file without rows: what makes an empty base visible to every engine."""
    types = zip(
        (value_name(i) for i in range(len(target.table.columns))), _spark_types(target.table), strict=True
    )
    fields = [("operation", "int"), ("originalTransaction", "bigint"), ("bucket", "int"), ("rowId", "bigint")]
    fields += [("currentTransaction", "bigint"), ("row", "boolean"), *types]
    nulls = [F.lit(None).cast(kind).alias(name) for name, kind in fields]
    empty = target.facts.spark.range(0).select(*nulls)  # made in the JVM: no Python worker is needed
    write_orc(empty.coalesce(1), directory, [])


def _spark_types(table: TableDefinition) -> list[str]:
    return [column_type(c).simpleString() for c in table.columns]


def stage_flat(
    target: Target,
    frame: DataFrame,
    directory: str,
    places: Sequence[SparkColumn],
    keys: Sequence[str],
    *,
    small: bool,
) -> None:
    """Write rows of a table without ACID columns; ``places`` are its partition keys (named ``keys``)."""
    table = target.table
    values = flat.file_values(target.facts, table)
    bucket_keys = list(keys)
    columns = [*values, *places]
    if table.bucketing:
        columns.append(_bucket(target).alias(BUCKET))
        bucket_keys.append(BUCKET)
    placed = _place(frame.select(*columns), bucket_keys, bucketed=table.bucketing is not None, small=small)
    flat.write(target.facts, table, placed, directory, bucket_keys)


def _place(frame: DataFrame, keys: Sequence[str], *, bucketed: bool, small: bool) -> DataFrame:
    if small:
        frame = frame.coalesce(1)
    elif bucketed:
        frame = frame.repartition(*keys)
    elif keys:
        frame = frame.hint("rebalance", *keys)
    else:
        frame = frame.coalesce(_MAX_WRITERS)
    return frame.sortWithinPartitions(*keys) if keys else frame


def _next_row_id() -> SparkColumn:
    return F.monotonically_increasing_id().bitwiseAND(F.lit(_ROW_MASK))


def bucket_property(bucket: SparkColumn, statement: SparkColumn) -> SparkColumn:
    """Encode bucket and statement id (``BucketCodec.V1``)."""
    return F.lit(1 << 29).bitwiseOR(F.shiftleft(bucket, 16)).bitwiseOR(statement).cast("int")


def bucket_of(value: SparkColumn) -> SparkColumn:
    """Decode the bucket of a bucket property (``BucketCodec``: the three top bits are the version)."""
    version = F.shiftright(value, 29)
    return F.when(version == 1, F.shiftright(value, 16).bitwiseAND(F.lit(0xFFF))).otherwise(value)


def _bucket(target: Target) -> SparkColumn:
    table = target.table
    assert table.bucketing is not None  # noqa: S101 - the callers asked
    types = {c.name: c.type for c in table.columns}
    names = [name.lower() for name in table.bucketing.columns]
    return bucket_number(
        target.facts,
        [F.col(quote_name(name)) for name in names],
        [types[name] for name in names],
        table.bucketing_version,
        table.bucketing.count,
    )


def _new_bucket(target: Target) -> SparkColumn:
    if target.table.bucketing:
        return _bucket(target)
    # rows without a row id (inserts) spread by their values; which part a row falls into doesn't matter
    atomic = [c.name for c in target.table.columns if "<" not in c.type][:4]
    spread = F.hash(
        F.col(f"{ROW_ID}.rowid"), F.col(f"{ROW_ID}.writeid"), *[F.col(quote_name(name)) for name in atomic]
    )
    return F.pmod(spread, F.lit(_SPREAD))


def _kinds(action: SparkColumn) -> SparkColumn:
    delete, update, insert = (F.lit(int(kind)) for kind in (Kind.DELETE, Kind.UPDATED, Kind.INSERTED))
    return (
        F.when(action == int(Action.UPDATE), F.array(delete, update))
        .when(action == int(Action.INSERT), F.array(insert))
        .otherwise(F.array(delete))
    )


def _refuse_doubles(events: DataFrame, places: Sequence[str]) -> DataFrame:
    key = [F.col("__id.writeid"), F.col("__id.bucketid"), F.col("__id.rowid")]
    unmatched = F.when(F.col(KIND) == int(Kind.INSERTED), F.monotonically_increasing_id())
    events = events.withColumn("__unmatched", unmatched)
    window = Window.partitionBy(KIND, *places, _SHUFFLE, *key, "__unmatched").orderBy(ACTION)
    numbered = events.withColumn("__nth", F.row_number().over(window))
    double = F.raise_error(F.lit("[HIVEACID_CARDINALITY] a target row matches more than one source row"))
    checked = F.when(F.col("__nth") > 1, double.cast("boolean")).otherwise(
        F.col(ACTION) != int(Action.NOTHING)
    )
    return numbered.where(checked)
