"""Frames of ACID events, staged as flat ORC files by Spark's own writer.

A staged file holds the five ACID columns, a boolean placeholder ``row`` and the user's columns ``c0 … cn``, all flat.
`publish` rewrites the footer so that the placeholder becomes the struct ``row``, which is a third cheaper than a nested
write. Each bucket and directory has one file, with its rows in key order. The frames shuffle and sort accordingly, and
`publish` checks the order.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum

from pyspark.sql import Column as SparkColumn
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.acid_columns import (
    BUCKET_SHIFT,
    DEFAULT_FILE_SIZE,
    DELETE_EVENT,
    INSERT_EVENT,
    MAX_BUCKET,
    MAX_BUCKETS,
    MIN_GROUPS,
    ROW_ID_PARTS,
    V1_PROPERTY,
    VERSION_SHIFT,
    AcidColumn,
    buckets_by_group,
)
from hiveacid.core.format.names import ROW_ID, staged_column
from hiveacid.core.model import TableDefinition, TableKind, WriteId
from hiveacid.core.schema.types import quote_name
from hiveacid.errors import UnsupportedFeatureError
from hiveacid.spark.formats import flat_files as flat
from hiveacid.spark.formats.bucket_hash_expressions import bucket_number
from hiveacid.spark.formats.expressions import Expression, cast, named, selected, sorted_in_partitions
from hiveacid.spark.formats.file_columns import ORC, partition_text, to_file
from hiveacid.spark.formats.types import column_type
from hiveacid.spark.read.scan_source import CURRENT_WRITE_ID_COLUMN
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write.staged_files import BUCKET, KIND, StagedKind, TaskReport
from hiveacid.spark.write.write_tasks import distribute, save_frame

ACTION = "__hiveacid_action"
OLD = "__hiveacid_old_"
"""Prefix of a changed row's columns with the values that the target row has; only of those that a statement may set."""
_ROW_ID_FIELDS = [f"{ROW_ID}.{part}" for part in ROW_ID_PARTS]
_ID_PARTS = [f"__id.{part}" for part in ROW_ID_PARTS]
_SHUFFLE = "__h"
_EVENT = "__e"  # DELETE, UPDATED or INSERTED: rows of one event, partition and bucket meet in one task
# A bucket property has room for 4,096 buckets (``BucketCodec``). Tasks whose numbers are 4,096 apart never write one
# directory: there are fewer tasks (INSERT, ``spark.write.write_tasks``), or the bucket is the group
# (`buckets_by_group`). Two files of one bucket would fail the statement before its commit (``table.write.publish``).
_TASK_BUCKET = f"pmod(spark_partition_id(), {MAX_BUCKETS})"
# monotonically_increasing_id keeps the task in the bits above
_NEXT_ROW_ID = f"(monotonically_increasing_id() & {(1 << 33) - 1}L)"
_SHUFFLE_TASKS = ("spark.sql.shuffle.partitions", "spark.sql.adaptive.coalescePartitions.initialPartitionNum")
_SEVERAL_MATCHES = (
    "[HIVEACID_CARDINALITY] a target row matches more than one source row: "
    "make the source unique on the ON condition"
)


def _write_id_outside_code(write_id: WriteId) -> str:
    """Return a write id that does not appear in the generated code.

    Literals change the generated code and force recompilation; the write id is therefore passed in an array. Spark does
    not fold the array access, because the index depends on the task.
    """
    return f"get(array({int(write_id)}L), shiftright(spark_partition_id(), 31))"


class Action(IntEnum):
    """Action on a changed row, in the frame given to `stage_changed_rows`."""

    NOTHING = 0
    DELETE = 1
    UPDATE = 2
    INSERT = 3


def _events_of_actions(updated: StagedKind) -> str:
    """Return the kinds of the events that a row's action makes; ``updated``: the kind of new versions."""
    return (
        f"CASE {ACTION} WHEN {int(Action.UPDATE)} THEN array({int(StagedKind.DELETE)}, {int(updated)}) "
        f"WHEN {int(Action.INSERT)} THEN array({int(StagedKind.INSERTED)}) ELSE array({int(StagedKind.DELETE)}) END"
    )


@dataclass(frozen=True)
class StagingTarget:
    """Target of staged events: table, write id, a statement id for each kind, and options of Spark's writer.

    With a statement id for `StagedKind.DELETED_BY_UPDATE` new versions and inserted rows share the files of
    `StagedKind.INSERTED`. ``options``: ``compression``, and others of the ORC writer such as ``orc.stripe.size``.
    ``single_bucket``: the table is not bucketed, and all its new rows go to bucket 0. ``row_groups``: groups of new
    rows of a changed partition (``core.format.acid_columns``). ``file_size``: bytes that a file of an INSERT should
    have.
    """

    env: SparkEnvironment
    table: TableDefinition
    write_id: WriteId
    statements: dict[StagedKind, int]
    options: Mapping[str, str]
    single_bucket: bool = False
    row_groups: int = MIN_GROUPS
    file_size: int = DEFAULT_FILE_SIZE

    @property
    def has_buckets(self) -> bool:
        """Tell whether the bucket of a row depends on the row, not on the task that writes it."""
        return self.single_bucket or self.table.bucketing is not None

    @property
    def shares_files(self) -> bool:
        """Tell whether new versions of updated rows share the files of inserted rows."""
        return StagedKind.DELETED_BY_UPDATE in self.statements

    def write(self, events: DataFrame, directory: str, keys: Sequence[str]) -> TaskReport:
        """Write staged events with Spark's ORC writer, one directory level a key; return what the tasks report."""
        return save_frame(self.env, events, ORC, self.options, keys, directory)


def partition_key(index: int) -> str:
    """Return the staging name of a partition column: its text, never null."""
    return f"__p{index}"


def _partition_texts(table: TableDefinition, frame: DataFrame) -> dict[str, str]:
    """Return the expressions of the texts of partitions, by their staging names: of new values, then of those in `OLD`."""
    columns, names = [(partition_key(i), c) for i, c in enumerate(table.partition_columns)], frame.columns
    old = [(OLD + key, replace(c, name=OLD + c.name)) for key, c in columns if OLD + c.name in names]
    return {key: partition_text(column) for key, column in [*columns, *old]}


def _staged_values(target: StagingTarget) -> list[Expression]:
    """Return the user's columns under their staging names, with the values for files."""
    return [
        named(to_file(target.env, quote_name(c.name), c.type), staged_column(i))
        for i, c in enumerate(target.table.columns)
    ]


def stage_insert(
    target: StagingTarget, frame: DataFrame, directory: str, *, dynamic: bool, small: bool
) -> TaskReport:
    """Write new rows into ``directory`` and return what the tasks report.

    ``frame``: the table's columns under their names, of their types. ``dynamic``: rows go to the partitions
    that their partition columns name. ``small``: one task is enough (a list of VALUES).
    """
    table = target.table
    keys = [partition_key(i) for i in range(len(table.partition_columns))] if dynamic else []
    columns: list[Expression] = [
        named(partition_text(c), key) for key, c in zip(keys, table.partition_columns, strict=False)
    ]
    if table.kind is not TableKind.FULL_ACID:
        return stage_flat(target, frame, directory, columns, keys, small=small)
    if target.has_buckets:
        columns.append(named(_checked_bucket(target), BUCKET))
        keys.append(BUCKET)
    values = selected(frame, [*_staged_values(target), *columns])
    placed = distribute(target.env, values, keys, target.file_size, bucketed=target.has_buckets, small=small)
    write_id = _write_id_outside_code(target.write_id)
    bucket = BUCKET if target.has_buckets else _TASK_BUCKET
    staged = [
        *_acid_columns(
            INSERT_EVENT,
            write_id,
            bucket_property(bucket, str(target.statements[StagedKind.INSERTED])),
            _NEXT_ROW_ID,
            write_id,
            "true",
        ),
        *[staged_column(i) for i in range(len(table.columns))],
        *keys,
    ]
    events = selected(placed, staged)
    return target.write(events, directory, keys)


def stage_changed_rows(
    target: StagingTarget, frame: DataFrame, directory: str, *, check_cardinality: bool, small: bool = False
) -> TaskReport:
    """Write delete events and new rows of an UPDATE, DELETE or MERGE into ``directory`` in one job.

    ``frame``: `ACTION` (`Action`), ``ROW__ID`` of the changed row (null for inserts), the table's columns
    with their new values (any value for deletes, but for partition columns), and those of `OLD`. With
    ``check_cardinality`` a target row that appears twice fails the job; rows with `Action.NOTHING` count, too.
    ``small``: one task is enough.
    """
    table = target.table
    partitions = [partition_key(i) for i in range(len(table.partition_columns))]
    texts = _partition_texts(table, frame)
    prepared = selected(
        frame,
        [
            ACTION,
            named(ROW_ID, "__id"),
            *[named(text, key) for key, text in texts.items()],
            *_staged_values(target),
            named(_new_bucket(target), "__new"),
        ],
    )
    if not check_cardinality:
        prepared = prepared.where(f"{ACTION} != {int(Action.NOTHING)}")
    deleted = f"{_EVENT} = {int(StagedKind.DELETE)}"
    updated = StagedKind.INSERTED if target.shares_files else StagedKind.UPDATED
    events = selected(prepared, ["*", f"explode({_events_of_actions(updated)}) AS {_EVENT}"])
    if len(texts) > len(partitions):  # a delete event lies where the row was
        old_or_new = {key: f"if({deleted}, {OLD}{key}, {key})" for key in partitions if OLD + key in texts}
        events = events.withColumns({key: F.expr(text) for key, text in old_or_new.items()})
    events = selected(events, ["*", f"if({deleted}, {_decode_bucket(_ID_PARTS[1])}, __new) AS {_SHUFFLE}"])
    events = events.coalesce(1) if small else events.repartition(_EVENT, *partitions, _SHUFFLE)
    if check_cardinality:
        row = [_EVENT, *partitions, _SHUFFLE, *_ID_PARTS]
        inserted, changed = f"{ACTION} = {int(Action.INSERT)}", f"{ACTION} != {int(Action.NOTHING)}"
        events = _check_merge_cardinality(events, row, inserted=inserted, changed=changed)
    by_row = target.has_buckets or (not small and buckets_by_group(shuffle_tasks(target.env)))
    own = _SHUFFLE if by_row else _TASK_BUCKET
    kind = f"if({deleted} AND {ACTION} = {int(Action.UPDATE)}, {int(StagedKind.DELETED_BY_UPDATE)}, {_EVENT})"
    kind = kind if target.shares_files else _EVENT
    events = selected(events, ["*", f"{kind} AS {KIND}", f"if({deleted}, {_SHUFFLE}, {own}) AS {BUCKET}"])
    keys = [KIND, *partitions, BUCKET]
    ordered = sorted_in_partitions(events, [*keys, *_ID_PARTS])
    return target.write(_change_columns(target, ordered, keys), directory, keys)


def changed_rows_for_arrow(target: StagingTarget, frame: DataFrame) -> DataFrame:
    """Return changed rows (as for `stage_changed_rows`) in the columns that this process needs to write them by Arrow.

    These are `ACTION`, the parts of the row id, ``partition_key`` (with the prefix `OLD`, if ``frame`` has the old value) and
    ``staged_column`` of each column, and `BUCKET`, that of a new version. A timestamp is the wall clock that the
    session shows, which is what a file holds.
    """
    table = target.table
    bucket = _checked_bucket(target) if target.has_buckets else "0"
    columns: list[Expression] = [ACTION, *[f"{ROW_ID}.{part} AS {part}" for part in ROW_ID_PARTS]]
    columns += [named(text, key) for key, text in _partition_texts(table, frame).items()]
    for index, column in enumerate(table.columns):
        value = quote_name(column.name)
        value = f"CAST({value} AS TIMESTAMP_NTZ)" if column.type == "timestamp" else value
        columns.append(f"{value} AS {staged_column(index)}")
    changed = frame.where(f"{ACTION} != {int(Action.NOTHING)}")
    return selected(changed, [*columns, named(bucket, BUCKET)])


def new_rows_for_arrow(target: StagingTarget, frame: DataFrame) -> DataFrame:
    """Return new rows in the columns of `changed_rows_for_arrow`. ``frame``: the table's columns under their names."""
    no_id = ", ".join(f"'{part}', CAST(NULL AS BIGINT)" for part in ROW_ID_PARTS)
    leading = [f"{int(Action.INSERT)} AS {ACTION}", f"named_struct({no_id}) AS {ROW_ID}"]
    return changed_rows_for_arrow(target, selected(frame, [*leading, "*"]))


def shuffle_tasks(env: SparkEnvironment) -> int:
    """Return the most tasks that a shuffle of this session makes."""
    return max(int(env.spark.conf.get(name, None) or 1) for name in _SHUFFLE_TASKS)


def _change_columns(target: StagingTarget, frame: DataFrame, keys: Sequence[str]) -> DataFrame:
    # Texts, not functions: each call of one is several round trips to the JVM.
    write_id, live = _write_id_outside_code(target.write_id), f"{_EVENT} != {int(StagedKind.DELETE)}"
    updated, inserted = (target.statements.get(kind, 0) for kind in (StagedKind.UPDATED, StagedKind.INSERTED))
    own = bucket_property(BUCKET, f"if({KIND} = {int(StagedKind.UPDATED)}, {updated}, {inserted})")
    values = [staged_column(i) for i in range(len(target.table.columns))]
    columns = [
        *_acid_columns(
            f"if({live}, {INSERT_EVENT}, {DELETE_EVENT})",
            f"if({live}, {write_id}, {_ID_PARTS[0]})",
            f"if({live}, {own}, {_ID_PARTS[1]})",
            f"if({live}, {_NEXT_ROW_ID}, {_ID_PARTS[2]})",
            write_id,
            f"if({live}, true, NULL)",
        ),
        *[f"if({live}, {name}, NULL) AS {name}" for name in values],
        *keys,
    ]
    return selected(frame, columns)


def _acid_columns(*values: object) -> list[str]:
    """Return expressions, in the order of `AcidColumn`, under the columns' names."""
    return [f"{value} AS {column}" for value, column in zip(values, AcidColumn, strict=True)]


def stage_rows_with_ids(target: StagingTarget, frame: DataFrame, directory: str) -> TaskReport:
    """Write live rows with the row ids they have (major compaction, minor compaction of inserts).

    ``frame``: user columns, ``ROW__ID`` and the current write id under ``CURRENT_WRITE_ID_COLUMN``.
    """
    return _stage_keyed(target, _rows_with_ids(target, frame), directory, operation=INSERT_EVENT)


def stage_in_read_order(target: StagingTarget, frame: DataFrame, directory: str) -> TaskReport:
    """Write live rows with their row ids, unsorted: each task writes one file in the order in which it reads."""
    return target.write(events_in_read_order(target, frame), directory, [])


def events_in_read_order(target: StagingTarget, frame: DataFrame) -> DataFrame:
    """Return the events that `stage_in_read_order` writes, without shuffle or sort."""
    return _keyed_events(target, _rows_with_ids(target, frame), operation=INSERT_EVENT)


def _rows_with_ids(target: StagingTarget, frame: DataFrame) -> DataFrame:
    return selected(frame, [ROW_ID, CURRENT_WRITE_ID_COLUMN, *_staged_values(target)])


def stage_delete_events(target: StagingTarget, frame: DataFrame, directory: str) -> TaskReport:
    """Write delete events as they are (minor compaction). ``frame``: ``ROW__ID`` and ``CURRENT_WRITE_ID_COLUMN``."""
    values = [
        named(cast("NULL", column_type(c)), staged_column(i)) for i, c in enumerate(target.table.columns)
    ]
    return _stage_keyed(
        target, selected(frame, [ROW_ID, CURRENT_WRITE_ID_COLUMN, *values]), directory, operation=DELETE_EVENT
    )


def _stage_keyed(target: StagingTarget, frame: DataFrame, directory: str, *, operation: int) -> TaskReport:
    keyed = frame.withColumn(BUCKET, F.expr(_decode_bucket(_ROW_ID_FIELDS[1]))).repartition(BUCKET)
    ordered = keyed.sortWithinPartitions(BUCKET, *_ROW_ID_FIELDS, F.col(CURRENT_WRITE_ID_COLUMN).desc())
    events = _keyed_events(target, ordered, BUCKET, operation=operation)
    return target.write(events, directory, [BUCKET])


def _keyed_events(target: StagingTarget, frame: DataFrame, *keys: str, operation: int) -> DataFrame:
    return frame.selectExpr(
        *_acid_columns(
            operation,
            *_ROW_ID_FIELDS,
            CURRENT_WRITE_ID_COLUMN,
            f"CAST({'true' if operation == INSERT_EVENT else 'NULL'} AS BOOLEAN)",
        ),
        *[staged_column(i) for i in range(len(target.table.columns))],
        *keys,
    )


def stage_flat(
    target: StagingTarget,
    frame: DataFrame,
    directory: str,
    partitions: Sequence[Expression],
    keys: Sequence[str],
    *,
    small: bool,
) -> TaskReport:
    """Write rows of a table without ACID columns; ``partitions`` are its partition keys (named ``keys``)."""
    table = target.table
    values = flat.file_values(target.env, table)
    bucket_keys = list(keys)
    columns = [*values, *partitions]
    if table.bucketing:
        columns.append(_bucket_of_row(target).alias(BUCKET))
        bucket_keys.append(BUCKET)
    staged = selected(frame, columns)
    placed = distribute(
        target.env,
        staged,
        bucket_keys,
        target.file_size,
        bucketed=table.bucketing is not None,
        small=small,
        order=_order_of_bucket(table, staged),
    )
    return flat.write(target.env, table, placed, directory, bucket_keys, target.options)


def _order_of_bucket(table: TableDefinition, staged: DataFrame) -> list[SparkColumn]:
    """Return the order of SORTED BY. Hive joins sorted buckets by merging them, NULLs first (DESC: last) as in Spark."""
    if table.bucketing is None or not table.bucketing.sort_columns:
        return []
    columns = dict(zip(table.column_names, staged.columns, strict=False))
    descending = table.bucketing.descending
    sorted_by = [(F.col(quote_name(columns[name])), name) for name in table.bucketing.sort_columns]
    return [column.desc() if name in descending else column.asc() for column, name in sorted_by]


def bucket_property(bucket: str, statement: str) -> str:
    """Encode bucket and statement id (``BucketCodec.V1``)."""
    return f"CAST({V1_PROPERTY} | shiftleft({bucket}, {BUCKET_SHIFT}) | {statement} AS INT)"


def _decode_bucket(value: str) -> str:
    """Decode the bucket of a bucket property (``BucketCodec``: the three top bits are the version)."""
    return f"if(shiftright({value}, {VERSION_SHIFT}) = 1, shiftright({value}, {BUCKET_SHIFT}) & {MAX_BUCKET}, {value})"


def _bucket_of_row(target: StagingTarget) -> SparkColumn:
    table = target.table
    assert table.bucketing is not None  # noqa: S101 - the callers asked
    types = {c.name: c.type for c in table.columns}
    names = [name.lower() for name in table.bucketing.columns]
    return bucket_number(
        target.env,
        [F.col(quote_name(name)) for name in names],
        [types[name] for name in names],
        table.bucketing_version,
        table.bucketing.count,
    )


def _checked_bucket(target: StagingTarget) -> Expression:
    table = target.table
    if target.single_bucket:
        return "0"
    assert table.bucketing is not None  # noqa: S101 - the callers asked
    if table.bucketing.count > MAX_BUCKETS:
        raise UnsupportedFeatureError(
            f"{table.name} has {table.bucketing.count} buckets: a row id has room for {MAX_BUCKETS}; such a table "
            "can be read; to change it, CREATE TABLE ... AS SELECT one with fewer buckets"
        )
    return _bucket_of_row(target)


def _new_bucket(target: StagingTarget) -> Expression:
    if target.has_buckets:
        return _checked_bucket(target)
    # rows without a row id (inserts) are distributed by their values; any part is right for a row
    atomic = [c.name for c in target.table.columns if "<" not in c.type][:4]
    spread = ", ".join([_ROW_ID_FIELDS[2], _ROW_ID_FIELDS[0], *map(quote_name, atomic)])
    return f"pmod(hash({spread}), {target.row_groups})"


def _check_merge_cardinality(
    events: DataFrame, row: Sequence[str], *, inserted: str, changed: str
) -> DataFrame:
    """Return the events that are ``changed``; running the frame raises MergeCardinalityError for a second match.

    Each match of a target row has one delete event, in the partition of the row. Its new version may go to another one, where
    that of a row from a third partition has the same id.
    ``row``: columns that identify the event of a target row; events that agree in them lie in one task, so that the window
    needs no shuffle. ``inserted``: condition of events without a target row.
    """
    unmatched = f"CASE WHEN {inserted} THEN monotonically_increasing_id() END AS __unmatched"
    same_row = ", ".join([*row, "__unmatched"])
    numbered = events.selectExpr(
        "*", unmatched
    ).selectExpr(
        "*",
        f"row_number() OVER (PARTITION BY {same_row} ORDER BY __unmatched) AS __match_number",  # any order will do
    )
    deleted = f"{_EVENT} = {int(StagedKind.DELETE)}"
    failure = f"CAST(raise_error('{_SEVERAL_MATCHES}') AS BOOLEAN)"
    return numbered.where(f"CASE WHEN __match_number > 1 AND {deleted} THEN {failure} ELSE {changed} END")
