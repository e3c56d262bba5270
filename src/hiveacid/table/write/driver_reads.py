"""Rows that UPDATE, DELETE and MERGE change, read by Arrow in the driver instead of a Spark job, if they are few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa

from hiveacid.config import setting_definitions
from hiveacid.core.model import Partition, TableDefinition
from hiveacid.core.predicates import UNDECIDED, AllOf, Comparison, Operator, Predicate
from hiveacid.errors import BadFileError, CatalogError, StatementError, UnsupportedFeatureError
from hiveacid.spark.formats.driver_frames import Members, max_bytes_in_driver, members_of
from hiveacid.spark.predicates.column_conditions import predicate_of, require_char_padding
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.storage.paths import is_local
from hiveacid.table.arrow_read.files_to_open import (
    PartitionFiles,
    Snapshot,
    possible_partitions,
    take_snapshot,
)
from hiveacid.table.arrow_read.filters import arrow_filter, is_exact
from hiveacid.table.arrow_read.scan import Selection, read_batches, reading_threads
from hiveacid.table.context import Context
from hiveacid.table.partitions import PartitionValues, partitions_of, require_changeable
from hiveacid.transactions.transaction import Transaction

# Files are read one after the other, and each request to a remote file system takes some 20 ms.
_MAX_LOCAL_FILES, _MAX_REMOTE_FILES = 500, 8
# With a local master, jobs have no more processors. They take 35 ms to change the rows of a partition, the driver takes 15.
_MAX_FILES_WITH_LOCAL_MASTER = 20_000
_MAX_ROWS = 1_000_000  # that an UPDATE or DELETE may select
_MAX_JUDGED_ROWS = 100_000  # that Spark judges about as fast as it would scan them
_ROW_BYTES = 100  # that a row takes in the JVM besides its values
# With a local master the driver has all cores, and Arrow decodes ORC faster than Spark: tables may be larger.
_LOCAL_FACTOR = 16
_ALL_ROWS = AllOf(())
FALLBACK_ERRORS = (StatementError, CatalogError, UnsupportedFeatureError, BadFileError, pa.ArrowException)
"""Errors after which the statement runs as a Spark job, which succeeds or raises a more precise error."""


@dataclass(frozen=True)
class SelectedRows:
    """Selected rows of one partition. ``rows``: an Arrow table of ``ROW__ID`` and the columns that were asked for."""

    partition: PartitionValues
    rows: Any


@dataclass(frozen=True)
class Condition:
    """A condition that Spark has analysed, as predicates for Arrow; without one, all rows are selected.

    ``predicate``: true for at least the selected rows. ``exact``: for no others, after `with_members`. ``members``: of its
    subqueries; ``exact_predicate`` puts their values into the predicate.
    """

    predicate: Predicate = _ALL_ROWS
    exact: bool = True
    members: Sequence[Members] = ()
    exact_predicate: Callable[[Iterable[Predicate]], Predicate] | None = None

    @classmethod
    def of(cls, env: SparkEnvironment, table: TableDefinition, plan: Any) -> Condition:
        """Return the condition in a plan of `condition_rows`."""
        members: list[Members] = []

        def computed_later(node: Any) -> Predicate:
            found = members_of(env, node)
            members.extend([] if found is None else [found])
            return UNDECIDED if found is None else Comparison(found.column, Operator.IN)

        predicate = predicate_of(table, plan, computed_later)
        exact = is_exact(predicate, table)
        if not members:
            return cls(predicate, exact)

        def put(values: Iterable[Predicate]) -> Predicate:
            remaining = iter(values)
            return predicate_of(table, plan, lambda _: next(remaining))

        return cls(predicate_of(table, plan), exact, members, put)

    def with_members(self) -> Predicate:
        """Compute the members of subqueries, and return the exact predicate."""
        if self.exact_predicate is None or not self.exact:
            return self.predicate
        return self.exact_predicate([members.predicate() for members in self.members])


def select_rows(
    context: Context,
    table: TableDefinition,
    txn: Transaction,
    condition: Condition,
    columns: tuple[str, ...],
) -> list[SelectedRows] | None:
    """Return the rows that a condition may select; None if they are too many for the driver.

    ``columns``: to read besides ``ROW__ID``. Raises an error of `FALLBACK_ERRORS`.
    """
    selection = Selection(columns, row_ids=True, for_change=True)
    listed = snapshot_for_driver(context, table, txn, arrow_filter(table, condition.predicate).predicate)
    if listed is None:
        return None
    snapshot, size = listed
    found = arrow_filter(table, condition.with_members())
    selection = replace(selection, predicate=found.predicate, filter_columns=found.columns)
    max_rows = _MAX_ROWS if condition.exact else _MAX_JUDGED_ROWS
    # Reading all columns of a large table only to find too many rows would take long: count them first.
    is_large = size > context.settings.get(setting_definitions.SMALL_CHANGES)
    if columns and is_large and _count(context, snapshot, selection) > max_rows:
        return None
    return read_selected(context, snapshot, [(files, selection) for files in snapshot.partitions], max_rows)


def may_read_in_driver(context: Context, table: TableDefinition | None = None) -> bool:
    """Tell whether the settings allow reads in the driver; ``table``: whose rows conditions select.

    Raises UnsupportedFeatureError as `require_plain_names` and `require_char_padding`.
    """
    context.env.require_plain_names()
    if table is not None:
        require_char_padding(context.env.spark, table)
    return bool(context.settings.get(setting_definitions.SMALL_CHANGES)) and not context.env.case_sensitive


def snapshot_for_driver(
    context: Context, table: TableDefinition, txn: Transaction, predicate: Any
) -> tuple[Snapshot, int] | None:
    """Return the files to read for a filter, and their bytes; None if they are too many or too large for the driver.

    Raises UnsupportedFeatureError as `require_changeable`.
    """
    partitions: Sequence[Partition] | None = partitions_of(context, table, txn)
    max_local = _MAX_FILES_WITH_LOCAL_MASTER if context.env.local else _MAX_LOCAL_FILES
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
    max_bytes *= _LOCAL_FACTOR if context.env.local else 1
    return (snapshot, sum(lengths)) if len(lengths) <= max_files and sum(lengths) <= max_bytes else None


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
    rows_left, bytes_left = max_rows, max_bytes_in_driver(context.env)
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
