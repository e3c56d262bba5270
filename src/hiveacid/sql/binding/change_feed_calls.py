"""Calls of ``hiveacid_changes(...)`` and ``table_changes(...)`` in a query, with their arguments by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hiveacid.errors import StatementError
from hiveacid.spark.parser.relations import FunctionCall
from hiveacid.sql.statements.values import Slice

HIVEACID_CHANGES, TABLE_CHANGES = "hiveacid_changes", "table_changes"
"""Changes after one point and not after another; or of a first to a last point, as Delta Lake counts them."""
CHANGE_FUNCTIONS: Mapping[str, tuple[str, ...]] = {
    HIVEACID_CHANGES: ("table", "after", "until", "key", "net", "row_ids"),
    TABLE_CHANGES: ("table", "start", "end", "key", "net", "row_ids"),
}
"""Their parameters."""


@dataclass(frozen=True)
class ChangeCall:
    """One call: its function, where it begins (line and column), its arguments by name; ``key``: names of columns."""

    function: str
    line: int
    column: int
    arguments: Mapping[str, Any]
    key: tuple[Any, ...] = ()


def is_change_call(call: FunctionCall) -> bool:
    """Tell whether a call is one of a change function."""
    return call.name.lower() in CHANGE_FUNCTIONS


def change_call(piece: Slice, call: FunctionCall) -> ChangeCall:
    """Return a call of a change function in a text. Raises StatementError for arguments that it does not have."""
    function, (line, column) = call.name.lower(), piece.position(call.start)
    parameters = CHANGE_FUNCTIONS[function]
    arguments: dict[str, Any] = {}
    key: list[Any] = []
    for number, (name, argument) in enumerate(call.arguments):
        parameter = name.lower() or parameters[min(number, 3)]
        if parameter == "key":
            key.append(argument)
        elif parameter in parameters and parameter not in arguments:
            arguments[parameter] = argument
        else:
            raise StatementError(
                f"{call.name} has no parameter {parameter}, or it is given twice; there are {', '.join(parameters)}",
                line=line,
                column=column,
            )
    if "table" not in arguments or parameters[1] not in arguments:
        raise StatementError(
            f"{call.name} needs a table and {parameters[1]}: {call.name}('db.t', 1)", line=line, column=column
        )
    return ChangeCall(function, line, column, arguments, tuple(key))


def table_of_change_call(piece: Slice, call: FunctionCall) -> str | None:
    """Return the table that a call names; None if a parameter names it, or if only hiveacid has the function."""
    table = change_call(piece, call).arguments["table"]
    is_literal = table.nodeName() == "Literal" and call.name.lower() != HIVEACID_CHANGES
    return str(table.value().toString()) if is_literal else None
