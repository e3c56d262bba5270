"""Time travel in queries: points of ``AS OF``, rows of the change functions and of the metadata tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType

from pyspark.sql import DataFrame

from hiveacid.core.model import TableName, WriteId
from hiveacid.errors import ConfigError, NoSuchTableError, StatementError
from hiveacid.spark.parser.lexer import TokenKind, string_value
from hiveacid.spark.parser.relations import Relation
from hiveacid.spark.predicates import constant_expressions
from hiveacid.spark.session.temporary_views import exists_in_spark
from hiveacid.sql.binding.change_feed_calls import HIVEACID_CHANGES, Argument, ChangeCall
from hiveacid.sql.binding.predicates import Predicate
from hiveacid.sql.binding.source_positions import EditedText, errors_at, spark_errors_at_source
from hiveacid.sql.statements.values import SPARK_CATALOG, Slice
from hiveacid.table.context import Context
from hiveacid.table.inspect import Inspect
from hiveacid.table.read.change_feed import Changes, FeedPoint
from hiveacid.table.read.time_travel import Instant, PointInTime
from hiveacid.transactions.transaction import Transaction

_KEYWORD_VALUES = MappingProxyType({"NULL": None, "TRUE": True, "FALSE": False})
METADATA_TABLES = frozenset({"history", "snapshots", "files", "deltas", "partitions"})
"""The tables of metadata that each table has: ``SELECT * FROM db.t.history`` shows ``t.inspect.history()``."""
_MAX_PARTS = 3  # database, table, metadata table


def resolve_as_of(context: Context, source: Slice, relation: Relation) -> PointInTime | None:
    """Return the point of a relation's AS OF clause; None without one, which means the statement's snapshot.

    Raises StatementError with the position of a value that is not a write id or timestamp.
    """
    travel = relation.travel
    if travel is None:
        return None
    line, column = source.position(travel.start)
    value = travel.value.strip()
    if travel.kind == "VERSION":
        number = value.strip("'\"")
        if not number.isdecimal():
            raise StatementError(f"VERSION AS OF takes a write id, not {value}", line=line, column=column)
        return WriteId(int(number))
    start = source.text.find(value, travel.start)
    return Instant(_millis(context, source.part(start, start + len(value))))


def _millis(context: Context, expression: Slice) -> int:
    with spark_errors_at_source(EditedText(expression), before="SELECT unix_millis(CAST(("):
        millis = constant_expressions.evaluate_millis(context.facts, expression.text)
    if millis is None:
        raise StatementError(
            f"{expression.text} is not a timestamp", line=expression.line, column=expression.column
        )
    return millis


@dataclass(frozen=True)
class TableSource:
    """Table, or metadata table of a table, whose rows a temporary view shows.

    ``metadata``: one of `METADATA_TABLES`; None: the table itself. ``virtual_columns``: include these columns. ``as_of``: the point of time travel. ``predicate``: the query needs only
    rows that fulfil it. ``counted``: the query needs only the number of rows.
    """

    table: TableName
    metadata: str | None = None
    virtual_columns: bool = False
    as_of: PointInTime | None = None
    predicate: Predicate | None = None
    counted: bool = False


def find_metadata_table(context: Context, parts: Sequence[str]) -> TableSource | None:
    """Return the metadata table that a name refers to; None for other names, and if Spark has a table of that name.

    The caller first looks for a table of the hiveacid catalog with this name.
    """
    if len(parts) > _MAX_PARTS and parts[0] == SPARK_CATALOG:
        parts = parts[1:]
    *owner, metadata = parts
    if metadata not in METADATA_TABLES or len(owner) not in (1, 2):
        return None
    name = TableName(owner[0] if len(owner) > 1 else context.database, owner[-1])
    if context.catalog.get_table(name) is None or exists_in_spark(context.facts, parts):
        return None
    return TableSource(name, metadata)


def metadata_frame(context: Context, source: TableSource, txn: Transaction | None) -> DataFrame:
    """Return the rows of a metadata table."""
    frame: DataFrame = getattr(Inspect(context, source.table, txn), str(source.metadata))()
    return frame


def change_frame(context: Context, source: Slice, call: ChangeCall, txn: Transaction | None) -> DataFrame:
    """Return the rows of a call of a change function.

    Raises NoSuchTableError, StatementError, ConfigError and NotEnoughHistoryError.
    """
    arguments = {name: _value(context, source, argument) for name, argument in call.arguments.items()}
    line, column = source.position(call.start)
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
        return Instant(constant_expressions.epoch_millis(context.facts, start) - 1)
    return max(start - 1, 0) if isinstance(start, int) else None


def _columns(value: constant_expressions.ConstantValue) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(name, str) for name in value):
        return value
    raise ConfigError("key takes the names of columns, as texts")


def _value(context: Context, source: Slice, argument: Argument) -> constant_expressions.ConstantValue:
    """Return the value of an argument, a constant expression; literals need no Spark."""
    first, *others = argument.tokens
    if not others:
        if first.kind is TokenKind.STRING:
            return string_value(first.text)
        if first.kind is TokenKind.NUMBER and first.text.isdecimal():
            return int(first.text)
        if first.keyword in _KEYWORD_VALUES:
            return _KEYWORD_VALUES[first.keyword]
    expression = source.part(argument.start, argument.start + len(argument.text))
    with spark_errors_at_source(EditedText(expression), before="SELECT ("):
        return constant_expressions.evaluate_constant(context.facts, expression.text)
