"""Rows of a small UPDATE or DELETE, which Arrow reads in the driver instead of a Spark job.

A Spark job takes some tenths of a second, however few rows it changes. This path is for small tables, and for
conditions that Arrow evaluates exactly as Spark does; all other statements are jobs. Spark computes the new values of
an UPDATE. Columns that it does not set never leave Arrow.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import pyarrow as pa

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import TableDefinition
from hiveacid.core.schema.types import is_primitive
from hiveacid.orc.stored_values import arrow_schema
from hiveacid.spark.formats.expressions import Expression
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.write.arrow_assignments import ASSIGNABLE_TYPES, compute_assignments
from hiveacid.table.context import Context
from hiveacid.table.write.constraints import columns_set_to_default, limits_rows
from hiveacid.table.write.driver_reads import FALLBACK_ERRORS, SelectedRows, select_rows
from hiveacid.transactions.transaction import Transaction

# Subqueries may be large, and functions such as input_file_name() are about Spark's scan.
_NEEDS_SCAN = re.compile("select|input_file", re.IGNORECASE)


def rows_to_delete(
    context: Context, table: TableDefinition, txn: Transaction, where: Expression | None, alias: str | None
) -> list[SelectedRows] | None:
    """Return the rows that a DELETE selects; None if the statement has to be a job."""
    try:
        return select_rows(context, table, txn, where, alias, ())
    except FALLBACK_ERRORS:
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
        selected = select_rows(context, table, txn, where, alias, tuple(table.column_names))
        if selected is None:
            return None
        return _with_new_values(context, table, selected, assignments, alias)
    except FALLBACK_ERRORS:
        return None


def _can_take_new_values(
    context: Context, table: TableDefinition, assignments: Mapping[str, Expression]
) -> bool:
    """Tell whether the driver may take the new values from Spark and write them by Arrow."""
    types = {column.name: column.type for column in table.columns}
    return (
        table.bucketing is None
        and all(isinstance(value, str) and not _NEEDS_SCAN.search(value) for value in assignments.values())
        and all(is_primitive(types[name], ASSIGNABLE_TYPES) for name in assignments)
        and not columns_set_to_default(assignments)
        and not limits_rows(context, table)
    )


def _with_new_values(
    context: Context,
    table: TableDefinition,
    selected: Sequence[SelectedRows],
    assignments: Mapping[str, Expression],
    alias: str | None,
) -> list[SelectedRows]:
    """Return the selected rows with the new values that Spark computes."""
    schema = arrow_schema(table.all_columns)
    rows = pa.concat_tables([schema.empty_table(), *(part.rows.select(schema.names) for part in selected)])
    with translate_errors():
        computed = compute_assignments(context.facts, table, rows, assignments, alias or table.name)
    for name in assignments:
        column = computed.column(name).cast(schema.field(name).type)
        rows = rows.set_column(schema.get_field_index(name), name, column)
    updated, begin = [], 0
    for part in selected:
        count = part.rows.num_rows
        new = rows.slice(begin, count).append_column(ROW_ID, part.rows.column(ROW_ID))
        updated.append(SelectedRows(part.partition, new))
        begin += count
    return updated
