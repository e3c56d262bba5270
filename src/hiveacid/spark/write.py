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

from hiveacid.core.buckets import MAX_BUCKET
from hiveacid.core.model import DEFAULT_PARTITION, Column, TableDefinition, TableKind, WriteId
from hiveacid.core.types import quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark import flat
from hiveacid.spark.checksums import without_checksums
from hiveacid.spark.expressions import Expression, cast, named, selected
from hiveacid.spark.hashing import bucket_number
from hiveacid.spark.recipes import ORC
from hiveacid.spark.scan import CURRENT, ROW_ID
from hiveacid.spark.timezone import is_moved, to_file
from hiveacid.spark.types import column_type
from hiveacid.storage.paths import spark_path

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

    from hiveacid.spark.session import SparkFacts

KIND, BUCKET = "__k", "__b"
ACTION = "__hiveacid_action"
_SHUFFLE = "__h"
# A bucket property has room for 4,096 buckets (``BucketCodec``); a higher number would name another file's rows.
_TASK = (
    "if(spark_partition_id() > 4095, CAST(raise_error('[HIVEACID_DATA] more than 4096 tasks write one table: set "
    "spark.sql.shuffle.partitions to 4096 at most') AS INT), spark_partition_id())"
)
# monotonically_increasing_id keeps the task in the bits above
_NEXT_ROW_ID = f"(monotonically_increasing_id() & {(1 << 33) - 1}L)"
_MAX_WRITERS = 1000  # tasks that write an unbucketed table: one bucket each, 4096 at most
_SPARK_4 = (4, 0)
_SPREAD = 64  # shuffle parts of new rows of an unbucketed table; Spark joins small ones again
ACID = ("operation", "originalTransaction", "bucket", "rowId", "currentTransaction", "row")


class Kind(IntEnum):
    """What a staged row is: it tells the directory that the row goes to."""

    DELETE = 0
    UPDATED = 1  # the new version of an updated row
    INSERTED = 2


def _apart(write_id: WriteId) -> str:
    """Return a write id that Spark does not write into the code it generates: of each statement Java compiled it anew.

    An array is handed over beside the code; that its only value is asked for Spark does not see.
    """
    return f"get(array({int(write_id)}L), shiftright(spark_partition_id(), 31))"


class Action(IntEnum):
    """What a changed row asks for, in the frame given to `stage_changes`."""

    NOTHING = 0
    DELETE = 1
    UPDATE = 2
    INSERT = 3


# the events that an action makes
_KINDS = (
    f"CASE {ACTION} WHEN {int(Action.UPDATE)} THEN array({int(Kind.DELETE)}, {int(Kind.UPDATED)}) "
    f"WHEN {int(Action.INSERT)} THEN array({int(Kind.INSERTED)}) ELSE array({int(Kind.DELETE)}) END"
)


@dataclass(frozen=True)
class Target:
    """Where events go: table, write id, the statement id of each kind; the codec of files, as Spark calls it."""

    facts: SparkFacts
    table: TableDefinition
    write_id: WriteId
    statements: dict[Kind, int]
    codec: str


def partition_key(index: int) -> str:
    """Return the staging name of a partition column: its text, never null."""
    return f"__p{index}"


def value_name(index: int) -> str:
    """Return the staging name of a user column."""
    return f"c{index}"


def partition_text(column: Column) -> str:
    """Return a partition column as Hive writes it in directory names (NULL and '' are the default partition)."""
    name = quote_name(column.name)
    text = f"rtrim({name})" if column.type.startswith("char(") else f"CAST({name} AS STRING)"
    return f"if(coalesce({text}, '') = '', '{DEFAULT_PARTITION}', {text})"


def _values(target: Target) -> list[Expression]:
    """Return the user's columns as they are staged."""
    return [
        named(
            to_file(target.facts, F.col(quote_name(c.name)), c.type)
            if is_moved(target.facts, c.type)
            else quote_name(c.name),
            value_name(i),
        )
        for i, c in enumerate(target.table.columns)
    ]


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
    table = target.table
    keys = [partition_key(i) for i in range(len(table.partition_columns))] if dynamic else []
    columns: list[Expression] = [
        named(partition_text(c), key) for key, c in zip(keys, table.partition_columns, strict=False)
    ]
    if table.kind is not TableKind.FULL_ACID:
        stage_flat(target, frame, directory, columns, keys, small=small)
        return
    if table.bucketing:
        columns.append(_own_bucket(target).alias(BUCKET))
        keys.append(BUCKET)
    values = selected(frame, [*_values(target), *columns])
    placed = _place(target, values, keys, bucketed=table.bucketing is not None, small=small)
    write_id = _apart(target.write_id)
    bucket = BUCKET if table.bucketing else _TASK
    staged = [
        "0 AS operation",
        f"{write_id} AS originalTransaction",
        f"{bucket_property(bucket, str(target.statements[kind]))} AS bucket",
        f"{_NEXT_ROW_ID} AS rowId",
        f"{write_id} AS currentTransaction",
        "true AS row",
        *[value_name(i) for i in range(len(table.columns))],
        *keys,
    ]
    events = selected(placed, staged)
    write_orc(events, directory, keys, target.codec)


def stage_changes(
    target: Target, frame: DataFrame, directory: str, *, check_cardinality: bool, small: bool = False
) -> None:
    """Write delete events and new rows of an UPDATE, DELETE or MERGE into ``directory`` in one job.

    ``frame``: `ACTION` (`Action`), ``ROW__ID`` of the changed row (null for inserts), the table's columns
    with their new values (any value for deletes). With ``check_cardinality`` a target row that appears twice
    fails the job (``[HIVEACID_CARDINALITY]``); rows with `Action.NOTHING` count, too. ``small``: one task is
    enough.
    """
    table = target.table
    places = [partition_key(i) for i in range(len(table.partition_columns))]
    prepared = selected(
        frame,
        [
            ACTION,
            named(ROW_ID, "__id"),
            *[named(partition_text(c), key) for key, c in zip(places, table.partition_columns, strict=True)],
            *_values(target),
            named(_new_bucket(target), "__new"),
        ],
    )
    if not check_cardinality:
        prepared = prepared.where(f"{ACTION} != {int(Action.NOTHING)}")
    deleted = f"{KIND} = {int(Kind.DELETE)}"
    events = prepared.selectExpr("*", f"explode({_KINDS}) AS {KIND}")
    events = events.selectExpr("*", f"if({deleted}, {_bucket_of('__id.bucketid')}, __new) AS {_SHUFFLE}")
    events = events.coalesce(1) if small else events.repartition(KIND, *places, _SHUFFLE)
    if check_cardinality:
        events = _refuse_doubles(events, places)
    own = _SHUFFLE if table.bucketing else _TASK
    events = events.selectExpr("*", f"if({deleted}, {_SHUFFLE}, {own}) AS {BUCKET}")
    keys = [KIND, *places, BUCKET]
    ordered = events.sortWithinPartitions(*keys, "__id.writeid", "__id.bucketid", "__id.rowid")
    write_orc(_change_columns(target, ordered, keys), directory, keys, target.codec)


def _change_columns(target: Target, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    # Texts, not functions: each call of one is several round trips to the JVM.
    write_id, live = _apart(target.write_id), f"{KIND} != {int(Kind.DELETE)}"
    updated, inserted = (target.statements.get(kind, 0) for kind in (Kind.UPDATED, Kind.INSERTED))
    own = bucket_property(BUCKET, f"if({KIND} = {int(Kind.UPDATED)}, {updated}, {inserted})")
    values = [value_name(i) for i in range(len(target.table.columns))]
    columns = [
        f"if({live}, 0, 2) AS operation",
        f"if({live}, {write_id}, __id.writeid) AS originalTransaction",
        f"if({live}, {own}, __id.bucketid) AS bucket",
        f"if({live}, {_NEXT_ROW_ID}, __id.rowid) AS rowId",
        f"{write_id} AS currentTransaction",
        f"if({live}, true, NULL) AS row",
        *[f"if({live}, {name}, NULL) AS {name}" for name in values],
        *keys,
    ]
    return selected(frame, columns)


def stage_kept(target: Target, frame: DataFrame, directory: str) -> None:
    """Write live rows with the row ids they have (major compaction, minor compaction of inserts).

    ``frame``: user columns, ``ROW__ID`` and the current write id under ``CURRENT``.
    """
    _stage_keyed(target, _kept(target, frame), directory, operation=0, columns=len(target.table.columns))


def stage_as_read(target: Target, frame: DataFrame, directory: str) -> None:
    """Do the same for rows that need no sorting: each task writes one file, in the order in which it reads."""
    write_orc(as_read(target, frame), directory, [], target.codec)


def as_read(target: Target, frame: DataFrame) -> DataFrame:
    """Return what `stage_as_read` writes: no shuffle, no sort."""
    return _keyed_events(_kept(target, frame), operation=0, columns=len(target.table.columns))


def _kept(target: Target, frame: DataFrame) -> DataFrame:
    return selected(frame, [ROW_ID, CURRENT, *_values(target)])


def stage_events(target: Target, frame: DataFrame, directory: str) -> None:
    """Write delete events as they are (minor compaction). ``frame``: ``ROW__ID`` and ``CURRENT``."""
    values = [named(cast("NULL", column_type(c)), value_name(i)) for i, c in enumerate(target.table.columns)]
    _stage_keyed(
        target, selected(frame, [ROW_ID, CURRENT, *values]), directory, operation=2, columns=len(values)
    )


def _stage_keyed(target: Target, frame: DataFrame, directory: str, *, operation: int, columns: int) -> None:
    keyed = frame.withColumn(BUCKET, F.expr(_bucket_of(f"{ROW_ID}.bucketid"))).repartition(BUCKET)
    row_id = [f"{ROW_ID}.writeid", f"{ROW_ID}.bucketid", f"{ROW_ID}.rowid"]
    ordered = keyed.sortWithinPartitions(BUCKET, *row_id, F.col(CURRENT).desc())
    events = _keyed_events(ordered, BUCKET, operation=operation, columns=columns)
    write_orc(events, directory, [BUCKET], target.codec)


def _keyed_events(frame: DataFrame, *keys: str, operation: int, columns: int) -> DataFrame:
    return frame.selectExpr(
        f"{operation} AS operation",
        f"{ROW_ID}.writeid AS originalTransaction",
        f"{ROW_ID}.bucketid AS bucket",
        f"{ROW_ID}.rowid AS rowId",
        f"{CURRENT} AS currentTransaction",
        f"CAST({'NULL' if operation else 'true'} AS BOOLEAN) AS row",
        *[value_name(i) for i in range(columns)],
        *keys,
    )


def write_orc(frame: DataFrame, directory: str, keys: Sequence[str], codec: str) -> None:
    """Write a staged frame with Spark's ORC writer, one directory level a key."""
    writer = frame.write.mode("error").options(compression=codec, maxRecordsPerFile=0)
    if keys:
        writer = writer.partitionBy(*keys)
    with without_checksums(frame, directory):
        writer.format(ORC).save(spark_path(directory))


def stage_empty(target: Target, directory: str) -> None:
    """Write one ORC file without rows: what makes an empty base visible to every engine."""
    types = zip(
        (value_name(i) for i in range(len(target.table.columns))), _spark_types(target.table), strict=True
    )
    fields = [("operation", "int"), ("originalTransaction", "bigint"), ("bucket", "int"), ("rowId", "bigint")]
    fields += [("currentTransaction", "bigint"), ("row", "boolean"), *types]
    nulls = [F.lit(None).cast(kind).alias(name) for name, kind in fields]
    empty = target.facts.spark.range(0).select(*nulls)  # made in the JVM: no Python worker is needed
    write_orc(empty.coalesce(1), directory, [], target.codec)


def _spark_types(table: TableDefinition) -> list[str]:
    return [column_type(c).simpleString() for c in table.columns]


def stage_flat(
    target: Target,
    frame: DataFrame,
    directory: str,
    places: Sequence[Expression],
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
    placed = _place(
        target, selected(frame, columns), bucket_keys, bucketed=table.bucketing is not None, small=small
    )
    flat.write(target.facts, table, placed, directory, bucket_keys, target.codec)


def _place(
    target: Target, frame: DataFrame, keys: Sequence[str], *, bucketed: bool, small: bool
) -> DataFrame:
    if small:
        frame = frame.coalesce(1)
    elif bucketed:
        frame = frame.repartition(*keys)
    elif keys:
        frame = _rebalanced(target.facts, frame, keys)
    else:
        frame = frame.coalesce(_MAX_WRITERS)
    return frame.sortWithinPartitions(*keys) if keys else frame


def _rebalanced(facts: SparkFacts, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    """Let Spark spread rows by their keys, as evenly as it sees fit. In 3.5 only SQL takes columns in a hint."""
    if facts.version >= _SPARK_4:
        return frame.hint("rebalance", *keys)
    names = ", ".join(map(quote_name, keys))
    return facts.spark.sql(f"SELECT /*+ REBALANCE({names}) */ * FROM {{frame}}", frame=frame)


def bucket_property(bucket: str, statement: str) -> str:
    """Encode bucket and statement id (``BucketCodec.V1``)."""
    return f"CAST({1 << 29} | shiftleft({bucket}, 16) | {statement} AS INT)"


def _bucket_of(value: str) -> str:
    """Decode the bucket of a bucket property (``BucketCodec``: the three top bits are the version)."""
    return f"if(shiftright({value}, 29) = 1, shiftright({value}, 16) & {0xFFF}, {value})"


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


def _own_bucket(target: Target) -> SparkColumn:
    table = target.table
    assert table.bucketing is not None  # noqa: S101 - the callers asked
    if table.bucketing.count > MAX_BUCKET + 1:
        raise UnsupportedFeatureError(
            f"{table.name} has {table.bucketing.count} buckets: a row id has room for {MAX_BUCKET + 1}; such a table "
            "can be read; to change it, CREATE TABLE ... AS SELECT one with fewer buckets"
        )
    return _bucket(target)


def _new_bucket(target: Target) -> Expression:
    if target.table.bucketing:
        return _own_bucket(target)
    # rows without a row id (inserts) spread by their values; which part a row falls into doesn't matter
    atomic = [c.name for c in target.table.columns if "<" not in c.type][:4]
    spread = ", ".join([f"{ROW_ID}.rowid", f"{ROW_ID}.writeid", *map(quote_name, atomic)])
    return f"pmod(hash({spread}), {_SPREAD})"


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
