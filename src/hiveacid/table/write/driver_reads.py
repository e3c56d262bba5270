"""Rows that UPDATE, DELETE and MERGE change, read by Arrow in the driver instead of a Spark job, if they are few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hiveacid.config import setting_definitions
from hiveacid.core.model import Partition, TableDefinition
from hiveacid.errors import BadFileError, CatalogError, StatementError, UnsupportedFeatureError
from hiveacid.spark.formats.driver_frames import max_bytes_in_driver
from hiveacid.spark.formats.expressions import Expression
from hiveacid.spark.predicates.column_conditions import require_char_padding
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.conditions import Condition
from hiveacid.table.arrow_read.files_to_open import (
    PartitionFiles,
    Snapshot,
    possible_partitions,
    take_snapshot,
)
from hiveacid.table.arrow_read.scan import Selection, read_batches, reading_threads
from hiveacid.table.context import Context
from hiveacid.table.partitions import PartitionValues, partitions_of, require_changeable
from hiveacid.table.write.simple_conditions import simple_condition
from hiveacid.transactions.transaction import Transaction

# Files are read one after the other, and each request to a remote file system takes some 20 ms.
_MAX_LOCAL_FILES, _MAX_REMOTE_FILES = 500, 8
# With a local master, jobs have no more processors. They take 35 ms to change the rows of a partition, the driver takes 15.
_MAX_FILES_WITH_LOCAL_MASTER = 20_000
_MAX_ROWS = 1_000_000  # that an UPDATE or DELETE may select
_ROW_BYTES = 100  # that a row takes in the JVM besides its values
# With a local master the driver has all cores, and Arrow decodes ORC faster than Spark: tables may be larger.
_LOCAL_FACTOR = 16
FALLBACK_ERRORS = (StatementError, CatalogError, UnsupportedFeatureError, BadFileError, pa.ArrowException)
"""Errors after which the statement runs as a Spark job, which succeeds or raises a more precise error."""


@dataclass(frozen=True)
class SelectedRows:
    """Selected rows of one partition. ``rows``: an Arrow table of ``ROW__ID`` and the columns that were asked for."""

    partition: PartitionValues
    rows: Any


def select_rows(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    where: Expression | None,
    alias: str | None,
    columns: tuple[str, ...],
) -> list[SelectedRows] | None:
    """Return the rows that a condition selects; None if they are too many, or Spark could select other rows.

    ``columns``: to read besides ``ROW__ID``: none for a DELETE, all for an UPDATE. Raises an error of `FALLBACK_ERRORS`.
    """
    if not may_read_in_driver(context, table):
        return None
    selection, simple = Selection(columns, row_ids=True, for_change=True), None
    if where is not None:
        simple = simple_condition(context.facts, table, where, alias)
        if simple is None:
            return None
        selection = _filtered(selection, simple.condition)
    listed = snapshot_for_driver(context, table, txn, selection.predicate)
    if listed is None:
        return None
    snapshot, size = listed
    if simple is not None:
        selection = _filtered(selection, simple.with_values(context.facts, table, alias))
    # Reading all columns of a large table only to find too many rows would take long: count them first.
    is_large = size > context.settings.get(setting_definitions.SMALL_CHANGES)
    if columns and is_large and _count(context, snapshot, selection) > _MAX_ROWS:
        return None
    selections = [(files, selection) for files in snapshot.partitions]
    return read_selected(context, snapshot, selections, _MAX_ROWS)


def may_read_in_driver(context: Context, table: TableDefinition | None = None) -> bool:
    """Tell whether the settings allow reads in the driver; ``table``: whose rows conditions select.

    Raises UnsupportedFeatureError as `require_plain_names` and `require_char_padding`.
    """
    context.facts.require_plain_names()
    if table is not None:
        require_char_padding(context.facts.spark, table)
    return bool(context.settings.get(setting_definitions.SMALL_CHANGES)) and not context.facts.case_sensitive


def snapshot_for_driver(
    context: Context, table: TableDefinition, txn: Transaction, predicate: Any
) -> tuple[Snapshot, int] | None:
    """Return the files to read for a filter, and their bytes; None if they are too many or too large for the driver.

    Raises UnsupportedFeatureError as `require_changeable`.
    """
    partitions: Sequence[Partition] | None = partitions_of(context, table, txn)
    max_local = _MAX_FILES_WITH_LOCAL_MASTER if context.facts.local else _MAX_LOCAL_FILES
    max_files = max_local if is_local(table.location) else _MAX_REMOTE_FILES
    if partitions is not None:
        partitions = possible_partitions(table, partitions, predicate)
        if len(partitions) > max_files:  # most have a file, and listing them would take time
            return None
    snapshot = take_snapshot(context, table, txn, partitions=partitions)
    require_changeable(context, table, (part.partition for part in snapshot.partitions))
    lengths = [file.length for part in snapshot.partitions for file in part.rows]
    lengths += [file.length for part in snapshot.partitions for file in part.events]
    max_bytes = context.settings.get(setting_definitions.SMALL_CHANGES)
    max_bytes *= _LOCAL_FACTOR if context.facts.local else 1
    return (snapshot, sum(lengths)) if len(lengths) <= max_files and sum(lengths) <= max_bytes else None


def _filtered(selection: Selection, condition: Condition) -> Selection:
    return replace(selection, predicate=condition.predicate, filter_columns=condition.columns)


def _count(context: Context, snapshot: Snapshot, selection: Selection) -> int:
    """Return the number of selected rows. Only the columns of the condition are read."""
    counted = replace(selection, columns=(), row_ids=False)
    return sum(batch.num_rows for batch in read_batches(context, snapshot, counted, reading_threads()))


def read_selected(
    context: Context,
    snapshot: Snapshot,
    selections: Iterable[tuple[PartitionFiles, Selection]],
    max_rows: int,
) -> list[SelectedRows] | None:
    """Return the selected rows by partition; None if they are more than ``max_rows`` or take more than `max_bytes_in_driver`.

    ``selections``: partitions of the snapshot, each with the rows to select there.
    """
    rows_left, bytes_left = max_rows, max_bytes_in_driver(context.facts)
    selected = []
    for files, selection in selections:
        part = replace(snapshot, partitions=(files,))
        batches = []
        for batch in read_batches(context, part, selection, reading_threads()):
            batches.append(batch)
            rows_left -= batch.num_rows
            bytes_left -= batch.nbytes + _ROW_BYTES * batch.num_rows
            if rows_left < 0 or bytes_left < 0:
                return None
        if batches:
            partition = () if files.partition is None else files.partition.values
            selected.append(SelectedRows(partition, pa.Table.from_batches(batches)))
    return selected
