"""UPDATE and DELETE of few rows, which Arrow reads and writes in the driver, without a Spark job.

A job takes some tenths of a second, however few rows it changes. Spark computes new values, and judges the rows wherever
Arrow could select others than Spark. Columns that the statement neither sets nor mentions never leave Arrow.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa

from hiveacid.core.model import Column, TableDefinition
from hiveacid.core.schema.types import is_primitive
from hiveacid.spark.predicates.column_conditions import condition_rows
from hiveacid.spark.session.classic_session import plan_of
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.changes_of_arrow_rows import (
    ASSIGNABLE_TYPES,
    Change,
    columns_to_pass,
    compute_changes,
    require_writable,
)
from hiveacid.table.context import Context
from hiveacid.table.write.arrow_staging import SelectedChanges
from hiveacid.table.write.constraints import columns_set_to_default, limits_rows
from hiveacid.table.write.driver_reads import (
    FALLBACK_ERRORS,
    Condition,
    SelectedRows,
    may_read_in_driver,
    select_rows,
)
from hiveacid.transactions.transaction import Transaction


def changes_in_driver(
    context: Context, table: TableDefinition, txn: Transaction, change: Change
) -> SelectedChanges | None:
    """Return the rows of a change, which Arrow can write; None if the statement has to be a job.

    Raises DataError for a value that does not fit its column.
    """
    try:
        parts = _changed_rows(context, table, txn, change)
    except FALLBACK_ERRORS:
        return None
    return None if parts is None else SelectedChanges(change.verb, parts)


def _changed_rows(
    context: Context, table: TableDefinition, txn: Transaction, change: Change
) -> list[SelectedRows] | None:
    """Return the rows that a statement changes, with their new values; None if it has to be a job."""
    if not may_read_in_driver(context, table) or not _can_take_new_values(context, table, change):
        return None
    env, where = context.env, change.where
    if where is None and not change.assignments:
        return select_rows(context, table, txn, Condition(), ())
    with translate_errors():
        rows = condition_rows(env, table, where, alias=change.alias)
        condition = Condition() if where is None else Condition.of(env, table, plan_of(rows))
        alone = condition.exact and not change.assignments
        passed = [] if alone else columns_to_pass(env, table, rows, change, judged=not condition.exact)
    names = table.column_names if change.assignments else [column.name for column in passed]
    parts = select_rows(context, table, txn, condition, tuple(names))
    if not parts or alone:
        return parts
    left = replace(change, where=None) if condition.exact else change
    return _changed_parts(context, table, parts, passed, left)


def _can_take_new_values(context: Context, table: TableDefinition, change: Change) -> bool:
    """Tell whether the driver may take the new values from Spark and write them by Arrow."""
    if not change.assignments:
        return True
    types = {column.name: column.type for column in table.columns}
    return (
        table.bucketing is None
        and all(is_primitive(types[name], ASSIGNABLE_TYPES) for name in change.assignments)
        and not columns_set_to_default(change.assignments)
        and not limits_rows(context, table)
    )


def _changed_parts(
    context: Context,
    table: TableDefinition,
    parts: Sequence[SelectedRows],
    passed: Sequence[Column],
    change: Change,
) -> list[SelectedRows]:
    """Return those of the rows that Spark selects, with the new values that it computes."""
    rows = pa.concat_tables([part.rows for part in parts])
    with translate_errors():
        positions, values = compute_changes(context.env, table, rows, passed, change)
    rows = rows.take(positions) if change.where is not None else rows
    for column in table.columns if change.assignments else ():
        new = values.column(column.name) if column.name in change.assignments else rows.column(column.name)
        require_writable(column, new)
        index = rows.schema.get_field_index(column.name)
        rows = rows.set_column(index, column.name, new.cast(rows.schema.field(index).type))
    ends = np.searchsorted(positions, np.cumsum([part.rows.num_rows for part in parts]))
    begins = [0, *ends[:-1]]
    return [
        SelectedRows(part.partition, rows.slice(begin, end - begin))
        for part, begin, end in zip(parts, begins, ends, strict=True)
        if end > begin
    ]
