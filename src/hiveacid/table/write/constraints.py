"""Constraints of the catalog, applied to the rows that a statement is about to write.

Call these functions under the table's lock: a metastore may add a constraint without any other change of the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from py4j.java_gateway import JavaObject
from pyspark.sql import DataFrame

from hiveacid.core.model import Constraint, ConstraintKind, TableDefinition, TableKind
from hiveacid.core.schema import constraints as rules
from hiveacid.core.schema.surrogate_keys import SurrogateKey
from hiveacid.core.schema.types import is_primitive, parse_type, quote_name
from hiveacid.errors import ConstraintViolationError, HiveAcidError
from hiveacid.spark.formats.expressions import DEFAULT, Expression, parenthesised, selected
from hiveacid.spark.formats.types import store_cast
from hiveacid.spark.parser.lexer import tokenize
from hiveacid.spark.session.classic_session import plan_of, unsteady_expression
from hiveacid.spark.session.environment import SparkEnvironment
from hiveacid.spark.session.error_translation import translate_errors
from hiveacid.spark.session.jvm import java_class, scala_items
from hiveacid.spark.write.changes_of_arrow_rows import has_subquery
from hiveacid.spark.write.column_casts import (
    add_static_partition_columns,
    constrained_changes,
    constrained_rows,
    empty_rows,
    fit_columns,
)
from hiveacid.table.context import Context
from hiveacid.table.write.surrogate_keys import KeyMaker, no_key

_NUMBERS = frozenset({"byte", "short", "integer", "long", "float", "double", "decimal"})


def constrain_insert(
    context: Context, table: TableDefinition, rows: DataFrame, static: Mapping[str, str | None]
) -> DataFrame:
    """Return new rows, of which one that violates a NOT NULL or CHECK fails the job.

    ``static``: values of partition columns that the rows don't have. Raises ConstraintViolationError (a static value),
    UnsupportedFeatureError (a CHECK that Spark would read in another way than Hive).
    """
    constraints = context.catalog.constraints(table)
    if not rules.limits(constraints):
        return rows
    for column, constraint in rules.not_null_columns(constraints).items():
        if column in static and static[column] is None:
            raise ConstraintViolationError(rules.violation(table.name, constraint))
    require_evaluable(context, table, rules.checks(constraints))
    names = rows.columns
    whole = add_static_partition_columns(table, rows, static) if static else rows
    checked = constrained_rows(table, whole, constraints)
    return checked.select(*map(quote_name, names)) if static else checked


def constrain_changes(context: Context, table: TableDefinition, changes: DataFrame) -> DataFrame:
    """Return the changes of an UPDATE or MERGE, of which a new row that violates a NOT NULL or CHECK fails the job.

    Raises UnsupportedFeatureError as `constrain_insert` does.
    """
    constraints = context.catalog.constraints(table)
    if not rules.limits(constraints):
        return changes
    require_evaluable(context, table, rules.checks(constraints))
    return constrained_changes(table, changes, constraints)


def default_values(
    context: Context, table: TableDefinition, columns: Collection[str], keys: KeyMaker = no_key
) -> dict[str, str]:
    """Return the values, in SQL, of those ``columns`` that have a DEFAULT. ``keys``: makes the values of SURROGATE_KEY()."""
    constraints = context.catalog.constraints(table) if columns else ()
    found = rules.defaults(constraints, columns)
    asked = [one for one in constraints if one.column in found]
    require_evaluable(context, table, asked)
    return found | {column: keys(column, key) for column, (key, _) in rules.surrogate_keys(asked).items()}


def with_defaults(
    context: Context,
    table: TableDefinition,
    values: Mapping[str, Expression],
    left_out: Collection[str] = (),
    keys: KeyMaker = no_key,
) -> dict[str, Expression]:
    """Return the values of an UPDATE or MERGE with those that are the word DEFAULT, and those of columns ``left_out``."""
    asked = {column for column, value in values.items() if isinstance(value, str) and value == DEFAULT}
    found = default_values(context, table, {*asked, *left_out}, keys)
    return {**values, **{column: str(parenthesised(text)) for column, text in found.items()}}


def limits_rows(context: Context, table: TableDefinition) -> bool:
    """Tell whether the table has a constraint that rows must satisfy (NOT NULL or CHECK)."""
    return rules.limits(context.catalog.constraints(table))


def require_evaluable(context: Context, table: TableDefinition, constraints: Sequence[Constraint]) -> None:
    """Refuse a CHECK or DEFAULT that Spark cannot evaluate, or not as Hive does.

    Raises UnsupportedFeatureError, and Spark's errors for an unknown column or function.
    """
    for constraint in constraints:
        reason = None
        if constraint.enabled and constraint.kind in (ConstraintKind.CHECK, ConstraintKind.DEFAULT):
            try:
                with translate_errors():
                    reason = _reason(context, table, constraint)
            except HiveAcidError as error:
                raise rules.not_evaluated(table.name, constraint, str(error)) from error
        if reason is not None:
            raise rules.not_evaluated(table.name, constraint, reason)


def require_defaults_fit(context: Context, table: TableDefinition, constraints: Sequence[Constraint]) -> None:
    """Raise the error that the first INSERT would raise which needs a DEFAULT that is no value of its column's type."""
    defaults = rules.defaults(constraints, table.column_names)
    defaults |= dict.fromkeys(rules.surrogate_keys(constraints), "NULL")
    if defaults:
        with translate_errors():
            one_row = context.env.spark.range(1).select()
            fit_columns(table, one_row, {}, (), by_name=False, defaults=defaults).collect()


def _reason(context: Context, table: TableDefinition, constraint: Constraint) -> str | None:
    """Return why an expression is refused."""
    env, text, is_check = context.env, constraint.expression, constraint.kind is ConstraintKind.CHECK
    if rules.is_ambiguous(text):
        return rules.AMBIGUOUS
    if not is_check and SurrogateKey.parse(text) is not None:
        types = {column.name: column.type for column in table.columns}
        is_bigint = types.get(constraint.column or "") == "bigint"
        fits = is_bigint and table.kind is not TableKind.PLAIN
        return (
            None
            if fits
            else "SURROGATE_KEY() is for a BIGINT column, other than of partitions, of a transactional table"
        )
    words = {token.name.lower() for token in tokenize(text) if token.is_name}
    if any(is_primitive(column.type, {"char"}) and column.name in words for column in table.all_columns):
        return "Spark compares the blanks at the end of a CHAR"
    empty = empty_rows(env, replace(table, columns=table.all_columns))
    frame = selected(empty if is_check else empty.select(), [parenthesised(text)])
    plan, have = plan_of(frame), frame.schema.fields[0].dataType
    if is_check and have.typeName() != "boolean":
        return f"it is {have.simpleString()}, not boolean"
    unsteady = unsteady_expression(frame) is not None or has_subquery(env, plan)
    if unsteady or plan.nodeName() != "Project" or "over" in words:
        return "it has to be a function of the row alone"
    if _reads_texts_as_numbers(env, plan.expressions().head()):
        return "Hive compares a text with a number in another way: write a CAST"
    if not is_check:
        column = next(one for one in table.all_columns if one.name == constraint.column)
        store_cast("NULL", have, parse_type(column.type), column.name)
    return None


def _reads_texts_as_numbers(env: SparkEnvironment, expression: JavaObject) -> bool:
    """Tell whether Spark adds a cast from a text to a number that the expression does not have."""
    if expression.nodeName() == "Cast" and expression.child().dataType().typeName() == "string":
        written = java_class(env, "org.apache.spark.sql.catalyst.expressions.Cast").USER_SPECIFIED_CAST()
        kind = expression.dataType().typeName().partition("(")[0]
        if kind in _NUMBERS and expression.getTagValue(written).isEmpty():
            return True
    return any(_reads_texts_as_numbers(env, child) for child in scala_items(expression.children()))
