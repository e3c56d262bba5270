"""Fit rows to a table: the right columns, in the table's order, cast to its types, and checked for NOT NULL and CHECK.

The checks are part of the plan that writes the rows, so a violation fails the job.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from hiveacid.core.model import DEFAULT_PARTITION, Constraint, TableDefinition
from hiveacid.core.schema.constraints import TEXTS, checks, not_null_columns, violation
from hiveacid.core.schema.types import is_primitive, parse_type, quote_name
from hiveacid.errors import SchemaMismatchError, did_you_mean_any, no_such_column
from hiveacid.spark.formats.expressions import cast, named, parenthesised, renamed, selected
from hiveacid.spark.formats.types import assignment_cast, column_type, store_cast
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.write.sort_and_stage import ACTION, Action

_WRITES = f"{ACTION} IN ({int(Action.UPDATE)}, {int(Action.INSERT)})"


def fit_columns(
    table: TableDefinition,
    frame: DataFrame,
    static: Mapping[str, str | None],
    columns: Sequence[str] | None,
    *,
    by_name: bool,
    defaults: Mapping[str, str] | None = None,
) -> DataFrame:
    """Return the rows with the table's columns: names, order, types; columns not given have their ``defaults`` (SQL), or NULL.

    ``static``: partition columns that the rows don't have. ``columns``: the table's columns that the frame's columns
    belong to, by position (default: all). ``by_name``: match the frame's names instead. Raises NoSuchColumnError,
    SchemaMismatchError.
    """
    wanted = [c for c in table.all_columns if c.name not in static]
    given = _given_names(table, frame, [c.name for c in wanted], columns, by_name=by_name)
    frame = frame if frame.columns == given else renamed(frame, given)
    absent = {name: text for name, text in (defaults or {}).items() if name not in given}
    if absent:
        added = [named(parenthesised(text), name) for name, text in absent.items()]
        frame, given = selected(frame, [*map(quote_name, given), *added]), [*given, *absent]
    fields = dict(zip(given, frame.schema.fields, strict=True))
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


def empty_rows(env: SparkEnvironment, table: TableDefinition) -> DataFrame:
    """Return no rows with the table's data columns."""
    nulls = [F.lit(None).cast(column_type(c)).alias(c.name) for c in table.columns]
    return env.spark.range(0).select(*nulls).where("false")


def constrained_rows(
    table: TableDefinition, frame: DataFrame, constraints: Sequence[Constraint]
) -> DataFrame:
    """Return new rows; one that violates a NOT NULL or CHECK fails the job (``[HIVEACID_CONSTRAINT]``).

    A projection, not a filter: Spark moves filters below joins, where rows that are never written would fail, too.
    """
    frame = selected(frame, _as_read(table, frame.columns))
    return selected(frame, _checked_columns(table, frame.columns, constraints))


def constrained_changes(
    table: TableDefinition, changes: DataFrame, constraints: Sequence[Constraint]
) -> DataFrame:
    """Return changes for `stage_changed_rows`, with the same checks on updated and inserted rows."""
    names = table.column_names
    keys = [quote_name(name) for name in changes.columns if name not in names]
    changes = selected(changes, [*keys, *_as_read(table, names)])
    return selected(changes, [*keys, *_checked_columns(table, names, constraints, _WRITES)])


def _as_read(table: TableDefinition, names: Sequence[str]) -> Iterator[str]:
    """Yield the texts of columns with the values that readers will see: the empty text of a partition is NULL."""
    texts = {c.name: c.type for c in table.partition_columns if is_primitive(c.type, TEXTS)}
    for name in names:
        value = quote_name(name)
        whole = f"rtrim({value})" if texts.get(name, "").startswith("char") else value
        empty = f"{whole} IN ('', '{DEFAULT_PARTITION}')"
        yield f"if({empty}, NULL, {value}) AS {value}" if name in texts else value


def _checked_columns(
    table: TableDefinition, names: Sequence[str], constraints: Sequence[Constraint], when: str = "true"
) -> Iterator[str]:
    """Yield the texts of columns; that of the first one evaluates the CHECKs, of which NULL passes."""
    not_null = not_null_columns(constraints)
    for number, name in enumerate(names):
        checked = value = quote_name(name)
        if name in not_null:
            checked = f"coalesce({value}, {_failure(table, not_null[name])})"
        for check in checks(constraints) if number == 0 else ():
            violated = f"NOT {parenthesised(check.expression)}"
            checked = f"CASE WHEN {violated} THEN {_failure(table, check)} ELSE {checked} END"
        yield value if checked == value else str(named(f"if({when}, {checked}, {value})", name))


def _failure(table: TableDefinition, constraint: Constraint) -> str:
    message = f"[HIVEACID_CONSTRAINT] {violation(table.name, constraint)}"
    # Settings change how a quote in a literal is written, and Spark replaces ${variables}: such characters come by number.
    text = re.sub(r"['\\$]", lambda found: f"', chr({ord(found[0])}), '", message)
    return f"raise_error(concat('{text}'))"
