"""The past of tables in queries: values of ``AS OF``, calls of the functions for changes, what is known about a table."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING

from hiveacid.core.model import WriteId
from hiveacid.core.types import position
from hiveacid.errors import ConfigError, NoSuchTableError, StatementError
from hiveacid.spark.instants import Constant, constant_of, epoch_millis, millis_of
from hiveacid.sql.calls import OWN, Argument, Call
from hiveacid.sql.placing import Placed, at, placed, whole_place
from hiveacid.sql.tokens import TokenKind, string_value, tokenize
from hiveacid.sql.values import Slice
from hiveacid.table.changes import Changes
from hiveacid.table.inspect import Inspect
from hiveacid.table.travel import Instant, Past

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from hiveacid.spark.relations import Relation
    from hiveacid.sql.naming import Named
    from hiveacid.table.changes import Point
    from hiveacid.table.context import Context
    from hiveacid.transaction import Transaction

_WORDS = MappingProxyType({"NULL": None, "TRUE": True, "FALSE": False})


def past_of(context: Context, piece: Slice, relation: Relation) -> Past | None:
    """Return the point in the past that a relation is read at; None for the present.

    Raises StatementError, with its place, for what is no write id or timestamp.
    """
    travel = relation.travel
    if travel is None:
        return None
    line, column = whole_place(piece, *position(piece.text, travel.start))
    value = travel.value.strip()
    if travel.kind == "VERSION":
        number = value.strip("'\"")
        if not number.isdecimal():
            raise StatementError(f"VERSION AS OF takes a write id, not {value}", line=line, column=column)
        return WriteId(int(number))
    start = piece.text.find(value, travel.start)
    return Instant(_millis(context, _part(piece, Argument(value, start))))


def _part(piece: Slice, argument: Argument) -> Slice:
    line, column = whole_place(piece, *position(piece.text, argument.start))
    return Slice(argument.text, piece.start + argument.start, line, column)


def _millis(context: Context, expression: Slice) -> int:
    with placed(Placed(expression), before="SELECT unix_millis(CAST(("):
        found = millis_of(context.facts, expression.text)
    if found is None:
        raise StatementError(
            f"{expression.text} is not a timestamp", line=expression.line, column=expression.column
        )
    return found


def about(context: Context, named: Named, txn: Transaction | None) -> DataFrame:
    """Return what is known about a table."""
    frame: DataFrame = getattr(Inspect(context, named.table, txn), str(named.about))()
    return frame


def changes_of(context: Context, piece: Slice, call: Call, txn: Transaction | None) -> DataFrame:
    """Return the changes that a call asks for.

    Raises NoSuchTableError, StatementError, ConfigError and NotEnoughHistoryError.
    """
    given = {name: _value(context, _part(piece, one)) for name, one in call.arguments.items()}
    line, column = whole_place(piece, *position(piece.text, call.start))
    if not isinstance(given["table"], str):
        raise StatementError("the table's name is no string", line=line, column=column)
    name = context.resolve(given["table"])
    first, last = ("after", "until") if call.function == OWN else ("start", "end")
    with at(line, column):
        if context.catalog.get_table(name) is None:
            raise NoSuchTableError(f"table {name} does not exist: see SHOW TABLES")
        after: Point = _point(given[first], first)
        until = _point(given.get(last), last)
        if call.function != OWN:
            after = _before(context, _point(given[first], first))
        key = tuple(one for part in call.key for one in _columns(_value(context, _part(piece, part))))
        flags = _flag(given, "net"), _flag(given, "row_ids")
        return Changes(context, name, txn, after, until, key, *flags).to_df()


def _flag(given: Mapping[str, Constant], which: str) -> bool:
    value = given.get(which)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{which} is true or false, not {value!r}")
    return bool(value)


def _point(value: Constant, which: str) -> int | str | datetime | None:
    if isinstance(value, bool) or not isinstance(value, int | str | datetime | None):
        raise ConfigError(f"{which} is no write id, text or timestamp")
    return value


def _before(context: Context, start: int | str | datetime | None) -> int | Instant | None:
    """Return the point behind which a first write id or moment comes."""
    if isinstance(start, str | datetime):
        return Instant(epoch_millis(context.facts, start) - 1)
    return max(start - 1, 0) if isinstance(start, int) else None


def _columns(value: Constant) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return value
    raise ConfigError("key takes the names of columns, as texts")


def _value(context: Context, expression: Slice) -> Constant:
    """Return the value of a constant expression; literals need no Spark."""
    first, *more = tokenize(expression.text)
    if len(more) == 1:
        if first.kind is TokenKind.STRING:
            return string_value(first.text)
        if first.kind is TokenKind.NUMBER and first.text.isdecimal():
            return int(first.text)
        if first.keyword in _WORDS:
            return _WORDS[first.keyword]
    with placed(Placed(expression), before="SELECT ("):
        return constant_of(context.facts, expression.text)
