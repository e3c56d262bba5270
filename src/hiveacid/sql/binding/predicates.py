"""Predicates for push-down: the WHERE condition of a query that reads one table.

Only queries where the condition holds for all rows qualify: one SELECT, no join, no set operation, no sampling.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hiveacid.core.model import TableName
from hiveacid.spark.parser.lexer import Token, TokenKind
from hiveacid.spark.parser.relations import Relation
from hiveacid.sql.statements.values import Slice

_ENDS = frozenset(
    {"GROUP", "HAVING", "ORDER", "SORT", "CLUSTER", "DISTRIBUTE", "LIMIT", "OFFSET", "WINDOW", "SELECT", ";"}
)
_UNSURE = frozenset({"UNION", "EXCEPT", "INTERSECT", "MINUS", "QUALIFY", "WITH"})
_COUNT = ["SELECT", "COUNT", "(", "*", ")"]


@dataclass(frozen=True)
class Predicate:
    """A condition as the user wrote it, and the alias that may qualify its columns.

    ``view``: the view in whose text it stands, with the functions and settings of its creator.
    """

    condition: str
    alias: str
    view: TableName | None = None


def where_predicate(piece: Slice, relations: Sequence[Relation]) -> Predicate | None:
    """Return the condition behind ``FROM table [[AS] alias] WHERE``; None where it may not hold for all rows."""
    if len(relations) != 1 or relations[0].travel is not None:
        return None
    tokens = piece.tokens
    if any(token.keyword in _UNSURE for token in _outside(tokens)):
        return None
    following: Sequence[Token] = [token for token in tokens if token.start >= relations[0].end]
    before = [token for token in tokens if token.end <= relations[0].start]
    if not before or before[-1].keyword != "FROM" or _depth(before):
        return None
    alias, following = _alias(following, relations[0])
    if following[0].keyword != "WHERE":
        return None
    return _condition(piece.text, following[1:], alias)


def is_count_of_rows(piece: Slice, relations: Sequence[Relation]) -> bool:
    """Tell whether a query is ``SELECT count(*) [[AS] name] FROM table [[AS] alias]`` and nothing more."""
    if len(relations) != 1 or relations[0].travel is not None:
        return False
    (relation,) = relations
    tokens = [token for token in piece.tokens if token.kind is not TokenKind.END]
    before = [token.keyword or token.text for token in tokens if token.end <= relation.start]
    following = [token for token in tokens if token.start >= relation.end]
    name = before[len(_COUNT) : -1]
    if before[: len(_COUNT)] != _COUNT or before[-1:] != ["FROM"]:
        return False
    has_name = not name or len([word for word in name if word != "AS"]) == 1
    words = [token for token in following if token.keyword not in {"AS", ";"}]
    return has_name and (not words if not relation.has_alias else len(words) == 1)


def _alias(following: Sequence[Token], relation: Relation) -> tuple[str, Sequence[Token]]:
    if not relation.has_alias:
        return relation.name, following
    if following[0].keyword == "AS":
        following = following[1:]
    return (following[0].name, following[1:]) if following[0].is_name else ("", following)


def _condition(text: str, tokens: Sequence[Token], alias: str) -> Predicate | None:
    depth, end = 0, tokens[0].start
    for token in tokens:
        if token.kind is TokenKind.END or (depth == 0 and token.keyword in _ENDS):
            break
        depth += (token.keyword == "(") - (token.keyword == ")")
        end = token.end
    condition = text[tokens[0].start : end]
    return Predicate(condition, alias) if condition and depth == 0 else None


def _outside(tokens: Sequence[Token]) -> list[Token]:
    """Return the tokens outside parentheses."""
    depth, outside = 0, []
    for token in tokens:
        if token.keyword == ")":
            depth -= 1
        if depth == 0:
            outside.append(token)
        if token.keyword == "(":
            depth += 1
    return outside


def _depth(tokens: Sequence[Token]) -> int:
    return sum((token.keyword == "(") - (token.keyword == ")") for token in tokens)
