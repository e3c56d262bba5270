"""Enabled constraints of the catalog, applied to the rows that a statement is about to write.

Call these functions under the table's lock: a constraint may be added without any other change of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import DataFrame

from hiveacid.core import model as rules
from hiveacid.core.model import TableDefinition
from hiveacid.errors import ConstraintViolationError
from hiveacid.spark.formats.expressions import DEFAULT, Expression
from hiveacid.spark.write.column_casts import check_not_null_changed_rows, check_not_null_rows
from hiveacid.table.context import Context


def constrain_insert(
    context: Context,
    table: TableDefinition,
    rows: DataFrame,
    static: Mapping[str, str | None],
    left_out: Collection[str],
) -> DataFrame:
    """Return new rows with a check that fails the job if they violate NOT NULL.

    ``static``: values of partition columns that the rows don't have. ``left_out``: columns that take their default.
    Raises ConstraintViolationError (a static value), UnsupportedFeatureError (a CHECK, a DEFAULT that is needed).
    """
    constraints = _enabled_constraints(context, table, left_out)
    if not constraints:
        return rows
    for column, constraint in rules.not_null_columns(constraints).items():
        if column in static and static[column] is None:
            raise ConstraintViolationError(rules.null_violation(table.name, constraint))
    return check_not_null_rows(table, rows, constraints)


def constrain_changes(
    context: Context, table: TableDefinition, changes: DataFrame, left_out: Collection[str] = ()
) -> DataFrame:
    """Return the changes of an UPDATE or MERGE with a check that fails the job if a new row violates NOT NULL.

    Raises UnsupportedFeatureError (a CHECK, a DEFAULT that is needed).
    """
    constraints = _enabled_constraints(context, table, left_out)
    return check_not_null_changed_rows(table, changes, constraints) if constraints else changes


def _enabled_constraints(
    context: Context, table: TableDefinition, left_out: Collection[str]
) -> Sequence[rules.Constraint]:
    """Return the constraints, none of which is a CHECK or a DEFAULT of a column that is left out."""
    constraints = context.catalog.enabled_constraints(table.name)
    rules.require_no_check(table.name, constraints)
    rules.require_no_default(table.name, constraints, left_out)
    return constraints


def columns_set_to_default(values: Mapping[str, Expression]) -> set[str]:
    """Return the columns that a statement sets to DEFAULT."""
    return {column for column, value in values.items() if isinstance(value, str) and value == DEFAULT}


def limits_rows(context: Context, table: TableDefinition) -> bool:
    """Tell whether the table has a constraint that rows must satisfy (NOT NULL or CHECK)."""
    return any(
        constraint.kind is not rules.ConstraintKind.DEFAULT
        for constraint in context.catalog.enabled_constraints(table.name)
    )
