"""Fit rows to a table: the right columns, in the table's order, cast to its types, and checked for NOT NULL.

The checks are part of the plan that writes the rows, so a violation fails the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.format.names import ROW_ID
from hiveacid.core.model import Constraint, TableDefinition, not_null_columns, null_violation
from hiveacid.core.schema.types import parse_type, quote_name
from hiveacid.errors import SchemaMismatchError, did_you_mean_any, no_such_column
from hiveacid.spark.formats.expressions import cast, named, renamed, selected
from hiveacid.spark.formats.types import assignment_cast, column_type, store_cast
from hiveacid.spark.session.capabilities import SparkEnvironment
from hiveacid.spark.write.sort_and_stage import ACTION, Action

_WRITES = f"{ACTION} IN ({int(Action.UPDATE)}, {int(Action.INSERT)})"


def fit_columns(
    table: TableDefinition,
    frame: DataFrame,
    static: Mapping[str, str | None],
    columns: Sequence[str] | None,
    *,
    by_name: bool,
) -> DataFrame:
    """Return the rows with the table's columns: names, order, types; columns not given are NULL.

    ``static``: partition columns that the rows don't have. ``columns``: the table's columns that the frame's columns
    belong to, by position (default: all). ``by_name``: match the frame's names instead. Raises NoSuchColumnError,
    SchemaMismatchError.
    """
    wanted = [c for c in table.all_columns if c.name not in static]
    given = _given_names(table, frame, [c.name for c in wanted], columns, by_name=by_name)
    fields = dict(zip(given, frame.schema.fields, strict=True))
    frame = frame if frame.columns == given else renamed(frame, given)
    values = []
    for c in wanted:
        value = cast("NULL", column_type(c))
        if c.name in fields:
            have, want = fields[c.name].dataType, parse_type(c.type)
            value = store_cast(quote_name(c.name), have, want, c.name, by_name=by_name)
        values.append(named(value, c.name))
    return selected(frame, values)


def _given_names(
    table: TableDefinition,
    frame: DataFrame,
    wanted: Sequence[str],
    columns: Sequence[str] | None,
    *,
    by_name: bool,
) -> list[str]:
    if columns is not None:
        names = [name.lower() for name in columns]
        unknown = [name for name in names if name not in wanted]
        if unknown:
            raise no_such_column(table.name, unknown[0], wanted, purpose=" to insert into")
        if len(set(names)) != len(names):
            raise SchemaMismatchError(f"a column is named twice: {', '.join(names)}")
    elif by_name:
        names = [name.lower() for name in frame.columns]
        if sorted(names) != sorted(wanted):
            missing = [name for name in wanted if name not in names]
            extra = [name for name in names if name not in wanted]
            extra += sorted({name for name in names if name in wanted and names.count(name) > 1})
            raise SchemaMismatchError(
                f"the rows' columns are not those of {table.name}: "
                f"missing {', '.join(missing) or 'none'}, unknown or duplicate {', '.join(extra) or 'none'}"
                f"{did_you_mean_any(extra, missing)}"
            )
    else:
        names = list(wanted)
    if len(frame.columns) != len(names):
        raise SchemaMismatchError(
            f"{len(names)} columns are to be filled ({', '.join(names)}), but the rows have {len(frame.columns)}"
        )
    return names


def as_stored(table: TableDefinition, rows: DataFrame, names: Sequence[str]) -> DataFrame:
    """Return rows whose columns ``names`` have the values that the table stores: cast, cut and padded.

    Keys have to be compared so: the table never holds ``'ab '`` in a VARCHAR(2), nor ``'ab'`` in a CHAR(3).
    """
    columns = {column.name: column for column in table.all_columns if column.name in names}
    values = []
    for field in rows.schema.fields:
        value, column = quote_name(field.name), columns.get(field.name.lower())
        stored = value if column is None else assignment_cast(value, field.dataType, column)
        values.append(named(stored, field.name))
    return selected(rows, values)


def add_static_partition_columns(
    table: TableDefinition, rows: DataFrame, static: Mapping[str, str | None]
) -> DataFrame:
    """Return rows with their static partition columns among the others."""
    columns = [
        F.lit(static[c.name]).cast(column_type(c)).alias(c.name)
        if c.name in static
        else F.col(quote_name(c.name))
        for c in table.all_columns
    ]
    return rows.select(*columns)


def add_missing_columns(table: TableDefinition, rows: DataFrame) -> DataFrame:
    """Return rows with NULL in the table's columns that they lack."""
    have = {name.lower() for name in rows.columns}
    lacking = [
        F.lit(None).cast(column_type(c)).alias(c.name) for c in table.all_columns if c.name not in have
    ]
    return rows.select("*", *lacking)


def empty_rows(env: SparkEnvironment, table: TableDefinition) -> DataFrame:
    """Return no rows with the table's data columns."""
    nulls = [F.lit(None).cast(column_type(c)).alias(c.name) for c in table.columns]
    return env.spark.range(0).select(*nulls).where("false")


def check_not_null_rows(
    table: TableDefinition, frame: DataFrame, constraints: Sequence[Constraint]
) -> DataFrame:
    """Return new rows; one with NULL in a NOT NULL column fails the job (``[HIVEACID_CONSTRAINT]``).

    A projection, not a filter: Spark moves filters below joins, where rows that are never written would fail, too.
    """
    checks = not_null_columns(constraints)
    texts = [_checked_column(table, name, checks.get(name)) for name in frame.columns]
    return selected(frame, texts) if checks else frame


def check_not_null_changed_rows(
    table: TableDefinition, changes: DataFrame, constraints: Sequence[Constraint]
) -> DataFrame:
    """Return changes for `stage_changed_rows`, with the same check on updated and inserted rows."""
    checks = not_null_columns(constraints)
    columns = [column.name for column in table.all_columns]
    texts = [_checked_column(table, name, checks.get(name), _WRITES) for name in columns]
    return selected(changes, [ACTION, ROW_ID, *texts]) if checks else changes


def _checked_column(
    table: TableDefinition, column: str, constraint: Constraint | None, when: str = ""
) -> str:
    value = quote_name(column)
    if constraint is None:
        return value
    message = f"[HIVEACID_CONSTRAINT] {null_violation(table.name, constraint)}"
    # Settings change how a quote in a literal is written, and Spark replaces ${variables}: such characters come by number.
    text = re.sub(r"['\\$]", lambda found: f"', chr({ord(found[0])}), '", message)
    checked = f"coalesce({value}, raise_error(concat('{text}')))"
    return str(named(f"if({when}, {checked}, {value})" if when else checked, column))
