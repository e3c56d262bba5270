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
    """Replace the clauses of time travel by blanks; return the text and the clauses in their order."""
    text, tokens = piece.text, piece.tokens
    clauses = []
    for index in range(len(tokens) - 3):
        words = [token.keyword for token in tokens[index : index + 3]]
        if words[0] not in _KINDS or words[1:] != ["AS", "OF"]:
            continue
        with_for = index > 0 and tokens[index - 1].keyword == "FOR"
        start = tokens[index - with_for].start
        first = index + 3
        end = _value(tokens, first)
        if end > first:
            value = text[tokens[first].start : tokens[end - 1].end]
            clauses.append(TimeTravel(_KINDS[words[0]], value, start, tokens[end - 1].end))
    for clause in clauses:
        text = text[: clause.start] + " " * (clause.end - clause.start) + text[clause.end :]
    return text, clauses


def _value(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the token after a value: terms joined by + and -, with casts."""
    index = _term(tokens, index)
    while tokens[index].keyword in {"+", "-", "::"}:
        index = _term(tokens, index + 1)
    return index


def _term(tokens: Sequence[Token], index: int) -> int:
    while tokens[index].keyword in {"+", "-"}:
        index += 1
    token = tokens[index]
    if token.keyword == "(":
        return _behind(tokens, index)
    if token.kind in _VALUES:
        return index + 1
    if token.keyword in _TYPES and tokens[index + 1].kind is TokenKind.STRING:
        return index + 2
    if token.keyword == "INTERVAL":
        return _interval(tokens, index + 1)
    if not token.is_name or token.keyword in _NO_VALUES:
        return index
    index += 1
    while tokens[index].keyword == "." and tokens[index + 1].kind is not TokenKind.END:
        index += 2
    return _behind(tokens, index) if tokens[index].keyword == "(" else index


def _interval(tokens: Sequence[Token], index: int) -> int:
    """Return the index of the token after ``'1' DAY``, ``1 day 2 hours`` or ``'1 02' DAY TO HOUR``."""
    while True:
        number_index = index + (tokens[index].keyword in {"+", "-"})
        if tokens[number_index].kind not in _VALUES:
            return index
        index = number_index + 1
        if tokens[index].keyword.removesuffix("S") in _UNITS:
            index += 1
        if tokens[index].keyword == "TO" and tokens[index + 1].kind is not TokenKind.END:
            index += 2


def _behind(tokens: Sequence[Token], start: int) -> int:
    depth = 0
    for index in range(start, len(tokens)):
        depth += (tokens[index].keyword == "(") - (tokens[index].keyword == ")")
        if depth == 0:
            return index + 1
    return len(tokens) - 1
