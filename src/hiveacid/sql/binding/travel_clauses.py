"""Clauses of time travel (``[FOR] VERSION | TIMESTAMP AS OF value``), found by tokens for Spark Connect."""

from __future__ import annotations

from collections.abc import Sequence

from hiveacid.spark.parser.lexer import Token, TokenKind
from hiveacid.spark.parser.relations import TimeTravel
from hiveacid.sql.statements.values import Slice

_KINDS = {
    "VERSION": "VERSION",
    "SYSTEM_VERSION": "VERSION",
    "TIMESTAMP": "TIMESTAMP",
    "SYSTEM_TIME": "TIMESTAMP",
}
_TYPES = frozenset({"TIMESTAMP", "TIMESTAMP_LTZ", "TIMESTAMP_NTZ", "DATE"})
_UNITS = frozenset({"YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR", "MINUTE", "SECOND"}) | {
    "MILLISECOND",
    "MICROSECOND",
}
# What may follow a column that is called OF: SELECT version AS of FROM t
_NO_VALUES = frozenset(
    {"FROM", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "INTERSECT", "EXCEPT", "MINUS"}
)
_VALUES = frozenset({TokenKind.STRING, TokenKind.NUMBER})


def without_clauses(piece: Slice) -> tuple[str, list[TimeTravel]]:
    """Return a text with blanks in the places of such clauses, and the clauses, in their order."""
    text, tokens = piece.text, piece.tokens
    found = []
    for place in range(len(tokens) - 3):
        words = [token.keyword for token in tokens[place : place + 3]]
        if words[0] not in _KINDS or words[1:] != ["AS", "OF"]:
            continue
        with_for = place > 0 and tokens[place - 1].keyword == "FOR"
        start = tokens[place - with_for].start
        first = place + 3
        end = _value(tokens, first)
        if end > first:
            value = text[tokens[first].start : tokens[end - 1].end]
            found.append(TimeTravel(_KINDS[words[0]], value, start, tokens[end - 1].end))
    for clause in found:
        text = text[: clause.start] + " " * (clause.end - clause.start) + text[clause.end :]
    return text, found


def _value(tokens: Sequence[Token], place: int) -> int:
    """Return the place behind a value: terms with + and - and casts between them."""
    place = _term(tokens, place)
    while tokens[place].keyword in {"+", "-", "::"}:
        place = _term(tokens, place + 1)
    return place


def _term(tokens: Sequence[Token], place: int) -> int:
    while tokens[place].keyword in {"+", "-"}:
        place += 1
    token = tokens[place]
    if token.keyword == "(":
        return _behind(tokens, place)
    if token.kind in _VALUES:
        return place + 1
    if token.keyword in _TYPES and tokens[place + 1].kind is TokenKind.STRING:
        return place + 2
    if token.keyword == "INTERVAL":
        return _interval(tokens, place + 1)
    if token.kind not in {TokenKind.WORD, TokenKind.QUOTED} or token.keyword in _NO_VALUES:
        return place
    place += 1
    while tokens[place].keyword == "." and tokens[place + 1].kind is not TokenKind.END:
        place += 2
    return _behind(tokens, place) if tokens[place].keyword == "(" else place


def _interval(tokens: Sequence[Token], place: int) -> int:
    """Return the place behind ``'1' DAY``, ``1 day 2 hours`` or ``'1 02' DAY TO HOUR``."""
    while True:
        at = place + (tokens[place].keyword in {"+", "-"})
        if tokens[at].kind not in _VALUES:
            return place
        place = at + 1
        if tokens[place].keyword.removesuffix("S") in _UNITS:
            place += 1
        if tokens[place].keyword == "TO" and tokens[place + 1].kind is not TokenKind.END:
            place += 2


def _behind(tokens: Sequence[Token], place: int) -> int:
    depth = 0
    for at in range(place, len(tokens)):
        depth += (tokens[at].keyword == "(") - (tokens[at].keyword == ")")
        if depth == 0:
            return at + 1
    return len(tokens) - 1
