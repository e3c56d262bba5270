"""``hiveacid_changes(...)`` and ``table_changes(...)`` in a query: where they stand, and what they are called with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hiveacid.errors import StatementError
from hiveacid.sql.tokens import Token, TokenKind, string_value, tokenize

OWN, DELTAS = "HIVEACID_CHANGES", "TABLE_CHANGES"
"""Changes after one point and not after another; or of a first to a last point, as Delta Lake counts them."""
_PARAMETERS: Mapping[str, tuple[str, ...]] = {
    OWN: ("table", "after", "until", "key", "net", "row_ids"),
    DELTAS: ("table", "start", "end", "key", "net", "row_ids"),
}


@dataclass(frozen=True)
class Argument:
    """The text of an argument and where it begins."""

    text: str
    start: int


@dataclass(frozen=True)
class Call:
    """One call: its place in the text (``end`` excluded), its arguments by name; all of ``key`` are names of columns."""

    function: str
    start: int
    end: int
    line: int
    column: int
    arguments: Mapping[str, Argument] = field(compare=False)
    key: tuple[Argument, ...] = ()


def find_calls(text: str) -> list[Call]:
    """Return the calls in a text. Raises StatementError for arguments that the functions do not have."""
    lower = text.lower()
    if OWN.lower() not in lower and DELTAS.lower() not in lower:
        return []
    tokens = tokenize(text)
    found = []
    for place, token in enumerate(tokens[:-2]):
        is_call = token.keyword in _PARAMETERS and tokens[place + 1].keyword == "("
        if is_call and (place == 0 or tokens[place - 1].keyword != ".") and _names_table(tokens, place + 2):
            found.append(_call(text, tokens, place))
    return found


def _names_table(tokens: Sequence[Token], place: int) -> bool:
    """Tell a call from a common table expression of that name with a list of columns."""
    if tokens[place + 1].keyword == "=>":
        return True
    return tokens[place].kind is TokenKind.STRING or tokens[place].keyword in {":", "?"}


def _call(text: str, tokens: Sequence[Token], place: int) -> Call:
    name = tokens[place]
    pieces, end = _pieces(tokens, place + 2)
    named: dict[str, Argument] = {}
    key: list[Argument] = []
    parameters = _PARAMETERS[name.keyword]
    for number, piece in enumerate(pieces):
        first = piece[0]
        if len(piece) > 2 and piece[1].keyword == "=>":  # noqa: PLR2004 - name => value
            parameter, piece = first.name.lower(), piece[2:]  # noqa: PLW2901 - what is left of it
        else:
            parameter = parameters[min(number, 3)]
        argument = Argument(text[piece[0].start : piece[-1].end], piece[0].start)
        if parameter == "key":
            key.append(argument)
        elif parameter in parameters and parameter not in named:
            named[parameter] = argument
        else:
            raise StatementError(
                f"{name.text} has no parameter {parameter}, or it is given twice; there are {', '.join(parameters)}",
                line=first.line,
                column=first.column,
            )
    if "table" not in named or parameters[1] not in named:
        raise StatementError(
            f"{name.text} needs a table and {parameters[1]}: {name.text}('db.t', 1)",
            line=name.line,
            column=name.column,
        )
    return Call(name.keyword, name.start, end, name.line, name.column, named, tuple(key))


def _pieces(tokens: Sequence[Token], place: int) -> tuple[list[list[Token]], int]:
    """Return the tokens of each argument, and where the call ends."""
    pieces: list[list[Token]] = [[]]
    depth = 1
    for token in tokens[place:]:
        depth += (token.keyword in {"(", "["}) - (token.keyword in {")", "]"})
        if depth == 0:
            return [piece for piece in pieces if piece], token.end
        if token.kind is TokenKind.END:
            break
        if token.keyword == "," and depth == 1:
            pieces.append([])
        else:
            pieces[-1].append(token)
    raise StatementError("the parenthesis has no end", line=tokens[place].line, column=tokens[place].column)


def called_tables(text: str) -> Iterator[str | None]:
    """Yield the name of each call's table; None where only a parameter will say, or nobody else has such a function."""
    for call in find_calls(text):
        (token, *_) = tokenize(call.arguments["table"].text)
        known = token.kind is TokenKind.STRING and call.function != OWN
        yield string_value(token.text) if known else None
