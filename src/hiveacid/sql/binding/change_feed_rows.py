"""Rows of a call of a change function: its arguments evaluated and checked, its changes as a DataFrame."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame

from hiveacid.errors import ConfigError, NoSuchTableError, StatementError
from hiveacid.spark.predicates import constant_expressions
from hiveacid.sql.binding.change_feed_calls import HIVEACID_CHANGES, ChangeCall
from hiveacid.sql.binding.source_positions import errors_at, spark_errors_at_source
from hiveacid.sql.statements.values import Slice
from hiveacid.table.context import Context
from hiveacid.table.read.change_feed import Changes, FeedPoint
from hiveacid.table.read.history_and_time_travel import Instant
from hiveacid.transactions.transaction import Transaction


def change_frame(context: Context, source: Slice, call: ChangeCall, txn: Transaction | None) -> DataFrame:
    """Return the rows of a call of a change function.

    Raises NoSuchTableError, StatementError, ConfigError and NotEnoughHistoryError.
    """
    line, column = call.line, call.column
    arguments = {name: _value(context, source, argument) for name, argument in call.arguments.items()}
    if not isinstance(arguments["table"], str):
        raise StatementError("the table's name is not a string", line=line, column=column)
    name = context.resolve(arguments["table"])
    first, last = ("after", "until") if call.function == HIVEACID_CHANGES else ("start", "end")
    with errors_at(line, column):
        if context.catalog.get_table(name) is None:
            raise NoSuchTableError(f"table {name} does not exist: see SHOW TABLES")
        after: FeedPoint = _checked_point(arguments[first], first)
        until = _checked_point(arguments.get(last), last)
        if call.function != HIVEACID_CHANGES:
            after = _point_before(context, _checked_point(arguments[first], first))
        key = tuple(key_column for part in call.key for key_column in _columns(_value(context, source, part)))
        flags = _flag(arguments, "net"), _flag(arguments, "row_ids")
        return Changes(context, name, txn, after, until, key, *flags).to_df()


def _flag(arguments: Mapping[str, constant_expressions.ConstantValue], name: str) -> bool:
    value = arguments.get(name)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{name} is true or false, not {value!r}")
    return bool(value)


def _checked_point(value: constant_expressions.ConstantValue, name: str) -> int | str | datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | str | datetime | None):
        raise ConfigError(f"{name} is not a write id, text or timestamp")
    return value


def _point_before(context: Context, start: int | str | datetime | None) -> int | Instant | None:
    """Return the point just before ``start``, so that the changes of ``start`` are included."""
    if isinstance(start, str | datetime):
        return Instant(constant_expressions.epoch_millis(context.env, start) - 1)
    return max(start - 1, 0) if isinstance(start, int) else None


def _columns(value: constant_expressions.ConstantValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise ConfigError("key takes the names of columns, as texts")


def _value(context: Context, source: Slice, expression: Any) -> constant_expressions.ConstantValue:
    """Return the value of an argument, a constant expression; literals need no Spark."""
    if expression.nodeName() == "Literal":
        kind = str(expression.dataType().simpleString())
        if kind == "string":
            return str(expression.value().toString())
        if kind in {"int", "bigint", "boolean", "void"}:
            value: int | None = expression.value()
            return value
    start = expression.origin().startIndex()
    text = source.part(int(start.get()) if start.isDefined() else 0)
    with spark_errors_at_source(Slice(str(expression.sql()), 0, text.line, text.column), before="SELECT ("):
        return constant_expressions.evaluate_constant(context.env, str(expression.sql()))
