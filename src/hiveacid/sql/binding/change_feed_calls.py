"""Calls of ``hiveacid_changes(...)`` and ``table_changes(...)`` in a query, with their offsets and arguments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hiveacid.errors import StatementError
from hiveacid.spark.parser.lexer import Token, TokenKind, string_value
from hiveacid.sql.statements.values import Slice

HIVEACID_CHANGES, TABLE_CHANGES = "HIVEACID_CHANGES", "TABLE_CHANGES"
"""Changes after one point and not after another; or of a first to a last point, as Delta Lake counts them."""
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    HIVEACID_CHANGES: ("table", "after", "until", "key", "net", "row_ids"),
    TABLE_CHANGES: ("table", "start", "end", "key", "net", "row_ids"),
}


@dataclass(frozen=True)
class Argument:
    """The text of an argument, its tokens, and the offset where it begins."""

    text: str
    start: int
    tokens: Sequence[Token] = ()


@dataclass(frozen=True)
class ChangeCall:
    """One call: its offsets in the text (``end`` excluded) and its arguments by name; ``key``: names of columns."""

    function: str
    start: int
    end: int
    arguments: Mapping[str, Argument] = field(compare=False)
    key: tuple[Argument, ...] = ()


def find_change_calls(piece: Slice) -> list[ChangeCall]:
    """Return the calls in a text. Raises StatementError for arguments that the functions do not have."""
    lower = piece.text.lower()
    if HIVEACID_CHANGES.lower() not in lower and TABLE_CHANGES.lower() not in lower:
        return []
    tokens = piece.tokens
    calls = []
    for index, token in enumerate(tokens[:-2]):
        is_call = token.keyword in _PARAMETERS and tokens[index + 1].keyword == "("
        if is_call and (index == 0 or tokens[index - 1].keyword != ".") and _names_table(tokens, index + 2):
            calls.append(_call(piece.text, tokens, index))
    return calls


def _names_table(tokens: Sequence[Token], index: int) -> bool:
    """Tell a call from a common table expression of that name with a list of columns."""
    first = tokens[index]
    if first.kind is TokenKind.STRING or first.keyword in {":", "?"}:
        return True
    return first.kind is not TokenKind.END and tokens[index + 1].keyword == "=>"


def _call(text: str, tokens: Sequence[Token], index: int) -> ChangeCall:
    name = tokens[index]
    pieces, end = _pieces(tokens, index + 2)
    named_arguments: dict[str, Argument] = {}
    key: list[Argument] = []
    parameters = _PARAMETERS[name.keyword]
    for number, piece in enumerate(pieces):
        first = piece[0]
        if len(piece) > 2 and piece[1].keyword == "=>":  # noqa: PLR2004 - name => value
            parameter, piece = first.name.lower(), piece[2:]  # noqa: PLW2901 - what is left of it
        else:
            parameter = parameters[min(number, 3)]
        argument = Argument(text[piece[0].start : piece[-1].end], piece[0].start, piece)
        if parameter == "key":
            key.append(argument)
        elif parameter in parameters and parameter not in named_arguments:
            named_arguments[parameter] = argument
        else:
            raise StatementError(
                f"{name.text} has no parameter {parameter}, or it is given twice; there are {', '.join(parameters)}",
                line=first.line,
                column=first.column,
            )
    if "table" not in named_arguments or parameters[1] not in named_arguments:
        raise StatementError(
            f"{name.text} needs a table and {parameters[1]}: {name.text}('db.t', 1)",
            line=name.line,
            column=name.column,
        )
    return ChangeCall(name.keyword, name.start, end, named_arguments, tuple(key))


def _pieces(tokens: Sequence[Token], index: int) -> tuple[list[list[Token]], int]:
    """Return the tokens of each argument, and where the call ends."""
    pieces: list[list[Token]] = [[]]
    depth = 1
    for token in tokens[index:]:
        depth += (token.keyword in {"(", "["}) - (token.keyword in {")", "]"})
        if depth == 0:
            return [piece for piece in pieces if piece], token.end
        if token.kind is TokenKind.END:
            break
        if token.keyword == "," and depth == 1:
            pieces.append([])
        else:
            pieces[-1].append(token)
    raise StatementError("the parenthesis has no end", line=tokens[index].line, column=tokens[index].column)


def tables_of_change_calls(piece: Slice) -> Iterator[str | None]:
    """Yield the table that each call names; None if a parameter names it, or if only hiveacid has the function."""
    for call in find_change_calls(piece):
        token = call.arguments["table"].tokens[0]
        is_literal = token.kind is TokenKind.STRING and call.function != HIVEACID_CHANGES
        yield string_value(token.text) if is_literal else None
