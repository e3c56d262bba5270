"""UPDATE and DELETE of a few rows, where no Spark job scans or writes: Arrow reads the rows, this process writes the events.

A Spark job takes some tenths of a second, however few rows it changes. This path is for small tables, and for
conditions that Arrow evaluates exactly as Spark does; all other statements are jobs. New values of an UPDATE are always
Spark's. Columns that it does not set never leave Arrow.

With a local master this process has the processors that jobs would have, and Arrow decodes ORC faster than Spark. Tables
may then be larger.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from hiveacid.config import setting_definitions
from hiveacid.core.format.bucket_property import BucketProperty, decode
from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.types import Primitive, parse_type
from hiveacid.core.schema.virtual_columns import ROW_ID
from hiveacid.errors import CatalogError, StatementError, UnsupportedFeatureError
from hiveacid.orc.splicing import StripeBlock, file_of
from hiveacid.orc.stored_values import arrow_schema, has_early_fractions
from hiveacid.orc.writing import RecordKeys, write_delete_events, write_rows
from hiveacid.spark.formats.expressions import Expression
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.acid_events import StagedKind, StagingTarget
from hiveacid.spark.write.arrow_assignments import COMPUTED, compute_assignments
from hiveacid.spark.write.publish import StagedFile
from hiveacid.spark.write.task_reports import TaskReport
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_casts import single_batch
from hiveacid.table.arrow_read.conditions import parse_condition
from hiveacid.table.arrow_read.scan import Selection, read_batches, reading_threads
from hiveacid.table.arrow_read.snapshot import Snapshot, take_snapshot
from hiveacid.table.context import Context
from hiveacid.table.partitions import PartitionValues, partitions_of
from hiveacid.table.write.constraints import columns_set_to_default, limits_rows
from hiveacid.transactions.transaction import Transaction

_MAX_PARTITIONS = 1000
# Files are read one after the other, and each request to a remote file system takes some 20 ms.
_MAX_LOCAL_FILES, _MAX_REMOTE_FILES = 500, 8
_MAX_DELETED, _MAX_UPDATED = 1_000_000, 300_000  # rows
_MAX_SELECTED_BYTES = 256 << 20  # of the selected rows in Arrow's memory
_LOCAL_FACTOR = 16
_COMPARED_ALIKE = frozenset(
    {"tinyint", "smallint", "int", "bigint", "decimal", "string", "varchar", "boolean", "date"}
)
_TEXTS = frozenset({"string", "varchar"})
# Digits of decimals that Spark compares with each other and with whole numbers without rounding.
_NARROW_DECIMAL = 18
# Text whose meaning depends on Spark's settings: quotes, backslashes, ${variables}, numbers with an exponent. Spark
# evaluates LIKE by Java's regular expressions. Numbers of 19 digits and more may be decimals that Spark rounds.
_DEPENDS_ON_SPARK = re.compile(r'["\\]|\$\{|\d[eE]|\d{19}|\blike\b', re.IGNORECASE)
# Subqueries may be large, and functions such as input_file_name() are about Spark's scan.
_NEEDS_SCAN = re.compile("select|input_file", re.IGNORECASE)
_PMOD = re.compile("pmod", re.IGNORECASE)
_ARROW_FRAMES = (4, 0)  # the first Spark that takes Arrow tables and returns them
_KEY = ["writeid", "bucketid", "rowid"]


@dataclass(frozen=True)
class SelectedRows:
    """Selected rows of one partition. ``rows``: an Arrow table of ``ROW__ID`` and, for an UPDATE, all columns."""

    partition: PartitionValues
    rows: Any


def rows_to_delete(
    context: Context, table: TableDefinition, txn: Transaction, where: Expression | None, alias: str | None
) -> list[SelectedRows] | None:
    """Return the rows that a DELETE selects; None if the statement has to be a job."""
    try:
        return _select(context, table, txn, where, alias, ())
    except _LEFT_TO_SPARK:
        return None


def rows_to_update(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    assignments: Mapping[str, Expression],
    where: Expression | None,
    alias: str | None,
) -> list[SelectedRows] | None:
    """Return the rows that an UPDATE selects, with their new values; None if the statement has to be a job.

    Raises DataError for a value that does not fit its column.
    """
    if not _can_take_new_values(context, table, assignments):
        return None
    try:
        selected = _select(context, table, txn, where, alias, tuple(table.column_names))
        if selected is None:
            return None
        return _with_new_values(context, table, selected, assignments, alias)
    except _LEFT_TO_SPARK:
        return None


# Spark carries out the statement, or has the better error.
_LEFT_TO_SPARK = (StatementError, CatalogError, UnsupportedFeatureError, pa.ArrowException)


def _can_take_new_values(
    context: Context, table: TableDefinition, assignments: Mapping[str, Expression]
) -> bool:
    """Tell whether this process may take the new values from Spark, and write them."""
    types = {column.name: column.type for column in table.columns}
    return (
        context.facts.version >= _ARROW_FRAMES
        and table.bucketing is None
        and all(isinstance(value, str) and not _NEEDS_SCAN.search(value) for value in assignments.values())
        and all(_is_one_of(types[name], COMPUTED) for name in assignments)
        and not columns_set_to_default(assignments)
        and not limits_rows(context, table)
    )


def _select(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    where: Expression | None,
    alias: str | None,
    columns: tuple[str, ...],
) -> list[SelectedRows] | None:
    """Return the selected rows; None if there are too many, or Spark could select others."""
    limit = context.settings.get(setting_definitions.SMALL_CHANGES)
    if not limit or not (where is None or isinstance(where, str)):
        return None
    context.facts.require_plain_names()
    selection = _selection(context, table, where, alias, columns)
    if selection is None:
        return None
    partitions = partitions_of(context, table, txn)
    if len(partitions or ()) > _MAX_PARTITIONS:
        return None
    snapshot = take_snapshot(context, table, txn, partitions=partitions, predicate=selection.predicate)
    files = [file.length for part in snapshot.partitions for file in part.rows]
    files += [file.length for part in snapshot.partitions for file in part.events]
    max_files = _MAX_LOCAL_FILES if is_local(table.location) else _MAX_REMOTE_FILES
    max_bytes = limit * _LOCAL_FACTOR if context.facts.local else limit
    if len(files) > max_files or sum(files) > max_bytes:
        return None
    if columns and sum(files) > limit and _count(context, snapshot, selection) > _MAX_UPDATED:
        return None
    return _read(context, snapshot, selection)


def _selection(
    context: Context, table: TableDefinition, where: str | None, alias: str | None, columns: tuple[str, ...]
) -> Selection | None:
    """Return columns and filter of the read; None for a condition whose value could be another one in Spark."""
    if where is None:
        return Selection(columns, row_ids=True, changing=True)
    if _DEPENDS_ON_SPARK.search(where):
        return None
    condition = parse_condition(where, table, alias)
    types = {column.name: column.type for column in (*table.columns, *table.partition_columns)}
    if not all(_is_compared_alike(types[name]) for name in condition.columns):
        return None
    if "'" in where and not all(_is_one_of(types[name], _TEXTS) for name in condition.columns):
        # Otherwise Spark compares some numbers and days with a text as texts, or with NULL if it does not fit.
        ansi = str(context.facts.spark.conf.get("spark.sql.ansi.enabled"))
        if ansi.lower() != "true":
            return None
    if _PMOD.search(where) and not context.facts.means_builtin_pmod():
        return None
    return Selection(columns, condition.predicate, condition.columns, row_ids=True, changing=True)


def _is_one_of(hive: str, names: frozenset[str]) -> bool:
    kind = parse_type(hive)
    return isinstance(kind, Primitive) and kind.name in names


def _is_compared_alike(hive: str) -> bool:
    kind = parse_type(hive)
    return (
        isinstance(kind, Primitive)
        and kind.name in _COMPARED_ALIKE
        and (kind.name != "decimal" or kind.args[0] <= _NARROW_DECIMAL)
    )


def _count(context: Context, snapshot: Snapshot, selection: Selection) -> int:
    """Return the number of selected rows. Only the columns of the condition are read, which takes little time."""
    counted = replace(selection, columns=(), row_ids=False)
    return sum(batch.num_rows for batch in read_batches(context, snapshot, counted, reading_threads()))


def _read(context: Context, snapshot: Snapshot, selection: Selection) -> list[SelectedRows] | None:
    """Return the selected rows by partition; None if there are too many for one process."""
    rows_left, bytes_left = _MAX_UPDATED if selection.columns else _MAX_DELETED, _MAX_SELECTED_BYTES
    selected = []
    for files in snapshot.partitions:
        batches = []
        for batch in read_batches(
            context, replace(snapshot, partitions=(files,)), selection, reading_threads()
        ):
            batches.append(batch)
            rows_left -= batch.num_rows
            bytes_left -= batch.nbytes
            if rows_left < 0 or bytes_left < 0:
                return None
        if batches:
            partition = () if files.partition is None else files.partition.values
            selected.append(SelectedRows(partition, pa.Table.from_batches(batches)))
    return selected


def _with_new_values(
    context: Context,
    table: TableDefinition,
    selected: Sequence[SelectedRows],
    assignments: Mapping[str, Expression],
    alias: str | None,
) -> list[SelectedRows] | None:
    """Return the rows with the values that Spark computes for the assignments; None if Arrow cannot write all values."""
    schema = arrow_schema((*table.columns, *table.partition_columns))
    rows = pa.concat_tables([schema.empty_table(), *(part.rows.select(schema.names) for part in selected)])
    with translate_errors():
        computed = compute_assignments(context.facts, table, rows, assignments, alias or table.name.name)
    for name in assignments:
        column = computed.column(name).cast(schema.field(name).type)
        rows = rows.set_column(schema.get_field_index(name), name, column)
    if any(_needs_pyorc(column, rows.column(column.name)) for column in table.columns):
        return None
    updated, begin = [], 0
    for part in selected:
        count = part.rows.num_rows
        new = rows.slice(begin, count).append_column(ROW_ID, part.rows.column(ROW_ID))
        updated.append(SelectedRows(part.partition, new))
        begin += count
    return updated


def _needs_pyorc(column: Column, values: Any) -> bool:
    """Tell whether Arrow would write a value wrongly."""
    kind = parse_type(column.type)
    return any(has_early_fractions(chunk, kind) for chunk in values.chunks)


def stage_small_change(
    context: Context, verb: str, parts: Sequence[SelectedRows], target: StagingTarget, directory: str
) -> tuple[list[StagedFile], TaskReport]:
    """Write delete events and, of an UPDATE, new rows into a staging directory; the files are in key order.

    A partition has a file of delete events for each bucket, and one file of new rows, in bucket 0.
    """
    files: list[StagedFile] = []

    def stage(kind: StagedKind, partition: PartitionValues, bucket: int, block: StripeBlock) -> None:
        data = file_of(block)
        path = f"{directory}/{len(files)}"
        context.fs.write_bytes(path, data)
        files.append(StagedFile(path, len(data), kind, partition, bucket))

    table, codec, rows = target.table, target.options["compression"], 0
    for part in parts:
        keys = pa.Table.from_arrays(part.rows.column(ROW_ID).combine_chunks().flatten(), names=_KEY)
        for bucket, of_bucket in _by_bucket(keys):
            events = write_delete_events(of_bucket, table.columns, int(target.write_id), codec)
            stage(StagedKind.DELETE, part.partition, bucket, events)
        rows += keys.num_rows
        if verb == "UPDATE":
            new = single_batch(part.rows.select([column.name for column in table.columns]))
            own = BucketProperty(1, 0, target.statements[StagedKind.UPDATED]).encode()
            record_keys = RecordKeys(int(target.write_id), own, 0)
            stage(StagedKind.UPDATED, part.partition, 0, write_rows(new, table.columns, record_keys, codec))
            rows += new.num_rows
    return files, TaskReport((directory,), rows, len(files))


def _by_bucket(keys: Any) -> Iterator[tuple[int, Any]]:
    """Yield each bucket with its keys in order. Raises BadFileError for a bucket property that is none."""
    properties = keys.column("bucketid")
    by_bucket: dict[int, list[int]] = defaultdict(list)
    for value in properties.unique().to_pylist():
        by_bucket[decode(value).bucket].append(value)
    ordered = [(name, "ascending") for name in _KEY]
    for bucket, values in by_bucket.items():
        of_bucket = pc.is_in(properties, pa.array(values, properties.type))
        yield bucket, keys.filter(of_bucket).sort_by(ordered)
