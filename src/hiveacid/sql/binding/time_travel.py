"""The value of an `AS OF` clause: a write id or a moment."""

from __future__ import annotations

from hiveacid.core.model import WriteId
from hiveacid.errors import StatementError
from hiveacid.spark.parser.relations import Relation
from hiveacid.spark.predicates import constant_expressions
from hiveacid.sql.binding.source_positions import spark_errors_at_source
from hiveacid.sql.statements.values import Slice
from hiveacid.table.context import Context
from hiveacid.table.read.history_and_time_travel import Instant, PointInTime


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
    written = Slice(value, 0, line, column) if start < 0 else source.part(start, start + len(value))
    return Instant(_millis(context, written))


def _millis(context: Context, expression: Slice) -> int:
    with spark_errors_at_source(expression, before="SELECT unix_millis(CAST(("):
        millis = constant_expressions.evaluate_millis(context.env, expression.text)
    if millis is None:
        raise StatementError(
            f"{expression.text} is not a timestamp", line=expression.line, column=expression.column
        )
    return millis
